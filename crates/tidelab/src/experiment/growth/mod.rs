//! The kind `growth`: the same load on more and more: rows, clients, tables, changes of the same rows, time under an
//! open snapshot (`docs/experiments/growth.md`).
//!
//! A part is one of these. Its amounts are measured one after the other on one server, so each stands on what those
//! before it left. Each engine has a server of its own in a memory group, on the steady disk where one is asked for.

mod parts;

use std::collections::HashSet;

use serde::Deserialize;
use tidelab_server::error::{Error, Result};
use tidelab_server::server::engine::Engine;
use tidelab_server::server::Data;
use tidelab_server::workload::iibench::queue::Keys as QueueKeys;
use tidelab_server::workload::sysbench::Workload;

use super::confined::{connections, rules, sizes_itself, within_a_limit, Confined, Wants};
use crate::measure::plan::turns;
use crate::measure::reference;
use crate::run::conduct::failed;
use crate::run::server_files::note_server;
use crate::run::{self, Axis, Better, CellId, Folder, Group, Metric, Paths, Role, Run};

/// The axis of parts.
const PART: &str = "part";
/// The axis of amounts.
const AMOUNT: &str = "amount";
/// The main figure.
const RATE: &str = "operations_per_s";
/// The clients of the insert benchmark at most.
const IIBENCH_CLIENTS: u32 = 64;

/// The options of the file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    engines: Vec<Engine>,
    memory_limit_mb: u64,
    /// Without it servers are on the data directory's own disk.
    steady_disk_mb: Option<u64>,
    /// The cache of an engine that does not size itself, in percent of the limit.
    cache_percent: u64,
    threads: u32,
    #[serde(default = "one")]
    seed: u64,
    rows: Option<Rows>,
    clients: Option<Clients>,
    tables: Option<Tables>,
    overwrites: Option<Windows>,
    snapshot: Option<Windows>,
}

fn one() -> u64 {
    1
}

/// The insert benchmark's table grows; an amount is millions of rows.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rows {
    millions: u32,
    /// The text after ENGINE=... in each engine's table.
    #[serde(default)]
    table_options: String,
    load: QueueKeys,
}

/// More and more clients on the same tables.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Clients {
    counts: Vec<u32>,
    /// In place of the other parts' limit: half a thousand clients need memory of their own.
    memory_limit_mb: Option<u64>,
    workload: Workload,
    tables: u32,
    rows: u64,
    warm_up_s: u32,
    time_s: u32,
}

/// The same rows in more and more tables.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Tables {
    counts: Vec<u32>,
    /// In place of the other parts' limit: the server has memory for each open table.
    memory_limit_mb: Option<u64>,
    workload: Workload,
    /// Of all tables together.
    rows: u64,
    warm_up_s: u32,
    time_s: u32,
}

/// One load on the same tables, window after window; an amount is minutes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Windows {
    minutes: u32,
    workload: Workload,
    tables: u32,
    rows: u64,
}

/// A kind of growth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Rows,
    Clients,
    Tables,
    Overwrites,
    Snapshot,
}

impl Part {
    const ALL: [Part; 5] = [Part::Rows, Part::Clients, Part::Tables, Part::Overwrites, Part::Snapshot];

    /// The value of [`PART`].
    fn name(self) -> &'static str {
        match self {
            Part::Rows => "millions of rows",
            Part::Clients => "clients",
            Part::Tables => "tables",
            Part::Overwrites => "minutes of overwriting",
            Part::Snapshot => "minutes under a snapshot",
        }
    }
}

impl Options {
    /// The amounts of a part in their order; none where it is not asked for.
    fn amounts(&self, part: Part) -> Vec<u32> {
        let up_to = |most: u32| (1..=most).collect();
        match part {
            Part::Rows => self.rows.as_ref().map_or_else(Vec::new, |rows| up_to(rows.millions)),
            Part::Clients => self.clients.as_ref().map_or_else(Vec::new, |clients| clients.counts.clone()),
            Part::Tables => self.tables.as_ref().map_or_else(Vec::new, |tables| tables.counts.clone()),
            Part::Overwrites | Part::Snapshot => {
                self.windows(part).map_or_else(Vec::new, |windows| up_to(windows.minutes))
            }
        }
    }

