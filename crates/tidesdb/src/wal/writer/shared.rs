//! The shared state of the log's threads, and the effect of a failed write on all of them.
//!
//! Locks are taken one at a time, with two exceptions. The holder of `end` (it serialises) may take any
//! other, and `progress` is taken under the latch of `pending_writes`. After `failed` is set nothing is
//! written or synced any more (`docs/protocols.md` 1.8).

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use super::background::Background;
use super::group::Progress;
use super::log_end::{LogEnd, Written};
use super::room::LogRoom;
use super::space::RecordQueue;
use super::sync::Callback;
use crate::error::{Error, Result};
use crate::host::Clock;
use crate::latency::Latency;
use crate::options::{FormatVersion, LogLevel, LogSink, SyncMode};
use crate::sync::{note, Condvar, Mutex, SleepMutex};
use crate::wal::files::Files;
use crate::wal::fullness::DiskFullness;
use crate::wal::leader_queue::LeaderQueue;
use crate::wal::pending_writes::{PendingWrites, Ticket};

/// Options of a log.
#[derive(Clone, Debug)]
pub struct WalOptions {
    /// Bytes of a segment: a multiple of 32 KiB (in tests also less, down to 256).
    pub segment_size: u32,
    /// `SyncMode::Interval` makes the background thread sync; in the other modes the caller chooses its wait.
    pub sync_mode: SyncMode,
    /// Time between background syncs.
    pub sync_interval: Duration,
    /// Bytes of reservations and queued records above which [`Wal::reserve`](super::Wal::reserve) waits. A
    /// single larger record passes when nothing else is outstanding.
    pub max_outstanding: u64,
    /// Serialised bytes are written beyond this size, so a large record or group needs no buffer of its size.
    pub write_at: usize,
    /// Runs a background thread. Without one the owner calls `Wal::tick` (deterministic tests).
    pub background: bool,
    /// Version of the segments to write.
    pub format: FormatVersion,
    /// Receiver of lines for the error log.
    pub log: Option<LogSink>,
    /// Whatever else has to be durable before a record is.
    pub alongside: Option<Alongside>,
}

/// Begins to make durable what was written before the records of a group, and they refer to, at the same time as the group.
#[derive(Clone)]
pub struct Alongside(pub Arc<dyn Fn() -> PendingSync + Send + Sync>);

/// Waits for the end of such a sync; an error fails the log.
pub type PendingSync = Box<dyn FnOnce() -> Result<()> + Send>;

impl fmt::Debug for Alongside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Alongside")
    }
}

impl Default for WalOptions {
    fn default() -> WalOptions {
        WalOptions {
            segment_size: 32 << 20,
            sync_mode: SyncMode::Full,
            sync_interval: Duration::from_millis(128),
            max_outstanding: 256 << 20,
            write_at: if cfg!(simulation) { 4 << 10 } else { 1 << 20 },
            background: true,
            format: FormatVersion::One,
            log: None,
            alongside: None,
        }
    }
}

pub(super) struct Core {
    pub(super) clock: Arc<dyn Clock>,
    pub(super) options: WalOptions,
    pub(super) epoch: u64,
    pub(super) files: Arc<Files>,
    pub(super) queue: Mutex<RecordQueue>,
    pub(super) room: Condvar,
    pub(super) log_room: LogRoom,
    pub(super) fullness: DiskFullness,
    pub(super) pending_writes: PendingWrites<Written>,
    pub(super) syncs: LeaderQueue,
    pub(super) end: SleepMutex<LogEnd>,
    pub(super) progress: Mutex<Progress>,
    pub(super) written_lsn: AtomicU64,
    pub(super) durable_lsn: AtomicU64,
    /// Tickets up to this may be in the file, wholly or in part.
    pub(super) taken: AtomicU64,
    pub(super) failed: AtomicBool,
    pub(super) reason: Mutex<Option<String>>,
    pub(super) background: Mutex<Background>,
    pub(super) wake: Condvar,
    /// The present `WalOptions::max_outstanding`.
    pub(super) max_outstanding: AtomicU64,
    /// Microseconds between background syncs; `u64::MAX`: none.
    pub(super) interval: AtomicU64,
    pub(super) callbacks: Mutex<Vec<(Ticket, Callback)>>,
    pub(super) counters: Counters,
}

/// Work done since the log was opened.
#[derive(Default)]
pub(super) struct Counters {
    /// Bytes of records written, framing included.
    pub(super) bytes: AtomicU64,
    /// Groups written.
    pub(super) groups: AtomicU64,
    /// Syncs.
    pub(super) syncs: AtomicU64,
    /// Their time, those of one group as one.
    pub(super) sync_times: Latency,
    /// Time of the last report of a slow sync, in microseconds of the disk's clock; 0: never.
    pub(super) slow_sync_reported: AtomicU64,
}

impl Core {
    pub(super) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::SeqCst)
    }

    pub(super) fn read_only(&self) -> Error {
        let reason = self.reason.lock().clone();
        Error::ReadOnly(reason.unwrap_or_else(|| "the log failed".into()))
    }

    /// The error for a record without proof of its durability, or of its writing.
    pub(super) fn lost(&self, ticket: Ticket) -> Error {
        // Who serialises raises `taken` before it looks at `failed` and writes nothing after a failure, so
        // a ticket above `taken` is not and will not be in the file.
        if ticket <= self.taken.load(Ordering::SeqCst) {
            Error::OutcomeUnknown
        } else {
            self.read_only()
        }
    }

    /// Ends the log after a failure; the first one goes to the error log. Changes are refused from here on,
    /// and nobody may ask for any.
    pub(super) fn fail(&self, error: &Error) {
        note("log: failed");
        let reported = {
            let mut reason = self.reason.lock();
            let first = reason.is_none();
            reason.get_or_insert_with(|| format!("the write-ahead log failed: {error}"));
            !first
        };
        self.failed.store(true, Ordering::SeqCst);
        if !reported {
            self.report(
                LogLevel::Error,
                &format!(
                    "the write-ahead log failed: {error}; the store takes no changes: mend the disk, restart to \
                     recover"
                ),
            );
        }
        self.pending_writes.stop();
        self.syncs.stop();
        let queue = self.queue.lock();
        self.room.notify_all();
        drop(queue);
        self.wake_for_room();
        self.call_back();
    }
}
