//! The cell between a waiting owner and the one that ends its wait: a granter, a deadlock search, a killer,
//! or the clock. Small enough for loom to check every interleaving: `cargo test -p tidesdb-loom
//! lock::wait_cell`.

use std::time::Duration;

use crate::mutant::{self, Mutant};
use crate::sync::{Condvar, Mutex, MutexGuard};

/// How another thread ended a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum WaitDecision {
    /// The lock is granted. `first` is true for the owner's first grant on it.
    Granted {
        /// See [`WaitDecision::Granted`].
        first: bool,
    },
    /// The owner is a deadlock's victim, already out of its queue.
    Deadlock,
}

/// The reason for the end of a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Woken {
    /// A decision of another thread.
    Decided(WaitDecision),
    /// A kill. The owner is still in the queue, or was decided on meanwhile.
    Killed,
    /// The time is over. As for `Killed`, the queue decides.
    TimedOut,
}

#[derive(Default)]
struct WaitState {
    outcome: Option<WaitDecision>,
    killed: bool,
    /// Others may have come into the way of the wait.
    look_again: bool,
    /// The owner looks or reports, and will park.
    #[cfg(all(test, not(loom)))]
    looks: bool,
}

/// One owner's parking place, for one wait at a time. Its mutex is a leaf: nothing is called under it.
#[derive(Default)]
pub(super) struct WaitCell {
    state: Mutex<WaitState>,
    changed: Condvar,
}

impl WaitCell {
    /// Begins a wait. Called by the owner before others can see its request.
    pub(super) fn arm(&self) {
        let mut state = self.lock();
        state.outcome = None;
        state.look_again = false;
        #[cfg(all(test, not(loom)))]
        {
            state.looks = true;
        }
    }

    /// Ends the wait. The first decision stands. The caller calls `wake` once it holds no latch.
    pub(super) fn decide(&self, outcome: WaitDecision) {
        let mut state = self.lock();
        debug_assert!(state.outcome.is_none(), "a wait is decided once");
        state.outcome.get_or_insert(outcome);
    }

    /// The decision, if there is one.
    pub(super) fn decided(&self) -> Option<WaitDecision> {
        self.lock().outcome
    }

    /// Wakes the owner to check the cell again.
    pub(super) fn wake(&self) {
        self.changed.notify_all();
    }

    /// Has the owner look again who blocks it. Any thread may call it, at any time: too many looks do no harm.
    pub(super) fn look_again(&self) {
        self.lock().look_again = true;
        self.wake();
    }

    /// True until a waiting owner has looked again and reported, and parks.
    #[cfg(all(test, not(loom)))]
    pub(super) fn looks(&self) -> bool {
        let state = self.lock();
        state.look_again || state.looks
    }

    /// Interrupts the present wait and every later one until `clear_kill`.
    pub(super) fn kill(&self) {
        self.lock().killed = true;
        self.wake();
    }

    /// Ends the effect of `kill`.
    pub(super) fn clear_kill(&self) {
        self.lock().killed = false;
    }

    /// True while `kill` is in effect.
    pub(super) fn is_killed(&self) -> bool {
        self.lock().killed
    }

