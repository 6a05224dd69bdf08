//! Locks: point locks on keys, gap locks, table locks, waits and deadlocks.
//!
//! The module is below transactions and independent of values, logs and snapshots. An [`LockOwner`] (one for
//! each transaction) asks the [`LockManager`] for a mode on (family, key bytes) or on a family. It gets the
//! lock, waits for it, or gets an error. Guarantees:
//!
//! - Two owners never hold conflicting modes of one lock. Row locks come under a table lock of the intention
//!   mode, taken by `lock_point` for an owner without one. The modes are those of Gray et al. (1976).
//! - A gap lock keeps exclusive locks of others from all keys in it, from its publication to the end of its
//!   owner's transaction. `lock_range` returns once those granted before are gone. Gap locks do not conflict
//!   with each other.
//! - Queues are fair. A later request goes after every conflicting wait. Only a conversion (the owner holds a
//!   weaker mode, or a gap lock over the key) goes first. The gap lock of an owner without locks goes after
//!   the exclusive locks wanted in it. With locks, it overtakes each of them a bounded number of times.
//! - Every wait ends: granted, chosen as a deadlock's victim, timed out, or killed. Deadlock detection at the
//!   beginning of a wait is exact: no owner is rolled back for a cycle that does not exist.
//! - A request of an owner with priority precedes all waits of owners without. These get no lock in conflict
//!   with its wait from then on, not even by a conversion. Gap locks alone may slip in, and the observer hears
//!   of each owner in the way (`docs/protocols.md` 4.15).
//! - No latch is held while a thread waits or while the observer runs.
//!
//! Latches, in their order: an owner's `holdings` (by its own thread only); the manager's wait latch, under
//! which every wait begins and ends; one shard; an owner's `waits_at` and the mutex of its [`wait_cell`]; a
//! family's gap locks. An uncontended lock takes the first and the third.
//!
//! ```
//! use tidesdb::internal::lock::{Granted, LockManager, LockOwner, Mode, Policy};
//! # use std::sync::Arc;
//! # use tidesdb::internal::host::SystemClock;
//! let locks = LockManager::new(None, Arc::new(SystemClock));
//! let (a, b) = (LockOwner::new(1), LockOwner::new(2));
//! assert_eq!(locks.lock_point(&a, 7, b"k", Mode::Exclusive, Policy::NoWait)?, Some(Granted::New));
//! assert_eq!(locks.lock_point(&b, 7, b"k", Mode::Shared, Policy::Skip)?, None);
//! locks.unlock_all(&a);
//! assert_eq!(locks.lock_point(&b, 7, b"k", Mode::Shared, Policy::Skip)?, Some(Granted::New));
//! locks.unlock_all(&b);
//! # Ok::<(), tidesdb::Error>(())
//! ```

mod advisory;
mod deadlock;
mod dump;
mod escalation;
mod gap_lock;
mod gap_set;
mod implicit;
mod index;
mod key;
mod listing;
mod manager;
mod mode;
mod owner;
mod point;
mod queue;
mod shard;
mod slab;
mod wait;
mod wait_cell;

#[cfg(test)]
mod advisory_test;
#[cfg(test)]
mod deadlock_test;
#[cfg(test)]
mod gap_random_test;
#[cfg(test)]
mod gap_test;
#[cfg(test)]
mod implicit_entries_test;
#[cfg(test)]
mod implicit_random_test;
#[cfg(test)]
mod implicit_test;
#[cfg(test)]
mod point_test;
#[cfg(test)]
mod priority_test;
#[cfg(test)]
mod stress_test;
#[cfg(test)]
mod table_test;
#[cfg(test)]
mod test_script;

use std::fmt;
use std::time::Duration;

pub use deadlock::{Deadlock, VictimReason};
pub use dump::{DumpedLock, HeldCounts, KeyPrefix, LockDump, LockOwnerId, KEY_PREFIX_BYTES};
pub use implicit::LockedKeys;
#[cfg(test)]
pub use listing::listing;
pub use listing::LockInfo;
pub use manager::LockManager;
pub use mode::{Mode, TableMode};
pub use owner::LockOwner;

use crate::host::{Spawn, SystemThreads};
use crate::types::FamilyId;

/// The reaction to a lock held by others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Policy {
    /// Wait, at most for the given time; zero is like `NoWait`.
    Wait(Option<Duration>),
    /// Fail with `Error::LockTimeout` at once.
    NoWait,
    /// For a key: return `None`. For a table: like `NoWait`.
    Skip,
}

impl Policy {
    pub(crate) fn may_wait(self) -> bool {
        matches!(self, Policy::Wait(limit) if limit != Some(Duration::ZERO))
    }
}

/// A range of keys of a family, from `from` (included) to `to` (excluded).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Range {
    /// The family.
    pub family: FamilyId,
    /// Its first possible key.
    pub from: Vec<u8>,
    /// The first key after it; `None`: no end.
    pub to: Option<Vec<u8>>,
}

