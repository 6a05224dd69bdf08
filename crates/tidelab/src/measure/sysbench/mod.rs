//! sysbench on the engines of one running server: carries out the steps of a plan, records the results.
//!
//! A failed load fails its cell, and the experiment goes on. The experiment ends early only when the server
//! is gone or after an interrupt; the measurements so far are kept.

pub mod figures;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::panic::resume_unwind;
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use tidelab_server::error::{Error, Result};
use tidelab_server::interrupt::Interrupt;
use tidelab_server::server::analyze::{self, Analyzed};
use tidelab_server::server::engine::Engine;
use tidelab_server::server::session::Address;
use tidelab_server::server::Server;
use tidelab_server::telemetry::disk::{self, Space};
use tidelab_server::telemetry::idle;
use tidelab_server::telemetry::process::process_use;
use tidelab_server::telemetry::recorder::Recorder;
use tidelab_server::workload::steady::{Rule, State, WarmUp};
use tidelab_server::workload::sysbench::{Load, Sysbench, Workload};
use tidelab_server::workload::sysbench_report::Second;

use super::check::{self, Expected};
use super::plan::{self, Step};
use super::server_use::per_call_us;
use super::{fatal, reference};
use crate::run::{Axis, CellId, Measured, Role, Run};
use figures::{figures, metrics, seconds, SECONDS};

/// The design of an experiment.
#[derive(Clone, Debug, Serialize)]
pub struct Design {
    /// The competitors.
    pub engines: Vec<Engine>,
    /// The workloads, in their order.
    pub workloads: Vec<Workload>,
    /// Rounds.
    pub rounds: u32,
    /// Size of tables and load. Its `warm_up_s` is the least duration of a warm-up.
    pub load: Load,
    /// Seconds at most until the rates are steady; no more than `warm_up_s`: it is fixed.
    pub warm_up_limit_s: u32,
    /// Seconds of updates right before each read-only workload; 0 for none.
    pub update_s: u32,
    /// Seconds at most to wait until the server is idle after each run.
    pub settle_s: u32,
}

/// Seconds of a window of a warm-up, and of its sysbench process.
const WINDOW_S: u32 = 3;
/// The seeds of a warm-up's processes lie so far apart, and from those of the measured runs.
const SEED_STEP: u32 = 1_000_000;

impl Design {
    /// The rule for the end of a workload's warm-up, apart from `load.warm_up_s` of the measured process. A
    /// workload with inserts or deletes has a fixed warm-up: each further second would change the measured
    /// tables.
    pub fn warm_up(&self, workload: Workload) -> Rule {
        if workload.changes_row_count() {
            return Rule::fixed(0);
        }
        let windows = self.warm_up_limit_s.saturating_sub(self.load.warm_up_s) / WINDOW_S;
        Rule { at_least_s: 0, at_most_s: windows * WINDOW_S, window_s: WINDOW_S }
    }

    /// The number of engines to load at once, with no more clients than a measured run has. One client keeps
    /// half a processor busy, and nothing is measured meanwhile.
    fn loads_at_once(&self) -> usize {
        let clients_each = self.load.tables.min(self.load.threads).max(1);
        (self.load.threads / clients_each).max(1) as usize
    }

    /// Gives a run the axes, metrics and reference of this design.
    pub fn describe(&self, run: &mut Run) {
        run.axes = vec![
            Axis::new("engine", "Engine", Role::Competitor, &self.engines),
            Axis::new("workload", "Workload", Role::Category, &self.workloads),
        ];
        run.reference = reference(&self.engines);
        run.metrics = metrics();
    }

    /// The steps of all rounds, with the round counted from 1.
    pub fn steps(&self) -> Vec<(u32, Step)> {
        (0..self.rounds)
            .flat_map(|round| {
                plan::round(&self.engines, &self.workloads, round, self.update_s > 0)
                    .into_iter()
                    .map(move |step| (round + 1, step))
            })
            .collect()
    }
}

/// The tables of an engine at the end.
#[derive(Clone, Debug, Serialize)]
pub struct AtEnd {
    /// The engine.
    pub engine: Engine,
    /// Rows of all tables.
    pub rows: i64,
    /// Its files.
    pub space: Space,
}

