//! Transactions: snapshots, the private batch, commit as prepare, order, finish, and reading in order.

pub mod commit;
pub mod commit_batch;
pub mod cursor;
pub(crate) mod dead_ranges;
pub(crate) mod expiry_clock;
mod frontier;
pub(crate) mod orphans;
pub mod pipeline;
pub(crate) mod prepared_locks;
pub mod roster;
pub mod snapshot;
pub(crate) mod spill;
pub mod transaction;
pub(crate) mod undecided;
pub mod write_batch;
