//! The snapshots of a transaction: their begin, the sequence numbers of reads, and their end.

use std::sync::atomic::{AtomicBool, Ordering};

use super::{Isolation, ReadMode, Transaction};
use crate::error::{Error, Result};
use crate::mutant::{self, Mutant};
use crate::store::snapshot::SnapshotSlot;
use crate::store::ttl_clock::ViewSecond;
use crate::types::{FamilyId, RowCount, Seq, MAX_SEQ};

/// The snapshots of a transaction; each protects its visible versions from pruning.
///
/// READ COMMITTED reads at the statement's alone, REPEATABLE READ and above at the transaction's alone, READ
/// UNCOMMITTED at neither. A caller that takes one out returns it to the store and counts it in `ended`.
#[derive(Debug, Default)]
pub(super) struct Snapshots {
    pub(super) transaction: Option<SnapshotSlot>,
    /// The transaction's snapshot is at a commit possibly not yet in the memtable.
    pub(super) ahead: bool,
    pub(super) statement: Option<SnapshotSlot>,
    /// Number of ended snapshots; cursors compare it.
    pub(super) ended: u64,
    /// See [`Transaction::set_snapshot_isolation`].
    may_pass: bool,
    /// The transaction locked, or wrote over, a version not visible in its snapshot. Stays set to its end:
    /// undone and standing changes are not told apart.
    passed_snapshot: AtomicBool,
}

impl Snapshots {
    /// The state of a transaction at its begin.
    pub(super) fn restart(&mut self) {
        self.may_pass = false;
        *self.passed_snapshot.get_mut() = false;
    }
}

impl Transaction {
    /// Takes the transaction's snapshot now.
    pub fn take_snapshot(&mut self) -> Result<()> {
        self.require_active()?;
        if self.snapshots.transaction.is_none() {
            self.snapshots.transaction = Some(self.new_snapshot(&self.seconds.transaction)?);
        }
        Ok(())
    }

    /// Takes the transaction's first snapshot now, and returns the count of a family's rows at it.
    pub(crate) fn take_counted_snapshot(&mut self, family: FamilyId) -> Result<RowCount> {
        self.require_active()?;
        let (slot, row_count) = self.store.take_counted_snapshot(family)?;
        self.published.entry.set_snapshot(Some(slot.seq()));
        if let Some(old) = self.snapshots.transaction.replace(slot) {
            self.store.snapshots.release(old);
        }
        Ok(row_count)
    }

    /// Takes the transaction's snapshot now, after every ordered commit (WITH CONSISTENT SNAPSHOT, under the
    /// caller's own order lock). Does not wait. The first read helps the commits into the memtable, and can
    /// be killed.
    pub fn take_ordered_snapshot(&mut self) -> Result<()> {
        self.require_active()?;
        if self.snapshots.transaction.is_none() {
            let slot = self.store.take_ordered_snapshot()?;
            self.note_second(&self.seconds.transaction);
            self.published.entry.set_snapshot(Some(slot.seq()));
            self.snapshots.transaction = Some(slot);
            self.snapshots.ahead = true;
        }
        Ok(())
    }

    fn new_snapshot(&self, second: &ViewSecond) -> Result<SnapshotSlot> {
        let slot = self.store.take_snapshot()?;
        self.note_second(second);
        self.published.entry.set_snapshot(Some(slot.seq()));
        Ok(slot)
    }

