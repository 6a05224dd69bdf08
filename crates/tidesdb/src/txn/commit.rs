//! Commit as three calls over the log, the order and the memtables (`protocols.md` section 2).

use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;
use std::time::Duration;

use crate::db::Store;
use crate::error::{Error, Result};
use crate::lock::Owner;
use crate::options::SyncMode;
use crate::txn::commit_batch::CommitBatch;
use crate::txn::pipeline::Place;
use crate::txn::write_batch::WriteBatch;
use crate::wal::{Ddl, Patience, PreparedHead, Purpose, Record, Reservation, Ticket};

/// Batches above this go to the log before `order`, so that a slot's work there is bounded.
const LARGE_BATCH: usize = 1 << 20;

/// Bytes that a marker or rollback record takes at most, with its header.
const MARKER_BYTES: usize = 64;

/// Longest wait for a place among the committers or for room in the log.
const ROOM_PATIENCE: Duration = Duration::from_secs(60);

/// Commits between two looks at the snapshot slots.
const FLOOR_EVERY: u64 = 32;

/// How the commit's place in the log looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// The batch and its marker are one record.
    Whole,
    /// The batch was written before; the marker names the transaction.
    Marker(u64),
}

/// A transaction between `prepare` and its end.
#[derive(Debug)]
pub struct Prepared {
    batch: Arc<CommitBatch>,
    form: Form,
    /// What the batch does to the dictionary, if it does.
    ddl: Option<Ddl>,
    reservation: Option<Reservation>,
    /// The transaction's batch is in the log and undecided: the log segments from here on are held.
    undecided: Option<u64>,
    two_phase: bool,
    sync: SyncMode,
    _place: Place,
}

impl Prepared {
    /// A transaction that recovery found prepared, ready to be ordered or rolled back.
    pub(crate) fn recovered(store: &Store, id: u64, batch: Arc<CommitBatch>) -> Result<Prepared> {
        store.check_writable()?;
        let place = store.pipeline.reserve(ROOM_PATIENCE)?;
        store.make_room(batch.memtable_bytes(), ROOM_PATIENCE)?;
        let marker = store.log_room(MARKER_BYTES, Purpose::Urgent)?;
        Ok(Prepared {
            batch,
            form: Form::Marker(id),
            ddl: None,
            reservation: Some(marker),
            undecided: Some(id),
            two_phase: true,
            sync: SyncMode::Full,
            _place: place,
        })
    }

    /// Id and batch of a transaction that is in the log and neither ordered nor rolled back; gives back
    /// what it reserved. An ordered one is finished instead.
    pub(crate) fn into_undecided(self) -> Option<(u64, Arc<CommitBatch>)> {
        if self.batch.ordered().is_some() {
            return None;
        }
        Some((self.undecided?, self.batch))
    }

    /// Sequence number, once ordered.
    pub fn seq(&self) -> Option<u64> {
        self.batch.ordered().map(|ordered| ordered.seq)
    }
}

impl Store {
    /// The last step of a commit that may fail, wait or be killed.
    pub(crate) fn prepare(
        &self,
        batch: &WriteBatch,
        xid: Option<&[u8]>,
        sync: Option<SyncMode>,
        owner: &Owner,
    ) -> Result<Prepared> {
        if owner.is_killed() {
            return Err(Error::Interrupted);
        }
        let sync = self.sync_of(batch, sync);
        self.prepare_batch(Arc::new(CommitBatch::new(batch)), xid, None, sync)
    }

    /// As [`Store::prepare`], for a batch made already and a record kind of the caller's.
    pub(crate) fn prepare_batch(
        &self,
        batch: Arc<CommitBatch>,
        xid: Option<&[u8]>,
        ddl: Option<Ddl>,
        sync: SyncMode,
    ) -> Result<Prepared> {
        self.check_writable()?;
        let place = self.pipeline.reserve(ROOM_PATIENCE)?;
        self.make_room(batch.memtable_bytes(), ROOM_PATIENCE)?;
        let large = ddl.is_none() && batch.body().len() > LARGE_BATCH;
        if xid.is_none() && !large {
            let purpose = match ddl {
                // They give space back.
                Some(Ddl::Drop | Ddl::Swap | Ddl::Other) => Purpose::Urgent,
                _ => Purpose::Ordinary,
            };
            let reservation = self.log_room(batch.body().len() + MARKER_BYTES, purpose)?;
            return Ok(Prepared {
                batch,
                form: Form::Whole,
                ddl,
                reservation: Some(reservation),
                undecided: None,
                two_phase: false,
                sync,
                _place: place,
            });
        }
        let id = self.new_transaction_id();
        let bytes = batch.body().len() + MARKER_BYTES + xid.map_or(0, <[u8]>::len);
        let reservation = self.log_room(bytes, Purpose::Ordinary)?;
        let marker = self.log_room(MARKER_BYTES, Purpose::Urgent)?;
        self.undecided.lock().insert(id, self.wal.written_lsn().segment());
        let prepared = Prepared {
            form: Form::Marker(id),
            ddl,
            reservation: Some(marker),
            undecided: Some(id),
            two_phase: xid.is_some(),
            sync,
            _place: place,
            batch,
        };
        let body = prepared.batch.clone();
        let record = match xid {
            Some(xid) => {
                let head = Arc::new(PreparedHead { xid: xid.to_vec(), locks: Vec::new() });
                Record::Prepared { txn: id, head, batch: body }
            }
            None => Record::Ownerless { txn: id, batch: body },
        };
        let ticket = self.wal.enqueue(reservation, record);
        // A two-phase prepare is synced in every mode: the coordinator's log may name it from now on.
        let written =
            if xid.is_some() { self.wal.wait_durable(ticket) } else { self.wal.wait_written(ticket) };
        if let Err(error) = written {
            self.undecided.lock().remove(&id);
            return Err(error);
        }
        Ok(prepared)
    }

