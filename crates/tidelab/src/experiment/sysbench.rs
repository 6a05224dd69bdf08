//! The kind `sysbench`: sysbench's workloads on the engines of one server, rounds interleaved.

use serde::Deserialize;
use tidelab_server::error::{Error, Result};
use tidelab_server::server::analyze::Analyzed;
use tidelab_server::server::engine::Engine;
use tidelab_server::server::facts::ServerFacts;
use tidelab_server::server::settings::{self, Setting};
use tidelab_server::server::{Data, Server, Wanted};
use tidelab_server::workload::sysbench::{Load, Workload};

use crate::measure::cell::Cell;
use crate::measure::experiment::{Design, Experiment, Record};
use crate::report::progress::Progress;
use crate::run::bound::{Driven, Unbounded};
use crate::run::server_files::{keep_telemetry, note_server, note_status};
use crate::run::Paths;
use crate::run::{self, Axis, Better, CellId, Folder, Group, Metric, Role, Run, Series};

/// What the file says.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    engines: Vec<Engine>,
    workloads: Vec<Workload>,
    rounds: u32,
    threads: u32,
    tables: u32,
    rows: u64,
    warm_up_s: u32,
    /// Seconds at most until the rates are steady; not there: the warm-up is fixed.
    #[serde(default)]
    warm_up_limit_s: u32,
    time_s: u32,
    /// Seconds of updates right before each workload that only reads.
    update_s: u32,
    settle_s: u32,
    cache_mb: u64,
}

/// Measures.
pub struct Conductor<'a> {
    design: Design,
    settings: Vec<Setting>,
    paths: Paths<'a>,
    server: Option<Server>,
}

impl<'a> Conductor<'a> {
    /// For these options; the run gets its axes and metrics.
    pub fn open(options: Options, paths: Paths<'a>, run: &mut Run) -> Result<Conductor<'a>> {
        if options.engines.is_empty()
            || options.workloads.is_empty()
            || options.rounds == 0
            || options.threads == 0
        {
            return Err(Error::Usage(format!(
                "{}: engines, workloads, rounds and threads must be there and more than 0",
                run.name
            )));
        }
        let design = Design {
            // Always in the order that keeps reads before what changes the number of rows.
            workloads: Workload::ALL.into_iter().filter(|w| options.workloads.contains(w)).collect(),
            engines: options.engines,
            rounds: options.rounds,
            load: Load {
                tables: options.tables,
                rows: options.rows,
                threads: options.threads,
                warm_up_s: options.warm_up_s,
                time_s: options.time_s,
            },
            warm_up_limit_s: options.warm_up_limit_s,
            update_s: options.update_s,
            settle_s: options.settle_s,
        };
        let axis = |name: &str, title: &str, role, values| Axis {
            name: name.to_string(),
            title: title.to_string(),
            role,
            values,
        };
        run.axes = vec![
            axis(
                "engine",
                "Engine",
                Role::Competitor,
                design.engines.iter().map(Engine::to_string).collect(),
            ),
            axis(
                "workload",
                "Workload",
                Role::Category,
                design.workloads.iter().map(Workload::to_string).collect(),
            ),
        ];
        run.reference = design.engines.iter().find(|e| **e == Engine::InnoDb).map(Engine::to_string);
        run.metrics = metrics();
        let settings = settings::comparison(&design.engines, options.cache_mb, design.load.threads + 20);
        Ok(Conductor { design, settings, paths, server: None })
    }

    fn start(&self, run: &mut Run, folder: &Folder) -> Result<Server> {
        let wanted = Wanted {
            allocator: None,
            prefix: self.paths.prefix,
            engines: &self.design.engines,
            plugin: Some(self.paths.plugin),
            directory: &self.paths.data.join("server"),
            data: Data::Empty,
            settings: &self.settings,
        };
        let server = Server::start(&wanted, self.paths.interrupt)?;
        let facts =
            ServerFacts::new(&self.paths.prefix.to_string_lossy(), &self.settings, server.variables());
        run.servers.insert("server".to_string(), facts);
        note_server(run, folder.path(), "server", &server)?;
        Ok(server)
    }
}

fn id(engine: Engine, workload: Workload, round: u32) -> CellId {
    CellId::new([("engine", engine.to_string()), ("workload", workload.to_string())], round)
}

impl run::Conductor for Conductor<'_> {
    fn groups(&self) -> Vec<Group> {
        let each = |round| {
            let pairs =
                self.design.workloads.iter().flat_map(|w| self.design.engines.iter().map(move |e| (e, w)));
            pairs.map(move |(e, w)| id(*e, *w, round)).collect()
        };
        (1..=self.design.rounds)
            .map(|round| Group { title: format!("round {round}"), cells: each(round) })
            .collect()
    }

