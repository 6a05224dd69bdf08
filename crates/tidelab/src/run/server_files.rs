//! A server's files kept by a run: option file, variables, status, and the recording alongside a load.

use std::fmt::Display;
use std::fs;
use std::path::Path;

use tidelab_server::error::{io_error, Result};
use tidelab_server::series::Series;
use tidelab_server::server::Server;
use tidelab_server::telemetry::recorder;

use super::{Cell, Run};

/// Puts a server's facts into the run's folder, below `servers/NAME`: its option file, variables and version.
pub fn note_server(run: &mut Run, folder: &Path, name: &str, server: &Server) -> Result<()> {
    let place = format!("servers/{name}");
    let path = folder.join(&place);
    fs::create_dir_all(&path).map_err(io_error("cannot make", &path))?;
    for file in note_server_files(server, &path)? {
        let file = format!("{place}/{file}");
        if !run.files.contains(&file) {
            run.files.push(file);
        }
    }
    Ok(())
}

/// Puts a server's option file and its variables into a folder; the files' names.
pub fn note_server_files(server: &Server, folder: &Path) -> Result<Vec<String>> {
    let options = server.directory().join("my.cnf");
    fs::copy(&options, folder.join("my.cnf")).map_err(io_error("cannot copy", &options))?;
    let lines: String = server.variables().iter().map(|(name, value)| format!("{name}\t{value}\n")).collect();
    let variables = folder.join("variables.tsv");
    fs::write(&variables, lines).map_err(io_error("cannot write", &variables))?;
    Ok(["my.cnf", "variables.tsv"].map(str::to_string).to_vec())
}

/// Puts the recording of a load into a cell and its folder.
pub fn keep_telemetry(cell: &mut Cell, telemetry: Option<&Series>, folder: &Path) -> Result<()> {
    let Some(telemetry) = telemetry else { return Ok(()) };
    telemetry.write(&folder.join(recorder::FILE))?;
    cell.series.push(recorder::FILE.to_string());
    Ok(())
}

/// Puts the server's status and its engine's into a cell's folder; the files' names.
pub fn note_status(server: &Server, engine: impl Display, folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    let mut put = |name: &str, statement: &str| -> Result<()> {
        let rows = server.client().query(statement)?;
        let text: String = rows.iter().map(|row| row.join("\t") + "\n").collect();
        let file = folder.join(name);
        fs::write(&file, text).map_err(io_error("cannot write", &file))?;
        names.push(name.to_string());
        Ok(())
    };
    put("status.tsv", "SHOW GLOBAL STATUS")?;
    put("engine-status.txt", &format!("SHOW ENGINE {engine} STATUS"))?;
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::CellId;

    #[test]
    fn a_recording_is_a_series_of_its_cell() {
        let folder = tempfile::tempdir().unwrap();
        let mut cell = Cell::new(CellId::new([("engine", "A".to_string())], 1), 1);
        keep_telemetry(&mut cell, None, folder.path()).unwrap();
        assert!(cell.series.is_empty() && !folder.path().join(recorder::FILE).exists());
        let mut recorded = Series::new(["server_cpus"]);
        recorded.rows.push(vec![1.0, 0.5]);
        keep_telemetry(&mut cell, Some(&recorded), folder.path()).unwrap();
        assert_eq!(cell.series, [recorder::FILE]);
        assert_eq!(Series::read(&folder.path().join(recorder::FILE)).unwrap(), recorded);
    }
}
