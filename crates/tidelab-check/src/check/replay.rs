//! The binary log replayed into InnoDB tables: the state of a replica. The rows must be those of the logged
//! tables.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use tidelab_server::error::{io_error, Error, Result};
use tidelab_server::server::{program, Server};
use tidelab_server::workload::tpcc::schema::Table;

use super::session::Session;
use super::{binary_log, must, Lab};

/// The complete files of the binary log, in their order, from number `from` on, and the number of the current
/// one.
pub fn complete_files(server: &Server, from: u32) -> Result<(Vec<PathBuf>, u32)> {
    let mut files = binary_log::files(server, 0)?;
    let current = files.pop().map_or(0, |(number, _)| number);
    Ok((files.into_iter().filter(|(n, _)| *n >= from).map(|(_, path)| path).collect(), current))
}

/// Replays files of a binary log into the same server. Changes of one database are made in the other, and
/// not logged again.
pub fn replay(lab: &Lab<'_>, server: &Server, files: &[PathBuf], from: &str, to: &str) -> Result<()> {
    match files.is_empty() {
        true => Ok(()),
        false => play(lab, server, &[format!("--rewrite-db={from}->{to}")], files),
    }
}

/// Replays files of a binary log, read with these arguments, into a server, without logging it again.
pub fn play(lab: &Lab<'_>, server: &Server, arguments: &[String], files: &[PathBuf]) -> Result<()> {
    let reader = program(lab.prefix, "mariadb-binlog")?;
    let client = program(lab.prefix, "mariadb")?;
    // A group that a kill cut off has the GTID of the first one after it; the next file begins with ROLLBACK.
    let mut reading = Command::new(&reader)
        .args(["--no-defaults", "--disable-log-bin", "--skip-gtid-strict-mode"])
        .args(arguments)
        .args(files)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(io_error("cannot run", &reader))?;
    let text = reading.stdout.take().map_or_else(Stdio::null, Stdio::from);
    let written = Command::new(&client)
        .args(["--no-defaults", "--user=root"])
        .arg(format!("--socket={}", server.socket().display()))
        .stdin(text)
        .output()
        .map_err(io_error("cannot run", &client))?;
    let read = reading.wait_with_output().map_err(io_error("cannot wait for", &reader))?;
    for (what, output) in [("mariadb, replaying the binary log", written), ("mariadb-binlog", read)] {
        if !output.status.success() {
            let message = String::from_utf8_lossy(&output.stderr).trim().to_string();
            return Err(Error::Load { what: what.to_string(), message });
        }
    }
    Ok(())
}

/// The differences between the same table in two databases: all columns of all rows, in any order.
pub fn differences(session: &mut Session, table: &Table, one: &str, other: &str) -> Result<Vec<String>> {
    let columns: Vec<String> =
        table.columns.split(',').map(|column| format!("COALESCE({}, '~')", column.trim())).collect();
    let row = format!("CRC32(CONCAT_WS('|', {}))", columns.join(", "));
    let mut sums = Vec::new();
    for database in [one, other] {
        let sum = format!(
            "SELECT COUNT(*), COALESCE(SUM({row}), 0), COALESCE(BIT_XOR({row}), 0) FROM {database}.{}",
            table.name
        );
        sums.push(must(&sum, session.rows(&sum))?.concat());
    }
    if sums[0] == sums[1] {
        return Ok(Vec::new());
    }
    let mut complaints = vec![format!(
        "{}: (rows, sums) are ({}) in {one}, ({}) in {other}",
        table.name,
        sums[0].join(", "),
        sums[1].join(", ")
    )];
    for (a, b) in [(one, other), (other, one)] {
        let only = format!(
            "SELECT {0} FROM {a}.{1} EXCEPT SELECT {0} FROM {b}.{1} LIMIT 3",
            table.columns, table.name
        );
        for row in must(&only, session.rows(&only))? {
            complaints.push(format!("{}: only in {a}: ({})", table.name, row.join(", ")));
        }
    }
    Ok(complaints)
}
