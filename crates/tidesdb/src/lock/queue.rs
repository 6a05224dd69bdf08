//! The holders of one lock and its waiters, in order: all decisions about a single key or table. The caller
//! holds the shard's latch. Functions here neither block nor wake: they return the owners to wake.

use std::sync::Arc;

use smallvec::SmallVec;

use super::mode::Mask;
use super::owner::LockOwner;
use crate::mutant::{self, Mutant};

/// The value at which a count saturates; such a lock is kept to the end of the transaction.
const STICKY: u16 = u16::MAX;

/// One owner's grant.
pub(super) struct Hold {
    pub(super) owner: Arc<LockOwner>,
    pub(super) mask: Mask,
    pub(super) intent: bool,
    /// Another owner relies on this grant: it may not become implicit.
    pinned: bool,
    /// Numbers of S and X grants to the owner here, not yet released.
    taken: [u16; 2],
}

/// One owner's wait.
pub(super) struct Request {
    pub(super) owner: Arc<LockOwner>,
    pub(super) want: Mask,
    pub(super) intent: bool,
    /// The owner holds a weaker mode here, or a gap lock over the key. The wait precedes those of owners
    /// without locks here and with the same priority.
    pub(super) converts: bool,
    /// The owner has priority.
    pub(super) priority: bool,
    /// Number of gap locks published over this wait since its beginning.
    overtaken: u32,
}

/// A wait's class; smaller ones precede larger ones in the queue.
type Rank = (bool, bool, bool);

impl Request {
    fn rank(&self) -> Rank {
        rank(self.want, self.priority, self.converts)
    }
}

/// Waits of published gap locks block no one in the queue: in front, they end as soon as they may. Then
/// priority decides, then conversion.
fn rank(want: Mask, priority: bool, converts: bool) -> Rank {
    match want == Mask::GAP {
        true => (false, false, false),
        false => (true, !priority, !converts),
    }
}

/// True if the owner's requests precede those of owners without priority.
fn precedes(owner: &LockOwner) -> bool {
    owner.has_priority() && !mutant::is(Mutant::PriorityQueuesLast)
}

/// Gap locks of others, which decide about grants from outside of the queue.
pub(super) trait GapConflict {
    /// True if another's gap lock keeps `owner` from an exclusive lock here.
    fn keeps_out(&self, owner: &LockOwner) -> bool;
    /// True if `owner` has a gap lock here.
    fn is_of(&self, owner: &LockOwner) -> bool;
    /// True if a gap lock of `owner`, an applier's, keeps `waiter` from an exclusive lock here.
    fn keeps_back(&self, owner: &LockOwner, waiter: &LockOwner) -> bool;
    /// True if a gap lock of `owner` must wait for an exclusive lock of `holder`.
    fn waits_for(&self, owner: &LockOwner, holder: &LockOwner) -> bool;
}

/// The result of an attempt without a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Attempt {
    /// The owner's mode covers the wanted one.
    AlreadyHeld,
    /// Granted. `first` is true for the owner's first grant here.
    Granted {
        /// True if the owner must add this lock to its list.
        first: bool,
    },
    /// Other owners block the request.
    Blocked,
}

/// The result of a release.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum GivenBack {
    /// The owner has no lock here any more.
    Gone,
    /// The owner still has a lock here.
    Kept,
    /// The owner had no such lock.
    NotHeld,
}

/// The grants and waits of one lock.
///
/// Invariants: grants of different owners do not conflict. An owner has at most one grant and one wait. Waits
/// of published gap locks come first, then those of owners with priority, then the others. Within these two,
/// conversions precede the others. After `grant_waiters` no waiter could be granted.
#[derive(Default)]
pub(super) struct Queue {
    /// Inline room for one grant, because most keys have one holder.
    granted: SmallVec<[Hold; 1]>,
    waiting: Vec<Request>,
    /// Number of grants with each mode bit.
    count: [u32; Mask::BITS],
    /// Number of the last deadlock search with an exclusive request here. It visited every grant, and all
    /// waits before `scanned.1`.
    scanned: (u64, usize),
}

