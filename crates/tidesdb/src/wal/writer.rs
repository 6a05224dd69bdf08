//! The writing side of the log: reservations, the queue, groups, syncs, failure.
//!
//! A committer reserves room ([`Wal::reserve`], may wait or fail) and enqueues its record (never waits, never
//! fails). Then it waits until the record is written or durable. The first waiting thread takes everything
//! queued and serialises it into one log write, for one `pwrite`. (More only at the end of a segment and
//! after a megabyte.) Any waiting thread writes it (`pending_writes`). Syncs have a leader.
//!
//! Tickets are dense and in the order of the log. This file is the handle; each step has its own:
//! - `space`: reservations and the queue
//! - `group`: serialises and writes the queue, and tracks the written end
//! - `log_end`: records to bytes, segment after segment
//! - `room`: a disk without room for queued records
//! - `shutdown`: the end of waits without progress
//! - `sync`: syncs, and answers to their waiters
//! - `background`: segments prepared ahead, syncs at intervals, marks
//! - `shared`: the shared state, and failure

mod background;
mod group;
mod log_end;
mod room;
mod shared;
mod shutdown;
mod space;
mod sync;

use std::collections::VecDeque;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use self::background::{Background, WalLoop};
use self::group::Progress;
use self::log_end::LogEnd;
use self::room::LogRoom;
pub use self::shared::{Alongside, PendingSync, WalOptions};
use self::shared::{Core, Counters};
use self::space::RecordQueue;
pub use self::space::{LogSpace, Purpose, WaitLimit};
use super::files::{Files, ListSegment, LogFiles, RecyclingHold};
use super::fullness::DiskFullness;
use super::leader_queue::LeaderQueue;
use super::pending_writes::{IfFull, PendingWrites, Ticket};
use super::record::Record;
use super::segment::{footprint, log_dir, size_is_valid, Seal, SegmentHeader, SEGMENT_HEADER};
use crate::env::Env;
use crate::error::{Error, Result};
use crate::host::{self, Handle};
use crate::latency::Measured;
use crate::options::SyncMode;
use crate::sync::{Condvar, Mutex, SleepMutex};
use crate::types::{FileNo, LogSegment, Lsn, Seq};

/// Initial capacity of the queue, in records.
const QUEUE: usize = 1024;

/// The log, open for writing. Shared by reference between threads.
pub struct Wal {
    core: Arc<Core>,
    thread: Mutex<Option<Box<dyn Handle>>>,
}

impl fmt::Debug for Wal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wal")
            .field("epoch", &self.core.epoch)
            .field("written", &self.written_lsn())
            .field("durable", &self.durable_lsn())
            .finish_non_exhaustive()
    }
}

/// Prepares the first segment and a spare one. Returns their room, and the full disk in the way of the spare one.
fn prepare_first_segments(files: &Files) -> Result<(u64, Result<()>)> {
    let mut capacity = 0;
    let mut spare = Ok(());
    for n in 1..=2 {
        match files.prepare(n) {
            Ok(_) => capacity += files.room_per_segment(),
            Err(error @ Error::DiskFull(_)) if n > 1 => spare = Err(error),
            Err(error) => return Err(error),
        }
    }
    Ok((capacity, spare))
}

