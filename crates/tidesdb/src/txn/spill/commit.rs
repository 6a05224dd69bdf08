//! The commit of a spilled transaction, from the log's names of its runs to the manifest's.

use std::sync::Arc;

use crate::db::memtables::Sealed;
use crate::db::view::Flushable;
use crate::db::Store;
use crate::error::Result;
use crate::memtable::Memtable;
use crate::options::LogLevel;
use crate::txn::commit_batch::CommitBatch;
use crate::txn::spill::{CommittedRuns, SealedRuns};
use crate::types::DICTIONARY;
use crate::wal::{LogSpace, Record};

impl Store {
    /// Orders a transaction whose changes are in `runs`, and rotates the memtable in the same step: what was
    /// ordered before lies below the runs, what comes behind above. `marker` is room in the log.
    pub(crate) fn order_runs(&self, id: u64, batch: &Arc<CommitBatch>, runs: &SealedRuns, marker: LogSpace) {
        let mut state = self.memtables.state.lock();
        // Numbers are given out under the lock that every rotation holds: they ascend with the order.
        let first = self.new_memtable_id();
        for _ in 1..runs.generations() {
            self.new_memtable_id();
        }
        let fresh = Arc::new(Memtable::new(self.new_memtable_id(), self.arenas.clone()));
        // Everything that will belong to the fresh one is written behind this.
        let log_from = self.wal.written_lsn().segment();
        self.pipeline.order_and_rotate(batch, fresh.clone(), |seq, sealed| {
            let runs = Arc::new(runs.commit(&self.versions, seq, first));
            let upto = runs.id();
            state.log_from.insert(fresh.id(), log_from);
            let flushables = vec![
                Sealed { flushable: Flushable::Memtable(sealed.clone()), last_seq: seq - 1 },
                Sealed { flushable: Flushable::Runs(runs), last_seq: seq },
            ];
            self.push_sealed(&mut state, &fresh, flushables);
            self.decide_into(id, upto, || self.wal.enqueue(marker, Record::Marker { txn: id, seq }))
        });
        drop(state);
        self.memtables.changed.notify_all();
    }

    /// Makes the runs of a commit part of the version: runs of level 0. Everything older is in it.
    pub(crate) fn install_runs(&self, runs: &CommittedRuns) -> Result<()> {
        let live = |family| family == DICTIONARY || self.catalog.is_live(family);
        self.install_sealed(runs.edit(&live), runs.id(), runs.seq())?;
        self.shape_changed();
        Ok(())
    }

    /// Unlinks what nobody needs any more: the space of a large rollback is back at once.
    pub(crate) fn unlink_unused(&self) {
        if let Err(error) = self.versions.delete_obsolete() {
            self.log(LogLevel::Warn, &format!("an old file stays for now: {error}"));
        }
    }
}
