//! A queue for the lead of a shared task between threads. Threads wait until a counter passes their tickets.
//! One of them at a time, the leader, does the work that advances it. The log's syncs use it: a sync is long,
//! and doing it twice would double it. Small, so loom can try every interleaving.
//!
//! A leader, at its end, wakes all threads with passed tickets and *one* other thread. That one leads next,
//! unless a thread already awake comes first. The lead is never handed to a sleeping thread: nothing would be
//! done while it wakes up.
//!
//! No wake-up is lost. A thread goes to sleep only after it put itself on the list, under the mutex, while
//! there is a leader. A leader resigns under the same mutex, and takes the threads to wake from the list. So
//! without a leader the list is empty, or a thread from it has been woken and will look again.

use std::time::Duration;

use crate::mutant::{self, Mutant};
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{current, park_timeout, Mutex, Thread};

/// Longest sleep between two checks for a shutdown.
const LOOK: Duration = Duration::from_secs(1);

/// The end of a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Turn {
    /// The counter passed the ticket.
    Done,
    /// The caller leads: it must do the work and call [`LeaderQueue::finish`] (or [`LeaderQueue::stop`]).
    Lead,
    /// The queue was stopped and the counter has not passed the ticket.
    Stopped,
}

struct Sleeper {
    ticket: u64,
    id: u64,
    thread: Thread,
}

#[derive(Default)]
struct LeaderState {
    leading: bool,
    next_id: u64,
    sleepers: Vec<Sleeper>,
}

/// Most threads woken for one release of the mutex.
const WAKE_AT_ONCE: usize = 16;

/// See the module's comment.
pub(super) struct LeaderQueue {
    /// Everything up to this ticket is done. Written by the leader only.
    done: AtomicU64,
    stopped: AtomicBool,
    state: Mutex<LeaderState>,
}

impl LeaderQueue {
    pub(super) fn new() -> LeaderQueue {
        LeaderQueue {
            done: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            state: Mutex::new(LeaderState::default()),
        }
    }

    /// The last finished ticket.
    pub(super) fn done(&self) -> u64 {
        self.done.load(Ordering::Acquire)
    }

    fn settled(&self, ticket: u64) -> Option<Turn> {
        // `stopped` is read first: what was done before the stop is then seen as done.
        let stopped = self.stopped.load(Ordering::Acquire);
        if self.done() >= ticket {
            Some(Turn::Done)
        } else if stopped {
            Some(Turn::Stopped)
        } else {
            None
        }
    }

    /// Waits until `ticket` is done or it is the caller's turn to lead. Calls `look` after each sleep: it may
    /// stop the queue.
    pub(super) fn wait(&self, ticket: u64, mut look: impl FnMut()) -> Turn {
        let mut id = None;
        loop {
            if let Some(turn) = self.settled(ticket) {
                // A sleeper that leaves like this may stay on the list; its ticket is done (or all
                // are stopped), so the leader takes it off before it wakes one of the others.
                return turn;
            }
            let mut state = self.state.lock();
            if let Some(id) = id.take() {
                state.sleepers.retain(|s| s.id != id);
            }
            if let Some(turn) = self.settled(ticket) {
                return turn;
            }
            if !state.leading {
                state.leading = true;
                return Turn::Lead;
            }
            state.next_id += 1;
            id = Some(state.next_id);
            let sleeper = Sleeper { ticket, id: state.next_id, thread: current() };
            state.sleepers.push(sleeper);
            drop(state);
            park_timeout(LOOK);
            look();
        }
    }

    /// Ends the leader's turn: everything up to `done` (no less than before) is done.
    pub(super) fn finish(&self, done: u64) {
        debug_assert!(done >= self.done());
        self.done.store(done, Ordering::Release);
        let mut state = self.state.lock();
        state.leading = false;
        // One that is not done goes first: it works while the others wake.
        let next = state.sleepers.iter().position(|s| s.ticket > done);
        let mut next_leader = next.map(|at| state.sleepers.swap_remove(at).thread);
        while !mutant::is(Mutant::SyncFollowersNotWoken) {
            let mut woken: [Option<Thread>; WAKE_AT_ONCE] = Default::default();
            let mut n = 0;
            let mut at = 0;
            while at < state.sleepers.len() && n < WAKE_AT_ONCE {
                if state.sleepers[at].ticket <= done {
                    woken[n] = Some(state.sleepers.swap_remove(at).thread);
                    n += 1;
                } else {
                    at += 1;
                }
            }
            drop(state);
            if let Some(next_leader) = next_leader.take() {
                next_leader.unpark();
            }
            for thread in woken.into_iter().flatten() {
                thread.unpark();
            }
            if n < WAKE_AT_ONCE {
                return;
            }
            state = self.state.lock();
        }
    }

