//! What the rounds say together: one line for each workload and engine.

use serde::Serialize;
use tidelab_server::server::engine::Engine;
use tidelab_server::statistics::{Ratio, Spread};
use tidelab_server::workload::sysbench::Workload;

use super::cell::{Cell, Figures};

/// All rounds of one workload on one engine.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// The workload.
    pub workload: Workload,
    /// The engine.
    pub engine: Engine,
    /// Rounds that count.
    pub rounds: usize,
    /// Why others do not: a line with any has no figures.
    pub failures: Vec<String>,
    /// Transactions a second.
    pub transactions_per_s: Option<Spread>,
    /// Statements a second.
    pub statements_per_s: Option<Spread>,
    /// Transactions a second against the reference, round by round; none for itself.
    pub ratio: Option<Ratio>,
    /// 95th percentile of the latency in milliseconds.
    pub p95_ms: Option<Spread>,
    /// 99th percentile of the latency in milliseconds.
    pub p99_ms: Option<Spread>,
    /// CPU time of the server for a statement, in microseconds.
    pub server_cpu_us: Option<Spread>,
    /// The same against the reference.
    pub server_cpu_ratio: Option<Ratio>,
    /// CPU time for each statement that was put off until after the load.
    pub after_cpu_us: Option<Spread>,
    /// Deadlocks, conflicts and timeouts in all rounds.
    pub retried_errors: u64,
    /// The largest share of other work on the machine in any round, in CPUs.
    pub other_cpus: f64,
}

/// The engine that the others are compared with: InnoDB where it runs.
pub fn reference(engines: &[Engine]) -> Option<Engine> {
    engines.iter().copied().find(|e| *e == Engine::InnoDb).or(engines.first().copied())
}

/// The lines of an experiment, by workload, then by engine, each in the order given.
pub fn lines(cells: &[Cell], workloads: &[Workload], engines: &[Engine]) -> Vec<Line> {
    let reference = reference(engines);
    let mut lines = Vec::new();
    for workload in workloads {
        for engine in engines {
            let of = |e: Engine| cells.iter().filter(move |c| c.workload == *workload && c.engine == e);
            let failures: Vec<String> = of(*engine)
                .flat_map(|c| c.failures.iter().map(move |f| format!("round {}: {f}", c.round)))
                .collect();
            let good: Vec<&Figures> =
                of(*engine).filter(|c| c.counts()).filter_map(|c| c.figures.as_ref()).collect();
            let spread = |figure: fn(&Figures) -> f64| {
                if !failures.is_empty() {
                    return None;
                }
                Spread::of(&good.iter().map(|f| figure(f)).collect::<Vec<f64>>())
            };
            let ratio = |figure: fn(&Figures) -> f64| {
                let reference = reference.filter(|r| r != engine)?;
                if !failures.is_empty() || of(reference).any(|c| !c.counts()) {
                    return None;
                }
                let in_round = |e: Engine, round: u32| {
                    of(e).find(|c| c.round == round).and_then(|c| c.figures.as_ref()).map(figure)
                };
                let pairs: Vec<(f64, f64)> = of(*engine)
                    .filter_map(|c| Some((in_round(*engine, c.round)?, in_round(reference, c.round)?)))
                    .collect();
                Ratio::of(&pairs)
            };
            lines.push(Line {
                workload: *workload,
                engine: *engine,
                rounds: good.len(),
                transactions_per_s: spread(|f| f.transactions_per_s),
                statements_per_s: spread(|f| f.statements_per_s),
                ratio: ratio(|f| f.transactions_per_s),
                p95_ms: spread(|f| f.p95_ms),
                p99_ms: spread(|f| f.p99_ms),
                server_cpu_us: spread(|f| f.server_cpu_us),
                server_cpu_ratio: ratio(|f| f.server_cpu_us),
                after_cpu_us: spread(|f| f.after_cpu_us),
                retried_errors: good.iter().map(|f| f.retried_errors).sum(),
                other_cpus: good.iter().map(|f| f.other_cpus).fold(0.0, f64::max),
                failures,
            });
        }
    }
    lines
}

#[cfg(test)]
pub(crate) mod tests {
    use tidelab_server::telemetry::disk::Space;
    use tidelab_server::workload::steady::WarmUp;

    use super::*;

    /// A cell with this many transactions a second.
    pub(crate) fn cell(workload: Workload, engine: Engine, round: u32, rate: f64) -> Cell {
        let figures = Figures {
            seconds: 10.0,
            transactions: (rate * 10.0) as u64,
            statements: (rate * 10.0) as u64,
            transactions_per_s: rate,
            statements_per_s: rate,
            p50_ms: 0.5,
            p95_ms: 1.5,
            p99_ms: 2.5,
            average_ms: 0.6,
            max_ms: 9.0,
            retried_errors: 2,
            server_cpu_us: 1e6 / rate,
            after_cpu_us: 0.25,
            other_cpus: 0.1,
            resident_bytes: 300 << 20,
            written_bytes: 1 << 20,
            space: Space { data_bytes: 20 << 20, log_bytes: 5 << 20 },
        };
        Cell {
            workload,
            engine,
            round,
            seed: 7,
            warm_up: WarmUp { seconds: 11.0, steady: Some(true) },
            failures: Vec::new(),
            figures: Some(figures),
            seconds: Vec::new(),
            telemetry: None,
        }
    }

    const ENGINES: [Engine; 2] = [Engine::TidesDb, Engine::InnoDb];

    fn three_rounds() -> Vec<Cell> {
        let w = Workload::Insert;
        let rates = [(1300.0, 1000.0), (2600.0, 2000.0), (1200.0, 1000.0)];
        (1..)
            .zip(rates)
            .flat_map(|(r, (ours, theirs))| {
                [cell(w, Engine::TidesDb, r, ours), cell(w, Engine::InnoDb, r, theirs)]
            })
            .collect()
    }

    #[test]
    fn ratios_are_to_innodb_round_by_round() {
        let lines = lines(&three_rounds(), &[Workload::Insert], &ENGINES);
        assert_eq!(lines.len(), 2);
        let ours = &lines[0];
        assert_eq!((ours.engine, ours.rounds, ours.retried_errors), (Engine::TidesDb, 3, 6));
        assert_eq!(ours.transactions_per_s.unwrap().median, 1300.0);
        assert_eq!(ours.ratio.unwrap().median, 1.3);
        assert!((ours.server_cpu_ratio.unwrap().median - 1.0 / 1.3).abs() < 1e-9);
        assert_eq!(lines[1].ratio, None);
    }

    #[test]
    fn one_failure_takes_the_figures_of_its_line() {
        let mut cells = three_rounds();
        cells[2].failures.push("3 rows, expected 4".to_string());
        let lines = lines(&cells, &[Workload::Insert], &ENGINES);
        assert_eq!(lines[0].failures, ["round 2: 3 rows, expected 4"]);
        assert_eq!((lines[0].transactions_per_s, lines[0].ratio, lines[0].rounds), (None, None, 2));
        assert!(lines[1].transactions_per_s.is_some());
    }

    #[test]
    fn without_innodb_the_first_is_the_reference() {
        assert_eq!(reference(&[Engine::RocksDb, Engine::TidesDb]), Some(Engine::RocksDb));
        assert_eq!(reference(&ENGINES), Some(Engine::InnoDb));
        assert_eq!(reference(&[]), None);
    }
}
