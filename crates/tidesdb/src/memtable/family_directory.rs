//! The directory of a memtable's trees, from family number to tree: a hash table in the arena, read without
//! locks.
//!
//! Slots are filled under a mutex and never emptied. A half full table is copied into one of twice the size.
//! A family without writes costs nothing, a family with writes one slot in addition to its tree.

use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, Ordering};

use super::arena::Arena;
use super::tree::{Shape, Tree};
use crate::sync::Mutex;
use crate::types::FamilyId;

/// Slots of the first table. Every table size is a power of two.
const FIRST_TABLE: usize = 16;

/// Header of a table; `mask + 1` slots follow.
#[repr(C)]
struct DirectoryTable {
    mask: usize,
}

/// A reference to a table with lifetime `'a`.
#[derive(Clone, Copy)]
struct DirectoryTableRef<'a> {
    table: NonNull<DirectoryTable>,
    arena: std::marker::PhantomData<&'a Arena>,
}

impl<'a> DirectoryTableRef<'a> {
    fn new(arena: &'a Arena, slots: usize) -> DirectoryTableRef<'a> {
        let size = size_of::<DirectoryTable>() + slots * size_of::<AtomicPtr<Tree>>();
        let start = arena.alloc(size, align_of::<AtomicPtr<Tree>>());
        // SAFETY: the memory is this thread's alone, aligned and of this size; zeros are null pointers.
        unsafe {
            start.as_ptr().write_bytes(0, size);
            start.cast::<DirectoryTable>().write(DirectoryTable { mask: slots - 1 });
            DirectoryTableRef::from_raw(start.cast())
        }
    }

    /// # Safety
    /// The table was made by `new` in an arena with lifetime `'a`, and its construction happens before this
    /// call.
    unsafe fn from_raw(table: NonNull<DirectoryTable>) -> DirectoryTableRef<'a> {
        DirectoryTableRef { table, arena: std::marker::PhantomData }
    }

    fn slots(self) -> &'a [AtomicPtr<Tree>] {
        // SAFETY: `from_raw`; `new` made `mask + 1` slots after the header.
        unsafe {
            let slots = self.table.as_ptr().add(1).cast::<AtomicPtr<Tree>>();
            std::slice::from_raw_parts(slots, (*self.table.as_ptr()).mask + 1)
        }
    }

    fn trees(self) -> impl Iterator<Item = &'a Tree> {
        // SAFETY: slots hold only finished trees of the arena; Acquire pairs with the Release in `put`.
        self.slots().iter().filter_map(|slot| unsafe { slot.load(Ordering::Acquire).as_ref() })
    }

    #[inline]
    fn find(self, family: FamilyId) -> Option<&'a Tree> {
        let slots = self.slots();
        let mask = slots.len() - 1;
        let mut at = hash(family) & mask;
        loop {
            // SAFETY: as in `trees`. At most half of the slots are filled, so the search ends.
            let tree = unsafe { slots[at].load(Ordering::Acquire).as_ref() }?;
            if tree.family == family {
                return Some(tree);
            }
            at = (at + 1) & mask;
        }
    }

    /// Fills a free slot. Only under the directory's mutex or before the table is published.
    fn put(self, tree: &'a Tree) {
        let slots = self.slots();
        let mask = slots.len() - 1;
        let mut at = hash(tree.family) & mask;
        while !slots[at].load(Ordering::Relaxed).is_null() {
            at = (at + 1) & mask;
        }
        slots[at].store(ptr::from_ref(tree).cast_mut(), Ordering::Release);
    }
}

fn hash(family: FamilyId) -> usize {
    // Fibonacci hashing; the upper half of the product is the well-mixed one.
    (u64::from(family).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize
}

/// The trees of a memtable.
pub(super) struct Directory {
    table: AtomicPtr<DirectoryTable>,
    /// Number of trees; locked while one is added.
    count: Mutex<usize>,
}

impl Directory {
    pub(super) fn new() -> Directory {
        Directory { table: AtomicPtr::new(ptr::null_mut()), count: Mutex::new(0) }
    }

    /// The current table. `arena` must be the same for every call on this directory.
    fn table<'a>(&self, _arena: &'a Arena) -> Option<DirectoryTableRef<'a>> {
        // SAFETY: tables are made by `create` in the arena.
        NonNull::new(self.table.load(Ordering::Acquire))
            .map(|table| unsafe { DirectoryTableRef::from_raw(table) })
    }

    /// The tree of a family.
    #[inline]
    pub(super) fn find<'a>(&self, arena: &'a Arena, family: FamilyId) -> Option<&'a Tree> {
        self.table(arena)?.find(family)
    }

    /// The tree of a family, created if absent.
    pub(super) fn find_or_create<'a>(&self, arena: &'a Arena, family: FamilyId, shape: Shape) -> &'a Tree {
        match self.find(arena, family) {
            Some(tree) => tree,
            None => self.create(arena, family, shape),
        }
    }

    #[cold]
    fn create<'a>(&self, arena: &'a Arena, family: FamilyId, shape: Shape) -> &'a Tree {
        let mut count = self.count.lock();
        let old = self.table(arena);
        if let Some(tree) = old.and_then(|table| table.find(family)) {
            return tree;
        }
        let table = match old {
            Some(table) if (*count + 1) * 2 <= table.slots().len() => table,
            _ => {
                let slots = old.map_or(FIRST_TABLE, |table| table.slots().len() * 2);
                let table = DirectoryTableRef::new(arena, slots);
                old.into_iter().flat_map(DirectoryTableRef::trees).for_each(|tree| table.put(tree));
                self.table.store(table.table.as_ptr(), Ordering::Release);
                table
            }
        };
        let tree = Tree::new(arena, family, shape);
        table.put(tree);
        *count += 1;
        tree
    }

    /// All trees, in no order.
    pub(super) fn trees<'a>(&self, arena: &'a Arena) -> impl Iterator<Item = &'a Tree> {
        self.table(arena).into_iter().flat_map(DirectoryTableRef::trees)
    }
}
