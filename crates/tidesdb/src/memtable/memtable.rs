//! The memtable: the writes of all families between two rotations.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;

use super::arena::{Arena, ArenaPool};
use super::family_directory::Directory;
use super::tree::{NewEntry, Shape, Tree};
use crate::iter::KeyRange;
use crate::sync::Mutex;
use crate::types::{CountEffect, Entry, FamilyId, Kind, MemtableId, RowCount, Seq, MAX_SEQ};
use crate::value_holds::{ValueFile, ValueHolds};

/// A memtable: the writes of all families between two rotations, ordered by key, each key with its versions
/// newest first.
///
/// Any number of threads insert and read at the same time. Readers take no lock. A reader waits only while
/// its own leaf is being changed, for some hundred nanoseconds. Until the memtable is dropped nothing moves
/// and no memory is reused, so keys and values are borrowed from it.
pub struct Memtable {
    id: MemtableId,
    shape: Shape,
    arena: Arena,
    directory: Directory,
    min_seq: AtomicU64,
    max_seq: AtomicU64,
    /// Holds on the value files that its entries point into.
    values: Mutex<ValueHolds>,
}

impl fmt::Debug for Memtable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Memtable({})", self.id)
    }
}

impl Memtable {
    /// An empty memtable. It takes no memory from the pool before the first insert.
    pub fn new(id: MemtableId, arena: ArenaPool) -> Memtable {
        Self::with_shape(id, arena, Shape::NORMAL)
    }

    pub(super) fn with_shape(id: MemtableId, arena: ArenaPool, shape: Shape) -> Memtable {
        Memtable {
            id,
            shape,
            arena: Arena::new(arena),
            directory: Directory::new(),
            min_seq: AtomicU64::new(MAX_SEQ),
            max_seq: AtomicU64::new(0),
            values: Mutex::default(),
        }
    }

    /// Keeps a value file while the memtable lives: before an entry that points into it is inserted.
    pub fn hold(&self, file: &Arc<ValueFile>) {
        self.values.lock().add(Arc::clone(file));
    }

    /// The memtable's number; it grows with every rotation.
    pub fn id(&self) -> MemtableId {
        self.id
    }

    /// Inserts one version. Idempotent: a repeated (family, key, seq) changes nothing. `done` is read under
    /// the latch of the change. If it is set, nothing is written; a delayed helper thus never writes into a
    /// sealed memtable.
    ///
    /// The insert cuts the tail of the key's chain after the newest version at or below `oldest_snapshot`. A
    /// chain with many versions above the oldest snapshot is cut only now and then. `key` has at most
    /// [`MAX_KEY_LEN`](crate::types::MAX_KEY_LEN) bytes, `value` at most
    /// [`MAX_VALUE_LEN`](crate::types::MAX_VALUE_LEN), `seq` is at most [`MAX_SEQ`].
    #[allow(clippy::too_many_arguments)] // An entry's five parts; a struct would be built and taken apart a row.
    pub fn insert(
        &self,
        family: FamilyId,
        key: &[u8],
        seq: Seq,
        kind: Kind,
        value: &[u8],
        done: &AtomicBool,
        oldest_snapshot: Seq,
    ) {
        self.tree_or_create(family).insert(key, seq, kind, value, done, oldest_snapshot);
    }