fn slot(mode: Mask) -> Option<usize> {
    if mode == Mask::S {
        Some(0)
    } else if mode == Mask::X {
        Some(1)
    } else {
        None
    }
}

impl Queue {
    pub(super) fn granted(&self) -> &[Hold] {
        &self.granted
    }

    pub(super) fn waiting(&self) -> &[Request] {
        &self.waiting
    }

    pub(super) fn is_unused(&self) -> bool {
        self.granted.is_empty() && self.waiting.is_empty()
    }

    /// True if owners wait here.
    pub(super) fn has_waiters(&self) -> bool {
        !self.waiting.is_empty()
    }

    fn hold_of(&self, owner: &LockOwner) -> Option<usize> {
        self.granted.iter().rposition(|h| std::ptr::eq(&*h.owner, owner))
    }

    /// True if `owner` has a grant here.
    pub(super) fn is_held_by(&self, owner: &LockOwner) -> bool {
        self.hold_of(owner).is_some()
    }

    /// True if `owner` has the exclusive lock.
    pub(super) fn holds_exclusively(&self, owner: &LockOwner) -> bool {
        self.hold_of(owner).is_some_and(|at| self.granted[at].mask.meets(Mask::X))
    }

    /// True if a grant conflicts with `want`, apart from the one with the mode `own`.
    fn conflicts_with_others(&self, want: Mask, own: Mask) -> bool {
        if want == Mask::X && mutant::is(Mutant::SecondExclusive) {
            return false;
        }
        let against = want.conflicts();
        (0..Mask::BITS).any(|bit| against.has_bit(bit) && self.count[bit] > u32::from(own.has_bit(bit)))
    }

    /// True if `want` conflicts with a grant of an owner other than `owner`.
    pub(super) fn is_locked_against(&self, owner: &LockOwner, want: Mask) -> bool {
        self.granted.iter().any(|h| !std::ptr::eq(&*h.owner, owner) && h.mask.conflicts_with(want))
    }

    fn set_mask(&mut self, at: usize, mask: Mask) {
        let old = std::mem::replace(&mut self.granted[at].mask, mask);
        for bit in 0..Mask::BITS {
            self.count[bit] -= u32::from(old.has_bit(bit));
            self.count[bit] += u32::from(mask.has_bit(bit));
        }
    }

    /// Grants `want` (one mode) to `owner`, without a check. Returns true for the owner's first grant here.
    fn grant(&mut self, owner: &Arc<LockOwner>, want: Mask, intent: bool) -> bool {
        let (at, first) = match self.hold_of(owner) {
            Some(at) => (at, false),
            None => {
                self.granted.push(Hold {
                    owner: owner.clone(),
                    mask: Mask::NONE,
                    intent: false,
                    pinned: false,
                    taken: [0; 2],
                });
                (self.granted.len() - 1, true)
            }
        };
        self.set_mask(at, self.granted[at].mask.with(want));
        let hold = &mut self.granted[at];
        hold.intent |= intent;
        if let Some(slot) = slot(want) {
            hold.taken[slot] = hold.taken[slot].saturating_add(1);
        }
        first
    }

    /// Restores an exclusive lock that `owner` implicitly kept, before all waits and gap locks and until its
    /// transaction ends. Returns true if this is its only grant here; `None` if another owner has a lock
    /// here.
    pub(super) fn restore(&mut self, owner: &Arc<LockOwner>) -> Option<bool> {
        let own = self.hold_of(owner).map_or(Mask::NONE, |at| self.granted[at].mask);
        if self.conflicts_with_others(Mask::X, own) {
            return None;
        }
        if self.hold_of(owner).is_some_and(|at| self.granted[at].pinned) {
            return Some(false);
        }
        self.check_priority(owner, own, Mask::X);
        // Counted, so that giving back a lock that was taken meanwhile does not end it.
        let first = self.grant(owner, Mask::X, false);
        if let Some(at) = self.hold_of(owner) {
            self.granted[at].pinned = true;
        }
        Some(first)
    }

