//! Exclusive locks without entries: of a transaction that outgrows memory the keys that it has written stand in
//! files, and so do its locks on them. InnoDB calls such locks implicit: the change itself is the lock.
//!
//! An owner *locks implicitly* the keys of a family in its files and then gives back the entries that it had for them
//! ([`LockManager::release_to_implicit`]). Who wants a lock in a family with implicit locks looks into those of others
//! before it is granted anything; for a key that it finds there it makes the entry that the owner gave back, and waits
//! in its queue as for any other. Implicit locks live until [`LockManager::unlock_all`].
//!
//! Nobody is granted a key between the two: an owner publishes its implicit lock, which raises the family's `stamp`,
//! before it latches a shard to take entries away, and whoever is to be granted a key compares the stamp under
//! that latch with the one that it looked at. An entry that somebody waits for is not taken away.
//!
//! An owner may also announce implicit locks on keys that it has not locked ([`LockManager::announce_implicit`]). Such
//! an implicit lock is *unconfirmed* until it has waited for all who have one of them ([`LockManager::confirm`]). A key
//! in an unconfirmed implicit lock alone counts for others as if its owner asked for it at that moment: it gets the
//! entry if nobody else has the key or a range over it. The implicit lock is confirmed while no range can be published:
//! a range published before kept the owner out, one published later finds the keys.
//!
//! Where a range or a third owner's lock keeps the owner of an unconfirmed implicit lock out of a key, whoever looked
//! goes on without an entry for it, and may be granted the key when that has gone. Two things see to it that this one and the owner do not
//! both get it. The look holds only while the stamp does, which changes when a range goes or an implicit lock is
//! confirmed; and the look leaves the implicit lock *contested*, so that its owner looks again for others that have or
//! want one of its keys before it is confirmed. (One reads what the other writes last: sequentially consistent.)
//!
//! Of several implicit locks on a key whoever looks asks the confirmed one first, then the unconfirmed ones as they were
//! published, and gives the entry to one of these only while the stamp is that of the look: those before it are
//! contested by then, and the owners of those after it find it when they look at the key.
//!
//! An entry that was made goes again when nobody waits at it any more: of many that somebody once waited for those are
//! swept away. As with giving entries back, the stamp is raised before that: who was about to wait there looks again.
//!
//! Latches: `Entries` before a shard's; `list` is a leaf, taken under the latch of ranges once. None is held while
//! keys are looked for in files.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::sync::Arc;

use super::key::Probe;
use super::manager::LockManager;
use super::mode::Mask;
use super::owner::{Holdings, LockOwner};
use super::queue::{GapConflict, Request};
use super::shard::{EntryPlace, FamilyLocks, TABLE_SHARD};
use super::wait::{grant_waiters, Wakes};
use super::{Mode, Policy};
use crate::error::Result;
use crate::sync::{Mutex, RwLock};
use crate::types::FamilyId;

/// Keys of one family that an owner has locked exclusively.
pub trait LockedKeys: Send + Sync {
    /// Whether the key is one of them. Errors: those of reading.
    fn contains(&self, key: &[u8]) -> Result<bool>;
    /// The first of them from `from` on and below `to` (`None`: no end). Errors: those of reading.
    fn first_in(&self, from: &[u8], to: Option<&[u8]>) -> Result<Option<Vec<u8>>>;
}

/// The implicit locks in one family.
#[derive(Default)]
pub(super) struct ImplicitLocks {
    /// 0 while there are no implicit locks, else another number after each change.
    stamp: AtomicU64,
    list: RwLock<ImplicitLockList>,
}

#[derive(Default)]
struct ImplicitLockList {
    entries: Vec<ImplicitLock>,
    published: u64,
}

/// The implicit locks of one owner in a family.
#[derive(Clone)]
pub(super) struct ImplicitLock {
    pub(super) owner: Arc<LockOwner>,
    keys: Arc<dyn LockedKeys>,
    /// Those of `keys` that are locked; `None`: none.
    confirmed: Option<Arc<dyn LockedKeys>>,
    made: Arc<Entries>,
    /// Somebody went on although a range or a lock kept the owner out of a key; the same for all of the owner's implicit locks
    /// here.
    contested: Arc<AtomicBool>,
}

