//! Options of a store and of a column family, with their defaults and bounds.

pub mod budget;
pub mod live;
pub mod machine;

use std::fmt;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::options::machine::ProcessMemory;

/// The severity of a log line.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum LogLevel {
    /// For developers of the engine.
    Debug = 0,
    /// Useful to an operator.
    Info = 1,
    /// An irregularity; the operation goes on.
    Warn = 2,
    /// A failure.
    Error = 3,
}

type WriteLine = dyn Fn(LogLevel, &str) + Send + Sync;

/// Receives lines of the engine's log. Called from any thread; must not call back into the store.
#[derive(Clone)]
pub struct LogSink(Arc<WriteLine>);

impl LogSink {
    /// A sink around `write`, called for each line.
    pub fn new(write: impl Fn(LogLevel, &str) + Send + Sync + 'static) -> LogSink {
        LogSink(Arc::new(write))
    }

    /// Writes a line.
    pub fn write(&self, level: LogLevel, message: &str) {
        (self.0)(level, message);
    }
}

impl fmt::Debug for LogSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LogSink")
    }
}

type LabelFamily = dyn Fn(u32, &[u8]) -> String + Send + Sync;

/// Formats a family, by its number and name, for lines of the log. Called from any thread; must not call back
/// into the store.
#[derive(Clone)]
pub struct FamilyLabel(Arc<LabelFamily>);

impl FamilyLabel {
    /// Names them with `label`.
    pub fn new(label: impl Fn(u32, &[u8]) -> String + Send + Sync + 'static) -> FamilyLabel {
        FamilyLabel(Arc::new(label))
    }
}

impl fmt::Debug for FamilyLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FamilyLabel")
    }
}

/// Whether tables are read past the page cache (RocksDB's `use_direct_reads`). The block cache is then the only memory of
/// blocks, and a block costs one request of the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DirectReads {
    /// If the block cache has three eighths of the machine's or container's memory or more when the store is opened. A
    /// smaller one leaves memory to the page cache, and gains by it.
    #[default]
    Auto,
    /// Where the file system and the device can do it; elsewhere a line of the log tells of it.
    On,
    /// Never.
    Off,
}

/// The durability of a commit at its answer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
#[repr(u8)]
pub enum SyncMode {
    /// Written, not synced: survives a killed process, not a power cut.
    None = 0,
    /// Synced in the background: a power cut loses at most the interval.
    Interval = 1,
    /// Synced before the answer.
    #[default]
    Full = 2,
}

/// Compression of data blocks. The numbers are stored in files.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Compression {
    /// Uncompressed blocks.
    None = 0,
    /// Snappy: about LZ4's speed and size.
    Snappy = 1,
    /// LZ4, default acceleration.
    #[default]
    Lz4 = 2,
    /// Zstandard, level 3: the smallest files, at more time for flushes, compactions and reads past the
    /// cache.
    Zstd = 3,
    /// LZ4 with a less thorough search: larger files than [`Compression::Lz4`]'s, less time to write them.
    /// Its blocks are LZ4 blocks, and are marked as such.
    Lz4Fast = 4,
}

impl Compression {
    /// The compression with the stored number `byte`, if this build has it.
    pub const fn from_byte(byte: u8) -> Option<Compression> {
        match byte {
            0 => Some(Compression::None),
            1 => Some(Compression::Snappy),
            2 => Some(Compression::Lz4),
            3 => Some(Compression::Zstd),
            4 => Some(Compression::Lz4Fast),
            _ => None,
        }
    }
}

/// Layout of data blocks. The numbers are stored in files.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum BlockCodec {
    /// Keys and versions as they are, compressed.
    #[default]
    Plain = 0,
    /// Lists of postings, for keys that end in ascending numbers, with values of a byte and varints (LEB128): words and rows
    /// of a full text index. Blocks with other entries stay plain, and so do those that compression makes smaller. Blocks are
    /// a fifth as long, on disk and in the cache, where the numbers lie close together; a point read passes the entries before its key.
    Postings = 1,
}

