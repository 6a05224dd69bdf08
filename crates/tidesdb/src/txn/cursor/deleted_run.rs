//! Runs of deleted keys. A scan counts the deleted keys it passes, looks for known dead ranges, and publishes
//! the ranges it found ([`crate::store::deleted_range_cache`]).

use super::row_batch::Span;
use super::{Cursor, Next};
use crate::error::Result;
use crate::iter::InternalIterator;
use crate::store::deleted_range_cache::{Bounds, Seen};
use crate::txn::transaction::{ReadMode, Transaction};
use crate::types::{Seq, MAX_SEQ};

/// Consecutive deleted keys passed by a scan.
#[derive(Debug, Default)]
pub(super) struct DeletedRun {
    /// Keys passed one by one.
    pub(super) steps: u32,
    /// The first key and the last one, in the direction of the scan.
    ends: Bounds,
    /// The last key is the end of a range the scan jumped over.
    jumped: bool,
    /// The newest sequence number of their tombstones and of the ranges jumped over.
    newest: Seq,
    /// A buffer for the copy of a known dead range.
    known: Bounds,
}

impl DeletedRun {
    fn pass(&mut self, key: &[u8], seq: Seq) {
        if self.steps == 0 {
            self.newest = 0;
            self.ends.from.clear();
            self.ends.from.extend_from_slice(key);
        }
        self.ends.to.clear();
        self.ends.to.extend_from_slice(key);
        self.newest = self.newest.max(seq);
        self.jumped = false;
        self.steps += 1;
    }

    /// Jumps over the range in `known`, dead since `since`.
    fn jump(&mut self, forward: bool, since: Seq) {
        let end = if forward { &self.known.to } else { &self.known.from };
        self.ends.to.clear();
        self.ends.to.extend_from_slice(end);
        self.newest = self.newest.max(since);
        self.jumped = true;
    }

    /// The key range of a finished run.
    fn bounds(&mut self, forward: bool) -> &Bounds {
        if forward {
            // A jump ends at the first key after its range.
            if !self.jumped {
                self.ends.to.push(0);
            }
        } else {
            std::mem::swap(&mut self.ends.from, &mut self.ends.to);
            self.ends.to.push(0);
        }
        &self.ends
    }
}

impl Cursor {
    /// Counts a deleted key passed by the scan. After some in a row, jumps over known dead keys.
    pub(super) fn pass_dead(&mut self, txn: &Transaction, next: Next, span: Span, seq: Seq) -> Result<()> {
        if next != Next::Committed {
            // Deleted by the transaction itself: for others it is alive.
            self.end_deleted_run(txn);
            return Ok(());
        }
        let key = self.batch.key(span);
        self.dead.pass(key, seq);
        let ask_every = txn.store.options.deleted_run.div_ceil(4);
        if self.dead.steps % ask_every != 0 || self.merged.own_iterators > 0 {
            return Ok(());
        }
        // Where a row that went is a conflict, none that went since the snapshot may be jumped over.
        let upto = match self.locks.mode {
            ReadMode::Snapshot => self.merged.seq,
            ReadMode::Shared | ReadMode::Exclusive => txn.conflicts_above().unwrap_or(MAX_SEQ),
            ReadMode::Latest | ReadMode::Gap => MAX_SEQ,
        };
        // Where a deletion may be half of a move, none that came after the merge was placed may be jumped over.
        let upto = if self.follows_moves() { upto.min(self.merged.placed_at) } else { upto };
        let ranges = txn.store.pipeline.deleted_ranges();
        let Some(since) = ranges.around(self.family.id(), key, upto, &mut self.dead.known) else {
            return Ok(());
        };
        let Some(merge) = &mut self.merged.merge else { return Ok(()) };
        let forward = self.position.forward;
        self.dead.jump(forward, since);
        let Bounds { from, to } = &self.dead.known;
        if forward {
            if merge.valid() && merge.key() < to.as_slice() {
                merge.seek(to)?;
            }
        } else if merge.valid() && merge.key() >= from.as_slice() {
            merge.seek_for_prev(from)?;
        }
        Ok(())
    }

    /// The next key is alive, or there is none: publishes the passed range if it is long enough.
    pub(super) fn end_deleted_run(&mut self, txn: &Transaction) {
        let steps = std::mem::take(&mut self.dead.steps);
        // Of a merge that reads the newest versions it is known up to which commit it has all of them.
        let upto =
            if self.locks.mode == ReadMode::Snapshot { self.merged.seq } else { self.merged.placed_at };
        if steps < txn.store.options.deleted_run || upto == MAX_SEQ {
            return;
        }
        let (family, pipeline, seen) =
            (self.family.id(), &txn.store.pipeline, Seen { upto, newest: self.dead.newest, steps });
        let bounds = self.dead.bounds(self.position.forward);
        pipeline.deleted_ranges().learn(family, bounds, seen, || pipeline.between_commits(|seq| seq));
    }
}
