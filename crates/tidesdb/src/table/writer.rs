//! The writer of one table. Entries come in order, and blocks are written as they fill. Index partitions and
//! filters stay in memory until the end, so that nothing but padding stands between data blocks.

use std::mem;
use std::sync::Arc;

use super::block::{
    pack, trailer_of, trailer_of_pieces, BlockHandle, BlockKind, StoredAs, MAX_PAYLOAD, TRAILER_LEN,
};
use super::data_block::{self, put_large_version, put_version, version_len};
use super::filter::{FilterBuilder, Filters};
use super::footer::{footer_len, Extension, FilterLayout, Footer};
use super::index::{separator, IndexEntry};
use super::keyed_block::KeyedBuilder;
use super::postings::{PostingsPacker, MOST_UNPACKED};
use super::properties::Properties;
use super::{Expiries, SsTableMeta, SsTableOptions, TABLE_ALIGN};
use crate::cache::BlockCache;
use crate::error::{Error, Result};
use crate::format::coding::put_varint;
use crate::format::value_pointer::ValuePointer;
use crate::io::{Advice, File};
use crate::memory_gauge::{HeldMemory, MemoryGauge};
use crate::mutant::{self, Mutant};
use crate::options::{BlockCodec, Compression, FormatVersion};
use crate::types::{Entry, FamilyId, FileNo, Pieces, Seq, MAX_KEY_LEN, MAX_SEQ};
use crate::value::{expiry_and_value, expiry_of, pointer_of_entry};

/// Least bytes of finished blocks for a write to the file.
const WRITE_CHUNK: usize = 256 << 10;

/// Bytes between two requests to the kernel to begin writeback. A final sync of many megabytes would delay
/// the log's syncs. In a container, dirty pages would also take the memory of others. After RocksDB's
/// `bytes_per_sync`.
const WRITEBACK_STEP: u64 = 1 << 20;

/// Largest scratch buffer kept after a block, in bytes.
const SCRATCH_KEEP: usize = 1 << 20;

/// Payload of a full index partition, in bytes.
const PARTITION_SIZE: usize = 4096;

/// Size, in bytes, of a value in pieces too large to compress. Compression would need the value in memory
/// once more, and the compressed bytes. A merge compresses it.
const LARGE_VALUE: usize = 32 << 20;

/// Bytes of a large value for each write.
const PIECE: usize = 8 << 20;

/// Binary logarithm of a sector's size, the least unit of direct I/O.
const SECTOR_BITS: u8 = 9;
const SECTOR: u64 = 1 << SECTOR_BITS;

/// Most bytes of padding, in percent of the table's bytes.
const MOST_PADDING: u64 = 3;

/// Blocks of postings are so many times as long before they are packed, and about as long as others after it.
const POSTINGS_IN_BLOCK: usize = 4;

/// Largest value: leaves room for keys, heads and counts in its block.
const MAX_VALUE: usize = MAX_PAYLOAD - (4 << 20);

/// A finished index partition, not yet written.
struct Partition {
    separator: Vec<u8>,
    payload: Vec<u8>,
    before: u64,
    tombstones: u64,
}

/// Writes a table at an offset of a file. It syncs nothing. A writer dropped unfinished leaves unreferenced
/// bytes.
pub struct SsTableWriter {
    file: Arc<dyn File>,
    /// The cache for the written blocks, and the file's number in it.
    cache: Option<(Arc<BlockCache>, FileNo)>,
    /// True if the cache keeps compressed blocks of this file as they are stored.
    has_copies: bool,
    start: u64,
    family: FamilyId,
    options: SsTableOptions,
    format: FormatVersion,
    /// Blocks so far, and bytes of padding before them.
    blocks: u64,
    padding: u64,
    /// Bytes not yet written to the file, and the number of those written.
    pending: Vec<u8>,
    flushed: u64,
    /// Number of written bytes with a request for writeback.
    started: u64,
    block: KeyedBuilder,
    /// Position of the last version's tag in the block's bodies.
    last_tag: Option<usize>,
    /// Flags of the current block so far.
    block_flags: u32,
    /// True if the current block has an entry that lists of postings have not.
    is_unpackable: bool,
    block_before: u64,
    block_tombstones: u64,
    leaf: KeyedBuilder,
    leaf_before: u64,
    leaf_tombstones: u64,
    partitions: Vec<Partition>,
    /// Payload bytes of the partitions.
    partition_bytes: usize,
    filter: FilterBuilder,
    last_key: Vec<u8>,
    /// Number of entries with an expiry.
    expiring: u64,
    last_seq: Seq,
    properties: Properties,
    // Scratch.
    payload: Vec<u8>,
    packed: Vec<u8>,
    lists: Vec<u8>,
    postings: PostingsPacker,
    separator: Vec<u8>,
    gauge: Option<Arc<MemoryGauge>>,
    held: HeldMemory,
}

