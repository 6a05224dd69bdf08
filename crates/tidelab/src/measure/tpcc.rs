//! TPC-C on several engines: each engine has a server of its own, is loaded once, and every
//! round starts on the same loaded data. Rounds interleave the engines.
//!
//! The loaded data directory is set aside and copied back before each round (moved in the
//! last): a copy takes a fraction of a load's time, and all rounds begin on the same files
//! with a server that was just started.
//!
//! A cell counts only if the conditions hold afterwards and the tables grew by what the clients
//! were told: new orders and order numbers given out are the same number.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Serialize;
use tidelab_server::error::{io_error, Error, Result};
use tidelab_server::interrupt::Interrupt;
use tidelab_server::latency::LatencyFigures;
use tidelab_server::server::allocator::Allocator;
use tidelab_server::server::analyze::{self, Analyzed};
use tidelab_server::server::engine::Engine;
use tidelab_server::server::facts::ServerFacts;
use tidelab_server::server::session::{Address, Session};
use tidelab_server::server::settings::Setting;
use tidelab_server::server::{Data, Server, Wanted};
use tidelab_server::telemetry::disk::{self, Space};
use tidelab_server::telemetry::idle;
use tidelab_server::telemetry::process::process_use;
use tidelab_server::telemetry::recorder::Recorder;
use tidelab_server::workload::steady::{Rule, WarmUp};
use tidelab_server::workload::tpcc::drive::{Drive, Outcomes, Second};
use tidelab_server::workload::tpcc::loader::Load;
use tidelab_server::workload::tpcc::{make_tables, readout, Scale, Transaction};

use super::experiment::fatal;
use super::plan::turns;
use crate::run::server_files::{note_server_files, note_status};
use crate::run::Series;

/// What to measure.
#[derive(Clone, Debug, Serialize)]
pub struct Design {
    /// The competitors.
    pub engines: Vec<Engine>,
    /// Rounds.
    pub rounds: u32,
    /// Size of the tables.
    pub scale: Scale,
    /// Users of the measured load.
    pub users: u32,
    /// Users that fill the tables.
    pub build_users: u32,
    /// Seconds before the measured time; the least, where there is a limit.
    pub ramp_up_s: u32,
    /// Seconds after which the measured time begins although the rate is not steady. No more than
    /// `ramp_up_s`: the ramp-up is fixed.
    pub ramp_up_limit_s: u32,
    /// Measured seconds.
    pub duration_s: u32,
    /// Seconds at most to wait until a server is idle, before and after the load.
    pub settle_s: u32,
    /// Where all random values come from; round r adds r to it.
    pub seed: u64,
    /// The option file that the settings come from; none for the laboratory's own.
    pub options: Option<String>,
    /// By how much its sizes of memory were scaled.
    pub memory_scale: f64,
}

/// Seconds of a window of a ramp-up. Users without think time make some hundred transactions a second on
/// a small machine: the median of ten such seconds varies by less than what counts as steady.
const WINDOW_S: u32 = 10;

impl Design {
    /// When the ramp-up ends.
    pub fn ramp_up(&self) -> Rule {
        Rule {
            at_least_s: self.ramp_up_s,
            at_most_s: self.ramp_up_limit_s.max(self.ramp_up_s),
            window_s: WINDOW_S,
        }
    }
}

/// One transaction of a cell.
#[derive(Clone, Debug, Serialize)]
pub struct PerTransaction {
    /// Which.
    pub transaction: Transaction,
    /// Latencies of those that met no error, to the last result.
    #[serde(flatten)]
    pub latency: LatencyFigures,
    /// Their time as a share of that of all transactions, in percent.
    pub time_percent: f64,
    /// New orders rolled back because of an unused item, as the specification wants.
    pub rolled_back: u64,
    /// Those that failed and were not tried again, by error number.
    pub failed: BTreeMap<u16, u64>,
}

