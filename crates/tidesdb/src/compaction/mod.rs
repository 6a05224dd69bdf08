//! Compaction: merges runs so that reads meet few of them and dead versions go. [`picker`] decides what to
//! merge (pure), [`job`] does it, [`controller`] delays writers while it is behind (pure), [`claims`] keeps
//! running jobs apart.
//!
//! Stands beside flush, above versions and tables. Threads are the caller's.

pub mod claims;
pub mod merge;
pub mod prune;
#[cfg(test)]
pub(crate) mod vec_source;
