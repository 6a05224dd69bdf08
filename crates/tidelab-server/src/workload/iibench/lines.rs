//! The files of a task: a line with tabs for each report, and one for each seen error code.
//!
//! Times are in the unit at the end of a column's name; `int` is since the last line, `cum` since the start.
//! Latencies are those of the interval, from the due beginning of an operation; `service` is from its real
//! begin.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::counts::{Counts, Group, Window};
use super::drive::Second;
use crate::error::{io_error, Result};

/// The columns of each group of operations, after the group's own prefix.
const OF_GROUP: [&str; 12] = [
    "total",
    "int",
    "int_per_s",
    "cum_per_s",
    "p50_ms",
    "p99_ms",
    "p999_ms",
    "max_ms",
    "service_p50_ms",
    "service_p99_ms",
    "given_up",
    "errors",
];
/// The columns of the file of errors.
const OF_ERRORS: [&str; 5] = ["elapsed_s", "kind", "code", "int_count", "cum_count"];

/// The prefix of a group's columns. Inserts and deletes are counted in rows, queries as such.
fn prefix(group: Group) -> &'static str {
    match group {
        Group::Insert => "inserts",
        Group::Query => "queries",
        Group::Delete => "deletes",
    }
}

/// The columns of a line.
pub fn columns() -> Vec<String> {
    let of_groups =
        Group::ALL.into_iter().flat_map(|g| OF_GROUP.map(|column| format!("{}_{column}", prefix(g))));
    std::iter::once("elapsed_s".to_string()).chain(of_groups).collect()
}

/// The file of errors for a file of lines: `a.tsv`, `a.errcodes.tsv`.
pub fn errors_path(log: &Path) -> PathBuf {
    log.with_extension("errcodes.tsv")
}

/// Writes a task's files.
#[derive(Debug)]
pub struct Lines {
    log: (PathBuf, BufWriter<File>),
    errors: (PathBuf, BufWriter<File>),
    every: Duration,
    /// The start of the interval.
    from: Duration,
    interval: Window,
    totals: BTreeMap<Group, u64>,
    codes: BTreeMap<(Group, u16), u64>,
}

impl Lines {
    /// Makes both files, with their heads.
    pub fn create(log: &Path, every: Duration) -> Result<Lines> {
        let open = |path: PathBuf| -> Result<(PathBuf, BufWriter<File>)> {
            let file = File::create(&path).map_err(io_error("cannot make", &path))?;
            Ok((path, BufWriter::new(file)))
        };
        let mut lines = Lines {
            log: open(log.to_path_buf())?,
            errors: open(errors_path(log))?,
            every,
            from: Duration::ZERO,
            interval: Window::default(),
            totals: BTreeMap::new(),
            codes: BTreeMap::new(),
        };
        write(&mut lines.log, &columns())?;
        write(&mut lines.errors, &OF_ERRORS.map(str::to_string))?;
        Ok(lines)
    }

    /// A second is over: at the end of an interval, writes its line and returns the text for a person.
    pub fn second(&mut self, second: &Second) -> Result<Option<String>> {
        self.interval.add(&second.window);
        let due = Duration::from_secs(self.from.as_secs() / self.every.as_secs() * self.every.as_secs())
            + self.every;
        if second.at < due {
            return Ok(None);
        }
        self.line(second.at).map(Some)
    }

    /// The load is over: the rest of an interval gets a line too.
    pub fn close(&mut self, at: Duration) -> Result<Option<String>> {
        if self.interval == Window::default() {
            return Ok(None);
        }
        self.line(at).map(Some)
    }

    fn line(&mut self, at: Duration) -> Result<String> {
        let interval = std::mem::take(&mut self.interval);
        let length = at.saturating_sub(self.from).as_secs_f64().max(1e-3);
        self.from = at;
        let mut fields = vec![format!("{:.1}", at.as_secs_f64())];
        let mut said = Vec::new();
        for group in Group::ALL {
            let counts = interval.group(group);
            let number = counted(group, &counts);
            let total = self.totals.entry(group).or_default();
            *total += number;
            let (per_s, cum) = (number as f64 / length, *total as f64 / at.as_secs_f64().max(1e-3));
            let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|share| counts.latencies.within_ms(share));
            let max = counts.latencies.figures().max_ms;
            let service = [0.5, 0.99].map(|share| counts.service.within_ms(share));
            fields.extend([
                total.to_string(),
                number.to_string(),
                format!("{per_s:.1}"),
                format!("{cum:.1}"),
            ]);
            fields.extend([p50, p99, p999, max, service[0], service[1]].map(|ms| format!("{ms:.3}")));
            fields.extend([counts.given_up.to_string(), counts.failed().to_string()]);
            if number > 0 || counts.failed() > 0 {
                let errors =
                    if counts.failed() > 0 { format!(", {} failed", counts.failed()) } else { String::new() };
                said.push(format!(
                    "{} {total}, {per_s:.0}/s, p50 {p50:.1} p99 {p99:.1} max {max:.1} ms{errors}",
                    prefix(group)
                ));
            }
            for (code, count) in &counts.errors {
                let total = self.codes.entry((group, *code)).or_default();
                *total += count;
                let line = [format!("{:.1}", at.as_secs_f64()), group.name().to_string(), code.to_string()];
                let line: Vec<String> =
                    line.into_iter().chain([count.to_string(), total.to_string()]).collect();
                write(&mut self.errors, &line)?;
            }
        }
        write(&mut self.log, &fields)?;
        if said.is_empty() {
            said.push("nothing ended".to_string());
        }
        Ok(format!("{:6.0} s  {}", at.as_secs_f64(), said.join("; ")))
    }
}