/// The figures of a run that came to its end.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// Measured seconds.
    pub seconds: f64,
    /// New orders a minute.
    pub nopm: f64,
    /// Transactions of all kinds a minute, rolled back ones included, failed ones not.
    pub tpm: f64,
    /// Each kind.
    pub transactions: Vec<PerTransaction>,
    /// Failed transactions, in percent of those that were begun.
    pub failed_percent: f64,
    /// User and system time of the server's process for a transaction, in microseconds.
    pub server_cpu_us: f64,
    /// What it still took for each of them after the load had ended, until it was idle.
    pub after_cpu_us: f64,
    /// CPUs that were busy with neither server nor client, on average.
    pub other_cpus: f64,
    /// CPUs that the client took.
    pub client_cpus: f64,
    /// The largest resident size of the server in the measured time, in bytes.
    pub resident_bytes: u64,
    /// Bytes that the server caused to be written to the device.
    pub written_bytes: u64,
    /// The engine's files after the run.
    pub space: Space,
}

/// A second of a run.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct SecondUse {
    /// Seconds since the start, ramp-up included.
    pub at_s: f64,
    /// New orders a minute.
    pub nopm: f64,
    /// Transactions a minute.
    pub tpm: f64,
    /// Failed transactions a second.
    pub failed_per_s: f64,
    /// CPUs that the server used since the second before.
    pub server_cpus: f64,
    /// Its resident size in bytes.
    pub resident_bytes: u64,
}

/// One run on one engine, and what came of it.
#[derive(Clone, Debug, Serialize)]
pub struct Cell {
    /// The engine.
    pub engine: Engine,
    /// The round, counted from 1.
    pub round: u32,
    /// Where its random values come from; the same for all engines of a round.
    pub seed: u64,
    /// How the ramp-up went.
    pub warm_up: WarmUp,
    /// Why it does not count; empty when it does.
    pub failures: Vec<String>,
    /// Seconds that the check of the conditions took.
    pub check_s: f64,
    /// The figures; none when the run did not come to its end.
    pub figures: Option<Figures>,
    /// Each second of it.
    pub seconds: Vec<SecondUse>,
    /// What machine and server did meanwhile; none where nobody asked for it.
    #[serde(skip)]
    pub telemetry: Option<Series>,
}

impl Cell {
    /// A run that is to be made.
    pub fn new(engine: Engine, round: u32, seed: u64) -> Cell {
        let (failures, seconds) = (Vec::new(), Vec::new());
        let warm_up = WarmUp::default();
        Cell { engine, round, seed, warm_up, failures, check_s: 0.0, figures: None, seconds, telemetry: None }
    }

    /// It came to its end and passed its checks.
    pub fn counts(&self) -> bool {
        self.failures.is_empty() && self.figures.is_some()
    }
}

/// How an engine was loaded.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Loaded {
    /// The engine.
    pub engine: Engine,
    /// Rows of all tables.
    pub rows: u64,
    /// Seconds.
    pub seconds: f64,
    /// The statistics that the tables got after them.
    pub analyzed: Analyzed,
    /// The server's CPU time meanwhile, in seconds; that of the statistics included.
    pub server_cpu_s: f64,
    /// The files after the server ended in order.
    pub space: Space,
}

/// All that was recorded.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Record {
    /// The loads.
    pub loads: Vec<Loaded>,
    /// The runs in the order in which they were made.
    pub cells: Vec<Cell>,
    /// What each engine's server used.
    pub servers: BTreeMap<Engine, ServerFacts>,
    /// Files that were put into [`Place::kept`].
    #[serde(skip)]
    pub files: Vec<String>,
    /// Why it ended before its last step.
    pub ended_early: Option<String>,
}

/// What [`Watcher::begins`] is told when the load begins.
pub const RUNNING: &str = "running";

/// Sees what happens, for those who wait.
pub trait Watcher {
    /// An engine's tables are being filled: rows in, of about so many, in so many seconds.
    fn loading(&mut self, engine: Engine, rows: u64, of: u64, seconds: f64);
    /// They are filled.
    fn loaded(&mut self, loaded: &Loaded);
    /// Something else begins.
    fn begins(&mut self, round: u32, engine: Engine, what: &str);
    /// A second of a run is over.
    fn second(&mut self, second: &Second);
    /// A run is over and checked.
    fn measured(&mut self, cell: &Cell);
}

