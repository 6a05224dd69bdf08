//! One latch's share of a family's lock set: entries in a slab, found through an ordered index. An entry's
//! number is constant while its lock has a holder or waiter, so owners keep numbers instead of keys. Freed
//! entries are reused: in steady state nothing is allocated. Their memory is freed if they are many, and when
//! the shard is idle.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::Arc;

use super::gap_set::{GapSet, Published, Span};
use super::implicit::ImplicitLocks;
use super::index::OrderedIndex;
use super::key::{Probe, StoredKey};
use super::mode::Mask;
use super::owner::LockOwner;
use super::queue::{GapConflict, Queue};
use super::slab::Slab;
use super::WaitObserver;
use crate::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard};
use crate::types::FamilyId;

/// Number of an entry within its shard.
pub(super) type EntryId = u32;

/// Most free entries kept by a shard without entries in use. A statement on a hundred thousand rows happens
/// once in a while, not in steady state.
const KEEP_FREE: usize = 256;

/// Grants and waits kept in memory for a table's lock: those of consecutive statements of many clients.
const KEEP_OF_TABLE: usize = 8;

/// One locked key.
#[derive(Default)]
pub(super) struct Entry {
    pub(super) key: StoredKey,
    pub(super) queue: Queue,
}

/// Entries under one latch.
///
/// Invariant: `index` has exactly the entries with a holder or waiter, in key order; all others are in
/// `free`. (The table's own entry is neither indexed nor freed.)
#[derive(Default)]
pub(super) struct Shard {
    entries: Slab<Entry>,
    index: OrderedIndex,
    free: Vec<EntryId>,
    recycles: u64,
    is_table: bool,
    /// `recycles` and entries at the last [`Shard::give_back_if_idle`].
    looked: (u64, usize),
}

impl Shard {
    fn of_table() -> Shard {
        let mut shard = Shard { is_table: true, ..Shard::default() };
        shard.entries.add();
        shard
    }

    /// The entry of a key, created if absent. A caller that does not use a new entry calls `tidy`.
    pub(super) fn find_or_insert(&mut self, probe: &Probe<'_>) -> EntryId {
        if self.is_table {
            return TABLE_ENTRY;
        }
        let entries = &self.entries;
        match self.index.search(probe, |id, probe| entries[id].key.cmp_after_head(probe)) {
            Ok(position) => self.index.id(position),
            Err(position) => {
                let id = match self.free.pop() {
                    Some(id) => {
                        self.recycles += 1;
                        id
                    }
                    None => self.entries.add(),
                };
                self.entries[id].key.set(probe);
                self.index.insert(position, probe.head, id);
                id
            }
        }
    }

    /// The entry of a key, if its lock has a holder or waiter.
    pub(super) fn find(&self, probe: &Probe<'_>) -> Option<EntryId> {
        if self.is_table {
            return Some(TABLE_ENTRY);
        }
        self.index
            .search(probe, |id, probe| self.entries[id].key.cmp_after_head(probe))
            .ok()
            .map(|position| self.index.id(position))
    }

    pub(super) fn key(&self, id: EntryId) -> &StoredKey {
        &self.entries[id].key
    }

    pub(super) fn entry(&self, id: EntryId) -> &Entry {
        &self.entries[id]
    }

    /// Reuses of an entry for another key.
    pub(super) fn recycles(&self) -> u64 {
        self.recycles
    }

    pub(super) fn queue(&self, id: EntryId) -> &Queue {
        &self.entries[id].queue
    }

    pub(super) fn queue_mut(&mut self, id: EntryId) -> &mut Queue {
        &mut self.entries[id].queue
    }

