//! The rows that a cursor has copied out.

/// Rows of the largest batch.
const MAX_BATCH: u32 = 32;

/// Bytes at which a batch ends early.
pub(super) const BATCH_BYTES: usize = 256 << 10;

/// Memory of a batch with a row that alone is larger than many: it is not kept.
pub(super) const LARGE_BATCH: usize = 1 << 20;

/// Memory that a batch keeps between two scans: tens of thousands of cursors may wait in a server.
const KEPT_BYTES: usize = 16 << 10;

/// Where a row of the batch lies in its bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) key: usize,
    pub(super) value: usize,
    pub(super) end: usize,
    /// When the row expires; 0: never.
    pub(super) expiry: u64,
    /// The snapshot's version of the key comes next, if there is one ([`super::Scan::both_versions`]).
    pub(super) is_first: bool,
}

/// Keys and values one after the other, and where each row lies.
///
/// Every span lies within `bytes`. A key that the scan looks at stands after the rows and is cut off again unless it
/// becomes one. After a point read `bytes` is the value and there is no span. A batch grows with each step on, from
/// what the caller expects up to [`MAX_BATCH`] rows, so that a short scan reads little ahead.
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

    /// Forgets the rows; memory beyond that of a few is given back.
    pub(super) fn release(&mut self) {
        self.spans.clear();
        if self.bytes.capacity() > KEPT_BYTES {
            self.bytes = Vec::new();
        }
    }

    /// Gives all memory back but that of one row's key, which is the only row then. After a point read: all.
    pub(super) fn keep_key(&mut self, position: usize) {
        let kept = self.spans.get(position).copied();
        let key = kept.map_or_else(Vec::new, |span| self.key(span).to_vec());
        self.spans.clear();
        self.spans.extend(kept.map(|span| Span { key: 0, value: key.len(), end: key.len(), ..span }));
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

    /// Rows that the batch to be filled now is to have; the one after it has more.
    #[inline]
    pub(super) fn grow(&mut self) -> usize {
        let rows = self.next_size as usize;
        self.next_size = (self.next_size * 4).min(MAX_BATCH);
        rows
    }

    /// Whether the bytes that were copied are enough for a batch.
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
}
