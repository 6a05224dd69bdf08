//! Commit as three calls over the log, the order and the memtables (`docs/protocols.md` section 2).

use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::format::cluster_position::ClusterPosition;
use crate::lock::LockOwner;
use crate::memtable::Memtable;
use crate::mutant::{self, Mutant};
use crate::options::SyncMode;
use crate::store::commit_batch::CommitBatch;
use crate::store::memtables::Sealed;
use crate::store::pipeline::CommitPlace;
use crate::store::sealed_runs::SealedRuns;
use crate::store::super_version::Flushable;
use crate::sync::{note, point, stage};
use crate::txn::logged_locks::{self, LoggedLocks};
use crate::txn::prepared::{prepare_bytes, BatchRoom, NotAdmitted, XaPrepared, DECISION_BYTES};
use crate::txn::write_batch::WriteBatch;
use crate::txn::Transactions;
use crate::value_holds::ValueHolds;
use crate::wal::{Ddl, LogSpace, PreparedHead, Purpose, Record, Ticket, WaitLimit};

/// Batches above this size go to the log before `order`, to bound the work of a slot there.
const LARGE_BATCH: usize = if cfg!(simulation) { 4 << 10 } else { 1 << 20 };

/// Longest wait for a place among the committers or for room in the log.
pub(crate) const SPACE_WAIT: Duration = Duration::from_secs(60);

/// Commits between two checks of the snapshot slots.
const OLDEST_SNAPSHOT_EVERY: u64 = if cfg!(simulation) { 2 } else { 32 };

/// The clock is read for one commit in so many, by its sequence number.
pub(crate) const COMMITS_PER_SAMPLE: u64 = 64;

/// The form of a commit in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// The batch and its marker are one record.
    Whole(Option<Ddl>),
    /// The batch was written before and is undecided; the marker names the transaction.
    Marker(u64),
}

/// Who relies on the prepare of a transaction in two phases.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Coordinator {
    /// A log that names it: the prepare and a rollback of it are synced.
    Log,
    /// Other nodes of a cluster, which have the transaction and give it again: both are written. The rollback is synced, if
    /// files go with it.
    Cluster,
}

/// A transaction between `reserve_commit` and its end, with everything `order` needs. A two-phase one is prepared as well.
#[derive(Debug)]
pub struct ReservedCommit {
    batch: Arc<CommitBatch>,
    form: Form,
    reservation: Option<LogSpace>,
    /// Of a transaction in two phases.
    coordinator: Option<Coordinator>,
    sync: SyncMode,
    /// A stricter mode of the store at the end applies.
    follows_store: bool,
    /// Its end does not wait for room in a log on a full disk.
    leaves_when_full: bool,
    _place: CommitPlace,
}

impl ReservedCommit {
    /// Its place, once it is ordered.
    #[cfg(simulation)]
    pub(crate) fn ordered_seq(&self) -> Option<crate::types::Seq> {
        self.batch.ordered().map(|ordered| ordered.seq)
    }

    /// The transaction, if it is in the log and neither ordered nor rolled back; releases its reservations.
    /// An ordered one must be finished instead.
    pub(crate) fn to_xa_prepared(&self) -> Option<XaPrepared> {
        match self.form {
            Form::Marker(id) if self.batch.ordered().is_none() => {
                Some(XaPrepared { id, batch: self.batch.clone() })
            }
            _ => None,
        }
    }

    /// The end of the commit need not wait for a sync in any mode: nobody was promised anything yet.
    pub(crate) fn needs_no_sync(&mut self) {
        self.sync = SyncMode::None;
        self.follows_store = false;
    }

    /// Bytes of memory of the changes.
    pub(crate) fn memory(&self) -> usize {
        self.batch.memory()
    }

    /// Sequence number, once ordered.
    pub fn seq(&self) -> Option<u64> {
        self.batch.ordered().map(|ordered| ordered.seq)
    }
}

/// A prepare on its way to the log.
struct PrepareToLog {
    id: u64,
    head: Arc<PreparedHead>,
    batch: Arc<CommitBatch>,
    /// Of an XA-prepared transaction: the bytes that all such may have in the log.
    bound: Option<u64>,
    coordinator: Coordinator,
}

/// The error for a second transaction with the same xid: a decision could not tell them apart.
fn same_xid() -> Error {
    Error::InvalidArgument("another prepared transaction has this xid: decide that one first".into())
}

