//! TidesDB: an embeddable, write-optimised LSM-tree storage engine.
//!
//! A store is a directory; in it are any number of column families, each an ordered map from keys to
//! values whose order is that of the bytes. Every read and write belongs to a [`Transaction`], which may
//! span families: it reads at a snapshot, sees its own changes, holds locks on what it writes, and commits
//! all of it or nothing.
//!
//! ```
//! use tidesdb::{Db, FamilyOptions, TransactionOptions, Options, ReadMode, Scan, Start};
//!
//! # fn main() -> tidesdb::Result<()> {
//! # let dir = tempfile::tempdir().expect("a temporary directory");
//! let db = Db::open(dir.path(), Options::default())?;
//! let fruit = db.create_family(b"fruit", FamilyOptions::default())?;
//!
//! let mut txn = db.transaction();
//! txn.begin(TransactionOptions::default())?;
//! txn.put(&fruit, b"apple", b"red")?;
//! txn.put(&fruit, b"banana", b"yellow")?;
//! txn.commit()?;
//!
//! // The same object begins the next transaction.
//! txn.begin(TransactionOptions::default())?;
//! assert_eq!(txn.get(&fruit, b"apple", ReadMode::Snapshot)?.as_deref(), Some(&b"red"[..]));
//! assert_eq!(txn.get(&fruit, b"cherry", ReadMode::Snapshot)?, None);
//!
//! let mut cursor = db.cursor(&fruit);
//! let mut keys = Vec::new();
//! let mut found = cursor.seek(&mut txn, &Scan { start: Start::Last, ..Scan::default() })?;
//! while found {
//!     for index in 0..cursor.len() {
//!         keys.push(cursor.row(index).0.to_vec());
//!     }
//!     found = cursor.fetch(&mut txn, cursor.len() - 1, false)?;
//! }
//! assert_eq!(keys, [b"banana".to_vec(), b"apple".to_vec()]);
//!
//! drop((txn, cursor, fruit));
//! db.close()
//! # }
//! ```
//!
//! `examples/quickstart.rs` shows more: snapshots, conflicts, locking reads, opening again.
//!
//! # What it promises
//!
//! - **Durability** as [`SyncMode`] says: `Full` (the default) answers a commit when it is on disk,
//!   `Interval` loses at most the interval on a power cut, `None` survives a killed process. After any
//!   crash the store is a prefix of the order of commits.
//! - **Isolation** as [`Isolation`] says; at repeatable read and above a write over a version that the
//!   snapshot does not show is [`Error::Conflict`] and not a lost update.
//! - **Locks**: [`Transaction::put`], [`insert`](Transaction::insert) and
//!   [`delete`](Transaction::delete) lock the key until the transaction ends. Waits end with a grant,
//!   [`Error::LockTimeout`], [`Error::Deadlock`] or [`Error::Interrupted`].
//! - **Bounds**: keys up to [`types::MAX_KEY_LEN`], values up to [`types::MAX_VALUE_LEN`], one
//!   transaction's changes up to half of [`Options::write_buffer_size`]. What is beyond is an error that
//!   names the bound.
//! - **Wrong bytes** in files are [`Error::Corruption`] with file and offset, never a panic.
//!
//! # Threads
//!
//! [`Db`] and [`Family`] are used from any number of threads. A [`Transaction`] and a [`Cursor`] are used
//! by one at a time; [`Db::kill`] interrupts a transaction from another.
//!
//! # The house
//!
//! Each module uses only those before it in this list: `error`, `options`, `types`, `ttl`; [`io`] (the one trait
//! to the disk, and the faulty disk of the tests); [`format`](mod@format); [`cache`]; [`iter`] (merging, pruning);
//! [`memtable`]; [`wal`]; [`table`]; [`version`] (manifest, live tables); [`flush`], [`compaction`]; [`lock`];
//! [`store`] (shared by reads and commits); [`txn`]; [`db`]; [`backup`]. What they write to disk is described byte by
//! byte in `docs/format.md`, how they work together in `docs/architecture.md` and `docs/protocols.md`.

pub mod backup;
pub mod cache;
pub mod compaction;
pub mod db;
pub mod error;
pub mod flush;
pub mod format;
pub mod io;
pub mod iter;
pub mod lock;
pub mod memtable;
pub mod options;
pub mod store;
pub mod table;
pub(crate) mod ttl;
pub mod txn;
pub mod types;
pub mod version;
pub mod wal;

pub use backup::{Backup, BackupOptions};
pub use db::ddl::Ddl;
pub use db::Db;
pub use error::{Error, Result};
pub use options::{FamilyOptions, Options, SyncMode};
pub use store::family::Family;
pub use txn::cursor::{Cursor, Scan, Start};
pub use txn::transaction::{Change, ChangeKind, Isolation, ReadMode, Transaction, TransactionOptions};
