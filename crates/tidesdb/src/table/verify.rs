//! Verification of a whole table. Valid checksums cover every byte but padding, which is zero. Keys and versions
//! are in order, and separators separate. Counts and extremes agree with the index, the properties and the
//! manifest. Filters have every key. Reads past the cache, and reads resident parts again. Data blocks are read by long
//! requests, as by a merge.

use std::collections::BTreeSet;

use super::block::{BlockHandle, BlockKind, DecodeError};
use super::data_block::{read_version, CONTINUED, CONTINUES};
use super::filter::{self, hash_key, hash_prefix};
use super::footer::{FilterLayout, Footer, FOOTER_LEN, MAX_FOOTER_LEN};
use super::index::{partition_filter, IndexEntry};
use super::properties::Properties;
use super::read_ahead::{Window, LONGEST_STRETCH};
use super::reader::{top_kind, SsTable};
use crate::cache::BlockRef;
use crate::error::{Error, Result};
use crate::format::coding::{u64_at, varint_len};
use crate::format::value_pointer::ValuePointer;
use crate::io::AlignedBuffer;
use crate::options::FormatVersion;
use crate::types::Seq;
use crate::value::{expiry_and_value, pointer_of};

/// Counts of a verification.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SsTableCheck {
    /// Bytes of the table.
    pub bytes: u64,
    /// Blocks of every kind.
    pub blocks: u64,
    /// Entries.
    pub entries: u64,
    /// Distinct keys.
    pub keys: u64,
    /// Tombstones.
    pub tombstones: u64,
}

/// State of a walk over the table from its first to its last block.
struct Walk<'a> {
    table: &'a SsTable,
    footer: Footer,
    check: SsTableCheck,
    /// Handles of all blocks, in no order.
    blocks: Vec<BlockHandle>,
    seen: Properties,
    last_key: Vec<u8>,
    last_seq: Seq,
    key: Vec<u8>,
    /// Flags of the block before.
    last_flags: u32,
    filter: Option<(BlockRef, BlockHandle)>,
    window: Window,
    /// The end of the last data block, and offsets of padding that is zero.
    data_end: u64,
    zero_padding: BTreeSet<u64>,
    interrupted: &'a dyn Fn() -> bool,
}

impl SsTable {
    /// Reads and verifies everything. The first damage is the error.
    pub fn verify(&self) -> Result<SsTableCheck> {
        self.verify_unless(&|| false)
    }

    /// Like [`SsTable::verify`], with a call of `interrupted` before each block; true ends it with
    /// `Error::Interrupted`.
    pub fn verify_unless(&self, interrupted: &dyn Fn() -> bool) -> Result<SsTableCheck> {
        let meta = self.meta();
        let footer_at =
            BlockHandle { offset: meta.len.saturating_sub(FOOTER_LEN as u64), len: FOOTER_LEN as u64 };
        // The footer is read again: the table may have been open for long.
        let len = meta.len.min(MAX_FOOTER_LEN as u64);
        let mut end = AlignedBuffer::default();
        let bytes = end.read(&*self.file()?, meta.offset + meta.len - len, len as usize)?;
        let footer = Footer::decode(bytes).map_err(|damage| self.damage(footer_at, damage))?;
        if footer.table_len != meta.len || footer.family != meta.family {
            return Err(self.damage(footer_at, DecodeError::damage("another table than the manifest names")));
        }
        let mut walk = Walk {
            table: self,
            check: SsTableCheck { bytes: footer.len() as u64, ..SsTableCheck::default() },
            footer,
            blocks: Vec::new(),
            seen: Properties::default(),
            last_key: Vec::new(),
            last_seq: 0,
            key: Vec::new(),
            last_flags: 0,
            filter: None,
            window: Window::default(),
            data_end: 0,
            zero_padding: BTreeSet::new(),
            interrupted,
        };
        walk.run()?;
        Ok(walk.check)
    }
}

