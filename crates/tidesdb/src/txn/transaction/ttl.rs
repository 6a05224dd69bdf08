//! Entries with an expiry in a transaction's views. Each view has one second, fixed by the first such entry
//! it meets.
//!
//! A snapshot is a view of its own. At REPEATABLE READ and above it is the view of all reads of the
//! transaction. Otherwise the transaction could insert a key over a row it still sees. It could then read its
//! new row through an entry of the old one. Other reads of the newest versions share the statement's view. At
//! SERIALIZABLE they share the transaction's, because its locks must keep the read rows as they were.

use super::{Isolation, ReadMode, Transaction};
use crate::error::Result;
use crate::mutant::{self, Mutant};
use crate::store::ttl_clock::ViewSecond;
use crate::types::Entry;
use crate::value::{look, resolve, ReadParts, Seen, SeparateValues};

/// The seconds of a transaction's views.
///
/// A set second is registered with the store's clock until its view ends: no compaction drops entries visible
/// in the view.
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
    /// A snapshot was taken: its view has the present second, read after it. A writer in the snapshot that
    /// put a key in place of an expired one had read the clock before. Stores without such entries do not
    /// need it.
    pub(super) fn note_second(&self, second: &ViewSecond) {
        if self.store.ttl_clock.is_used() {
            second.note(self.store.expiry_second());
        }
    }

    /// The view of a read in `mode`.
    pub(super) fn view_of(&self, mode: ReadMode) -> &ViewSecond {
        let plain = mode == ReadMode::Snapshot;
        match self.options.isolation {
            Isolation::ReadUncommitted => &self.seconds.current,
            Isolation::ReadCommitted if plain => &self.seconds.statement,
            Isolation::ReadCommitted => &self.seconds.current,
            _ if plain || self.snapshots.transaction.is_some() => &self.seconds.transaction,
            _ => &self.seconds.current,
        }
    }

    /// The second of a read in `mode`.
    pub(crate) fn read_second(&self, mode: ReadMode) -> u64 {
        let view = self.view_of(mode);
        view.get(&self.store.ttl_clock, || self.store.clock_reading(), self.options.oldest_view)
    }

    /// The views of the statement end.
    pub(super) fn end_statement_seconds(&self) {
        self.seconds.statement.end(&self.store.ttl_clock);
        if mutant::is(Mutant::SecondByStatement) {
            self.seconds.transaction.end(&self.store.ttl_clock);
        }
        if self.options.isolation != Isolation::Serializable {
            self.seconds.current.end(&self.store.ttl_clock);
        }
    }

    /// The views of the transaction end.
    pub(super) fn end_seconds(&self) {
        self.seconds.transaction.end(&self.store.ttl_clock);
        self.seconds.current.end(&self.store.ttl_clock);
    }

    /// Looks at an entry, read in `mode`.
    #[inline]
    pub(crate) fn look(&self, entry: &Entry<'_>, mode: ReadMode) -> Seen {
        look(entry, || self.shown_second(mode))
    }

    /// The same, and appends these parts of the value to `out` if there is one.
    #[inline]
    pub(crate) fn resolve(
        &self,
        entry: &Entry<'_>,
        mode: ReadMode,
        parts: ReadParts,
        out: &mut Vec<u8>,
    ) -> Result<Seen> {
        self.resolve_from(&**self.store.versions.values(), entry, mode, parts, out)
    }

    /// The same, where `values` has those that are outside of their entries.
    #[inline]
    pub(crate) fn resolve_from(
        &self,
        values: &impl SeparateValues,
        entry: &Entry<'_>,
        mode: ReadMode,
        parts: ReadParts,
        out: &mut Vec<u8>,
    ) -> Result<Seen> {
        resolve(entry, || self.shown_second(mode), values, parts, out)
    }

    fn shown_second(&self, mode: ReadMode) -> u64 {
        if self.options.sees_expired {
            0
        } else {
            self.read_second(mode)
        }
    }

    /// True if an entry, the newest version of its key, keeps the key from being inserted.
    pub(super) fn takes_place(&self, entry: &Entry<'_>) -> bool {
        if entry.kind.has_expiry() && mutant::is(Mutant::ExpiredRowTakesPlace) {
            return true;
        }
        let expires = entry.kind.has_expiry() && mutant::is(Mutant::ExpiringRowTakesNone);
        look(entry, || self.read_second(ReadMode::Latest)).live && !expires
    }
}
