//! A running server's figures as Prometheus reads them, under `mysqld_exporter`'s names: for the text files
//! of `node_exporter`, on a server without an exporter of its own.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;

use crate::cli::Metrics;
use crate::connection::Connection;
use crate::output::{Failure, Out};

/// Name, value, COUNTER or GAUGE, and meaning of each.
const STATEMENT: &str = "SELECT name, value, type, comment FROM information_schema.tidesdb_metrics";

pub fn run(options: &Metrics, out: &mut Out<'_>) -> Result<u8, Failure> {
    let mut server = Connection::open(&options.server.address())?;
    let text = exposition(&server.rows(STATEMENT)?);
    match &options.to {
        Some(file) => replace(file, &text)?,
        None => out.raw(text.as_bytes())?,
    }
    Ok(crate::DONE)
}

/// The text format of Prometheus.
fn exposition(rows: &[Vec<String>]) -> String {
    let mut text = String::new();
    for row in rows {
        let [name, value, kind, comment] = row.as_slice() else { continue };
        let name = format!("mysql_global_status_tidesdb_{}", name.to_ascii_lowercase());
        let comment = comment.replace('\\', "\\\\").replace('\n', "\\n");
        // Writing to a string does not fail.
        let _ = write!(text, "# HELP {name} {comment}\n# TYPE {name} {}\n", kind.to_ascii_lowercase());
        let _ = writeln!(text, "{name} {value}");
    }
    text
}

/// Puts a whole file in the place of an old one: its reader meets one of both.
fn replace(file: &Path, text: &str) -> Result<(), Failure> {
    let mut next = file.as_os_str().to_os_string();
    next.push(".next");
    let next = Path::new(&next);
    let write = || {
        let mut to = File::create(next)?;
        to.write_all(text.as_bytes())?;
        to.sync_data()?;
        fs::rename(next, file)
    };
    write().map_err(|error| {
        let _ = fs::remove_file(next);
        Failure::Other(format!("cannot write {}: {error}", file.display()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_the_names_of_the_exporter_and_their_kinds() {
        let row = |cells: [&str; 4]| cells.map(String::from).to_vec();
        let text = exposition(&[
            row(["commits", "12", "COUNTER", "commits with changes"]),
            row(["cache_hit_rate", "0.5", "GAUGE", "a\\b"]),
        ]);
        assert_eq!(
            text,
            "# HELP mysql_global_status_tidesdb_commits commits with changes\n\
             # TYPE mysql_global_status_tidesdb_commits counter\n\
             mysql_global_status_tidesdb_commits 12\n\
             # HELP mysql_global_status_tidesdb_cache_hit_rate a\\\\b\n\
             # TYPE mysql_global_status_tidesdb_cache_hit_rate gauge\n\
             mysql_global_status_tidesdb_cache_hit_rate 0.5\n"
        );
    }

    #[test]
    fn a_file_is_replaced_as_a_whole_or_left() {
        let dir = tempfile::tempdir().expect("makes");
        let file = dir.path().join("tidesdb.prom");
        for text in ["one\n", "two\n"] {
            replace(&file, text).expect("writes");
            assert_eq!(fs::read_to_string(&file).expect("reads"), text);
        }
        assert_eq!(fs::read_dir(dir.path()).expect("lists").count(), 1);
        let error = replace(&dir.path().join("missing/file"), "x").expect_err("no directory");
        assert!(matches!(error, Failure::Other(what) if what.contains("missing/file")));
    }
}
