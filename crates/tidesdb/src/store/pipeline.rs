//! The commit order. `order` gives a batch its sequence number and its place in the log under one short lock.
//! The changes then go into the memtable concurrently. Any thread in need advances the *visible sequence*
//! (every commit at or below it is in), helping batches of sleeping owners (`docs/protocols.md` 2.2, 2.3).

use std::sync::Arc;

use crate::error::Result;
use crate::format::cluster_position::ClusterPosition;
use crate::host::Clock;
use crate::memtable::Memtable;
use crate::mutant::{self, Mutant};
use crate::store::commit_batch::{CommitBatch, Ordered};
use crate::store::deleted_range_cache::DeletedRangeCache;
use crate::store::sealed_runs::SealedRuns;
use crate::store::visible_seq::{VisibleSeq, Work};
use crate::sync::{Condvar, Mutex};
use crate::types::Seq;
use crate::wal::{Ticket, WaitLimit};

/// Commits between `prepare` and the end of `finish` at a time; more wait in `prepare`. Larger than any
/// sensible number of connections.
const PLACES: usize = 8192;

/// The state changed by `order`.
#[derive(Debug)]
struct OrderState {
    next: Seq,
    active: Arc<Memtable>,
    /// Of the newest commit with one: a later commit's position counts, not a higher one.
    position: Option<ClusterPosition>,
    /// It is newer than the last rotation: no edit of a flush will have it.
    is_unsealed: bool,
}

impl OrderState {
    fn note_position(&mut self, position: Option<ClusterPosition>) {
        let Some(new) = position else { return };
        if mutant::is(Mutant::PositionIsMaximum) && self.position.is_some_and(|old| old.number > new.number) {
            return;
        }
        self.position = position;
        self.is_unsealed = true;
    }
}

/// The commit order of a store.
#[derive(Debug)]
pub struct Pipeline {
    order: Mutex<OrderState>,
    visible_seq: VisibleSeq<CommitBatch>,
    places: Mutex<usize>,
    place_free: Condvar,
    deleted_ranges: Arc<DeletedRangeCache>,
}

/// A place in the ring, held from `prepare` to the end of `finish`.
#[derive(Debug)]
pub struct CommitPlace {
    pipeline: Arc<Pipeline>,
}

impl Drop for CommitPlace {
    fn drop(&mut self) {
        let mut places = self.pipeline.places.lock();
        *places += 1;
        if *places == 1 {
            self.pipeline.place_free.notify_one();
        }
    }
}

impl Work for CommitBatch {
    fn seq(&self) -> Option<Seq> {
        self.ordered().map(|ordered| ordered.seq)
    }

    fn is_done(&self) -> bool {
        CommitBatch::is_done(self)
    }

    fn apply(&self, oldest_snapshot: Seq) {
        CommitBatch::apply(self, oldest_snapshot);
    }
}

impl Pipeline {
    /// An order whose next sequence number is `next`, into `active`. `position` is the cluster's position before it.
    pub fn new(next: Seq, active: Arc<Memtable>, position: Option<ClusterPosition>) -> Pipeline {
        Pipeline {
            order: Mutex::new(OrderState { next, active, position, is_unsealed: false }),
            visible_seq: VisibleSeq::new(next - 1, PLACES),
            places: Mutex::new(PLACES),
            place_free: Condvar::new(),
            deleted_ranges: Arc::default(),
        }
    }

    /// Reserves a place; part of `prepare`, so it may wait.
    pub fn reserve(self: &Arc<Self>, clock: &dyn Clock, wait_limit: &WaitLimit<'_>) -> Result<CommitPlace> {
        let mut places = self.places.lock();
        let mut begun = None;
        while *places == 0 {
            wait_limit.check(clock, &mut begun)?;
            self.place_free.wait_for(&mut places, WaitLimit::STEP);
        }
        *places -= 1;
        Ok(CommitPlace { pipeline: self.clone() })
    }

    /// Gives `batch` the next sequence number and, through `log`, its place in the log. Its position, if it has
    /// one, is the cluster's from now on. Cannot fail; the caller holds a [`CommitPlace`] and everything `log` needs.
    pub fn order(
        &self,
        batch: &Arc<CommitBatch>,
        position: Option<ClusterPosition>,
        log: impl FnOnce(Seq, &Arc<Memtable>) -> Ticket,
    ) -> Seq {
        let mut state = self.order.lock();
        let seq = state.next;
        state.next += 1;
        state.note_position(position);
        let ticket = log(seq, &state.active);
        let deleted_ranges = self.deleted_ranges.clone();
        batch.set_ordered(Ordered { seq, ticket, memtable: state.active.clone(), deleted_ranges });
        self.visible_seq.give_out(seq, batch.clone());
        seq
    }

