//! The ordered index of one family: a B+tree of [`NodeRef`]s over the records of an arena.
//!
//! Records are only added, so the tree is simpler than a general one. A separator is the first record of the
//! leaf to its right and stays there. Every leaf but the left-most thus has its lower bound, and a search for
//! "the last key below" ends in one leaf. Writers latch one leaf (for a split: parent and node). The version
//! chain of an existing key changes without a latch of the tree.

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use super::arena::Arena;
use super::hash_build::Build;
use super::hash_index::{hash_of, HashIndex, Lookup};
use super::node::{Header, NodeRef, Rank, Restart, SearchKey};
use super::record::RecordRef;
use super::version_chain::{Added, MemtableVersion, VersionRef};
use crate::types::{CountEffect, FamilyId, Kind, RowCount, Seq};

/// Fan-outs of a tree's nodes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Records of a tree's first leaf; it grows fourfold up to the size of the others.
    pub(super) first_leaf: usize,
    /// Records of a leaf, two or more.
    pub(super) leaf: usize,
    /// Records of an inner node, three or more.
    pub(super) inner: usize,
}

impl Shape {
    /// The shape for memtables: the heads of a node fill eight cache lines.
    pub(super) const NORMAL: Shape = Shape { first_leaf: 4, leaf: 64, inner: 64 };
}

/// An ordered index, in the arena of its nodes and records.
pub(super) struct Tree {
    pub(super) family: FamilyId,
    /// Like `rows`. 32 bits suffice for the versions of a memtable.
    uncounted: AtomicU32,
    shape: Shape,
    root: AtomicPtr<Header>,
    keys: AtomicU64,
    entries: AtomicU64,
    tombstones: AtomicU64,
    raw_bytes: AtomicU64,
    live_bytes: AtomicI64,
    /// Effect of the versions on the row count. A version is counted before readers can find it (see
    /// [`Tree::count_entry`]). A reader of a commit's last version thus finds the whole commit counted.
    rows: AtomicI64,
    /// The hash index from key to record, created once point reads justify it.
    pub(super) index: HashIndex,
    pub(super) build: Build,
}

/// Distance, in keys, at which a scan prefetches records.
const AHEAD: usize = 4;

/// One version to insert.
#[derive(Clone, Copy)]
pub(super) struct NewEntry<'e> {
    pub(super) key: &'e [u8],
    pub(super) seq: Seq,
    pub(super) kind: Kind,
    pub(super) effect: CountEffect,
    pub(super) value: &'e [u8],
}

/// A descent's target.
#[derive(Clone, Copy)]
pub(super) enum Way<'s, 'k> {
    /// To the leaf where the key is or belongs.
    To(&'s SearchKey<'k>),
    /// To the leaf of the last key below the key.
    Below(&'s SearchKey<'k>),
    First,
    Last,
}

/// A key found in a leaf: while the leaf has this version, the key is in this slot.
#[derive(Clone, Copy)]
pub(super) struct Position<'a> {
    pub(super) leaf: NodeRef<'a>,
    pub(super) version: u64,
    pub(super) slot: usize,
    pub(super) record: RecordRef<'a>,
}

impl Tree {
    /// An empty tree in `arena`.
    pub(super) fn new(arena: &Arena, family: FamilyId, shape: Shape) -> &Tree {
        let root = NodeRef::new(arena, 0, shape.first_leaf.min(shape.leaf));
        let tree = arena.alloc(size_of::<Tree>(), align_of::<Tree>()).cast::<Tree>();
        // SAFETY: fresh memory of the right size and alignment, which lives as long as the arena.
        unsafe {
            tree.write(Tree {
                family,
                shape,
                root: AtomicPtr::new(root.as_raw().as_ptr()),
                keys: AtomicU64::new(0),
                entries: AtomicU64::new(0),
                tombstones: AtomicU64::new(0),
                raw_bytes: AtomicU64::new(0),
                live_bytes: AtomicI64::new(0),
                rows: AtomicI64::new(0),
                uncounted: AtomicU32::new(0),
                index: HashIndex::new(),
                build: Build::new(),
            });
            &*tree.as_ptr()
        }
    }

