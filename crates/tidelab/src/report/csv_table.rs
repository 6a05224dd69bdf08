//! CSV, as text and as a file written row by row.

use std::fs;
use std::path::Path;

use tidelab_server::error::{io_error, Error, Result};

/// Rows below a header.
pub fn text(columns: &[&str], rows: Vec<Vec<String>>) -> Result<String> {
    let failed = |e: String| Error::Usage(format!("the result cannot be written as CSV: {e}"));
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(columns).map_err(|e| failed(e.to_string()))?;
    for row in rows {
        writer.write_record(&row).map_err(|e| failed(e.to_string()))?;
    }
    let bytes = writer.into_inner().map_err(|e| failed(e.to_string()))?;
    String::from_utf8(bytes).map_err(|e| failed(e.to_string()))
}

/// A CSV file in writing.
pub struct CsvFile<'a> {
    path: &'a Path,
    writer: csv::Writer<fs::File>,
}

impl<'a> CsvFile<'a> {
    /// A new file with this header; an old file is gone. Errors: those of the file.
    pub fn begin(path: &'a Path, columns: &[String]) -> Result<CsvFile<'a>> {
        let file = fs::File::create(path).map_err(io_error("cannot write", path))?;
        let mut table = CsvFile { path, writer: csv::Writer::from_writer(file) };
        table.row(columns)?;
        Ok(table)
    }

    /// Writes a row. Errors: those of the file, and a row of another length than the header.
    pub fn row(&mut self, row: &[String]) -> Result<()> {
        let path = self.path;
        self.writer
            .write_record(row)
            .map_err(|error| Error::Usage(format!("cannot write {}: {error}", path.display())))
    }

    /// Ends the file. Errors: those of the file.
    pub fn end(mut self) -> Result<()> {
        self.writer.flush().map_err(io_error("cannot write", self.path))
    }
}
