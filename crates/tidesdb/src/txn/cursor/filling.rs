//! Fills a batch of rows in a scan without locks. Committed rows are copied as the merge walks over them.
//! Around the transaction's own changes and deleted or expired rows, the scan goes key by key.

use std::cmp::Ordering;

use super::position::Edge;
use super::row_batch::Span;
use super::{Cursor, CursorState, Next};
use crate::cache::work;
use crate::error::{Error, Result};
use crate::iter::InternalIterator;
use crate::mutant::{self, Mutant};
use crate::sync::note;
use crate::txn::transaction::{ReadMode, Transaction};
use crate::types::{Entry, Seq};
use crate::value::{resolve, SeparateValues};
use crate::values::{FailedValue, ValuesTogether};

/// The transaction's own latest change of a key.
#[derive(Clone, Copy)]
struct OwnChange<'a> {
    key: &'a [u8],
    entry: Entry<'a>,
}

impl OwnChange<'_> {
    /// True if a scan comes to `key` before this change.
    fn is_after(&self, key: &[u8], forward: bool) -> bool {
        match forward {
            true => key < self.key,
            false => key > self.key,
        }
    }
}

impl Cursor {
    /// Copies the next key and its value, own or committed, after the batch's bytes. `None` at the end. Of a key past the end
    /// no value is read. `values` has, or fetches later, those that are outside of their entries.
    pub(super) fn copy_next(
        &mut self,
        txn: &Transaction,
        own_changes: bool,
        values: &impl SeparateValues,
    ) -> Result<Option<(Next, Span, CursorState, Seq)>> {
        let Some(merge) = &mut self.merged.merge else { return Ok(None) };
        let family = self.family.id();
        let own = match (own_changes, self.position.forward, self.position.edge) {
            (false, _, _) => None,
            (true, true, Edge::Open) => txn.batch.first_from(family, &[], false),
            (true, true, edge) => txn.batch.first_from(family, &self.position.last, edge == Edge::Excluded),
            (true, false, Edge::Open) => txn.batch.last_to(family, None, false),
            (true, false, edge) => {
                txn.batch.last_to(family, Some(&self.position.last), edge == Edge::Excluded)
            }
        };
        let mut own = own.map(|own| OwnChange { key: own.key, entry: own.entry() });
        if let Some(runs) = &mut self.merged.own {
            self.position.seek_own(runs)?;
            if runs.valid() && own.is_none_or(|own| own.is_after(runs.key(), self.position.forward)) {
                own = Some(OwnChange { key: runs.key(), entry: runs.entry().with_seq(0) });
            }
        }
        let next = match (&own, merge.valid()) {
            (None, false) => return Ok(None),
            (Some(_), false) => Next::Own,
            (None, true) => Next::Committed,
            (Some(own), true) => match (own.key.cmp(merge.key()), self.position.forward) {
                (Ordering::Equal, _) => Next::Both,
                (Ordering::Less, true) | (Ordering::Greater, false) => Next::Own,
                _ => Next::Committed,
            },
        };
        let next = match next {
            Next::Committed if merge.current_iter() < Some(self.merged.own_iterators) => Next::Spilled,
            next => next,
        };
        let (at, entry) = match own {
            Some(own) if matches!(next, Next::Own | Next::Both) => (own.key, own.entry),
            _ => (merge.key(), merge.entry()),
        };
        if self.bounds.is_past_end(at) {
            // What follows must place the merge anew: others may have changed what is before the end.
            self.position.ahead = false;
            return Ok(None);
        }
        let bytes = &mut self.batch.bytes;
        let key = bytes.len();
        bytes.extend_from_slice(at);
        let value = bytes.len();
        let seen = txn.resolve_from(values, &entry, self.locks.mode, self.parts, bytes)?;
        let (seq, expires) = (entry.seq, entry.kind.has_expiry());
        // The snapshot's version of the key comes next.
        let is_first = self.merged.both_versions && next == Next::Both;
        let is_first = is_first || (next == Next::Both && mutant::is(Mutant::OwnRowTwice));
        if next != Next::Own && !is_first {
            if self.position.forward {
                merge.next()?;
            } else {
                merge.prev()?;
            }
        }
        if own_changes {
            self.position.set(&self.batch.bytes[key..value], Edge::Excluded);
        }
        let state = match (seen.live, expires) {
            (true, _) => CursorState::Live,
            (false, true) => CursorState::Expired,
            (false, false) => CursorState::Deleted,
        };
        let (expiry, place_len) = (seen.expiry, seen.place_len);
        let end = self.batch.bytes.len() - place_len;
        Ok(Some((next, Span { key, value, end, place_len, expiry, is_first }, state, seq)))
    }

