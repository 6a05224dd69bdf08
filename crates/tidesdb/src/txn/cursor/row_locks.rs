//! The locks of a scan: on its rows, and on the gaps between them.

use crate::lock::Mode;
use crate::txn::transaction::ReadMode;

/// How a scan treats rows of others, and the lock that it took last.
///
/// The first three are the seek's. `peeked` and `newly_locked` speak of the row that was read last, and are not set
/// both: a row that was peeked at is another's.
#[derive(Debug)]
pub(super) struct RowLocks {
    pub(super) mode: ReadMode,
    /// Rows that others have locked are skipped.
    pub(super) skip_locked: bool,
    /// Rows that others have locked are read as they are committed.
    pub(super) peek_locked: bool,
    /// The row of the batch is another's, read without its lock.
    pub(super) peeked: bool,
    /// Key that the last locking read newly locked.
    pub(super) newly_locked: Option<(Vec<u8>, Mode)>,
}

impl RowLocks {
    /// Of a scan at the snapshot.
    pub(super) fn new() -> RowLocks {
        RowLocks {
            mode: ReadMode::Snapshot,
            skip_locked: false,
            peek_locked: false,
            peeked: false,
            newly_locked: None,
        }
    }

    /// A read of one row begins.
    #[inline]
    pub(super) fn forget(&mut self) {
        self.peeked = false;
        self.newly_locked = None;
    }
}

/// How far a scan has published its range.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Covered {
    /// Not at all.
    Nothing,
    /// Forward: below this key. Backward: this key and those after it.
    To(Vec<u8>),
    /// To the end of the family.
    All,
}

/// The interval that a scan keeps free of others' insertions (`docs/protocols.md` 4.2).
///
/// `covered` is relative to the direction of the batch: a turn, or a position chosen anew, begins at
/// [`Covered::Nothing`]. `start` is the position's key at the begin of the gap that is being looked through.
#[derive(Debug)]
pub(super) struct GapCover {
    /// The scan keeps the gaps between its rows free.
    pub(super) kept: bool,
    pub(super) covered: Covered,
    pub(super) start: Vec<u8>,
}

impl GapCover {
    /// Of a scan that keeps none.
    pub(super) fn new() -> GapCover {
        GapCover { kept: false, covered: Covered::Nothing, start: Vec::new() }
    }
}