impl BlockCodec {
    /// The codec with the stored number `byte`, if this build has it.
    pub const fn from_byte(byte: u8) -> Option<BlockCodec> {
        match byte {
            0 => Some(BlockCodec::Plain),
            1 => Some(BlockCodec::Postings),
            _ => None,
        }
    }

    /// Its name in views and listings: `plain` or `postings`.
    pub const fn name(self) -> &'static str {
        match self {
            BlockCodec::Plain => "plain",
            BlockCodec::Postings => "postings",
        }
    }
}

/// The version of the formats of a store's files (`docs/format.md`, "Versions").
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
#[repr(u32)]
pub enum FormatVersion {
    /// The version of stores without a feature of version 2.
    #[default]
    One = 1,
    /// The version with room for sealed files, aligned blocks and values elsewhere.
    Two = 2,
}

impl FormatVersion {
    /// The version with the stored number, if this build has it.
    pub const fn from_number(number: u32) -> Option<FormatVersion> {
        match number {
            1 => Some(FormatVersion::One),
            2 => Some(FormatVersion::Two),
            _ => None,
        }
    }

    /// The number to store.
    pub const fn number(self) -> u32 {
        self as u32
    }
}

/// Options of a store. Sizes are in bytes.
#[derive(Clone, Debug)]
pub struct Options {
    /// Creates the store if it does not exist.
    pub create_if_missing: bool,
    /// Opens an existing store without writing a byte to it: every write is [`Error::ReadOnly`]. The
    /// unflushed part of the log is replayed into memory, and takes as much memory as its size. No store is
    /// made and no compaction runs, whatever `create_if_missing` and `compaction_threads` say. Readers may
    /// share a store. A reader is refused while a writer has the store open, and a writer while a reader has
    /// ([`Error::Busy`]).
    pub read_only: bool,
    /// Size at which the active memtable is sealed. A transaction keeps at most [`Options::spill_bound`] of
    /// changes in memory.
    pub write_buffer_size: usize,
    /// The one cache of blocks, index and filter partitions.
    pub block_cache_size: usize,
    /// The cache may grow beyond its size to what `max_memory` and `process` leave, memory of idle write buffers included,
    /// and shrinks again when others need it. Without `max_memory` it keeps its size.
    pub cache_grows: bool,
    /// Bound on the memory of the store; 0: none. A larger sum of memtables and cache is refused. When other
    /// parts grow into their room, the cache shrinks, then compactions wait, then writers.
    pub max_memory: u64,
    /// Bytes in use in the program's allocator, if it counts them. `None`: the store holds its own count
    /// against the bound.
    pub heap_bytes: Option<fn() -> u64>,
    /// The limit of the process around the store: a cache that grows leaves the rest of the process its memory. `None`: none.
    pub process: Option<ProcessMemory>,
    /// Returns the allocator's free memory to the kernel; called ten times a second. `None`: nobody does.
    pub purge_heap: Option<fn()>,
    /// Size of a write-ahead log segment.
    pub wal_segment_size: u32,
    /// The durability of a commit at its answer.
    pub sync_mode: SyncMode,
    /// Longest time between background syncs in `SyncMode::Interval`, in microseconds.
    pub sync_interval_us: u64,
    /// Number of compaction threads, at most half of the cores; a larger number is reduced, with a line in
    /// the log. 0: compaction only on request.
    pub compaction_threads: usize,
    /// Bound on open table files.
    pub max_open_files: usize,
    /// Whether tables are read past the page cache.
    pub direct_reads: DirectReads,
    /// Size at which a compaction begins a new output file.
    pub target_file_size: u64,
    /// Bytes of the base level before it is merged further down.
    pub base_level_size: u64,
    /// Deleted keys in a row for a scan to publish their range, so later scans jump over it. After a quarter
    /// of this number a scan looks for published ranges.
    pub deleted_run: u32,
    /// Name of the option for the write buffer's size, for messages.
    pub write_buffer_variable: &'static str,
    /// Finishes outstanding compactions when the store is closed.
    pub finish_compactions_on_close: bool,
    /// Flushes memtables when the store is closed, so the next opening has no log to replay.
    pub flush_on_close: bool,
    /// The owner of the store: written into it when it is made; another owner is refused. `None`: nobody in
    /// particular.
    pub identity: Option<StoreIdentity>,
    /// The owner's memory of its store: an older copy of the store, or another store, is refused. `None`:
    /// nothing. A store with an owner then gets a new id.
    pub remembered: Option<RememberedStore>,
    /// Receiver of the engine's log; `None`: nobody.
    pub log: Option<LogSink>,
    /// Formats a family for the log; `None`: the bytes of its name, escaped.
    pub family_label: Option<FamilyLabel>,
    /// Least version of the formats of the store's files. A store moves to it when it is opened for writing, and
    /// never back. Value files ([`FamilyOptions::value_threshold`]) need version 2.
    pub least_format: FormatVersion,
    /// The same for a store that this opening makes: an older build cannot be in need of it.
    pub new_format: FormatVersion,
}

