//! Owners of locks: one [`LockOwner`] for each transaction, with the list of its locks and its parking place.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering::*};
use std::sync::Arc;

use super::implicit::OwnImplicitLocks;
use super::mode::Mask;
use super::shard::{EntryId, EntryPlace, FamilyLocks};
use super::wait_cell::WaitCell;
use crate::sync::Mutex;

/// A holder of locks: one for each transaction. The next transaction may reuse it ([`LockOwner::restart`])
/// and save the allocations.
///
/// One thread at a time may lock and unlock. Any thread may call the setters and `LockManager::kill`, and
/// make reports. The lock table keeps an owner with locks alive.
pub struct LockOwner {
    id: AtomicU64,
    cookie: AtomicU64,
    session: AtomicU64,
    /// Start of its wait by the manager's clock; 0 without a wait.
    pub(super) waits_since: AtomicU64,
    written: AtomicU64,
    preference: AtomicI32,
    applier: AtomicBool,
    priority: AtomicBool,
    keeps_reads: AtomicBool,
    unbounded: AtomicBool,
    /// Number of reports in progress with this owner's name; `unlock_all` waits until it is 0.
    pub(super) pins: AtomicU32,
    /// Number of the last deadlock search to visit this owner.
    pub(super) seen: AtomicU64,
    pub(super) wait_cell: WaitCell,
    /// The place of the owner's wait. Changes only under the manager's wait latch.
    pub(super) waits_at: Mutex<Option<EntryPlace>>,
    pub(super) holdings: Mutex<Holdings>,
}

/// An owner's locks.
#[derive(Default)]
pub(super) struct Holdings {
    /// Families touched by the owner, with their lock sets.
    pub(super) families: Vec<FamilyUse>,
    /// All entries with a grant of the owner.
    pub(super) held: Vec<Held>,
    /// Number of grants, from the front, possibly older than the present statement. (A newer grant in the
    /// place of an older one counts as older.)
    pub(super) before_statement: usize,
    /// Number of point locks among them.
    pub(super) points: usize,
    /// Number of these added to the manager's sum; see [`super::LockOptions::max_total`].
    pub(super) counted: usize,
    /// Exclusive locks without entries.
    pub(super) implicit: Option<OwnImplicitLocks>,
}

impl Holdings {
    /// True with a lock on a key, or on a table in a mode other than intention.
    pub(super) fn has_any(&self) -> bool {
        let strong = |family: &FamilyUse| family.mask.meets(Mask::S.with(Mask::X));
        self.points > 0 || self.implicit.is_some() || self.families.iter().any(strong)
    }
}

/// A family in an owner's list.
pub(super) struct FamilyUse {
    pub(super) locks: Arc<FamilyLocks>,
    /// Position in the list of the family whose table lock covers this one (may be itself).
    pub(super) table: u32,
    /// Modes of the table lock; used only if `table` is the family's own position.
    pub(super) mask: Mask,
    /// Point locks in families under this table; used like `mask`.
    pub(super) points: usize,
    /// Intervals of the owner's gap locks in this family; they count as point locks.
    pub(super) spans: usize,
    /// True after a failed wait for the holders of locks in such an interval. They must be searched again.
    pub(super) unsettled: bool,
    /// True if the point locks are advisory: the family has no entries.
    pub(super) is_advisory: bool,
}

/// A grant in an owner's list.
#[derive(Clone, Copy)]
pub(super) struct Held {
    /// Position of the family in the list.
    pub(super) family: u32,
    pub(super) shard: u32,
    pub(super) id: EntryId,
}

