//! What the simulation asks of a transaction beyond its clients.

use super::{ReadMode, Transaction};
use crate::types::Seq;

impl Transaction {
    /// The snapshot that plain reads read at now; none at READ UNCOMMITTED, and before the first.
    pub fn snapshot_seq(&self) -> Option<Seq> {
        self.snapshots.transaction.as_ref().or(self.snapshots.statement.as_ref()).map(|slot| slot.seq())
    }

    /// The place in the order of commits, between `order` and `finish`.
    pub fn ordered_seq(&self) -> Option<Seq> {
        self.decision.ordered_seq()
    }

    /// The second of reads in `mode`, if an entry with an expiry has fixed it.
    pub fn seen_second(&self, mode: ReadMode) -> Option<u64> {
        self.view_of(mode).fixed()
    }

    /// Whether changes have left memory.
    pub fn is_spilled(&self) -> bool {
        self.batch.runs().has_files()
    }

    /// Counts changes of the list of runs.
    pub fn run_changes(&self) -> u64 {
        self.batch.runs().changes()
    }
}
