//! Snapshots: the versions still visible to readers. A reader publishes its sequence number in a slot. From
//! the slots, writers and background work learn the versions no reader can see any more.
//!
//! `docs/protocols.md` 3.2 has the order of stores and loads. A scanner publishes `scan_bound` (the visible
//! sequence) before it reads the slots. A taker writes its slot, then reads `scan_bound`, and tries again if
//! it is above its sequence number. Either the scanner sees the slot, or the taker sees the scan bound.

use crate::iter::LiveSnapshots;
use crate::mutant::{self, Mutant};
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};
use crate::sync::{point, Mutex};
use crate::types::Seq;

/// Stands between the two accesses whose order is the protocol. The accesses are sequentially consistent;
/// loom treats them as acquire and release only, and knows the order from fences.
fn in_order() {
    #[cfg(loom)]
    crate::sync::atomic::fence(SeqCst);
}

/// An empty slot.
const EMPTY: u64 = u64::MAX;

/// The slots of a store.
#[derive(Debug)]
pub struct Snapshots {
    /// Largest visible sequence announced by a scanner.
    scan_bound: AtomicU64,
    /// No live or future snapshot is below it.
    oldest_snapshot: AtomicU64,
    slots: Box<[AtomicU64]>,
    /// One above the highest slot ever used: the end of a scan.
    used: AtomicUsize,
    free: Mutex<Vec<u32>>,
    scanning: Mutex<()>,
}

/// A taken slot; to be returned with [`Snapshots::release`].
#[derive(Debug)]
pub struct SnapshotSlot {
    index: u32,
    seq: Seq,
}

impl SnapshotSlot {
    /// The sequence number of the snapshot.
    pub fn seq(&self) -> Seq {
        self.seq
    }
}

impl Snapshots {
    /// Room for `capacity` snapshots at a time (two for each transaction).
    pub fn new(capacity: u32) -> Snapshots {
        Snapshots {
            scan_bound: AtomicU64::new(0),
            oldest_snapshot: AtomicU64::new(0),
            slots: (0..capacity).map(|_| AtomicU64::new(EMPTY)).collect(),
            used: AtomicUsize::new(0),
            free: Mutex::new((0..capacity).rev().collect()),
            scanning: Mutex::new(()),
        }
    }

    /// Takes a snapshot at the result of `visible_seq`; `None` when every slot is in use.
    pub fn take(&self, visible_seq: impl Fn() -> Seq) -> Option<SnapshotSlot> {
        let index = self.free.lock().pop()?;
        self.used.fetch_max(index as usize + 1, SeqCst);
        loop {
            let seq = visible_seq();
            point();
            self.slots[index as usize].swap(seq, SeqCst);
            in_order();
            point();
            if self.scan_bound.load(SeqCst) <= seq || mutant::is(Mutant::SlotNotAskedAgain) {
                return Some(SnapshotSlot { index, seq });
            }
        }
    }

    /// Takes a snapshot at `seq`, possibly below the scanners' bound: only for a store without pruning from
    /// now on.
    pub fn take_at(&self, seq: Seq) -> Option<SnapshotSlot> {
        let index = self.free.lock().pop()?;
        self.used.fetch_max(index as usize + 1, SeqCst);
        self.slots[index as usize].swap(seq, SeqCst);
        Some(SnapshotSlot { index, seq })
    }

    /// Returns a slot.
    pub fn release(&self, slot: SnapshotSlot) {
        self.slots[slot.index as usize].store(EMPTY, Release);
        self.free.lock().push(slot.index);
    }

    /// The last computed oldest snapshot: every snapshot, live or future, is at or above it.
    pub fn oldest_snapshot(&self) -> Seq {
        self.oldest_snapshot.load(Acquire)
    }

    /// Recomputes the oldest snapshot, unless another thread is at it. `newest`: the bound of snapshots to
    /// come.
    pub fn refresh_oldest_snapshot(&self, newest: impl Fn() -> Seq) -> Seq {
        if let Some(_one) = self.scanning.try_lock() {
            // Not the bound that is there: a flush's or a merge's passes what the log can still lose.
            let newest = newest();
            let early = mutant::is(Mutant::FloorAfterScan).then(|| self.live(|_| {}));
            self.scan_bound.fetch_max(newest, SeqCst);
            in_order();
            point();
            let oldest = early.unwrap_or_else(|| self.live(|_| {}));
            let oldest = if mutant::is(Mutant::OldestIgnoresSlots) { newest } else { oldest };
            self.oldest_snapshot.fetch_max(oldest.min(newest), SeqCst);
        }
        self.oldest_snapshot()
    }