impl SsTableWriter {
    /// A writer for a table of `family` at `offset` of `file`, a multiple of `TABLE_ALIGN`. For another
    /// offset [`SsTableWriter::finish`] returns an error.
    pub fn new(file: Arc<dyn File>, offset: u64, family: FamilyId, options: SsTableOptions) -> SsTableWriter {
        let filter = FilterBuilder::new(options.bits_per_key, options.prefix_len as usize);
        SsTableWriter {
            file,
            cache: None,
            has_copies: false,
            start: offset,
            family,
            properties: Properties { options: Some(options.clone()), ..Properties::default() },
            options,
            format: FormatVersion::One,
            blocks: 0,
            padding: 0,
            pending: Vec::new(),
            flushed: 0,
            started: 0,
            block: KeyedBuilder::default(),
            last_tag: None,
            block_flags: 0,
            is_unpackable: false,
            block_before: 0,
            block_tombstones: 0,
            leaf: KeyedBuilder::default(),
            leaf_before: 0,
            leaf_tombstones: 0,
            partitions: Vec::new(),
            partition_bytes: 0,
            filter,
            last_key: Vec::new(),
            expiring: 0,
            last_seq: 0,
            payload: Vec::new(),
            packed: Vec::new(),
            lists: Vec::new(),
            postings: PostingsPacker::default(),
            separator: Vec::new(),
            gauge: None,
            held: HeldMemory::default(),
        }
    }

    /// Writes the table in this version of its format, in place of version 1.
    pub fn in_format(mut self, format: FormatVersion) -> SsTableWriter {
        self.format = format;
        self.properties.longest_value = (format == FormatVersion::Two).then_some(0);
        self
    }

    /// Also inserts the blocks into `cache` if it has room. Readers of merged or flushed rows then need not
    /// read and decompress blocks from a file that replaced cached ones. `number` is the file's. If the file
    /// is given up, the caller erases it from the cache. `has_copies` if its readers go past the page cache, and the
    /// cache keeps stored copies for them.
    pub fn caching(mut self, cache: &Arc<BlockCache>, number: FileNo, has_copies: bool) -> SsTableWriter {
        self.cache = Some((Arc::clone(cache), number));
        self.has_copies = has_copies;
        self.counted_by(cache)
    }

    /// The memory that the writer holds counts as that which `cache` gives way to.
    pub fn counted_by(mut self, cache: &BlockCache) -> SsTableWriter {
        self.gauge = Some(Arc::clone(&cache.table_writers));
        self
    }

    /// Adds an entry. Keys ascend, and sequence numbers descend within a key. `Error::InvalidArgument` for
    /// another order, and for keys and values beyond the limits.
    pub fn add(&mut self, key: &[u8], entry: Entry<'_>) -> Result<()> {
        self.add_in_pieces(key, entry, Pieces::default())
    }

