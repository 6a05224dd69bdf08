//! The loops of background work, one step at a time: flush, compaction, memory. The loop of counters is in
//! [`crate::db::counters`], the log's in `crate::wal`. Each says above it what it waits for, and who tells it.

use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Duration;

use crate::db::maintenance::Maintenance;
use crate::error::Error;
use crate::host::{Instant, Next, Step};
use crate::store::memory;
use crate::store::memtables::Stuck;
use crate::store::super_version::Flushable;
use crate::wal::FullFor;

/// First and longest pause after a failed flush or compaction.
const RETRY: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));

/// Longest sleep between two looks at whether the store closes.
const STEP: Duration = Duration::from_millis(5);

/// Flushes sealed memtables in their order, and installs spilled runs. Waits for something sealed: whoever seals tells
/// `Memtables::changed`. After a failure it waits for a pause, for a writer in a hurry, which tells the same, or for the
/// close. Ends with the store, or when the log failed.
pub(super) struct FlushLoop {
    maintenance: Arc<Maintenance>,
    pause: Duration,
    /// It installed runs. Those that were merged away since the flush was told had their last holder here.
    held_runs: bool,
}

impl FlushLoop {
    pub(super) fn new(maintenance: Arc<Maintenance>) -> FlushLoop {
        FlushLoop { maintenance, pause: RETRY.0, held_runs: false }
    }

    /// With nothing to flush it unlinks the runs that it held last. Whoever unlinks others at that moment (DROP of a large
    /// table) is not waited for: the next flush does.
    fn idle(&mut self) -> Next {
        let store = &self.maintenance.store;
        self.held_runs = self.held_runs && !store.unlink_unused_if_free();
        match self.held_runs {
            true => Next::WaitUntil(store.env.clock.now() + RETRY.0),
            false => Next::Wait,
        }
    }
}

impl Step for FlushLoop {
    fn step(&mut self) -> Next {
        let (maintenance, store) = (&self.maintenance, &self.maintenance.store);
        let sealed = {
            let mut state = store.memtables.state.lock();
            if state.closing {
                return Next::End;
            }
            if state.sealed.is_empty() {
                drop(state);
                return self.idle();
            }
            state.attempts += 1;
            state.hurry = false;
            state.stuck = None;
            state.sealed.clone()
        };
        if store.wal.failed().is_some() {
            // Nothing more goes to files: what the log lost must not become reachable.
            return Next::End;
        }
        store.stats.flushing.store(1, Ordering::Relaxed);
        let memtables = sealed.iter().take_while(|sealed| sealed.flushable.memtable().is_some()).count();
        let result = match &sealed[0].flushable {
            Flushable::Runs(runs) => maintenance.install_runs(runs, &sealed[0]),
            Flushable::Memtable(_) => maintenance.flush_sealed(&sealed[..memtables]),
        };
        store.stats.flushing.store(0, Ordering::Relaxed);
        match result {
            Ok(()) => {
                self.pause = RETRY.0;
                self.held_runs |= memtables == 0;
                store.wal.fullness().over(FullFor::Flush, store.now_micros());
                store.heap_trim.trim(store.env.clock.now());
                Next::Again
            }
            Err(error) => {
                store.stats.count_failed_flush(&error);
                maintenance.tell_failed_flush(&error);
                // What it wrote would be in the way of the next attempt where space is short.
                store.unlink_unused();
                let mut state = store.memtables.state.lock();
                state.stuck = Some(Stuck::of(&error));
                store.memtables.changed.notify_all();
                drop(state);
                let until = store.env.clock.now() + self.pause;
                self.pause = (self.pause * 2).min(RETRY.1);
                Next::WaitUntil(until)
            }
        }
    }

    fn wait(&mut self, until: Option<Instant>) {
        let store = &self.maintenance.store;
        let changed = &store.memtables.changed;
        let mut state = store.memtables.state.lock();
        match until {
            None => {
                while state.sealed.is_empty() && !state.closing {
                    changed.wait(&mut state);
                }
            }
            Some(until) => {
                while !state.closing && !state.hurry {
                    if store.env.clock.wait_until(changed, &mut state, until) {
                        return;
                    }
                }
            }
        }
    }
}

/// Compacts what is due. Waits for a change of some family's shape, which
/// [`WorkSignal`](crate::db::signals::WorkSignal) tells and so does the close; for what nobody tells (space,
/// a pause that is over, a snapshot that is gone) it looks once a second. After a failure it looks every few
/// milliseconds whether the pause is over or the store closes. Ends with the store, or when there are too
/// many of it.
pub(super) struct CompactLoop {
    maintenance: Arc<Maintenance>,
    /// Changes that were seen.
    seen: u64,
    pause: Duration,
}

impl CompactLoop {
    pub(super) fn new(maintenance: Arc<Maintenance>) -> CompactLoop {
        CompactLoop { maintenance, seen: 0, pause: RETRY.0 }
    }
}

impl Step for CompactLoop {
    fn step(&mut self) -> Next {
        let (maintenance, store) = (&self.maintenance, &self.maintenance.store);
        if maintenance.closing.load(Ordering::Acquire) {
            maintenance.compaction_threads.ended(1);
            return Next::End;
        }
        if maintenance.compaction_threads.ends() {
            return Next::End;
        }
        store.wait_for_memory(&maintenance.closing);
        let result = maintenance.compact_next();
        maintenance.note_room_for_merges(&result);
        match result {
            Ok(true) => {
                self.pause = RETRY.0;
                store.heap_trim.trim(store.env.clock.now());
                Next::Again
            }
            Ok(false) => Next::Wait,
            Err(Error::Interrupted) => Next::Again,
            Err(error) => {
                store.stats.count_failed_merge(&error);
                store.unlink_unused();
                let until = store.env.clock.now() + self.pause;
                self.pause = (self.pause * 2).min(RETRY.1);
                Next::WaitUntil(until)
            }
        }
    }

    fn wait(&mut self, until: Option<Instant>) {
        let Some(until) = until else {
            self.seen = self.maintenance.work_signal.wait(self.seen);
            return;
        };
        let clock = &self.maintenance.store.env.clock;
        while clock.now() < until && !self.maintenance.closing.load(Ordering::Acquire) {
            clock.sleep(STEP);
        }
    }
}

/// Gives freed memory back, and measures what is left, ten times a second. Only the close is told, by
/// [`CloseSignal`](crate::db::signals::CloseSignal).
pub(super) struct MemoryLoop {
    maintenance: Arc<Maintenance>,
}

impl MemoryLoop {
    pub(super) fn new(maintenance: Arc<Maintenance>) -> MemoryLoop {
        MemoryLoop { maintenance }
    }
}

impl Step for MemoryLoop {
    fn step(&mut self) -> Next {
        if self.maintenance.closing.load(Ordering::Acquire) {
            return Next::End;
        }
        let store = &self.maintenance.store;
        store.options.purge_heap.inspect(|purge| purge());
        if store.live.max_memory() > 0 {
            store.keep_memory_bound();
        }
        store.cache.move_together();
        Next::WaitUntil(store.env.clock.now() + memory::INTERVAL)
    }

    fn wait(&mut self, until: Option<Instant>) {
        let Some(until) = until else { return };
        let signal = &self.maintenance.close_signal;
        let mut latch = signal.latch.lock();
        let clock = &self.maintenance.store.env.clock;
        while !self.maintenance.closing.load(Ordering::Acquire) {
            if clock.wait_until(&signal.changed, &mut latch, until) {
                return;
            }
        }
    }
}
