//! The creation and the filling of a tree's [`HashIndex`](super::hash_index::HashIndex). Readers and
//! inserters fill it, a leaf at a time, alongside all other work.
//!
//! Point reads decide on it. The tree counts descents to another leaf than the previous one. It makes an
//! index after an eighth as many descents as keys. The descents must also be twice as many as the new keys
//! meanwhile. Thus three kinds of work pay nothing: families not read by key (a secondary index, recovery),
//! loads with a duplicate check for every insert, and reads in key order. A full table without any search in
//! it is not replaced.

use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use super::arena::Arena;
use super::hash_index::{hash_of, HashTableRef};
use super::node::{Header, NodeRef, Restart};
use super::tree::{Tree, Way};
use crate::sync::Mutex;

/// Fewest keys of a tree with an index; the nodes of smaller trees stay in the processor's cache.
const FEWEST_KEYS: u64 = if cfg!(any(test, loom)) { 100 } else { 1024 };

/// The cost of a descent, in keys filled into a table.
const KEYS_PER_DESCENT: u64 = 8;

/// The cost of a new key in a table, in point reads saved by the table.
const DESCENTS_PER_NEW_KEY: u64 = 2;

/// Slots of a new table for each key: a third of them are used. The table is full at [`FULL_AT`] times its
/// first number of keys, with three quarters used.
const SLOTS_PER_KEY: u64 = 3;
const FULL_AT: (u64, u64) = (9, 4);

/// The state of the filling of a tree's newest table.
pub(super) struct Build {
    /// Held for publishing a table and for a step of filling; no thread waits for it.
    turn: Mutex<()>,
    /// The next leaf to fill from; null while no table is being filled. Only under `turn`.
    leaf: AtomicPtr<Header>,
    // What decides when there is to be a table. Lossy, because it decides nothing else.
    /// Point reads with a descent to another leaf than the last, since the last decision.
    descents: AtomicU64,
    /// Number of keys at the last decision.
    keys_then: AtomicU64,
    /// The leaf of the last of these reads; compared and never followed.
    last_leaf: AtomicPtr<Header>,
}

impl Build {
    pub(super) fn new() -> Build {
        Build {
            turn: Mutex::new(()),
            leaf: AtomicPtr::new(ptr::null_mut()),
            descents: AtomicU64::new(0),
            keys_then: AtomicU64::new(0),
            last_leaf: AtomicPtr::new(ptr::null_mut()),
        }
    }
}

impl Tree {
    /// Notes a point read that descended the tree to `leaf`.
    #[inline]
    pub(super) fn note_descent(&self, arena: &Arena, leaf: NodeRef<'_>) {
        if self.keys() >= FEWEST_KEYS {
            self.count_descent(arena, leaf);
        }
    }

    #[inline(never)]
    fn count_descent(&self, arena: &Arena, leaf: NodeRef<'_>) {
        if self.index.current().is_some_and(HashTableRef::is_filling) {
            return self.fill_step(arena);
        }
        let build = &self.build;
        let leaf = leaf.as_raw().as_ptr();
        if build.last_leaf.load(Ordering::Relaxed) == leaf {
            return;
        }
        build.last_leaf.store(leaf, Ordering::Relaxed);
        let descents = build.descents.load(Ordering::Relaxed) + 1;
        build.descents.store(descents, Ordering::Relaxed);
        let keys = self.keys();
        if descents * KEYS_PER_DESCENT >= keys {
            let new_keys = keys.saturating_sub(build.keys_then.load(Ordering::Relaxed));
            build.descents.store(0, Ordering::Relaxed);
            build.keys_then.store(keys, Ordering::Relaxed);
            if descents >= new_keys * DESCENTS_PER_NEW_KEY {
                self.begin_table(arena);
            }
        }
    }

    /// Notes a new key, the `keys`th.
    #[inline]
    pub(super) fn note_key(&self, arena: &Arena, keys: u64) {
        if let Some(table) = self.index.current() {
            if table.is_filling() {
                self.fill_step(arena);
            } else if keys >= table.limit() {
                self.begin_table(arena);
            }
        }
    }

    /// Publishes an empty table for the present number of keys, if there is none or it is full. A full table
    /// without searches is replaced by none. Later calls fill the table.
    #[cold]
    fn begin_table(&self, arena: &Arena) {
        let Some(_turn) = self.build.turn.try_lock() else { return };
        let keys = self.keys();
        let old = self.index.current();
        // A table that became lossy before it was filled stays as it is until it is full.
        if old.is_some_and(|old| old.is_filling() || keys < old.limit()) {
            return;
        }
        if old.is_some_and(|old| !old.was_searched()) {
            self.index.publish(None);
            return;
        }
        // The left-most leaf under an inner node stays so for ever; a leaf that is the root may be
        // replaced by a larger one.
        let (root, _) = self.root();
        if root.level() == 0 {
            return;
        }
        let (leaf, _) = Self::retry(|| self.try_descend(Way::First));
        let limit = keys * FULL_AT.0 / FULL_AT.1;
        let slots = usize::try_from(keys * SLOTS_PER_KEY).expect("fewer slots than bytes of keys");
        let table = HashTableRef::new(arena, slots, limit, old.filter(|old| old.is_complete()));
        self.index.publish(Some(table));
        self.build.leaf.store(leaf.as_raw().as_ptr(), Ordering::Relaxed);
    }

    /// Puts the records of one leaf into the table being filled, unless another thread is doing so.
    #[cold]
    fn fill_step(&self, arena: &Arena) {
        let Some(_turn) = self.build.turn.try_lock() else { return };
        let (Some(leaf), Some(table)) =
            (NonNull::new(self.build.leaf.load(Ordering::Relaxed)), self.index.current())
        else {
            return;
        };
        // SAFETY: `begin_table` or an earlier step put a leaf of this tree there, under `turn`.
        let leaf: NodeRef<'_> = unsafe { NodeRef::from_raw(leaf) };
        // Inserts that latch the leaf from here on know the table; see `hash_index`.
        while !leaf.try_latch(leaf.read_version()) {}
        leaf.unlatch_unchanged();
        let (records, next) = Self::retry(|| {
            let version = leaf.read_version();
            let records =
                (0..leaf.count()).map(|slot| leaf.record(slot)).collect::<Result<Vec<_>, Restart>>()?;
            let next = leaf.next();
            if leaf.validate(version) {
                Ok((records, next))
            } else {
                Err(Restart)
            }
        });
        for slot in 0..records.len() {
            leaf.prefetch_record(slot);
        }
        let hashed: Vec<_> = records.into_iter().map(|record| (hash_of(record.key()), record)).collect();
        for (hash, _) in &hashed {
            table.prefetch(*hash);
        }
        for (hash, record) in hashed {
            table.put(arena, hash, record);
        }
        if next.is_none() {
            table.complete();
        }
        let next = next.map_or(ptr::null_mut(), |next| next.as_raw().as_ptr());
        self.build.leaf.store(next, Ordering::Relaxed);
    }
}