/// Statistics of an engine's new tables.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Statistics {
    /// The engine.
    pub engine: Engine,
    /// The round, counted from 1.
    pub round: u32,
    /// Tables and seconds.
    #[serde(flatten)]
    pub analyzed: Analyzed,
}

/// The results of an experiment.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// The measurements in the order of making; the labels are `engine` and `workload`.
    pub cells: Vec<Measured>,
    /// The engines' tables after the last round.
    pub at_end: Vec<AtEnd>,
    /// Each ANALYZE of an engine's tables, in running order.
    pub analyses: Vec<Statistics>,
    /// Why it ended before its last step.
    pub ended_early: Option<String>,
}

/// Sees the steps of an experiment, to show them.
pub trait Watcher {
    /// A step begins.
    fn begins(&mut self, number: usize, round: u32, step: Step);
    /// A second of a warm-up is over: seconds since its start, transactions a second.
    fn warms_up(&mut self, at_s: f64, rate: f64);
    /// A second of a run is over.
    fn second(&mut self, second: &Second);
    /// A run is over.
    fn measured(&mut self, measured: &Measured);
    /// A step is over.
    fn ends(&mut self, number: usize, step: Step, took: Duration);
    /// Runs turned out to be worthless.
    fn complaint(&mut self, text: &str);
}

/// Carries a design out.
pub struct Experiment<'a> {
    design: &'a Design,
    server: &'a mut Server,
    interrupt: &'a Interrupt,
    watcher: &'a mut dyn Watcher,
    record: Record,
    tables: BTreeMap<Engine, Tables>,
    telemetry: bool,
    deferred: Deferred,
}

/// The source of the work that the server may still do by itself, since it was last waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deferred {
    None,
    OfLoads,
    OfStatistics,
}

/// The state of an engine's tables.
#[derive(Clone, Debug, Default)]
struct Tables {
    /// Their expected rows; unknown after a failed run.
    expected: Option<Expected>,
    /// Runs on them since they were made, as places in the record.
    cells: Vec<usize>,
    /// Why nothing can be run on them.
    broken: Option<String>,
}

