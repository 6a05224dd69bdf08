//! Detached XA transactions: prepared and without a session, found by recovery or left by their connection.
//! They keep their locks and are decided by xid, from any thread, durably in every mode (`docs/protocols.md`
//! 2.5).

use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::format::cluster_position::ClusterPosition;
use crate::lock::{AdvisoryLock, LockOwner, Mode, Policy, TableMode};
use crate::mutant::{self, Mutant};
use crate::options::LogLevel;
use crate::store::commit_batch::CommitBatch;
use crate::txn::logged_locks;
use crate::txn::prepared::{prepare_bytes, XaPrepared, DECISION_BYTES};
use crate::txn::transaction_list::{TransactionInfo, TransactionState};
use crate::txn::Transactions;
use crate::wal::{LogSpace, PreparedHead, Purpose, WaitLimit};

/// See the module's comment.
#[derive(Debug)]
pub(crate) struct DetachedXa {
    xa_prepared: XaPrepared,
    owner: Arc<LockOwner>,
}

impl DetachedXa {
    /// The owner of its locks.
    pub(crate) fn owner(&self) -> Arc<LockOwner> {
        self.owner.clone()
    }
}

impl Transactions {
    /// Restores the transactions found prepared by recovery and rewritten from `segment` on. Takes the locks
    /// of their records again, and those on their written keys.
    pub(crate) fn restore_prepared(
        &self,
        prepared: Vec<(u64, Arc<PreparedHead>, Arc<CommitBatch>)>,
        segment: u32,
    ) -> Result<()> {
        // Points of all before the ranges of any: where a range lies over another's key (its owner's wait for
        // that key failed), the one was granted first, whichever is listed first.
        let mut restored = Vec::with_capacity(prepared.len());
        for (id, head, batch) in prepared {
            let owner = LockOwner::new(self.new_owner_id());
            owner.set_unbounded(true);
            let locks = logged_locks::decode(&head.locks).map_err(|what| {
                Error::corruption("wal", 0, format!("the locks of prepared transaction {id}: {what}"))
            })?;
            for &(family, mode) in &locks.tables {
                self.locks.lock_table(&owner, family, mode, Policy::NoWait)?;
            }
            if let Some(runs) = batch.runs() {
                for family in runs.families() {
                    self.locks.lock_table(&owner, family, TableMode::IntentExclusive, Policy::NoWait)?;
                }
            }
            for (family, key) in batch.keys() {
                self.locks.lock_point(&owner, family, key, Mode::Exclusive, Policy::NoWait)?;
            }
            for AdvisoryLock { family, mode, key } in &locks.advisory {
                self.locks.lock_advisory(&owner, *family, key, *mode, Policy::NoWait)?;
            }
            restored.push((id, head, batch, owner, locks.ranges));
        }
        for (id, head, batch, owner, ranges) in restored {
            // After the points of all: those look into the runs of others, and a run that cannot be read
            // would keep the store from being opened.
            if let Some(runs) = batch.runs() {
                self.lock_sealed_runs(&owner, runs);
            }
            for range in &ranges {
                self.locks.restore_range(&owner, range)?;
            }
            if mutant::is(Mutant::RecoveredUnlocked) {
                self.locks.unlock_all(&owner);
            }
            owner.set_written(batch.len() as u64);
            let bytes = prepare_bytes(&head, &batch);
            let xid = head.xid.clone();
            // Whatever their bytes: they are there.
            let _ = self.prepared.insert_prepared(id, segment, (head, batch.clone()), None);
            // On a full disk the store opens without room for a copy; it is asked for again with each copy.
            let copy = self.copy_room(bytes, &batch).ok().flatten();
            let wait_limit = WaitLimit::of(Duration::ZERO);
            let decision = self.store.wal.reserve(DECISION_BYTES, Purpose::Urgent, &wait_limit);
            let decision = decision.ok().map(LogSpace::set_aside);
            self.prepared.make_xa_prepared(id, copy, decision);
            self.insert_detached(xid, DetachedXa { xa_prepared: XaPrepared { id, batch }, owner });
        }
        Ok(())
    }

    /// Lists it by its xid and counts its log space.
    fn insert_detached(&self, xid: Vec<u8>, detached: DetachedXa) {
        let (id, bytes) = (detached.xa_prepared.id, detached.xa_prepared.batch.body().len());
        self.store.stats.batch_bytes.fetch_add(bytes as u64, Relaxed);
        self.store.stats.undecided_bytes.fetch_add(bytes as u64, Relaxed);
        if self.detached.lock().insert(xid, detached).is_some() {
            self.store.log(LogLevel::Error, &format!("prepared transaction {id} has the xid of another"));
        }
    }

    /// Detaches a prepared transaction from its session, which ends without deciding it.
    pub(crate) fn detach(&self, xid: Vec<u8>, xa_prepared: XaPrepared, owner: Arc<LockOwner>) {
        // Who waits for its locks must not look for a connection that is gone.
        self.locks.forget_cookie(&owner);
        self.prepared.make_xa_prepared(xa_prepared.id, None, None);
        self.insert_detached(xid, DetachedXa { xa_prepared, owner });
    }

    /// The detached transactions, for `Db::transactions`.
    pub(crate) fn detached_infos(&self) -> Vec<TransactionInfo> {
        let info = |(xid, DetachedXa { xa_prepared, owner }): (&Vec<u8>, &DetachedXa)| TransactionInfo {
            id: owner.id(),
            session: 0,
            state: TransactionState::Prepared,
            begun_us: None,
            waits_since_us: None,
            blocker: None,
            isolation: None,
            optimistic: false,
            snapshot: None,
            changes: owner.written(),
            batch_bytes: xa_prepared.batch.body().len() as u64,
            held: owner.held(),
            xid: Some(xid.clone()),
        };
        self.detached.lock().iter().map(info).collect()
    }

