//! Gap locks: publish first, then wait for exclusive locks granted before.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;

use super::escalation::LockBudget;
use super::gap_set::Span;
use super::manager::LockManager;
use super::mode::Mask;
use super::owner::{FamilyUse, Holdings, LockOwner};
use super::shard::{FamilyLocks, TABLE_SHARD};
use super::wait::{grant_waiters, Looks, Waits, Wakes, Wanted};
use super::{Policy, Range};
use crate::error::{Error, Result};
use crate::mutant::{self, Mutant};
use crate::sync::stage;
use crate::types::FamilyId;

/// How many gap locks may overtake one waiting exclusive lock before the next one must queue. Only owners
/// with locks overtake.
const MAX_OVERTAKEN: u32 = 8;

/// The goal of a search in a span.
#[derive(Clone, Copy)]
enum Look {
    /// A granted exclusive lock of another owner.
    Granted,
    /// A wanted exclusive lock of another owner that may not be overtaken again. The number is how many
    /// overtakings it allows.
    Wanted(u32),
    /// A wanted exclusive lock of an owner with priority.
    Prior,
}

impl LockManager {
    /// Takes a gap lock on the keys from `from` on and below `to` (`None`: no end). Until the owner's
    /// transaction ends, no other owner gets an exclusive lock on them. Returns once exclusive locks granted
    /// before are gone. From then on only the owner's own changes add to the committed rows of the range. The
    /// intention lock on the table is taken as for a point lock.
    ///
    /// After an error the gap lock may be held nevertheless.
    ///
    /// # Errors
    /// As [`LockManager::lock_point`]; `LockTimeout` also with `Policy::Skip`.
    pub fn lock_range(
        &self,
        owner: &Arc<LockOwner>,
        family: FamilyId,
        from: &[u8],
        to: Option<&[u8]>,
        policy: Policy,
    ) -> Result<()> {
        if to.is_some_and(|to| to <= from) || mutant::is(Mutant::RangeNotKept) {
            return Ok(());
        }
        let Some((mut holdings, at)) = self.enter(owner, family, policy)? else { return Ok(()) };
        let locks = holdings.families[at].locks.clone();
        let settled = !holdings.families[at].unsettled;
        if settled && holdings.families[at].spans > 0 && locks.ranges().has_all(owner, from, to) {
            return Ok(());
        }
        if self.counters.waiting.load(Relaxed) > 0 {
            let has_any = holdings.has_any();
            drop(holdings);
            let may_overtake = if has_any { MAX_OVERTAKEN } else { 0 };
            let mut found = find(owner, &locks, from, to, Look::Wanted(may_overtake));
            while let Some(key) = found {
                self.wait(owner, wanted(&locks, &key, Mask::AFTER), policy)?;
                found = find_prior(owner, &locks, from, to);
            }
            holdings = owner.holdings.lock();
        }
        stage("stage: range not yet published");
        publish(&mut holdings, at, owner, from, to);
        drop(holdings);
        let settled = self.settle(owner, &locks, from, to, policy);
        if settled.is_err() {
            owner.holdings.lock().families[at].unsettled = true;
        }
        settled
    }

    /// Waits for the exclusive locks of others in a published range. Those with entries come first, because
    /// an owner has its implicit locks before it releases the entries.
    fn settle(
        &self,
        owner: &Arc<LockOwner>,
        locks: &Arc<FamilyLocks>,
        from: &[u8],
        to: Option<&[u8]>,
        policy: Policy,
    ) -> Result<()> {
        let mut free_from = from.to_vec();
        loop {
            // The keys of others that are not confirmed may be a million.
            if owner.is_killed() {
                return Err(Error::Interrupted);
            }
            while let Some(key) = find(owner, locks, from, to, Look::Granted) {
                self.wait(owner, wanted(locks, &key, Mask::GAP), policy)?;
            }
            let conflict = |other: &LockOwner| locks.gaps_conflict(owner, other);
            let looked = locks.implicit.change_count();
            if looked == 0 || to.is_some_and(|to| to <= &free_from[..]) {
                return Ok(());
            }
            let Some(key) = locks.implicit.find_in(owner, &free_from, to, conflict)? else { return Ok(()) };
            let mut made = false;
            let own = locks.implicit.find_own(owner, &key)?.is_some();
            // Next to one of the owner's own, the others are unconfirmed: they would get the entry that it gave back.
            for lock in locks.implicit.find(owner, &key)?.iter().filter(|_| !own) {
                made |= lock.make_entry(locks, &key, looked)? && conflict(&lock.owner);
            }
            if !made && locks.implicit.change_count() == looked {
                // Nobody's (yet): who has it in an unconfirmed implicit lock will meet the range.
                free_from = key;
                free_from.push(0);
            }
        }
    }

