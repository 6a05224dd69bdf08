//! How long operations took: their number and the sum of their times, for whoever draws a rate of both.
//!
//! The one place of the engine that reads a clock for figures. Frequent operations are measured one out of many.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// The begin of an operation that is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun(Instant);

/// Now.
pub(crate) fn begin() -> Begun {
    Begun(Instant::now())
}

/// Times of one kind of operation.
#[derive(Debug, Default)]
pub struct Latency {
    measured: AtomicU64,
    nanos: AtomicU64,
}

/// What was measured since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// Operations that were measured.
    pub count: u64,
    /// Microseconds that they took together.
    pub us: u64,
}

impl Latency {
    /// The operation ends now.
    pub(crate) fn end(&self, begun: Begun) {
        let nanos = u64::try_from(begun.0.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.measured.fetch_add(1, Relaxed);
        self.nanos.fetch_add(nanos, Relaxed);
    }

    /// The figures.
    pub(crate) fn get(&self) -> Measured {
        Measured { count: self.measured.load(Relaxed), us: self.nanos.load(Relaxed) / 1000 }
    }
}
