//! Deadlock detection. Only the beginning of a wait can close a cycle, and the cycle contains this wait, so
//! the search starts there. It reads the edges from the lock table and keeps none. The caller holds the
//! manager's wait latch: no wait begins or ends meanwhile. A waiting owner neither takes nor releases locks,
//! so all edges between waiting owners are stable, and every cycle found is a real deadlock.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;

use super::dump::{dump_wait, DumpedLock};
use super::mode::Mask;
use super::owner::LockOwner;
use crate::mutant::{self, Mutant};

/// Memory of searches, reused by the next one.
#[derive(Default)]
pub(super) struct Search {
    /// Number of the current search, a mark on owners and queues.
    number: u64,
    nodes: Vec<Node>,
}

struct Node {
    owner: Arc<LockOwner>,
    /// The node whose owner waits for this one's.
    parent: usize,
    depth: u64,
}

/// A search's result.
pub(super) struct Found {
    /// The owners of the shortest cycle through the start; empty without one.
    pub(super) cycle: Vec<Arc<LockOwner>>,
    /// Length of the longest path searched.
    pub(super) depth: u64,
}

impl Search {
    /// Searches for a cycle of waits through `start`, a waiting owner. Breadth first. The work is bounded by
    /// the number of waits and of holders of the awaited locks.
    pub(super) fn run(&mut self, start: &Arc<LockOwner>) -> Found {
        self.number += 1;
        let number = self.number;
        self.nodes.clear();
        self.nodes.push(Node { owner: start.clone(), parent: 0, depth: 1 });
        let (mut at, mut depth, mut closed) = (0, 1, None);
        while at < self.nodes.len() && closed.is_none() {
            let owner = self.nodes[at].owner.clone();
            depth = self.nodes[at].depth;
            let place = owner.waits_at.lock().clone();
            if let Some(place) = place {
                let nodes = &mut self.nodes;
                let mut each = |blocker: &Arc<LockOwner>| {
                    if Arc::ptr_eq(blocker, start) {
                        closed = closed.or(Some(at));
                    } else if blocker.seen.swap(number, Relaxed) != number
                        && blocker.waits_at.lock().is_some()
                    {
                        nodes.push(Node { owner: blocker.clone(), parent: at, depth: depth + 1 });
                    }
                };
                let mut shard = place.latch();
                let (queue, gap_conflict) = shard.with_gap_conflict(&place.locks, place.id);
                queue.blockers_once(&owner, number, &mut each);
                // Each waiter's gap conflict is another one: it leaves out the waiter's own ranges.
                if queue.wanted_by(&owner) == Some(Mask::X) {
                    gap_conflict.owners(&owner, each);
                }
            }
            at += 1;
        }
        let mut cycle = Vec::new();
        if let Some(mut node) = closed {
            while node != 0 {
                cycle.push(self.nodes[node].owner.clone());
                node = self.nodes[node].parent;
            }
            cycle.push(start.clone());
            cycle.reverse();
        }
        self.nodes.clear();
        Found { cycle, depth }
    }
}

/// The owner to roll back: one without priority, then by the server's preference, then the fewest keys
/// written, then the youngest.
pub(super) fn victim(cycle: &[Arc<LockOwner>]) -> Option<&Arc<LockOwner>> {
    cycle.iter().max_by_key(|o| (!is_spared(o), o.preference(), std::cmp::Reverse(o.written()), o.id()))
}

fn is_spared(owner: &LockOwner) -> bool {
    owner.has_priority() && !mutant::is(Mutant::PriorityIsVictim)
}

/// The rule for the choice of a deadlock's victim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VictimReason {
    /// The server prefers this owner to all others, or these have priority.
    Preference,
    /// This owner has written the fewest keys.
    FewestKeys,
    /// Others have written as few keys, and this owner is the youngest of them.
    Youngest,
}

fn reason_for(cycle: &[Arc<LockOwner>], victim: &Arc<LockOwner>) -> VictimReason {
    let wish = |o: &Arc<LockOwner>| (is_spared(o), o.preference());
    let mut rivals: Vec<&Arc<LockOwner>> =
        cycle.iter().filter(|o| !Arc::ptr_eq(o, victim) && wish(o) == wish(victim)).collect();
    if rivals.is_empty() {
        return VictimReason::Preference;
    }
    rivals.retain(|o| o.written() == victim.written());
    if rivals.is_empty() {
        VictimReason::FewestKeys
    } else {
        VictimReason::Youngest
    }
}