/// Entries that others made for an owner's implicit locks; `None` when its transaction has ended.
struct Entries(Mutex<Option<MadeEntries>>);

#[derive(Default)]
struct MadeEntries {
    /// Of keys that were confirmed when the entry was made: these may be swept away.
    confirmed: Vec<EntryPlace>,
    unconfirmed: Vec<EntryPlace>,
    /// So many confirmed ones were left by the last sweep.
    left: usize,
}

/// Entries made for one owner before those that nobody waits for are swept away.
const SWEEP_MADE: usize = if cfg!(test) { 4 } else { 256 };

impl MadeEntries {
    /// Gives back the entries that nobody waits at, now and then. Of waits that ended at most as many stay as others still
    /// wait at.
    fn sweep(&mut self, owner: &LockOwner) {
        if self.confirmed.len() < SWEEP_MADE.max(2 * self.left) {
            return;
        }
        let mut stamped: Vec<FamilyId> = Vec::new();
        for place in &self.confirmed {
            if !stamped.contains(&place.locks.family) {
                stamped.push(place.locks.family);
                place.locks.implicit.entries_go();
            }
        }
        self.confirmed.retain(|place| {
            let mut shard = place.latch();
            let idle = shard.queue(place.id).is_restored_only(owner);
            if idle {
                shard.queue_mut(place.id).release(owner);
                shard.tidy(place.id);
            }
            !idle
        });
        self.left = self.confirmed.len();
    }
}

/// An owner's side of its implicit locks.
pub(super) struct OwnImplicitLocks {
    made: Arc<Entries>,
    families: Vec<Arc<FamilyLocks>>,
}

impl ImplicitLocks {
    /// What to compare later: while it is the same, and under the latch of a key's shard, nobody has an implicit lock
    /// on the key who had not before. 0: there are no implicit locks.
    pub(super) fn stamp(&self) -> u64 {
        self.stamp.load(SeqCst)
    }

    /// Publishes an implicit lock; what was confirmed before stays so.
    fn put(&self, mut lock: ImplicitLock) {
        let mut list = self.list.write();
        if let Some(at) = list.entries.iter().position(|known| Arc::ptr_eq(&known.owner, &lock.owner)) {
            // It has new keys: it goes after those whose owners may have looked at them already.
            let known = list.entries.remove(at);
            lock.confirmed = lock.confirmed.or(known.confirmed);
            lock.contested = known.contested;
        }
        list.entries.push(lock);
        self.change_stamp(&mut list);
    }

    fn change_stamp(&self, list: &mut ImplicitLockList) {
        list.published += 1;
        self.stamp.store(list.published, SeqCst);
    }

    /// Makes the owner's implicit lock a confirmed one. False when it was contested since this was asked for the last
    /// time, unless `anyway`.
    fn confirm(&self, owner: &LockOwner, anyway: bool) -> bool {
        let mut list = self.list.write();
        // Who contests it after the look below sees the other stamp.
        self.change_stamp(&mut list);
        let own = list.entries.iter_mut().find(|known| std::ptr::eq(&*known.owner, owner));
        let Some(known) = own else { return true };
        if known.contested.swap(false, SeqCst) && !anyway {
            return false;
        }
        known.confirmed = Some(Arc::clone(&known.keys));
        true
    }

    /// Says that entries of implicit locks are about to go: who has seen one looks again.
    fn entries_go(&self) {
        let mut list = self.list.write();
        self.change_stamp(&mut list);
    }

    /// Says that ranges are gone, under the latch of ranges: what looks at implicit locks found may not hold any more.
    pub(super) fn ranges_are_gone(&self) {
        // Who was kept out by them was looked for after an implicit lock was published.
        if self.stamp() != 0 {
            let mut list = self.list.write();
            if !list.entries.is_empty() {
                self.change_stamp(&mut list);
            }
        }
    }

    fn remove(&self, owner: &LockOwner) {
        let mut list = self.list.write();
        list.entries.retain(|lock| !std::ptr::eq(&*lock.owner, owner));
        if list.entries.is_empty() {
            self.stamp.store(0, SeqCst);
        }
    }

    fn of_others(&self, owner: &LockOwner) -> Vec<ImplicitLock> {
        let list = self.list.read();
        list.entries.iter().filter(|lock| !std::ptr::eq(&*lock.owner, owner)).cloned().collect()
    }

