//! The ends of a transaction: prepare, order and finish; XA PREPARE and its decision; rollback.

use std::time::Duration;

use super::published::Part;
use super::{Transaction, TransactionPhase};
use crate::error::{Error, Result};
use crate::format::cluster_position::ClusterPosition;
use crate::mutant::{self, Mutant};
use crate::options::SyncMode;
use crate::txn::commit::{Coordinator, ReservedCommit};
use crate::txn::prepared::XaPrepared;

/// The data for the decision of a prepared transaction.
///
/// At most one of `reserved` and `xa_prepared` is set, and only while the transaction is prepared; neither,
/// if it changed nothing. `xid` is not empty from a two-phase prepare with changes to the end.
#[derive(Debug, Default)]
pub(super) struct PendingDecision {
    reserved: Option<ReservedCommit>,
    /// Prepared, waiting for a decision from outside the commit path.
    pub(super) xa_prepared: Option<XaPrepared>,
    /// Of a two-phase `prepare`.
    xid: Vec<u8>,
    /// XA-prepared, its locks keep files unknown to `batch`.
    has_files: bool,
    /// Sync mode requested for the commit, beyond the store's and the families'.
    pub(super) sync: Option<SyncMode>,
    /// The commit's position in a cluster's order; boxed before `order`, which allocates nothing.
    pub(super) position: Option<Box<ClusterPosition>>,
}

impl PendingDecision {
    /// The place of an ordered commit.
    #[cfg(simulation)]
    pub(super) fn ordered_seq(&self) -> Option<crate::types::Seq> {
        self.reserved.as_ref().and_then(|reserved| reserved.ordered_seq())
    }

    /// True if changes wait for their decision.
    pub(super) fn has_changes(&self) -> bool {
        self.reserved.is_some() || self.xa_prepared.is_some()
    }
}

impl Transaction {
    /// Gives the commit its position in a cluster's order, or takes it back: `None`. The position becomes the store's
    /// ([`Db::position`](crate::db::Db::position)) in [`Transaction::order`]. The end of the transaction forgets it. With one
    /// before `prepare`, a transaction without changes has a commit of its own.
    ///
    /// # Errors
    /// `InvalidArgument` in a store of version 1 of the formats, before `begin`, after `order`, and for a prepared
    /// transaction that has nothing to order.
    pub fn set_position(&mut self, position: Option<&ClusterPosition>) -> Result<()> {
        let why = match self.phase {
            TransactionPhase::Idle => "the transaction is not begun",
            TransactionPhase::Prepared if !self.decision.has_changes() => {
                "the transaction is prepared without changes, and has no commit with a position"
            }
            _ if self.decision.reserved.as_ref().is_some_and(|reserved| reserved.seq().is_some()) => {
                "the transaction has its place in the commit order already"
            }
            _ => {
                if position.is_some() {
                    self.store.check_positions()?;
                }
                self.decision.position = position.copied().map(Box::new);
                return Ok(());
            }
        };
        Err(Error::InvalidArgument(why.into()))
    }

    /// True if there is something to commit.
    fn needs_commit(&self) -> bool {
        !self.batch.is_empty() || self.decision.position.is_some()
    }

    /// The last step that may wait for another transaction, and lifts the limit on waits for the store: for a coordinator
    /// that decides before it calls `prepare`, as a cluster does.
    pub fn ready(&mut self) -> Result<()> {
        self.require_active()?;
        if self.needs_commit() {
            self.lock_rest()?;
            self.locks.unlocked_puts = false;
            self.max_wait = Duration::MAX;
        }
        Ok(())
    }

    /// The last step that may fail or wait. With an `xid` the changes are logged and synced as prepared.
    pub fn prepare(&mut self, xid: Option<&[u8]>) -> Result<()> {
        self.prepare_for(xid.map(|xid| (xid, Coordinator::Log)))
    }

