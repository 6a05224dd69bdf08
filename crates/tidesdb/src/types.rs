//! Vocabulary of every module: sequence numbers, family numbers, entries and their kinds.

use std::borrow::Cow;
use std::fmt;

/// Sequence number of a commit. Dense, one for each committed transaction, from 1 on. 0 means "before
/// everything". In a bottom-level block it means "older than every snapshot" (a merge dropped the number).
pub type Seq = u64;

/// Largest sequence number; as a snapshot it means "the newest version" (a current read).
pub const MAX_SEQ: Seq = (1 << 56) - 1;

/// Number of a column family; never reused in the life of a store.
pub type FamilyId = u32;

/// The system family of the dictionary.
pub const DICTIONARY: FamilyId = 0;

/// Number of a file of a store; never reused in the life of a store.
pub type FileNo = u64;

/// Number of a memtable, and generation of a run of level 0 made from it. It grows with every rotation. A
/// merge orders its inputs by it.
pub type MemtableId = u64;

/// Longest user key in bytes.
pub const MAX_KEY_LEN: usize = 64 * 1024;

/// Longest value in bytes.
pub const MAX_VALUE_LEN: usize = u32::MAX as usize;

/// A file of the write-ahead log with its segment. The file and its directory entry are durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogSegment {
    /// Id of the segment.
    pub id: u32,
    /// The epoch of the segment's writer.
    pub epoch: u64,
    /// Number of the file.
    pub file: FileNo,
}

/// A position in the write-ahead log: segment id in the upper 32 bits, byte offset in the lower.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Lsn(pub u64);

impl Lsn {
    /// The position before every record.
    pub const ZERO: Lsn = Lsn(0);

    /// The position `offset` bytes into the segment with id `segment`.
    pub const fn new(segment: u32, offset: u32) -> Lsn {
        Lsn(((segment as u64) << 32) | offset as u64)
    }

    /// Id of the segment.
    pub const fn segment(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Byte offset inside the segment.
    pub const fn offset(self) -> u32 {
        self.0 as u32
    }
}

impl fmt::Debug for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.segment(), self.offset())
    }
}

/// An entry's operation on its key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Op {
    /// The key has the entry's value from this sequence number on.
    Put = 1,
    /// The key does not exist from this sequence number on.
    Delete = 2,
    /// A `Delete` of a key with exactly one put since its last absence. A merge of both drops both. After
    /// RocksDB's `SingleDelete`.
    SingleDelete = 3,
}

/// The kind byte of an entry in logs, memtables and blocks. The low three bits are the operation; one bit
/// each follows for "may overwrite", "has an expiry" and "has its value in a value file", on puts only. The two
/// highest bits are zero; in the log they are a `CountEffect`. Reading refuses every byte that no build writes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Kind(u8);

impl Kind {
    /// A plain put.
    pub const PUT: Kind = Kind(Op::Put as u8);
    /// A plain tombstone.
    pub const DELETE: Kind = Kind(Op::Delete as u8);
    /// A single delete.
    pub const SINGLE_DELETE: Kind = Kind(Op::SingleDelete as u8);

    const OP: u8 = 0b0000_0111;
    const MAY_OVERWRITE: u8 = 0b0000_1000;
    const EXPIRY: u8 = 0b0001_0000;
    const POINTER: u8 = 0b0010_0000;

    /// The bytes of all kinds without a pointer: bit `n` stands for byte `n`.
    const INLINE: u64 = 1 << Self::PUT.0
        | 1 << Self::PUT.marked_may_overwrite().0
        | 1 << Self::PUT.with_expiry().0
        | 1 << Self::PUT.marked_may_overwrite().with_expiry().0
        | 1 << Self::DELETE.0
        | 1 << Self::SINGLE_DELETE.0;

    /// The bytes of all kinds. Every put may have a pointer.
    const WRITTEN: u64 =
        Self::INLINE | (Self::INLINE & !(1 << Self::DELETE.0 | 1 << Self::SINGLE_DELETE.0)) << Self::POINTER;

