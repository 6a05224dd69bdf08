//! Transactions: snapshots, the private batch, commit as prepare, order, finish, and reading in order.

pub mod commit;
pub mod commit_batch;
pub mod cursor;
pub(crate) mod deleted_range_cache;
pub mod pipeline;
pub(crate) mod prepared;
pub(crate) mod prepared_locks;
pub(crate) mod recovered;
pub mod snapshot;
pub(crate) mod spill;
pub mod transaction;
pub mod transaction_list;
pub(crate) mod ttl_clock;
mod visible_seq;
pub mod write_batch;