    /// Publishes the gap around `key`, a missing key locked by the owner: `from` to `to`, cut at the nearest
    /// keys locked exclusively by others, or wanted so by others with priority. Never waits for such locks.
    ///
    /// # Errors
    /// As [`LockManager::lock_range`].
    pub fn lock_gap(
        &self,
        owner: &Arc<LockOwner>,
        family: FamilyId,
        key: &[u8],
        from: &[u8],
        to: Option<&[u8]>,
        policy: Policy,
    ) -> Result<()> {
        let Some((mut holdings, at)) = self.enter(owner, family, policy)? else { return Ok(()) };
        let locks = holdings.families[at].locks.clone();
        let (mut from, mut to) = (from.to_vec(), to.map(<[u8]>::to_vec));
        let nearest = |from: &[u8], to: Option<&[u8]>| {
            find(owner, &locks, from, to, Look::Granted).or_else(|| find_prior(owner, &locks, from, to))
        };
        while let Some(other) = nearest(&from, to.as_deref()) {
            if other.as_slice() > key {
                to = Some(other);
            } else {
                from = other;
                from.push(0);
            }
        }
        if locks.implicit.change_count() != 0 {
            // A key between `from` and this one says nothing of how near it is: that part stays free.
            if from.as_slice() < key && locks.implicit.find_in(owner, &from, Some(key), |_| true)?.is_some() {
                from = key.to_vec();
            }
            if let Some(other) = locks.implicit.find_in(owner, key, to.as_deref(), |_| true)? {
                to = Some(other);
            }
        }
        if to.as_ref().is_none_or(|to| *to > from) {
            publish(&mut holdings, at, owner, &from, to.as_deref());
            // One may have come in between: a range over it has to wait.
            let to = to.as_deref();
            let granted = find(owner, &locks, &from, to, Look::Granted).is_some();
            let implicit = || locks.implicit.find_in(owner, &from, to, |_| true);
            if granted || (locks.implicit.change_count() != 0 && implicit()?.is_some()) {
                holdings.families[at].unsettled = true;
            }
        }
        Ok(())
    }

    /// The owner's gap locks, and its point locks on keys not `is_written` as ranges of one key: everything
    /// it locks apart from its written keys. `is_written` is called for keys locked exclusively, under no
    /// latch but the one of the owner's list.
    pub fn kept_ranges(&self, owner: &LockOwner, is_written: impl Fn(FamilyId, &[u8]) -> bool) -> Vec<Range> {
        let holdings = owner.holdings.lock();
        let mut out = Vec::new();
        for held in holdings.held.iter().filter(|held| held.shard != TABLE_SHARD) {
            let locks = &holdings.families[held.family as usize].locks;
            let shard = locks.latch(held.shard);
            let exclusive = shard.queue(held.id).holds_exclusively(owner);
            let from = shard.key(held.id).to_vec();
            drop(shard);
            if !(exclusive && is_written(locks.family, &from)) {
                let to = Some([&from[..], &[0]].concat());
                out.push(Range { family: locks.family, from, to });
            }
        }
        for family in holdings.families.iter().filter(|family| family.spans > 0) {
            let ranges = family.locks.ranges();
            let own = ranges.iter().filter(|(of, _)| std::ptr::eq(&***of, owner));
            out.extend(own.map(|(_, span)| {
                let Span { from, to } = span.clone();
                Range { family: family.locks.family, from, to }
            }));
        }
        out
    }

    /// Publishes a gap lock that the owner had before a restart, without a check of other owners: their locks
    /// coexisted with it then.
    ///
    /// # Errors
    /// As [`LockManager::lock_range`], without a wait.
    pub fn restore_range(&self, owner: &Arc<LockOwner>, range: &Range) -> Result<()> {
        if let Some((mut holdings, at)) = self.enter(owner, range.family, Policy::NoWait)? {
            publish(&mut holdings, at, owner, &range.from, range.to.as_deref());
            holdings.families[at].unsettled = true;
        }
        Ok(())
    }

    /// Releases the owner's gap locks in the families selected by `which`, and grants the waits they blocked.
    pub(super) fn take_back_ranges(
        &self,
        owner: &Arc<LockOwner>,
        families: &mut [FamilyUse],
        which: impl Fn(&FamilyUse) -> bool,
    ) {
        for family in families.iter_mut().filter(|f| f.spans > 0 && which(f)) {
            family.spans = 0;
            family.unsettled = false;
            let locks = &family.locks;
            let mut wakes = Wakes::default();
            let mut waits = self.waits.lock();
            let spans = locks.withdraw(owner);
            if waits.waiting > 0 {
                for span in &spans {
                    self.grant_within(&mut waits, locks, span, &mut wakes);
                }
            }
            drop(waits);
            wakes.send();
        }
    }

