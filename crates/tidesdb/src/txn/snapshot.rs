//! Snapshots: who may still read what. A reader publishes the sequence it reads at in a slot; writers
//! and background work learn from the slots which versions nobody can see any more.
//!
//! The order of stores and loads is `protocols.md` 3.2: a scanner publishes `claim` (the frontier) before
//! it looks at the slots; a taker writes its slot, then looks at `claim` and tries again when that is
//! above its sequence. Either the scanner sees the slot, or the taker sees the claim.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};

use parking_lot::Mutex;

use crate::iter::LiveSnapshots;
use crate::types::Seq;

/// Stands between the two accesses whose order is the protocol. They are sequentially consistent
/// themselves; loom takes those for acquire and release only, and knows the order from fences.
fn in_order() {
    #[cfg(loom)]
    loom::sync::atomic::fence(SeqCst);
}

/// An empty slot.
const EMPTY: u64 = u64::MAX;

/// The slots of a store.
#[derive(Debug)]
pub struct Snapshots {
    /// Largest frontier that a scanner has announced.
    claim: AtomicU64,
    /// No live or future snapshot is below it.
    floor: AtomicU64,
    slots: Box<[AtomicU64]>,
    /// One above the highest slot ever used: what a scan looks at.
    used: AtomicUsize,
    free: Mutex<Vec<u32>>,
    scanning: Mutex<()>,
}

/// A taken slot; give it back with [`Snapshots::release`].
#[derive(Debug)]
pub struct Slot {
    index: u32,
    seq: Seq,
}

impl Slot {
    /// The sequence that the snapshot reads at.
    pub fn seq(&self) -> Seq {
        self.seq
    }
}

impl Snapshots {
    /// Room for `capacity` snapshots at a time (two for each transaction).
    pub fn new(capacity: u32) -> Snapshots {
        Snapshots {
            claim: AtomicU64::new(0),
            floor: AtomicU64::new(0),
            slots: (0..capacity).map(|_| AtomicU64::new(EMPTY)).collect(),
            used: AtomicUsize::new(0),
            free: Mutex::new((0..capacity).rev().collect()),
            scanning: Mutex::new(()),
        }
    }

    /// Takes a snapshot at what `frontier` returns; `None` when every slot is in use.
    pub fn take(&self, frontier: impl Fn() -> Seq) -> Option<Slot> {
        let index = self.free.lock().pop()?;
        self.used.fetch_max(index as usize + 1, SeqCst);
        loop {
            let seq = frontier();
            self.slots[index as usize].swap(seq, SeqCst);
            in_order();
            if self.claim.load(SeqCst) <= seq {
                return Some(Slot { index, seq });
            }
        }
    }

    /// Takes a snapshot at `seq`, which may lie below what scanners were told: only for a store in which
    /// nothing is pruned any more.
    pub fn take_at(&self, seq: Seq) -> Option<Slot> {
        let index = self.free.lock().pop()?;
        self.used.fetch_max(index as usize + 1, SeqCst);
        self.slots[index as usize].swap(seq, SeqCst);
        Some(Slot { index, seq })
    }

    /// Gives a slot back.
    pub fn release(&self, slot: Slot) {
        self.slots[slot.index as usize].store(EMPTY, Release);
        self.free.lock().push(slot.index);
    }

    /// The last computed floor: every snapshot, live or future, is at or above it.
    pub fn floor(&self) -> Seq {
        self.floor.load(Acquire)
    }

    /// Recomputes the floor, unless another thread is at it.
    pub fn refresh_floor(&self, frontier: Seq) -> Seq {
        if let Some(_one) = self.scanning.try_lock() {
            self.claim.fetch_max(frontier, SeqCst);
            in_order();
            let claim = self.claim.load(SeqCst);
            let oldest = self.live(|_| {});
            self.floor.fetch_max(oldest.min(claim), SeqCst);
        }
        self.floor()
    }

    /// Every live snapshot, for flush and compaction.
    pub fn capture(&self, frontier: Seq) -> LiveSnapshots {
        self.claim.fetch_max(frontier, SeqCst);
        in_order();
        // The claim that this caller published: a later, higher one has not been followed by a scan of
        // this caller's.
        let claim = frontier;
        let mut held = Vec::new();
        self.live(|seq| held.push(seq));
        held.sort_unstable();
        held.dedup();
        LiveSnapshots { claim, held, ..LiveSnapshots::default() }
    }

