//! Row counts of families as far as files have them: the sums of all edits up to a version. The whole count
//! ([`crate::db::Db::family_stats`]) adds memtables, and commits not yet in the manifest. An edit that adds
//! commits to a version carries their effect on the counts and the number of the last commit. Replay counts
//! the commits after it, so each commit counts exactly once.

use std::sync::Arc;

use super::family_shards::{empty_shards, shard_of};
use crate::types::{CountEffect, FamilyId, Kind, RowCount};

type Shard = Vec<(FamilyId, RowCount)>;

/// Row counts by family. Immutable in a version.
#[derive(Clone)]
pub(super) struct RowCounts {
    /// Families from this number on have been counted since their creation. `None`: no counting build has
    /// opened the store.
    counted_from: Option<FamilyId>,
    /// Sharded like the version. An absent family has a count of zero.
    shards: Box<[Arc<Shard>]>,
}

impl RowCounts {
    pub(super) fn new() -> RowCounts {
        RowCounts { counted_from: None, shards: empty_shards() }
    }

    pub(super) fn counted_from(&self) -> Option<FamilyId> {
        self.counted_from
    }

    /// Lowers `counted_from` to `family`; it never increases.
    pub(super) fn count_from(&mut self, family: FamilyId) {
        self.counted_from = Some(self.counted_from.map_or(family, |from| from.min(family)));
    }

    /// The count of a family. A family with possibly uncounted entries has an uncounted change in it.
    pub(super) fn of(&self, family: FamilyId) -> RowCount {
        let shard = &self.shards[shard_of(family)];
        let at = shard.binary_search_by_key(&family, |(id, _)| *id);
        let mut row_count = at.map_or(RowCount::ZERO, |at| shard[at].1);
        if self.counted_from.is_none_or(|from| family < from) {
            row_count += CountEffect::Unknown.row_count(Kind::PUT);
        }
        row_count
    }

    pub(super) fn add(&mut self, family: FamilyId, row_count: RowCount) {
        let shard = Arc::make_mut(&mut self.shards[shard_of(family)]);
        match shard.binary_search_by_key(&family, |(id, _)| *id) {
            Ok(at) => {
                shard[at].1 += row_count;
                if shard[at].1 == RowCount::ZERO {
                    shard.remove(at);
                }
            }
            Err(at) if row_count != RowCount::ZERO => shard.insert(at, (family, row_count)),
            Err(_) => {}
        }
    }

    pub(super) fn forget(&mut self, family: FamilyId) {
        let shard = &mut self.shards[shard_of(family)];
        if let Ok(at) = shard.binary_search_by_key(&family, |(id, _)| *id) {
            Arc::make_mut(shard).remove(at);
        }
    }

    /// All nonzero counts, in no order.
    pub(super) fn all(&self) -> impl Iterator<Item = (FamilyId, RowCount)> + '_ {
        self.shards.iter().flat_map(|shard| shard.iter().copied())
    }
}
