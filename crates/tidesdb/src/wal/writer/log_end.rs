//! The end of the log: records become bytes in a buffer, the buffer goes to the present segment, and a full
//! segment is followed by the next one that stands ready. Only the write leader is here.

use std::sync::Arc;

use super::shared::Core;
use crate::error::Result;
use crate::types::Lsn;
use crate::wal::files::Segment;
use crate::wal::record::Record;
use crate::wal::segment::{frame_end, record_start, Part, Seal, FRAGMENT_HEADER, SEGMENT_HEADER};

/// Bytes after which a leader writes what it has serialised so far.
const FLUSH_AT: usize = 1 << 20;

/// Capacity that the write buffer keeps from one group to the next.
const KEEP_BUFFER: usize = 2 * FLUSH_AT;

/// What only the write leader touches.
pub(super) struct LogEnd {
    pub(super) segment: Arc<Segment>,
    pub(super) seal: Seal,
    /// Where the next byte goes.
    pub(super) offset: u32,
    /// Serialised bytes that are not in the file; they end at `offset`.
    pub(super) buffer: Vec<u8>,
    pub(super) head: Vec<u8>,
    /// The group, kept for its capacity.
    pub(super) taken: Vec<(Record, u64)>,
    /// Segments that this group has written to, but the present one.
    pub(super) touched: Vec<Arc<Segment>>,
    /// Bytes of `capacity` that this group has used.
    pub(super) used: u64,
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

    /// Writes the buffer to the present segment.
    pub(super) fn flush(&mut self) -> Result<()> {
        if !self.buffer.is_empty() {
            let start = u64::from(self.offset) - self.buffer.len() as u64;
            self.segment.file.write_at(&self.buffer, start)?;
            self.buffer.clear();
            self.buffer.shrink_to(KEEP_BUFFER);
        }
        Ok(())
    }
}

impl Core {
    /// Serialises a record behind what is there, going on to the next segments as needed.
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
            if end.buffer.len() >= FLUSH_AT {
                end.flush()?;
            }
            if done {
                break;
            }
            first = false;
        }
        end.head = head;
        record.placed(start, Lsn::new(end.segment.id, end.offset));
        Ok(())
    }

    pub(super) fn next_segment(&self, end: &mut LogEnd) -> Result<()> {
        end.flush()?;
        let next = loop {
            match self.files.take_ready() {
                Some(next) => break next,
                // Room is reserved before records are queued, so this is for the background mark at
                // most; it must not be assumed, though, where a log's life is at stake.
                None => self.prepare(1)?,
            }
        };
        end.seal = Seal::new(next.id, self.epoch);
        let full = std::mem::replace(&mut end.segment, next);
        end.touched.push(full);
        end.offset = SEGMENT_HEADER;
        Ok(())
    }
}
