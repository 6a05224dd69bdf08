//! The kind `sweep`: one variable over a list of values, with one workload. It measures time and peak
//! memory.
//!
//! ```toml
//! engines = ["TidesDB"]
//! rounds = 3
//! rows = 1_000_000
//! cache_mb = 256
//!
//! [[sweep]]                                # or one [sweep]
//! variable = "rows_per_transaction"        # or `threads`, `rows`, or a variable of the server
//! values = [100, 1000, 10_000]
//! workload = "insert_select"               # or `add_index`, or one of sysbench's
//! ```
//!
//! Each measurement has a server of its own, started on a copy of tables filled once. Nothing of an earlier
//! measurement is left in memory, on disk or to be compacted.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tidelab_server::error::{io_error, Error, Result};
use tidelab_server::server::analyze::{self, Analyzed};
use tidelab_server::server::engine::Engine;
use tidelab_server::server::session::Address;
use tidelab_server::server::settings::{self, bytes, setting, Setting};
use tidelab_server::server::{Data, Server};
use tidelab_server::telemetry::disk;
use tidelab_server::telemetry::idle;
use tidelab_server::telemetry::peak::Peak;
use tidelab_server::telemetry::process::process_use;
use tidelab_server::telemetry::recorder::Recorder;
use tidelab_server::workload::copying::{self, Copying};
use tidelab_server::workload::sysbench::{Load, Workload as Sysbench};

use super::sysbench::{kept, round};
use crate::measure::fatal;
use crate::measure::plan::rotated;
use crate::measure::sysbench::figures::metrics as metrics_of_sysbench;
use crate::measure::sysbench::Design;
use crate::run::bound::{Driven, Unbounded};
use crate::run::server_files::{keep_telemetry, note_server, note_status};
use crate::run::{self, Axis, Better, Cell, CellId, Folder, Group, Metric, Paths, Role, Run, Series};

/// The options of the file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// The competitors. A variable of one engine (`tidesdb_...`) is swept on this one alone.
    pub engines: Vec<Engine>,
    /// Rounds: each value once in each.
    pub rounds: u32,
    /// Rows of a table.
    pub rows: u64,
    /// The engines' caches in megabytes.
    pub cache_mb: u64,
    /// Clients of sysbench's workloads.
    #[serde(default = "eight")]
    pub threads: u32,
    /// Tables of sysbench's workloads.
    #[serde(default = "one")]
    pub tables: u32,
    /// Measured seconds of sysbench's workloads, and seconds before them.
    #[serde(default = "ten")]
    pub time_s: u32,
    /// See `time_s`.
    #[serde(default)]
    pub warm_up_s: u32,
    /// Seconds at most to wait until the server is idle, before and after.
    #[serde(default = "five")]
    pub settle_s: u32,
    /// Further variables of the servers, at every value.
    #[serde(default)]
    pub set: std::collections::BTreeMap<String, String>,
    /// The variables and their values.
    pub sweep: OneOrMany,
}

fn one() -> u32 {
    1
}

fn five() -> u32 {
    5
}

fn eight() -> u32 {
    8
}

fn ten() -> u32 {
    10
}

/// `[sweep]` or several `[[sweep]]`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum OneOrMany {
    /// One.
    One(Sweep),
    /// Several, one after the other in each round.
    Many(Vec<Sweep>),
}

/// A variable, its values, and the load for each of them.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sweep {
    /// `rows_per_transaction` (of `insert_select`), `threads` (of sysbench), `rows`, or a variable of the
    /// server.
    pub variable: String,
    /// Numbers, or sizes as `64M`, or words.
    pub values: Vec<toml::Value>,
    /// `insert_select`, `add_index`, or a workload of sysbench.
    pub workload: String,
}

/// The work at each value of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Copying(Copying),
    Sysbench(Sysbench),
}

/// A sweep, checked.
#[derive(Clone, Debug)]
struct Checked {
    variable: String,
    /// Each as it stands in an option file, and as a label.
    values: Vec<(String, String)>,
    workload: Work,
    /// The value of the label `workload` in cells.
    name: String,
}

/// Variables of the laboratory's client, not of the server.
const OF_CLIENT: [&str; 3] = ["rows_per_transaction", "threads", "rows"];

