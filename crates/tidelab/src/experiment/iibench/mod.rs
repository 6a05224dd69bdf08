//! The kinds `iibench` and `delete-regime`: the insert benchmark on each engine, a server for each turn,
//! rounds interleaved.
//!
//! Both load a table. `iibench` then reads it while it grows at a rate. `delete-regime` deletes at the
//! low end of its key as many rows as it inserts at the high end.
//!
//! A turn is one engine in one round. Its phases follow each other on one server, and the table is
//! examined at the end. A fault of the table fails all phases of the turn.

pub mod cells;
pub mod session;

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use tidelab_server::error::{io_error, Error, Result};
use tidelab_server::server::engine::Engine;
use tidelab_server::server::session::{Address, Session};
use tidelab_server::server::settings::{Setting, COMPARISON};
use tidelab_server::server::Server;
use tidelab_server::telemetry::disk;
use tidelab_server::workload::iibench::alone::Inserts;
use tidelab_server::workload::iibench::counts::Group as Operations;
use tidelab_server::workload::iibench::dsn::Dsn;
use tidelab_server::workload::iibench::queue::{self, Keys, Task};
use tidelab_server::workload::iibench::runner::Runner;
use tidelab_server::workload::iibench::settings;

use crate::measure::plan::turns;
use crate::measure::reference;
use crate::run::bound::{Driven, Unbounded};
use crate::run::server_files::{keep_telemetry, note_status};
use crate::run::{self, Cell, CellId, Folder, Group, Paths, Run};

/// The options of the file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    engines: Vec<Engine>,
    rounds: u32,
    /// Seconds at most after each phase until the server is idle.
    settle_s: u64,
    cache_mb: u64,
    #[serde(default = "one")]
    seed: u64,
    /// The text after ENGINE=... in each engine's table.
    #[serde(default)]
    table_options: String,
    /// Keys of a queue for all phases.
    #[serde(default)]
    defaults: Keys,
    /// Those of the phases, in running order.
    load: Keys,
    mixed: Option<Keys>,
    delete: Option<Keys>,
}

fn one() -> u64 {
    1
}

/// The table's name.
const TABLE: &str = "purchases_index";

/// Measures.
pub struct Conductor<'a> {
    options: Options,
    paths: Paths<'a>,
    phases: Vec<&'static str>,
}

