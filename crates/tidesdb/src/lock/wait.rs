//! Waits: the slow path of every lock. A wait begins and ends under the manager's wait latch. In between, the
//! owner's thread is parked at its [`super::wait_cell`], without any latch.

use std::sync::atomic::Ordering::*;
use std::sync::Arc;
use std::time::Duration;

use super::deadlock::{victim, Deadlock, Search};
use super::key::Probe;
use super::manager::LockManager;
use super::mode::Mask;
use super::owner::LockOwner;
use super::queue::{Attempt, Queue};
use super::shard::{EntryId, EntryPlace, FamilyLocks, PriorityWait, Shard, TABLE_SHARD};
use super::wait_cell::{WaitDecision, Woken};
use super::{Policy, WaitObserver};
use crate::error::{Error, Result};
use crate::mutant::{self, Mutant};

/// State under the wait latch.
#[derive(Default)]
pub(super) struct Waits {
    /// Number of owners in a queue.
    pub(super) waiting: u64,
    search: Search,
}

/// Owners with decided waits, to be woken once no latch is held.
#[derive(Default)]
pub(super) struct Wakes(Vec<Arc<LockOwner>>);

impl Wakes {
    /// Wakes the owners.
    pub(super) fn send(self) {
        for owner in self.0.into_iter().filter(|_| !mutant::is(Mutant::WaiterNotWoken)) {
            owner.wait_cell.wake();
        }
    }
}

/// Owners with priority and new owners in their way, to be told once no latch is held.
#[derive(Default)]
pub(super) struct Looks(Vec<Arc<LockOwner>>);

impl Looks {
    /// Adds those that `owner` may block newly: it has just been granted `want` here, or waits for it. No owner
    /// without priority overtakes them so.
    pub(super) fn add(&mut self, queue: &Queue, owner: &LockOwner, want: Mask) {
        if owner.has_priority() && queue.has_waiters() {
            self.0.extend(queue.priority_waits_against(owner, want).cloned());
        }
    }

    /// Adds those that a new gap lock of `owner` over the entry's key blocks.
    pub(super) fn add_for_gap(&mut self, queue: &Queue, owner: &LockOwner) {
        self.0.extend(queue.priority_waits_against(owner, Mask::AFTER).cloned());
    }

    /// Has the owners look again.
    pub(super) fn send(self) {
        self.0.into_iter().for_each(|owner| owner.wait_cell.look_again());
    }
}

/// The object of a wait.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub(super) locks: &'a Arc<FamilyLocks>,
    pub(super) shard: u32,
    /// The key; empty for the table's lock.
    pub(super) key: &'a [u8],
    pub(super) mode: Mask,
    pub(super) intent: bool,
    /// The change count at the last search of implicit locks, for a key and a mode other than a passing one.
    pub(super) looked: Option<u64>,
}

/// Owners named in a report; their transactions cannot end before it does.
#[derive(Default)]
struct Pinned(Vec<Arc<LockOwner>>);

impl Pinned {
    fn add(&mut self, owner: &Arc<LockOwner>) {
        owner.pins.fetch_add(1, Relaxed);
        self.0.push(owner.clone());
    }

    fn cookies(&self) -> Vec<u64> {
        self.0.iter().map(|owner| owner.cookie()).collect()
    }

    fn all(owners: &[Arc<LockOwner>]) -> Pinned {
        for owner in owners {
            owner.pins.fetch_add(1, Relaxed);
        }
        Pinned(owners.to_vec())
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        for owner in &self.0 {
            owner.pins.fetch_sub(1, Release);
        }
    }
}