    /// Others' implicit locks of a key, in the order in which they are to be asked. Of several at most one counts: the
    /// others are unconfirmed, or about to end. Errors: those of reading.
    pub(super) fn find(&self, owner: &LockOwner, key: &[u8]) -> Result<Vec<ImplicitLock>> {
        let mut found = self.of_others(owner);
        let mut failed = Ok(());
        found.retain(|lock| {
            lock.is_live()
                && lock.keys.contains(key).unwrap_or_else(|error| {
                    failed = Err(error);
                    true
                })
        });
        if found.len() > 1 {
            found.sort_by_cached_key(|lock| {
                !lock.has_locked(key).unwrap_or_else(|error| {
                    failed = Err(error);
                    false
                })
            });
        }
        failed.map(|()| found)
    }

    /// The owner's own implicit lock if the key is locked by it. Errors: those of reading.
    pub(super) fn find_own(&self, owner: &LockOwner, key: &[u8]) -> Result<Option<ImplicitLock>> {
        let list = self.list.read();
        let own = list.entries.iter().find(|lock| std::ptr::eq(&*lock.owner, owner)).cloned();
        drop(list);
        Ok(match own {
            Some(lock) if lock.has_locked(key)? => Some(lock),
            _ => None,
        })
    }

    /// The first key from `from` on and below `to` that another owner of whom `counts` is true has locked implicitly.
    /// Errors: those of reading.
    pub(super) fn find_in(
        &self,
        owner: &LockOwner,
        from: &[u8],
        to: Option<&[u8]>,
        counts: impl Fn(&LockOwner) -> bool,
    ) -> Result<Option<Vec<u8>>> {
        let mut first: Option<Vec<u8>> = None;
        for lock in self.of_others(owner) {
            if lock.is_live() && counts(&lock.owner) {
                let before = first.as_deref().or(to);
                first = lock.keys.first_in(from, before)?.or(first);
            }
        }
        Ok(first)
    }
}

impl ImplicitLock {
    fn is_live(&self) -> bool {
        self.made.0.lock().is_some()
    }

    fn has_locked(&self, key: &[u8]) -> Result<bool> {
        self.confirmed.as_ref().map_or(Ok(false), |keys| keys.contains(key))
    }

    /// Makes the entry of an implicitly locked key, as if its owner had never given it back. For an unconfirmed one as
    /// if its owner asked for the key now: after those who wait for it. False when there is
    /// nothing to wait for at that owner: its transaction has ended, or the implicit lock is unconfirmed and it does
    /// not have the key yet, or the stamp is not that of the look, `looked`, any more. Errors: those of reading.
    pub(super) fn make_entry(&self, locks: &Arc<FamilyLocks>, key: &[u8], looked: u64) -> Result<bool> {
        let locked = self.has_locked(key)?;
        let mut made = self.made.0.lock();
        let Some(made) = made.as_mut() else { return Ok(false) };
        made.sweep(&self.owner);
        let probe = Probe::new(key);
        let number = locks.shard_of(&probe);
        let mut shard = locks.latch(number);
        if !locked && locks.implicit.stamp() != looked {
            return Ok(false);
        }
        let id = shard.find_or_insert(&probe);
        let kept_out = !locked && {
            let (queue, gap_conflict) = (shard.queue(id), locks.gap_conflict(key));
            // Ahead of a wait it would make that one wait for an owner that may wait for it: no search looks there.
            !queue.holds_exclusively(&self.owner)
                && (queue.wanted_by(&self.owner).is_some()
                    || gap_conflict.keeps_out(&self.owner)
                    || queue.goes_after_waits(&self.owner, Mask::X, &gap_conflict))
        };
        let restored = if kept_out { None } else { shard.queue_mut(id).restore(&self.owner) };
        if !locked && restored.is_none() {
            self.contested.store(true, SeqCst);
        }
        match restored {
            Some(true) => {
                let places = if locked { &mut made.confirmed } else { &mut made.unconfirmed };
                places.push(EntryPlace { locks: Arc::clone(locks), shard: number, id });
            }
            Some(false) => {}
            None => shard.tidy(id),
        }
        Ok(restored.is_some())
    }
}