    /// Commits or rolls back a detached transaction, durably in every mode; false if none has this
    /// xid. After an error the transaction is still there.
    pub(crate) fn decide(&self, xid: &[u8], commit: bool) -> Result<bool> {
        self.decide_at(xid, commit, None)
    }

    /// The same; a commit's record gets the position in a cluster's order.
    pub(crate) fn decide_at(
        &self,
        xid: &[u8],
        commit: bool,
        position: Option<&ClusterPosition>,
    ) -> Result<bool> {
        if position.is_some() {
            self.store.check_positions()?;
        }
        let Some(detached) = self.detached.lock().remove(xid) else { return Ok(false) };
        let bytes = detached.xa_prepared.batch.body().len() as u64;
        self.store.stats.batch_bytes.fetch_sub(bytes, Relaxed);
        self.store.stats.undecided_bytes.fetch_sub(bytes, Relaxed);
        let result = if commit {
            self.resume(&detached.xa_prepared).and_then(|mut prepared| {
                self.order_at(&mut prepared, position.map(|position| Box::new(*position)));
                self.finish(prepared, false)
            })
        } else {
            self.roll_back_xa(&detached.xa_prepared)
        };
        match result {
            Ok(()) => {
                self.locks.unlock_all(&detached.owner);
                drop(detached);
                // Its locks may have kept files of what a savepoint undid.
                self.store.unlink_unused();
                Ok(true)
            }
            Err(error) => {
                if self.store.wal.failed().is_none() {
                    self.insert_detached(xid.to_vec(), detached);
                }
                Err(error)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::Db;
    use crate::io::faulty::Crash;
    use crate::io::FaultyDisk;
    use crate::options::{FamilyOptions, Options};
    use crate::txn::transaction::{Transaction, TransactionOptions};

    fn open(disk: &FaultyDisk) -> Db {
        let options = Options { write_buffer_size: 1 << 20, wal_segment_size: 1 << 20, ..Options::default() };
        Db::open_on(disk.shared(), "/s", options, None).expect("opens")
    }

    fn with_change(db: &Db, key: &[u8]) -> Transaction {
        let mut txn = db.transaction();
        txn.begin(TransactionOptions::default()).expect("begins");
        txn.statement_begin(true, Duration::from_secs(20)).expect("statement");
        txn.put(&db.family(b"t").expect("there"), key, b"value").expect("puts");
        txn
    }

    /// Nobody waits for memory that those have who wait for a decision: it may come in days.
    #[test]
    fn undecided_transactions_keep_no_other_one_back() {
        let disk = FaultyDisk::new(1);
        let db = open(&disk);
        db.create_family(b"t", FamilyOptions::default()).expect("creates");
        let family = db.family(b"t").expect("there");
        let with_row = |n: u8, len: usize| {
            let mut txn = with_change(&db, &[n]);
            txn.put(&family, &[n, 0], &vec![n; len]).expect("puts");
            txn
        };
        let mut undecided = Vec::new();
        for n in 0..4 {
            let mut txn = with_row(n, 100 << 10);
            txn.prepare_xa(&[n]).expect("prepares");
            undecided.push(txn);
        }
        // Of a megabyte for all.
        let waits = || {
            drop([with_row(8, 400 << 10), with_row(9, 400 << 10)]);
            db.store().stats.backpressure_waits.load(Relaxed)
        };
        assert_eq!(waits(), 0, "the connections are there");
        drop(undecided.split_off(2));
        assert_eq!(waits(), 0, "the connections are gone");

        let sums = || {
            let stats = &db.store().stats;
            (stats.batch_bytes.load(Relaxed), stats.undecided_bytes.load(Relaxed))
        };
        assert!(sums().0 > 400 << 10 && sums().0 == sums().1, "{:?}", sums());
        for txn in &mut undecided {
            txn.commit().expect("commits");
        }
        (2..4).for_each(|n| assert!(db.rollback_by_xid(&[n]).expect("rolls back")));
        assert_eq!(sums(), (0, 0));
    }

    /// An epoch out of ids goes on with those of the next epoch, and the next must not use them again.
    #[test]
    fn no_transaction_id_is_given_out_by_two_epochs() {
        let disk = FaultyDisk::new(1);
        let db = open(&disk);
        db.create_family(b"t", FamilyOptions::default()).expect("creates");
        let epoch = db.store().versions.state().epoch;
        db.store().next_transaction.store(((epoch + 1) << 32) + 3, Relaxed);
        let mut undecided = with_change(&db, b"undecided");
        undecided.prepare_xa(b"xid").expect("prepares");
        let disk = disk.crash(Crash::Drop);
        drop((undecided, db));
        let db = open(&disk);
        for key in [b"1", b"2", b"3", b"4", b"5"] {
            let mut txn = with_change(&db, key);
            txn.prepare(Some(b"other")).expect("prepares");
            txn.commit().expect("commits");
        }
        db.flush_log().expect("syncs");
        let disk = disk.crash(Crash::Drop);
        drop(db);
        let db = open(&disk);
        assert_eq!(db.prepared(), [b"xid".to_vec()], "nobody has decided it");
        assert!(db.commit_by_xid(b"xid").expect("commits"));
    }
}
