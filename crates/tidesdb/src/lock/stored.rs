//! Exclusive locks without entries: of a transaction that outgrows memory the keys that it has written stand in
//! files, and so do its locks on them. InnoDB calls such locks implicit: the change itself is the lock.
//!
//! An owner *claims* the keys of a family in its files and then gives back the entries that it had for them
//! ([`LockManager::release_stored`]). Who wants a lock in a family with claims looks into those of others before it
//! is granted anything; for a key that it finds there it makes the entry that the owner gave back, and waits in its
//! queue as for any other. Claims live until [`LockManager::unlock_all`].
//!
//! Nobody is granted a key between the two: an owner publishes its claim, which raises the family's `stamp`,
//! before it latches a shard to take entries away, and whoever is to be granted a key compares the stamp under
//! that latch with the one that it looked at. An entry that somebody waits for is not taken away.
//!
//! An owner may also claim keys that it has not locked ([`LockManager::claim`]). Such a claim is *open* until it
//! has waited for all who have one of them ([`LockManager::confirm`]). A key in an open claim alone counts for
//! others as if its owner asked for it at that moment: it gets the entry if nobody else has the key or a range over
//! it. The claim is confirmed while no range can be published: a range published before kept the owner out, one
//! published later finds the keys.
//!
//! Where a range keeps the owner of an open claim out of a key, whoever looked goes on without an entry for it, and
//! may be granted the key when the range has gone. Two things see to it that this one and the owner do not both get
//! it. The look holds only while the stamp does, which changes when a range goes or a claim is confirmed; and the look
//! leaves the claim *contested*, so that its owner looks again for others that have or want one of its keys before it
//! is confirmed. (One reads what the other writes last: sequentially consistent.)
//!
//! Latches: `Entries` before a shard's; `claims` is a leaf, taken under the latch of ranges once. None is held while
//! keys are looked for in files.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};

use super::key::Probe;
use super::manager::LockManager;
use super::mode::Mask;
use super::owner::{Holdings, Owner};
use super::queue::{Fence, Request};
use super::shard::{FamilyLocks, Place, TABLE_SHARD};
use super::wait::{grant_waiters, Wakes};
use super::{Mode, Policy};
use crate::error::Result;
use crate::types::FamilyId;

/// Keys of one family that an owner has locked exclusively.
pub trait LockedKeys: Send + Sync {
    /// Whether the key is one of them. Errors: those of reading.
    fn contains(&self, key: &[u8]) -> Result<bool>;
    /// The first of them from `from` on and below `to` (`None`: no end). Errors: those of reading.
    fn first_in(&self, from: &[u8], to: Option<&[u8]>) -> Result<Option<Vec<u8>>>;
}

/// The claims in one family.
#[derive(Default)]
pub(super) struct StoredLocks {
    /// 0 while there are no claims, else another number after each change.
    stamp: AtomicU64,
    claims: RwLock<Claims>,
}

#[derive(Default)]
struct Claims {
    list: Vec<Claim>,
    published: u64,
}

/// What one owner claims.
#[derive(Clone)]
pub(super) struct Claim {
    pub(super) owner: Arc<Owner>,
    keys: Arc<dyn LockedKeys>,
    /// Those of `keys` that are locked; `None`: none.
    confirmed: Option<Arc<dyn LockedKeys>>,
    made: Arc<Entries>,
    /// Somebody went on although a range kept the owner out of a key; the same for all of the owner's claims here.
    contested: Arc<AtomicBool>,
}

/// Entries that others made for an owner's claims; `None` when its transaction has ended.
struct Entries(Mutex<Option<Vec<Place>>>);

/// An owner's side of its claims.
pub(super) struct Claimed {
    made: Arc<Entries>,
    families: Vec<Arc<FamilyLocks>>,
}

impl StoredLocks {
    /// What to compare later: while it is the same, and under the latch of a key's shard, nobody has claimed
    /// the key who had not before. 0: there are no claims.
    pub(super) fn stamp(&self) -> u64 {
        self.stamp.load(SeqCst)
    }

