//! The figures of one TPC-C load, by their names in cells.
//!
//! The figures of one transaction begin with its name: `NEWORD_p99_ms`, `NEWORD_calls`. A failed transaction
//! counts by its error's number, as in `NEWORD_failed_1213`.

use tidelab_server::latency::LatencyFigures;
use tidelab_server::telemetry::disk::Space;
use tidelab_server::telemetry::process::ResourceSample;
use tidelab_server::workload::tpcc::drive::{Counted, Outcomes};
use tidelab_server::workload::tpcc::Transaction;

use crate::measure::server_use::{per_call_us, server_cpus, ServerUse};
use crate::run::{Better, Metric};

/// The figures of each second.
pub const SECONDS: [&str; 5] = ["nopm", "tpm", "failed_per_s", "server_cpus", "resident_bytes"];

/// The name of a transaction's figure.
pub fn name(transaction: Transaction, figure: &str) -> String {
    format!("{}_{figure}", transaction.name())
}

/// The figures of kept cells, the most important one first.
pub fn metrics() -> Vec<Metric> {
    use Better::{Higher, Lower, Neither};
    let mut all = vec![
        Metric::main("nopm", "New orders", "1/min", Higher),
        Metric::main("NEWORD_p99_ms", "NEWORD, 99th percentile", "ms", Lower),
        Metric::main("server_cpu_us", "Server CPU for a transaction", "us", Lower),
        Metric::main("data_bytes", "Files without logs", "B", Lower),
        Metric::detail("tpm", "Transactions", "1/min", Higher),
        Metric::detail("after_cpu_us", "CPU after the load, for a transaction", "us", Lower),
        Metric::detail("failed_percent", "Failed transactions", "%", Lower),
        Metric::detail("resident_bytes", "Resident size of the server", "B", Lower),
        Metric::detail("written_bytes", "Written to the device", "B", Lower),
        Metric::main("log_bytes", "Logs", "B", Neither),
        Metric::detail("client_cpus", "CPUs of the client", "CPUs", Neither),
        Metric::detail("other_cpus", "CPUs of others", "CPUs", Neither),
        Metric::detail("warm_up_s", "Ramp-up", "s", Neither),
    ];
    for t in Transaction::ALL.map(Transaction::name) {
        all.push(Metric::detail(&format!("{t}_calls"), &format!("{t}, calls"), "", Neither));
        for (figure, title) in [
            ("min", "least"),
            ("avg", "mean"),
            ("p50", "median"),
            ("p95", "95th percentile"),
            ("p99", "99th percentile"),
            ("max", "greatest"),
            ("sd", "standard deviation"),
        ] {
            if (t, figure) != ("NEWORD", "p99") {
                all.push(Metric::detail(&format!("{t}_{figure}_ms"), &format!("{t}, {title}"), "ms", Lower));
            }
        }
        all.push(Metric::detail(&format!("{t}_percent"), &format!("{t}, share of the time"), "%", Neither));
    }
    all
}

/// The figures of a load. `after_s` is the server's CPU time after it, in seconds. CPU times are for one
/// transaction of any kind, in microseconds; sizes are in bytes. `tpm` counts transactions rolled back by the
/// specification, and no failed ones.
pub fn figures(outcomes: &Outcomes, after_s: f64, space: Space) -> Vec<(String, f64)> {
    let (begin, end) = (&outcomes.begin, &outcomes.end);
    let seconds = (end.at - begin.at).as_secs_f64();
    let done: u64 = outcomes.counted.iter().map(|c| c.latencies.count()).sum();
    let failed: u64 = outcomes.counted.iter().flat_map(|c| c.failed.values()).sum();
    let per_minute = |count: u64| if seconds > 0.0 { count as f64 * 60.0 / seconds } else { 0.0 };
    let orders = &outcomes.counted[Transaction::NewOrder.index()];
    let measured = outcomes.seconds.iter().map(|s| &s.moment).filter(|moment| moment.at >= begin.at);
    let server = ServerUse::between(begin, end, outcomes.client_cpu_s, measured);
    let client_cpus = if seconds > 0.0 { outcomes.client_cpu_s / seconds } else { 0.0 };
    let mut all: Vec<(String, f64)> = [
        ("seconds", seconds),
        ("nopm", per_minute(orders.latencies.count() - orders.rolled_back)),
        ("tpm", per_minute(done)),
        ("failed_percent", percent(failed as f64, (done + failed) as f64)),
        ("server_cpu_us", per_call_us(server.cpu_s, done)),
        ("after_cpu_us", per_call_us(after_s, done)),
        ("other_cpus", server.other_cpus),
        ("client_cpus", client_cpus),
        ("resident_bytes", server.resident_bytes as f64),
        ("written_bytes", server.written_bytes as f64),
        ("data_bytes", space.data_bytes as f64),
        ("log_bytes", space.log_bytes as f64),
    ]
    .map(|(name, value)| (name.to_string(), value))
    .to_vec();
    let each: Vec<LatencyFigures> = outcomes.counted.iter().map(|c| c.latencies.figures()).collect();
    let all_time: f64 = each.iter().map(total_ms).sum();
    for ((transaction, counted), latency) in Transaction::ALL.into_iter().zip(&outcomes.counted).zip(&each) {
        all.extend(of_transaction(transaction, counted, latency, all_time));
    }
    all
}

