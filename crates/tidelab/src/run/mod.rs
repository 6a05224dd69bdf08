//! The kept run: one format for every experiment: one report, one comparison and one import serve them all.
//! `docs/run-format.md` describes the files.
//!
//! A [`Run`] is the head: design, competitors, machine. Its [`Cell`]s are single measurements: one
//! competitor, one workload, one setting, one round. A [`Measured`] is a cell in memory, with its tables
//! by time.
//!
//! A [`Folder`] holds head and cells, and is written as the run goes on. A cell is there whole or not at all.
//! An interrupted run goes on with the missing cells ([`conduct`]).

pub mod bound;
pub mod cell;
pub mod conduct;
pub mod folder;
pub mod measured;
pub mod paths;
pub mod server_files;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use bound::{Bound, Unbounded};
pub use cell::{Cell, CellId};
pub use conduct::{conduct, Conductor, Group};
pub use folder::Folder;
pub use measured::Measured;
pub use paths::Paths;
pub use tidelab_server::latency::Buckets;
pub use tidelab_server::series::Series;

use tidelab_server::server::facts::ServerFacts;
use tidelab_server::telemetry::machine::Machine;

/// Raised when a field of the files changes its meaning or goes.
pub const SCHEMA_VERSION: u32 = 1;

/// The role of an axis: the report draws by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The competitors: engines or servers. A run has one such axis.
    Competitor,
    /// A varied number, as threads or a size: the x of a curve.
    Number,
    /// Anything else, as a workload, a tier, a transaction.
    Category,
}

/// One of the labels of every cell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Axis {
    /// The label's name in cells, as `engine`.
    pub name: String,
    /// The title for people.
    pub title: String,
    /// The role.
    pub role: Role,
    /// The values in the order of display; others come after them.
    #[serde(default)]
    pub values: Vec<String>,
}

impl Axis {
    /// An axis with these values.
    pub fn new<T: ToString>(name: &str, title: &str, role: Role, values: &[T]) -> Axis {
        let values = values.iter().map(T::to_string).collect();
        Axis { name: name.to_string(), title: title.to_string(), role, values }
    }
}

/// The better direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// More is better.
    Higher,
    /// Less is better.
    Lower,
    /// Neither: it only describes.
    Neither,
}

/// One figure of cells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metric {
    /// The figure's name in cells; ends with its unit, as `p99_ms`.
    pub name: String,
    /// The title for people, without the unit.
    pub title: String,
    /// The unit, as `ms`, `1/s`, `B`.
    pub unit: String,
    /// The better direction.
    pub better: Better,
    /// True if a summary shows it.
    pub main: bool,
}

impl Metric {
    /// A figure of the summary.
    pub fn main(name: &str, title: &str, unit: &str, better: Better) -> Metric {
        Metric { name: name.into(), title: title.into(), unit: unit.into(), better, main: true }
    }

    /// A figure of the details only.
    pub fn detail(name: &str, title: &str, unit: &str, better: Better) -> Metric {
        Metric { main: false, ..Metric::main(name, title, unit, better) }
    }
}

/// The head of a run: design, competitors, machine.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    /// See [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// A short name without spaces, as `tpcc-small`.
    pub name: String,
    /// The title for people.
    pub title: String,
    /// A description in some sentences; empty for none.
    #[serde(default)]
    pub about: String,
    /// The kind: `sysbench`, `tpcc`, `iibench`, `delete-regime`, `sweep`, `matrix`, `engine`,
    /// `equal-memory`, `growth`, `cluster`, `search`, `import`.
    pub kind: String,
    /// The laboratory's version; empty for results of others.
    pub tidelab: String,
    /// Seconds since 1970 at the start.
    pub started_unix_s: u64,
    /// The same at the end; none while it is not whole.
    pub ended_unix_s: Option<u64>,
    /// The machine; none if unknown.
    pub machine: Option<Machine>,
    /// The servers by name: the values of the axis `server` or `engine`.
    #[serde(default)]
    pub servers: BTreeMap<String, ServerFacts>,
    /// The options, in the form of the experiment's kind. A run is resumed only with the same.
    pub design: serde_json::Value,
    /// The labels of the cells, the competitor's first.
    pub axes: Vec<Axis>,
    /// The figures of the cells, the most important one first.
    pub metrics: Vec<Metric>,
    /// The reference competitor of ratios; none: the first.
    pub reference: Option<String>,
    /// Files in addition to the cells, as paths within the folder: option files, status, logs.
    #[serde(default)]
    pub files: Vec<String>,
    /// Sentences for the report, shown with the results, for example the effect of a rule.
    #[serde(default)]
    pub notes: Vec<String>,
    /// The speed of the loads without an engine.
    #[serde(default)]
    pub bounds: Vec<Bound>,
    /// Why it ended before its last cell.
    pub ended_early: Option<String>,
}

impl Run {
    /// A new run, with nothing of its own yet.
    pub fn new(name: &str, title: &str, kind: &str) -> Run {
        Run {
            schema_version: SCHEMA_VERSION,
            name: name.to_string(),
            title: title.to_string(),
            about: String::new(),
            kind: kind.to_string(),
            tidelab: env!("CARGO_PKG_VERSION").to_string(),
            started_unix_s: now_unix_s(),
            ended_unix_s: None,
            machine: None,
            servers: BTreeMap::new(),
            design: serde_json::Value::Null,
            axes: Vec::new(),
            metrics: Vec::new(),
            reference: None,
            files: Vec::new(),
            notes: Vec::new(),
            bounds: Vec::new(),
            ended_early: None,
        }
    }

    /// Adds a sentence for the report, unless it is there already.
    pub fn note(&mut self, sentence: String) {
        if !self.notes.contains(&sentence) {
            self.notes.push(sentence);
        }
    }

    /// The axis of the competitors.
    pub fn competitor_axis(&self) -> Option<&Axis> {
        self.axes.iter().find(|axis| axis.role == Role::Competitor)
    }
}

/// Seconds since 1970.
pub fn now_unix_s() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_secs())
}