impl<'a> Experiment<'a> {
    /// For a running server.
    pub fn new(
        design: &'a Design,
        server: &'a mut Server,
        interrupt: &'a Interrupt,
        watcher: &'a mut dyn Watcher,
    ) -> Experiment<'a> {
        let (record, tables) = (Record::default(), BTreeMap::new());
        let deferred = Deferred::None;
        Experiment { design, server, interrupt, watcher, record, tables, telemetry: false, deferred }
    }

    /// Records machine and server alongside each run.
    pub fn with_telemetry(self) -> Experiment<'a> {
        Experiment { telemetry: true, ..self }
    }

    /// Carries out all steps.
    pub fn run(self) -> Record {
        let all = 1..=self.design.rounds;
        self.rounds(all)
    }

    /// Carries out the steps of some rounds, counted from 1.
    pub fn rounds(mut self, asked: RangeInclusive<u32>) -> Record {
        let steps = self.design.steps();
        let rounds = *asked.end();
        for (number, (round, step)) in steps.into_iter().enumerate() {
            if !asked.contains(&round) {
                continue;
            }
            self.watcher.begins(number, round, step);
            let start = Instant::now();
            let done = self.step(round, step).and_then(|()| self.server.check_alive());
            if let Err(error) = done {
                self.record.ended_early = Some(error.to_string());
                break;
            }
            if let Step::Check(engine) = step {
                // The last check of an engine in the last round is the last step on it.
                if round == rounds {
                    self.note_end(engine);
                }
            }
            self.watcher.ends(number, step, start.elapsed());
        }
        let engines = &self.design.engines;
        self.record.at_end.sort_by_key(|end| engines.iter().position(|e| *e == end.engine));
        self.record
    }

    /// Fails only when nothing more can be measured.
    fn step(&mut self, round: u32, step: Step) -> Result<()> {
        self.interrupt.check()?;
        match step {
            Step::Prepare => self.prepare(round),
            Step::Analyze(engine) => self.analyze(engine, round),
            Step::Update(engine) => self.update(engine, round),
            Step::Measure(engine, workload) => self.measure(engine, workload, round),
            Step::Check(engine) => self.check(engine),
        }
    }

    fn prepare(&mut self, round: u32) -> Result<()> {
        let load = self.design.load;
        for engines in self.design.engines.chunks(self.design.loads_at_once()) {
            let sysbench = self.sysbench(load);
            let client = self.server.client();
            let made: Vec<Result<()>> = thread::scope(|scope| {
                let make = |engine: Engine| {
                    let database = engine.database();
                    client
                        .query(&format!("DROP DATABASE IF EXISTS {database}; CREATE DATABASE {database}"))?;
                    sysbench.prepare(engine, round)
                };
                let loads: Vec<_> = engines.iter().map(|engine| scope.spawn(move || make(*engine))).collect();
                loads
                    .into_iter()
                    .map(|load| load.join().unwrap_or_else(|panic| resume_unwind(panic)))
                    .collect()
            });
            for (engine, made) in engines.iter().zip(made) {
                let expected = Expected::exactly(load.rows * u64::from(load.tables));
                self.tables.insert(*engine, Tables { expected: Some(expected), ..Tables::default() });
                if let Err(error) = made {
                    self.break_tables(*engine, error)?;
                }
            }
        }
        self.deferred = Deferred::OfLoads;
        Ok(())
    }

    fn analyze(&mut self, engine: Engine, round: u32) -> Result<()> {
        if self.tables.get(&engine).is_some_and(|t| t.broken.is_some()) {
            return Ok(());
        }
        if self.deferred == Deferred::OfLoads {
            self.settle()?;
        }
        match analyze::through_client(self.server.client(), engine.database()) {
            Ok(analyzed) => {
                self.record.analyses.push(Statistics { engine, round, analyzed });
                self.deferred = Deferred::OfStatistics;
                Ok(())
            }
            Err(error) => self.break_tables(engine, error),
        }
    }

    fn update(&mut self, engine: Engine, round: u32) -> Result<()> {
        if self.tables.get(&engine).is_some_and(|t| t.broken.is_some()) {
            return Ok(());
        }
        self.settle_once()?;
        let load = Load { warm_up_s: 0, time_s: self.design.update_s, ..self.design.load };
        match self.sysbench(load).run(engine, Workload::UpdateNonIndex, seed(round, 0), |_| {}) {
            Ok(_) => Ok(()),
            Err(error) => self.break_tables(engine, error),
        }
    }

    fn measure(&mut self, engine: Engine, workload: Workload, round: u32) -> Result<()> {
        let place = Workload::ALL.iter().position(|w| *w == workload).unwrap_or(0);
        let seed = seed(round, place as u32 + 1);
        let mut measured = Measured::new(id(engine, workload, round), u64::from(seed), SECONDS);
        if let Some(why) = self.tables.get(&engine).and_then(|t| t.broken.clone()) {
            measured.cell.failures.push(why);
            return self.keep(engine, measured);
        }
        self.settle_once()?;
        let sysbench = Sysbench {
            socket: self.server.socket(),
            server: self.server.pid(),
            load: self.design.load,
            interrupt: self.interrupt,
        };
        let address = Address::root(self.server.socket());
        let start = || Recorder::of_server(Some(self.server.pid()), self.server.directory(), &address);
        let watcher = &mut self.watcher;
        let rule = self.design.warm_up(workload);
        let warmed = warm_up(&sysbench, rule, engine, workload, seed, &mut **watcher);
        let result = match warmed {
            Err(error) => Err(error),
            Ok(warmed) => {
                let recorder = self.telemetry.then(start).transpose()?;
                let result = sysbench.run(engine, workload, seed, |second| watcher.second(second));
                measured.telemetry = recorder.map(|recorder| recorder.stop().series);
                result.map(|run| (warmed, run))
            }
        };
        let (warmed, run) = match result {
            Ok(both) => both,
            Err(error) => {
                measured.cell.failures.push(error.to_string());
                // A server that died shows here first, as an error of sysbench.
                let alive = self.server.check_alive();
                let tables = self.tables.entry(engine).or_default();
                tables.expected = None;
                self.keep(engine, measured)?;
                fatal(error)?;
                return alive;
            }
        };
        let before = process_use(self.server.pid()).cpu_s;
        self.settle()?;
        let after = process_use(self.server.pid()).cpu_s - before;
        let cell = &mut measured.cell;
        cell.add(figures(&run, disk::of_engine(self.server.directory(), engine)));
        cell.figure("after_cpu_us", per_call_us(after, run.report.measured.statements));
        if run.report.measured.reconnects > 0 {
            cell.failures.push(format!("{} connections were lost", run.report.measured.reconnects));
        }
        if run.report.measured.transactions == 0 {
            cell.failures.push("not one transaction came to its end".to_string());
        }

        let own = run.report.warm_up.unwrap_or_default();
        measured.seconds.rows = seconds(&run);
        measured.warm_up = WarmUp { seconds: warmed.seconds + own.until_s, steady: warmed.steady };
        let parts = [own, run.report.measured];
        let writes = warmed.writes + parts.iter().map(|p| p.writes).sum::<u64>();
        let errors = warmed.retried_errors + parts.iter().map(|p| p.retried_errors).sum::<u64>();
        let tables = self.tables.entry(engine).or_default();
        tables.expected = tables.expected.map(|e| e.after(workload.row_change(writes, errors)));
        self.keep(engine, measured)
    }

    fn keep(&mut self, engine: Engine, measured: Measured) -> Result<()> {
        self.watcher.measured(&measured);
        self.tables.entry(engine).or_default().cells.push(self.record.cells.len());
        self.record.cells.push(measured);
        Ok(())
    }

    fn check(&mut self, engine: Engine) -> Result<()> {
        let tables = self.tables.entry(engine).or_default();
        if tables.broken.is_some() {
            return Ok(());
        }
        let complaints =
            match check::tables(self.server.client(), engine, self.design.load.tables, tables.expected) {
                Ok(found) => found.complaints,
                Err(error) => vec![error.to_string()],
            };
        if complaints.is_empty() {
            return Ok(());
        }
        let text = complaints.join("; ");
        for place in &tables.cells {
            self.record.cells[*place].cell.failures.push(format!("afterwards: {text}"));
        }
        self.watcher.complaint(&format!("{engine}: {text}"));
        Ok(())
    }

    /// Nothing can be run on an engine's tables until they are made anew.
    fn break_tables(&mut self, engine: Engine, error: Error) -> Result<()> {
        self.server.check_alive()?;
        let text = error.to_string();
        fatal(error)?;
        self.watcher.complaint(&format!("{engine}: {text}"));
        self.tables.entry(engine).or_default().broken = Some(text);
        Ok(())
    }

    fn note_end(&mut self, engine: Engine) {
        self.record.at_end.retain(|e| e.engine != engine);
        let sum: Result<i64> = (1..=self.design.load.tables)
            .map(|n| {
                let count = self
                    .server
                    .client()
                    .value(&format!("SELECT COUNT(*) FROM {}.sbtest{n}", engine.database()))?;
                Ok(count.parse::<i64>().unwrap_or(0))
            })
            .sum();
        if let Ok(rows) = sum {
            let space = disk::of_engine(self.server.directory(), engine);
            self.record.at_end.push(AtEnd { engine, rows, space });
        }
    }

    fn sysbench(&self, load: Load) -> Sysbench<'_> {
        Sysbench { socket: self.server.socket(), server: self.server.pid(), load, interrupt: self.interrupt }
    }

    /// Waits for the work left by loads and statistics, unless that is over.
    fn settle_once(&mut self) -> Result<()> {
        match self.deferred {
            Deferred::None => Ok(()),
            Deferred::OfLoads | Deferred::OfStatistics => self.settle(),
        }
    }

    /// One engine's deferred work must not run in the time of the next.
    fn settle(&mut self) -> Result<()> {
        self.deferred = Deferred::None;
        let limit = Duration::from_secs(u64::from(self.design.settle_s));
        idle::wait(self.server.pid(), limit, self.interrupt)
    }
}

