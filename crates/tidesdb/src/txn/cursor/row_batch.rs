//! The rows a cursor has copied out.

/// Rows of the largest batch.
const MAX_BATCH: u32 = 32;

/// A batch ends early at this many bytes.
pub(super) const BATCH_BYTES: usize = 256 << 10;

/// A batch with one very large row; memory above this size is not kept.
pub(super) const LARGE_BATCH: usize = 1 << 20;

/// Memory kept by a batch between two scans: a server may have tens of thousands of idle cursors.
const KEPT_BYTES: usize = 16 << 10;

/// Position of a row in the batch's bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) key: usize,
    pub(super) value: usize,
    pub(super) end: usize,
    /// Bytes after the value: the place of its rest.
    pub(super) place_len: usize,
    /// Expiry of the row; 0: never.
    pub(super) expiry: u64,
    /// The snapshot's version of the key comes next, if there is one ([`super::Scan::both_versions`]).
    pub(super) is_first: bool,
}

/// Keys and values one after the other, and the position of each row.
///
/// Every span lies within `bytes`. The key under examination stands after the rows, and is cut off again
/// unless it becomes a row. After a point read `bytes` is the value and there is no span. A batch grows with
/// each step, from the caller's expectation up to [`MAX_BATCH`] rows: a short scan reads little ahead.
#[derive(Debug)]
pub(super) struct RowBatch {
    pub(super) bytes: Vec<u8>,
    pub(super) spans: Vec<Span>,
    next_size: u32,
}

impl RowBatch {
    /// No rows.
    pub(super) fn new() -> RowBatch {
        RowBatch { bytes: Vec::new(), spans: Vec::new(), next_size: 1 }
    }

    /// Clears the rows; releases memory beyond a few rows.
    pub(super) fn release(&mut self) {
        self.spans.clear();
        if self.bytes.capacity() > KEPT_BYTES {
            self.bytes = Vec::new();
        }
    }

    /// Releases all memory but one row's key; the batch then holds only this row. After a point read: all.
    pub(super) fn keep_key(&mut self, position: usize) {
        let kept = self.spans.get(position).copied();
        let key = kept.map_or_else(Vec::new, |span| self.key(span).to_vec());
        self.spans.clear();
        let without_value = |span| Span { key: 0, value: key.len(), end: key.len(), place_len: 0, ..span };
        self.spans.extend(kept.map(without_value));
        self.bytes = key;
    }

    /// Forgets the rows, to copy others.
    #[inline]
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.spans.clear();
    }

    /// The next batch has so many rows.
    #[inline]
    pub(super) fn expect(&mut self, rows: u32) {
        self.next_size = rows.clamp(1, MAX_BATCH);
    }

    /// Number of rows for the present batch; the next batch has more.
    #[inline]
    pub(super) fn grow(&mut self) -> usize {
        let rows = self.next_size as usize;
        self.next_size = (self.next_size * 4).min(MAX_BATCH);
        rows
    }

    /// True if the copied bytes are enough for a batch.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.bytes.len() >= BATCH_BYTES
    }

    /// Key of a row.
    #[inline]
    pub(super) fn key(&self, span: Span) -> &[u8] {
        &self.bytes[span.key..span.value]
    }

    /// Value of a row.
    #[inline]
    pub(super) fn value(&self, span: Span) -> &[u8] {
        &self.bytes[span.value..span.end]
    }

    /// The place of the rest of a row's value; empty: the value is not in two parts, or the scan did not ask.
    #[inline]
    pub(super) fn place(&self, span: Span) -> &[u8] {
        &self.bytes[span.end..span.end + span.place_len]
    }
}