impl LockManager {
    /// Waits for a lock that was just blocked. Returns its place, and true for the owner's first grant there.
    /// `None`, without a wait, if implicit locks must be searched first.
    pub(super) fn wait(
        &self,
        owner: &Arc<LockOwner>,
        wanted: Wanted<'_>,
        policy: Policy,
    ) -> Result<Option<(EntryPlace, bool)>> {
        let limit = match policy {
            Policy::Wait(limit) if policy.may_wait() => limit,
            _ => return Err(Error::LockTimeout),
        };
        if owner.wait_cell.is_killed() {
            return Err(Error::Interrupted);
        }
        let began = self.clock.now_micros();
        let mut wakes = Wakes::default();
        let mut pinned = Pinned::default();
        let mut deadlocks = Vec::new();
        let mut looks = Looks::default();
        let counts = owner.has_priority() && wanted.mode == Mask::X && wanted.shard != TABLE_SHARD;
        let _counted = counts.then(|| PriorityWait::begins(wanted.locks));

        let mut waits = self.waits.lock();
        let mut shard = wanted.locks.latch(wanted.shard);
        let change_count = wanted.locks.implicit.change_count();
        if change_count != 0 && wanted.looked.is_some_and(|looked| looked != change_count) {
            return Ok(None);
        }
        let id = shard.find_or_insert(&Probe::new(wanted.key));
        let place = EntryPlace { locks: wanted.locks.clone(), shard: wanted.shard, id };
        let (queue, gap_conflict) = shard.with_gap_conflict(wanted.locks, id);
        match queue.attempt(owner, wanted.mode, wanted.intent, &gap_conflict) {
            Attempt::Granted { first } => {
                looks.add(queue, owner, wanted.mode);
                // A passing mode leaves nothing here.
                shard.tidy(id);
                drop(shard);
                drop(waits);
                looks.send();
                return Ok(Some((place, first)));
            }
            // Somebody has made the entry of the owner's implicit lock meanwhile: it would wait for itself.
            Attempt::AlreadyHeld => return Ok(Some((place, false))),
            Attempt::Blocked => {}
        }
        owner.wait_cell.arm();
        queue.enqueue(owner, wanted.mode, wanted.intent, &gap_conflict);
        looks.add(queue, owner, wanted.mode);
        *owner.waits_at.lock() = Some(place.clone());
        owner.waits_since.store(began.max(1), Relaxed);
        waits.waiting += 1;
        self.counters.waiting.fetch_add(1, Relaxed);
        if self.observer.is_some() {
            shard.blockers(wanted.locks, id, owner, |blocker| pinned.add(blocker));
        }
        drop(shard);
        self.counters.waits.fetch_add(1, Relaxed);
        self.break_deadlocks(&mut waits, owner, &mut wakes, &mut deadlocks);
        drop(waits);
        if let Some(observer) = &self.observer {
            // Before anybody goes on: the statements that wait are those of the deadlock.
            deadlocks.iter().for_each(|(deadlock, _)| observer.deadlock(deadlock));
        }
        drop(deadlocks);
        wakes.send();
        looks.send();

        let woken = self.sleep(owner, pinned, began, limit);
        let outcome = match woken {
            Woken::Decided(outcome) => Ok(outcome),
            Woken::Killed => self.withdraw(owner).ok_or(Error::Interrupted),
            Woken::TimedOut => self.withdraw(owner).ok_or(Error::LockTimeout),
        };
        owner.waits_since.store(0, Relaxed);
        self.counters.waiting.fetch_sub(1, Relaxed);
        self.counters.wait_us.fetch_add(self.clock.now_micros().saturating_sub(began), Relaxed);
        match outcome {
            Ok(WaitDecision::Granted { first }) => Ok(Some((place, first))),
            Ok(WaitDecision::Deadlock) => Err(Error::Deadlock),
            Err(e) => {
                self.count_given_up(&e);
                Err(e)
            }
        }
    }

    fn count_given_up(&self, error: &Error) {
        let counter = match error {
            Error::Interrupted => &self.counters.kills,
            _ => &self.counters.timeouts,
        };
        counter.fetch_add(1, Relaxed);
    }

    /// Parks the owner of a wait until its end. The observer hears of the begin, of new owners in the way, and of
    /// the end. `pinned` are the owners in the way at the begin.
    fn sleep(&self, owner: &Arc<LockOwner>, pinned: Pinned, began: u64, limit: Option<Duration>) -> Woken {
        if let Some(outcome) = owner.wait_cell.decided() {
            return Woken::Decided(outcome);
        }
        let Some(observer) = &self.observer else { return self.park(owner, began, limit, || ()) };
        let mut reported = Vec::new();
        if owner.has_priority() {
            reported.extend(pinned.0.iter().map(|o| o.id()));
        }
        observer.wait_begins(owner, &pinned.cookies());
        drop(pinned);
        let look = || self.report_new_blockers(owner, &**observer, &mut reported);
        let woken = self.park(owner, began, limit, look);
        observer.wait_ends(owner);
        woken
    }

    fn park(&self, owner: &LockOwner, began: u64, limit: Option<Duration>, look: impl FnMut()) -> Woken {
        let left = || {
            let limit = limit.filter(|_| !mutant::is(Mutant::DeadlineIgnored));
            let limit = u64::try_from(limit?.as_micros()).unwrap_or(u64::MAX);
            let gone = self.clock.now_micros().saturating_sub(began);
            Some(Duration::from_micros(limit.saturating_sub(gone)))
        };
        owner.wait_cell.park(left, look)
    }

    /// Reports the owners in the way of the wait of `owner` that no report of this wait has named. `reported`
    /// are the ids of those named.
    fn report_new_blockers(
        &self,
        owner: &Arc<LockOwner>,
        observer: &dyn WaitObserver,
        reported: &mut Vec<u64>,
    ) {
        let mut new = Pinned::default();
        let waits = self.waits.lock();
        let Some(place) = owner.waits_at.lock().clone() else { return };
        place.latch().blockers(&place.locks, place.id, owner, |blocker| {
            if !reported.contains(&blocker.id()) {
                reported.push(blocker.id());
                new.add(blocker);
            }
        });
        drop(waits);
        if !new.0.is_empty() {
            observer.wait_goes_on(owner, &new.cookies());
        }
    }

