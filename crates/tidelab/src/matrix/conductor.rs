//! Carries a matrix out, part by part: prepares tables or takes prepared ones, starts the server on them,
//! reads back its settings, warms it up, and measures the part's cells.
//!
//! Tables are loaded once for each competitor and tier. The server is ended in order, and its data are
//! set aside. Every round starts on a copy, the last one on the data themselves.
//!
//! A killed run goes on with the cells missing in its folder. It reuses data prepared in the same way.

mod lacks;
mod measure;
mod prepare;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use tidelab_server::error::{io_error, Error, Result};
use tidelab_server::server::alignment::{Aligned, Alignment, Situation, SHIPPED};
use tidelab_server::server::catalogue;
use tidelab_server::server::engine::Engine;
use tidelab_server::server::release::Release;
use tidelab_server::server::settings::bytes;
use tidelab_server::server::source::{FoundServer, Source};
use tidelab_server::telemetry::machine;
use tidelab_server::workload::sysbench;

use super::design::{Competitor, Design, Part};
use super::figures::metrics;
use super::progression;
use crate::run::bound::{Driven, Unbounded};
use crate::run::{Conductor, Folder, Group, Paths, Run};
use lacks::{lacks, lacks_by_name, setup_server};

/// The largest share of the machine's memory for a tier.
const MEMORY_SHARE: f64 = 0.8;
/// Connections beyond those of the load: the laboratory's own.
const OWN_CONNECTIONS: u64 = 20;
/// Open tables of the server's own.
const OWN_TABLES: u64 = 400;
/// A matrix in progress.
#[derive(Debug)]
pub struct Matrix<'a> {
    design: Design,
    paths: Paths<'a>,
    cache: PathBuf,
    alignment: Alignment,
    /// Their text.
    rules: String,
    sources: Vec<(String, Source)>,
    /// Looked for before the first measurement: a matrix can be planned without its servers.
    found: BTreeMap<String, FoundServer>,
    looked: bool,
    parts: Vec<Part>,
}

