//! Space in the log: a committer's reservation for its record, and the queue itself.
//!
//! `capacity` (bytes between the log's end and the end of the last prepared segment) is at least all
//! reservations and queued records together. A leader therefore finds room prepared, and never waits or fails
//! for want of it.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Duration;

use super::shared::Core;
use crate::error::{Error, Result};
use crate::host::{Clock, Instant};
use crate::mutant::{self, Mutant};
use crate::wal::fullness::FullFor;
use crate::wal::pending_writes::Ticket;
use crate::wal::record::{Record, MAX_FIXED};
use crate::wal::segment::footprint;

/// Interval at which a thread waiting for room checks for its interruption.
const ROOM_POLL: Duration = Duration::from_millis(5);

/// The purpose of reserved room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// Anything.
    Ordinary,
    /// Operations needed on a full disk (DROP, markers, rollbacks, ceilings). They may use the last prepared
    /// segment; ordinary ones may not.
    Urgent,
}

/// Bound on a wait for room: in the log, in the memtable, for a place among the committers.
pub struct WaitLimit<'a> {
    /// Longest time; after it `Error::BackpressureTimeout`.
    pub timeout: Duration,
    /// Called every [`WaitLimit::STEP`]; true ends the wait with `Error::Interrupted`.
    pub interrupted: &'a dyn Fn() -> bool,
}

impl WaitLimit<'_> {
    /// Interval at which a waiting thread checks the reason of its wait.
    pub const STEP: Duration = Duration::from_millis(5);

    /// For a thread about to wait, again or for the first time. `begun` is the time of its first wait.
    ///
    /// Errors: `Interrupted`, `BackpressureTimeout`.
    pub(crate) fn check(&self, clock: &dyn Clock, begun: &mut Option<Instant>) -> Result<()> {
        if (self.interrupted)() {
            return Err(Error::Interrupted);
        }
        // By the clock: each end of another's work cuts a nap short.
        let begun = *begun.get_or_insert_with(|| clock.now());
        match clock.elapsed(begun) >= self.timeout {
            true => Err(Error::BackpressureTimeout),
            false => Ok(()),
        }
    }
}

impl WaitLimit<'static> {
    /// Waits for `timeout`, cannot be interrupted.
    pub fn of(timeout: Duration) -> WaitLimit<'static> {
        WaitLimit { timeout, interrupted: &|| false }
    }
}

impl fmt::Debug for WaitLimit<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitLimit").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

/// Space for one record in the log; released when dropped.
pub struct LogSpace {
    pub(super) core: Arc<Core>,
    pub(super) bytes: u64,
    /// It is for a record that may come much later.
    pub(super) is_set_aside: bool,
}

impl LogSpace {
    /// Keeps the space for a record that comes with a decision, perhaps in a month. It stays on the disk, and counts no
    /// longer against [`WalOptions::max_outstanding`](super::WalOptions::max_outstanding): a wait for its end has none.
    #[must_use]
    pub fn set_aside(mut self) -> LogSpace {
        let mut queue = self.core.queue.lock();
        if !self.is_set_aside {
            self.is_set_aside = true;
            queue.set_aside += self.bytes;
            if queue.waiting > 0 {
                self.core.room.notify_all();
            }
        }
        drop(queue);
        self
    }
}

impl fmt::Debug for LogSpace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogSpace").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl Drop for LogSpace {
    fn drop(&mut self) {
        if self.bytes > 0 {
            let mut queue = self.core.queue.lock();
            queue.outstanding -= self.bytes;
            if self.is_set_aside {
                queue.set_aside -= self.bytes;
            }
            if mutant::is(Mutant::LogRoomGivenBackTwice) {
                queue.outstanding = queue.outstanding.wrapping_sub(self.bytes);
            }
            queue.slots -= 1;
            if queue.waiting > 0 {
                self.core.room.notify_all();
            }
        }
    }
}

pub(super) struct RecordQueue {
    pub(super) records: VecDeque<(Record, u64)>,
    pub(super) last: Ticket,
    /// Number of reservations not yet turned into records.
    pub(super) slots: usize,
    /// Bytes of reservations, and of unwritten records.
    pub(super) outstanding: u64,
    /// Those of them that nobody's wait ends: [`LogSpace::set_aside`].
    pub(super) set_aside: u64,
    /// Bytes between the end of the log and the end of the last prepared segment.
    pub(super) capacity: u64,
    pub(super) waiting: usize,
}

