//! The cost of the drivers, and their speed without an engine, measured on a server of its own.
//!
//! Two drivers are measured: sysbench with prepared statements as in its workloads, and the laboratory's
//! client with statements as text as in TPC-C. First comes the cheapest statement, then sysbench's workloads
//! on BLACKHOLE (keeps nothing) and on MEMORY (keeps rows in a list).
//!
//! TPC-C's ceiling is the call of an empty procedure. Its own procedures read back their rows, and find none
//! on BLACKHOLE.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tidelab_server::error::{io_error, Error, Result};
use tidelab_server::interrupt::Interrupt;
use tidelab_server::server::engine::Engine;
use tidelab_server::server::session::{Failure, Session};
use tidelab_server::server::settings::{self, setting};
use tidelab_server::server::{Data, Server, Wanted};
use tidelab_server::telemetry::machine;
use tidelab_server::telemetry::process::{now, process_use, ResourceSample};
use tidelab_server::workload::iibench::alone::Inserts;
use tidelab_server::workload::iibench::counts::Group;
use tidelab_server::workload::iibench::dsn::Dsn;
use tidelab_server::workload::iibench::runner::Runner;
use tidelab_server::workload::sysbench::{Load, Run, Sysbench, Target, Workload};

use super::ceiling::{Ceiling, Ceilings, Driver, SCHEMA_VERSION};
use crate::measure::server_use::per_call_us;
use crate::run::now_unix_s;

/// sysbench's script of a statement without work.
const SCRIPT: &str = include_str!("trivial.lua");
/// The cheapest statements: no result, and one row.
const STATEMENTS: [&str; 2] = ["DO 1", "SELECT 1"];
/// The least for a transaction of TPC-C's client: a call, and the fetch of its results.
pub const CALL: &str = "CALL and SELECT";
/// The engine without storage.
pub const BLACKHOLE: &str = "BLACKHOLE";
/// The engine of tables as lists.
pub const MEMORY: &str = "MEMORY";
/// Rows of the tables: small enough for MEMORY, large enough to keep clients apart.
const ROWS: u64 = 10_000;
/// The workloads for MEMORY, without transactions and with hash indexes: one row at a time by its key.
const ON_MEMORY: [Workload; 5] = [
    Workload::PointSelect,
    Workload::UpdateIndex,
    Workload::UpdateNonIndex,
    Workload::Insert,
    Workload::Delete,
];

/// Duration and number of clients.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Clients.
    pub threads: u32,
    /// Measured seconds of each load, one at least; a second before them is not counted.
    pub seconds: u32,
}

/// The loads to measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loads {
    /// The cheapest statements, over each driver.
    pub statements: bool,
    /// The call of an empty procedure.
    pub calls: bool,
    /// sysbench's, on BLACKHOLE, and the possible ones on MEMORY.
    pub workloads: Vec<Workload>,
    /// The insert benchmark's, on BLACKHOLE.
    pub inserts: Vec<Inserts>,
}

impl Loads {
    /// All loads.
    pub fn all() -> Loads {
        Loads { statements: true, calls: true, workloads: Workload::ALL.to_vec(), inserts: Vec::new() }
    }
}

/// Starts a server in the emptied `directory`, measures, and ends the server. `progress` gets the name of
/// each step before it begins.
pub fn measure(
    prefix: &Path,
    directory: &Path,
    effort: Effort,
    loads: &Loads,
    interrupt: &Interrupt,
    mut progress: impl FnMut(&str),
) -> Result<Ceilings> {
    let mut settings = settings::comparison(&[Engine::InnoDb], 64, effort.threads + 20);
    settings.push(setting("max_heap_table_size", "1G"));
    let wanted = Wanted {
        environment: &[],
        allocator: None,
        groups: &[],
        prefix,
        engines: &[Engine::InnoDb],
        plugin: None,
        directory,
        data: Data::Empty,
        settings: &settings,
    };
    progress("a server starts");
    let server = Server::start(&wanted, interrupt)?;
    let load =
        Load { tables: 1, rows: ROWS, threads: effort.threads, warm_up_s: 1, time_s: effort.seconds.max(1) };
    let bench = Bench { server: &server, load, interrupt };
    let measured = bench.all(loads, &mut progress);
    let version = server.variables().get("version").cloned().unwrap_or_default();
    server.stop(false)?;
    let machine = machine::describe(directory);
    Ok(Ceilings {
        schema_version: SCHEMA_VERSION,
        measured_unix_s: now_unix_s(),
        cpu: machine.cpu,
        cpus: machine.cpus,
        server: version,
        threads: effort.threads,
        ceilings: measured?,
    })
}

struct Bench<'a> {
    server: &'a Server,
    load: Load,
    interrupt: &'a Interrupt,
}