    fn windows(&self, part: Part) -> Option<&Windows> {
        match part {
            Part::Overwrites => self.overwrites.as_ref(),
            Part::Snapshot => self.snapshot.as_ref(),
            Part::Rows | Part::Clients | Part::Tables => None,
        }
    }

    fn limit_mb(&self, part: Part) -> u64 {
        let own = match part {
            Part::Clients => self.clients.as_ref().and_then(|clients| clients.memory_limit_mb),
            Part::Tables => self.tables.as_ref().and_then(|tables| tables.memory_limit_mb),
            Part::Rows | Part::Overwrites | Part::Snapshot => None,
        };
        own.unwrap_or(self.memory_limit_mb)
    }

    fn most_clients(&self) -> u32 {
        let counts = self.clients.iter().flat_map(|clients| &clients.counts).copied();
        counts.max().unwrap_or(0).max(self.threads).max(IIBENCH_CLIENTS)
    }

    fn check(&self, name: &str) -> Result<Wants> {
        let wrong = |what: &str| Err(Error::Usage(format!("{name}: {what}")));
        if self.engines.is_empty() || self.threads == 0 {
            return wrong("engines and threads must be there and more than 0");
        }
        if !(1..=90).contains(&self.cache_percent) {
            return wrong("cache_percent must be from 1 to 90 percent of the limit");
        }
        if Part::ALL.iter().all(|part| self.amounts(*part).is_empty()) {
            return wrong(
                "there is nothing to grow: rows, clients, tables, overwrites and snapshot are parts",
            );
        }
        for part in Part::ALL {
            let amounts = self.amounts(part);
            let different: HashSet<&u32> = amounts.iter().collect();
            if amounts.contains(&0) || different.len() < amounts.len() {
                return wrong(&format!("{}: amounts must be more than 0 and different", part.name()));
            }
        }
        let times = self.clients.iter().map(|c| c.time_s).chain(self.tables.iter().map(|t| t.time_s));
        if times.min() == Some(0) {
            return wrong("time_s must be more than 0");
        }
        let rows = [
            self.clients.as_ref().map(|c| u64::from(c.tables) * c.rows),
            self.tables.as_ref().map(|t| t.rows / u64::from(t.counts.iter().copied().max().unwrap_or(1))),
            self.overwrites.as_ref().map(|w| u64::from(w.tables) * w.rows),
            self.snapshot.as_ref().map(|w| u64::from(w.tables) * w.rows),
        ];
        if rows.contains(&Some(0)) {
            return wrong("each table must have a row at least");
        }
        let limits_mb = Part::ALL.map(|part| self.limit_mb(part)).to_vec();
        let wants = Wants { limits_mb, disk_mb: self.steady_disk_mb };
        wants.check(name)?;
        Ok(wants)
    }
}

/// The figures of the cells, the most important one first.
fn metrics() -> Vec<Metric> {
    use Better::{Higher, Lower, Neither};
    vec![
        Metric::main(RATE, "Rows or transactions", "1/s", Higher),
        Metric::main("p99_ms", "99th percentile", "ms", Lower),
        Metric::main("slowest_second", "Slowest second", "", Higher),
        Metric::main("data_bytes", "Files without logs", "B", Lower),
        Metric::main("resident_bytes", "Resident memory, largest", "B", Lower),
        Metric::detail("max_ms", "Greatest latency", "ms", Lower),
        Metric::detail("log_bytes", "Logs", "B", Neither),
        Metric::detail("changes", "Changes of a row so far, on average", "", Neither),
        Metric::detail("operation_cpu_us", "Server CPU for a row or a transaction", "us", Lower),
        Metric::detail("prepare_s", "Loading", "s", Lower),
    ]
}

/// Measures.
pub struct Conductor<'a> {
    options: Options,
    wants: Wants,
    paths: Paths<'a>,
    confined: Option<Confined>,
}

