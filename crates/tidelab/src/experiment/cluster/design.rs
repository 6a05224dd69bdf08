//! The options of the kind, and its loads.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use tidelab_server::error::{Error, Result};
use tidelab_server::server::engine::Engine;

use crate::measure::plan::turns;
use crate::run::{CellId, Group};

/// Nodes of the cluster.
pub const NODES: usize = 3;
/// The axis of engines.
pub const ENGINE: &str = "engine";
/// The axis of loads.
pub const WORKLOAD: &str = "workload";
/// The axis of appliers.
pub const APPLIERS: &str = "appliers";

/// A load, on all nodes at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Load {
    /// sysbench's two updates, a delete and an insert, in a transaction.
    WriteOnly,
    /// The same after its reads.
    ReadWrite,
    /// Single updates (update_non_index) of a table with few rows.
    HotRows,
    /// TPC-C: all nodes write to all warehouses.
    Tpcc,
}

/// The tables of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tables {
    /// sysbench's tables.
    Sysbench,
    /// One table with few rows.
    Hot,
    /// TPC-C's tables.
    Tpcc,
}

impl Load {
    const ALL: [Load; 4] = [Load::WriteOnly, Load::ReadWrite, Load::HotRows, Load::Tpcc];

    /// The value of [`WORKLOAD`].
    pub fn name(self) -> &'static str {
        match self {
            Load::WriteOnly => "write_only",
            Load::ReadWrite => "read_write",
            Load::HotRows => "hot_rows",
            Load::Tpcc => "tpcc",
        }
    }

    /// The load of a cell.
    pub fn of(id: &CellId) -> Result<Load> {
        let name = id.label(WORKLOAD);
        let found = Load::ALL.into_iter().find(|load| load.name() == name);
        found.ok_or_else(|| Error::Usage(format!("there is no load '{name}' of a cluster")))
    }

    /// Its tables.
    pub fn tables(self) -> Tables {
        match self {
            Load::WriteOnly | Load::ReadWrite => Tables::Sysbench,
            Load::HotRows => Tables::Hot,
            Load::Tpcc => Tables::Tpcc,
        }
    }
}

impl Tables {
    /// An engine's database with them.
    pub fn database(self, engine: Engine) -> String {
        let prefix = match self {
            Tables::Sysbench => return engine.database().to_string(),
            Tables::Hot => "hot",
            Tables::Tpcc => "tpcc",
        };
        format!("{prefix}_{}", engine.name().to_ascii_lowercase())
    }
}

/// The options of the file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    pub(super) engines: Vec<Engine>,
    pub(super) workloads: Vec<Load>,
    /// Values of `wsrep_slave_threads`: a cluster for each.
    pub(super) appliers: Vec<u32>,
    pub(super) rounds: u32,
    /// Clients of each node.
    pub(super) threads: u32,
    pub(super) warm_up_s: u32,
    pub(super) time_s: u32,
    /// Seconds at most until the nodes are idle, after they have the same.
    pub(super) settle_s: u32,
    pub(super) cache_mb: u64,
    /// sysbench's tables, and rows of each.
    pub(super) tables: u32,
    pub(super) rows: u64,
    /// Rows of the table for [`Load::HotRows`].
    pub(super) hot_rows: u64,
    pub(super) warehouses: i64,
    #[serde(default = "one")]
    pub(super) seed: u32,
}

fn one() -> u32 {
    1
}

impl Options {
    /// Refuses options without sense; `name` is the experiment's.
    pub fn check(&self, name: &str) -> Result<()> {
        let wrong = |what: &str| Err(Error::Usage(format!("{name}: {what}")));
        if self.engines.is_empty() || self.workloads.is_empty() || self.appliers.is_empty() {
            return wrong("engines, workloads and appliers must be there");
        }
        if self.engines.contains(&Engine::RocksDb) {
            return wrong("ROCKSDB takes no part in a Galera cluster");
        }
        let numbers = [self.rounds, self.threads, self.time_s, self.tables];
        if numbers.contains(&0) || self.appliers.contains(&0) {
            return wrong("appliers, rounds, threads, time_s and tables must be more than 0");
        }
        if self.rows == 0 || self.hot_rows == 0 || self.warehouses < 1 || self.seed == 0 {
            return wrong("rows, hot_rows, warehouses and seed must be more than 0");
        }
        let engines = self.engines.iter().map(Engine::to_string);
        let loads = self.workloads.iter().map(|load| load.name().to_string());
        let mut seen = HashSet::new();
        let mut all = engines.chain(loads).chain(self.appliers.iter().map(u32::to_string));
        match all.all(|name| seen.insert(name)) {
            true => Ok(()),
            false => wrong("engines, workloads and appliers must each be named once"),
        }
    }