    /// Ends the hand-over for good: threads waiting for unfinished tickets get [`Turn::Stopped`]. A leader
    /// still at work may call [`LeaderQueue::finish`] or this.
    pub(super) fn stop(&self) {
        let mut state = self.state.lock();
        self.stopped.store(true, Ordering::Release);
        let sleepers = std::mem::take(&mut state.sleepers);
        drop(state);
        for sleeper in sleepers {
            sleeper.thread.unpark();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn every_ticket_is_done_and_leaders_are_alone() {
        let shared = Arc::new((LeaderQueue::new(), AtomicU64::new(0), AtomicU64::new(0)));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                let shared = shared.clone();
                scope.spawn(move || {
                    let (queue, tickets, leaders) = &*shared;
                    for _ in 0..2000 {
                        let ticket = tickets.fetch_add(1, Ordering::SeqCst) + 1;
                        loop {
                            match queue.wait(ticket, || {}) {
                                Turn::Done => break,
                                Turn::Stopped => panic!("nobody stops"),
                                Turn::Lead => {
                                    assert_eq!(leaders.fetch_add(1, Ordering::SeqCst), 0);
                                    let all = tickets.load(Ordering::SeqCst);
                                    assert_eq!(leaders.fetch_sub(1, Ordering::SeqCst), 1);
                                    queue.finish(all);
                                }
                            }
                        }
                        assert!(queue.done() >= ticket);
                    }
                });
            }
        });
        assert!(shared.0.state.lock().sleepers.is_empty());
    }

    #[test]
    fn a_stop_keeps_what_was_done() {
        let queue = LeaderQueue::new();
        assert_eq!(queue.wait(3, || {}), Turn::Lead);
        queue.finish(3);
        queue.stop();
        assert_eq!((queue.wait(3, || {}), queue.wait(4, || {})), (Turn::Done, Turn::Stopped));
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// `threads` threads take a ticket each and wait for it; a lost wake-up is a deadlock for loom.
    fn commit(threads: usize, stop: bool) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(move || {
            let shared = Arc::new((LeaderQueue::new(), AtomicU64::new(0), AtomicU64::new(0)));
            let work = move |shared: &(LeaderQueue, AtomicU64, AtomicU64), last: bool| {
                let (queue, tickets, leaders) = shared;
                let ticket = tickets.fetch_add(1, Ordering::AcqRel) + 1;
                loop {
                    match queue.wait(ticket, || {}) {
                        Turn::Done => {
                            assert!(queue.done() >= ticket);
                            return;
                        }
                        Turn::Stopped => {
                            assert!(stop);
                            return;
                        }
                        Turn::Lead => {
                            assert_eq!(leaders.fetch_add(1, Ordering::AcqRel), 0);
                            let all = tickets.load(Ordering::Acquire);
                            assert_eq!(leaders.fetch_sub(1, Ordering::AcqRel), 1);
                            if stop && last {
                                queue.stop();
                                return;
                            }
                            queue.finish(all);
                        }
                    }
                }
            };
            let others: Vec<_> = (1..threads)
                .map(|_| {
                    let shared = shared.clone();
                    thread::spawn(move || work(&shared, false))
                })
                .collect();
            work(&shared, true);
            for other in others {
                other.join().unwrap();
            }
        });
    }

    #[test]
    fn loom_two_committers() {
        commit(2, false);
    }

    #[test]
    fn loom_three_committers() {
        commit(3, false);
    }

    #[test]
    fn loom_a_stop_wakes_everybody() {
        commit(3, true);
    }
}
