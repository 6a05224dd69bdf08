//! A bounded copy of the lock table for diagnostics. Taking it blocks lock requests only briefly.
//!
//! Locks with waits come first, each with all its grants and waits. They are one consistent picture, because
//! the wait latch is held: no wait begins or ends. The others follow, a few under each latch, up to the
//! bound. Keys are truncated. Locks without entries (`implicit`) appear only if another owner waits for them.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;

use super::gap_set::Span;
use super::manager::LockManager;
use super::mode::Mask;
use super::owner::LockOwner;
use super::shard::{Entry, EntryPlace, FamilyLocks, Shard, TABLE_SHARD};
use crate::host::HashSet;
use crate::types::FamilyId;

/// Most bytes of a copied key.
pub const KEY_PREFIX_BYTES: usize = 64;

/// Entries copied under one latch.
const BATCH: usize = 256;

/// The beginning of a key.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KeyPrefix {
    /// Its first [`KEY_PREFIX_BYTES`] bytes.
    pub bytes: Vec<u8>,
    /// Its whole length in bytes.
    pub len: usize,
}

impl KeyPrefix {
    /// The prefix of `key`.
    pub fn of(key: &[u8]) -> KeyPrefix {
        KeyPrefix { bytes: key[..key.len().min(KEY_PREFIX_BYTES)].to_vec(), len: key.len() }
    }
}

/// A lock's holder or waiter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LockOwnerId {
    /// Id of the owner.
    pub id: u64,
    /// The session's number in the embedding server; 0: none.
    pub session: u64,
}

impl LockOwnerId {
    fn of(owner: &LockOwner) -> LockOwnerId {
        LockOwnerId { id: owner.id(), session: owner.session() }
    }
}

/// One owner's grant or wait.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DumpedLock {
    /// The family.
    pub family: FamilyId,
    /// The key, for a gap lock its first one; `None` for the table lock.
    pub key: Option<KeyPrefix>,
    /// For a gap lock: the first key after it, or `None` for an open end.
    pub range_to: Option<Option<KeyPrefix>>,
    /// The owner.
    pub owner: LockOwnerId,
    /// "IS", "IX", "S", "SIX", "X", or "GAP" for a gap lock; for a wait, the wanted mode.
    pub mode: &'static str,
    /// True for an optimistic transaction's intent.
    pub intent: bool,
    /// True if the owner waits for the lock.
    pub waiting: bool,
    /// For a wait, the blocking owner: a holder, the owner of a gap lock, or an earlier waiter.
    pub blocker: Option<LockOwnerId>,
}

/// A copy of the lock table.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LockDump {
    /// Grants and waits; first those of locks with waits.
    pub locks: Vec<DumpedLock>,
    /// True if the copy is complete.
    pub complete: bool,
}

/// Locks already copied: family, and the key (`None`: the table) as a hash.
type Shown = HashSet<(FamilyId, Option<u128>)>;

fn name_of(locks: &FamilyLocks, shard: u32, entry: &Entry) -> (FamilyId, Option<u128>) {
    let key = (shard != TABLE_SHARD).then(|| xxhash_rust::xxh3::xxh3_128(&entry.key.to_vec()));
    (locks.family, key)
}

/// The owner that blocks the wait at position `at` of an entry's queue.
fn blocker_of(place: &EntryPlace, shard: &Shard, at: usize) -> Option<LockOwnerId> {
    let queue = shard.queue(place.id);
    let request = &queue.waiting()[at];
    if let Some(holder) = queue.holders_before(at).next() {
        return Some(LockOwnerId::of(holder));
    }
    let mut ranged = None;
    if request.want == Mask::X {
        let gap_conflict = shard.gap_conflict_of(&place.locks, place.id);
        gap_conflict.owners(&request.owner, |other| ranged = ranged.or(Some(LockOwnerId::of(other))));
    }
    ranged.or_else(|| queue.waits_before(at, 0).next().map(|owner| LockOwnerId::of(owner)))
}