impl Options {
    /// Writes a line of the engine's log.
    pub(crate) fn log(&self, level: LogLevel, message: &str) {
        if let Some(sink) = &self.log {
            sink.write(level, message);
        }
    }

    /// True if tables are to be read past the page cache. `memory` tells the bytes of memory that the process may have
    /// (`None`: unknown), if that decides.
    pub(crate) fn reads_directly(&self, memory: impl FnOnce() -> Option<u64>) -> bool {
        match self.direct_reads {
            DirectReads::On => true,
            DirectReads::Off => false,
            DirectReads::Auto => memory().is_some_and(|memory| {
                memory / 8 * 3 <= u64::try_from(self.block_cache_size).unwrap_or(u64::MAX)
            }),
        }
    }

    /// A family, formatted for the log.
    pub(crate) fn label(&self, family: u32, name: &[u8]) -> String {
        match &self.family_label {
            Some(label) => (label.0)(family, name),
            None => format!("'{}'", name.escape_ascii()),
        }
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            create_if_missing: true,
            read_only: false,
            write_buffer_size: 64 << 20,
            block_cache_size: 64 << 20,
            cache_grows: false,
            max_memory: 0,
            heap_bytes: None,
            process: None,
            purge_heap: None,
            wal_segment_size: 32 << 20,
            sync_mode: SyncMode::Full,
            sync_interval_us: 128_000,
            compaction_threads: 1,
            max_open_files: 256,
            direct_reads: DirectReads::Auto,
            target_file_size: 32 << 20,
            base_level_size: 128 << 20,
            deleted_run: 64,
            write_buffer_variable: "write_buffer_size",
            finish_compactions_on_close: false,
            flush_on_close: false,
            identity: None,
            remembered: None,
            log: None,
            family_label: None,
            least_format: FormatVersion::One,
            new_format: FormatVersion::One,
        }
    }
}

/// Options of a column family; options of the file format take effect for new files.
#[derive(Clone, Debug, PartialEq)]
pub struct FamilyOptions {
    /// Compression of data blocks.
    pub compression: Compression,
    /// Uncompressed size of a data block in bytes.
    pub block_size: u32,
    /// Builds Bloom filters, which answer for whole keys. Lookups ask them only where that pays, so an unused one costs a byte
    /// or two a key on disk.
    pub bloom_filter: bool,
    /// False-positive rate of the filters, per 10,000 (1..=10000). With a key prefix those of the last level have a higher one.
    pub bloom_fpr: u32,
    /// Length in bytes of the key prefix added to the filter besides whole keys; 0: none. Scans within one
    /// such prefix then skip runs without it (an index column's encoded length).
    pub prefix_len: u32,
    /// Reads every index level as a page through the cache; off: the top level is resident.
    pub use_btree: bool,
    /// Number of level-0 runs at which the merge into the base level begins at the latest.
    pub l0_compaction_trigger: u32,
    /// Number of level-0 runs at which writers stop.
    pub l0_stall_threshold: u32,
    /// Size ratio of one level to the next.
    pub level_size_ratio: u32,
    /// Least number of levels.
    pub min_levels: u32,
    /// Tombstones per 10,000 entries at which a table is compacted early; 0: off.
    pub tombstone_density_trigger: u32,
    /// Least number of entries for a table's tombstone density to count.
    pub tombstone_density_min_entries: u64,
    /// Sync mode for commits that touch this family, at the least; `None`: the store's.
    pub sync_mode: Option<SyncMode>,
    /// Microseconds of the family's own `SyncMode::Interval`; 0: the store's. The log is one, so the shortest
    /// interval of all families counts for all.
    pub sync_interval_us: u64,
    /// Values of at least so many bytes are written once, to a value file, and their entries have a pointer; 0: none are.
    /// Below 4 KiB pointers cost more than they save. A value file goes when none of its values is needed any more, and
    /// not before: overwrites at random places take space. A store of format version 1 keeps all values in their entries;
    /// with a threshold it moves to version 2 when it is opened next. After RocksDB's `min_blob_size`.
    pub value_threshold: u32,
    /// Layout of data blocks. A store of format version 1 has the plain one, whatever this says.
    pub block_codec: BlockCodec,
}

