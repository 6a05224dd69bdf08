//! Records of the log: their kinds, their bytes, both ways (`docs/format/wal.md`). A [`Record`] owns (or
//! shares) the content to serialise; a [`RecordRef`] borrows the content read by recovery.

use std::fmt;
use std::sync::Arc;

use super::batch::{BatchReader, UNKNOWN_ENTRY};
use crate::format::cluster_position::{ClusterPosition, LATER_FORM};
use crate::format::coding::{put_varint, varint_len};
use crate::format::reader::{Malformed, Reader};
use crate::types::{FamilyId, Lsn, Seq, MAX_SEQ};

/// The boundary between an epoch of the log and the next; kept in the manifest (`docs/protocols.md` 1.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EpochBoundary {
    /// The epoch's end: the end of its last valid record.
    pub at: Lsn,
    /// Number of the epoch.
    pub epoch: u64,
    /// First segment of the next epoch.
    pub next_segment: u32,
    /// First sequence number of the next epoch.
    pub next_seq: Seq,
}

/// Immutable bytes, read by the log and others (helpers of a commit) at the same time.
pub trait WalBytes: Send + Sync {
    /// The bytes; the same at every call.
    fn bytes(&self) -> &[u8];

    /// Called by the log writer once, when the record with these bytes has its place, before anybody can
    /// learn of its writing. `start` is its first byte, `end` the byte after its last. Must neither block nor
    /// panic.
    fn placed(&self, start: Lsn, end: Lsn) {
        let _ = (start, end);
    }
}

impl WalBytes for Vec<u8> {
    fn bytes(&self) -> &[u8] {
        self
    }
}

impl WalBytes for Box<[u8]> {
    fn bytes(&self) -> &[u8] {
        self
    }
}

/// The content of a prepared transaction's record besides its batch.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PreparedHead {
    /// The transaction's name outside the store.
    pub xid: Vec<u8>,
    /// Its locks besides those on its written keys, in the encoding of `txn`.
    pub locks: Vec<u8>,
}

/// The operation of a DDL record; the batch in it has one form for all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Ddl {
    /// A family is made.
    Create = 8,
    /// A family is dropped.
    Drop = 9,
    /// A family gets another name.
    Rename = 10,
    /// Families change places (truncate).
    Swap = 11,
    /// A family's options or opaque records change.
    Alter = 12,
    /// Any other change of the dictionary.
    Other = 13,
}

/// A record to append. Cheap to move: bytes are shared.
#[derive(Clone)]
pub enum Record {
    /// A committed transaction: batch with marker.
    Commit {
        /// Its sequence number.
        seq: Seq,
        /// Its position in a cluster's order. Boxed: few have one.
        position: Option<Box<ClusterPosition>>,
        /// Its changes.
        batch: Arc<dyn WalBytes>,
    },
    /// A prepared transaction; a marker or a rollback decides it.
    Prepared {
        /// Its id, never used before in the life of the store.
        txn: u64,
        /// Xid and locks.
        head: Arc<PreparedHead>,
        /// Its changes.
        batch: Arc<dyn WalBytes>,
    },
    /// A large batch, written before its transaction has a sequence number.
    LargeBatch {
        /// The transaction's id.
        txn: u64,
        /// Its changes.
        batch: Arc<dyn WalBytes>,
    },
    /// The commit of a transaction whose batch is in the log already.
    Marker {
        /// The transaction's id.
        txn: u64,
        /// Its sequence number.
        seq: Seq,
        /// Its position in a cluster's order.
        position: Option<Box<ClusterPosition>>,
    },
    /// The end of a transaction whose logged batch is void.
    Rollback {
        /// The transaction's id.
        txn: u64,
    },
    /// Another copy of a prepared transaction; older segments can then be released.
    RewrittenPrepare {
        /// The transaction's id.
        txn: u64,
        /// Xid and locks.
        head: Arc<PreparedHead>,
        /// Its changes.
        batch: Arc<dyn WalBytes>,
    },
    /// Only a `durable_upto`. The log writes these itself.
    DurableMark,
    /// A change of the dictionary.
    Ddl {
        /// Its operation.
        ddl: Ddl,
        /// Its sequence number.
        seq: Seq,
        /// Its position in a cluster's order.
        position: Option<Box<ClusterPosition>>,
        /// Changes of family 0.
        batch: Arc<dyn WalBytes>,
    },
    /// A counter may be used up to a value. Reserved (`docs/format/wal.md`): replay refuses it.
    #[cfg_attr(not(test), expect(dead_code, reason = "only the format's tests write it"))]
    Ceiling {
        /// The family of the counter.
        family: FamilyId,
        /// The counter.
        counter: u32,
        /// Its ceiling.
        value: u64,
    },
    /// Names of a transaction's spilled run files.
    RunNames {
        /// The transaction's id.
        txn: u64,
        /// In the encoding of `store/sealed_runs.rs`.
        names: Arc<dyn WalBytes>,
    },
    /// The boundary between two epochs.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "only the format's tests write it as a record that is owned")
    )]
    EpochBoundary(EpochBoundary),
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.borrow().fmt(f)
    }
}