impl Checked {
    fn of(sweep: &Sweep) -> std::result::Result<Checked, String> {
        let workload = match sweep.workload.as_str() {
            "insert_select" => Work::Copying(Copying::InsertSelect),
            "add_index" => Work::Copying(Copying::AddIndex),
            name => Work::Sysbench(name.parse().map_err(|_| {
                format!("workload '{name}': insert_select, add_index and sysbench's workloads are known")
            })?),
        };
        let fits = match sweep.variable.as_str() {
            "rows_per_transaction" => workload == Work::Copying(Copying::InsertSelect),
            "threads" => matches!(workload, Work::Sysbench(_)),
            _ => true,
        };
        if !fits {
            return Err(format!(
                "variable '{}' says nothing of the workload {}",
                sweep.variable, sweep.workload
            ));
        }
        if sweep.values.is_empty() {
            return Err(format!("variable '{}' has no values", sweep.variable));
        }
        let mut values = Vec::new();
        for value in &sweep.values {
            let text = match value {
                toml::Value::String(text) => text.clone(),
                toml::Value::Integer(number) => number.to_string(),
                toml::Value::Float(number) => number.to_string(),
                toml::Value::Boolean(on) => if *on { "ON" } else { "OFF" }.to_string(),
                other => return Err(format!("{} = {other}: a value is a number or a word", sweep.variable)),
            };
            let label = bytes(&text).map_or(text.clone(), |n| n.to_string());
            let of_client = OF_CLIENT.contains(&sweep.variable.as_str());
            if of_client && text.parse::<u64>().ok().filter(|n| *n > 0).is_none() {
                return Err(format!("{} = {text}: it is to be a number above 0", sweep.variable));
            }
            if values.iter().any(|(_, known)| *known == label) {
                return Err(format!("{} = {text} is there twice", sweep.variable));
            }
            values.push((text, label));
        }
        let (variable, workload_name) = (&sweep.variable, &sweep.workload);
        Ok(Checked {
            variable: variable.clone(),
            values,
            workload,
            name: format!("{workload_name} by {variable}"),
        })
    }

    /// The measured engines: the one with the variable, or all.
    fn engines(&self, all: &[Engine]) -> Vec<Engine> {
        let its = [("tidesdb_", Engine::TidesDb), ("innodb_", Engine::InnoDb), ("rocksdb_", Engine::RocksDb)];
        let only = its.iter().find(|(start, _)| self.variable.starts_with(start)).map(|(_, engine)| *engine);
        all.iter().copied().filter(|e| only.is_none_or(|only| only == *e)).collect()
    }
}

/// Measures.
pub struct Conductor<'a> {
    options: Options,
    sweeps: Vec<Checked>,
    paths: Paths<'a>,
}

/// One measurement.
struct Point<'s> {
    sweep: &'s Checked,
    engine: Engine,
    /// In an option file, or of the client.
    value: &'s str,
    round: u32,
}

impl Point<'_> {
    /// A number of the client's, possibly varied by this sweep.
    fn number(&self, variable: &str, otherwise: u64) -> u64 {
        if self.sweep.variable == variable {
            self.value.parse().unwrap_or(otherwise)
        } else {
            otherwise
        }
    }
}

