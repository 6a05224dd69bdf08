//! The rows a cursor has copied out.

use crate::values::ValuesTogether;

/// Rows of the largest batch.
const MAX_BATCH: u32 = 32;

/// A batch ends early at this many bytes.
const BATCH_BYTES: usize = 256 << 10;

/// The same of the first batch of a scan of an unknown length. A later one has at most so many, or twice the bytes of the
/// batch before it: a scan that is given up has read as much again in vain, however long its rows are.
const FIRST_BYTES: usize = 32 << 10;

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
/// unless it becomes a row. After a point read `bytes` is the value and there is no span. Batches have the rows that the
/// caller expects, and no more. After them, or without an expectation, they grow from one row up to [`MAX_BATCH`]: a short
/// scan reads little ahead.
#[derive(Debug)]
pub(super) struct RowBatch {
    pub(super) bytes: Vec<u8>,
    pub(super) spans: Vec<Span>,
    /// The values that its rows lack while it is filled.
    pub(super) values: ValuesTogether,
    /// Rows that the caller still expects.
    expected: u32,
    /// Rows of the next batch beyond those.
    next_size: u32,
    /// The present batch ends early at this many bytes.
    most_bytes: usize,
}

impl RowBatch {
    /// No rows.
    pub(super) fn new() -> RowBatch {
        RowBatch {
            bytes: Vec::new(),
            spans: Vec::new(),
            values: ValuesTogether::default(),
            expected: 0,
            next_size: 1,
            most_bytes: FIRST_BYTES,
        }
    }

    /// Clears the rows; releases memory beyond a few rows.
    pub(super) fn release(&mut self) {
        self.spans.clear();
        self.values.release();
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

    /// The scan begins anew: its caller expects so many rows; 0: it knows of no number.
    #[inline]
    pub(super) fn expect(&mut self, rows: u32) {
        (self.expected, self.next_size) = (rows, 1);
        self.spans.clear();
    }

    /// Forgets the rows.
    #[inline]
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.spans.clear();
    }

    /// Forgets the rows, to copy others. Returns the number of rows to copy.
    #[inline]
    pub(super) fn begin(&mut self) -> usize {
        let given = self.spans.len() as u32;
        self.expected = self.expected.saturating_sub(given);
        let (rows, most_bytes) = match self.expected {
            0 if given == 0 => (self.next_size, FIRST_BYTES),
            0 => (self.next_size, self.bytes.len().saturating_mul(2).clamp(FIRST_BYTES, BATCH_BYTES)),
            expected => (expected.min(MAX_BATCH), BATCH_BYTES),
        };
        self.next_size = (rows * 4).min(MAX_BATCH);
        self.most_bytes = most_bytes;
        self.clear();
        rows as usize
    }

    /// True if the copied bytes are enough for a batch.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.bytes.len() >= self.most_bytes
    }

    /// The batch ends before its row at `row`, which could not be read.
    pub(super) fn end_before(&mut self, row: usize) {
        self.spans.truncate(row);
        self.bytes.truncate(self.spans.last().map_or(0, |last| last.end + last.place_len));
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The rows that each batch of a scan asks for, of rows of this length.
    fn sizes(expect: u32, row_bytes: usize, batches: usize) -> Vec<usize> {
        let mut batch = RowBatch::new();
        batch.expect(expect);
        let next = |_| {
            let want = batch.begin();
            while batch.spans.len() < want && !batch.is_full() {
                let key = batch.bytes.len();
                batch.bytes.resize(key + row_bytes, 0);
                let end = batch.bytes.len();
                batch.spans.push(Span { key, value: key, end, place_len: 0, expiry: 0, is_first: false });
            }
            batch.spans.len()
        };
        (0..batches).map(next).collect()
    }

    #[test]
    fn batches_have_the_expected_rows_and_grow_after_them() {
        for (expect, row_bytes, batches) in [
            (0, 100, &[1, 4, 16, 32, 32][..]),
            (1, 100, &[1, 4, 16, 32, 32]),
            (10, 100, &[10, 32, 32]),
            (32, 100, &[32, 32]),
            (70, 100, &[32, 32, 6, 24, 32]),
            // Twice the bytes of the batch before at most, or 32 KB.
            (0, 4096, &[1, 4, 8, 16, 32, 32]),
            (0, 16 << 10, &[1, 2, 4, 8, 16, 16]),
            (0, 100 << 10, &[1, 2, 3, 3]),
            (0, 1 << 20, &[1, 1, 1]),
            (10, 4096, &[10, 20, 32]),
            (10, 64 << 10, &[4, 4, 2, 4]),
        ] {
            assert_eq!(
                sizes(expect, row_bytes, batches.len()),
                batches,
                "{expect} rows of {row_bytes} bytes"
            );
        }
    }

    #[test]
    fn a_batch_that_ends_before_a_row_has_those_before_it() {
        let mut batch = RowBatch::new();
        batch.bytes.extend_from_slice(b"k1v1pk2v2rest");
        let span =
            |key, value, end, place_len| Span { key, value, end, place_len, expiry: 0, is_first: false };
        batch.spans.extend([span(0, 2, 4, 1), span(5, 7, 9, 0)]);
        batch.end_before(1);
        assert_eq!((&batch.bytes[..], batch.spans.len()), (&b"k1v1p"[..], 1));
        batch.end_before(0);
        assert_eq!((batch.bytes.len(), batch.spans.len()), (0, 0));
    }
}