    /// The sequence number for a read in `mode`.
    pub(crate) fn read_seq(&mut self, mode: ReadMode) -> Result<Seq> {
        match mode {
            ReadMode::Snapshot => {}
            ReadMode::Latest | ReadMode::Gap | ReadMode::Shared | ReadMode::Exclusive => {
                // Passed over without its lock, or looked at without one, it may be that of a refused commit.
                self.check_newest_is_written()?;
                return Ok(MAX_SEQ);
            }
        }
        match self.options.isolation {
            Isolation::ReadUncommitted => Ok(MAX_SEQ),
            Isolation::ReadCommitted => {
                if let Some(slot) = &self.snapshots.statement {
                    return Ok(slot.seq());
                }
                let slot = self.new_snapshot(&self.seconds.statement)?;
                Ok(self.snapshots.statement.insert(slot).seq())
            }
            _ => {
                if let Some(slot) = &self.snapshots.transaction {
                    let seq = slot.seq();
                    if self.snapshots.ahead {
                        if self.owner.is_killed() {
                            return Err(Error::Interrupted);
                        }
                        self.store.reach(seq);
                        self.snapshots.ahead = false;
                    }
                    return Ok(seq);
                }
                let slot = self.new_snapshot(&self.seconds.transaction)?;
                Ok(self.snapshots.transaction.insert(slot).seq())
            }
        }
    }

    /// Off: locking reads and changes take the newest version of a key even if the snapshot does not show it.
    /// Applies at [`Isolation::RepeatableRead`] to transactions other than optimistic ones. On, as after the
    /// begin, such a version is a conflict. Applies from now on, not to earlier locks.
    pub fn set_snapshot_isolation(&mut self, on: bool) {
        self.snapshots.may_pass = !on;
    }

    /// True if a version newer than the snapshot is no conflict.
    pub(super) fn may_pass_snapshot(&self) -> bool {
        self.snapshots.may_pass
            && self.options.isolation == Isolation::RepeatableRead
            && !self.options.optimistic
    }

    /// True if the transaction has gone past its snapshot: it has locked or changed a version not visible in
    /// it. Its own rows may then replace other rows than the snapshot shows, and have other entries.
    pub fn passed_snapshot(&self) -> bool {
        self.snapshots.passed_snapshot.load(Ordering::Relaxed)
    }

    /// The error if `seq` is newer than the transaction's snapshot (`docs/protocols.md` 4.4).
    pub(crate) fn check_unchanged(&self, seq: Seq) -> Result<()> {
        if self.options.isolation < Isolation::RepeatableRead || mutant::is(Mutant::SnapshotConflictUnseen) {
            return Ok(());
        }
        match &self.snapshots.transaction {
            Some(slot) if seq > slot.seq() && self.may_pass_snapshot() => {
                self.snapshots.passed_snapshot.store(true, Ordering::Relaxed);
                Ok(())
            }
            Some(slot) if seq > slot.seq() => {
                self.locks.uncompared.store(true, Ordering::Relaxed);
                self.store.stats.conflicts.fetch_add(1, Ordering::Relaxed);
                Err(if self.options.optimistic { Error::Deadlock } else { Error::Conflict })
            }
            _ => Ok(()),
        }
    }

    /// The sequence number after which changes conflict with locking reads, if they do.
    pub(crate) fn conflicts_above(&self) -> Option<Seq> {
        let counts = self.options.isolation >= Isolation::RepeatableRead && !self.may_pass_snapshot();
        self.snapshots.transaction.as_ref().filter(|_| counts).map(SnapshotSlot::seq)
    }

    /// Ends the statement's snapshot.
    pub(super) fn end_statement_snapshot(&mut self) {
        self.end_statement_seconds();
        if let Some(slot) = self.snapshots.statement.take() {
            self.snapshots.ended += 1;
            self.published.entry.set_snapshot(None);
            self.store.snapshots.release(slot);
        }
    }

    /// The transaction makes no more reads.
    pub(super) fn end_snapshots(&mut self) {
        self.end_statement_snapshot();
        self.end_seconds();
        self.snapshots.ahead = false;
        if let Some(slot) = self.snapshots.transaction.take() {
            self.published.entry.set_snapshot(None);
            self.store.snapshots.release(slot);
        }
        self.snapshots.ended += 1;
    }

    /// Grows whenever a snapshot of the transaction ends. A cursor on an ended snapshot must not go on:
    /// versions protected by the snapshot may be gone.
    pub(crate) fn ended_snapshots(&self) -> u64 {
        self.snapshots.ended
    }
}
