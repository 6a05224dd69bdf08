//! Values of the log's last records. A record may be in the log, and its value, written before it, not: after a power cut
//! without syncs. Such a record and those after it are the torn tail. Values that are whole may be readable only from the page
//! cache, as their records: they are written again in place and synced ([`super::rewrite_tail`], `docs/protocols.md` 1.3).

use crate::error::{Error, Result};
use crate::host::HashSet;
use crate::mutant::{self, Mutant};
use crate::sync::note;
use crate::types::{Lsn, Seq};
use crate::value::pointer_of;
use crate::values::ValueFiles;
use crate::wal::{BatchReader, RecordRef};

/// The pointers of the log's records that a replay takes, each with the place of its record. Not of others: values of flushed
/// commits and of rolled back transactions may be gone (`docs/protocols.md` 9.6).
pub(crate) struct ValueTail {
    /// Commits up to here are in files.
    flushed: Seq,
    pointers: Vec<Noted>,
    /// Transactions whose batches no replay takes.
    over: HashSet<u64>,
}

struct Noted {
    at: Lsn,
    /// The transaction of a batch that another record decides.
    txn: Option<u64>,
    pointer: Vec<u8>,
}

impl ValueTail {
    /// Those of a log whose commits up to `flushed` are in files.
    pub(crate) fn new(flushed: Seq) -> ValueTail {
        ValueTail { flushed, pointers: Vec::new(), over: HashSet::default() }
    }

    /// The next record of the log. One that does not decode is the replay's to refuse.
    pub(crate) fn note(&mut self, at: Lsn, record: &RecordRef<'_>) {
        match *record {
            RecordRef::Commit { seq, batch } | RecordRef::Ddl { seq, batch, .. } if seq > self.flushed => {
                self.add(at, None, batch);
            }
            RecordRef::Prepared { txn, batch, .. }
            | RecordRef::RewrittenPrepare { txn, batch, .. }
            | RecordRef::LargeBatch { txn, batch } => self.add(at, Some(txn), batch),
            RecordRef::Marker { txn, seq } if seq <= self.flushed => self.forget(txn),
            RecordRef::Rollback { txn } => self.forget(txn),
            _ => {}
        }
    }

    fn add(&mut self, at: Lsn, txn: Option<u64>, batch: &[u8]) {
        if txn.is_some_and(|txn| self.over.contains(&txn)) {
            return;
        }
        for entry in BatchReader::new(batch).into_iter().flatten().flatten() {
            let pointer = pointer_of(entry.kind, entry.value).map(<[u8]>::to_vec);
            self.pointers.extend(pointer.map(|pointer| Noted { at, txn, pointer }));
        }
    }

    /// The transaction is flushed or rolled back. A copy of its batch may follow.
    fn forget(&mut self, txn: u64) {
        self.pointers.retain(|noted| noted.txn != Some(txn));
        self.over.insert(txn);
    }

    /// The place of the first record at or after `durable` with a value that is not whole.
    ///
    /// Errors: I/O.
    pub(crate) fn first_torn(&self, values: &ValueFiles, durable: Lsn) -> Result<Option<Lsn>> {
        if mutant::is(Mutant::TornValueTaken) {
            return Ok(None);
        }
        for Noted { at, pointer, .. } in self.pointers.iter().filter(|noted| noted.at >= durable) {
            match values.verify_record(pointer) {
                Ok(()) => {}
                // A file that is missing as a whole is damage: who reads its values is told.
                Err(Error::Corruption { .. }) if values.is_missing(pointer) => {}
                Err(Error::Corruption { .. }) => {
                    note("recovery: torn value");
                    return Ok(Some(*at));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Writes the values of the records at or after `durable` again in place, and syncs them. Takes no new blocks.
    pub(crate) fn rewrite(&self, values: &ValueFiles, durable: Lsn) -> Result<()> {
        if mutant::is(Mutant::ValueNotRewritten) {
            return Ok(());
        }
        let tail = self.pointers.iter().filter(|noted| noted.at >= durable).map(|noted| &noted.pointer[..]);
        values.rewrite(tail)
    }
}
