//! The speed of a load without an engine: on tables without storage (BLACKHOLE) or with rows in a list
//! (MEMORY), or with empty calls.
//!
//! It is measured with a run and stands alongside the run's figures. It tells whether they are the
//! driver's rather than an engine's ([`crate::report::driver`]).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tidelab_server::workload::iibench::alone::Inserts;
use tidelab_server::workload::sysbench::Workload;

use super::CellId;

/// A figure measured without an engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bound {
    /// Values by axis: it belongs to the cells with all of them.
    pub labels: BTreeMap<String, String>,
    /// The metric, as cells have it.
    pub metric: String,
    /// The load in words, as `sysbench point_select on BLACKHOLE, 8 clients`.
    pub what: String,
    /// The figure, in the metric's unit.
    pub value: f64,
    /// CPU time of the driver for a statement, in microseconds.
    pub driver_cpu_us: f64,
    /// CPU time of the server for a statement, in microseconds.
    pub server_cpu_us: f64,
}

impl Bound {
    /// True if it belongs to a cell.
    pub fn applies_to(&self, id: &CellId) -> bool {
        self.labels.iter().all(|(axis, value)| id.label(axis) == value)
    }
}

/// A load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driven {
    /// One of sysbench's workloads; its figure is `transactions_per_s`.
    Sysbench(Workload),
    /// A call of a procedure and the fetch of its results, by the laboratory's own client; its figure
    /// is `tpm`.
    Call,
    /// The insert benchmark's writers; their figure is `inserts_per_s`.
    Inserts(Inserts),
}

/// A load to be measured without an engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unbounded {
    /// Values by axis: those of the figure's cells.
    pub labels: BTreeMap<String, String>,
    /// The load.
    pub driven: Driven,
    /// Clients.
    pub clients: u32,
}

impl Unbounded {
    /// For cells with these labels.
    pub fn new<'a>(
        labels: impl IntoIterator<Item = (&'a str, String)>,
        driven: Driven,
        clients: u32,
    ) -> Unbounded {
        let labels = labels.into_iter().map(|(axis, value)| (axis.to_string(), value)).collect();
        Unbounded { labels, driven, clients }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_stands_beside_cells_that_have_all_its_labels() {
        let labels = [("workload", "insert"), ("threads", "8")].map(|(a, v)| (a.to_string(), v.to_string()));
        let bound = Bound {
            labels: BTreeMap::from(labels),
            metric: "transactions_per_s".to_string(),
            what: String::new(),
            value: 1.0,
            driver_cpu_us: 1.0,
            server_cpu_us: 1.0,
        };
        let id = |threads: &str| {
            CellId::new(
                [("engine", "A".to_string()), ("workload", "insert".into()), ("threads", threads.into())],
                1,
            )
        };
        assert!(bound.applies_to(&id("8")) && !bound.applies_to(&id("16")));
        let everywhere = Bound { labels: BTreeMap::new(), ..bound };
        assert!(everywhere.applies_to(&id("16")));
    }
}
