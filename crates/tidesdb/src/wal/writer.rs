//! The writing side of the log: reservations, the queue, groups, syncs, failure.
//!
//! A committer reserves room ([`Wal::reserve`], may wait or fail), enqueues its record (never waits,
//! never fails) and then waits until it is written or durable. Whoever waits first leads: it takes
//! everything queued, serialises it into one buffer and writes that with one `pwrite` (more only at
//! the end of a segment and after [`FLUSH_AT`] bytes). Syncs have a leader of their own.
//!
//! Invariants:
//! - tickets are dense and in the order of the log; `written` and `durable` are contiguous;
//! - `capacity` (bytes between the log's end and the end of the last prepared segment) is at least
//!   the sum of all reservations and of everything queued, so that a leader finds room prepared;
//! - after a failed `pwrite` or sync nothing is written or synced any more, and both positions stay
//!   where they were proven (`protocols.md` 1.8).

use std::collections::VecDeque;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::files::{Files, LogFiles, RecyclingHold, Segment};
use super::handover::{Handover, Looks, Turn};
use super::record::{Record, MAX_FIXED};
use super::segment::{
    footprint, frame_end, log_dir, record_start, size_is_valid, Part, Seal, FRAGMENT_HEADER, SEGMENT_HEADER,
};
use crate::error::{Error, Result};
use crate::io::Disk;
use crate::options::SyncMode;
use crate::types::{FileNo, Lsn, Seq};

/// The place of a record in the queue: dense, from 1; 0 is "before everything".
pub type Ticket = u64;

/// Bytes after which a leader writes what it has serialised so far.
const FLUSH_AT: usize = 1 << 20;

/// Capacity that the write buffer keeps from one group to the next.
const KEEP_BUFFER: usize = 2 * FLUSH_AT;

/// How long a thread that waits for a write looks at the counter before it sleeps: about the time of two
/// small `pwrite`s, then a few turns of the scheduler in which a leader that lost its core finishes.
const WRITE_LOOKS: Looks = Looks { spins: 100, yields: 16 };

/// Records that the queue has room for from the start.
const QUEUE: usize = 1024;

/// How often a thread that waits for room looks at its own interruption.
const ROOM_POLL: Duration = Duration::from_millis(5);

/// How often the background thread looks for work that nobody told it of.
const IDLE_POLL: Duration = Duration::from_millis(500);

/// How a log is written.
#[derive(Clone, Debug)]
pub struct WalOptions {
    /// Bytes of a segment: a multiple of 32 KiB (or, in tests, less than that and at least 256).
    pub segment_size: u32,
    /// `SyncMode::Interval` makes the background thread sync; the other modes are the caller's
    /// choice of what to wait for.
    pub sync_mode: SyncMode,
    /// Time between background syncs.
    pub sync_interval: Duration,
    /// Bytes of reservations and queued records beyond which [`Wal::reserve`] waits. One larger
    /// record is let through when nothing else is outstanding.
    pub max_outstanding: u64,
    /// Have a background thread. Without one the owner calls [`Wal::tick`] (deterministic tests).
    pub background: bool,
}

impl Default for WalOptions {
    fn default() -> WalOptions {
        WalOptions {
            segment_size: 32 << 20,
            sync_mode: SyncMode::Full,
            sync_interval: Duration::from_millis(128),
            max_outstanding: 256 << 20,
            background: true,
        }
    }
}

/// What room is reserved for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// Anything.
    Ordinary,
    /// What must be possible on a full disk (DROP, markers, rollbacks, ceilings): may use the last
    /// prepared segment, which the ordinary leave alone.
    Urgent,
}

/// How long a caller waits for room.
pub struct Patience<'a> {
    /// Longest time; after it `Error::BackpressureTimeout`.
    pub timeout: Duration,
    /// Asked every few milliseconds; true ends the wait with `Error::Interrupted`.
    pub interrupted: &'a dyn Fn() -> bool,
}

impl Patience<'static> {
    /// Waits for `timeout`, cannot be interrupted.
    pub fn of(timeout: Duration) -> Patience<'static> {
        Patience { timeout, interrupted: &|| false }
    }
}

impl fmt::Debug for Patience<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Patience").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

