//! Values of the log's last records. A record may be in the log, and its value, written before it, not: after a power cut
//! without syncs. Such a record and those after it are the torn tail. Values that are whole may be readable only from the page
//! cache, as their records: they are written again in place and synced ([`super::rewrite_tail`], `docs/protocols.md` 1.3).

use crate::error::{Error, Result};
use crate::mutant::{self, Mutant};
use crate::sync::note;
use crate::types::Lsn;
use crate::value::pointer_of;
use crate::values::ValueFiles;
use crate::wal::{BatchReader, RecordRef};

/// The pointers of the log's records, each with the place of its record.
#[derive(Default)]
pub(crate) struct ValueTail {
    pointers: Vec<(Lsn, Vec<u8>)>,
}

/// The batch of a record with one.
fn batch_of<'a>(record: &RecordRef<'a>) -> Option<&'a [u8]> {
    match *record {
        RecordRef::Commit { batch, .. }
        | RecordRef::Ddl { batch, .. }
        | RecordRef::Prepared { batch, .. }
        | RecordRef::RewrittenPrepare { batch, .. }
        | RecordRef::LargeBatch { batch, .. } => Some(batch),
        _ => None,
    }
}

impl ValueTail {
    /// The next record of the log. One that does not decode is the replay's to refuse.
    pub(crate) fn note(&mut self, at: Lsn, record: &RecordRef<'_>) {
        let entries = batch_of(record).and_then(|batch| BatchReader::new(batch).ok());
        for entry in entries.into_iter().flatten().flatten() {
            self.pointers.extend(pointer_of(entry.kind, entry.value).map(|pointer| (at, pointer.to_vec())));
        }
    }

    /// The place of the first record at or after `durable` with a value that is not whole.
    ///
    /// Errors: I/O.
    pub(crate) fn first_torn(&self, values: &ValueFiles, durable: Lsn) -> Result<Option<Lsn>> {
        if mutant::is(Mutant::TornValueTaken) {
            return Ok(None);
        }
        for (at, pointer) in self.pointers.iter().filter(|(at, _)| *at >= durable) {
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
        let tail = self.pointers.iter().filter(|(at, _)| *at >= durable).map(|(_, pointer)| &pointer[..]);
        values.rewrite(tail)
    }
}