impl<'a> Conductor<'a> {
    /// For these options; the run gets its axes and metrics. Errors: a senseless sweep.
    pub fn open(options: Options, paths: Paths<'a>, run: &mut Run) -> Result<Conductor<'a>> {
        let bad = |what: String| Error::Usage(format!("{}: {what}", run.name));
        let sweeps = match &options.sweep {
            OneOrMany::One(sweep) => std::slice::from_ref(sweep),
            OneOrMany::Many(sweeps) => sweeps.as_slice(),
        };
        let sweeps: Vec<Checked> =
            sweeps.iter().map(Checked::of).collect::<std::result::Result<_, _>>().map_err(bad)?;
        if options.engines.is_empty() || options.rounds == 0 || options.rows == 0 || options.threads == 0 {
            return Err(bad("engines, rounds, rows and threads must be there and more than 0".to_string()));
        }
        if let Some(idle) = sweeps.iter().find(|s| s.engines(&options.engines).is_empty()) {
            return Err(bad(format!("no engine has the variable {}", idle.variable)));
        }
        if sweeps.is_empty() {
            return Err(bad("nothing is swept".to_string()));
        }
        let mut values: Vec<String> =
            sweeps.iter().flat_map(|s| s.values.iter().map(|(_, label)| label.clone())).collect();
        let numbers = values.iter().all(|v| v.parse::<f64>().is_ok());
        if numbers {
            values
                .sort_by(|a, b| a.parse::<f64>().unwrap_or(0.0).total_cmp(&b.parse::<f64>().unwrap_or(0.0)));
        }
        let mut seen = std::collections::BTreeSet::new();
        values.retain(|value| seen.insert(value.clone()));
        let title = match sweeps.as_slice() {
            [only] => only.variable.clone(),
            _ => "Value".to_string(),
        };
        let role = if numbers { Role::Number } else { Role::Category };
        let names: Vec<&str> = sweeps.iter().map(|s| s.name.as_str()).collect();
        run.axes = vec![
            Axis::new("engine", "Engine", Role::Competitor, &options.engines),
            Axis::new("workload", "Workload", Role::Category, &names),
            Axis::new("value", &title, role, &values),
        ];
        run.reference = None;
        run.metrics = metrics(&sweeps);
        Ok(Conductor { options, sweeps, paths })
    }

    fn point(&self, id: &CellId) -> Option<Point<'_>> {
        let sweep = self.sweeps.iter().find(|s| s.name == id.label("workload"))?;
        let (value, _) = sweep.values.iter().find(|(_, label)| *label == id.label("value"))?;
        let engine = id.label("engine").parse().ok()?;
        Some(Point { sweep, engine, value, round: id.round })
    }

    /// The settings of a server: those of the comparison, those of the file, the swept value.
    fn settings(&self, point: &Point<'_>) -> Vec<Setting> {
        let connections = self.options.threads.max(point.number("threads", 1) as u32) + 20;
        let mut all = settings::comparison(&[point.engine], self.options.cache_mb, connections);
        // A bound on all memory that follows the cache would end a sweep of its parts.
        all.retain(|s| s.name != "tidesdb_max_memory_usage");
        let of_server = !OF_CLIENT.contains(&point.sweep.variable.as_str());
        let swept = of_server.then(|| (point.sweep.variable.clone(), point.value.to_string()));
        let further = self.options.set.iter().map(|(n, v)| (n.clone(), v.clone())).filter(|(name, _)| {
            let others = ["tidesdb_", "innodb_", "rocksdb_"];
            let its = match point.engine {
                Engine::TidesDb => "tidesdb_",
                Engine::InnoDb => "innodb_",
                Engine::RocksDb => "rocksdb_",
            };
            name.starts_with(its)
                || name.starts_with("innodb_")
                || !others.iter().any(|o| name.starts_with(o))
        });
        for (name, value) in further.chain(swept) {
            all.retain(|s| s.name != name.as_str());
            all.push(setting(name, value));
        }
        all
    }

    /// Filled tables to start servers on; made when they are not there.
    fn filled(&self, engine: Engine, rows: u64) -> Result<PathBuf> {
        let folder = self.paths.data.join(format!("filled-{engine}-{rows}"));
        let whole = folder.join("whole");
        if whole.exists() {
            return Ok(folder);
        }
        eprintln!("  filling {rows} rows on {engine}");
        let connections = self.options.threads + 20;
        let settings = settings::comparison(&[engine], self.options.cache_mb, connections);
        let server = self.paths.start(&[engine], &settings, Data::Empty)?;
        copying::fill(server.client(), engine, rows, self.paths.interrupt)?;
        let analyzed = analyze::through_client(server.client(), engine.database())?;
        eprintln!("  ANALYZE TABLE on {engine}: {:.1} s", analyzed.seconds);
        self.settle(&server)?;
        server.freeze(&folder)?;
        std::fs::write(&whole, "").map_err(io_error("cannot write", &whole))?;
        Ok(folder)
    }

    fn settle(&self, server: &Server) -> Result<()> {
        let limit = Duration::from_secs(u64::from(self.options.settle_s));
        idle::wait(server.pid(), limit, self.paths.interrupt)
    }

