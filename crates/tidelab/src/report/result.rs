//! A whole run as it is written to JSON. `docs/tidelab.md` has the schema.

use serde::Serialize;
use tidelab_server::server::facts::ServerFacts;
use tidelab_server::telemetry::machine::Machine;

use crate::measure::experiment::{Design, Record};
use crate::measure::summary::Line;

/// Raised when a field of the files changes its meaning or goes.
pub const SCHEMA_VERSION: u32 = 1;

/// A whole run.
#[derive(Clone, Debug, Serialize)]
pub struct RunResult {
    /// See [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// `demo` or `bench`.
    pub name: String,
    /// The run is too short to be a measurement, as `demo` is.
    pub short_run: bool,
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
    use std::collections::BTreeMap;

    use tidelab_server::server::analyze::Analyzed;
    use tidelab_server::server::engine::Engine;
    use tidelab_server::telemetry::disk::Space;
    use tidelab_server::workload::sysbench::{Load, Workload};

    use super::*;
    use crate::measure::experiment::{AtEnd, Statistics};
    use crate::measure::summary::{lines, tests::cell};

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
        let analyzed = Analyzed { tables: 1, seconds: 0.25 };
        let analysis = Statistics { engine: Engine::TidesDb, round: 1, analyzed };
        RunResult {
            schema_version: SCHEMA_VERSION,
            name: "demo".to_string(),
            short_run: false,
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
                warm_up_limit_s: 30,
                update_s: 0,
                settle_s: 5,
            },
            summary: lines(&cells, &workloads, &engines),
            record: Record { cells, at_end, analyses: vec![analysis], ended_early: None },
        }
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
