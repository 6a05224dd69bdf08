//! The locks of a transaction: on tables, keys, gaps and ranges.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::{Isolation, OnMissing, Transaction};
use crate::error::{Error, Result};
use crate::lock::{Granted, Mode, Policy, TableMode};
use crate::mutant::{self, Mutant};
use crate::store::family::Family;
use crate::txn::gap::gap_around;
use crate::types::{FamilyId, MAX_KEY_LEN};

/// A transaction's knowledge of its locks beyond the lock table.
///
/// The two flags are cleared only at the transaction's end: they record past events, and undoing changes does
/// not revert those.
#[derive(Debug)]
pub(super) struct LockState {
    /// Longest wait for a lock; `None`: no limit.
    pub(super) timeout: Option<Duration>,
    /// Some locked key has a newest version newer than the snapshot, or never compared with it. From then on,
    /// holding a lock no longer shows that its key was compared.
    pub(super) uncompared: AtomicBool,
    /// Some key was put without a lock: `prepare` locks it.
    pub(super) unlocked_puts: bool,
}

impl Default for LockState {
    /// Of a transaction without locks.
    fn default() -> LockState {
        LockState {
            timeout: Some(Duration::from_secs(50)),
            uncompared: AtomicBool::new(false),
            unlocked_puts: false,
        }
    }
}

impl LockState {
    /// The transaction ends.
    pub(super) fn clear(&mut self) {
        *self.uncompared.get_mut() = false;
        self.unlocked_puts = false;
    }
}

/// The error for a too long key.
pub(crate) fn check_key(key: &[u8]) -> Result<()> {
    match key.len() {
        0..=MAX_KEY_LEN => Ok(()),
        size => Err(Error::InvalidArgument(format!("a key of {size} bytes is longer than {MAX_KEY_LEN}"))),
    }
}

impl Transaction {
    /// Locks the table of `family` until the transaction ends.
    pub fn lock_table(&mut self, family: &Family, mode: TableMode) -> Result<()> {
        self.require_active()?;
        if self.options.unlocked {
            return Ok(());
        }
        self.transactions.locks.lock_table(&self.owner, family.id(), mode, self.policy(false)).map(|_| ())
    }

    /// Locks a key exclusively until the transaction ends, existing or not, without reading it. Errors: those
    /// of a wait for a lock.
    pub fn lock(&mut self, family: &Family, key: &[u8]) -> Result<()> {
        self.require_active()?;
        family.check_live()?;
        if self.lock_key(family.id(), key, Mode::Exclusive, false)? == Some(Granted::New) {
            *self.locks.uncompared.get_mut() = true;
        }
        Ok(())
    }

    /// Takes an advisory lock on a key of a family without entries, until the transaction ends. A shared one
    /// may be raised. Undoing a statement or to a savepoint keeps it, and so does a restart of a prepared
    /// transaction.
    ///
    /// It is a lock in every transaction, optimistic and unlocked ones too, and is not compared with the
    /// snapshot. A write under it is not compared either: such a family must stay without entries. Errors:
    /// those of a wait for a lock.
    pub fn lock_advisory(&mut self, family: &Family, key: &[u8], mode: Mode) -> Result<()> {
        self.require_active()?;
        family.check_live()?;
        check_key(key)?;
        self.transactions.locks.lock_advisory(&self.owner, family.id(), key, mode, self.policy(false))
    }

    pub(super) fn policy(&self, skip: bool) -> Policy {
        match self.locks.timeout {
            _ if skip => Policy::Skip,
            Some(Duration::ZERO) => Policy::NoWait,
            timeout => Policy::Wait(timeout),
        }
    }