    /// An entry's queue, with the gap conflict of its key in `locks`.
    pub(super) fn with_gap_conflict<'a>(
        &'a mut self,
        locks: &'a FamilyLocks,
        id: EntryId,
    ) -> (&'a mut Queue, KeyGapConflict<'a>) {
        let Entry { key, queue } = &mut self.entries[id];
        let key = if self.is_table { GapConflictKey::Table } else { GapConflictKey::Stored(key) };
        (queue, KeyGapConflict { locks, key })
    }

    /// Like `with_gap_conflict`, read-only and without the queue.
    pub(super) fn gap_conflict_of<'a>(&'a self, locks: &'a FamilyLocks, id: EntryId) -> KeyGapConflict<'a> {
        let key = match self.is_table {
            true => GapConflictKey::Table,
            false => GapConflictKey::Stored(&self.entries[id].key),
        };
        KeyGapConflict { locks, key }
    }

    /// The owners blocking the wait of `owner` at an entry, owners of gap locks included.
    pub(super) fn blockers(
        &self,
        locks: &FamilyLocks,
        id: EntryId,
        owner: &LockOwner,
        mut each: impl FnMut(&Arc<LockOwner>),
    ) {
        let queue = self.queue(id);
        queue.blockers(owner, &mut each);
        if queue.wanted_by(owner) == Some(Mask::X) {
            self.gap_conflict_of(locks, id).owners(owner, each);
        }
    }

    /// The first `Some` of `pick` over the entries from `from` on and below `to`, in key order.
    pub(super) fn find_in<T>(
        &self,
        from: &[u8],
        to: Option<&[u8]>,
        mut pick: impl FnMut(EntryId, &Entry) -> Option<T>,
    ) -> Option<T> {
        if self.index.is_empty() {
            return None;
        }
        let (from, to) = (Probe::new(from), to.map(Probe::new));
        let start = self.index.search(&from, |id, probe| self.entries[id].key.cmp_after_head(probe));
        let start = start.unwrap_or_else(|position| position);
        for id in self.index.iter_from(start) {
            let entry = &self.entries[id];
            if to.as_ref().is_some_and(|to| entry.key.cmp(to) != Ordering::Less) {
                break;
            }
            if let Some(found) = pick(id, entry) {
                return Some(found);
            }
        }
        None
    }

    /// Frees an entry without holders and waiters.
    pub(super) fn tidy(&mut self, id: EntryId) {
        if !self.entries[id].queue.is_unused() {
            return;
        }
        if self.is_table {
            return self.queue_mut(id).shrink(KEEP_OF_TABLE);
        }
        let entry = &self.entries[id];
        let probe = entry.key.as_probe();
        let entries = &self.entries;
        let found = self.index.search(&probe, |id, probe| entries[id].key.cmp_after_head(probe));
        if let Ok(position) = found {
            self.index.remove(position);
        }
        let entry = &mut self.entries[id];
        entry.key.clear();
        entry.queue.shrink(0);
        self.free.push(id);
        if self.free.len() > KEEP_FREE && self.free.len() == self.entries.len() {
            self.give_back();
        }
    }

    fn give_back(&mut self) {
        *self = Shard { recycles: self.recycles, ..Shard::default() };
    }

    /// Frees the memory if no lock exists, and none has since the last call. A store may have very many
    /// families, few of them in use.
    fn give_back_if_idle(&mut self) {
        if self.is_table {
            if self.queue(TABLE_ENTRY).is_unused() {
                self.queue_mut(TABLE_ENTRY).shrink(0);
            }
            return;
        }
        let now = (self.recycles, self.entries.len());
        let is_idle =
            self.free.len() == self.entries.len() && std::mem::replace(&mut self.looked, now) == now;
        if is_idle && self.entries.len() > 0 {
            self.give_back();
        }
    }

    /// Entries in use, in key order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry> {
        let table = self.is_table.then(|| &self.entries[TABLE_ENTRY]);
        table.into_iter().chain(self.index.iter().map(|id| &self.entries[id]))
    }

    /// As `iter`, with their numbers.
    #[cfg(test)]
    pub(super) fn iter_numbered(&self) -> impl Iterator<Item = (EntryId, &Entry)> {
        let table = self.is_table.then_some(TABLE_ENTRY);
        table.into_iter().chain(self.index.iter()).map(|id| (id, &self.entries[id]))
    }

    /// Bytes on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        self.index.heap_bytes()
            + self.entries.heap_bytes()
            + self.free.capacity() * size_of::<EntryId>()
            + self.entries.iter().map(|e| e.key.heap_bytes() + e.queue.heap_bytes()).sum::<usize>()
    }
}

/// Number of the shard with a family's table lock, and of its only entry.
pub(super) const TABLE_SHARD: u32 = 0;
/// See [`TABLE_SHARD`].
pub(super) const TABLE_ENTRY: EntryId = 0;

