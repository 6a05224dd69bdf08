//! The hash index of one family: from a key to its record without a descent of the tree.
//!
//! It never contradicts the tree. A record never moves and lives as long as its memtable, so a record found
//! here is the key's record. The absence of a key is meaningful only if [`HashIndex::find`] returns
//! [`Lookup::Absent`]; after [`Lookup::Unknown`] the reader descends the tree. No thread waits for another:
//! slots are filled by compare-and-swap and never emptied. Growing means a second table, filled alongside the
//! first (`hash_build`).
//!
//! # Why no key is missed
//!
//! Tables are published one after the other in `current`, each new one (or none) in place of the last.
//!
//! 1. An insert of a record into the tree holds the latch of its leaf and loads `current` *under the latch*.
//!    It [puts](HashTableRef::put) the record into this table before it releases the latch.
//! 2. The filler of a table publishes it first. At every leaf, from the first on by `next`, it then takes and
//!    releases the latch before it reads the leaf's records. An insert with a later latch sees the table
//!    published (the latch's word carries it) and obeys 1. The record of an insert with an earlier latch is
//!    read: in this leaf, or further right, where splits move records. A leaf split off after the filler has
//!    passed is reachable only through its splitter, whose latch came later. The end of the last leaf makes
//!    the table [complete](HashTableRef::complete).
//! 3. A complete table therefore has every record except those whose insert loaded a *later* `current`. A
//!    reader after such an insert loads the same or a later one, because loads of one word do not go
//!    backwards. It searches the table it loaded.
//! 4. While a table is being filled, a record is in it, or its insert loaded an earlier `current`. In the
//!    second case the record is in `previous`, if that table was complete.
//!
//! A put without a free slot makes its table *lossy* before the latch is released. A lossy table never
//! reports a key as absent. Readers load a table's state before its slots, so their conclusion from the state
//! holds for the slots. The model at the end of the file tests this under loom.

use std::marker::PhantomData;
use std::ptr::{self, NonNull};

use super::arena::Arena;
use super::node::{prefetch, prefetch_record};
use super::record::{Record, RecordRef};
use crate::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, Ordering};

/// A record's address with sixteen bits of its key's hash above it; null if free.
type HashSlot = AtomicPtr<Record>;

/// Slots of a group, a cache line. A search visits groups one after the other.
const GROUP: usize = if cfg!(loom) { 2 } else { 8 };

/// Slots of a segment, the unit of allocation: small enough to be cleared by one insert.
const SEGMENT: usize = if cfg!(loom) { 4 } else { 2048 };

/// Most groups of a search. At the fullness allowed by `hash_build`, a good hash needs three.
const MOST_GROUPS: usize = 16;

/// Bits of an address; the tag is above them.
const ADDRESS_BITS: u32 = 48;
const ADDRESS: usize = (1 << ADDRESS_BITS) - 1;

/// Not every record is in the table yet.
const FILLING: u8 = 0;
/// The table has every record inserted before a later table's publication.
const COMPLETE: u8 = 1;
/// A record found no free slot.
const LOSSY: u8 = 2;

/// The hash of a key.
#[inline]
pub(super) fn hash_of(key: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(key)
}

// Three parts of the hash that have nothing to do with each other: the upper half is the group, the
// lowest bits are the slot to begin with, sixteen above them the tag.

fn tag_of(hash: u64) -> usize {
    usize::from((hash >> 8) as u16)
}

/// The result of a lookup.
pub(super) enum Lookup<'a> {
    /// The key's record.
    Found(RecordRef<'a>),
    /// The key is not in the tree.
    Absent,
    /// The key may be in the tree.
    Unknown,
}

/// Fixed part of a table; an `AtomicPtr<HashSlot>` for each segment follows.
#[repr(C)]
struct HashTable {
    groups: usize,
    /// Number of keys at which the table is full and a larger one should replace it.
    limit: u64,
    /// The table before, if it was complete when the filling of this one began.
    previous: *const HashTable,
    state: AtomicU8,
    /// True after the first search.
    searched: AtomicBool,
}

