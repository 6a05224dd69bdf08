//! Latencies of operations: their number and the sum of their times, from which a report derives rates.
//!
//! Frequent operations are sampled: one out of many is measured.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Times of one kind of operation.
#[derive(Debug, Default)]
pub struct Latency {
    measured: AtomicU64,
    nanos: AtomicU64,
}

/// The measurements since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// Number of measured operations.
    pub count: u64,
    /// Sum of their times in microseconds.
    pub us: u64,
}

impl Latency {
    /// Adds an operation's time.
    pub(crate) fn add(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.measured.fetch_add(1, Relaxed);
        self.nanos.fetch_add(nanos, Relaxed);
    }

    /// The measurements so far.
    pub(crate) fn get(&self) -> Measured {
        Measured { count: self.measured.load(Relaxed), us: self.nanos.load(Relaxed) / 1000 }
    }
}