/// Room for one record in the log; given back when dropped.
pub struct Reservation {
    core: Arc<Core>,
    bytes: u64,
}

impl fmt::Debug for Reservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reservation").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.bytes > 0 {
            let mut queue = self.core.queue.lock();
            queue.outstanding -= self.bytes;
            queue.slots -= 1;
            if queue.waiting > 0 {
                self.core.room.notify_all();
            }
        }
    }
}

struct Queue {
    records: VecDeque<(Record, u64)>,
    last: Ticket,
    /// Reservations that have not become records.
    slots: usize,
    /// Bytes of reservations, and of records that are not written.
    outstanding: u64,
    /// Bytes between the end of the log and the end of the last prepared segment.
    capacity: u64,
    waiting: usize,
}

/// What only the write leader touches.
struct LogEnd {
    segment: Arc<Segment>,
    seal: Seal,
    /// Where the next byte goes.
    offset: u32,
    /// Serialised bytes that are not in the file; they end at `offset`.
    buffer: Vec<u8>,
    head: Vec<u8>,
    /// The group, kept for its capacity.
    taken: Vec<(Record, u64)>,
    /// Segments that this group has written to, but the present one.
    touched: Vec<Arc<Segment>>,
    /// Bytes of `capacity` that this group has used.
    used: u64,
}

/// How far the log is proven; changed by leaders, in one step each.
#[derive(Default)]
struct Progress {
    written: Ticket,
    written_lsn: Lsn,
    written_seq: Seq,
    durable_seq: Seq,
    /// Segments with writes that no sync covers, oldest first.
    dirty: VecDeque<Arc<Segment>>,
    /// `durable_lsn` that a mark in the log tells.
    marked: Lsn,
}

type Callback = Box<dyn FnOnce(Result<()>) + Send>;

#[derive(Default)]
struct Background {
    stop: bool,
    work: bool,
    /// A sync that is due although nobody waits.
    sync: bool,
    /// Last ticket at the tick before, to know when the log idles.
    seen: Ticket,
    last_sync_micros: u64,
}

struct Core {
    disk: Arc<dyn Disk>,
    options: WalOptions,
    epoch: u64,
    files: Arc<Files>,
    queue: Mutex<Queue>,
    room: Condvar,
    writes: Handover,
    syncs: Handover,
    end: Mutex<LogEnd>,
    progress: Mutex<Progress>,
    written_lsn: AtomicU64,
    durable_lsn: AtomicU64,
    /// Tickets up to this may be in the file, wholly or in part.
    taken: AtomicU64,
    failed: AtomicBool,
    reason: Mutex<Option<String>>,
    background: Mutex<Background>,
    wake: Condvar,
    callbacks: Mutex<Vec<(Ticket, Callback)>>,
    counters: Counters,
}

/// What was done since the log was opened.
#[derive(Default)]
struct Counters {
    /// Bytes of records written, with all that frames them.
    bytes: AtomicU64,
    /// Groups written.
    groups: AtomicU64,
    /// Syncs.
    syncs: AtomicU64,
}

