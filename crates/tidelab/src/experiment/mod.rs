//! Described experiments: a file has the options of an experiment, at a full size and at one for a small
//! machine. Its kind names the measuring code.
//!
//! ```toml
//! name = "tpcc-small"            # names the run's folder
//! title = "TPC-C, 64 MB caches"
//! about = "The published measurement, and the differences here."
//! kind = "tpcc"
//!
//! [full]                         # the options of the kind
//! warehouses = 40
//!
//! [small]                        # options with another value at the small size
//! rounds = 3
//! ```

pub mod ceilings;
pub mod cluster;
pub mod confined;
pub mod engine;
pub mod equal;
pub mod growth;
pub mod iibench;
pub mod search;
pub mod sqlbench;
pub mod sweep;
pub mod sysbench;
pub mod tpcc;

use std::fs;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::Deserialize;
use tidelab_server::error::{io_error, Error, Result};
use tidelab_server::telemetry::machine;

use crate::matrix::Matrix;
use crate::run::conduct::folder_for;
use crate::run::{conduct, Conductor, Folder, Paths, Run};

/// A file of `experiments/`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Described {
    /// A short name without spaces.
    pub name: String,
    /// The title for people.
    pub title: String,
    /// Some sentences.
    pub about: String,
    /// The measuring code: see [`open`].
    pub kind: String,
    /// The options of the kind, at the published size.
    pub full: toml::Table,
    /// The different ones at the size for two cores and 24 GiB.
    #[serde(default)]
    pub small: toml::Table,
}

/// The size at which an experiment is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Size {
    /// The published size.
    Full,
    /// That for two cores and 24 GiB: it ends within 20 minutes.
    Small,
}

impl Size {
    /// Its name in options and folders.
    pub fn name(self) -> &'static str {
        match self {
            Size::Full => "full",
            Size::Small => "small",
        }
    }
}

/// Reads a file. Errors: those of the file; it is no experiment.
pub fn read(path: &Path) -> Result<Described> {
    let text = fs::read_to_string(path).map_err(io_error("cannot read", path))?;
    let described: Described =
        toml::from_str(&text).map_err(|error| Error::Usage(format!("{}: {error}", path.display())))?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if described.name.is_empty() || !described.name.chars().all(plain) {
        let name = &described.name;
        return Err(Error::Usage(format!(
            "{}: the name '{name}' is to be of letters, digits, - _ and .",
            path.display()
        )));
    }
    Ok(described)
}

impl Described {
    /// The options at a size.
    pub fn options(&self, size: Size) -> toml::Table {
        let mut options = self.full.clone();
        if size == Size::Small {
            merge(&mut options, &self.small);
        }
        options
    }

    /// A new run of it; [`open`] adds axes and metrics.
    pub fn run(&self, size: Size, data: &Path) -> Result<Run> {
        let mut run = Run::new(&format!("{}-{}", self.name, size.name()), &self.title, &self.kind);
        run.about.clone_from(&self.about);
        run.design =
            serde_json::to_value(self.options(size)).map_err(|error| Error::Usage(error.to_string()))?;
        run.machine = Some(machine::describe(data));
        Ok(run)
    }
}

/// Tables are merged, anything else is replaced.
fn merge(into: &mut toml::Table, from: &toml::Table) {
    for (key, value) in from {
        match (into.get_mut(key), value) {
            (Some(toml::Value::Table(old)), toml::Value::Table(new)) => merge(old, new),
            _ => {
                into.insert(key.clone(), value.clone());
            }
        }
    }
}

/// The options of a kind. Errors name an unknown option.
pub fn options<T: DeserializeOwned>(run: &Run, table: toml::Table) -> Result<T> {
    table.try_into().map_err(|error: toml::de::Error| Error::Usage(format!("{}: {error}", run.name)))
}