/// A group's count, in its unit.
pub fn counted(group: Group, counts: &Counts) -> u64 {
    match group {
        Group::Query => counts.done,
        Group::Insert | Group::Delete => counts.rows,
    }
}

/// A line; it can be read at once.
fn write((path, file): &mut (PathBuf, BufWriter<File>), fields: &[String]) -> Result<()> {
    writeln!(file, "{}", fields.join("\t"))
        .and_then(|()| file.flush())
        .map_err(io_error("cannot write", path))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::counts::Kind;
    use super::super::queries::Query;
    use super::*;
    use crate::telemetry::process::now;

    fn second(at: u64, inserts: u64, error: Option<u16>) -> Second {
        let mut window = Window::default();
        let counts = window.of(Kind::Insert);
        for _ in 0..inserts {
            counts.done += 1;
            counts.rows += 100;
            counts.latencies.record(Duration::from_millis(20));
            counts.service.record(Duration::from_millis(10));
        }
        if let Some(code) = error {
            counts.errors.insert(code, 2);
        }
        window.of(Kind::Query(Query::Pk)).done = 3;
        Second {
            at: Duration::from_secs(at),
            length: Duration::from_secs(1),
            window,
            waits: BTreeMap::new(),
            moment: now(0),
        }
    }

    fn table(path: &Path) -> Vec<Vec<String>> {
        let text = fs::read_to_string(path).unwrap();
        text.lines().map(|line| line.split('\t').map(str::to_string).collect()).collect()
    }

    #[test]
    fn a_line_for_each_interval_with_all_its_columns() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("load.tsv");
        let mut lines = Lines::create(&path, Duration::from_secs(2)).unwrap();
        let mut said = Vec::new();
        for (at, inserts) in [(1, 10), (2, 30), (3, 5), (4, 5), (5, 1)] {
            said.extend(lines.second(&second(at, inserts, (at == 3).then_some(1205))).unwrap());
        }
        said.extend(lines.close(Duration::from_millis(5500)).unwrap());
        assert_eq!(said.len(), 3);
        assert!(said[1].contains("2 failed"), "{said:?}");
        let rows = table(&path);
        let head = &rows[0];
        assert_eq!(head.len(), 37);
        assert!(rows.iter().all(|row| row.len() == head.len()));
        let value = |row: usize, column: &str| {
            let at = head.iter().position(|name| name == column).unwrap_or_else(|| panic!("{column}"));
            rows[row][at].as_str()
        };
        assert_eq!(
            (value(1, "elapsed_s"), value(2, "elapsed_s"), value(3, "elapsed_s")),
            ("2.0", "4.0", "5.5")
        );
        assert_eq!((value(1, "inserts_total"), value(1, "inserts_int_per_s")), ("4000", "2000.0"));
        assert_eq!(
            (value(2, "inserts_total"), value(2, "inserts_int"), value(2, "inserts_cum_per_s")),
            ("5000", "1000", "1250.0")
        );
        assert_eq!((value(1, "inserts_p50_ms"), value(1, "inserts_service_p99_ms")), ("20.000", "10.000"));
        assert_eq!((value(1, "queries_int"), value(3, "queries_total")), ("6", "15"));
        assert_eq!((value(2, "inserts_errors"), value(1, "deletes_total")), ("2", "0"));

        let errors = table(&errors_path(&path));
        assert_eq!(errors_path(&path).file_name().unwrap(), "load.errcodes.tsv");
        assert_eq!(
            errors,
            [
                OF_ERRORS.map(str::to_string).to_vec(),
                ["4.0", "insert", "1205", "2", "2"].map(str::to_string).to_vec(),
            ]
        );
    }
}