/// What all servers have in common.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The installed MariaDB.
    pub prefix: &'a Path,
    /// The TidesDB plugin.
    pub plugin: &'a Path,
    /// The servers' allocator, where it is not the C library's.
    pub allocator: Option<Allocator>,
    /// Where servers and loaded data are; each server is in `server` below it.
    pub directory: &'a Path,
    /// The folder of the one cell that is measured, which gets the server's option file, variables and
    /// status; none where no run is kept.
    pub kept: Option<&'a Path>,
}

/// Carries a design out.
pub struct Experiment<'a> {
    design: &'a Design,
    place: Place<'a>,
    settings: &'a BTreeMap<Engine, Vec<Setting>>,
    interrupt: &'a Interrupt,
    watcher: &'a mut dyn Watcher,
    record: Record,
}

impl<'a> Experiment<'a> {
    /// With the settings of each engine's server.
    pub fn new(
        design: &'a Design,
        place: Place<'a>,
        settings: &'a BTreeMap<Engine, Vec<Setting>>,
        interrupt: &'a Interrupt,
        watcher: &'a mut dyn Watcher,
    ) -> Experiment<'a> {
        Experiment { design, place, settings, interrupt, watcher, record: Record::default() }
    }

    /// Carries it out. With `keep`, the last server's files stay.
    pub fn run(mut self, keep: bool) -> Record {
        if let Err(error) = self.all(keep) {
            self.record.ended_early = Some(error.to_string());
        }
        // What is loaded can be loaded again; nobody asks for it.
        let _ = fs::remove_dir_all(self.place.directory.join("loaded"));
        self.record
    }

    /// One round on one engine, which is loaded before it unless an earlier call did. What was loaded stays for
    /// the rounds that follow; after the design's last round it is gone. Errors: nothing more can be measured.
    pub fn one(mut self, engine: Engine, round: u32) -> Result<Record> {
        let made = fs::read_to_string(self.made(engine)).unwrap_or_default();
        if made != self.recipe(engine) {
            self.load(engine)?;
        }
        self.cell(engine, round, false)?;
        Ok(self.record)
    }

    fn all(&mut self, keep: bool) -> Result<()> {
        for engine in self.design.engines.clone() {
            self.load(engine)?;
        }
        for round in 1..=self.design.rounds {
            for engine in turns(&self.design.engines, round - 1) {
                self.cell(engine, round, keep)?;
            }
        }
        Ok(())
    }

    fn frozen(&self, engine: Engine) -> PathBuf {
        self.place.directory.join("loaded").join(engine.database())
    }

    /// The file that says how the loaded data were made; it is there only while they are whole.
    fn made(&self, engine: Engine) -> PathBuf {
        self.frozen(engine).with_extension("made")
    }

    /// How the data of an engine are made: what was made otherwise, by an earlier run, is made anew.
    fn recipe(&self, engine: Engine) -> String {
        let (design, place) = (self.design, self.place);
        let settings: BTreeMap<&str, &str> = self
            .settings
            .get(&engine)
            .into_iter()
            .flatten()
            .map(|s| (s.name.as_ref(), s.value.as_str()))
            .collect();
        format!(
            "{:?} seed {} build users {}, analyzed\n{}\n{}\n{settings:?}\n",
            design.scale,
            design.seed,
            design.build_users,
            place.prefix.display(),
            place.plugin.display()
        )
    }

    fn start(&self, engine: Engine, data: Data<'_>) -> Result<Server> {
        let directory = self.place.directory.join("server");
        let none = Vec::new();
        let wanted = Wanted {
            prefix: self.place.prefix,
            engines: &[engine],
            plugin: Some(self.place.plugin),
            directory: &directory,
            data,
            settings: self.settings.get(&engine).unwrap_or(&none),
            allocator: self.place.allocator,
        };
        Server::start(&wanted, self.interrupt)
    }

    fn load(&mut self, engine: Engine) -> Result<()> {
        let scale = self.design.scale;
        let server = self.start(engine, Data::Empty)?;
        let none = Vec::new();
        let asked = self.settings.get(&engine).unwrap_or(&none);
        let facts = ServerFacts::new(&self.place.prefix.to_string_lossy(), asked, server.variables());
        self.record.servers.insert(engine, facts);
        let address = Address::root(server.socket());
        let before = process_use(server.pid()).cpu_s;
        make_tables(&address, engine.database(), engine, scale, false)?;
        let (process, database) = (Some(server.pid()), engine.database());
        let target = Target { address: &address, process, database, recorded: None };
        let Filled { rows, seconds, analyzed } =
            load(&target, engine, self.design, self.interrupt, self.watcher)?;
        let server_cpu_s = process_use(server.pid()).cpu_s - before;
        self.watcher.begins(0, engine, "setting the loaded data aside");
        let (frozen, made) = (self.frozen(engine), self.made(engine));
        // From here on, until it is written again, nothing there is whole.
        let _ = fs::remove_file(&made);
        server.freeze(&frozen)?;
        fs::write(&made, self.recipe(engine)).map_err(io_error("cannot write", &made))?;
        let space = disk::of_engine(&frozen, engine);
        let loaded = Loaded { engine, rows, seconds, analyzed, server_cpu_s, space };
        self.watcher.loaded(&loaded);
        self.record.loads.push(loaded);
        Ok(())
    }

    /// Fails only when nothing more can be measured.
    fn cell(&mut self, engine: Engine, round: u32, keep: bool) -> Result<()> {
        let frozen = self.frozen(engine);
        let last = round == self.design.rounds;
        self.watcher.begins(round, engine, "starting on the loaded data");
        if last {
            let made = self.made(engine);
            fs::remove_file(&made).map_err(io_error("cannot remove", &made))?;
        }
        let data = if last { Data::Move(&frozen) } else { Data::Copy(&frozen) };
        let mut server = self.start(engine, data)?;
        let seed = self.design.seed + u64::from(round);
        let mut cell = Cell::new(engine, round, seed);
        let address = Address::root(server.socket());
        let directory = server.directory().to_path_buf();
        let recorded = self.place.kept.map(|_| directory.as_path());
        let (process, database) = (Some(server.pid()), engine.database());
        let target = Target { address: &address, process, database, recorded };
        let space = || disk::of_engine(&directory, engine);
        let measured = run_on(&target, self.design, &mut cell, self.interrupt, self.watcher, space)
            .and_then(|()| server.check_alive());
        if let Err(error) = measured {
            cell.failures.push(error.to_string());
            let alive = server.check_alive();
            self.keep(cell);
            // The files of one that is gone stay: they are what shows why.
            alive?;
            fatal(error)?;
            return server.stop(false);
        }
        let good = cell.counts();
        self.keep(cell);
        if let Some(folder) = self.place.kept {
            self.record.files = note_server_files(&server, folder)?;
            self.record.files.extend(note_status(&server, engine, folder)?);
        }
        let last = last && turns(&self.design.engines, round - 1).last() == Some(&engine);
        server.stop(!good || (keep && last))?;
        if !good {
            self.preserve(engine, round)?;
        }
        Ok(())
    }

    /// The files of a run that failed its checks stay, under a name of their own.
    fn preserve(&self, engine: Engine, round: u32) -> Result<()> {
        let from = self.place.directory.join("server");
        let to = self.place.directory.join(format!("failed-{}-{round}", engine.database()));
        let _ = fs::remove_dir_all(&to);
        fs::rename(&from, &to).map_err(io_error("cannot move", &from))
    }

    fn keep(&mut self, cell: Cell) {
        self.watcher.measured(&cell);
        self.record.cells.push(cell);
    }
}