/// A record read from the log, borrowed. Fields as in `Record`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)] // documented at `Record`
pub enum RecordRef<'a> {
    Commit { seq: Seq, position: Option<ClusterPosition>, batch: &'a [u8] },
    Prepared { txn: u64, xid: &'a [u8], locks: &'a [u8], batch: &'a [u8] },
    LargeBatch { txn: u64, batch: &'a [u8] },
    Marker { txn: u64, seq: Seq, position: Option<ClusterPosition> },
    Rollback { txn: u64 },
    RewrittenPrepare { txn: u64, xid: &'a [u8], locks: &'a [u8], batch: &'a [u8] },
    DurableMark,
    Ddl { ddl: Ddl, seq: Seq, position: Option<ClusterPosition>, batch: &'a [u8] },
    Ceiling { family: FamilyId, counter: u32, value: u64 },
    RunNames { txn: u64, names: &'a [u8] },
    EpochBoundary(EpochBoundary),
}

/// Bytes of a record before its body: kind, flags, `durable_upto`.
pub(super) const HEADER: usize = 10;

/// Most bytes of a record besides its batch, xid, locks and names.
pub(super) const MAX_FIXED: usize = HEADER + 40 + MAX_POSITION;

/// Most bytes of a position in a record, its length among them.
const MAX_POSITION: usize = 1 + ClusterPosition::MAX_LEN;

impl Record {
    /// The record's borrowed form.
    pub fn borrow(&self) -> RecordRef<'_> {
        match self {
            Record::Commit { seq, position, batch } => {
                RecordRef::Commit { seq: *seq, position: position.as_deref().copied(), batch: batch.bytes() }
            }
            Record::Prepared { txn, head, batch } => {
                RecordRef::Prepared { txn: *txn, xid: &head.xid, locks: &head.locks, batch: batch.bytes() }
            }
            Record::LargeBatch { txn, batch } => RecordRef::LargeBatch { txn: *txn, batch: batch.bytes() },
            Record::Marker { txn, seq, position } => {
                RecordRef::Marker { txn: *txn, seq: *seq, position: position.as_deref().copied() }
            }
            Record::Rollback { txn } => RecordRef::Rollback { txn: *txn },
            Record::RewrittenPrepare { txn, head, batch } => RecordRef::RewrittenPrepare {
                txn: *txn,
                xid: &head.xid,
                locks: &head.locks,
                batch: batch.bytes(),
            },
            Record::DurableMark => RecordRef::DurableMark,
            Record::Ddl { ddl, seq, position, batch } => RecordRef::Ddl {
                ddl: *ddl,
                seq: *seq,
                position: position.as_deref().copied(),
                batch: batch.bytes(),
            },
            Record::Ceiling { family, counter, value } => {
                RecordRef::Ceiling { family: *family, counter: *counter, value: *value }
            }
            Record::RunNames { txn, names } => RecordRef::RunNames { txn: *txn, names: names.bytes() },
            Record::EpochBoundary(boundary) => RecordRef::EpochBoundary(*boundary),
        }
    }

    /// Reports the record's place to the owner of its bytes.
    pub(super) fn placed(&self, start: Lsn, end: Lsn) {
        match self {
            Record::Commit { batch, .. }
            | Record::Prepared { batch, .. }
            | Record::LargeBatch { batch, .. }
            | Record::RewrittenPrepare { batch, .. }
            | Record::Ddl { batch, .. } => batch.placed(start, end),
            Record::RunNames { names, .. } => names.placed(start, end),
            _ => {}
        }
    }
}

impl<'a> RecordRef<'a> {
    /// The sequence number, of kinds with one.
    pub fn seq(&self) -> Option<Seq> {
        match self {
            RecordRef::Commit { seq, .. } | RecordRef::Marker { seq, .. } | RecordRef::Ddl { seq, .. } => {
                Some(*seq)
            }
            _ => None,
        }
    }

    /// The position in a cluster's order, of commits with one.
    pub fn position(&self) -> Option<ClusterPosition> {
        match self {
            RecordRef::Commit { position, .. }
            | RecordRef::Marker { position, .. }
            | RecordRef::Ddl { position, .. } => *position,
            _ => None,
        }
    }

    /// The batch, of kinds with one.
    pub fn batch(&self) -> Option<&'a [u8]> {
        match self {
            RecordRef::Commit { batch, .. }
            | RecordRef::Prepared { batch, .. }
            | RecordRef::LargeBatch { batch, .. }
            | RecordRef::RewrittenPrepare { batch, .. }
            | RecordRef::Ddl { batch, .. } => Some(batch),
            _ => None,
        }
    }

    fn kind(&self) -> u8 {
        match self {
            RecordRef::Commit { .. } => 1,
            RecordRef::Prepared { .. } => 2,
            RecordRef::LargeBatch { .. } => 3,
            RecordRef::Marker { .. } => 4,
            RecordRef::Rollback { .. } => 5,
            RecordRef::RewrittenPrepare { .. } => 6,
            RecordRef::DurableMark => 7,
            RecordRef::Ddl { ddl, .. } => *ddl as u8,
            RecordRef::Ceiling { .. } => 14,
            RecordRef::RunNames { .. } => 15,
            RecordRef::EpochBoundary(_) => 16,
        }
    }

    /// Writes the record into `head` (emptied first), except its last, long part, and returns this part (the
    /// batch, or nothing). The record is both, one after the other.
    pub(super) fn encode(&self, durable_upto: Lsn, head: &mut Vec<u8>) -> &'a [u8] {
        head.clear();
        let position = self.position();
        head.push(self.kind());
        head.push(if position.is_some() { POSITION_FLAG } else { 0 });
        head.extend_from_slice(&durable_upto.0.to_le_bytes());
        match *self {
            RecordRef::Commit { seq, batch, .. } | RecordRef::Ddl { seq, batch, .. } => {
                put_varint(head, seq);
                put_position(head, position.as_ref());
                batch
            }
            RecordRef::Prepared { txn, xid, locks, batch }
            | RecordRef::RewrittenPrepare { txn, xid, locks, batch } => {
                head.extend_from_slice(&txn.to_le_bytes());
                for part in [xid, locks] {
                    put_varint(head, part.len() as u64);
                    head.extend_from_slice(part);
                }
                batch
            }
            RecordRef::LargeBatch { txn, batch } => {
                head.extend_from_slice(&txn.to_le_bytes());
                batch
            }
            RecordRef::Marker { txn, seq, .. } => {
                put_varint(head, seq);
                put_position(head, position.as_ref());
                head.extend_from_slice(&txn.to_le_bytes());
                &[]
            }
            RecordRef::Rollback { txn } => {
                head.extend_from_slice(&txn.to_le_bytes());
                &[]
            }
            RecordRef::DurableMark => &[],
            RecordRef::Ceiling { family, counter, value } => {
                head.extend_from_slice(&family.to_le_bytes());
                head.extend_from_slice(&counter.to_le_bytes());
                head.extend_from_slice(&value.to_le_bytes());
                &[]
            }
            RecordRef::RunNames { txn, names } => {
                head.extend_from_slice(&txn.to_le_bytes());
                put_varint(head, names.len() as u64);
                names
            }
            RecordRef::EpochBoundary(boundary) => {
                head.extend_from_slice(&boundary.at.segment().to_le_bytes());
                head.extend_from_slice(&boundary.at.offset().to_le_bytes());
                head.extend_from_slice(&boundary.epoch.to_le_bytes());
                head.extend_from_slice(&boundary.next_segment.to_le_bytes());
                put_varint(head, boundary.next_seq);
                &[]
            }
        }
    }

    /// Bytes of the record in the log, without fragment headers.
    pub(super) fn encoded_len(&self) -> usize {
        let position = self.position();
        HEADER
            + position.map_or(0, |position| 1 + position.encoded_len())
            + match *self {
                RecordRef::Commit { seq, batch, .. } | RecordRef::Ddl { seq, batch, .. } => {
                    varint_len(seq) + batch.len()
                }
                RecordRef::Prepared { xid, locks, batch, .. }
                | RecordRef::RewrittenPrepare { xid, locks, batch, .. } => {
                    let part = |bytes: &[u8]| varint_len(bytes.len() as u64) + bytes.len();
                    8 + part(xid) + part(locks) + batch.len()
                }
                RecordRef::LargeBatch { batch, .. } => 8 + batch.len(),
                RecordRef::Marker { seq, .. } => varint_len(seq) + 8,
                RecordRef::Rollback { .. } => 8,
                RecordRef::DurableMark => 0,
                RecordRef::Ceiling { .. } => 16,
                RecordRef::RunNames { names, .. } => 8 + varint_len(names.len() as u64) + names.len(),
                RecordRef::EpochBoundary(boundary) => 20 + varint_len(boundary.next_seq),
            }
    }

    /// Reads a whole record and its `durable_upto`. Batches are walked to their end, so a returned record can
    /// be applied.
    pub fn decode(bytes: &'a [u8]) -> Result<(Lsn, RecordRef<'a>), Malformed> {
        let (kind, flags, durable_upto, mut cursor) = open(bytes)?;
        let has_position = match (flags, kind) {
            (0, _) => false,
            (POSITION_FLAG, 1 | 4 | 8..=13) => true,
            _ => return Err(LATER_FLAGS),
        };
        let record = match kind {
            1 | 8..=13 => {
                let seq = seq(&mut cursor)?;
                let position = position(&mut cursor, has_position)?;
                let batch = std::mem::take(&mut cursor.rest);
                match kind {
                    8 => RecordRef::Ddl { ddl: Ddl::Create, seq, position, batch },
                    9 => RecordRef::Ddl { ddl: Ddl::Drop, seq, position, batch },
                    10 => RecordRef::Ddl { ddl: Ddl::Rename, seq, position, batch },
                    11 => RecordRef::Ddl { ddl: Ddl::Swap, seq, position, batch },
                    12 => RecordRef::Ddl { ddl: Ddl::Alter, seq, position, batch },
                    13 => RecordRef::Ddl { ddl: Ddl::Other, seq, position, batch },
                    _ => RecordRef::Commit { seq, position, batch },
                }
            }
            2 | 6 => {
                let (txn, xid, locks) = (cursor.u64()?, cursor.bytes()?, cursor.bytes()?);
                let batch = std::mem::take(&mut cursor.rest);
                match kind {
                    2 => RecordRef::Prepared { txn, xid, locks, batch },
                    _ => RecordRef::RewrittenPrepare { txn, xid, locks, batch },
                }
            }
            3 => RecordRef::LargeBatch { txn: cursor.u64()?, batch: std::mem::take(&mut cursor.rest) },
            4 => {
                let seq = seq(&mut cursor)?;
                let position = position(&mut cursor, has_position)?;
                RecordRef::Marker { txn: cursor.u64()?, seq, position }
            }
            5 => RecordRef::Rollback { txn: cursor.u64()? },
            7 => RecordRef::DurableMark,
            14 => RecordRef::Ceiling { family: cursor.u32()?, counter: cursor.u32()?, value: cursor.u64()? },
            15 => RecordRef::RunNames { txn: cursor.u64()?, names: cursor.bytes()? },
            16 => RecordRef::EpochBoundary(EpochBoundary {
                at: Lsn::new(cursor.u32()?, cursor.u32()?),
                epoch: cursor.u64()?,
                next_segment: cursor.u32()?,
                next_seq: seq(&mut cursor)?,
            }),
            17 => return Err(COMMIT_TIME),
            _ => return Err(UNKNOWN_KIND),
        };
        cursor.end()?;
        if let Some(batch) = record.batch() {
            for entry in BatchReader::new(batch)? {
                entry?;
            }
        }
        Ok((durable_upto, record))
    }
}

/// The error for a kind of a later version.
const UNKNOWN_KIND: Malformed = "an unknown kind of record";
/// The error for the kind of a record with the time of a commit.
const COMMIT_TIME: Malformed = "the time of a commit (record kind 17)";
/// The flag of a commit with a position in a cluster's order.
const POSITION_FLAG: u8 = 1;
/// The error for flags of a later version.
const LATER_FLAGS: Malformed = "record flags of a later version";

/// True if whole, undecodable bytes are of a later version, by the reason given.
pub(super) fn is_later(why: Malformed) -> bool {
    [UNKNOWN_KIND, COMMIT_TIME, LATER_FORM, LATER_FLAGS, UNKNOWN_ENTRY].contains(&why)
}

/// Reads what every record begins with: kind, flags, `durable_upto`.
fn open(bytes: &[u8]) -> Result<(u8, u8, Lsn, Reader<'_>), Malformed> {
    let mut cursor = Reader { rest: bytes };
    let (kind, flags) = (cursor.u8()?, cursor.u8()?);
    Ok((kind, flags, Lsn(cursor.u64()?), cursor))
}

fn seq(cursor: &mut Reader<'_>) -> Result<Seq, Malformed> {
    match cursor.varint()? {
        seq if seq <= MAX_SEQ => Ok(seq),
        _ => Err("a sequence number is too big"),
    }
}

/// Reads the position in a cluster's order, if the record has one.
fn position(cursor: &mut Reader<'_>, is_there: bool) -> Result<Option<ClusterPosition>, Malformed> {
    match is_there {
        true => ClusterPosition::decode(cursor.bytes()?).map(Some),
        false => Ok(None),
    }
}

fn put_position(head: &mut Vec<u8>, position: Option<&ClusterPosition>) {
    if let Some(position) = position {
        put_varint(head, position.encoded_len() as u64);
        position.encode(head);
    }
}

/// Reads the start of a record (all of it is in its first fragment): `durable_upto`, and the sequence number
/// of kinds with one. `None` if it is not the start of a record. Knows the reserved kind too: what it proves about the
/// log before it counts.
pub(super) fn peek(start: &[u8]) -> Option<(Lsn, Option<Seq>)> {
    let (kind, flags, durable_upto, mut cursor) = open(start).ok()?;
    if flags & !POSITION_FLAG != 0 {
        return None;
    }
    match kind {
        1 | 4 | 8..=13 => Some((durable_upto, Some(seq(&mut cursor).ok()?))),
        2..=17 => Some((durable_upto, None)),
        _ => None,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::super::batch::BatchBuilder;
    use super::*;
    use crate::format::cluster_position::tests::any_position;
    use crate::format::cluster_position::Gtid;
    use crate::types::{CountEffect, Kind};

    /// A batch of one put with a value of `len` bytes.
    pub(in super::super) fn put(key: &[u8], len: usize) -> Arc<dyn WalBytes> {
        let mut builder = BatchBuilder::new(Vec::new(), 1);
        builder.group(3, 1);
        builder.entry(Kind::PUT, CountEffect::Counts, key, &vec![key.first().copied().unwrap_or(0); len]);
        Arc::new(builder.finish())
    }

    pub(in super::super) fn one_of_each() -> Vec<Record> {
        let head = Arc::new(PreparedHead { xid: b"xid".to_vec(), locks: vec![1; 200] });
        let batch = put(b"key", 100);
        let mut all = vec![
            Record::Commit { seq: 7, position: None, batch: batch.clone() },
            Record::Prepared { txn: 1 << 40, head: head.clone(), batch: batch.clone() },
            Record::LargeBatch { txn: 2, batch: batch.clone() },
            Record::Marker { txn: 1 << 40, seq: MAX_SEQ, position: None },
            Record::Rollback { txn: 9 },
            Record::RewrittenPrepare { txn: 3, head, batch: batch.clone() },
            Record::DurableMark,
            Record::Ceiling { family: 4, counter: 5, value: u64::MAX },
            Record::RunNames { txn: 8, names: Arc::new(b"names".to_vec()) },
            Record::EpochBoundary(EpochBoundary {
                at: Lsn::new(1, 64),
                epoch: 2,
                next_segment: 3,
                next_seq: 4,
            }),
        ];
        for ddl in [Ddl::Create, Ddl::Drop, Ddl::Rename, Ddl::Swap, Ddl::Alter, Ddl::Other] {
            all.push(Record::Ddl { ddl, seq: 300, position: None, batch: batch.clone() });
        }
        let with_position: Vec<Record> = all.iter().filter_map(|record| at(record, long())).collect();
        all.extend(with_position);
        all.push(Record::Commit { seq: 8, position: Some(Box::new(short())), batch: put(b"", 0) });
        all
    }

    fn long() -> ClusterPosition {
        ClusterPosition { gtid: Some(Gtid { domain: 1, server: u32::MAX, number: 3 }), ..short() }
    }

    fn short() -> ClusterPosition {
        ClusterPosition { uuid: *b"0123456789abcdef", number: i64::MIN, gtid: None }
    }

    /// The same record with a position, of kinds that may have one.
    fn at(record: &Record, place: ClusterPosition) -> Option<Record> {
        let mut record = record.clone();
        match &mut record {
            Record::Commit { position, .. }
            | Record::Marker { position, .. }
            | Record::Ddl { position, .. } => *position = Some(Box::new(place)),
            _ => return None,
        }
        Some(record)
    }

    #[test]
    fn every_kind_round_trips_and_neither_prefix_nor_extension_decodes() {
        let (mut head, mut kinds) = (Vec::new(), std::collections::BTreeSet::new());
        for record in one_of_each() {
            let tail = record.borrow().encode(Lsn::new(5, 6), &mut head);
            let bytes = [&head, tail].concat();
            assert_eq!(bytes.len(), record.borrow().encoded_len());
            assert!(bytes.len() - tail.len() <= MAX_FIXED + 3 + 200);
            assert_eq!(RecordRef::decode(&bytes), Ok((Lsn::new(5, 6), record.borrow())));
            assert_eq!(peek(&bytes[..bytes.len().min(18)]), Some((Lsn::new(5, 6), record.borrow().seq())));
            kinds.insert(bytes[0]);
            for end in 0..bytes.len() {
                assert!(RecordRef::decode(&bytes[..end]).is_err(), "{record:?} cut at {end}");
            }
            assert!(RecordRef::decode(&[&bytes[..], &[0]].concat()).is_err());
            let mut flagged = bytes.clone();
            flagged[1] = 2;
            assert_eq!(RecordRef::decode(&flagged), Err(LATER_FLAGS));
            assert!(peek(&flagged).is_none());
            // The flag without a position, or a position without the flag.
            flagged[1] = bytes[1] ^ POSITION_FLAG;
            match record.borrow().seq() {
                None => assert_eq!(RecordRef::decode(&flagged), Err(LATER_FLAGS), "{record:?}"),
                Some(_) => {
                    let why = RecordRef::decode(&flagged).expect_err("it is malformed");
                    assert!(!is_later(why) || why == UNKNOWN_ENTRY || why == LATER_FORM, "{record:?}: {why}");
                }
            }
            assert_eq!(peek(&flagged), Some((Lsn::new(5, 6), record.borrow().seq())));
            flagged[..2].copy_from_slice(&[18, 0]);
            assert!(RecordRef::decode(&flagged).is_err() && peek(&flagged).is_none());
        }
        assert_eq!(kinds, (1..=16).collect());
    }

    proptest! {
        #[test]
        fn a_commit_with_any_position_comes_back_and_a_malformed_one_is_damage(
            place in any_position(),
            seq in 1..=MAX_SEQ,
            len in 0..50u8,
        ) {
            let (mut head, batch) = (Vec::new(), put(b"key", 3));
            let records = [
                Record::Commit { seq, position: None, batch: batch.clone() },
                Record::Marker { txn: 7, seq, position: None },
                Record::Ddl { ddl: Ddl::Swap, seq, position: None, batch },
            ];
            for record in records {
                let record = at(&record, place).expect("it may have one");
                let tail = record.borrow().encode(Lsn::new(5, 6), &mut head);
                prop_assert!(head.len() <= MAX_FIXED);
                let bytes = [&head, tail].concat();
                prop_assert_eq!(bytes.len(), record.borrow().encoded_len());
                prop_assert_eq!(RecordRef::decode(&bytes), Ok((Lsn::new(5, 6), record.borrow())));
                // Another length takes bytes away, or bytes of the next field in.
                let at = HEADER + varint_len(seq);
                let mut wrong = bytes.clone();
                wrong[at] = len;
                let read = RecordRef::decode(&wrong);
                prop_assert!(len == bytes[at] || read.is_err(), "{read:?}");
                wrong[at] = bytes[at];
                wrong[at + 1] = 0;
                let read = RecordRef::decode(&wrong);
                prop_assert!(read.is_err_and(|why| !is_later(why)), "{read:?}");
            }
        }
    }

    #[test]
    fn reserved_kinds_of_records_and_entries_are_refused_by_name() {
        let (mut head, batch) = (Vec::new(), put(b"key", 3));
        let record = Record::Commit { seq: 7, position: None, batch };
        let tail = record.borrow().encode(Lsn::new(5, 6), &mut head);
        let bytes = [&head, tail].concat();
        let mut timed = bytes.clone();
        timed[0] = 17;
        assert_eq!(RecordRef::decode(&timed), Err(COMMIT_TIME));
        assert_eq!(peek(&timed), Some((Lsn::new(5, 6), None)));
        timed[0] = 18;
        assert_eq!((RecordRef::decode(&timed), peek(&timed)), (Err(UNKNOWN_KIND), None));
        // Header, sequence number, one group of family 3 with one entry.
        let entry = HEADER + 1 + 3;
        for kind in 0..=255u8 {
            let mut other = bytes.clone();
            other[entry] = kind;
            if CountEffect::from_log_byte(kind).is_none() {
                assert_eq!(RecordRef::decode(&other), Err(UNKNOWN_ENTRY), "{kind:#010b}");
                assert!(is_later(UNKNOWN_ENTRY));
            }
        }
    }
}
