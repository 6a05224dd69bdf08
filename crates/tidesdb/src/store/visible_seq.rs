//! The visible sequence of the commit order: every commit at or below it is in a memtable. A thread in need
//! of a later one helps the batches before it, so nobody waits for a sleeping thread (`docs/protocols.md`
//! 2.3). Small and generic, so loom can try every interleaving.
//!
//! Invariants: the visible sequence moves by one, over a finished batch still in its place. A place is filled
//! before its sequence counts as given out, and emptied by the thread that moved the visible sequence over
//! it.

use std::sync::Arc;

use crossbeam_utils::CachePadded;

use crate::mutant::{self, Mutant};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{spin_loop, Mutex};
use crate::types::Seq;

/// Turns of waiting for a batch's own thread before helping it.
const SPINS: u32 = match cfg!(loom) {
    true => 0,
    false if cfg!(simulation) => 4,
    false => 64,
};

/// A unit of ordered work.
pub(super) trait Work {
    /// Its sequence, once ordered.
    fn seq(&self) -> Option<Seq>;
    /// True if all of it is done; no part of it happens after that.
    fn is_done(&self) -> bool;
    /// Does the rest of it; any number of threads at once.
    fn apply(&self, oldest_snapshot: Seq);
}

/// See the module's comment.
#[derive(Debug)]
pub(super) struct VisibleSeq<T> {
    /// Ordered work, at its sequence modulo the length, until the visible sequence passes it.
    ring: Box<[Mutex<Option<Arc<T>>>]>,
    visible_seq: CachePadded<AtomicU64>,
    /// Last sequence given out.
    ordered: CachePadded<AtomicU64>,
}

impl<T: Work> VisibleSeq<T> {
    /// A visible sequence at `seq`, with places for so many sequences beyond it: the caller must give out no
    /// more.
    pub(super) fn new(seq: Seq, places: usize) -> VisibleSeq<T> {
        VisibleSeq {
            ring: (0..places).map(|_| Mutex::new(None)).collect(),
            visible_seq: CachePadded::new(AtomicU64::new(seq)),
            ordered: CachePadded::new(AtomicU64::new(seq)),
        }
    }

    fn place(&self, seq: Seq) -> &Mutex<Option<Arc<T>>> {
        &self.ring[seq as usize % self.ring.len()]
    }

    /// Gives `seq` out to `work`, already set in it. Called in the order of sequences, under a lock of the
    /// caller's.
    pub(super) fn give_out(&self, seq: Seq, work: Arc<T>) {
        *self.place(seq).lock() = Some(work);
        self.ordered.store(seq, Ordering::Release);
    }

    /// Everything at or below it is done.
    pub(super) fn reached(&self) -> Seq {
        self.visible_seq.load(Ordering::Acquire)
    }

    /// The last sequence given out.
    pub(super) fn last_ordered(&self) -> Seq {
        self.ordered.load(Ordering::Acquire)
    }

    /// Returns when the visible sequence has passed `seq`, helping the work before it.
    pub(super) fn help_until(&self, seq: Seq, oldest_snapshot: Seq) {
        let mut spins = 0;
        loop {
            let next = self.advance() + 1;
            if next > seq {
                return;
            }
            if spins < SPINS {
                spins += 1;
                spin_loop();
                continue;
            }
            let work = self.place(next).lock().clone();
            if let Some(work) = work.filter(|work| work.seq() == Some(next)) {
                work.apply(oldest_snapshot);
            }
        }
    }