    /// As [`Transaction::prepare`] with an xid, for a coordinator that has the changes elsewhere, as a cluster has them on
    /// its other nodes: they are written to the log's file and not synced. A power cut may lose them, with or without
    /// the commit as the sync mode says.
    pub fn prepare_written(&mut self, xid: &[u8]) -> Result<()> {
        self.prepare_for(Some((xid, Coordinator::Cluster)))
    }

    fn prepare_for(&mut self, xid: Option<(&[u8], Coordinator)>) -> Result<()> {
        self.require_active()?;
        if self.needs_commit() {
            self.lock_rest()?;
            self.published.set_part(&self.store, Part::Committing);
            let mut reserved = self
                .transactions
                .reserve_commit(&self.batch, xid, self.decision.sync, &self.owner, self.max_wait)
                .inspect_err(|_| self.published.set_part(&self.store, Part::Open))?;
            if self.options.unlocked {
                reserved.needs_no_sync();
            }
            if self.batch.is_large() {
                // The commit has its own copy, and may wait for a disk.
                let bytes = reserved.memory();
                self.batch.forget_written();
                self.published.changed(&self.store, bytes);
            }
            self.decision.reserved = Some(reserved);
            self.decision.xid.extend_from_slice(xid.map(|(xid, _)| xid).unwrap_or_default());
            if mutant::is(Mutant::PreparedUnlocked) && xid.is_some() {
                self.transactions.locks.unlock_all(&self.owner);
            }
        }
        self.phase = TransactionPhase::Prepared;
        self.published.entry.prepared();
        Ok(())
    }

    /// Prepares a transaction to be decided from outside, perhaps much later (XA PREPARE). It is logged and
    /// synced, and holds only its locks. [`Transaction::resume`] comes before `order`. On an error the
    /// transaction is as before.
    pub fn prepare_xa(&mut self, xid: &[u8]) -> Result<()> {
        self.require_active()?;
        if self.needs_commit() {
            self.lock_rest()?;
            let xa_prepared = self.transactions.prepare_xa(&self.batch, xid, &self.owner, self.max_wait)?;
            let bytes = xa_prepared.batch.body().len();
            if let Some(sealed) = xa_prepared.batch.runs() {
                self.transactions.lock_prepared_runs(&self.owner, self.batch.runs(), sealed);
            }
            self.decision.xa_prepared = Some(xa_prepared);
            self.decision.xid.extend_from_slice(xid);
            self.decision.has_files = self.batch.runs().has_files();
            self.batch.clear();
            self.count(bytes);
            self.published.set_part(&self.store, Part::Undecided);
            if mutant::is(Mutant::PreparedUnlocked) {
                self.transactions.locks.unlock_all(&self.owner);
            }
            if self.decision.has_files {
                // The transaction's own runs, where `prepare` made others of them.
                self.store.unlink_unused();
            }
        }
        self.end_snapshots();
        self.phase = TransactionPhase::Prepared;
        self.published.entry.prepared();
        Ok(())
    }

    /// Reserves what the commit of an XA-prepared transaction needs. May wait and fail; the transaction then
    /// stays prepared. Does nothing for other transactions.
    pub fn resume(&mut self) -> Result<()> {
        if let Some(xa_prepared) = &self.decision.xa_prepared {
            self.decision.reserved = Some(self.transactions.resume(xa_prepared)?);
            self.decision.xa_prepared = None;
            self.published.set_part(&self.store, Part::Committing);
        }
        Ok(())
    }

    /// Fixes the place in the commit order. Cannot fail; nothing to do without writes or before `prepare`.
    pub fn order(&mut self) {
        if let Some(reserved) = &mut self.decision.reserved {
            self.transactions.order_at(reserved, self.decision.position.take());
        }
    }

