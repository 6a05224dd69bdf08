//! The position of a cursor.

use crate::error::Result;
use crate::iter::merge::MergingIterator;
use crate::iter::InternalIterator;

/// A side of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Edge {
    /// The end of the family at which the scan begins.
    Open,
    /// From the key on, itself included.
    Included,
    /// From the key on, itself excluded.
    Excluded,
}

/// A place in the family and the direction to go on in.
///
/// The place is the side `edge` of the key `last`; under [`Edge::Open`] the key has no meaning. The next own
/// change is looked up from there. While `ahead` holds, the merge stands on the next committed key from there
/// in the direction `forward`; otherwise the next step places it first.
#[derive(Debug)]
pub(super) struct Position {
    /// Last key passed, dead ones included.
    pub(super) last: Vec<u8>,
    pub(super) edge: Edge,
    /// Direction of the batch, possibly opposite to the scan's.
    pub(super) forward: bool,
    pub(super) ahead: bool,
    /// The snapshot's version of `last` was not given yet: the merge is placed on it, own changes after it.
    pub(super) again: bool,
    /// The next step begins with the key of the row that it steps from.
    pub(super) at_key: bool,
}

impl Position {
    /// At the front of a family.
    pub(super) fn new() -> Position {
        Position {
            last: Vec::new(),
            edge: Edge::Open,
            forward: true,
            ahead: false,
            again: false,
            at_key: false,
        }
    }

    /// Moves to the side `edge` of `key`.
    #[inline]
    pub(super) fn set(&mut self, key: &[u8], edge: Edge) {
        self.last.clear();
        self.last.extend_from_slice(key);
        self.edge = edge;
        self.again = false;
        self.at_key = false;
    }

    /// Brings `merge` to the first key from here.
    pub(super) fn seek(&self, merge: &mut MergingIterator) -> Result<()> {
        self.seek_from(if self.again { Edge::Included } else { self.edge }, merge)
    }

    /// Brings `changes`, the transaction's own, to the first key from here.
    pub(super) fn seek_own(&self, changes: &mut MergingIterator) -> Result<()> {
        self.seek_from(self.edge, changes)
    }

    fn seek_from(&self, edge: Edge, merge: &mut MergingIterator) -> Result<()> {
        match (edge, self.forward) {
            (Edge::Open, true) => merge.seek_to_first(),
            (Edge::Open, false) => merge.seek_to_last(),
            (edge, true) => {
                merge.seek(&self.last)?;
                if edge == Edge::Excluded && merge.valid() && merge.key() == self.last {
                    merge.next()?;
                }
                Ok(())
            }
            (edge, false) => {
                merge.seek_for_prev(&self.last)?;
                if edge == Edge::Excluded && merge.valid() && merge.key() == self.last {
                    merge.prev()?;
                }
                Ok(())
            }
        }
    }
}
