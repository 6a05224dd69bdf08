//! The lock manager: grants and releases locks without a wait if possible, and runs waits.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};
use std::sync::Arc;

use super::key::Probe;
use super::listing::{describe, describe_range};
use super::mode::Mask;
use super::owner::{FamilyUse, Held, Holdings, LockOwner};
use super::queue::{Attempt, GapConflict, GivenBack};
use super::shard::{FamilyLocks, TABLE_ENTRY, TABLE_SHARD};
use super::wait::{grant_waiters, Looks, Waits, Wakes, Wanted};
use super::{Granted, LockInfo, LockOptions, LockStats, Mode, Policy, TableMode, WaitObserver};
use crate::error::{Error, Result};
use crate::host::{Clock, HashMap};
use crate::sync::{yield_now, Mutex, MutexGuard, RwLock};
use crate::types::FamilyId;

/// Families kept in an owner's list from one transaction to the next.
const REMEMBERED_FAMILIES: usize = 16;

/// Entries kept in an owner's list after its transaction: a connection outlives a transaction with many
/// locks.
const KEPT_PLACES: usize = 2048;

/// All locks of a store. See the module `lock` for its guarantees.
pub struct LockManager {
    families: RwLock<HashMap<FamilyId, Arc<FamilyLocks>>>,
    pub(super) waits: Mutex<Waits>,
    pub(super) observer: Option<Arc<dyn WaitObserver>>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) options: LockOptions,
    /// The current value of `LockOptions::max_total`.
    pub(super) max_total: AtomicUsize,
    pub(super) counters: Counters,
    /// Point locks and gap locks of owners with many, added in steps (see `escalation`).
    pub(super) total: AtomicUsize,
}

#[derive(Default)]
pub(super) struct Counters {
    pub(super) waits: AtomicU64,
    pub(super) wait_us: AtomicU64,
    pub(super) deadlocks: AtomicU64,
    pub(super) timeouts: AtomicU64,
    pub(super) kills: AtomicU64,
    pub(super) escalations: AtomicU64,
    pub(super) chain_max: AtomicU64,
    /// Recycled entries of forgotten families.
    pub(super) recycles: AtomicU64,
    /// Number of waiting owners, for readers without the wait latch.
    pub(super) waiting: AtomicU64,
}

/// Marks a request as an intent, in contrast to a lock.
pub(super) const INTENT: bool = true;

impl LockManager {
    /// A lock manager without bounds. `observer` is told of every wait; `clock` measures them.
    pub fn new(observer: Option<Arc<dyn WaitObserver>>, clock: Arc<dyn Clock>) -> LockManager {
        LockManager::with_options(observer, clock, LockOptions::default())
    }

    /// Like [`LockManager::new`], with bounds.
    pub fn with_options(
        observer: Option<Arc<dyn WaitObserver>>,
        clock: Arc<dyn Clock>,
        options: LockOptions,
    ) -> LockManager {
        let shards = options.shards.clamp(1, 64).next_power_of_two();
        LockManager {
            families: RwLock::default(),
            waits: Mutex::default(),
            observer,
            clock,
            max_total: AtomicUsize::new(options.max_total),
            options: LockOptions { shards, ..options },
            counters: Counters::default(),
            total: AtomicUsize::new(0),
        }
    }

    /// Puts locks in `family` (an index) under the table lock of `table`. To be called before the first lock
    /// in `family`; a family never attached is its own table.
    ///
    /// # Errors
    /// `InvalidArgument` if `family` was locked or attached elsewhere before, or if `table` is attached
    /// itself.
    pub fn attach_family(&self, family: FamilyId, table: FamilyId) -> Result<()> {
        let table = self.family(table);
        if table.table.is_some() || table.family == family {
            return Err(Error::InvalidArgument(format!(
                "family {} cannot be the table of family {family}",
                table.family
            )));
        }
        let mut families = self.families.write();
        if let Some(known) = families.get(&family) {
            return match &known.table {
                Some(t) if t.family == table.family => Ok(()),
                _ => Err(Error::InvalidArgument(format!(
                    "family {family} is in use and cannot be attached to {}",
                    table.family
                ))),
            };
        }
        families.insert(family, self.new_family(family, Some(table)));
        Ok(())
    }

