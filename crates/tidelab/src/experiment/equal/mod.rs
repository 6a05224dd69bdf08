//! The kind `equal-memory`: engines within the same limits of memory, on the steady disk, each with its best
//! cache (`docs/experiments/equal-memory.md`).
//!
//! First every engine is tried with some sizes of its cache on one workload, within each limit. The best of
//! them is its cache for everything else within the limit. An engine that sizes itself may run with no size
//! set, too. Then come the families of workloads: sysbench's,
//! random keys, large values, TPC-C, the insert benchmark.
//!
//! A family is loaded once for an engine. Its data directory is set aside and copied onto the disk for each
//! server; a server starts with an empty page cache in its groups.

mod figures;
mod images;
mod measures;
#[cfg(test)]
mod script_test;

use std::collections::BTreeMap;

use serde::Deserialize;
use tidelab_server::error::{Error, Result};
use tidelab_server::server::engine::Engine;
use tidelab_server::server::Data;
use tidelab_server::workload::iibench::queue::Keys as QueueKeys;
use tidelab_server::workload::sysbench::Workload;

use super::confined::{connections, rules, sizes_itself, within_a_limit, Confined, Wants};
use crate::measure::plan::rotated;
use crate::measure::reference;
use crate::run::conduct::{failed, minutes};
use crate::run::server_files::note_server;
use crate::run::{self, folder, Axis, Cell, CellId, Folder, Group, Paths, Role, Run};

/// The axis of limits.
const LIMIT: &str = "memory_limit_mb";
/// The axis of caches: tried sizes, the best of them, and none.
const CACHE: &str = "cache";
/// The value of [`CACHE`] everywhere but in the trials.
const BEST: &str = "best";
/// The value of [`CACHE`] where no size is set.
const NO_SIZE: &str = "no size";

/// The options of the file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    engines: Vec<Engine>,
    memory_limits_mb: Vec<u64>,
    /// Without it servers are on the data directory's own disk.
    steady_disk_mb: Option<u64>,
    /// Cache sizes to try, in percent of the limit.
    cache_percents: Vec<u64>,
    /// The workload of `oltp` for the trial.
    cache_workload: Workload,
    /// Engines that run with no size set, too.
    #[serde(default)]
    no_size: Vec<Engine>,
    rounds: u32,
    threads: u32,
    warm_up_s: u32,
    time_s: u32,
    /// Seconds at most until a server is idle after a load.
    settle_s: u32,
    #[serde(default = "one")]
    seed: u64,
    /// sysbench's workloads.
    oltp: Oltp,
    /// Random keys with small values.
    keys: Option<RandomKeys>,
    /// The same with large values.
    values: Option<RandomKeys>,
    tpcc: Option<Tpcc>,
    iibench: Option<Iibench>,
}

fn one() -> u64 {
    1
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Oltp {
    workloads: Vec<Workload>,
    /// Workloads that run with keys by Pareto, too; all others have uniform keys.
    #[serde(default)]
    pareto: Vec<Workload>,
    tables: u32,
    rows: u64,
}

/// The end of a workload's name where its keys are drawn by Pareto (80 % of the uses on 20 % of the keys).
const BY_PARETO: &str = " by Pareto";

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RandomKeys {
    operations: Vec<Operation>,
    rows: u64,
    value_bytes: u64,
}

/// An access by a random key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Operation {
    /// Updates a counter alongside the value.
    Count,
    Get,
    Insert,
    /// Reads some neighbours with their values.
    Scan,
    /// Deletes a row, and inserts one of the same key.
    Turnover,
    Update,
    Upsert,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Operation::Count => "count",
            Operation::Get => "get",
            Operation::Insert => "insert",
            Operation::Scan => "scan",
            Operation::Turnover => "turnover",
            Operation::Update => "update",
            Operation::Upsert => "upsert",
        }
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Tpcc {
    warehouses: i64,
    users: u32,
    build_users: u32,
    ramp_up_s: u32,
    duration_s: u32,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Iibench {
    /// The text after ENGINE=... in each engine's table.
    #[serde(default)]
    table_options: String,
    load: QueueKeys,
}

/// The most rows with whole numbers as the script's keys.
const MOST_KEYS: u64 = 1_500_000;

/// Workloads with a shared load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Family {
    Oltp,
    Keys,
    Values,
    Tpcc,
    Iibench,
}

