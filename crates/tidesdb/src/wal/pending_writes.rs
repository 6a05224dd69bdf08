//! Pending writes of the log: log writes of serialised records, in order, each written by whichever thread
//! needs it.
//!
//! No thread waits for a leader here. A leader may lose its core between its write and its answer (the kernel
//! reschedules at the end of a system call). It would then hold up every committer for a scheduler's slice.
//! Instead, a waiting thread serialises the queue and writes log writes not yet begun. In the end it repeats
//! those of absent writers: the same bytes at the same place, so a second write does no harm. A log write
//! holds its segment, and a held segment is not recycled: a late writer finds its old file.
//!
//! A log write is *settled* when it and all before it are written. `done` is the last ticket of the settled
//! ones; it freezes when the log is stopped. Small, so loom can try every interleaving.
//!
//! A log write without room on the disk stays in its place. Every passing thread tries it again until there
//! is room (`docs/design/0021-full-disk-in-the-log.md`). Nothing after it is settled meanwhile.

use std::collections::VecDeque;
use std::time::Duration;

use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{note, spin_loop, Arc, SleepCondvar, SleepMutex};

/// The place of a record in the queue: dense, from 1; 0 is "before everything".
pub type Ticket = u64;

/// Checks of `done` before a thread repeats another's write: about the time of a small `pwrite`.
const LOOKS: u32 = match cfg!(loom) {
    true => 0,
    false if cfg!(simulation) => 4,
    false => 200,
};

/// Longest sleep between two checks for a shutdown.
const LOOK: Duration = Duration::from_secs(1);

/// Serialised records, with their place in the log.
pub(super) trait LogWrite {
    /// The last record ending in it or before it.
    fn last(&self) -> Ticket;

    /// True if writing it twice costs less than waiting for the thread at it.
    fn is_small(&self) -> bool;
}

/// The waiting threads' operations on the log. Each function takes its latches itself.
pub(super) trait WriteToken {
    /// The kind of log writes it makes and writes.
    type LogWrite: LogWrite;

    /// Makes log writes of everything queued, unless another thread is at it; with `waits` it waits for
    /// the end of that thread's work first.
    fn serialise(&self, waits: bool);

    /// Writes a log write, perhaps for the second time. False: no room for it, possibly after a part of it is
    /// in the file. After another error it has called [`PendingWrites::stop`].
    fn write(&self, log_write: &Self::LogWrite) -> bool;

    /// Waits before a further attempt at a log write without room, longer after several.
    fn back_off(&self, attempts: u32);

    /// The time without progress seen by a waiting thread.
    type Stall: Default;

    /// Checks between two sleeps for the end of the wait; at the end it has called [`PendingWrites::stop`].
    fn look(&self, stall: &mut Self::Stall);

    /// An enqueued record is lost: neither it nor a log write with it is left, so no thread will ever write
    /// it. Calls [`PendingWrites::stop`].
    fn lost(&self, ticket: Ticket);

    /// Every log write once without room is in the file.
    fn has_room(&self);

    /// The log write and all before it are written; called once for each, in order.
    fn publish(&self, log_write: &Self::LogWrite);
}

/// A log write and its state.
struct Pending<S> {
    log_write: S,
    begun: AtomicBool,
    written: AtomicBool,
    /// There was no room for it, and nobody tries again now.
    no_room: AtomicBool,
}

struct PendingState<S> {
    /// The unsettled ones, in order.
    pending: VecDeque<Arc<Pending<S>>>,
    sleepers: usize,
}

/// See the module's comment.
pub(super) struct PendingWrites<S> {
    /// Everything up to this ticket is written.
    done: AtomicU64,
    stopped: AtomicBool,
    /// Some log write has found no room. Changed with `state` held.
    full: AtomicBool,
    state: SleepMutex<PendingState<S>>,
    settled: SleepCondvar,
}

/// The answer to a wait while the disk has no room for the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum IfFull {
    /// The wait goes on: its cause cannot be undone.
    Wait,
    /// The wait ends.
    Leave,
}