impl Core {
    pub(super) fn reserve(
        self: Arc<Self>,
        bytes: usize,
        purpose: Purpose,
        wait_limit: &WaitLimit<'_>,
    ) -> Result<LogSpace> {
        let need = footprint(bytes.saturating_add(MAX_FIXED), self.options.segment_size);
        let spare = match purpose {
            Purpose::Ordinary => self.files.room_per_segment(),
            Purpose::Urgent => 0,
        };
        let mut begun = None;
        self.check_room()?;
        let mut queue = self.queue.lock();
        loop {
            if self.has_failed() {
                drop(queue);
                return Err(self.read_only());
            }
            let outstanding = queue.outstanding;
            let on_the_way = outstanding - queue.set_aside;
            let most = self.max_outstanding.load(Ordering::Relaxed);
            // Small reservations follow each other without a gap: a large one passes once they leave half of the room.
            if on_the_way > 0 && on_the_way.saturating_add(need.min(most / 2)) > most {
                wait_limit.check(&*self.clock, &mut begun)?;
                queue.waiting += 1;
                self.room.wait_for(&mut queue, ROOM_POLL);
                queue.waiting -= 1;
                drop(queue);
                self.check_room()?;
                queue = self.queue.lock();
            } else if queue.capacity < outstanding + need + spare {
                drop(queue);
                self.prepare(usize::MAX).inspect_err(|error| {
                    if let Error::DiskFull(what) = error {
                        self.fullness.found(FullFor::LogSpace, what, self.clock.now_micros());
                        self.notify_background();
                    }
                })?;
                queue = self.queue.lock();
            } else {
                queue.outstanding += need;
                queue.slots += 1;
                let slots = queue.slots;
                queue.records.reserve(slots);
                drop(queue);
                return Ok(LogSpace { core: self, bytes: need, is_set_aside: false });
            }
        }
    }

    /// Prepares a segment and counts its room.
    pub(super) fn prepare(&self, enough: usize) -> Result<()> {
        if self.files.prepare(enough)? {
            self.queue.lock().capacity += self.files.room_per_segment();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::io::FaultyDisk;
    use crate::wal::files::LogFiles;
    use crate::wal::{Wal, WalOptions};

    const PATIENT: Duration = Duration::from_secs(20);

    fn wal(max_outstanding: u64) -> Wal {
        let disk = FaultyDisk::new(1);
        let options = WalOptions {
            max_outstanding,
            segment_size: 64 << 10,
            background: false,
            ..WalOptions::default()
        };
        Wal::create(disk.shared(), PathBuf::from("/db"), 1, 1, LogFiles::default(), options).expect("is made")
    }

    /// Each group wakes the waiting thread before the end of its nap.
    #[test]
    fn a_wait_for_room_keeps_its_limit_while_groups_end() {
        let wal = wal(3000);
        let large = wal.reserve(10_000, Purpose::Ordinary, &WaitLimit::of(PATIENT)).expect("is alone");
        let (stop, begun) = (AtomicBool::new(false), wal.core.clock.now());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) && wal.core.clock.elapsed(begun) < PATIENT {
                    wal.core.room.notify_all();
                    std::thread::sleep(Duration::from_micros(100));
                }
                drop(large);
            });
            let reserved = wal.reserve(1, Purpose::Ordinary, &WaitLimit::of(Duration::from_millis(50)));
            stop.store(true, Ordering::Relaxed);
            assert!(matches!(reserved, Err(Error::BackpressureTimeout)), "{reserved:?}");
            // Without the wakers on a processor some naps are whole.
            assert!(wal.core.clock.elapsed(begun) < PATIENT / 10);
        });
    }

    /// Decisions of transactions in two phases come and go, and some are always there.
    #[test]
    fn a_reservation_beyond_the_bound_waits_for_no_small_one() {
        let wal = wal(3000);
        let short = WaitLimit::of(Duration::from_millis(10));
        let small = wal.reserve(100, Purpose::Ordinary, &short).expect("has room");
        let large = wal.reserve(10_000, Purpose::Ordinary, &short).expect("others have less than half");
        assert!(wal.reserve(100, Purpose::Ordinary, &short).is_err(), "now others wait");
        drop((small, large));
        let half = wal.reserve(1500, Purpose::Ordinary, &short).expect("has room");
        assert!(wal.reserve(10_000, Purpose::Ordinary, &short).is_err(), "others have half");
        drop(half);
    }
}
