//! The folder of a run: `run.json`, a folder for each finished cell below `cells/`, and the other files named
//! by the run.
//!
//! A cell's folder is made below `cells/.making/` and renamed when all of it is written, so a kill leaves no
//! half of one. A lock keeps two processes from one run.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use tidelab_server::calendar::Utc;
use tidelab_server::error::{io_error, Error, Result};

use super::{now_unix_s, Cell, CellId, Run, SCHEMA_VERSION};

const HEAD: &str = "run.json";
const CELLS: &str = "cells";
const MAKING: &str = ".making";
const CELL: &str = "cell.json";

/// The folder of a run in the making.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// The number of its cells.
    finished: u64,
    _lock: Flock<File>,
}

impl Folder {
    /// A new one, `PARENT/NAME-TIME`, with `PARENT/latest` pointing to it. Errors: those of files.
    pub fn create(parent: &Path, run: &Run) -> Result<Folder> {
        fs::create_dir_all(parent).map_err(io_error("cannot make", parent))?;
        let time = clock(run.started_unix_s);
        let free = |n: u32| {
            let suffix = if n == 0 { String::new() } else { format!("-{n}") };
            parent.join(format!("{}-{time}{suffix}", run.name))
        };
        let path = (0..).map(free).find(|path| !path.exists()).unwrap_or_else(|| parent.join(&run.name));
        fs::create_dir(&path).map_err(io_error("cannot make", &path))?;
        let folder = Folder::lock(&path)?;
        folder.write_head(run)?;
        let latest = parent.join("latest");
        let _ = fs::remove_file(&latest);
        if let Some(name) = path.file_name() {
            symlink(name, &latest).map_err(io_error("cannot make", &latest))?;
        }
        Ok(folder)
    }

    /// Opens a begun folder to go on with; returns its head too. Errors: it is no run, of a newer format, or
    /// in the hands of another process.
    pub fn resume(path: &Path) -> Result<(Folder, Run)> {
        let run = read_head(path)?;
        let mut folder = Folder::lock(path)?;
        folder.finished = read_cells(path)?.len() as u64;
        Ok((folder, run))
    }

    fn lock(path: &Path) -> Result<Folder> {
        let file = path.join(".lock");
        let lock = File::create(&file).map_err(io_error("cannot make", &file))?;
        let lock = Flock::lock(lock, FlockArg::LockExclusiveNonblock)
            .map_err(|_| Error::Usage(format!("another tidelab works on {}", path.display())))?;
        let making = path.join(CELLS).join(MAKING);
        let _ = fs::remove_dir_all(&making);
        fs::create_dir_all(&making).map_err(io_error("cannot make", &making))?;
        Ok(Folder { path: path.to_path_buf(), finished: 0, _lock: lock })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the head anew, whole or not at all.
    pub fn write_head(&self, run: &Run) -> Result<()> {
        write_json(&self.path.join(HEAD), run)
    }

    /// True if a cell is in it.
    pub fn has(&self, id: &CellId) -> bool {
        self.path.join(CELLS).join(id.folder()).join(CELL).exists()
    }

    /// A new folder for the files of a cell being measured; an earlier attempt's files are gone.
    pub fn begin(&self, id: &CellId) -> Result<PathBuf> {
        let path = self.path.join(CELLS).join(MAKING).join(id.folder());
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).map_err(io_error("cannot make", &path))?;
        Ok(path)
    }

    /// Puts a cell with the files of its folder into the run. An older one is replaced.
    pub fn finish(&mut self, mut cell: Cell) -> Result<()> {
        let making = self.path.join(CELLS).join(MAKING).join(cell.id.folder());
        fs::create_dir_all(&making).map_err(io_error("cannot make", &making))?;
        cell.order = self.finished;
        cell.ended_unix_s = now_unix_s();
        write_json(&making.join(CELL), &cell)?;
        let path = self.path.join(CELLS).join(cell.id.folder());
        let _ = fs::remove_dir_all(&path);
        fs::rename(&making, &path).map_err(io_error("cannot move", &making))?;
        self.finished += 1;
        Ok(())
    }
}

/// A run as it is in its folder, finished or not: the head, and the cells in the order of measurement.
pub fn read(path: &Path) -> Result<(Run, Vec<Cell>)> {
    Ok((read_head(path)?, read_cells(path)?))
}

/// The folder of a cell's files.
pub fn cell_folder(run: &Path, id: &CellId) -> PathBuf {
    run.join(CELLS).join(id.folder())
}

