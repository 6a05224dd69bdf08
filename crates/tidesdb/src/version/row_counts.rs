//! The counts of families' rows as far as they are in files: what the edits that a version is made of add up to.
//! With what is in memtables and in commits that the manifest does not name yet they are the whole count
//! ([`crate::db::Db::family_stats`]). An edit that makes commits part of a version brings what they do to the
//! number along, and names the last of them: replay counts those after it, so none is counted twice or left out.

use std::sync::Arc;

use super::SHARDS;
use crate::types::{CountEffect, FamilyId, Kind, RowCount};

type Shard = Vec<(FamilyId, RowCount)>;

/// See the module's comment. Immutable in a version.
#[derive(Clone)]
pub(super) struct RowCounts {
    /// Families from here on are counted since they were created; `None`: no build that counts has opened the store.
    counted_from: Option<FamilyId>,
    /// As the version's. A family that is not there adds nothing.
    shards: Box<[Arc<Shard>]>,
}

impl RowCounts {
    pub(super) fn new() -> RowCounts {
        RowCounts { counted_from: None, shards: vec![Arc::default(); SHARDS].into() }
    }

    pub(super) fn counted_from(&self) -> Option<FamilyId> {
        self.counted_from
    }

    /// The number from which families are counted: the least that was ever named.
    pub(super) fn count_from(&mut self, family: FamilyId) {
        self.counted_from = Some(self.counted_from.map_or(family, |from| from.min(family)));
    }

    /// Of a family, with an uncounted change for one that has entries that nobody counted.
    pub(super) fn of(&self, family: FamilyId) -> RowCount {
        let shard = &self.shards[family as usize % SHARDS];
        let at = shard.binary_search_by_key(&family, |(id, _)| *id);
        let mut row_count = at.map_or(RowCount::ZERO, |at| shard[at].1);
        if self.counted_from.is_none_or(|from| family < from) {
            row_count += CountEffect::Unknown.row_count(Kind::PUT);
        }
        row_count
    }

    pub(super) fn add(&mut self, family: FamilyId, row_count: RowCount) {
        let shard = Arc::make_mut(&mut self.shards[family as usize % SHARDS]);
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
        let shard = &mut self.shards[family as usize % SHARDS];
        if let Ok(at) = shard.binary_search_by_key(&family, |(id, _)| *id) {
            Arc::make_mut(shard).remove(at);
        }
    }

    /// All that add something, in no order.
    pub(super) fn all(&self) -> impl Iterator<Item = (FamilyId, RowCount)> + '_ {
        self.shards.iter().flat_map(|shard| shard.iter().copied())
    }
}