impl<'a> Matrix<'a> {
    /// For this design; the run gets its axes, metrics and notes. Running servers and trees named by their
    /// path are looked at here, those from Debian when something is measured. Errors: a design impossible to
    /// measure.
    pub fn open(design: Design, paths: Paths<'a>, run: &mut Run) -> Result<Matrix<'a>> {
        design.check()?;
        let cache = catalogue::cache();
        let (alignment, rules) = match design.alignment.as_deref().map(|path| paths.named(path)) {
            None => (Alignment::shipped()?, SHIPPED.to_string()),
            Some(path) => {
                let text = fs::read_to_string(&path).map_err(io_error("cannot read", &path))?;
                let said = |what| Error::Usage(format!("{}: {what}", path.display()));
                (Alignment::parse(&text).map_err(said)?, text)
            }
        };
        let mut sources = Vec::new();
        let mut found = BTreeMap::new();
        let mut competitors = Vec::new();
        for named in &design.servers {
            let (name, source) = (named.name().to_string(), named.source()?);
            if !matches!(source, Source::Debian(_)) {
                found.insert(name.clone(), source.find(&cache)?);
            }
            for engine in &design.engines {
                let why = match (&source, found.get(&name)) {
                    (Source::Debian(entry), _) => lacks_by_name(&catalogue::entry(entry)?, *engine),
                    (_, Some(server)) => lacks(server, *engine)?,
                    (_, None) => None,
                };
                match why {
                    None => competitors.push(Competitor { server: name.clone(), engine: *engine }),
                    Some(why) => run.notes.push(format!("{name} without {engine}: {why}")),
                }
            }
            sources.push((name, source));
        }
        let parts = design.parts(&competitors);
        if parts.is_empty() {
            return Err(Error::Usage(format!("nothing can be measured: {}", run.notes.join("; "))));
        }
        for part in &parts {
            let over_network = part.cells.iter().any(|c| c.scenario.over_network());
            if over_network && matches!(found.get(&part.competitor.server), Some(FoundServer::Running(_))) {
                return Err(Error::Usage(format!(
                    "{} runs already: it gets no user for TCP from here; leave the network scenarios out",
                    part.competitor.server
                )));
            }
        }
        run.axes = design.axes(&competitors);
        run.metrics = metrics();
        if design.scenarios.iter().any(|s| s.over_network()) {
            let how = "network: TCP over the loopback interface of this machine, not over a wire";
            run.notes.push(how.to_string());
        }
        Ok(Matrix { design, paths, cache, alignment, rules, sources, found, looked: false, parts })
    }

    /// The parts in their order.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Looks once for all servers and for everything else needed by a measurement. Errors: a server is
    /// missing, or is another release than in the cells of the run; the machine lacks the memory for a tier.
    pub fn look(&mut self, run: &Run) -> Result<()> {
        if self.looked {
            return Ok(());
        }
        sysbench::version()?;
        let memory = machine::describe(self.paths.data).memory_bytes;
        for part in &self.parts {
            if part.memory as f64 > memory as f64 * MEMORY_SHARE {
                let has = memory >> 20;
                let tier = &part.tier;
                return Err(Error::Usage(format!("the tier {tier} does not fit: this machine has {has} MB")));
            }
            self.plugin(&part.competitor)?;
        }
        for (name, source) in &self.sources {
            if !self.found.contains_key(name) {
                self.found.insert(name.clone(), source.find(&self.cache)?);
            }
        }
        for part in &self.parts {
            let Some(facts) = run.servers.get(&part.competitor.label()) else { continue };
            let now = self.server(&part.competitor)?.release();
            let then = facts.release();
            if then.is_some_and(|then| then != now) {
                return Err(Error::Usage(format!(
                    "the run was begun with {}, {} is {now} now: begin another one",
                    facts.version, part.competitor.server
                )));
            }
        }
        self.looked = true;
        Ok(())
    }

    /// The settings of a part by the rules.
    pub fn aligned(&self, part: &Part) -> Result<Aligned> {
        let release = self.server(&part.competitor)?.release();
        self.alignment.apply(&self.design.situation(release, part.competitor.engine, part.memory))
    }

    /// The plugin of the competitor's server. Errors: it is TidesDB's and is not built.
    fn plugin(&self, competitor: &Competitor) -> Result<PathBuf> {
        let source =
            self.sources.iter().find(|(name, _)| *name == competitor.server).map(|(_, source)| source);
        let entry = match (source, self.found.get(&competitor.server)) {
            _ if competitor.engine != Engine::TidesDb => None,
            (Some(Source::Debian(entry)), _) => Some(catalogue::entry(entry)?),
            (_, Some(FoundServer::Installed(installation))) => setup_server(installation)?,
            _ => None,
        };
        let built = entry.and_then(|entry| Some((entry.plugin(self.paths.plugin)?, entry.make_argument())));
        let Some((plugin, argument)) = built else { return Ok(self.paths.plugin.to_path_buf()) };
        if !plugin.is_file() {
            let remedy = format!("make plugin{argument} builds it");
            return Err(Error::Missing { what: plugin.display().to_string(), remedy });
        }
        Ok(plugin)
    }

    fn server(&self, competitor: &Competitor) -> Result<&FoundServer> {
        self.found
            .get(&competitor.server)
            .ok_or_else(|| Error::Usage(format!("there is no server {}", competitor.server)))
    }
}

impl Conductor for Matrix<'_> {
    fn groups(&self) -> Vec<Group> {
        self.parts.iter().map(Part::group).collect()
    }

    fn measure(&mut self, group: &Group, run: &mut Run, folder: &mut Folder) -> Result<()> {
        let Some(part) = self.parts.iter().find(|part| part.title == group.title).cloned() else {
            return Err(Error::Usage(format!("{} is not of this matrix", group.title)));
        };
        self.look(run)?;
        let measured = self.measure_part(&part, run, folder);
        note_progression(run, folder)?;
        measured
    }

    fn rules(&self) -> Vec<(String, String)> {
        vec![("alignment.toml".to_string(), self.rules.clone())]
    }

    fn unbounded(&self) -> Vec<Unbounded> {
        let mut all: Vec<Unbounded> = Vec::new();
        // The cost of the network is not the driver's.
        for cell in self.parts.iter().flat_map(|p| &p.cells).filter(|c| !c.scenario.over_network()) {
            let labels = [("scenario", cell.scenario.to_string()), ("threads", cell.threads.to_string())];
            let one = Unbounded::new(labels, Driven::Sysbench(cell.scenario.workload()), cell.threads);
            if !all.contains(&one) {
                all.push(one);
            }
        }
        all
    }

    fn close(&mut self) -> Result<()> {
        Ok(())
    }
}

impl Design {
    /// The situation given to the rules.
    pub fn situation(&self, release: Release, engine: Engine, memory: u64) -> Situation {
        let threads = u64::from(self.most_threads());
        Situation {
            release,
            engine,
            memory,
            redo: bytes(&self.redo).unwrap_or(0),
            sync: self.sync,
            binary_log: self.binary_log,
            connections: (threads + OWN_CONNECTIONS).max(151),
            // Each client opens each table at most once at a time.
            open_tables: threads * u64::from(self.tables) + OWN_TABLES,
            cpus: std::thread::available_parallelism().map_or(1, |n| n.get() as u64),
        }
    }
}