    /// Moves the visible sequence over finished work; returns it.
    fn advance(&self) -> Seq {
        loop {
            let visible_seq = self.visible_seq.load(Ordering::Acquire);
            let next = visible_seq + 1;
            if next > self.ordered.load(Ordering::Acquire) {
                return visible_seq;
            }
            let mut place = self.place(next).lock();
            let is_done = |work: &T| work.is_done() || mutant::is(Mutant::VisibleBeforeDone);
            let finished = place.as_ref().is_some_and(|work| is_done(work) && work.seq() == Some(next));
            if !finished {
                // Either it is not in yet, or another thread has moved the visible sequence meanwhile.
                let now = self.visible_seq.load(Ordering::Acquire);
                if now == visible_seq {
                    return visible_seq;
                }
                continue;
            }
            if self
                .visible_seq
                .compare_exchange(visible_seq, next, Ordering::AcqRel, Ordering::Acquire)
                .is_ok()
            {
                *place = None;
            }
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::atomic::{AtomicBool, AtomicUsize};
    use loom::thread;

    use super::*;

    /// A memtable of one memtable: entries under one latch, and whether it was sealed and flushed.
    #[derive(Debug, Default)]
    struct Table {
        entries: Vec<(Seq, usize)>,
        sealed: bool,
    }

    /// As `CommitBatch`: a cursor over its changes, and the done word, read under the latch.
    struct Batch {
        seq: Seq,
        changes: usize,
        cursor: AtomicUsize,
        done: AtomicBool,
        table: Arc<Mutex<Table>>,
    }

    impl Work for Batch {
        fn seq(&self) -> Option<Seq> {
            Some(self.seq)
        }

        fn is_done(&self) -> bool {
            self.done.load(Ordering::Acquire)
        }

        fn apply(&self, _oldest: Seq) {
            loop {
                let at = self.cursor.load(Ordering::Acquire);
                if at >= self.changes {
                    break;
                }
                {
                    let mut table = self.table.lock();
                    let there = table.entries.contains(&(self.seq, at));
                    if !self.done.load(Ordering::Acquire) && !there {
                        assert!(!table.sealed, "a write into a sealed memtable");
                        table.entries.push((self.seq, at));
                    }
                }
                self.cursor.fetch_max(at + 1, Ordering::AcqRel);
            }
            self.done.store(true, Ordering::Release);
        }
    }

    struct Store {
        order: Mutex<Seq>,
        visible_seq: VisibleSeq<Batch>,
        table: Arc<Mutex<Table>>,
    }

    impl Store {
        fn new() -> Arc<Store> {
            Arc::new(Store {
                order: Mutex::new(1),
                visible_seq: VisibleSeq::new(0, 2),
                table: Arc::new(Mutex::new(Table::default())),
            })
        }

        fn order(&self, changes: usize) -> Arc<Batch> {
            let mut next = self.order.lock();
            let batch = Arc::new(Batch {
                seq: *next,
                changes,
                cursor: AtomicUsize::new(0),
                done: AtomicBool::new(false),
                table: self.table.clone(),
            });
            self.visible_seq.give_out(*next, batch.clone());
            *next += 1;
            batch
        }

        fn seen(&self, seq: Seq) -> usize {
            self.table.lock().entries.iter().filter(|(s, _)| *s <= seq).count()
        }
    }

    /// Everything up to the visible sequence is there, for a passive reader too.
    #[test]
    fn what_the_visible_seq_passed_is_there() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let store = Store::new();
            let committers: Vec<_> = (0..2)
                .map(|_| {
                    let store = store.clone();
                    thread::spawn(move || {
                        let batch = store.order(1);
                        batch.apply(0);
                        store.visible_seq.help_until(batch.seq, 0);
                        assert_eq!(store.seen(batch.seq), batch.seq as usize);
                    })
                })
                .collect();
            let reached = store.visible_seq.reached();
            assert!(store.seen(reached) >= reached as usize);
            for committer in committers {
                committer.join().expect("committer");
            }
            assert_eq!((store.visible_seq.reached(), store.seen(2)), (2, 2));
        });
    }

    /// A thread asleep after its order is helped. When it wakes up it writes nothing twice, and nothing into
    /// a memtable sealed since the visible sequence passed it.
    #[test]
    fn a_sleeping_committer_holds_up_nobody_and_writes_into_nothing_sealed() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let store = Store::new();
            let slow = store.order(2);
            let late = thread::spawn(move || slow.apply(0));
            let other = store.clone();
            let helper = thread::spawn(move || {
                let batch = other.order(1);
                batch.apply(0);
                other.visible_seq.help_until(batch.seq, 0);
                let mut table = other.table.lock();
                table.sealed = true;
                assert_eq!(table.entries.len(), 3, "all of both, nothing twice");
            });
            helper.join().expect("helper");
            late.join().expect("late");
            assert_eq!(store.table.lock().entries.len(), 3);
            assert_eq!(store.visible_seq.reached(), 2);
        });
    }
}
