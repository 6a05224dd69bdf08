//! The parameters of a scan.

use crate::txn::transaction::ReadMode;
use crate::value::ReadParts;

/// The beginning of a scan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Start {
    /// First key at or after the given one.
    AtOrAfter,
    /// First key after the given one without it as a prefix.
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
    /// True if the scan goes towards larger keys.
    pub fn is_forward(self) -> bool {
        matches!(self, Start::AtOrAfter | Start::After | Start::First)
    }
}

/// The parameters of a scan.
#[derive(Clone, Copy, Debug)]
pub struct Scan<'a> {
    /// Its beginning.
    pub start: Start,
    /// The key for `start`.
    pub key: &'a [u8],
    /// Rows that differ from `key` in its first bytes, so many of them, are past the end; 0: none.
    pub prefix: usize,
    /// First key past the end in the direction of the scan.
    pub bound: Option<&'a [u8]>,
    /// The treatment of others' changes.
    pub mode: ReadMode,
    /// Skip rows locked by others. Such a scan keeps no gaps free.
    pub skip_locked: bool,
    /// Read the committed version of rows locked by others, without a lock; see [`super::Cursor::is_peek`].
    pub peek_locked: bool,
    /// In [`ReadMode::Snapshot`], returns a key twice if the transaction has changed it: first as changed,
    /// then as in the snapshot. A version in which the key does not exist is left out. For entries of a
    /// unique index, with rows' keys as values. A transaction that [went
    /// past](crate::txn::transaction::Transaction::passed_snapshot) its snapshot may have moved one row's key
    /// to another row, while its snapshot shows it elsewhere.
    pub both_versions: bool,
    /// The parts of rows whose value is in two.
    pub parts: ReadParts,
    /// Expected number of rows; 0: unknown.
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
            parts: ReadParts::Both,
            expect: 0,
        }
    }
}