/// A reference to a table with lifetime `'a`.
#[derive(Clone, Copy)]
pub(super) struct HashTableRef<'a> {
    table: NonNull<HashTable>,
    arena: PhantomData<&'a Arena>,
}

impl<'a> HashTableRef<'a> {
    /// An empty table of at least `slots` slots, to be filled.
    pub(super) fn new(
        arena: &'a Arena,
        slots: usize,
        limit: u64,
        previous: Option<HashTableRef<'a>>,
    ) -> HashTableRef<'a> {
        let segments = slots.div_ceil(SEGMENT).max(1);
        let size = size_of::<HashTable>() + segments * size_of::<AtomicPtr<HashSlot>>();
        let table = arena.alloc(size, 64).cast::<HashTable>();
        // SAFETY: the memory is this thread's alone, aligned and of this size.
        unsafe {
            table.write(HashTable {
                groups: segments * (SEGMENT / GROUP),
                limit,
                previous: previous.map_or(ptr::null(), |table| table.table.as_ptr()),
                state: AtomicU8::new(FILLING),
                searched: AtomicBool::new(false),
            });
            let cells = table.as_ptr().add(1).cast::<AtomicPtr<HashSlot>>();
            for index in 0..segments {
                cells.add(index).write(AtomicPtr::new(ptr::null_mut()));
            }
            HashTableRef::from_raw(table)
        }
    }

    /// # Safety
    /// The table was made by `new` in an arena with lifetime `'a`, and its construction happens before this
    /// call.
    unsafe fn from_raw(table: NonNull<HashTable>) -> HashTableRef<'a> {
        HashTableRef { table, arena: PhantomData }
    }

    fn header(self) -> &'a HashTable {
        // SAFETY: `from_raw`; what changes in it is atomic.
        unsafe { &*self.table.as_ptr() }
    }

    fn previous(self) -> Option<HashTableRef<'a>> {
        // SAFETY: `new` put a table of the same arena there; who made this one knew it.
        NonNull::new(self.header().previous.cast_mut()).map(|table| unsafe { HashTableRef::from_raw(table) })
    }

    /// Number of keys at which the table is full and a larger one should replace it.
    #[inline]
    pub(super) fn limit(self) -> u64 {
        self.header().limit
    }

    pub(super) fn is_filling(self) -> bool {
        self.header().state.load(Ordering::Relaxed) == FILLING
    }

    pub(super) fn is_complete(self) -> bool {
        self.header().state.load(Ordering::Acquire) == COMPLETE
    }

    /// True after the first search.
    pub(super) fn was_searched(self) -> bool {
        self.header().searched.load(Ordering::Relaxed)
    }

    /// Ends the filling: the table is complete, unless a record found no free slot.
    pub(super) fn complete(self) {
        let state = &self.header().state;
        // A failure leaves it lossy.
        let _ = state.compare_exchange(FILLING, COMPLETE, Ordering::Release, Ordering::Relaxed);
    }

    fn segment_cell(self, index: usize) -> &'a AtomicPtr<HashSlot> {
        assert!(index < self.header().groups / (SEGMENT / GROUP));
        // SAFETY: `new` made a cell for each segment after the header.
        unsafe { &*self.table.as_ptr().add(1).cast::<AtomicPtr<HashSlot>>().add(index) }
    }

    /// The slots of a group; none before the first record in its segment.
    #[inline]
    fn group(self, group: usize) -> Option<&'a [HashSlot; GROUP]> {
        let segment = self.segment_cell(group / (SEGMENT / GROUP)).load(Ordering::Acquire);
        let segment = NonNull::new(segment)?;
        // SAFETY: cells hold only finished segments of `SEGMENT` slots.
        Some(unsafe { &*segment.as_ptr().add(group % (SEGMENT / GROUP) * GROUP).cast() })
    }

    /// Like `group`, but creates an absent segment.
    fn group_or_new(self, arena: &'a Arena, group: usize) -> &'a [HashSlot; GROUP] {
        loop {
            if let Some(slots) = self.group(group) {
                return slots;
            }
            let segment = arena.alloc(SEGMENT * size_of::<HashSlot>(), 64).cast::<HashSlot>();
            for index in 0..SEGMENT {
                // SAFETY: fresh memory of this size and alignment.
                unsafe { segment.add(index).write(AtomicPtr::new(ptr::null_mut())) };
            }
            // Who comes second finds the other's at the next turn.
            let cell = self.segment_cell(group / (SEGMENT / GROUP));
            let null = ptr::null_mut();
            let _ = cell.compare_exchange(null, segment.as_ptr(), Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    /// The groups for keys of this hash, in the order of search.
    #[inline]
    fn path(self, hash: u64) -> impl Iterator<Item = usize> {
        let groups = self.header().groups;
        let home = (((hash >> 32) * groups as u64) >> 32) as usize;
        (home..groups).chain(0..home).take(MOST_GROUPS)
    }

    /// The slots of a group in the order of search.
    #[inline]
    fn order(hash: u64, slots: &[HashSlot; GROUP]) -> impl Iterator<Item = &HashSlot> {
        let first = hash as usize;
        (0..GROUP).map(move |step| &slots[(first.wrapping_add(step)) % GROUP])
    }

    /// Prefetches the first slots of a search for this hash.
    #[inline]
    pub(super) fn prefetch(self, hash: u64) {
        if let Some(slots) = self.path(hash).next().and_then(|group| self.group(group)) {
            prefetch(ptr::from_ref(slots), size_of::<[HashSlot; GROUP]>());
        }
    }

    /// The record of a key.
    #[inline]
    fn find(self, hash: u64, key: &[u8]) -> Option<RecordRef<'a>> {
        let tag = tag_of(hash);
        for group in self.path(hash) {
            for slot in Self::order(hash, self.group(group)?) {
                let tagged = NonNull::new(slot.load(Ordering::Acquire))?;
                if tagged.addr().get() >> ADDRESS_BITS == tag {
                    let record = tagged.as_ptr().map_addr(|address| address & ADDRESS);
                    prefetch_record(record);
                    // SAFETY: `put` tagged a finished record of the arena, whose address is not null;
                    // Acquire pairs with its Release.
                    let record = unsafe { RecordRef::from_raw(NonNull::new_unchecked(record)) };
                    if record.key() == key {
                        return Some(record);
                    }
                }
            }
        }
        None
    }

    /// Puts the record of a key of this hash here, once, regardless of the number of calls and threads.
    /// Without a free slot the table becomes lossy.
    pub(super) fn put(self, arena: &'a Arena, hash: u64, record: RecordRef<'a>) {
        let record = record.as_raw().as_ptr();
        let tagged = record.map_addr(|address| address | tag_of(hash) << ADDRESS_BITS);
        if record.addr() & ADDRESS == record.addr() {
            for group in self.path(hash) {
                for slot in Self::order(hash, self.group_or_new(arena, group)) {
                    let mut now = slot.load(Ordering::Relaxed);
                    if now.is_null() {
                        let put = slot.compare_exchange(
                            ptr::null_mut(),
                            tagged,
                            Ordering::Release,
                            Ordering::Relaxed,
                        );
                        match put {
                            Ok(_) => return,
                            Err(other) => now = other,
                        }
                    }
                    if now == tagged {
                        return;
                    }
                }
            }
        }
        self.header().state.store(LOSSY, Ordering::Release);
    }

    /// The table's state. To be loaded before its slots.
    #[inline]
    fn state(self) -> u8 {
        self.header().state.load(Ordering::Acquire)
    }

    /// Notes a search, the reason to replace the table when it is full.
    #[inline]
    pub(super) fn note_search(self) {
        if !self.was_searched() {
            self.header().searched.store(true, Ordering::Relaxed);
        }
    }

    /// Looks up a key of this hash in this table, which must have been the current one.
    #[inline]
    pub(super) fn look_up(self, hash: u64, key: &[u8]) -> Lookup<'a> {
        let state = self.state();
        match self.find(hash, key) {
            Some(record) => Lookup::Found(record),
            None if state == COMPLETE => Lookup::Absent,
            None if state == FILLING => self.look_up_in_previous(hash, key),
            None => Lookup::Unknown,
        }
    }

    #[cold]
    fn look_up_in_previous(self, hash: u64, key: &[u8]) -> Lookup<'a> {
        let Some(previous) = self.previous() else { return Lookup::Unknown };
        let state = previous.state();
        match previous.find(hash, key) {
            Some(record) => Lookup::Found(record),
            None if state == COMPLETE => Lookup::Absent,
            None => Lookup::Unknown,
        }
    }
}

