//! TidesDB: an embeddable, write-optimised LSM-tree storage engine.

pub mod cache;
pub mod compaction;
pub mod error;
pub mod flush;
pub mod format;
pub mod io;
pub mod iter;
pub mod memtable;
pub mod options;
pub mod table;
pub mod types;
pub mod version;

pub use error::{Error, Result};
pub mod txn;
