//! Advisory locks: point locks on keys of families without entries. Callers give the keys a meaning, and
//! everyone who acts on this meaning takes the lock first. They are granted, waited for, dumped, escalated
//! and released like other point locks.
//!
//! Very many shared ones of one owner become a lock on the family ([`super::LockOptions::max_advisory`]).
//!
//! The owner's list marks such a family as advisory, because no written change records these locks. The
//! prepare record lists them, and a restart takes them again (`docs/protocols.md` 4.14).

use std::sync::Arc;

use super::manager::LockManager;
use super::mode::Mask;
use super::owner::{Holdings, LockOwner};
use super::shard::{TABLE_ENTRY, TABLE_SHARD};
use super::{AdvisoryLock, Granted, Mode, Policy};
use crate::error::{Error, Result};
use crate::sync::MutexGuard;
use crate::types::FamilyId;

impl LockManager {
    /// Takes an advisory lock on a key, after the intention lock on its table. An owner's shared lock may be
    /// upgraded. Only [`LockManager::unlock_all`] releases it.
    ///
    /// # Errors
    /// As [`LockManager::lock_point`], and `LockTimeout` with the policy `Skip`.
    pub fn lock_advisory(
        &self,
        owner: &Arc<LockOwner>,
        family: FamilyId,
        key: &[u8],
        mode: Mode,
        policy: Policy,
    ) -> Result<()> {
        match self.lock_point(owner, family, key, mode, policy)? {
            None => Err(Error::LockTimeout),
            // The table's lock is listed as such.
            Some(Granted::ByTable) => Ok(()),
            Some(Granted::New | Granted::AlreadyHeld) => {
                let mut holdings = owner.holdings.lock();
                let at = self.family_use(&mut holdings, family);
                let family = &mut holdings.families[at];
                family.is_advisory = true;
                let many = self.options.max_advisory;
                // A raised one goes with an intention that a shared lock on the family cannot replace. Recovery takes what
                // was there: others had their exclusive ones alongside.
                let may = many > 0 && !owner.is_unbounded() && !family.mask.meets(Mask::IX);
                if may && family.points > 0 && family.points % many == 0 {
                    self.lock_whole_family(owner, holdings, at as u32)?;
                }
                Ok(())
            }
        }
    }

    /// Replaces the owner's shared locks in the family at position `at` of its list by one on the family.
    /// Does nothing if others hold a stronger lock there, or wait for one.
    fn lock_whole_family(
        &self,
        owner: &Arc<LockOwner>,
        holdings: MutexGuard<'_, Holdings>,
        at: u32,
    ) -> Result<()> {
        let family = &holdings.families[at as usize];
        if family.locks.latch(TABLE_SHARD).queue(TABLE_ENTRY).has_waiters() {
            return Ok(());
        }
        match self.table(owner, holdings, at, Mask::S, Policy::NoWait) {
            Err(Error::LockTimeout) => Ok(()),
            Err(e) => Err(e),
            Ok((mut holdings, _)) => {
                self.give_back_points(owner, &mut holdings, at);
                Ok(())
            }
        }
    }

    /// The owner's advisory locks, each in its strongest mode. Locks escalated to a table lock are not
    /// included.
    pub fn advisory_locks(&self, owner: &LockOwner) -> Vec<AdvisoryLock> {
        let holdings = owner.holdings.lock();
        let mut out = Vec::new();
        for held in holdings.held.iter().filter(|held| held.shard != TABLE_SHARD) {
            let family = &holdings.families[held.family as usize];
            if !family.is_advisory {
                continue;
            }
            let shard = family.locks.latch(held.shard);
            if let Some(mask) = shard.queue(held.id).mask_of(owner) {
                let mode = if mask.meets(Mask::X) { Mode::Exclusive } else { Mode::Shared };
                let key = shard.key(held.id).to_vec();
                out.push(AdvisoryLock { family: family.locks.family, mode, key });
            }
        }
        out
    }
}
