//! The locks of a scan: on its rows, and on the gaps between them.

use crate::lock::Mode;
use crate::txn::transaction::ReadMode;

/// A scan's treatment of others' rows, and its last lock.
///
/// The first three are the seek's. `peeked` and `newly_locked` describe the last row read. At most one is
/// set: a peeked row belongs to another owner.
#[derive(Debug)]
pub(super) struct RowLocks {
    pub(super) mode: ReadMode,
    /// Skip rows locked by others.
    pub(super) skip_locked: bool,
    /// Read the committed version of rows locked by others.
    pub(super) peek_locked: bool,
    /// The row of the batch is another's, read without its lock.
    pub(super) peeked: bool,
    /// Key newly locked by the last locking read.
    pub(super) newly_locked: Option<(Vec<u8>, Mode)>,
}

impl RowLocks {
    /// For a scan at the snapshot.
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

/// The published part of a scan's range.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Covered {
    /// Not at all.
    Nothing,
    /// Forward: below this key. Backward: this key and those after it.
    To(Vec<u8>),
    /// To the end of the family.
    All,
}

/// The interval a scan keeps free of others' insertions (`docs/protocols.md` 4.2).
///
/// `covered` is relative to the direction of the batch: a turn, or a position chosen anew, begins at
/// [`Covered::Nothing`]. `start` is the position's key at the beginning of the present gap.
#[derive(Debug)]
pub(super) struct GapCover {
    /// The scan keeps the gaps between its rows free.
    pub(super) kept: bool,
    pub(super) covered: Covered,
    pub(super) start: Vec<u8>,
}

impl GapCover {
    /// For a scan without gap locks.
    pub(super) fn new() -> GapCover {
        GapCover { kept: false, covered: Covered::Nothing, start: Vec::new() }
    }
}