impl<'a> Conductor<'a> {
    /// For these options; the run gets its axes and metrics. Errors: senseless options.
    pub fn open(options: Options, paths: Paths<'a>, run: &mut Run) -> Result<Conductor<'a>> {
        let wrong = |what: &str| Error::Usage(format!("{}: {what}", run.name));
        if options.engines.is_empty() || options.rounds == 0 {
            return Err(wrong("engines and rounds must be there and more than 0"));
        }
        let mut phases = vec!["load"];
        phases.extend(options.mixed.as_ref().map(|_| "mixed"));
        phases.extend(options.delete.as_ref().map(|_| "delete"));
        if phases.len() == 1 {
            return Err(wrong("neither mixed nor delete follows the load"));
        }
        let conductor = Conductor { options, paths, phases };
        let tasks = conductor.tasks(conductor.options.engines[0], Path::new("/"), 0)?;
        for (name, task) in conductor.phases.iter().zip(&tasks) {
            if cells::phase(task) != *name {
                let what = format!("the phase {name} is none: it is what is called {}", cells::phase(task));
                return Err(Error::Usage(format!("{}: {what}", run.name)));
            }
        }
        let engines = &conductor.options.engines;
        run.axes = cells::axes(engines, &conductor.phases);
        run.reference = reference(engines);
        run.metrics = cells::metrics();
        Ok(conductor)
    }

    /// The phases of a turn, as tasks at a server's socket.
    fn tasks(&self, engine: Engine, socket: &Path, round: u32) -> Result<Vec<Task>> {
        let dsn = format!("root@unix({})/{}", socket.display(), engine.database());
        let changes = queue::Changes {
            dsn: Some(Dsn::parse(&dsn).map_err(Error::Usage)?),
            ..queue::Changes::default()
        };
        let options = &self.options;
        let keys = [Some(&options.load), options.mixed.as_ref(), options.delete.as_ref()];
        let mut tasks = Vec::new();
        for (name, keys) in self.phases.iter().zip(keys.into_iter().flatten()) {
            let made_with = format!("ENGINE={engine} {}", options.table_options);
            let table = (tasks.is_empty()).then(|| made_with.trim_end().to_string());
            let task = queue::phase(&options.defaults, None).and_then(|defaults| {
                let own = queue::phase(keys, table)?;
                queue::task(name.to_string(), &own, &defaults, &changes)
            });
            let mut task = task.map_err(|what| Error::Usage(format!("the phase {name}: {what}")))?;
            task.table = TABLE.to_string();
            task.seed = options.seed + u64::from(round);
            tasks.push(task);
        }
        Ok(tasks)
    }

    fn settings(&self, engine: Engine) -> Result<Vec<Setting>> {
        let tasks = self.tasks(engine, Path::new("/"), 0)?;
        let clients = tasks.iter().map(|task| task.writers.threads + task.queries.threads).max().unwrap_or(0);
        Ok(settings::of_server(&[engine], self.options.cache_mb, clients + 20))
    }

    fn start(&self, engine: Engine, run: &mut Run, folder: &Folder) -> Result<Server> {
        let settings = self.settings(engine)?;
        let server = self.paths.start_noted(engine.name(), &[engine], &settings, run, folder)?;
        let statement = format!("CREATE DATABASE {}", engine.database());
        let failed = |failure: tidelab_server::server::session::Failure| Error::Statement {
            statement: statement.clone(),
            message: failure.to_string(),
        };
        let address = Address::root(server.socket());
        let mut session = Session::connect(&address, Duration::from_secs(60)).map_err(failed)?;
        session.run(&statement).map_err(failed)?;
        Ok(server)
    }

    /// The phases of a turn. Fails only when nothing more can be measured.
    fn turn(
        &self,
        server: &mut Server,
        engine: Engine,
        ids: &[CellId],
        run: &mut Run,
        folder: &mut Folder,
    ) -> Result<bool> {
        let round = ids.first().map_or(1, |id| id.round);
        let tasks = self.tasks(engine, server.socket(), round)?;
        let settle = Duration::from_secs(self.options.settle_s);
        let address = Address::root(server.socket());
        let mut runner = Runner::new(self.paths.interrupt, Some(server.pid()), settle)
            .with_telemetry(server.directory(), &address);
        let mut turn: Vec<Cell> = Vec::new();
        for (id, task) in ids.iter().zip(&tasks) {
            let mut cell = Cell::new(id.clone(), task.seed);
            let making = folder.begin(id)?;
            let examine = turn.len() + 1 == tasks.len();
            let log = making.join(&task.log_file);
            let measured = runner.run(task, &log, examine, &mut |text| eprintln!("  {text}"));
            match measured.and_then(|measured| server.check_alive().map(|()| measured)) {
                Ok(measured) => {
                    let space = disk::of_engine(server.directory(), engine);
                    cells::fill(&mut cell, &measured, Some(space), &making)?;
                    keep_telemetry(&mut cell, measured.telemetry.as_ref(), &making)?;
                    let errors = log.with_extension("errcodes.tsv");
                    let errors = errors.file_name().map(|name| name.to_string_lossy().into_owned());
                    cell.files.push(task.log_file.clone());
                    cell.files.extend(errors);
                    cell.files.extend(note_status(server, engine, &making)?);
                    eprintln!("  {}", session::summary(task, &measured));
                    if let Some(flat) = cells::flatness(&measured, Operations::Delete) {
                        let rates = measured.rates.get(&Operations::Delete).map_or(&[][..], Vec::as_slice);
                        let rate = |pick: fn(f64, f64) -> f64| {
                            rates.iter().map(|(_, rate)| *rate).reduce(pick).unwrap_or(0.0)
                        };
                        run.notes.push(format!(
                            "{engine}, round {round}: deletes are {}: of {} windows of ten seconds the worst took \
                             {:.1} ms, the median one {:.1} ms; the slowest window deleted {:.0} rows/s, the \
                             fastest {:.0}",
                            if flat.is_flat() { "flat" } else { "NOT flat" },
                            flat.windows,
                            flat.worst_ms,
                            flat.median_ms,
                            rate(f64::min),
                            rate(f64::max)
                        ));
                    }
                }
                Err(error) => {
                    self.paths.interrupt.check()?;
                    cell.failures.push(error.to_string());
                }
            }
            let failed = !cell.failures.is_empty();
            turn.push(cell);
            if failed {
                break;
            }
        }
        let failures: Vec<String> = turn.iter().flat_map(|cell| cell.failures.clone()).collect();
        for id in &ids[turn.len()..] {
            turn.push(run::conduct::failed(id, "the phase before it failed"));
        }
        for mut cell in turn {
            for failure in &failures {
                if !cell.failures.contains(failure) {
                    cell.failures.push(failure.clone());
                }
            }
            folder.finish(cell)?;
        }
        Ok(failures.is_empty())
    }

    /// The files of a failed turn stay, under a name of their own.
    fn preserve(&self, engine: Engine, round: u32) -> Result<()> {
        let from = self.paths.data.join("server");
        let to = self.paths.data.join(format!("failed-{}-{round}", engine.database()));
        let _ = fs::remove_dir_all(&to);
        fs::rename(&from, &to).map_err(io_error("cannot move", &from))?;
        eprintln!("  the server's files are in {}", to.display());
        Ok(())
    }
}

impl run::Conductor for Conductor<'_> {
    fn groups(&self) -> Vec<Group> {
        let mut groups = Vec::new();
        for round in 1..=self.options.rounds {
            for engine in turns(&self.options.engines, round - 1) {
                let id = |phase: &&str| {
                    CellId::new([("engine", engine.to_string()), ("phase", phase.to_string())], round)
                };
                groups.push(Group {
                    title: format!("round {round}: {engine}"),
                    cells: self.phases.iter().map(id).collect(),
                });
            }
        }
        groups
    }

