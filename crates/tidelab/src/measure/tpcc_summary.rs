//! What the rounds of TPC-C say together: a line for each engine, and one for each of its
//! transactions.

use serde::Serialize;
use tidelab_server::server::engine::Engine;
use tidelab_server::statistics::{Ratio, Spread};
use tidelab_server::workload::tpcc::Transaction;

use super::summary::reference;
use super::tpcc::{Cell, Figures};

/// One transaction on one engine: sums and medians over the rounds.
#[derive(Clone, Debug, Serialize)]
pub struct TransactionLine {
    /// Which.
    pub transaction: Transaction,
    /// Those without an error, in all rounds.
    pub calls: u64,
    /// Those that failed, in all rounds.
    pub failed: u64,
    /// The mean, in milliseconds.
    pub average_ms: f64,
    /// Half stay within it.
    pub p50_ms: f64,
    /// 95 % stay within it.
    pub p95_ms: f64,
    /// 99 % stay within it.
    pub p99_ms: f64,
    /// The longest of all rounds.
    pub max_ms: f64,
    /// The standard deviation.
    pub sd_ms: f64,
    /// The share of the time of all transactions, in percent.
    pub time_percent: f64,
    /// The 99th percentile against the reference's, round by round.
    pub p99_ratio: Option<Ratio>,
}

/// All rounds on one engine.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// The engine.
    pub engine: Engine,
    /// Rounds that count.
    pub rounds: usize,
    /// Why others do not: a line with any has no figures.
    pub failures: Vec<String>,
    /// New orders a minute.
    pub nopm: Option<Spread>,
    /// Transactions a minute.
    pub tpm: Option<Spread>,
    /// New orders a minute against the reference, round by round; none for itself.
    pub ratio: Option<Ratio>,
    /// CPU time of the server for a transaction, in microseconds.
    pub server_cpu_us: Option<Spread>,
    /// The same against the reference.
    pub server_cpu_ratio: Option<Ratio>,
    /// CPU time for each transaction that was put off until after the load.
    pub after_cpu_us: Option<Spread>,
    /// Failed transactions in percent.
    pub failed_percent: Option<Spread>,
    /// The largest resident size of the server in any round, in bytes.
    pub resident_bytes: u64,
    /// The engine's files after the run, logs included.
    pub space_bytes: Option<Spread>,
    /// Bytes written to the device for each transaction.
    pub written_per_transaction: Option<Spread>,
    /// The largest share of other work on the machine in any round, in CPUs.
    pub other_cpus: f64,
    /// The transactions; empty on a failed line.
    pub transactions: Vec<TransactionLine>,
}

/// The lines, by engine in the order given.
pub fn lines(cells: &[Cell], engines: &[Engine]) -> Vec<Line> {
    let reference = reference(engines);
    engines.iter().map(|engine| line(cells, *engine, reference.filter(|r| r != engine))).collect()
}