    /// Like [`SsTableWriter::add`], for a value continued by `more`, which is written without a copy. An
    /// entry with more must be the oldest version of its key.
    pub fn add_in_pieces(&mut self, key: &[u8], entry: Entry<'_>, more: Pieces<'_>) -> Result<()> {
        let first = self.properties.entries == 0;
        let same_key = !first && key == self.last_key.as_slice();
        let (more_len, is_large) = (more.len(), !more.is_empty());
        self.check(key, &entry, more_len, first, same_key)?;
        let pointer = self.pointer_of(&entry)?;

        if self.block.is_empty() && !self.leaf.is_empty() && self.leaf.len_with(None, 0) >= PARTITION_SIZE {
            // A large value ended its block before this key was known.
            self.cut_partition();
        }
        let mut in_block = same_key && !self.block.is_empty();
        if !self.block.is_empty() {
            let new_key = (!same_key).then_some(key);
            let len = self.block.len_with(new_key, version_len(&entry));
            if is_large || len > self.block_size() {
                self.cut_block(Some(key))?;
                in_block = false;
            }
        }
        self.is_unpackable |= in_block || entry.kind.has_expiry() || pointer.is_some();
        if !in_block {
            self.block.push(key);
            self.last_tag = None;
            self.filter.add(key);
        }
        self.last_tag = Some(match is_large {
            true => put_large_version(self.block.body(), &entry, None, more_len),
            false => put_version(self.block.body(), &entry, self.last_tag),
        });

        let properties = &mut self.properties;
        if first {
            properties.min_key = key.to_vec();
            properties.min_seq = entry.seq;
        }
        if !same_key {
            properties.keys += 1;
            self.last_key.clear();
            self.last_key.extend_from_slice(key);
        }
        self.last_seq = entry.seq;
        properties.entries += 1;
        properties.min_seq = properties.min_seq.min(entry.seq);
        properties.max_seq = properties.max_seq.max(entry.seq);
        properties.raw_bytes += (key.len() + entry.stored().len() + more_len) as u64;
        if entry.kind.is_tombstone() {
            properties.tombstones += 1;
            self.block_tombstones += 1;
        }
        if entry.kind.has_expiry() {
            let expiry = expiry_of(&entry);
            let (oldest, newest) = properties.expiry.unwrap_or((expiry, expiry));
            properties.expiry = Some((oldest.min(expiry), newest.max(expiry)));
            self.expiring += 1;
        }
        match pointer {
            Some(pointer) => properties.count_value(&pointer),
            None if properties.longest_value.is_none() => {}
            None => properties.count_inline(expiry_and_value(entry.kind, entry.stored()).1.len() + more_len),
        }
        if is_large {
            self.cut_large(more)?;
        }
        Ok(())
    }

    /// Payload length of a full data block, in bytes.
    fn block_size(&self) -> usize {
        let size = self.options.block_size as usize;
        match self.has_postings() && !self.is_unpackable {
            true => size.max((size * POSTINGS_IN_BLOCK).min(MOST_UNPACKED / 2)),
            false => size,
        }
    }

    /// Version 1 of the format has no codecs.
    fn has_postings(&self) -> bool {
        self.options.block_codec == BlockCodec::Postings && self.format == FormatVersion::Two
    }

    /// The pointer of an entry with its value in a value file.
    fn pointer_of(&self, entry: &Entry<'_>) -> Result<Option<ValuePointer>> {
        let Some(stored) = pointer_of_entry(entry) else { return Ok(None) };
        match (ValuePointer::decode(stored), self.format) {
            (Some((_, pointer)), FormatVersion::Two) => Ok(Some(pointer)),
            _ => Err(Error::InvalidArgument("a pointer to a value file that does not fit a table".into())),
        }
    }

    fn check(&self, key: &[u8], entry: &Entry<'_>, more: usize, first: bool, same_key: bool) -> Result<()> {
        let refuse = |what: String| Err(Error::InvalidArgument(what));
        if key.len() > MAX_KEY_LEN || entry.stored().len() + more > MAX_VALUE {
            let (key, value) = (key.len(), entry.stored().len() + more);
            return refuse(format!("a key of {key} bytes with a value of {value} does not fit a table"));
        }
        if entry.seq > MAX_SEQ {
            return refuse(format!("sequence number {} is out of range", entry.seq));
        }
        if entry.kind.has_expiry() && entry.stored().len() < 8 {
            return refuse("an entry with an expiry has a value without one".into());
        }
        if !first && (key < self.last_key.as_slice() || (same_key && entry.seq >= self.last_seq)) {
            return refuse(format!(
                "entries of a table are out of order: {:02x?} at {} after {:02x?} at {}",
                key, entry.seq, self.last_key, self.last_seq
            ));
        }
        Ok(())
    }

