//! Point locks: the intention on the table, attempts under the shard's latch, implicit locks of others, the
//! wait.

use std::sync::Arc;

use super::escalation::LockBudget;
use super::key::Probe;
use super::manager::LockManager;
use super::mode::Mask;
use super::owner::{Held, Holdings, LockOwner};
use super::queue::{Attempt, GapConflict};
use super::shard::EntryId;
use super::wait::{Looks, Wanted};
use super::{Granted, Policy};
use crate::error::{Error, Result};
use crate::mutant::{self, Mutant};
use crate::sync::MutexGuard;
use crate::types::FamilyId;

impl LockManager {
    /// Takes a point lock or an intent; `None` if [`Policy::Skip`] skips it.
    pub(super) fn point(
        &self,
        owner: &Arc<LockOwner>,
        family: FamilyId,
        key: &[u8],
        mode: Mask,
        policy: Policy,
        intent: bool,
    ) -> Result<Option<Granted>> {
        let mut holdings = owner.holdings.lock();
        let at = self.family_use(&mut holdings, family);
        let request = PointRequest { at, key, mode, policy, intent };
        let mut holdings = match self.lock_table_over(owner, holdings, &request)? {
            TableOver::Covers => return Ok(Some(Granted::ByTable)),
            TableOver::Skipped => return Ok(None),
            TableOver::Intends(holdings) => holdings,
        };
        let probe = Probe::new(key);
        let shard = holdings.families[at].locks.shard_of(&probe);
        let mut looked = 0;
        let (first, id) = loop {
            match self.attempt_point(owner, &holdings, &request, (&probe, shard), &mut looked)? {
                PointAttempt::Ends(granted) => return Ok(granted),
                PointAttempt::Entry { first, id } => break (first, id),
                PointAttempt::LookAgain => continue,
                PointAttempt::Blocked => {}
            }
            let locks = holdings.families[at].locks.clone();
            let holds = holdings.has_any();
            drop(holdings);
            if policy == Policy::Skip {
                return Ok(None);
            }
            if intent && holds {
                return Err(Error::Deadlock);
            }
            let wanted = Wanted { locks: &locks, shard, key, mode, intent, looked: Some(looked) };
            let got = self.wait(owner, wanted, policy)?;
            holdings = owner.holdings.lock();
            if let Some((place, first)) = got {
                break (first, place.id);
            }
        };
        if first {
            let table = holdings.families[at].table as usize;
            holdings.held.push(Held { family: at as u32, shard, id });
            holdings.points += 1;
            holdings.families[table].points += 1;
        }
        Ok(Some(Granted::New))
    }

    /// Takes the table's intention lock for a point lock, and escalates if the owner has too many locks.
    fn lock_table_over<'o>(
        &self,
        owner: &'o Arc<LockOwner>,
        mut holdings: MutexGuard<'o, Holdings>,
        request: &PointRequest<'_>,
    ) -> Result<TableOver<'o>> {
        let &PointRequest { at, key, mode, policy, intent } = request;
        let table = holdings.families[at].table;
        if !holdings.families[table as usize].mask.covers(mode.intention()) {
            let waits = request.may_wait(&holdings);
            let for_table = if waits { policy } else { Policy::NoWait };
            match self.table(owner, holdings, table, mode.intention(), for_table) {
                Ok(done) => (holdings, _) = done,
                Err(Error::LockTimeout) if policy == Policy::Skip => return Ok(TableOver::Skipped),
                Err(Error::LockTimeout) if policy.may_wait() && !waits => return Err(Error::Deadlock),
                Err(e) => return Err(e),
            }
        }
        let over = holdings.families[table as usize].mask;
        if over.covers(mode) {
            return Ok(TableOver::Covers);
        }
        let budget = self.budget(owner, &mut holdings);
        if budget != LockBudget::Enough && !has_grant(owner, &holdings, at, key) {
            holdings = self.escalate(owner, holdings, policy, budget, intent)?;
            if holdings.families[table as usize].mask.covers(mode) {
                return Ok(TableOver::Covers);
            }
        }
        Ok(TableOver::Intends(holdings))
    }

    /// One attempt under the latch of the key's shard. `looked` is the change count at the last search of
    /// others' implicit locks.
    fn attempt_point(
        &self,
        owner: &Arc<LockOwner>,
        holdings: &Holdings,
        request: &PointRequest<'_>,
        (probe, number): (&Probe<'_>, u32),
        looked: &mut u64,
    ) -> Result<PointAttempt> {
        let &PointRequest { at, key, mode, intent, .. } = request;
        let locks = &holdings.families[at].locks;
        let mut shard = locks.latch(number);
        // Asked before the change count: while that is as it was, no range has gone that kept an implicit
        // lock's owner out.
        let gap_conflict = Asked::about(locks.gap_conflict(key), owner, mode);
        let change_count = locks.implicit.change_count();
        if change_count != *looked && change_count != 0 {
            drop(shard);
            *looked = change_count;
            return self.look_at_implicit(owner, holdings, request, change_count);
        }
        let id = shard.find_or_insert(probe);
        match shard.queue_mut(id).attempt(owner, mode, intent, &gap_conflict) {
            Attempt::AlreadyHeld => return Ok(PointAttempt::Ends(Some(Granted::AlreadyHeld))),
            Attempt::Granted { first } => {
                if owner.has_priority() {
                    let mut looks = Looks::default();
                    looks.add(shard.queue(id), owner, mode);
                    drop(shard);
                    looks.send();
                }
                return Ok(PointAttempt::Entry { first, id });
            }
            // Only ranges may stand in the way, and then nobody has or wants the key.
            Attempt::Blocked => shard.tidy(id),
        }
        drop(shard);
        if holdings.implicit.is_some() {
            if let Some(own) = locks.implicit.find_own(owner, key)? {
                // A range that waits for the owner, or a request after the entry that is gone.
                own.make_entry(locks, key, *looked)?;
                return Ok(PointAttempt::Ends(Some(Granted::AlreadyHeld)));
            }
        }
        Ok(PointAttempt::Blocked)
    }

    /// Makes entries of others' implicit locks on the key, or ends a request that may not wait for them.
    fn look_at_implicit(
        &self,
        owner: &Arc<LockOwner>,
        holdings: &Holdings,
        request: &PointRequest<'_>,
        change_count: u64,
    ) -> Result<PointAttempt> {
        let &PointRequest { at, key, policy, intent, .. } = request;
        let locks = &holdings.families[at].locks;
        let implicit = locks.implicit.find(owner, key)?;
        if implicit.is_empty() {
            return Ok(PointAttempt::LookAgain);
        }
        if holdings.implicit.is_some() && locks.implicit.find_own(owner, key)?.is_some() {
            // Theirs are unconfirmed, and would get the entry that this owner has given back.
            return Ok(PointAttempt::Ends(Some(Granted::AlreadyHeld)));
        }
        if !request.may_wait(holdings) {
            // An entry for each key that nobody waits for would fill memory.
            return match policy {
                Policy::Skip => Ok(PointAttempt::Ends(None)),
                _ if intent && holdings.has_any() => Err(Error::Deadlock),
                _ => Err(Error::LockTimeout),
            };
        }
        for lock in &implicit {
            lock.make_entry(locks, key, change_count)?;
        }
        Ok(PointAttempt::LookAgain)
    }
}