/// The tables of one family, in the arena of the index.
pub(super) struct HashIndex {
    current: AtomicPtr<HashTable>,
}

impl HashIndex {
    pub(super) fn new() -> HashIndex {
        HashIndex { current: AtomicPtr::new(ptr::null_mut()) }
    }

    /// The table for new records; none while there is no index.
    #[inline]
    pub(super) fn current(&self) -> Option<HashTableRef<'_>> {
        // SAFETY: `publish` put a finished table there; Acquire pairs with its Release.
        NonNull::new(self.current.load(Ordering::Acquire))
            .map(|table| unsafe { HashTableRef::from_raw(table) })
    }

    /// Makes `table`, never published before, the current one, or ends the index. Not by two threads at once.
    pub(super) fn publish(&self, table: Option<HashTableRef<'_>>) {
        let table = table.map_or(ptr::null_mut(), |table| table.table.as_ptr());
        self.current.store(table, Ordering::Release);
    }

    /// Looks up a key.
    #[inline]
    pub(super) fn find(&self, key: &[u8]) -> Lookup<'_> {
        let Some(table) = self.current() else { return Lookup::Unknown };
        table.note_search();
        table.look_up(hash_of(key), key)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::arena::ArenaPool;
    use super::*;
    use crate::types::Kind;

    fn record<'a>(arena: &'a Arena, key: &[u8]) -> RecordRef<'a> {
        RecordRef::new(arena, key, 1, Kind::PUT, b"").0
    }

    fn number(lookup: Lookup<'_>) -> Option<u32> {
        match lookup {
            Lookup::Found(record) => Some(u32::from_be_bytes(record.key().try_into().expect("four bytes"))),
            _ => None,
        }
    }

    #[test]
    fn what_was_put_is_found_and_takes_one_slot() {
        let arena = Arena::new(ArenaPool::new(0));
        let table = HashTableRef::new(&arena, 2 * SEGMENT, 0, None);
        let count = if cfg!(miri) { 100 } else { 2 * SEGMENT as u32 * 2 / 3 };
        for i in 0..count {
            let key = i.to_be_bytes();
            let record = record(&arena, &key);
            (0..3).for_each(|_| table.put(&arena, hash_of(&key), record));
        }
        let look_up = |i: u32| table.look_up(hash_of(&i.to_be_bytes()), &i.to_be_bytes());
        assert!((0..count).all(|i| number(look_up(i)) == Some(i)));
        assert!(matches!(look_up(count), Lookup::Unknown), "not everything may be in the table yet");
        table.complete();
        assert!(table.is_complete());
        assert!((count..2 * count).all(|i| matches!(look_up(i), Lookup::Absent)));
        let slots = (0..table.header().groups).filter_map(|group| table.group(group)).flatten();
        assert_eq!(slots.filter(|slot| !slot.load(Ordering::Relaxed).is_null()).count(), count as usize);
    }

    #[test]
    fn a_table_that_had_no_place_knows_of_no_absence() {
        let arena = Arena::new(ArenaPool::new(0));
        let table = HashTableRef::new(&arena, 4 * SEGMENT, 0, None);
        let places = (MOST_GROUPS * GROUP) as u32;
        for i in 0..places {
            table.put(&arena, 7, record(&arena, &i.to_be_bytes()));
        }
        table.complete();
        assert!(matches!(table.look_up(7, b"else"), Lookup::Absent));
        table.put(&arena, 7, record(&arena, &places.to_be_bytes()));
        assert!((0..places).all(|i| number(table.look_up(7, &i.to_be_bytes())) == Some(i)));
        assert!(matches!(table.look_up(7, &places.to_be_bytes()), Lookup::Unknown));
        assert!(matches!(table.look_up(!7, b"else"), Lookup::Unknown), "whatever the hash");
        table.complete();
        assert!(!table.is_complete());
    }

    #[test]
    fn while_a_table_is_filled_the_one_before_it_knows() {
        let arena = Arena::new(ArenaPool::new(0));
        let index = HashIndex::new();
        assert!(matches!(index.find(b"aaaa"), Lookup::Unknown));
        let first = HashTableRef::new(&arena, 1, 0, None);
        index.publish(Some(first));
        first.put(&arena, hash_of(b"aaaa"), record(&arena, b"aaaa"));
        first.complete();
        let second = HashTableRef::new(&arena, 1, 0, Some(first));
        index.publish(Some(second));
        second.put(&arena, hash_of(b"bbbb"), record(&arena, b"bbbb"));
        for key in [b"aaaa", b"bbbb"] {
            assert!(matches!(index.find(key), Lookup::Found(record) if record.key() == key));
        }
        assert!(matches!(index.find(b"cccc"), Lookup::Absent));
        index.publish(None);
        assert!(matches!(index.find(b"aaaa"), Lookup::Unknown));
    }
}

