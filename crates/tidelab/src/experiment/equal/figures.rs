//! The figures of all families, by one set of names: a transaction is a statement of sysbench's scripts without
//! BEGIN, one of its transactions, a transaction of TPC-C, or a row of the insert benchmark.

use tidelab_server::series::Series;

use crate::run::{Better, Cell, Metric};

/// The figure for choosing caches.
pub const RATE: &str = "transactions_per_s";

/// The figures of the cells, the most important one first.
pub fn metrics() -> Vec<Metric> {
    use Better::{Higher, Lower, Neither};
    vec![
        Metric::main(RATE, "Transactions", "1/s", Higher),
        Metric::main("p99_ms", "99th percentile", "ms", Lower),
        Metric::main("transaction_cpu_us", "Server CPU for a transaction", "us", Lower),
        Metric::main("transaction_written_bytes", "Written for a transaction", "B", Lower),
        Metric::main("transaction_read_requests", "Requests of reads for a transaction", "1", Lower),
        Metric::main("transaction_read_bytes", "Read for a transaction", "B", Lower),
        Metric::main("resident_bytes", "Resident memory, largest", "B", Lower),
        Metric::main("cache_bytes", "Cache", "B", Neither),
        Metric::detail("p50_ms", "Median latency", "ms", Lower),
        Metric::detail("max_ms", "Greatest latency", "ms", Lower),
        Metric::detail("after_cpu_us", "CPU after the load, for a transaction", "us", Lower),
        Metric::detail("written_bytes", "Written to the device, with what was put off", "B", Lower),
        Metric::detail("data_bytes", "Files without logs", "B", Lower),
        Metric::detail("log_bytes", "Logs", "B", Neither),
        Metric::detail("other_cpus", "CPUs of others", "CPUs", Neither),
        Metric::detail("nopm", "New orders", "1/min", Higher),
        Metric::detail("insert_worst_window_ms", "Worst insert of all ten seconds", "ms", Lower),
        Metric::detail("inserts_slowest_window_per_s", "Slowest ten seconds of inserts", "1/s", Higher),
        Metric::detail("warm_up_s", "Warm-up", "s", Neither),
    ]
}

/// Adds the cost of a number of transactions together: CPU and bytes.
pub fn for_each(cell: &mut Cell, transactions: f64, cpu_s: f64, after_s: f64, written_bytes: f64) {
    cell.figure("transaction_cpu_us", cpu_s * 1e6 / transactions);
    cell.figure("after_cpu_us", after_s * 1e6 / transactions);
    cell.figure("transaction_written_bytes", written_bytes / transactions);
    cell.figure("written_bytes", written_bytes);
}

/// Adds what a transaction reads from the device, by the recording's seconds from `from_s` to `to_s`. Nothing
/// is added where the rate is unknown or the data directory has no device.
pub fn reads_for_each(cell: &mut Cell, recording: &Series, from_s: f64, to_s: f64) {
    let rate = cell.figures.get(RATE).copied().unwrap_or_default();
    let at = recording.column("at_s").unwrap_or_default();
    let mean = |name: &str| {
        let column = recording.column(name).unwrap_or_default();
        // A row has the second before it.
        let seconds = at.iter().zip(column).filter(|(at, _)| **at > from_s + 1.0 && **at <= to_s);
        let values: Vec<f64> = seconds.map(|(_, value)| value).filter(|value| value.is_finite()).collect();
        values.iter().sum::<f64>() / values.len() as f64
    };
    cell.figure("transaction_read_requests", mean("disk_reads_per_s") / rate);
    cell.figure("transaction_read_bytes", mean("disk_read_bytes_per_s") / rate);
}

/// Leaves out figures without a metric here.
pub fn known_only(cell: &mut Cell, metrics: &[Metric]) {
    cell.figures.retain(|name, _| metrics.iter().any(|metric| metric.name == *name));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::CellId;

    #[test]
    fn costs_are_for_a_transaction_and_none_has_none() {
        let mut cell = Cell::new(CellId::new([("engine", "A".to_string())], 1), 1);
        for_each(&mut cell, 1000.0, 0.5, 0.1, 2e6);
        assert_eq!(
            (cell.figures["transaction_cpu_us"], cell.figures["transaction_written_bytes"]),
            (500.0, 2000.0)
        );
        assert_eq!(cell.figures["after_cpu_us"], 100.0);
        let mut none = Cell::new(cell.id.clone(), 1);
        for_each(&mut none, 0.0, 0.5, 0.1, 2e6);
        assert!(!none.figures.contains_key("transaction_cpu_us"), "no number at all");
        cell.figure("strange", 1.0);
        known_only(&mut cell, &metrics());
        assert!(!cell.figures.contains_key("strange") && cell.figures.contains_key("written_bytes"));
    }

    #[test]
    fn reads_are_those_of_the_measured_seconds() {
        let mut recording = Series::new(["disk_reads_per_s", "disk_read_bytes_per_s"]);
        for (second, reads) in [(1.0, 900.0), (2.0, 700.0), (3.0, 20.0), (4.0, 40.0), (5.0, 5.0)] {
            recording.rows.push(vec![second, reads, reads * 4096.0]);
        }
        let mut cell = Cell::new(CellId::new([("engine", "A".to_string())], 1), 1);
        cell.figure(RATE, 10.0);
        reads_for_each(&mut cell, &recording, 1.0, 4.0);
        assert_eq!(cell.figures["transaction_read_requests"], 3.0);
        assert_eq!(cell.figures["transaction_read_bytes"], 3.0 * 4096.0);
        let mut none = Cell::new(cell.id.clone(), 1);
        none.figure(RATE, 10.0);
        reads_for_each(&mut none, &Series::new(["disk_reads_per_s"]), 0.0, 9.0);
        assert!(!none.figures.contains_key("transaction_read_requests"));
    }
}
