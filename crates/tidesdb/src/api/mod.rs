//! The interface for embedding programs: open a store, read and write its families, iterate, group changes
//! into transactions.
//!
//! This room stands on top of all others and uses [`crate::db::Db`], [`crate::txn::transaction::Transaction`]
//! and [`crate::txn::cursor::Cursor`]. It adds three things to them:
//!
//! - single operations, each a transaction of its own, on objects from a pool;
//! - a transaction that rolls back when dropped, and refuses a commit after an error with a required
//!   rollback;
//! - iterators over a range, from both ends.

mod db;
mod family;
mod ingest;
mod iter;
mod key_range;
mod pool;
mod range_cursor;
mod snapshot_cursor;
mod transaction;

pub use db::Db;
pub use family::Family;
pub use ingest::Ingest;
pub use iter::{Iter, KeyValue, TransactionIter};
pub use key_range::{ByteRange, KeyBounds};
pub use range_cursor::RangeCursor;
pub use snapshot_cursor::SnapshotCursor;
pub use transaction::{Savepoint, Transaction};
