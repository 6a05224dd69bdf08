//! TidesDB: an embeddable, write-optimised LSM-tree storage engine.

pub mod error;
pub mod io;
pub mod iter;
pub mod memtable;
pub mod options;
pub mod types;

pub use error::{Error, Result};