    /// Publishes a claim; what was confirmed before stays so.
    fn put(&self, mut claim: Claim) {
        let mut claims = self.claims.write();
        match claims.list.iter_mut().find(|known| Arc::ptr_eq(&known.owner, &claim.owner)) {
            Some(known) => {
                claim.confirmed = claim.confirmed.or_else(|| known.confirmed.take());
                claim.contested = Arc::clone(&known.contested);
                *known = claim;
            }
            None => claims.list.push(claim),
        }
        self.change_stamp(&mut claims);
    }

    fn change_stamp(&self, claims: &mut Claims) {
        claims.published += 1;
        self.stamp.store(claims.published, SeqCst);
    }

    /// Makes the owner's claim a confirmed one. False when it was contested since this was asked for the last time,
    /// unless `anyway`.
    fn confirm(&self, owner: &Owner, anyway: bool) -> bool {
        let mut claims = self.claims.write();
        // Who contests it behind the look below sees the other stamp.
        self.change_stamp(&mut claims);
        let own = claims.list.iter_mut().find(|known| std::ptr::eq(&*known.owner, owner));
        let Some(known) = own else { return true };
        if known.contested.swap(false, SeqCst) && !anyway {
            return false;
        }
        known.confirmed = Some(Arc::clone(&known.keys));
        true
    }

    /// Says that ranges are gone, under the latch of ranges: what looks at claims found may not hold any more.
    pub(super) fn ranges_are_gone(&self) {
        // Who was kept out by them was looked for after a claim was published.
        if self.stamp() != 0 {
            let mut claims = self.claims.write();
            if !claims.list.is_empty() {
                self.change_stamp(&mut claims);
            }
        }
    }

    fn remove(&self, owner: &Owner) {
        let mut claims = self.claims.write();
        claims.list.retain(|claim| !std::ptr::eq(&*claim.owner, owner));
        if claims.list.is_empty() {
            self.stamp.store(0, SeqCst);
        }
    }

    fn of_others(&self, owner: &Owner) -> Vec<Claim> {
        let claims = self.claims.read();
        claims.list.iter().filter(|claim| !std::ptr::eq(&*claim.owner, owner)).cloned().collect()
    }

    /// Others' claims of a key. Of several at most one counts: the others are open, or about to end. Errors: those
    /// of reading.
    pub(super) fn find(&self, owner: &Owner, key: &[u8]) -> Result<Vec<Claim>> {
        let mut found = self.of_others(owner);
        let mut failed = Ok(());
        found.retain(|claim| {
            claim.is_live()
                && claim.keys.contains(key).unwrap_or_else(|error| {
                    failed = Err(error);
                    true
                })
        });
        failed.map(|()| found)
    }

    /// The owner's own claim if the key is locked by it. Errors: those of reading.
    pub(super) fn find_own(&self, owner: &Owner, key: &[u8]) -> Result<Option<Claim>> {
        let claims = self.claims.read();
        let own = claims.list.iter().find(|claim| std::ptr::eq(&*claim.owner, owner)).cloned();
        drop(claims);
        Ok(match own {
            Some(claim) if claim.has_locked(key)? => Some(claim),
            _ => None,
        })
    }

    /// The first key from `from` on and below `to` that another owner claims of whom `counts` is true. Errors:
    /// those of reading.
    pub(super) fn find_in(
        &self,
        owner: &Owner,
        from: &[u8],
        to: Option<&[u8]>,
        counts: impl Fn(&Owner) -> bool,
    ) -> Result<Option<Vec<u8>>> {
        let mut first: Option<Vec<u8>> = None;
        for claim in self.of_others(owner) {
            if claim.is_live() && counts(&claim.owner) {
                let before = first.as_deref().or(to);
                first = claim.keys.first_in(from, before)?.or(first);
            }
        }
        Ok(first)
    }
}

