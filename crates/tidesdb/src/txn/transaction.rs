//! A transaction: its snapshots, its private batch, its locks, and its end.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use crate::db::family::Family;
use crate::db::Store;
use crate::error::{Error, Result};
use crate::lock::{Granted, Mode, Owner, Policy, TableMode};
use crate::options::SyncMode;
use crate::table::Hit;
use crate::txn::commit::{Prepared, ROOM_PATIENCE};
use crate::txn::cursor::gap_around;
use crate::txn::snapshot::Slot;
use crate::txn::undecided::Dormant;
use crate::txn::write_batch::{Mark, OwnEntry, WriteBatch};
use crate::types::{FamilyId, Kind, Seq, MAX_KEY_LEN, MAX_SEQ, MAX_VALUE_LEN};

/// Part of the bound on a transaction's memory that it may take while there are too many large ones.
const CROWDED_SHARE: usize = 16;

/// Write buffers that all transactions may take before one that is within its own bound waits to become smaller.
const OVERCROWDED: u64 = 4;

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

/// How a transaction behaves, fixed when it begins.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mood {
    /// What it sees.
    pub isolation: Isolation,
    /// Intents instead of waiting locks (`protocols.md` 4.8).
    pub optimistic: bool,
    /// No locks and no checks: bulk load into a family that nobody sees yet.
    pub unlocked: bool,
    /// A replica's applier: every conflict is a wait.
    pub ordered_waits: bool,
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
}

/// What a locking read of a key that does not exist keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Missing {
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
    /// The value; `None` for a deletion.
    pub(crate) fn value(&self) -> Option<&[u8]> {
        let (kind, value) = match self {
            Own::Memory(own) => (own.kind, own.value),
            Own::Spilled(hit) => (hit.kind, hit.value()),
        };
        (!kind.is_tombstone()).then_some(value)
    }
}

#[derive(Debug, PartialEq, Eq, Clone, Copy)]
enum State {
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
    owner: Arc<Owner>,
    mood: Mood,
    state: State,
    pub(crate) batch: WriteBatch,
    changes: Arc<AtomicU64>,
    statement: Mark,
    /// In the order in which they were set.
    savepoints: Vec<(SavepointId, Mark)>,
    next_savepoint: u64,
    transaction_snapshot: Option<Slot>,
    /// The transaction's snapshot is at a commit that may not be in the memtable yet.
    snapshot_ahead: bool,
    statement_snapshot: Option<Slot>,
    lock_timeout: Option<Duration>,
    /// How long it may be held back, at the begin of a statement and in `prepare`.
    patience: Duration,
    prepared: Option<Prepared>,
    /// Prepared, waiting for a decision from outside of the commit path.
    dormant: Option<Dormant>,
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
}

impl Transaction {
    pub(crate) fn new(store: Arc<Store>) -> Transaction {
        let owner = Owner::new(store.new_owner_id());
        Transaction {
            store,
            owner,
            mood: Mood::default(),
            state: State::Idle,
            batch: WriteBatch::default(),
            changes: Arc::new(AtomicU64::new(0)),
            statement: Mark::default(),
            savepoints: Vec::new(),
            next_savepoint: 0,
            transaction_snapshot: None,
            snapshot_ahead: false,
            statement_snapshot: None,
            lock_timeout: Some(Duration::from_secs(50)),
            patience: ROOM_PATIENCE,
            prepared: None,
            dormant: None,
            xid: Vec::new(),
            counted: 0,
            sync: None,
            ended_snapshots: 0,
            overtaken: AtomicBool::new(false),
            unlocked_puts: false,
        }
    }

    /// Begins. No snapshot is taken yet.
    pub fn begin(&mut self, mood: Mood) -> Result<()> {
        if self.state != State::Idle {
            return Err(Error::InvalidArgument("the transaction is begun already".into()));
        }
        self.mood = mood;
        self.state = State::Active;
        self.owner.restart(self.store.new_owner_id());
        self.owner.set_applier(mood.ordered_waits);
        self.owner.set_keeps_reads(mood.isolation == Isolation::Serializable);
        Ok(())
    }

    /// Whether it is begun and not ended.
    pub fn is_active(&self) -> bool {
        self.state != State::Idle
    }

