//! Recovery: the way from a directory to a store that takes commits.
//!
//! - [`open`]: the steps, in order; what a crash between two of them leaves
//! - [`replay`]: log records become memtables, runs and prepared transactions
//! - [`damaged_dictionary`]: which families are certain where both copies are damaged
//! - [`flush`]: the replayed memtables become files, before the store's threads exist
//! - [`full_disk`]: without room for those files the earlier epoch's log stays live
//! - [`rewrite_tail`]: there the unproven tail of the log is made durable where it stands
//! - [`give_up_log`]: without this way, a log that lost files ends before them

pub(crate) mod damaged_dictionary;
pub(crate) mod flush;
pub(crate) mod full_disk;
pub mod give_up_log;
pub(crate) mod open;
pub(crate) mod replay;
mod rewrite_tail;

/// Bytes that may wait for the log at a time: what two memtables hold.
pub(crate) fn max_outstanding(write_buffer_size: usize) -> u64 {
    (write_buffer_size as u64 * 2).max(1 << 20)
}
