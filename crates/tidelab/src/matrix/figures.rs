//! The figures of a cell, and the way from a run of sysbench to them.

use tidelab_server::telemetry::disk::Space;
use tidelab_server::workload::sysbench;

use crate::measure::server_use::per_call_us;
use crate::measure::sysbench::figures::figures;
use crate::run::{Better, Cell, Metric};

/// The figures of cells, the most important ones first.
pub(super) fn metrics() -> Vec<Metric> {
    use Better::{Higher, Lower, Neither};
    vec![
        Metric::main("transactions_per_s", "Transactions", "1/s", Higher),
        Metric::main("p95_ms", "Latency, 95 %", "ms", Lower),
        Metric::main("p99_ms", "Latency, 99 %", "ms", Lower),
        Metric::main("server_cpu_us", "Server CPU of a statement", "us", Lower),
        Metric::detail("statements_per_s", "Statements", "1/s", Higher),
        Metric::detail("p50_ms", "Latency, median", "ms", Lower),
        Metric::detail("average_ms", "Latency, mean", "ms", Lower),
        Metric::detail("max_ms", "Latency, longest", "ms", Lower),
        Metric::detail("retried_errors", "Errors that were retried", "", Lower),
        Metric::detail("after_cpu_us", "Server CPU after the load, of a statement", "us", Lower),
        Metric::detail("client_cpu_us", "Client CPU of a statement", "us", Neither),
        Metric::detail("other_cpus", "CPUs busy with other things", "", Neither),
        Metric::detail("resident_B", "Server's memory", "B", Lower),
        Metric::detail("written_B", "Written to the device", "B", Lower),
        Metric::detail("data_B", "Tables on disk", "B", Lower),
        Metric::detail("log_B", "Logs on disk", "B", Lower),
    ]
}

/// Puts the figures of a run into its cell. A server whose process or directory is unknown has no
/// figures of them.
pub(super) fn fill(cell: &mut Cell, run: &sysbench::Run, process: Option<u32>, space: Option<Space>) {
    let known = metrics();
    for (name, value) in figures(run, space.unwrap_or_default()) {
        let there = match name {
            "server_cpu_us" | "other_cpus" | "resident_bytes" | "written_bytes" => process.is_some(),
            "data_bytes" | "log_bytes" => space.is_some(),
            _ => true,
        };
        let name = name.replace("_bytes", "_B");
        if there && known.iter().any(|metric| metric.name == name) {
            cell.figure(&name, value);
        }
    }
    let statements = run.report.measured.statements;
    cell.figure("client_cpu_us", per_call_us(run.client_cpu_s, statements));
}

/// Prints a cell's result.
pub(super) fn say(cell: &Cell) {
    let of = |name: &str| cell.figures.get(name).copied().unwrap_or(f64::NAN);
    let id = &cell.id;
    let what = format!("{} {:>4} clients", id.label("scenario"), id.label("threads"));
    if let Some(why) = cell.failures.first() {
        eprintln!("      {what}: FAILED {why}");
    } else {
        eprintln!("      {what}: {:.1} transactions/s, p95 {:.2} ms", of("transactions_per_s"), of("p95_ms"));
    }
}
