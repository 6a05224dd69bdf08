//! Transactions: snapshots, the private batch, commit as prepare, order, finish, and reading in order.

pub mod commit;
pub mod commit_batch;
pub mod cursor;
mod frontier;
pub mod pipeline;
pub mod snapshot;
pub(crate) mod spill;
pub mod transaction;
pub mod write_batch;
