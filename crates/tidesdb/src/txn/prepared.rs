//! Undecided transactions: the batch is in the log, the decision is not. The list holds the log from the
//! oldest batch's segment on and keeps the data to log a prepare again. It counts the log space of
//! XA-prepared transactions (`docs/protocols.md` 1.4, 1.5, 2.8).
//!
//! An **XA-prepared** transaction waits for a decision from outside the commit path: an XA transaction of a
//! user, or one found by recovery. It holds its locks, and room in the log for its decision and for one copy.
//! It has no snapshot and no place among the committers.
//!
//! The list's mutex serialises logging again and deciding: a decided transaction is not logged again. So in
//! the log every copy of a batch stands before its decision. The copy is synced, in every mode, before the
//! segment of the older one is given up.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::error::Result;
use crate::options::LogLevel;
use crate::store::commit_batch::CommitBatch;
use crate::store::sealed_runs::SealedRuns;
use crate::sync::Mutex;
use crate::txn::Transactions;
use crate::types::MemtableId;
use crate::wal::{LogSpace, PreparedHead, Purpose, Record, Ticket, WaitLimit};

/// Room in the log for a marker or rollback record, in bytes, beyond that for the fixed part of any record.
pub(super) const DECISION_BYTES: usize = 64;

/// Room in the log for a record with a batch, and for the names of the batch's runs, if any, before it.
#[derive(Debug)]
pub(crate) struct BatchRoom {
    record: LogSpace,
    names: Option<LogSpace>,
}

impl BatchRoom {
    /// Reserves through `reserve`, for a record of `bytes`.
    pub(crate) fn of(
        bytes: usize,
        batch: &CommitBatch,
        reserve: impl Fn(usize) -> Result<LogSpace>,
    ) -> Result<BatchRoom> {
        let names = batch.runs().map(|runs| reserve(runs.encode().len() + DECISION_BYTES)).transpose()?;
        Ok(BatchRoom { record: reserve(bytes)?, names })
    }

    /// See [`LogSpace::set_aside`].
    pub(super) fn set_aside(self) -> BatchRoom {
        BatchRoom { record: self.record.set_aside(), names: self.names.map(LogSpace::set_aside) }
    }

    /// Queues the names of the batch's runs, if it has any, and `record`; returns the record's ticket.
    pub(crate) fn queue(
        self,
        id: u64,
        batch: &CommitBatch,
        record: Record,
        queue: impl Fn(LogSpace, Record) -> Ticket,
    ) -> Ticket {
        if let (Some(room), Some(runs)) = (self.names, batch.runs()) {
            queue(room, Record::RunNames { txn: id, names: Arc::new(runs.encode()) });
        }
        queue(self.record, record)
    }
}

/// Bytes of a copy's record, and the batch in it.
type Need = (usize, Arc<CommitBatch>);

/// The data to log a prepare again.
#[derive(Debug)]
struct Copy {
    head: Arc<PreparedHead>,
    batch: Arc<CommitBatch>,
    /// Waits for a decision from outside; counts toward the bound.
    xa_prepared: bool,
    /// Room for the next copy; reserved at prepare for XA-prepared ones, else when it is needed.
    room: Option<BatchRoom>,
    /// Room for the marker or rollback record of an XA-prepared one.
    decision: Option<LogSpace>,
}

impl Copy {
    fn bytes(&self) -> usize {
        prepare_bytes(&self.head, &self.batch)
    }

    fn need(&self) -> Need {
        (self.bytes(), self.batch.clone())
    }
}

#[derive(Debug)]
struct Entry {
    /// The first segment with a possible place of the batch's newest copy.
    segment: u32,
    /// Its decision is queued for the log: it is not logged again.
    decided: bool,
    /// An earlier flush found it below the memtables' part of the log.
    in_the_way: bool,
    /// `None`: a large one-phase batch with its decision under way.
    copy: Option<Copy>,
}

/// See the module's comment.
#[derive(Debug, Default)]
pub(crate) struct PreparedTransactions {
    entries: Mutex<BTreeMap<u64, Entry>>,
}

/// An XA-prepared transaction, held by the party that may decide it.
#[derive(Clone, Debug)]
pub(crate) struct XaPrepared {
    /// Its id in the log.
    pub id: u64,
    /// Its changes.
    pub batch: Arc<CommitBatch>,
}

/// Reasons to refuse a prepare with a bound.
#[derive(Debug)]
pub(super) enum NotAdmitted {
    /// It would pass the bound, together with the bytes of the others, given here.
    TooLarge(u64),
    /// An undecided one has its xid.
    SameXid,
}

