//! A transaction: its snapshots, its private batch, its locks, and its end.
//!
//! - here: the options, and begin;
//! - `statements`: statements and savepoints;
//! - `snapshots`: the sequence at which reads read, and conflicts with it;
//! - `locking`: tables, keys, gaps and ranges;
//! - `read`, `write`: reads of a key, and changes;
//! - `ttl`: the second at which reads see entries with an expiry;
//! - `commit`: prepare, order and finish, rollback;
//! - `published`: numbers for others.
//!
//! Each file but `read` and `write` has the state that it works on, with its invariants above it.

mod commit;
mod locking;
mod published;
mod read;
mod snapshots;
mod statements;
mod ttl;
mod write;

use std::sync::atomic::AtomicU64;
use std::sync::Arc;
use std::time::Duration;

use self::commit::Outcome;
use self::locking::LockState;
use self::published::Published;
use self::snapshots::Snapshots;
pub use self::statements::SavepointId;
use self::statements::UndoPoints;
use self::ttl::ViewSeconds;
use crate::error::{Error, Result};
use crate::lock::LockOwner;
use crate::options::SyncMode;
use crate::store::family::Family;
use crate::store::Store;
use crate::table::Hit;
use crate::txn::commit::SPACE_WAIT;
use crate::txn::write_batch::{OwnEntry, WriteBatch};
use crate::txn::Transactions;
use crate::types::{Kind, Seq};

/// What a transaction sees of others.
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
    /// The level of a number, as a cast gives it; `None` beyond the last.
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

/// How a transaction behaves, fixed when it begins.
#[derive(Clone, Copy, Debug, Default)]
pub struct TransactionOptions {
    /// What it sees.
    pub isolation: Isolation,
    /// Intents instead of waiting locks (`docs/protocols.md` 4.8).
    pub optimistic: bool,
    /// No locks and no checks: bulk load into a family that nobody sees yet. Until it has committed nobody else may
    /// write there, or deleted rows can come back. Its commits do not wait for a sync:
    /// [`crate::db::Db::flush_log`] ends the load.
    pub unlocked: bool,
    /// A replica's applier: every conflict is a wait.
    pub ordered_waits: bool,
    /// Reads see entries that have expired, as long as they are there: a replica's applier finds the rows that
    /// its primary changed before they expired. Checks for duplicates do not.
    pub sees_expired: bool,
    /// The view is as old as the oldest one in the store: what fills an index from the rows gives entries to all
    /// that anybody may still see.
    pub oldest_view: bool,
    /// One statement and its commit: either may fail for want of a lock on an entry of an index. With more
    /// statements a commit never does.
    pub single_statement: bool,
}

/// How a read treats others' changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadMode {
    /// At the snapshot that the isolation level asks for.
    Snapshot,
    /// The newest committed version, without a lock.
    Latest,
    /// Takes a shared lock, then reads the newest version.
    Shared,
    /// Takes an exclusive lock, then reads the newest version.
    Exclusive,
    /// The newest version without a lock on its key, in scans that keep the gaps between keys free as those
    /// of `Shared` and `Exclusive` do: for entries of an index whose rows the caller locks.
    Gap,
}

impl ReadMode {
    /// Whether scans in this mode keep gaps free where the transaction does.
    pub(crate) fn may_keep_gaps(self) -> bool {
        matches!(self, ReadMode::Shared | ReadMode::Exclusive | ReadMode::Gap)
    }
}

/// One change of a row.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// Where.
    pub family: &'a Arc<Family>,
    /// Which key.
    pub key: &'a [u8],
    /// What.
    pub kind: ChangeKind<'a>,
    /// Take an exclusive lock on the key first, and check it against the transaction's snapshot.
    pub lock: bool,
    /// The number of rows stays: a put of a key that exists, the deletion of one that does not. Otherwise a put
    /// counts as a new row, and a deletion as one less. What a key was before counts as the transaction itself
    /// sees it, its own changes included. Nobody checks it: [`crate::db::Db::count_rows`] makes good for mistakes.
    pub count_unchanged: bool,
    /// Second since 1970 from which a key that is put does not exist any more; 0: it does not expire.
    pub expiry: u64,
}