    /// Forgets a dropped family, whose number will not be locked again. Locks still held on it stay until
    /// their owners end.
    pub fn forget_family(&self, family: FamilyId) {
        let gone = self.families.write().remove(&family);
        // What it counted stays counted.
        if let Some(locks) = gone {
            let recycles = (0..locks.shards()).map(|number| locks.latch(number).recycles()).sum();
            self.counters.recycles.fetch_add(recycles, Relaxed);
        }
    }

    /// Takes a lock on a key, after the intention lock on its table unless the owner has one. `None`: another
    /// owner has the key, and `policy` is `Skip`.
    ///
    /// # Errors
    /// `Deadlock` (the owner is the victim and must be rolled back), `LockTimeout`, `Interrupted` (killed
    /// during the wait), `TooManyLocks`.
    pub fn lock_point(
        &self,
        owner: &Arc<LockOwner>,
        family: FamilyId,
        key: &[u8],
        mode: Mode,
        policy: Policy,
    ) -> Result<Option<Granted>> {
        self.point(owner, family, key, mode.into(), policy, !INTENT)
    }

    /// Puts an optimistic transaction's intent on a key written or read FOR UPDATE. An intent conflicts with
    /// locks and intents of others. If another owner has the key, an owner without locks (see
    /// [`LockManager::holds_anything`]) waits as for a lock. An owner with locks gets `Deadlock` at once.
    ///
    /// # Errors
    /// As [`LockManager::lock_point`].
    pub fn put_intent(
        &self,
        owner: &Arc<LockOwner>,
        family: FamilyId,
        key: &[u8],
        policy: Policy,
    ) -> Result<Option<Granted>> {
        self.point(owner, family, key, Mask::X, policy, INTENT)
    }

    /// Takes a table lock on `family`, or on the table it is attached to. It is held until
    /// [`LockManager::unlock_all`].
    ///
    /// # Errors
    /// As [`LockManager::lock_point`].
    pub fn lock_table(
        &self,
        owner: &Arc<LockOwner>,
        family: FamilyId,
        mode: TableMode,
        policy: Policy,
    ) -> Result<Granted> {
        let mut holdings = owner.holdings.lock();
        let at = self.family_use(&mut holdings, family);
        let table = holdings.families[at].table;
        Ok(match self.table(owner, holdings, table, mode.into(), policy)?.1 {
            true => Granted::New,
            false => Granted::AlreadyHeld,
        })
    }

    /// Undoes one `Granted::New` of `mode`. The lock is released, or keeps the modes of the owner's other
    /// calls. Does nothing for a key not locked by the owner in this mode (its lock may have become one on
    /// the table).
    pub fn unlock_point(&self, owner: &Arc<LockOwner>, family: FamilyId, key: &[u8], mode: Mode) {
        let mut holdings = owner.holdings.lock();
        let at = self.family_use(&mut holdings, family);
        let FamilyUse { ref locks, table, .. } = holdings.families[at];
        let locks = locks.clone();
        let probe = Probe::new(key);
        let number = locks.shard_of(&probe);
        let mut shard = locks.latch(number);
        let Some(id) = shard.find(&probe) else { return };
        let gone = if shard.queue(id).has_waiters() {
            drop(shard);
            let mut wakes = Wakes::default();
            let mut waits = self.waits.lock();
            // The owner's grant keeps the entry, or there is nothing to give back.
            let mut shard = locks.latch(number);
            let Some(id) = shard.find(&probe) else { return };
            let gone = shard.queue_mut(id).give_back(owner, mode.into()) == GivenBack::Gone;
            grant_waiters(&mut waits, &locks, &mut shard, id, &mut wakes);
            shard.tidy(id);
            drop(shard);
            drop(waits);
            wakes.send();
            gone.then_some(id)
        } else {
            let gone = shard.queue_mut(id).give_back(owner, mode.into()) == GivenBack::Gone;
            shard.tidy(id);
            drop(shard);
            gone.then_some(id)
        };
        if let Some(id) = gone {
            let found =
                holdings.held.iter().rposition(|h| (h.family, h.shard, h.id) == (at as u32, number, id));
            if let Some(found) = found {
                holdings.held.swap_remove(found);
                holdings.points -= 1;
                holdings.families[table as usize].points -= 1;
            }
        }
    }

