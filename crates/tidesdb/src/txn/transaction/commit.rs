//! The ends of a transaction: prepare, order and finish, XA PREPARE and what follows it, rollback.

use std::sync::atomic::Ordering;

use super::{Transaction, TransactionPhase};
use crate::error::{Error, Result};
use crate::txn::commit::PreparedCommit;
use crate::txn::write_batch::Mark;

impl Transaction {
    /// The last step that may fail or wait. With an `xid` the changes are logged and synced as prepared.
    pub fn prepare(&mut self, xid: Option<&[u8]>) -> Result<()> {
        self.require_active()?;
        if !self.batch.is_empty() {
            self.lock_rest()?;
            let mut prepared =
                self.transactions.prepare(&self.batch, xid, self.sync, &self.owner, self.max_wait)?;
            if self.options.unlocked {
                prepared.needs_no_sync();
            }
            self.prepared = Some(prepared);
            self.xid.extend_from_slice(xid.unwrap_or_default());
        }
        self.state = TransactionPhase::Prepared;
        self.entry.prepared();
        Ok(())
    }

    /// Prepares a transaction that somebody outside decides, perhaps much later (XA PREPARE): logged and
    /// synced, it holds its locks and nothing else. [`Transaction::resume`] comes before `order`. On an error
    /// the transaction is as before.
    pub fn prepare_xa(&mut self, xid: &[u8]) -> Result<()> {
        self.require_active()?;
        if !self.batch.is_empty() {
            self.lock_rest()?;
            let xa_prepared = self.transactions.prepare_xa(&self.batch, xid, &self.owner, self.max_wait)?;
            let bytes = xa_prepared.batch.body().len();
            let runs = xa_prepared.batch.runs();
            let spilled = runs.is_some();
            if let Some(runs) = runs {
                self.transactions.lock_sealed_runs(&self.owner, runs);
            }
            self.xa_prepared = Some(xa_prepared);
            self.xid.extend_from_slice(xid);
            self.batch.clear();
            self.count(bytes);
            if spilled {
                // The transaction's own runs, where `prepare` made others of them.
                self.store.unlink_unused();
            }
        }
        self.end_snapshots();
        self.state = TransactionPhase::Prepared;
        self.entry.prepared();
        Ok(())
    }

    /// Takes what the commit of an XA-prepared transaction needs; may wait and fail, and then the transaction is
    /// still prepared. Nothing to do for others.
    pub fn resume(&mut self) -> Result<()> {
        if let Some(xa_prepared) = &self.xa_prepared {
            self.prepared = Some(self.transactions.wake(xa_prepared)?);
            self.xa_prepared = None;
        }
        Ok(())
    }

    /// Fixes the place in the commit order. Cannot fail; nothing to do without writes or before
    /// `prepare`.
    pub fn order(&mut self) {
        if let Some(prepared) = &mut self.prepared {
            self.transactions.order(prepared);
        }
    }

    /// Waits until the commit is visible and as durable as asked for, then releases everything.
    /// `defer_sync`: a checkpoint request will be answered for it. Before `prepare` it is an error that
    /// changes nothing.
    pub fn finish(&mut self, defer_sync: bool) -> Result<()> {
        if self.state != TransactionPhase::Prepared {
            return Err(Error::InvalidArgument("finish before prepare".into()));
        }
        self.resume()?;
        self.order();
        let result = match self.prepared.take() {
            Some(prepared) => self.transactions.finish(prepared, defer_sync),
            None => Ok(()),
        };
        self.end();
        result
    }

    /// Commits. After an error in `prepare` the transaction is still there, to be rolled back.
    pub fn commit(&mut self) -> Result<()> {
        if self.state != TransactionPhase::Prepared {
            self.prepare(None)?;
        }
        self.finish(false)
    }

    /// Undoes everything, from any state; releases the locks.
    pub fn rollback(&mut self) -> Result<()> {
        let xa_prepared = self.xa_prepared.as_ref().map(|xa_prepared| &xa_prepared.batch);
        let batch = self.prepared.as_ref().map(PreparedCommit::batch).or(xa_prepared);
        let spilled = batch.is_some_and(|batch| batch.runs().is_some());
        let result = match (self.prepared.take(), self.xa_prepared.take()) {
            (Some(prepared), _) => self.transactions.roll_back_prepared(prepared),
            (None, Some(xa_prepared)) => self.transactions.roll_back_xa(&xa_prepared),
            (None, None) => Ok(()),
        };
        self.end();
        if spilled {
            // Of one that was XA-prepared nothing else is left.
            self.store.unlink_unused();
        }
        result
    }

    fn end(&mut self) {
        self.end_snapshots();
        let spilled = self.batch.runs().has_files();
        self.batch.clear();
        self.count(0);
        self.xid.clear();
        self.statement = Mark::default();
        self.cut_before_statement = 0;
        self.savepoints.clear();
        self.overtaken.store(false, Ordering::Relaxed);
        self.unlocked_puts = false;
        self.changed();
        self.transactions.locks.unlock_all(&self.owner);
        if spilled {
            self.store.unlink_unused();
        }
        self.state = TransactionPhase::Idle;
        self.entry.end();
    }

    fn end_snapshots(&mut self) {
        self.end_statement_snapshot();
        self.end_seconds();
        self.snapshot_ahead = false;
        if let Some(slot) = self.transaction_snapshot.take() {
            self.entry.set_snapshot(None);
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
            let prepared = self.prepared.take().and_then(PreparedCommit::into_xa_prepared);
            if let Some(xa_prepared) = self.xa_prepared.take().or(prepared) {
                self.end_snapshots();
                self.count(0);
                let xid = std::mem::take(&mut self.xid);
                self.transactions.keep_ownerless(xid, xa_prepared, self.owner.clone());
                return;
            }
        }
        if self.state != TransactionPhase::Idle {
            // An ordered one is finished. Nobody is left to hear of a failed rollback record; recovery decides
            // such a transaction.
            let _ = self.rollback();
        }
    }
}