/// The time of all calls, in milliseconds.
fn total_ms(latency: &LatencyFigures) -> f64 {
    latency.average_ms * latency.calls as f64
}

fn percent(part: f64, of: f64) -> f64 {
    if of > 0.0 {
        100.0 * part / of
    } else {
        0.0
    }
}

/// The figures of one kind of transaction. `all_ms` is the time of all kinds together. Latencies are
/// of the calls without an error, to the last result.
fn of_transaction(
    transaction: Transaction,
    counted: &Counted,
    latency: &LatencyFigures,
    all_ms: f64,
) -> Vec<(String, f64)> {
    let mut all: Vec<(String, f64)> = [
        ("calls", latency.calls as f64),
        ("min_ms", latency.min_ms),
        ("avg_ms", latency.average_ms),
        ("p50_ms", latency.p50_ms),
        ("p95_ms", latency.p95_ms),
        ("p99_ms", latency.p99_ms),
        ("max_ms", latency.max_ms),
        ("sd_ms", latency.sd_ms),
        ("percent", percent(total_ms(latency), all_ms)),
        ("rolled_back", counted.rolled_back as f64),
    ]
    .map(|(figure, value)| (name(transaction, figure), value))
    .to_vec();
    let failed =
        counted.failed.iter().map(|(code, n)| (name(transaction, &format!("failed_{code}")), *n as f64));
    all.extend(failed);
    all
}

/// The rows of [`SECONDS`], each after its time. Rates are per minute.
pub fn seconds(outcomes: &Outcomes) -> Vec<Vec<f64>> {
    let mut before: Option<&ResourceSample> = None;
    let mut rows = Vec::with_capacity(outcomes.seconds.len());
    for second in &outcomes.seconds {
        rows.push(vec![
            second.at_s,
            second.new_orders_per_s * 60.0,
            second.transactions_per_s * 60.0,
            second.failed_per_s,
            server_cpus(before, &second.moment),
            second.moment.server.resident_bytes as f64,
        ]);
        before = Some(&second.moment);
    }
    rows
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeMap;
    use std::time::{Duration, Instant};

    use tidelab_server::telemetry::process::ProcessUse;
    use tidelab_server::workload::steady::WarmUp;
    use tidelab_server::workload::tpcc::drive::Second;

    use super::*;

    pub(crate) fn outcomes() -> Outcomes {
        let start = Instant::now();
        let moment = |s: u64, cpu: f64, resident: u64| ResourceSample {
            at: start + Duration::from_secs(s),
            server: ProcessUse {
                cpu_s: cpu,
                resident_bytes: resident,
                written_bytes: s * 10,
                ..ProcessUse::default()
            },
            machine_cpu_s: cpu + s as f64,
        };
        let second = |s: u64, cpu: f64, resident: u64| Second {
            at_s: s as f64,
            new_orders_per_s: 10.0,
            transactions_per_s: 20.0,
            failed_per_s: 0.0,
            moment: moment(s, cpu, resident),
        };
        let mut counted: [Counted; 5] = Default::default();
        for (n, calls) in [(0, 100), (1, 90), (2, 10)] {
            for _ in 0..calls {
                counted[n].latencies.record(Duration::from_millis(n as u64 + 1));
            }
        }
        counted[0].rolled_back = 1;
        counted[1].failed.insert(1213, 50);
        Outcomes {
            counted,
            orders_in_all: 120,
            failed_in_all: 60,
            ramp_up: WarmUp { seconds: 2.0, steady: Some(true) },
            seconds: vec![second(1, 1.0, 900), second(3, 4.0, 500), second(4, 5.5, 700)],
            begin: moment(2, 3.0, 400),
            end: moment(12, 13.0, 600),
            client_cpu_s: 4.0,
            errors: vec![],
        }
    }

    #[test]
    fn figures_are_of_the_measured_time() {
        let f: BTreeMap<String, f64> = figures(&outcomes(), 0.2, Space::default()).into_iter().collect();
        assert_eq!((f["seconds"], f["nopm"], f["tpm"]), (10.0, 99.0 * 6.0, 200.0 * 6.0));
        assert_eq!((f["server_cpu_us"], f["after_cpu_us"]), (50_000.0, 1000.0));
        assert!((f["other_cpus"] - 0.6).abs() < 1e-9, "20 s in all, 10 server, 4 client");
        assert_eq!((f["failed_percent"], f["resident_bytes"], f["written_bytes"]), (20.0, 700.0, 100.0));
        assert_eq!((f["PAYMENT_calls"], f["PAYMENT_failed_1213"]), (90.0, 50.0));
        // 100, 180 and 30 ms.
        assert!((f["PAYMENT_percent"] - 100.0 * 180.0 / 310.0).abs() < 1e-9);
    }

    #[test]
    fn each_second_has_its_cpu() {
        let rows = seconds(&outcomes());
        assert!(rows.iter().all(|row| row.len() == SECONDS.len() + 1));
        assert_eq!(rows.iter().map(|row| row[4]).collect::<Vec<_>>(), [0.0, 1.5, 1.5]);
    }
}