    /// `insert_select` or `add_index` on a copy of the filled tables.
    fn copying(
        &self,
        point: &Point<'_>,
        work: Copying,
        id: &CellId,
        run: &mut Run,
        folder: &mut Folder,
    ) -> Result<()> {
        let rows = point.number("rows", self.options.rows);
        let filled = self.filled(point.engine, rows)?;
        run.note(Analyzed::note(point.engine.name()));
        let mut server = self.paths.start(&[point.engine], &self.settings(point), Data::Copy(&filled))?;
        let making = folder.begin(id)?;
        self.note(&server, point, run, folder)?;
        self.settle(&server)?;
        let mut cell = Cell::new(id.clone(), 0);
        let batch = point.number("rows_per_transaction", rows);
        copying::prepare(server.client(), work, point.engine)?;
        let (peak, before) = (Peak::begin(server.pid()), process_use(server.pid()));
        let address = Address::root(server.socket());
        let recorder = Recorder::of_server(Some(server.pid()), server.directory(), &address)?;
        let start = Instant::now();
        let mut series = Series::new(["rows", "resident_bytes"]);
        let pid = server.pid();
        let done =
            copying::run(server.socket(), work, point.engine, rows, batch, self.paths.interrupt, |so_far| {
                let resident = process_use(pid).resident_bytes as f64;
                series.rows.push(vec![start.elapsed().as_secs_f64(), so_far as f64, resident]);
            });
        let wall = start.elapsed().as_secs_f64();
        let (used, highest) = (process_use(pid), peak.so_far());
        let telemetry = recorder.stop().series;
        match done {
            Ok(()) => {
                self.settle(&server)?;
                let after = process_use(pid);
                let space = disk::of_engine(server.directory(), point.engine);
                for (name, value) in [
                    ("wall_s", wall),
                    ("rows_per_s", rows as f64 / wall),
                    ("peak_bytes", highest as f64),
                    ("grown_bytes", highest.saturating_sub(peak.at_begin) as f64),
                    ("server_cpu_s", used.cpu_s - before.cpu_s),
                    ("after_cpu_s", after.cpu_s - used.cpu_s),
                    ("written_bytes", after.written_bytes.saturating_sub(before.written_bytes) as f64),
                    ("data_bytes", space.data_bytes as f64),
                    ("log_bytes", space.log_bytes as f64),
                ] {
                    cell.figure(name, value);
                }
                if !peak.begun_anew {
                    cell.failures.push("the kernel's peak could not be begun anew".to_string());
                }
                cell.failures.extend(copying::check(server.client(), work, point.engine, rows)?);
            }
            Err(error) => {
                cell.failures.push(error.to_string());
                server.check_alive()?;
                fatal(error)?;
            }
        }
        series.write(&making.join("progress.csv"))?;
        cell.series.push("progress.csv".to_string());
        keep_telemetry(&mut cell, Some(&telemetry), &making)?;
        cell.files = note_status(&server, point.engine, &making)?;
        folder.finish(cell)?;
        server.stop(false)
    }

    /// One of sysbench's workloads on tables made for it.
    fn sysbench(
        &self,
        point: &Point<'_>,
        work: Sysbench,
        id: &CellId,
        run: &mut Run,
        folder: &mut Folder,
    ) -> Result<()> {
        let mut server = self.paths.start(&[point.engine], &self.settings(point), Data::Empty)?;
        self.note(&server, point, run, folder)?;
        let design = Design {
            engines: vec![point.engine],
            workloads: vec![work],
            rounds: self.options.rounds,
            load: Load {
                tables: self.options.tables,
                rows: point.number("rows", self.options.rows),
                threads: point.number("threads", u64::from(self.options.threads)) as u32,
                warm_up_s: self.options.warm_up_s,
                time_s: self.options.time_s,
            },
            warm_up_limit_s: 0,
            update_s: 0,
            settle_s: self.options.settle_s,
        };
        // From the start of the server on: tables are made and filled in that while too.
        let peak = Peak::begin(server.pid());
        for measured in round(&design, point.round, &mut server, self.paths, run)? {
            let mut cell = kept(&measured, id, &server, run, folder)?;
            if !measured.cell.figures.is_empty() {
                cell.figure("peak_bytes", peak.so_far() as f64);
            }
            folder.finish(cell)?;
        }
        server.stop(false)
    }