/// What a change does.
#[derive(Clone, Copy, Debug)]
pub enum ChangeKind<'a> {
    /// The key has this value, whether it exists or not.
    Put(&'a [u8]),
    /// The key has this value; an error when a live entry of it exists.
    Insert(&'a [u8]),
    /// As `Put`, for an entry of an index whose row is locked: a lock on it keeps it out of others' ranges
    /// and is not compared with the snapshot, as the row's was.
    PutEntry(&'a [u8]),
    /// The value that the entry has already, committed: an entry of a row whose lock the transaction has. It takes no
    /// lock, as nobody else changes the entry meanwhile. For a transaction that [overtook](Transaction::overtook) its
    /// snapshot: its row stands under the entry, and the snapshot may not show it.
    KeepEntry(&'a [u8]),
    /// The key does not exist.
    Delete,
    /// As `Delete`; a merge may drop the deletion together with the put that it deletes. That takes a proof, so a
    /// plain deletion is written unless the key is locked, this transaction has not changed it before, and its
    /// newest version is an [`Insert`](ChangeKind::Insert) that met no earlier value.
    SingleDelete,
}

impl<'a> ChangeKind<'a> {
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

/// What a locking read of a key that does not exist keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnMissing {
    /// From REPEATABLE READ on the lock on the key, and for exclusive reads the gap around it.
    Keep,
    /// Nothing: the key was named by an entry of an index, whose range tells of a new one.
    Forget,
}

/// What a point read came to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    /// The key exists; its value was appended.
    pub live: bool,
    /// When it expires; 0: never.
    pub expiry: u64,
    /// The read took a lock that the transaction did not have.
    pub newly_locked: bool,
}

/// The transaction's own latest change of a key.
#[derive(Debug)]
pub(crate) enum Own<'a> {
    /// In memory.
    Memory(OwnEntry<'a>),
    /// In a run.
    Spilled(Hit),
}

impl Own<'_> {
    /// Kind and stored value.
    pub(crate) fn stored(&self) -> (Kind, &[u8]) {
        match self {
            Own::Memory(own) => (own.kind, own.value),
            Own::Spilled(hit) => (hit.kind, hit.value()),
        }
    }
}

#[derive(Debug, PartialEq, Eq, Clone, Copy)]
enum TransactionPhase {
    Idle,
    Active,
    Prepared,
}

/// A transaction; begun and ended many times. Used by one thread at a time.
///
/// Idle, it has no changes, no locks and no snapshots. Prepared, it takes no more changes, and `outcome` has what its
/// decision needs, unless there is nothing to decide.
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
    /// How long it may be held back, at the begin of a statement and in `prepare`.
    max_wait: Duration,
    outcome: Outcome,
    /// Searches for a key since the object was made: one of [`GETS_PER_SAMPLE`] is measured.
    gets: u32,
}

/// A clock is read for one search of so many: two readings take up to half of a search in memory.
pub(crate) const GETS_PER_SAMPLE: u32 = 256;

impl Transaction {
    pub(crate) fn new(transactions: Arc<Transactions>) -> Transaction {
        let owner = LockOwner::new(transactions.new_owner_id());
        let entry = transactions.list.sit(&owner);
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
            outcome: Outcome::default(),
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
        self.published.entry.begin(
            options.isolation,
            options.optimistic,
            self.store.versions.disk().now_micros(),
        );
        Ok(())
    }

    /// Whether it is begun and not ended.
    pub fn is_active(&self) -> bool {
        self.phase != TransactionPhase::Idle
    }

    /// Whether anything was written since it began.
    pub fn has_writes(&self) -> bool {
        !self.batch.is_empty() || self.outcome.has_changes()
    }

    /// Counts changes of what the transaction sees of itself; grows with every write and undo.
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

    /// Sync mode that the commit asks for beyond the store's and the families'.
    pub fn set_sync(&mut self, mode: Option<SyncMode>) {
        self.outcome.sync = mode;
    }

    /// The mode of a read that asks for no lock: [`Isolation::Serializable`] locks all that it reads.
    pub fn plain_read_mode(&self) -> ReadMode {
        match self.options.isolation {
            Isolation::Serializable => ReadMode::Shared,
            _ => ReadMode::Snapshot,
        }
    }

    /// Whether the transaction holds any lock, intentions on tables included.
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

    /// Makes the store's counter of batches count `size` bytes for this one.
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