impl Bench<'_> {
    fn all(&self, loads: &Loads, progress: &mut dyn FnMut(&str)) -> Result<Vec<Ceiling>> {
        let client = self.server.client();
        client.query(
            "CREATE DATABASE ceiling; \
             CREATE PROCEDURE ceiling.nothing(OUT answer INT) SET answer = 1",
        )?;
        let mut all = Vec::new();
        let script = self.server.directory().join("trivial.lua");
        fs::write(&script, SCRIPT).map_err(io_error("cannot write", &script))?;
        let statements = if loads.statements { &STATEMENTS[..] } else { &[] };
        for statement in statements {
            progress(&format!("sysbench, {statement}"));
            all.push(self.sysbench_statement(&script, statement)?);
        }
        for load in statements.iter().chain(loads.calls.then_some(&CALL)) {
            progress(&format!("client, {load}"));
            all.push(self.client(load)?);
        }
        if loads.workloads.is_empty() && loads.inserts.is_empty() {
            return Ok(all);
        }
        let supported = client.value(
            "SELECT COUNT(*) FROM information_schema.ENGINES WHERE ENGINE = 'BLACKHOLE' AND SUPPORT IN ('YES', 'DEFAULT')",
        )?;
        if supported != "1" {
            client.query("INSTALL SONAME 'ha_blackhole'")?;
        }
        for (engine, workloads) in [(BLACKHOLE, &Workload::ALL[..]), (MEMORY, &ON_MEMORY[..])] {
            for workload in workloads.iter().filter(|w| loads.workloads.contains(w)) {
                progress(&format!("sysbench, {workload} on {engine}"));
                all.push(self.workload(engine, *workload)?);
            }
        }
        for inserts in &loads.inserts {
            progress(&format!("client, {inserts} on {BLACKHOLE}"));
            all.push(self.inserts(*inserts)?);
        }
        Ok(all)
    }

    fn sysbench(&self) -> Sysbench<'_> {
        let server = self.server.pid();
        Sysbench { socket: self.server.socket(), server, load: self.load, interrupt: self.interrupt }
    }

    fn sysbench_statement(&self, script: &Path, statement: &str) -> Result<Ceiling> {
        // The script's own option is its default; another statement is another script.
        let text = SCRIPT.replace("\"DO 1\"", &format!("\"{statement}\""));
        fs::write(script, text).map_err(io_error("cannot write", script))?;
        let name = script.to_string_lossy();
        let target = Target { script: &name, database: "ceiling", engine: "InnoDB" };
        let run = self.sysbench().run_on(target, &format!("sysbench, {statement}"), 1, |_| {})?;
        Ok(of_sysbench(statement, "", &run))
    }

    fn workload(&self, engine: &str, workload: Workload) -> Result<Ceiling> {
        self.server
            .client()
            .query("DROP DATABASE IF EXISTS ceiling_tables; CREATE DATABASE ceiling_tables")?;
        let script = format!("oltp_{workload}");
        let target = Target { script: &script, database: "ceiling_tables", engine };
        let sysbench = self.sysbench();
        sysbench.prepare_on(target, 1)?;
        let run = sysbench.run_on(target, &format!("sysbench {workload} on {engine}"), 1, |_| {})?;
        Ok(of_sysbench(workload.name(), engine, &run))
    }

    fn inserts(&self, inserts: Inserts) -> Result<Ceiling> {
        self.server.client().query("CREATE DATABASE IF NOT EXISTS ceiling_tables")?;
        let dsn = format!("root@unix({})/ceiling_tables", self.server.socket().display());
        let dsn = Dsn::parse(&dsn).map_err(Error::Usage)?;
        let task = inserts.task(dsn, BLACKHOLE, self.load.threads, self.load.warm_up_s + self.load.time_s);
        let log = self.server.directory().join(&task.log_file);
        let mut runner = Runner::new(self.interrupt, Some(self.server.pid()), Duration::ZERO);
        let outcome = runner.run(&task, &log, false, &mut |_| {})?.outcome;
        if let Some(complaint) = outcome.complaints.first() {
            return Err(Error::Load { what: task.name, message: complaint.clone() });
        }
        let statements = outcome.total.group(Group::Insert).done;
        let (begin, end) = (&outcome.begin, &outcome.end);
        let load = inserts.to_string();
        let counts = (statements, statements);
        Ok(ceiling(Driver::Client, (&load, BLACKHOLE), counts, (begin, end), outcome.client_cpu_s))
    }

    /// The laboratory's client: one thread and connection for each of the clients.
    fn client(&self, load: &str) -> Result<Ceiling> {
        let (counting, stop) = (AtomicBool::new(false), AtomicBool::new(false));
        let (transactions, statements) = (AtomicU64::new(0), AtomicU64::new(0));
        let (server, own) = (self.server.pid(), std::process::id());
        let measured = thread::scope(|scope| {
            let clients: Vec<_> = (0..self.load.threads)
                .map(|_| {
                    scope.spawn(|| {
                        let mut session = Session::open(self.server.socket())?;
                        while !stop.load(Ordering::Relaxed) {
                            let sent = transaction(&mut session, load)?;
                            if counting.load(Ordering::Relaxed) {
                                transactions.fetch_add(1, Ordering::Relaxed);
                                statements.fetch_add(sent, Ordering::Relaxed);
                            }
                        }
                        Ok::<(), Failure>(())
                    })
                })
                .collect();
            let mut waited = self.wait(Duration::from_secs(1), &clients);
            let before = (now(server), process_use(own).cpu_s);
            counting.store(true, Ordering::Relaxed);
            if waited.is_ok() {
                waited = self.wait(Duration::from_secs(u64::from(self.load.time_s)), &clients);
            }
            counting.store(false, Ordering::Relaxed);
            let after = (now(server), process_use(own).cpu_s);
            stop.store(true, Ordering::Relaxed);
            for client in clients {
                let ended = client.join().unwrap_or_else(|_| Err(Failure::Lost("it panicked".to_string())));
                ended.map_err(|failure| Error::Load {
                    what: format!("client, {load}"),
                    message: failure.to_string(),
                })?;
            }
            waited.map(|()| (before, after))
        });
        let ((begin, own_begin), (end, own_end)) = measured?;
        let counts = (transactions.load(Ordering::Relaxed), statements.load(Ordering::Relaxed));
        Ok(ceiling(Driver::Client, (load, ""), counts, (&begin, &end), own_end - own_begin))
    }

    /// Waits for the time to pass. Ends early when a client ended or after an interrupt.
    fn wait<T>(&self, time: Duration, clients: &[thread::ScopedJoinHandle<'_, T>]) -> Result<()> {
        let start = Instant::now();
        while start.elapsed() < time && !clients.iter().any(thread::ScopedJoinHandle::is_finished) {
            self.interrupt.check()?;
            thread::sleep(Duration::from_millis(20).min(time));
        }
        Ok(())
    }
}

