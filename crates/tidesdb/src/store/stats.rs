//! Counters since a store was opened.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::Error;
use crate::host::Clock;
use crate::latency::Latency;

/// Counters since the store was opened.
#[derive(Debug, Default)]
pub struct Stats {
    /// Commits with changes.
    pub commits: AtomicU64,
    /// Number of rows found newer than the snapshot of a changing transaction.
    pub conflicts: AtomicU64,
    /// Number of times a writer was held back.
    pub backpressure_waits: AtomicU64,
    /// Time for which writers were held back, in microseconds.
    pub backpressure_wait_us: AtomicU64,
    /// Flushes done.
    pub flushes: AtomicU64,
    /// Bytes written by flushes.
    pub flush_bytes: AtomicU64,
    /// True if a flush runs.
    pub flushing: AtomicU64,
    /// Compactions done.
    pub compactions: AtomicU64,
    /// Bytes read by compactions.
    pub compaction_read: AtomicU64,
    /// Bytes written by compactions.
    pub compaction_written: AtomicU64,
    /// Bytes of keys and values committed by transactions.
    pub user_bytes: AtomicU64,
    /// The part of them committed in runs, past the memtables.
    pub run_bytes: AtomicU64,
    /// Bytes of private batches (counted in steps of 4 KiB each), and of prepared transactions waiting for a
    /// decision.
    pub batch_bytes: AtomicU64,
    /// The part of them in transactions between the begin of their `prepare` and their end.
    pub(crate) committing_bytes: AtomicU64,
    /// And those of transactions that somebody outside decides, perhaps days later (XA PREPARE).
    pub(crate) undecided_bytes: AtomicU64,
    /// Private batches of [`LARGE_BATCH`](crate::store::pressure::LARGE_BATCH) bytes or more.
    pub(crate) large_batches: AtomicU64,
    /// Runs written by transactions beyond the bound on memory.
    pub spilled_runs: AtomicU64,
    /// Puts dropped by flushes and compactions together with their single delete.
    pub cancelled_pairs: AtomicU64,
    /// Bytes of dead values given back as holes.
    pub value_bytes_freed: AtomicU64,
    /// Searches for a key in memtables and files, one of 256.
    pub gets: Latency,
    /// Commits from their place in the order to the answer, one of 64.
    pub commit_times: Latency,
    /// Flushes.
    pub flush_times: Latency,
    /// Merges, and rewrites of files, that were done.
    pub merge_times: Latency,
    /// Failed flushes; each is tried again.
    pub flush_failures: AtomicU64,
    /// Failed merges; each is tried again.
    pub merge_failures: AtomicU64,
    /// Number of times background work met damage.
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
    pub(crate) fn count_backpressure<T>(&self, clock: &dyn Clock, wait: impl FnOnce() -> T) -> T {
        let begun = clock.now();
        let result = wait();
        self.backpressure_waits.fetch_add(1, Ordering::Relaxed);
        self.backpressure_wait_us.fetch_add(clock.elapsed(begun).as_micros() as u64, Ordering::Relaxed);
        result
    }
}