/// Log space of a prepare in bytes, as reservations count it.
pub(crate) fn prepare_bytes(head: &PreparedHead, batch: &CommitBatch) -> usize {
    batch.body().len() + head.xid.len() + head.locks.len() + DECISION_BYTES
}

impl PreparedTransactions {
    /// A large one-phase batch is about to be logged, at or after `segment`.
    pub(super) fn insert_large_batch(&self, id: u64, segment: u32) {
        let entry = Entry { segment, decided: false, in_the_way: false, copy: None };
        self.entries.lock().insert(id, entry);
    }

    /// A prepare is about to be logged, or was found by recovery, at or after `segment`. With a bound it will
    /// be XA-prepared: it is admitted, or nothing changes.
    pub(super) fn insert_prepared(
        &self,
        id: u64,
        segment: u32,
        (head, batch): (Arc<PreparedHead>, Arc<CommitBatch>),
        xa_prepared_bound: Option<u64>,
    ) -> Result<(), NotAdmitted> {
        let xa_prepared = xa_prepared_bound.is_some();
        let copy = Copy { head, batch, xa_prepared, room: None, decision: None };
        let mut entries = self.entries.lock();
        if let Some(bound) = xa_prepared_bound {
            let mut others = 0;
            for (other, decided) in entries.values().filter_map(|e| Some((e.copy.as_ref()?, e.decided))) {
                if !other.xa_prepared {
                    continue;
                }
                if !decided && other.head.xid == copy.head.xid {
                    return Err(NotAdmitted::SameXid);
                }
                others += other.bytes() as u64;
            }
            if others + copy.bytes() as u64 > bound {
                return Err(NotAdmitted::TooLarge(others));
            }
        }
        let entry = Entry { segment, decided: false, in_the_way: false, copy: Some(copy) };
        entries.insert(id, entry);
        Ok(())
    }

    /// From now on, the transaction waits for a decision from outside. Its reservations are kept with it.
    pub(super) fn make_xa_prepared(&self, id: u64, room: Option<BatchRoom>, decision: Option<LogSpace>) {
        if let Some(copy) = self.entries.lock().get_mut(&id).and_then(|entry| entry.copy.as_mut()) {
            copy.xa_prepared = true;
            copy.room = room.or(copy.room.take());
            copy.decision = decision.or(copy.decision.take());
        }
    }

    /// Takes the room kept for an XA-prepared transaction's decision.
    pub(super) fn take_decision_room(&self, id: u64) -> Option<LogSpace> {
        self.entries.lock().get_mut(&id)?.copy.as_mut()?.decision.take()
    }

    /// Marks the transaction decided and queues its decision, in one step. `queue` gets the first segment
    /// with a possible place of its batch.
    pub(super) fn decide<T>(&self, id: u64, queue: impl FnOnce(Option<u32>) -> T) -> T {
        let mut entries = self.entries.lock();
        let entry = entries.get_mut(&id);
        let segment = entry.map(|entry| {
            entry.decided = true;
            entry.segment
        });
        queue(segment)
    }

    /// Bytes of log space kept for copies.
    fn kept(&self) -> u64 {
        let entries = self.entries.lock();
        let copies = entries.values().filter_map(|entry| entry.copy.as_ref());
        copies.filter(|copy| copy.room.is_some()).map(|copy| copy.bytes() as u64).sum()
    }

    /// Removes a transaction after its decision: it holds nothing any more.
    pub(super) fn remove(&self, id: u64) {
        let entry = self.entries.lock().remove(&id);
        // Reservations are given back outside of the mutex.
        drop(entry);
    }

    /// Runs `queue` while nothing is decided. Returns the runs of all prepared batches possibly in the log at
    /// this moment. (A batch is listed before its record is queued, and leaves the list after its decision.)
    pub(crate) fn at_backup_point<T>(&self, queue: impl FnOnce() -> T) -> (T, Vec<SealedRuns>) {
        let entries = self.entries.lock();
        let done = queue();
        let copies = entries.values().filter_map(|entry| entry.copy.as_ref());
        (done, copies.filter_map(|copy| copy.batch.runs().cloned()).collect())
    }

    /// The first segment with a possible place of an undecided batch.
    pub(crate) fn first_segment(&self) -> Option<u32> {
        self.entries.lock().values().map(|entry| entry.segment).min()
    }

    /// Prepares below `needed` already noted by an earlier flush. Those without reserved room come with the
    /// bytes of a copy and its batch. The others below are noted for the next time.
    fn old(&self, needed: u32) -> Vec<(u64, Option<Need>)> {
        let mut old = Vec::new();
        for (id, entry) in self.entries.lock().iter_mut() {
            let Some(copy) = &entry.copy else { continue };
            if entry.decided || entry.segment >= needed {
                continue;
            }
            if entry.in_the_way {
                old.push((*id, copy.room.is_none().then(|| copy.need())));
            }
            entry.in_the_way = true;
        }
        old
    }