impl Family {
    const ALL: [Family; 5] = [Family::Oltp, Family::Keys, Family::Values, Family::Tpcc, Family::Iibench];

    fn name(self) -> &'static str {
        match self {
            Family::Oltp => "oltp",
            Family::Keys => "keys",
            Family::Values => "values",
            Family::Tpcc => "tpcc",
            Family::Iibench => "iibench",
        }
    }
}

impl Options {
    fn check(&self, name: &str) -> Result<Wants> {
        let wrong = |what: &str| Err(Error::Usage(format!("{name}: {what}")));
        if self.engines.is_empty()
            || self.memory_limits_mb.is_empty()
            || self.rounds == 0
            || self.threads == 0
        {
            return wrong("engines, memory_limits_mb, rounds and threads must be there and more than 0");
        }
        if self.oltp.workloads.is_empty() || self.oltp.tables == 0 || self.time_s == 0 {
            return wrong("oltp.workloads, oltp.tables and time_s must be there and more than 0");
        }
        if self.cache_percents.is_empty() || self.cache_percents.iter().any(|p| !(1..=90).contains(p)) {
            return wrong("cache_percents must be from 1 to 90 percent of a limit");
        }
        if let Some(engine) = self.no_size.iter().find(|e| !sizes_itself(**e) || !self.engines.contains(e)) {
            return wrong(&format!("no_size: {engine} is none of the engines, or does not size itself"));
        }
        for keys in [&self.keys, &self.values].into_iter().flatten() {
            if keys.operations.is_empty() || !(1..=MOST_KEYS).contains(&keys.rows) || keys.value_bytes < 2 {
                return wrong("operations must be there, rows from 1 to 1500000, value_bytes from 2");
            }
        }
        if self.tpcc.as_ref().is_some_and(|t| t.warehouses < 1 || t.users == 0 || t.build_users == 0) {
            return wrong("tpcc: warehouses, users and build_users must be more than 0");
        }
        let wants = Wants { limits_mb: self.memory_limits_mb.clone(), disk_mb: self.steady_disk_mb };
        wants.check(name)?;
        Ok(wants)
    }

    /// The names of a family's workloads in their order; none where it is not asked for.
    fn workloads(&self, family: Family) -> Vec<String> {
        let of_keys = |keys: &Option<RandomKeys>, prefix: &str| {
            let operations = keys.iter().flat_map(|keys| &keys.operations);
            operations.map(|operation| format!("{prefix} {}", operation.name())).collect()
        };
        match family {
            Family::Oltp => {
                let of = |w: Workload| {
                    let uniform = self.oltp.workloads.contains(&w).then(|| w.to_string());
                    let by_pareto = self.oltp.pareto.contains(&w).then(|| format!("{w}{BY_PARETO}"));
                    uniform.into_iter().chain(by_pareto)
                };
                Workload::ALL.into_iter().flat_map(of).collect()
            }
            Family::Keys => of_keys(&self.keys, "random key"),
            Family::Values => of_keys(&self.values, "large value"),
            Family::Tpcc => self.tpcc.iter().map(|_| "tpcc".to_string()).collect(),
            Family::Iibench => self.iibench.iter().map(|_| "insert benchmark".to_string()).collect(),
        }
    }

    /// Seconds of a family on one engine within one limit, without its load; the insert benchmark inserts for
    /// `inserts_s`.
    fn seconds_of(&self, family: Family, inserts_s: u32) -> u32 {
        let each = self.warm_up_s + self.time_s + self.settle_s;
        match family {
            Family::Tpcc => {
                self.tpcc.as_ref().map_or(0, |t| t.ramp_up_s + t.duration_s + 2 * self.settle_s + CHECK_S)
            }
            Family::Iibench => self.iibench.as_ref().map_or(0, |_| inserts_s + self.settle_s + CHECK_S),
            _ => each * self.workloads(family).len() as u32,
        }
    }

