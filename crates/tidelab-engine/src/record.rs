//! What is kept of a measurement: one cell of the laboratory's run format for each engine, operation and
//! round, and which figures it has.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tidelab::report::result::ServerFacts;
use tidelab::run::{Axis, Better, Cell, CellId, Metric, Role, Run, Series};
use tidelab::telemetry::disk::Space;

use crate::cost::Cost;
use crate::operation::{Load, Measured, Operation, STEP};
use crate::store::{Debt, Engine, Settings};

/// The label of the competitor.
pub const ENGINE: &str = "engine";
/// The label of the operation.
pub const OPERATION: &str = "operation";
/// The file of a cell's series by time.
pub const SERIES: &str = "seconds.csv";

/// What a run measures: part of its record, and what a process that measures one engine gets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Design {
    /// The engines, in the order of the first round.
    pub engines: Vec<Engine>,
    /// The operations, in the order of [`Operation::ALL`].
    pub operations: Vec<Operation>,
    /// Rounds.
    pub rounds: u32,
    /// Rows of the store.
    pub rows: u64,
    /// Bytes of a key.
    pub key_bytes: usize,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// Share of a value that compresses.
    pub compressible: f64,
    /// Where all random choices come from; each round has a seed of its own, the same for all engines.
    pub seed: u64,
    /// How much each operation does.
    pub load: Load,
    /// What the engines are opened with.
    pub settings: Settings,
    /// Seconds at most for an engine to finish what it has put off.
    pub quiet_limit_s: u32,
}

impl Design {
    /// The seed of a round.
    pub fn seed_of(&self, round: u32) -> u64 {
        self.seed.wrapping_add(u64::from(round).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }
}

/// Names a cell.
pub fn cell_id(engine: Engine, operation: Operation, round: u32) -> CellId {
    CellId::new([(ENGINE, engine.name().to_string()), (OPERATION, operation.name().to_string())], round)
}

/// The work that an engine had put off when an operation ended, done with nobody waiting for it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Quiet {
    /// Until nothing was left to do and everything was on disk.
    pub seconds: f64,
    /// What it cost.
    pub cost: Cost,
}

/// Everything that is known of one operation on one engine in one round.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// The operation itself.
    pub measured: Measured,
    /// What the process used meanwhile.
    pub cost: Cost,
    /// What was put off at its end.
    pub debt: Debt,
    /// Doing that; of operations that write.
    pub quiet: Option<Quiet>,
    /// Space on disk when all is quiet.
    pub space: Space,
    /// Bytes of keys and values that there are.
    pub live_bytes: u64,
    /// Seconds of closing the store and opening it again before the operation, where that was done.
    pub reopened_s: Option<f64>,
}

/// The figures that cells have, the most important one first.
pub fn metrics() -> Vec<Metric> {
    use Better::{Higher, Lower, Neither};
    vec![
        Metric::main("rate_per_s", "Rate", "1/s", Higher),
        Metric::main("settled_rate_per_s", "Rate with the work that was put off", "1/s", Higher),
        Metric::main("p50_us", "Latency, median", "us", Lower),
        Metric::main("p99_us", "Latency, 99 %", "us", Lower),
        Metric::detail("mean_us", "Latency, mean", "us", Lower),
        Metric::detail("p95_us", "Latency, 95 %", "us", Lower),
        Metric::detail("p999_us", "Latency, 99.9 %", "us", Lower),
        Metric::detail("max_us", "Latency, longest", "us", Lower),
        Metric::main("cpu_us", "CPU time of a call, all threads of the process", "us", Lower),
        Metric::main("write_amplification", "Bytes written for a byte committed, at the end", "B/B", Lower),
        Metric::main(
            "settled_write_amplification",
            "Bytes written for a byte committed, when quiet",
            "B/B",
            Lower,
        ),
        Metric::main("space_amplification", "Bytes on disk for a byte of rows, when quiet", "B/B", Lower),
        Metric::main("unflushed_bytes", "In memory at the end, to be written to files", "B", Lower),
        Metric::main("compaction_debt_bytes", "To be compacted at the end", "B", Lower),
        Metric::detail("runs", "Sorted runs that a scan merges, at the end", "1", Lower),
        Metric::main("quiet_s", "Time until the work that was put off is done", "s", Lower),
        Metric::detail("quiet_written_bytes", "Written meanwhile", "B", Lower),
        Metric::detail("quiet_cpu_s", "CPU time meanwhile", "s", Lower),
        Metric::detail("written_bytes", "Given to write calls during the operation", "B", Lower),
        Metric::detail("device_bytes", "Of pages made dirty during the operation", "B", Lower),
        Metric::detail("space_bytes", "On disk when quiet", "B", Lower),
        Metric::detail("log_bytes", "Of it logs", "B", Lower),
        Metric::detail("resident_bytes", "Memory of the process", "B", Lower),
        Metric::detail("reopened_s", "Closing the store and opening it again before", "s", Lower),
        Metric::detail("count", "Calls, rows, ranges or transactions", "1", Neither),
        Metric::detail("user_bytes", "Keys and values committed", "B", Neither),
        Metric::detail("seconds", "Duration", "s", Neither),
    ]
}

