//! Reads a family in order: a merge of its runs at a snapshot with the transaction's own changes. Rows are
//! copied out in batches, so no slice outlives the memory it points to.
//!
//! A locking scan goes row by row. If the transaction keeps gaps free of others' insertions, the scan
//! publishes the interval from its last position to the row found. It looks again from the last position if
//! anything was committed meanwhile. Only then it locks and reads the row (`docs/protocols.md` 4.2).

//!
//! The state: `merged_view`, `position`, `bounds`, `row_locks`, `row_batch`, `deleted_run`, each with its
//! invariants. The steps: here seeks and point reads, `filling` the batches of plain scans, `counting` their
//! rows, `locking` the rows of locking ones.

mod bounds;
mod counting;
mod deleted_run;
mod filling;
mod locking;
mod merged_view;
mod position;
mod row_batch;
mod row_locks;
mod scan;
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub(crate) use self::bounds::successor_of_prefix;
use self::bounds::ScanBounds;
use self::deleted_run::DeletedRun;
use self::merged_view::MergedView;
use self::position::{Edge, Position};
use self::row_batch::{RowBatch, Span, LARGE_BATCH};
use self::row_locks::{Covered, GapCover, RowLocks};
pub use self::scan::{Scan, Start};
use crate::error::{Error, Result};
use crate::lock::Mode;
use crate::store::family::Family;
use crate::txn::transaction::{PointRead, ReadMode, Transaction};
use crate::value::ReadParts;

/// The state of a key in a scan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum CursorState {
    Live,
    Deleted,
    Expired,
}

/// The stream with the next key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Next {
    /// A change of the transaction in memory.
    Own,
    /// A change in a run: on the merge, where it hides committed versions.
    Spilled,
    Committed,
    Both,
}

/// A cursor on one family; used by one thread at a time.
///
/// Its rows are those of one seek and the following steps. They stay readable without their source runs. A
/// step fails once a snapshot of the transaction has ended since the seek: its versions may have been pruned.
pub struct Cursor {
    family: Arc<Family>,
    /// Number of the transaction's snapshots that had ended when the scan began.
    ended_snapshots: u64,
    merged: MergedView,
    position: Position,
    bounds: ScanBounds,
    locks: RowLocks,
    gaps: GapCover,
    batch: RowBatch,
    dead: DeletedRun,
    /// The parts that the scan takes of rows whose value is in two.
    parts: ReadParts,
    /// Expiry of the row of the last point read.
    found_expiry: u64,
    /// Bytes of the place of its rest.
    found_place: usize,
}

impl std::fmt::Debug for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cursor")
            .field("family", &self.family.id())
            .field("rows", &self.batch.spans.len())
            .finish()
    }
}

impl Cursor {
    /// A cursor on `family` without a position.
    pub fn new(family: Arc<Family>) -> Cursor {
        Cursor {
            family,
            ended_snapshots: 0,
            merged: MergedView::new(),
            position: Position::new(),
            bounds: ScanBounds::new(),
            locks: RowLocks::new(),
            gaps: GapCover::new(),
            batch: RowBatch::new(),
            dead: DeletedRun::default(),
            parts: ReadParts::Both,
            found_expiry: 0,
            found_place: 0,
        }
    }

    /// The family.
    pub fn family(&self) -> &Arc<Family> {
        &self.family
    }

    /// Releases pinned memory; after a seek the cursor can be used again.
    pub fn reset(&mut self) {
        self.merged.release();
        self.locks.newly_locked = None;
        self.position.at_key = false;
        self.batch.release();
    }

    /// Releases the memory of a value of many megabytes, already copied by the caller. It is the value of the
    /// last point read, or of the batch's row `position`. The batch then holds only this row, with its key
    /// and without a value.
    pub fn free_value(&mut self, position: usize) {
        if self.batch.bytes.capacity() > LARGE_BATCH {
            self.batch.keep_key(position);
            self.found_place = 0;
        }
    }

    /// Rows in the batch.
    pub fn len(&self) -> usize {
        self.batch.spans.len()
    }

    /// True if the batch has no row.
    pub fn is_empty(&self) -> bool {
        self.batch.spans.is_empty()
    }

    /// Key and value of a row of the batch.
    pub fn row(&self, index: usize) -> (&[u8], &[u8]) {
        let span = self.batch.spans[index];
        (self.batch.key(span), self.batch.value(span))
    }

    /// Expiry of a row of the batch, in seconds since 1970; 0: never.
    pub fn expiry(&self, index: usize) -> u64 {
        self.batch.spans[index].expiry
    }