    /// Seconds of everything, as a guess before anything is measured.
    fn estimate_s(&self, inserts_s: u32) -> f64 {
        let engines = self.engines.len() as f64;
        let limits = self.memory_limits_mb.len() as f64;
        let rows = (self.oltp.rows * u64::from(self.oltp.tables)) as f64;
        let small: f64 = [&self.keys, &self.values]
            .into_iter()
            .flatten()
            .map(|k| k.rows as f64 * (1.0 + k.value_bytes as f64 / 1e3))
            .sum();
        let warehouses = self.tpcc.as_ref().map_or(0.0, |t| t.warehouses as f64);
        let loads =
            engines * (rows / LOADED_ROWS_PER_S + small / LOADED_ROWS_PER_S + warehouses * WAREHOUSE_S);
        let start = START_S + rows * COPY_S_PER_ROW;
        let trials = self.cache_percents.len() as f64
            * (f64::from(self.warm_up_s + self.time_s + self.settle_s) + start);
        let families: f64 = Family::ALL
            .into_iter()
            .filter(|family| !self.workloads(*family).is_empty())
            .map(|family| f64::from(self.seconds_of(family, inserts_s)) + start)
            .sum();
        let turns = engines + self.no_size.len() as f64;
        PROBE_S + loads + limits * (engines * trials + turns * f64::from(self.rounds) * families)
    }
}

/// Seconds of checks after TPC-C or the insert benchmark.
const CHECK_S: u32 = 20;
/// Seconds of the probe.
const PROBE_S: f64 = 60.0;
/// Seconds of a server's start and end.
const START_S: f64 = 10.0;
/// Rows a second of a load on two cores.
const LOADED_ROWS_PER_S: f64 = 60_000.0;
/// Seconds of a warehouse's load.
const WAREHOUSE_S: f64 = 10.0;
/// Seconds of copying one of sysbench's rows to the disk, about 250 bytes of files.
const COPY_S_PER_ROW: f64 = 2e-6;

/// Measures.
pub struct Conductor<'a> {
    options: Options,
    wants: Wants,
    paths: Paths<'a>,
    /// Seconds of the insert benchmark.
    inserts_s: u32,
    confined: Option<Confined>,
}