/// The wait of `owner`, and the grant, gap lock or earlier wait of `next` that blocks it. `None` if `next`
/// does not. The caller holds the wait latch.
pub(super) fn dump_wait(owner: &Arc<LockOwner>, next: &Arc<LockOwner>) -> Option<(DumpedLock, DumpedLock)> {
    let place = owner.waits_at.lock().clone()?;
    let shard = place.latch();
    let entry = shard.entry(place.id);
    let waiting = entry.queue.waiting();
    let at = waiting.iter().position(|request| Arc::ptr_eq(&request.owner, owner))?;
    let bytes = entry.key.to_vec();
    let wants = DumpedLock {
        family: place.locks.family,
        key: (place.shard != TABLE_SHARD).then(|| KeyPrefix::of(&bytes)),
        range_to: None,
        owner: LockOwnerId::of(owner),
        mode: waiting[at].want.name(),
        intent: waiting[at].intent,
        waiting: true,
        blocker: Some(LockOwnerId::of(next)),
    };
    let of_next = DumpedLock { owner: LockOwnerId::of(next), waiting: false, blocker: None, ..wants.clone() };
    if entry.queue.holders_before(at).any(|holder| Arc::ptr_eq(holder, next)) {
        let mut holds = entry.queue.granted().iter().filter(|hold| Arc::ptr_eq(&hold.owner, next));
        let hold = holds.next()?;
        return Some((wants, DumpedLock { mode: hold.mask.name(), intent: hold.intent, ..of_next }));
    }
    if let Some(before) = waiting[..at].iter().find(|request| Arc::ptr_eq(&request.owner, next)) {
        let (mode, intent) = (before.want.name(), before.intent);
        return Some((wants, DumpedLock { mode, intent, waiting: true, ..of_next }));
    }
    let ranges = place.locks.ranges();
    let covers = |span: &Span| span.from <= bytes && span.to.as_ref().is_none_or(|to| bytes < *to);
    let mut found = ranges.iter().filter(|(other, span)| std::ptr::eq(&***other, &**next) && covers(span));
    let (_, span) = found.next()?;
    let (from, to) = (KeyPrefix::of(&span.from), span.to.as_deref().map(KeyPrefix::of));
    let range =
        DumpedLock { key: Some(from), range_to: Some(to), mode: Mask::GAP.name(), intent: false, ..of_next };
    Some((wants, range))
}

impl LockDump {
    fn push(&mut self, lock: DumpedLock, limit: usize) -> bool {
        self.complete &= self.locks.len() < limit;
        if self.complete {
            self.locks.push(lock);
        }
        self.complete
    }

    /// Adds the grants of an entry; false: no room.
    fn grants(&mut self, locks: &FamilyLocks, shard: u32, entry: &Entry, limit: usize) -> bool {
        let key = (shard != TABLE_SHARD).then(|| KeyPrefix::of(&entry.key.to_vec()));
        entry.queue.granted().iter().all(|hold| {
            let lock = DumpedLock {
                family: locks.family,
                key: key.clone(),
                range_to: None,
                owner: LockOwnerId::of(&hold.owner),
                mode: hold.mask.name(),
                intent: hold.intent,
                waiting: false,
                blocker: None,
            };
            self.push(lock, limit)
        })
    }

    /// Adds the waits of an entry; false: no room.
    fn waits(&mut self, place: &EntryPlace, shard: &Shard, entry: &Entry, limit: usize) -> bool {
        let key = (place.shard != TABLE_SHARD).then(|| KeyPrefix::of(&entry.key.to_vec()));
        entry.queue.waiting().iter().enumerate().all(|(at, request)| {
            let lock = DumpedLock {
                family: place.locks.family,
                key: key.clone(),
                range_to: None,
                owner: LockOwnerId::of(&request.owner),
                mode: request.want.name(),
                intent: request.intent,
                waiting: true,
                blocker: blocker_of(place, shard, at),
            };
            self.push(lock, limit)
        })
    }

    fn range(&mut self, family: FamilyId, owner: &LockOwner, span: &Span, limit: usize) -> bool {
        let lock = DumpedLock {
            family,
            key: Some(KeyPrefix::of(&span.from)),
            range_to: Some(span.to.as_deref().map(KeyPrefix::of)),
            owner: LockOwnerId::of(owner),
            mode: Mask::GAP.name(),
            intent: false,
            waiting: false,
            blocker: None,
        };
        self.push(lock, limit)
    }
}

