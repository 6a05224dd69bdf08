//! A transaction: its snapshots, its private batch, its locks, and its end.
//!
//! - here: the options, and begin;
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
use crate::types::{Kind, Seq};

/// A transaction's view of others' changes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Isolation {
    /// The newest committed version at each read; no snapshot.
    ReadUncommitted,
    /// A snapshot for each statement.
    ReadCommitted,
    /// One snapshot, taken by the first plain read.
    #[default]
    RepeatableRead,
    /// One snapshot, taken by the first statement of any kind.
    Snapshot,
    /// As repeatable read; the caller reads with shared locks.
    Serializable,
}

impl Isolation {
    /// The level with a number, as after a cast; `None` beyond the last.
    pub fn from_number(number: u8) -> Option<Isolation> {
        Some(match number {
            0 => Isolation::ReadUncommitted,
            1 => Isolation::ReadCommitted,
            2 => Isolation::RepeatableRead,
            3 => Isolation::Snapshot,
            4 => Isolation::Serializable,
            _ => return None,
        })
    }
}

/// The options of a transaction, fixed when it begins.
#[derive(Clone, Copy, Debug, Default)]
pub struct TransactionOptions {
    /// Its view of others' changes.
    pub isolation: Isolation,
    /// Intents instead of waiting locks (`docs/protocols.md` 4.8).
    pub optimistic: bool,
    /// No locks and no checks: bulk load into a family without other users. Until it has committed nobody
    /// else may write there, or deleted rows can come back. Its commits do not wait for a sync:
    /// [`crate::db::Db::flush_log`] ends the load.
    pub unlocked: bool,
    /// A replica's applier: every conflict is a wait.
    pub ordered_waits: bool,
    /// Reads see expired entries while they exist: a replica's applier finds rows changed by its primary
    /// before they expired. Checks for duplicates do not see them.
    pub sees_expired: bool,
    /// Reads see expiries at the second of the oldest view in the store. Building an index needs it: every
    /// row still visible in some view gets an entry.
    pub oldest_view: bool,
    /// One statement and its commit: either may fail for want of a lock on an entry of an index. With more
    /// statements a commit never fails so.
    pub single_statement: bool,
}

/// A read's treatment of others' changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadMode {
    /// At the snapshot of the isolation level.
    Snapshot,
    /// The newest committed version, without a lock.
    Latest,
    /// Takes a shared lock, then reads the newest version.
    Shared,
    /// Takes an exclusive lock, then reads the newest version.
    Exclusive,
    /// The newest version without a lock on its key. Scans keep the gaps between keys free, as those of
    /// `Shared` and `Exclusive` do. For index entries with rows locked by the caller.
    Gap,
}

impl ReadMode {
    /// True if scans in this mode keep gaps free if the transaction does.
    pub(crate) fn may_keep_gaps(self) -> bool {
        matches!(self, ReadMode::Shared | ReadMode::Exclusive | ReadMode::Gap)
    }
}

/// One change of a row.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// Its family.
    pub family: &'a Arc<Family>,
    /// Its key.
    pub key: &'a [u8],
    /// Its operation.
    pub kind: ChangeKind<'a>,
    /// Take an exclusive lock on the key first, and check it against the transaction's snapshot.
    pub lock: bool,
    /// The number of rows stays: a put of an existing key, or the deletion of a missing one. Otherwise a put
    /// counts as a new row, and a deletion as one less. The former state of a key is the one visible to the
    /// transaction, its own changes included. Nobody checks it; [`crate::db::Db::count_rows`] corrects
    /// mistakes.
    pub count_unchanged: bool,
    /// Second since 1970 from which a put key no longer exists; 0: it does not expire.
    pub expiry: u64,
}

/// The operation of a change.
#[derive(Clone, Copy, Debug)]
pub enum ChangeKind<'a> {
    /// The key has this value, whether it exists or not.
    Put(&'a [u8]),
    /// The key has this value; an error if a live entry of it exists.
    Insert(&'a [u8]),
    /// As `Put`, for an entry of an index with a locked row. A lock on the entry keeps it out of others'
    /// ranges. The entry is not compared with the snapshot, as the row was.
    PutEntry(&'a [u8]),
    /// The entry's present, committed value: an entry of a row locked by the transaction. It takes no lock,
    /// as nobody else changes the entry meanwhile. For a transaction that [went
    /// past](Transaction::passed_snapshot) its snapshot: its row has this entry, and the snapshot may not
    /// show it.
    KeepEntry(&'a [u8]),
    /// The key does not exist.
    Delete,
    /// As `Delete`; a compaction may drop the deletion together with its put. This needs a proof: the key is
    /// locked and unchanged by this transaction so far, and its newest version is an
    /// [`Insert`](ChangeKind::Insert) without an earlier value. Without it a plain deletion is written.
    SingleDelete,
}

impl<'a> ChangeKind<'a> {
    /// The kind of its entry that needs no proof.
    fn unproven(self) -> Kind {
        match self {
            ChangeKind::Put(_)
            | ChangeKind::Insert(_)
            | ChangeKind::PutEntry(_)
            | ChangeKind::KeepEntry(_) => Kind::PUT.marked_may_overwrite(),
            ChangeKind::Delete | ChangeKind::SingleDelete => Kind::DELETE,
        }
    }

    /// The value; empty of a deletion.
    fn value(self) -> &'a [u8] {
        match self {
            ChangeKind::Put(value)
            | ChangeKind::Insert(value)
            | ChangeKind::PutEntry(value)
            | ChangeKind::KeepEntry(value) => value,
            ChangeKind::Delete | ChangeKind::SingleDelete => &[],
        }
    }
}

/// The locks kept by a locking read of a missing key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnMissing {
    /// From REPEATABLE READ on the lock on the key, and for exclusive reads the gap around it.
    Keep,
    /// Nothing: the key came from an entry of an index, and the range there covers a new one.
    Forget,
}

/// The result of a point read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    /// The key exists; its value was appended.
    pub live: bool,
    /// Its expiry; 0: never.
    pub expiry: u64,
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