/// A server that runs, and the database in it.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// How to reach it.
    pub address: &'a Address,
    /// Its process; none where that is not known.
    pub process: Option<u32>,
    /// The database.
    pub database: &'a str,
    /// Where the server's files are, to record beside the load what machine and server do; none for no
    /// such recording.
    pub recorded: Option<&'a Path>,
}

/// Tables that were filled.
#[derive(Clone, Copy, Debug)]
pub struct Filled {
    /// Rows of all tables.
    pub rows: u64,
    /// Seconds that filling them took.
    pub seconds: f64,
    /// The statistics that they got afterwards.
    pub analyzed: Analyzed,
}

/// No ANALYZE of a table takes longer than this.
const ANALYZE_LIMIT: Duration = Duration::from_secs(3600);

/// Fills the tables, which must be there and empty, and gives the optimizer statistics of them.
pub fn load(
    target: &Target<'_>,
    engine: Engine,
    design: &Design,
    interrupt: &Interrupt,
    watcher: &mut dyn Watcher,
) -> Result<Filled> {
    let start = Instant::now();
    let of = design.scale.rows();
    let load = Load {
        address: target.address,
        database: target.database,
        scale: design.scale,
        users: design.build_users,
        seed: design.seed,
        session: &[],
        interrupt,
    };
    let rows = load.run(|rows, seconds| watcher.loading(engine, rows, of, seconds))?;
    let seconds = start.elapsed().as_secs_f64();
    watcher.begins(0, engine, "ANALYZE TABLE");
    let mut session =
        Session::connect(target.address, ANALYZE_LIMIT).map_err(|failure| Error::Statement {
            statement: format!("connecting to analyze the tables of {}", target.database),
            message: failure.to_string(),
        })?;
    let analyzed = analyze::through_session(&mut session, target.database)?;
    Ok(Filled { rows, seconds, analyzed })
}