impl<'a> Conductor<'a> {
    /// For these options; the run gets its axes and metrics. Errors: the options make no sense.
    pub fn open(options: Options, paths: Paths<'a>, run: &mut Run) -> Result<Conductor<'a>> {
        let wants = options.check(&run.name)?;
        let mut amounts: Vec<u32> = Part::ALL.into_iter().flat_map(|part| options.amounts(part)).collect();
        amounts.sort_unstable();
        amounts.dedup();
        let parts: Vec<&str> =
            Part::ALL.iter().filter(|p| !options.amounts(**p).is_empty()).map(|p| p.name()).collect();
        run.axes = vec![
            Axis::new("engine", "Engine", Role::Competitor, &options.engines),
            Axis::new(PART, "Growth", Role::Category, &parts),
            Axis::new(AMOUNT, "Amount", Role::Number, &amounts),
        ];
        run.reference = reference(&options.engines);
        run.metrics = metrics();
        let conductor = Conductor { options, wants, paths, confined: None };
        for engine in &conductor.options.engines {
            conductor.step(*engine, std::path::Path::new("/"), 1)?;
        }
        Ok(conductor)
    }

    /// The place of the servers, made at the first of them.
    fn place(&mut self, run: &mut Run) -> Result<Confined> {
        match self.confined.take() {
            Some(confined) => Ok(confined),
            None => Confined::make(&self.wants, self.paths, run),
        }
    }

    /// Measures a part on one engine; its cells are in the folder afterwards.
    fn part(
        &self,
        part: Part,
        confined: &Confined,
        group: &Group,
        run: &mut Run,
        folder: &mut Folder,
    ) -> Result<()> {
        let Some(first) = group.cells.first() else { return Ok(()) };
        let engine: Engine = first.label("engine").parse()?;
        let limit_mb = self.options.limit_mb(part);
        confined.ready(Some(limit_mb))?;
        let data = confined.data(self.paths);
        let paths = Paths { data: &data, ..self.paths };
        let cache_mb = (!sizes_itself(engine)).then_some(limit_mb * self.options.cache_percent / 100);
        let settings = within_a_limit(engine, cache_mb, connections(self.options.most_clients()));
        let before = confined.kills();
        let mut server = paths.start_in(&[engine], &settings, Data::Empty, &confined.groups())?;
        run.servers.insert(engine.to_string(), paths.facts(&settings, &server));
        note_server(run, folder.path(), engine.name(), &server)?;
        let ended =
            self.grow(part, engine, &group.cells, &server, folder).and_then(|()| server.check_alive());
        let is_killed = confined.kills() > before;
        if ended.is_ok() && !is_killed {
            return server.stop(false);
        }
        self.paths.interrupt.check()?;
        let why = match (is_killed, ended) {
            (true, _) => format!("the kernel killed it at its limit of {limit_mb} MB"),
            (false, Err(error)) => error.to_string(),
            (false, Ok(())) => String::new(),
        };
        let missing: Vec<&CellId> = group.cells.iter().filter(|id| !folder.has(id)).collect();
        missing.into_iter().try_for_each(|id| folder.finish(failed(id, &why)))
    }
}

impl run::Conductor for Conductor<'_> {
    fn groups(&self) -> Vec<Group> {
        let mut groups = Vec::new();
        for (turn, part) in Part::ALL.into_iter().enumerate() {
            let amounts = self.options.amounts(part);
            if amounts.is_empty() {
                continue;
            }
            for engine in turns(&self.options.engines, turn as u32) {
                let id = |amount: &u32| {
                    let labels = [
                        ("engine", engine.to_string()),
                        (PART, part.name().to_string()),
                        (AMOUNT, amount.to_string()),
                    ];
                    CellId::new(labels, 1)
                };
                let cells = amounts.iter().map(id).collect();
                groups.push(Group { title: format!("{engine}: {}", part.name()), cells });
            }
        }
        groups
    }

    fn measure(&mut self, group: &Group, run: &mut Run, folder: &mut Folder) -> Result<()> {
        let Some(first) = group.cells.first() else { return Ok(()) };
        let Some(part) = Part::ALL.into_iter().find(|part| part.name() == first.label(PART)) else {
            return Ok(());
        };
        let confined = self.place(run)?;
        let measured = self.part(part, &confined, group, run, folder);
        self.confined = Some(confined);
        measured
    }

