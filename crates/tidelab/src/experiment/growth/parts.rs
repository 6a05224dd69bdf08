//! The measurement of a part: its amounts one after the other on a running server.

use std::path::Path;
use std::time::{Duration, Instant};

use tidelab_server::error::{Error, Result};
use tidelab_server::server::engine::Engine;
use tidelab_server::server::session::{Address, Session};
use tidelab_server::server::Server;
use tidelab_server::telemetry::disk;
use tidelab_server::telemetry::idle;
use tidelab_server::telemetry::peak::Peak;
use tidelab_server::workload::iibench::counts::Group as Operations;
use tidelab_server::workload::iibench::dsn::Dsn;
use tidelab_server::workload::iibench::queue::{self, Changes, Keys as QueueKeys, Task};
use tidelab_server::workload::iibench::runner::Runner;
use tidelab_server::workload::sysbench::{Extra, Load, Run as SysbenchRun, Sysbench, Target, Workload};

use super::{Conductor, Part, Windows, AMOUNT, RATE};
use crate::measure::sysbench::figures::{seconds, SECONDS};
use crate::run::{Cell, CellId, Folder, Series};

/// The table of the insert benchmark.
const TABLE: &str = "purchases_index";
/// The rows of a step of it.
const STEP: &str = "max_rows_total = 1000000";
/// Seconds of a window.
const WINDOW_S: u32 = 60;
/// The longest wait until a loaded server is idle.
const IDLE_LIMIT: Duration = Duration::from_secs(60);
/// The rows of a snapshot, read again after each window.
const SEEN: &str = "SELECT SUM(k) + SUM(CRC32(c)) FROM sbtest1 WHERE id <= 1000";

/// The tables of a load by sysbench.
#[derive(Clone, Copy)]
struct Tables {
    number: u32,
    /// Of each.
    rows: u64,
}

/// The place of a load by sysbench.
#[derive(Clone, Copy)]
struct On<'a> {
    engine: Engine,
    database: &'a str,
    server: &'a Server,
}

impl<'a> On<'a> {
    fn target(self, script: &'a str) -> Target<'a> {
        Target { script, database: self.database, engine: self.engine.name() }
    }
}

impl Conductor<'_> {
    /// The load of a million rows after those before; none where rows are not asked for.
    pub(super) fn step(&self, engine: Engine, socket: &Path, million: u32) -> Result<Option<Task>> {
        let Some(rows) = &self.options.rows else { return Ok(None) };
        let dsn = format!("root@unix({})/{}", socket.display(), engine.database());
        let changes = Changes { dsn: Some(Dsn::parse(&dsn).map_err(Error::Usage)?), ..Changes::default() };
        let made_with = format!("ENGINE={engine} {}", rows.table_options).trim_end().to_string();
        let wrong = |what: String| Error::Usage(format!("rows.load: {what}"));
        let step: QueueKeys = toml::from_str(STEP).map_err(|error| wrong(error.to_string()))?;
        let task = queue::phase(&step, None).and_then(|defaults| {
            let own = queue::phase(&rows.load, (million == 1).then_some(made_with))?;
            queue::task("load".to_string(), &own, &defaults, &changes)
        });
        let mut task = task.map_err(wrong)?;
        if task.duration.is_some() || task.writers.delete || task.queries.threads > 0 {
            return Err(wrong("a step is a million rows: no duration, no deletes, no queries".to_string()));
        }
        task.table = TABLE.to_string();
        task.seed = self.options.seed + u64::from(million);
        Ok(Some(task))
    }

    /// Measures the cells of a part; each is in the folder as soon as it is over. Errors: nothing more can be measured.
    pub(super) fn grow(
        &self,
        part: Part,
        engine: Engine,
        cells: &[CellId],
        server: &Server,
        folder: &mut Folder,
    ) -> Result<()> {
        let options = &self.options;
        match part {
            Part::Rows => self.insert(engine, cells, server, folder),
            Part::Clients => {
                let Some(clients) = &options.clients else { return Ok(()) };
                let tables = Tables { number: clients.tables, rows: clients.rows };
                let on = On { engine, database: engine.database(), server };
                self.prepare(on, tables)?;
                for id in cells {
                    let load = load(tables, amount(id), clients.warm_up_s, clients.time_s);
                    self.measure(id, on, clients.workload, load, folder, |_, _| ())?;
                }
                Ok(())
            }
            Part::Tables => {
                let Some(growing) = &options.tables else { return Ok(()) };
                for id in cells {
                    let number = amount(id);
                    let tables = Tables { number, rows: growing.rows / u64::from(number) };
                    let on = On { engine, database: engine.database(), server };
                    let prepare_s = self.prepare(on, tables)?;
                    let load = load(tables, options.threads, growing.warm_up_s, growing.time_s);
                    let note = |cell: &mut Cell, _: &SysbenchRun| cell.figure("prepare_s", prepare_s);
                    self.measure(id, on, growing.workload, load, folder, note)?;
                    server.client().query(&format!("DROP DATABASE {}", on.database))?;
                }
                Ok(())
            }
            Part::Overwrites | Part::Snapshot => match options.windows(part) {
                Some(windows) => self.windows(
                    part,
                    windows,
                    On { engine, database: engine.database(), server },
                    cells,
                    folder,
                ),
                None => Ok(()),
            },
        }
    }

