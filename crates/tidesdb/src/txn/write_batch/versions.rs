//! The changes in memory of a private batch, with their ordinals, in the order of keys: those hidden by later changes of a
//! key included. A run is written from them, and a statement's scans merge them with its runs.

use std::collections::BTreeMap;

use super::{Order, WriteBatch, NONE};
use crate::error::Result;
use crate::iter::VersionIterator;
use crate::txn::spill::runs::{ordinal_seq, RunSource};
use crate::types::{Entry, FamilyId, Pieces};

/// The value of a change in memory pushed without its bytes, as they are many.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LargeValue<'a> {
    /// Number of the change among those in memory.
    pub change: u32,
    /// The bytes, in the writer's memory; an expiry stands with the change.
    pub value: Pieces<'a>,
}

/// The changes in memory with their ordinals, those hidden by later changes of a key included.
pub(super) struct Changes<'a> {
    pub batch: &'a WriteBatch,
    pub large: &'a [LargeValue<'a>],
}

impl RunSource for Changes<'_> {
    fn is_empty(&self) -> bool {
        self.batch.changes.is_empty()
    }

    fn is_plain(&self) -> bool {
        self.batch.changes.iter().all(|change| change.replaced == NONE)
    }

    fn families(&self) -> BTreeMap<FamilyId, u64> {
        let mut families: BTreeMap<FamilyId, u64> = self.batch.touched().map(|family| (family, 0)).collect();
        for change in &self.batch.changes {
            *families.entry(change.family).or_default() +=
                u64::from(change.key_len) + u64::from(change.value_len);
        }
        for LargeValue { change, value } in self.large {
            *families.entry(self.batch.changes[*change as usize].family).or_default() += value.len() as u64;
        }
        families
    }

    fn ordinals(&self) -> (u64, u64) {
        (self.batch.base, self.batch.made())
    }

    fn version_iter(&self, family: FamilyId) -> Box<dyn VersionIterator + '_> {
        Box::new(self.iter(family))
    }
}

impl<'a> Changes<'a> {
    /// The changes of a family by key, the latest of a key first; ordinals stand for sequence numbers.
    pub(super) fn iter(&self, family: FamilyId) -> WriteBatchIterator<'a> {
        let order = self.batch.orders.iter().find(|order| order.family == family);
        WriteBatchIterator { batch: self.batch, large: self.large, order, chunk: 0, at: 0, id: NONE }
    }
}

/// See [`Changes::iter`].
pub(super) struct WriteBatchIterator<'a> {
    batch: &'a WriteBatch,
    large: &'a [LargeValue<'a>],
    order: Option<&'a Order>,
    chunk: usize,
    at: usize,
    /// Its present change; [`NONE`] at the end.
    id: u32,
}

impl WriteBatchIterator<'_> {
    fn enter(&mut self) {
        let chunks = self.order.map_or(&[][..], |order| &order.chunks);
        while chunks.get(self.chunk).is_some_and(|chunk| self.at >= chunk.len()) {
            (self.chunk, self.at) = (self.chunk + 1, 0);
        }
        self.id = chunks.get(self.chunk).map_or(NONE, |chunk| chunk[self.at].id);
    }
}

impl VersionIterator for WriteBatchIterator<'_> {
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        (self.chunk, self.at) = (0, 0);
        self.enter();
        while self.id != NONE && self.batch.key(self.id) < key {
            self.at += 1;
            self.enter();
        }
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        if self.id == NONE {
            return Ok(());
        }
        self.id = self.batch.changes[self.id as usize].replaced;
        if self.id == NONE {
            self.at += 1;
            self.enter();
        }
        Ok(())
    }

    fn valid(&self) -> bool {
        self.id != NONE
    }

    fn key(&self) -> &[u8] {
        self.batch.key(self.id)
    }

    fn entry(&self) -> Entry<'_> {
        let own = self.batch.entry(self.id);
        let ordinal = self.batch.base + u64::from(self.id) + 1;
        Entry::new(ordinal_seq(ordinal, own.was_live), own.kind, own.stored)
    }

    fn more(&self) -> Pieces<'_> {
        self.large
            .iter()
            .find(|large| large.change == self.id)
            .map_or_else(Pieces::default, |large| large.value)
    }
}
