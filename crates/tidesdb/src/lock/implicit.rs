//! Exclusive locks without entries. The written keys of a transaction larger than memory are in files, and
//! the change itself is the lock. InnoDB's name for such locks is implicit.
//!
//! An owner *locks implicitly* the keys of a family in its files, and then releases its entries for them
//! ([`LockManager::release_to_implicit`]). A request in a family with implicit locks searches those of others
//! before any grant. For a key found there it makes the entry that the owner released, and waits in its queue
//! as for any other. Implicit locks live until [`LockManager::unlock_all`].
//!
//! No key is granted between the two steps. An owner publishes its implicit lock, which raises the family's
//! `change_count`, before it latches a shard to remove entries. A grant compares the change count under the
//! same latch with the one of its search. An entry with waits is not removed.
//!
//! An owner may also announce implicit locks on keys not yet locked ([`LockManager::announce_implicit`]).
//! Such an implicit lock is *unconfirmed* until it has waited for all other holders of these keys
//! ([`LockManager::confirm`]). A key covered only by an unconfirmed implicit lock is treated as a request
//! made now: granted if no one else holds the key or a gap over it. The confirmation happens while no gap
//! lock can be published: one published before kept the owner out, one published later finds the keys.
//!
//! A gap lock or a third owner's lock may keep the owner of an unconfirmed implicit lock out of a key. The
//! searching owner then continues without an entry, and may be granted the key once the obstacle is gone. Two
//! rules prevent that both owners get it. First, the search holds only for its change count, which changes
//! when a gap lock is released or an implicit lock is confirmed. Second, the search marks the implicit lock
//! as *contested*; its owner then looks again for other holders and waiters of its keys before the
//! confirmation. (One reads what the other writes last: sequentially consistent.)
//!
//! With several implicit locks on a key, a search asks the confirmed one first, then the unconfirmed ones in
//! the order of publication. It gives the entry to an unconfirmed one only while the change count is
//! unchanged. By then, earlier ones are contested, and the owners of later ones find the entry when they look
//! at the key.
//!
//! A made entry is removed once no owner waits at it: a sweep takes those without waits among many. As with
//! the release of entries, the count is raised first, so an owner about to wait there searches again.
//!
//! Latches: `Entries` before a shard's; `list` is a leaf, taken under the latch of gap locks once. None is
//! held while files are searched for keys.

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

/// Keys of one family locked exclusively by an owner.
pub trait LockedKeys: Send + Sync {
    /// True if the key is one of them. Errors are those of reading.
    fn contains(&self, key: &[u8]) -> Result<bool>;
    /// The first of them from `from` on and below `to` (`None`: no end). Errors are those of reading.
    fn first_in(&self, from: &[u8], to: Option<&[u8]>) -> Result<Option<Vec<u8>>>;
}

/// The implicit locks in one family.
#[derive(Default)]
pub(super) struct ImplicitLocks {
    /// 0 without implicit locks, otherwise a different number after each change.
    change_count: AtomicU64,
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
    /// The locked ones among `keys`; `None`: none.
    confirmed: Option<Arc<dyn LockedKeys>>,
    made: Arc<Entries>,
    /// True if another owner continued although a gap lock or a lock kept this owner out of a key. Shared by
    /// all of the owner's implicit locks here.
    contested: Arc<AtomicBool>,
}

/// Entries made by others for an owner's implicit locks; `None` after its transaction's end.
struct Entries(Mutex<Option<MadeEntries>>);

#[derive(Default)]
struct MadeEntries {
    /// Entries of keys confirmed at the time; the sweep may remove them.
    confirmed: Vec<EntryPlace>,
    unconfirmed: Vec<EntryPlace>,
    /// Number of confirmed ones after the last sweep.
    left: usize,
}

/// Made entries of one owner before a sweep of those without waits.
const SWEEP_MADE: usize = if cfg!(any(test, simulation)) { 4 } else { 256 };