    /// Decodes a stored byte; `None` for a byte that no build writes.
    pub const fn from_byte(byte: u8) -> Option<Kind> {
        if (byte as u32) < u64::BITS && Self::WRITTEN >> byte & 1 != 0 {
            Some(Kind(byte))
        } else {
            None
        }
    }

    /// The byte to store.
    pub const fn byte(self) -> u8 {
        self.0
    }

    /// The operation.
    pub const fn op(self) -> Op {
        match self.0 & Self::OP {
            1 => Op::Put,
            2 => Op::Delete,
            _ => Op::SingleDelete,
        }
    }

    /// True if the key does not exist under this entry.
    pub const fn is_tombstone(self) -> bool {
        self.0 & Self::OP != Op::Put as u8
    }

    /// True if an older put of the key may lie below this put. Without the mark, the next older entry of the
    /// key in any source is a tombstone, or there is none (`docs/protocols.md` 3.5).
    pub const fn may_overwrite(self) -> bool {
        self.0 & Self::MAY_OVERWRITE != 0
    }

    /// True for a put with nothing but a tombstone below it.
    pub const fn is_proven_insert(self) -> bool {
        self.0 & Self::OP == Op::Put as u8 && !self.may_overwrite()
    }

    /// True if an entry of this kind cancels a put of kind `older` next below it, once every snapshot is
    /// above both. The key does not exist below the pair either.
    pub const fn cancels(self, older: Kind) -> bool {
        self.0 & Self::OP == Op::SingleDelete as u8 && older.is_proven_insert()
    }

    /// This kind, marked "may overwrite" if it is a put. A tombstone has no marks.
    #[must_use]
    pub const fn marked_may_overwrite(self) -> Kind {
        self.marked(Self::MAY_OVERWRITE)
    }

    /// This kind, for an entry with an expiry if it is a put. A tombstone never expires.
    #[must_use]
    pub const fn with_expiry(self) -> Kind {
        self.marked(Self::EXPIRY)
    }

    /// This kind, for an entry with its value in a value file if it is a put.
    #[must_use]
    pub const fn with_pointer(self) -> Kind {
        self.marked(Self::POINTER)
    }

    /// No reader takes the byte of a marked tombstone: an entry with it would be lost.
    const fn marked(self, mark: u8) -> Kind {
        if self.is_tombstone() {
            self
        } else {
            Kind(self.0 | mark)
        }
    }

    /// True if an expiry time is stored with the entry.
    pub const fn has_expiry(self) -> bool {
        self.0 & Self::EXPIRY != 0
    }

    /// True if the value is in a value file, and the entry has a pointer to it.
    pub const fn has_pointer(self) -> bool {
        self.0 & Self::POINTER != 0
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.op())?;
        for (bit, name) in
            [(self.may_overwrite(), "+over"), (self.has_expiry(), "+ttl"), (self.has_pointer(), "+pointer")]
        {
            if bit {
                f.write_str(name)?;
            }
        }
        Ok(())
    }
}

/// A change's effect on its family's row count. Stored only in batches of the log, in bits 6 and 7 of an
/// entry's kind byte. Memtables count entries on insertion, and files do not need it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum CountEffect {
    /// Unknown: the writer, a build without counting, recorded none. The change is then uncounted.
    Unknown = 0,
    /// The count stays: a put over a live entry, a deletion of a missing one.
    Unchanged = 1,
    /// A put adds a row, a deletion removes one.
    Counts = 2,
}

impl CountEffect {
    const SHIFT: u32 = 6;

    /// The effect of a change on a key; `was_live` is true if the key existed before.
    pub const fn of(kind: Kind, was_live: bool) -> CountEffect {
        if kind.is_tombstone() != was_live {
            CountEffect::Unchanged
        } else {
            CountEffect::Counts
        }
    }

    /// The kind byte of an entry in the log.
    pub const fn log_byte(self, kind: Kind) -> u8 {
        kind.0 | (self as u8) << Self::SHIFT
    }