    /// Releases all locks of the owner and wakes the next holders. Called at the end of every transaction,
    /// even without locks: it returns once no report of a wait names the owner. The caller must hold no mutex
    /// taken by a [`WaitObserver`].
    pub fn unlock_all(&self, owner: &Arc<LockOwner>) {
        let mut holdings = owner.holdings.lock();
        let holdings = &mut *holdings;
        let made =
            holdings.implicit.take().map(|implicit| self.end_implicit(owner, implicit)).unwrap_or_default();
        self.release(owner, &holdings.families, &mut holdings.held, |_| true);
        self.take_back_ranges(owner, &mut holdings.families, |_| true);
        self.release_made(owner, made);
        holdings.points = 0;
        holdings.before_statement = 0;
        if holdings.held.capacity() > KEPT_PLACES {
            holdings.held = Vec::new();
        }
        if holdings.counted > 0 {
            self.total.fetch_sub(std::mem::take(&mut holdings.counted), Relaxed);
        }
        if holdings.families.len() > REMEMBERED_FAMILIES {
            holdings.families.clear();
        }
        for family in &mut holdings.families {
            family.mask = Mask::NONE;
            family.points = 0;
            family.is_advisory = false;
        }
        while owner.pins.load(Acquire) != 0 {
            yield_now();
        }
    }

    /// Interrupts the owner's wait, and every later one until [`LockManager::clear_kill`]. Any thread may
    /// call it, with any mutex held: it takes only a leaf mutex, held briefly.
    pub fn kill(&self, owner: &LockOwner) {
        owner.wait_cell.kill();
    }

    /// Ends the effect of [`LockManager::kill`].
    pub fn clear_kill(&self, owner: &LockOwner) {
        owner.wait_cell.clear_kill();
    }

    /// True if the owner holds a key or intent, or a table in a mode other than intention. (Intention locks
    /// alone do not count: a statement takes them before its first key.)
    pub fn holds_anything(&self, owner: &LockOwner) -> bool {
        owner.holdings.lock().has_any()
    }

    /// Clears the cookie of an owner that keeps its locks; the cookie's target may be freed afterwards.
    /// Returns once no report names it. The caller must hold no mutex taken by a [`WaitObserver`].
    pub fn forget_cookie(&self, owner: &LockOwner) {
        owner.set_cookie(0);
        owner.set_session(0);
        // Reports pin under this latch: those that did so before are seen below, later ones see no cookie.
        drop(self.waits.lock());
        while owner.pins.load(Acquire) != 0 {
            yield_now();
        }
    }

    /// True if the owner holds any lock at all, intentions included.
    pub fn holds_locks(&self, owner: &LockOwner) -> bool {
        !owner.holdings.lock().held.is_empty()
    }

    /// The owner's table locks, one element for each mode.
    pub fn table_locks(&self, owner: &LockOwner) -> Vec<(FamilyId, TableMode)> {
        const MODES: [(Mask, TableMode); 4] = [
            (Mask::IS, TableMode::IntentShared),
            (Mask::IX, TableMode::IntentExclusive),
            (Mask::S, TableMode::Shared),
            (Mask::X, TableMode::Exclusive),
        ];
        let holdings = owner.holdings.lock();
        let mut out = Vec::new();
        for family in &holdings.families {
            let modes = MODES.iter().filter(|(mask, _)| family.mask.meets(*mask));
            out.extend(modes.map(|(_, mode)| (family.locks.family, *mode)));
        }
        out
    }

    /// True if the owner's lock on the table of `family` covers `mode`.
    pub fn holds_table(&self, owner: &LockOwner, family: FamilyId, mode: TableMode) -> bool {
        let mut holdings = owner.holdings.lock();
        let at = self.family_use(&mut holdings, family);
        let table = holdings.families[at].table as usize;
        holdings.families[table].mask.covers(mode.into())
    }

