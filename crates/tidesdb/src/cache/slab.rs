//! Memory of frames: slabs of equal slots, shared by all threads.
//!
//! A general allocator keeps pages for each thread and size, and rounds a block of 4.2 KB up to 5. From a
//! cache of 256 MB filled by eight threads, mimalloc made 312 to 345 MB. Here a slot exceeds its contents by
//! at most a sixteenth. The slot freed last is allocated first, and an empty slab serves another size. Where free slots
//! lie scattered, the emptiest slabs are chosen to leave: nobody gets a slot of them until they are empty. After
//! the slab allocator of SunOS (Bonwick, 1994), without its layer for each processor: a miss of the cache
//! costs a read and a decompression, against which the lock of a size is nothing.
//!
//! The general allocator serves allocations above [`LARGEST`]. Slabs come in regions from the system's
//! `malloc`, which takes regions of this size from the kernel one by one. Regions stay as long as their cache, or its
//! last held frame; unused slabs beyond [`SPARE`] return their pages.

use std::alloc::{handle_alloc_error, GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use crate::sync::Mutex;

/// Bytes of a slab.
const SLAB: usize = 256 << 10;

/// Slabs of a region.
const REGION: usize = 16;

/// Number of unused slabs with their pages.
const SPARE: usize = 16;

/// The largest slot: eight to a slab.
pub(super) const LARGEST: usize = 32 << 10;

/// Alignment of slots, and the smallest one.
pub(super) const ALIGN: usize = 64;

/// Slot sizes between one power of two and the next.
const STEPS: usize = 16;

/// Every multiple of [`ALIGN`] up to this one is a slot size.
const FINE: usize = ALIGN * STEPS;

/// Number of slot sizes.
const CLASSES: usize = STEPS + STEPS * (LARGEST / FINE).ilog2() as usize;

/// Slabs by slot size, and unused slabs: the memory of one cache. Frames outlive their cache, so each used slot holds a
/// reference.
pub(super) struct Slabs {
    by_class: [Mutex<Partial>; CLASSES],
    unused: Mutex<Unused>,
    /// Number of slabs in use for a size.
    slabs: Counter,
    /// Bytes of slots in them.
    taken: Counter,
    /// Bytes of slots in use.
    used: Counter,
    /// Number of slabs that are to leave.
    leaving: Counter,
}

/// A counter on a cache line of its own.
#[repr(align(128))]
struct Counter(AtomicUsize);

impl Slabs {
    pub(super) fn new() -> Arc<Slabs> {
        let partial = || Mutex::new(Partial { slabs: Vec::new(), leaving: Vec::new() });
        Arc::new(Slabs {
            by_class: std::array::from_fn(|_| partial()),
            unused: Mutex::new(Unused { slabs: Vec::new(), without_pages: 0, regions: Vec::new() }),
            slabs: Counter(AtomicUsize::new(0)),
            taken: Counter(AtomicUsize::new(0)),
            used: Counter(AtomicUsize::new(0)),
            leaving: Counter(AtomicUsize::new(0)),
        })
    }

    /// Bytes of slots that nobody uses, in slabs that others of the same size keep.
    pub(super) fn slack(&self) -> usize {
        self.taken.0.load(Ordering::Relaxed).saturating_sub(self.used.0.load(Ordering::Relaxed))
    }

    /// Bytes of all slabs that have pages.
    pub(super) fn resident(&self) -> usize {
        let unused = self.unused.lock();
        (self.slabs.0.load(Ordering::Relaxed) + unused.slabs.len() - unused.without_pages) * SLAB
    }
}

impl Drop for Slabs {
    fn drop(&mut self) {
        debug_assert_eq!(*self.used.0.get_mut(), 0, "each used slot holds a reference");
        for partial in &mut self.by_class {
            let partial = partial.get_mut();
            for slab in partial.slabs.drain(..).chain(partial.leaving.drain(..)) {
                // SAFETY: `make_slab` made it of a box; no slot of it is used, and nobody else has the list.
                drop(unsafe { Box::from_raw(slab.as_ptr()) });
            }
        }
        for region in self.unused.get_mut().regions.drain(..) {
            // SAFETY: `take_region` took it with this layout, and no slab in it is used any more.
            unsafe { System.dealloc(region.as_ptr(), region_layout()) };
        }
    }
}

fn region_layout() -> Layout {
    Layout::from_size_align(REGION * SLAB, ALIGN).expect("a multiple of the alignment")
}

/// Memory of unused slabs; the first `without_pages` have returned their pages.
struct Unused {
    slabs: Vec<NonNull<u8>>,
    without_pages: usize,
    /// All regions, whoever uses their slabs.
    regions: Vec<NonNull<u8>>,
}

// SAFETY: memory that nobody uses.
unsafe impl Send for Unused {}

impl Unused {
    fn take(&mut self) -> NonNull<u8> {
        let slab = self.slabs.pop().unwrap_or_else(|| self.take_region());
        self.without_pages = self.without_pages.min(self.slabs.len());
        slab
    }

    /// Takes a region from the system, keeps all its slabs but the first, and returns the first.
    fn take_region(&mut self) -> NonNull<u8> {
        let layout = region_layout();
        // SAFETY: the layout's size is not zero.
        let region = unsafe { System.alloc(layout) };
        let Some(region) = NonNull::new(region) else { handle_alloc_error(layout) };
        self.regions.push(region);
        // SAFETY: each slab lies in the region.
        self.slabs.extend((1..REGION).rev().map(|slab| unsafe { region.add(slab * SLAB) }));
        // The kernel has given no pages for them yet.
        self.without_pages = self.slabs.len();
        region
    }

    fn give(&mut self, slab: NonNull<u8>) {
        self.slabs.push(slab);
        if self.slabs.len() - self.without_pages > SPARE {
            give_pages_back(self.slabs[self.without_pages]);
            self.without_pages += 1;
        }
    }
}

/// Returns the pages of an unused slab to the kernel, except those shared at its ends.
fn give_pages_back(slab: NonNull<u8>) {
    let page = page_size();
    let from = slab.as_ptr().addr().next_multiple_of(page);
    let to = (slab.as_ptr().addr() + SLAB) / page * page;
    if from < to && !cfg!(miri) {
        // SAFETY: whole pages in the slab, which nobody uses; their content may become zeros.
        unsafe { libc::madvise(slab.as_ptr().with_addr(from).cast(), to - from, libc::MADV_DONTNEED) };
    }
}

fn page_size() -> usize {
    // SAFETY: any thread may ask at any time.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(SLAB)
}

/// Slabs of one size with a free slot.
struct Partial {
    /// The last one serves the next allocation.
    slabs: Vec<NonNull<Slab>>,
    /// Those that are to leave.
    leaving: Vec<NonNull<Slab>>,
}

// SAFETY: a slab's fields are read and written under the lock around these lists alone, but for those that never change.
unsafe impl Send for Partial {}

impl Partial {
    /// The list of slabs that are to leave, or of the others.
    fn list(&mut self, is_leaving: bool) -> &mut Vec<NonNull<Slab>> {
        if is_leaving {
            &mut self.leaving
        } else {
            &mut self.slabs
        }
    }

    /// Removes the slab at `place` of a list.
    fn remove(&mut self, is_leaving: bool, place: usize) -> NonNull<Slab> {
        let list = self.list(is_leaving);
        let removed = list.swap_remove(place);
        if let Some(moved) = list.get(place) {
            // SAFETY: a slab in a list lives, and nobody else refers to its state while the lists are locked.
            unsafe { (*moved.as_ref().state.get()).place = Some(place) };
        }
        removed
    }

    /// Moves the slab at `place` from one list to the other.
    fn change_list(&mut self, place: usize, to_leaving: bool) {
        let slab = self.remove(!to_leaving, place);
        let list = self.list(to_leaving);
        list.push(slab);
        // SAFETY: as in `remove`.
        let state = unsafe { &mut *slab.as_ref().state.get() };
        (state.place, state.is_leaving) = (Some(list.len() - 1), to_leaving);
    }

    /// Number of used slots of a slab in one of the lists.
    fn used(&self, slab: NonNull<Slab>) -> usize {
        // SAFETY: as in `remove`.
        unsafe { (*slab.as_ref().state.get()).used() }
    }
}

/// A slab; it lives from its first slot's allocation until all its slots are free.
pub(super) struct Slab {
    memory: NonNull<u8>,
    class: usize,
    /// The set of the slab, from `Arc::as_ptr`.
    set: *const Slabs,
    /// Guarded by the lock of the class's list.
    state: UnsafeCell<State>,
}

/// The mutable part of a slab.
struct State {
    /// Freed slots.
    free: Vec<u16>,
    /// First slot never allocated; the pages from there on are untouched.
    fresh: usize,
    /// Its position in its list, if it has a free slot.
    place: Option<usize>,
    /// It is to leave: in that list, and not in the one for allocations.
    is_leaving: bool,
}

/// The class of a size up to [`LARGEST`], and the class's slot size.
fn class_of(size: usize) -> (usize, usize) {
    debug_assert!(size > 0 && size <= LARGEST);
    if size <= FINE {
        let class = size.div_ceil(ALIGN);
        return (class - 1, class * ALIGN);
    }
    let below = (size - 1).ilog2() as usize;
    let step = (1 << below) / STEPS;
    let steps = (size - (1 << below)).div_ceil(step);
    (STEPS * (1 + below - FINE.ilog2() as usize) + steps - 1, (1 << below) + steps * step)
}

/// The slot size for `size` bytes.
pub(super) fn slot_size(size: usize) -> usize {
    if size > LARGEST {
        size
    } else {
        class_of(size).1
    }
}

fn slot_size_of(class: usize) -> usize {
    if class < STEPS {
        return (class + 1) * ALIGN;
    }
    let below = FINE << (class / STEPS - 1);
    below + (class % STEPS + 1) * (below / STEPS)
}

/// Frees a slot.
///
/// # Safety
/// `at` and `slab` are one result of [`Slabs::allocate`] or [`allocate_elsewhere`], not freed before, and the memory is not
/// in use.
pub(super) unsafe fn free(at: NonNull<u8>, slab: NonNull<Slab>) {
    // SAFETY: a slab with a used slot lives, and the slot holds a reference to its set, which goes at the end.
    let set = unsafe { Arc::from_raw(slab.as_ref().set) };
    // SAFETY: the caller's promise.
    unsafe { set.free(at, slab) };
}

/// Allocates a slot of `size` bytes elsewhere if `from` is to leave, so that its own can be freed. `None` if it is
/// not, or if no other slab has a free slot.
///
/// # Safety
/// `from` is a slab with a used slot of `size` bytes; no thread frees this slot meanwhile.
pub(super) unsafe fn allocate_elsewhere(
    size: usize,
    from: NonNull<Slab>,
) -> Option<(NonNull<u8>, NonNull<Slab>)> {
    // SAFETY: a slab with a used slot lives, and the slot holds a reference to its set. This one is not given up.
    let set = std::mem::ManuallyDrop::new(unsafe { Arc::from_raw(from.as_ref().set) });
    let mut partial = set.by_class[class_of(size).0].lock();
    // SAFETY: the slab lives, and this lock is around its fields.
    let is_leaving = unsafe { (*from.as_ref().state.get()).is_leaving };
    let last = partial.slabs.len().checked_sub(1).filter(|_| is_leaving)?;
    Some(set.take_slot(&mut partial, last))
}

impl Slabs {
    /// Memory for `size` bytes, aligned to [`ALIGN`] and not initialised, and its slab. It is the caller's until [`free`]
    /// gets both back. `size` is from 1 to [`LARGEST`].
    pub(super) fn allocate(self: &Arc<Self>, size: usize) -> (NonNull<u8>, NonNull<Slab>) {
        let (class, _) = class_of(size);
        let mut partial = self.by_class[class].lock();
        if partial.slabs.is_empty() {
            match partial.leaving.len().checked_sub(1) {
                Some(last) => {
                    partial.change_list(last, false);
                    self.leaving.0.fetch_sub(1, Ordering::Relaxed);
                }
                None => partial.slabs.push(self.make_slab(class)),
            }
        }
        let last = partial.slabs.len() - 1;
        self.take_slot(&mut partial, last)
    }

    /// Chooses slabs to leave: of each size the emptiest ones, as many as the free slots of the others can empty. False if
    /// there is none, of an earlier choice either.
    pub(super) fn choose_leaving(&self) -> bool {
        for (class, partial) in self.by_class.iter().enumerate() {
            let slots = SLAB / slot_size_of(class);
            let mut partial = partial.lock();
            // Nobody would free a slot of an empty one.
            for place in (0..partial.slabs.len())
                .rev()
                .filter(|&place| partial.used(partial.slabs[place]) == 0)
                .collect::<Vec<_>>()
            {
                let slab = partial.remove(false, place);
                // SAFETY: it has no used slot and is in no list any more.
                unsafe { self.give_back(slab) };
            }
            let mut by_use: Vec<(usize, usize)> =
                (0..partial.slabs.len()).map(|place| (partial.used(partial.slabs[place]), place)).collect();
            let free: usize = by_use.iter().map(|(used, _)| slots - used).sum();
            // Those chosen earlier need free slots of the others, too.
            let promised: usize = partial.leaving.iter().map(|&slab| partial.used(slab)).sum();
            by_use.sort_unstable();
            by_use.truncate(free.saturating_sub(promised) / slots);
            // The last place first: a removal moves only slabs after it.
            by_use.sort_unstable_by_key(|&(_, place)| std::cmp::Reverse(place));
            for &(_, place) in &by_use {
                partial.change_list(place, true);
            }
            self.leaving.0.fetch_add(by_use.len(), Ordering::Relaxed);
        }
        self.has_leaving()
    }

    /// True while slabs are to leave.
    pub(super) fn has_leaving(&self) -> bool {
        self.leaving.0.load(Ordering::Relaxed) > 0
    }

    /// Slabs that were to leave and still have used slots stay.
    pub(super) fn let_stay(&self) {
        for partial in &self.by_class {
            let mut partial = partial.lock();
            while let Some(last) = partial.leaving.len().checked_sub(1) {
                partial.change_list(last, false);
                self.leaving.0.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// Takes a slot of the slab at `place`. A slab without a further free slot leaves the list.
    fn take_slot(self: &Arc<Self>, partial: &mut Partial, place: usize) -> (NonNull<u8>, NonNull<Slab>) {
        let slab = partial.slabs[place];
        // SAFETY: a slab in the list lives.
        let shared = unsafe { slab.as_ref() };
        // SAFETY: the caller has locked the list, and has no other reference to the state.
        let state = unsafe { &mut *shared.state.get() };
        let slot_size = slot_size_of(shared.class);
        self.used.0.fetch_add(slot_size, Ordering::Relaxed);
        // The slot's reference; `free` takes it.
        let _ = Arc::into_raw(Arc::clone(self));
        state.place = Some(place);
        let slot = state.free.pop().map_or_else(
            || {
                state.fresh += 1;
                state.fresh - 1
            },
            usize::from,
        );
        if state.is_full(SLAB / slot_size) {
            state.place = None;
            partial.remove(false, place);
        }
        // SAFETY: `slot` is below the number of slots, so that the whole slot lies in the slab's memory.
        (unsafe { shared.memory.add(slot * slot_size) }, slab)
    }

    /// # Safety
    /// As for [`free`], with the result of [`Slabs::allocate`] of the same set.
    unsafe fn free(&self, at: NonNull<u8>, slab: NonNull<Slab>) {
        // SAFETY: a slab with a used slot lives.
        let shared = unsafe { slab.as_ref() };
        let slot_size = slot_size_of(shared.class);
        let mut partial = self.by_class[shared.class].lock();
        // SAFETY: the list is locked, and this is the only reference to the state.
        let state = unsafe { &mut *shared.state.get() };
        let slot = (at.as_ptr() as usize - shared.memory.as_ptr() as usize) / slot_size;
        state.free.push(u16::try_from(slot).expect("a slab has at most 4,096 slots"));
        self.used.0.fetch_sub(slot_size, Ordering::Relaxed);
        let place = *state.place.get_or_insert_with(|| {
            partial.slabs.push(slab);
            partial.slabs.len() - 1
        });
        // One without a used slot stays while it is the only one: else each slot could cost a slab.
        if state.used() > 0 || !state.is_leaving && partial.slabs.len() == 1 {
            return;
        }
        let is_leaving = state.is_leaving;
        partial.remove(is_leaving, place);
        drop(partial);
        if is_leaving {
            self.leaving.0.fetch_sub(1, Ordering::Relaxed);
        }
        // SAFETY: it has no used slot and is in no list any more.
        unsafe { self.give_back(slab) };
    }

    /// The slab's memory may serve another size.
    ///
    /// # Safety
    /// The slab has no used slot and is in no list.
    unsafe fn give_back(&self, slab: NonNull<Slab>) {
        // SAFETY: `make_slab` made it of a box, and nobody can reach it.
        let slab = unsafe { Box::from_raw(slab.as_ptr()) };
        let slot_size = slot_size_of(slab.class);
        self.slabs.0.fetch_sub(1, Ordering::Relaxed);
        self.taken.0.fetch_sub(SLAB / slot_size * slot_size, Ordering::Relaxed);
        self.unused.lock().give(slab.memory);
    }

    fn make_slab(self: &Arc<Self>, class: usize) -> NonNull<Slab> {
        let memory = self.unused.lock().take();
        let slot_size = slot_size_of(class);
        self.slabs.0.fetch_add(1, Ordering::Relaxed);
        self.taken.0.fetch_add(SLAB / slot_size * slot_size, Ordering::Relaxed);
        NonNull::from(Box::leak(Box::new(Slab {
            memory,
            class,
            set: Arc::as_ptr(self),
            state: UnsafeCell::new(State { free: Vec::new(), fresh: 0, place: None, is_leaving: false }),
        })))
    }
}

impl State {
    fn used(&self) -> usize {
        self.fresh - self.free.len()
    }

    fn is_full(&self, slots: usize) -> bool {
        self.free.is_empty() && self.fresh == slots
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn slots_are_at_most_a_sixteenth_larger_than_what_they_hold() {
        let mut classes = HashSet::new();
        let mut last = 0;
        for size in 1..=LARGEST {
            let (class, slot) = class_of(size);
            assert!(slot >= size && slot % ALIGN == 0, "{size}: {slot}");
            assert!(slot - size < ALIGN.max(size / STEPS + 1), "{size}: {slot}");
            assert!(slot >= last, "{size}");
            assert_eq!(slot, slot_size_of(class), "{size}");
            assert_eq!(class_of(slot), (class, slot), "{size}");
            last = slot;
            classes.insert(class);
        }
        assert_eq!(classes.len(), CLASSES);
        assert_eq!(last, LARGEST);
        assert_eq!(slot_size(LARGEST + 1), LARGEST + 1);
    }

    /// A slot and its fill byte.
    struct Held {
        at: NonNull<u8>,
        slab: NonNull<Slab>,
        size: usize,
        byte: u8,
    }

    // SAFETY: memory that nobody else uses.
    unsafe impl Send for Held {}

    impl Held {
        fn new(slabs: &Arc<Slabs>, size: usize, byte: u8) -> Held {
            let (at, slab) = slabs.allocate(size);
            assert_eq!(at.as_ptr() as usize % ALIGN, 0);
            // SAFETY: `size` bytes are this test's.
            unsafe { at.as_ptr().write_bytes(byte, size) };
            Held { at, slab, size, byte }
        }

        /// In another slab, if its own is to leave.
        fn moved(&mut self) {
            // SAFETY: the slot is this test's.
            let Some((at, slab)) = (unsafe { allocate_elsewhere(self.size, self.slab) }) else { return };
            // SAFETY: `size` bytes each, of two slots.
            unsafe { at.as_ptr().copy_from_nonoverlapping(self.at.as_ptr(), self.size) };
            *self = Held { at, slab, ..*self };
        }
    }

    impl Drop for Held {
        fn drop(&mut self) {
            // SAFETY: written in `new`, and no other slot may lie over it.
            let bytes = unsafe { std::slice::from_raw_parts(self.at.as_ptr(), self.size) };
            assert!(bytes.iter().all(|&byte| byte == self.byte), "another slot lies over this one");
            // SAFETY: the answer of `allocate`, once.
            unsafe { free(self.at, self.slab) };
        }
    }

    /// Threads allocate, move and free slots of a few sizes, including slots of other threads.
    #[test]
    fn slots_of_many_threads_do_not_overlap_and_slabs_go_back() {
        const SIZES: [usize; 3] = [20_000, 24_000, 30_000];
        let (threads, rounds) = if cfg!(miri) { (2, 60) } else { (4, 20_000) };
        let slabs = Slabs::new();
        let shared: [Mutex<Vec<Held>>; 4] = Default::default();
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let (shared, slabs) = (&shared, &slabs);
                scope.spawn(move || {
                    let mut random = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(thread + 1);
                    for round in 0..rounds {
                        random ^= random << 13;
                        random ^= random >> 7;
                        random ^= random << 17;
                        let at = random as usize % shared.len();
                        let size =
                            SIZES[(random >> 8) as usize % SIZES.len()] - (random >> 16) as usize % 300;
                        let mut held = shared[at].lock();
                        match random >> 33 & 63 {
                            0 => drop(slabs.choose_leaving()),
                            1 => held.iter_mut().for_each(Held::moved),
                            2 => slabs.let_stay(),
                            _ => {}
                        }
                        if held.len() < 40 && random >> 32 & 1 == 0 {
                            held.push(Held::new(slabs, size, round as u8));
                        } else if !held.is_empty() {
                            let victim = (random >> 40) as usize % held.len();
                            drop(held.swap_remove(victim));
                        }
                    }
                });
            }
        });
        drop(shared);
        slabs.let_stay();
        assert!(!slabs.has_leaving());
        let mut stay = 0;
        for size in SIZES {
            let partial = slabs.by_class[class_of(size).0].lock();
            assert!(partial.slabs.len() <= 1, "one stays for the next slot");
            stay += partial.slabs.len() * (SLAB / slot_size(size) * slot_size(size));
        }
        assert_eq!(slabs.slack(), stay);
        assert_eq!(Arc::strong_count(&slabs), 1, "no slot holds a reference");
    }

    /// The emptiest slabs go, whatever the pattern of holes, and what is in use keeps its bytes.
    #[test]
    fn scattered_slots_move_into_as_few_slabs_as_they_need() {
        let size = 20_000;
        let slots = SLAB / slot_size(size);
        let slabs = Slabs::new();
        let mut held: Vec<Option<Held>> =
            (0..8 * slots).map(|at| Some(Held::new(&slabs, size, at as u8))).collect();
        // A quarter of each slab.
        held.iter_mut().step_by(4).for_each(|slot| *slot = None);
        assert!(!slabs.has_leaving() && slabs.choose_leaving());
        for slot in held.iter_mut().flatten() {
            slot.moved();
        }
        assert!(!slabs.has_leaving());
        assert!(slabs.slack() < slots * slot_size(size), "less than a slab: {}", slabs.slack());
        assert!(!slabs.choose_leaving(), "there is nothing to gain");
        // A second choice leaves the slots that the first one needs.
        held.iter_mut().step_by(3).for_each(|slot| *slot = None);
        assert!(slabs.choose_leaving());
        let chosen = slabs.leaving.0.load(Ordering::Relaxed);
        assert!(slabs.choose_leaving());
        assert_eq!(slabs.leaving.0.load(Ordering::Relaxed), chosen);
    }

    #[test]
    fn a_slab_that_was_to_leave_serves_again_before_a_new_one() {
        let size = 20_000;
        let slots = SLAB / slot_size(size);
        let slabs = Slabs::new();
        let mut held: Vec<Held> = (0..2 * slots).map(|at| Held::new(&slabs, size, at as u8)).collect();
        held.retain(|slot| slot.byte % 2 == 0);
        let resident = slabs.resident();
        assert!(slabs.choose_leaving());
        let more: Vec<Held> = (0..slots).map(|at| Held::new(&slabs, size, at as u8)).collect();
        assert_eq!((slabs.slack(), slabs.resident()), (0, resident));
        assert!(!slabs.has_leaving());
        drop((held, more));
        // One that is in use to the end.
        let held: Vec<Held> = (0..2 * slots).map(|at| Held::new(&slabs, size, at as u8)).collect();
        drop(held.into_iter().filter(|slot| slot.byte % 2 == 0).collect::<Vec<Held>>());
        slabs.choose_leaving();
        slabs.let_stay();
        assert!(!slabs.has_leaving());
    }

    #[test]
    fn a_slot_outlives_its_set_and_the_last_one_gives_all_back() {
        let slabs = Slabs::new();
        let (one, other) = (Held::new(&slabs, 20_000, 1), Held::new(&slabs, 64, 2));
        let set = Arc::downgrade(&slabs);
        drop(slabs);
        drop(other);
        assert!(set.upgrade().is_some_and(|set| set.slack() > 0 && set.resident() > 0));
        drop(one);
        assert!(set.upgrade().is_none());
    }
}