/// The end of a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum WaitOutcome {
    /// The ticket is written.
    Written,
    /// The log was stopped before it was.
    Stopped,
    /// There is no room, now; it will be written when there is.
    NoRoom,
}

impl<S: LogWrite> PendingWrites<S> {
    pub(super) fn new() -> PendingWrites<S> {
        PendingWrites {
            done: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            full: AtomicBool::new(false),
            state: SleepMutex::new(PendingState { pending: VecDeque::new(), sleepers: 0 }),
            settled: SleepCondvar::default(),
        }
    }

    /// The last settled ticket.
    pub(super) fn done(&self) -> Ticket {
        self.done.load(Ordering::Acquire)
    }

    /// True if nothing is being written.
    pub(super) fn is_empty(&self) -> bool {
        self.state.lock().pending.is_empty()
    }

    /// True if a log write has found no room and is not in the file.
    pub(super) fn is_full(&self) -> bool {
        self.full.load(Ordering::Acquire)
    }

    /// Adds a log write after the others. Calls are in the order of the log.
    pub(super) fn push(&self, log_write: S) {
        let pending = Arc::new(Pending {
            log_write,
            begun: AtomicBool::new(false),
            written: AtomicBool::new(false),
            no_room: AtomicBool::new(false),
        });
        self.state.lock().pending.push_back(pending);
    }

    /// Returns when `ticket` is written or the log is stopped, or without room for it.
    pub(super) fn wait<P>(&self, ticket: Ticket, token: &P, if_full: IfFull) -> WaitOutcome
    where
        P: WriteToken<LogWrite = S>,
    {
        let mut waits = false;
        let mut attempts = 0;
        let mut stall = P::Stall::default();
        loop {
            if let Some(outcome) = self.outcome(ticket) {
                return outcome;
            }
            token.serialise(waits);
            self.write_all(token);
            for _ in 0..LOOKS {
                if let Some(outcome) = self.outcome(ticket) {
                    return outcome;
                }
                spin_loop();
            }
            if self.is_full() && !self.try_again(token) {
                if let Some(outcome) = self.outcome(ticket) {
                    return outcome;
                }
                if if_full == IfFull::Leave {
                    return WaitOutcome::NoRoom;
                }
                token.back_off(attempts);
                attempts += 1;
                continue;
            }
            // Either another thread is writing what this one waits for, or it is serialising it.
            let nothing_left = !self.write_again(token);
            if nothing_left && waits && self.outcome(ticket).is_none() {
                // This thread had the end of the log to itself after the record was queued, and all log writes that were
                // made of the queue are settled.
                token.lost(ticket);
            }
            waits = nothing_left;
            token.look(&mut stall);
        }
    }

    /// Tries log writes without room again; false while there is none.
    pub(super) fn try_again<P: WriteToken<LogWrite = S>>(&self, token: &P) -> bool {
        while self.is_full() {
            let Some(front) = self.state.lock().pending.front().cloned() else { return true };
            self.write_all(token);
            self.write_again(token);
            if !front.written.load(Ordering::Relaxed) {
                return false;
            }
        }
        true
    }

    fn outcome(&self, ticket: Ticket) -> Option<WaitOutcome> {
        // `stopped` is read first: what was settled before the stop is then seen as done.
        let stopped = self.stopped.load(Ordering::Acquire);
        if self.done() >= ticket {
            Some(WaitOutcome::Written)
        } else if stopped {
            Some(WaitOutcome::Stopped)
        } else {
            None
        }
    }

    /// Writes every log write not yet begun.
    pub(super) fn write_all<P: WriteToken<LogWrite = S>>(&self, token: &P) {
        while let Some(pending) = self.begin() {
            self.write(token, &pending);
        }
    }

    fn begin(&self) -> Option<Arc<Pending<S>>> {
        let state = self.state.lock();
        if self.stopped.load(Ordering::Relaxed) {
            return None;
        }
        // Not begun ones stand at the end; there is rarely more than one.
        let first = state.pending.iter().rposition(|pending| pending.begun.load(Ordering::Relaxed));
        let pending = state.pending.get(first.map_or(0, |begun| begun + 1))?;
        pending.begun.store(true, Ordering::Relaxed);
        Some(pending.clone())
    }

