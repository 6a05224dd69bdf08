//! The clients of a load, on all nodes at once: a sysbench for each node, or TPC-C's users on each.

use std::path::Path;
use std::thread;
use std::time::Duration;

use tidelab_server::error::{Error, Result};
use tidelab_server::interrupt::Interrupt;
use tidelab_server::latency::Latencies;
use tidelab_server::server::engine::Engine;
use tidelab_server::server::session::Address;
use tidelab_server::workload::steady::Rule;
use tidelab_server::workload::sysbench::{self, Extra, Sysbench, Target};
use tidelab_server::workload::tpcc::drive::{Drive, Outcomes};
use tidelab_server::workload::tpcc::Scale;

use super::design::{Load, Options};
use super::figures::NodeLoad;
use super::fill::sizes;
use super::nodes::Place;

/// A load of one engine's tables.
pub struct Clients<'a> {
    pub options: &'a Options,
    pub load: Load,
    pub engine: Engine,
    /// The same for all engines of a round; each node has its own number after it.
    pub seed: u64,
    /// The folder for the programs' output.
    pub folder: &'a Path,
    pub interrupt: &'a Interrupt,
}

impl Clients<'_> {
    /// Runs them on all nodes to their end. Errors: those of the first node that has one.
    pub fn run(&self, places: &[Place]) -> Result<Vec<NodeLoad>> {
        let ended: Vec<Result<NodeLoad>> = thread::scope(|scope| {
            let nodes: Vec<_> = places
                .iter()
                .enumerate()
                .map(|(number, place)| scope.spawn(move || self.on_node(number, place)))
                .collect();
            nodes.into_iter().map(|node| node.join().expect("a node's clients do not panic")).collect()
        });
        self.interrupt.check()?;
        ended.into_iter().collect()
    }

    /// The output of a node's program, in the folder; none for TPC-C.
    pub fn log_of(&self, number: usize) -> Option<String> {
        (self.load != Load::Tpcc).then(|| format!("node{}.txt", number + 1))
    }

    fn on_node(&self, number: usize, place: &Place) -> Result<NodeLoad> {
        let script = match self.load {
            Load::WriteOnly => "oltp_write_only",
            Load::ReadWrite => "oltp_read_write",
            Load::HotRows => "oltp_update_non_index",
            Load::Tpcc => return self.tpcc(number, place),
        };
        let tables = self.load.tables();
        let database = tables.database(self.engine);
        let sysbench = Sysbench {
            socket: &place.socket,
            server: place.process,
            load: sizes(self.options, tables),
            interrupt: self.interrupt,
        };
        let target = Target { script, database: &database, engine: self.engine.name() };
        let log = self.log_of(number).map(|name| self.folder.join(name));
        let extra = Extra { options: &[], log: log.as_deref() };
        // 0 would be the time for sysbench.
        let seed = (self.seed_of(number) % u64::from(u32::MAX)) as u32 + 1;
        let run = sysbench.run_with(target, &self.name(number), seed, extra, |_| {})?;
        Ok(of_sysbench(&run))
    }

    fn tpcc(&self, number: usize, place: &Place) -> Result<NodeLoad> {
        let address = Address::root(&place.socket);
        let drive = Drive {
            address: &address,
            server: Some(place.process),
            database: &self.load.tables().database(self.engine),
            scale: Scale::full(self.options.warehouses),
            users: self.options.threads,
            ramp_up: Rule::fixed(self.options.warm_up_s),
            duration: Duration::from_secs(u64::from(self.options.time_s)),
            seed: self.seed_of(number),
            interrupt: self.interrupt,
        };
        let outcomes = drive.run(|_| {})?;
        match outcomes.errors.first() {
            Some(error) => Err(Error::Load { what: self.name(number), message: error.clone() }),
            None => Ok(of_tpcc(&outcomes)),
        }
    }

    fn seed_of(&self, number: usize) -> u64 {
        self.seed * 10 + number as u64
    }

    fn name(&self, number: usize) -> String {
        format!("{} on {}, node {}", self.load.name(), self.engine, number + 1)
    }
}

fn of_sysbench(run: &sysbench::Run) -> NodeLoad {
    NodeLoad {
        seconds: run.report.seconds(),
        transactions: run.report.measured.transactions,
        aborts: run.report.measured.retried_errors,
        server_cpu_s: run.end.server.cpu_s - run.begin.server.cpu_s,
        latencies_ms: run.report.histogram.clone(),
        per_second: run
            .seconds
            .iter()
            .map(|(second, _)| [second.at_s, second.transactions_per_s, second.errors_per_s])
            .collect(),
    }
}

fn of_tpcc(outcomes: &Outcomes) -> NodeLoad {
    let mut latencies = Latencies::default();
    outcomes.counted.iter().for_each(|counted| latencies.merge(&counted.latencies));
    NodeLoad {
        seconds: (outcomes.end.at - outcomes.begin.at).as_secs_f64(),
        transactions: latencies.count(),
        aborts: outcomes.counted.iter().flat_map(|counted| counted.failed.values()).sum(),
        server_cpu_s: outcomes.end.server.cpu_s - outcomes.begin.server.cpu_s,
        latencies_ms: latencies.kept().into_iter().map(|(us, count)| (us / 1000.0, count)).collect(),
        per_second: outcomes
            .seconds
            .iter()
            .map(|second| [second.at_s, second.transactions_per_s, second.failed_per_s])
            .collect(),
    }
}
