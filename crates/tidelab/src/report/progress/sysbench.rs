//! Progress of sysbench's workloads.

use std::collections::BTreeMap;
use std::time::Duration;

use tidelab_server::workload::sysbench::Load;
use tidelab_server::workload::sysbench_report::Second;

use super::{figure, red, Display};
use crate::measure::plan::Step;
use crate::measure::sysbench::{Design, Watcher};
use crate::run::conduct::minutes;
use crate::run::Measured;

/// The duration of steps by kind: a guess at first, then the mean of the finished steps.
#[derive(Clone, Debug)]
pub struct Estimate {
    kinds: BTreeMap<&'static str, (f64, f64, u32)>,
}

impl Estimate {
    /// The guess for a design.
    pub fn new(design: &Design) -> Estimate {
        let Load { warm_up_s, time_s, rows, tables, .. } = design.load;
        // Four windows of three seconds, where a warm-up ends when it is steady.
        let steady_s = design.warm_up_limit_s.saturating_sub(warm_up_s).min(12);
        let rows = rows as f64 * f64::from(tables);
        let loaded = rows * design.engines.len() as f64;
        let guesses = [
            (kind(Step::Prepare), 1.0 + loaded / 80_000.0),
            (kind(Step::Analyze(design.engines[0])), 0.3 + rows / 1_000_000.0),
            (kind(Step::Update(design.engines[0])), f64::from(design.update_s) + 0.1),
            ("measure", f64::from(steady_s + warm_up_s + time_s) + 0.6),
            (kind(Step::Check(design.engines[0])), 0.2 + rows / 500_000.0),
        ];
        Estimate { kinds: guesses.into_iter().map(|(k, guess)| (k, (guess, 0.0, 0))).collect() }
    }

    /// A step is over.
    pub fn learn(&mut self, step: Step, took: Duration) {
        if let Some((_, sum, count)) = self.kinds.get_mut(kind(step)) {
            *sum += took.as_secs_f64();
            *count += 1;
        }
    }

    /// Seconds for these steps.
    pub fn of(&self, steps: &[(u32, Step)]) -> f64 {
        steps
            .iter()
            .map(|(_, step)| match self.kinds.get(kind(*step)) {
                Some((guess, _, 0)) => *guess,
                Some((_, sum, count)) => sum / f64::from(*count),
                None => 0.0,
            })
            .sum()
    }
}

fn kind(step: Step) -> &'static str {
    match step {
        Step::Prepare => "prepare",
        Step::Analyze(_) => "analyze",
        Step::Update(_) => "update",
        Step::Measure(..) => "measure",
        Step::Check(_) => "check",
    }
}

/// Shows an experiment on stderr.
pub struct Progress {
    display: Display,
    steps: Vec<(u32, Step)>,
    /// The number of the first of them in the design.
    first: usize,
    estimate: Estimate,
    /// The currently measured engine; none between measurements.
    measured: Option<String>,
}

impl Progress {
    /// For one round of a design, counted from 1; its run reports the progress.
    pub fn of_round(design: &Design, round: u32) -> Progress {
        let first = design.steps().iter().filter(|(of, _)| *of < round).count();
        Progress::of(design, design.steps().into_iter().filter(|(of, _)| *of == round).collect(), first)
    }

    /// For a design with engines.
    pub fn new(design: &Design) -> Progress {
        let progress = Progress::of(design, design.steps(), 0);
        progress.display.say(&format!(
            "{} runs in {} rounds, about {}",
            progress.display.runs,
            design.rounds,
            minutes(progress.estimate.of(&progress.steps))
        ));
        progress
    }

    fn of(design: &Design, steps: Vec<(u32, Step)>, first: usize) -> Progress {
        let runs = steps.iter().filter(|(_, s)| matches!(s, Step::Measure(..))).count();
        let display = Display::new(Some(steps.len() as u64), design.rounds, runs);
        Progress { display, steps, first, estimate: Estimate::new(design), measured: None }
    }

