//! The result of an operation, or of one thread's share of it.

use std::time::Duration;

use crate::latency::Nanoseconds;

/// Rows of a scan timed together.
pub const SCAN_SAMPLE: u64 = 100;
/// Width of a step of the series by time.
pub const STEP: Duration = Duration::from_millis(100);

/// Counts, times and failures.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Finished rows, reads, ranges or transactions.
    pub count: u64,
    /// From the first thread's start to the last one's end.
    pub seconds: f64,
    /// Latencies of the calls; of scans those of [`SCAN_SAMPLE`] rows.
    pub latency: Nanoseconds,
    /// Its committed bytes of keys and values.
    pub user_bytes: u64,
    /// The calls ended in each [`STEP`] since the start.
    pub steps: Vec<u64>,
    /// Wrong answers and errors, the first ones of each thread in words.
    pub failures: Vec<String>,
}
