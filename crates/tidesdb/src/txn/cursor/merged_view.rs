//! The merge of a cursor's runs.

use std::sync::{Arc, Weak};

use super::bounds::ScanBounds;
use crate::error::Result;
use crate::iter::merge::MergingIterator;
use crate::memtable::Memtable;
use crate::store::family::Family;
use crate::store::super_version::SuperVersion;
use crate::store::Store;
use crate::txn::transaction::{ReadMode, Transaction};
use crate::types::{FamilyId, Seq};

/// The super version and memtables under a merge. The merge's iterators keep the family's files only. A long
/// open scan keeps no dropped or merged file of another family.
struct Basis {
    /// Shows whether it is the present super version. The address is not reused before this is dropped.
    super_version: Weak<SuperVersion>,
    /// Its memtables.
    memtables: Vec<Arc<Memtable>>,
}

impl Basis {
    fn of(super_version: &Arc<SuperVersion>) -> Basis {
        Basis {
            super_version: Arc::downgrade(super_version),
            memtables: super_version.memtables().cloned().collect(),
        }
    }

    /// Number of memtables without entries of the family. Commits ordered before a memtable was sealed may
    /// add the family's first entries to it later.
    fn memtables_without(&self, family: FamilyId) -> usize {
        self.memtables.iter().filter(|memtable| memtable.tree(family).is_none()).count()
    }

    /// True if it keeps a flushed memtable in memory: a snapshot finds the same versions in its file.
    fn keeps_flushed_memtable(&self, store: &Store) -> bool {
        if store.is_current(&self.super_version) {
            return false;
        }
        let current = store.super_version();
        let is_current = |memtable| current.memtables().any(|other| Arc::ptr_eq(memtable, other));
        !self.memtables.iter().all(is_current)
    }
}

/// A merge over the transaction's own runs and those of a super version of the store, with the state of both
/// at its building.
///
/// `merge` and `basis` are both set from the first seek to a reset, except after a row of many megabytes. The
/// merge's first `own_iterators` are the transaction's own runs, and hide committed versions. With
/// `both_versions` there are none, and `own` holds the runs, if any has the family.
pub(super) struct MergedView {
    pub(super) merge: Option<MergingIterator>,
    pub(super) own: Option<MergingIterator>,
    /// See [`super::Scan::both_versions`].
    pub(super) both_versions: bool,
    basis: Option<Basis>,
    /// The sequence number of its reads.
    pub(super) seq: Seq,
    pub(super) own_iterators: usize,
    /// State of the transaction's runs when the merge was built.
    own_runs: u64,
    /// Memtables of `basis` without entries of the family when the merge was built.
    absent_from: usize,
    /// The merge, when last placed, had all commits up to this one; kept in modes for the newest versions. Of
    /// later commits the merge may show a part: their changes reach the memtable one by one.
    pub(super) placed_at: Seq,
    /// The next placing of the merge must include all commits ordered by then.
    pub(super) reach_ordered: bool,
}

impl MergedView {
    /// No merge.
    pub(super) fn new() -> MergedView {
        MergedView {
            merge: None,
            own: None,
            both_versions: false,
            basis: None,
            seq: 0,
            own_iterators: 0,
            own_runs: 0,
            absent_from: 0,
            placed_at: 0,
            reach_ordered: false,
        }
    }

    /// Releases the runs.
    pub(super) fn release(&mut self) {
        self.merge = None;
        self.own = None;
        self.basis = None;
    }

    /// Builds the merge over the present runs. [`Error::NoSuchFamily`](crate::error::Error::NoSuchFamily) if
    /// the family is gone.
    pub(super) fn open(
        &mut self,
        txn: &Transaction,
        family: &Family,
        bounds: &ScanBounds,
        seq: Seq,
    ) -> Result<()> {
        let super_version = txn.store.super_version();
        // Asked after: a drop marks the family before its tables go from the super version.
        family.check_live()?;
        let family = family.id();
        let basis = Basis::of(&super_version);
        self.absent_from = basis.memtables_without(family);
        let prefix = &bounds.prefix;
        let mut iterators = txn.batch.runs().iterators(family, prefix)?;
        self.own = None;
        if self.both_versions && !iterators.is_empty() {
            self.own = Some(MergingIterator::new(std::mem::take(&mut iterators)));
        }
        self.own_iterators = iterators.len();
        self.own_runs = txn.batch.runs().changes();
        iterators.extend(super_version.iterators(family, seq, prefix, &|| bounds.range())?);
        self.merge = Some(MergingIterator::new(iterators));
        self.basis = Some(basis);
        self.seq = seq;
        Ok(())
    }

    /// Rebuilds the merge if a run visible in `mode` is missing from it, or if it keeps flushed memtables of
    /// a snapshot in memory. Returns whether it rebuilt the merge. Without this, the hours-long scan of an
    /// index build kept two write buffers (compare RocksDB's `auto_refresh_iterator_with_snapshot`).
    pub(super) fn refresh(
        &mut self,
        txn: &Transaction,
        family: &Family,
        bounds: &ScanBounds,
        mode: ReadMode,
    ) -> Result<bool> {
        let is_right = |basis: &Basis| {
            if mode == ReadMode::Snapshot {
                return !basis.keeps_flushed_memtable(&txn.store);
            }
            let grown = self.absent_from > 0 && basis.memtables_without(family.id()) < self.absent_from;
            !grown && txn.store.is_current(&basis.super_version)
        };
        let has_committed = self.basis.as_ref().is_some_and(is_right);
        let has_all = self.merge.is_some() && has_committed && self.own_runs == txn.batch.runs().changes();
        if !has_all {
            self.open(txn, family, bounds, self.seq)?;
        }
        Ok(!has_all)
    }
}