    /// Number of keys.
    pub(super) fn keys(&self) -> u64 {
        self.keys.load(Ordering::Relaxed)
    }

    /// Number of versions inserted.
    pub(super) fn entries(&self) -> u64 {
        self.entries.load(Ordering::Relaxed)
    }

    /// Number of tombstones inserted.
    pub(super) fn tombstones(&self) -> u64 {
        self.tombstones.load(Ordering::Relaxed)
    }

    /// Bytes of inserted keys and values; the key counts for each version.
    pub(super) fn raw_bytes(&self) -> u64 {
        self.raw_bytes.load(Ordering::Relaxed)
    }

    /// Bytes of keys and of their newest values.
    pub(super) fn live_bytes(&self) -> u64 {
        self.live_bytes.load(Ordering::Relaxed).max(0) as u64
    }

    /// Effect of the inserted versions on the row count.
    pub(super) fn row_count(&self) -> RowCount {
        RowCount {
            rows: self.rows.load(Ordering::Relaxed),
            uncounted: self.uncounted.load(Ordering::Relaxed).into(),
        }
    }

    /// The root, with one of its versions from its time as the root.
    #[inline]
    pub(super) fn root(&self) -> (NodeRef<'_>, u64) {
        loop {
            let root = self.root.load(Ordering::Acquire);
            let node = ptr::NonNull::new(root).expect("a tree has a root from the start");
            // SAFETY: the root is a finished node of the tree's arena.
            let node: NodeRef<'_> = unsafe { NodeRef::from_raw(node) };
            let version = node.read_version();
            if self.root.load(Ordering::Acquire) == root {
                return (node, version);
            }
        }
    }

