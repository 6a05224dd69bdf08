//! The versions of one key: a singly linked chain, newest first.
//!
//! Written under the key's latch, read without it. Readers follow `next` pointers. A writer links a finished
//! version with one store, at the head or in its place by sequence number. With another store it cuts the
//! tail after the newest version at or below the oldest snapshot. A put known to lie on a tombstone keeps
//! this tombstone: versions hidden by it may be in files (`docs/protocols.md` 3.5).
//!
//! While the memtable lives, nothing is unlinked from the middle and no memory is reused. A reader on a cut
//! tail thus walks on unharmed. Only two kinds of reader get there: one with a snapshot below the oldest
//! snapshot, which does not exist, and a reader of every version. The second kind is flush alone, on a sealed
//! memtable.
//!
//! Compiled against `loom`'s atomics under `cfg(loom)`; the model is at the end of the file.

use std::marker::PhantomData;
use std::mem::offset_of;
use std::ptr::{self, NonNull};

use crate::cache::work;
use crate::mutant::{self, Mutant};
use crate::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use crate::sync::SpinWait;
use crate::types::{Entry, Kind, Seq};

const SEQ_BITS: u32 = 56;
const SEQ_MASK: u64 = (1 << SEQ_BITS) - 1;

/// Longest chain walked at every insert for a tail to cut.
const SHORT_WALK: u32 = 8;

/// Written once, before the version is linked. Loom checks that every read comes after the link.
#[cfg(loom)]
type SeqKind = crate::sync::UnsafeCell<u64>;
#[cfg(not(loom))]
type SeqKind = u64;

#[cfg(loom)]
fn cell_of(seq_kind: u64) -> SeqKind {
    let cell = SeqKind::new(0);
    // Loom watches writes through the cell only, not its making.
    // SAFETY: nobody else has it.
    cell.with_mut(|at| unsafe { *at = seq_kind });
    cell
}

#[cfg(not(loom))]
fn cell_of(seq_kind: u64) -> SeqKind {
    seq_kind
}

/// One version. The value's bytes follow `len` directly.
#[repr(C)]
pub(super) struct MemtableVersion {
    /// Sequence number in the low 56 bits, kind byte above.
    seq_kind: SeqKind,
    next: AtomicPtr<MemtableVersion>,
    len: u32,
}

impl MemtableVersion {
    /// The value's offset.
    const VALUE: usize = offset_of!(MemtableVersion, len) + size_of::<u32>();

    /// Bytes of a version with a value of `len` bytes, at alignment 8.
    pub(super) const fn size(len: usize) -> usize {
        let exact = Self::VALUE + len;
        if exact < size_of::<MemtableVersion>() {
            size_of::<MemtableVersion>()
        } else {
            exact
        }
    }

    /// Writes an unlinked version.
    ///
    /// # Safety
    /// `at` is aligned to 8, has [`MemtableVersion::size`] writable bytes and no other thread accesses them.
    pub(super) unsafe fn write(
        at: NonNull<u8>,
        seq: Seq,
        kind: Kind,
        value: &[u8],
    ) -> NonNull<MemtableVersion> {
        debug_assert!(seq <= SEQ_MASK);
        let version = at.cast::<MemtableVersion>();
        let seq_kind = seq | (u64::from(kind.byte()) << SEQ_BITS);
        let len = u32::try_from(value.len()).expect("values are at most MAX_VALUE_LEN long");
        // SAFETY: promised by the caller.
        unsafe {
            let seq_kind = cell_of(seq_kind);
            version.write(MemtableVersion { seq_kind, next: AtomicPtr::new(ptr::null_mut()), len });
            ptr::copy_nonoverlapping(value.as_ptr(), at.as_ptr().add(Self::VALUE), value.len());
        }
        version
    }
}

/// A reference to a finished version with lifetime `'a`.
#[derive(Clone, Copy)]
pub(super) struct VersionRef<'a> {
    version: NonNull<MemtableVersion>,
    arena: PhantomData<&'a ()>,
}

