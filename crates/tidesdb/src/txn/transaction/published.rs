//! A transaction's numbers for other threads.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use crate::store::pressure::LARGE_BATCH;
use crate::store::Store;
use crate::txn::transaction_list::Registered;

/// Step in which the memory of private batches is counted: small transactions touch no shared counter.
const COUNT_STEP: usize = 4 << 10;

/// True if a batch becomes a large one by growing from `before` to `now`.
fn is_large(before: usize, now: usize) -> bool {
    before < LARGE_BATCH && now >= LARGE_BATCH
}

/// A transaction's place in the list of all, its counter of changes, and its part of the store's counter of
/// batches.
///
/// Every change of the batch goes through `changed`. The store's counter holds exactly `counted` bytes of
/// this transaction: within [`COUNT_STEP`] of the batch's size, and 0 after the end. So does the counter of
/// committing transactions while `committing`.
#[derive(Debug)]
pub(super) struct Published {
    pub(super) entry: Registered,
    /// Grows with every write and undo.
    pub(super) changes: Arc<AtomicU64>,
    counted: usize,
    committing: bool,
}

impl Published {
    /// Of a transaction without changes.
    pub(super) fn new(entry: Registered) -> Published {
        Published { entry, changes: Arc::new(AtomicU64::new(0)), counted: 0, committing: false }
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
            if self.committing {
                store.stats.committing_bytes.fetch_add(more, Ordering::Relaxed);
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

    /// Adds `bytes` to this batch's part of the store's counter of batches, unless the sum would exceed
    /// `most`.
    pub(super) fn reserve(&mut self, store: &Store, bytes: usize, most: u64) -> bool {
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

    /// The transaction begins to commit, or stops.
    #[inline]
    pub(super) fn set_committing(&mut self, store: &Store, committing: bool) {
        if self.committing != committing && self.counted > 0 {
            let bytes = self.counted as u64;
            let more = if committing { bytes } else { bytes.wrapping_neg() };
            store.stats.committing_bytes.fetch_add(more, Ordering::Relaxed);
        }
        self.committing = committing;
    }
}