impl LockManager {
    /// Says that the owner has all of `keys` locked exclusively until its transaction ends, in place of what
    /// it had so of the family before, which has to be among them. Nobody else has a lock on one of them, or a
    /// range over one that did not have to wait for the owner. The table's intention lock is the caller's to take.
    pub fn lock_implicitly(&self, owner: &Arc<LockOwner>, family: FamilyId, keys: Arc<dyn LockedKeys>) {
        self.put_implicit(owner, family, Arc::clone(&keys), Some(keys));
    }

    /// As [`LockManager::lock_implicitly`], when not all of `keys` are locked yet: [`LockManager::confirm`] comes next,
    /// or the end of the transaction.
    pub fn announce_implicit(&self, owner: &Arc<LockOwner>, family: FamilyId, keys: Arc<dyn LockedKeys>) {
        self.put_implicit(owner, family, keys, None);
    }

    fn put_implicit(
        &self,
        owner: &Arc<LockOwner>,
        family: FamilyId,
        keys: Arc<dyn LockedKeys>,
        confirmed: Option<Arc<dyn LockedKeys>>,
    ) {
        let mut holdings = owner.holdings.lock();
        let at = self.family_use(&mut holdings, family);
        let Holdings { ref families, ref mut implicit, .. } = *holdings;
        let locks = &families[at].locks;
        let own = implicit.get_or_insert_with(|| OwnImplicitLocks {
            made: Arc::new(Entries(Mutex::new(Some(MadeEntries::default())))),
            families: Vec::new(),
        });
        if !own.families.iter().any(|known| Arc::ptr_eq(known, locks)) {
            own.families.push(Arc::clone(locks));
        }
        let made = own.made.clone();
        let contested = Arc::default();
        locks.implicit.put(ImplicitLock { owner: owner.clone(), keys, confirmed, made, contested });
    }

    /// Waits until the owner has every key of its implicit lock, of which `fresh` are those that may not be locked yet:
    /// it yields them anew at each call. Errors: as [`LockManager::lock_point`]; the implicit lock is unconfirmed then.
    pub fn confirm<'k, Keys: Iterator<Item = &'k [u8]>>(
        &self,
        owner: &Arc<LockOwner>,
        family: FamilyId,
        fresh: impl Fn() -> Keys,
        policy: Policy,
    ) -> Result<()> {
        let (locks, whole) = {
            let mut holdings = owner.holdings.lock();
            let at = self.family_use(&mut holdings, family);
            let table = holdings.families[at].table as usize;
            (Arc::clone(&holdings.families[at].locks), holdings.families[table].mask.covers(Mask::X))
        };
        if whole {
            locks.implicit.confirm(owner, true);
            return Ok(());
        }
        // Who waits there may be granted the key without another look at implicit locks.
        let met = |key: &[u8]| Ok(locks.is_met(owner, key) || !locks.implicit.find(owner, key)?.is_empty());
        for key in fresh() {
            if met(key)? {
                self.lock_point(owner, family, key, Mode::Exclusive, policy)?;
            }
        }
        let mut held: BTreeSet<&[u8]> = BTreeSet::new();
        let mut confirmed = false;
        while !confirmed {
            // No range is published meanwhile.
            let ranges = locks.ranges();
            let other =
                |range: &LockOwner| !std::ptr::eq(range, &**owner) && locks.gaps_conflict(owner, range);
            let mut in_gaps: Vec<&[u8]> = Vec::new();
            if ranges.iter().any(|(of, _)| other(of)) {
                let is_in_gap = |key: &[u8]| {
                    let mut found = false;
                    ranges.others_with(owner, key, |of| found |= other(of));
                    found
                };
                in_gaps.extend(fresh().filter(|key| !held.contains(key) && is_in_gap(key)));
            }
            let mut wanted = in_gaps;
            if wanted.is_empty() {
                confirmed = locks.implicit.confirm(owner, false);
            }
            drop(ranges);
            if !confirmed && wanted.is_empty() {
                for key in fresh() {
                    if !held.contains(key) && met(key)? {
                        wanted.push(key);
                    }
                }
            }
            for key in wanted {
                self.lock_point(owner, family, key, Mode::Exclusive, policy)?;
                held.insert(key);
            }
        }
        Ok(())
    }

