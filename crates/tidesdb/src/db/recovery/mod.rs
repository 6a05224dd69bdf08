//! Recovery: makes a store ready for commits from a directory.
//!
//! - [`open`]: the steps, in order, and the state after a crash between two of them
//! - [`replay`]: log records become memtables, runs and prepared transactions
//! - [`damaged_dictionary`]: the certain families, if both copies are damaged
//! - [`flush`]: the replayed memtables become files, before the store's threads exist
//! - [`full_disk`]: without room for those files the earlier epoch's log stays live
//! - [`rewrite_tail`]: there, the unproven tail of the log is made durable in place
//! - [`give_up_log`]: a log with lost files ends before them, only on request

pub(crate) mod damaged_dictionary;
pub(crate) mod flush;
pub(crate) mod full_disk;
pub mod give_up_log;
pub(crate) mod open;
pub(crate) mod replay;
mod rewrite_tail;
pub(crate) mod value_tail;

/// Bytes of log that may be outstanding at a time: those of two memtables.
pub(crate) fn max_outstanding(write_buffer_size: usize) -> u64 {
    (write_buffer_size as u64 * 2).max(1 << 20)
}
