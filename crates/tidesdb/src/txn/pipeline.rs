//! The commit order. `order` gives a batch its sequence number and its place in the log under one short
//! lock; the changes then go into the memtable concurrently, and the *frontier* (every commit at or
//! below it is in) is advanced by whoever needs it, helping batches whose owner sleeps
//! (`protocols.md` 2.2, 2.3).

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::error::{Error, Result};
use crate::memtable::Generation;
use crate::txn::commit_batch::{CommitBatch, Ordered};
use crate::txn::dead_ranges::DeadRanges;
use crate::txn::frontier::{Frontier, Work};
use crate::txn::spill::SealedRuns;
use crate::types::Seq;
use crate::wal::{Patience, Ticket};

/// Commits between `prepare` and the end of `finish` at a time; more wait in `prepare`. Larger than any
/// sensible number of connections.
const PLACES: usize = 8192;

/// What `order` changes.
#[derive(Debug)]
struct OrderState {
    next: Seq,
    active: Arc<Generation>,
}

/// The commit order of a store.
#[derive(Debug)]
pub struct Pipeline {
    order: Mutex<OrderState>,
    frontier: Frontier<CommitBatch>,
    places: Mutex<usize>,
    place_free: Condvar,
    dead_ranges: Arc<DeadRanges>,
}

/// A place in the ring, held from `prepare` to the end of `finish`.
#[derive(Debug)]
pub struct Place {
    pipeline: Arc<Pipeline>,
}

impl Drop for Place {
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

    fn apply(&self, floor: Seq) {
        CommitBatch::apply(self, floor);
    }
}

impl Pipeline {
    /// An order whose next sequence number is `next`, into `active`.
    pub fn new(next: Seq, active: Arc<Generation>) -> Pipeline {
        Pipeline {
            order: Mutex::new(OrderState { next, active }),
            frontier: Frontier::new(next - 1, PLACES),
            places: Mutex::new(PLACES),
            place_free: Condvar::new(),
            dead_ranges: Arc::default(),
        }
    }

    /// Reserves a place; part of `prepare`, which may wait.
    pub fn reserve(self: &Arc<Self>, patience: &Patience<'_>) -> Result<Place> {
        let mut places = self.places.lock();
        let mut waited = Duration::ZERO;
        while *places == 0 {
            if (patience.interrupted)() {
                return Err(Error::Interrupted);
            }
            if waited >= patience.timeout {
                return Err(Error::BackpressureTimeout);
            }
            if self.place_free.wait_for(&mut places, Patience::STEP).timed_out() {
                waited += Patience::STEP;
            }
        }
        *places -= 1;
        Ok(Place { pipeline: self.clone() })
    }

    /// Gives `batch` the next sequence number and, through `log`, its place in the log. Cannot fail; the
    /// caller holds a [`Place`] and whatever `log` needs.
    pub fn order(&self, batch: &Arc<CommitBatch>, log: impl FnOnce(Seq, &Arc<Generation>) -> Ticket) -> Seq {
        let mut state = self.order.lock();
        let seq = state.next;
        state.next += 1;
        let ticket = log(seq, &state.active);
        let dead_ranges = self.dead_ranges.clone();
        batch.set_ordered(Ordered { seq, ticket, generation: state.active.clone(), dead_ranges });
        self.frontier.give_out(seq, batch.clone());
        seq
    }

    /// As [`Pipeline::order`] and, in the same step, a rotation: what is ordered before goes into the old
    /// generation, what is ordered behind into `fresh`; the batch itself has no changes for a memtable.
    /// `log` gets the sealed generation.
    pub fn order_and_rotate(
        &self,
        batch: &Arc<CommitBatch>,
        fresh: Arc<Generation>,
        log: impl FnOnce(Seq, &Arc<Generation>) -> Ticket,
    ) -> Seq {
        let families = batch.runs().map(SealedRuns::families).unwrap_or_default();
        let mut state = self.order.lock();
        let seq = state.next;
        state.next += 1;
        // Its changes go past the memtable.
        families.into_iter().for_each(|family| self.dead_ranges.put_any(family));
        let sealed = std::mem::replace(&mut state.active, fresh);
        let ticket = log(seq, &sealed);
        let dead_ranges = self.dead_ranges.clone();
        batch.set_ordered(Ordered { seq, ticket, generation: sealed, dead_ranges });
        self.frontier.give_out(seq, batch.clone());
        seq
    }

    /// Ranges of keys known to be dead.
    pub(crate) fn dead_ranges(&self) -> &DeadRanges {
        &self.dead_ranges
    }

    /// Every commit at or below it is in a memtable.
    pub fn frontier(&self) -> Seq {
        self.frontier.reached()
    }

    /// The last sequence number given out.
    pub fn last_ordered(&self) -> Seq {
        self.frontier.last_ordered()
    }

    /// Returns when the frontier has passed `seq`, helping the batches before it.
    pub fn help_until(&self, seq: Seq, floor: Seq) {
        self.frontier.help_until(seq, floor);
    }

    /// Puts `fresh` in the place of the active generation. `publish` runs under the order lock with the
    /// sealed one and the last sequence number that belongs to it.
    pub fn rotate(&self, fresh: Arc<Generation>, publish: impl FnOnce(&Arc<Generation>, Seq)) {
        let mut state = self.order.lock();
        let sealed = std::mem::replace(&mut state.active, fresh);
        publish(&sealed, state.next - 1);
    }

    /// Runs `work` between two commits: with the last sequence number given out, and none is given out meanwhile.
    pub fn between_commits<T>(&self, work: impl FnOnce(Seq) -> T) -> T {
        let state = self.order.lock();
        work(state.next - 1)
    }

    /// The active generation.
    pub fn active(&self) -> Arc<Generation> {
        self.order.lock().active.clone()
    }
}
