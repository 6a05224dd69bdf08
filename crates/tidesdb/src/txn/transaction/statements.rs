//! Statements and savepoints: the points to which changes are undone.

use std::time::Duration;

use super::{Isolation, Transaction};
use crate::error::{Error, Result};
use crate::mutant::{self, Mutant};
use crate::txn::write_batch::Mark;

/// A savepoint of a transaction.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub struct SavepointId(pub u64);

/// Points in the history of the batch to which it may be cut back.
///
/// The statement's mark never lies past the end of the batch: undoing to a savepoint moves it back, and drops
/// the later savepoints. Marks stay good while changes move to runs.
#[derive(Debug, Default)]
pub(super) struct UndoPoints {
    /// Begin of the statement.
    pub(super) statement: Mark,
    /// Number of runs already cut away, by rollbacks to savepoints, when the statement began.
    cut_before_statement: usize,
    /// In the order of their setting, so by ascending id. A server may forget one without a release: it stays
    /// to the transaction's end.
    savepoints: Vec<(SavepointId, Mark)>,
    /// Id of the newest savepoint; ids are never reused, so a missing savepoint is not mistaken for another.
    last_savepoint: u64,
}

impl UndoPoints {
    /// Place of a savepoint, by binary search: the server may have forgotten a million of them.
    fn place_of(&self, id: SavepointId) -> Result<usize, usize> {
        self.savepoints.binary_search_by_key(&id.0, |(known, _)| known.0)
    }

    /// The transaction ends.
    pub(super) fn clear(&mut self) {
        self.statement = Mark::default();
        self.cut_before_statement = 0;
        self.savepoints.clear();
    }
}

impl Transaction {
    /// Sets a savepoint: changes made from now on can be undone alone. It lives until it is released, undone
    /// over, or the transaction ends, whatever statements end meanwhile.
    pub fn savepoint_set(&mut self) -> Result<SavepointId> {
        self.require_active()?;
        self.undo.last_savepoint += 1;
        let id = SavepointId(self.undo.last_savepoint);
        self.undo.savepoints.push((id, self.batch.mark()));
        Ok(id)
    }

    /// Undoes the changes made after a savepoint; locks stay, later savepoints go.
    pub fn savepoint_rollback(&mut self, id: SavepointId) -> Result<()> {
        self.require_active()?;
        let Ok(at) = self.undo.place_of(id) else {
            return Err(Error::InvalidArgument("the transaction has no such savepoint".into()));
        };
        let mark = self.undo.savepoints[at].1;
        self.undo.savepoints.truncate(at + 1);
        if mutant::is(Mutant::SavepointKeepsChanges) {
            return Ok(());
        }
        self.cut_back(mark);
        if mark < self.undo.statement {
            self.undo.statement = mark;
            // Runs of earlier statements are among those cut away: a rollback of this one keeps their locks.
            self.undo.cut_before_statement = self.batch.runs().cut_away();
        }
        Ok(())
    }

    /// Forgets a savepoint; changes stay, and so do other savepoints.
    pub fn savepoint_release(&mut self, id: SavepointId) {
        if let Ok(at) = self.undo.place_of(id) {
            self.undo.savepoints.remove(at);
        }
    }

    /// Begins a statement. `may_write` lets back-pressure delay the caller, at most for `max_wait` and only
    /// while the transaction holds no lock. A kill stays in effect: it may be meant for this statement, and
    /// only the caller knows.
    pub fn statement_begin(&mut self, may_write: bool, max_wait: Duration) -> Result<()> {
        self.require_active()?;
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
        self.undo.statement = self.batch.mark();
        self.undo.cut_before_statement = self.batch.runs().cut_away();
        if !self.options.unlocked {
            self.transactions.locks.statement_begins(&self.owner);
        }
    }

    /// Undoes the statement's changes. Its locks stay, but for those on keys only in its files: a statement
    /// that fills the disk frees its space.
    pub fn statement_rollback(&mut self) {
        if mutant::is(Mutant::StatementKeepsChanges) {
            return self.end_statement_snapshot();
        }
        self.cut_back(self.undo.statement);
        if self.batch.forget_cut(self.undo.cut_before_statement) {
            if !self.options.unlocked {
                self.transactions.lock_runs(&self.owner, self.batch.runs(), false);
            }
            self.store.unlink_unused();
        }
        self.end_statement_snapshot();
    }

    /// Undoes the changes after `mark`.
    pub(super) fn cut_back(&mut self, mark: Mark) {
        self.batch.cut_back(mark);
        self.owner.set_written(self.batch.made());
        self.changed();
    }
}