    /// Bytes of finished blocks, written or not.
    pub fn bytes_written(&self) -> u64 {
        self.flushed + self.pending.len() as u64
    }

    /// Approximate length of the table if it were finished now, in bytes.
    pub fn estimated_len(&self) -> u64 {
        let index = self.partition_bytes + self.leaf.len_with(None, 0);
        let open = self.block.len_with(None, 0) + index + footer_len(self.format);
        let filter = self.properties.keys * u64::from(self.options.bits_per_key) / 8;
        self.bytes_written() + open as u64 + filter
    }

    /// Entries so far.
    pub fn entries(&self) -> u64 {
        self.properties.entries
    }

    /// Writes the rest and returns the metadata for the manifest. The caller syncs the file.
    pub fn finish(mut self) -> Result<SsTableMeta> {
        if self.properties.entries == 0 {
            return Err(Error::InvalidArgument("a table has at least one entry".into()));
        }
        if self.start % TABLE_ALIGN != 0 {
            let start = self.start;
            return Err(Error::InvalidArgument(format!(
                "a table at {start}, which is no multiple of {TABLE_ALIGN}"
            )));
        }
        self.cut_block(None)?;
        self.cut_partition();
        if let (false, Some(options)) = (self.has_postings(), &mut self.properties.options) {
            options.block_codec = BlockCodec::Plain;
        }
        self.properties.max_key = mem::take(&mut self.last_key);
        let padding = if mutant::is(Mutant::PaddingCounted) { 0 } else { self.padding };
        self.properties.data_bytes = self.bytes_written() - padding;

        let filters = mem::replace(&mut self.filter, FilterBuilder::new(0, 0)).finish();
        let mut footer = Footer {
            family: self.family,
            index_levels: 1,
            filter_layout: FilterLayout::None,
            top_in_cache: self.options.use_btree,
            prefix_len: if self.options.bits_per_key > 0 { self.options.prefix_len } else { 0 },
            table_len: 0,
            top: BlockHandle::default(),
            properties: BlockHandle::default(),
            filter: BlockHandle::default(),
            extension: (self.format == FormatVersion::Two).then(Extension::default),
        };
        let mut filter_handles = Vec::new();
        match filters {
            Filters::None => {}
            Filters::Whole(payload) => {
                footer.filter_layout = FilterLayout::Whole;
                footer.filter = self.put_block(&payload, BlockKind::Filter)?;
            }
            Filters::Partitions(payloads) => {
                footer.filter_layout = FilterLayout::Partitioned;
                for payload in payloads {
                    filter_handles.push(self.put_block(&payload, BlockKind::Filter)?);
                }
            }
        }
        footer.top = self.put_index(&filter_handles, &mut footer.index_levels)?;
        footer.properties = self.put_block(&self.properties.encode(), BlockKind::Properties)?;
        footer.table_len = self.bytes_written() + footer.len() as u64;
        if let Some(extension) = &mut footer.extension {
            *extension = Extension { blocks: self.blocks, padding: self.padding, align: SECTOR_BITS };
        }
        self.pending.extend_from_slice(&footer.encode());
        self.flush()?;

        let properties = self.properties;
        Ok(SsTableMeta {
            family: self.family,
            offset: self.start,
            len: footer.table_len,
            min_key: properties.min_key,
            max_key: properties.max_key,
            min_seq: properties.min_seq,
            max_seq: properties.max_seq,
            entries: properties.entries,
            tombstones: properties.tombstones,
            keys: properties.keys,
            raw_bytes: properties.raw_bytes,
            commit_seq: 0,
            expiry: properties.expiry.map(|(oldest, newest)| Expiries {
                oldest,
                newest,
                entries: self.expiring,
            }),
            mirror: 0,
            values: properties.values,
        })
    }

