//! Fills the tables of each engine through the first node, once for a cluster.

use std::time::{Duration, Instant};

use tidelab_server::error::Result;
use tidelab_server::interrupt::Interrupt;
use tidelab_server::server::analyze;
use tidelab_server::server::engine::Engine;
use tidelab_server::server::session::Address;
use tidelab_server::workload::sysbench::{Load as Sizes, Sysbench, Target};
use tidelab_server::workload::tpcc::loader::Load as TpccLoad;
use tidelab_server::workload::tpcc::{make_tables, Scale};

use super::design::{Options, Tables};
use super::nodes::{Nodes, Place};
use crate::run::Run;

/// sysbench's sizes for its own tables and for the table with few rows.
pub fn sizes(options: &Options, tables: Tables) -> Sizes {
    let (tables, rows) = match tables {
        Tables::Hot => (1, options.hot_rows),
        Tables::Sysbench | Tables::Tpcc => (options.tables, options.rows),
    };
    let Options { threads, warm_up_s, time_s, .. } = *options;
    Sizes { tables, rows, threads, warm_up_s, time_s }
}

/// Fills all tables of the options, and waits until all nodes have them and their statistics. The run gets a sentence for
/// each load.
pub fn fill(nodes: &mut Nodes, options: &Options, run: &mut Run, interrupt: &Interrupt) -> Result<()> {
    for tables in options.all_tables() {
        for engine in &options.engines {
            let database = tables.database(*engine);
            eprintln!("loading {database}");
            let start = Instant::now();
            fill_one(nodes, options, tables, *engine, interrupt)?;
            let loaded = start.elapsed();
            let drained = nodes.drain()?;
            for client in nodes.clients() {
                analyze::through_client(client, &database)?;
            }
            run.note(format!(
                "appliers {}: {database} was loaded through node 1 in {:.1} s, and the others had it {:.2} s later",
                nodes.appliers,
                loaded.as_secs_f64(),
                drained.as_secs_f64()
            ));
        }
    }
    nodes.drain()?;
    nodes.settle(Duration::from_secs(u64::from(options.settle_s)))
}

fn fill_one(
    nodes: &Nodes,
    options: &Options,
    tables: Tables,
    engine: Engine,
    interrupt: &Interrupt,
) -> Result<()> {
    let database = tables.database(engine);
    let (places, clients) = (nodes.places(), nodes.clients());
    let Place { socket, process } = &places[0];
    if tables == Tables::Tpcc {
        let (address, scale) = (Address::root(socket), Scale::full(options.warehouses));
        make_tables(&address, &database, engine, scale, false)?;
        let (users, seed) = (options.threads, u64::from(options.seed));
        let load =
            TpccLoad { address: &address, database: &database, scale, users, seed, session: &[], interrupt };
        return load.run(|_, _| {}).map(drop);
    }
    clients[0].query(&format!("CREATE DATABASE {database}"))?;
    let sysbench = Sysbench { socket, server: *process, load: sizes(options, tables), interrupt };
    let target = Target { script: "oltp_read_write", database: &database, engine: engine.name() };
    sysbench.prepare_on(target, options.seed)
}