/// Inserts, the filling of a table, and readers, in every interleaving and with every outcome allowed by the
/// memory model: `cargo test -p tidesdb-loom memtable::hash_index`.
#[cfg(all(test, loom))]
mod loom_model {
    use std::sync::Arc;

    use loom::sync::atomic::{fence, AtomicU64};
    use loom::thread;

    use super::super::arena::ArenaPool;
    use super::*;
    use crate::types::Kind;

    /// The index of a tree of one leaf, with the latch of `node`.
    struct Model {
        version: AtomicU64,
        cells: [AtomicPtr<Record>; 2],
        index: HashIndex,
        arena: Arena,
    }

    const KEYS: [&[u8]; 2] = [b"first", b"second"];

    impl Model {
        /// With the first key in the tree.
        fn new() -> Arc<Model> {
            let model = Arc::new(Model {
                version: AtomicU64::new(0),
                cells: [AtomicPtr::new(ptr::null_mut()), AtomicPtr::new(ptr::null_mut())],
                index: HashIndex::new(),
                arena: Arena::new(ArenaPool::new(0)),
            });
            model.insert(0);
            model
        }

        fn latch(&self) -> u64 {
            loop {
                let version = self.version.load(Ordering::Acquire);
                if version & 1 == 0 {
                    fence(Ordering::Acquire);
                    let taken = self.version.compare_exchange(
                        version,
                        version | 1,
                        Ordering::Acquire,
                        Ordering::Relaxed,
                    );
                    fence(Ordering::Release);
                    if taken.is_ok() {
                        return version;
                    }
                }
                thread::yield_now();
            }
        }