    /// Takes the sequence number and the place in the log. Cannot fail, allocate or wait; a second call
    /// does nothing.
    pub(crate) fn order(&self, prepared: &mut Prepared) {
        let Some(reservation) = prepared.reservation.take() else { return };
        let (form, ddl, held) = (prepared.form, prepared.ddl, prepared.undecided);
        let batch = prepared.batch.clone();
        self.pipeline.order(&prepared.batch, move |seq, generation| {
            if let Some(id) = held {
                self.hold_log_for(id, generation.id());
            }
            let record = match (form, ddl) {
                (Form::Whole, None) => Record::Commit { seq, batch },
                (Form::Whole, Some(ddl)) => Record::Ddl { ddl, seq, batch },
                (Form::Marker(txn), _) => Record::Marker { txn, seq },
            };
            self.wal.enqueue(reservation, record)
        });
    }

    /// Makes an ordered commit visible and as durable as asked for.
    pub(crate) fn finish(&self, prepared: Prepared, defer_sync: bool) -> Result<()> {
        let Some(ordered) = prepared.batch.ordered() else {
            return Err(Error::InvalidArgument("finish before order".into()));
        };
        let floor = self.snapshots.floor();
        prepared.batch.apply(floor);
        self.pipeline.help_until(ordered.seq, floor);
        if ordered.seq % FLOOR_EVERY == 0 {
            self.refresh_floor();
        }
        if let Some(id) = prepared.undecided {
            self.undecided.lock().remove(&id);
        }
        self.stats.commits.fetch_add(1, Relaxed);
        self.stats.user_bytes.fetch_add(prepared.batch.body().len() as u64, Relaxed);
        self.wait_logged(ordered.ticket, prepared.sync, defer_sync && prepared.two_phase)
    }

    /// Reserves room for a record in the log.
    pub(crate) fn log_room(&self, bytes: usize, purpose: Purpose) -> Result<Reservation> {
        self.wal.reserve(bytes, purpose, &Patience::of(ROOM_PATIENCE))
    }

    fn wait_logged(&self, ticket: Ticket, sync: SyncMode, defer_sync: bool) -> Result<()> {
        if sync == SyncMode::Full && !defer_sync {
            self.wal.wait_durable(ticket)
        } else {
            self.wal.wait_written(ticket)
        }
    }

    /// Undoes a prepared transaction: a rollback record if its batch is in the log. Durable before the
    /// answer where the prepare was.
    pub(crate) fn roll_back_prepared(&self, mut prepared: Prepared) -> Result<()> {
        if prepared.batch.ordered().is_some() {
            // Too late: it is in the commit order.
            return self.finish(prepared, false);
        }
        let Some(id) = prepared.undecided else { return Ok(()) };
        let Some(reservation) = prepared.reservation.take() else { return Ok(()) };
        let ticket = self.wal.enqueue(reservation, Record::Rollback { txn: id });
        let result = match prepared.two_phase {
            true => self.wal.wait_durable(ticket),
            false => self.wal.wait_written(ticket),
        };
        self.undecided.lock().remove(&id);
        result
    }

    /// Commits a batch of the engine's own, durably.
    pub(crate) fn commit_internal(&self, batch: &WriteBatch, ddl: Option<Ddl>) -> Result<u64> {
        let batch = Arc::new(CommitBatch::new(batch));
        let mut prepared = self.prepare_batch(batch, None, ddl, SyncMode::Full)?;
        self.order(&mut prepared);
        let seq = prepared.seq().unwrap_or_default();
        self.finish(prepared, false)?;
        Ok(seq)
    }

    /// The strictest of the store's mode, the families' modes and the commit's own.
    fn sync_of(&self, batch: &WriteBatch, asked: Option<SyncMode>) -> SyncMode {
        let store = self.options.sync_mode;
        if store == SyncMode::Full {
            return store;
        }
        let families = batch.touched().filter_map(|family| self.catalog.sync_mode(family)).max();
        store.max(families.unwrap_or(SyncMode::None)).max(asked.unwrap_or(SyncMode::None))
    }
}
