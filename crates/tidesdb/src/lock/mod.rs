//! Locks: point locks on keys, ranges, table locks, waits and deadlocks.
//!
//! Stands below transactions and knows nothing of values, logs or snapshots: an [`LockOwner`] (one for a
//! transaction) asks the [`LockManager`] for a mode on (family, key bytes) or on a family, and gets
//! it, waits for it, or gets an error. Guaranteed:
//!
//! - Two owners never hold conflicting modes of one lock. Row locks come under a table lock of the
//!   intention mode, which `lock_point` takes where the owner has none.
//! - A range keeps exclusive locks of others from all keys in it, from its publication to the end of its
//!   owner's transaction; `lock_range` returns when those granted before are gone. Ranges conflict with
//!   no ranges.
//! - Queues are fair: who asks later goes after every conflicting wait; only a conversion (an owner
//!   that holds a weaker mode, or has a range over the key) goes first. A range goes after the exclusive
//!   locks that are wanted in it when its owner holds nothing yet, and otherwise passes over each of them a
//!   bounded number of times.
//! - Every wait ends: granted, chosen as a deadlock's victim, timed out, or killed. Deadlocks are
//!   found when a wait begins, exactly: no owner is rolled back for a cycle that was not there.
//! - No latch is held while a thread waits or while the observer runs.
//!
//! Latches, in the order in which they are taken: an owner's `holdings` (by its own thread only); the
//! manager's wait latch, under which every wait begins and ends; one shard; an owner's `waits_at` and
//! the mutex of its [`wait_cell`]; a family's ranges. An uncontended lock takes the first and the third.
//!
//! ```
//! use tidesdb::internal::lock::{Granted, LockManager, LockOwner, Mode, MonotonicClock, Policy};
//! # use std::sync::Arc;
//! let locks = LockManager::new(None, Arc::new(MonotonicClock::default()));
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
mod stress_test;
#[cfg(test)]
mod table_test;
#[cfg(test)]
mod test_script;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use deadlock::{Deadlock, VictimReason};
pub use dump::{DumpedLock, HeldCounts, KeyPrefix, LockDump, LockOwnerId, KEY_PREFIX_BYTES};
pub use implicit::LockedKeys;
#[cfg(test)]
pub use listing::listing;
pub use listing::LockInfo;
pub use manager::LockManager;
pub use mode::{Mode, TableMode};
pub use owner::LockOwner;

use crate::io::Disk;
use crate::types::FamilyId;

/// The reaction to a taken lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Policy {
    /// Wait, at most for the given time; zero is as `NoWait`.
    Wait(Option<Duration>),
    /// Fail with `Error::LockTimeout` at once.
    NoWait,
    /// For a key: answer that it is locked. For a table: as `NoWait`.
    Skip,
}

impl Policy {
    pub(crate) fn may_wait(self) -> bool {
        matches!(self, Policy::Wait(limit) if limit != Some(Duration::ZERO))
    }
}

/// Keys of a family: the first, and the first after them (`None`: no end).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Range {
    /// The family.
    pub family: FamilyId,
    /// The first key that may be in it.
    pub from: Vec<u8>,
    /// The first key after it.
    pub to: Option<Vec<u8>>,
}

/// An advisory lock of one owner.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AdvisoryLock {
    /// The family.
    pub family: FamilyId,
    /// The strongest mode that the owner has on the key.
    pub mode: Mode,
    /// The key.
    pub key: Vec<u8>,
}

/// A lock that the owner has after the call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Granted {
    /// This call took or strengthened it; to be given back with [`LockManager::unlock_point`].
    New,
    /// The owner had it, or a stronger one. For a point lock the call is counted: the lock outlives an
    /// `unlock_point` of whoever took it first.
    AlreadyHeld,
    /// For a point lock: the owner has one on the whole table, and none was taken on the key.
    ByTable,
}