impl Transactions {
    /// Reserves everything for the commit: its last step that may fail, wait (for space, `max_wait` at most) or
    /// be killed. With an xid it is two-phase: the batch is logged as prepared, with the owner's table locks.
    pub(crate) fn reserve_commit(
        &self,
        batch: &WriteBatch,
        xid: Option<(&[u8], Coordinator)>,
        sync: Option<SyncMode>,
        owner: &LockOwner,
        max_wait: Duration,
    ) -> Result<ReservedCommit> {
        if owner.is_killed() {
            return Err(Error::Interrupted);
        }
        let sync = self.sync_of(batch, sync);
        let changes = batch;
        let batch = self.batch_of(changes, owner)?;
        let until_killed = WaitLimit { timeout: max_wait, interrupted: &|| owner.is_killed() };
        match xid {
            None => self.reserve_batch(batch, None, sync, &until_killed),
            Some((xid, coordinator)) => {
                self.store.check_writable()?;
                if self.detached.lock().contains_key(xid) {
                    return Err(same_xid());
                }
                let id = self.store.new_transaction_id();
                let mut reserved =
                    self.reserve(batch.clone(), Form::Marker(id), Some(coordinator), sync, &until_killed)?;
                let head = self.head_of(xid, owner, changes);
                let to_log = PrepareToLog { id, head, batch, bound: None, coordinator };
                self.log_prepare(to_log, &mut reserved.reservation, &until_killed)?;
                Ok(reserved)
            }
        }
    }

    /// The changes in the form of a commit: in memory, or as durable runs.
    fn batch_of(&self, batch: &WriteBatch, owner: &LockOwner) -> Result<Arc<CommitBatch>> {
        if batch.runs().is_empty() {
            return Ok(Arc::new(batch.to_commit_batch()));
        }
        // The part that was written takes space, perhaps of a full disk.
        let runs = batch.seal(&self.store, owner).inspect_err(|_| self.store.unlink_unused())?;
        stage("stage: runs of a transaction, not yet logged");
        Ok(Arc::new(CommitBatch::spilled(runs).holding(batch.values(), ValueHolds::default())))
    }

    /// As [`Transactions::reserve_commit`], for a complete batch, in one phase.
    pub(crate) fn reserve_batch(
        &self,
        batch: Arc<CommitBatch>,
        ddl: Option<Ddl>,
        sync: SyncMode,
        wait_limit: &WaitLimit<'_>,
    ) -> Result<ReservedCommit> {
        self.store.check_writable()?;
        if ddl.is_some() || (batch.body().len() <= LARGE_BATCH && batch.runs().is_none()) {
            return self.reserve(batch, Form::Whole(ddl), None, sync, wait_limit);
        }
        let id = self.store.new_transaction_id();
        let reserved = self.reserve(batch.clone(), Form::Marker(id), None, sync, wait_limit)?;
        let room = self.batch_room(batch.body().len() + DECISION_BYTES, &batch, wait_limit)?;
        self.prepared.insert_large_batch(id, self.store.wal.written_lsn().segment());
        let ticket = self.log_batch(id, room, &batch, Record::LargeBatch { txn: id, batch: batch.clone() });
        if let Err(error) = self.store.wal.wait_written_unless_full(ticket) {
            // No marker follows: a recovery that finds the batch drops it, and never looks at its runs. A full
            // disk gets their space back now.
            self.prepared.remove(id);
            if let Some(runs) = batch.runs() {
                runs.give_up(&self.store.versions);
            }
            return Err(error);
        }
        Ok(reserved)
    }

    /// Two-phase prepare of a transaction to be decided from outside the commit path. It takes no place and
    /// no memtable room until [`Transactions::resume`], and its part of the log is bounded.
    pub(crate) fn prepare_xa(
        &self,
        batch: &WriteBatch,
        xid: &[u8],
        owner: &LockOwner,
        max_wait: Duration,
    ) -> Result<XaPrepared> {
        if owner.is_killed() {
            return Err(Error::Interrupted);
        }
        self.store.check_writable()?;
        let head = self.head_of(xid, owner, batch);
        let batch = self.batch_of(batch, owner)?;
        let bytes = prepare_bytes(&head, &batch);
        let until_killed = WaitLimit { timeout: max_wait, interrupted: &|| owner.is_killed() };
        let mut decision = Some(self.log_room(DECISION_BYTES, Purpose::Urgent, &until_killed)?.set_aside());
        let copy = self.batch_room(bytes, &batch, &until_killed)?.set_aside();
        let id = self.store.new_transaction_id();
        let bound = Some(self.xa_prepared_bound());
        let to_log = PrepareToLog { id, head, batch: batch.clone(), bound, coordinator: Coordinator::Log };
        self.log_prepare(to_log, &mut decision, &until_killed)?;
        self.prepared.make_xa_prepared(id, Some(copy), decision);
        Ok(XaPrepared { id, batch })
    }