    /// Decodes an entry's kind byte in the log; `None` for a byte unknown to every version of the format.
    pub const fn from_log_byte(byte: u8) -> Option<(Kind, CountEffect)> {
        let effect = match byte >> Self::SHIFT {
            0 => CountEffect::Unknown,
            1 => CountEffect::Unchanged,
            2 => CountEffect::Counts,
            _ => return None,
        };
        match Kind::from_byte(byte & ((1 << Self::SHIFT) - 1)) {
            Some(kind) => Some((kind, effect)),
            None => None,
        }
    }

    /// The amount to add to the row count.
    pub const fn row_count(self, kind: Kind) -> RowCount {
        match self {
            CountEffect::Unknown => RowCount { rows: 0, uncounted: 1 },
            CountEffect::Unchanged => RowCount::ZERO,
            CountEffect::Counts if kind.is_tombstone() => RowCount { rows: -1, uncounted: 0 },
            CountEffect::Counts => RowCount { rows: 1, uncounted: 0 },
        }
    }
}

/// A part of a family's row count: of a memtable, of a commit's runs, or of files. The count is the sum of
/// the parts, added in any order. It is known if no change is uncounted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RowCount {
    /// Added rows, less removed ones.
    pub rows: i64,
    /// Changes without a known effect on the count, less those corrected by a scan.
    pub uncounted: i64,
}

impl RowCount {
    /// No rows, no uncounted changes.
    pub const ZERO: RowCount = RowCount { rows: 0, uncounted: 0 };

    /// The difference `to` minus `self`.
    #[must_use]
    pub const fn distance(self, to: RowCount) -> RowCount {
        RowCount {
            rows: to.rows.wrapping_sub(self.rows),
            uncounted: to.uncounted.wrapping_sub(self.uncounted),
        }
    }

    /// The number of rows, if known.
    pub const fn known(self) -> Option<u64> {
        match (self.uncounted, self.rows) {
            (0, rows) if rows >= 0 => Some(rows as u64),
            _ => None,
        }
    }
}

impl std::ops::AddAssign for RowCount {
    fn add_assign(&mut self, other: RowCount) {
        self.rows = self.rows.wrapping_add(other.rows);
        self.uncounted = self.uncounted.wrapping_add(other.uncounted);
    }
}

/// One version of a key, borrowed from its storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Sequence number of the writing commit.
    pub seq: Seq,
    /// Operation and flags.
    pub kind: Kind,
    /// The value; empty for tombstones.
    value: StoredValue<'a>,
}

/// A handle of a value. The caller's value comes out of it by `value::resolve` alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoredValue<'a> {
    /// The bytes themselves, after the time of expiry if the entry has one.
    Inline(&'a [u8]),
    /// A pointer into a value file, after the time of expiry if the entry has one.
    Pointer(&'a [u8]),
}

impl<'a> Entry<'a> {
    /// The entry of a value in its stored form.
    #[inline]
    pub const fn new(seq: Seq, kind: Kind, stored: &'a [u8]) -> Entry<'a> {
        let value =
            if kind.has_pointer() { StoredValue::Pointer(stored) } else { StoredValue::Inline(stored) };
        Entry { seq, kind, value }
    }

    /// The entry under another sequence number.
    #[inline]
    #[must_use]
    pub const fn with_seq(self, seq: Seq) -> Entry<'a> {
        Entry { seq, ..self }
    }

    /// The handle of the value, for `value::resolve`.
    #[inline]
    pub(crate) const fn handle(&self) -> StoredValue<'a> {
        self.value
    }

    /// The value in its stored form (`docs/format.md`, "Entries"): the bytes by which an entry moves between log, memtables
    /// and tables. They are not the caller's value.
    #[inline]
    pub const fn stored(&self) -> &'a [u8] {
        match self.value {
            StoredValue::Inline(stored) | StoredValue::Pointer(stored) => stored,
        }
    }
}

