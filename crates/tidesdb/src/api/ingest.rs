//! A load of the embedding program.

use std::sync::Arc;

use super::family::Family;
use super::pool::{Lease, OwnedLease, Shared, LOCK_TIMEOUT};
use crate::error::{Error, Result};
use crate::txn::ingest::{Ingest as Engine, IngestOptions};
use crate::txn::transaction::TransactionOptions;
use crate::types::Pieces;

/// A load of empty column families, past log and memtable: for many rows the cheapest way in.
///
/// Its entries go straight into sorted files, best in the order of their keys; others are sorted on disk
/// first. [`finish`](Ingest::finish) shows all of them at once, durably. A drop without it leaves nothing.
///
/// From its first entry on, a family is locked as a whole: its other writers and locking readers wait. Snapshots
/// from before the end see it empty.
///
/// ```
/// # use tidesdb::{Db, Options};
/// # fn main() -> tidesdb::Result<()> {
/// # let dir = tempfile::tempdir().expect("a temporary directory");
/// # let db = Db::open(dir.path(), Options::default())?;
/// let numbers = db.family("numbers")?;
/// let mut load = db.ingest()?;
/// for n in 0..10_000u32 {
///     load.add(&numbers, n.to_be_bytes(), "a number")?;
/// }
/// assert_eq!(numbers.iter().count(), 0);
/// load.finish()?;
/// assert_eq!(numbers.iter().count(), 10_000);
/// # db.close()
/// # }
/// ```
///
/// One thread uses it at a time; it may move between threads. It keeps the store open.
#[derive(Debug)]
pub struct Ingest {
    engine: Engine,
    /// Counts as something open in the store.
    lease: OwnedLease,
}

impl Ingest {
    pub(super) fn begin(shared: &Arc<Shared>) -> Result<Ingest> {
        let lease = Lease::new(shared.clone(), TransactionOptions::default())?;
        let mut engine = shared.engine.ingest(IngestOptions::default())?;
        engine.set_lock_timeout(Some(LOCK_TIMEOUT));
        Ok(Ingest { engine, lease })
    }

    /// Adds a row.
    ///
    /// # Errors
    /// `InvalidArgument` for a family with rows, or with deleted ones that no merge has dropped yet;
    /// `Duplicate` for a key that it has already, perhaps only from [`finish`](Ingest::finish); `LockTimeout`.
    /// The load can go on after these, without the row. After `Deadlock`, `DiskFull` and `Io` it cannot.
    pub fn add(&mut self, family: &Family, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.add_expiring(family, key, value, 0)
    }

    /// As [`Ingest::add`], with an expiry in seconds since 1970; 0: none. See
    /// [`Transaction::put_expiring`](super::Transaction::put_expiring).
    pub fn add_expiring(
        &mut self,
        family: &Family,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        expiry: u64,
    ) -> Result<()> {
        if !Arc::ptr_eq(self.lease.shared(), &family.shared) {
            return Err(Error::InvalidArgument("the family and the load are of two stores".into()));
        }
        self.engine.add(&family.family, key.as_ref(), Pieces::new(value.as_ref(), &[]), expiry)
    }

    /// Shows all rows to others, durably in every [`SyncMode`](crate::SyncMode).
    ///
    /// # Errors
    /// Nothing of the load is left after `Duplicate`, `DiskFull`, `Io`, `NoSuchFamily` for a family that was
    /// dropped meanwhile. After `ReadOnly` and `OutcomeUnknown` a restart shows whether it is there.
    pub fn finish(self) -> Result<()> {
        let Ingest { engine, lease } = self;
        let finished = engine.finish();
        drop(lease);
        finished
    }
}