    fn measure(&mut self, group: &Group, run: &mut Run, folder: &mut Folder) -> Result<()> {
        let Some(first) = group.cells.first() else { return Ok(()) };
        let engine: Engine = first.label("engine").parse()?;
        let mut server = self.start(engine, run, folder)?;
        let good = self.turn(&mut server, engine, &group.cells, run, folder)?;
        server.stop(!good)?;
        if !good {
            self.preserve(engine, first.round)?;
        }
        Ok(())
    }

    /// The writers of the phases without a rate: they reach their limit on tables without storage.
    fn unbounded(&self) -> Vec<Unbounded> {
        let tasks = self.tasks(self.options.engines[0], Path::new("/"), 0).unwrap_or_default();
        let phases = self.phases.iter().zip(&tasks);
        let alone = |(phase, task): (&&str, &Task)| {
            let inserts = Inserts::of(task)?;
            let labels = [("phase", phase.to_string())];
            Some(Unbounded::new(labels, Driven::Inserts(inserts), task.writers.threads))
        };
        phases.filter_map(alone).collect()
    }

    fn rules(&self) -> Vec<(String, String)> {
        [("comparison.toml", COMPARISON), ("iibench.toml", settings::RULES)]
            .map(|(name, text)| (name.to_string(), text.to_string()))
            .to_vec()
    }

    fn close(&mut self) -> Result<()> {
        Ok(())
    }
}