    /// Copies live rows without an expiry after the batch's bytes. True: it stopped at a key of another kind,
    /// or for want of room in the batch, or before a row that cannot be read.
    fn copy_live(&mut self, values: &impl SeparateValues, want: usize) -> Result<bool> {
        let (bounds, parts) = (&self.bounds, self.parts);
        let Some(merge) = &mut self.merged.merge else { return Ok(false) };
        let batch = &mut self.batch;
        let (mut full, mut resolved) = (false, Ok(()));
        merge.walk(&mut |at, entry| {
            full = batch.spans.len() >= want || batch.is_full();
            let expires = entry.kind.has_expiry() && !mutant::is(Mutant::ExpiryUnseenByScan);
            let plain = !entry.kind.is_tombstone() && !expires;
            if full || !plain || bounds.is_past_end(at) {
                return false;
            }
            let key = batch.bytes.len();
            batch.bytes.extend_from_slice(at);
            let value = batch.bytes.len();
            let place_len = match resolve(&entry, || 0, values, parts, &mut batch.bytes) {
                Ok(seen) => seen.place_len,
                Err(error) => {
                    resolved = Err(error);
                    return false;
                }
            };
            let end = batch.bytes.len() - place_len;
            batch.spans.push(Span { key, value, end, place_len, expiry: 0, is_first: false });
            true
        })?;
        resolved.map(|()| full)
    }

    /// Whether rows of the scan may be changes of the transaction itself.
    pub(super) fn sees_own_changes(&self, txn: &Transaction) -> bool {
        self.merged.own.is_some() || (!txn.batch.is_empty() && txn.batch.touches(self.family.id()))
    }

    /// Reads the next rows, as many as the batch's present size. False: there are none.
    pub(super) fn fill(&mut self, txn: &mut Transaction) -> Result<bool> {
        self.locks.peeked = false;
        let own_changes = self.sees_own_changes(txn);
        if self.gaps.kept || matches!(self.locks.mode, ReadMode::Shared | ReadMode::Exclusive) {
            self.batch.clear();
            return self.fill_locking(txn, own_changes);
        }
        let want = self.batch.begin();
        let mut values = std::mem::take(&mut self.batch.values);
        // After a kill, too: a row of the batch has its value.
        let copied = self.copy_rows(txn, own_changes, want, &mut values);
        let filled = self.read_values(txn, &mut values).and(copied);
        values.clear();
        self.batch.values = values;
        self.end_before_failure(filled)?;
        self.end_deleted_run(txn);
        Ok(!self.batch.spans.is_empty())
    }

    /// Reads the values that the rows lack. After an error the batch has the rows before the one that cannot be read.
    fn read_values(&mut self, txn: &Transaction, values: &mut ValuesTogether) -> Result<()> {
        values.read(txn.store.versions.values(), &mut self.batch.bytes).map_err(
            |FailedValue { at, error }| {
                let row = self.batch.spans.partition_point(|span| span.end <= at);
                self.batch.end_before(row);
                error
            },
        )
    }

    /// Ends the batch after its whole rows where the next one cannot be read: the step after them tells why.
    fn end_before_failure(&mut self, filled: Result<()>) -> Result<()> {
        match filled {
            Err(error) if self.batch.spans.is_empty() || matches!(error, Error::Interrupted) => Err(error),
            Err(_) => {
                note("cursor: rows before one that cannot be read");
                self.batch.end_before(self.batch.spans.len());
                // The merge may have left that row behind.
                self.position.ahead &= mutant::is(Mutant::RowsLostByFailure);
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// Copies the next rows, but for those of their values that are neither in their entries nor in the cache. The merge holds
    /// the files of these.
    fn copy_rows(
        &mut self,
        txn: &Transaction,
        own_changes: bool,
        want: usize,
        values: &mut ValuesTogether,
    ) -> Result<()> {
        let files = txn.store.versions.values();
        let mut steps = 0u32;
        while self.batch.spans.len() < want && !self.batch.is_full() {
            txn.look_for_kill(&mut steps)?;
            if self.position.forward
                && !own_changes
                && self.dead.steps == 0
                && self.copy_live(&values.cached(files), want)?
            {
                break;
            }
            let next = self.copy_next(txn, own_changes, &values.cached(files))?;
            let Some((next, span, state, seq)) = next else { break };
            if !matches!(state, CursorState::Live) {
                work::note_passed(1);
            }
            match state {
                CursorState::Live => {
                    if self.dead.steps > 0 {
                        self.end_deleted_run(txn);
                    }
                    self.batch.spans.push(span);
                    continue;
                }
                CursorState::Deleted if self.may_have_moved(next, seq) => {
                    // Another merge may hold other files.
                    self.read_values(txn, values)?;
                    self.place_after(txn, span, seq)?;
                }
                CursorState::Deleted => self.pass_dead(txn, next, span, seq)?,
                // Others may still see it: it is part of no range that is known to be dead.
                CursorState::Expired => self.end_deleted_run(txn),
            }
            self.batch.bytes.truncate(span.key);
        }
        Ok(())
    }
}
