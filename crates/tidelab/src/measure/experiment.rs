//! Carries out the steps of a plan on a running server and records what comes of them.
//!
//! A run that fails fails its cell and the experiment goes on; it ends early only when the
//! server is gone or somebody asks for it, and then what was measured so far is kept.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::cell::{figures, per_statement_us, seconds, Cell};
use super::check::{self, Expected};
use super::plan::{self, Step};
use super::quiet;
use crate::error::{Error, Result};
use crate::interrupt::Interrupt;
use crate::server::engine::Engine;
use crate::server::session::Address;
use crate::server::Server;
use crate::telemetry::disk::{self, Space};
use crate::telemetry::process::process_use;
use crate::telemetry::recorder::Recorder;
use crate::workload::sysbench::{Load, Sysbench, Workload};
use crate::workload::sysbench_report::Second;

/// What to measure.
#[derive(Clone, Debug, Serialize)]
pub struct Design {
    /// The competitors.
    pub engines: Vec<Engine>,
    /// The workloads, in their order.
    pub workloads: Vec<Workload>,
    /// Rounds.
    pub rounds: u32,
    /// Size of tables and load.
    pub load: Load,
    /// Seconds of updates right before each workload that only reads; 0 for none.
    pub update_s: u32,
    /// Seconds at most to wait until the server is quiet after each run.
    pub settle_s: u32,
}

impl Design {
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

/// What an engine's tables were at the end.
#[derive(Clone, Debug, Serialize)]
pub struct AtEnd {
    /// The engine.
    pub engine: Engine,
    /// Rows of all tables.
    pub rows: i64,
    /// Its files.
    pub space: Space,
}

/// All that an experiment recorded.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Record {
    /// The runs in the order in which they were made.
    pub cells: Vec<Cell>,
    /// The engines' tables after the last round.
    pub at_end: Vec<AtEnd>,
    /// Why it ended before its last step.
    pub ended_early: Option<String>,
}

/// Sees what happens, for those who wait.
pub trait Watcher {
    /// A step begins.
    fn begins(&mut self, number: usize, round: u32, step: Step);
    /// A second of a run is over.
    fn second(&mut self, second: &Second);
    /// A run is over.
    fn measured(&mut self, cell: &Cell);
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
}

/// What is known of an engine's tables.
#[derive(Clone, Debug, Default)]
struct Tables {
    /// The rows that they must have; unknown after a run that failed.
    expected: Option<Expected>,
    /// Runs on them since they were made, as places in the record.
    cells: Vec<usize>,
    /// Why nothing can be run on them.
    broken: Option<String>,
}

