//! TidesDB: an embeddable, write-optimised LSM-tree storage engine.

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
pub mod table;
pub mod txn;
pub mod types;
pub mod version;
pub mod wal;

pub use db::Db;
pub use error::{Error, Result};