/// One run on tables that are filled, and the checks that it must pass: the cell has its figures
/// and failures then. Fails when it did not come to its end. `space` says what the engine's files
/// take.
pub fn run_on(
    target: &Target<'_>,
    design: &Design,
    cell: &mut Cell,
    interrupt: &Interrupt,
    watcher: &mut dyn Watcher,
    space: impl FnOnce() -> Space,
) -> Result<()> {
    let settle = || {
        let limit = Duration::from_secs(u64::from(design.settle_s));
        target.process.map_or(Ok(()), |process| idle::wait(process, limit, interrupt))
    };
    let cpu = || target.process.map_or(0.0, |process| process_use(process).cpu_s);
    settle()?;
    watcher.begins(cell.round, cell.engine, RUNNING);
    let drive = Drive {
        address: target.address,
        server: target.process,
        database: target.database,
        scale: design.scale,
        users: design.users,
        ramp_up: design.ramp_up(),
        duration: Duration::from_secs(u64::from(design.duration_s)),
        seed: cell.seed,
        interrupt,
    };
    let beside = |directory| Recorder::of_server(target.process, directory, target.address);
    let recorder = target.recorded.map(beside).transpose()?;
    let outcomes = drive.run(|second| watcher.second(second));
    cell.telemetry = recorder.map(|recorder| recorder.stop().series);
    let outcomes = outcomes?;
    cell.warm_up = outcomes.ramp_up;
    cell.failures.extend(outcomes.errors.iter().cloned());
    watcher.begins(cell.round, cell.engine, "waiting until the server is idle");
    let before = cpu();
    settle()?;
    let after = cpu() - before;
    cell.seconds = seconds(&outcomes);
    let figures = figures(&outcomes, after, space());
    watcher.begins(cell.round, cell.engine, "checking the conditions");
    let start = Instant::now();
    let found = readout::check(target.address, target.database, design.scale, design.users.min(READERS))?;
    cell.check_s = start.elapsed().as_secs_f64();
    cell.failures.extend(found.complaints());
    cell.failures.extend(compare(&outcomes, found.new_orders));
    if figures.nopm <= 0.0 {
        cell.failures.push("not one new order came to its end".to_string());
    }
    cell.figures = Some(figures);
    Ok(())
}

/// Connections that read the tables for the check at once.
const READERS: u32 = 4;

/// Whether the order numbers that were given out are those of the orders that clients were
/// told of.
pub fn compare(outcomes: &Outcomes, in_tables: i64) -> Option<String> {
    if i64::try_from(outcomes.orders_in_all) == Ok(in_tables) || !outcomes.errors.is_empty() {
        return None;
    }
    Some(format!(
        "clients were told of {} new orders, the districts gave out {in_tables} numbers",
        outcomes.orders_in_all
    ))
}