impl<'a> Experiment<'a> {
    /// For a server that runs.
    pub fn new(
        design: &'a Design,
        server: &'a mut Server,
        interrupt: &'a Interrupt,
        watcher: &'a mut dyn Watcher,
    ) -> Experiment<'a> {
        let (record, tables) = (Record::default(), BTreeMap::new());
        Experiment { design, server, interrupt, watcher, record, tables, telemetry: false }
    }

    /// Records beside each run what machine and server do.
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
            Step::Prepare(engine) => {
                let made = self.prepare(engine, round);
                let tables = self.tables.entry(engine).or_default();
                *tables = Tables::default();
                match made {
                    Ok(()) => {
                        let rows = self.design.load.rows * u64::from(self.design.load.tables);
                        tables.expected = Some(Expected::exactly(rows));
                        self.settle()?;
                        Ok(())
                    }
                    Err(error) => self.break_tables(engine, error),
                }
            }
            Step::Update(engine) => self.update(engine, round),
            Step::Measure(engine, workload) => self.measure(engine, workload, round),
            Step::Check(engine) => self.check(engine),
        }
    }

    fn prepare(&mut self, engine: Engine, round: u32) -> Result<()> {
        let database = engine.database();
        self.server
            .client()
            .query(&format!("DROP DATABASE IF EXISTS {database}; CREATE DATABASE {database}"))?;
        self.sysbench(self.design.load).prepare(engine, round)
    }

    fn update(&mut self, engine: Engine, round: u32) -> Result<()> {
        if self.tables.get(&engine).is_some_and(|t| t.broken.is_some()) {
            return Ok(());
        }
        let load = Load { warm_up_s: 0, time_s: self.design.update_s, ..self.design.load };
        match self.sysbench(load).run(engine, Workload::UpdateNonIndex, seed(round, 0), |_| {}) {
            Ok(_) => Ok(()),
            Err(error) => self.break_tables(engine, error),
        }
    }

    fn measure(&mut self, engine: Engine, workload: Workload, round: u32) -> Result<()> {
        let place = Workload::ALL.iter().position(|w| *w == workload).unwrap_or(0);
        let seed = seed(round, place as u32 + 1);
        let mut cell = Cell {
            workload,
            engine,
            round,
            seed,
            failures: vec![],
            figures: None,
            seconds: vec![],
            telemetry: None,
        };
        if let Some(why) = self.tables.get(&engine).and_then(|t| t.broken.clone()) {
            cell.failures.push(why);
            return self.keep(cell);
        }
        let sysbench = Sysbench {
            socket: self.server.socket(),
            server: self.server.pid(),
            load: self.design.load,
            interrupt: self.interrupt,
        };
        let address = Address::root(self.server.socket());
        let beside = || Recorder::of_server(Some(self.server.pid()), self.server.directory(), &address);
        let recorder = self.telemetry.then(beside).transpose()?;
        let watcher = &mut self.watcher;
        let result = sysbench.run(engine, workload, seed, |second| watcher.second(second));
        cell.telemetry = recorder.map(|recorder| recorder.stop().series);
        let run = match result {
            Ok(run) => run,
            Err(error) => {
                cell.failures.push(error.to_string());
                // A server that died shows here first, as an error of sysbench.
                let alive = self.server.check_alive();
                let tables = self.tables.entry(engine).or_default();
                tables.expected = None;
                self.keep(cell)?;
                fatal(error)?;
                return alive;
            }
        };
        let mut of_run = figures(&run, Space::default());
        let before = process_use(self.server.pid()).cpu_s;
        self.settle()?;
        let after = process_use(self.server.pid()).cpu_s - before;
        of_run.after_cpu_us = per_statement_us(after, of_run.statements);
        of_run.space = disk::of_engine(self.server.directory(), engine);
        cell.seconds = seconds(&run);
        cell.figures = Some(of_run);
        if run.report.measured.reconnects > 0 {
            cell.failures.push(format!("{} connections were lost", run.report.measured.reconnects));
        }
        if run.report.measured.transactions == 0 {
            cell.failures.push("not one transaction came to its end".to_string());
        }

        let parts = [run.report.warm_up.unwrap_or_default(), run.report.measured];
        let writes = parts.iter().map(|p| p.writes).sum();
        let errors = parts.iter().map(|p| p.retried_errors).sum();
        let tables = self.tables.entry(engine).or_default();
        tables.expected = tables.expected.map(|e| e.after(workload.row_change(writes, errors)));
        self.keep(cell)
    }

    fn keep(&mut self, cell: Cell) -> Result<()> {
        self.watcher.measured(&cell);
        self.tables.entry(cell.engine).or_default().cells.push(self.record.cells.len());
        self.record.cells.push(cell);
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
            self.record.cells[*place].failures.push(format!("afterwards: {text}"));
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

    /// What one engine put off must not run in the time of the next.
    fn settle(&self) -> Result<()> {
        let limit = Duration::from_secs(u64::from(self.design.settle_s));
        quiet::wait(self.server.pid(), limit, self.interrupt)
    }
}

/// The seed of a run: another one for each round and workload, the same for all engines.
fn seed(round: u32, place: u32) -> u32 {
    round * 100 + place + 1
}

/// An error that ends the experiment and not only a cell.
pub(crate) fn fatal(error: Error) -> Result<()> {
    match error {
        Error::Interrupted | Error::Io { .. } | Error::Missing { .. } => Err(error),
        _ => Ok(()),
    }
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

    #[test]
    fn a_load_that_fails_is_not_the_end() {
        assert!(fatal(Error::Load { what: String::new(), message: String::new() }).is_ok());
        assert!(fatal(Error::Interrupted).is_err());
    }
}
