//! A position in a range of keys, movable both ways.

use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::Arc;

use super::key_range::ByteRange;
use crate::error::Result;
use crate::store::family::Family;
use crate::txn::cursor::{Cursor, Scan, Start};
use crate::txn::transaction::{ReadMode, Transaction};

/// A cursor confined to a range: the engine's cursor knows an end in the direction of its scan only.
///
/// It stands on a row or on none. All calls take the same transaction; its changes made between two calls are
/// seen.
pub struct RangeCursor {
    cursor: Cursor,
    range: ByteRange,
    mode: ReadMode,
    /// Place of the row in the cursor's batch.
    row: Option<usize>,
    /// Direction of the batch.
    forward: bool,
    /// The transaction's count of changes when the batch was read.
    changes: u64,
}

impl fmt::Debug for RangeCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RangeCursor").field("cursor", &self.cursor).field("row", &self.row).finish()
    }
}

impl RangeCursor {
    /// A cursor without a row.
    pub fn new(family: Arc<Family>, range: ByteRange, mode: ReadMode) -> RangeCursor {
        let cursor = Cursor::new(family);
        RangeCursor { cursor, range, mode, row: None, forward: true, changes: 0 }
    }

    /// Moves to the first row of the range; false if there is none.
    pub fn first(&mut self, txn: &mut Transaction) -> Result<bool> {
        let lower = std::mem::take(&mut self.range.lower);
        let found = self.scan_from(txn, &lower, &lower);
        self.range.lower = lower;
        self.settle(found)
    }

    /// Moves to the first row of the range at or after `key`; false if there is none.
    pub fn seek(&mut self, txn: &mut Transaction, key: &[u8]) -> Result<bool> {
        if key <= self.range.lower.as_slice() {
            return self.first(txn);
        }
        let lower = std::mem::take(&mut self.range.lower);
        let found = match self.range.upper.as_deref() {
            Some(upper) if key >= upper => Ok(false),
            _ => self.scan_from(txn, key, &lower),
        };
        self.range.lower = lower;
        self.settle(found)
    }

    /// Moves to the last row of the range; false if there is none.
    pub fn last(&mut self, txn: &mut Transaction) -> Result<bool> {
        self.row = None;
        if self.range.is_empty() {
            return Ok(false);
        }
        let before = self.range.before_lower();
        let (start, key) = match self.range.upper.as_deref() {
            _ if self.range.prefix > 0 => (Start::AtOrBefore, self.range.lower.as_slice()),
            Some(upper) => (Start::Before, upper),
            None => (Start::Last, &[][..]),
        };
        let scan = Scan {
            start,
            key,
            prefix: self.range.prefix,
            bound: before.as_deref(),
            mode: self.mode,
            ..Scan::default()
        };
        self.forward = false;
        self.changes = txn.change_counter().load(Ordering::Relaxed);
        let found = self.cursor.seek(txn, &scan);
        self.settle(found)
    }

    /// Moves to the next row of the range, or to the previous one; false if there is none, or if it is on no
    /// row.
    pub fn step(&mut self, txn: &mut Transaction, forward: bool) -> Result<bool> {
        let Some(at) = self.row.take() else { return Ok(false) };
        let changes = txn.change_counter().load(Ordering::Relaxed);
        if forward == self.forward && changes == self.changes && at + 1 < self.cursor.len() {
            self.row = Some(at + 1);
            return Ok(self.stay_inside());
        }
        (self.forward, self.changes) = (forward, changes);
        let found = self.cursor.fetch(txn, at, forward);
        self.settle(found)
    }

    /// Key and value of the current row.
    pub fn row(&self) -> Option<(&[u8], &[u8])> {
        self.row.map(|at| self.cursor.row(at))
    }

    /// Seeks forward from `key`, in the range from `lower` on.
    fn scan_from(&mut self, txn: &mut Transaction, key: &[u8], lower: &[u8]) -> Result<bool> {
        self.row = None;
        if self.range.upper.as_deref().is_some_and(|upper| upper <= lower) {
            return Ok(false);
        }
        // The prefix is one of `key`: a key inside of the range has it.
        let prefix = if key.starts_with(&lower[..self.range.prefix]) { self.range.prefix } else { 0 };
        let start = if key.is_empty() { Start::First } else { Start::AtOrAfter };
        let bound = self.range.upper.as_deref();
        let scan = Scan { start, key, prefix, bound, mode: self.mode, ..Scan::default() };
        self.forward = true;
        self.changes = txn.change_counter().load(Ordering::Relaxed);
        self.cursor.seek(txn, &scan)
    }

    /// Moves to the first row of a new batch, if there is one within the range.
    fn settle(&mut self, found: Result<bool>) -> Result<bool> {
        self.row = found?.then_some(0);
        Ok(self.stay_inside())
    }

    /// Leaves a row outside the range. Returns whether the cursor is on a row.
    fn stay_inside(&mut self) -> bool {
        if self.row().is_some_and(|(key, _)| !self.range.contains(key)) {
            self.row = None;
        }
        self.row.is_some()
    }
}
