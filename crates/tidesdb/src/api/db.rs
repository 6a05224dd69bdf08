//! A store of the embedding program.

use std::path::Path;
use std::sync::Arc;

use super::family::Family;
use super::ingest::Ingest;
use super::pool::Shared;
use super::transaction::Transaction;
use crate::backup::{self, BackupOptions, Watch};
use crate::db;
use crate::error::{Error, Result};
use crate::io::{Disk, RealDisk};
use crate::options::{FamilyOptions, Options};
use crate::txn::transaction::TransactionOptions;

/// An open store: a directory with any number of column families.
///
/// Clones are handles to the same store; any number of threads may use one. One process has a store open at a
/// time. [`Db::close`] ends the work in the background and reports errors. Dropping all handles without it
/// loses no promised commit; the next opening reads it from the log.
#[derive(Clone, Debug)]
pub struct Db {
    shared: Arc<Shared>,
}

impl Db {
    /// Opens the store in the directory `path`, and makes it if it does not exist. After a crash it is
    /// recovered first.
    ///
    /// # Errors
    /// `Busy` when another process, or this one, has it open; `InvalidArgument` for an option outside its
    /// bounds; `Corruption`, `Io`, `DiskFull`.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Db> {
        db::Db::open(path, options).map(Db::over)
    }

    /// This interface over an open store.
    #[doc(hidden)]
    pub fn over(engine: db::Db) -> Db {
        Db { shared: Arc::new(Shared::new(engine)) }
    }

    /// The engine below this interface.
    #[doc(hidden)]
    pub fn engine(&self) -> &db::Db {
        &self.shared.engine
    }

    /// The handle of a family of this store, given out by the engine.
    #[doc(hidden)]
    pub fn handle(&self, family: Arc<crate::store::family::Family>) -> Family {
        Family { shared: self.shared.clone(), family }
    }

    /// Opens the column family with this name, and makes it with default options if it does not exist.
    ///
    /// # Errors
    /// `InvalidArgument` for an empty or too long name.
    pub fn family(&self, name: impl AsRef<[u8]>) -> Result<Family> {
        self.family_with(name, FamilyOptions::default())
    }

    /// As [`Db::family`], with the options for a new family. An existing family keeps its own.
    pub fn family_with(&self, name: impl AsRef<[u8]>, options: FamilyOptions) -> Result<Family> {
        let name = name.as_ref();
        if let Some(family) = self.find_family(name)? {
            return Ok(family);
        }
        match self.shared.engine.create_family(name, options) {
            Ok(family) => Ok(self.handle(family)),
            // Another thread was faster.
            Err(Error::FamilyExists(_)) => self.shared.engine.family(name).map(|family| self.handle(family)),
            Err(error) => Err(error),
        }
    }

    /// Opens the column family with this name; `None` when it does not exist.
    pub fn find_family(&self, name: impl AsRef<[u8]>) -> Result<Option<Family>> {
        self.shared.check_open()?;
        match self.shared.engine.family(name.as_ref()) {
            Ok(family) => Ok(Some(self.handle(family))),
            Err(Error::NoSuchFamily(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Names of all column families, in their order.
    pub fn family_names(&self) -> Vec<Vec<u8>> {
        self.shared.engine.family_names(b"").iter().map(|name| name.to_vec()).collect()
    }

    /// Drops a column family with all its rows, durably.
    ///
    /// # Errors
    /// `NoSuchFamily`.
    pub fn drop_family(&self, name: impl AsRef<[u8]>) -> Result<()> {
        self.shared.check_open()?;
        let mut ddl = self.shared.engine.ddl()?;
        ddl.drop_family(name.as_ref())?;
        ddl.commit()
    }

    /// Gives a column family another name, durably. Handles of it stay usable.
    ///
    /// # Errors
    /// `NoSuchFamily`, `FamilyExists`.
    pub fn rename_family(&self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> Result<()> {
        self.shared.check_open()?;
        let mut ddl = self.shared.engine.ddl()?;
        ddl.rename(from.as_ref(), to.as_ref())?;
        ddl.commit()
    }

    /// The present second of the expiry clock, the base of lifetimes: seconds since 1970.
    ///
    /// It is the wall clock's second, but never goes back, not over an opening either. While the wall clock
    /// is behind it, it goes on at the pace of the monotonic clock.
    pub fn expiry_second(&self) -> u64 {
        self.shared.engine.expiry_second()
    }

    /// Begins a transaction with a snapshot of its own (repeatable read).
    pub fn begin(&self) -> Result<Transaction> {
        self.begin_with(TransactionOptions::default())
    }

    /// Begins a transaction with options, its isolation among them.
    pub fn begin_with(&self, options: TransactionOptions) -> Result<Transaction> {
        Transaction::begin(&self.shared, options)
    }

    /// Begins a load of empty families past log and memtable: for many rows the cheapest way in.
    pub fn ingest(&self) -> Result<Ingest> {
        Ingest::begin(&self.shared)
    }

    /// Makes every answered commit durable: for stores with a sync mode below
    /// [`SyncMode::Full`](crate::SyncMode::Full).
    pub fn sync(&self) -> Result<()> {
        self.shared.check_open()?;
        self.shared.engine.flush_log()
    }

    /// Writes the memtables to files: the next opening has no log to read.
    pub fn flush(&self) -> Result<()> {
        self.shared.check_open()?;
        self.shared.engine.flush()
    }

    /// Copies the store at one moment into the directory `to`, empty or missing. Reads and writes go on
    /// meanwhile. [`Db::restore`] makes a store of it.
    ///
    /// # Errors
    /// `InvalidArgument` for a directory with files in it, or in or around the store's; `Busy` while another
    /// backup is taken; `DiskFull`, `Io`. After an error, `to` is empty.
    pub fn backup(&self, to: impl AsRef<Path>) -> Result<()> {
        self.shared.check_open()?;
        self.shared.engine.backup(to.as_ref(), BackupOptions::default(), Watch::NONE)?;
        Ok(())
    }

    /// Checks every checksum of a backup, then makes a store of it in the directory `into`, empty or missing.
    /// The backup does not change.
    ///
    /// # Errors
    /// `Corruption` with file and offset; `InvalidArgument` for a directory without a finished backup, or for
    /// `into` with files in it; `DiskFull`, `Io`.
    pub fn restore(backup: impl AsRef<Path>, into: impl AsRef<Path>) -> Result<()> {
        let disk: Arc<dyn Disk> = Arc::new(RealDisk);
        backup::restore(&disk, backup.as_ref(), into.as_ref(), None, Watch::NONE)?;
        Ok(())
    }

    /// Closes the store: ends the work in the background and makes all commits durable. Remaining handles
    /// return an error from then on; the directory stays locked until the last of them is dropped.
    ///
    /// # Errors
    /// `Busy` while a transaction or an iterator is open; the store then stays open as long as one of its
    /// handles. `Io`, `ReadOnly` when the log failed.
    pub fn close(self) -> Result<()> {
        self.shared.close()
    }
}
