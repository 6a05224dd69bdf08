//! Numbers about a transaction that others read.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use crate::store::Store;
use crate::txn::transaction_list::Registered;

/// Steps in which the memory of private batches is counted: small transactions touch no shared counter.
const COUNT_STEP: usize = 4 << 10;

/// A transaction's place in the list of all, its counter of changes, and its part of the store's counter of batches.
///
/// Every change of the batch goes through `changed`, and the store's counter holds exactly `counted` bytes of this
/// transaction: within [`COUNT_STEP`] of the batch's size, and 0 after the end.
#[derive(Debug)]
pub(super) struct Published {
    pub(super) entry: Registered,
    /// Grows with every write and undo.
    pub(super) changes: Arc<AtomicU64>,
    counted: usize,
}

impl Published {
    /// Of a transaction without changes.
    pub(super) fn new(entry: Registered) -> Published {
        Published { entry, changes: Arc::new(AtomicU64::new(0)), counted: 0 }
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

    /// Makes the store's counter of batches count `size` bytes for this one.
    #[inline]
    pub(super) fn count(&mut self, store: &Store, size: usize) {
        if size != self.counted {
            let counter = &store.stats.batch_bytes;
            // Wraps where it shrinks: the sum is right.
            counter.fetch_add((size as u64).wrapping_sub(self.counted as u64), Ordering::Relaxed);
            self.counted = size;
        }
    }
}
