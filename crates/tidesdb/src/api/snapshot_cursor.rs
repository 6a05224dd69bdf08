//! A cursor over a range with a snapshot of its own, for callers without Rust's lifetimes.

use std::sync::Arc;

use super::key_range::ByteRange;
use super::pool::{Lease, OwnedLease, Shared};
use super::range_cursor::RangeCursor;
use crate::error::Result;
use crate::store::family::Family;
use crate::txn::transaction::{ReadMode, TransactionOptions};

/// A [`RangeCursor`] at a snapshot of the moment of its making. It keeps the store open.
#[derive(Debug)]
pub struct SnapshotCursor {
    // Before the lease: what the cursor pins goes before the snapshot does.
    cursor: RangeCursor,
    lease: Box<OwnedLease>,
}

impl SnapshotCursor {
    pub(super) fn new(
        shared: &Arc<Shared>,
        family: &Arc<Family>,
        range: ByteRange,
    ) -> Result<SnapshotCursor> {
        let mut lease = Lease::new(shared.clone(), TransactionOptions::default())?;
        lease.txn().take_snapshot()?;
        let cursor = RangeCursor::new(family.clone(), range, ReadMode::Snapshot);
        Ok(SnapshotCursor { cursor, lease: Box::new(lease) })
    }

    /// As [`RangeCursor::first`].
    pub fn first(&mut self) -> Result<bool> {
        self.cursor.first(self.lease.txn())
    }

    /// As [`RangeCursor::last`].
    pub fn last(&mut self) -> Result<bool> {
        self.cursor.last(self.lease.txn())
    }

    /// As [`RangeCursor::seek`].
    pub fn seek(&mut self, key: &[u8]) -> Result<bool> {
        self.cursor.seek(self.lease.txn(), key)
    }

    /// As [`RangeCursor::step`].
    pub fn step(&mut self, forward: bool) -> Result<bool> {
        self.cursor.step(self.lease.txn(), forward)
    }

    /// As [`RangeCursor::row`].
    pub fn row(&self) -> Option<(&[u8], &[u8])> {
        self.cursor.row()
    }
}
