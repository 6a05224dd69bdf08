//! Groups: whoever waits first for its record to be written takes everything queued, serialises it into
//! one buffer and writes that with one `pwrite`; the others wait for the counter to pass their ticket.
//!
//! `written` is contiguous: a group is published as a whole, after its last byte is in the file.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::Arc;

use super::log_end::LogEnd;
use super::shared::{AbortOnPanic, Core};
use super::Ticket;
use crate::error::Result;
use crate::types::{Lsn, Seq};
use crate::wal::files::Segment;
use crate::wal::handover::{Looks, Turn};

/// How long a thread that waits for a write looks at the counter before it sleeps: about the time of two
/// small `pwrite`s, then a few turns of the scheduler in which a leader that lost its core finishes.
const WRITE_LOOKS: Looks = Looks { spins: 100, yields: 16 };

/// How far the log is proven; changed by leaders, in one step each.
#[derive(Default)]
pub(super) struct Progress {
    pub(super) written: Ticket,
    pub(super) written_lsn: Lsn,
    pub(super) written_seq: Seq,
    pub(super) durable_seq: Seq,
    /// Segments with writes that no sync covers, oldest first.
    pub(super) dirty: VecDeque<Arc<Segment>>,
    /// `durable_lsn` that a mark in the log tells.
    pub(super) marked: Lsn,
}

impl Core {
    pub(super) fn wait_written(&self, ticket: Ticket) -> Result<()> {
        loop {
            match self.writes.wait(ticket, WRITE_LOOKS) {
                Turn::Done => return Ok(()),
                Turn::Stopped => return Err(self.lost(ticket)),
                Turn::Lead => self.lead_write(),
            }
        }
    }

    pub(super) fn lead_write(&self) {
        let _guard = AbortOnPanic::new();
        let mut end = self.end.lock();
        match self.write_group(&mut end) {
            Ok(written) => self.writes.finish(written),
            Err(error) => self.fail(&error),
        }
        // Freeing large batches comes after the answer.
        end.taken.clear();
        let full_half = end.offset > self.options.segment_size / 2;
        drop(end);
        if full_half && self.options.background && self.files.ready() < 2 {
            self.notify_background();
        }
    }

    /// Writes everything queued. On success the group is published in `progress`.
    pub(super) fn write_group(&self, end: &mut LogEnd) -> Result<Ticket> {
        let last = {
            let mut queue = self.queue.lock();
            end.taken.extend(queue.records.drain(..));
            queue.last
        };
        self.taken.store(last, Ordering::SeqCst);
        if self.has_failed() {
            return Err(self.read_only());
        }
        let durable = Lsn(self.durable_lsn.load(Ordering::Acquire));
        let taken = std::mem::take(&mut end.taken);
        let (mut bytes, mut seq) = (0, 0);
        let mut result = Ok(());
        for (record, reserved) in &taken {
            bytes += reserved;
            seq = record.borrow().seq().unwrap_or(seq);
            result = self.append(end, record, durable);
            if result.is_err() {
                break;
            }
        }
        end.taken = taken;
        result?;
        end.flush()?;
        self.publish(end, Some(last), seq);
        let mut queue = self.queue.lock();
        queue.outstanding -= bytes;
        self.counters.bytes.fetch_add(end.used, Ordering::Relaxed);
        self.counters.groups.fetch_add(1, Ordering::Relaxed);
        queue.capacity -= std::mem::take(&mut end.used);
        if queue.waiting > 0 {
            self.room.notify_all();
        }
        Ok(last)
    }

    /// Makes what `end` has written visible to syncs: positions and dirty segments in one step.
    pub(super) fn publish(&self, end: &mut LogEnd, written: Option<Ticket>, seq: Seq) {
        let lsn = Lsn::new(end.segment.id, end.offset);
        let mut progress = self.progress.lock();
        for segment in end.touched.drain(..).chain([end.segment.clone()]) {
            if progress.dirty.back().is_none_or(|last| last.id < segment.id) {
                progress.dirty.push_back(segment);
            }
        }
        if let Some(written) = written {
            progress.written = written;
            progress.written_seq = progress.written_seq.max(seq);
        }
        progress.written_lsn = lsn;
        self.written_lsn.store(lsn.0, Ordering::Release);
    }
}
