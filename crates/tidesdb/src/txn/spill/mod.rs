//! Transactions that outgrow memory (`docs/protocols.md` 5.2). Past a bound the changes in memory of a
//! [`WriteBatch`](crate::txn::write_batch::WriteBatch) become a *run*: a file with a table for each family.
//! Stands between the private batch, which fills runs and reads them, and commit, which makes of them runs
//! of level 0.
//!
//! **Cutting back.** Every change of a transaction has an *ordinal*: 1 for the first, then one more each. A
//! run holds the changes of an interval of ordinals, *all* of them, also those that a later change of the same
//! key hides, each with its ordinal in the place of a sequence number. It is read at a *limit*, which is the
//! last ordinal of the interval to begin with. Cutting back to a mark, which is an ordinal, drops the runs
//! that begin after it, and lowers the limit of the one that holds it: nothing is rewritten, whichever
//! marks there are and whenever they were set.
//!
//! - `runs`: the runs of a running transaction: written, merged [`runs::FAN_IN`] at a time, read, cut back.
//! - `sealed`: the runs that `prepare` makes of them: at most two a family with each key once, durable, named in
//!   the log. They are still without a sequence number: that of the commit stands in the manifest.
//! - `locked`: the keys in runs as locks without entries.
//!
//! The rest of their way is in `txn/commit.rs` and `db/background.rs`. The marker is the commit point; `order` rotates
//! the memtable and shows the runs between the old one and the new. The edit that names them is written when everything
//! older is in files.
//!
//! Guarantees: no latch is held while a run is written; a run of a running transaction is unlinked when the
//! last reader lets go of it, one that the log names stays until the rollback record is written; open
//! unlinks what neither manifest nor an undecided prepare names.

mod locked;
pub(crate) mod runs;
pub(crate) mod sealed;

#[cfg(test)]
mod tests;
