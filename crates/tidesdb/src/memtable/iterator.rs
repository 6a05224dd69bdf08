//! A family of a memtable as an ordered stream: [`MemtableIterator`] for reads, [`MemtableVersionIterator`]
//! for flush.
//!
//! Both keep a position as a slot of a leaf at a version of the leaf. A step in an unchanged leaf reads the
//! neighbouring slot. After a change they search for their own key, which stays in the arena, and go on from
//! there. A key present during the whole life of an iterator is therefore neither missed nor repeated,
//! regardless of insertions.

use std::ptr::NonNull;
use std::sync::Arc;

use super::memtable::Memtable;
use super::node::{Header, NodeRef};
use super::record::{Record, RecordRef};
use super::tree::{Position, Tree};
use super::version_chain::{MemtableVersion, VersionRef};
use crate::error::Result;
use crate::iter::{InternalIterator, VersionIterator};
use crate::types::{Entry, FamilyId, Seq};

impl Memtable {
    /// An iterator over a family at a snapshot, tombstones included; keys without a visible version are
    /// skipped. None if the family has no entries here.
    pub fn iter(self: &Arc<Self>, family: FamilyId, snapshot: Seq) -> Option<MemtableIterator> {
        let tree = self.tree(family)?.tree;
        // SAFETY: the tree is one of this memtable's.
        Some(unsafe { MemtableIterator::new(Arc::clone(self), tree, snapshot) })
    }

    /// An iterator over all versions of a family, for flush. During writes to the memtable, versions hidden
    /// from every snapshot may be missing. None if the family has no entries here.
    pub fn version_iter(self: &Arc<Self>, family: FamilyId) -> Option<MemtableVersionIterator> {
        let tree = self.tree(family)?.tree;
        // SAFETY: the tree is one of this memtable's.
        Some(unsafe { MemtableVersionIterator::new(Arc::clone(self), tree) })
    }
}

/// A [`Position`] and a version of its key, without the lifetime.
#[derive(Clone, Copy)]
struct Stand {
    leaf: NonNull<Header>,
    leaf_version: u64,
    slot: usize,
    record: NonNull<Record>,
    version: NonNull<MemtableVersion>,
}

/// A tree, its memtable, and a place in the tree.
///
/// Invariant: every pointer here leads into the arena of `_alive`.
struct Cursor {
    tree: NonNull<Tree>,
    stand: Option<Stand>,
    _alive: Arc<Memtable>,
}

// SAFETY: the pointers are shared references in all but name, to data that is `Sync` and that the
// cursor keeps alive.
unsafe impl Send for Cursor {}

impl Cursor {
    /// # Safety
    /// `tree` is one of the memtable's.
    unsafe fn new(memtable: Arc<Memtable>, tree: &Tree) -> Cursor {
        Cursor { tree: NonNull::from(tree), stand: None, _alive: memtable }
    }

    fn tree(&self) -> &Tree {
        // SAFETY: the invariant of the type.
        unsafe { self.tree.as_ref() }
    }

    fn position(&self) -> Option<Position<'_>> {
        // SAFETY: the invariant of the type; positions were finished when they were found.
        self.stand.map(|stand| unsafe {
            Position {
                leaf: NodeRef::from_raw(stand.leaf),
                version: stand.leaf_version,
                slot: stand.slot,
                record: RecordRef::from_raw(stand.record),
            }
        })
    }

    fn stand_of(position: Position<'_>, version: VersionRef<'_>) -> Stand {
        Stand {
            leaf: position.leaf.as_raw(),
            leaf_version: position.version,
            slot: position.slot,
            record: position.record.as_raw(),
            version: version.as_raw(),
        }
    }

    fn key(&self) -> &[u8] {
        self.position().expect("an iterator is asked for its key only where it is valid").record.key()
    }

    fn version(&self) -> Option<VersionRef<'_>> {
        // SAFETY: the invariant of the type.
        self.stand.map(|stand| unsafe { VersionRef::from_raw(stand.version) })
    }

    fn entry(&self) -> Entry<'_> {
        self.version().expect("an iterator is asked for its entry only where it is valid").entry()
    }
}