    /// Grants possible waits on the keys of a span.
    fn grant_within(&self, waits: &mut Waits, locks: &FamilyLocks, span: &Span, wakes: &mut Wakes) {
        for number in TABLE_SHARD + 1..locks.shards() {
            let mut shard = locks.latch(number);
            let mut wanted = Vec::new();
            shard.find_in(&span.from, span.to.as_deref(), |id, entry| {
                if entry.queue.has_waiters() {
                    wanted.push(id);
                }
                None::<()>
            });
            for id in wanted {
                grant_waiters(waits, locks, &mut shard, id, wakes);
                shard.tidy(id);
            }
        }
    }

    /// Takes the intention lock and checks the bounds, before any gap lock. `None`: the owner's lock on the
    /// table makes gap locks in it unnecessary.
    fn enter<'o>(
        &self,
        owner: &'o Arc<LockOwner>,
        family: FamilyId,
        policy: Policy,
    ) -> Result<Option<(crate::sync::MutexGuard<'o, Holdings>, usize)>> {
        let mut holdings = owner.holdings.lock();
        let at = self.family_use(&mut holdings, family);
        let table = holdings.families[at].table;
        if !holdings.families[table as usize].mask.covers(Mask::IS) {
            holdings = self.table(owner, holdings, table, Mask::IS, policy)?.0;
        }
        let budget = self.budget(owner, &mut holdings);
        if budget != LockBudget::Enough && !holdings.families[table as usize].mask.covers(Mask::S) {
            holdings = self.escalate(owner, holdings, policy, budget, false)?;
        }
        let covered = holdings.families[table as usize].mask.covers(Mask::S);
        Ok((!covered).then_some((holdings, at)))
    }
}

fn wanted<'a>(locks: &'a Arc<FamilyLocks>, key: &'a [u8], mode: Mask) -> Wanted<'a> {
    Wanted { locks, shard: locks.shard_of_key(key), key, mode, intent: false, looked: None }
}

/// Publishes and counts a gap lock.
fn publish(holdings: &mut Holdings, at: usize, owner: &Arc<LockOwner>, from: &[u8], to: Option<&[u8]>) {
    let family = &mut holdings.families[at];
    let done = family.locks.publish(owner, from, to);
    if done.meets_priority {
        tell_priority_waits(owner, &family.locks, from, to);
    }
    let table = family.table as usize;
    family.spans = family.spans.saturating_add_signed(done.grown);
    holdings.points = holdings.points.saturating_add_signed(done.grown);
    let table = &mut holdings.families[table];
    table.points = table.points.saturating_add_signed(done.grown);
}

/// Has the owners with priority look again that wait for exclusive locks in a published range. It may have come
/// into their way after their waits began: between the publisher's look at the waits and the publication.
fn tell_priority_waits(owner: &LockOwner, locks: &FamilyLocks, from: &[u8], to: Option<&[u8]>) {
    let mut looks = Looks::default();
    for number in TABLE_SHARD + 1..locks.shards() {
        locks.latch(number).find_in(from, to, |_, entry| {
            looks.add_for_gap(&entry.queue, owner);
            None::<()>
        });
    }
    looks.send();
}

/// As [`find`] for [`Look::Prior`], without a search in families without such waits.
fn find_prior(
    owner: &Arc<LockOwner>,
    locks: &FamilyLocks,
    from: &[u8],
    to: Option<&[u8]>,
) -> Option<Vec<u8>> {
    if !locks.has_priority_waits() {
        return None;
    }
    find(owner, locks, from, to, Look::Prior)
}

/// A key in `from..to` with another owner's lock of the kind `look`.
fn find(
    owner: &Arc<LockOwner>,
    locks: &FamilyLocks,
    from: &[u8],
    to: Option<&[u8]>,
    look: Look,
) -> Option<Vec<u8>> {
    for number in TABLE_SHARD + 1..locks.shards() {
        let mut shard = locks.latch(number);
        let found = match look {
            Look::Granted => shard.find_in(from, to, |id, entry| {
                let gap_conflict = shard.gap_conflict_of(locks, id);
                entry.queue.gap_blocker(owner, &gap_conflict).map(|_| entry.key.to_vec())
            }),
            Look::Wanted(_) | Look::Prior => {
                let mut waited_for = Vec::new();
                shard.find_in(from, to, |id, entry| {
                    // Those within the owner's ranges wait for the owner as it is.
                    if entry.queue.has_waiters() && !locks.ranges().has(owner, &entry.key.to_vec()) {
                        waited_for.push(id);
                    }
                    None::<()>
                });
                let late = |id: &u32| match look {
                    Look::Wanted(may_overtake) => !shard.queue_mut(*id).overtake(owner, may_overtake),
                    _ => shard.queue(*id).has_prior_wait(owner),
                };
                let id = waited_for.into_iter().find(late);
                id.map(|id| shard.key(id).to_vec())
            }
        };
        if found.is_some() {
            return found;
        }
    }
    None
}
