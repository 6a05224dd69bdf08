//! Results of other programs as runs of the laboratory's form ([`crate::run`]), to be shown and compared
//! with its own.
//!
//! [`source`] brings the files, a format makes an [`Imported`] of them, [`store`] writes it as a run. Each
//! format has one file and does not touch the disk.
//!
//! Nothing is left out silently. A file without a format stays with the run, with a sentence in its notes. A
//! broken measurement becomes a failed cell.

pub mod hammerdb;
pub mod hammerdb_log;
pub mod iibench;
pub mod names;
pub mod percona;
pub mod percona_tables;
pub mod source;
pub mod sysbench;
pub mod sysbench_log;

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;

use names::Pattern;
use source::{Files, InputFile};
use tidelab_server::error::{io_error, Error, Result};

use crate::run::{now_unix_s, Axis, Cell, CellId, Folder, Metric, Role, Run, Series};

/// A format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The data set of Percona's report of 2026, or one of its layout.
    Percona,
    /// Logs of sysbench 1.x.
    Sysbench,
    /// Output of HammerDB's CLI and its time profile, and tables of its results.
    Hammerdb,
    /// Tables of an insert benchmark, by interval.
    Iibench,
}

impl Kind {
    const ALL: [(Kind, &'static str); 4] = [
        (Kind::Percona, "percona"),
        (Kind::Sysbench, "sysbench"),
        (Kind::Hammerdb, "hammerdb"),
        (Kind::Iibench, "iibench"),
    ];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        Kind::ALL.iter().find(|(kind, _)| *kind == self).map_or("", |(_, name)| name)
    }

    /// The format of these files; none where no file of them is of one.
    pub fn guess(files: &Files) -> Option<Kind> {
        if files.files.iter().any(|f| percona::is_one(&f.path)) {
            return Some(Kind::Percona);
        }
        files.files.iter().find_map(|file| {
            let text = file.text();
            if sysbench_log::is_one(&text) {
                Some(Kind::Sysbench)
            } else if hammerdb::is_one(&text) {
                Some(Kind::Hammerdb)
            } else {
                iibench::is_one(&text).then_some(Kind::Iibench)
            }
        })
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Kind {
    type Err = Error;

    fn from_str(name: &str) -> Result<Kind> {
        Kind::ALL.iter().find(|(_, n)| *n == name).map(|(kind, _)| *kind).ok_or_else(|| {
            let known: Vec<&str> = Kind::ALL.iter().map(|(_, name)| *name).collect();
            Error::Usage(format!("there is no format '{name}' to import: {}", known.join(", ")))
        })
    }
}

/// The reason for a file left out by the pattern of names.
const NO_FIT: &str = "does not fit the pattern of names";

/// An imported measurement with the files of its folder.
#[derive(Clone, Debug)]
pub struct ImportedCell {
    /// Its labels and figures; its lists of series and files are made when it is stored.
    pub cell: Cell,
    /// Tables by time, by the names of their files.
    pub series: Vec<(String, Series)>,
    /// Raw files, by their names.
    pub files: Vec<(String, Vec<u8>)>,
}

/// An imported run, in memory.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The head.
    pub run: Run,
    /// The measurements in the order of display.
    pub cells: Vec<ImportedCell>,
    /// Files without a measurement, as paths below `files/`.
    pub files: Vec<(String, Vec<u8>)>,
    /// Text for the terminal and for `tables.txt`; empty without tables.
    pub tables: String,
}

impl Imported {
    /// An empty one of this name.
    fn new(name: &str, title: &str, kind: Kind) -> Imported {
        let mut run = Run::new(name, title, "import");
        run.tidelab = String::new();
        run.design = serde_json::json!({ "format": kind.name() });
        Imported { run, cells: Vec::new(), files: Vec::new(), tables: String::new() }
    }

    /// Keeps an unread file, with a note of the reason.
    fn keep(&mut self, file: InputFile, why: &str) {
        self.run.notes.push(format!("{} {why}: it is kept and not read", file.path));
        self.files.push((file.path, file.bytes));
    }

    /// Adds a measurement. If its labels and round are taken, it gets the next free round and a note.
    fn add(&mut self, mut imported: ImportedCell, from: &str) {
        let asked = imported.cell.id.round;
        while self.cells.iter().any(|c| c.cell.id == imported.cell.id) {
            imported.cell.id.round += 1;
        }
        if imported.cell.id.round != asked {
            let round = imported.cell.id.round;
            self.run.notes.push(format!("{from} has labels that are taken: it stands as round {round}"));
        }
        self.cells.push(imported);
    }

