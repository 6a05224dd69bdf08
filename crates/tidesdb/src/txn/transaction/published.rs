//! A transaction's numbers for other threads.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use crate::mutant::{self, Mutant};
use crate::store::pressure::LARGE_BATCH;
use crate::store::Store;
use crate::txn::transaction_list::Registered;

/// Step in which the memory of private batches is counted: small transactions touch no shared counter.
const COUNT_STEP: usize = 4 << 10;

/// True if a batch becomes a large one by growing from `before` to `now`.
fn is_large(before: usize, now: usize) -> bool {
    before < LARGE_BATCH && now >= LARGE_BATCH
}

/// Which part of all batches a transaction's is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// It has more changes to come, or waits for its client.
    Open,
    /// It is between the begin of `prepare` and its end.
    Committing,
    /// It is XA-prepared.
    Undecided,
}

impl Part {
    fn counter(self, store: &Store) -> Option<&AtomicU64> {
        match self {
            Part::Open => None,
            Part::Committing => Some(&store.stats.committing_bytes),
            Part::Undecided => Some(&store.stats.undecided_bytes),
        }
    }
}

/// A transaction's place in the list of all, its counter of changes, and its part of the store's counter of
/// batches.
///
/// Every change of the batch goes through `changed`. The store's counter holds exactly `counted` bytes of
/// this transaction: within [`COUNT_STEP`] of the batch's size, and 0 after the end. So does the counter of
/// its part.
#[derive(Debug)]
pub(super) struct Published {
    pub(super) entry: Registered,
    /// Grows with every write and undo.
    pub(super) changes: Arc<AtomicU64>,
    counted: usize,
    part: Part,
}

impl Published {
    /// Of a transaction without changes.
    pub(super) fn new(entry: Registered) -> Published {
        Published { entry, changes: Arc::new(AtomicU64::new(0)), counted: 0, part: Part::Open }
    }

    /// The batch was changed and has `size` bytes in memory now.
    #[inline]
    pub(super) fn changed(&mut self, store: &Store, size: usize) {
        self.changes.fetch_add(1, Ordering::Relaxed);
        self.entry.set_bytes(size);
        if size.abs_diff(self.counted) >= COUNT_STEP || size == 0 {
            self.count(store, size);
        }
    }

    /// Sets this batch's part of the store's counter of batches to `size` bytes.
    #[inline]
    pub(super) fn count(&mut self, store: &Store, size: usize) {
        if size != self.counted {
            // Wraps where it shrinks: the sum is right.
            let more = (size as u64).wrapping_sub(self.counted as u64);
            store.stats.batch_bytes.fetch_add(more, Ordering::Relaxed);
            if mutant::is(Mutant::BatchGivenBackTwice) && size == 0 {
                store.stats.batch_bytes.fetch_add(more, Ordering::Relaxed);
            }
            if let Some(counter) = self.part.counter(store) {
                counter.fetch_add(more, Ordering::Relaxed);
            }
            let large = &store.stats.large_batches;
            if is_large(self.counted, size) {
                large.fetch_add(1, Ordering::Relaxed);
            } else if is_large(size, self.counted) {
                large.fetch_sub(1, Ordering::Relaxed);
            }
            self.counted = size;
        }
    }

    /// Adds `bytes` to this batch's part of the store's counter of batches, unless the sum would exceed its bound.
    /// Undecided transactions do not count: nobody can wait for their end.
    pub(super) fn reserve(&mut self, store: &Store, bytes: usize) -> bool {
        let undecided = store.stats.undecided_bytes.load(Ordering::Relaxed);
        let most = store.memory_of_transactions().saturating_add(undecided);
        let more = |all: u64| all.checked_add(bytes as u64).filter(|all| *all <= most);
        let counter = &store.stats.batch_bytes;
        let reserved = counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok();
        if reserved {
            let counted = self.counted + bytes;
            store
                .stats
                .large_batches
                .fetch_add(u64::from(is_large(self.counted, counted)), Ordering::Relaxed);
            self.counted = counted;
        }
        reserved
    }

    /// The transaction goes to another part.
    #[inline]
    pub(super) fn set_part(&mut self, store: &Store, part: Part) {
        if self.part != part && self.counted > 0 {
            let bytes = self.counted as u64;
            if let Some(left) = self.part.counter(store) {
                left.fetch_sub(bytes, Ordering::Relaxed);
                if mutant::is(Mutant::PartGivenBackTwice) {
                    left.fetch_sub(bytes, Ordering::Relaxed);
                }
            }
            if let Some(entered) = part.counter(store) {
                entered.fetch_add(bytes, Ordering::Relaxed);
            }
        }
        self.part = part;
    }
}