    /// Waits until the commit's record is in the log's file: it survives the process. Before `order` it is an error. Errors: the
    /// log has failed, and the outcome is unknown; [`Transaction::finish`] says so, too.
    pub fn wait_written(&self) -> Result<()> {
        match &self.decision.reserved {
            Some(reserved) => self.transactions.wait_written(reserved),
            None => Err(Error::InvalidArgument("a wait for the record of a commit before order".into())),
        }
    }

    /// Waits until the commit is visible and as durable as requested, then releases everything. `defer_sync`:
    /// a checkpoint request will be answered for it. Before `prepare` it returns an error and changes
    /// nothing.
    pub fn finish(&mut self, defer_sync: bool) -> Result<()> {
        if self.phase != TransactionPhase::Prepared {
            return Err(Error::InvalidArgument("finish before prepare".into()));
        }
        self.resume()?;
        self.order();
        if mutant::is(Mutant::UnlockedBeforeEnd) {
            self.transactions.locks.unlock_all(&self.owner);
        }
        let result = match self.decision.reserved.take() {
            Some(reserved) => self.transactions.finish(reserved, defer_sync),
            None => Ok(()),
        };
        self.end();
        result
    }

    /// Commits. After an error in `prepare` the transaction is still there, to be rolled back.
    pub fn commit(&mut self) -> Result<()> {
        if self.phase != TransactionPhase::Prepared {
            self.prepare(None)?;
        }
        self.finish(false)
    }

    /// Undoes everything, from any state; releases the locks. If this fails after an answered two-phase
    /// prepare, the transaction is still prepared, with its locks: it may be there after a restart. It may be
    /// tried again; dropped, it is decided by its xid.
    pub fn rollback(&mut self) -> Result<()> {
        self.decision.position = None;
        let undecided = match &self.decision.reserved {
            _ if self.decision.xid.is_empty() => None,
            Some(reserved) => reserved.to_xa_prepared(),
            None => self.decision.xa_prepared.clone(),
        };
        let result = match (self.decision.reserved.take(), self.decision.xa_prepared.take()) {
            (Some(reserved), _) => self.transactions.roll_back_reserved(reserved),
            (None, Some(xa_prepared)) => self.transactions.roll_back_xa(&xa_prepared),
            (None, None) => Ok(()),
        };
        if result.is_err() && undecided.is_some() {
            self.decision.xa_prepared = undecided;
            self.published.set_part(&self.store, Part::Undecided);
            return result;
        }
        // It keeps the runs' files.
        drop(undecided);
        self.end();
        result
    }

    fn end(&mut self) {
        self.end_snapshots();
        let spilled = self.batch.runs().has_files() | std::mem::take(&mut self.decision.has_files);
        self.batch.clear();
        self.count(0);
        self.published.set_part(&self.store, Part::Open);
        self.decision.xid.clear();
        self.undo.clear();
        self.locks.clear();
        self.changed();
        self.transactions.locks.unlock_all(&self.owner);
        if spilled {
            self.transactions.give_up_withdrawn();
            self.store.unlink_unused();
        }
        self.phase = TransactionPhase::Idle;
        self.published.entry.end();
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        // A two-phase prepare was answered: only its coordinator decides, perhaps after a restart. The
        // store keeps batch and locks, as it does for those that recovery finds.
        let ordered = self.decision.reserved.as_ref().is_some_and(|reserved| reserved.seq().is_some());
        if !self.decision.xid.is_empty() && !ordered {
            let undecided = self.decision.reserved.take().and_then(|reserved| reserved.to_xa_prepared());
            if let Some(xa_prepared) = self.decision.xa_prepared.take().or(undecided) {
                self.end_snapshots();
                self.count(0);
                let xid = std::mem::take(&mut self.decision.xid);
                self.transactions.detach(xid, xa_prepared, self.owner.clone());
                return;
            }
        }
        if self.phase != TransactionPhase::Idle {
            // An ordered one is finished. Nobody is left to hear of a failed rollback record; recovery decides
            // such a transaction.
            let _ = self.rollback();
        }
    }
}
