//! Signals between the threads of background work, and the number of compaction threads. The loops wait for
//! them; [`crate::db::maintenance`] has one of each.

use std::collections::VecDeque;
use std::time::Duration;

use crate::sync::{Condvar, Mutex};
use crate::types::FamilyId;

/// Longest wait for a change of a family's shape that nobody tells.
const LOOK: Duration = Duration::from_secs(1);

/// Tells the compaction threads that the shape of a family changed.
#[derive(Debug, Default)]
pub(crate) struct WorkSignal {
    changes: Mutex<u64>,
    changed: Condvar,
}

impl WorkSignal {
    /// Something changed.
    pub(crate) fn call(&self) {
        *self.changes.lock() += 1;
        self.changed.notify_all();
    }

    /// Waits for a change after `seen`, or for the end of a second; returns what is seen now.
    pub(super) fn wait(&self, seen: u64) -> u64 {
        let mut changes = self.changes.lock();
        if *changes == seen {
            self.changed.wait_for(&mut changes, LOOK);
        }
        *changes
    }
}

/// Tells the thread that measures memory that the store closes.
#[derive(Debug, Default)]
pub(crate) struct CloseSignal {
    pub(super) latch: Mutex<()>,
    pub(super) changed: Condvar,
}

impl CloseSignal {
    /// Called after `closing` is set.
    pub(crate) fn call(&self) {
        let _latch = self.latch.lock();
        self.changed.notify_all();
    }
}

/// Counters waiting for their next block.
#[derive(Debug, Default)]
pub(crate) struct CounterRefill {
    pub(super) queue: Mutex<VecDeque<(FamilyId, u32)>>,
    pub(super) changed: Condvar,
}

impl CounterRefill {
    pub(super) fn push(&self, family: FamilyId, counter: u32) {
        self.queue.lock().push_back((family, counter));
        self.changed.notify_one();
    }

    /// Wakes the waiting thread, to check for the store's close.
    pub(crate) fn wake(&self) {
        let _queue = self.queue.lock();
        self.changed.notify_all();
    }
}

/// The number of compaction threads. It changes while they run: a surplus thread ends at the end of its
/// merge.
#[derive(Debug, Default)]
pub(crate) struct CompactionThreads(Mutex<ThreadCount>);

#[derive(Debug, Default)]
struct ThreadCount {
    wanted: usize,
    running: usize,
}

impl CompactionThreads {
    /// Called by a thread between two merges: true if it is surplus; it then counts as ended.
    pub(super) fn ends(&self) -> bool {
        let mut count = self.0.lock();
        let ends = count.running > count.wanted;
        count.running -= usize::from(ends);
        ends
    }

    /// Sets the number; returns the number of threads to start, already counted as running.
    pub(super) fn want(&self, wanted: usize) -> usize {
        let mut count = self.0.lock();
        let missing = wanted.saturating_sub(count.running);
        *count = ThreadCount { wanted, running: count.running + missing };
        missing
    }

    #[cfg(test)]
    pub(super) fn wanted(&self) -> usize {
        self.0.lock().wanted
    }

    /// Counts threads as ended, with the store or for want of a start.
    pub(super) fn ended(&self, threads: usize) {
        self.0.lock().running -= threads;
    }
}