impl Default for FamilyOptions {
    fn default() -> FamilyOptions {
        FamilyOptions {
            compression: Compression::Lz4,
            block_size: 4096,
            bloom_filter: true,
            bloom_fpr: 100,
            prefix_len: 0,
            use_btree: false,
            l0_compaction_trigger: 4,
            l0_stall_threshold: 10,
            level_size_ratio: 10,
            min_levels: 1,
            tombstone_density_trigger: 0,
            tombstone_density_min_entries: 1024,
            sync_mode: None,
            sync_interval_us: 0,
            value_threshold: 0,
            block_codec: BlockCodec::Plain,
        }
    }
}

impl Options {
    /// Sum of the memory sizes: the active memtable, as much again for sealed ones, and the cache.
    pub fn memory_sum(&self) -> u64 {
        self.write_buffer_size as u64 * 2 + self.block_cache_size as u64
    }

    /// Bound on the locks of all large owners together before they escalate: half a write buffer's worth. At
    /// twice this number they escalate or fail.
    pub fn lock_bound(&self) -> usize {
        lock_bound(self.write_buffer_size)
    }

    /// Bytes of one transaction's changes in memory; beyond it they go to a sorted run. A sixteenth of the
    /// write buffer, within two bounds. At most 8 MiB: once changes outgrow a processor's caches, searching
    /// them for each row costs more than one sort and write. At least 4 MiB, or half of a small write buffer:
    /// a commit of runs adds to level 0.
    pub fn spill_bound(&self) -> usize {
        spill_bound(self.write_buffer_size)
    }

    /// The bound on memory in force.
    pub fn memory_limit(&self) -> u64 {
        if self.max_memory == 0 {
            self.memory_sum()
        } else {
            self.max_memory
        }
    }

    /// Checks bounds; the error names option, value and bound.
    pub fn validate(&self) -> Result<()> {
        if self.max_memory > 0 && self.memory_sum() > self.max_memory {
            return Err(Error::InvalidArgument(format!(
                "max_memory = {} is below {}: twice the write buffer of {} and the block cache of {}; raise \
                 it or lower them",
                self.max_memory,
                self.memory_sum(),
                self.write_buffer_size,
                self.block_cache_size
            )));
        }
        bound("write_buffer_size", self.write_buffer_size as u64, 4 << 10, 64 << 30)?;
        let least_segment = if cfg!(simulation) { 4 << 10 } else { 64 << 10 };
        bound("wal_segment_size", self.wal_segment_size.into(), least_segment, 1 << 30)?;
        bound("compaction_threads", self.compaction_threads as u64, 0, 64)?;
        bound("max_open_files", self.max_open_files as u64, 4, 1 << 20)?;
        bound("target_file_size", self.target_file_size, 1 << 10, 1 << 40)?;
        bound("deleted_run", self.deleted_run.into(), 1, 1 << 20)?;
        bound("sync_interval_us", self.sync_interval_us, 1, 3_600_000_000)
    }
}

