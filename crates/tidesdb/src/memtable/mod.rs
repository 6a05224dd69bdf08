//! The memtable: recent writes in memory, in key order, from their commit to the flush into tables.
//!
//! Data flow: committers insert into the active [`Memtable`], shared by all families. A rotation makes it
//! immutable. Flush reads it through [`iterator::MemtableVersionIterator`], reads go through [`Memtable::get`]
//! and [`iterator::MemtableIterator`]. Guarantees: keys in memcmp order; versions of a key by sequence number;
//! repeated inserts change nothing; versions visible at or above the oldest snapshot are never cut; borrowed
//! keys and values stay valid as long as the memtable lives.
//!
//! From the outside in: [`memtable`] is the interface, and [`family_directory`] finds a family's tree. A
//! [`tree`] is a B+tree of [`node`]s over [`record`]s, each with a [`version_chain`]. All of it is in one
//! [`arena`]. `unsafe` is in the last four, and in the directory and the cursors, which turn pointers into
//! the arena into references. One rule of the arena justifies all of it: allocated memory stays.

mod arena;
mod estimate;
mod family_directory;
mod hash_build;
mod hash_index;
#[cfg(test)]
mod hash_test;
mod iterator;
#[allow(clippy::module_inception)] // The memtable, among its parts.
mod memtable;
mod node;
mod record;
#[cfg(test)]
mod tests;
mod tree;
mod version_chain;

pub use arena::ArenaPool;
pub use memtable::{Memtable, TreeRef};
