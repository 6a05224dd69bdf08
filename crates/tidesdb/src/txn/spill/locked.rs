//! The locks of a spilled transaction: the keys in its runs are locked without an entry each in the lock
//! table ([`LockedKeys`]). Keys of undone changes stay locked to the transaction's end, as with savepoints.

use std::sync::Arc;

use crate::error::Result;
use crate::iter::InternalIterator;
use crate::lock::{LockOwner, LockedKeys};
use crate::store::sealed_runs::SealedRuns;
use crate::table::hash_key;
use crate::txn::spill::runs::Runs;
use crate::txn::Transactions;
use crate::types::MAX_SEQ;
use crate::version::TableHandle;

/// The keys of one family in runs.
struct RunKeys(Vec<TableHandle>);

impl LockedKeys for RunKeys {
    fn contains(&self, key: &[u8]) -> Result<bool> {
        let hash = hash_key(key);
        for table in &self.0 {
            if table.get(key, hash, MAX_SEQ)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn first_in(&self, from: &[u8], to: Option<&[u8]>) -> Result<Option<Vec<u8>>> {
        let mut first: Option<Vec<u8>> = None;
        for table in &self.0 {
            let mut iter = table.iter(MAX_SEQ);
            iter.seek(from)?;
            let before = first.as_deref().or(to);
            if iter.valid() && before.is_none_or(|before| iter.key() < before) {
                first = Some(iter.key().to_vec());
            }
        }
        Ok(first)
    }
}

impl Transactions {
    /// From now on the keys in `runs` are locked without entries. `open`: not all are locked yet, and the
    /// implicit locks on keys of families with changes in memory must be confirmed.
    ///
    /// A dropped family has no locks any more: the lock table would keep new ones for ever.
    pub(crate) fn lock_runs(&self, owner: &Arc<LockOwner>, runs: &Runs, open: bool) {
        for (family, tables) in runs.locked().filter(|(family, _)| self.store.catalog.is_live(*family)) {
            let keys = Arc::new(RunKeys(tables));
            match open {
                true => self.locks.announce_implicit(owner, family, keys),
                false => self.locks.lock_implicitly(owner, family, keys),
            }
        }
    }

    /// As [`Transactions::lock_runs`], after `prepare` has made `sealed` of them. The replaced files go, and
    /// undone keys stay locked.
    pub(crate) fn lock_prepared_runs(&self, owner: &Arc<LockOwner>, runs: &Runs, sealed: &SealedRuns) {
        for &family in runs.touched().iter().filter(|family| self.store.catalog.is_live(**family)) {
            let mut tables = sealed.tables_of(&self.store.versions, family);
            tables.extend(runs.cut_tables(family));
            self.locks.lock_implicitly(owner, family, Arc::new(RunKeys(tables)));
        }
    }

    /// The keys of a recovered transaction's runs are locked without entries.
    pub(crate) fn lock_sealed_runs(&self, owner: &Arc<LockOwner>, runs: &SealedRuns) {
        for family in runs.families() {
            let keys = Arc::new(RunKeys(runs.tables_of(&self.store.versions, family)));
            self.locks.lock_implicitly(owner, family, keys);
        }
    }
}
