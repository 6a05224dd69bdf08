//! A whole run as it is written to JSON. `docs/tidelab.md` has the schema.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::measure::experiment::{Design, Record};
use crate::measure::summary::Line;
use crate::server::release::Release;
use crate::server::settings::Setting;
use crate::telemetry::machine::Machine;

/// Raised when a field of the files changes its meaning or goes.
pub const SCHEMA_VERSION: u32 = 1;

/// The server that was measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ServerFacts {
    /// Its version.
    pub version: String,
    /// Where it is installed.
    pub prefix: String,
    /// The settings that were asked for.
    pub settings: BTreeMap<String, String>,
    /// What the server said of each of them when it ran; one that it says nothing of is not there.
    #[serde(default)]
    pub read_back: BTreeMap<String, String>,
    /// All variables of the engines and those that bear on the comparison, as read back.
    pub variables: BTreeMap<String, String>,
}

impl ServerFacts {
    /// From what was asked and what was read back.
    pub fn new(prefix: &str, asked: &[Setting], variables: &BTreeMap<String, String>) -> ServerFacts {
        const PREFIXES: [&str; 4] = ["tidesdb_", "innodb_", "rocksdb_", "version"];
        const NAMES: [&str; 6] = [
            "character_set_server",
            "collation_server",
            "tx_isolation",
            "table_open_cache",
            "sync_binlog",
            "log_bin",
        ];
        ServerFacts {
            version: variables.get("version").cloned().unwrap_or_default(),
            prefix: prefix.to_string(),
            settings: asked.iter().map(|s| (s.name.to_string(), s.value.clone())).collect(),
            read_back: asked
                .iter()
                .filter_map(|s| Some((s.name.to_string(), variables.get(s.name.as_ref())?.clone())))
                .collect(),
            variables: variables
                .iter()
                .filter(|(name, _)| {
                    PREFIXES.iter().any(|p| name.starts_with(p)) || NAMES.contains(&name.as_str())
                })
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
        }
    }
}

impl ServerFacts {
    /// Which server it was; none where its version does not say.
    pub fn release(&self) -> Option<Release> {
        let comment = self.variables.get("version_comment").map_or("", String::as_str);
        Release::of_server(&self.version, comment)
    }
}

/// A whole run.
#[derive(Clone, Debug, Serialize)]
pub struct RunResult {
    /// See [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// `demo` or `bench`.
    pub name: String,
    /// The laboratory's version.
    pub tidelab: String,
    /// sysbench's.
    pub sysbench: String,
    /// Seconds since 1970 at the start.
    pub started_unix_s: u64,
    /// How long it took.
    pub took_s: f64,
    /// The machine.
    pub machine: Machine,
    /// The server.
    pub server: ServerFacts,
    /// What was to be measured.
    pub design: Design,
    /// What the rounds say together.
    pub summary: Vec<Line>,
    /// Every run.
    #[serde(flatten)]
    pub record: Record,
}

impl RunResult {
    /// Everything was measured and passed its checks.
    pub fn good(&self) -> bool {
        self.record.ended_early.is_none() && self.record.cells.iter().all(|c| c.counts())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::measure::experiment::AtEnd;
    use crate::measure::summary::{lines, tests::cell};
    use crate::server::engine::Engine;
    use crate::telemetry::disk::Space;
    use crate::workload::sysbench::{Load, Workload};

    /// A machine.
    pub(crate) fn machine() -> Machine {
        Machine {
            cpu: "A CPU".to_string(),
            cpus: 2,
            memory_bytes: 8 << 30,
            kernel: "6.1".to_string(),
            system: "Debian".to_string(),
            file_system: "ext2/ext3".to_string(),
            free_bytes: 10 << 30,
            load_before: 0.1,
        }
    }

    /// A small run of two rounds.
    pub(crate) fn sample() -> RunResult {
        let engines = vec![Engine::TidesDb, Engine::InnoDb];
        let workloads = vec![Workload::PointSelect];
        let w = Workload::PointSelect;
        let cells = vec![
            cell(w, Engine::TidesDb, 1, 9000.0),
            cell(w, Engine::InnoDb, 1, 10000.0),
            cell(w, Engine::InnoDb, 2, 10000.0),
            cell(w, Engine::TidesDb, 2, 9400.0),
        ];
        let space = Space { data_bytes: 24 << 20, log_bytes: 96 << 20 };
        let at_end = engines.iter().map(|e| AtEnd { engine: *e, rows: 100_000, space }).collect();
        RunResult {
            schema_version: SCHEMA_VERSION,
            name: "demo".to_string(),
            tidelab: "0.1.0".to_string(),
            sysbench: "sysbench 1.0.20".to_string(),
            started_unix_s: 1_790_000_000,
            took_s: 61.0,
            machine: machine(),
            server: ServerFacts {
                version: "11.8.6-MariaDB".to_string(),
                prefix: "/p".to_string(),
                settings: BTreeMap::new(),
                read_back: BTreeMap::new(),
                variables: BTreeMap::new(),
            },
            design: Design {
                engines: engines.clone(),
                workloads: workloads.clone(),
                rounds: 2,
                load: Load { tables: 1, rows: 100_000, threads: 8, warm_up_s: 2, time_s: 10 },
                update_s: 0,
                settle_s: 5,
            },
            summary: lines(&cells, &workloads, &engines),
            record: Record { cells, at_end, ended_early: None },
        }
    }

    #[test]
    fn what_was_asked_stands_beside_what_the_server_says() {
        use crate::server::settings::setting;
        let asked = [setting("max_connections", "151"), setting("innodb_buffer_pool_size", "64M")];
        let said = [("innodb_buffer_pool_size", "67108864"), ("hostname", "h")]
            .map(|(n, v)| (n.to_string(), v.to_string()));
        let facts = ServerFacts::new("/p", &asked, &BTreeMap::from(said));
        assert_eq!(facts.settings["innodb_buffer_pool_size"], "64M");
        assert_eq!(facts.read_back["innodb_buffer_pool_size"], "67108864");
        assert!(!facts.read_back.contains_key("max_connections"), "the server says nothing of it");
        assert!(!facts.variables.contains_key("hostname"));
    }

    #[test]
    fn a_failed_cell_or_an_early_end_is_not_good() {
        let mut run = sample();
        assert!(run.good());
        run.record.cells[1].failures.push("x".to_string());
        assert!(!run.good());
        let mut run = sample();
        run.record.ended_early = Some("interrupted".to_string());
        assert!(!run.good());
    }
}