impl LockManager {
    /// Copies at most `limit` grants and waits. `owners` are the owners whose waits are copied.
    pub fn dump(&self, owners: &[Arc<LockOwner>], limit: usize) -> LockDump {
        let mut out = LockDump { complete: true, ..LockDump::default() };
        let mut shown = Shown::default();
        self.dump_waits(owners, limit, &mut shown, &mut out);
        let families = self.all_families();
        for locks in &families {
            let table = locks.latch(TABLE_SHARD);
            for entry in table.iter() {
                if !shown.contains(&(locks.family, None)) && !out.grants(locks, TABLE_SHARD, entry, limit) {
                    return out;
                }
            }
        }
        for locks in &families {
            let ranges = locks.ranges();
            if !ranges.iter().all(|(owner, span)| out.range(locks.family, owner, span, limit)) {
                return out;
            }
        }
        for locks in &families {
            for shard in TABLE_SHARD + 1..locks.shards() {
                if !dump_points(locks, shard, limit, &shown, &mut out) {
                    return out;
                }
            }
        }
        out
    }

    /// Copies the locks with waits.
    fn dump_waits(&self, owners: &[Arc<LockOwner>], limit: usize, shown: &mut Shown, out: &mut LockDump) {
        let waits = self.waits.lock();
        if waits.waiting == 0 {
            return;
        }
        for owner in owners {
            let Some(place) = owner.waits_at.lock().clone() else { continue };
            let shard = place.latch();
            let entry = shard.entry(place.id);
            let is_new = shown.insert(name_of(&place.locks, place.shard, entry));
            if is_new
                && !(out.grants(&place.locks, place.shard, entry, limit)
                    && out.waits(&place, &shard, entry, limit))
            {
                return;
            }
        }
    }

    /// The owner that blocks `owner`, if it waits.
    pub fn blocker(&self, owner: &LockOwner) -> Option<LockOwnerId> {
        let _waits = self.waits.lock();
        let place = owner.waits_at.lock().clone()?;
        let shard = place.latch();
        let waiting = shard.queue(place.id).waiting();
        let at = waiting.iter().position(|request| std::ptr::eq(&*request.owner, owner))?;
        blocker_of(&place, &shard, at)
    }
}

/// Adds the point locks of one shard, a few under each latch; false: no room.
fn dump_points(locks: &FamilyLocks, number: u32, limit: usize, shown: &Shown, out: &mut LockDump) -> bool {
    let mut from = Vec::new();
    loop {
        let mut visited = 0;
        let shard = locks.latch(number);
        let last = shard.find_in(&from, None, |_, entry| {
            visited += 1;
            let known = !shown.is_empty() && shown.contains(&name_of(locks, number, entry));
            let room = known || out.grants(locks, number, entry, limit);
            (!room || visited == BATCH).then(|| entry.key.to_vec())
        });
        drop(shard);
        match last {
            None => return true,
            Some(_) if !out.complete => return false,
            Some(key) => {
                from = key;
                from.push(0);
            }
        }
    }
}

/// Numbers of an owner's locks, as far as they are known without a long wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HeldCounts {
    /// Point locks and gap locks.
    pub points: u64,
    /// Locked tables, intentions included.
    pub tables: u64,
}

impl LockOwner {
    /// Numbers of the owner's locks; `None` while the owner itself changes them.
    pub fn held(&self) -> Option<HeldCounts> {
        let holdings = self.holdings.try_lock()?;
        let points = holdings.points as u64;
        let is_table = |(at, family): (usize, &super::owner::FamilyUse)| {
            family.table as usize == at && family.mask.meets(Mask::ANY)
        };
        let tables = holdings.families.iter().enumerate().filter(|&family| is_table(family)).count();
        Some(HeldCounts { points, tables: tables as u64 })
    }

