//! A transaction: its snapshots, its private batch, its locks, and its end.
//!
//! - here: begin, statements and savepoints, snapshots;
//! - `locking`: tables, keys, gaps and ranges;
//! - `read`, `write`: reads of a key, and changes;
//! - `ttl`: the second at which reads see entries with an expiry;
//! - `commit`: prepare, order and finish, rollback.

mod commit;
mod locking;
mod read;
mod ttl;
mod write;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::lock::LockOwner;
use crate::options::SyncMode;
use crate::store::family::Family;
use crate::store::snapshot::SnapshotSlot;
use crate::store::ttl_clock::ViewSecond;
use crate::store::Store;
use crate::table::Hit;
use crate::txn::commit::{PreparedCommit, SPACE_WAIT};
use crate::txn::prepared::XaPrepared;
use crate::txn::transaction_list::Registered;
use crate::txn::write_batch::{Mark, OwnEntry, WriteBatch};
use crate::txn::Transactions;
use crate::types::{FamilyId, Kind, RowCount, Seq, MAX_SEQ};

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
    /// The key does not exist.
    Delete,
    /// As `Delete`; a merge may drop the deletion together with the put that it deletes. That takes a proof, so a
    /// plain deletion is written unless the key is locked, this transaction has not changed it before, and its
    /// newest version is an [`Insert`](ChangeKind::Insert) that met no earlier value.
    SingleDelete,
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

/// A savepoint of a transaction.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub struct SavepointId(pub u64);

/// Steps in which the memory of private batches is counted: small transactions touch no shared counter.
const COUNT_STEP: usize = 4 << 10;

/// A transaction; begun and ended many times. Used by one thread at a time.
#[derive(Debug)]
pub struct Transaction {
    pub(crate) store: Arc<Store>,
    pub(crate) transactions: Arc<Transactions>,
    owner: Arc<LockOwner>,
    /// What others are told of it.
    entry: Registered,
    options: TransactionOptions,
    state: TransactionPhase,
    pub(crate) batch: WriteBatch,
    changes: Arc<AtomicU64>,
    statement: Mark,
    /// Runs that a savepoint's rollback had cut away when the statement began.
    cut_before_statement: usize,
    /// In the order in which they were set.
    savepoints: Vec<(SavepointId, Mark)>,
    next_savepoint: u64,
    transaction_snapshot: Option<SnapshotSlot>,
    /// The transaction's snapshot is at a commit that may not be in the memtable yet.
    snapshot_ahead: bool,
    statement_snapshot: Option<SnapshotSlot>,
    lock_timeout: Option<Duration>,
    /// How long it may be held back, at the begin of a statement and in `prepare`.
    max_wait: Duration,
    prepared: Option<PreparedCommit>,
    /// Prepared, waiting for a decision from outside of the commit path.
    xa_prepared: Option<XaPrepared>,
    /// Of a two-phase `prepare`.
    xid: Vec<u8>,
    /// Bytes of it that the store's counter of batches has.
    counted: usize,
    sync: Option<SyncMode>,
    /// Snapshots that ended; cursors compare it.
    ended_snapshots: u64,
    /// A lock is held on a key whose newest version was found to be newer than the snapshot: holding a
    /// lock already does not show any more that its key was compared.
    overtaken: AtomicBool,
    /// Some key was put without a lock: `prepare` locks it.
    unlocked_puts: bool,
    /// Seconds of the transaction's snapshot, of the statement's, and of reads of the newest versions.
    transaction_second: ViewSecond,
    statement_second: ViewSecond,
    current_second: ViewSecond,
}

impl Transaction {
    pub(crate) fn new(transactions: Arc<Transactions>) -> Transaction {
        let owner = LockOwner::new(transactions.new_owner_id());
        let entry = transactions.list.sit(&owner);
        Transaction {
            store: transactions.store.clone(),
            transactions,
            owner,
            entry,
            options: TransactionOptions::default(),
            state: TransactionPhase::Idle,
            batch: WriteBatch::default(),
            changes: Arc::new(AtomicU64::new(0)),
            statement: Mark::default(),
            cut_before_statement: 0,
            savepoints: Vec::new(),
            next_savepoint: 0,
            transaction_snapshot: None,
            snapshot_ahead: false,
            statement_snapshot: None,
            lock_timeout: Some(Duration::from_secs(50)),
            max_wait: SPACE_WAIT,
            prepared: None,
            xa_prepared: None,
            xid: Vec::new(),
            counted: 0,
            sync: None,
            ended_snapshots: 0,
            overtaken: AtomicBool::new(false),
            unlocked_puts: false,
            transaction_second: ViewSecond::default(),
            statement_second: ViewSecond::default(),
            current_second: ViewSecond::default(),
        }
    }