/// Sends a transaction of this load; returns its number of statements.
fn transaction(session: &mut Session, load: &str) -> std::result::Result<u64, Failure> {
    if load == CALL {
        session.run("CALL ceiling.nothing(@answer)")?;
        session.rows("SELECT @answer")?;
        return Ok(2);
    }
    session.rows(load)?;
    Ok(1)
}

fn of_sysbench(load: &str, engine: &str, run: &Run) -> Ceiling {
    let measured = &run.report.measured;
    let counts = (measured.transactions, measured.statements);
    let mut ceiling =
        ceiling(Driver::Sysbench, (load, engine), counts, (&run.begin, &run.end), run.client_cpu_s);
    // sysbench's own clock: the moments are when its lines were read.
    ceiling.seconds = run.report.seconds();
    if ceiling.seconds > 0.0 {
        ceiling.transactions_per_s = counts.0 as f64 / ceiling.seconds;
        ceiling.statements_per_s = counts.1 as f64 / ceiling.seconds;
    }
    ceiling
}

fn ceiling(
    driver: Driver,
    (load, engine): (&str, &str),
    (transactions, statements): (u64, u64),
    (begin, end): (&ResourceSample, &ResourceSample),
    driver_cpu_s: f64,
) -> Ceiling {
    let seconds = (end.at - begin.at).as_secs_f64().max(1e-6);
    let server_cpu_s = end.server.cpu_s - begin.server.cpu_s;
    let machine_cpu_s = end.machine_cpu_s - begin.machine_cpu_s;
    Ceiling {
        driver,
        load: load.to_string(),
        engine: engine.to_string(),
        seconds,
        transactions_per_s: transactions as f64 / seconds,
        statements_per_s: statements as f64 / seconds,
        driver_cpu_us: per_call_us(driver_cpu_s, statements),
        server_cpu_us: per_call_us(server_cpu_s, statements),
        other_cpus: ((machine_cpu_s - server_cpu_s - driver_cpu_s) / seconds).max(0.0),
    }
}

#[cfg(test)]
mod tests {
    use tidelab_server::telemetry::process::ProcessUse;

    use super::*;

    #[test]
    fn cpu_time_is_cut_by_who_took_it() {
        let start = Instant::now();
        let moment = |s: u64, server: f64, machine: f64| ResourceSample {
            at: start + Duration::from_secs(s),
            server: ProcessUse { cpu_s: server, ..ProcessUse::default() },
            machine_cpu_s: machine,
        };
        let (begin, end) = (moment(0, 1.0, 10.0), moment(2, 3.0, 13.5));
        let found = ceiling(Driver::Client, ("DO 1", ""), (100_000, 200_000), (&begin, &end), 1.0);
        assert_eq!((found.transactions_per_s, found.statements_per_s), (50_000.0, 100_000.0));
        assert_eq!((found.server_cpu_us, found.driver_cpu_us), (10.0, 5.0));
        assert!((found.other_cpus - 0.25).abs() < 1e-9, "3.5 s in all, 2 server, 1 driver, in 2 s");
    }

    #[test]
    fn the_script_can_be_given_another_statement() {
        assert!(SCRIPT.contains("\"DO 1\""), "it is replaced by its text");
        assert!(STATEMENTS.iter().all(|s| !s.contains('"')));
    }
}
