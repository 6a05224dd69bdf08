//! The log's background thread. It prepares segments, removes superfluous files, syncs at intervals or on
//! request, and writes a durable mark into an idle log. Its work is one function, [`Core::tick`], called by
//! the owner itself without the thread.

use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Duration;

use super::shared::Core;
use crate::error::{AbortOnPanic, Error, Result};
use crate::host::{Instant, Next, Step};
use crate::options::LogLevel;
use crate::sync::note;
use crate::types::Lsn;
use crate::wal::fullness::FullFor;
use crate::wal::pending_writes::IfFull;
use crate::wal::pending_writes::Ticket;
use crate::wal::record::{Record, MAX_FIXED};
use crate::wal::segment::footprint;

/// Interval at which the background thread looks for unannounced work.
const IDLE_POLL: Duration = Duration::from_millis(500);

/// The same while records wait for room: perhaps nobody else waits for them.
const FULL_POLL: Duration = Duration::from_millis(100);

/// Microseconds without a refused change after which a disk counts as having room, if a segment can be
/// prepared.
const SPACE_PAUSE_US: u64 = 1_000_000;

#[derive(Default)]
pub(super) struct Background {
    pub(super) stop: bool,
    pub(super) work: bool,
    /// A due sync without a waiting thread.
    pub(super) sync: bool,
    /// A segment could not be prepared, and the error log says so.
    pub(super) preparation_failed: bool,
    /// Last ticket at the tick before, to know when the log idles.
    pub(super) seen: Ticket,
    pub(super) last_sync_micros: u64,
}

/// The loop of the log's thread. Waits for work, which [`Core::notify_background`] tells, for the stop, which the owner
/// tells, and at most for the interval between syncs: a sync that is due, an idle log and room on the disk are told by
/// nobody.
pub(super) struct WalLoop {
    core: Arc<Core>,
    /// It waits before its first round too.
    waited: bool,
}

impl WalLoop {
    pub(super) fn new(core: Arc<Core>) -> WalLoop {
        WalLoop { core, waited: false }
    }
}

impl Step for WalLoop {
    fn step(&mut self) -> Next {
        if std::mem::replace(&mut self.waited, true) {
            {
                let mut background = self.core.background.lock();
                if background.stop {
                    return Next::End;
                }
                background.work = false;
            }
            self.core.tick();
        }
        let poll = if self.core.is_full() { FULL_POLL } else { IDLE_POLL };
        let pause = Duration::from_micros(self.core.interval.load(Ordering::Relaxed)).min(poll);
        Next::WaitUntil(self.core.clock.now() + pause)
    }

    fn wait(&mut self, until: Option<Instant>) {
        let core = &self.core;
        let mut background = core.background.lock();
        if let Some(until) = until.filter(|_| !background.work && !background.stop) {
            core.clock.wait_until(&core.wake, &mut background, until);
        }
    }
}

impl Core {
    pub(super) fn notify_background(&self) {
        if self.options.background {
            let mut background = self.background.lock();
            background.work = true;
            self.wake.notify_one();
        }
    }

    pub(super) fn tick(&self) {
        if self.has_failed() || self.check_room().is_err() {
            return;
        }
        self.look_for_space();
        let half = Lsn(self.written_lsn.load(Ordering::Acquire)).offset() > self.options.segment_size / 2;
        if half {
            self.tell_preparation(self.prepare(2));
        }
        self.files.trim(&|line| self.report(LogLevel::Warn, line));
        let now = self.clock.now_micros();
        let (last, idle, sync) = {
            let mut background = self.background.lock();
            // Under the lock: what was queued before a request that is taken here.
            let last = self.queue.lock().last;
            let idle = background.seen == last;
            background.seen = last;
            let interval = self.interval.load(Ordering::Relaxed);
            let due = now.saturating_sub(background.last_sync_micros) >= interval;
            let sync = (due || std::mem::take(&mut background.sync)) && self.syncs.done() < last;
            if sync {
                background.last_sync_micros = now;
            }
            (last, idle, sync)
        };
        if sync {
            // Another error is kept and told to everybody.
            if let Err(Error::DiskFull(_)) = self.wait_durable(last, IfFull::Leave) {
                // Nobody asks a second time.
                self.background.lock().sync = true;
            }
        } else if idle {
            self.mark();
        }
    }