impl<'a> VersionRef<'a> {
    /// # Safety
    /// The version was made by [`MemtableVersion::write`], and its writes happen before this call. For `'a`
    /// its memory lives and is not written, except `next` by [`Chain::add`].
    pub(super) unsafe fn from_raw(version: NonNull<MemtableVersion>) -> VersionRef<'a> {
        VersionRef { version, arena: PhantomData }
    }

    pub(super) fn as_raw(self) -> NonNull<MemtableVersion> {
        self.version
    }

    #[cfg(not(loom))]
    fn seq_kind(self) -> u64 {
        // SAFETY: `from_raw`.
        unsafe { (*self.version.as_ptr()).seq_kind }
    }

    #[cfg(loom)]
    fn seq_kind(self) -> u64 {
        // SAFETY: `from_raw`; loom checks that nobody writes.
        unsafe { (*self.version.as_ptr()).seq_kind.with(|seq_kind| *seq_kind) }
    }

    pub(super) fn seq(self) -> Seq {
        self.seq_kind() & SEQ_MASK
    }

    pub(super) fn kind(self) -> Kind {
        Kind::from_byte((self.seq_kind() >> SEQ_BITS) as u8)
            .expect("the byte of the kind given to MemtableVersion::write")
    }

    pub(super) fn value(self) -> &'a [u8] {
        let at = self.version.as_ptr();
        // SAFETY: `from_raw`; `write` put `len` bytes there, in the same allocation.
        unsafe { std::slice::from_raw_parts(at.cast::<u8>().add(MemtableVersion::VALUE), (*at).len as usize) }
    }

    pub(super) fn entry(self) -> Entry<'a> {
        Entry::new(self.seq(), self.kind(), self.value())
    }

    fn link(self) -> &'a AtomicPtr<MemtableVersion> {
        // SAFETY: `from_raw`; the field is only ever accessed as an atomic.
        unsafe { &(*self.version.as_ptr()).next }
    }

    /// The next older version.
    pub(super) fn next(self) -> Option<VersionRef<'a>> {
        // SAFETY: links lead only to written versions of the same arena; Acquire pairs with the store
        // that linked it.
        NonNull::new(self.link().load(Ordering::Acquire)).map(|v| unsafe { VersionRef::from_raw(v) })
    }
}

/// The result of [`Chain::add`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Added {
    /// The version is in the chain.
    Linked,
    /// The chain had a version of this sequence number already; nothing changed.
    Repeated,
    /// Other helpers had done the caller's work; nothing changed.
    Done,
}

/// Head of the chain, its latch, and the length of the key (here, the header of a record takes only 16
/// bytes). A chain reachable by readers has at least one version.
#[repr(C)]
pub(super) struct Chain {
    head: AtomicPtr<MemtableVersion>,
    /// Bit 31 is the latch. The other bits, changed only under the latch, count inserts that still skip the
    /// walk for a tail. Without them a hot key under an old snapshot would cost the square of its updates.
    state: AtomicU32,
    key_len: u32,
}

const LATCHED: u32 = 1 << 31;

impl Chain {
    /// A chain with one version.
    pub(super) fn new(head: NonNull<MemtableVersion>, key_len: u32) -> Chain {
        Chain { head: AtomicPtr::new(head.as_ptr()), state: AtomicU32::new(0), key_len }
    }

    pub(super) fn key_len(&self) -> usize {
        self.key_len as usize
    }

