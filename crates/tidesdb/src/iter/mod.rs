//! Ordered streams of entries over a run (memtable, table, level, private batch). Reads use
//! [`InternalIterator`], flush and compaction use [`VersionIterator`]. Merging, visibility and bounds need
//! these two alone.

pub mod merge;
pub mod prune;
#[cfg(test)]
pub(crate) mod vec_iterator;
pub mod version_merge;

use crate::error::Result;
use crate::types::{Entry, Pieces, Seq};

/// An iterator over one run of one family at one snapshot: each key once, with its newest version at or below
/// the snapshot, tombstones included. It moves in both directions and keeps its borrowed memory alive.
///
/// After a seek or step, `valid` is true if there is a current key. `key` and `entry` may be called only
/// then; their results live until the next seek or step. An error leaves the iterator invalid.
pub trait InternalIterator: Send {
    /// Moves to the first key.
    fn seek_to_first(&mut self) -> Result<()>;
    /// Moves to the last key.
    fn seek_to_last(&mut self) -> Result<()>;
    /// Moves to the first key at or after `key`.
    fn seek(&mut self, key: &[u8]) -> Result<()>;
    /// Moves to the last key at or before `key`.
    fn seek_for_prev(&mut self, key: &[u8]) -> Result<()>;
    /// Moves to the next key.
    fn next(&mut self) -> Result<()>;
    /// Moves to the previous key.
    fn prev(&mut self) -> Result<()>;
    /// True if there is a current key.
    fn valid(&self) -> bool;
    /// The current key.
    fn key(&self) -> &[u8];
    /// The current key's version.
    fn entry(&self) -> Entry<'_>;
    /// Visits the current key and those after it until `visit` returns false: many rows by one call. The
    /// iterator is then at the refused key, or at the end.
    fn walk(&mut self, visit: &mut dyn FnMut(&[u8], Entry<'_>) -> bool) -> Result<()> {
        while self.valid() && visit(self.key(), self.entry()) {
            self.next()?;
        }
        Ok(())
    }
}

/// An iterator over every version of one run of one family: keys ascending, versions of a key newest first.
/// Forward only. Flush and compaction use it, so it must not fill the block cache.
pub trait VersionIterator: Send {
    /// Moves to the first entry with a key at or after `key` (empty: the first of all).
    fn seek(&mut self, key: &[u8]) -> Result<()>;
    /// Moves to the next entry.
    fn next(&mut self) -> Result<()>;
    /// True if there is a current entry.
    fn valid(&self) -> bool;
    /// The current key.
    fn key(&self) -> &[u8];
    /// The current version.
    fn entry(&self) -> Entry<'_>;
    /// The rest of a value in pieces, after the one in `entry`.
    fn more(&self) -> Pieces<'_> {
        Pieces::default()
    }
}

/// Keys of a range: from `lower` (included) to `upper` (excluded); `None` is unbounded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyRange {
    /// First key.
    pub lower: Option<Vec<u8>>,
    /// First key after the range.
    pub upper: Option<Vec<u8>>,
}

/// The snapshots whose versions flush and compaction keep: every live snapshot, ascending, captured after the
/// publication of `scan_bound` (`docs/protocols.md` 3.2).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiveSnapshots {
    /// Lower bound of every new snapshot's sequence number.
    pub scan_bound: Seq,
    /// The live snapshots, ascending, without duplicates.
    pub held: Vec<Seq>,
    /// Entries with an expiry up to this second have expired for every reader, now and later; 0: none.
    pub expired_at: u64,
    /// Puts up to this sequence number prove nothing, in a store with lost older versions; 0: all are good.
    pub unproven_upto: Seq,
}

impl LiveSnapshots {
    /// True if no snapshot, now or later, sees a version of `seq`. `successor` is the next newer version of
    /// the same key.
    pub fn hidden(&self, seq: Seq, successor: Seq) -> bool {
        if successor > self.scan_bound {
            return false;
        }
        let first = self.held.partition_point(|&held| held < seq);
        self.held.get(first).is_none_or(|&held| held >= successor)
    }

    /// The oldest readable sequence number.
    pub fn oldest_snapshot(&self) -> Seq {
        self.held.first().map_or(self.scan_bound, |&held| held.min(self.scan_bound))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_hidden_only_when_no_snapshot_lies_between_it_and_its_successor() {
        let live = LiveSnapshots { scan_bound: 100, held: vec![10, 50], ..LiveSnapshots::default() };
        assert!(live.hidden(20, 30));
        assert!(!live.hidden(20, 51));
        assert!(!live.hidden(50, 51), "a snapshot at the version itself sees it");
        assert!(live.hidden(49, 50), "a snapshot at the successor sees the successor");
        assert!(live.hidden(60, 100));
        assert!(!live.hidden(60, 101), "a snapshot at the scan bound may still be taken");
        assert_eq!(live.oldest_snapshot(), 10);
    }
}