/// A gap conflict with an answer for one owner, fixed at its construction.
struct Asked<F> {
    gap_conflict: F,
    keeps_out: bool,
}

impl<F: GapConflict> Asked<F> {
    fn about(gap_conflict: F, owner: &LockOwner, mode: Mask) -> Asked<F> {
        let keeps_out =
            mode == Mask::X && gap_conflict.keeps_out(owner) && !mutant::is(Mutant::RangeNotAsked);
        Asked { gap_conflict, keeps_out }
    }
}

impl<F: GapConflict> GapConflict for Asked<F> {
    fn keeps_out(&self, _: &LockOwner) -> bool {
        self.keeps_out
    }

    fn is_of(&self, owner: &LockOwner) -> bool {
        self.gap_conflict.is_of(owner)
    }

    fn keeps_back(&self, owner: &LockOwner, waiter: &LockOwner) -> bool {
        self.gap_conflict.keeps_back(owner, waiter)
    }

    fn waits_for(&self, owner: &LockOwner, holder: &LockOwner) -> bool {
        self.gap_conflict.waits_for(owner, holder)
    }
}

/// A request for a point lock, in the family at position `at` of the owner's list.
struct PointRequest<'a> {
    at: usize,
    key: &'a [u8],
    mode: Mask,
    policy: Policy,
    intent: bool,
}

impl PointRequest<'_> {
    /// True if the owner waits for a key held by others. An intent does not wait if its owner holds locks.
    fn may_wait(&self, holdings: &Holdings) -> bool {
        self.policy.may_wait() && !(self.intent && holdings.has_any())
    }
}

/// The state of the table's lock, once the intention is taken.
enum TableOver<'o> {
    /// The table lock covers the point.
    Covers,
    /// The table lock is an intention, and the point needs its own lock.
    Intends(MutexGuard<'o, Holdings>),
    /// The table is locked by others, and the request does not wait.
    Skipped,
}

/// The result of one attempt to lock a point.
enum PointAttempt {
    /// The final result; `None`: skipped.
    Ends(Option<Granted>),
    /// Granted, with an entry. `first` is true for the owner's first grant on it.
    Entry { first: bool, id: EntryId },
    /// Implicit locks have become entries meanwhile.
    LookAgain,
    /// Other owners block the request.
    Blocked,
}

/// True if the owner has a grant on a key, in the family at position `at` of its list.
fn has_grant(owner: &LockOwner, holdings: &Holdings, at: usize, key: &[u8]) -> bool {
    let locks = &holdings.families[at].locks;
    let probe = Probe::new(key);
    let shard = locks.latch(locks.shard_of(&probe));
    shard.find(&probe).is_some_and(|id| shard.queue(id).is_held_by(owner))
}