    /// True if the owner has the exclusive lock, and no other waits for it or relies on it.
    pub(super) fn may_be_implicit(&self, owner: &LockOwner) -> bool {
        let hold = self.hold_of(owner).map(|at| &self.granted[at]);
        self.waiting.is_empty() && hold.is_some_and(|hold| hold.mask.meets(Mask::X) && !hold.pinned)
    }

    /// True if the owner's grant comes from [`Queue::restore`] alone and has no waits.
    pub(super) fn is_restored_only(&self, owner: &LockOwner) -> bool {
        let hold = self.hold_of(owner).map(|at| &self.granted[at]);
        self.waiting.is_empty() && hold.is_some_and(|hold| hold.pinned && hold.taken == [0, 1])
    }

    /// All modes of the owner here.
    pub(super) fn mask_of(&self, owner: &LockOwner) -> Option<Mask> {
        self.hold_of(owner).map(|at| self.granted[at].mask)
    }

    /// Grants `want` (one mode) to `owner` if no other owner blocks it.
    ///
    /// A newcomer goes after conflicting waiters. A conversion looks only at grants of others and at waiting
    /// conversions. An ordinary waiter in conflict with the mode already held would otherwise wait for an
    /// owner waiting for it. A gap lock counts as such a mode: exclusive locks wanted here wait for its
    /// owner.
    ///
    /// An owner with priority looks at no waits of owners without. These go after its conflicting wait, also
    /// if they convert: they block it then, and it has them aborted.
    ///
    /// `gap_conflict` is asked only about otherwise possible exclusive locks. The passing modes return
    /// `Granted` without a grant if there is nothing to wait for.
    pub(super) fn attempt(
        &mut self,
        owner: &Arc<LockOwner>,
        want: Mask,
        intent: bool,
        gap_conflict: &impl GapConflict,
    ) -> Attempt {
        if want.is_passing() {
            let at = self.place(owner, want, false, gap_conflict);
            return match self.lets_pass(owner, want, at, gap_conflict) {
                true => Attempt::Granted { first: false },
                false => Attempt::Blocked,
            };
        }
        if self.granted.is_empty() && self.waiting.is_empty() {
            if want == Mask::X && gap_conflict.keeps_out(owner) {
                return Attempt::Blocked;
            }
            let mut taken = [0; 2];
            if let Some(slot) = slot(want) {
                taken[slot] = 1;
            }
            let owner = owner.clone();
            let hold = Hold { owner, mask: want, intent, pinned: false, taken };
            self.granted.push(hold);
            for bit in 0..Mask::BITS {
                self.count[bit] = u32::from(want.has_bit(bit));
            }
            return Attempt::Granted { first: true };
        }
        let hold = self.hold_of(owner);
        let own = hold.map_or(Mask::NONE, |at| self.granted[at].mask);
        if own.covers(want) {
            self.grant(owner, want, intent);
            return Attempt::AlreadyHeld;
        }
        if self.conflicts_with_others(want, own)
            || self.goes_after_waits(owner, want, gap_conflict)
            || (want == Mask::X && gap_conflict.keeps_out(owner))
        {
            return Attempt::Blocked;
        }
        self.check_priority(owner, own, want);
        Attempt::Granted { first: self.grant(owner, want, intent) }
    }

    /// Panics if a grant of `want` makes a wait with priority longer. An implicit lock restored as a grant
    /// does not: a request finds all of them before it waits, and a new one is confirmed after the waits.
    fn check_priority(&self, owner: &LockOwner, own: Mask, want: Mask) {
        debug_assert!(
            precedes(owner) || own.covers(want) || self.priority_waits_against(owner, want).next().is_none(),
            "a grant before a wait with priority"
        );
    }

    /// True if a request of `owner` made now would go after a present wait.
    pub(super) fn goes_after_waits(
        &self,
        owner: &LockOwner,
        want: Mask,
        gap_conflict: &impl GapConflict,
    ) -> bool {
        if self.waiting.is_empty() {
            return false;
        }
        let converts = self.is_held_by(owner) || gap_conflict.is_of(owner);
        let at = self.place(owner, want, converts, gap_conflict);
        self.waiting[..at].iter().any(|r| r.want.conflicts_with(want))
    }

