//! The memtable: recent writes in memory, ordered, from the commit that inserts them until the flush
//! that writes them to tables.
//!
//! Committers insert into the active [`Memtable`], which holds all families; a rotation makes it
//! immutable, flush reads it through [`MemtableVersionIterator`], reads see it through [`Memtable::get`] and
//! [`MemtableIterator`]. Guarantees: keys in memcmp order; the versions of a key by sequence number; inserts
//! that are repeated change nothing; what a snapshot at or above the oldest snapshot sees is never cut; borrowed
//! keys and values stay valid as long as the memtable lives.
//!
//! From the outside in: [`memtable`] is the public face, [`directory`] finds a family's tree,
//! [`tree`] is a B+tree of [`node`]s over [`record`]s, each with a [`chain`] of versions, all of it in
//! one [`arena`]. `unsafe` is in the last four and where a directory or a cursor turns a pointer into
//! the arena into a reference; the arena's rule carries all of it: what it handed out stays.

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
