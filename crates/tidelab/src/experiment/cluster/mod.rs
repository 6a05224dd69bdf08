//! The kind `cluster`: engines in one Galera cluster of three nodes on this machine, with clients on all of them
//! (`docs/experiments/cluster.md`).
//!
//! Each number of appliers has a cluster of its own, with both engines in its servers and each engine's tables loaded
//! once. A round runs every load on every engine in turns. A measurement ends when all nodes have its last commit, and
//! the servers are idle before the next one begins. After each round the nodes' tables must be equal.

mod agreement;
mod clients;
mod design;
mod figures;
mod fill;
mod nodes;

use std::time::{Duration, Instant};

use tidelab_server::error::{Error, Result};
use tidelab_server::server::engine::Engine;
use tidelab_server::server::session::Address;
use tidelab_server::server::settings;
use tidelab_server::workload::tpcc::{readout, Scale};

use self::clients::Clients;
pub use self::design::Options;
use self::design::{Load, Tables, APPLIERS, ENGINE, WORKLOAD};
use self::figures::{metrics, ClusterLoad, SECONDS};
use self::nodes::Nodes;
use crate::measure::{fatal, reference};
use crate::run::conduct::failed;
use crate::run::{self, Axis, Cell, CellId, Folder, Group, Paths, Role, Run, Series};

/// The file of a load's seconds.
const SECONDS_FILE: &str = "seconds.csv";
/// Connections of the look at TPC-C's tables.
const READERS: u32 = 2;

/// Measures.
pub struct Conductor<'a> {
    options: Options,
    paths: Paths<'a>,
    nodes: Option<Nodes>,
}

impl<'a> Conductor<'a> {
    /// For these options; the run gets its axes and metrics. Errors: the options make no sense.
    pub fn open(options: Options, paths: Paths<'a>, run: &mut Run) -> Result<Conductor<'a>> {
        options.check(&run.name)?;
        let loads: Vec<&str> = options.workloads.iter().map(|load| load.name()).collect();
        run.axes = vec![
            Axis::new(ENGINE, "Engine", Role::Competitor, &options.engines),
            Axis::new(WORKLOAD, "Workload", Role::Category, &loads),
            Axis::new(APPLIERS, "Appliers", Role::Number, &options.appliers),
        ];
        run.reference = reference(&options.engines);
        run.metrics = metrics();
        Ok(Conductor { options, paths, nodes: None })
    }

    /// The cluster with so many appliers, its tables filled.
    fn nodes(&mut self, appliers: u32, run: &mut Run, folder: &Folder) -> Result<Nodes> {
        match self.nodes.take() {
            Some(nodes) if nodes.appliers == appliers => return Ok(nodes),
            Some(nodes) => nodes.stop()?,
            None => {}
        }
        let mut nodes = Nodes::start(&self.options, appliers, self.paths, run, folder)?;
        fill::fill(&mut nodes, &self.options, run, self.paths.interrupt)?;
        Ok(nodes)
    }

    /// One load on all nodes. A failed load is a failed cell. Errors: the cluster is not whole any more.
    fn load(&self, id: &CellId, nodes: &mut Nodes, folder: &Folder) -> Result<Cell> {
        let making = folder.begin(id)?;
        let clients = Clients {
            options: &self.options,
            load: Load::of(id)?,
            engine: id.label(ENGINE).parse()?,
            seed: u64::from(self.options.seed) * 1000 + u64::from(id.round),
            folder: &making,
            interrupt: self.paths.interrupt,
        };
        let places = nodes.places();
        let before = nodes.counters()?;
        let start = Instant::now();
        let loads = clients.run(&places);
        let ran = start.elapsed();
        let drained = nodes.drain()?;
        let after = nodes.counters()?;
        nodes.settle(Duration::from_secs(u64::from(self.options.settle_s)))?;
        let loads = match loads {
            Ok(loads) => loads,
            Err(error) => {
                let cell = failed(id, &error);
                return fatal(error).map(|()| cell);
            }
        };
        let load = ClusterLoad { nodes: loads, ran, drain: drained, before, after };
        let mut cell = Cell::new(id.clone(), clients.seed);
        cell.add(load.figures());
        cell.figures.retain(|name, _| metrics().iter().any(|metric| metric.name == *name));
        cell.histograms.insert("transaction_ms".to_string(), load.latencies_ms());
        let seconds = Series { rows: load.seconds(), ..Series::new(SECONDS) };
        seconds.write(&making.join(SECONDS_FILE))?;
        cell.series.push(SECONDS_FILE.to_string());
        cell.files.extend((0..places.len()).filter_map(|number| clients.log_of(number)));
        if cell.figures.get("transactions").is_none_or(|transactions| *transactions <= 0.0) {
            cell.failures.push("not one transaction came to its end".to_string());
        }
        Ok(cell)
    }

    /// The faults of an engine's tables, with all nodes at rest. TPC-C's conditions are looked at on one node.
    fn faults(&self, nodes: &Nodes, engine: Engine, round: u32) -> Result<Vec<String>> {
        let (clients, places) = (nodes.clients(), nodes.places());
        let mut wrong = Vec::new();
        for tables in self.options.all_tables() {
            let database = tables.database(engine);
            wrong.extend(agreement::complaints(&clients, &database)?);
            if tables == Tables::Tpcc {
                let place = &places[round as usize % places.len()];
                let scale = Scale::full(self.options.warehouses);
                let found = readout::check(&Address::root(&place.socket), &database, scale, READERS)?;
                wrong.extend(found.complaints());
            }
        }
        Ok(wrong)
    }
}

impl run::Conductor for Conductor<'_> {
    fn groups(&self) -> Vec<Group> {
        self.options.groups()
    }