/// The sum of a warm-up's processes.
#[derive(Clone, Copy, Debug, Default)]
struct Warmed {
    seconds: f64,
    steady: Option<bool>,
    writes: u64,
    retried_errors: u64,
}

/// Runs a workload in processes of a window each, until it is warm by the rule. A process ends by itself, so
/// its counters are whole and its changes of rows are known.
fn warm_up(
    sysbench: &Sysbench<'_>,
    rule: Rule,
    engine: Engine,
    workload: Workload,
    seed: u32,
    watcher: &mut dyn Watcher,
) -> Result<Warmed> {
    let mut warmed = Warmed::default();
    if rule.is_fixed() {
        return Ok(warmed);
    }
    let load = Load { warm_up_s: 0, time_s: rule.window_s, ..sysbench.load };
    let window = Sysbench { load, ..*sysbench };
    let mut rates = Vec::new();
    for number in 1.. {
        let before = rates.len() as f64;
        let run = window.run(engine, workload, seed + number * SEED_STEP, |second| {
            watcher.warms_up(before + second.at_s, second.transactions_per_s);
        })?;
        let seconds = run.report.seconds();
        let counters = run.report.measured;
        warmed.seconds += seconds;
        warmed.writes += counters.writes;
        warmed.retried_errors += counters.retried_errors;
        let each = run.seconds.iter().map(|(second, _)| second.transactions_per_s).collect();
        rates.extend(filled(each, rule.window_s as usize, counters.transactions as f64 / seconds.max(1e-3)));
        match rule.state(&rates) {
            State::Warming => {}
            state => {
                warmed.steady = Some(state == State::Steady);
                break;
            }
        }
    }
    Ok(warmed)
}