/// Makes the cell of what was observed.
pub fn cell(id: CellId, seed: u64, observed: &Observed) -> Cell {
    let mut cell = Cell::new(id, seed);
    let Observed { measured, cost, debt, quiet, space, .. } = observed;
    cell.failures.clone_from(&measured.failures);
    let count = measured.count as f64;
    if measured.count == 0 {
        cell.failures.push("nothing was done".to_string());
        return cell;
    }
    let latency = measured.latency.figures();
    let space_bytes = space.data_bytes + space.log_bytes;
    let mut figures = vec![
        ("rate_per_s", count / measured.seconds),
        ("mean_us", latency.mean),
        ("p50_us", latency.p50),
        ("p95_us", latency.p95),
        ("p99_us", latency.p99),
        ("p999_us", latency.p999),
        ("max_us", latency.max),
        ("cpu_us", cost.cpu_s * 1e6 / count),
        ("unflushed_bytes", debt.unflushed_bytes as f64),
        ("compaction_debt_bytes", debt.compaction_bytes as f64),
        ("runs", debt.runs as f64),
        ("written_bytes", cost.written_bytes as f64),
        ("device_bytes", cost.device_bytes as f64),
        ("resident_bytes", cost.resident_bytes as f64),
        ("count", count),
        ("user_bytes", measured.user_bytes as f64),
        ("seconds", measured.seconds),
    ];
    if let Some(quiet) = quiet {
        let user = measured.user_bytes as f64;
        figures.extend([
            ("settled_rate_per_s", count / (measured.seconds + quiet.seconds)),
            ("quiet_s", quiet.seconds),
            ("quiet_written_bytes", quiet.cost.written_bytes as f64),
            ("quiet_cpu_s", quiet.cost.cpu_s),
            ("space_bytes", space_bytes as f64),
            ("log_bytes", space.log_bytes as f64),
        ]);
        if measured.user_bytes > 0 {
            let all = (cost.written_bytes + quiet.cost.written_bytes) as f64;
            figures.extend([
                ("write_amplification", cost.written_bytes as f64 / user),
                ("settled_write_amplification", all / user),
            ]);
        }
        if observed.live_bytes > 0 {
            figures.push(("space_amplification", space_bytes as f64 / observed.live_bytes as f64));
        }
    }
    figures.extend(observed.reopened_s.map(|seconds| ("reopened_s", seconds)));
    for (name, value) in figures {
        cell.figure(name, value);
    }
    cell.histograms.insert("latency_us".to_string(), measured.latency.buckets());
    cell
}

/// The rate by time; the last step is as long as it was.
pub fn series(measured: &Measured) -> Series {
    let mut series = Series::new(["rate_per_s"]);
    let step = STEP.as_secs_f64();
    for (place, count) in measured.steps.iter().enumerate() {
        let from = place as f64 * step;
        let length = (measured.seconds - from).clamp(1e-9, step);
        series.rows.push(vec![from + length, *count as f64 / length]);
    }
    series
}

/// What the head of a run says before anything is measured.
pub fn head(name: &str, design: &Design) -> Run {
    let mut run = Run::new(name, "The bare engine beside RocksDB and LMDB", "engine");
    run.about = "One mix of operations on each engine through one interface, in a process of its own for \
        each engine and round. After every operation that writes, the engine finishes what it has put off, \
        and that is measured too."
        .to_string();
    run.design = serde_json::to_value(design).unwrap_or_default();
    run.axes = vec![
        Axis {
            name: ENGINE.to_string(),
            title: "Engine".to_string(),
            role: Role::Competitor,
            values: design.engines.iter().map(|engine| engine.name().to_string()).collect(),
        },
        Axis {
            name: OPERATION.to_string(),
            title: "Operation".to_string(),
            role: Role::Category,
            values: design.operations.iter().map(|operation| operation.name().to_string()).collect(),
        },
    ];
    run.metrics = metrics();
    run.reference = reference(&design.engines).map(|engine| engine.name().to_string());
    run.notes = notes(design);
    run
}

