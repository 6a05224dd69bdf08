//! What is going on in a TPC-C run: a line that changes where there is a terminal, and in any
//! case lines for what is over.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tidelab_server::server::engine::Engine;
use tidelab_server::workload::tpcc::drive::Second;

use super::progress::{red, say, warmed};
use super::sparks::Sparks;
use crate::measure::tpcc::{Cell, Design, Loaded, Watcher, RUNNING};
use crate::run::conduct::minutes;

/// Without a terminal, loading is reported so often.
const REPORT_EVERY: Duration = Duration::from_secs(10);
/// Rows a second before the first load says how many.
const GUESSED_RATE: f64 = 80_000.0;
/// Seconds for start, copy and check of a run, beyond what the design says.
const GUESSED_REST: f64 = 8.0;

/// Shows a run on stderr.
pub struct Progress {
    bar: ProgressBar,
    rounds: u32,
    runs: usize,
    runs_over: usize,
    loads_left: usize,
    run_s: f64,
    rows: f64,
    rate: f64,
    now: String,
    said: Instant,
    /// Who is measured, where that is not its engine.
    name: Option<String>,
    measured: String,
    sparks: Sparks,
}

impl Progress {
    /// For one round of a competitor that belongs to a larger run, which says itself how far it is.
    /// `sparks` are those of the rounds before.
    pub fn of_one(design: &Design, name: &str, sparks: Sparks) -> Progress {
        Progress { runs: 1, name: Some(name.to_string()), sparks, ..Progress::silent(design) }
    }

    /// For a design.
    pub fn new(design: &Design) -> Progress {
        let progress = Progress::silent(design);
        progress.say(&format!(
            "TPC-C: {} warehouses loaded for each of {} engines, then {} runs in {} rounds, about {}",
            design.scale.warehouses,
            design.engines.len(),
            progress.runs,
            design.rounds,
            minutes(progress.left(0.0))
        ));
        progress
    }

    fn silent(design: &Design) -> Progress {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(500));
        let runs = design.engines.len() * design.rounds as usize;
        Progress {
            bar,
            rounds: design.rounds,
            runs,
            runs_over: 0,
            loads_left: design.engines.len(),
            run_s: f64::from(design.ramp_up_s + design.duration_s)
                + GUESSED_REST
                + design.scale.warehouses as f64,
            rows: design.scale.rows() as f64,
            rate: GUESSED_RATE,
            now: String::new(),
            said: Instant::now(),
            name: None,
            measured: String::new(),
            sparks: Sparks::default(),
        }
    }

    /// Seconds that are left when so many rows of the current load are in.
    fn left(&self, rows_in: f64) -> f64 {
        let loads = (self.loads_left as f64 * self.rows - rows_in).max(0.0) / self.rate;
        loads + (self.runs - self.runs_over) as f64 * self.run_s
    }

    fn say(&self, line: &str) {
        say(&self.bar, line);
    }

    /// Takes the line away. What it has seen of competitors is for the next one of the run.
    pub fn close(self) -> Sparks {
        self.bar.finish_and_clear();
        self.sparks
    }
}

impl Watcher for Progress {
    fn loading(&mut self, engine: Engine, rows: u64, of: u64, seconds: f64) {
        let done = rows as f64;
        if seconds > 2.0 && done > 0.0 {
            self.rate = done / seconds;
        }
        let text = format!(
            "{engine}: loading, {:.1} of {:.1} million rows, {:.0} rows/s, {} left for it, {} in all",
            done / 1e6,
            of as f64 / 1e6,
            done / seconds.max(1e-3),
            minutes((of as f64 - done).max(0.0) / self.rate),
            minutes(self.left(done))
        );
        if self.bar.is_hidden() && self.said.elapsed() > REPORT_EVERY {
            self.said = Instant::now();
            eprintln!("{text}");
        }
        self.bar.set_message(text);
    }

    fn loaded(&mut self, loaded: &Loaded) {
        self.loads_left = self.loads_left.saturating_sub(1);
        self.say(&format!(
            "{:<8} loaded: {:.1} million rows in {:.1} s, {:.0} rows/s; ANALYZE TABLE took {:.1} s",
            loaded.engine,
            loaded.rows as f64 / 1e6,
            loaded.seconds,
            loaded.rows as f64 / loaded.seconds.max(1e-3),
            loaded.analyzed.seconds
        ));
    }

    fn begins(&mut self, round: u32, engine: Engine, what: &str) {
        self.measured = self.name.clone().unwrap_or_else(|| engine.to_string());
        if round > 0 && what == RUNNING {
            self.sparks.begins(&self.measured);
        }
        self.now = match round {
            0 => format!("{engine}: {what}"),
            _ => format!("round {round}/{}, {} left: {engine}: {what}", self.rounds, minutes(self.left(0.0))),
        };
        self.bar.set_message(self.now.clone());
    }

    fn second(&mut self, second: &Second) {
        self.sparks.second(&self.measured, second.new_orders_per_s * 60.0);
        let below = self.sparks.picture("new orders/min");
        self.bar.set_message(format!(
            "{}, {:.0} s: {:.0} transactions/min{below}",
            self.now,
            second.at_s,
            second.transactions_per_s * 60.0
        ));
    }

    fn measured(&mut self, cell: &Cell) {
        self.runs_over += 1;
        let head = format!("[{:>2}/{}] round {} {:<8}", self.runs_over, self.runs, cell.round, cell.engine);
        match &cell.figures {
            Some(f) if cell.counts() => self.say(&format!(
                "{head} {:>8.0} NOPM {:>9.0} TPM, NEWORD p99 {:>7.2} ms, {:>5.0} us CPU a transaction, {:.2} % failed, \
                 conditions hold ({:.1} s){}",
                f.nopm,
                f.tpm,
                f.transactions[0].latency.p99_ms,
                f.server_cpu_us,
                f.failed_percent,
                cell.check_s,
                warmed(cell.warm_up)
            )),
            _ => self.say(&red(&format!("{head} FAILED: {}", cell.failures.join("; ")))),
        }
    }
}