/// The log, open for writing. Shared by reference between threads.
pub struct Wal {
    core: Arc<Core>,
    thread: Mutex<Option<std::thread::JoinHandle<()>>>,
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

impl Wal {
    /// Starts a new life in the store's directory `store`, at segment `first_segment` (above every
    /// id that recovery saw). `epoch` is in the synced manifest already. `found` is what recovery
    /// found (nothing for a new store); its old segments stay until they are released.
    ///
    /// On return the first segment stands ready, synced. On a full disk the spare one behind it may
    /// be missing; then ordinary reservations fail and urgent ones find the room that is left.
    pub fn create(
        disk: Arc<dyn Disk>,
        store: PathBuf,
        epoch: u64,
        first_segment: u32,
        found: LogFiles,
        options: WalOptions,
    ) -> Result<Wal> {
        let size = options.segment_size;
        if !size_is_valid(size) {
            return Err(Error::InvalidArgument(format!(
                "a log segment of {size} bytes: not a multiple of 32 KiB up to 1 GiB"
            )));
        }
        if first_segment == 0 || found.old.iter().any(|(id, _)| *id >= first_segment) {
            return Err(Error::InvalidArgument(format!("log segment id {first_segment} was used before")));
        }
        disk.create_dir_all(&log_dir(&store))?;
        let files = Arc::new(Files::new(disk.clone(), store, epoch, first_segment, size, found));
        let mut capacity = 0;
        for n in 1..=2 {
            match files.prepare(n) {
                Ok(_) => capacity += files.room_per_segment(),
                Err(error @ Error::DiskFull(_)) if n > 1 => {
                    tracing::warn!(%error, "no spare log segment");
                }
                Err(error) => return Err(error),
            }
        }
        let Some(segment) = files.take_ready() else {
            return Err(Error::ReadOnly("no log segment".into()));
        };
        let start = Lsn::new(first_segment, SEGMENT_HEADER);
        let now = disk.now_micros();
        let core = Arc::new(Core {
            disk,
            epoch,
            files,
            queue: Mutex::new(Queue {
                records: VecDeque::with_capacity(QUEUE),
                last: 0,
                slots: 0,
                outstanding: 0,
                capacity,
                waiting: 0,
            }),
            room: Condvar::new(),
            writes: Handover::new(),
            syncs: Handover::new(),
            end: Mutex::new(LogEnd {
                seal: Seal::new(first_segment, epoch),
                segment,
                offset: SEGMENT_HEADER,
                buffer: Vec::new(),
                head: Vec::new(),
                taken: Vec::new(),
                touched: Vec::new(),
                used: 0,
            }),
            progress: Mutex::new(Progress { written_lsn: start, marked: start, ..Progress::default() }),
            written_lsn: AtomicU64::new(start.0),
            durable_lsn: AtomicU64::new(start.0),
            taken: AtomicU64::new(0),
            failed: AtomicBool::new(false),
            reason: Mutex::new(None),
            background: Mutex::new(Background { last_sync_micros: now, ..Background::default() }),
            wake: Condvar::new(),
            callbacks: Mutex::new(Vec::new()),
            counters: Counters::default(),
            options,
        });
        let wal = Wal { core, thread: Mutex::new(None) };
        if wal.core.options.background {
            let core = wal.core.clone();
            let thread = std::thread::Builder::new()
                .name("tidesdb-wal".into())
                .spawn(move || core.run())
                .map_err(|e| Error::io("start of the thread", "tidesdb-wal", e))?;
            *wal.thread.lock() = Some(thread);
        }
        Ok(wal)
    }

    /// Reserves room for a record whose batch, xid, locks and names have `bytes` bytes together.
    /// Waits while too much is outstanding; prepares segments itself when the prepared ones do not
    /// suffice. Errors: `DiskFull`, `BackpressureTimeout`, `Interrupted`, `ReadOnly` (the log failed).
    pub fn reserve(&self, bytes: usize, purpose: Purpose, patience: &Patience<'_>) -> Result<Reservation> {
        self.core.clone().reserve(bytes, purpose, patience)
    }

    /// Appends a record to the queue and returns its ticket: the order of these calls is the order
    /// of the log. Does no I/O and cannot fail: what cannot be written any more is told to who waits.
    /// Call it with the sequence numbers in order.
    pub fn enqueue(&self, mut reservation: Reservation, record: Record) -> Ticket {
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
        queue.slots -= 1;
        queue.last += 1;
        queue.last
    }

    /// Returns when the record with `ticket` and everything before it is written (a killed process
    /// does not lose it). Errors: `OutcomeUnknown` when the log failed with the record perhaps in
    /// it, `ReadOnly` when the log failed before anything of the record was written.
    pub fn wait_written(&self, ticket: Ticket) -> Result<()> {
        self.core.wait_written(ticket)
    }

    /// Returns when the record with `ticket` and everything before it is durable. Errors as
    /// [`Wal::wait_written`].
    pub fn wait_durable(&self, ticket: Ticket) -> Result<()> {
        self.core.wait_durable(ticket)
    }

    /// Writes and syncs everything that was enqueued before the call. An error once the log failed.
    pub fn sync_all(&self) -> Result<()> {
        let last = self.core.queue.lock().last;
        self.core.wait_durable(last)?;
        match self.failed() {
            Some(reason) => Err(Error::ReadOnly(reason)),
            None => Ok(()),
        }
    }