    /// Notes the server's facts, once for each engine and value of a server's variable.
    fn note(&self, server: &Server, point: &Point<'_>, run: &mut Run, folder: &Folder) -> Result<()> {
        let name = match OF_CLIENT.contains(&point.sweep.variable.as_str()) {
            true => point.engine.to_string(),
            false => format!("{} {}={}", point.engine, point.sweep.variable, point.value),
        };
        if run.servers.contains_key(&name) {
            return Ok(());
        }
        let settings = self.settings(point);
        let facts = self.paths.facts(&settings, server);
        note_server(run, folder.path(), &name.replace([' ', '='], "-"), server)?;
        run.servers.insert(name, facts);
        Ok(())
    }
}

impl run::Conductor for Conductor<'_> {
    fn groups(&self) -> Vec<Group> {
        let mut groups = Vec::new();
        for round in 1..=self.options.rounds {
            for sweep in &self.sweeps {
                // Values and engines take turns: what drifts over a round, drifts for all.
                for (_, label) in rotated(&sweep.values, round - 1) {
                    for engine in rotated(&sweep.engines(&self.options.engines), round - 1) {
                        let labels = [
                            ("engine", engine.to_string()),
                            ("workload", sweep.name.clone()),
                            ("value", label.clone()),
                        ];
                        let title = format!("round {round}: {}, {label} on {engine}", sweep.name);
                        groups.push(Group { title, cells: vec![CellId::new(labels, round)] });
                    }
                }
            }
        }
        groups
    }

    fn measure(&mut self, group: &Group, run: &mut Run, folder: &mut Folder) -> Result<()> {
        for id in &group.cells {
            let Some(point) = self.point(id) else {
                return Err(Error::Usage(format!("{}: it is not of this design", id.folder())));
            };
            match point.sweep.workload {
                Work::Copying(work) => self.copying(&point, work, id, run, folder)?,
                Work::Sysbench(work) => self.sysbench(&point, work, id, run, folder)?,
            }
        }
        Ok(())
    }

    fn rules(&self) -> Vec<(String, String)> {
        vec![("comparison.toml".to_string(), settings::COMPARISON.to_string())]
    }

    fn unbounded(&self) -> Vec<Unbounded> {
        let mut all = Vec::new();
        for sweep in &self.sweeps {
            let Work::Sysbench(workload) = sweep.workload else { continue };
            if sweep.variable != "threads" {
                let labels = [("workload", sweep.name.clone())];
                all.push(Unbounded::new(labels, Driven::Sysbench(workload), self.options.threads));
                continue;
            }
            for (value, label) in &sweep.values {
                let Ok(clients) = value.parse() else { continue };
                let labels = [("workload", sweep.name.clone()), ("value", label.clone())];
                all.push(Unbounded::new(labels, Driven::Sysbench(workload), clients));
            }
        }
        all
    }

    fn close(&mut self) -> Result<()> {
        for engine in &self.options.engines {
            let start = format!("filled-{engine}-");
            for entry in std::fs::read_dir(self.paths.data).into_iter().flatten().flatten() {
                // After an interrupt they are made anew: the server that resumes may be another version.
                if entry.file_name().to_string_lossy().starts_with(&start) {
                    let path = entry.path();
                    std::fs::remove_dir_all(&path).map_err(io_error("cannot remove", &path))?;
                }
            }
        }
        Ok(())
    }
}

/// The figures of the cells of these sweeps.
fn metrics(sweeps: &[Checked]) -> Vec<Metric> {
    use Better::{Higher, Lower};
    let any = |copying: bool| sweeps.iter().any(|s| matches!(s.workload, Work::Copying(_)) == copying);
    let mut all = Vec::new();
    if any(true) {
        all.push(Metric::main("wall_s", "Time", "s", Lower));
    }
    all.push(Metric::main("peak_bytes", "Peak resident memory of the server", "B", Lower));
    if any(true) {
        all.extend([
            Metric::detail("grown_bytes", "Peak above the start", "B", Lower),
            Metric::main("server_cpu_s", "Server CPU", "s", Lower),
            Metric::detail("after_cpu_s", "Server CPU after it, until idle", "s", Lower),
            Metric::detail("rows_per_s", "Rows", "1/s", Higher),
        ]);
    }
    let of_sysbench = metrics_of_sysbench();
    let shared = ["data_bytes", "log_bytes", "written_bytes"];
    all.extend(of_sysbench.into_iter().filter(|m| any(false) || shared.contains(&m.name.as_str())));
    all
}

#[cfg(test)]
#[path = "sweep_test.rs"]
mod tests;