/// True if an unmarked put of this sequence number proves that its key does not exist right below it. In a
/// store with lost versions, puts up to `unproven_upto` prove nothing. A put with sequence number 0 does: a
/// merge drops the number only if no lower run has the key (`docs/design/0020-single-deletes.md`).
pub const fn proves(put: Seq, unproven_upto: Seq) -> bool {
    put == 0 || put > unproven_upto
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn lsn_orders_by_segment_then_offset() {
        assert!(Lsn::new(1, u32::MAX) < Lsn::new(2, 0));
        assert!(Lsn::new(2, 5) < Lsn::new(2, 6));
        assert_eq!((Lsn::new(7, 9).segment(), Lsn::new(7, 9).offset()), (7, 9));
    }

    /// The bytes of the formats: puts with each mark, tombstones without.
    const KINDS: [(u8, Kind); 10] = [
        (0b0000_0001, Kind::PUT),
        (0b0000_0010, Kind::DELETE),
        (0b0000_0011, Kind::SINGLE_DELETE),
        (0b0000_1001, Kind::PUT.marked_may_overwrite()),
        (0b0001_0001, Kind::PUT.with_expiry()),
        (0b0001_1001, Kind::PUT.marked_may_overwrite().with_expiry()),
        (0b0010_0001, Kind::PUT.with_pointer()),
        (0b0010_1001, Kind::PUT.marked_may_overwrite().with_pointer()),
        (0b0011_0001, Kind::PUT.with_expiry().with_pointer()),
        (0b0011_1001, Kind::PUT.marked_may_overwrite().with_expiry().with_pointer()),
    ];

    #[test]
    fn of_all_bytes_only_the_written_kinds_are_read() {
        for byte in 0..=255u8 {
            let known = KINDS.iter().find(|(written, _)| *written == byte).map(|(_, kind)| *kind);
            assert_eq!(Kind::from_byte(byte), known, "{byte:#010b}");
            assert_eq!(known.map_or(byte, Kind::byte), byte);
        }
    }

    #[test]
    fn a_tombstone_takes_no_marks() {
        for tombstone in [Kind::DELETE, Kind::SINGLE_DELETE] {
            assert_eq!(tombstone.marked_may_overwrite().with_expiry().with_pointer(), tombstone);
        }
    }

    #[test]
    fn in_the_log_every_kind_has_each_effect_and_the_rest_is_refused() {
        const EFFECTS: [CountEffect; 3] = [CountEffect::Unknown, CountEffect::Unchanged, CountEffect::Counts];
        for byte in 0..=255u8 {
            let kind = Kind::from_byte(byte & 0b0011_1111);
            let effect = EFFECTS.get(usize::from(byte >> 6)).copied();
            let read = CountEffect::from_log_byte(byte);
            assert_eq!(read, kind.zip(effect), "{byte:#010b}");
            assert_eq!(read.map_or(byte, |(kind, effect)| effect.log_byte(kind)), byte);
        }
    }
}

/// A value in consecutive pieces of memory: a row of many megabytes stays in its writer's buffers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pieces<'a> {
    first: &'a [u8],
    rest: &'a [&'a [u8]],
}

impl<'a> Pieces<'a> {
    /// `first`, followed by `rest`.
    pub fn new(first: &'a [u8], rest: &'a [&'a [u8]]) -> Pieces<'a> {
        Pieces { first, rest }
    }

    /// Bytes of all pieces.
    pub fn len(&self) -> usize {
        self.iter().map(<[u8]>::len).sum()
    }

    /// True if all pieces are empty.
    pub fn is_empty(&self) -> bool {
        self.iter().all(<[u8]>::is_empty)
    }

    /// The first `len` bytes, or fewer where the first piece has fewer, and what follows.
    pub fn split_at(&self, len: usize) -> (&'a [u8], Pieces<'a>) {
        let (first, after) = self.first.split_at(len.min(self.first.len()));
        (first, Pieces { first: after, rest: self.rest })
    }

    /// The pieces as one, copied where several have bytes.
    pub fn whole(&self) -> Cow<'a, [u8]> {
        let mut full = self.iter().filter(|piece| !piece.is_empty());
        let only = full.next().unwrap_or_default();
        if full.next().is_none() {
            return Cow::Borrowed(only);
        }
        let mut whole = Vec::with_capacity(self.len());
        self.iter().for_each(|piece| whole.extend_from_slice(piece));
        Cow::Owned(whole)
    }

    /// The pieces in order.
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> {
        std::iter::once(self.first).chain(self.rest.iter().copied())
    }
}