    /// Calls `callback` once the record with `ticket` is durable, or with the error when the log
    /// fails before: at once, or from the thread that syncs. The background thread starts a sync if
    /// none is coming ([`Wal::tick`] without one). The callback must not wait for the log.
    pub fn when_durable(&self, ticket: Ticket, callback: impl FnOnce(Result<()>) + Send + 'static) {
        self.core.callbacks.lock().push((ticket, Box::new(callback)));
        if self.core.syncs.done() >= ticket || self.core.has_failed() {
            self.core.call_back();
        } else {
            let mut background = self.core.background.lock();
            background.sync = true;
            background.work = true;
            self.core.wake.notify_one();
        }
    }

    /// The last ticket given out.
    pub fn last_ticket(&self) -> Ticket {
        self.core.queue.lock().last
    }

    /// Everything up to this ticket is written.
    pub fn written_ticket(&self) -> Ticket {
        self.core.writes.done()
    }

    /// Everything up to this ticket is durable.
    pub fn durable_ticket(&self) -> Ticket {
        self.core.syncs.done()
    }

    /// End of the last written record. Read before a record is enqueued it is a lower bound of that
    /// record's place: what must hold that record's segment holds the segment of this position.
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
    pub fn outstanding(&self) -> u64 {
        self.core.queue.lock().outstanding
    }

    /// Segments with ids below `segment` may be reused: the caller has synced the manifest that says
    /// so. The segment that is being written is never released.
    pub fn release_before(&self, segment: u32) {
        let segment = segment.min(self.written_lsn().segment());
        self.core.files.release_before(segment);
        self.core.notify_background();
    }

    /// Live segments (old ones of earlier lives included) and the numbers of their files, oldest first.
    pub fn live_segments(&self) -> Vec<(u32, FileNo)> {
        self.core.files.live()
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

    /// Why the log is dead, if it is.
    pub fn failed(&self) -> Option<String> {
        if self.core.has_failed() {
            self.core.reason.lock().clone()
        } else {
            None
        }
    }

    /// One round of the background thread's work: prepare a segment, remove superfluous files, sync
    /// when the interval is over or somebody asked, mark an idle log. For owners without the thread.
    pub fn tick(&self) {
        self.core.tick();
    }

    /// Stops the background thread and makes everything that was enqueued durable.
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
            // A panic of that thread has aborted the process.
            let _ = thread.join();
        }
    }
}

impl Drop for Wal {
    fn drop(&mut self) {
        self.stop_thread();
    }
}

/// Aborts when a panic unwinds through work that others wait for: a half-made group must not be
/// followed by anything. (A thread that panicked before may still lead, in a destructor.)
struct AbortOnPanic {
    panicking: bool,
}

impl AbortOnPanic {
    fn new() -> AbortOnPanic {
        AbortOnPanic { panicking: std::thread::panicking() }
    }
}

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() && !self.panicking {
            std::process::abort();
        }
    }
}

impl Core {
    fn has_failed(&self) -> bool {
        self.failed.load(Ordering::SeqCst)
    }

    fn read_only(&self) -> Error {
        let reason = self.reason.lock().clone();
        Error::ReadOnly(reason.unwrap_or_else(|| "the log failed".into()))
    }

    /// The error for a record that is not proven to be where its owner wants it.
    fn lost(&self, ticket: Ticket) -> Error {
        // A leader raises `taken` before it looks at `failed` and writes nothing after a failure, so
        // a ticket above `taken` is not and will not be in the file.
        if ticket <= self.taken.load(Ordering::SeqCst) {
            Error::OutcomeUnknown
        } else {
            self.read_only()
        }
    }

    fn fail(&self, error: &Error) {
        {
            let mut reason = self.reason.lock();
            if reason.is_none() {
                tracing::error!(%error, "the write-ahead log failed; the store is read-only");
                *reason = Some(format!("the write-ahead log failed: {error}"));
            }
        }
        self.failed.store(true, Ordering::SeqCst);
        self.writes.stop();
        self.syncs.stop();
        let queue = self.queue.lock();
        self.room.notify_all();
        drop(queue);
        self.call_back();
    }