/// An advisory lock of one owner.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AdvisoryLock {
    /// The family.
    pub family: FamilyId,
    /// The owner's strongest mode on the key.
    pub mode: Mode,
    /// The key.
    pub key: Vec<u8>,
}

/// The owner's lock after a successful call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Granted {
    /// This call took or strengthened it; to be released with [`LockManager::unlock_point`].
    New,
    /// The owner had it, or a stronger one. The call counts for a point lock: the lock outlives an
    /// `unlock_point` by the owner's first caller.
    AlreadyHeld,
    /// For a point lock: the owner has a lock on the whole table, and none was taken on the key.
    ByTable,
}

/// An observer of waits. Called by the waiting owner's thread, without any latch held; may block.
pub trait WaitObserver: Send + Sync {
    /// `waiter` is about to park, for owners with these cookies: holders in its way and conflicting waits
    /// before it. Several may be equal, and 0 is an owner without a cookie. None of them returns from
    /// `unlock_all` before this call returns.
    fn wait_begins(&self, waiter: &LockOwner, holders: &[u64]);
    /// These owners came into the way of `waiter`, which has priority, after the last report of its wait. As
    /// `wait_begins` otherwise. The wait's time limit goes on meanwhile.
    fn wait_goes_on(&self, waiter: &LockOwner, holders: &[u64]) {
        let _ = (waiter, holders);
    }
    /// The wait reported by `wait_begins` has ended, whatever its outcome.
    fn wait_ends(&self, waiter: &LockOwner);
    /// A deadlock was found and its victim chosen. Called by the thread whose wait closed the cycle, before
    /// any of its owners goes on. None of them returns from `unlock_all` before this call returns.
    fn deadlock(&self, deadlock: &Deadlock) {
        let _ = deadlock;
    }
    /// Decides if an insertion of one of two appliers of a replica and a gap lock of the other conflict. They
    /// do not if the order of their commits is fixed already. Both hold locks or wait. Called under latches:
    /// must not block, nor call the lock manager.
    fn gaps_conflict(&self, a: &LockOwner, b: &LockOwner) -> bool {
        let _ = (a, b);
        true
    }
}

/// Bounds and widths of a lock manager.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LockOptions {
    /// Most point locks and gap locks of one owner; 0: no bound.
    pub max_locks: usize,
    /// Bound on the point locks and gap locks of all owners with many of them. Above it such an owner
    /// escalates if this needs no wait. Above twice the bound it escalates as at `max_locks`. 0: no bound.
    pub max_total: usize,
    /// Shared advisory locks of one owner in one family before they become a lock on the family, if this
    /// needs no wait; 0: no bound. In a statement with very many of them, finding them again costs more than
    /// they are worth.
    pub max_advisory: usize,
    /// At a bound, `true` replaces the point locks under one table by a lock on the table. `false` fails with
    /// `Error::TooManyLocks`.
    pub escalate: bool,
    /// Shards of a family's point locks, rounded up to a power of two, 1 to 64.
    pub shards: usize,
}

impl Default for LockOptions {
    /// No bound; two shards for each core, so two running threads seldom meet.
    fn default() -> Self {
        LockOptions::of_cores(SystemThreads.cores())
    }
}

impl LockOptions {
    /// No bound, on a machine of so many cores.
    pub fn of_cores(cores: usize) -> LockOptions {
        LockOptions { max_locks: 0, max_total: 0, max_advisory: 10_000, escalate: true, shards: cores * 2 }
    }
}

/// Counters since the start, and gauges.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct LockStats {
    /// Waits begun.
    pub waits: u64,
    /// Microseconds of ended waits.
    pub wait_us: u64,
    /// Deadlocks found, each with one owner rolled back.
    pub deadlocks: u64,
    /// Timed out waits.
    pub timeouts: u64,
    /// Waits interrupted by a kill.
    pub kills: u64,
    /// Escalations of an owner's point locks to a table lock.
    pub escalations: u64,
    /// Length of the longest path of owners in a deadlock search.
    pub chain_max: u64,
    /// Number of waiting owners.
    pub waiting: u64,
    /// Number of present grants, table locks included.
    pub held: u64,
    /// Number of keys and tables with a holder or waiter.
    pub entries: u64,
    /// Number of intervals in gap locks.
    pub ranges: u64,
    /// Reuses of an entry for another key.
    pub recycles: u64,
    /// Bytes of the lock table, without the owners' own lists.
    pub bytes: u64,
}

impl fmt::Debug for LockStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "waits {} ({} us), deadlocks {}, timeouts {}, kills {}, escalations {}, chain_max {}; \
             now waiting {}, held {}, entries {}, ranges {}, bytes {}",
            self.waits,
            self.wait_us,
            self.deadlocks,
            self.timeouts,
            self.kills,
            self.escalations,
            self.chain_max,
            self.waiting,
            self.held,
            self.entries,
            self.ranges,
            self.bytes
        )
    }
}