    /// The insert benchmark, a million rows for each cell.
    fn insert(&self, engine: Engine, cells: &[CellId], server: &Server, folder: &mut Folder) -> Result<()> {
        server.client().query(&format!("CREATE DATABASE {}", engine.database()))?;
        // Without a wait between two steps: what a step puts off belongs to the next one.
        let mut runner = Runner::new(self.paths.interrupt, Some(server.pid()), Duration::ZERO);
        for id in cells {
            let making = folder.begin(id)?;
            let million = amount(id);
            let Some(task) = self.step(engine, server.socket(), million)? else { return Ok(()) };
            let peak = Peak::begin(server.pid());
            let is_last = cells.last() == Some(id);
            let measured = runner.run(&task, &making.join(&task.log_file), is_last, &mut |_| {})?;
            let outcome = &measured.outcome;
            let counts = outcome.total.group(Operations::Insert);
            let rows = counts.rows as f64;
            let mut cell = Cell::new(id.clone(), task.seed);
            cell.failures = measured.failures;
            cell.add([
                (RATE, rows / outcome.seconds.max(1e-3)),
                ("p99_ms", counts.latencies.within_ms(0.99)),
                ("max_ms", counts.latencies.figures().max_ms),
                ("operation_cpu_us", (outcome.end.server.cpu_s - outcome.begin.server.cpu_s) * 1e6 / rows),
            ]);
            cell.figure(
                "slowest_second",
                slowest(&measured.series.column("inserts_per_s").unwrap_or_default()),
            );
            cell.files.push(task.log_file.clone());
            keep(&mut cell, &measured.series, &making)?;
            self.finish(cell, engine, server, &peak, folder)?;
        }
        Ok(())
    }

    /// The same load window after window, under an open snapshot where the part says so.
    fn windows(
        &self,
        part: Part,
        windows: &Windows,
        on: On<'_>,
        cells: &[CellId],
        folder: &mut Folder,
    ) -> Result<()> {
        let tables = Tables { number: windows.tables, rows: windows.rows };
        self.prepare(on, tables)?;
        let mut held = match part {
            Part::Snapshot => Some(HeldSnapshot::take(on)?),
            _ => None,
        };
        let rows = f64::from(tables.number) * tables.rows as f64;
        let mut changed = 0.0;
        for id in cells {
            let load = load(tables, self.options.threads, 0, WINDOW_S);
            let note = |cell: &mut Cell, ran: &SysbenchRun| {
                changed += ran.report.measured.writes as f64;
                cell.figure("changes", changed / rows);
                cell.failures.extend(held.as_mut().and_then(HeldSnapshot::complaint));
            };
            self.measure(id, on, windows.workload, load, folder, note)?;
        }
        held.map_or(Ok(()), HeldSnapshot::release)
    }

    /// Loads tables; the seconds that it took, without the wait for what the engine puts off.
    fn prepare(&self, on: On<'_>, tables: Tables) -> Result<f64> {
        let begun = Instant::now();
        on.server.client().query(&format!("CREATE DATABASE {}", on.database))?;
        let load = load(tables, self.options.threads, 0, 1);
        self.sysbench(load, on.server).prepare_on(on.target("oltp_read_write"), self.options.seed as u32)?;
        let seconds = begun.elapsed().as_secs_f64();
        idle::wait(on.server.pid(), IDLE_LIMIT, self.paths.interrupt)?;
        Ok(seconds)
    }

    fn sysbench<'s>(&'s self, load: Load, server: &'s Server) -> Sysbench<'s> {
        Sysbench { socket: server.socket(), server: server.pid(), load, interrupt: self.paths.interrupt }
    }