    /// As [`Pipeline::order`] and, in the same step, a rotation. Earlier commits go into the old memtable,
    /// later ones into `fresh`; the batch itself has no changes for a memtable. `log` gets the sealed
    /// memtable, and the cluster's position before the batch and after it.
    pub fn order_and_rotate(
        &self,
        batch: &Arc<CommitBatch>,
        position: Option<ClusterPosition>,
        fresh: Arc<Memtable>,
        log: impl FnOnce(Seq, &Arc<Memtable>, [Option<ClusterPosition>; 2]) -> Ticket,
    ) -> Seq {
        let families = batch.runs().map(SealedRuns::families).unwrap_or_default();
        let mut state = self.order.lock();
        let seq = state.next;
        state.next += 1;
        // Its changes go past the memtable.
        families.into_iter().for_each(|family| self.deleted_ranges.put_any(family));
        let sealed = std::mem::replace(&mut state.active, fresh);
        let before = state.position;
        state.note_position(position);
        state.is_unsealed = false;
        let ticket = log(seq, &sealed, [before, state.position]);
        let deleted_ranges = self.deleted_ranges.clone();
        batch.set_ordered(Ordered { seq, ticket, memtable: sealed, deleted_ranges });
        self.visible_seq.give_out(seq, batch.clone());
        seq
    }

    /// Ranges of keys known to be dead.
    pub(crate) fn deleted_ranges(&self) -> &DeletedRangeCache {
        &self.deleted_ranges
    }

    /// Every commit at or below it is in a memtable.
    pub fn visible_seq(&self) -> Seq {
        self.visible_seq.reached()
    }

    /// The last sequence number given out.
    pub fn last_ordered(&self) -> Seq {
        self.visible_seq.last_ordered()
    }

    /// Returns when the visible sequence has passed `seq`, helping the batches before it.
    pub fn help_until(&self, seq: Seq, oldest_snapshot: Seq) {
        self.visible_seq.help_until(seq, oldest_snapshot);
    }

    /// Replaces the active memtable by `fresh`. `publish` runs under the order lock with the sealed one, its last
    /// sequence number, and the cluster's position there.
    pub fn rotate(
        &self,
        fresh: Arc<Memtable>,
        publish: impl FnOnce(&Arc<Memtable>, Seq, Option<ClusterPosition>),
    ) {
        let mut state = self.order.lock();
        let sealed = std::mem::replace(&mut state.active, fresh);
        state.is_unsealed = false;
        publish(&sealed, state.next - 1, state.position);
    }

    /// The cluster's position: that of the newest ordered commit with one.
    pub fn position(&self) -> Option<ClusterPosition> {
        self.order.lock().position
    }

    /// True if the position is newer than the last rotation. The active memtable may be empty all the same: a
    /// position may be all that a commit has.
    pub fn has_unsealed_position(&self) -> bool {
        self.order.lock().is_unsealed
    }

    /// Runs `work` between two commits, with the last sequence number given out; none is given out meanwhile.
    pub fn between_commits<T>(&self, work: impl FnOnce(Seq) -> T) -> T {
        let state = self.order.lock();
        work(state.next - 1)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use super::*;
    use crate::error::Error;
    use crate::host::SystemClock;
    use crate::memtable::ArenaPool;

    /// Places come free and are taken by others: each time the waiting thread is woken before the end of its nap.
    #[test]
    fn a_wait_for_a_place_keeps_its_limit_while_others_wake_it() {
        let active = Arc::new(Memtable::new(1, ArenaPool::new(1 << 20)));
        let pipeline = Arc::new(Pipeline::new(1, active, None));
        *pipeline.places.lock() = 0;
        let (stop, begun) = (AtomicBool::new(false), SystemClock.now());
        let reserved = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed)
                    && SystemClock.now().since(begun) < Duration::from_secs(10)
                {
                    pipeline.place_free.notify_one();
                    std::thread::sleep(Duration::from_micros(100));
                }
                *pipeline.places.lock() = 1;
                pipeline.place_free.notify_one();
            });
            let reserved = pipeline.reserve(&SystemClock, &WaitLimit::of(Duration::from_millis(50)));
            stop.store(true, Ordering::Relaxed);
            reserved
        });
        assert!(matches!(reserved, Err(Error::BackpressureTimeout)), "{reserved:?}");
        // Without the waker on a processor some naps are whole.
        assert!(SystemClock.now().since(begun) < Duration::from_secs(2));
    }
}