    /// The newest version of a key at or below `snapshot`; with [`MAX_SEQ`] the head of the chain.
    pub fn get(&self, family: FamilyId, key: &[u8], snapshot: Seq) -> Option<Entry<'_>> {
        self.tree(family)?.get(key, snapshot)
    }

    /// A handle for repeated operations on one family; none if the family has no entries here.
    pub fn tree(&self, family: FamilyId) -> Option<TreeRef<'_>> {
        let tree = self.directory.find(&self.arena, family)?;
        Some(TreeRef { memtable: self, tree })
    }

    /// Like [`Memtable::tree`], for writing: creates an absent tree.
    pub fn tree_or_create(&self, family: FamilyId) -> TreeRef<'_> {
        TreeRef { memtable: self, tree: self.directory.find_or_create(&self.arena, family, self.shape) }
    }

    /// Families with entries, ascending.
    pub fn families(&self) -> Vec<FamilyId> {
        let with_entries = self.directory.trees(&self.arena).filter(|tree| tree.entries() > 0);
        let mut families: Vec<_> = with_entries.map(|tree| tree.family).collect();
        families.sort_unstable();
        families
    }

    /// Bytes in use: keys, values, nodes and all overhead, without the unused rest of the last chunk.
    pub fn bytes(&self) -> usize {
        self.arena.bytes()
    }

    /// Number of versions inserted into a family, cut ones included.
    pub fn entries(&self, family: FamilyId) -> u64 {
        self.tree(family).map_or(0, |tree| tree.tree.entries())
    }

    /// Effect of the versions inserted into a family on its row count.
    pub fn row_count(&self, family: FamilyId) -> RowCount {
        self.tree(family).map_or(RowCount::ZERO, |tree| tree.row_count())
    }

    /// Smallest inserted sequence number, or [`MAX_SEQ`].
    pub fn min_seq(&self) -> Seq {
        self.min_seq.load(Ordering::Acquire)
    }

    /// Largest inserted sequence number, or 0.
    pub fn max_seq(&self) -> Seq {
        self.max_seq.load(Ordering::Acquire)
    }

    /// Approximate number of keys of a family in a range, each counted once. Exact if they fill few leaves,
    /// otherwise from the shape of the tree. The cost is a few searches.
    pub fn estimate_range(&self, family: FamilyId, range: &KeyRange) -> u64 {
        self.tree(family).map_or(0, |tree| tree.tree.estimate(range.lower.as_deref(), range.upper.as_deref()))
    }

    /// A key of a family after about this share (0 to 1) of its keys.
    pub fn key_at(&self, family: FamilyId, share: f64) -> Option<Vec<u8>> {
        self.tree(family).and_then(|tree| tree.tree.key_at(share))
    }

    /// Widens the range of sequence numbers. Called before the insert, so a reader finds every version inside
    /// the range.
    #[inline]
    fn cover(&self, seq: Seq) {
        if seq < self.min_seq.load(Ordering::Relaxed) {
            self.min_seq.fetch_min(seq, Ordering::AcqRel);
        }
        if seq > self.max_seq.load(Ordering::Relaxed) {
            self.max_seq.fetch_max(seq, Ordering::AcqRel);
        }
    }
}

/// One family in one memtable.
#[derive(Clone, Copy)]
pub struct TreeRef<'g> {
    memtable: &'g Memtable,
    pub(super) tree: &'g Tree,
}

impl<'g> TreeRef<'g> {
    /// Like [`Memtable::insert`].
    pub fn insert(
        &self,
        key: &[u8],
        seq: Seq,
        kind: Kind,
        value: &[u8],
        done: &AtomicBool,
        oldest_snapshot: Seq,
    ) {
        self.insert_counted(key, seq, (kind, CountEffect::Counts), value, done, oldest_snapshot);
    }

    /// Like [`Memtable::insert`], for a change with this effect.
    pub fn insert_counted(
        &self,
        key: &[u8],
        seq: Seq,
        (kind, effect): (Kind, CountEffect),
        value: &[u8],
        done: &AtomicBool,
        oldest_snapshot: Seq,
    ) {
        // Before anything is written: a value with a wrong length would be found out too late.
        assert!(key.len() <= crate::types::MAX_KEY_LEN && value.len() <= crate::types::MAX_VALUE_LEN);
        assert!(seq <= MAX_SEQ);
        if done.load(Ordering::Acquire) {
            return;
        }
        self.memtable.cover(seq);
        self.tree.insert(
            &self.memtable.arena,
            NewEntry { key, seq, kind, effect, value },
            done,
            oldest_snapshot,
        );
    }

    /// Like [`Memtable::get`].
    #[inline]
    pub fn get(&self, key: &[u8], snapshot: Seq) -> Option<Entry<'g>> {
        self.tree.find(&self.memtable.arena, key)?.chain().visible(snapshot).map(|version| version.entry())
    }

    /// Number of different keys.
    pub fn keys(&self) -> u64 {
        self.tree.keys()
    }

    /// Number of versions inserted, cut ones included.
    pub fn entries(&self) -> u64 {
        self.tree.entries()
    }

    /// Number of tombstones inserted, cut ones included.
    pub fn tombstones(&self) -> u64 {
        self.tree.tombstones()
    }

    /// Bytes of inserted keys and values, cut versions included; the key counts for each version.
    pub fn raw_bytes(&self) -> u64 {
        self.tree.raw_bytes()
    }

    /// Bytes of keys and of their newest values.
    pub fn live_bytes(&self) -> u64 {
        self.tree.live_bytes()
    }

    /// Effect of the inserted versions on the row count. Exact for every fully inserted commit.
    pub fn row_count(&self) -> RowCount {
        self.tree.row_count()
    }

    /// True if the family's hash index is complete; none without an index.
    #[cfg(test)]
    pub(super) fn has_whole_index(&self) -> Option<bool> {
        self.tree.index.current().map(|table| table.is_complete())
    }
}