    /// Changes the bound of future snapshots through `run`, while no thread computes the oldest one by it.
    pub fn between_scans(&self, run: impl FnOnce()) {
        let _one = self.scanning.lock();
        run();
    }

    /// Every live snapshot, for flush and compaction.
    pub fn capture(&self, visible_seq: Seq) -> LiveSnapshots {
        self.scan_bound.fetch_max(visible_seq, SeqCst);
        in_order();
        point();
        // The bound that this caller published: a later, higher one has not been followed by a scan of
        // this caller's.
        let scan_bound = visible_seq;
        let mut held = Vec::new();
        self.live(|seq| held.push(seq));
        if mutant::is(Mutant::SnapshotsUnseenByFlush) {
            held.clear();
        }
        held.sort_unstable();
        held.dedup();
        LiveSnapshots { scan_bound, held, ..LiveSnapshots::default() }
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
    fn the_oldest_snapshot_follows_the_slots() {
        let snapshots = Snapshots::new(4);
        let a = snapshots.take(|| 5).expect("free slot");
        let b = snapshots.take(|| 9).expect("free slot");
        assert_eq!((a.seq(), b.seq()), (5, 9));
        assert_eq!(snapshots.refresh_oldest_snapshot(|| 12), 5);
        assert_eq!(
            snapshots.capture(12),
            LiveSnapshots { scan_bound: 12, held: vec![5, 9], ..LiveSnapshots::default() }
        );
        snapshots.release(a);
        assert_eq!(snapshots.refresh_oldest_snapshot(|| 12), 9);
        snapshots.release(b);
        assert_eq!(snapshots.refresh_oldest_snapshot(|| 12), 12);
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

    /// A taker and a scanner: a live snapshot is never below the oldest snapshot announced by the scanner.
    #[test]
    fn a_live_snapshot_is_never_below_the_oldest_snapshot() {
        loom::model(|| {
            let snapshots = Arc::new(Snapshots::new(1));
            let visible_seq = Arc::new(AtomicU64::new(1));
            let (s, f) = (snapshots.clone(), visible_seq.clone());
            let scanner = thread::spawn(move || {
                f.store(2, SeqCst);
                s.refresh_oldest_snapshot(|| f.load(SeqCst));
            });
            let slot = snapshots.take(|| visible_seq.load(SeqCst)).expect("free slot");
            let oldest_snapshot = snapshots.oldest_snapshot();
            assert!(
                slot.seq() >= oldest_snapshot,
                "snapshot {} below the oldest snapshot {oldest_snapshot}",
                slot.seq()
            );
            scanner.join().expect("scanner");
            assert!(slot.seq() >= snapshots.oldest_snapshot());
        });
    }

    /// A taker and a flush: the snapshot is at or above the flush's scan bound, or the flush knows it.
    #[test]
    fn a_flush_knows_every_snapshot_below_its_scan_bound() {
        loom::model(|| {
            let snapshots = Arc::new(Snapshots::new(2));
            let visible_seq = Arc::new(AtomicU64::new(1));
            let (s, f) = (snapshots.clone(), visible_seq.clone());
            let flush = thread::spawn(move || {
                f.store(2, SeqCst);
                s.capture(f.load(SeqCst))
            });
            let slot = snapshots.take(|| visible_seq.load(SeqCst)).expect("free slot");
            let live = flush.join().expect("flush");
            let known = slot.seq() >= live.scan_bound || live.held.contains(&slot.seq());
            assert!(known, "snapshot {} and {live:?}", slot.seq());
        });
    }

    /// A slot released and taken again during a scan.
    #[test]
    fn a_slot_taken_again_is_seen_or_new_enough() {
        loom::model(|| {
            let snapshots = Arc::new(Snapshots::new(1));
            let visible_seq = Arc::new(AtomicU64::new(1));
            let first = snapshots.take(|| 1).expect("free slot");
            let (s, f) = (snapshots.clone(), visible_seq.clone());
            let scanner = thread::spawn(move || {
                f.store(2, SeqCst);
                s.refresh_oldest_snapshot(|| 2);
            });
            snapshots.release(first);
            let slot = snapshots.take(|| visible_seq.load(SeqCst)).expect("free slot");
            scanner.join().expect("scanner");
            assert!(slot.seq() >= snapshots.oldest_snapshot());
        });
    }
}