        /// Inserts like `Tree::insert`.
        fn insert(&self, key: usize) {
            let (record, _) = RecordRef::new(&self.arena, KEYS[key], 1, Kind::PUT, b"");
            let version = self.latch();
            self.cells[key].store(record.as_raw().as_ptr(), Ordering::Release);
            if let Some(table) = self.index.current() {
                table.put(&self.arena, hash_of(KEYS[key]), record);
            }
            self.version.store(version + 2, Ordering::Release);
        }

        /// The leaf's records; none if it was changed meanwhile.
        fn read(&self) -> Option<[Option<RecordRef<'_>>; 2]> {
            let version = self.version.load(Ordering::Acquire);
            let records = [&self.cells[0], &self.cells[1]].map(|cell| {
                // SAFETY: cells hold finished records of the arena.
                NonNull::new(cell.load(Ordering::Acquire)).map(|at| unsafe { RecordRef::from_raw(at) })
            });
            fence(Ordering::Acquire);
            (version & 1 == 0 && self.version.load(Ordering::Relaxed) == version).then_some(records)
        }

        /// Fills like `Tree::begin_table` and `Tree::fill_step`.
        fn fill(&self) {
            let old = self.index.current().filter(|old| old.is_complete());
            let table = HashTableRef::new(&self.arena, 4, 0, old);
            self.index.publish(Some(table));
            let version = self.latch();
            self.version.store(version, Ordering::Release);
            let records = loop {
                match self.read() {
                    Some(records) => break records,
                    None => thread::yield_now(),
                }
            };
            for record in records.into_iter().flatten() {
                table.put(&self.arena, hash_of(record.key()), record);
            }
            table.complete();
        }