    /// Writes partitions and top index; returns the handle of the uppermost block.
    fn put_index(&mut self, filters: &[BlockHandle], levels: &mut u8) -> Result<BlockHandle> {
        let partitions = mem::take(&mut self.partitions);
        if let ([only], []) = (partitions.as_slice(), filters) {
            return self.put_block(&only.payload, BlockKind::Index);
        }
        *levels = 2;
        let mut top = KeyedBuilder::default();
        for (i, partition) in partitions.iter().enumerate() {
            let block = self.put_block(&partition.payload, BlockKind::Index)?;
            let entry = IndexEntry { block, before: partition.before, tombstones: partition.tombstones };
            let filter = filters.get(i).copied().unwrap_or_default();
            top.push(&partition.separator);
            entry.put(top.body());
            put_varint(top.body(), filter.offset);
            put_varint(top.body(), filter.len);
        }
        let mut payload = Vec::new();
        top.finish(0, &mut payload);
        self.put_block(&payload, BlockKind::TopIndex)
    }

    /// Ends the current data block; `next` is the key of the next entry.
    fn cut_block(&mut self, next: Option<&[u8]>) -> Result<()> {
        let mut flags = mem::take(&mut self.block_flags);
        self.is_unpackable = false;
        match next {
            None => {
                self.separator.clear();
                self.separator.extend_from_slice(&self.last_key);
            }
            Some(next) => {
                separator(&self.last_key, next, &mut self.separator);
                if next == self.last_key.as_slice() {
                    flags |= data_block::CONTINUED;
                    self.block_flags = data_block::CONTINUES;
                }
            }
        }
        // After a large value nothing is left.
        if self.block.is_empty() {
            return Ok(());
        }
        let mut payload = mem::take(&mut self.payload);
        self.block.finish(flags, &mut payload);
        let block = self.put_block(&payload, BlockKind::Data)?;
        if payload.capacity() <= SCRATCH_KEEP {
            self.payload = payload;
        }
        self.index_block(block, next.is_some())
    }

    /// Ends the current data block, made of one version whose value is continued by `more`.
    fn cut_large(&mut self, more: Pieces<'_>) -> Result<()> {
        let flags = mem::take(&mut self.block_flags);
        self.separator.clear();
        self.separator.extend_from_slice(&self.last_key);
        let mut payload = Vec::new();
        self.block.finish(flags, &mut payload);
        if self.options.compression != Compression::None && payload.len() + more.len() < LARGE_VALUE {
            payload.reserve_exact(more.len());
            more.iter().for_each(|piece| payload.extend_from_slice(piece));
            let block = self.put_block(&payload, BlockKind::Data)?;
            return self.index_block(block, false);
        }
        self.align(payload.len() + more.len() + TRAILER_LEN);
        self.flush()?;
        let offset = self.bytes_written();
        self.blocks += 1;
        let pieces = || std::iter::once(&payload[..]).chain(more.iter());
        let trailer = trailer_of_pieces(pieces(), BlockKind::Data, offset);
        for piece in pieces().flat_map(|piece| piece.chunks(PIECE)) {
            self.write(piece)?;
        }
        self.pending.extend_from_slice(&trailer);
        let len = self.bytes_written() - offset;
        self.index_block(BlockHandle { offset, len }, false)
    }

    /// Adds the current data block, already written, to the index.
    fn index_block(&mut self, block: BlockHandle, may_end_partition: bool) -> Result<()> {
        self.properties.data_blocks += 1;

        let tombstones = mem::take(&mut self.block_tombstones);
        let entry = IndexEntry { block, before: self.block_before, tombstones };
        if self.leaf.is_empty() {
            self.leaf_before = self.block_before;
        }
        self.leaf.push(&self.separator);
        entry.put(self.leaf.body());
        self.leaf_tombstones += tombstones;
        self.block_before = self.properties.entries;
        if may_end_partition && self.leaf.len_with(None, 0) >= PARTITION_SIZE {
            self.cut_partition();
        }
        let bytes = self.heap_bytes();
        if let Some(gauge) = &self.gauge {
            self.held.set(bytes, gauge);
        }
        Ok(())
    }

