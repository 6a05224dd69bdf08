//! A table by time: the measurements of each second, in columns with their unit at the end of the name. The
//! first column is `at_s`, seconds since the start of the cell.

use std::fs;
use std::path::Path;

use crate::error::{io_error, Error, Result};

/// Figures by time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// The columns' names, `at_s` first.
    pub columns: Vec<String>,
    /// A value for each column; NaN for none: an empty field in the file.
    pub rows: Vec<Vec<f64>>,
}

impl Series {
    /// With these columns after `at_s`, and no rows.
    pub fn new<'a>(columns: impl IntoIterator<Item = &'a str>) -> Series {
        let columns = std::iter::once("at_s").chain(columns).map(str::to_string).collect();
        Series { columns, rows: Vec::new() }
    }

    /// A column's values.
    pub fn column(&self, name: &str) -> Option<Vec<f64>> {
        let at = self.columns.iter().position(|column| column == name)?;
        Some(self.rows.iter().map(|row| row.get(at).copied().unwrap_or(f64::NAN)).collect())
    }

    /// Writes it as CSV. Errors: those of the file.
    pub fn write(&self, path: &Path) -> Result<()> {
        let mut text = self.columns.join(",");
        text.push('\n');
        for row in &self.rows {
            let fields: Vec<String> =
                row.iter().map(|v| if v.is_finite() { format!("{v}") } else { String::new() }).collect();
            text.push_str(&fields.join(","));
            text.push('\n');
        }
        fs::write(path, text).map_err(io_error("cannot write", path))
    }

    /// Reads the output of [`write`](Self::write). Errors: those of the file; a line with another number of
    /// fields, or a field other than a number.
    pub fn read(path: &Path) -> Result<Series> {
        let text = fs::read_to_string(path).map_err(io_error("cannot read", path))?;
        let bad = |line: usize, what: &str| Error::Usage(format!("{}:{line}: {what}", path.display()));
        let mut lines = text.lines().enumerate();
        let (_, head) = lines.next().ok_or_else(|| bad(1, "there are no columns"))?;
        let columns: Vec<String> = head.split(',').map(str::to_string).collect();
        let mut rows = Vec::new();
        for (at, line) in lines {
            let row: Option<Vec<f64>> =
                line.split(',').map(|f| if f.is_empty() { Some(f64::NAN) } else { f.parse().ok() }).collect();
            let row = row.ok_or_else(|| bad(at + 1, "a field is no number"))?;
            if row.len() != columns.len() {
                return Err(bad(at + 1, &format!("{} fields where {} belong", row.len(), columns.len())));
            }
            rows.push(row);
        }
        Ok(Series { columns, rows })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut series = Series::new(["tps_per_s", "p99_ms"]);
        series.rows = vec![vec![1.0, 100.5, 2.0], vec![2.0, 90.0, f64::NAN]];
        series.write(file.path()).unwrap();
        let read = Series::read(file.path()).unwrap();
        assert_eq!(read.columns, ["at_s", "tps_per_s", "p99_ms"]);
        assert_eq!(read.column("tps_per_s").unwrap(), [100.5, 90.0]);
        assert!(read.rows[1][2].is_nan());
        assert_eq!(read.column("other"), None);
    }

    #[test]
    fn a_bad_line_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for (text, said) in [
            ("", ":1: there are no columns"),
            ("at_s,a\n1,x\n", ":2: a field is no number"),
            ("at_s,a\n1,2\n1\n", ":3: 1 fields where 2"),
        ] {
            fs::write(file.path(), text).unwrap();
            let error = Series::read(file.path()).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
