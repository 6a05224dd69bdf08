//! The measurement of one workload on a running server.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tidelab_server::error::{io_error, Error, Result};
use tidelab_server::server::engine::Engine;
use tidelab_server::server::session::{Address, Session};
use tidelab_server::server::Server;
use tidelab_server::telemetry::disk;
use tidelab_server::telemetry::idle;
use tidelab_server::telemetry::peak::Peak;
use tidelab_server::telemetry::process::process_use;
use tidelab_server::telemetry::recorder::Recorder;
use tidelab_server::workload::iibench::counts::Group as Operations;
use tidelab_server::workload::iibench::dsn::Dsn;
use tidelab_server::workload::iibench::queue::{self, Changes, Keys as QueueKeys, Task};
use tidelab_server::workload::iibench::runner::Runner;
use tidelab_server::workload::sysbench::{Extra, Load, Run as SysbenchRun, Sysbench, Target, Workload};
use tidelab_server::workload::tpcc::Scale;

use super::figures::{for_each, known_only, reads_for_each, RATE};
use super::{Conductor, Family, RandomKeys, BY_PARETO};
use crate::experiment::iibench::cells;
use crate::measure::check;
use crate::measure::fatal;
use crate::measure::sysbench::figures::{seconds, SECONDS};
use crate::measure::tpcc::run::{run_on, Target as TpccTarget};
use crate::measure::tpcc::{measurement, Design as TpccDesign};
use crate::report::progress::tpcc::Progress;
use crate::report::sparks::Sparks;
use crate::run::server_files::{keep_telemetry, note_status};
use crate::run::{Cell, CellId, Measured, Paths, Run};

/// The script of random keys.
pub(super) const SCRIPT: &str = include_str!("../../../lua/keys.lua");
/// The table of the insert benchmark.
const TABLE: &str = "purchases_index";

/// The script's option for the size of values.
pub(super) fn value_option(keys: &RandomKeys) -> String {
    format!("--value_bytes={}", keys.value_bytes)
}