impl Claim {
    fn is_live(&self) -> bool {
        self.made.0.lock().is_some()
    }

    fn has_locked(&self, key: &[u8]) -> Result<bool> {
        self.confirmed.as_ref().map_or(Ok(false), |keys| keys.contains(key))
    }

    /// Makes the entry of a claimed key, as if its owner had never given it back. False when there is nothing to
    /// wait for at that owner: its transaction has ended, or the claim is open and it does not have the key yet.
    /// Errors: those of reading.
    pub(super) fn make_entry(&self, locks: &Arc<FamilyLocks>, key: &[u8]) -> Result<bool> {
        let locked = self.has_locked(key)?;
        let mut made = self.made.0.lock();
        let Some(places) = made.as_mut() else { return Ok(false) };
        let probe = Probe::new(key);
        let number = locks.shard_of(&probe);
        let mut shard = locks.latch(number);
        let id = shard.find_or_insert(&probe);
        let kept_out = !locked && {
            let queue = shard.queue(id);
            !queue.holds_exclusively(&self.owner)
                && (queue.wanted_by(&self.owner).is_some() || locks.fence(key).keeps_out(&self.owner))
        };
        if kept_out {
            self.contested.store(true, SeqCst);
        }
        let restored = if kept_out { None } else { shard.queue_mut(id).restore(&self.owner) };
        match restored {
            Some(true) => places.push(Place { locks: Arc::clone(locks), shard: number, id }),
            Some(false) => {}
            None => shard.tidy(id),
        }
        Ok(restored.is_some())
    }
}

impl LockManager {
    /// Says that the owner has all of `keys` locked exclusively until its transaction ends, in place of what
    /// it claimed of the family before, which has to be among them. Nobody else has a lock on one of them, or a
    /// range over one that did not have to wait for the owner. The table's intention lock is the caller's to take.
    pub fn store_locks(&self, owner: &Arc<Owner>, family: FamilyId, keys: Arc<dyn LockedKeys>) {
        self.put_claim(owner, family, Arc::clone(&keys), Some(keys));
    }

    /// As [`LockManager::store_locks`], when not all of `keys` are locked yet: [`LockManager::confirm`] comes next,
    /// or the end of the transaction.
    pub fn claim(&self, owner: &Arc<Owner>, family: FamilyId, keys: Arc<dyn LockedKeys>) {
        self.put_claim(owner, family, keys, None);
    }

    fn put_claim(
        &self,
        owner: &Arc<Owner>,
        family: FamilyId,
        keys: Arc<dyn LockedKeys>,
        confirmed: Option<Arc<dyn LockedKeys>>,
    ) {
        let mut holdings = owner.holdings.lock();
        let at = self.family_use(&mut holdings, family);
        let Holdings { ref families, ref mut claimed, .. } = *holdings;
        let locks = &families[at].locks;
        let claimed = claimed.get_or_insert_with(|| Claimed {
            made: Arc::new(Entries(Mutex::new(Some(Vec::new())))),
            families: Vec::new(),
        });
        if !claimed.families.iter().any(|known| Arc::ptr_eq(known, locks)) {
            claimed.families.push(Arc::clone(locks));
        }
        let made = claimed.made.clone();
        let contested = Arc::default();
        locks.stored.put(Claim { owner: owner.clone(), keys, confirmed, made, contested });
    }

