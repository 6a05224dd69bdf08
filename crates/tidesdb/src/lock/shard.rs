//! One latch's share of a family's lock set: entries in a slab, found through an ordered index.
//! An entry's number stays the same while somebody has or wants its lock, so owners remember numbers
//! and not keys. Freed entries keep their buffers: in steady state nothing is allocated.

use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use super::index::OrderedIndex;
use super::key::{Probe, StoredKey};
use super::queue::Queue;
use crate::types::FamilyId;

/// Number of an entry within its shard.
pub(super) type EntryId = u32;

/// One locked key.
#[derive(Default)]
pub(super) struct Entry {
    pub(super) key: StoredKey,
    pub(super) queue: Queue,
}

/// Entries under one latch.
///
/// Invariant: `index` holds exactly the entries that somebody has or wants, in key order; all others
/// are in `free`. (The table's own entry is neither indexed nor freed.)
#[derive(Default)]
pub(super) struct Shard {
    entries: Vec<Entry>,
    index: OrderedIndex,
    free: Vec<EntryId>,
    is_table: bool,
}

impl Shard {
    fn of_table() -> Shard {
        Shard { entries: vec![Entry::default()], is_table: true, ..Shard::default() }
    }

    /// The entry of a key, made if there is none; who makes one and does not use it calls `tidy`.
    pub(super) fn find_or_insert(&mut self, probe: &Probe<'_>) -> EntryId {
        if self.is_table {
            return TABLE_ENTRY;
        }
        let entries = &self.entries;
        match self.index.search(probe, |id, probe| entries[id as usize].key.cmp_behind_head(probe)) {
            Ok(position) => self.index.id(position),
            Err(position) => {
                let id = self.free.pop().unwrap_or_else(|| {
                    self.entries.push(Entry::default());
                    (self.entries.len() - 1) as EntryId
                });
                self.entries[id as usize].key.set(probe);
                self.index.insert(position, probe.head, id);
                id
            }
        }
    }

    /// The entry of a key, if somebody has or wants its lock.
    pub(super) fn find(&self, probe: &Probe<'_>) -> Option<EntryId> {
        if self.is_table {
            return Some(TABLE_ENTRY);
        }
        self.index
            .search(probe, |id, probe| self.entries[id as usize].key.cmp_behind_head(probe))
            .ok()
            .map(|position| self.index.id(position))
    }

    pub(super) fn queue(&self, id: EntryId) -> &Queue {
        &self.entries[id as usize].queue
    }

    pub(super) fn queue_mut(&mut self, id: EntryId) -> &mut Queue {
        &mut self.entries[id as usize].queue
    }

    /// Frees an entry that nobody has or wants any more.
    pub(super) fn tidy(&mut self, id: EntryId) {
        let entry = &self.entries[id as usize];
        if self.is_table || !entry.queue.is_unused() {
            return;
        }
        let probe = entry.key.as_probe();
        let entries = &self.entries;
        let found = self.index.search(&probe, |id, probe| entries[id as usize].key.cmp_behind_head(probe));
        if let Ok(position) = found {
            self.index.remove(position);
        }
        let entry = &mut self.entries[id as usize];
        entry.key.clear();
        entry.queue.shrink();
        self.free.push(id);
    }

    /// Entries in use, in key order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry> {
        let table = self.is_table.then(|| &self.entries[TABLE_ENTRY as usize]);
        table.into_iter().chain(self.index.iter().map(|id| &self.entries[id as usize]))
    }

    /// Bytes on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        self.index.heap_bytes()
            + self.entries.capacity() * size_of::<Entry>()
            + self.free.capacity() * size_of::<EntryId>()
            + self.entries.iter().map(|e| e.key.heap_bytes() + e.queue.heap_bytes()).sum::<usize>()
    }
}

/// Number of the shard that holds a family's table lock, and of the one entry in it.
pub(super) const TABLE_SHARD: u32 = 0;
/// See [`TABLE_SHARD`].
pub(super) const TABLE_ENTRY: EntryId = 0;

/// The lock set of one family. Point locks are spread over shards by hash: unlike a split by range it
/// needs no moving of entries, and it also spreads the hottest place, the right edge of a table with
/// ascending keys. Within a shard keys are ordered; a range will be published in every shard.
pub(super) struct FamilyLocks {
    pub(super) family: FamilyId,
    /// The family whose table lock covers this one; `None`: its own.
    pub(super) table: Option<Arc<FamilyLocks>>,
    shards: Box<[Mutex<Shard>]>,
}

impl FamilyLocks {
    /// An empty set with `shards` (a power of two) shards for point locks.
    pub(super) fn new(family: FamilyId, shards: usize, table: Option<Arc<FamilyLocks>>) -> FamilyLocks {
        debug_assert!(shards.is_power_of_two());
        let points = (0..shards).map(|_| Mutex::new(Shard::default()));
        let shards = std::iter::once(Mutex::new(Shard::of_table())).chain(points).collect();
        FamilyLocks { family, table, shards }
    }

    /// The shard of a key.
    pub(super) fn shard_of(&self, probe: &Probe<'_>) -> u32 {
        1 + ((probe.hash() >> 32) as u32 & (self.shards.len() as u32 - 2))
    }

    /// Latches a shard.
    pub(super) fn latch(&self, shard: u32) -> MutexGuard<'_, Shard> {
        self.shards[shard as usize].lock()
    }

    /// Number of shards, the table's included.
    pub(super) fn shards(&self) -> u32 {
        self.shards.len() as u32
    }
}

/// Where a lock is.
#[derive(Clone)]
pub(super) struct Place {
    pub(super) locks: Arc<FamilyLocks>,
    pub(super) shard: u32,
    pub(super) id: EntryId,
}

impl Place {
    pub(super) fn latch(&self) -> MutexGuard<'_, Shard> {
        self.locks.latch(self.shard)
    }
}
