//! Locations of the files of each kind, with the tables in them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use tidelab_server::error::{io_error, Error, Result};
use tidesdb::internal::db::Db;
use tidesdb::internal::io::RealDisk;
use tidesdb::internal::wal::dump_segment;
use tidesdb::Options;

use super::super::must;
use super::super::session::Session;
use super::hit::{Part, Place};
use super::plan::Kind;
use super::QUIET_WITHIN;

/// The table files in the store's directory.
pub(super) fn table_files(store: &Path) -> Result<BTreeSet<PathBuf>> {
    files(store, |name| name.ends_with(".sst"))
}

/// The second copies of the dictionary's tables, in files of their own.
fn dictionaries(store: &Path, listed: &[Place]) -> Result<Vec<Place>> {
    let read = |path: &Path| fs::read(path).map_err(io_error("cannot read", path));
    let mut tables = Vec::new();
    for place in listed {
        for part in place.parts.iter().filter(|part| part.table.is_empty()) {
            let bytes = read(&place.path)?;
            tables.push(bytes[part.from as usize..(part.to as usize).min(bytes.len())].to_vec());
        }
    }
    let mut copies = Vec::new();
    for path in table_files(store)? {
        if !listed.iter().any(|place| place.path == path) && tables.contains(&read(&path)?) {
            copies.push(alone(path));
        }
    }
    Ok(copies)
}

/// The files of a kind, of a server in the directory `server`.
pub(super) fn places(server: &Path, kind: Kind, listed: &[Place], runs: &[PathBuf]) -> Result<Vec<Place>> {
    let (store, data) = (server.join("tidesdb_data"), server.join("data"));
    let all = |paths: BTreeSet<PathBuf>| paths.into_iter().map(alone).collect::<Vec<_>>();
    Ok(match kind {
        Kind::Tables => listed.to_vec(),
        Kind::Dictionary => dictionaries(&store, listed)?,
        Kind::Run => {
            let is_run = |path: &PathBuf| path.exists() && !listed.iter().any(|place| place.path == *path);
            all(runs.iter().filter(|path| is_run(path)).cloned().collect())
        }
        Kind::Log => {
            let paths = files(&store.join("wal"), |name| name.ends_with(".wal"))?;
            paths.into_iter().map(|path| Place { used: end_of_records(&path), ..alone(path) }).collect()
        }
        Kind::Manifest => all(files(&store, |name| name.starts_with("MANIFEST-"))?),
        Kind::Current => vec![alone(store.join("CURRENT"))],
        Kind::Owner => vec![alone(store.join("OWNER"))],
        Kind::Identity => vec![alone(data.join("tidesdb_identity"))],
        Kind::Record => vec![alone(data.join("tidesdb_store"))],
    })
}

/// A place without tables.
fn alone(path: PathBuf) -> Place {
    Place { path, parts: Vec::new(), used: None }
}

/// The end of a log file's last record; `None` of a file without a segment.
fn end_of_records(path: &Path) -> Option<u64> {
    let segment = dump_segment(&RealDisk::shared(), path, &mut |_, _, _| Ok(()));
    segment.ok().map(|segment| segment.end.offset().into())
}

/// The files in a directory whose name passes.
fn files(directory: &Path, passes: impl Fn(&str) -> bool) -> Result<BTreeSet<PathBuf>> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(directory).map_err(io_error("cannot list", directory))? {
        let entry = entry.map_err(io_error("cannot list", directory))?;
        if entry.file_name().to_str().is_some_and(&passes) {
            found.insert(entry.path());
        }
    }
    Ok(found)
}

/// The table files of a running server and the tables in them, when no merge runs.
pub(super) fn listed(session: &mut Session, store: &Path) -> Result<Vec<Place>> {
    let query = "SELECT file, IF(family_id = 0, '', table_name), file_offset, bytes FROM information_schema.tidesdb_sstables \
                 ORDER BY file, file_offset";
    let busy = "SELECT COUNT(*) FROM information_schema.tidesdb_compactions WHERE state = 'RUNNING'";
    let start = Instant::now();
    let mut before = Vec::new();
    loop {
        let rows = must(query, session.rows(query))?;
        let running = must(busy, session.number(busy))?;
        if running == 0 && rows == before || start.elapsed() > QUIET_WITHIN {
            return Ok(places_of(store, &rows));
        }
        before = rows;
        thread::sleep(Duration::from_millis(150));
    }
}

/// The same of a stopped server.
pub(super) fn found(store: &Path) -> Result<Vec<Place>> {
    let options = Options { read_only: true, ..Options::default() };
    let failed = |error: tidesdb::Error| Error::Load {
        what: "a read-only opening".to_string(),
        message: error.to_string(),
    };
    let db = Db::open(store, options).map_err(failed)?;
    let rows: Vec<Vec<String>> = db
        .tables()
        .iter()
        .map(|table| {
            // The database, a slash, the table, a zero byte, the index.
            let name = String::from_utf8_lossy(&table.name).into_owned();
            let name =
                name.split('\0').next().and_then(|name| name.split_once('/')).map_or("", |(_, name)| name);
            vec![table.file.to_string(), name.to_string(), table.offset.to_string(), table.bytes.to_string()]
        })
        .collect();
    db.close().map_err(failed)?;
    Ok(places_of(store, &rows))
}

/// Files from lines of number, table, offset and length.
fn places_of(store: &Path, rows: &[Vec<String>]) -> Vec<Place> {
    let mut files: BTreeMap<PathBuf, Vec<Part>> = BTreeMap::new();
    for row in rows {
        let number = |at: usize| row.get(at).and_then(|column| column.parse::<u64>().ok()).unwrap_or(0);
        let path = store.join(format!("{:08}.sst", number(0)));
        let part = Part { table: row[1].clone(), from: number(2), to: number(2) + number(3) };
        files.entry(path).or_default().push(part);
    }
    // A read-only opening shows files that it has in memory.
    files
        .into_iter()
        .filter(|(path, _)| path.exists())
        .map(|(path, parts)| Place { parts, ..alone(path) })
        .collect()
}