/// The conductor of an experiment. The run gets the axes and metrics of its cells.
pub fn open<'a>(table: toml::Table, paths: Paths<'a>, run: &mut Run) -> Result<Box<dyn Conductor + 'a>> {
    match run.kind.as_str() {
        "delete-regime" | "iibench" => {
            Ok(Box::new(iibench::Conductor::open(options(run, table)?, paths, run)?))
        }
        "cluster" => Ok(Box::new(cluster::Conductor::open(options(run, table)?, paths, run)?)),
        "engine" => Ok(Box::new(engine::open(&options(run, table)?, paths, run)?)),
        "equal-memory" => Ok(Box::new(equal::Conductor::open(options(run, table)?, paths, run)?)),
        "growth" => Ok(Box::new(growth::Conductor::open(options(run, table)?, paths, run)?)),
        "matrix" => Ok(Box::new(Matrix::open(options(run, table)?, paths, run)?)),
        "search" => Ok(Box::new(search::Conductor::open(options(run, table)?, paths, run)?)),
        "sqlbench" => Ok(Box::new(sqlbench::Conductor::open(options(run, table)?, paths, run)?)),
        "sweep" => Ok(Box::new(sweep::Conductor::open(options(run, table)?, paths, run)?)),
        "sysbench" => Ok(Box::new(sysbench::Conductor::open(options(run, table)?, paths, run)?)),
        "tpcc" => Ok(Box::new(tpcc::Conductor::open(options(run, table)?, paths, run)?)),
        other => {
            let known =
                "cluster, delete-regime, engine, equal-memory, growth, iibench, matrix, search, sqlbench, sweep, sysbench, tpcc";
            Err(Error::Usage(format!("there is no kind '{other}' of experiment: {known} are known")))
        }
    }
}

/// Carries out a described experiment, or goes on with a run of it. The run's folder, and whether all
/// of it counts.
pub fn carry_out(
    described: &Described,
    size: Size,
    paths: Paths<'_>,
    parent: &Path,
    resume: Option<&Path>,
) -> Result<(PathBuf, bool)> {
    fs::create_dir_all(paths.data).map_err(io_error("cannot make", paths.data))?;
    let mut run = described.run(size, paths.data)?;
    let mut conductor = open(described.options(size), paths, &mut run)?;
    make(run, conductor.as_mut(), paths, parent, resume)
}

/// Makes a run below `parent`, or goes on with the one to resume. The run's folder, and whether all of
/// it counts.
pub fn make(
    mut run: Run,
    conductor: &mut dyn Conductor,
    paths: Paths<'_>,
    parent: &Path,
    resume: Option<&Path>,
) -> Result<(PathBuf, bool)> {
    let mut folder = folder_for(&mut run, parent, resume)?;
    eprintln!("{}: {}; results go to {}", run.name, run.title, folder.path().display());
    prepare_run(conductor, paths, &mut run, &folder)?;
    let good = conduct(conductor, &mut run, &mut folder, paths.interrupt)?;
    Ok((folder.path().to_path_buf(), good))
}

/// Prepares a run before its first cell: the rules of its servers' settings, below `rules`, and the rates
/// of driver and server without an engine. A resumed run has them already.
fn prepare_run(conductor: &dyn Conductor, paths: Paths<'_>, run: &mut Run, folder: &Folder) -> Result<()> {
    let place = folder.path().join("rules");
    for (name, text) in conductor.rules() {
        fs::create_dir_all(&place).map_err(io_error("cannot make", &place))?;
        let path = place.join(&name);
        fs::write(&path, text).map_err(io_error("cannot write", &path))?;
        let file = format!("rules/{name}");
        if !run.files.contains(&file) {
            // Before whatever servers leave: the page shows texts until there are too many.
            run.files.insert(0, file);
        }
    }
    ceilings::measure(&conductor.unbounded(), paths, run)?;
    folder.write_head(run)
}

#[cfg(test)]
mod tests {
    use tidelab_server::interrupt::Interrupt;

    use super::*;
    use crate::run::CellId;