    /// Reserves for the `order` of an XA-prepared transaction. May wait; after an error the transaction is as
    /// before.
    pub(crate) fn resume(&self, xa_prepared: &XaPrepared) -> Result<ReservedCommit> {
        self.store.check_writable()?;
        // Its coordinator forgets it with the answer: the decision is durable in every mode, and no KILL keeps
        // it from being carried out.
        let wait_limit = WaitLimit::of(SPACE_WAIT);
        self.reserve(
            xa_prepared.batch.clone(),
            Form::Marker(xa_prepared.id),
            Some(Coordinator::Log),
            SyncMode::Full,
            &wait_limit,
        )
    }

    /// Rolls an XA-prepared transaction back, durably in every mode.
    pub(crate) fn roll_back_xa(&self, xa_prepared: &XaPrepared) -> Result<()> {
        self.store.check_writable()?;
        let room = self.decision_room(xa_prepared.id, &WaitLimit::of(SPACE_WAIT))?;
        self.log_rollback(xa_prepared.id, &xa_prepared.batch, room, true)
    }

    /// Reserves for `order` a place among the committers, and room in the memtable and in the log.
    fn reserve(
        &self,
        batch: Arc<CommitBatch>,
        form: Form,
        coordinator: Option<Coordinator>,
        sync: SyncMode,
        wait_limit: &WaitLimit<'_>,
    ) -> Result<ReservedCommit> {
        // What is ordered waits for room in the log, so nothing is ordered while others wait.
        self.store.wal.check_room()?;
        let place = self.store.pipeline.reserve(&*self.store.env.clock, wait_limit)?;
        let purpose = match form {
            // They give space back.
            Form::Whole(Some(Ddl::Drop | Ddl::Swap | Ddl::Other)) => Purpose::Urgent,
            _ => Purpose::Ordinary,
        };
        match self.store.make_room(batch.memtable_bytes(), wait_limit) {
            // Their entries are few: memory that a full disk keeps from being flushed has room for them.
            Err(Error::DiskFull(_)) if purpose == Purpose::Urgent => {}
            done => done?,
        }
        let reservation = match form {
            Form::Whole(_) => self.log_room(batch.body().len() + DECISION_BYTES, purpose, wait_limit)?,
            Form::Marker(id) => self.decision_room(id, wait_limit)?,
        };
        Ok(ReservedCommit {
            batch,
            form,
            reservation: Some(reservation),
            coordinator,
            sync,
            follows_store: true,
            leaves_when_full: false,
            _place: place,
        })
    }

    /// The head of a prepare record: all but its batch.
    fn head_of(&self, xid: &[u8], owner: &LockOwner, batch: &WriteBatch) -> Arc<PreparedHead> {
        let is_written = |family, key: &[u8]| {
            batch.get(family, key).is_some() || batch.runs().get(family, key).is_ok_and(|hit| hit.is_some())
        };
        let ranges = match owner.keeps_reads() {
            true => self.locks.kept_ranges(owner, is_written),
            false => Vec::new(),
        };
        let tables = self.locks.table_locks(owner);
        let advisory = self.locks.advisory_locks(owner);
        let locks = logged_locks::encode(&LoggedLocks { tables, ranges, advisory });
        Arc::new(PreparedHead { xid: xid.to_vec(), locks })
    }

