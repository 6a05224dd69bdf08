//! A transaction: its snapshots, its private batch, its locks, and its end.
//!
//! - here: its begin;
//! - `options`: options, modes of reads, changes;
//! - `statements`: statements and savepoints;
//! - `snapshots`: the sequence numbers of reads, and conflicts with them;
//! - `locking`: tables, keys, gaps and ranges;
//! - `read`, `write`: reads of a key, and changes;
//! - `ttl`: the second of reads of entries with an expiry;
//! - `commit`: prepare, order and finish, rollback;
//! - `published`: numbers for others.
//!
//! Each file but `read` and `write` has its own state, with the invariants above it.

mod commit;
mod locking;
mod options;
mod published;
mod read;
#[cfg(simulation)]
mod simulated;
mod snapshots;
mod statements;
mod ttl;
mod write;

use std::sync::atomic::AtomicU64;
use std::sync::Arc;
use std::time::Duration;

use self::commit::PendingDecision;
pub(crate) use self::locking::check_key;
use self::locking::LockState;
pub use self::options::{
    Change, ChangeKind, Isolation, LongValue, OnMissing, PointRead, ReadMode, TransactionOptions,
};
use self::published::Published;
use self::snapshots::Snapshots;
pub use self::statements::SavepointId;
use self::statements::UndoPoints;
use self::ttl::ViewSeconds;
pub(crate) use self::write::check_value_len;
use crate::error::{Error, Result};
use crate::lock::LockOwner;
use crate::options::SyncMode;
use crate::store::family::Family;
use crate::store::Store;
use crate::txn::commit::SPACE_WAIT;
use crate::txn::write_batch::WriteBatch;
use crate::txn::Transactions;
use crate::types::Seq;

/// The result of a point read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    /// The key exists; its value was appended.
    pub live: bool,
    /// Its expiry; 0: never.
    pub expiry: u64,
    /// Bytes of the place of the value's rest, after the value.
    pub place_len: usize,
    /// The read took a lock new to the transaction.
    pub newly_locked: bool,
}

#[derive(Debug, PartialEq, Eq, Clone, Copy)]
enum TransactionPhase {
    Idle,
    Active,
    Prepared,
}

/// A transaction object; begins and ends many times. Used by one thread at a time.
///
/// Idle, it has no changes, no locks and no snapshots. Prepared, it takes no more changes, and `decision` has
/// the data for its decision, unless there is nothing to decide.
#[derive(Debug)]
pub struct Transaction {
    pub(crate) store: Arc<Store>,
    pub(crate) transactions: Arc<Transactions>,
    owner: Arc<LockOwner>,
    options: TransactionOptions,
    phase: TransactionPhase,
    pub(crate) batch: WriteBatch,
    published: Published,
    undo: UndoPoints,
    snapshots: Snapshots,
    seconds: ViewSeconds,
    locks: LockState,
    /// Longest delay by back-pressure, at the begin of a statement and in `prepare`.
    max_wait: Duration,
    decision: PendingDecision,
    /// Searches for a key since the object was made: one of [`GETS_PER_SAMPLE`] is measured.
    gets: u32,
}

/// The clock is read for one search in so many: two readings take up to half of a search in memory.
pub(crate) const GETS_PER_SAMPLE: u32 = 256;

impl Transaction {
    pub(crate) fn new(transactions: Arc<Transactions>) -> Transaction {
        let owner = LockOwner::new(transactions.new_owner_id());
        let entry = transactions.list.register(&owner);
        Transaction {
            store: transactions.store.clone(),
            transactions,
            owner,
            options: TransactionOptions::default(),
            phase: TransactionPhase::Idle,
            batch: WriteBatch::default(),
            published: Published::new(entry),
            undo: UndoPoints::default(),
            snapshots: Snapshots::default(),
            seconds: ViewSeconds::default(),
            locks: LockState::default(),
            max_wait: SPACE_WAIT,
            decision: PendingDecision::default(),
            gets: 0,
        }
    }

    /// Begins. No snapshot is taken yet.
    pub fn begin(&mut self, options: TransactionOptions) -> Result<()> {
        self.store.check_open()?;
        if self.phase != TransactionPhase::Idle {
            return Err(Error::InvalidArgument("the transaction is begun already".into()));
        }
        self.options = options;
        self.snapshots.restart();
        self.max_wait = SPACE_WAIT;
        self.phase = TransactionPhase::Active;
        self.owner.restart(self.transactions.new_owner_id());
        self.owner.set_applier(options.ordered_waits);
        self.owner.set_priority(options.priority);
        self.owner.set_keeps_reads(options.isolation == Isolation::Serializable);
        self.published.entry.begin(options.isolation, options.optimistic, self.store.now_micros());
        Ok(())
    }

    /// True if it is begun and not ended.
    pub fn is_active(&self) -> bool {
        self.phase != TransactionPhase::Idle
    }

    /// True if anything was written since it began.
    pub fn has_writes(&self) -> bool {
        !self.batch.is_empty() || self.decision.has_changes()
    }

    /// Counts changes of the transaction's own view of itself; grows with every write and undo.
    pub fn change_counter(&self) -> &Arc<AtomicU64> {
        &self.published.changes
    }

    /// The owner of its locks; kills go there.
    pub fn owner(&self) -> &Arc<LockOwner> {
        &self.owner
    }

    /// Longest wait for a lock; `None`: no limit.
    pub fn set_lock_timeout(&mut self, timeout: Option<Duration>) {
        self.locks.timeout = timeout;
    }

    /// Sets the sync mode requested for the commit, beyond the store's and the families'.
    pub fn set_sync(&mut self, mode: Option<SyncMode>) {
        self.decision.sync = mode;
    }

    /// The mode of a read without an explicit lock: [`Isolation::Serializable`] locks all its reads.
    pub fn plain_read_mode(&self) -> ReadMode {
        match self.options.isolation {
            Isolation::Serializable => ReadMode::Shared,
            _ => ReadMode::Snapshot,
        }
    }

    /// True if the transaction holds any lock, intentions on tables included.
    pub fn holds_locks(&self) -> bool {
        self.transactions.locks.holds_locks(&self.owner)
    }

    /// Error unless the transaction is begun and not prepared, and its store open.
    pub(crate) fn require_active(&self) -> Result<()> {
        self.store.check_open()?;
        match self.phase {
            TransactionPhase::Active => Ok(()),
            TransactionPhase::Idle => Err(Error::InvalidArgument("no transaction is begun".into())),
            TransactionPhase::Prepared => Err(Error::InvalidArgument("the transaction is prepared".into())),
        }
    }

    /// The batch was changed.
    #[inline]
    fn changed(&mut self) {
        self.published.changed(&self.store, self.batch.size());
    }

    /// Sets this batch's part of the store's counter of batches to `size` bytes.
    #[inline]
    fn count(&mut self, size: usize) {
        self.published.count(&self.store, size);
    }

    /// Error when the family is newer than the snapshot, or gone.
    pub(crate) fn check_family(&self, family: &Family, seq: Seq) -> Result<()> {
        family.check_live()?;
        if seq < family.created_seq() {
            return Err(Error::SnapshotTooOld);
        }
        Ok(())
    }
}