fn read_head(path: &Path) -> Result<Run> {
    let file = path.join(HEAD);
    let text = fs::read_to_string(&file).map_err(io_error("no run is here: cannot read", &file))?;
    let bad = |what: String| Error::Usage(format!("{}: {what}", file.display()));
    let value: serde_json::Value = serde_json::from_str(&text).map_err(|e| bad(e.to_string()))?;
    let version = value.get("schema_version").and_then(serde_json::Value::as_u64);
    if version != Some(u64::from(SCHEMA_VERSION)) {
        let known = format!("its schema_version is {version:?}, this tidelab reads {SCHEMA_VERSION}");
        return Err(bad(known));
    }
    serde_json::from_value(value).map_err(|e| bad(e.to_string()))
}

fn read_cells(path: &Path) -> Result<Vec<Cell>> {
    let folder = path.join(CELLS);
    let entries = fs::read_dir(&folder).map_err(io_error("cannot read", &folder))?;
    let mut cells = Vec::new();
    for entry in entries {
        let file = entry.map_err(io_error("cannot read", &folder))?.path().join(CELL);
        if !file.exists() {
            continue;
        }
        let text = fs::read_to_string(&file).map_err(io_error("cannot read", &file))?;
        let cell: Cell = serde_json::from_str(&text)
            .map_err(|error| Error::Usage(format!("{}: {error}", file.display())))?;
        cells.push(cell);
    }
    cells.sort_by(|a, b| (a.order, &a.id).cmp(&(b.order, &b.id)));
    Ok(cells)
}

/// Writes a value as JSON by way of another file: a kill leaves the old one or the new one. Errors: those of
/// the file.
pub fn write_json<T: serde::Serialize>(path: &Path, value: &T) -> Result<()> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| Error::Usage(format!("{}: {error}", path.display())))?;
    let other = path.with_extension("new");
    fs::write(&other, text + "\n").map_err(io_error("cannot write", &other))?;
    fs::rename(&other, path).map_err(io_error("cannot move", &other))
}

/// `20261122-014509`, in UTC.
fn clock(unix_s: u64) -> String {
    let Utc { year, month, day, hour, minute, second } = Utc::of(unix_s);
    format!("{year:04}{month:02}{day:02}-{hour:02}{minute:02}{second:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run() -> Run {
        let mut run = Run::new("t", "A test", "sweep");
        run.started_unix_s = 1_795_311_909;
        run
    }

    fn cell(engine: &str, round: u32) -> Cell {
        let mut cell = Cell::new(CellId::new([("engine", engine.to_string())], round), 1);
        cell.figure("rate_per_s", 5.0);
        cell
    }

    #[test]
    fn time_is_the_calendar_s() {
        assert_eq!(clock(0), "19700101-000000");
        assert_eq!(clock(951_827_696), "20000229-123456");
        assert_eq!(clock(1_795_311_909), "20261122-014509");
    }

    #[test]
    fn a_run_goes_on_where_it_was_ended() {
        let parent = tempfile::tempdir().unwrap();
        let mut folder = Folder::create(parent.path(), &run()).unwrap();
        let path = folder.path().to_path_buf();
        assert_eq!(path, parent.path().join("t-20261122-014509"));
        folder.finish(cell("B", 1)).unwrap();
        // Begun, not finished: a kill comes.
        let making = folder.begin(&cell("A", 1).id).unwrap();
        fs::write(making.join("half"), "x").unwrap();
        let taken = Folder::resume(&path).unwrap_err().to_string();
        assert!(taken.contains("another tidelab"), "{taken}");
        drop(folder);

        let (mut folder, head) = Folder::resume(&path).unwrap();
        assert_eq!(head.title, "A test");
        assert!(folder.has(&cell("B", 1).id) && !folder.has(&cell("A", 1).id));
        assert!(!making.exists(), "what was half is gone");
        let making = folder.begin(&cell("A", 1).id).unwrap();
        fs::write(making.join("raw.txt"), "x").unwrap();
        folder.finish(cell("A", 1)).unwrap();
        assert!(cell_folder(&path, &cell("A", 1).id).join("raw.txt").exists());
        drop(folder);
        let latest = parent.path().join("latest");
        let (_, cells) = read(&latest).unwrap();
        assert_eq!(cells.iter().map(|c| c.id.label("engine")).collect::<Vec<_>>(), ["B", "A"], "by time");
    }

    #[test]
    fn two_runs_of_one_second_are_two() {
        let parent = tempfile::tempdir().unwrap();
        let first = Folder::create(parent.path(), &run()).unwrap();
        let second = Folder::create(parent.path(), &run()).unwrap();
        assert_ne!(first.path(), second.path());
    }

    #[test]
    fn what_is_no_run_is_refused_by_name() {
        let parent = tempfile::tempdir().unwrap();
        let error = read(parent.path()).unwrap_err().to_string();
        assert!(error.contains("no run is here") && error.contains("run.json"), "{error}");
        fs::write(parent.path().join(HEAD), "{\"schema_version\": 99}").unwrap();
        let error = read(parent.path()).unwrap_err().to_string();
        assert!(error.contains("99") && error.contains("reads 1"), "{error}");
    }
}