    /// Logs a prepare and syncs it, in every mode: its coordinator's log may name it from now on. With a
    /// bound, the transaction will be XA-prepared. `decision` is room for its rollback, used if the prepare
    /// is refused after it was queued.
    fn log_prepare(
        &self,
        PrepareToLog { id, head, batch, bound, coordinator }: PrepareToLog,
        decision: &mut Option<LogSpace>,
        wait_limit: &WaitLimit<'_>,
    ) -> Result<()> {
        self.store.seal_for_long_log();
        let size = prepare_bytes(&head, &batch);
        let room = self.batch_room(size, &batch, wait_limit)?;
        let segment = self.store.wal.written_lsn().segment();
        let admitted = self.prepared.insert_prepared(id, segment, (head.clone(), batch.clone()), bound);
        match admitted {
            Ok(()) => {}
            Err(NotAdmitted::TooLarge(others)) => {
                let (size, bound) = (size as u64, bound.unwrap_or_default());
                let variable = self.store.options.write_buffer_variable;
                return Err(Error::PreparedTooLarge { size, others, bound, variable });
            }
            Err(NotAdmitted::SameXid) => return Err(same_xid()),
        }
        let ticket =
            self.log_batch(id, room, &batch, Record::Prepared { txn: id, head, batch: batch.clone() });
        let logged = match coordinator {
            Coordinator::Log => self.store.wal.wait_durable_unless_full(ticket),
            Coordinator::Cluster => self.store.wal.wait_written_unless_full(ticket),
        };
        if let Err(error) = &logged {
            self.withdraw(id, &batch, decision.take(), error);
        }
        logged
    }

    /// Undoes a queued and refused prepare. Refused for want of room in the log, its rollback follows once
    /// there is room; nobody waits for it. Until then, recovery after a crash finds the transaction undecided
    /// or not at all.
    fn withdraw(&self, id: u64, batch: &Arc<CommitBatch>, decision: Option<LogSpace>, error: &Error) {
        if let (Error::DiskFull(_), Some(room)) = (error, decision) {
            let ticket =
                self.prepared.decide(id, |_| self.store.wal.enqueue(room, Record::Rollback { txn: id }));
            if batch.has_files() {
                self.withdrawn.lock().push((ticket, Arc::clone(batch)));
            }
            // Nobody waits, but the log has a reason to write and sync it.
            self.store.wal.when_durable(ticket, |_| {});
        }
        self.prepared.remove(id);
    }

    /// Releases the runs and value files of refused prepares with a durable rollback; true if there were some.
    pub(crate) fn give_up_withdrawn(&self) -> bool {
        let durable = self.store.wal.durable_ticket();
        let mut withdrawn = self.withdrawn.lock();
        let before = withdrawn.len();
        withdrawn.retain(|(ticket, batch)| {
            if let Some(runs) = batch.runs().filter(|_| *ticket <= durable) {
                runs.give_up(&self.store.versions);
            }
            *ticket > durable
        });
        withdrawn.len() < before
    }

    /// Room for the decision of a transaction: its kept room, or new room.
    fn decision_room(&self, id: u64, wait_limit: &WaitLimit<'_>) -> Result<LogSpace> {
        match self.prepared.take_decision_room(id) {
            Some(room) => Ok(room),
            None => Ok(self.log_room(DECISION_BYTES, Purpose::Urgent, wait_limit)?.set_aside()),
        }
    }

    /// Room for a record of `bytes` with a batch in it, and for the names of its runs.
    fn batch_room(&self, bytes: usize, batch: &CommitBatch, wait_limit: &WaitLimit<'_>) -> Result<BatchRoom> {
        BatchRoom::of(bytes, batch, |bytes| self.log_room(bytes, Purpose::Ordinary, wait_limit))
    }

    /// Queues the names of the batch's runs, then `record`, which contains the batch.
    fn log_batch(&self, id: u64, room: BatchRoom, batch: &CommitBatch, record: Record) -> Ticket {
        if let Some(runs) = batch.runs() {
            runs.keep(&self.store.versions);
        }
        room.queue(id, batch, record, |room, record| self.store.wal.enqueue(room, record))
    }

    fn log_rollback(&self, id: u64, batch: &CommitBatch, room: LogSpace, durable: bool) -> Result<()> {
        let ticket = self.prepared.decide(id, |_| self.store.wal.enqueue(room, Record::Rollback { txn: id }));
        let result = match durable {
            true => self.store.wal.wait_durable(ticket),
            false => self.store.wal.wait_written(ticket),
        };
        self.prepared.remove(id);
        if let (Ok(()), Some(runs)) = (&result, batch.runs()) {
            runs.give_up(&self.store.versions);
        }
        result
    }

    /// As [`Transactions::order_at`], without a position.
    pub(crate) fn order(&self, reserved: &mut ReservedCommit) {
        self.order_at(reserved, None);
    }