/// The lock set of one family. Point locks are spread over shards by hash. In contrast to a split by range
/// this needs no moves of entries. It also spreads the hottest place, the right edge of a table with
/// ascending keys. Within a shard keys are ordered.
///
/// Gap locks are outside of the shards, under their own latch, taken last. The publisher of one raises
/// `published`, adds the gap lock, and then searches every shard for grants in its way. A grant of a key
/// checks for gap locks under the shard's latch. One of the two comes to this latch second and sees the
/// other. A family without gap locks thus costs a grant one load.
pub(super) struct FamilyLocks {
    pub(super) family: FamilyId,
    /// The family whose table lock covers this one; `None`: its own.
    pub(super) table: Option<Arc<FamilyLocks>>,
    shards: Box<[Mutex<Shard>]>,
    /// Number of owners in `ranges`.
    published: AtomicU32,
    /// Number of owners with priority in a wait for an exclusive lock on a key, or about to begin one.
    priority_waits: AtomicU32,
    ranges: RwLock<GapSet>,
    /// Locks without entries.
    pub(super) implicit: ImplicitLocks,
    observer: Option<Arc<dyn WaitObserver>>,
}

/// A key in the form for its gap conflict.
enum GapConflictKey<'a> {
    /// The lock on the table: no gap locks.
    Table,
    Bytes(&'a [u8]),
    Stored(&'a StoredKey),
}

/// The wait of an owner with priority in the count of its family, from before its beginning to its end.
///
/// Of the waiter and the publisher of a gap lock, one comes second to the latch of the gap locks. The waiter
/// sees the gap lock then, or the publisher sees the count and looks for the waiter.
pub(super) struct PriorityWait<'a>(&'a FamilyLocks);

impl PriorityWait<'_> {
    pub(super) fn begins(locks: &FamilyLocks) -> PriorityWait<'_> {
        locks.priority_waits.fetch_add(1, Relaxed);
        drop(locks.ranges.read());
        PriorityWait(locks)
    }
}

impl Drop for PriorityWait<'_> {
    fn drop(&mut self) {
        self.0.priority_waits.fetch_sub(1, Relaxed);
    }
}

/// The gap locks around one key.
pub(super) struct KeyGapConflict<'a> {
    locks: &'a FamilyLocks,
    key: GapConflictKey<'a>,
}

impl KeyGapConflict<'_> {
    /// Calls `each` for the owners whose gap locks keep `owner` from an exclusive lock on the key.
    pub(super) fn owners(&self, owner: &LockOwner, mut each: impl FnMut(&Arc<LockOwner>)) {
        if self.locks.published.load(Relaxed) == 0 {
            return;
        }
        let Some(key) = self.key() else { return };
        self.locks.ranges.read().others_with(owner, &key, |other| {
            if self.locks.gaps_conflict(owner, other) {
                each(other);
            }
        });
    }

    fn key(&self) -> Option<Cow<'_, [u8]>> {
        match self.key {
            GapConflictKey::Table => None,
            GapConflictKey::Bytes(key) => Some(Cow::Borrowed(key)),
            GapConflictKey::Stored(key) => Some(Cow::Owned(key.to_vec())),
        }
    }
}

impl GapConflict for KeyGapConflict<'_> {
    fn keeps_out(&self, owner: &LockOwner) -> bool {
        if self.locks.published.load(Relaxed) == 0 {
            return false;
        }
        let mut found = false;
        self.owners(owner, |_| found = true);
        found
    }

    fn is_of(&self, owner: &LockOwner) -> bool {
        // Of two appliers the one may not wait for the other's range, and is not to be passed over: `keeps_back`
        // asks about each waiter.
        !owner.is_applier()
            && self.locks.published.load(Relaxed) > 0
            && self.key().is_some_and(|key| self.locks.ranges.read().has(owner, &key))
    }

    fn keeps_back(&self, owner: &LockOwner, waiter: &LockOwner) -> bool {
        owner.is_applier()
            && self.locks.published.load(Relaxed) > 0
            && self.key().is_some_and(|key| self.locks.ranges.read().has(owner, &key))
            && self.locks.gaps_conflict(waiter, owner)
    }

    fn waits_for(&self, owner: &LockOwner, holder: &LockOwner) -> bool {
        self.locks.gaps_conflict(owner, holder)
    }
}

