//! Values of the log's last records. A record may be in the log, and its value, written before it, not: after a power cut
//! without syncs, or between the log's sync and that of the value files. Such a record and those after it are the torn tail.
//! Values that are whole may be readable only from the page cache, as their records: they are written again in place and
//! synced ([`super::rewrite_tail`], `docs/protocols.md` 1.3).

use crate::error::{Error, Result};
use crate::format::value_pointer::ValuePointer;
use crate::host::HashMap;
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
    /// Those of transactions without a decision so far.
    undecided: HashMap<u64, Vec<Noted>>,
    /// Decided transactions; true: a replay takes their batches.
    decided: HashMap<u64, bool>,
}

struct Noted {
    at: Lsn,
    pointer: Vec<u8>,
    /// A replay takes it without a decision.
    stands: bool,
}

impl ValueTail {
    /// Those of a log whose commits up to `flushed` are in files.
    pub(crate) fn new(flushed: Seq) -> ValueTail {
        ValueTail {
            flushed,
            pointers: Vec::new(),
            undecided: HashMap::default(),
            decided: HashMap::default(),
        }
    }

    /// The next record of the log. One that does not decode is the replay's to refuse.
    pub(crate) fn note(&mut self, at: Lsn, record: &RecordRef<'_>) {
        match *record {
            RecordRef::Commit { seq, batch, .. } | RecordRef::Ddl { seq, batch, .. }
                if seq > self.flushed =>
            {
                self.add(at, None, batch, true);
            }
            RecordRef::Prepared { txn, batch, .. } | RecordRef::RewrittenPrepare { txn, batch, .. } => {
                self.add(at, Some(txn), batch, true);
            }
            RecordRef::LargeBatch { txn, batch } => self.add(at, Some(txn), batch, false),
            RecordRef::Marker { txn, seq, .. } => self.decide(txn, seq > self.flushed),
            RecordRef::Rollback { txn } => self.decide(txn, false),
            _ => {}
        }
    }

    /// The pointers of a batch; `stands`: a replay takes it without a decision.
    fn add(&mut self, at: Lsn, txn: Option<u64>, batch: &[u8], stands: bool) {
        let to = match txn.map(|txn| (txn, self.decided.get(&txn))) {
            Some((_, Some(false))) => return,
            Some((txn, None)) => self.undecided.entry(txn).or_default(),
            Some((_, Some(true))) | None => &mut self.pointers,
        };
        for entry in BatchReader::new(batch).into_iter().flatten().flatten() {
            let pointer = pointer_of(entry.kind, entry.value).filter(|pointer| !is_kept(pointer));
            to.extend(pointer.map(|pointer| Noted { at, pointer: pointer.to_vec(), stands }));
        }
    }

    /// The transaction is decided; not `taken`: it is flushed or rolled back. A copy of its batch may follow.
    fn decide(&mut self, txn: u64, taken: bool) {
        let of_txn = self.undecided.remove(&txn).unwrap_or_default();
        if taken {
            self.pointers.extend(of_txn);
        }
        self.decided.insert(txn, taken);
    }

    /// What a replay takes of the records at or after `from`, in the log's order.
    fn taken(&self, from: Lsn) -> Vec<&Noted> {
        let standing = self.undecided.values().flatten().filter(|noted| noted.stands);
        let mut taken: Vec<&Noted> =
            self.pointers.iter().chain(standing).filter(|noted| noted.at >= from).collect();
        taken.sort_by_key(|noted| noted.at);
        taken
    }

    /// The place of the first record at or after `durable` with a value that is not whole.
    ///
    /// Errors: I/O.
    pub(crate) fn first_torn(&self, values: &ValueFiles, durable: Lsn) -> Result<Option<Lsn>> {
        if mutant::is(Mutant::TornValueTaken) {
            return Ok(None);
        }
        for Noted { at, pointer, .. } in self.taken(durable) {
            match values.verify_record(pointer) {
                Ok(()) => {}
                // A file that is missing as a whole is damage: who reads its values is told.
                Err(Error::Corruption { .. }) if values.is_missing(pointer)? => {}
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
        values.rewrite(self.taken(durable).iter().map(|noted| &noted.pointer[..]))
    }
}

/// An earlier record of the log brought the value, or it was durable before: the end of the log does not depend on it.
fn is_kept(pointer: &[u8]) -> bool {
    ValuePointer::decode(pointer).is_some_and(|(_, pointer)| pointer.kept)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{CountEffect, Kind};
    use crate::wal::BatchBuilder;

    /// A batch with one value in file `file`.
    fn batch(file: u64) -> Vec<u8> {
        let mut pointer = Vec::new();
        ValuePointer { file, offset: 64, stored_len: 9, raw_len: 9, crc: 1, kept: false }
            .encode(b"", &mut pointer);
        let mut body = BatchBuilder::new(Vec::new(), 1);
        body.group(7, 1);
        body.entry(Kind::PUT.with_pointer(), CountEffect::Counts, b"k", &pointer);
        body.finish()
    }

    /// The files of the pointers that are left after these records, with commits up to 10 in files.
    fn left(records: &[RecordRef<'_>]) -> Vec<u64> {
        let mut tail = ValueTail::new(10);
        for (at, record) in records.iter().enumerate() {
            tail.note(Lsn(at as u64), record);
        }
        let file = |noted: &Noted| ValuePointer::decode(&noted.pointer).expect("a pointer").1.file;
        tail.taken(Lsn(0)).into_iter().map(file).collect()
    }

    #[test]
    fn only_values_of_what_a_replay_takes_are_looked_at() {
        let (one, two) = (&batch(1)[..], &batch(2)[..]);
        let marker = |txn, seq| RecordRef::Marker { txn, seq, position: None };
        let large = RecordRef::LargeBatch { txn: 5, batch: one };
        let prepared = RecordRef::Prepared { txn: 6, xid: b"x", locks: b"", batch: one };
        let commit = RecordRef::Commit { seq: 11, position: None, batch: two };
        let (flushed, taken) = (|txn| marker(txn, 10), |txn| marker(txn, 12));
        assert_eq!(
            left(&[RecordRef::Commit { seq: 10, position: None, batch: one }, commit]),
            [2],
            "flushed"
        );
        assert_eq!(left(&[large, commit]), [2], "a large batch without a decision is dropped");
        assert_eq!(left(&[large, commit, taken(5)]), [1, 2]);
        assert_eq!(left(&[large, commit, flushed(5)]), [2]);
        assert_eq!(left(&[large, RecordRef::Rollback { txn: 5 }]), []);
        assert_eq!(left(&[prepared, commit]), [1, 2], "a prepared transaction may still commit");
        assert_eq!(left(&[prepared, taken(6)]), [1]);
        assert_eq!(left(&[prepared, flushed(6)]), []);
        assert_eq!(left(&[prepared, RecordRef::Rollback { txn: 6 }, prepared]), [], "nor a later copy");
        assert_eq!(left(&[taken(5), large]), [1], "a copy after the decision");
    }
}