impl Wal {
    /// Starts a new epoch in the store's directory `store`, at segment `first_segment` (above every id seen
    /// by recovery). `epoch` is in the synced manifest already. `found` is recovery's result (nothing for a
    /// new store); its old segments stay until they are released.
    ///
    /// On return the first segment stands ready, synced. On a full disk the spare one after it may be
    /// missing. Ordinary reservations then fail, and urgent ones use the remaining room.
    pub fn create(
        env: impl Into<Env>,
        store: PathBuf,
        epoch: u64,
        first_segment: u32,
        found: LogFiles,
        options: WalOptions,
    ) -> Result<Wal> {
        let env = env.into();
        let size = options.segment_size;
        if !size_is_valid(size) {
            return Err(Error::InvalidArgument(format!(
                "a log segment of {size} bytes: not a multiple of 32 KiB up to 1 GiB"
            )));
        }
        if first_segment == 0 || found.old.iter().any(|(id, _)| *id >= first_segment) {
            return Err(Error::InvalidArgument(format!("log segment id {first_segment} was used before")));
        }
        env.disk.create_dir_all(&log_dir(&store))?;
        let kind = SegmentHeader { version: options.format, id: 0, epoch, size, first: first_segment };
        // Until the first segment tells how many syncs it got.
        let clears = options.sync_mode != SyncMode::Full;
        let files = Arc::new(Files::new(env.disk.clone(), store, kind, clears, found));
        let (capacity, spare) = prepare_first_segments(&files)?;
        let Some(segment) = files.take_ready() else {
            return Err(Error::ReadOnly("no log segment".into()));
        };
        let start = Lsn::new(first_segment, SEGMENT_HEADER);
        let now = env.clock.now_micros();
        let core = Arc::new(Core {
            clock: env.clock,
            epoch,
            files,
            queue: Mutex::new(RecordQueue {
                records: VecDeque::with_capacity(QUEUE),
                last: 0,
                slots: 0,
                outstanding: 0,
                set_aside: 0,
                capacity,
                waiting: 0,
            }),
            room: Condvar::new(),
            log_room: LogRoom::default(),
            fullness: DiskFullness::new(options.log.clone()),
            pending_writes: PendingWrites::new(),
            syncs: LeaderQueue::new(),
            end: SleepMutex::new(LogEnd {
                seal: Seal::new(first_segment, epoch),
                segment,
                offset: SEGMENT_HEADER,
                buffer: Vec::new(),
                head: Vec::new(),
                taken: Vec::new(),
                used: 0,
                ticket: 0,
                whole: start,
                seq: 0,
                syncs: 0,
            }),
            progress: Mutex::new(Progress { written_lsn: start, marked: start, ..Progress::default() }),
            written_lsn: AtomicU64::new(start.0),
            durable_lsn: AtomicU64::new(start.0),
            taken: AtomicU64::new(0),
            failed: AtomicBool::new(false),
            reason: Mutex::new(None),
            background: Mutex::new(Background { last_sync_micros: now, ..Background::default() }),
            wake: Condvar::new(),
            interval: AtomicU64::new(match options.sync_mode {
                SyncMode::Interval => micros(options.sync_interval),
                SyncMode::None | SyncMode::Full => u64::MAX,
            }),
            callbacks: Mutex::new(Vec::new()),
            max_outstanding: AtomicU64::new(options.max_outstanding),
            counters: Counters::default(),
            options,
        });
        core.tell_preparation(spare);
        let wal = Wal { core, thread: Mutex::new(None) };
        if wal.core.options.background {
            let work = WalLoop::new(wal.core.clone());
            let thread = env
                .spawn
                .spawn("tidesdb-wal", Box::new(move || host::run(work)))
                .map_err(|e| Error::io("start of the thread", "tidesdb-wal", e))?;
            *wal.thread.lock() = Some(thread);
        }
        Ok(wal)
    }

    /// Reserves room for a record with `bytes` bytes of batch, xid, locks and names together. Waits while too
    /// much is outstanding; prepares segments itself if too few are ready. Errors: `DiskFull` (also while
    /// queued records wait for room), `BackpressureTimeout`, `Interrupted`, `ReadOnly` (the log failed).
    pub fn reserve(&self, bytes: usize, purpose: Purpose, wait_limit: &WaitLimit<'_>) -> Result<LogSpace> {
        self.core.clone().reserve(bytes, purpose, wait_limit)
    }

    /// Appends a record to the queue and returns its ticket: the order of these calls is the order of the
    /// log. Does no I/O and cannot fail: waiters for a record that cannot be written get the error. Calls
    /// must be in the order of sequence numbers.
    pub fn enqueue(&self, mut reservation: LogSpace, record: Record) -> Ticket {
        let bytes = std::mem::take(&mut reservation.bytes);
        let core = &self.core;
        debug_assert!(std::ptr::eq(&*reservation.core, &**core), "a reservation of another log");
        debug_assert!(
            footprint(record.borrow().encoded_len(), core.options.segment_size) <= bytes,
            "{} bytes reserved for a record of {}",
            bytes,
            record.borrow().encoded_len()
        );
        let mut queue = core.queue.lock();
        queue.records.push_back((record, bytes));
        if reservation.is_set_aside {
            queue.set_aside -= bytes;
        }
        queue.slots -= 1;
        queue.last += 1;
        queue.last
    }

