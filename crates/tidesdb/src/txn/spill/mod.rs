//! Transactions larger than their bound on memory (`docs/protocols.md` 5.2). Past a bound the changes in
//! memory of a [`WriteBatch`](crate::txn::write_batch::WriteBatch) become a *run*: a file with a table for
//! each family. This module stands between the private batch and commit. The private batch fills runs and
//! reads them; commit makes them runs of level 0.
//!
//! **Cutting back.** Every change of a transaction has an *ordinal*: 1 for the first, ascending by one. A run
//! holds *all* changes of an interval of ordinals, those hidden by a later change of the same key too. Each
//! has its ordinal in the place of a sequence number. A run is read up to a *limit*, at first the last
//! ordinal of its interval. Cutting back to a mark, an ordinal, drops the later runs and lowers the limit of
//! the run around the mark. Nothing is rewritten, for any number of marks of any age.
//!
//! - `runs`: the runs of a running transaction: written, merged [`runs::FAN_IN`] at a time, read, cut back.
//! - `sealed`: the runs made by `prepare`: at most two a family with each key once, durable, named in the
//!   log. They still have no sequence number: the commit's number is in the manifest.
//! - `locked`: the keys in runs as locks without entries.
//!
//! `txn/commit.rs` and `db/background.rs` do the rest. The marker is the commit point; `order` rotates the
//! memtable and shows the runs between the old one and the new. An edit of the manifest names them once
//! everything older is in files.
//!
//! Guarantees: no latch is held while a run is written. A run of a running transaction is unlinked with its
//! last reader. A run named in the log stays until the rollback record is written. Opening a store unlinks
//! files unknown to both the manifest and undecided prepares.

mod locked;
pub(crate) mod runs;
pub(crate) mod sealed;

#[cfg(test)]
mod tests;