    fn reserve(
        self: Arc<Self>,
        bytes: usize,
        purpose: Purpose,
        patience: &Patience<'_>,
    ) -> Result<Reservation> {
        let need = footprint(bytes.saturating_add(MAX_FIXED), self.options.segment_size);
        let spare = match purpose {
            Purpose::Ordinary => self.files.room_per_segment(),
            Purpose::Urgent => 0,
        };
        let mut waited = Duration::ZERO;
        let mut queue = self.queue.lock();
        loop {
            if self.has_failed() {
                drop(queue);
                return Err(self.read_only());
            }
            let outstanding = queue.outstanding;
            if outstanding > 0 && outstanding.saturating_add(need) > self.options.max_outstanding {
                if (patience.interrupted)() {
                    return Err(Error::Interrupted);
                }
                if waited >= patience.timeout {
                    return Err(Error::BackpressureTimeout);
                }
                queue.waiting += 1;
                // Only whole naps count as time, so that a virtual clock is not needed here.
                if self.room.wait_for(&mut queue, ROOM_POLL).timed_out() {
                    waited += ROOM_POLL;
                }
                queue.waiting -= 1;
            } else if queue.capacity < outstanding + need + spare {
                drop(queue);
                self.prepare(usize::MAX)?;
                queue = self.queue.lock();
            } else {
                queue.outstanding += need;
                queue.slots += 1;
                let slots = queue.slots;
                queue.records.reserve(slots);
                drop(queue);
                return Ok(Reservation { core: self, bytes: need });
            }
        }
    }

    /// Prepares a segment and counts its room.
    fn prepare(&self, enough: usize) -> Result<()> {
        if self.files.prepare(enough)? {
            self.queue.lock().capacity += self.files.room_per_segment();
        }
        Ok(())
    }

    fn wait_written(&self, ticket: Ticket) -> Result<()> {
        loop {
            match self.writes.wait(ticket, WRITE_LOOKS) {
                Turn::Done => return Ok(()),
                Turn::Stopped => return Err(self.lost(ticket)),
                Turn::Lead => self.lead_write(),
            }
        }
    }

    fn lead_write(&self) {
        let _guard = AbortOnPanic::new();
        let mut end = self.end.lock();
        match self.write_group(&mut end) {
            Ok(written) => self.writes.finish(written),
            Err(error) => self.fail(&error),
        }
        // Freeing large batches comes after the answer.
        end.taken.clear();
        let full_half = end.offset > self.options.segment_size / 2;
        drop(end);
        if full_half && self.options.background && self.files.ready() < 2 {
            self.notify_background();
        }
    }

    /// Writes everything queued. On success the group is published in `progress`.
    fn write_group(&self, end: &mut LogEnd) -> Result<Ticket> {
        let last = {
            let mut queue = self.queue.lock();
            end.taken.extend(queue.records.drain(..));
            queue.last
        };
        self.taken.store(last, Ordering::SeqCst);
        if self.has_failed() {
            return Err(self.read_only());
        }
        let durable = Lsn(self.durable_lsn.load(Ordering::Acquire));
        let taken = std::mem::take(&mut end.taken);
        let (mut bytes, mut seq) = (0, 0);
        let mut result = Ok(());
        for (record, reserved) in &taken {
            bytes += reserved;
            seq = record.borrow().seq().unwrap_or(seq);
            result = self.append(end, record, durable);
            if result.is_err() {
                break;
            }
        }
        end.taken = taken;
        result?;
        end.flush()?;
        self.publish(end, Some(last), seq);
        let mut queue = self.queue.lock();
        queue.outstanding -= bytes;
        self.counters.bytes.fetch_add(end.used, Ordering::Relaxed);
        self.counters.groups.fetch_add(1, Ordering::Relaxed);
        queue.capacity -= std::mem::take(&mut end.used);
        if queue.waiting > 0 {
            self.room.notify_all();
        }
        Ok(last)
    }

    /// Makes what `end` has written visible to syncs: positions and dirty segments in one step.
    fn publish(&self, end: &mut LogEnd, written: Option<Ticket>, seq: Seq) {
        let lsn = Lsn::new(end.segment.id, end.offset);
        let mut progress = self.progress.lock();
        for segment in end.touched.drain(..).chain([end.segment.clone()]) {
            if progress.dirty.back().is_none_or(|last| last.id < segment.id) {
                progress.dirty.push_back(segment);
            }
        }
        if let Some(written) = written {
            progress.written = written;
            progress.written_seq = progress.written_seq.max(seq);
        }
        progress.written_lsn = lsn;
        self.written_lsn.store(lsn.0, Ordering::Release);
    }

