//! Who locks: one [`LockOwner`] for a transaction, with the list of what it holds and its parking place.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering::*};
use std::sync::Arc;

use super::implicit::OwnImplicitLocks;
use super::mode::Mask;
use super::shard::{EntryId, EntryPlace, FamilyLocks};
use super::wait_cell::WaitCell;
use crate::sync::Mutex;

/// A holder of locks: one for each transaction. It may be used again for the next one
/// ([`LockOwner::restart`]), which saves the allocations.
///
/// Calls that lock or unlock come from one thread at a time; the setters, `LockManager::kill` and
/// reports may come from any thread. An owner that holds locks is kept alive by the lock table.
pub struct LockOwner {
    id: AtomicU64,
    cookie: AtomicU64,
    session: AtomicU64,
    /// When its wait began, by the manager's clock; 0: it does not wait.
    pub(super) waits_since: AtomicU64,
    written: AtomicU64,
    preference: AtomicI32,
    applier: AtomicBool,
    keeps_reads: AtomicBool,
    unbounded: AtomicBool,
    /// Reports of waits under way that name this owner; `unlock_all` waits until there are none.
    pub(super) pins: AtomicU32,
    /// Number of the last deadlock detection that saw this owner.
    pub(super) seen: AtomicU64,
    pub(super) wait_cell: WaitCell,
    /// The owner's place of waiting. Changes only under the manager's wait latch.
    pub(super) waits_at: Mutex<Option<EntryPlace>>,
    pub(super) holdings: Mutex<Holdings>,
}

/// An owner's locks.
#[derive(Default)]
pub(super) struct Holdings {
    /// Families that it touched, with their lock sets.
    pub(super) families: Vec<FamilyUse>,
    /// Every entry in which it has a grant.
    pub(super) held: Vec<Held>,
    /// So many of them, the first ones, may be older than the present statement. (Later ones that took the place of an
    /// older one count as that.)
    pub(super) before_statement: usize,
    /// How many of them are point locks.
    pub(super) points: usize,
    /// Of these, how many are told to the manager's sum; see [`super::LockOptions::max_total`].
    pub(super) told: usize,
    /// Exclusive locks without entries.
    pub(super) implicit: Option<OwnImplicitLocks>,
}

impl Holdings {
    /// Whether there is a key, or a table in a mode other than intention.
    pub(super) fn has_any(&self) -> bool {
        let strong = |family: &FamilyUse| family.mask.meets(Mask::S.with(Mask::X));
        self.points > 0 || self.implicit.is_some() || self.families.iter().any(strong)
    }
}

/// A family in an owner's list.
pub(super) struct FamilyUse {
    pub(super) locks: Arc<FamilyLocks>,
    /// Place in the list of the family whose table lock covers this one (may be itself).
    pub(super) table: u32,
    /// Modes of the table lock; of use only where `table` is the place itself.
    pub(super) mask: Mask,
    /// Point locks held in families under this table; as for `mask`.
    pub(super) points: usize,
    /// Intervals of the owner's ranges in this family; they count as point locks.
    pub(super) spans: usize,
    /// A wait for the holders of locks in such an interval failed: they have to be looked for anew.
    pub(super) unsettled: bool,
    /// The locks on keys are advisory ones: the family has no entries.
    pub(super) is_advisory: bool,
}

/// A grant in an owner's list.
#[derive(Clone, Copy)]
pub(super) struct Held {
    /// Place of the family in the list.
    pub(super) family: u32,
    pub(super) shard: u32,
    pub(super) id: EntryId,
}

impl LockOwner {
    /// A new owner. `id` names it in reports and is its age: of two, the one with the larger id is the
    /// younger.
    pub fn new(id: u64) -> Arc<LockOwner> {
        Arc::new(LockOwner {
            id: AtomicU64::new(id),
            cookie: AtomicU64::new(0),
            session: AtomicU64::new(0),
            waits_since: AtomicU64::new(0),
            written: AtomicU64::new(0),
            preference: AtomicI32::new(0),
            applier: AtomicBool::new(false),
            keeps_reads: AtomicBool::new(false),
            unbounded: AtomicBool::new(false),
            pins: AtomicU32::new(0),
            seen: AtomicU64::new(0),
            wait_cell: WaitCell::default(),
            waits_at: Mutex::new(None),
            holdings: Mutex::new(Holdings::default()),
        })
    }

