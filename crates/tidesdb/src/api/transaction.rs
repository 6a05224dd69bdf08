//! A transaction of the embedding program.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::family::{values_of, Family};
use super::iter::TransactionIter;
use super::key_range::{ByteRange, KeyBounds};
use super::pool::{Lease, OwnedLease, Shared, STATEMENT_WAIT};
use crate::error::{Error, Result};
use crate::options::SyncMode;
use crate::txn::transaction::{Isolation, ReadMode, SavepointId, Transaction as Engine, TransactionOptions};

/// An error after which only a rollback is possible.
#[derive(Clone, Copy, Debug)]
enum Doom {
    Conflict,
    Deadlock,
}

impl Doom {
    fn of(error: &Error) -> Option<Doom> {
        match error {
            Error::Conflict => Some(Doom::Conflict),
            Error::Deadlock => Some(Doom::Deadlock),
            _ => None,
        }
    }

    fn error(self) -> Error {
        match self {
            Doom::Conflict => Error::Conflict,
            Doom::Deadlock => Error::Deadlock,
        }
    }
}

/// A place in a transaction's changes, for [`Transaction::rollback_to`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Savepoint(SavepointId);

/// Changes in any families of one store, committed together or not at all.
///
/// [`commit`](Transaction::commit) ends it; a drop without it rolls back. Reads see its own changes and, at
/// the default isolation, the store as of its first read. Writes lock their keys until it ends.
///
/// After [`Error::Conflict`] or [`Error::Deadlock`] only a rollback is possible: every further call, `commit`
/// too, returns the same error. Then begin again. Any other error of a write undoes this write alone, and the
/// transaction goes on.
///
/// One thread uses it at a time; it may move between threads. It keeps the store open.
pub struct Transaction {
    lease: RefCell<OwnedLease>,
    isolation: Isolation,
    /// Number of its open iterators. While there is one, no statement begins: at [`Isolation::ReadCommitted`]
    /// it would end the iterator's snapshot.
    iterators: Cell<usize>,
    doom: Cell<Option<Doom>>,
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction").field("isolation", &self.isolation).finish_non_exhaustive()
    }
}

impl Transaction {
    pub(super) fn begin(shared: &Arc<Shared>, options: TransactionOptions) -> Result<Transaction> {
        Ok(Transaction {
            lease: RefCell::new(Lease::new(shared.clone(), options)?),
            isolation: options.isolation,
            iterators: Cell::new(0),
            doom: Cell::new(None),
        })
    }

    /// Sets a key's value, whether the key exists or not. The key stays locked until the transaction ends.
    ///
    /// # Errors
    /// `Conflict`, `Deadlock`, `LockTimeout`; `InvalidArgument` for a too long key or value.
    pub fn put(&self, family: &Family, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.write(family, |txn| txn.put(&family.family, key.as_ref(), value.as_ref()))
    }

    /// Sets the value of a new key.
    ///
    /// # Errors
    /// `Duplicate` when it exists; else the errors of [`Transaction::put`].
    pub fn insert(&self, family: &Family, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.write(family, |txn| txn.insert(&family.family, key.as_ref(), value.as_ref()))
    }

    /// As [`Transaction::put`], with an expiry in seconds since 1970. From the second `expiry` of the store's
    /// expiry clock on ([`Db::expiry_second`](super::Db::expiry_second)), the key does not exist.
    pub fn put_expiring(
        &self,
        family: &Family,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        expiry: u64,
    ) -> Result<()> {
        self.write(family, |txn| txn.put_expiring(&family.family, key.as_ref(), value.as_ref(), expiry))
    }

    /// Deletes a key, whether it exists or not.
    ///
    /// # Errors
    /// Those of [`Transaction::put`].
    pub fn delete(&self, family: &Family, key: impl AsRef<[u8]>) -> Result<()> {
        self.write(family, |txn| txn.delete(&family.family, key.as_ref()))
    }

    /// The value of a key, at the transaction's snapshot; `None` when the key does not exist.
    /// At [`Isolation::Serializable`] the key is locked against writers, and the newest value is read.
    ///
    /// # Errors
    /// `SnapshotTooOld` when the family is newer than the snapshot; at `Serializable` those of
    /// [`Transaction::get_for_update`].
    pub fn get(&self, family: &Family, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.read(family, key.as_ref(), self.read_mode())
    }

    /// The values of several keys, in the order of `keys`, as [`Transaction::get`] reads each; at
    /// [`Isolation::ReadCommitted`] all of one moment.
    ///
    /// # Errors
    /// Those of [`Transaction::get`].
    pub fn get_many(&self, family: &Family, keys: &[impl AsRef<[u8]>]) -> Result<Vec<Option<Vec<u8>>>> {
        let mode = self.read_mode();
        self.run(family, false, |txn| values_of(txn, &family.family, keys, mode))
    }

    /// Locks a key, then reads its newest value: nobody else changes it until the transaction ends.
    ///
    /// # Errors
    /// `Conflict` when the key was changed since the transaction's snapshot, `Deadlock`, `LockTimeout`.
    pub fn get_for_update(&self, family: &Family, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.read(family, key.as_ref(), ReadMode::Exclusive)
    }

