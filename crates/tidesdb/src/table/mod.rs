//! Tables: sorted, immutable tables of one column family each (`docs/format/table.md`).
//! [`SsTableWriter`] makes one from entries in order; [`SsTable`] answers from one: point reads, scans both
//! ways, prefix questions, range estimates, whole-table checks.
//!
//! Stands between flush and compaction, which write, and the read path. Guarantees: what is read is what
//! was written, or an error that names file and offset; keys and versions in the order of
//! [`crate::iter`]; a table that nobody reads keeps nothing in memory but its [`SsTableMeta`].
//!
//! Who calls does: syncing of files, the choice of filter bits for a level, dropping of versions.

mod block;
mod data_block;
mod dump;
mod estimate;
mod filter;
mod footer;
mod index;
mod iterator;
mod keyed_block;
mod meta;
mod point_read;
mod properties;
mod read_ahead;
mod reader;
mod store;
mod verify;
mod version_iterator;
mod writer;

pub use dump::{BlockFacts, FoundTables, TableFacts};
pub use filter::{bits_per_key, hash_key};
pub use iterator::SsTableIterator;
pub use meta::{Expiries, SsTableMeta};
pub use point_read::Hit;
pub use reader::SsTable;
pub use store::TableStore;
pub use version_iterator::SsTableVersionIterator;
pub use writer::SsTableWriter;

use crate::options::{Compression, FamilyOptions};

/// Tables begin at multiples of this many bytes: a cache line. Thousands of small tables may share a file, and what
/// stands between two of them is nobody's.
pub const TABLE_ALIGN: u64 = 64;

/// Earlier builds began them at pages.
pub const OLD_TABLE_ALIGN: u64 = 4096;

/// The first offset at or after `len` where a table may begin.
pub const fn next_table_offset(len: u64) -> u64 {
    len.next_multiple_of(TABLE_ALIGN)
}

/// What shapes a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SsTableOptions {
    /// Compression of data blocks.
    pub compression: Compression,
    /// Length at which a data block's payload is cut, in bytes.
    pub block_size: u32,
    /// Filter bits for each key; 0: no filter. See `bits_per_key`.
    pub bits_per_key: u32,
    /// Length in bytes of the key prefix that goes into the filter beside whole keys; 0: none.
    pub prefix_len: u32,
    /// The top index is read through the cache instead of staying resident.
    pub use_btree: bool,
}

impl Default for SsTableOptions {
    fn default() -> SsTableOptions {
        SsTableOptions::of_family(&FamilyOptions::default(), false)
    }
}

/// Filter bits a key at the bottom level of a family that filters key prefixes.
const BOTTOM_BITS: u32 = 4;

impl SsTableOptions {
    /// What a family's options ask for, at its last level (`bottom`) or above. The last level holds the
    /// most keys and most reads end there anyway, so that it has few filter bits, and none unless a prefix
    /// is filtered.
    pub fn of_family(family: &FamilyOptions, bottom: bool) -> SsTableOptions {
        let bits_per_key = match (family.bloom_filter, bottom) {
            (false, _) => 0,
            (true, false) => bits_per_key(family.bloom_fpr),
            (true, true) if family.prefix_len > 0 => BOTTOM_BITS.min(bits_per_key(family.bloom_fpr)),
            (true, true) => 0,
        };
        SsTableOptions {
            compression: family.compression,
            block_size: family.block_size,
            bits_per_key,
            prefix_len: family.prefix_len,
            use_btree: family.use_btree,
        }
    }
}

impl SsTableOptions {
    /// Whether a table written under these options is as one that is written now, at some level.
    pub fn are_of(&self, family: &FamilyOptions) -> bool {
        [true, false].into_iter().any(|bottom| SsTableOptions::of_family(family, bottom) == *self)
    }
}

#[cfg(test)]
mod memory_disk;
#[cfg(test)]
mod tests;