    /// Whether anything was written since it began.
    pub fn has_writes(&self) -> bool {
        !self.batch.is_empty() || self.dormant.is_some()
    }

    /// Counts changes of what the transaction sees of itself; grows with every write and undo.
    pub fn change_counter(&self) -> &Arc<AtomicU64> {
        &self.changes
    }

    /// The owner of its locks; kills go there.
    pub fn owner(&self) -> &Arc<Owner> {
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
            self.transaction_snapshot = Some(self.store.take_snapshot()?);
        }
        Ok(())
    }

    /// Takes the transaction's snapshot now, behind everything that is ordered (WITH CONSISTENT SNAPSHOT,
    /// under the caller's own order lock). Waits for nothing; the first read helps the commits in, and can be
    /// killed.
    pub fn take_ordered_snapshot(&mut self) -> Result<()> {
        self.require_active()?;
        if self.transaction_snapshot.is_none() {
            self.transaction_snapshot = Some(self.store.take_ordered_snapshot()?);
            self.snapshot_ahead = true;
        }
        Ok(())
    }

    /// Whether the transaction holds any lock, intentions on tables included.
    pub fn holds_locks(&self) -> bool {
        self.store.locks.holds_locks(&self.owner)
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

    /// Begins a statement. `may_write` lets back-pressure delay the caller, at most for `patience` and
    /// only while the transaction holds no lock.
    pub fn statement_begin(&mut self, may_write: bool, patience: Duration) -> Result<()> {
        self.require_active()?;
        self.store.locks.clear_kill(&self.owner);
        self.end_statement_snapshot();
        self.statement = self.batch.mark();
        self.patience = patience;
        if may_write && !self.store.locks.holds_anything(&self.owner) {
            self.store.throttle(patience, &self.owner)?;
        }
        if self.mood.isolation == Isolation::Snapshot {
            self.take_snapshot()?;
        }
        Ok(())
    }

    /// Ends a statement: its snapshot at READ COMMITTED goes, its changes stay.
    pub fn statement_end(&mut self) {
        self.end_statement_snapshot();
        self.statement = self.batch.mark();
    }

    /// Undoes the statement's changes; its locks stay.
    pub fn statement_rollback(&mut self) {
        self.cut_back(self.statement);
        self.end_statement_snapshot();
    }

    /// Undoes the changes behind `mark`.
    fn cut_back(&mut self, mark: Mark) {
        let spilled = !self.batch.runs().is_empty();
        self.batch.cut_back(mark);
        if spilled {
            self.store.unlink_unused();
        }
        self.changed();
    }

    fn end_statement_snapshot(&mut self) {
        if let Some(slot) = self.statement_snapshot.take() {
            self.ended_snapshots += 1;
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
            State::Active => Ok(()),
            State::Idle => Err(Error::InvalidArgument("no transaction is begun".into())),
            State::Prepared => Err(Error::InvalidArgument("the transaction is prepared".into())),
        }
    }

    fn changed(&mut self) {
        self.changes.fetch_add(1, Ordering::Relaxed);
        let size = self.batch.size();
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

    /// The sequence that a read in `mode` reads at.
    pub(crate) fn read_seq(&mut self, mode: ReadMode) -> Result<Seq> {
        if mode != ReadMode::Snapshot {
            return Ok(MAX_SEQ);
        }
        match self.mood.isolation {
            Isolation::ReadUncommitted => Ok(MAX_SEQ),
            Isolation::ReadCommitted => {
                if let Some(slot) = &self.statement_snapshot {
                    return Ok(slot.seq());
                }
                let slot = self.store.take_snapshot()?;
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
                let slot = self.store.take_snapshot()?;
                Ok(self.transaction_snapshot.insert(slot).seq())
            }
        }
    }

    /// Error when `seq` is newer than what the transaction has read at (`protocols.md` 4.4).
    pub(crate) fn check_unchanged(&self, seq: Seq) -> Result<()> {
        if self.mood.isolation < Isolation::RepeatableRead {
            return Ok(());
        }
        match &self.transaction_snapshot {
            Some(slot) if seq > slot.seq() => {
                self.overtaken.store(true, Ordering::Relaxed);
                Err(if self.mood.optimistic { Error::Deadlock } else { Error::Conflict })
            }
            _ => Ok(()),
        }
    }

    /// Error when the family is newer than the snapshot, or gone.
    pub(crate) fn check_family(&self, family: &Family, seq: Seq) -> Result<()> {
        family.check_live()?;
        if seq < family.birth() {
            return Err(Error::SnapshotTooOld);
        }
        Ok(())
    }

    /// Locks the table that `family` stands for, until the transaction ends.
    pub fn lock_table(&mut self, family: &Family, mode: TableMode) -> Result<()> {
        self.require_active()?;
        if self.mood.unlocked {
            return Ok(());
        }
        self.store.locks.lock_table(&self.owner, family.id(), mode, self.policy(false)).map(|_| ())
    }

    fn policy(&self, skip: bool) -> Policy {
        match self.lock_timeout {
            _ if skip => Policy::Skip,
            Some(Duration::ZERO) => Policy::NoWait,
            timeout => Policy::Wait(timeout),
        }
    }

    /// Locks a key as the mode and the transaction ask for; `None`: another has it and `skip` is set.
    pub(crate) fn lock_key(
        &self,
        family: FamilyId,
        key: &[u8],
        mode: Mode,
        skip: bool,
    ) -> Result<Option<Granted>> {
        if self.mood.unlocked {
            return Ok(Some(Granted::AlreadyHeld));
        }
        let policy = self.policy(skip);
        let intent = self.mood.optimistic && !self.mood.ordered_waits;
        if intent && mode == Mode::Exclusive && self.mood.isolation < Isolation::Serializable {
            let intent = self.store.locks.put_intent(&self.owner, family, key, policy)?;
            return Ok(intent.map(|intent| intent.granted));
        }
        self.store.locks.lock_point(&self.owner, family, key, mode, policy)
    }

    /// Whether locking scans keep the gaps between their rows free of others' insertions, and a missing key
    /// asked for exclusively the gap around it.
    pub(crate) fn keeps_gaps(&self) -> bool {
        match self.mood.isolation {
            _ if self.mood.unlocked => false,
            Isolation::Serializable => true,
            Isolation::RepeatableRead | Isolation::Snapshot => !self.mood.optimistic,
            Isolation::ReadUncommitted | Isolation::ReadCommitted => false,
        }
    }

    /// Keeps `from..to` free of others' insertions; waits for those who have keys there.
    pub(crate) fn lock_range(&self, family: FamilyId, from: &[u8], to: Option<&[u8]>) -> Result<()> {
        self.store.locks.lock_range(&self.owner, family, from, to, self.policy(false))
    }

    /// What a locking read leaves behind that found nothing. Returns whether a lock newly taken is kept.
    fn settle_missing(
        &self,
        family: FamilyId,
        key: &[u8],
        mode: Mode,
        missing: Missing,
        newly_locked: bool,
    ) -> Result<bool> {
        if missing == Missing::Forget || self.mood.isolation < Isolation::RepeatableRead {
            if newly_locked {
                self.unlock_key(family, key, mode);
            }
            return Ok(false);
        }
        if mode == Mode::Exclusive && self.keeps_gaps() {
            let (from, to) = gap_around(&self.store, family, key)?;
            let to = to.as_deref();
            self.store.locks.lock_gap(&self.owner, family, key, &from, to, self.policy(false))?;
        }
        Ok(newly_locked)
    }

    /// Gives back a lock that a read of this transaction newly took, unless the key was written since.
    pub(crate) fn unlock_key(&self, family: FamilyId, key: &[u8], mode: Mode) {
        if self.batch.get(family, key).is_none() {
            self.store.locks.unlock_point(&self.owner, family, key, mode);
        }
    }

    /// The transaction's own latest change of a key.
    pub(crate) fn own(&self, family: FamilyId, key: &[u8]) -> Result<Option<Own<'_>>> {
        if self.batch.is_empty() {
            return Ok(None);
        }
        match self.batch.get(family, key) {
            Some(own) => Ok(Some(Own::Memory(own))),
            None => Ok(self.batch.runs().get(family, key)?.map(Own::Spilled)),
        }
    }

    /// Moves the changes in memory to a run, once they are beyond the bound, or a part of it while all
    /// transactions together take a whole write buffer. The tables that are changed are locked as a whole
    /// from then on: neither keys nor locks of a large transaction fill memory. Only because others are large too
    /// nobody waits for these locks, which two of them could never get, before all together take
    /// `OVERCROWDED` buffers.
    fn spill_if_large(&mut self) -> Result<()> {
        self.changed();
        let buffer = self.store.options.write_buffer_size;
        let (size, bound) = (self.batch.size(), buffer / 2);
        let all = self.store.stats.batch_bytes.load(Ordering::Relaxed);
        if size <= bound / CROWDED_SHARE || (size <= bound && all <= buffer as u64) {
            return Ok(());
        }
        if !self.mood.unlocked {
            let optional = size <= bound && all <= buffer as u64 * OVERCROWDED;
            let policy = if optional { Policy::NoWait } else { self.policy(false) };
            let families: Vec<FamilyId> = self.batch.touched().collect();
            for family in families {
                match self.store.locks.lock_table(&self.owner, family, TableMode::Exclusive, policy) {
                    Err(Error::LockTimeout) if optional => return Ok(()),
                    done => done?,
                };
            }
        }
        self.batch.spill(&self.store, &self.owner)?;
        self.count(self.batch.size());
        Ok(())
    }

    /// Applies a row's changes in order, all or none. On failure the index of the failing change comes
    /// with the error; locks taken stay.
    pub fn write(&mut self, changes: &[Change<'_>]) -> Result<(), (usize, Error)> {
        self.require_active().map_err(|e| (0, e))?;
        let mark = self.batch.mark();
        for (index, change) in changes.iter().enumerate() {
            if let Err(error) = self.write_one(change) {
                self.batch.cut_back(mark);
                self.changed();
                return Err((index, error));
            }
        }
        if let Err(error) = self.spill_if_large() {
            self.batch.cut_back(mark);
            self.changed();
            return Err((changes.len().saturating_sub(1), error));
        }
        self.owner.set_written(self.batch.made());
        Ok(())
    }

    fn write_one(&mut self, change: &Change<'_>) -> Result<()> {
        let Change { family, key, .. } = *change;
        family.check_live()?;
        if key.len() > MAX_KEY_LEN {
            return Err(Error::InvalidArgument(format!(
                "a key of {} bytes is longer than {MAX_KEY_LEN}",
                key.len()
            )));
        }
        let (kind, value) = match change.kind {
            // Whether an older entry lies below is not known here: every put says that it may.
            ChangeKind::Put(value) | ChangeKind::Insert(value) | ChangeKind::PutEntry(value) => {
                (Kind::PUT.marked_may_overwrite(), value)
            }
            ChangeKind::Delete => (Kind::DELETE, &[][..]),
        };
        if value.len() > MAX_VALUE_LEN {
            return Err(Error::InvalidArgument(format!("a value of {} bytes is too long", value.len())));
        }
        let insert = matches!(change.kind, ChangeKind::Insert(_));
        if change.lock && !self.mood.unlocked {
            let granted = self.lock_key(family.id(), key, Mode::Exclusive, false)?;
            // A key under a lock on the table was not looked at when that was taken.
            let compared = granted == Some(Granted::AlreadyHeld) && !self.overtaken.load(Ordering::Relaxed);
            let entry = matches!(change.kind, ChangeKind::PutEntry(_));
            let unread = !compared && !entry && self.transaction_snapshot.is_some();
            let own = match insert || unread {
                true => self.own(family.id(), key)?.map(|own| own.value().is_some()),
                false => Some(true),
            };
            if own.is_none() {
                if let Some((seq, kind)) = self.store.newest(family.id(), key, MAX_SEQ, None)? {
                    let unchanged = self.check_unchanged(seq);
                    if insert && !kind.is_tombstone() {
                        return Err(Error::Duplicate);
                    }
                    unchanged?;
                }
            } else if insert && own == Some(true) {
                return Err(Error::Duplicate);
            }
        } else if insert {
            let live = match self.own(family.id(), key)? {
                Some(own) => own.value().is_some(),
                None => self
                    .store
                    .newest(family.id(), key, MAX_SEQ, None)?
                    .is_some_and(|(_, kind)| !kind.is_tombstone()),
            };
            if live {
                return Err(Error::Duplicate);
            }
        }
        // A range may have to keep it out; the row it overwrites keeps its own lock.
        self.unlocked_puts |= !change.lock && !self.mood.unlocked && !kind.is_tombstone();
        self.batch.push(family.id(), key, kind, value);
        Ok(())
    }

    /// Takes the locks on written keys that no statement took.
    fn lock_written(&self) -> Result<()> {
        for (family, entries) in self.batch.families() {
            for entry in entries {
                let policy = self.policy(false);
                self.store.locks.lock_point(&self.owner, family, entry.key, Mode::Exclusive, policy)?;
            }
        }
        Ok(())
    }

    /// Writes one key, locked.
    pub fn put(&mut self, family: &Arc<Family>, key: &[u8], value: &[u8]) -> Result<()> {
        self.write(&[Change { family, key, kind: ChangeKind::Put(value), lock: true }]).map_err(|(_, e)| e)
    }

    /// Writes one key that must not exist, locked.
    pub fn insert(&mut self, family: &Arc<Family>, key: &[u8], value: &[u8]) -> Result<()> {
        self.write(&[Change { family, key, kind: ChangeKind::Insert(value), lock: true }]).map_err(|(_, e)| e)
    }

    /// Deletes one key, locked.
    pub fn delete(&mut self, family: &Arc<Family>, key: &[u8]) -> Result<()> {
        self.write(&[Change { family, key, kind: ChangeKind::Delete, lock: true }]).map_err(|(_, e)| e)
    }

    /// The value of a key as the mode says; `None` when there is none.
    pub fn get(&mut self, family: &Arc<Family>, key: &[u8], mode: ReadMode) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        Ok(self.get_into(family, key, mode, false, Missing::Keep, &mut value)?.live.then_some(value))
    }

    /// Reads a key into `out`. In the locking modes the key is locked once; [`Error::LockTimeout`] also
    /// when another has it and `skip` is set.
    pub(crate) fn get_into(
        &mut self,
        family: &Arc<Family>,
        key: &[u8],
        mode: ReadMode,
        skip: bool,
        missing: Missing,
        out: &mut Vec<u8>,
    ) -> Result<Found> {
        self.require_active()?;
        out.clear();
        let seq = self.read_seq(mode)?;
        self.check_family(family, seq)?;
        let lock = if mode == ReadMode::Shared { Mode::Shared } else { Mode::Exclusive };
        let locking = matches!(mode, ReadMode::Shared | ReadMode::Exclusive);
        let mut newly_locked = false;
        if locking {
            let granted = self.lock_key(family.id(), key, lock, skip)?.ok_or(Error::LockTimeout)?;
            newly_locked = granted == Granted::New;
        }
        if let Some(own) = self.own(family.id(), key)? {
            let value = own.value();
            out.extend_from_slice(value.unwrap_or_default());
            return Ok(Found { live: value.is_some(), newly_locked });
        }
        let live = match self.store.newest(family.id(), key, seq, Some(out))? {
            None => false,
            Some((seq, kind)) => {
                if locking {
                    self.check_unchanged(seq)?;
                }
                !kind.is_tombstone()
            }
        };
        if locking && !live {
            newly_locked = self.settle_missing(family.id(), key, lock, missing, newly_locked)?;
        }
        Ok(Found { live, newly_locked })
    }

    /// The last step that may fail or wait. With an `xid` the changes are logged and synced as prepared.
    pub fn prepare(&mut self, xid: Option<&[u8]>) -> Result<()> {
        self.require_active()?;
        if !self.batch.is_empty() {
            if self.unlocked_puts {
                self.lock_written()?;
            }
            let prepared = self.store.prepare(&self.batch, xid, self.sync, &self.owner, self.patience)?;
            self.prepared = Some(prepared);
            self.xid.extend_from_slice(xid.unwrap_or_default());
        }
        self.state = State::Prepared;
        Ok(())
    }

    /// Prepares a transaction that somebody outside decides, perhaps much later (XA PREPARE): logged and
    /// synced, it holds its locks and nothing else. [`Transaction::resume`] comes before `order`. On an error
    /// the transaction is as before.
    pub fn prepare_dormant(&mut self, xid: &[u8]) -> Result<()> {
        self.require_active()?;
        if !self.batch.is_empty() {
            if self.unlocked_puts {
                self.lock_written()?;
            }
            let dormant = self.store.prepare_dormant(&self.batch, xid, &self.owner, self.patience)?;
            let bytes = dormant.batch.body().len();
            let spilled = dormant.batch.runs().is_some();
            self.dormant = Some(dormant);
            self.xid.extend_from_slice(xid);
            self.batch.clear();
            self.count(bytes);
            if spilled {
                // The transaction's own runs, where `prepare` made others of them.
                self.store.unlink_unused();
            }
        }
        self.end_snapshots();
        self.state = State::Prepared;
        Ok(())
    }

    /// Takes what the commit of a dormant transaction needs; may wait and fail, and then the transaction is
    /// still prepared. Nothing to do for others.
    pub fn resume(&mut self) -> Result<()> {
        if let Some(dormant) = &self.dormant {
            self.prepared = Some(self.store.wake(dormant)?);
            self.dormant = None;
        }
        Ok(())
    }

    /// Fixes the place in the commit order. Cannot fail; nothing to do without writes or before
    /// `prepare`.
    pub fn order(&mut self) {
        if let Some(prepared) = &mut self.prepared {
            self.store.order(prepared);
        }
    }

    /// Waits until the commit is visible and as durable as asked for, then releases everything.
    /// `defer_sync`: a checkpoint request will be answered for it. Before `prepare` it is an error that
    /// changes nothing.
    pub fn finish(&mut self, defer_sync: bool) -> Result<()> {
        if self.state != State::Prepared {
            return Err(Error::InvalidArgument("finish before prepare".into()));
        }
        self.resume()?;
        self.order();
        let result = match self.prepared.take() {
            Some(prepared) => self.store.finish(prepared, defer_sync),
            None => Ok(()),
        };
        self.end();
        result
    }

    /// Commits. After an error in `prepare` the transaction is still there, to be rolled back.
    pub fn commit(&mut self) -> Result<()> {
        if self.state != State::Prepared {
            self.prepare(None)?;
        }
        self.finish(false)
    }

    /// Undoes everything, from any state; releases the locks.
    pub fn rollback(&mut self) -> Result<()> {
        let dormant = self.dormant.as_ref().map(|dormant| &dormant.batch);
        let batch = self.prepared.as_ref().map(Prepared::batch).or(dormant);
        let spilled = batch.is_some_and(|batch| batch.runs().is_some());
        let result = match (self.prepared.take(), self.dormant.take()) {
            (Some(prepared), _) => self.store.roll_back_prepared(prepared),
            (None, Some(dormant)) => self.store.roll_back_dormant(&dormant),
            (None, None) => Ok(()),
        };
        self.end();
        if spilled {
            // Of one that was dormant nothing else is left.
            self.store.unlink_unused();
        }
        result
    }

    fn end(&mut self) {
        self.end_snapshots();
        let spilled = !self.batch.runs().is_empty();
        self.batch.clear();
        self.count(0);
        self.xid.clear();
        self.statement = Mark::default();
        self.savepoints.clear();
        self.overtaken.store(false, Ordering::Relaxed);
        self.unlocked_puts = false;
        self.changed();
        self.store.locks.unlock_all(&self.owner);
        if spilled {
            self.store.unlink_unused();
        }
        self.state = State::Idle;
    }

    fn end_snapshots(&mut self) {
        self.end_statement_snapshot();
        self.snapshot_ahead = false;
        if let Some(slot) = self.transaction_snapshot.take() {
            self.store.snapshots.release(slot);
        }
        self.ended_snapshots += 1;
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        // A two-phase prepare was answered: only its coordinator decides, perhaps after a restart. The
        // store keeps batch and locks, as it does for those that recovery finds.
        let ordered = self.prepared.as_ref().is_some_and(|prepared| prepared.seq().is_some());
        if !self.xid.is_empty() && !ordered {
            let prepared = self.prepared.take().and_then(Prepared::into_dormant);
            if let Some(dormant) = self.dormant.take().or(prepared) {
                self.end_snapshots();
                self.count(0);
                let xid = std::mem::take(&mut self.xid);
                self.store.orphan(xid, dormant, self.owner.clone());
                return;
            }
        }
        if self.state != State::Idle {
            // An ordered one is finished. Nobody is left to hear of a failed rollback record; recovery decides
            // such a transaction.
            let _ = self.rollback();
        }
    }
}