/// Whom the others are compared with: RocksDB, where it is not there the first other than TidesDB.
pub fn reference(engines: &[Engine]) -> Option<Engine> {
    let other = || engines.iter().copied().find(|engine| *engine != Engine::TidesDb);
    engines.iter().copied().find(|engine| *engine == Engine::RocksDb).or_else(other)
}

/// What a reader must know of the engines that were compared.
fn notes(design: &Design) -> Vec<String> {
    let mut notes = vec![
        "Bytes written are those of all write calls of the process, logs included; latencies of scans are \
         those of 100 rows; a call's latency includes making its key and checking its answer."
            .to_string(),
    ];
    if design.engines.contains(&Engine::Lmdb) {
        notes.push(
            "LMDB has no compression, no cache of its own and no log: it reads through the operating \
             system's cache, whatever the cache's size here, and without sync a crash of the machine may \
             leave it unreadable, where the others lose the last commits."
                .to_string(),
        );
    }
    if !design.engines.contains(&Engine::RocksDb) {
        notes.push(
            "RocksDB was not measured: this build does not link it, or it was not asked for.".to_string(),
        );
    }
    notes
}

/// What an engine was: its version and settings, and its own counters as it ended.
pub fn facts(version: &str, settings: &Settings, counters: &[(String, u64)]) -> ServerFacts {
    let asked: BTreeMap<String, String> = match serde_json::to_value(settings) {
        Ok(serde_json::Value::Object(fields)) => fields
            .into_iter()
            .map(|(name, value)| match value {
                serde_json::Value::String(text) => (name, text),
                other => (name, other.to_string()),
            })
            .collect(),
        _ => BTreeMap::new(),
    };
    ServerFacts {
        version: version.to_string(),
        prefix: String::new(),
        settings: asked,
        variables: counters.iter().map(|(name, value)| (name.clone(), value.to_string())).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_what_was_observed() {
        let mut measured = Measured { count: 1000, seconds: 2.0, user_bytes: 100_000, ..Measured::default() };
        measured.latency.record(std::time::Duration::from_micros(2000));
        measured.steps = vec![100, 900];
        let observed = Observed {
            cost: Cost { cpu_s: 1.0, written_bytes: 150_000, ..Cost::default() },
            quiet: Some(Quiet { seconds: 3.0, cost: Cost { written_bytes: 50_000, ..Cost::default() } }),
            space: Space { data_bytes: 60_000, log_bytes: 20_000 },
            live_bytes: 40_000,
            measured,
            ..Observed::default()
        };
        let cell = cell(cell_id(Engine::TidesDb, Operation::Overwrite, 2), 9, &observed);
        assert!(cell.counts() && cell.id.folder() == "TidesDB-overwrite-r2", "{cell:?}");
        for (name, wanted) in [
            ("rate_per_s", 500.0),
            ("settled_rate_per_s", 200.0),
            ("write_amplification", 1.5),
            ("settled_write_amplification", 2.0),
            ("space_amplification", 2.0),
            ("cpu_us", 1000.0),
            ("max_us", 2000.0),
        ] {
            assert_eq!(cell.figures.get(name), Some(&wanted), "{name}");
        }
        let known: Vec<String> = metrics().into_iter().map(|metric| metric.name).collect();
        assert!(cell.figures.keys().all(|name| known.contains(name)), "every figure is declared");
        let series = series(&observed.measured);
        assert_eq!(series.rows[0], [0.1, 1000.0]);
    }

    #[test]
    fn an_operation_that_did_nothing_fails() {
        let cell = cell(cell_id(Engine::Lmdb, Operation::Delete, 1), 1, &Observed::default());
        assert!(!cell.counts());
    }

    #[test]
    fn ratios_are_against_rocksdb_where_it_is() {
        assert_eq!(reference(&Engine::ALL), Some(Engine::RocksDb));
        assert_eq!(reference(&[Engine::TidesDb, Engine::Lmdb]), Some(Engine::Lmdb));
        assert_eq!(reference(&[Engine::TidesDb]), None);
    }
}
