//! The figures of a measurement: one cell of the laboratory's run format for each engine, operation and
//! round.

use tidelab::run::{Cell, CellId, Series};
use tidelab_server::telemetry::disk::Space;

use crate::cost::Cost;
use crate::measured::{Measured, STEP};
use crate::store::Debt;

/// An engine's deferred work at the end of an operation, measured while nothing else runs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Quiet {
    /// Until nothing was left to do and everything was on disk.
    pub seconds: f64,
    /// Its cost.
    pub cost: Cost,
}

/// All observations of one operation on one engine in one round.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// The operation itself.
    pub measured: Measured,
    /// The cost of the process meanwhile.
    pub cost: Cost,
    /// The work put off at its end.
    pub debt: Debt,
    /// The deferred work; of writing operations.
    pub quiet: Option<Quiet>,
    /// Space on disk when all is quiet.
    pub space: Space,
    /// Bytes of the existing keys and values.
    pub live_bytes: u64,
    /// Seconds of closing the store and opening it again before the operation; none without this.
    pub reopened_s: Option<f64>,
}

/// Makes the cell of an observation.
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

#[cfg(test)]
mod tests {
    use tidelab::experiment::engine::{cell_id, metrics, Engine, Operation};

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
}
