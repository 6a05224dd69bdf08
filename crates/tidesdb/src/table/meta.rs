//! The manifest's metadata of a table: its place in its file, its key range, its counts.

use super::properties::Properties;
use crate::format::coding::put_varint;
use crate::types::{FamilyId, FileNo, Seq};

/// The entries of a table with an expiry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Expiries {
    /// The earliest expiry, in seconds since 1970.
    pub oldest: u64,
    /// The latest expiry, in seconds since 1970.
    pub newest: u64,
    /// Number of entries with an expiry.
    pub entries: u64,
}

impl Expiries {
    /// Approximate number of entries expired at `second`, with expiries assumed to be spread evenly.
    pub fn expired_at(&self, second: u64) -> u64 {
        if second >= self.newest {
            return self.entries;
        }
        let (gone, whole) = (second.saturating_sub(self.oldest), self.newest - self.oldest);
        (u128::from(self.entries) * u128::from(gone) / u128::from(whole.max(1))) as u64
    }
}

/// The manifest's description of a table. `SsTable::open` needs no more to rule out keys by its key range
/// and to find the footer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SsTableMeta {
    /// The column family.
    pub family: FamilyId,
    /// Offset in its file, in bytes; a multiple of `TABLE_ALIGN`.
    pub offset: u64,
    /// Length in bytes, footer included.
    pub len: u64,
    /// Smallest key.
    pub min_key: Vec<u8>,
    /// Largest key.
    pub max_key: Vec<u8>,
    /// Smallest sequence number; 0 if a merge dropped one.
    pub min_seq: Seq,
    /// Largest sequence number.
    pub max_seq: Seq,
    /// Entries, every version counted.
    pub entries: u64,
    /// Tombstones among the entries.
    pub tombstones: u64,
    /// Distinct keys.
    pub keys: u64,
    /// Bytes of keys and values before compression.
    pub raw_bytes: u64,
    /// If not 0, the sequence number of every entry, replacing the stored ones. Used for a run of a spilled
    /// transaction, written before its commit, with each key once. `min_seq` and `max_seq` are equal to it.
    pub commit_seq: Seq,
    /// Entries with an expiry. `None`: there are none, or they are unknown (runs of spilled transactions).
    pub expiry: Option<Expiries>,
    /// File with a second copy, from its first byte on; 0 without a copy.
    pub mirror: FileNo,
    /// The values of its entries in value files, by file, ascending.
    pub values: Vec<ValueUse>,
}

/// The values of a table in one value file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueUse {
    /// The value file.
    pub file: FileNo,
    /// Number of values; every version counts.
    pub values: u64,
    /// Their bytes as stored.
    pub bytes: u64,
}

impl ValueUse {
    /// Appends these uses in the form of manifest, properties and run names: three numbers each.
    pub(crate) fn put_all(uses: &[ValueUse], out: &mut Vec<u8>) {
        uses.iter().flat_map(|of| [of.file, of.values, of.bytes]).for_each(|number| put_varint(out, number));
    }

    /// Reads one, number by number.
    pub(crate) fn take<E>(mut number: impl FnMut() -> Result<u64, E>) -> Result<ValueUse, E> {
        Ok(ValueUse { file: number()?, values: number()?, bytes: number()? })
    }
}

impl SsTableMeta {
    /// Bytes of the values in value files, as stored.
    pub fn value_bytes(&self) -> u64 {
        self.values.iter().map(|of| of.bytes).sum()
    }

    /// True if `properties` belong to the table described by the manifest. Another table of the family may
    /// have the same length.
    pub(super) fn describes(&self, properties: &Properties) -> bool {
        (self.entries, self.keys, self.tombstones, self.raw_bytes)
            == (properties.entries, properties.keys, properties.tombstones, properties.raw_bytes)
            && match self.commit_seq {
                0 => (self.min_seq, self.max_seq) == (properties.min_seq, properties.max_seq),
                commit => (self.min_seq, self.max_seq, self.keys) == (commit, commit, self.entries),
            }
            && self.min_key == properties.min_key
            && self.max_key == properties.max_key
    }

    /// The metadata of the same table after its transaction's commit at `seq`.
    #[must_use]
    pub fn committed_at(&self, seq: Seq) -> SsTableMeta {
        SsTableMeta { min_seq: seq, max_seq: seq, commit_seq: seq, ..self.clone() }
    }
}
