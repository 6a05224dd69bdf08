//! Ordered streams of entries: what a run (memtable, table, level, private batch) offers
//! to reads ([`InternalIterator`]) and to flush and compaction ([`VersionIterator`]). Merging, visibility and bounds
//! are built on these two alone.

pub mod merge;
pub mod prune;
#[cfg(test)]
pub(crate) mod vec_iterator;
pub mod version_merge;

use crate::error::Result;
use crate::types::{Entry, Pieces, Seq};

/// One run of one family as one snapshot sees it: each key once, with its newest version at or below
/// the snapshot, tombstones included. Both directions. An iterator holds what it borrows from alive.
///
/// After a seek or step, `valid` says whether it stands on a key; `key` and `entry` may be called only
/// then, and what they return lives until the next seek or step. An error leaves the iterator invalid.
pub trait InternalIterator: Send {
    /// Stands on the first key.
    fn seek_to_first(&mut self) -> Result<()>;
    /// Stands on the last key.
    fn seek_to_last(&mut self) -> Result<()>;
    /// Stands on the first key at or after `key`.
    fn seek(&mut self, key: &[u8]) -> Result<()>;
    /// Stands on the last key at or before `key`.
    fn seek_for_prev(&mut self, key: &[u8]) -> Result<()>;
    /// Steps to the next key.
    fn next(&mut self) -> Result<()>;
    /// Steps to the previous key.
    fn prev(&mut self) -> Result<()>;
    /// Whether it stands on a key.
    fn valid(&self) -> bool;
    /// The key.
    fn key(&self) -> &[u8];
    /// Its version.
    fn entry(&self) -> Entry<'_>;
    /// Gives `visit` the present key and those after it until `visit` says false. Then stands on the key refused by
    /// `visit`, or on none: many rows by one call.
    fn walk(&mut self, visit: &mut dyn FnMut(&[u8], Entry<'_>) -> bool) -> Result<()> {
        while self.valid() && visit(self.key(), self.entry()) {
            self.next()?;
        }
        Ok(())
    }
}

/// One run of one family with every version: keys ascending, versions of a key newest first. Forward
/// only; used by flush and compaction, so it must not fill the block cache.
pub trait VersionIterator: Send {
    /// Stands on the first entry whose key is at or after `key` (empty: the first of all).
    fn seek(&mut self, key: &[u8]) -> Result<()>;
    /// Steps to the next entry.
    fn next(&mut self) -> Result<()>;
    /// Whether it stands on an entry.
    fn valid(&self) -> bool;
    /// The key.
    fn key(&self) -> &[u8];
    /// The version.
    fn entry(&self) -> Entry<'_>;
    /// What its value goes on with, after that of `entry`.
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

/// The snapshots that flush and compaction must keep versions for: every live snapshot, ascending,
/// captured after `scan_bound` was published (`docs/protocols.md` 3.2).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiveSnapshots {
    /// Sequence at or above which every new snapshot will be.
    pub scan_bound: Seq,
    /// The live snapshots, ascending, without duplicates.
    pub held: Vec<Seq>,
    /// Entries that expire at this second or before have expired for everybody, now and later; 0: none.
    pub expired_at: u64,
    /// Puts up to this sequence prove nothing, in a store that lost what was below some; 0: all are good.
    pub unproven_upto: Seq,
}

impl LiveSnapshots {
    /// Whether a version of `seq` whose next newer version of the same key has `successor` can be
    /// seen by nobody, now or later.
    pub fn hidden(&self, seq: Seq, successor: Seq) -> bool {
        if successor > self.scan_bound {
            return false;
        }
        let first = self.held.partition_point(|&held| held < seq);
        self.held.get(first).is_none_or(|&held| held >= successor)
    }

    /// The oldest sequence that anybody may still read at.
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
