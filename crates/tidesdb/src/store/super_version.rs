//! The super version: memtables and tables of one moment, newest first. Each read takes one; flush and merge
//! replace it.

use std::cell::OnceCell;
use std::sync::Arc;

use crate::error::Result;
use crate::iter::{InternalIterator, KeyRange};
use crate::memtable::Memtable;
use crate::mutant::{self, Mutant};
use crate::store::sealed_runs::CommittedRuns;
use crate::table::{hash_key, Hit};
use crate::types::{Entry, FamilyId, MemtableId, RowCount, Seq};
use crate::version::{LevelIterator, TableHandle, Version};

/// Entries waiting for a flush: they stand between the active memtable and the files.
#[derive(Clone, Debug)]
pub(crate) enum Flushable {
    /// A sealed memtable.
    Memtable(Arc<Memtable>),
    /// The runs of an ordered, spilled transaction.
    Runs(Arc<CommittedRuns>),
}

impl Flushable {
    /// Its number; of several, the highest.
    pub fn id(&self) -> MemtableId {
        match self {
            Flushable::Memtable(memtable) => memtable.id(),
            Flushable::Runs(runs) => runs.id(),
        }
    }

    /// The memtable, if it is one.
    pub fn memtable(&self) -> Option<&Arc<Memtable>> {
        match self {
            Flushable::Memtable(memtable) => Some(memtable),
            Flushable::Runs(_) => None,
        }
    }

    /// See [`CommittedRuns::unproven_upto`].
    pub fn unproven_upto(&self) -> Option<Seq> {
        match self {
            Flushable::Memtable(_) => None,
            Flushable::Runs(runs) => runs.unproven_upto(),
        }
    }

    /// Its tables of a family, newest first; none of a memtable.
    pub fn tables(&self, family: FamilyId) -> &[TableHandle] {
        match self {
            Flushable::Memtable(_) => &[],
            Flushable::Runs(runs) => runs.of(family),
        }
    }
}

/// A version of a key found by a point read, with a hold on its memory.
#[derive(Debug)]
pub(crate) enum KeyVersion<'a> {
    /// In a memtable, or in a transaction's own batch.
    Memory(Entry<'a>),
    /// In a table's block.
    Block(Hit),
}

impl KeyVersion<'_> {
    /// The version.
    #[inline]
    pub(crate) fn entry(&self) -> Entry<'_> {
        match self {
            KeyVersion::Memory(entry) => *entry,
            KeyVersion::Block(hit) => hit.entry(),
        }
    }
}

/// Memtables and tables of one moment. Immutable; a newer super version has all content of an older one.
#[derive(Debug)]
pub struct SuperVersion {
    /// Takes writes.
    pub active: Arc<Memtable>,
    /// Sealed and not yet in the manifest, newest first.
    pub(crate) sealed: Vec<Flushable>,
    /// Files.
    pub version: Arc<Version>,
}

impl SuperVersion {
    /// The memtables, newest first.
    pub fn memtables(&self) -> impl Iterator<Item = &Arc<Memtable>> {
        std::iter::once(&self.active).chain(self.sealed.iter().filter_map(Flushable::memtable))
    }

    /// Bytes of the sealed memtables.
    pub fn sealed_bytes(&self) -> usize {
        self.memtables().skip(1).map(|memtable| memtable.bytes()).sum()
    }