    /// An axis with the values of the cells, numbers by their size, others in the order of `order` or of
    /// their first appearance.
    fn axis(&mut self, name: &str, title: &str, role: Role, order: Option<Vec<String>>) {
        let mut values: Vec<String> = Vec::new();
        for cell in &self.cells {
            let value = cell.cell.id.label(name).to_string();
            if !values.contains(&value) {
                values.push(value);
            }
        }
        match (order, role) {
            (Some(order), _) => {
                values.sort_by_key(|v| order.iter().position(|o| o == v).unwrap_or(order.len()));
            }
            (None, Role::Number) => {
                values.sort_by(|a, b| {
                    let number = |v: &String| v.parse::<f64>().unwrap_or(f64::INFINITY);
                    number(a).total_cmp(&number(b)).then_with(|| a.cmp(b))
                });
            }
            (None, _) => {}
        }
        self.run.axes.push(Axis::new(name, title, role, &values));
    }

    /// Keeps the metrics with figures in cells.
    fn metrics(&mut self, known: Vec<Metric>) {
        let has = |name: &str| self.cells.iter().any(|c| c.cell.figures.contains_key(name));
        self.run.metrics = known.into_iter().filter(|m| has(&m.name)).collect();
    }
}

/// Reads the files at these paths in the named format, or in the most likely one.
pub fn import(kind: Option<Kind>, paths: &[PathBuf], pattern: Option<&Pattern>) -> Result<Imported> {
    let files = source::read(paths)?;
    let named: Vec<String> = paths.iter().map(|p| p.display().to_string()).collect();
    let Some(kind) = kind.or_else(|| Kind::guess(&files)) else {
        return Err(Error::Usage(format!(
            "{}: no file looks like a result of sysbench, HammerDB or iibench",
            named.join(", ")
        )));
    };
    if pattern.is_some() && kind == Kind::Percona {
        return Err(Error::Usage(
            "--names is not for percona: its layout says what each file is".to_string(),
        ));
    }
    let notes = files.notes.clone();
    let mut imported = match kind {
        Kind::Percona => percona::import(files),
        Kind::Sysbench => sysbench::import(files, pattern),
        Kind::Hammerdb => hammerdb::import(files, pattern),
        Kind::Iibench => iibench::import(files, pattern),
    }?;
    imported.run.notes.extend(notes);
    if imported.cells.is_empty() {
        return Err(Error::Usage(format!(
            "{}: there is no measurement in the form {kind}",
            named.join(", ")
        )));
    }
    if let Some(design) = imported.run.design.as_object_mut() {
        design.insert("paths".to_string(), named.into());
    }
    Ok(imported)
}

/// Writes an import as a run below `parent` and returns its folder. Errors: those of files; the folder is
/// then removed.
pub fn store(mut imported: Imported, parent: &Path) -> Result<PathBuf> {
    imported.run.ended_unix_s = Some(now_unix_s());
    let mut folder = Folder::create(parent, &imported.run)?;
    let path = folder.path().to_path_buf();
    let written = fill(imported, &mut folder);
    if written.is_err() {
        // Half of an import is no run that could be gone on with.
        let _ = fs::remove_dir_all(&path);
    }
    written.map(|()| path)
}

fn fill(imported: Imported, folder: &mut Folder) -> Result<()> {
    let Imported { mut run, cells, files, tables } = imported;
    for (name, bytes) in files {
        stays_below(&name)?;
        // Two files of one path, as an archive may hold them, are two.
        let within = (1..)
            .map(|n| if n == 1 { format!("files/{name}") } else { format!("files/{name}-{n}") })
            .find(|path| !run.files.contains(path))
            .unwrap_or_else(|| format!("files/{name}"));
        write_below(folder.path(), &within, &bytes)?;
        run.files.push(within);
    }
    if !tables.is_empty() {
        write_below(folder.path(), "tables.txt", tables.as_bytes())?;
        run.files.push("tables.txt".to_string());
    }
    for ImportedCell { mut cell, series, files } in cells {
        let making = folder.begin(&cell.id)?;
        for (name, series) in series {
            series.write(&making.join(&name))?;
            cell.series.push(name);
        }
        for (name, bytes) in files {
            write_below(&making, &name, &bytes)?;
            cell.files.push(name);
        }
        folder.finish(cell)?;
    }
    folder.write_head(&run)
}

/// A name from elsewhere must not lead out of the folder.
fn stays_below(name: &str) -> Result<()> {
    let plain = Path::new(name).components().all(|c| matches!(c, Component::Normal(_)));
    if plain && !name.is_empty() {
        return Ok(());
    }
    Err(Error::Usage(format!("'{name}' leads out of the folder of the run")))
}

fn write_below(folder: &Path, name: &str, bytes: &[u8]) -> Result<()> {
    stays_below(name)?;
    let path = folder.join(name);
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(io_error("cannot make", parent))?;
    }
    fs::write(&path, bytes).map_err(io_error("cannot write", &path))
}

