//! The design of a TPC-C run, and the watcher of its steps.

use serde::Serialize;
use tidelab_server::server::analyze::Analyzed;
use tidelab_server::server::engine::Engine;
use tidelab_server::telemetry::disk::Space;
use tidelab_server::workload::steady::Rule;
use tidelab_server::workload::tpcc::drive::Second;
use tidelab_server::workload::tpcc::Scale;

use super::figures;
use crate::measure::reference;
use crate::run::{Axis, Measured, Role, Run};

/// The design of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Design {
    /// The competitors.
    pub engines: Vec<Engine>,
    /// Rounds.
    pub rounds: u32,
    /// Size of the tables.
    pub scale: Scale,
    /// Users of the measured load.
    pub users: u32,
    /// Users for filling the tables.
    pub build_users: u32,
    /// Seconds before the measured time; the least, where there is a limit.
    pub ramp_up_s: u32,
    /// Seconds until the measured time begins, even at an unsteady rate. No more than `ramp_up_s`: the
    /// ramp-up is fixed.
    pub ramp_up_limit_s: u32,
    /// Measured seconds.
    pub duration_s: u32,
    /// Seconds at most to wait until a server is idle, before and after the load.
    pub settle_s: u32,
    /// The seed of all random values; round r adds r to it.
    pub seed: u64,
    /// The option file of the settings; none for the laboratory's own.
    pub options: Option<String>,
    /// By how much its sizes of memory were scaled.
    pub memory_scale: f64,
}

/// Seconds of a window of a ramp-up. Users without think time make some hundred transactions a second on
/// a small machine. The median of ten such seconds varies by less than the tolerance for a steady rate.
const WINDOW_S: u32 = 10;

impl Design {
    /// Gives a run the axes, metrics and reference of this design, with engines as competitors.
    pub fn describe(&self, run: &mut Run) {
        run.axes = vec![Axis::new("engine", "Engine", Role::Competitor, &self.engines)];
        run.reference = reference(&self.engines);
        run.metrics = figures::metrics();
    }

    /// When the ramp-up ends.
    pub fn ramp_up(&self) -> Rule {
        Rule {
            at_least_s: self.ramp_up_s,
            at_most_s: self.ramp_up_limit_s.max(self.ramp_up_s),
            window_s: WINDOW_S,
        }
    }
}

/// The load of an engine's tables.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Loaded {
    /// The engine.
    pub engine: Engine,
    /// Rows of all tables.
    pub rows: u64,
    /// Seconds.
    pub seconds: f64,
    /// The tables' statistics after them.
    pub analyzed: Analyzed,
    /// The server's CPU time meanwhile, in seconds; the statistics' included.
    pub server_cpu_s: f64,
    /// The files after the server ended in order.
    pub space: Space,
}

/// The step for [`Watcher::begins`] at the beginning of the load.
pub const RUNNING: &str = "running";

/// Sees the steps of a run, to show them.
pub trait Watcher {
    /// An engine's tables are being filled: rows in, of about so many, in so many seconds.
    fn loading(&mut self, engine: Engine, rows: u64, of: u64, seconds: f64);
    /// They are filled.
    fn loaded(&mut self, loaded: &Loaded);
    /// Something else begins.
    fn begins(&mut self, round: u32, engine: Engine, what: &str);
    /// A second of a run is over.
    fn second(&mut self, second: &Second);
    /// A run is over and checked.
    fn measured(&mut self, measured: &Measured);
}
