//! Counters since a store was opened.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::error::Error;
use crate::latency::Latency;

/// Counters since the store was opened.
#[derive(Debug, Default)]
pub struct Stats {
    /// Commits with changes.
    pub commits: AtomicU64,
    /// Times a row was found to be newer than the snapshot of who wanted to change it.
    pub conflicts: AtomicU64,
    /// Times a writer was held back.
    pub backpressure_waits: AtomicU64,
    /// Microseconds for which writers were held back.
    pub backpressure_wait_us: AtomicU64,
    /// Flushes done.
    pub flushes: AtomicU64,
    /// Bytes that flushes wrote.
    pub flush_bytes: AtomicU64,
    /// Whether a flush runs.
    pub flushing: AtomicU64,
    /// Compactions done.
    pub compactions: AtomicU64,
    /// Bytes that compactions read.
    pub compaction_read: AtomicU64,
    /// Bytes that compactions wrote.
    pub compaction_written: AtomicU64,
    /// Bytes of keys and values that transactions committed.
    pub user_bytes: AtomicU64,
    /// Of these those that came in runs, past the memtables.
    pub run_bytes: AtomicU64,
    /// Bytes of transactions' private batches (counted in steps of 4 KiB each), and of those that are prepared
    /// and wait for a decision.
    pub batch_bytes: AtomicU64,
    /// Of these those of transactions between the begin of their `prepare` and their end.
    pub(crate) committing_bytes: AtomicU64,
    /// Private batches of [`LARGE_BATCH`](crate::store::pressure::LARGE_BATCH) bytes or more.
    pub(crate) large_batches: AtomicU64,
    /// Runs that transactions beyond the bound on memory wrote.
    pub spilled_runs: AtomicU64,
    /// Puts that flushes and compactions dropped together with their single delete.
    pub cancelled_pairs: AtomicU64,
    /// Searches for a key in memtables and files, one of 256.
    pub gets: Latency,
    /// Commits from their place in the order to the answer, one of 64.
    pub commit_times: Latency,
    /// Flushes.
    pub flush_times: Latency,
    /// Merges, and rewrites of files.
    pub merge_times: Latency,
    /// Flushes that failed; each is tried again.
    pub flush_failures: AtomicU64,
    /// Merges that failed; each is tried again.
    pub merge_failures: AtomicU64,
    /// Times that background work met damage.
    pub corruptions: AtomicU64,
}

impl Stats {
    /// A flush failed.
    pub(crate) fn count_failed_flush(&self, error: &Error) {
        self.flush_failures.fetch_add(1, Ordering::Relaxed);
        self.count_damage(error);
    }

    /// A merge failed.
    pub(crate) fn count_failed_merge(&self, error: &Error) {
        self.merge_failures.fetch_add(1, Ordering::Relaxed);
        self.count_damage(error);
    }

    fn count_damage(&self, error: &Error) {
        let damaged = matches!(error, Error::Corruption { .. });
        self.corruptions.fetch_add(damaged.into(), Ordering::Relaxed);
    }

    /// Counts a wait of a writer.
    pub(crate) fn count_backpressure<T>(&self, wait: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        let result = wait();
        self.backpressure_waits.fetch_add(1, Ordering::Relaxed);
        self.backpressure_wait_us.fetch_add(begun.elapsed().as_micros() as u64, Ordering::Relaxed);
        result
    }
}
