//! One measured run: one workload on one engine in one round.

use serde::Serialize;
use tidelab_server::server::engine::Engine;
use tidelab_server::telemetry::disk::Space;
use tidelab_server::workload::steady::WarmUp;
use tidelab_server::workload::sysbench::{Run, Workload};

use crate::run::Series;

/// The figures of a run that came to its end.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// Measured seconds.
    pub seconds: f64,
    /// Transactions in them.
    pub transactions: u64,
    /// Statements in them, BEGIN and COMMIT included.
    pub statements: u64,
    /// Transactions a second.
    pub transactions_per_s: f64,
    /// Statements a second.
    pub statements_per_s: f64,
    /// Latency of a transaction in milliseconds: half stay within it.
    pub p50_ms: f64,
    /// 95 % stay within it.
    pub p95_ms: f64,
    /// 99 % stay within it.
    pub p99_ms: f64,
    /// The mean.
    pub average_ms: f64,
    /// The longest.
    pub max_ms: f64,
    /// Deadlocks, conflicts and timeouts that sysbench retried.
    pub retried_errors: u64,
    /// User and system time of the server's process for a statement, in microseconds.
    pub server_cpu_us: f64,
    /// CPU time that the server still took for each of those statements after the load had
    /// ended, until it was idle: work that was put off.
    pub after_cpu_us: f64,
    /// CPUs that were busy with neither server nor sysbench, on average.
    pub other_cpus: f64,
    /// The largest resident size of the server in the measured time, in bytes. It is one
    /// process for all engines.
    pub resident_bytes: u64,
    /// Bytes that the server caused to be written to the device.
    pub written_bytes: u64,
    /// The engine's files after the run.
    pub space: Space,
}

/// A second of a run, with what the server did in it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SecondUse {
    /// Seconds since the start of the run, warm-up included.
    pub at_s: f64,
    /// Transactions a second.
    pub transactions_per_s: f64,
    /// Statements a second.
    pub statements_per_s: f64,
    /// 95th percentile of the latency in milliseconds; 0 in the second of the checkpoint.
    pub p95_ms: f64,
    /// Retried errors a second.
    pub errors_per_s: f64,
    /// CPUs that the server used since the second before.
    pub server_cpus: f64,
    /// Its resident size in bytes.
    pub resident_bytes: u64,
}

/// One measured run and what came of it.
#[derive(Clone, Debug, Serialize)]
pub struct Cell {
    /// The workload.
    pub workload: Workload,
    /// The engine.
    pub engine: Engine,
    /// The round, counted from 1.
    pub round: u32,
    /// Seed of sysbench's random numbers; the same for all engines of a round.
    pub seed: u32,
    /// How the warm-up before the measured time went.
    pub warm_up: WarmUp,
    /// Why it does not count; empty when it does.
    pub failures: Vec<String>,
    /// The figures; none when the run did not come to its end.
    pub figures: Option<Figures>,
    /// Each second of it.
    pub seconds: Vec<SecondUse>,
    /// What machine and server did meanwhile; none where nobody asked for it.
    #[serde(skip)]
    pub telemetry: Option<Series>,
}

impl Cell {
    /// It came to its end and passed its checks.
    pub fn counts(&self) -> bool {
        self.failures.is_empty() && self.figures.is_some()
    }
}

/// The figures of a run, before what comes after it is known.
pub fn figures(run: &Run, space: Space) -> Figures {
    let measured = &run.report.measured;
    let seconds = run.report.seconds();
    let per_second = |count: u64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
    let wall = (run.end.at - run.begin.at).as_secs_f64();
    let server = run.end.server.cpu_s - run.begin.server.cpu_s;
    let machine = run.end.machine_cpu_s - run.begin.machine_cpu_s;
    let other = if wall > 0.0 { ((machine - server - run.client_cpu_s) / wall).max(0.0) } else { 0.0 };
    let resident = run
        .seconds
        .iter()
        .map(|(_, moment)| moment.server.resident_bytes)
        .chain([run.begin.server.resident_bytes, run.end.server.resident_bytes])
        .max();
    Figures {
        seconds,
        transactions: measured.transactions,
        statements: measured.statements,
        transactions_per_s: per_second(measured.transactions),
        statements_per_s: per_second(measured.statements),
        p50_ms: run.report.percentile(50.0),
        p95_ms: run.report.percentile(95.0),
        p99_ms: run.report.percentile(99.0),
        average_ms: measured.average_ms,
        max_ms: measured.max_ms,
        retried_errors: measured.retried_errors,
        server_cpu_us: per_statement_us(server, measured.statements),
        after_cpu_us: 0.0,
        other_cpus: other,
        resident_bytes: resident.unwrap_or(0),
        written_bytes: run.end.server.written_bytes.saturating_sub(run.begin.server.written_bytes),
        space,
    }
}

/// Seconds of CPU for all statements, as microseconds for one.
pub fn per_statement_us(cpu_s: f64, statements: u64) -> f64 {
    if statements == 0 {
        return 0.0;
    }
    cpu_s * 1e6 / statements as f64
}

/// The seconds of a run.
pub fn seconds(run: &Run) -> Vec<SecondUse> {
    let mut before: Option<&tidelab_server::telemetry::process::Moment> = None;
    let mut all = Vec::with_capacity(run.seconds.len());
    for (second, moment) in &run.seconds {
        let server_cpus = before.map_or(0.0, |b| {
            let wall = (moment.at - b.at).as_secs_f64();
            if wall > 0.0 {
                (moment.server.cpu_s - b.server.cpu_s) / wall
            } else {
                0.0
            }
        });
        all.push(SecondUse {
            at_s: second.at_s,
            transactions_per_s: second.transactions_per_s,
            statements_per_s: second.statements_per_s,
            p95_ms: second.p95_ms,
            errors_per_s: second.errors_per_s,
            server_cpus,
            resident_bytes: moment.server.resident_bytes,
        });
        before = Some(moment);
    }
    all
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use tidelab_server::telemetry::process::{Moment, ProcessUse};
    use tidelab_server::workload::sysbench_report::{Counters, Report, Second};

    use super::*;

    fn run() -> Run {
        let start = Instant::now();
        let moment = |s: f64, cpu: f64, machine: f64, resident: u64| Moment {
            at: start + Duration::from_secs_f64(s),
            server: ProcessUse { cpu_s: cpu, resident_bytes: resident, written_bytes: (s * 1000.0) as u64 },
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
        let figures = figures(&run(), Space::default());
        assert_eq!(
            (figures.seconds, figures.statements_per_s, figures.transactions_per_s),
            (10.0, 20_000.0, 1000.0)
        );
        assert_eq!((figures.p50_ms, figures.p95_ms, figures.p99_ms), (1.0, 1.0, 7.0));
        assert_eq!(figures.server_cpu_us, 50.0);
        assert!((figures.other_cpus - 0.4).abs() < 1e-9, "19 s in all, 10 server, 5 sysbench");
        assert_eq!((figures.resident_bytes, figures.written_bytes), (90, 10_000));
    }

    #[test]
    fn each_second_has_its_cpu() {
        let seconds = seconds(&run());
        assert_eq!(seconds.iter().map(|s| s.server_cpus).collect::<Vec<_>>(), [0.0, 1.5]);
    }

    #[test]
    fn no_statements_cost_nothing() {
        assert_eq!(per_statement_us(1.0, 0), 0.0);
    }
}
