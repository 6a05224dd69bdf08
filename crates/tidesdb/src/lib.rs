//! TidesDB: an embeddable, write-optimised LSM-tree storage engine.
//!
//! A store is a directory. It holds any number of column families, each an ordered map from keys to values. Keys
//! and values are bytes, and keys sort as bytes. Transactions span families.
//!
//! ```
//! use tidesdb::{Db, Options};
//!
//! # fn main() -> tidesdb::Result<()> {
//! # let dir = tempfile::tempdir().expect("a temporary directory");
//! # let path = dir.path();
//! let db = Db::open(path, Options::default())?;
//! let fruit = db.family("fruit")?;                  // opens it, or makes it
//! fruit.put("apple", "red")?;                       // committed and on disk when it returns
//! fruit.put("banana", "yellow")?;
//! assert_eq!(fruit.get("apple")?.as_deref(), Some(&b"red"[..]));
//!
//! for row in fruit.range("a".."c").rev() {          // from banana down to apple
//!     let (key, value) = row?;
//!     println!("{} is {}", String::from_utf8_lossy(&key), String::from_utf8_lossy(&value));
//! }
//!
//! let txn = db.begin()?;                            // all of it or nothing
//! txn.delete(&fruit, "banana")?;
//! txn.put(&fruit, "cherry", "red")?;
//! txn.commit()?;                                    // dropped without this, it is rolled back
//! assert_eq!(fruit.iter().count(), 2);
//! db.close()
//! # }
//! ```
//!
//! `examples/quickstart.rs` shows more: snapshots, conflicts, locking reads, savepoints, backups.
//!
//! # Promises
//!
//! - **Durability** as [`SyncMode`] says: `Full` (the default) answers a commit when it is on disk, `Interval`
//!   loses at most the interval on a power cut, `None` survives a killed process. After any crash the store is a
//!   prefix of the order of commits.
//! - **Isolation** as [`Isolation`] says. At repeatable read, the default, and above, a write over a version that the
//!   snapshot does not show is [`Error::Conflict`] and not a lost update.
//! - **Locks**: a write locks its key until the transaction ends. A wait ends with a grant, [`Error::LockTimeout`] or
//!   [`Error::Deadlock`].
//! - **Bounds**: keys up to [`MAX_KEY_LEN`], values up to [`MAX_VALUE_LEN`]. A large transaction moves its
//!   changes to files: beyond a sixteenth of [`Options::write_buffer_size`], within 4 and 8 MiB. An error names
//!   the bound that was passed.
//! - **Wrong bytes** in files are [`Error::Corruption`] with file and offset, never a panic.
//!
//! # Threads
//!
//! Any number of threads use a [`Db`] and a [`Family`]; clones are handles to the same one. One thread at a time uses
//! a [`Transaction`] and an [`Iter`]. Both may move between threads.
//!
//! # Memory
//!
//! The library takes memory from the program's global allocator and installs none. Memtables and the block cache
//! are bounded by [`Options::write_buffer_size`] and [`Options::block_cache_size`].
//!
//! # The layers
//!
//! Each module uses only those before it in this list: `mutant` (planted faults); `splitmix` (numbers by a seed);
//! `sync` (locks); `error`, `options`, `types`, `value`, `value_holds`, `memory_gauge`, `latency`; `host` (time, threads, chance);
//! `io` (the one trait to the disk, and the faulty disk of the tests); `env` (all of these, as a store is given them);
//! `format`; `cache`; `iter` (merging, pruning); `memtable`; `wal`; `table`; `values` (value files);
//! `version` (manifest, live tables); `flush`, `compaction`; `lock`; `store` (shared by reads and commits); `txn`; `db`; `backup`; `api` (the types of
//! this page). The module `internal` hands out the parts that the C interface, the tests and the laboratory work with.
//! `docs/format.md` describes the files byte by byte, `docs/architecture.md` and `docs/protocols.md` the work of the
//! layers.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod api;
mod backup;
mod cache;
mod compaction;
mod db;
mod env;
mod error;
mod flush;
mod format;
mod host;
#[doc(hidden)]
pub mod internal;
mod io;
mod iter;
mod latency;
mod lock;
mod memory_gauge;
mod memtable;
mod mutant;
mod options;
mod splitmix;
mod store;
mod sync;
/// Faults planted for `make mutants`.
#[cfg(mutants)]
pub use crate::mutant::{Mutant, MUTANTS, VARIABLE};
/// The scheduler of the simulation.
#[cfg(simulation)]
pub use crate::sync::scheduler as simulation;
mod table;
mod txn;
mod types;
mod value;
mod value_holds;
mod values;
mod version;
mod wal;

pub use api::{Db, Family, Ingest, Iter, KeyBounds, KeyValue, Savepoint, Transaction, TransactionIter};
pub use error::{Error, Result};
pub use options::machine::ProcessMemory;
pub use options::{
    BlockCodec, Compression, DirectReads, FamilyLabel, FamilyOptions, FormatVersion, LogLevel, LogSink,
    Options, RememberedStore, StoreIdentity, SyncMode,
};
pub use txn::transaction::{Isolation, TransactionOptions};
pub use types::{MAX_KEY_LEN, MAX_VALUE_LEN};
