//! A request for a scan, as the caller makes it.

use crate::txn::transaction::ReadMode;

/// Where a scan begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Start {
    /// First key at or after the given one.
    AtOrAfter,
    /// First key after the given one that does not start with it.
    After,
    /// Last key at or before the given one, or starting with it.
    AtOrBefore,
    /// Last key before the given one.
    Before,
    /// First key of all.
    First,
    /// Last key of all.
    Last,
}

impl Start {
    /// Whether the scan goes towards larger keys.
    pub fn is_forward(self) -> bool {
        matches!(self, Start::AtOrAfter | Start::After | Start::First)
    }
}

/// What a scan reads.
#[derive(Clone, Copy, Debug)]
pub struct Scan<'a> {
    /// Where it begins.
    pub start: Start,
    /// The key that `start` speaks of.
    pub key: &'a [u8],
    /// Rows that do not share so many first bytes of `key` are past the end; 0: none.
    pub prefix: usize,
    /// First key past the end in the direction of the scan.
    pub bound: Option<&'a [u8]>,
    /// How it treats others' changes.
    pub mode: ReadMode,
    /// Skip rows that others have locked. Such a scan keeps no gaps free.
    pub skip_locked: bool,
    /// Read rows that others have locked as they are committed, without a lock; see [`super::Cursor::is_peek`].
    pub peek_locked: bool,
    /// In [`ReadMode::Snapshot`]: a key that the transaction has changed is given twice, first as changed, then as the
    /// snapshot has it, each unless it does not exist there. For entries of a unique index, whose rows' keys are in
    /// the values: a transaction that [overtook](crate::txn::transaction::Transaction::overtook) its snapshot may have
    /// given one row's key to another that its snapshot shows elsewhere.
    pub both_versions: bool,
    /// Rows that the caller expects to read; 0: unknown.
    pub expect: u32,
}

impl Default for Scan<'_> {
    /// Everything, forward, at the transaction's snapshot.
    fn default() -> Self {
        Scan {
            start: Start::First,
            key: &[],
            prefix: 0,
            bound: None,
            mode: ReadMode::Snapshot,
            skip_locked: false,
            peek_locked: false,
            both_versions: false,
            expect: 0,
        }
    }
}
