//! What the manifest stores of a segment: where it stands in its file, its fences, its counts.

use crate::types::{FamilyId, Seq};

/// A segment as the manifest knows it. `Segment::open` needs nothing else to answer "certainly not here"
/// from fences and to find the footer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SegmentMeta {
    /// The column family.
    pub family: FamilyId,
    /// Where it begins in its file, in bytes; a multiple of [`super::SEGMENT_ALIGN`].
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
}

impl SegmentMeta {
    /// The same segment, now that its transaction is committed at `seq`.
    #[must_use]
    pub fn committed_at(&self, seq: Seq) -> SegmentMeta {
        SegmentMeta { min_seq: seq, max_seq: seq, commit_seq: seq, ..self.clone() }
    }
}