/// An iterator over one family of a memtable at a snapshot. It keeps the memtable alive, and returned keys
/// and values live as long as the memtable. Its methods never fail.
pub struct MemtableIterator {
    cursor: Cursor,
    snapshot: Seq,
}

impl MemtableIterator {
    /// # Safety
    /// `tree` is one of the memtable's.
    unsafe fn new(memtable: Arc<Memtable>, tree: &Tree, snapshot: Seq) -> MemtableIterator {
        // SAFETY: promised by the caller.
        MemtableIterator { cursor: unsafe { Cursor::new(memtable, tree) }, snapshot }
    }

    /// Moves to the first visible key at `start` or, by `step`, after it.
    fn settle<'a>(
        &'a self,
        start: Option<Position<'a>>,
        step: impl Fn(&'a Tree, Position<'a>) -> Option<Position<'a>>,
    ) -> Option<Stand> {
        let mut position = start?;
        loop {
            if let Some(version) = position.record.chain().visible(self.snapshot) {
                return Some(Cursor::stand_of(position, version));
            }
            position = step(self.cursor.tree(), position)?;
        }
    }

    fn settle_forward(&mut self, start: impl for<'a> FnOnce(&'a Cursor) -> Option<Position<'a>>) {
        self.cursor.stand = self.settle(start(&self.cursor), Tree::next);
    }

    fn settle_backward(&mut self, start: impl for<'a> FnOnce(&'a Cursor) -> Option<Position<'a>>) {
        self.cursor.stand = self.settle(start(&self.cursor), Tree::prev);
    }
}

impl InternalIterator for MemtableIterator {
    fn seek_to_first(&mut self) -> Result<()> {
        self.settle_forward(|cursor| cursor.tree().first());
        Ok(())
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.settle_backward(|cursor| cursor.tree().last());
        Ok(())
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.settle_forward(|cursor| cursor.tree().seek(key, false));
        Ok(())
    }

    fn seek_for_prev(&mut self, key: &[u8]) -> Result<()> {
        self.settle_backward(|cursor| cursor.tree().seek_back(key, false));
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        self.settle_forward(|cursor| cursor.position().and_then(|at| cursor.tree().next(at)));
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        self.settle_backward(|cursor| cursor.position().and_then(|at| cursor.tree().prev(at)));
        Ok(())
    }

    fn valid(&self) -> bool {
        self.cursor.stand.is_some()
    }

    fn key(&self) -> &[u8] {
        self.cursor.key()
    }

    fn entry(&self) -> Entry<'_> {
        self.cursor.entry()
    }
}

/// An iterator over all versions of one family of a memtable: keys ascending, versions newest first. It keeps
/// the memtable alive. Its methods never fail.
pub struct MemtableVersionIterator {
    cursor: Cursor,
}

impl MemtableVersionIterator {
    /// # Safety
    /// `tree` is one of the memtable's.
    unsafe fn new(memtable: Arc<Memtable>, tree: &Tree) -> MemtableVersionIterator {
        // SAFETY: promised by the caller.
        MemtableVersionIterator { cursor: unsafe { Cursor::new(memtable, tree) } }
    }

    fn newest(position: Position<'_>) -> Stand {
        Cursor::stand_of(position, position.record.chain().head())
    }
}

impl VersionIterator for MemtableVersionIterator {
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.cursor.stand = self.cursor.tree().seek(key, false).map(Self::newest);
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        let older = self.cursor.version().and_then(VersionRef::next);
        self.cursor.stand = match (older, self.cursor.position()) {
            (Some(older), Some(position)) => Some(Cursor::stand_of(position, older)),
            (None, Some(position)) => self.cursor.tree().next(position).map(Self::newest),
            (_, None) => None,
        };
        Ok(())
    }

    fn valid(&self) -> bool {
        self.cursor.stand.is_some()
    }

    fn key(&self) -> &[u8] {
        self.cursor.key()
    }

    fn entry(&self) -> Entry<'_> {
        self.cursor.entry()
    }
}