    fn rules(&self) -> Vec<(String, String)> {
        rules()
    }

    fn close(&mut self) -> Result<()> {
        self.confined = None;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tidelab_server::interrupt::Interrupt;

    use super::*;
    use crate::run::Conductor as _;

    const TEXT: &str = "engines = ['TidesDB', 'InnoDB']\nmemory_limit_mb = 512\ncache_percent = 70\nthreads = 8\n\
        [rows]\nmillions = 3\n[rows.load]\nwriter_threads = 4\n\
        [clients]\ncounts = [1, 8, 64]\nworkload = 'read_write'\ntables = 2\nrows = 100\nwarm_up_s = 0\ntime_s = 2\n\
        [tables]\ncounts = [1, 100]\nworkload = 'insert'\nrows = 1000\nwarm_up_s = 0\ntime_s = 2\n\
        [snapshot]\nminutes = 2\nworkload = 'update_index'\ntables = 1\nrows = 10\n";

    fn with(text: &str, see: impl FnOnce(&Conductor<'_>, &Run)) -> std::result::Result<(), String> {
        let interrupt = Interrupt::default();
        let path = Path::new("/nowhere");
        let paths =
            Paths { prefix: path, plugin: path, data: path, file_folder: path, interrupt: &interrupt };
        let mut run = Run::new("t", "T", "growth");
        let options = toml::from_str(text).map_err(|e| e.to_string())?;
        let conductor = Conductor::open(options, paths, &mut run).map_err(|e| e.to_string())?;
        see(&conductor, &run);
        Ok(())
    }

    #[test]
    fn an_engine_grows_on_one_server_and_engines_take_turns() {
        with(TEXT, |conductor, run| {
            let groups = conductor.groups();
            let sizes: Vec<usize> = groups.iter().map(|group| group.cells.len()).collect();
            assert_eq!(sizes, [3, 3, 3, 3, 2, 2, 2, 2]);
            assert_eq!(groups[0].cells[2].label(AMOUNT), "3");
            let engines: Vec<&str> = groups.iter().map(|g| g.cells[0].label("engine")).collect();
            assert_eq!(engines[..4], ["TidesDB", "InnoDB", "InnoDB", "TidesDB"]);
            assert_eq!(run.axes[2].values, ["1", "2", "3", "8", "64", "100"]);
            assert_eq!(conductor.options.most_clients(), 64);
        })
        .unwrap();
    }

    #[test]
    fn a_million_rows_follow_those_before() {
        with(TEXT, |conductor, _| {
            let first = conductor.step(Engine::InnoDb, Path::new("/s"), 1).unwrap().unwrap();
            let third = conductor.step(Engine::InnoDb, Path::new("/s"), 3).unwrap().unwrap();
            assert!(first.create.is_some() && third.create.is_none(), "one table");
            assert_ne!(first.seed, third.seed);
            assert_eq!((first.writers.max_rows, first.duration), (Some(1_000_000), None));
        })
        .unwrap();
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let said = |from: &str, to: &str| with(&TEXT.replace(from, to), |_, _| {}).unwrap_err();
        assert!(said("[1, 8, 64]", "[1, 8, 8]").contains("clients: amounts"));
        assert!(said("[1, 100]", "[0, 100]").contains("tables: amounts"));
        assert!(said("rows = 1000\n", "rows = 50\n").contains("a row at least"));
        assert!(said("memory_limit_mb = 512", "memory_limit_mb = 5").contains("memory_limits_mb"));
        assert!(said("time_s = 2", "time_s = 0").contains("time_s"));
        assert!(said("writer_threads = 4", "writer_threads = 4\nduration = '5s'").contains("duration"));
        let none = "engines = ['InnoDB']\nmemory_limit_mb = 512\ncache_percent = 70\nthreads = 8";
        assert!(with(none, |_, _| {}).unwrap_err().contains("nothing to grow"));
    }
}