    /// Serialises a record behind what is there, going on to the next segments as needed.
    fn append(&self, end: &mut LogEnd, record: &Record, durable: Lsn) -> Result<()> {
        let size = self.options.segment_size;
        match record_start(end.offset, size) {
            Some(start) => end.pad_to(start),
            None => {
                end.pad_to(size);
                self.next_segment(end)?;
            }
        }
        let start = Lsn::new(end.segment.id, end.offset);
        let mut head = std::mem::take(&mut end.head);
        let mut rest = record.borrow().encode(durable, &mut head);
        let mut first_rest = &head[..];
        let mut first = true;
        loop {
            if end.offset == size {
                self.next_segment(end)?;
            }
            let room = (frame_end(end.offset, size) - end.offset - FRAGMENT_HEADER) as usize;
            let n = room.min(first_rest.len());
            let (a, more) = first_rest.split_at(n);
            first_rest = more;
            let (b, more) = rest.split_at((room - n).min(rest.len()));
            rest = more;
            let done = first_rest.is_empty() && rest.is_empty();
            end.fragment(Part::new(first, done), a, b);
            if end.buffer.len() >= FLUSH_AT {
                end.flush()?;
            }
            if done {
                break;
            }
            first = false;
        }
        end.head = head;
        record.placed(start, Lsn::new(end.segment.id, end.offset));
        Ok(())
    }

    fn next_segment(&self, end: &mut LogEnd) -> Result<()> {
        end.flush()?;
        let next = loop {
            match self.files.take_ready() {
                Some(next) => break next,
                // Room is reserved before records are queued, so this is for the background mark at
                // most; it must not be assumed, though, where a log's life is at stake.
                None => self.prepare(1)?,
            }
        };
        end.seal = Seal::new(next.id, self.epoch);
        let full = std::mem::replace(&mut end.segment, next);
        end.touched.push(full);
        end.offset = SEGMENT_HEADER;
        Ok(())
    }

    fn wait_durable(&self, ticket: Ticket) -> Result<()> {
        loop {
            match self.syncs.wait(ticket, Looks::NONE) {
                Turn::Done => return Ok(()),
                Turn::Stopped => return Err(self.lost(ticket)),
                Turn::Lead => self.lead_sync(),
            }
        }
    }

    fn lead_sync(&self) {
        let _guard = AbortOnPanic::new();
        match self.sync_group() {
            Ok(durable) => {
                self.syncs.finish(durable);
                self.call_back();
            }
            Err(error) => self.fail(&error),
        }
    }

    /// Writes what is queued, then syncs what was written before the sync began.
    fn sync_group(&self) -> Result<Ticket> {
        let last = self.queue.lock().last;
        self.wait_written(last)?;
        if self.has_failed() {
            return Err(self.read_only());
        }
        let (written, lsn, seq, dirty) = {
            let mut progress = self.progress.lock();
            let dirty = std::mem::take(&mut progress.dirty);
            (progress.written, progress.written_lsn, progress.written_seq, dirty)
        };
        for segment in &dirty {
            segment.file.sync_data()?;
            self.counters.syncs.fetch_add(1, Ordering::Relaxed);
        }
        {
            let mut progress = self.progress.lock();
            progress.durable_seq = seq;
        }
        self.durable_lsn.store(lsn.0, Ordering::Release);
        Ok(written)
    }

    /// Answers callbacks whose ticket is durable, all of them when the log failed.
    fn call_back(&self) {
        let failed = self.has_failed();
        let durable = self.syncs.done();
        let mut due = Vec::new();
        {
            let mut callbacks = self.callbacks.lock();
            let mut at = 0;
            while at < callbacks.len() {
                if failed || callbacks[at].0 <= durable {
                    due.push(callbacks.swap_remove(at));
                } else {
                    at += 1;
                }
            }
        }
        for (ticket, callback) in due {
            callback(if ticket <= durable { Ok(()) } else { Err(self.lost(ticket)) });
        }
    }

    fn notify_background(&self) {
        if self.options.background {
            let mut background = self.background.lock();
            background.work = true;
            self.wake.notify_one();
        }
    }

