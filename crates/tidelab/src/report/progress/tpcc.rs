//! Progress of a TPC-C run.

use std::time::{Duration, Instant};

use tidelab_server::server::engine::Engine;
use tidelab_server::workload::tpcc::drive::Second;

use super::super::sparks::Sparks;
use super::{figure, Display};
use crate::measure::tpcc::run::CHECK;
use crate::measure::tpcc::{Design, Loaded, Watcher, RUNNING};
use crate::run::conduct::minutes;
use crate::run::Measured;

/// The interval of reports while tables are loaded without a terminal.
const REPORT_EVERY: Duration = Duration::from_secs(10);
/// Rows a second, until the first load gives the real rate.
const GUESSED_RATE: f64 = 80_000.0;
/// Seconds for start, copy and check of a run, in addition to the design's own.
const GUESSED_REST: f64 = 8.0;

/// Shows a run on stderr.
pub struct Progress {
    display: Display,
    loads_left: usize,
    run_s: f64,
    rows: f64,
    rate: f64,
    said: Instant,
    /// The competitor, if it is not the engine's name.
    name: Option<String>,
    measured: String,
}

impl Progress {
    /// For one round of a competitor in a larger run; the run itself reports the progress. `sparks` are those
    /// of the rounds before.
    pub fn of_one(design: &Design, name: &str, sparks: Sparks) -> Progress {
        let mut progress = Progress::of(design, 1);
        progress.name = Some(name.to_string());
        progress.display.sparks = sparks;
        progress
    }

    /// For a design.
    pub fn new(design: &Design) -> Progress {
        let progress = Progress::of(design, design.engines.len() * design.rounds as usize);
        progress.display.say(&format!(
            "TPC-C: {} warehouses loaded for each of {} engines, then {} runs in {} rounds, about {}",
            design.scale.warehouses,
            design.engines.len(),
            progress.display.runs,
            design.rounds,
            minutes(progress.left(0.0))
        ));
        progress
    }

    fn of(design: &Design, runs: usize) -> Progress {
        Progress {
            display: Display::new(None, design.rounds, runs),
            loads_left: design.engines.len(),
            run_s: f64::from(design.ramp_up_s + design.duration_s)
                + GUESSED_REST
                + design.scale.warehouses as f64,
            rows: design.scale.rows() as f64,
            rate: GUESSED_RATE,
            said: Instant::now(),
            name: None,
            measured: String::new(),
        }
    }

    /// Remaining seconds after so many rows of the current load.
    fn left(&self, rows_in: f64) -> f64 {
        let loads = (self.loads_left as f64 * self.rows - rows_in).max(0.0) / self.rate;
        loads + (self.display.runs - self.display.runs_over) as f64 * self.run_s
    }

    /// Takes the line away. The last seconds of the competitors are for the run's next round.
    pub fn close(self) -> Sparks {
        self.display.bar.finish_and_clear();
        self.display.sparks
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
        if self.display.bar.is_hidden() && self.said.elapsed() > REPORT_EVERY {
            self.said = Instant::now();
            eprintln!("{text}");
        }
        self.display.bar.set_message(text);
    }

    fn loaded(&mut self, loaded: &Loaded) {
        self.loads_left = self.loads_left.saturating_sub(1);
        self.display.say(&format!(
            "{:<8} loaded: {:.1} million rows in {:.1} s, {:.0} rows/s; ANALYZE TABLE took {:.1} s",
            loaded.engine,
            loaded.rows as f64 / 1e6,
            loaded.seconds,
            loaded.rows as f64 / loaded.seconds.max(1e-3),
            loaded.analyzed.seconds
        ));
    }

    fn begins(&mut self, round: u32, engine: Engine, step: &str) {
        self.measured = self.name.clone().unwrap_or_else(|| engine.to_string());
        if round > 0 && step == RUNNING {
            self.display.sparks.begins(&self.measured);
        }
        let rounds = self.display.rounds;
        self.display.begins(match round {
            0 => format!("{engine}: {step}"),
            _ => format!("round {round}/{rounds}, {} left: {engine}: {step}", minutes(self.left(0.0))),
        });
    }

    fn second(&mut self, second: &Second) {
        let (orders, all) = (second.new_orders_per_s * 60.0, second.transactions_per_s * 60.0);
        let at = format!("{:.0} s: {all:.0} transactions/min", second.at_s);
        self.display.second(&self.measured, orders, "new orders/min", &at);
    }

    fn measured(&mut self, measured: &Measured) {
        let labels = format!("{:<8}", measured.cell.id.label("engine"));
        let figures = format!(
            "{:>8.0} NOPM {:>9.0} TPM, NEWORD p99 {:>7.2} ms, {:>5.0} us CPU a transaction, {:.2} % failed, \
             conditions hold ({:.1} s)",
            figure(measured, "nopm"),
            figure(measured, "tpm"),
            figure(measured, "NEWORD_p99_ms"),
            figure(measured, "server_cpu_us"),
            figure(measured, "failed_percent"),
            figure(measured, CHECK)
        );
        self.display.measured(measured, &labels, &figures);
    }
}