impl FamilyOptions {
    /// Checks bounds; the error names option, value and bound.
    pub fn validate(&self) -> Result<()> {
        bound("block_size", self.block_size.into(), 128, 1 << 20)?;
        bound("bloom_fpr", self.bloom_fpr.into(), 1, 10_000)?;
        bound("l0_compaction_trigger", self.l0_compaction_trigger.into(), 1, 1024)?;
        bound("l0_stall_threshold", self.l0_stall_threshold.into(), 1, 1024)?;
        bound("level_size_ratio", self.level_size_ratio.into(), 2, 100)?;
        bound("min_levels", self.min_levels.into(), 1, 64)?;
        bound("tombstone_density_trigger", self.tombstone_density_trigger.into(), 0, 10_000)
    }
}

fn lock_bound(write_buffer_size: usize) -> usize {
    /// Memory of one lock: entry, queue, places in the lists.
    const LOCK_BYTES: usize = 256;
    /// Between the bound and twice as many there is room for two kinds of owners. Some publish their first
    /// locks while others, earlier ones, still write theirs into runs.
    const LEAST: usize = if cfg!(simulation) { 10 } else { 8 * 1024 };
    (write_buffer_size / 2 / LOCK_BYTES).max(LEAST)
}

fn spill_bound(write_buffer_size: usize) -> usize {
    const LEAST: usize = 4 << 20;
    const MOST: usize = 8 << 20;
    (write_buffer_size / 16).clamp(LEAST, MOST).min(write_buffer_size / 2)
}

fn bound(name: &str, value: u64, least: u64, most: u64) -> Result<()> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(Error::InvalidArgument(format!("{name} = {value} is outside of {least}..={most}")))
}

/// The identity of a store's owner, given at its opening.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreIdentity {
    /// Identifies the owner, independent of its location. One line.
    pub identity: String,
    /// The owner's location, for people. One line; may be empty.
    pub place: String,
}

/// An owner's memory of its store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RememberedStore {
    /// Text of [`Db::mark`](crate::internal::db::Db::mark) at the newest opening known to the owner. A
    /// damaged one counts as none.
    pub mark: String,
    /// The owner's file with the text, for messages.
    pub place: String,
}

impl StoreIdentity {
    /// From `identity` or `identity\nplace`.
    pub fn parse(text: &str) -> StoreIdentity {
        let mut lines = text.lines();
        let mut line = || lines.next().unwrap_or_default().to_string();
        StoreIdentity { identity: line(), place: line() }
    }

    pub(crate) fn text(&self) -> String {
        match self.place.is_empty() {
            true => self.identity.clone(),
            false => format!("{}\n{}\n", self.identity, self.place),
        }
    }

    pub(crate) fn name(&self) -> String {
        match self.place.is_empty() {
            true => self.identity.clone(),
            false => format!("{} ({})", self.place, self.identity),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_read_past_the_page_cache_where_the_cache_has_most_of_its_memory() {
        let with = |direct_reads, cache: usize| Options {
            direct_reads,
            block_cache_size: cache << 20,
            ..Options::default()
        };
        let container = Some(512 << 20);
        assert!(!with(DirectReads::Auto, 191).reads_directly(|| container));
        assert!(with(DirectReads::Auto, 192).reads_directly(|| container));
        assert!(!with(DirectReads::Auto, 192).reads_directly(|| None), "nobody knows");
        assert!(with(DirectReads::On, 1).reads_directly(|| None));
        assert!(!with(DirectReads::Off, 500).reads_directly(|| container));
    }

    #[test]
    fn a_memory_bound_below_the_sizes_is_refused_with_all_of_them() {
        let sizes = Options { write_buffer_size: 1 << 20, block_cache_size: 3 << 20, ..Options::default() };
        assert_eq!(sizes.memory_limit(), 5 << 20);
        let enough = Options { max_memory: 5 << 20, ..sizes.clone() };
        enough.validate().expect("enough");
        let short = Options { max_memory: (5 << 20) - 1, ..sizes };
        let message = short.validate().expect_err("refused").to_string();
        for number in ["5242879", "5242880", "1048576", "3145728"] {
            assert!(message.contains(number), "{message}");
        }
    }
}