    /// Takes the sequence number and the place in the log, which gets the commit's position in a cluster's order. Cannot
    /// fail, allocate or wait; a second call does nothing.
    pub(crate) fn order_at(&self, reserved: &mut ReservedCommit, position: Option<Box<ClusterPosition>>) {
        let Some(reservation) = reserved.reservation.take() else { return };
        let form = reserved.form;
        if let (Some(runs), Form::Marker(id)) = (reserved.batch.runs(), form) {
            self.order_runs(id, &reserved.batch, runs, position, reservation);
        } else {
            let batch = reserved.batch.clone();
            let newest = position.as_deref().copied();
            self.store.pipeline.order(&reserved.batch, newest, move |seq, memtable| match form {
                Form::Whole(None) => {
                    self.store.wal.enqueue(reservation, Record::Commit { seq, position, batch })
                }
                Form::Whole(Some(ddl)) => {
                    self.store.wal.enqueue(reservation, Record::Ddl { ddl, seq, position, batch })
                }
                Form::Marker(txn) => self.decide_into(txn, memtable.id(), || {
                    self.store.wal.enqueue(reservation, Record::Marker { txn, seq, position })
                }),
            });
        }
        #[cfg(simulation)]
        reserved.seq().into_iter().for_each(crate::sync::scheduler::note_place);
    }

    /// Orders a transaction with changes in `runs`, and rotates the memtable in the same step. Earlier
    /// commits lie below the runs, later ones above. `marker` is room in the log.
    fn order_runs(
        &self,
        id: u64,
        batch: &Arc<CommitBatch>,
        runs: &SealedRuns,
        position: Option<Box<ClusterPosition>>,
        marker: LogSpace,
    ) {
        let mut state = self.store.memtables.state.lock();
        note("rotation: runs");
        // Numbers are given out under the lock that every rotation holds: they ascend with the order.
        let first = self.store.new_memtable_id();
        for _ in 1..runs.generations() {
            self.store.new_memtable_id();
        }
        let fresh = Arc::new(Memtable::new(self.store.new_memtable_id(), self.store.arenas.clone()));
        // Everything that will belong to the fresh one is written after this.
        let min_segment = self.store.wal.written_lsn().segment();
        let newest = position.as_deref().copied();
        self.store.pipeline.order_and_rotate(batch, newest, fresh.clone(), |seq, sealed, [before, own]| {
            let runs = Arc::new(runs.commit(&self.store.versions, seq, first));
            runs.unproven_upto().into_iter().for_each(|seq| self.store.distrust_upto(seq));
            let upto = runs.id();
            state.min_segment.insert(fresh.id(), min_segment);
            let flushables = vec![
                Sealed {
                    flushable: Flushable::Memtable(sealed.clone()),
                    last_seq: seq - 1,
                    position: before,
                },
                Sealed { flushable: Flushable::Runs(runs), last_seq: seq, position: own },
            ];
            self.store.push_sealed(&mut state, &fresh, flushables);
            let record = Record::Marker { txn: id, seq, position };
            self.decide_into(id, upto, || self.store.wal.enqueue(marker, record))
        });
        drop(state);
        self.store.memtables.changed.notify_all();
    }

    /// Waits until the record of an ordered commit is in the log's file, in any sync mode.
    pub(crate) fn wait_written(&self, reserved: &ReservedCommit) -> Result<()> {
        let Some(ordered) = reserved.batch.ordered() else {
            return Err(Error::InvalidArgument("a wait for the record of a commit before order".into()));
        };
        self.store.wal.wait_written(ordered.ticket)
    }

    /// Makes an ordered commit visible, and as durable as requested.
    pub(crate) fn finish(&self, reserved: ReservedCommit, defer_sync: bool) -> Result<()> {
        let Some(ordered) = reserved.batch.ordered() else {
            return Err(Error::InvalidArgument("finish before order".into()));
        };
        let begun = (ordered.seq % COMMITS_PER_SAMPLE == 0).then(|| self.store.env.clock.now());
        point();
        let oldest_snapshot = self.store.snapshots.oldest_snapshot();
        reserved.batch.apply(oldest_snapshot);
        point();
        if !mutant::is(Mutant::AnsweredBeforeVisible) {
            self.store.pipeline.help_until(ordered.seq, oldest_snapshot);
        }
        if ordered.seq % OLDEST_SNAPSHOT_EVERY == 0 {
            self.store.refresh_oldest_snapshot();
        }
        if let Form::Marker(id) = reserved.form {
            self.prepared.remove(id);
        }
        self.store.stats.commits.fetch_add(1, Relaxed);
        self.store.stats.user_bytes.fetch_add(reserved.batch.user_bytes(), Relaxed);
        if let Some(runs) = reserved.batch.runs() {
            self.store.stats.run_bytes.fetch_add(runs.raw_bytes(), Relaxed);
        }
        let two_phase = reserved.coordinator.is_some();
        let defer_sync = defer_sync && reserved.coordinator == Some(Coordinator::Log);
        // Read after the record was queued: either the mode is the new one, or the sync of its change covers the record.
        let sync = match reserved.follows_store {
            true => reserved.sync.max(self.store.live.sync_mode()),
            false => reserved.sync,
        };
        let logged = match reserved.leaves_when_full {
            true => self.store.wal.wait_durable_unless_full(ordered.ticket),
            false => self.wait_logged(ordered.ticket, sync, defer_sync),
        };
        if let Some(begun) = begun {
            self.store.stats.commit_times.add(self.store.env.clock.elapsed(begun));
        }
        match logged {
            Ok(()) => {
                if defer_sync {
                    self.store.answer_unsynced(ordered.seq);
                }
                Ok(())
            }
            // The decision is not in the log, but the prepare is: the coordinator's log says what became of it.
            Err(Error::ReadOnly(_)) if two_phase => Err(Error::OutcomeUnknown),
            done => done,
        }
    }

