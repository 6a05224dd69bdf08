//! A measurement in memory: every load gives this form; all display and storage of results takes it.
//!
//! A load fills in a [`Measured`]. A kept run writes it as a cell's folder ([`Measured::kept`]); a
//! benchmark writes it as a line of its tables ([`crate::report::benchmark`]).

use std::path::Path;

use tidelab_server::error::Result;
use tidelab_server::workload::steady::WarmUp;

use super::server_files::keep_telemetry;
use super::{Cell, CellId, Metric, Series};

/// The figure of a kept cell for the length of the warm-up.
const WARM_UP: &str = "warm_up_s";
/// The file of a load's own seconds in a cell's folder.
const SECONDS: &str = "seconds.csv";

/// A measurement and its tables by time.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Labels, figures and failures. Figures are empty exactly when the load did not come to its end.
    pub cell: Cell,
    /// The length of the warm-up, and whether the rates became steady in it.
    pub warm_up: WarmUp,
    /// The load's figures of each second.
    pub seconds: Series,
    /// The recording of machine and server alongside the load; none without such a recording.
    pub telemetry: Option<Series>,
}

impl Measured {
    /// A measurement without figures; `columns` name the figures of its seconds.
    pub fn new<'a>(id: CellId, seed: u64, columns: impl IntoIterator<Item = &'a str>) -> Measured {
        Measured {
            cell: Cell::new(id, seed),
            warm_up: WarmUp::default(),
            seconds: Series::new(columns),
            telemetry: None,
        }
    }

    /// True if the load came to its end and passed its checks.
    pub fn counts(&self) -> bool {
        self.cell.counts()
    }

    /// Writes the tables into a cell's folder and returns the cell under the run's own labels. Figures
    /// outside of `metrics` are left out. Errors: those of files.
    pub fn kept(&self, id: &CellId, metrics: &[Metric], folder: &Path) -> Result<Cell> {
        let mut cell = Cell { id: id.clone(), ..self.cell.clone() };
        cell.figure(WARM_UP, self.warm_up.seconds);
        cell.figures.retain(|name, _| metrics.iter().any(|metric| metric.name == *name));
        self.seconds.write(&folder.join(SECONDS))?;
        cell.series.push(SECONDS.to_string());
        keep_telemetry(&mut cell, self.telemetry.as_ref(), folder)?;
        Ok(cell)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Better;

    #[test]
    fn a_kept_measurement_has_the_run_s_labels_metrics_and_tables() {
        let folder = tempfile::tempdir().unwrap();
        let id = |name: &str| CellId::new([(name, "A".to_string())], 2);
        let mut measured = Measured::new(id("engine"), 7, ["tps_per_s"]);
        measured.warm_up.seconds = 3.0;
        measured.cell.figure("tps_per_s", 5.0);
        measured.cell.figure("transactions", 50.0);
        measured.seconds.rows.push(vec![1.0, 5.0]);
        let metrics = [
            Metric::main("tps_per_s", "", "1/s", Better::Higher),
            Metric::detail(WARM_UP, "", "s", Better::Neither),
        ];
        let cell = measured.kept(&id("competitor"), &metrics, folder.path()).unwrap();
        assert_eq!((cell.id.label("competitor"), cell.id.round, cell.seed), ("A", 2, 7));
        let names: Vec<&str> = cell.figures.keys().map(String::as_str).collect();
        assert_eq!(names, ["tps_per_s", WARM_UP]);
        assert_eq!(cell.series, [SECONDS]);
        assert_eq!(Series::read(&folder.path().join(SECONDS)).unwrap(), measured.seconds);
    }
}