    /// Expiry of the row of the last point read; 0: never.
    pub fn found_expiry(&self) -> u64 {
        self.found_expiry
    }

    /// The place of the rest of a row of the batch, whose value is in two parts; else empty. It is for
    /// [`LongValue::keeps_rest`](crate::txn::transaction::LongValue::keeps_rest), and means nothing else.
    pub fn rest_place(&self, index: usize) -> &[u8] {
        self.batch.place(self.batch.spans[index])
    }

    /// The same of the row of the last point read, which may have freed its value since.
    pub fn found_rest_place(&self) -> &[u8] {
        let bytes = &self.batch.bytes;
        bytes.len().checked_sub(self.found_place).map_or(&[], |at| &bytes[at..])
    }

    /// The value of the last point read.
    fn found_value(&self) -> &[u8] {
        &self.batch.bytes[..self.batch.bytes.len() - self.found_place]
    }

    /// Point read; the value stays in the cursor until its next use.
    pub fn get(&mut self, txn: &mut Transaction, key: &[u8], read: PointRead) -> Result<Option<&[u8]>> {
        self.batch.spans.clear();
        self.locks.forget();
        self.found_place = 0;
        let found = txn.get_into(&self.family, key, read, &mut self.batch.bytes)?;
        (self.found_expiry, self.found_place) = (found.expiry, found.place_len);
        if found.newly_locked {
            let lock = if read.mode == ReadMode::Shared { Mode::Shared } else { Mode::Exclusive };
            self.locks.newly_locked = Some((key.to_vec(), lock));
        }
        Ok(found.live.then_some(self.found_value()))
    }

    /// As [`Cursor::get`], but reads the committed version without a lock if another owner has locked the
    /// key: then [`Cursor::is_peek`].
    pub fn get_or_peek(
        &mut self,
        txn: &mut Transaction,
        key: &[u8],
        read: PointRead,
    ) -> Result<Option<&[u8]>> {
        let locking = PointRead { skip_locked: true, ..read };
        let live = match self.get(txn, key, locking).map(|found| found.is_some()) {
            Err(Error::LockTimeout) => {
                let peek = PointRead { mode: ReadMode::Latest, skip_locked: false, ..read };
                let peeked = self.get(txn, key, peek)?.is_some();
                self.locks.peeked = peeked;
                peeked
            }
            other => other?,
        };
        Ok(live.then_some(self.found_value()))
    }

    /// True if the current row is locked by another owner and was read in its committed version, by a scan
    /// with `peek_locked`.
    pub fn is_peek(&self) -> bool {
        self.locks.peeked
    }

    /// Reads the row of [`Cursor::is_peek`] again under its lock, after a wait; if it is gone, moves to the
    /// next one. False at the end.
    pub fn relock(&mut self, txn: &mut Transaction) -> Result<bool> {
        let Some(&span) = self.batch.spans.first().filter(|_| self.locks.peeked) else { return Ok(false) };
        txn.require_active()?;
        self.position.set(self.batch.key(span), Edge::Included);
        self.gaps.covered = Covered::Nothing;
        self.place(txn)?;
        let peek = std::mem::replace(&mut self.locks.peek_locked, false);
        let found = self.fill(txn);
        self.locks.peek_locked = peek;
        found
    }

    /// Releases the lock newly taken by the last locking read.
    pub fn unlock_row(&mut self, txn: &Transaction) {
        if let Some((key, mode)) = self.locks.newly_locked.take() {
            txn.unlock_key(self.family.id(), &key, mode);
        }
    }