    /// Returns when the record with `ticket` and everything before it is written, so a killed process does
    /// not lose it. May wait until the disk has room. Errors: `OutcomeUnknown` when the log failed with the
    /// record perhaps in it, `ReadOnly` when the log failed before anything of the record was written.
    pub fn wait_written(&self, ticket: Ticket) -> Result<()> {
        self.core.wait_written(ticket, IfFull::Wait)
    }

    /// Returns when the record with `ticket` and everything before it is durable. Errors as
    /// [`Wal::wait_written`].
    pub fn wait_durable(&self, ticket: Ticket) -> Result<()> {
        self.core.wait_durable(ticket, IfFull::Wait)
    }

    /// As [`Wal::wait_written`], but with `DiskFull` where it would wait for room. The record stays queued,
    /// and is written when there is room.
    pub fn wait_written_unless_full(&self, ticket: Ticket) -> Result<()> {
        self.core.wait_written(ticket, IfFull::Leave)
    }

    /// As [`Wal::wait_durable`], with `DiskFull` as [`Wal::wait_written_unless_full`].
    pub fn wait_durable_unless_full(&self, ticket: Ticket) -> Result<()> {
        self.core.wait_durable(ticket, IfFull::Leave)
    }

    /// `DiskFull` while queued records wait for room, after an attempt to write them.
    pub fn check_room(&self) -> Result<()> {
        self.core.check_room()
    }

    /// From now on no thread waits for room: a write without room is a failure of the log. For a closing
    /// store and a server's shutdown; from any thread, without I/O.
    pub fn end_waits(&self) {
        self.core.end_waits();
    }

    /// True if queued records wait for room; and the number of such times since the log was opened.
    pub fn full(&self) -> (bool, u64) {
        (self.core.is_full(), self.core.times_full())
    }

    /// The state of the store's disk, full or not: flushes and merges report there, too.
    pub(crate) fn fullness(&self) -> &DiskFullness {
        &self.core.fullness
    }

    /// Writes and syncs everything enqueued before the call. An error once the log failed; `DiskFull` while
    /// there is no room for it.
    pub fn sync_all(&self) -> Result<()> {
        let last = self.core.queue.lock().last;
        self.core.wait_durable(last, IfFull::Leave)?;
        match self.failed() {
            Some(reason) => Err(Error::ReadOnly(reason)),
            None => Ok(()),
        }
    }

    /// Syncs every record written before the call, and waits for no other: some may wait for room. An error once the log
    /// failed.
    pub fn sync_written(&self) -> Result<()> {
        let written = self.core.progress.lock().written;
        self.core.wait_durable(written, IfFull::Leave)?;
        self.failed().map_or(Ok(()), |reason| Err(Error::ReadOnly(reason)))
    }

    /// Calls `callback` once the record with `ticket` is durable, or with the error if the log fails before.
    /// The call comes at once, or from the syncing thread. The background thread starts a sync if none is
    /// coming (`Wal::tick` without one). The callback must not wait for the log.
    pub fn when_durable(&self, ticket: Ticket, callback: impl FnOnce(Result<()>) + Send + 'static) {
        self.core.callbacks.lock().push((ticket, Box::new(callback)));
        if self.core.syncs.done() >= ticket || self.core.has_failed() {
            self.core.call_back();
        } else {
            self.ask_for_sync();
        }
    }

    /// The background thread syncs what is queued now. Nobody waits for it, and nothing is called back.
    pub fn ask_for_sync(&self) {
        let mut background = self.core.background.lock();
        background.sync = true;
        background.work = true;
        self.core.wake.notify_one();
    }

    /// From now on the background thread syncs a log with unsynced records this long after its last sync;
    /// `None`: never.
    pub fn set_sync_interval(&self, interval: Option<Duration>) {
        self.core.interval.store(interval.map_or(u64::MAX, micros), Ordering::Relaxed);
        self.core.notify_background();
    }

    /// Changes [`WalOptions::max_outstanding`]; threads waiting for room check again.
    pub fn set_max_outstanding(&self, bytes: u64) {
        self.core.max_outstanding.store(bytes, Ordering::Relaxed);
        let _queue = self.core.queue.lock();
        self.core.room.notify_all();
    }

    /// The last ticket given out.
    pub fn last_ticket(&self) -> Ticket {
        self.core.queue.lock().last
    }

    /// Everything up to this ticket is written.
    #[cfg(test)]
    pub fn written_ticket(&self) -> Ticket {
        self.core.pending_writes.done()
    }

    /// Everything up to this ticket is durable.
    pub fn durable_ticket(&self) -> Ticket {
        self.core.syncs.done()
    }