    /// Locks a key according to mode and transaction; `None`: another owner has it and `skip` is set. The
    /// lock table holds keys as long as the store's own, and no longer ones. An error after a failure of the log: the
    /// newest version may be a commit that the failure refused, and its lock is free from then on.
    pub(crate) fn lock_key(
        &self,
        family: FamilyId,
        key: &[u8],
        mode: Mode,
        skip: bool,
    ) -> Result<Option<Granted>> {
        check_key(key)?;
        if self.options.unlocked {
            return Ok(Some(Granted::AlreadyHeld));
        }
        // Nor is it worth a wait: an owner whose outcome the restart decides keeps its locks until then.
        self.check_newest_is_written()?;
        let policy = self.policy(skip);
        let intent = self.options.optimistic && !self.options.ordered_waits && !self.options.priority;
        let locks = &self.transactions.locks;
        let granted = if intent && mode == Mode::Exclusive && self.options.isolation < Isolation::Serializable
        {
            locks.put_intent(&self.owner, family, key, policy)?
        } else {
            locks.lock_point(&self.owner, family, key, mode, policy)?
        };
        self.check_newest_is_written()?;
        Ok(granted)
    }

    /// An error after a failure of the log: the newest versions are those of commits it refused, too.
    #[inline]
    pub(crate) fn check_newest_is_written(&self) -> Result<()> {
        match mutant::is(Mutant::RefusedCommitRead) {
            true => Ok(()),
            false => self.store.wal_alive(),
        }
    }

    /// True if locking scans keep the gaps between their rows free of others' insertions. Exclusive reads of
    /// a missing key then keep the gap around it.
    pub(crate) fn keeps_gaps(&self) -> bool {
        match self.options.isolation {
            _ if self.options.unlocked => false,
            Isolation::Serializable => true,
            Isolation::RepeatableRead | Isolation::Snapshot => !self.options.optimistic,
            Isolation::ReadUncommitted | Isolation::ReadCommitted => false,
        }
    }

    /// Keeps `from..to` free of others' insertions; waits for owners of keys in it.
    pub(crate) fn lock_range(&self, family: FamilyId, from: &[u8], to: Option<&[u8]>) -> Result<()> {
        // The end of a scan may be the key after one, and the range begins or ends after that.
        let longest = from.len().max(to.map_or(0, <[u8]>::len));
        if longest > MAX_KEY_LEN + 2 {
            return Err(Error::InvalidArgument(format!(
                "an end of {longest} bytes of a range that is locked is longer than a key of {MAX_KEY_LEN}"
            )));
        }
        self.transactions.locks.lock_range(&self.owner, family, from, to, self.policy(false))
    }

    /// Keeps or releases the lock of a locking read that found nothing. Returns whether a lock newly taken is
    /// kept.
    pub(super) fn settle_missing(
        &self,
        family: FamilyId,
        key: &[u8],
        mode: Mode,
        on_missing: OnMissing,
        newly_locked: bool,
    ) -> Result<bool> {
        let forgets = on_missing == OnMissing::Forget || mutant::is(Mutant::MissingKeyNotKept);
        if forgets || self.options.isolation < Isolation::RepeatableRead {
            if newly_locked {
                self.unlock_key(family, key, mode);
            }
            return Ok(false);
        }
        // The key's own lock keeps it from coming into being. The gap keeps others away from it longer than one
        // statement, and it takes a search in every run to know where it ends.
        if mode == Mode::Exclusive && self.keeps_gaps() && !self.options.single_statement {
            let (from, to) = gap_around(&self.store, family, key)?;
            let to = to.as_deref();
            self.transactions.locks.lock_gap(&self.owner, family, key, &from, to, self.policy(false))?;
        }
        Ok(newly_locked)
    }

    /// Releases a lock newly taken by a read of this transaction, unless the key was written since.
    pub(crate) fn unlock_key(&self, family: FamilyId, key: &[u8], mode: Mode) {
        // What cannot be read may be written.
        if self.own(family, key).is_ok_and(|own| own.is_none()) {
            self.transactions.locks.unlock_point(&self.owner, family, key, mode);
        }
    }
}