fn line(cells: &[Cell], engine: Engine, reference: Option<Engine>) -> Line {
    let of = |e: Engine| cells.iter().filter(move |c| c.engine == e);
    let failures: Vec<String> =
        of(engine).flat_map(|c| c.failures.iter().map(move |f| format!("round {}: {f}", c.round))).collect();
    let good: Vec<&Figures> = of(engine).filter(|c| c.counts()).filter_map(|c| c.figures.as_ref()).collect();
    let sound = failures.is_empty() && !good.is_empty();
    let spread = |figure: &dyn Fn(&Figures) -> f64| {
        Spread::of(&good.iter().map(|f| figure(f)).collect::<Vec<f64>>()).filter(|_| sound)
    };
    let ratio = |figure: &dyn Fn(&Figures) -> f64| {
        let reference = reference?;
        if !sound || of(reference).any(|c| !c.counts()) {
            return None;
        }
        let in_round = |e: Engine, round: u32| {
            of(e).find(|c| c.round == round).and_then(|c| c.figures.as_ref()).map(figure)
        };
        let pairs: Vec<(f64, f64)> = of(engine)
            .filter_map(|c| Some((in_round(engine, c.round)?, in_round(reference, c.round)?)))
            .collect();
        Ratio::of(&pairs)
    };
    let median = |figure: &dyn Fn(&Figures) -> f64| spread(figure).map_or(0.0, |s| s.median);
    let transaction = |t: Transaction| {
        let at = t.index();
        TransactionLine {
            transaction: t,
            calls: good.iter().map(|f| f.transactions[at].latency.calls).sum(),
            failed: good.iter().flat_map(|f| f.transactions[at].failed.values()).sum(),
            average_ms: median(&|f| f.transactions[at].latency.average_ms),
            p50_ms: median(&|f| f.transactions[at].latency.p50_ms),
            p95_ms: median(&|f| f.transactions[at].latency.p95_ms),
            p99_ms: median(&|f| f.transactions[at].latency.p99_ms),
            max_ms: good.iter().map(|f| f.transactions[at].latency.max_ms).fold(0.0, f64::max),
            sd_ms: median(&|f| f.transactions[at].latency.sd_ms),
            time_percent: median(&|f| f.transactions[at].time_percent),
            p99_ratio: ratio(&|f| f.transactions[at].latency.p99_ms),
        }
    };
    Line {
        engine,
        rounds: good.len(),
        nopm: spread(&|f| f.nopm),
        tpm: spread(&|f| f.tpm),
        ratio: ratio(&|f| f.nopm),
        server_cpu_us: spread(&|f| f.server_cpu_us),
        server_cpu_ratio: ratio(&|f| f.server_cpu_us),
        after_cpu_us: spread(&|f| f.after_cpu_us),
        failed_percent: spread(&|f| f.failed_percent),
        resident_bytes: good.iter().map(|f| f.resident_bytes).max().unwrap_or(0),
        space_bytes: spread(&|f| (f.space.data_bytes + f.space.log_bytes) as f64),
        written_per_transaction: spread(&|f| f.written_bytes as f64 / (f.tpm * f.seconds / 60.0).max(1.0)),
        other_cpus: good.iter().map(|f| f.other_cpus).fold(0.0, f64::max),
        transactions: if sound {
            Transaction::ALL.into_iter().map(transaction).collect()
        } else {
            Vec::new()
        },
        failures,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use tidelab_server::latency::LatencyFigures;
    use tidelab_server::telemetry::disk::Space;
    use tidelab_server::workload::steady::WarmUp;

    use super::*;
    use crate::measure::tpcc::PerTransaction;

    /// A cell with so many new orders a minute.
    pub(crate) fn cell(engine: Engine, round: u32, nopm: f64) -> Cell {
        let transactions = Transaction::ALL
            .into_iter()
            .map(|transaction| PerTransaction {
                transaction,
                latency: LatencyFigures {
                    calls: 1000,
                    min_ms: 0.5,
                    average_ms: 2.0,
                    p50_ms: 1.5,
                    p95_ms: 4.0,
                    p99_ms: 1e5 / nopm,
                    max_ms: 50.0 + f64::from(round),
                    sd_ms: 1.0,
                },
                time_percent: 20.0,
                rolled_back: 10,
                failed: [(1213, 3)].into(),
            })
            .collect();
        let figures = Figures {
            seconds: 60.0,
            nopm,
            tpm: 2.2 * nopm,
            transactions,
            failed_percent: 0.1,
            server_cpu_us: 1e7 / nopm,
            after_cpu_us: 3.0,
            other_cpus: 0.05,
            client_cpus: 0.2,
            resident_bytes: 300 << 20,
            written_bytes: 1 << 30,
            space: Space { data_bytes: 4 << 30, log_bytes: 100 << 20 },
        };
        Cell {
            engine,
            round,
            seed: 1,
            warm_up: WarmUp { seconds: 70.0, steady: Some(true) },
            failures: Vec::new(),
            check_s: 3.0,
            figures: Some(figures),
            seconds: Vec::new(),
            telemetry: None,
        }
    }

    const ENGINES: [Engine; 2] = [Engine::TidesDb, Engine::InnoDb];

    #[test]
    fn ratios_are_to_innodb_within_rounds() {
        let cells = [
            cell(Engine::TidesDb, 1, 20_000.0),
            cell(Engine::InnoDb, 1, 10_000.0),
            cell(Engine::InnoDb, 2, 20_000.0),
            cell(Engine::TidesDb, 2, 40_000.0),
        ];
        let lines = lines(&cells, &ENGINES);
        let ours = &lines[0];
        assert_eq!((ours.ratio.unwrap().median, ours.rounds), (2.0, 2));
        assert_eq!(ours.nopm.unwrap().median, 30_000.0);
        assert_eq!(ours.server_cpu_ratio.unwrap().median, 0.5);
        let order = &ours.transactions[0];
        assert_eq!((order.calls, order.failed, order.max_ms), (2000, 6, 52.0));
        assert_eq!(order.p99_ratio.unwrap().median, 0.5);
        assert!(lines[1].ratio.is_none() && lines[1].transactions[0].p99_ratio.is_none());
    }

    #[test]
    fn a_violation_takes_the_figures_of_its_engine() {
        let mut cells = [cell(Engine::TidesDb, 1, 20_000.0), cell(Engine::InnoDb, 1, 10_000.0)];
        cells[1].failures.push("condition 3: a gap".to_string());
        let lines = lines(&cells, &ENGINES);
        assert_eq!(lines[1].failures, ["round 1: condition 3: a gap"]);
        assert!(lines[1].nopm.is_none() && lines[1].transactions.is_empty());
        assert!(lines[0].nopm.is_some() && lines[0].ratio.is_none(), "nothing to compare with");
    }
}