    /// After a refusal of a place in the log: checks whether there is room again. Large requests may be
    /// refused while small ones pass, so room needs a while without any refusal.
    fn look_for_space(&self) {
        let now = self.clock.now_micros();
        if self.fullness.holds(FullFor::LogSpace)
            && self.fullness.since_refusal(now) >= SPACE_PAUSE_US
            && self.prepare(2).is_ok()
        {
            self.fullness.over(FullFor::LogSpace, now);
        }
    }

    /// Reports the first failure to prepare a segment in the error log, and the success after it. No thread
    /// waits for a spare segment: a thread in need of it prepares it and meets the error.
    pub(super) fn tell_preparation(&self, prepared: Result<()>) {
        let failed = prepared.is_err();
        if std::mem::replace(&mut self.background.lock().preparation_failed, failed) == failed {
            return;
        }
        match prepared {
            Err(error) => self.report(
                LogLevel::Error,
                &format!(
                    "no spare segment of the write-ahead log ({error}): commits use the room that is left, and those \
                     without any are refused; mend the disk or make room, no restart is needed"
                ),
            ),
            Ok(()) => self.report(LogLevel::Info, "the write-ahead log has a spare segment again"),
        }
    }

    /// Writes a durable mark when everything is durable and no record says so yet. The mark is not waited for
    /// and leaves the log clean: no ticket, no sync. Its segment is dirty all the same, so the next sync
    /// covers the mark before anything after it counts as durable.
    pub(super) fn mark(&self) {
        let durable = Lsn(self.durable_lsn.load(Ordering::Acquire));
        if self.progress.lock().marked >= durable || self.has_failed() {
            return;
        }
        note("log: durable mark");
        let _guard = AbortOnPanic::new();
        let Some(mut end) = self.try_end() else { return };
        let (empty, room) = {
            let queue = self.queue.lock();
            let need = footprint(MAX_FIXED, self.options.segment_size);
            (queue.records.is_empty(), queue.capacity >= queue.outstanding + need)
        };
        if !empty
            || !room
            || !self.pending_writes.is_empty()
            || self.syncs.done() < self.pending_writes.done()
        {
            return;
        }
        if let Err(error) = self.append(&mut end, &Record::DurableMark, durable) {
            self.fail(&error);
            return;
        }
        self.cut(&mut end);
        self.pending_writes.write_all(self);
        if self.has_failed() {
            return;
        }
        self.progress.lock().marked = durable;
        self.queue.lock().capacity -= std::mem::take(&mut end.used);
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::time::Duration;

    use crate::io::FaultyDisk;
    use crate::options::SyncMode;
    use crate::wal::files::LogFiles;
    use crate::wal::{Purpose, Record, WaitLimit, Wal, WalOptions};

    /// A record and the request for its sync come while the thread looks for work.
    #[test]
    fn a_request_for_a_sync_is_not_lost() {
        let options = WalOptions { background: false, sync_mode: SyncMode::None, ..WalOptions::default() };
        let disk = FaultyDisk::new(1);
        let files = LogFiles::default();
        let wal = Wal::create(disk.shared(), PathBuf::from("/db"), 1, 1, files, options).expect("is made");
        let limit = WaitLimit::of(Duration::from_secs(60));
        let room = wal.reserve(0, Purpose::Ordinary, &limit).expect("has room");
        std::thread::scope(|scope| {
            let mut background = wal.core.background.lock();
            let ticks = scope.spawn(|| wal.tick());
            // It waits for the lock.
            std::thread::sleep(Duration::from_millis(100));
            let ticket = wal.enqueue(room, Record::DurableMark);
            background.sync = true;
            drop(background);
            ticks.join().expect("no panic");
            assert_eq!(wal.durable_ticket(), ticket);
        });
    }
}