    /// One step down from `node` at `version`: the child and its version.
    #[inline]
    pub(super) fn step<'a>(
        node: NodeRef<'a>,
        version: u64,
        way: Way<'_, '_>,
    ) -> Result<(NodeRef<'a>, u64), Restart> {
        let index = match way {
            Way::To(key) => node.rank(key)?.through(),
            Way::Below(key) => node.rank(key)?.below,
            Way::First => 0,
            Way::Last => node.count(),
        };
        let child = node.child(index)?;
        child.prefetch_search();
        let child_version = child.read_version();
        // The child was the right one when its version was read.
        if node.validate(version) {
            Ok((child, child_version))
        } else {
            Err(Restart)
        }
    }

    #[inline]
    pub(super) fn try_descend(&self, way: Way<'_, '_>) -> Result<(NodeRef<'_>, u64), Restart> {
        let (mut node, mut version) = self.root();
        while node.level() > 0 {
            (node, version) = Self::step(node, version, way)?;
        }
        Ok((node, version))
    }

    /// Repeats `attempt` until no writer interferes.
    #[inline]
    pub(super) fn retry<T>(mut attempt: impl FnMut() -> Result<T, Restart>) -> T {
        loop {
            if let Ok(result) = attempt() {
                return result;
            }
        }
    }

    // --- writing ---

    /// Inserts one version; see `Memtable::insert`. Returns true if the tree changed.
    pub(super) fn insert(
        &self,
        arena: &Arena,
        new: NewEntry<'_>,
        done: &AtomicBool,
        oldest_snapshot: Seq,
    ) -> bool {
        let done = || done.load(Ordering::Acquire);
        let mut hash = None;
        if let Some(table) = self.index.current() {
            let hash = *hash.insert(hash_of(new.key));
            if let Lookup::Found(record) = table.look_up(hash, new.key) {
                table.note_search();
                return self.add_version(arena, record, new, None, done, oldest_snapshot);
            }
        }
        let key = SearchKey::new(new.key);
        // Made at most once, whatever is tried again; in an existing chain only its version is used.
        let mut fresh: Option<(RecordRef<'_>, ptr::NonNull<MemtableVersion>)> = None;
        loop {
            if done() {
                return false;
            }
            let Ok((leaf, version)) = self.try_descend(Way::To(&key)) else { continue };
            let Ok(Rank { below: slot, exact }) = leaf.rank(&key) else { continue };
            if exact {
                let Ok(record) = leaf.record(slot) else { continue };
                // A torn read could have moved the slot to another key.
                if !leaf.validate(version) {
                    continue;
                }
                return self.add_version(
                    arena,
                    record,
                    new,
                    fresh.map(|fresh| fresh.1),
                    done,
                    oldest_snapshot,
                );
            }
            if leaf.is_full() {
                // A torn count only makes this split a leaf early.
                self.split_for(arena, &key);
                continue;
            }
            let make = || RecordRef::new(arena, new.key, new.seq, new.kind, new.value);
            let (record, _) = *fresh.get_or_insert_with(make);
            if !leaf.try_latch(version) {
                continue;
            }
            if done() {
                leaf.unlatch_unchanged();
                return false;
            }
            self.count_entry(&new, None);
            leaf.insert(slot, record, None);
            // Which table is the current one is asked under the latch; see `hash_index`.
            if let Some(table) = self.index.current() {
                table.put(arena, hash.unwrap_or_else(|| hash_of(new.key)), record);
            }
            leaf.unlatch();
            let keys = self.keys.fetch_add(1, Ordering::Relaxed) + 1;
            self.note_key(arena, keys);
            return true;
        }
    }

    /// Inserts one version of a key with a record. `version` is the finished version, if one exists. Returns
    /// true if the chain changed.
    #[inline]
    fn add_version(
        &self,
        arena: &Arena,
        record: RecordRef<'_>,
        new: NewEntry<'_>,
        version: Option<ptr::NonNull<MemtableVersion>>,
        done: impl Fn() -> bool,
        oldest_snapshot: Seq,
    ) -> bool {
        let chain = record.chain();
        if chain.contains(new.seq) {
            return false;
        }
        let version = version.unwrap_or_else(|| {
            let at = arena.alloc(MemtableVersion::size(new.value.len()), 8);
            // SAFETY: fresh memory of this size, aligned to 8.
            unsafe { MemtableVersion::write(at, new.seq, new.kind, new.value) }
        });
        // SAFETY: written for this insert, in no chain yet, in the arena that the chain lives in.
        let added = unsafe {
            chain.add(version, done, |newest| self.count_entry(&new, Some(newest)), oldest_snapshot)
        };
        added == Added::Linked
    }

    /// Counts a version about to be linked, under the latch of the link: once for any number of helpers, and
    /// before readers can find it. A helper that finds the version linked may announce the commit, and a
    /// flush then writes the counts to the manifest. `newest` is the version at the key's head so far.
    fn count_entry(&self, new: &NewEntry<'_>, newest: Option<VersionRef<'_>>) {
        let live = match newest {
            None => (new.key.len() + new.value.len()) as i64,
            Some(newest) if newest.seq() < new.seq => new.value.len() as i64 - newest.value().len() as i64,
            Some(_) => 0,
        };
        if live != 0 {
            self.live_bytes.fetch_add(live, Ordering::Relaxed);
        }
        let row_count = new.effect.row_count(new.kind);
        if row_count.rows != 0 {
            self.rows.fetch_add(row_count.rows, Ordering::Relaxed);
        }
        if row_count.uncounted != 0 {
            self.uncounted.fetch_add(1, Ordering::Relaxed);
        }
        self.entries.fetch_add(1, Ordering::Relaxed);
        self.raw_bytes.fetch_add((new.key.len() + new.value.len()) as u64, Ordering::Relaxed);
        if new.kind.is_tombstone() {
            self.tombstones.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Makes room on the path to the key. Splits (or grows) at least one node per call: the first full one
    /// from the top that blocks the insert. Ends when the leaf has room or has been split.
    #[cold]
    fn split_for(&self, arena: &Arena, key: &SearchKey<'_>) {
        while matches!(self.try_split_for(arena, key), Err(Restart) | Ok(true)) {}
    }

    /// Splits one node; true if more splits may be needed.
    fn try_split_for(&self, arena: &Arena, key: &SearchKey<'_>) -> Result<bool, Restart> {
        let (mut node, mut version) = self.root();
        let mut parent: Option<(NodeRef<'_>, u64)> = None;
        loop {
            if node.is_full() {
                let rank = node.rank(key)?;
                self.split_node(arena, parent, node, version, rank.through())?;
                return Ok(node.level() > 0);
            }
            if node.level() == 0 {
                return if node.validate(version) { Ok(false) } else { Err(Restart) };
            }
            let (child, child_version) = Self::step(node, version, Way::To(key))?;
            parent = Some((node, version));
            (node, version) = (child, child_version);
        }
    }

    /// Splits the full `node`, whose `parent` is not full; `slot` is the place of the insert. A failure
    /// changes nothing.
    fn split_node<'a>(
        &'a self,
        arena: &'a Arena,
        parent: Option<(NodeRef<'a>, u64)>,
        node: NodeRef<'a>,
        version: u64,
        slot: usize,
    ) -> Result<(), Restart> {
        if let Some((parent, parent_version)) = parent {
            if !parent.try_latch(parent_version) {
                return Err(Restart);
            }
        }
        let latched = node.try_latch(version);
        // A node without parent must still be the root; its latch keeps it so.
        let in_place =
            latched && (parent.is_some() || self.root.load(Ordering::Acquire) == node.as_raw().as_ptr());
        if !in_place {
            if latched {
                node.unlatch_unchanged();
            }
            if let Some((parent, _)) = parent {
                parent.unlatch_unchanged();
            }
            return Err(Restart);
        }
        match parent {
            Some((parent, _)) => {
                let (separator, right) = node.split(arena, slot);
                let key = SearchKey::new(separator.key());
                let at = parent.rank(&key).expect("the latch keeps the parent as it is").below;
                parent.insert(at, separator, Some(right));
                parent.unlatch();
            }
            None if node.level() == 0 && node.capacity() < self.shape.leaf => {
                let grown = node.grown(arena, (node.capacity() * 4).min(self.shape.leaf));
                self.root.store(grown.as_raw().as_ptr(), Ordering::Release);
            }
            None => {
                let (separator, right) = node.split(arena, slot);
                let root = NodeRef::new(arena, node.level() + 1, self.shape.inner);
                root.set_first_child(node);
                root.insert(0, separator, Some(right));
                self.root.store(root.as_raw().as_ptr(), Ordering::Release);
            }
        }
        node.unlatch();
        Ok(())
    }

    // --- reading ---

    /// The record of a key.
    #[inline]
    pub(super) fn find<'a>(&'a self, arena: &'a Arena, key: &[u8]) -> Option<RecordRef<'a>> {
        match self.index.find(key) {
            Lookup::Found(record) => Some(record),
            Lookup::Absent => None,
            Lookup::Unknown => {
                let (found, leaf) = self.find_by_descent(key);
                self.note_descent(arena, leaf);
                found
            }
        }
    }

    /// Like `find`, with the leaf where the key is or belongs.
    #[inline]
    fn find_by_descent(&self, key: &[u8]) -> (Option<RecordRef<'_>>, NodeRef<'_>) {
        let key = SearchKey::new(key);
        Self::retry(|| {
            let (leaf, version) = self.try_descend(Way::To(&key))?;
            let rank = leaf.rank(&key)?;
            let record = if rank.exact { Some(leaf.record(rank.below)?) } else { None };
            if leaf.validate(version) {
                Ok((record, leaf))
            } else {
                Err(Restart)
            }
        })
    }

    #[inline]
    fn position<'a>(leaf: NodeRef<'a>, version: u64, slot: usize) -> Result<Position<'a>, Restart> {
        let record = leaf.record(slot)?;
        if leaf.validate(version) {
            Ok(Position { leaf, version, slot, record })
        } else {
            Err(Restart)
        }
    }

    /// The key in `slot`, or the first key of the leaf to the right if the leaf ends before the slot.
    #[inline]
    pub(super) fn at_or_right<'a>(
        leaf: NodeRef<'a>,
        version: u64,
        slot: usize,
    ) -> Result<Option<Position<'a>>, Restart> {
        if slot < leaf.count() {
            return Self::position(leaf, version, slot).map(Some);
        }
        let next = leaf.next();
        if !leaf.validate(version) {
            return Err(Restart);
        }
        // Its lower bound is its first key and above everything that was in this leaf.
        Ok(next.map(|next| Self::retry(|| Self::position(next, next.read_version(), 0))))
    }

    /// The first key.
    pub(super) fn first(&self) -> Option<Position<'_>> {
        Self::retry(|| {
            let (leaf, version) = self.try_descend(Way::First)?;
            Self::at_or_right(leaf, version, 0)
        })
    }

    /// The last key.
    pub(super) fn last(&self) -> Option<Position<'_>> {
        Self::retry(|| {
            let (leaf, version) = self.try_descend(Way::Last)?;
            match leaf.count().checked_sub(1) {
                Some(slot) => Self::position(leaf, version, slot).map(Some),
                None if leaf.validate(version) => Ok(None),
                None => Err(Restart),
            }
        })
    }

    /// The first key at or above `key` (`past`: above).
    pub(super) fn seek(&self, key: &[u8], past: bool) -> Option<Position<'_>> {
        let key = SearchKey::new(key);
        Self::retry(|| {
            let (leaf, version) = self.try_descend(Way::To(&key))?;
            let rank = leaf.rank(&key)?;
            Self::at_or_right(leaf, version, if past { rank.through() } else { rank.below })
        })
    }

    /// The last key at or below `key` (`past`: below).
    pub(super) fn seek_back(&self, key: &[u8], past: bool) -> Option<Position<'_>> {
        let key = SearchKey::new(key);
        Self::retry(|| {
            let (leaf, version) = self.try_descend(if past { Way::Below(&key) } else { Way::To(&key) })?;
            let rank = leaf.rank(&key)?;
            let upto = if past { rank.below } else { rank.through() };
            match upto.checked_sub(1) {
                Some(slot) => Self::position(leaf, version, slot).map(Some),
                // Only in the left-most leaf: any other holds its lower bound.
                None if leaf.validate(version) => Ok(None),
                None => Err(Restart),
            }
        })
    }

    #[cold]
    #[inline(never)]
    fn seek_past<'a>(&'a self, record: RecordRef<'a>) -> Option<Position<'a>> {
        self.seek(record.key(), true)
    }

    #[cold]
    #[inline(never)]
    fn seek_before<'a>(&'a self, record: RecordRef<'a>) -> Option<Position<'a>> {
        self.seek_back(record.key(), true)
    }

    /// The key after a position.
    #[inline]
    pub(super) fn next<'a>(&'a self, at: Position<'a>) -> Option<Position<'a>> {
        at.leaf.prefetch_record(at.slot + 1 + AHEAD);
        match Self::at_or_right(at.leaf, at.version, at.slot + 1) {
            Ok(next) => next,
            Err(Restart) => self.seek_past(at.record),
        }
    }

    /// The key before a position.
    #[inline]
    pub(super) fn prev<'a>(&'a self, at: Position<'a>) -> Option<Position<'a>> {
        at.leaf.prefetch_record(at.slot.wrapping_sub(1 + AHEAD));
        match at.slot.checked_sub(1).map(|slot| Self::position(at.leaf, at.version, slot)) {
            Some(Ok(prev)) => Some(prev),
            _ => self.seek_before(at.record),
        }
    }
}