    /// The rows of a range; see [`KeyBounds`] for its forms. The transaction may be written to while the
    /// iterator lives.
    pub fn range<'t>(&'t self, family: &Family, keys: impl KeyBounds) -> TransactionIter<'t> {
        self.iterate(family, ByteRange::of(&keys))
    }

    /// The rows whose keys start with `prefix`.
    pub fn prefix<'t>(&'t self, family: &Family, prefix: impl AsRef<[u8]>) -> TransactionIter<'t> {
        self.iterate(family, ByteRange::of_prefix(prefix.as_ref()))
    }

    /// All rows of a family.
    pub fn iter<'t>(&'t self, family: &Family) -> TransactionIter<'t> {
        self.iterate(family, ByteRange::default())
    }

    /// Longest wait for a lock; `None`: no limit. 50 seconds unless it is set.
    pub fn set_lock_timeout(&self, timeout: Option<Duration>) {
        self.lease.borrow_mut().txn().set_lock_timeout(timeout);
    }

    /// Sets a stricter sync mode for the commit than the store's and the families'.
    pub fn set_sync(&self, mode: SyncMode) {
        self.lease.borrow_mut().txn().set_sync(Some(mode));
    }

    /// Marks the changes made so far.
    pub fn savepoint(&self) -> Result<Savepoint> {
        self.check_doom()?;
        self.lease.borrow_mut().txn().savepoint_set().map(Savepoint)
    }

    /// Undoes the changes made after a savepoint; locks stay, later savepoints are gone.
    ///
    /// # Errors
    /// `InvalidArgument` for a savepoint already gone.
    pub fn rollback_to(&self, savepoint: Savepoint) -> Result<()> {
        self.check_doom()?;
        self.lease.borrow_mut().txn().savepoint_rollback(savepoint.0)
    }

    /// Makes all changes visible to others and as durable as the [`SyncMode`] says, then releases the locks.
    ///
    /// # Errors
    /// The transaction is rolled back after every error but [`Error::OutcomeUnknown`].
    pub fn commit(self) -> Result<()> {
        self.check_doom()?;
        self.lease.into_inner().txn().commit()
    }

    /// Undoes all changes and releases the locks, as dropping the transaction does.
    pub fn rollback(self) -> Result<()> {
        self.lease.into_inner().txn().rollback()
    }

    pub(super) fn read_mode(&self) -> ReadMode {
        self.lease.borrow_mut().txn().plain_read_mode()
    }

    pub(super) fn iterator_begins(&self) {
        self.iterators.set(self.iterators.get() + 1);
    }

    pub(super) fn iterator_ends(&self) {
        self.iterators.set(self.iterators.get() - 1);
    }

    pub(super) fn iterator_steps<T>(&self, step: impl FnOnce(&mut Engine) -> Result<T>) -> Result<T> {
        self.check_doom()?;
        self.noted(step(self.lease.borrow_mut().txn()))
    }

    fn iterate(&self, family: &Family, range: ByteRange) -> TransactionIter<'_> {
        let usable = self.check_doom().and_then(|()| self.check_store(family)).and_then(|()| {
            let statement = self.statement(self.lease.borrow_mut().txn(), false);
            self.noted(statement)
        });
        TransactionIter::new(self, &family.family, range, usable)
    }

    fn read(&self, family: &Family, key: &[u8], mode: ReadMode) -> Result<Option<Vec<u8>>> {
        self.run(family, false, |txn| txn.get(&family.family, key, mode))
    }

    fn write(&self, family: &Family, change: impl FnOnce(&mut Engine) -> Result<()>) -> Result<()> {
        self.run(family, true, change)
    }

    /// Runs one operation as a statement of its own.
    fn run<T>(
        &self,
        family: &Family,
        may_write: bool,
        operation: impl FnOnce(&mut Engine) -> Result<T>,
    ) -> Result<T> {
        self.check_doom()?;
        self.check_store(family)?;
        let mut lease = self.lease.borrow_mut();
        let txn = lease.txn();
        let result = self.statement(txn, may_write).and_then(|()| operation(txn));
        self.noted(result)
    }

    /// Begins a statement, unless an iterator's is still running. Back-pressure may delay a writing one.
    fn statement(&self, txn: &mut Engine, may_write: bool) -> Result<()> {
        match self.iterators.get() {
            0 => txn.statement_begin(may_write, STATEMENT_WAIT),
            _ => Ok(()),
        }
    }

    fn noted<T>(&self, result: Result<T>) -> Result<T> {
        if let Some(doom) = result.as_ref().err().and_then(Doom::of) {
            self.doom.set(Some(doom));
        }
        result
    }

    fn check_doom(&self) -> Result<()> {
        self.doom.get().map_or(Ok(()), |doom| Err(doom.error()))
    }

    fn check_store(&self, family: &Family) -> Result<()> {
        if Arc::ptr_eq(self.lease.borrow().shared(), &family.shared) {
            return Ok(());
        }
        Err(Error::InvalidArgument("the family and the transaction are of two stores".into()))
    }
}