    /// The tables of all loads, each once.
    pub fn all_tables(&self) -> Vec<Tables> {
        let mut all: Vec<Tables> = Vec::new();
        for tables in self.workloads.iter().map(|load| load.tables()) {
            if !all.contains(&tables) {
                all.push(tables);
            }
        }
        all
    }

    /// A group for each number of appliers and round: in each workload the engines take turns.
    pub fn groups(&self) -> Vec<Group> {
        let mut groups = Vec::new();
        for appliers in &self.appliers {
            for round in 1..=self.rounds {
                let engines = turns(&self.engines, round - 1);
                let pairs = self.workloads.iter().flat_map(|load| engines.iter().map(move |e| (load, e)));
                let id = |(load, engine): (&Load, &Engine)| {
                    let labels = [
                        (ENGINE, engine.to_string()),
                        (WORKLOAD, load.name().to_string()),
                        (APPLIERS, appliers.to_string()),
                    ];
                    CellId::new(labels, round)
                };
                let title = format!("{}, round {round}", appliers_in_words(*appliers));
                groups.push(Group { title, cells: pairs.map(id).collect() });
            }
        }
        groups
    }
}

/// `1 applier`, `4 appliers`.
pub fn appliers_in_words(appliers: u32) -> String {
    format!("{appliers} applier{}", if appliers == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(more: &str) -> Options {
        let text = format!(
            "engines = ['TidesDB', 'InnoDB']\nworkloads = ['write_only', 'read_write', 'hot_rows']\nrounds = 2\n\
             warm_up_s = 0\ntime_s = 1\nsettle_s = 0\ncache_mb = 64\ntables = 1\nrows = 10\nhot_rows = 5\nwarehouses = 1\n{more}"
        );
        toml::from_str(&text).unwrap()
    }

    #[test]
    fn a_group_is_a_round_whose_engines_take_turns() {
        let groups = options("appliers = [1, 4]\nthreads = 2").groups();
        let titles: Vec<&str> = groups.iter().map(|group| group.title.as_str()).collect();
        assert_eq!(
            titles,
            ["1 applier, round 1", "1 applier, round 2", "4 appliers, round 1", "4 appliers, round 2"]
        );
        let order: Vec<&str> = groups[1].cells.iter().map(|id| id.label(ENGINE)).collect();
        assert_eq!(order, ["InnoDB", "TidesDB", "InnoDB", "TidesDB", "InnoDB", "TidesDB"]);
        assert!(groups[2].cells.iter().all(|id| id.label(APPLIERS) == "4" && id.round == 1));
        assert_eq!(Load::of(&groups[0].cells[5]).unwrap(), Load::HotRows);
    }

    #[test]
    fn tables_are_loaded_once_for_the_loads_that_share_them() {
        assert_eq!(options("appliers = [1]\nthreads = 2").all_tables(), [Tables::Sysbench, Tables::Hot]);
        assert_eq!(Tables::Sysbench.database(Engine::TidesDb), "lab_tidesdb");
        assert_eq!(Tables::Tpcc.database(Engine::InnoDb), "tpcc_innodb");
    }

    #[test]
    fn options_without_sense_are_refused() {
        let said = |more: &str| options(more).check("t").unwrap_err().to_string();
        assert!(options("appliers = [1, 4]\nthreads = 2").check("t").is_ok());
        assert!(said("appliers = [4]\nthreads = 0").contains("more than 0"));
        assert!(said("appliers = [4, 4]\nthreads = 1").contains("once"));
        assert!(said("appliers = []\nthreads = 1").contains("must be there"));
        let mut rocks = options("appliers = [4]\nthreads = 1");
        rocks.engines.push(Engine::RocksDb);
        assert!(rocks.check("t").unwrap_err().to_string().contains("ROCKSDB"));
    }
}
