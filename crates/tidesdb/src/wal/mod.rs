//! The write-ahead log: the one place where a change becomes permanent. Committers enqueue records (the order
//! of the queue is the order of the log) and wait. One of them at a time serialises the queue into log
//! writes. The waiting threads write these, one `pwrite` each, and one thread at a time syncs. After a crash
//! [`recover`] reads back a prefix of that order, with everything durable in it, or reports the place of the
//! damage.
//!
//! `docs/protocols.md` sections 1 and 2 have the rules, `docs/format/wal.md` has the bytes.
//!
//! - `batch`, `record`, `segment`: bytes, both ways
//! - `leader_queue`: chooses the syncing thread among many waiting ones
//! - `pending_writes`: writes by the waiting threads themselves
//! - `files`: physical files: preparing, recycling, releasing
//! - `fullness`: reports and counts a full disk
//! - `writer`: [`Wal`], the committers' side
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

pub use self::batch::{without_proofs, BatchBuilder, BatchReader};
pub use self::files::{ListSegment, RecyclingHold};
pub(crate) use self::fullness::FullFor;
pub use self::listed::check_listed;
pub(crate) use self::listed::{last_segment, missing, set_aside};
pub use self::pending_writes::Ticket;
pub use self::reader::{
    dump_segment, has_torn_tail, recover, recover_before, segment_formats, RecoveredSummary, SegmentDump,
    SegmentFacts,
};
pub use self::record::{Ddl, EpochBoundary, PreparedHead, Record, RecordRef, WalBytes};
pub(crate) use self::segment::{file_path as segment_path, log_dir};
pub use self::writer::{Alongside, LogSpace, PendingSync, Purpose, WaitLimit, Wal, WalOptions};
