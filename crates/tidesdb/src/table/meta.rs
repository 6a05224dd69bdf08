//! What the manifest stores of a table: where it stands in its file, its fences, its counts.

use super::properties::Properties;
use crate::types::{FamilyId, FileNo, Seq};

/// Entries of a table that have an expiry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Expiries {
    /// The first second at which one expires.
    pub oldest: u64,
    /// The last.
    pub newest: u64,
    /// How many there are.
    pub entries: u64,
}

impl Expiries {
    /// About how many of the entries have expired at `second`, as if they expired evenly over their time.
    pub fn expired_at(&self, second: u64) -> u64 {
        if second >= self.newest {
            return self.entries;
        }
        let (gone, whole) = (second.saturating_sub(self.oldest), self.newest - self.oldest);
        (u128::from(self.entries) * u128::from(gone) / u128::from(whole.max(1))) as u64
    }
}

/// A table as the manifest knows it. `SsTable::open` needs nothing else to answer "certainly not here"
/// from fences and to find the footer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SsTableMeta {
    /// The column family.
    pub family: FamilyId,
    /// Where it begins in its file, in bytes; a multiple of `TABLE_ALIGN`.
    pub offset: u64,
    /// Length in bytes, footer included.
    pub len: u64,
    /// Smallest key.
    pub min_key: Vec<u8>,
    /// Largest key.
    pub max_key: Vec<u8>,
    /// Smallest sequence number (0 if some entry lost its own).
    pub min_seq: Seq,
    /// Largest sequence number.
    pub max_seq: Seq,
    /// Entries, every version counted.
    pub entries: u64,
    /// Tombstones among them.
    pub tombstones: u64,
    /// Distinct keys.
    pub keys: u64,
    /// Bytes of keys and values as they came in.
    pub raw_bytes: u64,
    /// Not 0: every entry has this sequence number, whatever is stored with it (a run of a spilled
    /// transaction, written before its commit; each key once). `min_seq` and `max_seq` are equal to it.
    pub commit_seq: Seq,
    /// Entries with an expiry; `None`: there are none, or it is not known (runs of spilled transactions).
    pub expiry: Option<Expiries>,
    /// The file that holds a second copy, from its first byte on; 0: none does.
    pub twin: FileNo,
}

impl SsTableMeta {
    /// Whether a table that says this of itself is the one that the manifest means. Another table of the family may have
    /// the same length.
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

    /// The same table, now that its transaction is committed at `seq`.
    #[must_use]
    pub fn committed_at(&self, seq: Seq) -> SsTableMeta {
        SsTableMeta { min_seq: seq, max_seq: seq, commit_seq: seq, ..self.clone() }
    }
}