/// An id from labels.
fn id(labels: &BTreeMap<String, String>, round: u32) -> CellId {
    CellId { labels: labels.clone(), round }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::run::folder;

    /// Files of these paths and texts.
    pub(crate) fn files(of: &[(&str, &str)]) -> Files {
        let files = of
            .iter()
            .map(|(path, text)| InputFile { path: path.to_string(), bytes: text.as_bytes().to_vec() })
            .collect();
        Files { files, notes: Vec::new() }
    }

    /// The cell with this value of an axis.
    pub(crate) fn cell<'a>(imported: &'a Imported, axis: &str, value: &str) -> &'a ImportedCell {
        let found = imported.cells.iter().find(|c| c.cell.id.label(axis) == value);
        found.unwrap_or_else(|| panic!("no cell with {axis} = {value}"))
    }

    fn sample() -> Imported {
        let mut imported = Imported::new("t", "T", Kind::Sysbench);
        let mut cell = Cell::new(CellId::new([("label", "a".to_string())], 1), 0);
        cell.figure("tpm", 1.0);
        let one = ImportedCell {
            cell,
            series: vec![(
                "seconds.csv".to_string(),
                Series { columns: vec!["at_s".into()], rows: vec![vec![1.0]] },
            )],
            files: vec![("log.txt".to_string(), b"x".to_vec())],
        };
        imported.add(one.clone(), "first");
        imported.add(one, "second");
        imported.files.push(("d/other.txt".to_string(), b"y".to_vec()));
        imported.files.push(("d/other.txt".to_string(), b"z".to_vec()));
        imported
    }

    #[test]
    fn an_import_is_a_run_that_can_be_read() {
        let parent = tempfile::tempdir().unwrap();
        let path = store(sample(), parent.path()).unwrap();
        let (run, cells) = folder::read(&path).unwrap();
        assert_eq!((run.kind.as_str(), run.tidelab.as_str()), ("import", ""));
        assert!(run.ended_unix_s.is_some());
        assert_eq!(run.files, ["files/d/other.txt", "files/d/other.txt-2"]);
        assert_eq!(fs::read_to_string(path.join("files/d/other.txt")).unwrap(), "y");
        assert_eq!(run.notes, ["second has labels that are taken: it stands as round 2"]);
        assert_eq!(cells.iter().map(|c| c.id.round).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(
            (cells[0].series.as_slice(), cells[0].files.as_slice()),
            (&["seconds.csv".to_string()][..], &["log.txt".to_string()][..])
        );
        let series = Series::read(&folder::cell_folder(&path, &cells[1].id).join("seconds.csv")).unwrap();
        assert_eq!(series.rows, [[1.0]]);
    }

    #[test]
    fn a_name_that_leads_out_of_the_run_is_refused_and_nothing_stays() {
        let parent = tempfile::tempdir().unwrap();
        for name in ["../out", "/etc/x", ""] {
            let mut imported = sample();
            imported.files.push((name.to_string(), Vec::new()));
            let error = store(imported, parent.path()).unwrap_err().to_string();
            assert!(error.contains("leads out"), "{error}");
        }
        let left: Vec<_> =
            fs::read_dir(parent.path()).unwrap().flatten().filter(|e| e.path().is_dir()).collect();
        assert!(left.is_empty(), "{left:?}");
    }

    #[test]
    fn formats_are_guessed_and_named() {
        let guess = |path: &str, text: &str| Kind::guess(&files(&[(path, text)]));
        assert_eq!(guess("a/benchmark_logs/f/1/Tier2G_RW_4th.sysbench.txt", ""), Some(Kind::Percona));
        assert_eq!(guess("a.log", "sysbench 1.0.20 (x)\n"), Some(Kind::Sysbench));
        assert_eq!(
            guess("a", "Vuser 1:TEST RESULT : System achieved 5 NOPM from 9 MariaDB TPM"),
            Some(Kind::Hammerdb)
        );
        assert_eq!(guess("a", "hello"), None);
        assert_eq!("iibench".parse::<Kind>().unwrap(), Kind::Iibench);
        let error = "tpch".parse::<Kind>().unwrap_err().to_string();
        assert!(error.contains("tpch") && error.contains("percona"), "{error}");
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a"), "hello").unwrap();
        let error = import(None, &[folder.path().to_path_buf()], None).unwrap_err().to_string();
        assert!(error.contains("no file looks like"), "{error}");
    }
}
