//! Counts the rows of a family by reading them, and corrects its count by the result, alongside writers.
//!
//! The count as it stands and the snapshot that is read are of one moment: between two commits, with all before it
//! in memtables. What the scan finds more or less than the count had at that moment is the correction, and as counts
//! are sums it is right whatever was committed, flushed or merged meanwhile.

use std::sync::Arc;

use crate::db::Db;
use crate::error::{Error, Result};
use crate::store::family::Family;
use crate::txn::cursor::Scan;
use crate::txn::transaction::TransactionOptions;
use crate::types::RowCount;
use crate::version::Edit;
use crate::wal::WaitLimit;

/// Rows that the scan asks for at a time, and after how many batches it looks at an interruption.
const BATCH: u32 = 32;
const BATCHES_BETWEEN_LOOKS: u64 = 8;

impl Db {
    /// Reads all keys of the family at one moment, until `interrupted` answers true: `Error::Interrupted`. The
    /// family's count is right when this returns, and stays so; the number is that of the moment. Nothing is
    /// written when the count was right. For families of an earlier build's store, which are not counted, and
    /// for mistakes in what writers say ([`crate::txn::transaction::Change::count_unchanged`]).
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