/// The figures of a load; `after_s` is the CPU time that the server took after it.
pub fn figures(outcomes: &Outcomes, after_s: f64, space: Space) -> Figures {
    let (begin, end) = (&outcomes.begin, &outcomes.end);
    let seconds = (end.at - begin.at).as_secs_f64();
    let done: u64 = outcomes.counted.iter().map(|c| c.latencies.count()).sum();
    let failed: u64 = outcomes.counted.iter().flat_map(|c| c.failed.values()).sum();
    let each: Vec<LatencyFigures> = outcomes.counted.iter().map(|c| c.latencies.figures()).collect();
    let time = |f: &LatencyFigures| f.average_ms * f.calls as f64;
    let all_time: f64 = each.iter().map(time).sum();
    let per_minute = |count: u64| if seconds > 0.0 { count as f64 * 60.0 / seconds } else { 0.0 };
    let share = |part: f64, of: f64| if of > 0.0 { 100.0 * part / of } else { 0.0 };
    let transactions = Transaction::ALL
        .into_iter()
        .zip(&outcomes.counted)
        .zip(&each)
        .map(|((transaction, counted), latency)| PerTransaction {
            transaction,
            latency: *latency,
            time_percent: share(time(latency), all_time),
            rolled_back: counted.rolled_back,
            failed: counted.failed.clone(),
        })
        .collect();
    let orders = &outcomes.counted[Transaction::NewOrder.index()];
    let server = end.server.cpu_s - begin.server.cpu_s;
    let machine = end.machine_cpu_s - begin.machine_cpu_s;
    let each_us = |cpu_s: f64| if done > 0 { cpu_s * 1e6 / done as f64 } else { 0.0 };
    let cpus = |cpu_s: f64| if seconds > 0.0 { (cpu_s / seconds).max(0.0) } else { 0.0 };
    let measured = outcomes.seconds.iter().filter(|s| s.moment.at >= begin.at);
    Figures {
        seconds,
        nopm: per_minute(orders.latencies.count() - orders.rolled_back),
        tpm: per_minute(done),
        transactions,
        failed_percent: share(failed as f64, (done + failed) as f64),
        server_cpu_us: each_us(server),
        after_cpu_us: each_us(after_s),
        other_cpus: cpus(machine - server - outcomes.client_cpu_s),
        client_cpus: cpus(outcomes.client_cpu_s),
        resident_bytes: measured
            .map(|s| s.moment.server.resident_bytes)
            .chain([begin.server.resident_bytes, end.server.resident_bytes])
            .max()
            .unwrap_or(0),
        written_bytes: end.server.written_bytes.saturating_sub(begin.server.written_bytes),
        space,
    }
}

/// The seconds of a load.
fn seconds(outcomes: &Outcomes) -> Vec<SecondUse> {
    let mut before: Option<&Second> = None;
    let mut all = Vec::with_capacity(outcomes.seconds.len());
    for second in &outcomes.seconds {
        let server_cpus = before.map_or(0.0, |b| {
            let wall = (second.moment.at - b.moment.at).as_secs_f64();
            (second.moment.server.cpu_s - b.moment.server.cpu_s) / wall.max(1e-3)
        });
        all.push(SecondUse {
            at_s: second.at_s,
            nopm: second.new_orders_per_s * 60.0,
            tpm: second.transactions_per_s * 60.0,
            failed_per_s: second.failed_per_s,
            server_cpus,
            resident_bytes: second.moment.server.resident_bytes,
        });
        before = Some(second);
    }
    all
}

#[cfg(test)]
mod tests {
    use tidelab_server::telemetry::process::{Moment, ProcessUse};
    use tidelab_server::workload::tpcc::drive::Counted;

    use super::*;

    fn outcomes() -> Outcomes {
        let start = Instant::now();
        let moment = |s: u64, cpu: f64, resident: u64| Moment {
            at: start + Duration::from_secs(s),
            server: ProcessUse { cpu_s: cpu, resident_bytes: resident, written_bytes: s * 10 },
            machine_cpu_s: cpu + s as f64,
        };
        let second = |s: u64, cpu: f64, resident: u64| Second {
            at_s: s as f64,
            new_orders_per_s: 10.0,
            transactions_per_s: 20.0,
            failed_per_s: 0.0,
            moment: moment(s, cpu, resident),
        };
        let mut counted: [Counted; 5] = Default::default();
        for (n, calls) in [(0, 100), (1, 90), (2, 10)] {
            for _ in 0..calls {
                counted[n].latencies.record(Duration::from_millis(n as u64 + 1));
            }
        }
        counted[0].rolled_back = 1;
        counted[1].failed.insert(1213, 50);
        Outcomes {
            counted,
            orders_in_all: 120,
            failed_in_all: 60,
            ramp_up: WarmUp { seconds: 2.0, steady: Some(true) },
            seconds: vec![second(1, 1.0, 900), second(3, 4.0, 500), second(4, 5.5, 700)],
            begin: moment(2, 3.0, 400),
            end: moment(12, 13.0, 600),
            client_cpu_s: 4.0,
            errors: vec![],
        }
    }