    /// Takes the bar away.
    pub fn close(&self) {
        self.display.bar.finish_and_clear();
    }
}

impl Watcher for Progress {
    fn begins(&mut self, number: usize, round: u32, step: Step) {
        self.measured = match step {
            Step::Measure(engine, _) => Some(engine.to_string()),
            _ => None,
        };
        if let Some(engine) = &self.measured {
            self.display.sparks.begins(engine);
        }
        let step = match step {
            Step::Prepare => "making tables".to_string(),
            Step::Analyze(engine) => format!("{engine}: ANALYZE TABLE"),
            Step::Update(engine) => format!("{engine}: updates before the reads"),
            Step::Measure(engine, workload) => format!("{workload} on {engine}"),
            Step::Check(engine) => format!("{engine}: checking rows"),
        };
        let left = minutes(self.estimate.of(&self.steps[number - self.first..]));
        self.display.begins(format!("round {round}/{}, {left} left: {step}", self.display.rounds));
    }

    fn warms_up(&mut self, at_s: f64, rate: f64) {
        let now = &self.display.now;
        let message = format!("{now}, warming up, {at_s:.0} s: {rate:.0} transactions/s");
        self.display.bar.set_message(message);
    }

    fn second(&mut self, second: &Second) {
        if let Some(engine) = &self.measured {
            let at = format!("{:.0} s", second.at_s);
            self.display.second(engine, second.transactions_per_s, "transactions/s", &at);
        }
    }

    fn measured(&mut self, measured: &Measured) {
        let id = &measured.cell.id;
        let labels = format!("{:<16} {:<8}", id.label("workload"), id.label("engine"));
        let figures = format!(
            "{:>9.0} transactions/s, p95 {:>7.2} ms, {:>6.1} us CPU a statement, {} retried",
            figure(measured, "transactions_per_s"),
            figure(measured, "p95_ms"),
            figure(measured, "server_cpu_us"),
            figure(measured, "retried_errors")
        );
        self.display.measured(measured, &labels, &figures);
    }

    fn ends(&mut self, number: usize, step: Step, took: Duration) {
        self.estimate.learn(step, took);
        self.display.bar.set_position((number - self.first) as u64 + 1);
    }

    fn complaint(&mut self, text: &str) {
        self.display.say(&red(&format!("FAILED {text}")));
    }
}

#[cfg(test)]
mod tests {
    use tidelab_server::server::engine::Engine;
    use tidelab_server::workload::sysbench::Workload;

    use super::*;

    fn design() -> Design {
        Design {
            engines: Engine::ALL.to_vec(),
            workloads: vec![
                Workload::PointSelect,
                Workload::ReadWrite,
                Workload::UpdateIndex,
                Workload::Insert,
            ],
            rounds: 3,
            load: Load { tables: 1, rows: 100_000, threads: 8, warm_up_s: 2, time_s: 10 },
            warm_up_limit_s: 0,
            update_s: 0,
            settle_s: 3,
        }
    }

    #[test]
    fn the_demo_is_estimated_at_less_than_ten_minutes() {
        let seconds = Estimate::new(&design()).of(&design().steps());
        assert!((36.0 * 12.0..600.0).contains(&seconds), "{seconds}");
    }

    #[test]
    fn the_estimate_learns() {
        let mut estimate = Estimate::new(&design());
        let steps = [(1, Step::Prepare), (1, Step::Check(Engine::InnoDb))];
        let check = estimate.of(&steps[1..]);
        estimate.learn(steps[0].1, Duration::from_secs(4));
        estimate.learn(steps[0].1, Duration::from_secs(6));
        assert!((estimate.of(&steps) - check - 5.0).abs() < 1e-9);
    }

    #[test]
    fn times_are_readable() {
        assert_eq!([minutes(7.4), minutes(60.0), minutes(451.0)], ["7 s", "1 min 00 s", "7 min 31 s"]);
    }
}