    /// Bytes of blocks, index and filter not yet in the file, and of scratch.
    fn heap_bytes(&self) -> usize {
        let lists = self.lists.capacity() + self.postings.capacity();
        let scratch = self.payload.capacity() + self.packed.capacity() + lists;
        let blocks = self.pending.capacity() + self.block.capacity() + self.leaf.capacity();
        blocks + scratch + self.partition_bytes + self.filter.heap_bytes()
    }

    fn cut_partition(&mut self) {
        let mut payload = Vec::new();
        self.leaf.finish(0, &mut payload);
        self.partition_bytes += payload.len();
        self.partitions.push(Partition {
            separator: self.separator.clone(),
            payload,
            before: self.leaf_before,
            tombstones: mem::take(&mut self.leaf_tombstones),
        });
        self.filter.end_partition();
    }

    fn put_block(&mut self, payload: &[u8], kind: BlockKind) -> Result<BlockHandle> {
        if payload.len() > MAX_PAYLOAD {
            let len = payload.len();
            return Err(Error::InvalidArgument(format!("a block of {len} bytes does not fit a table")));
        }
        let method = if kind == BlockKind::Data { self.options.compression } else { Compression::None };
        let mut packed = mem::take(&mut self.packed);
        let mut lists = mem::take(&mut self.lists);
        let has_lists =
            kind == BlockKind::Data && self.has_postings() && self.postings.pack(payload, &mut lists);
        let is_sure = has_lists && !self.postings.has_many_groups();
        let (stored, method) = match is_sure {
            true => (payload, Compression::None),
            false => pack(payload, method, &mut packed),
        };
        let (payload, stored, form) = match has_lists && lists.len() < stored.len() {
            true => (&lists[..], &lists[..], StoredAs::Postings),
            false => (payload, stored, StoredAs::Plain(method)),
        };
        if kind == BlockKind::Data {
            self.align(stored.len() + TRAILER_LEN);
        }
        let offset = self.bytes_written();
        self.blocks += 1;
        let trailer = trailer_of((stored, form), kind, payload.len(), offset);
        let handle = BlockHandle { offset, len: (stored.len() + TRAILER_LEN) as u64 };
        let copied = (self.has_copies && kind == BlockKind::Data).then_some(stored.len() + TRAILER_LEN);
        if stored.len() < WRITE_CHUNK {
            self.pending.extend_from_slice(stored);
        } else {
            // As it is: another copy of a large block counts.
            self.flush()?;
            self.write(stored)?;
        }
        self.pending.extend_from_slice(&trailer);
        if let (Some((cache, number)), false) = (&self.cache, kind == BlockKind::Properties) {
            cache.offer(*number, self.start + offset, payload, copied);
        }
        if packed.capacity() <= SCRATCH_KEEP {
            self.packed = packed;
        }
        if lists.capacity() <= SCRATCH_KEEP {
            self.lists = lists;
        }
        if self.pending.len() >= WRITE_CHUNK {
            self.flush()?;
        }
        Ok(handle)
    }

    /// Pads to the next sector if a block of `len` bytes then takes a sector less, and the padding of the whole table
    /// stays small. Version 1 has no padding.
    fn align(&mut self, len: usize) {
        if self.format == FormatVersion::One {
            return;
        }
        let (written, len) = (self.bytes_written(), len as u64);
        let at = (self.start + written) % SECTOR;
        let padding = SECTOR - at;
        let spares = (at + len).div_ceil(SECTOR) > len.div_ceil(SECTOR);
        if spares && (self.padding + padding) * 100 < (written + padding + len) * MOST_PADDING {
            self.pending.resize(self.pending.len() + padding as usize, 0);
            self.padding += padding;
        }
    }

    fn flush(&mut self) -> Result<()> {
        let pending = mem::take(&mut self.pending);
        self.write(&pending)?;
        self.pending = pending;
        self.pending.clear();
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_at(bytes, self.start + self.flushed)?;
        self.flushed += bytes.len() as u64;
        let unstarted = self.flushed - self.started;
        if unstarted >= WRITEBACK_STEP {
            self.file.advise(self.start + self.started, unstarted, Advice::Written);
            self.started = self.flushed;
        }
        Ok(())
    }
}