impl MadeEntries {
    /// Releases the entries without waits, now and then. At most as many entries of ended waits stay as
    /// entries with waits.
    fn sweep(&mut self, owner: &LockOwner) {
        if self.confirmed.len() < SWEEP_MADE.max(2 * self.left) {
            return;
        }
        let mut raised: Vec<FamilyId> = Vec::new();
        for place in &self.confirmed {
            if !raised.contains(&place.locks.family) {
                raised.push(place.locks.family);
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
    /// A number to compare later. While it is unchanged, and under the latch of a key's shard, no owner has a
    /// new implicit lock on the key. 0: there are no implicit locks.
    pub(super) fn change_count(&self) -> u64 {
        self.change_count.load(SeqCst)
    }

    /// Publishes an implicit lock; confirmed keys stay confirmed.
    fn put(&self, mut lock: ImplicitLock) {
        let mut list = self.list.write();
        if let Some(at) = list.entries.iter().position(|known| Arc::ptr_eq(&known.owner, &lock.owner)) {
            // It has new keys: it goes after those whose owners may have looked at them already.
            let known = list.entries.remove(at);
            lock.confirmed = lock.confirmed.or(known.confirmed);
            lock.contested = known.contested;
        }
        list.entries.push(lock);
        self.count_change(&mut list);
    }

    fn count_change(&self, list: &mut ImplicitLockList) {
        list.published += 1;
        self.change_count.store(list.published, SeqCst);
    }

    /// Confirms the owner's implicit lock. Returns false if it was contested since the last call, unless
    /// `anyway`.
    fn confirm(&self, owner: &LockOwner, anyway: bool) -> bool {
        let mut list = self.list.write();
        // Who contests it after the look below sees another count.
        self.count_change(&mut list);
        let own = list.entries.iter_mut().find(|known| std::ptr::eq(&*known.owner, owner));
        let Some(known) = own else { return true };
        if known.contested.swap(false, SeqCst) && !anyway {
            return false;
        }
        known.confirmed = Some(Arc::clone(&known.keys));
        true
    }

    /// Announces the removal of made entries: an owner whose search has found one searches again.
    fn entries_go(&self) {
        let mut list = self.list.write();
        self.count_change(&mut list);
    }

    /// Announces the release of gap locks, under their latch: results of searches in implicit locks may be
    /// outdated.
    pub(super) fn ranges_are_gone(&self) {
        // Who was kept out by them was looked for after an implicit lock was published.
        if self.change_count() != 0 {
            let mut list = self.list.write();
            if !list.entries.is_empty() {
                self.count_change(&mut list);
            }
        }
    }

    fn remove(&self, owner: &LockOwner) {
        let mut list = self.list.write();
        list.entries.retain(|lock| !std::ptr::eq(&*lock.owner, owner));
        if list.entries.is_empty() {
            self.change_count.store(0, SeqCst);
        }
    }

    fn of_others(&self, owner: &LockOwner) -> Vec<ImplicitLock> {
        let list = self.list.read();
        list.entries.iter().filter(|lock| !std::ptr::eq(&*lock.owner, owner)).cloned().collect()
    }

    /// Others' implicit locks of a key, in the order to ask them. At most one of several counts: the others
    /// are unconfirmed, or about to end. Errors are those of reading.
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

    /// The owner's own implicit lock, if it locks the key. Errors are those of reading.
    pub(super) fn find_own(&self, owner: &LockOwner, key: &[u8]) -> Result<Option<ImplicitLock>> {
        let list = self.list.read();
        let own = list.entries.iter().find(|lock| std::ptr::eq(&*lock.owner, owner)).cloned();
        drop(list);
        Ok(match own {
            Some(lock) if lock.has_locked(key)? => Some(lock),
            _ => None,
        })
    }

    /// The first key from `from` on and below `to` with an implicit lock of another owner, if `counts`
    /// accepts this owner. Errors are those of reading.
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

    /// Makes the entry of an implicitly locked key, as if its owner had never released it. For an unconfirmed
    /// implicit lock the entry counts as a request made now, after the present waits. Returns false if there
    /// is nothing to wait for at this owner: its transaction has ended, or the owner of an unconfirmed
    /// implicit lock does not have the key yet. Also returns false if an unconfirmed one's change count
    /// differs from `looked`, the change count of the search. Errors are those of reading.
    pub(super) fn make_entry(&self, locks: &Arc<FamilyLocks>, key: &[u8], looked: u64) -> Result<bool> {
        let locked = self.has_locked(key)?;
        let mut made = self.made.0.lock();
        let Some(made) = made.as_mut() else { return Ok(false) };
        made.sweep(&self.owner);
        let probe = Probe::new(key);
        let number = locks.shard_of(&probe);
        let mut shard = locks.latch(number);
        if !locked && locks.implicit.change_count() != looked {
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
    /// Declares all of `keys` locked exclusively by the owner until its transaction ends. They replace the
    /// family's former implicit keys, and must include them. No other owner has a lock on one of them, or a
    /// gap lock over one without having to wait for the owner. The caller takes the intention lock on the
    /// table.
    pub fn lock_implicitly(&self, owner: &Arc<LockOwner>, family: FamilyId, keys: Arc<dyn LockedKeys>) {
        self.put_implicit(owner, family, Arc::clone(&keys), Some(keys));
    }

    /// Like [`LockManager::lock_implicitly`] for `keys` not all locked yet. [`LockManager::confirm`] comes
    /// next, or the end of the transaction.
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

    /// Waits until the owner has every key of its implicit lock. `fresh` are the possibly unlocked ones; it
    /// yields them anew at each call. Errors: as [`LockManager::lock_point`]; the implicit lock is
    /// unconfirmed then.
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

    /// Releases the entries of exclusive point locks replaced by a confirmed implicit lock of the owner, as
    /// told by `is_implicit`. Entries with waits, or needed by a wait about to begin, stay. The third
    /// argument of `is_implicit` is true if the lock may have been taken before
    /// [`LockManager::statement_begins`].
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

    /// Begins a statement: the owner's present locks belong to earlier ones.
    pub fn statement_begins(&self, owner: &LockOwner) {
        let mut holdings = owner.holdings.lock();
        holdings.before_statement = holdings.held.len();
    }

    /// Ends the owner's implicit locks before any release, because the next holder of a key may lock it
    /// implicitly. Returns the entries made for them by others, for [`LockManager::release_made`].
    pub(super) fn end_implicit(&self, owner: &Arc<LockOwner>, own: OwnImplicitLocks) -> Vec<EntryPlace> {
        // From here on nobody makes another, and nobody waits for what it finds in an implicit lock.
        let MadeEntries { mut confirmed, unconfirmed, .. } = own.made.0.lock().take().unwrap_or_default();
        confirmed.extend(unconfirmed);
        for locks in &own.families {
            locks.implicit.remove(owner);
        }
        confirmed
    }

    /// Releases the entries made by others.
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
    /// True if another owner holds or wants an exclusive lock on the key.
    fn is_met(&self, owner: &LockOwner, key: &[u8]) -> bool {
        let probe = Probe::new(key);
        let shard = self.latch(self.shard_of(&probe));
        shard.find(&probe).is_some_and(|id| {
            let queue = shard.queue(id);
            let others = |request: &Request| !std::ptr::eq(&*request.owner, owner) && request.want == Mask::X;
            queue.is_locked_against(owner, Mask::X) || queue.waiting().iter().any(others)
        })
    }

    /// True if another owner has a lock, an intent or an implicit lock on the key in conflict with `mode`.
    /// Errors are those of reading.
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
        Ok(self.implicit.change_count() != 0 && !self.implicit.find(owner, key)?.is_empty())
    }
}