impl Conductor<'_> {
    /// The script of random keys, as a file.
    pub(super) fn script(&self) -> Result<PathBuf> {
        let path = self.paths.data.join("keys.lua");
        fs::write(&path, SCRIPT).map_err(io_error("cannot write", &path))?;
        Ok(path)
    }

    /// Measures a cell. A failed load fails the cell. Errors: nothing more can be measured.
    pub(super) fn measure_one(
        &self,
        family: Family,
        id: &CellId,
        server: &mut Server,
        paths: Paths<'_>,
        run: &Run,
        making: &Path,
    ) -> Result<Cell> {
        let engine: Engine = id.label("engine").parse()?;
        eprintln!("  {} on {engine}", id.label("workload"));
        idle::wait(server.pid(), self.settle(), paths.interrupt)?;
        let peak = Peak::begin(server.pid());
        let measured = match family {
            Family::Tpcc => self.tpcc(id, server, run, making),
            Family::Iibench => self.iibench(id, server, making),
            _ => self.sysbench(family, id, server, run, making),
        };
        let mut cell = match measured.and_then(|cell| server.check_alive().map(|()| cell)) {
            Ok(cell) => cell,
            Err(error) => {
                self.paths.interrupt.check()?;
                let mut cell = Cell::new(id.clone(), self.options.seed);
                cell.failures.push(error.to_string());
                fatal(error)?;
                return Ok(cell);
            }
        };
        cell.figure("resident_bytes", peak.so_far() as f64);
        cell.files.extend(note_status(server, engine, making)?);
        known_only(&mut cell, &run.metrics);
        let rate = cell.figures.get(RATE).copied().unwrap_or_default();
        let resident = cell.figures.get("resident_bytes").copied().unwrap_or_default();
        eprintln!("    {rate:.0}/s, {:.0} MB resident", resident / 1e6);
        Ok(cell)
    }

    fn settle(&self) -> Duration {
        Duration::from_secs(u64::from(self.options.settle_s))
    }

    /// sysbench's own scripts, and the script of random keys.
    fn sysbench(
        &self,
        family: Family,
        id: &CellId,
        server: &Server,
        run: &Run,
        making: &Path,
    ) -> Result<Cell> {
        let engine: Engine = id.label("engine").parse()?;
        let options = &self.options;
        let workload = id.label("workload");
        let seed = options.seed as u32 + id.round;
        let keys = match family {
            Family::Keys => options.keys.as_ref(),
            Family::Values => options.values.as_ref(),
            _ => None,
        };
        let (tables, rows) = keys.map_or((options.oltp.tables, options.oltp.rows), |keys| (1, keys.rows));
        let load = Load {
            tables,
            rows,
            threads: options.threads,
            warm_up_s: options.warm_up_s,
            time_s: options.time_s,
        };
        let sysbench =
            Sysbench { socket: server.socket(), server: server.pid(), load, interrupt: self.paths.interrupt };
        let address = Address::root(server.socket());
        let recorder = Recorder::of_server(Some(server.pid()), server.directory(), &address)?;
        let (script, what, more) = match keys {
            None => {
                let (name, keys) = match workload.strip_suffix(BY_PARETO) {
                    Some(name) => (name, "pareto"),
                    None => (workload, "uniform"),
                };
                let script = format!("oltp_{}", name.parse::<Workload>()?);
                let what = format!("sysbench {workload} on {engine}");
                (script, what, vec![format!("--rand-type={keys}")])
            }
            Some(keys) => {
                let operation = workload.rsplit(' ').next().unwrap_or_default();
                let more = vec![
                    value_option(keys),
                    format!("--op={operation}"),
                    // A new key that is there already is drawn anew.
                    "--mysql-ignore-errors=1213,1020,1205,1062".to_string(),
                ];
                let script = self.script()?.to_string_lossy().into_owned();
                (script, format!("{workload} on {engine}"), more)
            }
        };
        let target = Target { script: &script, database: engine.database(), engine: engine.name() };
        let extra = Extra { options: &more, log: None };
        let ran = sysbench.run_with(target, &what, seed, extra, |_| {});
        let telemetry = recorder.stop().series;
        let ran = ran?;
        idle::wait(server.pid(), self.settle(), self.paths.interrupt)?;
        let mut measured = Measured::new(id.clone(), u64::from(seed), SECONDS);
        measured.seconds.rows = seconds(&ran);
        measured.warm_up.seconds = f64::from(options.warm_up_s);
        fill(&mut measured.cell, &ran, server, engine);
        let end_s = f64::from(options.warm_up_s + options.time_s);
        reads_for_each(&mut measured.cell, &telemetry, measured.warm_up.seconds, end_s);
        measured.telemetry = Some(telemetry);
        measured.kept(id, &run.metrics, making)
    }

    /// The design of TPC-C for an engine.
    pub(super) fn tpcc_design(&self, engine: Engine) -> Option<TpccDesign> {
        let tpcc = self.options.tpcc.as_ref()?;
        Some(TpccDesign {
            engines: vec![engine],
            rounds: self.options.rounds,
            scale: Scale::full(tpcc.warehouses),
            users: tpcc.users,
            build_users: tpcc.build_users,
            ramp_up_s: tpcc.ramp_up_s,
            ramp_up_limit_s: 0,
            duration_s: tpcc.duration_s.max(1),
            settle_s: self.options.settle_s,
            seed: self.options.seed,
            options: None,
            memory_scale: 1.0,
        })
    }

    fn tpcc(&self, id: &CellId, server: &Server, run: &Run, making: &Path) -> Result<Cell> {
        let engine: Engine = id.label("engine").parse()?;
        let Some(design) = self.tpcc_design(engine) else { return Ok(Cell::new(id.clone(), 0)) };
        let address = Address::root(server.socket());
        let directory = server.directory().to_path_buf();
        let target = TpccTarget {
            address: &address,
            process: Some(server.pid()),
            engine,
            database: engine.database(),
            recorded: Some(&directory),
        };
        let mut measured = measurement(engine, id.round, design.seed + u64::from(id.round));
        let mut progress = Progress::of_one(&design, engine.name(), Sparks::default());
        let space = || disk::of_engine(&directory, engine);
        let ran = run_on(&target, &design, &mut measured, self.paths.interrupt, &mut progress, space);
        progress.close();
        ran?;
        let of = |name: &str| measured.cell.figures.get(name).copied().unwrap_or(f64::NAN);
        let (tpm, seconds) = (of("tpm"), of("seconds"));
        let transactions = tpm / 60.0 * seconds;
        let pairs = [
            (RATE, tpm / 60.0),
            ("p99_ms", of("NEWORD_p99_ms")),
            ("p50_ms", of("NEWORD_p50_ms")),
            ("max_ms", of("NEWORD_max_ms")),
            ("transaction_cpu_us", of("server_cpu_us")),
            ("transaction_written_bytes", of("written_bytes") / transactions),
        ];
        measured.cell.add(pairs);
        if let Some(recording) = &measured.telemetry {
            let begin_s = measured.warm_up.seconds;
            reads_for_each(&mut measured.cell, recording, begin_s, begin_s + seconds);
        }
        measured.kept(id, &run.metrics, making)
    }

    /// The load of the insert benchmark, as a task at a server's socket; none where it is not asked for.
    pub(super) fn iibench_task(&self, engine: Engine, socket: &Path, round: u32) -> Result<Option<Task>> {
        let Some(iibench) = &self.options.iibench else { return Ok(None) };
        let dsn = format!("root@unix({})/{}", socket.display(), engine.database());
        let changes = Changes { dsn: Some(Dsn::parse(&dsn).map_err(Error::Usage)?), ..Changes::default() };
        let made_with = format!("ENGINE={engine} {}", iibench.table_options).trim_end().to_string();
        let task = queue::phase(&QueueKeys::default(), None).and_then(|defaults| {
            let own = queue::phase(&iibench.load, Some(made_with))?;
            queue::task("load".to_string(), &own, &defaults, &changes)
        });
        let mut task = task.map_err(|what| Error::Usage(format!("iibench.load: {what}")))?;
        if cells::phase(&task) != "load" {
            return Err(Error::Usage(format!(
                "iibench.load is none: it is what is called {}",
                cells::phase(&task)
            )));
        }
        task.table = TABLE.to_string();
        task.seed = self.options.seed + u64::from(round);
        Ok(Some(task))
    }

    fn iibench(&self, id: &CellId, server: &Server, making: &Path) -> Result<Cell> {
        let engine: Engine = id.label("engine").parse()?;
        let Some(task) = self.iibench_task(engine, server.socket(), id.round)? else {
            return Ok(Cell::new(id.clone(), 0));
        };
        let address = Address::root(server.socket());
        let statement = format!("CREATE DATABASE {}", engine.database());
        Session::connect(&address, Duration::from_secs(60))
            .and_then(|mut session| session.run(&statement))
            .map_err(|failure| Error::Statement { statement: statement.clone(), message: failure.to_string() })?;
        let before = process_use(server.pid()).written_bytes;
        let mut runner = Runner::new(self.paths.interrupt, Some(server.pid()), self.settle())
            .with_telemetry(server.directory(), &address);
        let log = making.join(&task.log_file);
        let measured = runner.run(&task, &log, true, &mut |_| {})?;
        let mut cell = Cell::new(id.clone(), task.seed);
        cells::fill(&mut cell, &measured, Some(disk::of_engine(server.directory(), engine)), making)?;
        keep_telemetry(&mut cell, measured.telemetry.as_ref(), making)?;
        cell.files.push(task.log_file.clone());
        let outcome = &measured.outcome;
        let rows = outcome.total.group(Operations::Insert).rows as f64;
        let written = process_use(server.pid()).written_bytes.saturating_sub(before) as f64;
        let cpu_s = outcome.end.server.cpu_s - outcome.begin.server.cpu_s;
        for_each(&mut cell, rows, cpu_s, measured.after_cpu_s.unwrap_or(f64::NAN), written);
        for (name, from) in [
            (RATE, "inserts_per_s"),
            ("p99_ms", "insert_p99_ms"),
            ("p50_ms", "insert_p50_ms"),
            ("max_ms", "insert_max_ms"),
        ] {
            let value = cell.figures.get(from).copied().unwrap_or(f64::NAN);
            cell.figure(name, value);
        }
        if let Some(recording) = &measured.telemetry {
            reads_for_each(&mut cell, recording, 0.0, f64::INFINITY);
        }
        Ok(cell)
    }

    /// Faults of a family's tables after its cells: indexes against rows, CHECK TABLE. TPC-C and the insert
    /// benchmark have checks of their own.
    pub(super) fn faults(
        &self,
        family: Family,
        engine: Engine,
        server: &Server,
        done: &[Cell],
    ) -> Vec<String> {
        let trial = done.iter().any(|cell| cell.id.label(super::CACHE).ends_with('%'));
        let found = match family {
            // A trial is one run on a copy that is thrown away; the family itself comes later.
            _ if trial => return Vec::new(),
            Family::Tpcc | Family::Iibench => return Vec::new(),
            Family::Oltp => {
                check::tables(server.client(), engine, self.options.oltp.tables, None).map(|c| c.complaints)
            }
            Family::Keys | Family::Values => {
                let statement = format!("CHECK TABLE {}.random_keys", engine.database());
                server.client().query(&statement).map(|rows| {
                    let bad = rows.iter().filter(|row| row.last().is_none_or(|text| text != "OK"));
                    bad.map(|row| row.join(" ")).collect()
                })
            }
        };
        match found {
            Ok(complaints) => complaints.into_iter().map(|text| format!("afterwards: {text}")).collect(),
            Err(error) => vec![format!("afterwards: {error}")],
        }
    }
}

