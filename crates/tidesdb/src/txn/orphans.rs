//! Prepared transactions without an owner: recovery found them, or the connection that prepared them went
//! away. They keep their locks and are decided by xid, from any thread, durably in every mode
//! (`protocols.md` 2.5).

use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;
use std::time::Duration;

use crate::db::Store;
use crate::error::{Error, Result};
use crate::lock::{Mode, Owner, Policy, TableMode};
use crate::options::LogLevel;
use crate::txn::commit_batch::CommitBatch;
use crate::txn::prepared_locks;
use crate::txn::roster::{TransactionInfo, TransactionState};
use crate::txn::undecided::{prepare_bytes, Dormant, DECISION_BYTES};
use crate::wal::{Patience, PreparedHead, Purpose};

/// See the module's comment.
#[derive(Debug)]
pub(crate) struct Orphan {
    dormant: Dormant,
    owner: Arc<Owner>,
}

impl Orphan {
    /// Who holds its locks.
    pub(crate) fn owner(&self) -> Arc<Owner> {
        self.owner.clone()
    }
}

impl Store {
    /// Adopts what recovery found prepared and logged again from `segment` on: takes the locks again that the
    /// records tell, and those on the written keys.
    pub(crate) fn adopt_recovered(
        &self,
        prepared: Vec<(u64, Arc<PreparedHead>, Arc<CommitBatch>)>,
        segment: u32,
    ) -> Result<()> {
        // Points of all before the ranges of any: where a range lies over another's key (its owner's wait for
        // that key failed), the one was granted first, whichever is listed first.
        let mut adopted = Vec::with_capacity(prepared.len());
        for (id, head, batch) in prepared {
            let owner = Owner::new(self.new_owner_id());
            owner.set_unbounded(true);
            let (tables, ranges) = prepared_locks::decode(&head.locks).map_err(|what| {
                Error::corruption("wal", 0, format!("the locks of prepared transaction {id}: {what}"))
            })?;
            for &(family, mode) in &tables {
                self.locks.lock_table(&owner, family, mode, Policy::NoWait)?;
            }
            if let Some(runs) = batch.runs() {
                for family in runs.families() {
                    self.locks.lock_table(&owner, family, TableMode::IntentExclusive, Policy::NoWait)?;
                }
                self.lock_sealed_runs(&owner, runs);
            }
            for (family, key) in batch.keys() {
                self.locks.lock_point(&owner, family, key, Mode::Exclusive, Policy::NoWait)?;
            }
            adopted.push((id, head, batch, owner, ranges));
        }
        for (id, head, batch, owner, ranges) in adopted {
            for range in &ranges {
                self.locks.restore_range(&owner, range)?;
            }
            owner.set_written(batch.len() as u64);
            let bytes = prepare_bytes(&head, &batch);
            let xid = head.xid.clone();
            // Whatever their bytes: they are there.
            let _ = self.undecided.insert_prepared(id, segment, (head, batch.clone()), None);
            // On a full disk the store opens without room for a copy; it is asked for again with each copy.
            let copy = self.copy_room(bytes, &batch).ok().flatten();
            let patience = Patience::of(Duration::ZERO);
            let decision = self.wal.reserve(DECISION_BYTES, Purpose::Urgent, &patience).ok();
            self.undecided.make_dormant(id, copy, decision);
            self.keep_orphan(xid, Orphan { dormant: Dormant { id, batch }, owner });
        }
        Ok(())
    }

    /// Lists it by its xid and counts what it takes.
    fn keep_orphan(&self, xid: Vec<u8>, orphan: Orphan) {
        let (id, bytes) = (orphan.dormant.id, orphan.dormant.batch.body().len());
        self.stats.batch_bytes.fetch_add(bytes as u64, Relaxed);
        if self.orphans.lock().insert(xid, orphan).is_some() {
            self.log(LogLevel::Error, &format!("prepared transaction {id} has the xid of another"));
        }
    }

    /// Keeps a prepared transaction whose owner goes away without deciding it.
    pub(crate) fn orphan(&self, xid: Vec<u8>, dormant: Dormant, owner: Arc<Owner>) {
        // Who waits for its locks must not look for a connection that is gone.
        self.locks.forget_cookie(&owner);
        self.undecided.make_dormant(dormant.id, None, None);
        self.keep_orphan(xid, Orphan { dormant, owner });
    }

    /// The transactions without an owner, as `Db::transactions` tells of them.
    pub(crate) fn orphan_infos(&self) -> Vec<TransactionInfo> {
        let info = |(xid, Orphan { dormant, owner }): (&Vec<u8>, &Orphan)| TransactionInfo {
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
            batch_bytes: dormant.batch.body().len() as u64,
            held: owner.held(),
            xid: Some(xid.clone()),
        };
        self.orphans.lock().iter().map(info).collect()
    }

    /// Commits or rolls back a transaction without an owner, durably in every mode; false when there is none of
    /// this xid. When it fails the transaction is still there.
    pub(crate) fn decide(&self, xid: &[u8], commit: bool) -> Result<bool> {
        let Some(orphan) = self.orphans.lock().remove(xid) else { return Ok(false) };
        self.stats.batch_bytes.fetch_sub(orphan.dormant.batch.body().len() as u64, Relaxed);
        let result = if commit {
            self.wake(&orphan.dormant).and_then(|mut prepared| {
                self.order(&mut prepared);
                self.finish(prepared, false)
            })
        } else {
            self.roll_back_dormant(&orphan.dormant)
        };
        match result {
            Ok(()) => {
                self.locks.unlock_all(&orphan.owner);
                let spilled = orphan.dormant.batch.runs().is_some();
                drop(orphan);
                if spilled {
                    self.unlink_unused();
                }
                Ok(true)
            }
            Err(error) => {
                if self.wal.failed().is_none() {
                    self.keep_orphan(xid.to_vec(), orphan);
                }
                Err(error)
            }
        }
    }
}