    /// Repeats the oldest log write begun by another thread; waits for that thread if the log write is large.
    /// False if there is none.
    fn write_again<P: WriteToken<LogWrite = S>>(&self, token: &P) -> bool {
        let mut state = self.state.lock();
        let Some(pending) = state.pending.front().cloned() else { return false };
        if self.stopped.load(Ordering::Relaxed) {
            return true;
        }
        let no_room = pending.no_room.swap(false, Ordering::Relaxed);
        if pending.log_write.is_small() || no_room {
            note("log: written again");
            drop(state);
            self.write(token, &pending);
            return true;
        }
        state.sleepers += 1;
        state = self.settled.wait_for(state, LOOK);
        state.sleepers -= 1;
        true
    }

    fn write<P: WriteToken<LogWrite = S>>(&self, token: &P, pending: &Pending<S>) {
        let has_room = token.write(&pending.log_write);
        let mut state = self.state.lock();
        if self.stopped.load(Ordering::Relaxed) {
            return;
        }
        if !has_room {
            // Another thread may have written it meanwhile.
            if !pending.written.load(Ordering::Relaxed) {
                pending.no_room.store(true, Ordering::Relaxed);
                self.full.store(true, Ordering::Release);
                self.settled.notify_all();
            }
            return;
        }
        pending.written.store(true, Ordering::Relaxed);
        pending.no_room.store(false, Ordering::Relaxed);
        let mut last = None;
        while state.pending.front().is_some_and(|pending| pending.written.load(Ordering::Relaxed)) {
            if let Some(pending) = state.pending.pop_front() {
                token.publish(&pending.log_write);
                last = Some(pending.log_write.last());
            }
        }
        if let Some(last) = last {
            self.done.store(last, Ordering::Release);
            if state.sleepers > 0 {
                self.settled.notify_all();
            }
        }
        // One whose second attempt is under way counts until that has succeeded.
        let without_room = |pending: &Arc<Pending<S>>| {
            pending.begun.load(Ordering::Relaxed) && !pending.written.load(Ordering::Relaxed)
        };
        if self.full.load(Ordering::Relaxed) && !state.pending.iter().any(without_room) {
            self.full.store(false, Ordering::Release);
            self.settled.notify_all();
            drop(state);
            token.has_room();
        }
    }

    /// Ends it for good: nothing more is begun or settled, and waiting threads get [`WaitOutcome::Stopped`].
    pub(super) fn stop(&self) {
        let _state = self.state.lock();
        self.stopped.store(true, Ordering::Release);
        self.settled.notify_all();
    }
}

#[cfg(test)]
mod test_log {
    use super::*;
    use crate::sync::{yield_now, Mutex};

    /// A record of the model: its ticket is its place.
    pub(super) struct Line {
        first: Ticket,
        last: Ticket,
        small: bool,
    }

    impl LogWrite for Line {
        fn last(&self) -> Ticket {
            self.last
        }

        fn is_small(&self) -> bool {
            self.small
        }
    }

    /// A log whose file is a list of how often each record was written.
    pub(super) struct Log {
        pub(super) pending_writes: PendingWrites<Line>,
        queued: AtomicU64,
        end: Mutex<Ticket>,
        file: Mutex<Vec<u32>>,
        published: Mutex<Ticket>,
        small: bool,
        /// The write of this ticket fails.
        fails: Ticket,
        /// Number of writes without room before there is some.
        no_room: AtomicU64,
        /// From this ticket on no log write carries any; 0: all do.
        forgets: Ticket,
    }

    impl Log {
        pub(super) fn new(small: bool, fails: Ticket, room: usize) -> Log {
            Log {
                pending_writes: PendingWrites::new(),
                queued: AtomicU64::new(0),
                end: Mutex::new(0),
                file: Mutex::new(vec![0; room]),
                published: Mutex::new(0),
                small,
                fails,
                no_room: AtomicU64::new(0),
                forgets: 0,
            }
        }