/// Hears of waits. Called by the waiting owner's thread, without any latch held; may block.
pub trait WaitObserver: Send + Sync {
    /// `waiter` will park now, for owners with these cookies: holders in its way and conflicting waits
    /// before it; several may be equal, and 0 is an owner without a cookie. None of them has returned
    /// from `unlock_all` before this call returns.
    fn wait_begins(&self, waiter: &LockOwner, holders: &[u64]);
    /// The wait of which `wait_begins` told is over, whatever its end.
    fn wait_ends(&self, waiter: &LockOwner);
    /// A deadlock was found and its victim chosen. Called by the thread whose wait closed the cycle, before anybody of
    /// it goes on; none of its owners has returned from `unlock_all` before this call returns.
    fn deadlock(&self, deadlock: &Deadlock) {
        let _ = deadlock;
    }
    /// Whether an insertion of one of two appliers of a replica and a range of the other conflict: not when
    /// the order of their commits is fixed already. Both hold locks or wait. Called under latches: must not
    /// block, nor call the lock manager.
    fn gaps_conflict(&self, a: &LockOwner, b: &LockOwner) -> bool {
        let _ = (a, b);
        true
    }
}

/// The clock that waits are measured with.
pub trait Clock: Send + Sync {
    /// Monotonic time in microseconds from an arbitrary start.
    fn now_micros(&self) -> u64;
}

/// The clock of the operating system.
#[derive(Debug)]
pub struct MonotonicClock(Instant);

impl Default for MonotonicClock {
    fn default() -> Self {
        MonotonicClock(Instant::now())
    }
}

impl Clock for MonotonicClock {
    fn now_micros(&self) -> u64 {
        self.0.elapsed().as_micros() as u64
    }
}

impl Clock for Arc<dyn Disk> {
    fn now_micros(&self) -> u64 {
        Disk::now_micros(&**self)
    }
}

/// Bounds and widths of a lock manager.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LockOptions {
    /// Most point locks and ranges that one owner holds; 0: no bound.
    pub max_locks: usize,
    /// Point locks and ranges of all owners together, those with few left out, above which an owner that
    /// has many escalates where it can do so at once; above twice as many as at `max_locks`. 0: no bound.
    pub max_total: usize,
    /// Shared advisory locks of one owner in one family after which they become a lock on the family, where that needs
    /// no wait; 0: no bound. In a statement that takes very many, finding them again costs more than they are worth.
    pub max_advisory: usize,
    /// At a bound: `true` trades the point locks under one table for a lock on that table, `false`
    /// fails with `Error::TooManyLocks`.
    pub escalate: bool,
    /// Shards of a family's point locks, rounded up to a power of two, 1 to 64.
    pub shards: usize,
}

impl Default for LockOptions {
    /// No bound; two shards for each core, so that two running threads seldom meet.
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(2, |n| n.get());
        LockOptions { max_locks: 0, max_total: 0, max_advisory: 10_000, escalate: true, shards: cores * 2 }
    }
}

/// Counters since the start, and gauges.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct LockStats {
    /// Waits begun.
    pub waits: u64,
    /// Microseconds waited, in waits that ended.
    pub wait_us: u64,
    /// Deadlocks found, each with one owner rolled back.
    pub deadlocks: u64,
    /// Waits that timed out.
    pub timeouts: u64,
    /// Waits interrupted by a kill.
    pub kills: u64,
    /// Times an owner's point locks became a table lock.
    pub escalations: u64,
    /// Longest path of owners waiting for one another that a deadlock search followed.
    pub chain_max: u64,
    /// Owners that wait now.
    pub waiting: u64,
    /// Grants now, table locks included.
    pub held: u64,
    /// Keys and tables that somebody has or wants now.
    pub entries: u64,
    /// Intervals of ranges now.
    pub ranges: u64,
    /// Times an entry was used again for another key.
    pub recycles: u64,
    /// Bytes that the lock table takes now, without the owners' own lists.
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