    /// Gives back the entries of exclusive locks on keys of which `is_implicit` says that the owner has a confirmed
    /// implicit lock on them, but for those that somebody waits for or is about to. `is_implicit` is told whether the
    /// lock may have been taken before [`LockManager::statement_begins`].
    pub fn release_to_implicit(
        &self,
        owner: &Arc<LockOwner>,
        is_implicit: &mut dyn FnMut(FamilyId, &[u8], bool) -> bool,
    ) {
        let mut holdings = owner.holdings.lock();
        let Holdings { families, held, points, before_statement, .. } = &mut *holdings;
        let mut key = Vec::new();
        let (mut at, before) = (0, *before_statement);
        held.retain(|h| {
            let earlier = at < before;
            at += 1;
            if h.shard == TABLE_SHARD {
                return true;
            }
            let family = &families[h.family as usize];
            let mut shard = family.locks.latch(h.shard);
            if !shard.queue(h.id).may_be_implicit(owner) {
                return true;
            }
            shard.key(h.id).copy_to(&mut key);
            if !is_implicit(family.locks.family, &key, earlier) {
                return true;
            }
            *before_statement -= usize::from(earlier);
            shard.queue_mut(h.id).release(owner);
            shard.tidy(h.id);
            drop(shard);
            let table = family.table as usize;
            *points -= 1;
            families[table].points -= 1;
            false
        });
        self.untell(&mut holdings);
    }

    /// A statement begins: what the owner holds now is held for earlier ones.
    pub fn statement_begins(&self, owner: &LockOwner) {
        let mut holdings = owner.holdings.lock();
        holdings.before_statement = holdings.held.len();
    }

    /// Ends the owner's implicit locks, before it gives back anything: whoever is granted one of the keys then may have
    /// it implicitly. Returns the entries that others made for them, for [`LockManager::release_made`].
    pub(super) fn end_implicit(&self, owner: &Arc<LockOwner>, own: OwnImplicitLocks) -> Vec<EntryPlace> {
        // From here on nobody makes another, and nobody waits for what it finds in an implicit lock.
        let MadeEntries { mut confirmed, unconfirmed, .. } = own.made.0.lock().take().unwrap_or_default();
        confirmed.extend(unconfirmed);
        for locks in &own.families {
            locks.implicit.remove(owner);
        }
        confirmed
    }

    /// Gives back the entries that others made.
    pub(super) fn release_made(&self, owner: &Arc<LockOwner>, made: Vec<EntryPlace>) {
        if made.is_empty() {
            return;
        }
        let mut wakes = Wakes::default();
        let mut waits = self.waits.lock();
        for place in &made {
            let mut shard = place.latch();
            shard.queue_mut(place.id).release(owner);
            grant_waiters(&mut waits, &place.locks, &mut shard, place.id, &mut wakes);
            shard.tidy(place.id);
        }
        drop(waits);
        wakes.send();
    }
}

impl FamilyLocks {
    /// Whether another owner has or wants an exclusive lock on the key.
    fn is_met(&self, owner: &LockOwner, key: &[u8]) -> bool {
        let probe = Probe::new(key);
        let shard = self.latch(self.shard_of(&probe));
        shard.find(&probe).is_some_and(|id| {
            let queue = shard.queue(id);
            let others = |request: &Request| !std::ptr::eq(&*request.owner, owner) && request.want == Mask::X;
            queue.is_locked_against(owner, Mask::X) || queue.waiting().iter().any(others)
        })
    }

    /// Whether another owner has a lock or intent on the key, or an implicit lock on it, that conflicts with `mode`.
    /// Errors: those of reading.
    pub(super) fn has_other(&self, owner: &LockOwner, key: &[u8], mode: Mode) -> Result<bool> {
        let probe = Probe::new(key);
        {
            let shard = self.latch(self.shard_of(&probe));
            let entry = shard.find(&probe);
            if entry.is_some_and(|id| shard.queue(id).is_locked_against(owner, mode.into())) {
                return Ok(true);
            }
        }
        // Afterwards: who gives an entry back has an implicit lock before.
        Ok(self.implicit.stamp() != 0 && !self.implicit.find(owner, key)?.is_empty())
    }
}
