//! The bounds on locks and the reaction to reaching them. The point locks of one table become a lock on the
//! table, or the statement fails.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;

use super::manager::LockManager;
use super::mode::Mask;
use super::owner::{Holdings, LockOwner};
use super::shard::TABLE_SHARD;
use super::Policy;
use crate::error::{Error, Result};
use crate::sync::MutexGuard;

/// Locks of an owner for each addition to the manager's sum. Small transactions never touch the sum.
const STEP: usize = if cfg!(simulation) { 4 } else { 1024 };

/// The distance of an owner, or of all together, to the bounds on locks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LockBudget {
    Enough,
    /// Escalate if this needs no wait.
    Scarce,
    /// Escalate or fail.
    Spent,
}

impl LockManager {
    /// The owner's distance to the bounds.
    pub(super) fn budget(&self, owner: &LockOwner, holdings: &mut Holdings) -> LockBudget {
        let max_locks = self.options.max_locks;
        let max_total = self.max_total.load(Relaxed);
        if owner.is_unbounded() {
            return LockBudget::Enough;
        }
        if max_locks > 0 && holdings.points >= max_locks {
            return LockBudget::Spent;
        }
        if max_total == 0 || holdings.points < STEP {
            return LockBudget::Enough;
        }
        if holdings.points >= holdings.counted + STEP {
            self.total.fetch_add(STEP, Relaxed);
            holdings.counted += STEP;
        }
        match self.total.load(Relaxed) {
            total if total > max_total.saturating_mul(2) => LockBudget::Spent,
            // A try at every lock would be a latch at every lock.
            total if total > max_total && holdings.points % STEP == 0 => LockBudget::Scarce,
            _ => LockBudget::Enough,
        }
    }

    /// Brings the owner below the bound on point locks. Locks the table with most of them, and releases the
    /// point locks and gap locks under it. For an intent it does not wait: other owners in the table are a
    /// conflict.
    pub(super) fn escalate<'o>(
        &self,
        owner: &'o Arc<LockOwner>,
        holdings: MutexGuard<'o, Holdings>,
        policy: Policy,
        budget: LockBudget,
        intent: bool,
    ) -> Result<MutexGuard<'o, Holdings>> {
        let too_many = || Error::TooManyLocks {
            bound: match self.options.max_locks {
                0 => self.max_total.load(Relaxed),
                own => own,
            },
        };
        let most = holdings.families.iter().enumerate().max_by_key(|(_, f)| f.points);
        let Some((at, most)) = most.filter(|(_, f)| self.options.escalate && f.points > 0) else {
            return if budget == LockBudget::Spent { Err(too_many()) } else { Ok(holdings) };
        };
        let mode = if most.mask.meets(Mask::IX) { Mask::X } else { Mask::S };
        let table = at as u32;
        let policy = if budget == LockBudget::Spent && !intent { policy } else { Policy::NoWait };
        let mut holdings = match self.table(owner, holdings, table, mode, policy) {
            Err(Error::LockTimeout) if budget == LockBudget::Scarce => return Ok(owner.holdings.lock()),
            Err(Error::LockTimeout) if intent => return Err(Error::Deadlock),
            Err(Error::LockTimeout) => return Err(too_many()),
            other => other?.0,
        };
        self.give_back_points(owner, &mut holdings, table);
        Ok(holdings)
    }

    /// Releases the point locks and gap locks covered by the owner's new lock on the table at this position.
    pub(super) fn give_back_points(&self, owner: &Arc<LockOwner>, holdings: &mut Holdings, table: u32) {
        self.counters.escalations.fetch_add(1, Relaxed);
        let Holdings { families, held, points, .. } = &mut *holdings;
        self.release(owner, families, held, |h| {
            h.shard != TABLE_SHARD && families[h.family as usize].table == table
        });
        self.take_back_ranges(owner, families, |f| f.table == table);
        *points -= std::mem::take(&mut families[table as usize].points);
        self.untell(holdings);
    }

    /// Changes the bound on all owners' locks together, effective from the next lock on.
    pub fn set_max_total(&self, max_total: usize) {
        self.max_total.store(max_total, Relaxed);
    }

    /// Subtracts released locks of the owner from the manager's sum.
    pub(super) fn untell(&self, holdings: &mut Holdings) {
        let keep = holdings.points / STEP * STEP;
        if keep < holdings.counted {
            self.total.fetch_sub(holdings.counted - keep, Relaxed);
            holdings.counted = keep;
        }
    }

    /// True if the owner has many locks while all owners are near their common bound. An owner able to make
    /// its locks implicit does so then.
    pub fn is_scarce(&self, owner: &LockOwner) -> bool {
        let max_total = self.max_total.load(Relaxed);
        max_total > 0
            && self.total.load(Relaxed) > max_total - max_total / 8
            && owner.holdings.lock().counted > 0
    }
}
