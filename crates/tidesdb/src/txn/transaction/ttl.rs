//! Entries with an expiry as a transaction sees them: each of its views has one second, fixed by the first such
//! entry that it meets.
//!
//! A snapshot is a view of its own, and where the transaction has one, at REPEATABLE READ and above, it is the view
//! of all that the transaction reads: it could else insert a key over a row that it still sees, and read the row that
//! it wrote through an entry of the old one. Other reads of the newest versions belong to the statement, at
//! SERIALIZABLE to the transaction, whose locks are to keep what was read as it was.

use super::{Isolation, ReadMode, Transaction};
use crate::error::Result;
use crate::store::ttl_clock::ViewSecond;
use crate::ttl::is_live;
use crate::types::{FamilyId, Kind, Seq, MAX_SEQ};

/// The seconds of a transaction's views.
///
/// A second that is set is registered with the store's clock until its view ends: no merge buries what it sees.
#[derive(Debug, Default)]
pub(super) struct ViewSeconds {
    /// Of the transaction's snapshot.
    pub(super) transaction: ViewSecond,
    /// Of the statement's snapshot.
    pub(super) statement: ViewSecond,
    /// Of reads of the newest versions.
    current: ViewSecond,
}

impl Transaction {
    /// A snapshot was taken: its view has the present second, read after it. Whoever put a key in the place of an
    /// expired one, and is in the snapshot, had read the clock before. Stores without such entries have no need of it.
    pub(super) fn note_second(&self, second: &ViewSecond) {
        if self.store.ttl_clock.is_used() {
            second.note(self.store.expiry_second());
        }
    }

    /// The second at which a read in `mode` sees.
    pub(crate) fn read_second(&self, mode: ReadMode) -> u64 {
        let plain = mode == ReadMode::Snapshot;
        let view = match self.options.isolation {
            Isolation::ReadUncommitted => &self.seconds.current,
            Isolation::ReadCommitted if plain => &self.seconds.statement,
            Isolation::ReadCommitted => &self.seconds.current,
            _ if plain || self.snapshots.transaction.is_some() => &self.seconds.transaction,
            _ => &self.seconds.current,
        };
        view.get(&self.store.ttl_clock, || self.store.moment(), self.options.oldest_view)
    }

    /// The views of the statement end.
    pub(super) fn end_statement_seconds(&self) {
        self.seconds.statement.end(&self.store.ttl_clock);
        if self.options.isolation != Isolation::Serializable {
            self.seconds.current.end(&self.store.ttl_clock);
        }
    }

    /// The views of the transaction end.
    pub(super) fn end_seconds(&self) {
        self.seconds.transaction.end(&self.store.ttl_clock);
        self.seconds.current.end(&self.store.ttl_clock);
    }

    /// Whether an entry, read in `mode`, exists.
    pub(crate) fn sees(&self, kind: Kind, stored: &[u8], mode: ReadMode) -> bool {
        is_live(kind, stored, || if self.options.sees_expired { 0 } else { self.read_second(mode) })
    }

    /// Whether the newest committed version of a key, `kind` at `seq`, keeps the key from being inserted.
    pub(super) fn is_taken(&self, family: FamilyId, key: &[u8], kind: Kind) -> Result<bool> {
        if !kind.has_expiry() {
            return Ok(!kind.is_tombstone());
        }
        let mut stored = Vec::new();
        let newest = self.store.newest(family, key, MAX_SEQ, Some(&mut stored))?;
        Ok(newest.is_some_and(|(_, kind): (Seq, Kind)| self.takes_place(kind, &stored)))
    }

    /// Whether an entry keeps its key from being inserted.
    pub(super) fn takes_place(&self, kind: Kind, stored: &[u8]) -> bool {
        is_live(kind, stored, || self.read_second(ReadMode::Latest))
    }
}