/// Writes the progression from version to version so far.
fn note_progression(run: &mut Run, folder: &Folder) -> Result<()> {
    let (_, cells) = crate::run::folder::read(folder.path())?;
    let all = progression::of(run, &cells);
    for (name, text) in
        [("progression.txt", progression::text(&all)), ("progression.csv", progression::csv(&all))]
    {
        let path = folder.path().join(name);
        fs::write(&path, text).map_err(io_error("cannot write", &path))?;
        if !run.files.iter().any(|file| file == name) {
            run.files.push(name.to_string());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tidelab_server::interrupt::Interrupt;
    use tidelab_server::server::release::{Family, Version};

    use super::*;
    use crate::matrix::design::tests::{parsed, TEXT};

    #[test]
    fn limits_follow_the_largest_number_of_clients() {
        let mut design = parsed(TEXT).unwrap();
        let release = Release { family: Family::MySQL, version: Version(9, 7, 4) };
        let situation = design.situation(release, Engine::InnoDb, 5);
        assert_eq!((situation.connections, situation.open_tables), (151, 408));
        design.threads = vec![1, 512];
        let situation = design.situation(release, Engine::InnoDb, 5);
        assert_eq!((situation.connections, situation.open_tables, situation.memory), (532, 1424, 5));
    }

    fn paths<'a>(data: &'a Path, interrupt: &'a Interrupt) -> Paths<'a> {
        Paths { prefix: data, plugin: data, data, file_folder: data, interrupt }
    }

    #[test]
    fn a_matrix_is_planned_without_its_servers_and_measured_only_with_them() {
        let folder = tempfile::tempdir().unwrap();
        let interrupt = Interrupt::default();
        let mut design = parsed(TEXT).unwrap();
        design.servers = ["mariadb-10.5", "mariadb-10.11", "mysql-9.7", "default"]
            .map(|name| crate::matrix::design::Named::Source(name.to_string()))
            .to_vec();
        design.engines = vec![Engine::InnoDb, Engine::TidesDb, Engine::RocksDb];
        let mut run = Run::new("t", "", "matrix");
        let mut matrix = Matrix::open(design.clone(), paths(folder.path(), &interrupt), &mut run).unwrap();
        assert_eq!(
            run.axes[0].values,
            [
                "mariadb-10.5 InnoDB",
                "mariadb-10.5 ROCKSDB",
                "mariadb-10.11 InnoDB",
                "mariadb-10.11 TidesDB",
                "mariadb-10.11 ROCKSDB",
                "mysql-9.7 InnoDB",
                "default InnoDB",
                "default TidesDB",
                "default ROCKSDB"
            ]
        );
        assert!(run.notes.iter().any(|n| n.starts_with("mysql-9.7 without ROCKSDB")), "{:?}", run.notes);
        assert_eq!(matrix.groups().len(), 9 * 2 * 2);
        let error = matrix.look(&run).unwrap_err();
        assert!(error.to_string().contains("make plugin SERVER=10.11 builds"), "{error}");

        design.engines = vec![Engine::InnoDb];
        let mut matrix = Matrix::open(design.clone(), paths(folder.path(), &interrupt), &mut run).unwrap();
        matrix.cache = folder.path().to_path_buf();
        let error = matrix.look(&run).unwrap_err();
        assert!(error.to_string().contains("server fetch mariadb-10.5"), "{error}");
        design.tiers = vec!["9999G".to_string()];
        let mut matrix = Matrix::open(design, paths(folder.path(), &interrupt), &mut run).unwrap();
        let error = matrix.look(&run).unwrap_err();
        assert!(error.to_string().contains("9999G does not fit"), "{error}");
    }

    #[test]
    fn what_nobody_has_cannot_be_measured() {
        let folder = tempfile::tempdir().unwrap();
        let interrupt = Interrupt::default();
        let mut design = parsed(TEXT).unwrap();
        design.servers = vec![crate::matrix::design::Named::Source("mysql-9.7".to_string())];
        design.engines = vec![Engine::TidesDb];
        let mut run = Run::new("t", "", "matrix");
        let error = Matrix::open(design, paths(folder.path(), &interrupt), &mut run).unwrap_err();
        assert!(error.to_string().contains("nothing can be measured: mysql-9.7 without TidesDB"), "{error}");
    }
}
