//! The counts of clients. Each client counts into a window of its own; the reporter takes it away and adds it
//! to the second's.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::queries::Query;
use crate::latency::Latencies;

/// A kind of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Rows at the high end of the key, one statement.
    Insert,
    /// Rows at the low end: finding it, and one statement.
    Delete,
    /// A query.
    Query(Query),
}

impl Kind {
    /// The group of its lines in the TSV.
    pub fn group(self) -> Group {
        match self {
            Kind::Insert => Group::Insert,
            Kind::Delete => Group::Delete,
            Kind::Query(_) => Group::Query,
        }
    }
}

/// Kinds as lines show them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// Inserts.
    Insert,
    /// All queries.
    Query,
    /// Deletes.
    Delete,
}

impl Group {
    /// All, in the order of the TSV's columns.
    pub const ALL: [Group; 3] = [Group::Insert, Group::Query, Group::Delete];

    /// Its name in files.
    pub fn name(self) -> &'static str {
        match self {
            Group::Insert => "insert",
            Group::Query => "query",
            Group::Delete => "delete",
        }
    }
}

/// Operations of one kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counts {
    /// Those without an error.
    pub done: u64,
    /// Their rows.
    pub rows: u64,
    /// Latencies from the due beginning, of those given up too.
    pub latencies: Latencies,
    /// Latencies from their real begin.
    pub service: Latencies,
    /// Slots given up.
    pub given_up: u64,
    /// Failed ones, by the error's number.
    pub errors: BTreeMap<u16, u64>,
}

impl Counts {
    /// Adds others.
    pub fn add(&mut self, other: &Counts) {
        self.done += other.done;
        self.rows += other.rows;
        self.latencies.merge(&other.latencies);
        self.service.merge(&other.service);
        self.given_up += other.given_up;
        for (code, count) in &other.errors {
            *self.errors.entry(*code).or_default() += count;
        }
    }

    /// All failed ones.
    pub fn failed(&self) -> u64 {
        self.errors.values().sum()
    }
}

/// Operations of all kinds in some time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Window(BTreeMap<Kind, Counts>);

impl Window {
    /// Adds others.
    pub fn add(&mut self, other: &Window) {
        for (kind, counts) in &other.0 {
            self.of(*kind).add(counts);
        }
    }

    /// Those of a kind, to count in.
    pub fn of(&mut self, kind: Kind) -> &mut Counts {
        self.0.entry(kind).or_default()
    }

    /// Those of a kind; none for none.
    pub fn get(&self, kind: Kind) -> Option<&Counts> {
        self.0.get(&kind)
    }

    /// Those of a group together.
    pub fn group(&self, group: Group) -> Counts {
        let mut sum = Counts::default();
        self.0.iter().filter(|(kind, _)| kind.group() == group).for_each(|(_, counts)| sum.add(counts));
        sum
    }
}

/// The window of one client, and its current operation.
#[derive(Debug)]
pub struct Desk {
    window: Mutex<Window>,
    /// The due beginning of the current operation, in microseconds since the start, plus one; 0 for none.
    open: AtomicU64,
    group: Group,
}

impl Desk {
    /// For a client with operations of a group.
    pub fn new(group: Group) -> Desk {
        Desk { window: Mutex::default(), open: AtomicU64::new(0), group }
    }

    /// Its kind of operation.
    pub fn group(&self) -> Group {
        self.group
    }

    /// Counts.
    pub fn count(&self, kind: Kind, change: impl FnOnce(&mut Counts)) {
        // A client that panicked leaves whole counts: the change above is one step.
        change(self.window.lock().unwrap_or_else(PoisonError::into_inner).of(kind));
    }

    /// An operation begins; it was due at this time since the start.
    pub fn begin(&self, slot: Duration) {
        let us = u64::try_from(slot.as_micros()).unwrap_or(u64::MAX - 1);
        self.open.store(us + 1, Ordering::Relaxed);
    }

    /// It is over.
    pub fn end(&self) {
        self.open.store(0, Ordering::Relaxed);
    }

    /// The duration so far of the current operation; none without one.
    pub fn waits(&self, now: Duration) -> Option<Duration> {
        match self.open.load(Ordering::Relaxed) {
            0 => None,
            us => Some(now.saturating_sub(Duration::from_micros(us - 1))),
        }
    }

    /// Takes the counts away.
    pub fn take(&self) -> Window {
        std::mem::take(&mut *self.window.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_add_up() {
        let desk = Desk::new(Group::Query);
        let count = |kind, ms| {
            desk.count(kind, |counts| {
                counts.done += 1;
                counts.latencies.record(Duration::from_millis(ms));
            });
        };
        count(Kind::Query(Query::Pk), 1);
        count(Kind::Query(Query::Pdc), 3);
        count(Kind::Insert, 9);
        let mut total = desk.take();
        assert_eq!(desk.take(), Window::default(), "taken is taken");
        count(Kind::Query(Query::Pk), 5);
        desk.count(Kind::Query(Query::Pk), |c| *c.errors.entry(1205).or_default() += 2);
        total.add(&desk.take());
        let queries = total.group(Group::Query);
        assert_eq!((queries.done, queries.failed(), queries.latencies.count()), (3, 2, 3));
        assert_eq!(total.get(Kind::Query(Query::Pk)).map(|c| c.done), Some(2));
        assert_eq!(total.group(Group::Delete), Counts::default());
    }

    #[test]
    fn an_operation_that_runs_is_seen() {
        let desk = Desk::new(Group::Delete);
        assert_eq!(desk.waits(Duration::from_secs(9)), None);
        desk.begin(Duration::ZERO);
        assert_eq!(desk.waits(Duration::from_secs(9)), Some(Duration::from_secs(9)));
        desk.end();
        assert_eq!(desk.waits(Duration::from_secs(9)), None);
    }
}