impl<'a> Conductor<'a> {
    /// For these options; the run gets its axes and metrics. Errors: the options make no sense.
    pub fn open(options: Options, paths: Paths<'a>, run: &mut Run) -> Result<Conductor<'a>> {
        let wants = options.check(&run.name)?;
        let mut workloads: Vec<String> = Family::ALL.into_iter().flat_map(|f| options.workloads(f)).collect();
        let trial = options.cache_workload.to_string();
        if !workloads.contains(&trial) {
            workloads.push(trial);
        }
        let no_size = (!options.no_size.is_empty()).then(|| NO_SIZE.to_string());
        let caches: Vec<String> = std::iter::once(BEST.to_string())
            .chain(no_size)
            .chain(options.cache_percents.iter().map(percent))
            .collect();
        run.axes = vec![
            Axis::new("engine", "Engine", Role::Competitor, &options.engines),
            Axis::new(LIMIT, "Memory limit, MB", Role::Number, &options.memory_limits_mb),
            Axis::new(CACHE, "Cache", Role::Category, &caches),
            Axis::new("workload", "Workload", Role::Category, &workloads),
        ];
        run.reference = reference(&options.engines);
        run.metrics = figures::metrics();
        let mut conductor = Conductor { options, wants, paths, inserts_s: 0, confined: None };
        let task = conductor.iibench_task(conductor.options.engines[0], std::path::Path::new("/"), 1)?;
        conductor.inserts_s = match task {
            None => 0,
            Some(task) => task.duration.map(|duration| duration.as_secs() as u32).ok_or_else(|| {
                Error::Usage(format!(
                    "{}: iibench.load needs a duration, as the same time for every engine",
                    run.name
                ))
            })?,
        };
        Ok(conductor)
    }

    fn id(&self, engine: Engine, limit_mb: u64, cache: &str, workload: &str, round: u32) -> CellId {
        let labels = [
            ("engine", engine.to_string()),
            (LIMIT, limit_mb.to_string()),
            (CACHE, cache.to_string()),
            ("workload", workload.to_string()),
        ];
        CellId::new(labels, round)
    }

    /// Engines with their best cache, and those that run with no size set.
    fn competitors(&self) -> Vec<(Engine, &'static str)> {
        let best = self.options.engines.iter().map(|engine| (*engine, BEST));
        best.chain(self.options.no_size.iter().map(|engine| (*engine, NO_SIZE))).collect()
    }

    /// The place of the servers, made at the first of them.
    fn place(&mut self, run: &mut Run) -> Result<()> {
        if self.confined.is_none() {
            eprintln!("about {} in all", minutes(self.options.estimate_s(self.inserts_s)));
            self.confined = Some(Confined::make(&self.wants, self.paths, run)?);
        }
        Ok(())
    }

    /// A family on one engine within one limit, with a cache or with no size set; its cells are in the folder afterwards.
    fn family(
        &mut self,
        family: Family,
        cache_mb: Option<u64>,
        cells: &[CellId],
        run: &mut Run,
        folder: &mut Folder,
    ) -> Result<()> {
        let Some(first) = cells.first() else { return Ok(()) };
        let engine: Engine = first.label("engine").parse()?;
        let limit_mb: u64 = first.label(LIMIT).parse().unwrap_or_default();
        let image = self.image(family, engine, run)?;
        self.place(run)?;
        let Some(confined) = &self.confined else { return Ok(()) };
        confined.ready(Some(limit_mb))?;
        let data = confined.data(self.paths);
        let paths = Paths { data: &data, ..self.paths };
        let settings = within_a_limit(engine, cache_mb, connections(self.clients(family)));
        let from = image.as_deref().map_or(Data::Empty, Data::Copy);
        let before = confined.kills();
        let started = paths.start_in(&[engine], &settings, from, &confined.groups());
        let killed = || {
            (confined.kills() > before).then(|| format!("the kernel killed it at its limit of {limit_mb} MB"))
        };
        let mut server = match started {
            Ok(server) => server,
            Err(error) => {
                // Killed at its start: a result, not the end.
                let Some(why) = killed() else { return Err(error) };
                return cells.iter().try_for_each(|id| folder.finish(failed(id, &why)));
            }
        };
        run.servers.insert(engine.to_string(), paths.facts(&settings, &server));
        note_server(run, folder.path(), engine.name(), &server)?;
        let mut done: Vec<Cell> = Vec::new();
        for id in cells {
            let making = folder.begin(id)?;
            let cell = self.measure_one(family, id, &mut server, paths, run, &making)?;
            let lives = cell.counts();
            done.push(cell);
            if !lives && server.check_alive().is_err() {
                break;
            }
        }
        let alive = server.check_alive().is_ok();
        let faults = if alive { self.faults(family, engine, &server, &done) } else { Vec::new() };
        let why = killed().unwrap_or_else(|| "the server ended before".to_string());
        for id in &cells[done.len()..] {
            done.push(failed(id, &why));
        }
        for mut cell in done {
            if !alive && !cell.counts() {
                cell.failures.insert(0, why.clone());
                cell.failures.dedup();
            }
            cell.failures.extend(faults.iter().cloned());
            if let Some(cache_mb) = cache_mb {
                cell.figure("cache_bytes", (cache_mb << 20) as f64);
            }
            folder.finish(cell)?;
        }
        if alive {
            return server.stop(false);
        }
        Ok(())
    }

    /// Clients of a family at most.
    fn clients(&self, family: Family) -> u32 {
        let of_tpcc = self.options.tpcc.as_ref().map_or(0, |t| t.users.max(t.build_users));
        let of_iibench = 64;
        match family {
            Family::Tpcc => of_tpcc,
            Family::Iibench => of_iibench,
            _ => self.options.threads,
        }
    }
}

/// A tried size as a label.
fn percent(percent: &u64) -> String {
    format!("{percent} %")
}

/// The best of the tried sizes for an engine within a limit, in percent, and the rates of all survivors.
fn best_cache(cells: &[Cell], engine: Engine, limit: &str) -> (Option<u64>, BTreeMap<u64, f64>) {
    let tried: BTreeMap<u64, f64> = cells
        .iter()
        .filter(|cell| {
            cell.id.label("engine") == engine.name() && cell.id.label(LIMIT) == limit && cell.counts()
        })
        .filter_map(|cell| {
            let size = cell.id.label(CACHE).strip_suffix(" %")?.parse().ok()?;
            Some((size, *cell.figures.get(figures::RATE)?))
        })
        .collect();
    let best = tried.iter().max_by(|a, b| a.1.total_cmp(b.1)).map(|(size, _)| *size);
    (best, tried)
}

impl run::Conductor for Conductor<'_> {
    fn groups(&self) -> Vec<Group> {
        let options = &self.options;
        let mut groups = Vec::new();
        let trial = options.cache_workload.to_string();
        for limit in &options.memory_limits_mb {
            for size in &options.cache_percents {
                for engine in &options.engines {
                    groups.push(Group {
                        title: format!("{engine} within {limit} MB: a cache of {size} %"),
                        cells: vec![self.id(*engine, *limit, &percent(size), &trial, 1)],
                    });
                }
            }
        }
        for round in 1..=options.rounds {
            for limit in &options.memory_limits_mb {
                for family in Family::ALL {
                    let workloads = options.workloads(family);
                    if workloads.is_empty() {
                        continue;
                    }
                    for (engine, cache) in rotated(&self.competitors(), round - 1) {
                        let id = |workload: &String| self.id(engine, *limit, cache, workload, round);
                        let family = family.name();
                        groups.push(Group {
                            title: format!("round {round}: {family} on {engine} within {limit} MB, {cache}"),
                            cells: workloads.iter().map(id).collect(),
                        });
                    }
                }
            }
        }
        groups
    }

