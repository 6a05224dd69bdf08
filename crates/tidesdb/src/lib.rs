//! TidesDB: an embeddable, write-optimised LSM-tree storage engine.

pub mod cache;
pub mod error;
pub mod format;
pub mod io;
pub mod iter;
pub mod options;
pub mod table;
pub mod types;

pub use error::{Error, Result};