/// The figures of a run of sysbench after its server is idle.
fn fill(cell: &mut Cell, ran: &SysbenchRun, server: &Server, engine: Engine) {
    let report = &ran.report;
    let transactions = report.measured.transactions;
    if transactions == 0 {
        cell.failures.push("not one transaction came to its end".to_string());
    }
    if report.measured.reconnects > 0 {
        cell.failures.push(format!("{} connections were lost", report.measured.reconnects));
    }
    let after = process_use(server.pid());
    let wall = (ran.end.at - ran.begin.at).as_secs_f64().max(1e-3);
    let cpu_s = ran.end.server.cpu_s - ran.begin.server.cpu_s;
    let machine_s = ran.end.machine_cpu_s - ran.begin.machine_cpu_s;
    let written = after.written_bytes.saturating_sub(ran.begin.server.written_bytes);
    let space = disk::of_engine(server.directory(), engine);
    for_each(cell, transactions as f64, cpu_s, after.cpu_s - ran.end.server.cpu_s, written as f64);
    cell.add([
        (RATE, transactions as f64 / report.seconds().max(1e-3)),
        ("p50_ms", report.percentile(50.0)),
        ("p99_ms", report.percentile(99.0)),
        ("max_ms", report.measured.max_ms),
        ("other_cpus", ((machine_s - cpu_s - ran.client_cpu_s) / wall).max(0.0)),
        ("data_bytes", space.data_bytes as f64),
        ("log_bytes", space.log_bytes as f64),
    ]);
}