    struct Unwatched;

    impl Watcher for Unwatched {
        fn loading(&mut self, _: Engine, _: u64, _: u64, _: f64) {}
        fn loaded(&mut self, _: &Loaded) {}
        fn begins(&mut self, _: u32, _: Engine, _: &str) {}
        fn second(&mut self, _: &Second) {}
        fn measured(&mut self, _: &Cell) {}
    }

    #[test]
    fn what_an_earlier_run_loaded_otherwise_or_half_is_loaded_anew() {
        let folder = tempfile::tempdir().unwrap();
        let loads = |design: &Design| {
            // Where there is no MariaDB, loading is what fails first.
            let place = Place {
                prefix: folder.path(),
                plugin: folder.path(),
                allocator: None,
                directory: folder.path(),
                kept: None,
            };
            let interrupt = Interrupt::default();
            let settings = BTreeMap::new();
            let mut unwatched = Unwatched;
            let experiment = Experiment::new(design, place, &settings, &interrupt, &mut unwatched);
            let made = (experiment.made(Engine::TidesDb), experiment.recipe(Engine::TidesDb));
            assert!(experiment.one(Engine::TidesDb, 1).is_err(), "there is no server");
            made
        };
        let mut design = Design {
            engines: vec![Engine::TidesDb],
            rounds: 1,
            scale: Scale::full(1),
            users: 1,
            build_users: 1,
            ramp_up_s: 0,
            ramp_up_limit_s: 0,
            duration_s: 1,
            settle_s: 0,
            seed: 1,
            options: None,
            memory_scale: 1.0,
        };
        let (made, recipe) = loads(&design);
        fs::create_dir_all(made.parent().unwrap()).unwrap();
        // As the data of an earlier run's last round leave it: a folder, and no word of how it was made.
        fs::create_dir_all(made.with_extension("")).unwrap();
        loads(&design);
        fs::write(&made, &recipe).unwrap();
        // It is whole: the run begins on it, and from then on it is not.
        loads(&design);
        assert!(!made.exists());
        fs::write(&made, &recipe).unwrap();
        design.scale = Scale::full(2);
        let (_, other) = loads(&design);
        assert!(made.exists() && other != recipe, "another size is not begun on");
    }

    #[test]
    fn figures_are_of_the_measured_time() {
        let f = figures(&outcomes(), 0.2, Space::default());
        assert_eq!((f.seconds, f.nopm, f.tpm), (10.0, 99.0 * 6.0, 200.0 * 6.0));
        assert_eq!((f.server_cpu_us, f.after_cpu_us), (50_000.0, 1000.0));
        assert!((f.other_cpus - 0.6).abs() < 1e-9, "20 s in all, 10 server, 4 client");
        assert_eq!((f.failed_percent, f.resident_bytes, f.written_bytes), (20.0, 700, 100));
        let payment = &f.transactions[1];
        assert_eq!((payment.transaction, payment.latency.calls), (Transaction::Payment, 90));
        // 100, 180 and 30 ms.
        assert!((payment.time_percent - 100.0 * 180.0 / 310.0).abs() < 1e-9);
        assert_eq!(payment.failed[&1213], 50);
    }

    #[test]
    fn each_second_has_its_cpu() {
        let cpus: Vec<f64> = seconds(&outcomes()).iter().map(|s| s.server_cpus).collect();
        assert_eq!(cpus, [0.0, 1.5, 1.5]);
    }

    #[test]
    fn orders_in_the_tables_must_be_those_of_the_clients() {
        let mut outcomes = outcomes();
        assert_eq!(compare(&outcomes, 120), None);
        assert!(compare(&outcomes, 119).unwrap().contains("119"));
        // Who ended early may have an order in doubt.
        outcomes.errors.push("x".to_string());
        assert_eq!(compare(&outcomes, 121), None);
    }
}