    fn measure(&mut self, group: &Group, run: &mut Run, folder: &mut Folder) -> Result<()> {
        let Some(first) = group.cells.first() else { return Ok(()) };
        let engine: Engine = first.label("engine").parse()?;
        let limit = first.label(LIMIT);
        let limit_mb: u64 = limit.parse().unwrap_or_default();
        if let Some(size) = first.label(CACHE).strip_suffix(" %") {
            let cache_mb = limit_mb * size.parse::<u64>().unwrap_or_default() / 100;
            return self.family(Family::Oltp, Some(cache_mb), &group.cells, run, folder);
        }
        let of =
            |family: &Family| self.options.workloads(*family).iter().any(|w| w == first.label("workload"));
        let Some(family) = Family::ALL.into_iter().find(of) else { return Ok(()) };
        if first.label(CACHE) == NO_SIZE {
            return self.family(family, None, &group.cells, run, folder);
        }
        let (_, cells) = folder::read(folder.path())?;
        let (best, tried) = best_cache(&cells, engine, limit);
        let Some(best) = best else {
            let why = "it lived with none of the tried caches";
            return group.cells.iter().try_for_each(|id| folder.finish(failed(id, why)));
        };
        let rates: Vec<String> = tried.iter().map(|(size, rate)| format!("{size} % {rate:.0}/s")).collect();
        let workload = self.options.cache_workload;
        run.note(format!(
            "{engine} within {limit} MB: a cache of {best} % of it is best by {workload} ({})",
            rates.join(", ")
        ));
        self.family(family, Some(limit_mb * best / 100), &group.cells, run, folder)
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

    const TEXT: &str = "engines = ['TidesDB', 'InnoDB', 'ROCKSDB']\nmemory_limits_mb = [512, 1024]\n\
        steady_disk_mb = 4096\ncache_percents = [30, 50, 70]\ncache_workload = 'read_write'\nrounds = 2\nthreads = 8\n\
        warm_up_s = 1\ntime_s = 2\nsettle_s = 1\n[oltp]\nworkloads = ['insert', 'read_write']\ntables = 4\nrows = 100\n\
        [keys]\noperations = ['get', 'upsert']\nrows = 1000\nvalue_bytes = 100\n";

    fn with(text: &str, see: impl FnOnce(&Conductor<'_>, &Run)) -> std::result::Result<(), String> {
        let interrupt = Interrupt::default();
        let path = Path::new("/nowhere");
        let paths =
            Paths { prefix: path, plugin: path, data: path, file_folder: path, interrupt: &interrupt };
        let mut run = Run::new("t", "T", "equal-memory");
        let options = toml::from_str(text).map_err(|e| e.to_string())?;
        let conductor = Conductor::open(options, paths, &mut run).map_err(|e| e.to_string())?;
        see(&conductor, &run);
        Ok(())
    }

    #[test]
    fn trials_come_first_and_a_family_is_a_group() {
        with(TEXT, |conductor, run| {
            let groups = conductor.groups();
            // Trials: 2 limits x 3 sizes x 3 engines; then 2 rounds x 2 limits x 2 families x 3 engines.
            assert_eq!(groups.len(), 18 + 24);
            assert!(groups[..18].iter().all(|g| g.cells[0].label(CACHE) != BEST && g.cells.len() == 1));
            assert_eq!(groups[18].cells.len(), 2);
            assert_eq!(
                groups[18].cells[0].label("workload"),
                "read_write",
                "what changes the rows comes last"
            );
            let ids: std::collections::HashSet<String> =
                groups.iter().flat_map(|g| &g.cells).map(CellId::folder).collect();
            assert_eq!(ids.len(), groups.iter().map(|g| g.cells.len()).sum::<usize>());
            assert_eq!(run.reference.as_deref(), Some("InnoDB"));
        })
        .unwrap();
    }

    #[test]
    fn an_engine_that_sizes_itself_has_a_turn_with_no_size() {
        let text = TEXT.replace("rounds = 2", "no_size = ['TidesDB']\nrounds = 2");
        with(&text, |conductor, run| {
            let groups = conductor.groups();
            assert_eq!(groups.len(), 18 + 32);
            let free: Vec<&Group> = groups.iter().filter(|g| g.cells[0].label(CACHE) == NO_SIZE).collect();
            assert_eq!(free.len(), 8);
            assert!(free.iter().all(|g| g.cells[0].label("engine") == "TidesDB"));
            assert!(run.axes.iter().any(|axis| axis.values.contains(&NO_SIZE.to_string())));
        })
        .unwrap();
    }

    #[test]
    fn keys_by_pareto_make_workloads_of_their_own() {
        let text = TEXT.replace("tables = 4", "pareto = ['read_write']\ntables = 4");
        with(&text, |conductor, _| {
            let names = conductor.options.workloads(Family::Oltp);
            assert_eq!(names, ["read_write", "read_write by Pareto", "insert"]);
        })
        .unwrap();
    }

    #[test]
    fn the_best_cache_is_the_fastest_that_lived() {
        with(TEXT, |conductor, _| {
            let cell = |size: u64, rate: f64| {
                let mut cell =
                    Cell::new(conductor.id(Engine::InnoDb, 512, &percent(&size), "read_write", 1), 1);
                cell.figure(figures::RATE, rate);
                cell
            };
            let mut cells = vec![cell(30, 5.0), cell(50, 9.0), cell(70, 99.0)];
            cells[2].failures.push("killed".to_string());
            assert_eq!(best_cache(&cells, Engine::InnoDb, "512").0, Some(50));
            assert_eq!(best_cache(&cells, Engine::InnoDb, "1024").0, None);
            assert_eq!(best_cache(&cells, Engine::TidesDb, "512").0, None);
        })
        .unwrap();
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let said = |from: &str, to: &str| with(&TEXT.replace(from, to), |_, _| {}).unwrap_err();
        assert!(said("[30, 50, 70]", "[30, 95]").contains("cache_percents"));
        assert!(said("rows = 1000", "rows = 5000000").contains("1500000"));
        assert!(said("memory_limits_mb = [512, 1024]", "memory_limits_mb = []").contains("memory_limits_mb"));
        assert!(said("rounds = 2", "no_size = ['InnoDB']\nrounds = 2").contains("no_size: InnoDB"));
        assert!(said("'upsert'", "'delete'").contains("delete"));
        assert!(said("threads = 8", "threads = 8\nthreds = 8").contains("threds"));
    }

    #[test]
    fn the_estimate_grows_with_all_that_is_asked_for() {
        let of = |text: &str| {
            let mut seconds = 0.0;
            with(text, |conductor, _| seconds = conductor.options.estimate_s(0)).unwrap();
            seconds
        };
        let before = of(TEXT);
        for (from, to) in
            [("time_s = 2", "time_s = 9"), ("rounds = 2", "rounds = 3"), ("[512, 1024]", "[512, 768, 1024]")]
        {
            assert!(of(&TEXT.replace(from, to)) > before, "{to}");
        }
    }
}