impl Walk<'_> {
    fn run(&mut self) -> Result<()> {
        let properties_at = self.footer.properties;
        let properties = self.read(properties_at, BlockKind::Properties)?;
        let properties = Properties::decode(&properties, self.footer.version())
            .map_err(|damage| self.table.damage(properties_at, damage))?;
        if self.footer.filter_layout == FilterLayout::Whole {
            let handle = self.footer.filter;
            self.filter = Some((self.read(handle, BlockKind::Filter)?, handle));
        }
        let top_at = self.footer.top;
        let top = self.read(top_at, top_kind(&self.footer))?;
        if self.footer.index_levels == 1 {
            self.walk_partition(&top, top_at)?;
        } else {
            self.walk_top(&top, top_at)?;
        }
        if self.last_flags & CONTINUED != 0 {
            return Err(self.table.damage(top_at, DecodeError::damage("the last block promises another")));
        }
        self.compare_counts(&properties, properties_at)?;
        self.compare_coverage()
    }

    fn read(&mut self, handle: BlockHandle, kind: BlockKind) -> Result<BlockRef> {
        if (self.interrupted)() {
            return Err(Error::Interrupted);
        }
        let block = match kind {
            BlockKind::Data => self.read_ahead(handle)?,
            _ => self.table.read_uncached(handle, kind)?,
        };
        self.blocks.push(handle);
        self.check.blocks += 1;
        self.check.bytes += handle.len;
        Ok(block)
    }

    /// A data block, read together with those after it.
    fn read_ahead(&mut self, handle: BlockHandle) -> Result<BlockRef> {
        let table = self.table;
        // Padding that is in memory now needs no read of its own.
        let before = handle.offset.saturating_sub(self.data_end);
        let padding = BlockHandle { offset: self.data_end, len: before };
        if before > 0 && self.window.held(padding).is_some_and(|bytes| bytes.iter().all(|byte| *byte == 0)) {
            self.zero_padding.insert(self.data_end);
        }
        self.data_end = handle.end().unwrap_or_default();
        let is_held = self.window.holds(handle);
        let stretch = table.stretch_from(handle, LONGEST_STRETCH);
        let block = self
            .window
            .block(table, handle, stretch)
            .map(|stored| table.decode_block(stored, handle, BlockKind::Data))?;
        if !is_held {
            table.files.note_read(self.window.read_bytes());
        }
        self.window.release_large();
        block
    }

    fn walk_top(&mut self, top: &BlockRef, top_at: BlockHandle) -> Result<()> {
        let index = self.table.parse(top, top_at)?;
        let damage = |damage| self.table.damage(top_at, damage);
        let mut separator = Vec::new();
        let mut entries = Vec::new();
        for at in 0..index.len() {
            let (entry, after, end) = IndexEntry::read(&index, at).map_err(damage)?;
            let filter = partition_filter(&index, after, end).map_err(damage)?;
            let BlockHandle { offset, len } = filter.unwrap_or_default();
            self.check_end(after + varint_len(offset) + varint_len(len), end).map_err(damage)?;
            index.read_key(at, &mut separator, false).map_err(damage)?;
            entries.push((entry, filter, separator.clone()));
        }
        for (entry, filter, separator) in entries {
            match (self.footer.filter_layout, filter) {
                (FilterLayout::Partitioned, Some(handle)) => {
                    self.filter = Some((self.read(handle, BlockKind::Filter)?, handle));
                }
                (FilterLayout::None | FilterLayout::Whole, None) => {}
                _ => {
                    return Err(self
                        .table
                        .damage(top_at, DecodeError::damage("the filter's handle in the top index")))
                }
            }
            let leaf = self.read(entry.block, BlockKind::Index)?;
            if entry.before != self.seen.entries {
                return Err(self.table.damage(top_at, DecodeError::damage("entries before a partition")));
            }
            let tombstones = self.seen.tombstones;
            let last_separator = self.walk_partition(&leaf, entry.block)?;
            if self.seen.tombstones - tombstones != entry.tombstones {
                return Err(self.table.damage(top_at, DecodeError::damage("tombstones of a partition")));
            }
            if last_separator != separator {
                return Err(self.table.damage(top_at, DecodeError::damage("the separator of a partition")));
            }
        }
        Ok(())
    }

    /// Walks an index partition and returns its last separator.
    fn walk_partition(&mut self, leaf: &BlockRef, leaf_at: BlockHandle) -> Result<Vec<u8>> {
        let index = self.table.parse(leaf, leaf_at)?;
        let mut separator = Vec::new();
        for at in 0..index.len() {
            let (entry, after, end) =
                IndexEntry::read(&index, at).map_err(|damage| self.table.damage(leaf_at, damage))?;
            self.check_end(after, end).map_err(|damage| self.table.damage(leaf_at, damage))?;
            let last_separator = (at > 0).then(|| separator.clone());
            index.read_key(at, &mut separator, false).map_err(|damage| self.table.damage(leaf_at, damage))?;
            if entry.before != self.seen.entries {
                return Err(self.table.damage(leaf_at, DecodeError::damage("entries before a block")));
            }
            let tombstones = self.seen.tombstones;
            self.walk_block(entry.block, last_separator.as_deref())?;
            if self.seen.tombstones - tombstones != entry.tombstones {
                return Err(self.table.damage(leaf_at, DecodeError::damage("tombstones of a block")));
            }
            if separator < self.last_key {
                return Err(self
                    .table
                    .damage(leaf_at, DecodeError::damage("a separator below its block's last key")));
            }
        }
        Ok(separator)
    }

    /// Nothing follows in an index entry; version 1 did not say so.
    fn check_end(&self, after: usize, end: usize) -> std::result::Result<(), DecodeError> {
        match self.footer.version() {
            FormatVersion::Two if after != end => Err(DecodeError::damage("bytes after an index entry")),
            _ => Ok(()),
        }
    }

    fn walk_block(&mut self, handle: BlockHandle, last_separator: Option<&[u8]>) -> Result<()> {
        let table = self.table;
        let damage = |damage| table.damage(handle, damage);
        let block = self.read(handle, BlockKind::Data)?;
        let block = table.keyed(block, handle)?;
        let keyed = table.parse(&block, handle)?;
        self.seen.data_blocks += 1;
        self.seen.data_bytes += handle.len;
        for slot in 0..keyed.len() {
            let body = keyed.read_key(slot, &mut self.key, false).map_err(damage)?;
            let first_of_all = self.seen.entries == 0;
            let continues = slot == 0 && keyed.flags & CONTINUES != 0;
            let promised = slot == 0 && self.last_flags & CONTINUED != 0;
            if continues != promised || (continues && (first_of_all || self.key != self.last_key)) {
                return Err(damage(DecodeError::damage("a key's versions are torn apart")));
            }
            if !continues && !first_of_all && self.key <= self.last_key {
                return Err(damage(DecodeError::damage("keys are out of order")));
            }
            if slot == 0
                && last_separator.is_some_and(|last| *last > *self.key || (*last == *self.key && !continues))
            {
                return Err(damage(DecodeError::damage("a key at or below the separator before it")));
            }
            if !continues {
                self.seen.keys += 1;
            }
            if first_of_all {
                self.seen.min_key.clone_from(&self.key);
            }
            self.ask_filter()?;
            let mut at = body.start;
            let mut newer = continues.then_some(self.last_seq);
            loop {
                let version = read_version(&block, at, body.end).map_err(damage)?;
                if newer.is_some_and(|newer| version.seq >= newer) {
                    return Err(damage(DecodeError::damage("versions are out of order")));
                }
                let value = block.get(version.value.clone()).unwrap_or_default();
                let seen = &mut self.seen;
                seen.min_seq = if seen.entries == 0 { version.seq } else { seen.min_seq.min(version.seq) };
                seen.max_seq = seen.max_seq.max(version.seq);
                seen.entries += 1;
                seen.tombstones += u64::from(version.kind.is_tombstone());
                seen.raw_bytes += (self.key.len() + value.len()) as u64;
                if version.kind.has_expiry() {
                    let expiry = u64_at(value, 0)
                        .ok_or(DecodeError::damage("an expiry is missing"))
                        .map_err(damage)?;
                    let (oldest, newest) = seen.expiry.unwrap_or((expiry, expiry));
                    seen.expiry = Some((oldest.min(expiry), newest.max(expiry)));
                }
                if version.kind.has_pointer() {
                    let pointer = pointer_of(version.kind, value).and_then(ValuePointer::decode);
                    let (_, pointer) =
                        pointer.ok_or(DecodeError::damage("the pointer to a value file")).map_err(damage)?;
                    seen.count_value(&pointer);
                } else {
                    seen.count_inline(expiry_and_value(version.kind, value).1.len());
                }
                self.last_seq = version.seq;
                newer = Some(version.seq);
                if !version.more {
                    break;
                }
                at = version.value.end;
            }
            self.last_key.clone_from(&self.key);
        }
        self.last_flags = keyed.flags;
        Ok(())
    }

    fn ask_filter(&self) -> Result<()> {
        let Some((filter, handle)) = &self.filter else { return Ok(()) };
        let damage = |damage| self.table.damage(*handle, damage);
        let mut knows = filter::may_contain(filter, hash_key(&self.key)).map_err(damage)?;
        let prefix_len = self.footer.prefix_len as usize;
        if let (Some(prefix), true) = (self.key.get(..prefix_len), prefix_len > 0) {
            knows &= filter::may_contain(filter, hash_prefix(prefix)).map_err(damage)?;
        }
        if !knows {
            return Err(damage(DecodeError::damage("a filter that does not know a key")));
        }
        Ok(())
    }

    fn compare_counts(&mut self, properties: &Properties, at: BlockHandle) -> Result<()> {
        self.seen.max_key = std::mem::take(&mut self.last_key);
        self.check.entries = self.seen.entries;
        self.check.keys = self.seen.keys;
        self.check.tombstones = self.seen.tombstones;
        // What no entry tells.
        self.seen.options.clone_from(&properties.options);
        self.seen.longest_value = properties.longest_value.map(|_| self.seen.longest_value.unwrap_or(0));
        if self.seen != *properties {
            return Err(self
                .table
                .damage(at, DecodeError::damage("properties do not agree with the entries")));
        }
        if !self.table.meta().describes(properties) {
            return Err(self
                .table
                .damage(at, DecodeError::damage("the manifest does not agree with the entries")));
        }
        Ok(())
    }

    /// Checks that every byte before the footer belongs to exactly one block, or is padding: zero bytes before a
    /// block, which version 1 does not have.
    fn compare_coverage(&mut self) -> Result<()> {
        self.blocks.sort_unstable_by_key(|block| block.offset);
        let extension = self.footer.extension.unwrap_or_default();
        let (mut covered, mut padding) = (0, 0);
        for block in &self.blocks {
            let gap = block.offset.checked_sub(covered).filter(|gap| *gap < extension.padding_below());
            let Some(gap) = gap else {
                return Err(self.table.damage(*block, DecodeError::damage("blocks overlap or leave a gap")));
            };
            if gap > 0 && !self.zero_padding.contains(&covered) {
                self.check_padding(BlockHandle { offset: covered, len: gap })?;
            }
            padding += gap;
            covered = block.offset + block.len;
        }
        self.check.bytes += padding;
        let footer = BlockHandle { offset: covered, len: 0 };
        if covered + self.footer.len() as u64 != self.table.meta().len {
            return Err(self
                .table
                .damage(footer, DecodeError::damage("bytes between the blocks and the footer")));
        }
        let counted = (extension.blocks, extension.padding);
        if self.footer.extension.is_some() && counted != (self.blocks.len() as u64, padding) {
            return Err(self
                .table
                .damage(footer, DecodeError::damage("blocks or padding of a footer's extension")));
        }
        Ok(())
    }

    fn check_padding(&self, at: BlockHandle) -> Result<()> {
        let mut padding = AlignedBuffer::default();
        let bytes =
            padding.read(&*self.table.file()?, self.table.meta().offset + at.offset, at.len as usize)?;
        match bytes.iter().all(|byte| *byte == 0) {
            true => Ok(()),
            false => Err(self.table.damage(at, DecodeError::damage("padding that is not zero"))),
        }
    }
}