    /// Waits until the owner has every key of its claim, of which `fresh` are those that may not be locked yet: it
    /// yields them anew at each call. Errors: as [`LockManager::lock_point`]; the claim is open then.
    pub fn confirm<'k, Keys: Iterator<Item = &'k [u8]>>(
        &self,
        owner: &Arc<Owner>,
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
            locks.stored.confirm(owner, true);
            return Ok(());
        }
        for key in fresh() {
            // Who waits there may be granted the key without another look at claims.
            if locks.is_met(owner, key) || !locks.stored.find(owner, key)?.is_empty() {
                self.lock_point(owner, family, key, Mode::Exclusive, policy)?;
            }
        }
        let mut held: BTreeSet<&[u8]> = BTreeSet::new();
        let mut confirmed = false;
        while !confirmed {
            // No range is published meanwhile.
            let ranges = locks.ranges();
            let other = |range: &Owner| !std::ptr::eq(range, &**owner) && locks.gaps_conflict(owner, range);
            let mut fenced: Vec<&[u8]> = Vec::new();
            if ranges.iter().any(|(of, _)| other(of)) {
                let is_fenced = |key: &[u8]| {
                    let mut found = false;
                    ranges.others_with(owner, key, |of| found |= other(of));
                    found
                };
                fenced.extend(fresh().filter(|key| !held.contains(key) && is_fenced(key)));
            }
            let mut wanted = fenced;
            if wanted.is_empty() {
                confirmed = locks.stored.confirm(owner, false);
            }
            drop(ranges);
            if !confirmed && wanted.is_empty() {
                wanted.extend(fresh().filter(|key| !held.contains(key) && locks.is_met(owner, key)));
            }
            for key in wanted {
                self.lock_point(owner, family, key, Mode::Exclusive, policy)?;
                held.insert(key);
            }
        }
        Ok(())
    }

    /// Gives back the entries of exclusive locks on keys of which `is_stored` says that the owner has a confirmed
    /// claim to them, but for those that somebody waits for or is about to.
    pub fn release_stored(&self, owner: &Arc<Owner>, is_stored: &mut dyn FnMut(FamilyId, &[u8]) -> bool) {
        let mut holdings = owner.holdings.lock();
        let Holdings { families, held, points, .. } = &mut *holdings;
        let mut key = Vec::new();
        held.retain(|h| {
            if h.shard == TABLE_SHARD {
                return true;
            }
            let family = &families[h.family as usize];
            let mut shard = family.locks.latch(h.shard);
            if !shard.queue(h.id).may_be_stored(owner) {
                return true;
            }
            shard.key(h.id).copy_to(&mut key);
            if !is_stored(family.locks.family, &key) {
                return true;
            }
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

    /// Ends the owner's claims, before it gives back anything: whoever is granted one of the keys then may claim it.
    /// Returns the entries that others made for them, for [`LockManager::release_made`].
    pub(super) fn end_claims(&self, owner: &Arc<Owner>, claimed: Claimed) -> Vec<Place> {
        // From here on nobody makes another, and nobody waits for what it finds in a claim.
        let made = claimed.made.0.lock().take().unwrap_or_default();
        for locks in &claimed.families {
            locks.stored.remove(owner);
        }
        made
    }

    /// Gives back the entries that others made.
    pub(super) fn release_made(&self, owner: &Arc<Owner>, made: Vec<Place>) {
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
    fn is_met(&self, owner: &Owner, key: &[u8]) -> bool {
        let probe = Probe::new(key);
        let shard = self.latch(self.shard_of(&probe));
        shard.find(&probe).is_some_and(|id| {
            let queue = shard.queue(id);
            let others = |request: &Request| !std::ptr::eq(&*request.owner, owner) && request.want == Mask::X;
            queue.is_locked_against(owner, Mask::X) || queue.waiting().iter().any(others)
        })
    }

    /// Whether another owner has a lock or intent on the key, or a claim to it, that conflicts with `mode`.
    /// Errors: those of reading.
    pub(super) fn has_other(&self, owner: &Owner, key: &[u8], mode: Mode) -> Result<bool> {
        let probe = Probe::new(key);
        {
            let shard = self.latch(self.shard_of(&probe));
            let entry = shard.find(&probe);
            if entry.is_some_and(|id| shard.queue(id).is_locked_against(owner, mode.into())) {
                return Ok(true);
            }
        }
        // Afterwards: who gives an entry back has a claim before.
        Ok(self.stored.stamp() != 0 && !self.stored.find(owner, key)?.is_empty())
    }
}