    /// Position of a request made now: after the waits of its rank. An applier's, other than a conversion,
    /// goes before the first of them blocked by its own gap lock; later waits wait for the applier anyway.
    fn place(&self, owner: &LockOwner, want: Mask, converts: bool, gap_conflict: &impl GapConflict) -> usize {
        let rank = rank(want, precedes(owner), converts);
        let end = self.waiting.iter().rposition(|r| r.rank() <= rank).map_or(0, |last| last + 1);
        if converts || want.is_passing() {
            return end;
        }
        let kept_back =
            |r: &Request| r.rank() == rank && r.want == Mask::X && gap_conflict.keeps_back(owner, &r.owner);
        self.waiting[..end].iter().position(kept_back).unwrap_or(end)
    }

    /// Owners with priority whose waits conflict with `want`, a new grant or wait of `owner`. It may block
    /// them newly.
    pub(super) fn priority_waits_against<'a>(
        &'a self,
        owner: &'a LockOwner,
        want: Mask,
    ) -> impl Iterator<Item = &'a Arc<LockOwner>> {
        let against = move |r: &&Request| r.priority && r.want.conflicts_with(want);
        self.waiting.iter().filter(against).map(|r| &r.owner).filter(move |o| !std::ptr::eq(&***o, owner))
    }

    /// True if an exclusive lock is wanted here by another owner with priority, and `owner` has neither
    /// priority nor a lock here. A gap lock of `owner` over this key then waits until it is granted and gone.
    pub(super) fn has_prior_wait(&self, owner: &LockOwner) -> bool {
        let prior = |r: &Request| r.priority && r.want == Mask::X;
        !precedes(owner) && self.waiting.iter().any(prior) && !self.is_held_by(owner)
    }

    /// True if a wait of a passing mode at position `at` is over.
    fn lets_pass(&self, owner: &LockOwner, want: Mask, at: usize, gap_conflict: &impl GapConflict) -> bool {
        if want == Mask::GAP {
            return self.gap_blocker(owner, gap_conflict).is_none();
        }
        let held = self.granted.iter().any(|h| !std::ptr::eq(&*h.owner, owner) && h.mask.meets(Mask::X));
        !held && !self.waiting[..at].iter().any(|r| r.want.conflicts_with(want))
    }

    /// The holder for which a gap lock of `owner` over this key must wait.
    pub(super) fn gap_blocker(
        &self,
        owner: &LockOwner,
        gap_conflict: &impl GapConflict,
    ) -> Option<&Arc<LockOwner>> {
        let hold = self.granted.iter().find(|h| !std::ptr::eq(&*h.owner, owner) && h.mask.meets(Mask::X))?;
        gap_conflict.waits_for(owner, &hold.owner).then_some(&hold.owner)
    }

    /// Counts a gap lock of `owner` about to be published over this key; the owner must not wait here. False
    /// if `may_overtake` gap locks have already overtaken an exclusive lock wanted here. The owner must then
    /// queue after it. No gap lock overtakes a wait with priority, except those of owners with priority, and
    /// these overtake the waits of all others.
    pub(super) fn overtake(&mut self, owner: &LockOwner, may_overtake: u32) -> bool {
        if self.is_held_by(owner) {
            return true; // They wait for the owner as it is.
        }
        let mut may = !self.has_prior_wait(owner);
        for r in &mut self.waiting {
            let of_same_rank = r.priority == precedes(owner);
            if r.want == Mask::X && of_same_rank && !std::ptr::eq(&*r.owner, owner) {
                r.overtaken += 1;
                may &= r.overtaken <= may_overtake;
            }
        }
        may
    }

    /// Enqueues a wait: after those of its rank, see [`Queue::place`].
    pub(super) fn enqueue(
        &mut self,
        owner: &Arc<LockOwner>,
        want: Mask,
        intent: bool,
        gap_conflict: &impl GapConflict,
    ) {
        let converts = !want.is_passing() && (self.is_held_by(owner) || gap_conflict.is_of(owner));
        let at = match want == Mask::GAP {
            true => 0,
            false => self.place(owner, want, converts, gap_conflict),
        };
        let (owner, priority) = (owner.clone(), precedes(owner));
        self.waiting.insert(at, Request { owner, want, intent, converts, priority, overtaken: 0 });
    }

    /// Removes the wait of `owner` from the queue, if there is one.
    pub(super) fn dequeue(&mut self, owner: &LockOwner) {
        if let Some(at) = self.waiting.iter().position(|r| std::ptr::eq(&*r.owner, owner)) {
            self.waiting.remove(at);
        }
    }

    /// Grants every wait without conflict with another's grant or with an earlier wait, front to back. Calls
    /// `granted` with the owner and a flag, true for its first grant here.
    pub(super) fn grant_waiters(
        &mut self,
        gap_conflict: &impl GapConflict,
        mut granted: impl FnMut(Arc<LockOwner>, bool),
    ) {
        let mut at = 0;
        while let Some(request) = self.waiting.get(at) {
            let want = request.want;
            if want.is_passing() {
                if self.lets_pass(&request.owner, want, at, gap_conflict) {
                    granted(self.waiting.remove(at).owner, false);
                } else {
                    at += 1;
                }
                continue;
            }
            let own = match request.converts {
                true => self.hold_of(&request.owner).map_or(Mask::NONE, |h| self.granted[h].mask),
                false => Mask::NONE,
            };
            if self.conflicts_with_others(want, own)
                || self.waiting[..at].iter().any(|r| r.want.conflicts_with(want))
                || (want == Mask::X && gap_conflict.keeps_out(&request.owner))
            {
                if want == Mask::X {
                    // Nothing is compatible with a waiting X: all after it wait as well.
                    return;
                }
                at += 1;
                continue;
            }
            let request = self.waiting.remove(at);
            self.check_priority(&request.owner, own, want);
            let first = self.grant(&request.owner, want, request.intent);
            granted(request.owner, first);
        }
    }

    /// Undoes one grant of `mode` to `owner`; its other counted modes stay.
    pub(super) fn give_back(&mut self, owner: &LockOwner, mode: Mask) -> GivenBack {
        let (Some(at), Some(slot)) = (self.hold_of(owner), slot(mode)) else {
            return GivenBack::NotHeld;
        };
        let hold = &mut self.granted[at];
        match hold.taken[slot] {
            0 => return GivenBack::NotHeld,
            STICKY => return GivenBack::Kept,
            _ => hold.taken[slot] -= 1,
        }
        if hold.taken == [0; 2] {
            self.release(owner);
            return GivenBack::Gone;
        }
        if hold.taken[slot] == 0 {
            let mask = hold.mask.without(mode);
            self.set_mask(at, mask);
        }
        GivenBack::Kept
    }

    /// Releases all modes of `owner` here. Returns true if it had any.
    pub(super) fn release(&mut self, owner: &LockOwner) -> bool {
        let Some(at) = self.hold_of(owner) else { return false };
        self.set_mask(at, Mask::NONE);
        self.granted.swap_remove(at);
        true
    }

    /// The mode wanted by `owner` here.
    pub(super) fn wanted_by(&self, owner: &LockOwner) -> Option<Mask> {
        self.waiting.iter().find(|r| std::ptr::eq(&*r.owner, owner)).map(|r| r.want)
    }

    /// The owners blocking the wait of `owner`: holders in conflict with it, and owners of earlier
    /// conflicting waits. The caller adds owners of gap locks.
    pub(super) fn blockers(&self, owner: &LockOwner, mut each: impl FnMut(&Arc<LockOwner>)) {
        let Some(at) = self.waiting.iter().position(|r| std::ptr::eq(&*r.owner, owner)) else { return };
        self.holders_before(at).chain(self.waits_before(at, 0)).for_each(&mut each);
    }

    /// The holders blocking the wait at position `at`.
    pub(super) fn holders_before(&self, at: usize) -> impl Iterator<Item = &Arc<LockOwner>> {
        let Request { owner, want, .. } = &self.waiting[at];
        let in_the_way = move |hold: &&Hold| match want.is_passing() {
            true => hold.mask.meets(Mask::X),
            false => hold.mask.conflicts_with(*want),
        };
        let others = self.granted.iter().filter(move |hold| !Arc::ptr_eq(&hold.owner, owner));
        others.filter(in_the_way).map(|hold| &hold.owner)
    }

    /// Owners of waits from position `from` to `at` in conflict with the wait at `at`.
    pub(super) fn waits_before(&self, at: usize, from: usize) -> impl Iterator<Item = &Arc<LockOwner>> {
        let want = self.waiting[at].want;
        let before = self.waiting[from..at].iter();
        before.filter(move |request| request.want.conflicts_with(want)).map(|request| &request.owner)
    }

    /// Like `blockers`, without the owners reported by an earlier call with the same `detection` number for
    /// this lock. A queue of n exclusive waits costs n steps, not n squared.
    pub(super) fn blockers_once(
        &mut self,
        owner: &LockOwner,
        detection: u64,
        mut each: impl FnMut(&Arc<LockOwner>),
    ) {
        let done = if self.scanned.0 == detection { self.scanned.1 } else { 0 };
        if done > 0 && done >= self.waiting.len().saturating_sub(1) {
            return;
        }
        let Some(at) = self.waiting.iter().position(|r| std::ptr::eq(&*r.owner, owner)) else { return };
        if done > 0 && at <= done {
            return;
        }
        if done == 0 {
            self.holders_before(at).for_each(&mut each);
        }
        self.waits_before(at, done).for_each(&mut each);
        if self.waiting[at].want == Mask::X && !self.waiting[at].converts {
            // Every grant and every wait before this one was reported. (A conversion leaves out its
            // own grant, which may stand in the way of a wait before it.)
            self.scanned = (detection, at);
        }
    }

    /// Frees the memory of more than `kept` grants and waits; the lock must be unused.
    pub(super) fn shrink(&mut self, kept: usize) {
        debug_assert!(self.is_unused());
        if self.granted.spilled() && self.granted.capacity() > kept {
            self.granted = SmallVec::new();
        }
        if self.waiting.capacity() > kept {
            self.waiting = Vec::new();
        }
    }

    /// Bytes on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        let granted = if self.granted.spilled() { self.granted.capacity() } else { 0 };
        granted * size_of::<Hold>() + self.waiting.capacity() * size_of::<Request>()
    }

    /// Panics if an invariant does not hold.
    #[cfg(test)]
    pub(super) fn check(&self, gap_conflict: &impl GapConflict) {
        let mut count = [0; Mask::BITS];
        for (i, a) in self.granted.iter().enumerate() {
            assert!(!a.mask.is_empty());
            for (bit, count) in count.iter_mut().enumerate() {
                *count += u32::from(a.mask.has_bit(bit));
            }
            for b in &self.granted[i + 1..] {
                assert!(!a.mask.conflicts_with(b.mask), "{} and {} granted together", a.mask, b.mask);
                assert!(!Arc::ptr_eq(&a.owner, &b.owner));
            }
        }
        assert_eq!(count, self.count);
        for (i, r) in self.waiting.iter().enumerate() {
            let has = self.is_held_by(&r.owner) || gap_conflict.is_of(&r.owner);
            assert_eq!(r.converts, !r.want.is_passing() && has);
            assert!(i == 0 || self.waiting[i - 1].rank() <= r.rank());
            assert!(self.waiting[..i].iter().all(|o| !Arc::ptr_eq(&o.owner, &r.owner)));
            let mut blockers = 0;
            self.blockers(&r.owner, |_| blockers += 1);
            let in_gaps = r.want == Mask::X && gap_conflict.keeps_out(&r.owner);
            assert!(blockers > 0 || in_gaps, "a wait for {} could be granted", r.want);
        }
    }
}
