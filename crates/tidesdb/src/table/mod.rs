//! Tables: sorted, immutable segments of one column family each (`docs/format/table.md`).
//! [`SegmentWriter`] makes one from entries in order; [`Segment`] answers from one: point reads, scans both
//! ways, prefix questions, range estimates, whole-segment checks.
//!
//! Stands between flush and compaction, which write, and the read path. Guarantees: what is read is what
//! was written, or an error that names file and offset; keys and versions in the order of
//! [`crate::iter`]; a segment that nobody reads keeps nothing in memory but its [`SegmentMeta`].
//!
//! Who calls does: syncing of files, the choice of filter bits for a level, dropping of versions.

mod data;
mod envelope;
mod estimate;
mod filter;
mod footer;
mod index;
mod keyed;
mod meta;
mod properties;
mod raw_source;
mod reader;
mod source;
mod verify;
mod window;
mod writer;

pub use filter::{bits_per_key, hash_key};
pub use meta::{Expiries, SegmentMeta};
pub use properties::Properties;
pub use raw_source::SegmentRawSource;
pub use reader::{Hit, Segment};
pub use source::SegmentSource;
pub use verify::SegmentCheck;
pub use writer::SegmentWriter;

use crate::options::{Compression, FamilyOptions};

/// Segments begin at multiples of this many bytes.
pub const SEGMENT_ALIGN: u64 = 4096;

/// The first offset at or behind `len` where a segment may begin.
pub const fn next_segment_offset(len: u64) -> u64 {
    len.next_multiple_of(SEGMENT_ALIGN)
}

/// What shapes a segment.
#[derive(Clone, Debug, PartialEq)]
pub struct SegmentOptions {
    /// Compression of data blocks.
    pub compression: Compression,
    /// Length at which a data block's payload is cut, in bytes.
    pub block_size: u32,
    /// Filter bits for each key; 0: no filter. See [`bits_per_key`].
    pub bits_per_key: u32,
    /// Length in bytes of the key prefix that goes into the filter beside whole keys; 0: none.
    pub prefix_len: u32,
    /// The top index is read through the cache instead of staying resident.
    pub use_btree: bool,
}

impl Default for SegmentOptions {
    fn default() -> SegmentOptions {
        SegmentOptions::of_family(&FamilyOptions::default(), false)
    }
}

/// Filter bits a key at the bottom level of a family that filters key prefixes.
const BOTTOM_BITS: u32 = 4;

impl SegmentOptions {
    /// What a family's options ask for, at its last level (`bottom`) or above. The last level holds the
    /// most keys and most reads end there anyway, so that it has few filter bits, and none unless a prefix
    /// is filtered.
    pub fn of_family(family: &FamilyOptions, bottom: bool) -> SegmentOptions {
        let bits_per_key = match (family.bloom_filter, bottom) {
            (false, _) => 0,
            (true, false) => bits_per_key(family.bloom_fpr),
            (true, true) if family.prefix_len > 0 => BOTTOM_BITS.min(bits_per_key(family.bloom_fpr)),
            (true, true) => 0,
        };
        SegmentOptions {
            compression: family.compression,
            block_size: family.block_size,
            bits_per_key,
            prefix_len: family.prefix_len,
            use_btree: family.use_btree,
        }
    }
}

#[cfg(test)]
mod memory_disk;
#[cfg(test)]
mod tests;
