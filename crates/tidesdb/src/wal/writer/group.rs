//! Groups: a waiting thread takes everything queued and serialises it into one log write. The waiting threads
//! then write the log writes (see [`crate::wal::pending_writes`]).
//!
//! `written` is contiguous: a log write is published as a whole, after its last byte and all before it are
//! in the file.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::Arc;

use super::log_end::{LogEnd, Written};
use super::shared::Core;
use super::shutdown::Stall;
use crate::error::{AbortOnPanic, Error, Result};
use crate::mutant::{self, Mutant};
use crate::sync::SleepMutexGuard;
use crate::types::{Lsn, Seq};
use crate::wal::files::Segment;
use crate::wal::pending_writes::Ticket;
use crate::wal::pending_writes::{IfFull, WaitOutcome, WriteToken};

/// Bytes of a group's records above which they are written before they are freed: freeing takes a while.
const FREE_LATER: u64 = if cfg!(simulation) { 4 << 10 } else { 64 << 10 };

/// The proven part of the log; changed in one step for each log write.
#[derive(Default)]
pub(super) struct Progress {
    pub(super) written: Ticket,
    pub(super) written_lsn: Lsn,
    pub(super) written_seq: Seq,
    pub(super) durable_seq: Seq,
    /// Segments with writes not covered by a sync, oldest first.
    pub(super) dirty: VecDeque<Arc<Segment>>,
    /// The `durable_lsn` of the last mark in the log.
    pub(super) marked: Lsn,
}

impl Core {
    pub(super) fn wait_written(&self, ticket: Ticket, if_full: IfFull) -> Result<()> {
        match self.pending_writes.wait(ticket, self, if_full) {
            WaitOutcome::Written => Ok(()),
            WaitOutcome::NoRoom => Err(self.no_room()),
            WaitOutcome::Stopped => Err(self.lost(ticket)),
        }
    }

    /// The end of the log, unless another thread has it.
    pub(super) fn try_end(&self) -> Option<SleepMutexGuard<'_, LogEnd>> {
        self.end.try_lock()
    }

    /// Turns everything queued into log writes.
    fn serialise_group(&self, end: &mut LogEnd) -> Result<()> {
        let last = {
            let mut queue = self.queue.lock();
            if queue.records.is_empty() {
                return Ok(());
            }
            end.taken.extend(queue.records.drain(..));
            queue.last
        };
        self.taken.store(last, Ordering::SeqCst);
        if self.has_failed() {
            return Err(self.read_only());
        }
        let durable = Lsn(self.durable_lsn.load(Ordering::Acquire));
        let taken = std::mem::take(&mut end.taken);
        let mut bytes = 0;
        let mut result = Ok(());
        for (record, reserved) in &taken {
            bytes += reserved;
            end.ticket += u64::from(mutant::is(Mutant::TicketBeforeBytes));
            result = self.append(end, record, durable);
            if result.is_err() {
                break;
            }
            end.ticket += u64::from(!mutant::is(Mutant::TicketBeforeBytes));
            end.seq = record.borrow().seq().unwrap_or(end.seq);
            self.write_if_long(end);
        }
        end.taken = taken;
        result?;
        self.cut(end);
        self.counters.bytes.fetch_add(end.used, Ordering::Relaxed);
        self.counters.groups.fetch_add(1, Ordering::Relaxed);
        let mut queue = self.queue.lock();
        queue.outstanding -= bytes;
        queue.capacity -= std::mem::take(&mut end.used);
        if queue.waiting > 0 {
            self.room.notify_all();
        }
        drop(queue);
        if bytes > FREE_LATER {
            self.pending_writes.write_all(self);
        }
        Ok(())
    }
}

impl WriteToken for Core {
    type LogWrite = Written;
    type Stall = Stall;

    fn serialise(&self, waits: bool) {
        let _guard = AbortOnPanic::new();
        let end = match waits {
            true => Some(self.end.lock()),
            false => self.try_end(),
        };
        let Some(mut end) = end else { return };
        if let Err(error) = self.serialise_group(&mut end) {
            self.fail(&error);
        }
        end.taken.clear();
        let half_full = end.offset > self.options.segment_size / 2;
        drop(end);
        if half_full && self.options.background && self.files.ready() < 2 {
            self.notify_background();
        }
    }

    fn write(&self, log_write: &Written) -> bool {
        let _guard = AbortOnPanic::new();
        if self.has_failed() {
            // Who failed it stops the pending writes; until then nothing is added to what is proven.
            self.pending_writes.stop();
            return true;
        }
        match log_write.segment.file.write_at(&log_write.bytes, log_write.start()) {
            Ok(()) => {}
            Err(Error::DiskFull(what)) if self.note_no_room(&what) => return false,
            Err(_) if mutant::is(Mutant::LogWriteErrorIgnored) => {}
            Err(error) => self.fail(&error),
        }
        true
    }

    fn back_off(&self, attempts: u32) {
        self.back_off_for_room(attempts);
    }

    fn look(&self, stall: &mut Stall) {
        self.end_if_stuck(stall);
    }

    fn lost(&self, ticket: Ticket) {
        let last = self.pending_writes.done();
        self.fail(&Error::ReadOnly(format!(
            "record {ticket} is neither queued nor under way, and the last written one is {last}: this is a fault of \
             TidesDB, please report it"
        )));
    }

    fn has_room(&self) {
        self.note_room();
    }

    fn publish(&self, log_write: &Written) {
        let mut progress = self.progress.lock();
        if progress.dirty.back().is_none_or(|last| last.id < log_write.segment.id) {
            progress.dirty.push_back(log_write.segment.clone());
        }
        progress.written = log_write.last;
        progress.written_seq = progress.written_seq.max(log_write.seq);
        // Not in the midst of a record: what `durable_upto` tells is a record's end, so that recovery, whose log
        // ends with the last whole record, does not take the rest of one that was lost for a hole.
        progress.written_lsn = log_write.whole;
        self.written_lsn.store(log_write.whole.0, Ordering::Release);
    }
}
