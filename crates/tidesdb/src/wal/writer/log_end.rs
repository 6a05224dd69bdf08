//! The end of the log: records become bytes in a buffer, the buffer becomes a log write of the present
//! segment. After a full segment comes the next ready one. One thread at a time is here.

use std::sync::atomic::Ordering;
use std::sync::Arc;

use super::shared::Core;
use crate::error::Result;
use crate::sync::note;
use crate::types::{Lsn, Seq};
use crate::wal::files::Segment;
use crate::wal::pending_writes::LogWrite;
use crate::wal::pending_writes::Ticket;
use crate::wal::record::Record;
use crate::wal::segment::{frame_end, record_start, Part, Seal, FRAGMENT_HEADER, SEGMENT_HEADER};

/// Stretches up to this size are written again rather than waited for.
const SMALL: usize = if cfg!(simulation) { 2 << 10 } else { 64 << 10 };

/// Syncs of a segment up to which its file is cleared before the next use: a sync of cleared blocks changes the file's
/// metadata, too, which costs more than the reads of old ones where there are many syncs.
const FEW_SYNCS: u64 = if cfg!(any(test, simulation)) { 2 } else { 256 };

/// Initial capacity of a buffer.
const BUFFER: usize = 512;

/// Bytes with their place in a segment; they hold the segment.
pub(super) struct Written {
    pub(super) segment: Arc<Segment>,
    pub(super) bytes: Vec<u8>,
    /// End of the bytes.
    pub(super) end: Lsn,
    /// End of the last record ending here or before.
    pub(super) whole: Lsn,
    /// The last record ending here or before, and the highest sequence number up to here.
    pub(super) last: Ticket,
    pub(super) seq: Seq,
}

impl Written {
    /// Start of the bytes in the file.
    pub(super) fn start(&self) -> u64 {
        u64::from(self.end.offset()) - self.bytes.len() as u64
    }
}

impl LogWrite for Written {
    fn last(&self) -> Ticket {
        self.last
    }

    fn is_small(&self) -> bool {
        self.bytes.len() <= SMALL
    }
}

/// The state of the serialising thread alone.
pub(super) struct LogEnd {
    pub(super) segment: Arc<Segment>,
    pub(super) seal: Seal,
    /// Place of the next byte.
    pub(super) offset: u32,
    /// Serialised bytes not yet in a log write; they end at `offset`.
    pub(super) buffer: Vec<u8>,
    pub(super) head: Vec<u8>,
    /// The group, kept for its capacity.
    pub(super) taken: Vec<(Record, u64)>,
    /// Bytes of `capacity` used by this group.
    pub(super) used: u64,
    /// The last completely serialised record, its end, and the highest sequence number so far.
    pub(super) ticket: Ticket,
    pub(super) whole: Lsn,
    pub(super) seq: Seq,
    /// Syncs of the log before this segment.
    pub(super) syncs: u64,
}

impl LogEnd {
    pub(super) fn pad_to(&mut self, offset: u32) {
        let n = offset - self.offset;
        self.buffer.resize(self.buffer.len() + n as usize, 0);
        self.offset = offset;
        self.used += u64::from(n);
    }

    /// Appends a fragment whose payload is `a` and `b`; it fits into the frame.
    pub(super) fn fragment(&mut self, part: Part, a: &[u8], b: &[u8]) {
        let at = self.buffer.len();
        self.buffer.extend_from_slice(&[0; FRAGMENT_HEADER as usize]);
        self.buffer.extend_from_slice(a);
        self.buffer.extend_from_slice(b);
        let (header, payload) = self.buffer[at..].split_at_mut(FRAGMENT_HEADER as usize);
        header.copy_from_slice(&self.seal.header(self.offset, part, payload));
        let n = (self.buffer.len() - at) as u32;
        self.offset += n;
        self.used += u64::from(n);
    }

    /// The buffer as a log write.
    fn cut(&mut self) -> Option<Written> {
        if self.buffer.is_empty() {
            return None;
        }
        Some(Written {
            segment: self.segment.clone(),
            bytes: std::mem::replace(&mut self.buffer, Vec::with_capacity(BUFFER)),
            end: Lsn::new(self.segment.id, self.offset),
            whole: self.whole,
            last: self.ticket,
            seq: self.seq,
        })
    }
}

impl Core {
    /// Makes a log write of the serialised bytes.
    pub(super) fn cut(&self, end: &mut LogEnd) {
        if let Some(log_write) = end.cut() {
            self.pending_writes.push(log_write);
        }
    }

    /// Writes the serialised bytes, if they are many.
    pub(super) fn write_if_long(&self, end: &mut LogEnd) {
        if end.buffer.len() >= self.options.write_at {
            self.cut(end);
            self.pending_writes.write_all(self);
        }
    }

    /// Serialises a record after the present content, going on to the next segments as needed. The record's
    /// last bytes stay in the buffer: the caller counts its ticket up, then cuts.
    pub(super) fn append(&self, end: &mut LogEnd, record: &Record, durable: Lsn) -> Result<()> {
        let size = self.options.segment_size;
        match record_start(end.offset, size) {
            Some(start) => end.pad_to(start),
            None => {
                end.pad_to(size);
                self.next_segment(end)?;
            }
        }
        let start = Lsn::new(end.segment.id, end.offset);
        let mut head = std::mem::take(&mut end.head);
        let mut rest = record.borrow().encode(durable, &mut head);
        let mut first_rest = &head[..];
        let mut first = true;
        loop {
            if end.offset == size {
                self.next_segment(end)?;
            }
            let room = (frame_end(end.offset, size) - end.offset - FRAGMENT_HEADER) as usize;
            let n = room.min(first_rest.len());
            let (a, more) = first_rest.split_at(n);
            first_rest = more;
            let (b, more) = rest.split_at((room - n).min(rest.len()));
            rest = more;
            let done = first_rest.is_empty() && rest.is_empty();
            end.fragment(Part::new(first, done), a, b);
            if done {
                break;
            }
            // Only where the record goes on: the log write that has a record's last byte carries its ticket.
            self.write_if_long(end);
            first = false;
        }
        end.head = head;
        end.whole = Lsn::new(end.segment.id, end.offset);
        record.placed(start, end.whole);
        Ok(())
    }

    pub(super) fn next_segment(&self, end: &mut LogEnd) -> Result<()> {
        note("log: new segment");
        self.cut(end);
        let next = loop {
            match self.files.take_ready() {
                Some(next) => break next,
                // Room is reserved before records are queued, so this is for the background mark at
                // most; it must not be assumed, though, where a log's epoch is at stake.
                None => self.prepare(1)?,
            }
        };
        let syncs = self.counters.syncs.load(Ordering::Relaxed);
        self.files.set_clears(syncs - end.syncs <= FEW_SYNCS);
        end.syncs = syncs;
        end.seal = Seal::new(next.id, self.epoch);
        end.segment = next;
        end.offset = SEGMENT_HEADER;
        Ok(())
    }
}