        /// A log whose log writes carry none from `ticket` on, as those of records that end before their
        /// tickets are counted.
        pub(super) fn forgetting(self, ticket: Ticket) -> Log {
            Log { forgets: ticket, ..self }
        }

        /// So many writes find no room.
        pub(super) fn without_room(self, writes: u64) -> Log {
            self.no_room.store(writes, Ordering::Release);
            self
        }

        /// Queues a record and waits for it; checks that a promised record is in the file.
        pub(super) fn commit(&self) -> WaitOutcome {
            self.append(IfFull::Wait)
        }

        pub(super) fn append(&self, if_full: IfFull) -> WaitOutcome {
            let ticket = self.queued.fetch_add(1, Ordering::AcqRel) + 1;
            let outcome = self.pending_writes.wait(ticket, self, if_full);
            if outcome == WaitOutcome::Written {
                assert!(self.file.lock()[..ticket as usize].iter().all(|&times| times > 0));
                assert!(*self.published.lock() >= ticket);
                assert!(self.pending_writes.done() >= ticket);
            }
            outcome
        }

        pub(super) fn published(&self) -> Ticket {
            *self.published.lock()
        }
    }

    impl WriteToken for Log {
        type LogWrite = Line;
        type Stall = ();

        fn look(&self, _stall: &mut ()) {}

        fn lost(&self, ticket: Ticket) {
            assert!(ticket >= self.forgets && self.forgets > 0, "ticket {ticket} is lost");
            self.pending_writes.stop();
        }

        fn serialise(&self, waits: bool) {
            let guard = if waits { Some(self.end.lock()) } else { self.end.try_lock() };
            let Some(mut end) = guard else { return };
            let last = self.queued.load(Ordering::Acquire);
            if last > *end {
                let carried = if self.forgets > 0 { last.min(self.forgets - 1) } else { last };
                if carried > *end {
                    self.pending_writes.push(Line { first: *end + 1, last: carried, small: self.small });
                }
                *end = last;
            }
        }

        fn write(&self, line: &Line) -> bool {
            if (line.first..=line.last).contains(&self.fails) {
                self.pending_writes.stop();
                return true;
            }
            let take = |left: u64| left.checked_sub(1);
            if self.no_room.fetch_update(Ordering::AcqRel, Ordering::Acquire, take).is_ok() {
                return false;
            }
            let mut file = self.file.lock();
            for times in &mut file[line.first as usize - 1..line.last as usize] {
                *times += 1;
            }
            true
        }

        fn back_off(&self, _attempts: u32) {
            yield_now();
        }

        fn has_room(&self) {}

