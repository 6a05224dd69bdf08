//! What the runs hit: a count of every kind of event, so that what was never hit is seen.

use std::collections::BTreeMap;
use std::sync::Mutex;

static EVENTS: Mutex<BTreeMap<&'static str, u64>> = Mutex::new(BTreeMap::new());

/// All kinds that a run may hit, for those with a count of 0.
pub const KINDS: [&str; 24] = [
    "commit",
    "commit in two phases",
    "conflict",
    "crash: drop",
    "crash: keep",
    "crash: kill",
    "crash: prefix",
    "crash: reorder",
    "crash: tear",
    "deadlock",
    "duplicate",
    "flush",
    "flush by hand",
    "lock timeout",
    "locking scan",
    "merge",
    "merge by hand",
    "prepared after a crash",
    "read",
    "rollback",
    "savepoint",
    "scan",
    "sleep in a transaction",
    "spilled transaction",
];

/// One more.
pub fn hit(kind: &'static str) {
    hit_times(kind, 1);
}

/// So many more.
pub fn hit_times(kind: &'static str, times: u64) {
    debug_assert!(KINDS.contains(&kind), "{kind}");
    *EVENTS.lock().unwrap_or_else(std::sync::PoisonError::into_inner).entry(kind).or_default() += times;
}

/// Each kind and its count.
pub fn counts() -> Vec<(&'static str, u64)> {
    let events = EVENTS.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    KINDS.iter().map(|&kind| (kind, events.get(kind).copied().unwrap_or(0))).collect()
}