/// As many rates as a window has seconds: sysbench may print one less or one more.
fn filled(mut rates: Vec<f64>, seconds: usize, mean: f64) -> Vec<f64> {
    rates.resize(seconds, mean);
    rates
}

/// The seed of a run: another one for each round and workload, the same for all engines.
fn seed(round: u32, place: u32) -> u32 {
    round * 100 + place + 1
}

/// The cell of an engine and a workload.
fn id(engine: Engine, workload: Workload, round: u32) -> CellId {
    CellId::new([("engine", engine.to_string()), ("workload", workload.to_string())], round)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn seeds_differ_by_round_and_workload() {
        let all: HashSet<u32> = (1..=20).flat_map(|r| (0..=8).map(move |p| seed(r, p))).collect();
        assert_eq!(all.len(), 20 * 9);
        assert!(!all.contains(&0), "0 would be the time to sysbench");
    }

    fn design(warm_up_s: u32, warm_up_limit_s: u32) -> Design {
        Design {
            engines: Engine::ALL.to_vec(),
            workloads: Workload::ALL.to_vec(),
            rounds: 1,
            load: Load { tables: 1, rows: 1, threads: 1, warm_up_s, time_s: 1 },
            warm_up_limit_s,
            update_s: 0,
            settle_s: 0,
        }
    }

    #[test]
    fn a_warm_up_ends_within_its_limit_and_does_not_change_the_number_of_rows() {
        for (warm_up_s, limit_s, at_most_s) in [(2, 30, 27), (2, 0, 0), (2, 2, 0), (2, 4, 0), (2, 5, 3)] {
            let design = design(warm_up_s, limit_s);
            assert_eq!(design.warm_up(Workload::ReadWrite).at_most_s, at_most_s, "{warm_up_s} {limit_s}");
            for workload in [Workload::Insert, Workload::Delete] {
                assert!(design.warm_up(workload).is_fixed(), "{workload}");
            }
        }
    }

    #[test]
    fn loads_at_once_have_no_more_clients_than_a_run() {
        for (threads, tables, at_once) in [(8, 1, 8), (8, 3, 2), (8, 8, 1), (8, 20, 1), (1, 4, 1), (1, 1, 1)]
        {
            let mut design = design(2, 0);
            design.load = Load { tables, threads, ..design.load };
            assert_eq!(design.loads_at_once(), at_once, "{threads} threads, {tables} tables");
        }
    }

    #[test]
    fn a_window_has_a_rate_for_each_of_its_seconds() {
        assert_eq!(filled(vec![1.0, 2.0], 3, 9.0), [1.0, 2.0, 9.0]);
        assert_eq!(filled(vec![1.0, 2.0, 3.0, 4.0], 3, 9.0), [1.0, 2.0, 3.0]);
    }
}