    /// Number of live snapshots and the oldest of them.
    pub fn oldest(&self) -> (usize, Option<Seq>) {
        let mut count = 0;
        let oldest = self.live(|_| count += 1);
        (count, (oldest != EMPTY).then_some(oldest))
    }

    fn live(&self, mut each: impl FnMut(Seq)) -> Seq {
        let mut oldest = EMPTY;
        for slot in &self.slots[..self.used.load(SeqCst)] {
            let seq = slot.load(SeqCst);
            if seq != EMPTY {
                each(seq);
                oldest = oldest.min(seq);
            }
        }
        oldest
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_floor_follows_the_oldest_snapshot() {
        let snapshots = Snapshots::new(4);
        let a = snapshots.take(|| 5).expect("free slot");
        let b = snapshots.take(|| 9).expect("free slot");
        assert_eq!((a.seq(), b.seq()), (5, 9));
        assert_eq!(snapshots.refresh_floor(12), 5);
        assert_eq!(snapshots.capture(12), LiveSnapshots { claim: 12, held: vec![5, 9], expired_at: 0 });
        snapshots.release(a);
        assert_eq!(snapshots.refresh_floor(12), 9);
        snapshots.release(b);
        assert_eq!(snapshots.refresh_floor(12), 12);
        assert_eq!(snapshots.oldest(), (0, None));
    }

    #[test]
    fn slots_run_out_by_name_and_come_back() {
        let snapshots = Snapshots::new(1);
        let a = snapshots.take(|| 1).expect("free slot");
        assert!(snapshots.take(|| 1).is_none());
        snapshots.release(a);
        assert!(snapshots.take(|| 1).is_some());
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    /// A taker and a scanner: whatever floor the scanner announces, a snapshot that lives is not below it.
    #[test]
    fn a_live_snapshot_is_never_below_the_floor() {
        loom::model(|| {
            let snapshots = Arc::new(Snapshots::new(1));
            let frontier = Arc::new(AtomicU64::new(1));
            let (s, f) = (snapshots.clone(), frontier.clone());
            let scanner = thread::spawn(move || {
                f.store(2, SeqCst);
                s.refresh_floor(f.load(SeqCst));
            });
            let slot = snapshots.take(|| frontier.load(SeqCst)).expect("free slot");
            let floor = snapshots.floor();
            assert!(slot.seq() >= floor, "snapshot {} below floor {floor}", slot.seq());
            scanner.join().expect("scanner");
            assert!(slot.seq() >= snapshots.floor());
        });
    }

    /// A taker and a flush: the snapshot is at or above the flush's claim, or the flush knows of it.
    #[test]
    fn a_flush_knows_every_snapshot_below_its_claim() {
        loom::model(|| {
            let snapshots = Arc::new(Snapshots::new(2));
            let frontier = Arc::new(AtomicU64::new(1));
            let (s, f) = (snapshots.clone(), frontier.clone());
            let flush = thread::spawn(move || {
                f.store(2, SeqCst);
                s.capture(f.load(SeqCst))
            });
            let slot = snapshots.take(|| frontier.load(SeqCst)).expect("free slot");
            let live = flush.join().expect("flush");
            let known = slot.seq() >= live.claim || live.held.contains(&slot.seq());
            assert!(known, "snapshot {} and {live:?}", slot.seq());
        });
    }

    /// A slot given back and taken again while a scan runs.
    #[test]
    fn a_slot_taken_again_is_seen_or_new_enough() {
        loom::model(|| {
            let snapshots = Arc::new(Snapshots::new(1));
            let frontier = Arc::new(AtomicU64::new(1));
            let first = snapshots.take(|| 1).expect("free slot");
            let (s, f) = (snapshots.clone(), frontier.clone());
            let scanner = thread::spawn(move || {
                f.store(2, SeqCst);
                s.refresh_floor(2);
            });
            snapshots.release(first);
            let slot = snapshots.take(|| frontier.load(SeqCst)).expect("free slot");
            scanner.join().expect("scanner");
            assert!(slot.seq() >= snapshots.floor());
        });
    }
}