    fn described(text: &str) -> Result<Described> {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), text).unwrap();
        read(file.path())
    }

    const GOOD: &str = "name = 't'\ntitle = 'T'\nabout = ''\nkind = 'tpcc'\n\
        [full]\nusers = 8\nrounds = 5\n[full.x]\na = 1\nb = 2\n[small]\nrounds = 3\n[small.x]\nb = 3\n";

    #[test]
    fn the_small_size_replaces_what_it_names() {
        let described = described(GOOD).unwrap();
        assert_eq!(described.options(Size::Full)["rounds"].as_integer(), Some(5));
        let small = described.options(Size::Small);
        assert_eq!((small["users"].as_integer(), small["rounds"].as_integer()), (Some(8), Some(3)));
        assert_eq!((small["x"]["a"].as_integer(), small["x"]["b"].as_integer()), (Some(1), Some(3)));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let said = |text: &str| described(text).unwrap_err().to_string();
        assert!(said(&GOOD.replace("about = ''", "abuot = ''")).contains("abuot"));
        assert!(said(&GOOD.replace("name = 't'", "name = 'a b'")).contains("'a b'"));
        assert!(said("x").contains("TOML") || said("x").contains("expected"));
        let interrupt = Interrupt::default();
        let path = Path::new("/nowhere");
        let paths =
            Paths { prefix: path, plugin: path, data: path, file_folder: path, interrupt: &interrupt };
        let refused = |kind: &str, table: &str| {
            let mut run = Run::new("t", "T", kind);
            open(toml::from_str(table).unwrap(), paths, &mut run)
                .err()
                .map(|e| e.to_string())
                .unwrap_or_default()
        };
        assert!(refused("tpch", "").contains("'tpch'"));
        assert!(refused("tpcc", "warehoses = 3").contains("warehoses"));
        assert!(refused("sysbench", "engines = ['Falcon']").contains("Falcon"));
    }

    struct Ruled;

    impl Conductor for Ruled {
        fn groups(&self) -> Vec<crate::run::Group> {
            Vec::new()
        }

        fn measure(&mut self, _: &crate::run::Group, _: &mut Run, _: &mut Folder) -> Result<()> {
            Ok(())
        }

        fn close(&mut self) -> Result<()> {
            Ok(())
        }

        fn rules(&self) -> Vec<(String, String)> {
            vec![("r.toml".to_string(), "a = 1".to_string())]
        }
    }

    #[test]
    fn rules_are_in_the_run_before_its_first_cell_and_once() {
        let parent = tempfile::tempdir().unwrap();
        let interrupt = Interrupt::default();
        let path = parent.path();
        let paths =
            Paths { prefix: path, plugin: path, data: path, file_folder: path, interrupt: &interrupt };
        let mut run = Run::new("t", "T", "sweep");
        run.files = vec!["servers/A/my.cnf".to_string()];
        let folder = Folder::create(path, &run).unwrap();
        for _ in 0..2 {
            prepare_run(&Ruled, paths, &mut run, &folder).unwrap();
        }
        assert_eq!(run.files, ["rules/r.toml", "servers/A/my.cnf"]);
        assert_eq!(fs::read_to_string(folder.path().join("rules/r.toml")).unwrap(), "a = 1");
        let (head, _) = crate::run::folder::read(folder.path()).unwrap();
        assert_eq!(head.files, run.files);
    }

    /// The folder of experiments.
    fn folder() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments")
    }

    #[test]
    fn every_file_of_the_folder_is_an_experiment_at_both_sizes() {
        let mut seen = 0;
        for entry in fs::read_dir(folder()).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|e| e != "toml") {
                continue;
            }
            let described = read(&path).unwrap();
            assert_eq!(Some(described.name.as_str()), path.file_stem().and_then(|s| s.to_str()));
            assert!(!described.title.is_empty() && !described.about.is_empty(), "{}", path.display());
            let interrupt = Interrupt::default();
            for size in [Size::Full, Size::Small] {
                let folder = folder();
                let nowhere = Path::new("/nowhere");
                let paths = Paths {
                    prefix: nowhere,
                    plugin: nowhere,
                    data: nowhere,
                    file_folder: &folder,
                    interrupt: &interrupt,
                };
                let mut run = described.run(size, nowhere).unwrap();
                let conductor = open(described.options(size), paths, &mut run).unwrap();
                let groups = conductor.groups();
                assert!(!groups.is_empty() && run.competitor_axis().is_some() && !run.metrics.is_empty());
                let ids: Vec<_> = groups.iter().flat_map(|g| &g.cells).collect();
                let folders: std::collections::HashSet<String> = ids.iter().map(|id| id.folder()).collect();
                assert_eq!(folders.len(), ids.len(), "two cells would share a folder");
                for one in conductor.unbounded() {
                    let applies =
                        |id: &&CellId| one.labels.iter().all(|(axis, value)| id.label(axis) == value);
                    assert!(ids.iter().copied().any(|id| applies(&id)), "{one:?} belongs to no cell");
                }
                let ruled = conductor.rules().iter().all(|(_, text)| text.contains('='));
                let without = ["engine", "sqlbench"].contains(&run.kind.as_str());
                assert!(ruled && conductor.rules().is_empty() == without, "{}", path.display());
                for id in ids {
                    assert!(run.axes.iter().all(|a| !id.label(&a.name).is_empty()), "{id:?}");
                }
            }
            seen += 1;
        }
        assert!(seen >= 3);
    }
}
