//! The promise of a level, and the judgement on a history.

use std::collections::BTreeMap;
use std::fmt;

use super::anomaly::{Anomaly, Class, Rung};
use super::cycle::{self, Effort};
use super::moments::{self, Gaps};
use super::record::History;
use super::versions::Versions;

/// The promise to the clients of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promise {
    /// The level.
    pub rung: Rung,
    /// The effect of locking reads of missing keys.
    pub gaps: Gaps,
}

/// The anomalies of a history.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Anomalies forbidden by the promise.
    pub broken: Vec<Anomaly>,
    /// Permitted anomalies: the number of reports of each (not of events), with the first.
    pub allowed: BTreeMap<Class, (usize, Anomaly)>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.allowed.is_empty() {
            return write!(f, "no anomaly");
        }
        let names: Vec<String> = self.allowed.keys().map(Class::to_string).collect();
        write!(f, "allowed and seen: {}", names.join(", "))
    }
}

/// Judges a history. The rungs are climbed from the weakest until one has a cycle: a stronger
/// promise is broken by the same one.
pub fn judge(history: &History, promise: Promise) -> Report {
    let versions = Versions::infer(history);
    let mut found = versions.anomalies.clone();
    for rung in Rung::ALL {
        let effort = if rung <= promise.rung { Effort::Explain } else { Effort::Name };
        let graph = moments::graph(&versions, rung, promise.gaps);
        let cycles = cycle::find(&graph, history, rung, effort);
        if !cycles.is_empty() {
            found.extend(cycles);
            break;
        }
    }
    let mut report = Report::default();
    for anomaly in found {
        if anomaly.rung <= promise.rung {
            report.broken.push(anomaly);
        } else {
            report.allowed.entry(anomaly.class).or_insert((0, anomaly)).0 += 1;
        }
    }
    report
}