    /// Start of the owner's wait by the lock manager's clock; `None` without a wait.
    pub fn waits_since(&self) -> Option<u64> {
        Some(self.waits_since.load(Relaxed)).filter(|&since| since != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Mode, Policy};
    use super::*;
    use crate::host::SystemClock;
    use std::time::Duration;

    fn manager() -> Arc<LockManager> {
        Arc::new(LockManager::new(None, Arc::new(SystemClock)))
    }

    fn owner(id: u64) -> Arc<LockOwner> {
        let owner = LockOwner::new(id);
        owner.set_session(id * 100);
        owner
    }

    fn lock(locks: &LockManager, owner: &Arc<LockOwner>, key: &[u8]) {
        let got = locks.lock_point(owner, 7, key, Mode::Exclusive, Policy::NoWait);
        assert!(got.expect("is free").is_some());
    }

    #[test]
    fn who_waits_is_shown_with_who_is_in_the_way_until_it_is_over() {
        let locks = manager();
        let (a, b, c) = (owner(1), owner(2), owner(3));
        lock(&locks, &a, b"k");
        let wait = |who: &Arc<LockOwner>| {
            let (locks, who) = (locks.clone(), who.clone());
            std::thread::spawn(move || {
                let limit = Policy::Wait(Some(Duration::from_secs(60)));
                locks.lock_point(&who, 7, b"k", Mode::Exclusive, limit).expect("gets it");
                locks.unlock_all(&who);
            })
        };
        let second = wait(&b);
        while b.waits_since().is_none() {
            std::thread::yield_now();
        }
        let third = wait(&c);
        while c.waits_since().is_none() {
            std::thread::yield_now();
        }
        let all = [a.clone(), b.clone(), c.clone()];
        let dump = locks.dump(&all, 100);
        assert!(dump.complete);
        let at_key: Vec<_> = dump.locks.iter().filter(|lock| lock.key.is_some()).collect();
        let shape: Vec<_> = at_key.iter().map(|l| (l.owner.id, l.waiting, l.blocker.map(|b| b.id))).collect();
        assert_eq!(shape, [(1, false, None), (2, true, Some(1)), (3, true, Some(1))]);
        assert_eq!(at_key[1].blocker, Some(LockOwnerId { id: 1, session: 100 }));
        assert_eq!(locks.blocker(&c).map(|b| b.id), Some(1));
        assert_eq!(locks.blocker(&a), None);
        assert_eq!(a.held(), Some(HeldCounts { points: 1, tables: 1 }));
        // With room for one only: of the lock that is waited for.
        let dump = locks.dump(&all, 1);
        assert!(!dump.complete && dump.locks[0].key.is_some(), "{dump:?}");
        locks.unlock_all(&a);
        second.join().expect("ends");
        third.join().expect("ends");
        assert_eq!(locks.dump(&all, 100), LockDump { locks: vec![], complete: true });
        assert!(all.iter().all(|owner| owner.waits_since().is_none()));
    }

    #[test]
    fn a_range_is_named_as_what_an_insertion_waits_for() {
        let locks = manager();
        let (a, b) = (owner(1), owner(2));
        locks.lock_range(&a, 7, b"a", Some(b"m"), Policy::NoWait).expect("free");
        let thread = {
            let (locks, b) = (locks.clone(), b.clone());
            std::thread::spawn(move || {
                let limit = Policy::Wait(Some(Duration::from_secs(60)));
                locks.lock_point(&b, 7, b"c", Mode::Exclusive, limit).expect("gets it");
                locks.unlock_all(&b);
            })
        };
        while b.waits_since().is_none() {
            std::thread::yield_now();
        }
        let dump = locks.dump(&[a.clone(), b.clone()], 100);
        let wait = dump.locks.iter().find(|lock| lock.waiting).expect("waits");
        assert_eq!(wait.blocker.map(|b| b.id), Some(1));
        let range = dump.locks.iter().find(|lock| lock.range_to.is_some()).expect("is there");
        assert_eq!(range.range_to, Some(Some(KeyPrefix::of(b"m"))));
        locks.unlock_all(&a);
        thread.join().expect("ends");
    }

    #[test]
    fn many_locks_are_cut_at_the_bound_and_all_seen_below_it() {
        let locks = manager();
        let a = owner(1);
        for i in 0..3000u32 {
            let key = [&i.to_be_bytes()[..], &[0; 100]].concat();
            lock(&locks, &a, &key);
        }
        let dump = locks.dump(std::slice::from_ref(&a), 10_000);
        let mut keys: Vec<_> = dump.locks.iter().filter_map(|lock| lock.key.clone()).collect();
        keys.sort_by(|x, y| x.bytes.cmp(&y.bytes));
        keys.dedup();
        assert!(dump.complete && keys.len() == 3000 && dump.locks.len() == 3001);
        assert!(keys.iter().all(|key| key.bytes.len() == KEY_PREFIX_BYTES && key.len == 104));
        let cut = locks.dump(std::slice::from_ref(&a), 1000);
        assert!(!cut.complete && cut.locks.len() == 1000);
        let exact = locks.dump(std::slice::from_ref(&a), 3001);
        assert!(exact.complete && exact.locks.len() == 3001);
        locks.unlock_all(&a);
    }
}
