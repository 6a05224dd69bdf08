//! Locking scans: row by row. Each row is locked before its final read, and so are the gaps before it if the
//! transaction keeps gaps (`docs/protocols.md` 4.2, 4.4).

use super::position::Edge;
use super::row_batch::Span;
use super::row_locks::Covered;
use super::{Cursor, CursorState, Next};
use crate::error::Result;
use crate::lock::{Granted, Mode};
use crate::txn::gap::successor;
use crate::txn::transaction::{ReadMode, Transaction};
use crate::types::{Seq, MAX_SEQ};

impl Cursor {
    /// One row, locked, with the gap before it.
    pub(super) fn fill_locking(&mut self, txn: &mut Transaction, own_changes: bool) -> Result<bool> {
        let mut steps = 0u32;
        loop {
            self.gaps.start.clear();
            self.gaps.start.extend_from_slice(&self.position.last);
            let gap_from = self.position.edge;
            let found = self.next_live(txn, own_changes, &mut steps)?;
            if self.gaps.kept && self.cover(txn, found.map(|(_, span, _)| span), gap_from)? {
                // What was committed before the range kept it out may stand before what was found.
                if txn.store.pipeline.visible_seq() != self.merged.placed_at {
                    std::mem::swap(&mut self.position.last, &mut self.gaps.start);
                    self.position.edge = gap_from;
                    self.place(txn)?;
                    continue;
                }
            }
            // After the read: a deletion that it passed may have been refused since the scan began.
            txn.check_newest_is_written()?;
            let Some((next, mut span, seq)) = found else {
                self.batch.bytes.clear();
                return Ok(false);
            };
            let locked = self.locks.mode != ReadMode::Gap && next == Next::Committed;
            if !locked || self.lock_found(txn, &mut span, seq)? {
                self.batch.spans.push(span);
                return Ok(true);
            }
            self.leave(span);
            if self.follows_moves() {
                // The row is gone, perhaps to a key that its commit has not brought into the memtable yet.
                self.merged.reach_ordered = true;
                self.place(txn)?;
            }
        }
    }

    /// True if a deleted key may be a row moved ahead of the scan since the merge was placed. The deleting
    /// commit may have given the row another key in front, already passed by the merge's iterators. The row
    /// is in the scan's range before and after that commit, so a scan of the newest versions must see it
    /// once. A scan with gap locks looks again by itself, from the start of its gap.
    pub(super) fn may_have_moved(&self, next: Next, seq: Seq) -> bool {
        self.follows_moves() && next == Next::Committed && seq > self.merged.placed_at
    }

    /// True if the scan itself must look for rows moved in front of it.
    pub(super) fn follows_moves(&self) -> bool {
        let locks = matches!(self.locks.mode, ReadMode::Gap | ReadMode::Shared | ReadMode::Exclusive);
        locks && !self.gaps.kept && !self.locks.skip_locked
    }

    /// Places the merge after the key of `span`, over all commits up to `seq`. The deletion may be visible
    /// there before the other changes of its commit.
    pub(super) fn place_after(&mut self, txn: &Transaction, span: Span, seq: Seq) -> Result<()> {
        self.end_deleted_run(txn);
        self.leave(span);
        txn.store.reach(seq);
        self.place(txn)
    }

    /// The next live key, alone in the batch's bytes. `None` at the end of the scan.
    fn next_live(
        &mut self,
        txn: &Transaction,
        own_changes: bool,
        steps: &mut u32,
    ) -> Result<Option<(Next, Span, Seq)>> {
        loop {
            txn.look_for_kill(steps)?;
            self.batch.bytes.clear();
            let values = &**txn.store.versions.values();
            let Some((next, span, state, seq)) = self.copy_next(txn, own_changes, values)? else {
                self.end_deleted_run(txn);
                return Ok(None);
            };
            if state == CursorState::Live {
                self.end_deleted_run(txn);
                return Ok(Some((next, span, seq)));
            }
            // A row that went counts as changed, an entry that went does not (`docs/protocols.md` 4.6).
            if next == Next::Committed && self.locks.mode != ReadMode::Gap {
                txn.check_unchanged(seq)?;
            }
            match state {
                CursorState::Expired => self.end_deleted_run(txn),
                _ if self.may_have_moved(next, seq) => self.place_after(txn, span, seq)?,
                _ => self.pass_dead(txn, next, span, seq)?,
            }
        }
    }

