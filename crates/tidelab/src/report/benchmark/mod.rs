//! A finished benchmark of `tidelab demo`, `bench`, `tpcc` or `hammerdb`: its table for the terminal and
//! its files.
//!
//! ```text
//! measurements -> Benchmark -> lines (one for each engine and workload)
//!                                |-> table   the terminal and NAME.txt
//!                                `-> files   NAME.json, NAME-*.csv
//! ```
//!
//! Everything here works on figures by name. The trait [`Load`] holds the rest: a load's names, its
//! heading and its own sections. [`sysbench`] and [`tpcc`] implement it.

mod files;
mod line;
mod paint;
pub mod sysbench;
mod table;
pub mod tpcc;

pub use files::{json, write};
pub use line::Line;
pub use paint::Paint;
pub use table::render;

use serde_json::{Map, Value};

use super::groups::Summary;
use crate::run::{Cell, Measured, Run};

/// Raised when a field of the files changes its meaning or goes.
pub const SCHEMA_VERSION: u32 = 1;

/// A finished benchmark.
pub struct Benchmark {
    /// The head: name, machine, servers, design, axes and metrics.
    pub run: Run,
    /// The measurements in the order of making.
    pub cells: Vec<Measured>,
    /// True if the run is too short for a measurement, as `demo`'s.
    pub short_run: bool,
    /// The duration in seconds.
    pub took_s: f64,
    /// The load's own part.
    pub load: Box<dyn Load>,
}

impl Benchmark {
    /// True if everything was measured and passed its checks.
    pub fn good(&self) -> bool {
        self.run.ended_early.is_none() && self.cells.iter().all(Measured::counts)
    }

    /// The figures of all rounds together.
    pub fn summary(&self) -> Summary {
        let cells: Vec<Cell> = self.cells.iter().map(|measured| measured.cell.clone()).collect();
        Summary::of(&self.run, &cells)
    }

    /// The lines: by workload, then by engine, each in the order of its axis.
    pub fn lines<'a>(&'a self, summary: &'a Summary) -> Vec<Line<'a>> {
        Line::of(&self.run, &self.cells, summary)
    }
}

/// The way from a figure's rounds to a field of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statistic {
    /// Median, least, greatest and interquartile range.
    Spread,
    /// The ratio to the reference of the named figure.
    Ratio(&'static str),
    /// The sum over the rounds.
    Sum,
    /// The greatest of the rounds.
    Greatest,
}

/// The names of a load's figures in the files.
pub struct Names {
    /// The fields of a line in `NAME.json`, in addition to labels, rounds and failures.
    pub fields: &'static [(&'static str, Statistic)],
    /// The columns of `NAME-summary.csv` after the labels.
    pub summary: &'static [&'static str],
    /// The columns of `NAME-cells.csv` after the labels.
    pub cells: &'static [&'static str],
    /// Columns next to a cell's `figures` in `NAME.json`. A failed cell has 0 there.
    pub checks: &'static [&'static str],
}

/// A CSV file of one load alone.
pub struct FurtherTable {
    /// The file's name after `NAME-`.
    pub ending: &'static str,
    /// The columns.
    pub columns: &'static [&'static str],
    /// A value for each column.
    pub rows: Vec<Vec<String>>,
}

/// The load's own parts of files and table.
pub trait Load {
    /// The names of its figures.
    fn names(&self) -> &'static Names;
    /// The fields of `NAME.json` for this load alone.
    fn facts(&self, run: &Run) -> Map<String, Value>;

    /// Further fields of a line in `NAME.json`; none without parts.
    fn parts_of_line(&self, _line: &Line<'_>) -> Map<String, Value> {
        Map::new()
    }

    /// Further fields of a cell's figures in `NAME.json`; none without parts.
    fn parts_of_cell(&self, _cell: &Cell) -> Map<String, Value> {
        Map::new()
    }

    /// A further CSV file; none without parts.
    fn further_table(&self, _cells: &[Measured]) -> Option<FurtherTable> {
        None
    }

    /// The first lines of the table: the load and its settings.
    fn heading(&self) -> Vec<String>;
    /// The two lines above the table's columns; `reference` is the reference engine of ratios.
    fn columns(&self, reference: &str) -> [String; 2];
    /// The start of a table's line; `first` is false where only the engine differs from the line above.
    fn label(&self, line: &Line<'_>, first: bool) -> String;
    /// The figures of a table's line.
    fn figures(&self, line: &Line<'_>, paint: &Paint) -> String;
    /// The lines below the table. `needed` says how many rounds would resolve 5 %.
    fn sections(&self, benchmark: &Benchmark, lines: &[Line<'_>], needed: Option<String>) -> Vec<String>;
}
