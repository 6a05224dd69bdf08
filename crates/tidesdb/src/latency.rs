//! Latencies of operations: their number and the sum of their times, from which a report derives rates.
//!
//! Frequent operations are sampled: one out of many is measured.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// The start of a measured operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun(Instant);

/// Starts a measurement.
pub(crate) fn begin() -> Begun {
    Begun(Instant::now())
}

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
    /// Ends a measurement.
    pub(crate) fn end(&self, begun: Begun) {
        let nanos = u64::try_from(begun.0.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.measured.fetch_add(1, Relaxed);
        self.nanos.fetch_add(nanos, Relaxed);
    }

    /// The measurements so far.
    pub(crate) fn get(&self) -> Measured {
        Measured { count: self.measured.load(Relaxed), us: self.nanos.load(Relaxed) / 1000 }
    }
}