    /// End of the last written record. Read before a record is enqueued, it is a lower bound of the record's
    /// place. Holding the log from this position's segment on therefore holds the record's segment.
    pub fn written_lsn(&self) -> Lsn {
        Lsn(self.core.written_lsn.load(Ordering::Acquire))
    }

    /// Everything below is durable.
    pub fn durable_lsn(&self) -> Lsn {
        Lsn(self.core.durable_lsn.load(Ordering::Acquire))
    }

    /// Highest sequence number of a written record.
    pub fn written_seq(&self) -> Seq {
        self.core.progress.lock().written_seq
    }

    /// Highest sequence number of a durable record.
    pub fn durable_seq(&self) -> Seq {
        self.core.progress.lock().durable_seq
    }

    /// Bytes reserved or queued, not written.
    #[cfg(test)]
    pub fn outstanding(&self) -> u64 {
        self.core.queue.lock().outstanding
    }

    /// Lets segments with ids below `segment` be reused: the caller has synced a manifest without them. The
    /// segment in writing is never released.
    pub fn release_before(&self, segment: u32) {
        let segment = segment.min(self.written_lsn().segment());
        self.core.files.release_before(segment);
        self.core.notify_background();
    }

    /// Live segments (old ones of earlier epochs included) and the numbers of their files, oldest first.
    #[cfg(test)]
    pub fn live_segments(&self) -> Vec<(u32, FileNo)> {
        self.core.files.live()
    }

    /// Live segments (old ones of earlier epochs included), and released ones held back from reuse.
    pub fn kept_segments(&self) -> Vec<(u32, FileNo)> {
        self.core.files.kept()
    }

    /// The segments of this epoch, oldest first, empty ready ones included.
    pub fn made_segments(&self) -> Vec<LogSegment> {
        self.core.files.made()
    }

    /// From now on `list` is called for each new segment before its first record, and at once for present
    /// segments not `listed`. Recovery reports a listed segment without its file ([`super::check_listed`]).
    pub fn list_segments(&self, listed: &[LogSegment], list: ListSegment) -> Result<()> {
        self.core.files.list_segments(listed, list)
    }

    /// Keeps segments from being reused or removed for as long as the guard exists (backup).
    pub fn hold_recycling(&self) -> RecyclingHold {
        RecyclingHold::new(self.core.files.clone())
    }

    /// Bytes written since the log was opened, frames included.
    pub fn bytes_written(&self) -> u64 {
        self.core.counters.bytes.load(Ordering::Relaxed)
    }

    /// Groups of records written since the log was opened.
    pub fn groups(&self) -> u64 {
        self.core.counters.groups.load(Ordering::Relaxed)
    }

    /// Syncs since the log was opened.
    pub fn syncs(&self) -> u64 {
        self.core.counters.syncs.load(Ordering::Relaxed)
    }

    /// Time of the syncs.
    pub fn sync_times(&self) -> Measured {
        self.core.counters.sync_times.get()
    }

    /// Ends the log, as a failed write does: nothing is written or acknowledged from now on.
    pub fn fail(&self, error: &Error) {
        self.core.fail(error);
    }

    /// The reason of the log's failure, if it failed.
    pub fn failed(&self) -> Option<String> {
        if self.core.has_failed() {
            self.core.reason.lock().clone()
        } else {
            None
        }
    }

    /// Reports a sync, begun at `begun` and ending now, if it was slow.
    #[cfg(test)]
    pub(super) fn tell_slow_sync(&self, begun: u64) {
        self.core.tell_slow_sync(begun);
    }

    /// One round of the background thread's work: prepares a segment, removes superfluous files, syncs at the
    /// interval or on request, marks an idle log. For owners without the thread.
    #[cfg(test)]
    pub fn tick(&self) {
        self.core.tick();
    }

    /// Stops the background thread and makes everything enqueued durable.
    pub fn close(&self) -> Result<()> {
        self.stop_thread();
        self.sync_all()?;
        self.core.mark();
        Ok(())
    }

    fn stop_thread(&self) {
        if let Some(thread) = self.thread.lock().take() {
            {
                let mut background = self.core.background.lock();
                background.stop = true;
                self.core.wake.notify_one();
            }
            thread.join();
        }
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl Drop for Wal {
    fn drop(&mut self) {
        self.stop_thread();
    }
}
