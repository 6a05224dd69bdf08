//! Counts the rows of a scan. Committed rows are counted as the merge walks over them, without a copy. Around
//! the transaction's own changes and deleted or expired rows, the scan goes on in batches.

use super::position::Edge;
use super::Cursor;
use crate::error::{Error, Result};
use crate::iter::InternalIterator;
use crate::mutant::{self, Mutant};
use crate::txn::transaction::{ReadMode, Transaction};

/// Rows counted between two looks at KILL and at newer runs.
const COUNTED_AT_ONCE: u64 = if cfg!(simulation) { 4 } else { 2048 };

impl Cursor {
    /// The number of rows from the batch's row `position` to the end of the scan, which is one at a snapshot.
    /// The cursor then stands on no row.
    pub fn count(&mut self, txn: &mut Transaction, position: usize) -> Result<u64> {
        if self.locks.mode != ReadMode::Snapshot || self.merged.both_versions {
            return Err(Error::InvalidArgument(
                "a scan that locks, or gives two versions, counts no rows".into(),
            ));
        }
        let mut rows = 0;
        self.batch.spans.drain(..position.min(self.batch.spans.len()));
        while let Some(&last) = self.batch.spans.last() {
            rows += self.batch.spans.len() as u64;
            self.leave(last);
            loop {
                self.check_scan(txn)?;
                if txn.owner().is_killed() {
                    return Err(Error::Interrupted);
                }
                if self.refresh(txn)? || !self.position.ahead {
                    self.place(txn)?;
                }
                let (counted, stopped) = self.count_plain(txn)?;
                rows += counted;
                if stopped {
                    break;
                }
            }
            self.fill_and_let_go(txn)?;
        }
        Ok(rows)
    }

    /// Counts live rows without an expiry, as far as [`COUNTED_AT_ONCE`] of them. True: it stopped at a key of
    /// another kind, or at the end.
    fn count_plain(&mut self, txn: &Transaction) -> Result<(u64, bool)> {
        if self.sees_own_changes(txn) || !self.position.forward {
            return Ok((0, true));
        }
        let (bounds, position) = (&self.bounds, &mut self.position);
        let Some(merge) = &mut self.merged.merge else { return Ok((0, true)) };
        let (mut counted, mut full) = (0, false);
        merge.walk(&mut |at, entry| {
            let plain = !entry.kind.is_tombstone() || mutant::is(Mutant::DeletedRowCounted);
            full = counted == COUNTED_AT_ONCE;
            if full || !plain || entry.kind.has_expiry() || bounds.is_past_end(at) {
                position.set(at, Edge::Included);
                return false;
            }
            counted += 1;
            true
        })?;
        Ok((counted, !full))
    }
}
