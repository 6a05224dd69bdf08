//! The write-ahead log: the one place where a change becomes permanent. Committers enqueue records
//! (the order of the queue is the order of the log) and wait; one of them at a time writes what is
//! queued with one `pwrite`, one of them at a time syncs. After a crash [`recover`] reads back a
//! prefix of that order which contains everything that was durable, or says where it is damaged.
//!
//! `docs/protocols.md` sections 1 and 2 have the rules, `docs/format/wal.md` has the bytes.
//!
//! - `batch`, `record`, `segment`: bytes, both ways
//! - `leader_queue`: who syncs when many wait
//! - `pending_writes`: who writes when many wait
//! - `files`: physical files: preparing, recycling, releasing
//! - `fullness`: who finds no room on the disk, told and counted
//! - `writer`: [`Wal`], what committers use
//! - `reader`: [`recover`]

pub mod batch;
mod files;
mod fullness;
mod leader_queue;
mod listed;
mod pending_writes;
mod reader;
pub mod record;
mod segment;
mod writer;

#[cfg(test)]
mod tests;

use crate::types::{Lsn, Seq};

pub use self::batch::{without_proofs, BatchBuilder, BatchReader};
pub use self::files::{ListSegment, RecyclingHold};
pub(crate) use self::fullness::FullFor;
pub use self::listed::check_listed;
pub(crate) use self::listed::{last_segment, missing, set_aside};
pub use self::reader::{dump_segment, has_torn_tail, recover, RecoveredSummary, SegmentDump};
pub use self::record::{Ddl, PreparedHead, Record, RecordRef, WalBytes};
pub(crate) use self::segment::{file_path as segment_path, log_dir};
pub use self::writer::{LogSpace, Purpose, Ticket, WaitLimit, Wal, WalOptions};

/// Where an epoch of the log ends and where it goes on; kept in the manifest (`docs/protocols.md` 1.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cut {
    /// The epoch's end: the end of its last record that counts.
    pub at: Lsn,
    /// Number of the epoch.
    pub epoch: u64,
    /// First segment of the next epoch.
    pub next_segment: u32,
    /// First sequence number of the next epoch.
    pub next_seq: Seq,
}