    fn run(&self) {
        let _guard = AbortOnPanic::new();
        let nap = match self.options.sync_mode {
            SyncMode::Interval => self.options.sync_interval.min(IDLE_POLL),
            SyncMode::None | SyncMode::Full => IDLE_POLL,
        };
        loop {
            {
                let mut background = self.background.lock();
                if !background.work && !background.stop {
                    self.wake.wait_for(&mut background, nap);
                }
                if background.stop {
                    return;
                }
                background.work = false;
            }
            self.tick();
        }
    }

    fn tick(&self) {
        if self.has_failed() {
            return;
        }
        let half = Lsn(self.written_lsn.load(Ordering::Acquire)).offset() > self.options.segment_size / 2;
        if half {
            if let Err(error) = self.prepare(2) {
                tracing::warn!(%error, "no further log segment prepared");
            }
        }
        self.files.trim();
        let now = self.disk.now_micros();
        let (last, idle, sync) = {
            let last = self.queue.lock().last;
            let mut background = self.background.lock();
            let idle = background.seen == last;
            background.seen = last;
            let interval = u64::try_from(self.options.sync_interval.as_micros()).unwrap_or(u64::MAX);
            let due = self.options.sync_mode == SyncMode::Interval
                && now.saturating_sub(background.last_sync_micros) >= interval;
            let sync = (due || std::mem::take(&mut background.sync)) && self.syncs.done() < last;
            if sync {
                background.last_sync_micros = now;
            }
            (last, idle, sync)
        };
        if sync {
            // The error is kept and told to everybody.
            let _ = self.wait_durable(last);
        } else if idle {
            self.mark();
        }
    }

    /// Writes a durable mark when everything is durable and no record tells it. The mark is not
    /// waited for and leaves the log clean: no ticket, no sync. Its segment is dirty all the same,
    /// so that the next sync covers the mark before anything behind it counts as durable.
    fn mark(&self) {
        let durable = Lsn(self.durable_lsn.load(Ordering::Acquire));
        if self.progress.lock().marked >= durable || self.has_failed() || !self.writes.try_lead() {
            return;
        }
        let _guard = AbortOnPanic::new();
        let mut end = self.end.lock();
        let (empty, room) = {
            let queue = self.queue.lock();
            let need = footprint(MAX_FIXED, self.options.segment_size);
            (queue.records.is_empty(), queue.capacity >= queue.outstanding + need)
        };
        let done = self.writes.done();
        if !empty || !room || self.syncs.done() < done {
            self.writes.finish(done);
            return;
        }
        let result = self.append(&mut end, &Record::DurableMark, durable).and_then(|()| end.flush());
        if let Err(error) = result {
            self.fail(&error);
            return;
        }
        self.publish(&mut end, None, 0);
        self.progress.lock().marked = durable;
        self.queue.lock().capacity -= std::mem::take(&mut end.used);
        self.writes.finish(done);
    }
}

impl LogEnd {
    fn pad_to(&mut self, offset: u32) {
        let n = offset - self.offset;
        self.buffer.resize(self.buffer.len() + n as usize, 0);
        self.offset = offset;
        self.used += u64::from(n);
    }

    /// Appends a fragment whose payload is `a` and `b`; it fits into the frame.
    fn fragment(&mut self, part: Part, a: &[u8], b: &[u8]) {
        let at = self.buffer.len();
        self.buffer.extend_from_slice(&[0; FRAGMENT_HEADER as usize]);
        self.buffer.extend_from_slice(a);
        self.buffer.extend_from_slice(b);
        let (header, payload) = self.buffer[at..].split_at_mut(FRAGMENT_HEADER as usize);
        header.copy_from_slice(&self.seal.header(self.offset, part, payload));
        let n = (self.buffer.len() - at) as u32;
        self.offset += n;
        self.used += u64::from(n);
    }

    /// Writes the buffer to the present segment.
    fn flush(&mut self) -> Result<()> {
        if !self.buffer.is_empty() {
            let start = u64::from(self.offset) - self.buffer.len() as u64;
            self.segment.file.write_at(&self.buffer, start)?;
            self.buffer.clear();
            self.buffer.shrink_to(KEEP_BUFFER);
        }
        Ok(())
    }
}