    /// Queues a copy through `queue`, unless the transaction is decided or there is no room.
    fn copy(&self, id: u64, room: Option<BatchRoom>, queue: impl Fn(LogSpace, Record) -> Ticket) -> bool {
        let mut entries = self.entries.lock();
        let Some(entry) = entries.get_mut(&id).filter(|entry| !entry.decided) else { return false };
        let Some(copy) = &mut entry.copy else { return false };
        let Some(room) = copy.room.take().or(room) else { return false };
        let (head, batch) = (copy.head.clone(), copy.batch.clone());
        room.queue(id, &batch, Record::RewrittenPrepare { txn: id, head, batch: batch.clone() }, queue);
        true
    }

    /// The copy of `id` is durable at or after `segment`. Returns the bytes of the next copy and its batch,
    /// if an XA-prepared transaction has no room for it.
    fn copied(&self, id: u64, segment: u32) -> Option<Need> {
        let mut entries = self.entries.lock();
        let entry = entries.get_mut(&id).filter(|entry| !entry.decided)?;
        entry.segment = segment;
        entry.in_the_way = false;
        let copy = entry.copy.as_ref()?;
        (copy.xa_prepared && copy.room.is_none()).then(|| copy.need())
    }
}

impl Transactions {
    /// Bound on the log space of XA-prepared transactions, in bytes: a quarter of the log of two memtables.
    pub(crate) fn xa_prepared_bound(&self) -> u64 {
        self.store.live.write_buffer_size() as u64 * 2 / 4
    }

    /// Queues copies of old undecided prepares with a batch below `needed`, the first segment still needed
    /// for other reasons. A sync of the log and [`Transactions::prepared_rewritten`] must follow.
    pub(crate) fn rewrite_prepared(&self, needed: u32) -> Vec<(u64, u32)> {
        let mut copies = Vec::new();
        for (id, missing_room) in self.prepared.old(needed) {
            let room = missing_room.and_then(|(bytes, batch)| self.room_now(bytes, &batch).ok());
            let segment = self.store.wal.written_lsn().segment();
            if self.prepared.copy(id, room, |room, record| self.store.wal.enqueue(room, record)) {
                copies.push((id, segment));
            }
        }
        copies
    }

    /// The copies are durable: the segments of the older ones are not held any more.
    pub(crate) fn prepared_rewritten(&self, copies: &[(u64, u32)]) {
        for &(id, segment) in copies {
            let Some((bytes, batch)) = self.prepared.copied(id, segment) else { continue };
            match self.copy_room(bytes, &batch) {
                Ok(room) => self.prepared.make_xa_prepared(id, room, None),
                Err(error) => self.store.log(
                    LogLevel::Warn,
                    &format!(
                        "no room for the next copy of prepared transaction {id}: the log is kept for it \
                         until there is some: {error}"
                    ),
                ),
            }
        }
    }

    /// Room to keep for the next copy of an XA-prepared transaction. `None` if copies have their share of the
    /// log's room: every commit needs the rest, and recovery may find more prepared transactions. The copy
    /// then asks for room when it is made.
    pub(super) fn copy_room(&self, bytes: usize, batch: &CommitBatch) -> Result<Option<BatchRoom>> {
        match self.prepared.kept() + bytes as u64 > self.xa_prepared_bound() {
            true => Ok(None),
            false => Ok(Some(self.room_now(bytes, batch)?.set_aside())),
        }
    }

    /// Room for a record of `bytes` with this batch, if available at once.
    fn room_now(&self, bytes: usize, batch: &CommitBatch) -> Result<BatchRoom> {
        BatchRoom::of(bytes, batch, |bytes| {
            self.store.wal.reserve(bytes, Purpose::Ordinary, &WaitLimit::of(Duration::ZERO))
        })
    }

    /// Decides the transaction `id`, whose changes go into `memtable`: from now on this memtable needs the
    /// log from the transaction's batch on. `queue` queues the marker. Runs under the order lock.
    pub(crate) fn decide_into<T>(&self, id: u64, memtable: MemtableId, queue: impl FnOnce() -> T) -> T {
        self.prepared.decide(id, |segment| {
            if let Some(segment) = segment {
                let mut held = self.store.memtables.min_prepared_segment.lock();
                let from = held.entry(memtable).or_insert(segment);
                *from = (*from).min(segment);
            }
            queue()
        })
    }
}