    /// Parks until a decision, a kill, or the end of the time. `left`, called before each sleep, returns the
    /// remaining time, or `None` for "no limit". `look`, called without the cell's mutex, answers
    /// [`WaitCell::look_again`].
    pub(super) fn park(&self, mut left: impl FnMut() -> Option<Duration>, mut look: impl FnMut()) -> Woken {
        let mut state = self.lock();
        let mut looks = !mutant::is(Mutant::DecisionUnseen);
        #[cfg(all(test, not(loom)))]
        {
            state.looks = false;
        }
        loop {
            if let Some(outcome) = state.outcome.filter(|_| looks) {
                return Woken::Decided(outcome);
            }
            looks = true;
            if state.killed {
                return Woken::Killed;
            }
            if state.look_again && !mutant::is(Mutant::NewBlockerUnreported) {
                state.look_again = false;
                #[cfg(all(test, not(loom)))]
                {
                    state.looks = true;
                }
                drop(state);
                look();
                state = self.lock();
                #[cfg(all(test, not(loom)))]
                {
                    state.looks = false;
                }
                continue;
            }
            let left = left();
            if left == Some(Duration::ZERO) {
                return Woken::TimedOut;
            }
            match left {
                Some(left) => {
                    self.changed.wait_for(&mut state, left);
                }
                None => self.changed.wait(&mut state),
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, WaitState> {
        self.state.lock()
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::sync::{Arc, Mutex};
    use loom::thread;

    /// A queue of one place, as in the lock table: the thread that removes the request decides.
    struct Table {
        holder: bool,
        request: bool,
    }

    fn wait(table: &Mutex<Table>, wait_cell: &WaitCell) -> Result<(), Woken> {
        {
            let mut t = table.lock().unwrap();
            if !t.holder {
                t.holder = true;
                return Ok(());
            }
            wait_cell.arm();
            t.request = true;
        }
        let woken = wait_cell.park(|| None, || ());
        match woken {
            Woken::Decided(WaitDecision::Granted { .. }) => Ok(()),
            Woken::Decided(WaitDecision::Deadlock) => Err(woken),
            Woken::Killed | Woken::TimedOut => {
                let mut t = table.lock().unwrap();
                match wait_cell.decided() {
                    Some(WaitDecision::Granted { .. }) => Ok(()),
                    Some(outcome) => Err(Woken::Decided(outcome)),
                    None => {
                        assert!(t.request, "nobody else took the request out");
                        t.request = false;
                        Err(woken)
                    }
                }
            }
        }
    }

    fn end(table: &Mutex<Table>, wait_cell: &WaitCell, outcome: WaitDecision) {
        let wake = {
            let mut t = table.lock().unwrap();
            if outcome != WaitDecision::Deadlock {
                t.holder = false;
            }
            if t.request {
                t.request = false;
                if outcome != WaitDecision::Deadlock {
                    t.holder = true;
                }
                wait_cell.decide(outcome);
                true
            } else {
                false
            }
        };
        if wake {
            wait_cell.wake();
        }
    }

    #[test]
    fn a_grant_is_never_lost() {
        loom::model(|| {
            let table = Arc::new(Mutex::new(Table { holder: true, request: false }));
            let wait_cell = Arc::new(WaitCell::default());
            let (t, h) = (table.clone(), wait_cell.clone());
            let granter = thread::spawn(move || end(&t, &h, WaitDecision::Granted { first: true }));
            assert_eq!(wait(&table, &wait_cell), Ok(()));
            granter.join().unwrap();
            assert!(table.lock().unwrap().holder);
        });
    }

    #[test]
    fn grant_and_kill_leave_one_answer_and_no_request() {
        loom::model(|| {
            let table = Arc::new(Mutex::new(Table { holder: true, request: false }));
            let wait_cell = Arc::new(WaitCell::default());
            let (t, h) = (table.clone(), wait_cell.clone());
            let granter = thread::spawn(move || end(&t, &h, WaitDecision::Granted { first: true }));
            let h = wait_cell.clone();
            let killer = thread::spawn(move || h.kill());
            let answer = wait(&table, &wait_cell);
            granter.join().unwrap();
            killer.join().unwrap();
            let t = table.lock().unwrap();
            assert_eq!(t.holder, answer.is_ok());
            assert!(!t.request);
            assert!(answer.is_ok() || answer == Err(Woken::Killed));
        });
    }

    /// An owner that comes into the way, and leaves only once the waiter has told of it.
    #[test]
    fn a_waiter_tells_of_all_that_come_into_its_way() {
        loom::model(|| {
            let table = Arc::new(Mutex::new(Table { holder: true, request: true }));
            let wait_cell = Arc::new(WaitCell::default());
            wait_cell.arm();
            let told = Arc::new((Mutex::new(false), loom::sync::Condvar::new()));
            let (t, h, tells) = (table.clone(), wait_cell.clone(), told.clone());
            let blocker = thread::spawn(move || {
                h.look_again();
                let mut is_told = tells.0.lock().unwrap();
                while !*is_told {
                    is_told = tells.1.wait(is_told).unwrap();
                }
                drop(is_told);
                end(&t, &h, WaitDecision::Granted { first: true });
            });
            let woken = wait_cell.park(
                || None,
                || {
                    *told.0.lock().unwrap() = true;
                    told.1.notify_all();
                },
            );
            assert_eq!(woken, Woken::Decided(WaitDecision::Granted { first: true }));
            blocker.join().unwrap();
        });
    }

    #[test]
    fn a_victim_wakes_while_a_killer_runs() {
        loom::model(|| {
            let table = Arc::new(Mutex::new(Table { holder: true, request: false }));
            let wait_cell = Arc::new(WaitCell::default());
            let (t, h) = (table.clone(), wait_cell.clone());
            let detector = thread::spawn(move || end(&t, &h, WaitDecision::Deadlock));
            let h = wait_cell.clone();
            let killer = thread::spawn(move || h.kill());
            let answer = wait(&table, &wait_cell);
            detector.join().unwrap();
            killer.join().unwrap();
            assert!(matches!(answer, Err(Woken::Killed | Woken::Decided(WaitDecision::Deadlock))));
            assert!(!table.lock().unwrap().request);
        });
    }
}
