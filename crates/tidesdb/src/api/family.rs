//! A column family of the embedding program.

use std::fmt;
use std::sync::Arc;

use super::iter::Iter;
use super::key_range::{ByteRange, KeyBounds};
use super::pool::{Lease, Shared};
use super::snapshot_cursor::SnapshotCursor;
use crate::error::Result;
use crate::options::FamilyOptions;
use crate::txn::transaction::{ReadMode, Transaction, TransactionOptions};

/// A column family: an ordered map from keys to values, both bytes. [`Db::family`](super::Db::family) opens
/// one.
///
/// Each operation here is a transaction of its own: when a write returns, it is committed, and as durable as
/// the [`SyncMode`](crate::SyncMode) says. [`Db::begin`](super::Db::begin) groups several.
///
/// Clones are handles to the same family. Any number of threads may use one. A handle keeps the store open.
/// After the family is dropped, every operation answers [`Error::NoSuchFamily`](crate::Error::NoSuchFamily).
#[derive(Clone)]
pub struct Family {
    pub(super) shared: Arc<Shared>,
    pub(super) family: Arc<crate::store::family::Family>,
}

/// Values of `keys` in their order.
pub(super) fn values_of(
    txn: &mut Transaction,
    family: &Arc<crate::store::family::Family>,
    keys: &[impl AsRef<[u8]>],
    mode: ReadMode,
) -> Result<Vec<Option<Vec<u8>>>> {
    let keys: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
    let mut values = vec![None; keys.len()];
    txn.get_many(family, &keys, mode, |place, value| values[place] = value.map(<[u8]>::to_vec))?;
    Ok(values)
}

impl fmt::Debug for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Family").field("name", &String::from_utf8_lossy(&self.family.name())).finish()
    }
}

impl Family {
    /// The engine's family.
    #[doc(hidden)]
    pub fn engine(&self) -> &Arc<crate::store::family::Family> {
        &self.family
    }

    /// A cursor over a range, with a snapshot of its own.
    #[doc(hidden)]
    pub fn cursor(&self, range: ByteRange) -> Result<SnapshotCursor> {
        SnapshotCursor::new(&self.shared, &self.family, range)
    }

    /// Its name now, as bytes.
    pub fn name(&self) -> Vec<u8> {
        self.family.name().to_vec()
    }

    /// Its options now.
    pub fn options(&self) -> FamilyOptions {
        (*self.family.options()).clone()
    }

    /// Sets a key's value, whether the key exists or not. Waits for a transaction with a lock on the key.
    ///
    /// # Errors
    /// `LockTimeout`; `InvalidArgument` for a too long key or value ([`MAX_KEY_LEN`](crate::MAX_KEY_LEN),
    /// [`MAX_VALUE_LEN`](crate::MAX_VALUE_LEN)); `DiskFull`, `Io`.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.shared.autocommit(|txn| txn.put(&self.family, key.as_ref(), value.as_ref()))
    }

    /// Sets the value of a new key.
    ///
    /// # Errors
    /// `Duplicate` when it exists; else the errors of [`Family::put`].
    pub fn insert(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.shared.autocommit(|txn| txn.insert(&self.family, key.as_ref(), value.as_ref()))
    }

    /// As [`Family::put`], with an expiry in seconds since 1970. From the second `expiry` of the store's
    /// expiry clock on ([`Db::expiry_second`](super::Db::expiry_second)), the key does not exist.
    pub fn put_expiring(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>, expiry: u64) -> Result<()> {
        self.shared.autocommit(|txn| txn.put_expiring(&self.family, key.as_ref(), value.as_ref(), expiry))
    }

    /// Deletes a key, whether it exists or not.
    ///
    /// # Errors
    /// Those of [`Family::put`].
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.shared.autocommit(|txn| txn.delete(&self.family, key.as_ref()))
    }

    /// The newest committed value of a key; `None` when the key does not exist. Never waits for a lock.
    ///
    /// # Errors
    /// `Corruption`, `Io`.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.shared.read(|txn| txn.get(&self.family, key.as_ref(), ReadMode::Snapshot))
    }

    /// The values of several keys, in the order of `keys`: the newest committed ones, all of one moment.
    ///
    /// # Errors
    /// Those of [`Family::get`].
    pub fn get_many(&self, keys: &[impl AsRef<[u8]>]) -> Result<Vec<Option<Vec<u8>>>> {
        self.shared.read(|txn| values_of(txn, &self.family, keys, ReadMode::Snapshot))
    }

    /// The rows of a range; see [`KeyBounds`] for its forms. They are those of one moment: later commits
    /// change nothing in an iterator.
    pub fn range(&self, keys: impl KeyBounds) -> Iter {
        self.iterate(ByteRange::of(&keys))
    }

    /// The rows whose keys start with `prefix`.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Iter {
        self.iterate(ByteRange::of_prefix(prefix.as_ref()))
    }

    /// All rows.
    pub fn iter(&self) -> Iter {
        self.iterate(ByteRange::default())
    }

    /// Merges all files of the family into its last level, after writing the memtables to files. Takes as
    /// long as reading and writing the whole family.
    pub fn compact(&self) -> Result<()> {
        self.shared.check_open()?;
        self.shared.engine.compact(&self.family)
    }

    /// Reads every block of the family and checks checksums, order and counts.
    ///
    /// # Errors
    /// `Corruption` with file and offset.
    pub fn verify(&self) -> Result<()> {
        self.shared.check_open()?;
        self.shared.engine.verify(&self.family)
    }

    fn iterate(&self, range: ByteRange) -> Iter {
        let lease = Lease::new(self.shared.clone(), TransactionOptions::default());
        Iter::new(&self.family, range, lease)
    }
}

impl IntoIterator for &Family {
    type Item = Result<super::KeyValue>;
    type IntoIter = Iter;

    fn into_iter(self) -> Iter {
        self.iter()
    }
}