    /// Finds the cycles closed by the wait of `owner` and ends one wait in each. `deadlocks` receives the reports
    /// for the observer.
    fn break_deadlocks(
        &self,
        waits: &mut Waits,
        owner: &Arc<LockOwner>,
        wakes: &mut Wakes,
        deadlocks: &mut Vec<(Deadlock, Pinned)>,
    ) {
        // A cycle takes two waits.
        while waits.waiting > 1 && owner.wait_cell.decided().is_none() && !mutant::is(Mutant::DeadlockUnseen)
        {
            let found = waits.search.run(owner);
            self.counters.chain_max.fetch_max(found.depth, Relaxed);
            let Some(victim) = victim(&found.cycle) else { return };
            debug_assert!(is_cycle(&found.cycle));
            self.counters.deadlocks.fetch_add(1, Relaxed);
            if self.observer.is_some() {
                let deadlock = Deadlock::of(&found.cycle, victim, self.clock.now_micros());
                debug_assert!(deadlock.is_some(), "the cycle stands");
                deadlocks.extend(deadlock.map(|deadlock| (deadlock, Pinned::all(&found.cycle))));
            }
            take_out(waits, victim, wakes);
            victim.wait_cell.decide(WaitDecision::Deadlock);
            if !Arc::ptr_eq(victim, owner) {
                wakes.0.push(victim.clone());
            }
        }
    }

    /// Ends the wait of an owner that woke without a decision, unless there is one by now.
    fn withdraw(&self, owner: &Arc<LockOwner>) -> Option<WaitDecision> {
        let mut wakes = Wakes::default();
        let mut waits = self.waits.lock();
        let decided = owner.wait_cell.decided();
        if decided.is_none() {
            take_out(&mut waits, owner, &mut wakes);
        }
        drop(waits);
        wakes.send();
        decided
    }
}

/// Grants possible waits after a change of a queue or of its gap conflict.
pub(super) fn grant_waiters(
    waits: &mut Waits,
    locks: &FamilyLocks,
    shard: &mut Shard,
    id: EntryId,
    wakes: &mut Wakes,
) {
    let (queue, gap_conflict) = shard.with_gap_conflict(locks, id);
    queue.grant_waiters(&gap_conflict, |owner, first| {
        waits.waiting -= 1;
        *owner.waits_at.lock() = None;
        owner.wait_cell.decide(WaitDecision::Granted { first });
        wakes.0.push(owner);
    });
}

/// Removes a waiting owner from its queue, and then grants possible waits there.
fn take_out(waits: &mut Waits, owner: &LockOwner, wakes: &mut Wakes) {
    let Some(place) = owner.waits_at.lock().take() else { return };
    waits.waiting -= 1;
    let mut shard = place.latch();
    shard.queue_mut(place.id).dequeue(owner);
    grant_waiters(waits, &place.locks, &mut shard, place.id, wakes);
    shard.tidy(place.id);
}

/// True if each owner waits for the next, and the last for the first.
fn is_cycle(cycle: &[Arc<LockOwner>]) -> bool {
    let waits_for = |a: &Arc<LockOwner>, b: &Arc<LockOwner>| {
        let Some(place) = a.waits_at.lock().clone() else { return false };
        let mut found = false;
        place.latch().blockers(&place.locks, place.id, a, |o| found |= Arc::ptr_eq(o, b));
        found
    };
    (0..cycle.len()).all(|at| waits_for(&cycle[at], &cycle[(at + 1) % cycle.len()]))
}

/// Panics if a deadlock stands. No wait begins or ends meanwhile.
#[cfg(test)]
pub(super) fn assert_no_deadlock(_: &Waits, waiting: &[Arc<LockOwner>]) {
    use crate::host::HashMap;
    let edges: HashMap<u64, Vec<u64>> = waiting
        .iter()
        .filter_map(|owner| {
            let place = owner.waits_at.lock().clone()?;
            let mut out = Vec::new();
            place.latch().blockers(&place.locks, place.id, owner, |o| out.push(o.id()));
            Some((owner.id(), out))
        })
        .collect();
    // Owners whose blockers all run, or are known to end, end as well; who is left is deadlocked.
    let mut left: Vec<u64> = edges.keys().copied().collect();
    loop {
        let before = left.len();
        let stuck = left.clone();
        left.retain(|o| edges[o].iter().any(|b| stuck.contains(b)));
        if left.is_empty() {
            return;
        }
        assert!(left.len() < before, "owners {left:?} wait for one another");
    }
}