    /// Moves to the first row of a scan. `true`: it is the batch's first row.
    pub fn seek(&mut self, txn: &mut Transaction, scan: &Scan<'_>) -> Result<bool> {
        txn.require_active()?;
        self.batch.expect(scan.expect);
        self.locks = RowLocks {
            mode: scan.mode,
            skip_locked: scan.skip_locked,
            peek_locked: scan.peek_locked,
            ..RowLocks::new()
        };
        self.gaps.kept = scan.mode.may_keep_gaps() && !scan.skip_locked && txn.keeps_gaps();
        self.gaps.covered = Covered::Nothing;
        let forward = scan.start.is_forward();
        self.bounds.set(&scan.key[..scan.prefix.min(scan.key.len())], scan.bound, forward);
        self.position.forward = forward;
        self.position.again = false;
        self.position.at_key = false;
        self.merged.both_versions = scan.both_versions && scan.mode == ReadMode::Snapshot;
        self.parts = scan.parts;
        let seq = txn.read_seq(scan.mode)?;
        txn.check_family(&self.family, seq)?;
        self.ended_snapshots = txn.ended_snapshots();
        self.merged.open(txn, &self.family, &self.bounds, seq)?;
        let last = &mut self.position.last;
        self.position.edge = match scan.start {
            Start::First | Start::Last => Edge::Open,
            Start::AtOrAfter | Start::Before => {
                last.clear();
                last.extend_from_slice(scan.key);
                if forward {
                    Edge::Included
                } else {
                    Edge::Excluded
                }
            }
            // The keys that start with the given one count as it: begin at the first key after them.
            Start::After if successor_of_prefix(scan.key, last) => Edge::Included,
            Start::AtOrBefore if successor_of_prefix(scan.key, last) => Edge::Excluded,
            Start::After => {
                self.position.ahead = false;
                return Ok(false);
            }
            Start::AtOrBefore => Edge::Open,
        };
        self.place(txn)?;
        self.fill_and_let_go(txn)
    }

    /// Fills the batch. The runs do not keep the block of a row of many megabytes alongside the batch's copy:
    /// the next step opens them anew.
    fn fill_and_let_go(&mut self, txn: &mut Transaction) -> Result<bool> {
        let filled = self.fill(txn).map_err(|error| self.family.unless_dropped(error));
        if self.batch.bytes.capacity() > LARGE_BATCH {
            self.merged.release();
            self.position.ahead = false;
        }
        filled
    }

    /// Steps from the row `position` of the batch in the given direction. `true`: the next row is the new
    /// batch's first.
    pub fn fetch(&mut self, txn: &mut Transaction, position: usize, forward: bool) -> Result<bool> {
        let at_key = std::mem::take(&mut self.position.at_key);
        let Some(&span) = self.batch.spans.get(position) else { return Ok(false) };
        self.check_scan(txn)?;
        self.locks.newly_locked = None;
        let leftover = position + 1 < self.batch.spans.len();
        let turned = forward != self.position.forward;
        let edge = if at_key && !turned { Edge::Included } else { Edge::Excluded };
        self.position.set(self.batch.key(span), edge);
        self.position.again = span.is_first && !turned;
        self.position.forward = forward;
        // Those after it are read again.
        self.batch.spans.truncate(position + 1);
        if turned {
            self.batch.expect(0);
            self.gaps.covered = Covered::Nothing;
        }
        let stale = self.refresh(txn)?;
        if leftover || turned || stale || !self.position.ahead {
            self.place(txn)?;
        }
        self.fill_and_let_go(txn)
    }

    /// An error when the store is closed, or the scan's snapshot has ended.
    fn check_scan(&self, txn: &Transaction) -> Result<()> {
        txn.store.check_open()?;
        match self.ended_snapshots == txn.ended_snapshots() {
            true => Ok(()),
            false => Err(Error::InvalidArgument("the snapshot of the scan has ended; seek again".into())),
        }
    }

    /// Discards the rows read ahead: the next step reads all commits ordered by then. For an index scan whose
    /// caller found a changed row: the row may now have an entry in front of the scan. `at_key`: the next step begins with
    /// the present key, which may belong to another row by now, as of a unique index.
    pub fn look_again(&mut self, at_key: bool) {
        self.position.at_key = at_key;
        self.position.ahead = false;
        self.merged.reach_ordered = true;
    }

    /// Rebuilds the merge if a run visible to the scan is missing from it. Returns whether it did.
    fn refresh(&mut self, txn: &Transaction) -> Result<bool> {
        self.merged.refresh(txn, &self.family, &self.bounds, self.locks.mode)
    }

    /// Moves the merge to the next key to look at.
    fn place(&mut self, txn: &Transaction) -> Result<()> {
        if self.locks.mode != ReadMode::Snapshot {
            if std::mem::take(&mut self.merged.reach_ordered) {
                txn.store.reach(txn.store.pipeline.last_ordered());
            }
            // In this order: what is committed now may stand in a memtable that came after the merge's runs.
            self.merged.placed_at = txn.store.pipeline.visible_seq();
            self.refresh(txn)?;
        }
        let Some(merge) = &mut self.merged.merge else { return Ok(()) };
        self.position.ahead = true;
        self.dead.steps = 0;
        self.position.seek(merge)
    }

    /// Sets the position after the key of `span`.
    #[inline]
    fn leave(&mut self, span: Span) {
        self.position.set(self.batch.key(span), Edge::Excluded);
    }
}