impl LockOwner {
    /// A new owner. `id` is its name in reports and its age: of two owners, the one with the larger id is
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
            priority: AtomicBool::new(false),
            keeps_reads: AtomicBool::new(false),
            unbounded: AtomicBool::new(false),
            pins: AtomicU32::new(0),
            seen: AtomicU64::new(0),
            wait_cell: WaitCell::default(),
            waits_at: Mutex::new(None),
            holdings: Mutex::new(Holdings::default()),
        })
    }

    /// Prepares the owner, which must hold no lock, for a new transaction: sets id and age, and clears keys
    /// written, preference, priority and kill. The cookie stays.
    pub fn restart(&self, id: u64) {
        debug_assert!(self.holdings.lock().held.is_empty(), "an owner restarts without locks");
        self.id.store(id, Relaxed);
        self.written.store(0, Relaxed);
        self.preference.store(0, Relaxed);
        self.applier.store(false, Relaxed);
        self.priority.store(false, Relaxed);
        self.keeps_reads.store(false, Relaxed);
        self.unbounded.store(false, Relaxed);
        self.wait_cell.clear_kill();
    }

    /// The id given to [`LockOwner::new`] or [`LockOwner::restart`].
    pub fn id(&self) -> u64 {
        self.id.load(Relaxed)
    }

    /// The embedding server's name for the transaction in reports of waits; 0 is "nothing". The owner's
    /// `unlock_all` returns only after all reports with its name, so the cookie's target need not live
    /// longer.
    pub fn cookie(&self) -> u64 {
        self.cookie.load(Acquire)
    }

    /// Sets the cookie. Not while the owner holds or waits for locks; see `LockManager::forget_cookie`.
    pub fn set_cookie(&self, cookie: u64) {
        self.cookie.store(cookie, Release);
    }

    /// The embedding server's number of the transaction's session, for dumps of locks; 0: none.
    pub fn session(&self) -> u64 {
        self.session.load(Relaxed)
    }

    /// Sets the session's number; [`LockOwner::restart`] keeps it.
    pub fn set_session(&self, session: u64) {
        self.session.store(session, Relaxed);
    }

    /// Number of keys written, as last set.
    pub fn written(&self) -> u64 {
        self.written.load(Relaxed)
    }

    /// Sets the number of keys written. Of the owners in a deadlock, the one with the fewest is rolled back.
    pub fn set_written(&self, keys: u64) {
        self.written.store(keys, Relaxed);
    }

    /// The server's preference in deadlocks, as last set.
    pub fn preference(&self) -> i32 {
        self.preference.load(Relaxed)
    }

    /// Sets the server's preference in deadlocks; it precedes the number of keys written. The owner with the
    /// largest value is rolled back. 0 is usual; a transaction hard to repeat has less.
    pub fn set_preference(&self, preference: i32) {
        self.preference.store(preference, Relaxed);
    }

    /// Marks the transaction as one of a replica's appliers. [`super::WaitObserver::gaps_conflict`] then
    /// decides about an insertion and a gap lock of two appliers. Cleared by `restart`.
    pub fn set_applier(&self, applier: bool) {
        self.applier.store(applier, Relaxed);
    }

    /// Gives the owner's requests priority: they precede all waits of owners without priority. The owner is no
    /// deadlock's victim while the cycle has another owner, and has no bounds on locks. For transactions that
    /// must not fail, as those of a cluster. Not while the owner waits. Cleared by `restart`.
    pub fn set_priority(&self, priority: bool) {
        self.priority.store(priority, Relaxed);
    }

    /// As last set.
    pub fn has_priority(&self) -> bool {
        self.priority.load(Relaxed)
    }

    /// Keeps the transaction's reads unchanged until its end, even if it is prepared and another process
    /// ends it (SERIALIZABLE). Cleared by `restart`.
    pub fn set_keeps_reads(&self, keeps_reads: bool) {
        self.keeps_reads.store(keeps_reads, Relaxed);
    }

    /// As last set.
    pub fn keeps_reads(&self) -> bool {
        self.keeps_reads.load(Relaxed)
    }

    /// Exempts the owner from the bounds on locks: it takes its former locks again after a restart. A table
    /// lock in their place would conflict with locks that coexisted with them. Cleared by `restart`.
    pub fn set_unbounded(&self, unbounded: bool) {
        self.unbounded.store(unbounded, Relaxed);
    }

    /// True if the bounds on locks do not hold for the owner.
    pub(super) fn is_unbounded(&self) -> bool {
        self.unbounded.load(Relaxed) || self.has_priority()
    }

    pub(crate) fn is_applier(&self) -> bool {
        self.applier.load(Relaxed)
    }

    /// True while a kill is in effect.
    pub fn is_killed(&self) -> bool {
        self.wait_cell.is_killed()
    }
}

impl fmt::Debug for LockOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockOwner").field("id", &self.id()).field("written", &self.written()).finish()
    }
}
