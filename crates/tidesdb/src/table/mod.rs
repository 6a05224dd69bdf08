//! Tables: sorted, immutable tables of one column family each (`docs/format/table.md`). [`SsTableWriter`]
//! makes one from ordered entries. [`SsTable`] serves point reads, scans in both directions, prefix lookups,
//! range estimates and checks of whole tables. The format is after LevelDB's and RocksDB's.
//!
//! Data flow: flush and compaction write tables, the read path reads them. Guarantees: a read returns the
//! written data, or an error with file and offset. Keys and versions come in the order of [`crate::iter`]. An
//! unread table keeps only its [`SsTableMeta`] in memory.
//!
//! Callers sync files, choose filter bits for a level, and drop versions.

mod block;
mod data_block;
mod dump;
mod estimate;
mod filter;
mod filter_benefit;
mod footer;
mod index;
mod iterator;
mod keyed_block;
mod load;
mod meta;
mod point_read;
mod postings;
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
pub use meta::{Expiries, SsTableMeta, ValueUse};
pub use point_read::Hit;
pub use reader::SsTable;
pub use store::TableStore;
pub use version_iterator::SsTableVersionIterator;
pub use writer::SsTableWriter;

use crate::options::{BlockCodec, Compression, FamilyOptions};

/// Alignment of tables in a file, in bytes: a cache line. Thousands of small tables may share a file. Bytes
/// between two tables belong to neither.
pub const TABLE_ALIGN: u64 = 64;

/// Alignment of tables in files of earlier builds: a page.
pub const OLD_TABLE_ALIGN: u64 = 4096;

/// The first possible offset of a table at or after `len`.
pub const fn next_table_offset(len: u64) -> u64 {
    len.next_multiple_of(TABLE_ALIGN)
}

/// The options of a table's layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SsTableOptions {
    /// Compression of data blocks.
    pub compression: Compression,
    /// Payload length of a full data block, in bytes.
    pub block_size: u32,
    /// Filter bits for each key; 0: no filter. See `bits_per_key`.
    pub bits_per_key: u32,
    /// Length of the key prefix in the filter, in bytes, in addition to whole keys; 0: none.
    pub prefix_len: u32,
    /// True if the top index is read through the cache instead of being resident.
    pub use_btree: bool,
    /// Layout of data blocks, where their entries fit it.
    pub block_codec: BlockCodec,
}

impl Default for SsTableOptions {
    fn default() -> SsTableOptions {
        SsTableOptions::of_family(&FamilyOptions::default(), false)
    }
}

/// Filter bits a key at the bottom level of a family with prefix filters.
const BOTTOM_BITS: u32 = 4;

impl SsTableOptions {
    /// The table options of a family for its last level (`bottom`) or for a level above. The last level has
    /// the most keys, and few bits where prefixes are filtered.
    pub fn of_family(family: &FamilyOptions, bottom: bool) -> SsTableOptions {
        let bits = if family.bloom_filter { bits_per_key(family.bloom_fpr) } else { 0 };
        SsTableOptions {
            compression: family.compression,
            block_size: family.block_size,
            bits_per_key: if bottom && family.prefix_len > 0 { BOTTOM_BITS.min(bits) } else { bits },
            prefix_len: family.prefix_len,
            use_btree: family.use_btree,
            block_codec: family.block_codec,
        }
    }

    /// True if a table with these options equals one written under `family` now, at some level. One without a filter
    /// does: earlier releases gave the last level none.
    pub fn are_of(&self, family: &FamilyOptions) -> bool {
        let now = [true, false].map(|bottom| SsTableOptions::of_family(family, bottom));
        let unfiltered = SsTableOptions { bits_per_key: 0, ..now[0].clone() };
        now.contains(self) || *self == unfiltered
    }
}

#[cfg(test)]
mod memory_disk;
#[cfg(test)]
mod shared_reads_test;
#[cfg(test)]
mod tests;
