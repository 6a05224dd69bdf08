//! One measurement and its result.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tidelab_server::latency::Buckets;

/// The name of a cell within its run: its labels and its round.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CellId {
    /// A value for each axis of the run.
    pub labels: BTreeMap<String, String>,
    /// The round, counted from 1.
    pub round: u32,
}

impl CellId {
    /// From pairs of axis and value.
    pub fn new<'a>(labels: impl IntoIterator<Item = (&'a str, String)>, round: u32) -> CellId {
        CellId { labels: labels.into_iter().map(|(name, value)| (name.to_string(), value)).collect(), round }
    }

    /// The value of an axis; empty where there is none.
    pub fn label(&self, axis: &str) -> &str {
        self.labels.get(axis).map_or("", String::as_str)
    }

    /// The name of its folder: values in the order of their axes' names, then the round. Different
    /// cells of a run have different names, as values are told apart by more than punctuation.
    pub fn folder(&self) -> String {
        let plain = |text: &str| -> String {
            let kept = |c: char| if c.is_ascii_alphanumeric() || "._".contains(c) { c } else { '-' };
            text.chars().map(kept).collect()
        };
        let mut name: String = self.labels.values().map(|value| plain(value) + "-").collect();
        name.push_str(&format!("r{}", self.round));
        name
    }
}

/// A measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Its labels and round.
    #[serde(flatten)]
    pub id: CellId,
    /// The seed of its random values; the same for all competitors of a round.
    #[serde(default)]
    pub seed: u64,
    /// Its place in the order of measurement, from 0.
    #[serde(default)]
    pub order: u64,
    /// Seconds since 1970 when it ended.
    #[serde(default)]
    pub ended_unix_s: u64,
    /// Why it does not count; empty when it does.
    pub failures: Vec<String>,
    /// The figures, by the names of the run's metrics; empty when it did not come to its end.
    pub figures: BTreeMap<String, f64>,
    /// Histograms by name, as `NEWORD_us`: the name ends with the unit.
    #[serde(default)]
    pub histograms: BTreeMap<String, Buckets>,
    /// Tables by time in its folder, as `seconds.csv`: see [`super::Series`].
    #[serde(default)]
    pub series: Vec<String>,
    /// Other files in its folder: the load's output, status before and after.
    #[serde(default)]
    pub files: Vec<String>,
}

impl Cell {
    /// A measurement to be made.
    pub fn new(id: CellId, seed: u64) -> Cell {
        Cell {
            id,
            seed,
            order: 0,
            ended_unix_s: 0,
            failures: Vec::new(),
            figures: BTreeMap::new(),
            histograms: BTreeMap::new(),
            series: Vec::new(),
            files: Vec::new(),
        }
    }

    /// It came to its end and passed its checks.
    pub fn counts(&self) -> bool {
        self.failures.is_empty() && !self.figures.is_empty()
    }

    /// Adds a figure. A non-finite number is left out: JSON has no word for it.
    pub fn figure(&mut self, name: &str, value: f64) {
        if value.is_finite() {
            self.figures.insert(name.to_string(), value);
        }
    }

    /// Adds figures.
    pub fn add<N: AsRef<str>>(&mut self, figures: impl IntoIterator<Item = (N, f64)>) {
        for (name, value) in figures {
            self.figure(name.as_ref(), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_s_name_can_be_typed() {
        let id = CellId::new([("engine", "TidesDB".into()), ("workload", "read write/1".into())], 3);
        assert_eq!(id.folder(), "TidesDB-read-write-1-r3");
        assert_eq!((id.label("engine"), id.label("tier")), ("TidesDB", ""));
    }

    #[test]
    fn json_gives_the_same_cell_back() {
        let mut cell = Cell::new(CellId::new([("engine", "InnoDB".into())], 1), 7);
        cell.figure("p99_ms", 1.5);
        cell.figure("bad", f64::NAN);
        cell.histograms.insert("all_us".into(), vec![(255.0, 3), (512.0, 1)]);
        cell.failures.push("a row is missing".into());
        let text = serde_json::to_string(&cell).unwrap();
        assert_eq!(serde_json::from_str::<Cell>(&text).unwrap(), cell);
        assert!(!cell.counts() && !cell.figures.contains_key("bad"));
    }
}
