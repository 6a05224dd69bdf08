//! The transactions of a store: locks, open transactions, and prepared ones.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use crate::host::HashMap;
use crate::lock::LockManager;
use crate::store::commit_batch::CommitBatch;
use crate::store::Store;
use crate::sync::Mutex;
use crate::txn::detached_xa::DetachedXa;
use crate::txn::prepared::PreparedTransactions;
use crate::txn::transaction_list::TransactionList;
use crate::wal::Ticket;

/// See the module's comment. Commit, prepare and rollback are its methods (`commit`, `prepared`,
/// `recovered`).
pub struct Transactions {
    pub(crate) store: Arc<Store>,
    pub(crate) locks: LockManager,
    /// Transactions whose batch is in the log and not decided.
    pub(crate) prepared: PreparedTransactions,
    /// Detached XA transactions, by xid.
    pub(crate) detached: Mutex<HashMap<Vec<u8>, DetachedXa>>,
    pub(crate) list: Arc<TransactionList>,
    /// Refused prepares in the log, whose files stay until the rollback with this ticket is durable.
    pub(super) withdrawn: Mutex<Vec<(Ticket, Arc<CommitBatch>)>>,
    next_owner: AtomicU64,
}

impl fmt::Debug for Transactions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transactions").field("store", &self.store).finish_non_exhaustive()
    }
}

impl Transactions {
    pub(crate) fn new(store: Arc<Store>, locks: LockManager) -> Transactions {
        Transactions {
            store,
            locks,
            prepared: PreparedTransactions::default(),
            detached: Mutex::default(),
            list: Arc::default(),
            withdrawn: Mutex::default(),
            next_owner: AtomicU64::new(1),
        }
    }

    /// A new id, unique among lock owners since the store was opened.
    pub(crate) fn new_owner_id(&self) -> u64 {
        self.next_owner.fetch_add(1, Ordering::Relaxed)
    }
}
