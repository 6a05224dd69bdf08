//! Progress of a load on stderr: a changing line on a terminal, and a permanent line for each finished load.
//! [`sysbench`] and [`tpcc`] add the steps of their load and the remaining time.

pub mod sysbench;
pub mod tpcc;

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tidelab_server::workload::steady::WarmUp;

use super::sparks::Sparks;
use crate::run::Measured;

/// The load-independent parts of the display.
struct Display {
    bar: ProgressBar,
    rounds: u32,
    /// Loads to measure, and the finished ones of them.
    runs: usize,
    runs_over: usize,
    /// The text of the changing line, without its last figures.
    now: String,
    sparks: Sparks,
}

impl Display {
    /// A display with `steps` steps; one without steps has a spinner in place of the bar.
    fn new(steps: Option<u64>, rounds: u32, runs: usize) -> Display {
        let bar = ProgressBar::with_draw_target(steps, ProgressDrawTarget::stderr());
        let template = if steps.is_some() { "{bar:24} {msg}" } else { "{spinner} {msg}" };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.enable_steady_tick(Duration::from_millis(500));
        Display { bar, rounds, runs, runs_over: 0, now: String::new(), sparks: Sparks::default() }
    }

    /// A permanent line: above the bar, or alone without a terminal.
    fn say(&self, line: &str) {
        if self.bar.is_hidden() {
            eprintln!("{line}");
        } else {
            self.bar.println(line);
        }
    }

    /// Replaces the changing line.
    fn begins(&mut self, now: String) {
        self.now = now;
        self.bar.set_message(self.now.clone());
    }

    /// Shows a second of a load: `at` in the changing line, the rate as a bar of its competitor.
    fn second(&mut self, competitor: &str, rate: f64, unit: &str, at: &str) {
        self.sparks.second(competitor, rate);
        self.bar.set_message(format!("{}, {at}{}", self.now, self.sparks.picture(unit)));
    }

    /// A load is over: a line with its labels, and its figures or failures.
    fn measured(&mut self, measured: &Measured, labels: &str, figures: &str) {
        self.runs_over += 1;
        let round = measured.cell.id.round;
        let head = format!("[{:>2}/{}] round {round} {labels}", self.runs_over, self.runs);
        if measured.counts() {
            self.say(&format!("{head} {figures}{}", warmed(measured.warm_up)));
        } else {
            self.say(&red(&format!("{head} FAILED: {}", measured.cell.failures.join("; "))));
        }
    }
}

/// In red, where stderr is a terminal.
fn red(text: &str) -> String {
    if std::io::stderr().is_terminal() {
        format!("\x1b[31m{text}\x1b[0m")
    } else {
        text.to_string()
    }
}

/// The result of a warm-up, as the end of a line; empty for a fixed length.
fn warmed(warm_up: WarmUp) -> String {
    match warm_up.steady {
        None => String::new(),
        Some(true) => format!(", steady after {:.0} s", warm_up.seconds),
        Some(false) => format!(", NOT steady after {:.0} s", warm_up.seconds),
    }
}

/// A figure of a measurement; 0 without it.
fn figure(measured: &Measured, name: &str) -> f64 {
    measured.cell.figures.get(name).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_the_warm_up_went() {
        let of = |seconds, steady| warmed(WarmUp { seconds, steady });
        assert_eq!(of(11.2, Some(true)), ", steady after 11 s");
        assert_eq!(of(30.0, Some(false)), ", NOT steady after 30 s");
        assert_eq!(of(2.0, None), "");
    }
}