/// One wait of a deadlock.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeadlockedWait {
    /// Cookie of the waiting owner.
    pub cookie: u64,
    /// Number of keys written by the owner.
    pub written: u64,
    /// Microseconds waited so far.
    pub waited_us: u64,
    /// The awaited lock; its `blocker` is the owner of the next wait.
    pub wants: DumpedLock,
    /// The blocking grant, gap lock or earlier wait of the next owner.
    pub in_the_way: DumpedLock,
}

/// A deadlock at the time of its detection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Deadlock {
    /// Each wait is for the next owner, and the last one for the first, whose wait closed the cycle.
    pub waits: Vec<DeadlockedWait>,
    /// Position of the victim's wait. It ends, and its owner is rolled back.
    pub victim: usize,
    /// The rule for the choice of the victim.
    pub reason: VictimReason,
}

impl Deadlock {
    /// Describes a standing cycle: the caller holds the wait latch. `now` is a time of the manager's clock.
    pub(super) fn of(cycle: &[Arc<LockOwner>], victim: &Arc<LockOwner>, now: u64) -> Option<Deadlock> {
        let mut waits = Vec::with_capacity(cycle.len());
        for (at, owner) in cycle.iter().enumerate() {
            let (wants, in_the_way) = dump_wait(owner, &cycle[(at + 1) % cycle.len()])?;
            waits.push(DeadlockedWait {
                cookie: owner.cookie(),
                written: owner.written(),
                waited_us: now.saturating_sub(owner.waits_since().unwrap_or(now)),
                wants,
                in_the_way,
            });
        }
        let place = cycle.iter().position(|owner| Arc::ptr_eq(owner, victim))?;
        Some(Deadlock { waits, victim: place, reason: reason_for(cycle, victim) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(id: u64, preference: i32, written: u64) -> Arc<LockOwner> {
        let owner = LockOwner::new(id);
        owner.set_preference(preference);
        owner.set_written(written);
        owner
    }

    #[test]
    fn the_victim_is_by_preference_then_weight_then_age() {
        let id = |cycle: &[Arc<LockOwner>]| victim(cycle).map(|o| o.id());
        assert_eq!(id(&[]), None);
        assert_eq!(id(&[owner(1, 0, 5), owner(2, 0, 5), owner(3, 0, 9)]), Some(2));
        assert_eq!(id(&[owner(1, 0, 4), owner(2, 0, 5)]), Some(1));
        assert_eq!(id(&[owner(1, 0, 0), owner(2, 1, 100), owner(3, -1, 0)]), Some(2));
        assert_eq!(id(&[owner(7, -1, 0), owner(2, 0, 100)]), Some(2));
        let why = |cycle: &[Arc<LockOwner>]| reason_for(cycle, victim(cycle).expect("there is one"));
        assert_eq!(why(&[owner(1, 0, 5), owner(2, 0, 5), owner(3, 0, 9)]), VictimReason::Youngest);
        assert_eq!(why(&[owner(1, 0, 4), owner(2, 0, 5)]), VictimReason::FewestKeys);
        assert_eq!(why(&[owner(1, 0, 0), owner(2, 1, 100), owner(3, -1, 0)]), VictimReason::Preference);
    }

    #[test]
    fn priority_is_before_all_else_unless_all_have_it() {
        let with_priority = |id, preference, written| {
            let owner = owner(id, preference, written);
            owner.set_priority(true);
            owner
        };
        let choice = |cycle: &[Arc<LockOwner>]| {
            let victim = victim(cycle).expect("there is one");
            (victim.id(), reason_for(cycle, victim))
        };
        let cycle = [with_priority(9, 5, 0), owner(1, -5, 100), with_priority(8, 0, 0)];
        assert_eq!(choice(&cycle), (1, VictimReason::Preference));
        let cycle = [with_priority(9, 5, 0), owner(1, 0, 100), owner(2, 0, 7)];
        assert_eq!(choice(&cycle), (2, VictimReason::FewestKeys));
        let cycle = [with_priority(1, 0, 5), with_priority(2, 0, 5), with_priority(3, 0, 9)];
        assert_eq!(choice(&cycle), (2, VictimReason::Youngest));
        cycle[1].restart(2);
        cycle[1].set_written(100);
        assert_eq!(choice(&cycle), (2, VictimReason::Preference));
    }
}
