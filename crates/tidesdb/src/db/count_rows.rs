//! Counts the rows of a family by reading them, and corrects its count by the result, alongside writers.
//!
//! The present count and the snapshot of the scan are of one moment: between two commits, with all earlier
//! ones in memtables. The correction is the difference between the scan and the count at that moment. Counts
//! are sums, so it stays right whatever is committed, flushed or merged meanwhile.

use std::sync::Arc;

use crate::db::Db;
use crate::error::{Error, Result};
use crate::store::family::Family;
use crate::txn::cursor::Scan;
use crate::txn::transaction::TransactionOptions;
use crate::types::RowCount;
use crate::version::Edit;
use crate::wal::WaitLimit;

/// Rows per batch of the scan, and batches between two checks for an interruption.
const BATCH: u32 = 32;
const BATCHES_BETWEEN_LOOKS: u64 = 8;

impl Db {
    /// Reads all keys of the family at one moment; `Error::Interrupted` once `interrupted` returns true. The
    /// family's count is right afterwards, and stays so; the result is the number at that moment. Nothing is
    /// written when the count was right. For families of an earlier build's store, without counts, and for
    /// mistakes of writers ([`crate::txn::transaction::Change::count_unchanged`]).
    pub fn count_rows(&self, family: &Arc<Family>, interrupted: &dyn Fn() -> bool) -> Result<u64> {
        let store = self.store();
        store.check_writable()?;
        family.check_live()?;
        // A second scan would correct by what the first one does, too.
        let _alone = loop {
            match family.counting.try_lock_for(WaitLimit::STEP) {
                Some(alone) => break alone,
                None if interrupted() => return Err(Error::Interrupted),
                None => store.check_open()?,
            }
        };
        let mut txn = self.transaction();
        txn.begin(TransactionOptions::default())?;
        let before = txn.take_counted_snapshot(family.id())?;
        let mut rows = 0u64;
        let mut cursor = self.cursor(family);
        let mut found = cursor.seek(&mut txn, &Scan { expect: BATCH, ..Scan::default() })?;
        let mut batches = 0u64;
        while found {
            rows += cursor.len() as u64;
            batches += 1;
            if batches % BATCHES_BETWEEN_LOOKS == 0 && interrupted() {
                return Err(Error::Interrupted);
            }
            found = cursor.fetch(&mut txn, cursor.len() - 1, true)?;
        }
        drop(cursor);
        txn.rollback()?;
        let correction = before.distance(RowCount { rows: rows as i64, uncounted: 0 });
        if correction != RowCount::ZERO {
            family.check_live()?;
            store.install(Edit { row_counts: vec![(family.id(), correction)], ..Edit::default() })?;
        }
        Ok(rows)
    }
}