    fn measure(&mut self, group: &Group, run: &mut Run, folder: &mut Folder) -> Result<()> {
        let Some(first) = group.cells.first() else { return Ok(()) };
        let appliers = first.label(APPLIERS);
        let appliers = appliers
            .parse()
            .map_err(|_| Error::Usage(format!("'{appliers}' is to be a number of appliers")))?;
        let mut nodes = self.nodes(appliers, run, folder)?;
        let mut cells = Vec::new();
        for id in &group.cells {
            let cell = self.load(id, &mut nodes, folder)?;
            say(&cell);
            cells.push(cell);
        }
        for engine in &self.options.engines {
            let wrong = self.faults(&nodes, *engine, first.round)?;
            let of_engine = cells.iter_mut().filter(|cell| cell.id.label(ENGINE) == engine.name());
            of_engine.for_each(|cell| cell.failures.extend(wrong.iter().cloned()));
        }
        for cell in cells {
            folder.finish(cell)?;
        }
        self.nodes = Some(nodes);
        Ok(())
    }

    fn rules(&self) -> Vec<(String, String)> {
        vec![("comparison.toml".to_string(), settings::COMPARISON.to_string())]
    }

    fn close(&mut self) -> Result<()> {
        self.nodes.take().map_or(Ok(()), Nodes::stop)
    }
}

/// A line for the person at the terminal.
fn say(cell: &Cell) {
    let of = |name: &str| cell.figures.get(name).copied().unwrap_or(0.0);
    let (workload, engine) = (cell.id.label(WORKLOAD), cell.id.label(ENGINE));
    match cell.failures.first() {
        Some(why) => eprintln!("  {workload:<10} {engine:<8} failed: {why}"),
        None => eprintln!(
            "  {workload:<10} {engine:<8} {:>8.0} /s  p99 {:>7.2} ms  aborted {:>6.1} /s  paused {:>5.1} ms/s  drain {:.2} s",
            of("transactions_per_s"),
            of("p99_ms"),
            of("aborts_per_s"),
            of("paused_ms_per_s"),
            of("drain_s")
        ),
    }
}
