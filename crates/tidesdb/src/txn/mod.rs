//! Transactions: the private batch, commit as prepare, order and finish, prepared transactions, cursors.

pub mod commit;
pub mod cursor;
pub(crate) mod detached_xa;
mod gap;
pub mod ingest;
pub(crate) mod logged_locks;
pub(crate) mod prepared;
pub(crate) mod spill;
pub mod transaction;
pub mod transaction_list;
pub mod transactions;
pub mod write_batch;

pub use transactions::Transactions;
