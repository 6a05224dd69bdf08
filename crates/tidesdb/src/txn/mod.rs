//! Transactions: snapshots, the private batch, commit as prepare, order, finish.

pub mod snapshot;
pub mod write_batch;