    /// Publishes the scan's range up to the key found, or to the scan's end. Waits for owners of keys in it.
    /// The gap begins at the side `gap_from` of `gaps.start`. Returns whether there was a range to publish.
    fn cover(&mut self, txn: &Transaction, found: Option<Span>, gap_from: Edge) -> Result<bool> {
        let found = found.map(|span| self.batch.key(span));
        let mut start = Vec::new();
        let begin = match (&self.gaps.covered, gap_from) {
            (Covered::All, _) => return Ok(false),
            (Covered::To(key), _) => Some(key.as_slice()),
            (Covered::Nothing, Edge::Open) => None,
            (Covered::Nothing, edge) => {
                start.extend_from_slice(&self.gaps.start);
                // After the key: forward without it, backward with it.
                if self.position.forward == (edge == Edge::Excluded) {
                    start.push(0);
                }
                Some(start.as_slice())
            }
        };
        // A row's own lock keeps it as it was read; of an entry only the range does.
        let with_found = self.locks.mode == ReadMode::Gap;
        let end = match found {
            Some(key) if self.position.forward != with_found => Some(key.to_vec()),
            Some(key) => Some(successor(key)),
            None => self.bounds.end(self.position.forward),
        };
        let family = self.family.id();
        if self.position.forward {
            let from = begin.unwrap_or_default();
            if end.as_ref().is_some_and(|to| to.as_slice() <= from) {
                return Ok(false);
            }
            txn.lock_range(family, from, end.as_deref())?;
        } else {
            let from = end.as_deref().unwrap_or_default();
            if begin.is_some_and(|to| to <= from) {
                return Ok(false);
            }
            txn.lock_range(family, from, begin)?;
        }
        self.gaps.covered = end.map_or(Covered::All, Covered::To);
        Ok(true)
    }

    /// Locks the key found at `seq`, then reads its newest version in place of the earlier one. False if the
    /// key is gone, or if another owner has it and the scan skips locked rows.
    fn lock_found(&mut self, txn: &mut Transaction, span: &mut Span, seq: Seq) -> Result<bool> {
        let lock = if self.locks.mode == ReadMode::Shared { Mode::Shared } else { Mode::Exclusive };
        let key = self.batch.key(*span).to_vec();
        let skip = self.locks.skip_locked || self.locks.peek_locked;
        let granted = txn.lock_key(self.family.id(), &key, lock, skip)?;
        if granted.is_none() && !self.locks.peek_locked {
            return Ok(false);
        }
        self.locks.peeked = granted.is_none();
        if txn.store.pipeline.visible_seq() == self.merged.placed_at {
            // Nothing was committed since it was found.
            txn.check_unchanged(seq)?;
            self.locks.newly_locked = (granted == Some(Granted::New)).then_some((key, lock));
            return Ok(true);
        }
        let (bytes, mode, parts) = (&mut self.batch.bytes, self.locks.mode, self.parts);
        bytes.truncate(span.value);
        let newest = txn.store.newest(self.family.id(), &key, MAX_SEQ, |entry| {
            txn.check_unchanged(entry.seq)?;
            txn.resolve(&entry, mode, parts, bytes)
        })?;
        span.place_len = newest.map_or(0, |seen| seen.place_len);
        span.end = bytes.len() - span.place_len;
        let live = newest.is_some_and(|seen| seen.live);
        if let Some(seen) = newest.filter(|seen| seen.live) {
            span.expiry = seen.expiry;
            self.locks.newly_locked = (granted == Some(Granted::New)).then_some((key, lock));
        } else if granted == Some(Granted::New) {
            if self.gaps.kept {
                // The range takes over from the lock: nobody can insert the key in between.
                self.cover_gone(txn, &key)?;
            }
            txn.unlock_key(self.family.id(), &key, lock);
        }
        self.locks.peeked &= live;
        Ok(live)
    }

    /// Extends the scan's range over `key`, its present end.
    fn cover_gone(&mut self, txn: &Transaction, key: &[u8]) -> Result<()> {
        let next = successor(key);
        txn.lock_range(self.family.id(), key, Some(&next))?;
        let extends = match &self.gaps.covered {
            Covered::To(to) if self.position.forward => *to < next,
            Covered::To(from) => from.as_slice() > key,
            _ => false,
        };
        if extends {
            self.gaps.covered = Covered::To(if self.position.forward { next } else { key.to_vec() });
        }
        Ok(())
    }
}
