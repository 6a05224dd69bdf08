//! Iterators over the rows of a range.

use std::iter::FusedIterator;
use std::sync::Arc;

use super::key_range::ByteRange;
use super::pool::OwnedLease;
use super::range_cursor::RangeCursor;
use super::transaction::Transaction;
use crate::error::{Error, Result};
use crate::store::family::Family;
use crate::txn::transaction::{ReadMode, Transaction as Engine};

/// A key and its value.
pub type KeyValue = (Vec<u8>, Vec<u8>);

/// The two ends of an iterator. After an error, and once they have met, they give nothing more.
#[derive(Debug)]
struct Ends {
    front: RangeCursor,
    back: RangeCursor,
    front_begun: bool,
    back_begun: bool,
    done: bool,
    /// Given out by the first step.
    failed: Option<Error>,
}

impl Ends {
    fn new(family: &Arc<Family>, range: ByteRange, mode: ReadMode, failed: Option<Error>) -> Ends {
        Ends {
            front: RangeCursor::new(family.clone(), range.clone(), mode),
            back: RangeCursor::new(family.clone(), range, mode),
            front_begun: false,
            back_begun: false,
            done: false,
            failed,
        }
    }

    /// The next row from one end. Calls `within` with a function that takes the transaction for the read.
    fn give(
        &mut self,
        forward: bool,
        within: impl FnOnce(&mut dyn FnMut(&mut Engine) -> Result<bool>) -> Result<bool>,
    ) -> Option<Result<KeyValue>> {
        if self.done {
            return None;
        }
        if let Some(error) = self.failed.take() {
            self.done = true;
            return Some(Err(error));
        }
        let found = within(&mut |txn| self.advance(txn, forward));
        self.done = !matches!(found, Ok(true));
        match found {
            Err(error) => Some(Err(error)),
            Ok(_) if self.done => None,
            Ok(_) => {
                let cursor = if forward { &self.front } else { &self.back };
                cursor.row().map(|(key, value)| Ok((key.to_vec(), value.to_vec())))
            }
        }
    }

    /// Moves one end a step further; true if it is on a row not yet given by the other end.
    fn advance(&mut self, txn: &mut Engine, forward: bool) -> Result<bool> {
        let found = match forward {
            true if std::mem::replace(&mut self.front_begun, true) => self.front.step(txn, true)?,
            true => self.front.first(txn)?,
            false if std::mem::replace(&mut self.back_begun, true) => self.back.step(txn, false)?,
            false => self.back.last(txn)?,
        };
        let met = match (self.front.row(), self.back.row()) {
            (Some((front, _)), Some((back, _))) => front >= back,
            _ => false,
        };
        Ok(found && !met)
    }
}

/// The rows of a range of a family in the order of their keys; `rev()` and `next_back()` give them from the
/// end.
///
/// It reads at a snapshot of the moment of its making. Versions visible in the snapshot stay in the store
/// while it lives. After an error it gives nothing more.
#[derive(Debug)]
pub struct Iter {
    // Before the lease: what the cursors pin goes before the snapshot does.
    ends: Ends,
    lease: Option<Box<OwnedLease>>,
}

impl Iter {
    pub(super) fn new(family: &Arc<Family>, range: ByteRange, lease: Result<OwnedLease>) -> Iter {
        let lease = lease.and_then(|mut lease| {
            lease.txn().take_snapshot()?;
            Ok(Box::new(lease))
        });
        let (lease, failed) = match lease {
            Ok(lease) => (Some(lease), None),
            Err(error) => (None, Some(error)),
        };
        Iter { ends: Ends::new(family, range, ReadMode::Snapshot, failed), lease }
    }

    fn give(&mut self, forward: bool) -> Option<Result<KeyValue>> {
        let lease = &mut self.lease;
        self.ends.give(forward, |step| lease.as_mut().map_or(Ok(false), |lease| step(lease.txn())))
    }
}

impl Iterator for Iter {
    type Item = Result<KeyValue>;

    fn next(&mut self) -> Option<Result<KeyValue>> {
        self.give(true)
    }
}

impl DoubleEndedIterator for Iter {
    fn next_back(&mut self) -> Option<Result<KeyValue>> {
        self.give(false)
    }
}

impl FusedIterator for Iter {}

/// The rows of a range as a [`Transaction`] sees them, in the order of their keys; `rev()` and `next_back()`
/// give them from the end.
///
/// It reads at the transaction's snapshot and sees the transaction's own changes, also those made while it
/// runs. After an error it gives nothing more.
#[derive(Debug)]
pub struct TransactionIter<'t> {
    ends: Ends,
    txn: Option<&'t Transaction>,
}

impl<'t> TransactionIter<'t> {
    /// The first step returns an error in `usable`.
    pub(super) fn new(
        txn: &'t Transaction,
        family: &Arc<Family>,
        range: ByteRange,
        usable: Result<()>,
    ) -> TransactionIter<'t> {
        let failed = usable.err();
        let usable = failed.is_none();
        if usable {
            txn.iterator_begins();
        }
        TransactionIter {
            ends: Ends::new(family, range, txn.read_mode(), failed),
            txn: usable.then_some(txn),
        }
    }

    fn give(&mut self, forward: bool) -> Option<Result<KeyValue>> {
        let txn = self.txn;
        self.ends.give(forward, |step| txn.map_or(Ok(false), |txn| txn.iterator_steps(step)))
    }
}

impl Iterator for TransactionIter<'_> {
    type Item = Result<KeyValue>;

    fn next(&mut self) -> Option<Result<KeyValue>> {
        self.give(true)
    }
}

impl DoubleEndedIterator for TransactionIter<'_> {
    fn next_back(&mut self) -> Option<Result<KeyValue>> {
        self.give(false)
    }
}

impl FusedIterator for TransactionIter<'_> {}

impl Drop for TransactionIter<'_> {
    fn drop(&mut self) {
        if let Some(txn) = self.txn {
            txn.iterator_ends();
        }
    }
}