    /// Makes the owner, which must hold nothing, that of a new transaction: sets id and age and clears
    /// what was written, the preference and the kill. The cookie stays.
    pub fn restart(&self, id: u64) {
        debug_assert!(self.holdings.lock().held.is_empty(), "an owner restarts without locks");
        self.id.store(id, Relaxed);
        self.written.store(0, Relaxed);
        self.preference.store(0, Relaxed);
        self.applier.store(false, Relaxed);
        self.keeps_reads.store(false, Relaxed);
        self.unbounded.store(false, Relaxed);
        self.wait_cell.clear_kill();
    }

    /// The id given to [`LockOwner::new`] or [`LockOwner::restart`].
    pub fn id(&self) -> u64 {
        self.id.load(Relaxed)
    }

    /// What the embedding server knows the transaction by in reports of waits; 0 is "nothing". A
    /// report that names this owner ends before the owner's `unlock_all` returns, so the cookie may
    /// point to something that lives until then.
    pub fn cookie(&self) -> u64 {
        self.cookie.load(Acquire)
    }

    /// Sets the cookie. Not while the owner holds or waits for locks; see `LockManager::forget_cookie`.
    pub fn set_cookie(&self, cookie: u64) {
        self.cookie.store(cookie, Release);
    }

    /// What the embedding server calls the session whose transactions these are, in dumps of locks; 0: none.
    pub fn session(&self) -> u64 {
        self.session.load(Relaxed)
    }

    /// Sets the number of the session; it stays over [`LockOwner::restart`].
    pub fn set_session(&self, session: u64) {
        self.session.store(session, Relaxed);
    }

    /// Number of keys written, as last set.
    pub fn written(&self) -> u64 {
        self.written.load(Relaxed)
    }

    /// Sets the number of keys written: of the owners in a deadlock, the one with the fewest is rolled
    /// back.
    pub fn set_written(&self, keys: u64) {
        self.written.store(keys, Relaxed);
    }

    /// The server's wish about deadlocks, as last set.
    pub fn preference(&self) -> i32 {
        self.preference.load(Relaxed)
    }

    /// Sets the server's wish about deadlocks, which goes before the number of keys written: the owner
    /// with the largest value is rolled back. 0 is usual; a transaction that is hard to repeat has
    /// less.
    pub fn set_preference(&self, preference: i32) {
        self.preference.store(preference, Relaxed);
    }

    /// Says that the transaction is one of a replica's appliers: whether an insertion and a range of two
    /// of these conflict is asked of [`super::WaitObserver::gaps_conflict`]. Cleared by `restart`.
    pub fn set_applier(&self, applier: bool) {
        self.applier.store(applier, Relaxed);
    }

    /// Says that what the transaction has read must stay as it is until it ends, also when it is prepared and
    /// the process is not the one that began it (SERIALIZABLE). Cleared by `restart`.
    pub fn set_keeps_reads(&self, keeps_reads: bool) {
        self.keeps_reads.store(keeps_reads, Relaxed);
    }

    /// As last set.
    pub fn keeps_reads(&self) -> bool {
        self.keeps_reads.load(Relaxed)
    }

    /// Says that the bounds on locks do not hold for the owner: it takes again what it had in an earlier life,
    /// and a lock on a table in their place would meet others that were there with it. Cleared by `restart`.
    pub fn set_unbounded(&self, unbounded: bool) {
        self.unbounded.store(unbounded, Relaxed);
    }

    pub(super) fn is_unbounded(&self) -> bool {
        self.unbounded.load(Relaxed)
    }

    pub(crate) fn is_applier(&self) -> bool {
        self.applier.load(Relaxed)
    }

    /// Whether a kill is in effect.
    pub fn is_killed(&self) -> bool {
        self.wait_cell.is_killed()
    }
}

impl fmt::Debug for LockOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockOwner").field("id", &self.id()).field("written", &self.written()).finish()
    }
}
