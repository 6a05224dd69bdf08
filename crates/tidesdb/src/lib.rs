//! TidesDB: an embeddable, write-optimised LSM-tree storage engine.

pub mod error;
pub mod io;
pub mod iter;
pub mod options;
pub mod types;
pub mod wal;

pub use error::{Error, Result};
