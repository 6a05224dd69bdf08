//! The handles that C programs hold: a store, a family, a transaction.

use std::cell::UnsafeCell;
use std::sync::atomic::AtomicI32;
use std::sync::Arc;

use tidesdb::internal::db::Db;
use tidesdb::internal::lock::LockOwner;
use tidesdb::internal::store::family::Family;
use tidesdb::internal::txn::transaction::Transaction;
use tidesdb::Error;

use crate::heap::Connection;

/// `tidesdb_db`.
pub struct DbHandle {
    pub(crate) db: Db,
    /// The same store, for single operations and iterators.
    pub(crate) api: tidesdb::Db,
    /// Lines of the log below this level are left out.
    pub(crate) log_level: Arc<AtomicI32>,
}

/// `tidesdb_family`.
pub struct FamilyHandle {
    pub(crate) family: Arc<Family>,
    pub(crate) db: Db,
    /// The same family, for single operations.
    pub(crate) single: tidesdb::Family,
}

/// `tidesdb_txn`. Kills come from other threads and touch `db` and `owner` alone.
pub struct TxnHandle {
    pub(crate) db: Db,
    pub(crate) owner: Arc<LockOwner>,
    inner: UnsafeCell<Transaction>,
    _connection: Connection,
}

impl TxnHandle {
    /// A transaction object of `db`.
    pub(crate) fn new(db: Db) -> TxnHandle {
        let inner = db.transaction();
        let (owner, _connection) = (inner.owner().clone(), Connection::new());
        TxnHandle { owner, inner: UnsafeCell::new(inner), db, _connection }
    }

    /// The transaction.
    ///
    /// # Safety
    /// The calling thread is the only user now; no other reference is alive.
    #[allow(clippy::mut_from_ref)] // What an UnsafeCell is for; the contract stands above.
    pub(crate) unsafe fn txn(&self) -> &mut Transaction {
        // SAFETY: the caller's contract.
        unsafe { &mut *self.inner.get() }
    }

    /// Sets the session's number in listings of transactions and dumps of locks.
    pub(crate) fn set_session(&self, session: u64) {
        self.owner.set_session(session);
    }

    /// True while a kill is in effect.
    pub(crate) fn is_killed(&self) -> bool {
        self.owner.is_killed()
    }

    /// Error when the family is one of another store.
    pub(crate) fn check_store(&self, family: &FamilyHandle) -> Result<(), Error> {
        check_store(&self.db, family)
    }
}

/// Error when the family is not one of `db`.
pub(crate) fn check_store(db: &Db, family: &FamilyHandle) -> Result<(), Error> {
    if Arc::ptr_eq(db.store(), family.db.store()) {
        return Ok(());
    }
    Err(Error::InvalidArgument("the family and the transaction are of two stores".into()))
}