    /// Measures a cell by sysbench; `note` adds to it.
    fn measure(
        &self,
        id: &CellId,
        on: On<'_>,
        workload: Workload,
        load: Load,
        folder: &mut Folder,
        note: impl FnOnce(&mut Cell, &SysbenchRun),
    ) -> Result<()> {
        let On { engine, server, .. } = on;
        let making = folder.begin(id)?;
        let seed = self.options.seed as u32 + amount(id);
        let peak = Peak::begin(server.pid());
        let script = format!("oltp_{workload}");
        let what = format!("sysbench {workload} on {engine}");
        let mut options = vec!["--rand-type=uniform".to_string()];
        if id.label(super::PART) == Part::Tables.name() {
            // Each client would prepare nine statements for each table.
            options.push("--db-ps-mode=disable".to_string());
        }
        let extra = Extra { options: &options, log: None };
        let ran = self.sysbench(load, server).run_with(on.target(&script), &what, seed, extra, |_| {})?;
        let report = &ran.report;
        let transactions = report.measured.transactions as f64;
        let mut cell = Cell::new(id.clone(), u64::from(seed));
        if transactions == 0.0 {
            cell.failures.push("not one transaction came to its end".to_string());
        }
        cell.add([
            (RATE, transactions / report.seconds().max(1e-3)),
            ("p99_ms", report.percentile(99.0)),
            ("max_ms", report.measured.max_ms),
            ("operation_cpu_us", (ran.end.server.cpu_s - ran.begin.server.cpu_s) * 1e6 / transactions),
        ]);
        let mut series = Series::new(SECONDS);
        series.rows = seconds(&ran);
        let is_measured = |row: &&Vec<f64>| row[0] > f64::from(load.warm_up_s) + 0.5;
        let rates: Vec<f64> = series.rows.iter().filter(is_measured).map(|row| row[1]).collect();
        cell.figure("slowest_second", slowest(&rates));
        note(&mut cell, &ran);
        keep(&mut cell, &series, &making)?;
        self.finish(cell, engine, server, &peak, folder)
    }

    /// Adds the sizes and puts a cell into the folder.
    fn finish(
        &self,
        mut cell: Cell,
        engine: Engine,
        server: &Server,
        peak: &Peak,
        folder: &mut Folder,
    ) -> Result<()> {
        let space = disk::of_engine(server.directory(), engine);
        cell.add([
            ("resident_bytes", peak.so_far() as f64),
            ("data_bytes", space.data_bytes as f64),
            ("log_bytes", space.log_bytes as f64),
        ]);
        let of = |name: &str| cell.figures.get(name).copied().unwrap_or(f64::NAN);
        eprintln!(
            "  {} {}: {:.0}/s, p99 {:.1} ms, slowest second {:.2}, {:.0} MB of files, {:.0} MB resident",
            amount(&cell.id),
            cell.id.label(super::PART),
            of(RATE),
            of("p99_ms"),
            of("slowest_second"),
            of("data_bytes") / 1e6,
            of("resident_bytes") / 1e6
        );
        folder.finish(cell)
    }
}

/// A transaction with an open snapshot, and the rows that it sees.
struct HeldSnapshot {
    session: Session,
    sees: i64,
}

impl HeldSnapshot {
    fn take(on: On<'_>) -> Result<HeldSnapshot> {
        let failed =
            |statement: &str, message: String| Error::Statement { statement: statement.into(), message };
        let address = Address::root(on.server.socket());
        let mut session = Session::connect(&address, Duration::from_secs(60))
            .map_err(|failure| failed("the connection of the snapshot", failure.to_string()))?;
        for statement in [
            &format!("USE {}", on.database),
            "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
            "START TRANSACTION WITH CONSISTENT SNAPSHOT",
        ] {
            session.run(statement).map_err(|failure| failed(statement, failure.to_string()))?;
        }
        let sees = session.number(SEEN).map_err(|failure| failed(SEEN, failure.to_string()))?;
        Ok(HeldSnapshot { session, sees })
    }

    /// The fault where it sees other rows than at first.
    fn complaint(&mut self) -> Option<String> {
        match self.session.number(SEEN) {
            Ok(sees) if sees == self.sees => None,
            Ok(sees) => Some(format!("the snapshot sees {sees} in place of {}: {SEEN}", self.sees)),
            Err(failure) => Some(format!("the snapshot is gone: {failure}")),
        }
    }

    fn release(mut self) -> Result<()> {
        let ended = self.session.run("COMMIT");
        ended.map(|_| ()).map_err(|failure| Error::Statement {
            statement: "COMMIT of the snapshot".to_string(),
            message: failure.to_string(),
        })
    }
}

fn amount(id: &CellId) -> u32 {
    id.label(AMOUNT).parse().unwrap_or_default()
}

fn load(tables: Tables, threads: u32, warm_up_s: u32, time_s: u32) -> Load {
    Load { tables: tables.number, rows: tables.rows, threads, warm_up_s, time_s }
}

/// The slowest of whole seconds, to the median one; not a number where there are fewer than three.
fn slowest(rates: &[f64]) -> f64 {
    // The first and the last are parts of a second.
    let Some(whole) = rates.get(1..rates.len().saturating_sub(1)).filter(|whole| !whole.is_empty()) else {
        return f64::NAN;
    };
    let mut sorted = whole.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[0] / sorted[sorted.len() / 2]
}

fn keep(cell: &mut Cell, series: &Series, making: &Path) -> Result<()> {
    series.write(&making.join("seconds.csv"))?;
    cell.series.push("seconds.csv".to_string());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::slowest;

    #[test]
    fn the_slowest_second_is_a_whole_one() {
        assert_eq!(slowest(&[1.0, 90.0, 30.0, 60.0, 2.0]), 0.5);
        assert!(slowest(&[1.0, 2.0]).is_nan() && slowest(&[]).is_nan());
    }
}