    /// True if another owner's lock on the key or its table conflicts with `mode`. Intents, implicit locks
    /// and gap locks count. May be outdated on return.
    pub fn is_locked_by_other(&self, owner: &LockOwner, family: FamilyId, key: &[u8], mode: Mode) -> bool {
        let Some(locks) = self.families.read().get(&family).cloned() else { return false };
        let table = locks.table.as_ref().unwrap_or(&locks);
        let intention = Mask::from(mode).intention();
        if table.latch(TABLE_SHARD).queue(TABLE_ENTRY).is_locked_against(owner, intention) {
            return true;
        }
        // What cannot be read may be locked.
        locks.has_other(owner, key, mode).unwrap_or(true)
            || (mode == Mode::Exclusive && locks.gap_conflict(key).keeps_out(owner))
    }

    /// Frees the memory of families without locks now and since the last call. To be called now and then.
    pub fn give_back_idle(&self) {
        self.all_families().iter().for_each(|locks| locks.give_back_if_idle());
    }

    /// Counters and gauges. Visits every lock.
    pub fn stats(&self) -> LockStats {
        let c = &self.counters;
        let mut stats = LockStats {
            waits: c.waits.load(Relaxed),
            wait_us: c.wait_us.load(Relaxed),
            deadlocks: c.deadlocks.load(Relaxed),
            timeouts: c.timeouts.load(Relaxed),
            kills: c.kills.load(Relaxed),
            escalations: c.escalations.load(Relaxed),
            chain_max: c.chain_max.load(Relaxed),
            waiting: self.waits.lock().waiting,
            recycles: c.recycles.load(Relaxed),
            ..LockStats::default()
        };
        for locks in self.all_families() {
            for number in 0..locks.shards() {
                let shard = locks.latch(number);
                stats.recycles += shard.recycles();
                stats.bytes += (shard.heap_bytes() + size_of_val(&*shard)) as u64;
                for entry in shard.iter() {
                    stats.held += entry.queue.granted().len() as u64;
                    stats.entries += u64::from(!entry.queue.is_unused());
                }
            }
            let ranges = locks.ranges();
            stats.ranges += ranges.iter().count() as u64;
            stats.bytes += ranges.heap_bytes() as u64;
        }
        stats
    }

    /// All grants, waits and gap locks, by family: the table's first, then by key. Gap locks are ordered by
    /// their start, before the key there. Each lock has its grants first and then its waits in their order.
    /// Each lock is consistent in itself, but the list is not.
    pub fn list(&self) -> Vec<LockInfo> {
        let mut out = Vec::new();
        for locks in self.all_families() {
            for number in 0..locks.shards() {
                for entry in locks.latch(number).iter() {
                    let key = (number != TABLE_SHARD).then(|| entry.key.to_vec());
                    describe(locks.family, key, entry, &mut out);
                }
            }
            for (owner, span) in locks.ranges().iter() {
                out.push(describe_range(locks.family, owner, span));
            }
        }
        let place = |l: &LockInfo| (l.family, l.key.clone(), l.range_to.is_none());
        out.sort_by_cached_key(place);
        out
    }

    pub(super) fn all_families(&self) -> Vec<Arc<FamilyLocks>> {
        self.families.read().values().cloned().collect()
    }

    fn family(&self, family: FamilyId) -> Arc<FamilyLocks> {
        if let Some(locks) = self.families.read().get(&family) {
            return locks.clone();
        }
        let mut families = self.families.write();
        families.entry(family).or_insert_with(|| self.new_family(family, None)).clone()
    }

    fn new_family(&self, family: FamilyId, table: Option<Arc<FamilyLocks>>) -> Arc<FamilyLocks> {
        Arc::new(FamilyLocks::new(family, self.options.shards, table, self.observer.clone()))
    }

    /// Position of a family in the owner's list.
    pub(super) fn family_use(&self, holdings: &mut Holdings, family: FamilyId) -> usize {
        match holdings.families.iter().position(|f| f.locks.family == family) {
            Some(at) => at,
            None => {
                let locks = self.family(family);
                self.push_family(holdings, locks)
            }
        }
    }

    fn push_family(&self, holdings: &mut Holdings, locks: Arc<FamilyLocks>) -> usize {
        let table = locks.table.clone().map(|table| {
            let known = holdings.families.iter().position(|f| f.locks.family == table.family);
            known.unwrap_or_else(|| self.push_family(holdings, table))
        });
        let at = holdings.families.len();
        let table = table.unwrap_or(at) as u32;
        holdings.families.push(FamilyUse {
            locks,
            table,
            mask: Mask::NONE,
            points: 0,
            spans: 0,
            unsettled: false,
            is_advisory: false,
        });
        at
    }

