//! The figures of a cell: which there are, and what a run of sysbench gives for them.

use tidelab_server::telemetry::disk::Space;
use tidelab_server::workload::sysbench;

use crate::measure::cell::{per_statement_us, Figures};
use crate::run::{Better, Cell, Metric};

/// The figures that cells have, the most important ones first.
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

/// Puts what a run came to into its cell. Of a server whose process or directory is not known there
/// are no figures of those.
pub(super) fn fill(
    cell: &mut Cell,
    of: &Figures,
    run: &sysbench::Run,
    process: Option<u32>,
    space: Option<Space>,
) {
    cell.figure("transactions_per_s", of.transactions_per_s);
    cell.figure("statements_per_s", of.statements_per_s);
    cell.figure("p50_ms", of.p50_ms);
    cell.figure("p95_ms", of.p95_ms);
    cell.figure("p99_ms", of.p99_ms);
    cell.figure("average_ms", of.average_ms);
    cell.figure("max_ms", of.max_ms);
    cell.figure("retried_errors", of.retried_errors as f64);
    cell.figure("client_cpu_us", per_statement_us(run.client_cpu_s, of.statements));
    // A server whose process is not known has used nothing that could be told.
    if process.is_some() {
        cell.figure("server_cpu_us", of.server_cpu_us);
        cell.figure("other_cpus", of.other_cpus);
        cell.figure("resident_B", of.resident_bytes as f64);
        cell.figure("written_B", of.written_bytes as f64);
    }
    if let Some(space) = space {
        cell.figure("data_B", space.data_bytes as f64);
        cell.figure("log_B", space.log_bytes as f64);
    }
}

/// Tells who waits what a cell came to.
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
