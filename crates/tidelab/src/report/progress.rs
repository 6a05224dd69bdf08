//! What is going on, while it goes on: a bar with the time that is left where there is a
//! terminal, and in any case a line for each run that is over.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tidelab_server::workload::steady::WarmUp;
use tidelab_server::workload::sysbench::Load;
use tidelab_server::workload::sysbench_report::Second;

use super::sparks::Sparks;
use crate::measure::cell::Cell;
use crate::measure::experiment::{Design, Watcher};
use crate::measure::plan::Step;
use crate::run::conduct::minutes;

/// How long the steps of each kind take: a guess, then the mean of those that are over.
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
        let guesses = [
            (kind(Step::Prepare(design.engines[0])), 1.0 + rows / 60_000.0),
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
        Step::Prepare(_) => "prepare",
        Step::Analyze(_) => "analyze",
        Step::Update(_) => "update",
        Step::Measure(..) => "measure",
        Step::Check(_) => "check",
    }
}

/// Shows an experiment on stderr.
pub struct Progress {
    bar: ProgressBar,
    steps: Vec<(u32, Step)>,
    /// The number of the first of them in the design.
    first: usize,
    estimate: Estimate,
    rounds: u32,
    runs: usize,
    runs_over: usize,
    now: String,
    /// Who is measured now; none between measurements.
    measured: Option<String>,
    sparks: Sparks,
}

impl Progress {
    /// For one round of a design, counted from 1; the run that it belongs to says how far that is.
    pub fn of_round(design: &Design, round: u32) -> Progress {
        let mut progress = Progress::silent(design);
        progress.steps.retain(|(of, _)| *of == round);
        progress.first = design.steps().iter().filter(|(of, _)| *of < round).count();
        progress.runs = progress.steps.iter().filter(|(_, s)| matches!(s, Step::Measure(..))).count();
        progress.bar.set_length(progress.steps.len() as u64);
        progress
    }

    /// For a design that has engines.
    pub fn new(design: &Design) -> Progress {
        let progress = Progress::silent(design);
        progress.say(&format!(
            "{} runs in {} rounds, about {}",
            progress.runs,
            design.rounds,
            minutes(progress.estimate.of(&progress.steps))
        ));
        progress
    }

    fn silent(design: &Design) -> Progress {
        let steps = design.steps();
        let estimate = Estimate::new(design);
        let runs = steps.iter().filter(|(_, s)| matches!(s, Step::Measure(..))).count();
        let bar = ProgressBar::with_draw_target(Some(steps.len() as u64), ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{bar:24} {msg}") {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.enable_steady_tick(Duration::from_millis(500));
        Progress {
            bar,
            estimate,
            rounds: design.rounds,
            runs,
            runs_over: 0,
            now: String::new(),
            measured: None,
            sparks: Sparks::default(),
            steps,
            first: 0,
        }
    }

    /// A line that stays.
    pub fn say(&self, line: &str) {
        say(&self.bar, line);
    }

    /// Takes the bar away.
    pub fn close(&self) {
        self.bar.finish_and_clear();
    }
}

/// A line that stays above a bar, or alone where there is none.
pub(super) fn say(bar: &ProgressBar, line: &str) {
    if bar.is_hidden() {
        eprintln!("{line}");
    } else {
        bar.println(line);
    }
}

/// In red, where stderr is a terminal.
pub(super) fn red(text: &str) -> String {
    if std::io::stderr().is_terminal() {
        format!("\x1b[31m{text}\x1b[0m")
    } else {
        text.to_string()
    }
}

impl Watcher for Progress {
    fn begins(&mut self, number: usize, round: u32, step: Step) {
        self.measured = match step {
            Step::Measure(engine, _) => Some(engine.to_string()),
            _ => None,
        };
        if let Some(engine) = &self.measured {
            self.sparks.begins(engine);
        }
        let what = match step {
            Step::Prepare(engine) => format!("{engine}: making tables"),
            Step::Analyze(engine) => format!("{engine}: ANALYZE TABLE"),
            Step::Update(engine) => format!("{engine}: updates before the reads"),
            Step::Measure(engine, workload) => format!("{workload} on {engine}"),
            Step::Check(engine) => format!("{engine}: checking rows"),
        };
        let left = minutes(self.estimate.of(&self.steps[number - self.first..]));
        self.now = format!("round {round}/{}, {left} left: {what}", self.rounds);
        self.bar.set_message(self.now.clone());
    }

    fn warms_up(&mut self, at_s: f64, rate: f64) {
        self.bar.set_message(format!("{}, warming up, {at_s:.0} s: {rate:.0} transactions/s", self.now));
    }

    fn second(&mut self, second: &Second) {
        if let Some(engine) = &self.measured {
            self.sparks.second(engine, second.transactions_per_s);
            let below = self.sparks.picture("transactions/s");
            self.bar.set_message(format!("{}, {:.0} s{below}", self.now, second.at_s));
        }
    }

    fn measured(&mut self, cell: &Cell) {
        self.runs_over += 1;
        let head = format!(
            "[{:>2}/{}] round {} {:<16} {:<8}",
            self.runs_over, self.runs, cell.round, cell.workload, cell.engine
        );
        match &cell.figures {
            Some(f) if cell.counts() => self.say(&format!(
                "{head} {:>9.0} transactions/s, p95 {:>7.2} ms, {:>6.1} us CPU a statement, {} retried{}",
                f.transactions_per_s,
                f.p95_ms,
                f.server_cpu_us,
                f.retried_errors,
                warmed(cell.warm_up)
            )),
            _ => self.say(&red(&format!("{head} FAILED: {}", cell.failures.join("; ")))),
        }
    }

    fn ends(&mut self, number: usize, step: Step, took: Duration) {
        self.estimate.learn(step, took);
        self.bar.set_position((number - self.first) as u64 + 1);
    }

    fn complaint(&mut self, text: &str) {
        self.say(&red(&format!("FAILED {text}")));
    }
}

/// How a warm-up went, as the end of a line; nothing where its length was fixed.
pub(super) fn warmed(warm_up: WarmUp) -> String {
    match warm_up.steady {
        None => String::new(),
        Some(true) => format!(", steady after {:.0} s", warm_up.seconds),
        Some(false) => format!(", NOT steady after {:.0} s", warm_up.seconds),
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
    fn a_line_says_how_the_warm_up_went() {
        let of = |seconds, steady| warmed(WarmUp { seconds, steady });
        assert_eq!(of(11.2, Some(true)), ", steady after 11 s");
        assert_eq!(of(30.0, Some(false)), ", NOT steady after 30 s");
        assert_eq!(of(2.0, None), "");
    }

    #[test]
    fn the_demo_is_estimated_at_less_than_ten_minutes() {
        let seconds = Estimate::new(&design()).of(&design().steps());
        assert!((36.0 * 12.0..600.0).contains(&seconds), "{seconds}");
    }

    #[test]
    fn the_estimate_learns() {
        let mut estimate = Estimate::new(&design());
        let steps = [(1, Step::Prepare(Engine::InnoDb)), (1, Step::Check(Engine::InnoDb))];
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