        /// Checks the second key: the index does not deny a key of the tree, and found records are whole.
        fn check(&self) {
            let Some([_, record]) = self.read() else { return };
            match self.index.current().map(|table| table.look_up(hash_of(KEYS[1]), KEYS[1])) {
                Some(Lookup::Found(found)) => {
                    assert!(found.key() == KEYS[1] && found.chain().head().seq() == 1);
                    assert!(record.is_none_or(|record| record.as_raw() == found.as_raw()));
                }
                Some(Lookup::Absent) => assert!(record.is_none(), "a key of the tree is missing"),
                Some(Lookup::Unknown) | None => {}
            }
        }

        fn spawn(self: &Arc<Self>, run: impl FnOnce(&Model) + 'static) -> thread::JoinHandle<()> {
            let model = Arc::clone(self);
            thread::spawn(move || run(&model))
        }

        fn assert_finds_all(&self) {
            assert!(self.index.current().is_some_and(HashTableRef::is_complete));
            assert!(KEYS.iter().all(|key| matches!(self.index.find(key), Lookup::Found(_))));
        }

        /// `work` alongside an insert and a reader; afterwards every key is found.
        fn beside_both(self: &Arc<Self>, work: impl FnOnce(&Model)) {
            let inserter = self.spawn(|model| model.insert(1));
            let reader = self.spawn(Model::check);
            work(self);
            inserter.join().unwrap();
            reader.join().unwrap();
            self.assert_finds_all();
        }
    }

    /// Three threads: two preemptions take seconds, three take minutes.
    fn model(run: impl Fn() + Sync + Send + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(2);
        builder.check(run);
    }

    #[test]
    fn a_first_table_denies_nothing_that_is_inserted_meanwhile() {
        model(|| {
            let model = Model::new();
            model.beside_both(Model::fill);
        });
    }

    #[test]
    fn a_larger_table_denies_nothing_that_either_has() {
        model(|| {
            let model = Model::new();
            model.fill();
            model.beside_both(Model::fill);
        });
    }

    #[test]
    fn no_table_denies_anything_when_it_is_dropped_and_made_anew() {
        model(|| {
            let model = Model::new();
            model.fill();
            model.beside_both(|model| {
                model.index.publish(None);
                model.fill();
            });
        });
    }

    #[test]
    fn two_that_put_the_same_record_take_one_slot() {
        loom::model(|| {
            let model = Model::new();
            let table = HashTableRef::new(&model.arena, 4, 0, None);
            model.index.publish(Some(table));
            let put = |model: &Model| {
                let record = model.read().unwrap()[0].unwrap();
                model.index.current().unwrap().put(&model.arena, 0, record);
            };
            let other = model.spawn(put);
            put(&model);
            other.join().unwrap();
            let slots = (0..table.header().groups).filter_map(|group| table.group(group)).flatten();
            assert_eq!(slots.filter(|slot| !slot.load(Ordering::Relaxed).is_null()).count(), 1);
        });
    }
}