    fn measure(&mut self, group: &Group, run: &mut Run, folder: &mut Folder) -> Result<()> {
        let Some(round) = group.cells.first().map(|id| id.round) else { return Ok(()) };
        let mut server = match self.server.take() {
            Some(server) => server,
            None => self.start(run, folder)?,
        };
        let mut progress = Progress::of_round(&self.design, round);
        let experiment = Experiment::new(&self.design, &mut server, self.paths.interrupt, &mut progress);
        let record = experiment.with_telemetry().rounds(round..=round);
        progress.close();
        if let Some(why) = record.ended_early {
            self.paths.interrupt.check()?;
            return Err(Error::Load { what: format!("round {round}"), message: why });
        }
        note_circumstances(run, &record);
        for cell in &record.cells {
            let id = id(cell.engine, cell.workload, round);
            let making = folder.begin(&id)?;
            let mut kept = kept(cell, &id, &making)?;
            kept.files = note_status(&server, cell.engine, &making)?;
            folder.finish(kept)?;
        }
        self.server = Some(server);
        Ok(())
    }

    fn rules(&self) -> Vec<(String, String)> {
        vec![("comparison.toml".to_string(), settings::COMPARISON.to_string())]
    }

    fn unbounded(&self) -> Vec<Unbounded> {
        let of = |w: &Workload| {
            Unbounded::new([("workload", w.to_string())], Driven::Sysbench(*w), self.design.load.threads)
        };
        self.design.workloads.iter().map(of).collect()
    }

    fn close(&mut self) -> Result<()> {
        self.server.take().map_or(Ok(()), |server| server.stop(false))
    }
}

/// Says in a run which engines' tables got statistics after their load, and which runs on them did not
/// become steady.
pub(super) fn note_circumstances(run: &mut Run, record: &Record) {
    for made in &record.analyses {
        run.note(Analyzed::note(made.engine.name()));
    }
    for cell in record.cells.iter().filter(|cell| cell.warm_up.is_unsteady()) {
        let (workload, engine, round) = (cell.workload, cell.engine, cell.round);
        run.note(format!(
            "{workload} on {engine}, round {round}: not steady after {:.0} s of warm-up",
            cell.warm_up.seconds
        ));
    }
}

/// A measured cell in the form in which runs are kept.
pub(super) fn kept(cell: &Cell, id: &CellId, folder: &std::path::Path) -> Result<run::Cell> {
    let mut kept = run::Cell::new(id.clone(), u64::from(cell.seed));
    kept.failures.clone_from(&cell.failures);
    kept.figure("warm_up_s", cell.warm_up.seconds);
    if let Some(f) = &cell.figures {
        for (name, value) in [
            ("transactions_per_s", f.transactions_per_s),
            ("statements_per_s", f.statements_per_s),
            ("p50_ms", f.p50_ms),
            ("p95_ms", f.p95_ms),
            ("p99_ms", f.p99_ms),
            ("average_ms", f.average_ms),
            ("max_ms", f.max_ms),
            ("retried_errors", f.retried_errors as f64),
            ("server_cpu_us", f.server_cpu_us),
            ("after_cpu_us", f.after_cpu_us),
            ("other_cpus", f.other_cpus),
            ("resident_bytes", f.resident_bytes as f64),
            ("written_bytes", f.written_bytes as f64),
            ("data_bytes", f.space.data_bytes as f64),
            ("log_bytes", f.space.log_bytes as f64),
        ] {
            kept.figure(name, value);
        }
    }
    let mut series = Series::new([
        "transactions_per_s",
        "statements_per_s",
        "p95_ms",
        "errors_per_s",
        "server_cpus",
        "resident_bytes",
    ]);
    series.rows = cell
        .seconds
        .iter()
        .map(|s| {
            vec![
                s.at_s,
                s.transactions_per_s,
                s.statements_per_s,
                s.p95_ms,
                s.errors_per_s,
                s.server_cpus,
                s.resident_bytes as f64,
            ]
        })
        .collect();
    series.write(&folder.join("seconds.csv"))?;
    kept.series.push("seconds.csv".to_string());
    keep_telemetry(&mut kept, cell.telemetry.as_ref(), folder)?;
    Ok(kept)
}

/// What sysbench cells have; other kinds that run sysbench take the same.
pub fn metrics() -> Vec<Metric> {
    use Better::{Higher, Lower, Neither};
    vec![
        Metric::main("transactions_per_s", "Transactions", "1/s", Higher),
        Metric::main("p99_ms", "99th percentile", "ms", Lower),
        Metric::main("server_cpu_us", "Server CPU for a statement", "us", Lower),
        Metric::main("data_bytes", "Files", "B", Lower),
        Metric::detail("statements_per_s", "Statements", "1/s", Higher),
        Metric::detail("p50_ms", "Median latency", "ms", Lower),
        Metric::detail("p95_ms", "95th percentile", "ms", Lower),
        Metric::detail("average_ms", "Mean latency", "ms", Lower),
        Metric::detail("max_ms", "Greatest latency", "ms", Lower),
        Metric::detail("retried_errors", "Retried errors", "", Lower),
        Metric::detail("after_cpu_us", "CPU after the load, for a statement", "us", Lower),
        Metric::detail("other_cpus", "CPUs of others", "CPUs", Neither),
        Metric::detail("resident_bytes", "Resident size of the server", "B", Lower),
        Metric::detail("written_bytes", "Written to the device", "B", Lower),
        Metric::detail("log_bytes", "Logs", "B", Neither),
        Metric::detail("warm_up_s", "Warm-up", "s", Neither),
    ]
}