    /// Reserves room for a record in the log.
    fn log_room(&self, bytes: usize, purpose: Purpose, wait_limit: &WaitLimit<'_>) -> Result<LogSpace> {
        self.store.wal.reserve(bytes, purpose, wait_limit)
    }

    fn wait_logged(&self, ticket: Ticket, sync: SyncMode, defer_sync: bool) -> Result<()> {
        if mutant::is(Mutant::CommitAnsweredUnwritten) {
            return Ok(());
        }
        if sync == SyncMode::Full && !defer_sync && !mutant::is(Mutant::CommitAnsweredUnsynced) {
            self.store.wal.wait_durable(ticket)
        } else {
            self.store.wal.wait_written(ticket)
        }
    }

    /// Undoes a reserved commit: a rollback record if its batch is in the log. Durable before the answer
    /// if the prepare was.
    pub(crate) fn roll_back_reserved(&self, mut reserved: ReservedCommit) -> Result<()> {
        if reserved.batch.ordered().is_some() {
            // Too late: it is in the commit order.
            return self.finish(reserved, false);
        }
        let Form::Marker(id) = reserved.form else { return Ok(()) };
        let Some(room) = reserved.reservation.take() else { return Ok(()) };
        // After a power cut the prepare may be there without a rollback that was not synced: its files must be, too.
        let synced = reserved.coordinator == Some(Coordinator::Log) || reserved.batch.has_files();
        self.log_rollback(id, &reserved.batch, room, synced)
    }

    /// Commits a batch of the engine's own, durably. Without a DDL it does not wait for a full disk: after `DiskFull` the
    /// batch may become durable later.
    pub(crate) fn commit_internal(&self, batch: &WriteBatch, ddl: Option<Ddl>) -> Result<u64> {
        let batch = Arc::new(batch.to_commit_batch());
        let mut reserved = self.reserve_batch(batch, ddl, SyncMode::Full, &WaitLimit::of(SPACE_WAIT))?;
        reserved.leaves_when_full = ddl.is_none();
        self.order(&mut reserved);
        let seq = reserved.seq().unwrap_or_default();
        self.finish(reserved, false)?;
        Ok(seq)
    }

    /// Writes a cluster's position without changes, as durable as the store's sync mode says.
    pub(crate) fn commit_position(&self, position: &ClusterPosition) -> Result<()> {
        self.store.check_positions()?;
        self.store.seal_for_long_log();
        let batch = Arc::new(WriteBatch::default().to_commit_batch());
        let sync = self.store.live.sync_mode();
        let mut reserved = self.reserve_batch(batch, None, sync, &WaitLimit::of(SPACE_WAIT))?;
        self.order_at(&mut reserved, Some(Box::new(*position)));
        self.finish(reserved, false)
    }

    /// The strictest of the store's mode, the families' modes and the commit's own.
    fn sync_of(&self, batch: &WriteBatch, asked: Option<SyncMode>) -> SyncMode {
        let store = self.store.live.sync_mode();
        if store == SyncMode::Full {
            return store;
        }
        let touched = batch.touched().chain(batch.runs().families());
        let families = touched.filter_map(|family| self.store.catalog.sync_mode(family)).max();
        store.max(families.unwrap_or(SyncMode::None)).max(asked.unwrap_or(SyncMode::None))
    }
}