    /// The newest version of a key at or below `snapshot`, tombstones included.
    pub(crate) fn newest(
        &self,
        family: FamilyId,
        key: &[u8],
        snapshot: Seq,
    ) -> Result<Option<KeyVersion<'_>>> {
        if let Some(entry) = self.active.get(family, key, snapshot) {
            return Ok(Some(KeyVersion::Memory(entry)));
        }
        for flushable in self.sealed.iter().skip(usize::from(mutant::is(Mutant::SealedUnread))) {
            if let Flushable::Memtable(memtable) = flushable {
                if let Some(entry) = memtable.get(family, key, snapshot) {
                    return Ok(Some(KeyVersion::Memory(entry)));
                }
            }
            for table in flushable.tables(family) {
                if let Some(hit) = table.get(key, hash_key(key), snapshot)? {
                    return Ok(Some(KeyVersion::Block(hit)));
                }
            }
        }
        let Some(levels) = self.version.family(family) else { return Ok(None) };
        let hash = hash_key(key);
        let deeper = levels.levels.iter().filter_map(|level| level.find(key));
        for table in levels.l0.iter().chain(deeper) {
            if let Some(hit) = table.get(key, hash, snapshot)? {
                return Ok(Some(KeyVersion::Block(hit)));
            }
        }
        Ok(None)
    }

    /// The runs of a family as `snapshot` sees them, newest first. Omits runs of level 0 whose filter
    /// excludes keys with `prefix` (an empty prefix omits none). They read ahead within `range`, which only tables
    /// ask for, and keep their memory and files even after the super version is dropped.
    pub fn iterators(
        &self,
        family: FamilyId,
        snapshot: Seq,
        prefix: &[u8],
        range: &dyn Fn() -> KeyRange,
    ) -> Result<Vec<Box<dyn InternalIterator>>> {
        let mut iterators: Vec<Box<dyn InternalIterator>> = Vec::with_capacity(4);
        let shared = OnceCell::new();
        let range = || shared.get_or_init(|| Arc::new(range()));
        if let Some(iter) = self.active.iter(family, snapshot) {
            iterators.push(Box::new(iter));
        }
        for flushable in &self.sealed {
            let memtable = flushable.memtable().and_then(|memtable| memtable.iter(family, snapshot));
            iterators.extend(memtable.map(|iter| Box::new(iter) as Box<dyn InternalIterator>));
            for table in flushable.tables(family) {
                if prefix.is_empty() || table.may_contain_prefix(prefix)? {
                    iterators.push(Box::new(table.iter_within(snapshot, range())));
                }
            }
        }
        if let Some(levels) = self.version.family(family) {
            for table in &levels.l0 {
                if prefix.is_empty() || table.may_contain_prefix(prefix)? {
                    iterators.push(Box::new(table.iter_within(snapshot, range())));
                }
            }
            for level in levels.levels.iter().filter(|level| !level.tables().is_empty()) {
                iterators.push(Box::new(LevelIterator::new(level.clone(), snapshot, Arc::clone(range()))));
            }
        }
        Ok(iterators)
    }

    /// The count of a family's rows: the sum over files, commits of runs, and memtables.
    pub fn row_count(&self, family: FamilyId) -> RowCount {
        let mut row_count = self.version.row_count(family);
        row_count += self.active.row_count(family);
        for flushable in &self.sealed {
            row_count += match flushable {
                Flushable::Memtable(memtable) => memtable.row_count(family),
                Flushable::Runs(runs) => runs.row_count(family),
            };
        }
        row_count
    }

    /// A key of a family at the place `share` (0 to 1): about this share of all entries stands before it.
    /// Versions count, memtables and files come one after the other. Evenly spaced places are a fair sample
    /// of the entries; their keys are not in order. `None` without entries.
    pub fn key_at(&self, family: FamilyId, share: f64) -> Result<Option<Vec<u8>>> {
        let sealed = self.sealed.iter().flat_map(|flushable| flushable.tables(family));
        let levels = self.version.family(family);
        let tables =
            || sealed.clone().chain(levels.iter().flat_map(|levels| levels.tables().map(|(_, table)| table)));
        let entries = self.memtables().map(|memtable| memtable.entries(family)).sum::<u64>()
            + tables().map(|table| table.meta().entries).sum::<u64>();
        let mut before = share.clamp(0.0, 1.0) * entries as f64;
        for memtable in self.memtables() {
            let own = memtable.entries(family) as f64;
            if before < own {
                return Ok(memtable.key_at(family, before / own));
            }
            before -= own;
        }
        for table in tables() {
            let own = table.meta().entries as f64;
            if before < own {
                return table.key_at(before / own).map(Some);
            }
            before -= own;
        }
        Ok(None)
    }

    /// Entries of a family in a range, from index blocks and memtable counts.
    pub fn estimate(&self, family: FamilyId, range: &KeyRange) -> Result<u64> {
        let mut rows: u64 = self.memtables().map(|memtable| memtable.estimate_range(family, range)).sum();
        for table in self.sealed.iter().flat_map(|flushable| flushable.tables(family)) {
            rows += table.estimate_range(range)?;
        }
        if let Some(levels) = self.version.family(family) {
            for (_, table) in levels.tables() {
                rows += table.estimate_range(range)?;
            }
        }
        Ok(rows)
    }
}
