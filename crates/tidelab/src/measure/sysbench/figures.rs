//! The figures of one sysbench run, by their names in cells.

use tidelab_server::telemetry::disk::Space;
use tidelab_server::telemetry::process::ResourceSample;
use tidelab_server::workload::sysbench::Run;

use crate::measure::server_use::{per_call_us, server_cpus, ServerUse};
use crate::run::{Better, Metric};

/// The figures of each second.
pub const SECONDS: [&str; 6] =
    ["transactions_per_s", "statements_per_s", "p95_ms", "errors_per_s", "server_cpus", "resident_bytes"];

/// The figures of kept cells, the most important one first. Other kinds with sysbench use them too.
pub fn metrics() -> Vec<Metric> {
    use Better::{Higher, Lower, Neither};
    vec![
        Metric::main("transactions_per_s", "Transactions", "1/s", Higher),
        Metric::main("p99_ms", "99th percentile", "ms", Lower),
        Metric::main("server_cpu_us", "Server CPU for a statement", "us", Lower),
        Metric::main("data_bytes", "Files without logs", "B", Lower),
        Metric::detail("statements_per_s", "Statements", "1/s", Higher),
        Metric::detail("p50_ms", "Median latency", "ms", Lower),
        Metric::detail("p95_ms", "95th percentile", "ms", Lower),
        Metric::detail("average_ms", "Mean latency", "ms", Lower),
        Metric::detail("max_ms", "Greatest latency", "ms", Lower),
        Metric::detail("retried_errors", "Retried errors", "", Lower),
        Metric::detail("after_cpu_us", "CPU after the load, for a statement", "us", Lower),
        Metric::detail("other_cpus", "CPUs of others", "CPUs", Neither),
        Metric::detail("resident_bytes", "Resident size of the server", "B", Lower),
        Metric::detail("written_bytes", "Written to the device", "B", Lower),
        Metric::main("log_bytes", "Logs", "B", Neither),
        Metric::detail("warm_up_s", "Warm-up", "s", Neither),
    ]
}

/// The figures of the measured part, without the CPU time after the load. Statements include BEGIN and
/// COMMIT; sizes are in bytes.
pub fn figures(run: &Run, space: Space) -> Vec<(&'static str, f64)> {
    let measured = &run.report.measured;
    let seconds = run.report.seconds();
    let per_second = |count: u64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
    let moments = run.seconds.iter().map(|(_, moment)| moment);
    let server = ServerUse::between(&run.begin, &run.end, run.client_cpu_s, moments);
    vec![
        ("seconds", seconds),
        ("transactions", measured.transactions as f64),
        ("statements", measured.statements as f64),
        ("transactions_per_s", per_second(measured.transactions)),
        ("statements_per_s", per_second(measured.statements)),
        ("p50_ms", run.report.percentile(50.0)),
        ("p95_ms", run.report.percentile(95.0)),
        ("p99_ms", run.report.percentile(99.0)),
        ("average_ms", measured.average_ms),
        ("max_ms", measured.max_ms),
        ("retried_errors", measured.retried_errors as f64),
        ("server_cpu_us", per_call_us(server.cpu_s, measured.statements)),
        ("other_cpus", server.other_cpus),
        ("resident_bytes", server.resident_bytes as f64),
        ("written_bytes", server.written_bytes as f64),
        ("data_bytes", space.data_bytes as f64),
        ("log_bytes", space.log_bytes as f64),
    ]
}

/// The rows of [`SECONDS`], each after its time.
pub fn seconds(run: &Run) -> Vec<Vec<f64>> {
    let mut before: Option<&ResourceSample> = None;
    let mut rows = Vec::with_capacity(run.seconds.len());
    for (second, moment) in &run.seconds {
        rows.push(vec![
            second.at_s,
            second.transactions_per_s,
            second.statements_per_s,
            second.p95_ms,
            second.errors_per_s,
            server_cpus(before, moment),
            moment.server.resident_bytes as f64,
        ]);
        before = Some(moment);
    }
    rows
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::{Duration, Instant};

    use tidelab_server::telemetry::process::ProcessUse;
    use tidelab_server::workload::sysbench_report::{Counters, Report, Second};

    use super::*;

    fn run() -> Run {
        let start = Instant::now();
        let moment = |s: f64, cpu: f64, machine: f64, resident: u64| ResourceSample {
            at: start + Duration::from_secs_f64(s),
            server: ProcessUse {
                cpu_s: cpu,
                resident_bytes: resident,
                written_bytes: (s * 1000.0) as u64,
                ..ProcessUse::default()
            },
            machine_cpu_s: machine,
        };
        let counters = |until_s, statements, transactions| Counters {
            until_s,
            statements,
            transactions,
            ..Counters::default()
        };
        Run {
            report: Report {
                warm_up: Some(counters(2.0, 999, 99)),
                measured: counters(12.0, 200_000, 10_000),
                histogram: vec![(1.0, 9_500), (7.0, 500)],
                fatal: vec![],
            },
            seconds: vec![
                (Second { at_s: 3.0, ..Second::default() }, moment(1.0, 11.0, 105.0, 70)),
                (Second { at_s: 4.0, ..Second::default() }, moment(2.0, 12.5, 105.0, 90)),
            ],
            begin: moment(0.0, 10.0, 100.0, 50),
            end: moment(10.0, 20.0, 119.0, 60),
            client_cpu_s: 5.0,
        }
    }

    #[test]
    fn rates_and_cpu_are_of_the_measured_part() {
        let f: BTreeMap<&str, f64> = figures(&run(), Space::default()).into_iter().collect();
        assert_eq!((f["seconds"], f["statements_per_s"], f["transactions_per_s"]), (10.0, 20_000.0, 1000.0));
        assert_eq!((f["p50_ms"], f["p95_ms"], f["p99_ms"]), (1.0, 1.0, 7.0));
        assert_eq!(f["server_cpu_us"], 50.0);
        assert!((f["other_cpus"] - 0.4).abs() < 1e-9, "19 s in all, 10 server, 5 sysbench");
        assert_eq!((f["resident_bytes"], f["written_bytes"]), (90.0, 10_000.0));
    }

    #[test]
    fn each_second_has_its_cpu() {
        let rows = seconds(&run());
        assert!(rows.iter().all(|row| row.len() == SECONDS.len() + 1));
        assert_eq!(rows.iter().map(|row| row[5]).collect::<Vec<_>>(), [0.0, 1.5]);
    }
}