        fn publish(&self, line: &Line) {
            let mut published = self.published.lock();
            assert_eq!(*published + 1, line.first, "in order, once");
            *published = line.last;
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::test_log::Log;
    use super::*;

    #[test]
    fn what_a_wait_answers_is_written_and_published_in_order() {
        for small in [true, false] {
            let log = Log::new(small, 0, 8000);
            std::thread::scope(|scope| {
                for _ in 0..8 {
                    scope.spawn(|| {
                        for _ in 0..1000 {
                            assert_eq!(log.commit(), WaitOutcome::Written);
                        }
                    });
                }
            });
            assert_eq!((log.pending_writes.done(), log.published()), (8000, 8000));
            assert!(log.pending_writes.is_empty());
        }
    }

    #[test]
    fn a_write_without_room_waits_for_room_and_nothing_passes_it() {
        for small in [true, false] {
            let log = Log::new(small, 0, 800).without_room(50);
            assert_eq!(log.append(IfFull::Leave), WaitOutcome::NoRoom);
            assert!(log.pending_writes.is_full() && log.pending_writes.done() == 0);
            std::thread::scope(|scope| {
                for _ in 0..7 {
                    scope.spawn(|| {
                        for _ in 0..100 {
                            assert_eq!(log.commit(), WaitOutcome::Written);
                        }
                    });
                }
            });
            assert!(!log.pending_writes.is_full() && log.pending_writes.is_empty());
            assert_eq!((log.pending_writes.done(), log.published()), (701, 701));
            assert_eq!(log.append(IfFull::Leave), WaitOutcome::Written);
        }
    }

    #[test]
    fn a_wait_for_a_record_that_nobody_will_write_stops_the_log() {
        for small in [true, false] {
            let log = Log::new(small, 0, 4000).forgetting(500);
            let written = AtomicU64::new(0);
            std::thread::scope(|scope| {
                for _ in 0..8 {
                    scope.spawn(|| {
                        while log.commit() == WaitOutcome::Written {
                            written.fetch_add(1, Ordering::Relaxed);
                        }
                    });
                }
            });
            assert_eq!(written.load(Ordering::Relaxed), 499);
            assert_eq!(log.commit(), WaitOutcome::Stopped);
        }
    }

    #[test]
    fn nothing_behind_a_failed_write_is_answered_as_written() {
        for small in [true, false] {
            let log = Log::new(small, 500, 1000);
            std::thread::scope(|scope| {
                for _ in 0..8 {
                    scope.spawn(|| while log.commit() == WaitOutcome::Written {});
                }
            });
            assert!(log.pending_writes.done() < 500 && log.pending_writes.done() == log.published());
            assert_eq!(log.commit(), WaitOutcome::Stopped);
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::test_log::Log;
    use super::*;
    use loom::thread;

    /// `threads` committers. A lost wake-up is a deadlock for loom, and every answered record is written.
    fn commit(threads: usize, small: bool, fails: Ticket) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(move || {
            let log = Arc::new(Log::new(small, fails, threads));
            let others: Vec<_> = (1..threads)
                .map(|_| {
                    let log = log.clone();
                    thread::spawn(move || log.commit())
                })
                .collect();
            let mut outcomes = vec![log.commit()];
            outcomes.extend(others.into_iter().map(|other| other.join().expect("committer")));
            if fails == 0 {
                assert!(outcomes.iter().all(|o| *o == WaitOutcome::Written));
                assert_eq!(log.published(), threads as u64);
            } else {
                assert!(outcomes.contains(&WaitOutcome::Stopped));
                assert!(log.pending_writes.done() < fails);
            }
        });
    }

    #[test]
    fn loom_two_writers_of_small_stretches() {
        commit(2, true, 0);
    }

    #[test]
    fn loom_three_writers_of_small_stretches() {
        commit(3, true, 0);
    }

    #[test]
    fn loom_writers_of_large_stretches_sleep_and_wake() {
        commit(2, false, 0);
    }

    /// One waits for room, one leaves; the other writes for both.
    fn full(small: bool, writes: u64) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(move || {
            let log = Arc::new(Log::new(small, 0, 2).without_room(writes));
            let other = {
                let log = log.clone();
                thread::spawn(move || log.append(IfFull::Leave))
            };
            assert_eq!(log.commit(), WaitOutcome::Written);
            assert_ne!(other.join().expect("committer"), WaitOutcome::Stopped);
            assert!(log.pending_writes.try_again(&*log) && !log.pending_writes.is_full());
        });
    }

    #[test]
    fn loom_a_write_without_room_is_written_later() {
        full(true, 1);
        full(true, 2);
        full(false, 1);
    }

    #[test]
    fn loom_a_wait_for_what_nobody_writes_ends() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        for small in [true, false] {
            model.check(move || {
                let log = Arc::new(Log::new(small, 0, 2).forgetting(2));
                let other = {
                    let log = log.clone();
                    thread::spawn(move || log.commit())
                };
                let outcomes = [log.commit(), other.join().expect("committer")];
                assert!(outcomes.contains(&WaitOutcome::Stopped));
            });
        }
    }

    #[test]
    fn loom_a_failed_write_stops_everybody() {
        commit(2, true, 2);
        commit(2, false, 2);
    }
}
