//! The pool of idle transaction objects, and the count of those in use.
//!
//! Invariant: `open` counts the existing leases. A lease is made after `open` was raised and `closed` was
//! read; [`Shared::close`] sets `closed` before it reads `open`. So no lease exists in a closing store.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::Arc;
use std::time::Duration;

use crate::db;
use crate::error::{Error, Result};
use crate::sync::Mutex;
use crate::txn::transaction::{Transaction, TransactionOptions};

/// Objects kept for their next use; beyond them they are freed.
const MOST_IDLE: usize = 64;

/// Longest wait for a lock, unless a transaction has its own.
pub(super) const LOCK_TIMEOUT: Duration = Duration::from_secs(50);

/// Longest delay of a write by back-pressure.
pub(super) const STATEMENT_WAIT: Duration = Duration::from_secs(60);

/// The engine's store with its pool; shared by all handles.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) engine: db::Db,
    idle: Mutex<Vec<Transaction>>,
    open: AtomicUsize,
    closed: AtomicBool,
}

impl Shared {
    pub(super) fn new(engine: db::Db) -> Shared {
        Shared { engine, idle: Mutex::default(), open: AtomicUsize::new(0), closed: AtomicBool::new(false) }
    }

    /// Error once the store is closed.
    pub(super) fn check_open(&self) -> Result<()> {
        if !self.closed.load(SeqCst) {
            return Ok(());
        }
        // A closing that finds something open takes `closed` back. Its outcome counts: `close` holds this lock.
        let _outcome = self.idle.lock();
        match self.closed.load(SeqCst) {
            true => Err(Error::InvalidArgument("the store is closed".into())),
            false => Ok(()),
        }
    }

    /// Closes the store. `Busy` while a transaction or an iterator is open: then it stays open.
    pub(super) fn close(&self) -> Result<()> {
        // Held throughout: of two that close at once, the second learns the outcome of the first.
        let mut idle = self.idle.lock();
        if self.closed.swap(true, SeqCst) {
            return Ok(());
        }
        let open = self.open.load(SeqCst);
        if open > 0 {
            self.closed.store(false, SeqCst);
            return Err(Error::Busy(format!(
                "{open} transactions or iterators are open: end them before the store is closed"
            )));
        }
        idle.clear();
        self.engine.clone().close()
    }

    /// Runs `body` in a writing transaction of its own, and commits it.
    pub(super) fn autocommit(&self, body: impl FnOnce(&mut Transaction) -> Result<()>) -> Result<()> {
        let mut lease = Lease::new(self, TransactionOptions::default())?;
        lease.txn().statement_begin(true, STATEMENT_WAIT)?;
        body(lease.txn())?;
        lease.txn().commit()
    }

    /// Runs `body` in a reading transaction of its own.
    pub(super) fn read<T>(&self, body: impl FnOnce(&mut Transaction) -> Result<T>) -> Result<T> {
        body(Lease::new(self, TransactionOptions::default())?.txn())
    }
}

/// A begun transaction from the pool. At its end, the lease rolls back an uncommitted transaction.
#[derive(Debug)]
pub(super) struct Lease<S: Deref<Target = Shared>> {
    /// `None` only while the lease ends, and while a new one is being begun.
    txn: Option<Transaction>,
    shared: S,
}

/// A lease with ownership of the store's handle.
pub(super) type OwnedLease = Lease<Arc<Shared>>;

impl<S: Deref<Target = Shared>> Lease<S> {
    pub(super) fn new(shared: S, options: TransactionOptions) -> Result<Lease<S>> {
        shared.open.fetch_add(1, SeqCst);
        // From here on the lease's end takes the count back.
        let mut lease = Lease { txn: None, shared };
        lease.shared.check_open()?;
        let idle = lease.shared.idle.lock().pop();
        let txn = lease.txn.insert(idle.unwrap_or_else(|| lease.shared.engine.transaction()));
        txn.set_lock_timeout(Some(LOCK_TIMEOUT));
        txn.set_sync(None);
        txn.begin(options)?;
        Ok(lease)
    }

    pub(super) fn shared(&self) -> &S {
        &self.shared
    }

    pub(super) fn txn(&mut self) -> &mut Transaction {
        self.txn.as_mut().expect("a lease that was made has its transaction until it ends")
    }
}

impl<S: Deref<Target = Shared>> Drop for Lease<S> {
    fn drop(&mut self) {
        if let Some(mut txn) = self.txn.take() {
            // Nothing of it was prepared with a name: a rollback writes nothing and cannot fail.
            let ended = !txn.is_active() || txn.rollback().is_ok();
            let mut idle = self.shared.idle.lock();
            // A panicking thread may have left the object half changed.
            if ended && idle.len() < MOST_IDLE && !std::thread::panicking() {
                idle.push(txn);
            }
        }
        self.shared.open.fetch_sub(1, SeqCst);
    }
}
