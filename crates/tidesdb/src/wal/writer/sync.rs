//! Syncs: one thread at a time writes the queue and syncs every dirty segment, oldest first, for all waiting
//! threads. Callbacks are answered from here.
//!
//! `durable` is contiguous and covers only bytes written before its sync began.

use std::sync::atomic::Ordering;

use super::shared::{Alongside, Core};
use super::shutdown::Stall;
use crate::error::{AbortOnPanic, Error, Result};
use crate::format::units::Micros;
use crate::mutant::{self, Mutant};
use crate::options::LogLevel;
use crate::wal::leader_queue::Turn;
use crate::wal::pending_writes::IfFull;
use crate::wal::pending_writes::Ticket;

/// Least duration of a slow sync, and least time between two reports, in microseconds.
const SLOW_SYNC_US: u64 = 1_000_000;
const SLOW_SYNC_PAUSE_US: u64 = 60_000_000;

pub(super) type Callback = Box<dyn FnOnce(Result<()>) + Send>;

impl Core {
    pub(super) fn wait_durable(&self, ticket: Ticket, if_full: IfFull) -> Result<()> {
        let mut stall = Stall::default();
        loop {
            // Nobody waits for room as the leader: others have records that are written, and wait for their sync.
            if self.is_full() {
                self.wait_written(ticket, if_full)?;
            }
            match self.syncs.wait(ticket, || self.end_if_stuck(&mut stall)) {
                Turn::Done => return Ok(()),
                Turn::Stopped => return Err(self.lost(ticket)),
                Turn::Lead => self.lead_sync(),
            }
        }
    }

    pub(super) fn lead_sync(&self) {
        let _guard = AbortOnPanic::new();
        match self.sync_group() {
            Ok(durable) => {
                self.syncs.finish(durable);
                self.call_back();
            }
            Err(error) => self.fail(&error),
        }
    }

    /// Writes the queue as far as it finds room, then syncs everything written before the sync began.
    pub(super) fn sync_group(&self) -> Result<Ticket> {
        let last = self.queue.lock().last;
        match self.wait_written(last, IfFull::Leave) {
            Ok(()) | Err(Error::DiskFull(_)) => {}
            Err(error) => return Err(error),
        }
        if self.has_failed() {
            return Err(self.read_only());
        }
        let (written, lsn, seq, dirty) = {
            let mut progress = self.progress.lock();
            let dirty = std::mem::take(&mut progress.dirty);
            (progress.written, progress.written_lsn, progress.written_seq, dirty)
        };
        let (begun, begun_us) = (self.clock.now(), self.clock.now_micros());
        // After `written` was read: what its records refer to was written before them.
        let alongside = self.options.alongside.as_ref().map(|Alongside(begin)| begin());
        let first = if mutant::is(Mutant::OldSegmentUnsynced) { dirty.len().saturating_sub(1) } else { 0 };
        let segments = dirty.iter().skip(first).filter(|_| !mutant::is(Mutant::LogUnsynced));
        let synced = segments.map(|segment| &segment.file).try_for_each(|file| {
            file.sync_data().or_else(mutant::pass(Mutant::LogSyncErrorIgnored))?;
            self.counters.syncs.fetch_add(1, Ordering::Relaxed);
            Ok(())
        });
        if let Err(error) = &synced {
            // Nobody is answered any more meanwhile.
            self.fail(error);
        }
        let alongside = match alongside {
            // Also after an error: nobody syncs a file of a store that is closed.
            Some(wait) if !mutant::is(Mutant::ValuesLeftBehind) => wait(),
            _ => Ok(()),
        };
        synced.and(alongside)?;
        if !dirty.is_empty() {
            self.counters.sync_times.add(self.clock.elapsed(begun));
        }
        self.tell_slow_sync(begun_us);
        {
            let mut progress = self.progress.lock();
            progress.durable_seq = seq;
            if mutant::is(Mutant::SyncCoversLater) {
                return Ok(progress.written);
            }
        }
        self.durable_lsn.store(lsn.0, Ordering::Release);
        Ok(written)
    }

    /// Reports a slow sync in the log, at most one a minute: commits wait for it.
    pub(super) fn tell_slow_sync(&self, begun: u64) {
        let now = self.clock.now_micros();
        let (took, reported) =
            (now.saturating_sub(begun), self.counters.slow_sync_reported.load(Ordering::Relaxed));
        if took < SLOW_SYNC_US || (reported != 0 && now.saturating_sub(reported) < SLOW_SYNC_PAUSE_US) {
            return;
        }
        self.counters.slow_sync_reported.store(now.max(1), Ordering::Relaxed);
        let what = format!("a sync of the write-ahead log took {}: commits wait for the disk", Micros(took));
        self.report(LogLevel::Warn, &what);
    }

    /// Answers callbacks with durable tickets; all of them after a failure of the log.
    pub(super) fn call_back(&self) {
        let failed = self.has_failed();
        let durable = self.syncs.done();
        let mut due = Vec::new();
        {
            let mut callbacks = self.callbacks.lock();
            let mut at = 0;
            while at < callbacks.len() {
                if failed || callbacks[at].0 <= durable {
                    due.push(callbacks.swap_remove(at));
                } else {
                    at += 1;
                }
            }
        }
        for (ticket, callback) in due {
            callback(if ticket <= durable { Ok(()) } else { Err(self.lost(ticket)) });
        }
    }
}