impl FamilyLocks {
    /// An empty set with `shards` (a power of two) shards for point locks.
    pub(super) fn new(
        family: FamilyId,
        shards: usize,
        table: Option<Arc<FamilyLocks>>,
        observer: Option<Arc<dyn WaitObserver>>,
    ) -> FamilyLocks {
        debug_assert!(shards.is_power_of_two());
        let points = (0..shards).map(|_| Mutex::new(Shard::default()));
        let shards = std::iter::once(Mutex::new(Shard::of_table())).chain(points).collect();
        let (published, priority_waits) = (AtomicU32::new(0), AtomicU32::new(0));
        let (ranges, implicit) = (RwLock::default(), ImplicitLocks::default());
        FamilyLocks { family, table, shards, published, priority_waits, ranges, implicit, observer }
    }

    /// The gap locks around a key without an entry.
    pub(super) fn gap_conflict<'a>(&'a self, key: &'a [u8]) -> KeyGapConflict<'a> {
        KeyGapConflict { locks: self, key: GapConflictKey::Bytes(key) }
    }

    /// Publishes a gap lock on `from..to` for the owner. The caller waits for earlier grants.
    pub(super) fn publish(&self, owner: &Arc<LockOwner>, from: &[u8], to: Option<&[u8]>) -> Published {
        let mut ranges = self.ranges.write();
        let mut done = ranges.publish(owner, from, to);
        if done.first {
            self.published.fetch_add(1, Relaxed);
        }
        done.meets_priority = self.has_priority_waits();
        done
    }

    /// True if an owner with priority may be waiting for an exclusive lock on a key.
    pub(super) fn has_priority_waits(&self) -> bool {
        self.priority_waits.load(Relaxed) > 0
    }

    /// Removes the owner's gap locks. The caller holds the wait latch, and then grants the waits they
    /// blocked.
    pub(super) fn withdraw(&self, owner: &LockOwner) -> Vec<Span> {
        let mut ranges = self.ranges.write();
        let spans = ranges.remove(owner);
        if !spans.is_empty() {
            self.published.fetch_sub(1, Relaxed);
            self.implicit.ranges_are_gone();
        }
        spans
    }

    /// The gap locks, locked for reading.
    pub(super) fn ranges(&self) -> RwLockReadGuard<'_, GapSet> {
        self.ranges.read()
    }

    /// True if an exclusive lock of one and a gap lock of the other conflict.
    pub(super) fn gaps_conflict(&self, a: &LockOwner, b: &LockOwner) -> bool {
        match &self.observer {
            Some(observer) if a.is_applier() && b.is_applier() => observer.gaps_conflict(a, b),
            _ => true,
        }
    }

    /// The shard of a key.
    pub(super) fn shard_of(&self, probe: &Probe<'_>) -> u32 {
        1 + ((probe.hash() >> 32) as u32 & (self.shards.len() as u32 - 2))
    }

    /// Like `shard_of`.
    pub(super) fn shard_of_key(&self, key: &[u8]) -> u32 {
        self.shard_of(&Probe::new(key))
    }

    /// Latches a shard.
    pub(super) fn latch(&self, shard: u32) -> MutexGuard<'_, Shard> {
        self.shards[shard as usize].lock()
    }

    /// See [`Shard::give_back_if_idle`]. Skips a shard whose latch is taken.
    pub(super) fn give_back_if_idle(&self) {
        self.shards.iter().filter_map(Mutex::try_lock).for_each(|mut shard| shard.give_back_if_idle());
    }

    /// Number of shards, the table's included.
    pub(super) fn shards(&self) -> u32 {
        self.shards.len() as u32
    }
}

/// A lock's place.
#[derive(Clone)]
pub(super) struct EntryPlace {
    pub(super) locks: Arc<FamilyLocks>,
    pub(super) shard: u32,
    pub(super) id: EntryId,
}

impl EntryPlace {
    pub(super) fn latch(&self) -> MutexGuard<'_, Shard> {
        self.locks.latch(self.shard)
    }
}