    /// Takes a table lock for the family at position `at` of the owner's list, which must be a table. Returns
    /// true for a mode not held before.
    pub(super) fn table<'o>(
        &self,
        owner: &'o Arc<LockOwner>,
        mut holdings: MutexGuard<'o, Holdings>,
        at: u32,
        mode: Mask,
        policy: Policy,
    ) -> Result<(MutexGuard<'o, Holdings>, bool)> {
        let FamilyUse { ref locks, mask, .. } = holdings.families[at as usize];
        if mask.covers(mode) {
            return Ok((holdings, false));
        }
        let attempt = {
            let mut shard = locks.latch(TABLE_SHARD);
            let (queue, gap_conflict) = shard.with_gap_conflict(locks, TABLE_ENTRY);
            let attempt = queue.attempt(owner, mode, !INTENT, &gap_conflict);
            if owner.has_priority() && attempt != Attempt::Blocked {
                let mut looks = Looks::default();
                looks.add(queue, owner, mode);
                drop(shard);
                looks.send();
            }
            attempt
        };
        let first = match attempt {
            Attempt::AlreadyHeld => false,
            Attempt::Granted { first } => first,
            Attempt::Blocked => {
                let locks = locks.clone();
                drop(holdings);
                let (shard, intent, looked) = (TABLE_SHARD, !INTENT, None);
                let wanted = Wanted { locks: &locks, shard, key: b"", mode, intent, looked };
                let got = self.wait(owner, wanted, policy)?;
                holdings = owner.holdings.lock();
                got.is_some_and(|(_, first)| first)
            }
        };
        if first {
            holdings.held.push(Held { family: at, shard: TABLE_SHARD, id: TABLE_ENTRY });
        }
        let family = &mut holdings.families[at as usize];
        family.mask = family.mask.with(mode);
        Ok((holdings, true))
    }

    /// Releases the grants selected by `which`. Those without waits go first, without the wait latch.
    pub(super) fn release(
        &self,
        owner: &Arc<LockOwner>,
        families: &[FamilyUse],
        held: &mut Vec<Held>,
        which: impl Fn(&Held) -> bool,
    ) {
        let latch = |h: &Held| families[h.family as usize].locks.latch(h.shard);
        let mut wanted = Vec::new();
        // Newest first, so that the table's lock goes after those under it.
        let mut kept = Vec::new();
        while let Some(h) = held.pop() {
            if !which(&h) {
                kept.push(h);
                continue;
            }
            let mut shard = latch(&h);
            if shard.queue(h.id).has_waiters() {
                wanted.push(h);
            } else {
                shard.queue_mut(h.id).release(owner);
                shard.tidy(h.id);
            }
        }
        held.extend(kept.into_iter().rev());
        if wanted.is_empty() {
            return;
        }
        let mut wakes = Wakes::default();
        let mut waits = self.waits.lock();
        for h in &wanted {
            let mut shard = latch(h);
            shard.queue_mut(h.id).release(owner);
            let locks = &families[h.family as usize].locks;
            grant_waiters(&mut waits, locks, &mut shard, h.id, &mut wakes);
            shard.tidy(h.id);
        }
        drop(waits);
        wakes.send();
    }

    /// Makes a waiting owner read the clock again.
    #[cfg(test)]
    pub(super) fn look_at_the_clock(&self, owner: &LockOwner) {
        owner.wait_cell.wake();
    }

    /// Panics if an invariant of a queue does not hold, or a deadlock stands.
    #[cfg(test)]
    pub(super) fn check(&self) {
        let mut waiting = Vec::new();
        let waits = self.waits.lock();
        for locks in self.all_families() {
            for number in 0..locks.shards() {
                let shard = locks.latch(number);
                for (id, entry) in shard.iter_numbered() {
                    waiting.extend(entry.queue.waiting().iter().map(|r| r.owner.clone()));
                    entry.queue.check(&shard.gap_conflict_of(&locks, id));
                }
            }
        }
        assert_eq!(waiting.len() as u64, waits.waiting);
        super::wait::assert_no_deadlock(&waits, &waiting);
    }
}