    /// The newest version.
    pub(super) fn head(&self) -> VersionRef<'_> {
        let head =
            NonNull::new(self.head.load(Ordering::Acquire)).expect("chains have a version from the start");
        // SAFETY: `head` leads only to written versions, which live as long as the chain.
        unsafe { VersionRef::from_raw(head) }
    }

    /// The newest version at or below `snapshot`.
    pub(super) fn visible(&self, snapshot: Seq) -> Option<VersionRef<'_>> {
        let mut version = self.head();
        while version.seq() > snapshot {
            work::note_passed(1);
            version = version.next()?;
        }
        Some(version)
    }

    /// True if a version of exactly this sequence number is linked.
    pub(super) fn contains(&self, seq: Seq) -> bool {
        self.visible(seq).is_some_and(|version| version.seq() == seq)
    }

    /// Links `version` in its place by sequence number, then cuts the tail hidden from `oldest_snapshot` and
    /// every later one. Links nothing if the number is in the chain, or if `done` returns true under the
    /// latch. On a long chain the cut happens only now and then. `before` is called once, under the latch and
    /// right before the link, with the newest version so far. Readers cannot find the version earlier.
    ///
    /// # Safety
    /// `version` was made by [`MemtableVersion::write`], is in no chain, and lives as long as this chain.
    pub(super) unsafe fn add(
        &self,
        version: NonNull<MemtableVersion>,
        done: impl FnOnce() -> bool,
        before: impl FnOnce(VersionRef<'_>),
        oldest_snapshot: Seq,
    ) -> Added {
        let skips = self.latch();
        if done() {
            self.unlatch(skips);
            return Added::Done;
        }
        // SAFETY: promised by the caller; this thread wrote it or was handed it.
        let new: VersionRef<'_> = unsafe { VersionRef::from_raw(version) };
        let seq = new.seq();
        let mut link = &self.head;
        let mut below = NonNull::new(link.load(Ordering::Relaxed));
        while let Some(next) = below {
            // SAFETY: as in `head`; the latch orders this thread after who linked it.
            let next: VersionRef<'_> = unsafe { VersionRef::from_raw(next) };
            if next.seq() == seq {
                self.unlatch(skips);
                return Added::Repeated;
            }
            if next.seq() < seq {
                break;
            }
            link = next.link();
            below = NonNull::new(link.load(Ordering::Relaxed));
        }
        before(self.head());
        // Nobody else reads the new version yet: the store below publishes this one too.
        new.link().store(below.map_or(ptr::null_mut(), NonNull::as_ptr), Ordering::Relaxed);
        link.store(version.as_ptr(), Ordering::Release);
        let skips = if skips > 0 { skips - 1 } else { self.cut(oldest_snapshot) };
        self.unlatch(skips);
        Added::Linked
    }

    /// Cuts after the newest version at or below `oldest_snapshot`. Returns the number of inserts that may
    /// skip the next walk; it grows with the length of this one. Only under the latch.
    fn cut(&self, oldest_snapshot: Seq) -> u32 {
        let mut steps = 0;
        let mut version = self.head();
        while version.seq() > oldest_snapshot && !mutant::is(Mutant::ChainCutUnderSnapshot) {
            steps += 1;
            match version.next() {
                Some(next) => version = next,
                None => return if steps > SHORT_WALK { steps } else { 0 },
            }
        }
        if version.kind().is_proven_insert() {
            match version.next() {
                Some(tombstone) => version = tombstone,
                None => return if steps > SHORT_WALK { steps } else { 0 },
            }
        }
        if !version.link().load(Ordering::Relaxed).is_null() {
            version.link().store(ptr::null_mut(), Ordering::Relaxed);
        }
        if steps > SHORT_WALK {
            steps
        } else {
            0
        }
    }

    /// Takes the latch; returns the other bits of its word.
    fn latch(&self) -> u32 {
        let wait = SpinWait::default();
        loop {
            let state = self.state.load(Ordering::Relaxed);
            if state & LATCHED == 0
                && self
                    .state
                    .compare_exchange_weak(state, state | LATCHED, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
            {
                return state;
            }
            wait.turn();
        }
    }

    fn unlatch(&self, skips: u32) {
        self.state.store(skips & !LATCHED, Ordering::Release);
    }
}

/// The chain under every interleaving and every outcome allowed by the memory model: `cargo test -p
/// tidesdb-loom memtable::version_chain`.
#[cfg(all(test, loom))]
mod loom_model {
    use loom::sync::atomic::AtomicBool;
    use loom::sync::Arc;
    use loom::thread;

    use super::*;
    use crate::types::MAX_SEQ;

    /// A version in memory never freed.
    fn version(seq: Seq) -> NonNull<MemtableVersion> {
        let words: Box<[u64]> = vec![0; MemtableVersion::size(0).div_ceil(8)].into();
        let at = NonNull::from(Box::leak(words)).cast::<u8>();
        // SAFETY: fresh memory of this size, aligned to 8.
        unsafe { MemtableVersion::write(at, seq, Kind::PUT.marked_may_overwrite(), b"") }
    }

    fn chain(first: Seq) -> Arc<Chain> {
        Arc::new(Chain::new(version(first), 0))
    }

    fn add(chain: &Chain, seq: Seq, oldest_snapshot: Seq) -> Added {
        // SAFETY: the version is fresh and never freed.
        unsafe { chain.add(version(seq), || false, |_| {}, oldest_snapshot) }
    }

    fn seqs(chain: &Chain) -> Vec<Seq> {
        std::iter::successors(Some(chain.head()), |version| version.next()).map(VersionRef::seq).collect()
    }

    // Writers run in the model's first thread and readers in spawned ones: loom remembers only the last
    // access to an atomic, so a read that comes first and a store after the writer's own read of the
    // same link would not be tried the other way round.

    #[test]
    fn readers_see_ordered_chains_while_two_writers_link() {
        loom::model(|| {
            let chain = chain(1);
            let reader = {
                let chain = Arc::clone(&chain);
                thread::spawn(move || {
                    let seen = seqs(&chain);
                    assert!(seen.windows(2).all(|pair| pair[0] > pair[1]) && seen.last() == Some(&1));
                    assert!(chain.visible(2).is_some_and(|version| version.seq() <= 2));
                })
            };
            let writer = {
                let chain = Arc::clone(&chain);
                thread::spawn(move || assert_eq!(add(&chain, 2, 0), Added::Linked))
            };
            assert_eq!(add(&chain, 3, 0), Added::Linked);
            reader.join().unwrap();
            writer.join().unwrap();
            assert_eq!(seqs(&chain), [3, 2, 1]);
        });
    }

    #[test]
    fn a_cut_hides_nothing_from_readers_at_the_oldest_snapshot() {
        loom::model(|| {
            let chain = chain(1);
            add(&chain, 2, 0);
            let reader = {
                let chain = Arc::clone(&chain);
                thread::spawn(move || {
                    // 3 is the highest oldest snapshot used here, so at 3 a version is promised at any time.
                    assert!(chain.visible(3).is_some_and(|version| version.seq() <= 3));
                    let seen = seqs(&chain);
                    assert!(seen.windows(2).all(|pair| pair[0] > pair[1]));
                })
            };
            add(&chain, 3, 2);
            add(&chain, 4, 3);
            reader.join().unwrap();
            assert_eq!(seqs(&chain), [4, 3]);
        });
    }

    #[test]
    fn of_two_helpers_one_links() {
        loom::model(|| {
            let chain = chain(1);
            let helper = {
                let chain = Arc::clone(&chain);
                thread::spawn(move || add(&chain, 2, 1))
            };
            let mine = add(&chain, 2, 1);
            let theirs = helper.join().unwrap();
            assert!(matches!(
                (mine, theirs),
                (Added::Linked, Added::Repeated) | (Added::Repeated, Added::Linked)
            ));
            assert_eq!(seqs(&chain), [2, 1]);
        });
    }

    #[test]
    fn a_late_helper_does_not_bring_back_what_was_cut() {
        loom::model(|| {
            let chain = chain(1);
            let done = Arc::new(AtomicBool::new(false));
            let helper = {
                let (chain, done) = (Arc::clone(&chain), Arc::clone(&done));
                // SAFETY: the version is fresh and never freed.
                thread::spawn(move || unsafe {
                    chain.add(version(2), || done.load(Ordering::Acquire), |_| {}, 1)
                })
            };
            // The slot of 2 is done before any oldest snapshot passes it, so before its version can be cut.
            add(&chain, 2, 1);
            done.store(true, Ordering::Release);
            add(&chain, 3, 3);
            helper.join().unwrap();
            assert_eq!(seqs(&chain), [3]);
            assert!(chain.visible(MAX_SEQ).is_some_and(|version| version.seq() == 3));
        });
    }
}