    /// Begins. No snapshot is taken yet.
    pub fn begin(&mut self, options: TransactionOptions) -> Result<()> {
        if self.state != TransactionPhase::Idle {
            return Err(Error::InvalidArgument("the transaction is begun already".into()));
        }
        self.options = options;
        self.max_wait = SPACE_WAIT;
        self.state = TransactionPhase::Active;
        self.owner.restart(self.transactions.new_owner_id());
        self.owner.set_applier(options.ordered_waits);
        self.owner.set_keeps_reads(options.isolation == Isolation::Serializable);
        self.entry.begin(options.isolation, options.optimistic, self.store.versions.disk().now_micros());
        Ok(())
    }

    /// Whether it is begun and not ended.
    pub fn is_active(&self) -> bool {
        self.state != TransactionPhase::Idle
    }

    /// Whether anything was written since it began.
    pub fn has_writes(&self) -> bool {
        !self.batch.is_empty() || self.xa_prepared.is_some()
    }

    /// Counts changes of what the transaction sees of itself; grows with every write and undo.
    pub fn change_counter(&self) -> &Arc<AtomicU64> {
        &self.changes
    }

    /// The owner of its locks; kills go there.
    pub fn owner(&self) -> &Arc<LockOwner> {
        &self.owner
    }

    /// Longest wait for a lock; `None`: no limit.
    pub fn set_lock_timeout(&mut self, timeout: Option<Duration>) {
        self.lock_timeout = timeout;
    }

    /// Sync mode that the commit asks for beyond the store's and the families'.
    pub fn set_sync(&mut self, mode: Option<SyncMode>) {
        self.sync = mode;
    }

    /// Takes the transaction's snapshot now.
    pub fn take_snapshot(&mut self) -> Result<()> {
        self.require_active()?;
        if self.transaction_snapshot.is_none() {
            self.transaction_snapshot = Some(self.new_snapshot(&self.transaction_second)?);
        }
        Ok(())
    }

    /// Takes the transaction's snapshot now, which is its first, and gives the count of a family's rows at it.
    pub(crate) fn take_counted_snapshot(&mut self, family: FamilyId) -> Result<RowCount> {
        self.require_active()?;
        let (slot, row_count) = self.store.take_counted_snapshot(family)?;
        self.entry.set_snapshot(Some(slot.seq()));
        if let Some(old) = self.transaction_snapshot.replace(slot) {
            self.store.snapshots.release(old);
        }
        Ok(row_count)
    }

