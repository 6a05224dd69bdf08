//! What a level promises, and whether a history keeps it.

use std::collections::BTreeMap;
use std::fmt;

use super::anomaly::{Anomaly, Class, Rung};
use super::cycle::{self, Effort};
use super::moments::{self, Gaps};
use super::record::History;
use super::versions::Versions;

/// What the clients of a run may rely on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promise {
    /// How much.
    pub rung: Rung,
    /// What locking reads of missing keys do.
    pub gaps: Gaps,
}

/// What was found in a history.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// What the promise forbids.
    pub broken: Vec<Anomaly>,
    /// What it does not: how often each was told (not how often it happened), with the first.
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