    /// Takes the transaction's snapshot now, after everything that is ordered (WITH CONSISTENT SNAPSHOT,
    /// under the caller's own order lock). Waits for nothing; the first read helps the commits in, and can be
    /// killed.
    pub fn take_ordered_snapshot(&mut self) -> Result<()> {
        self.require_active()?;
        if self.transaction_snapshot.is_none() {
            let slot = self.store.take_ordered_snapshot()?;
            self.note_second(&self.transaction_second);
            self.entry.set_snapshot(Some(slot.seq()));
            self.transaction_snapshot = Some(slot);
            self.snapshot_ahead = true;
        }
        Ok(())
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

    /// Sets a savepoint: changes made from now on can be undone alone. It lives until it is released, undone
    /// over, or the transaction ends, whatever statements end meanwhile.
    pub fn savepoint_set(&mut self) -> Result<SavepointId> {
        self.require_active()?;
        self.next_savepoint += 1;
        let id = SavepointId(self.next_savepoint);
        self.savepoints.push((id, self.batch.mark()));
        Ok(id)
    }

    /// Undoes the changes made after a savepoint; locks stay, later savepoints go.
    pub fn savepoint_rollback(&mut self, id: SavepointId) -> Result<()> {
        self.require_active()?;
        let Some(at) = self.savepoints.iter().position(|(known, _)| *known == id) else {
            return Err(Error::InvalidArgument("the transaction has no such savepoint".into()));
        };
        let mark = self.savepoints[at].1;
        self.savepoints.truncate(at + 1);
        self.cut_back(mark);
        self.statement = self.statement.min(mark);
        self.owner.set_written(self.batch.made());
        Ok(())
    }

    /// Forgets a savepoint; changes stay, and so do other savepoints.
    pub fn savepoint_release(&mut self, id: SavepointId) {
        self.savepoints.retain(|(known, _)| *known != id);
    }

    /// Begins a statement. `may_write` lets back-pressure delay the caller, at most for `max_wait` and
    /// only while the transaction holds no lock.
    pub fn statement_begin(&mut self, may_write: bool, max_wait: Duration) -> Result<()> {
        self.require_active()?;
        self.transactions.locks.clear_kill(&self.owner);
        self.end_statement_snapshot();
        self.mark_statement();
        self.max_wait = max_wait;
        if may_write && !self.transactions.locks.holds_anything(&self.owner) {
            self.store.throttle(max_wait, &self.owner)?;
        }
        if self.options.isolation == Isolation::Snapshot {
            self.take_snapshot()?;
        }
        Ok(())
    }

    /// Ends a statement: its snapshot at READ COMMITTED goes, its changes stay.
    pub fn statement_end(&mut self) {
        self.end_statement_snapshot();
        self.mark_statement();
    }

    fn mark_statement(&mut self) {
        self.statement = self.batch.mark();
        self.cut_before_statement = self.batch.runs().cut_away();
        if !self.options.unlocked {
            self.transactions.locks.statement_begins(&self.owner);
        }
    }

    /// Undoes the statement's changes; its locks stay, but for those on keys that were in its files alone: a
    /// statement that fills the disk gives the space back.
    pub fn statement_rollback(&mut self) {
        self.cut_back(self.statement);
        if self.batch.forget_cut(self.cut_before_statement) {
            if !self.options.unlocked {
                self.transactions.lock_runs(&self.owner, self.batch.runs(), false);
            }
            self.store.unlink_unused();
        }
        self.end_statement_snapshot();
    }

    /// Undoes the changes after `mark`.
    fn cut_back(&mut self, mark: Mark) {
        self.batch.cut_back(mark);
        self.changed();
    }

    fn end_statement_snapshot(&mut self) {
        self.end_statement_seconds();
        if let Some(slot) = self.statement_snapshot.take() {
            self.ended_snapshots += 1;
            self.entry.set_snapshot(None);
            self.store.snapshots.release(slot);
        }
    }

    /// Grows whenever a snapshot of the transaction ends. A cursor that read at one must not go on: what
    /// the snapshot kept from being pruned may be gone.
    pub(crate) fn ended_snapshots(&self) -> u64 {
        self.ended_snapshots
    }

    /// Error unless the transaction is begun and not prepared.
    pub(crate) fn require_active(&self) -> Result<()> {
        match self.state {
            TransactionPhase::Active => Ok(()),
            TransactionPhase::Idle => Err(Error::InvalidArgument("no transaction is begun".into())),
            TransactionPhase::Prepared => Err(Error::InvalidArgument("the transaction is prepared".into())),
        }
    }

    fn changed(&mut self) {
        self.changes.fetch_add(1, Ordering::Relaxed);
        let size = self.batch.size();
        self.entry.set_bytes(size);
        if size.abs_diff(self.counted) >= COUNT_STEP || size == 0 {
            self.count(size);
        }
    }

    /// Makes the store's counter of batches count `size` bytes for this one.
    fn count(&mut self, size: usize) {
        if size != self.counted {
            let counter = &self.store.stats.batch_bytes;
            // Wraps where it shrinks: the sum is right.
            counter.fetch_add((size as u64).wrapping_sub(self.counted as u64), Ordering::Relaxed);
            self.counted = size;
        }
    }

    fn new_snapshot(&self, second: &ViewSecond) -> Result<SnapshotSlot> {
        let slot = self.store.take_snapshot()?;
        self.note_second(second);
        self.entry.set_snapshot(Some(slot.seq()));
        Ok(slot)
    }

    /// The sequence that a read in `mode` reads at.
    pub(crate) fn read_seq(&mut self, mode: ReadMode) -> Result<Seq> {
        if mode != ReadMode::Snapshot {
            return Ok(MAX_SEQ);
        }
        match self.options.isolation {
            Isolation::ReadUncommitted => Ok(MAX_SEQ),
            Isolation::ReadCommitted => {
                if let Some(slot) = &self.statement_snapshot {
                    return Ok(slot.seq());
                }
                let slot = self.new_snapshot(&self.statement_second)?;
                Ok(self.statement_snapshot.insert(slot).seq())
            }
            _ => {
                if let Some(slot) = &self.transaction_snapshot {
                    let seq = slot.seq();
                    if self.snapshot_ahead {
                        if self.owner.is_killed() {
                            return Err(Error::Interrupted);
                        }
                        self.store.reach(seq);
                        self.snapshot_ahead = false;
                    }
                    return Ok(seq);
                }
                let slot = self.new_snapshot(&self.transaction_second)?;
                Ok(self.transaction_snapshot.insert(slot).seq())
            }
        }
    }

    /// Error when `seq` is newer than what the transaction has read at (`docs/protocols.md` 4.4).
    pub(crate) fn check_unchanged(&self, seq: Seq) -> Result<()> {
        if self.options.isolation < Isolation::RepeatableRead {
            return Ok(());
        }
        match &self.transaction_snapshot {
            Some(slot) if seq > slot.seq() => {
                self.overtaken.store(true, Ordering::Relaxed);
                self.store.stats.conflicts.fetch_add(1, Ordering::Relaxed);
                Err(if self.options.optimistic { Error::Deadlock } else { Error::Conflict })
            }
            _ => Ok(()),
        }
    }

    /// The sequence after which changes are conflicts for locking reads, if they are.
    pub(crate) fn conflicts_behind(&self) -> Option<Seq> {
        let counts = self.options.isolation >= Isolation::RepeatableRead;
        self.transaction_snapshot.as_ref().filter(|_| counts).map(SnapshotSlot::seq)
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
