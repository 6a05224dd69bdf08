//! Point reads of a table: from the key range over the filter and the index to the key's data block.
//!
//! Each step rules the key out or gives the next block, so a read loads at most one block of each kind. The
//! exception is a key with versions in several data blocks ([`SsTable::get_in_later_blocks`]).

use std::ops::Range;

use super::block::{BlockHandle, BlockKind, DecodeError};
use super::data_block::{find_version, CONTINUED};
use super::footer::FilterLayout;
use super::index::{partition_filter, IndexEntry};
use super::iterator::IndexCursor;
use super::keyed_block::KeyedBlock;
use super::postings;
use super::reader::Opened;
use super::SsTable;
use crate::cache::{work, BlockRef, CachePriority};
use crate::error::Result;
use crate::types::{Entry, Kind, Seq};

/// Cache priority for the blocks of a point read.
const PRIORITY: Option<CachePriority> = Some(CachePriority::High);

/// A version found by a point read, with the block of its value.
#[derive(Clone, Debug)]
pub struct Hit {
    block: BlockRef,
    /// Position of the value in the block.
    range: Range<usize>,
    /// Sequence number.
    pub seq: Seq,
    /// Operation and flags; may be a tombstone.
    pub kind: Kind,
}

impl Hit {
    /// The value in its stored form ([`Entry::stored`]); empty for tombstones.
    #[inline]
    pub fn stored(&self) -> &[u8] {
        self.block.get(self.range.clone()).unwrap_or_default()
    }

    /// The version.
    #[inline]
    pub fn entry(&self) -> Entry<'_> {
        Entry::new(self.seq, self.kind, self.stored())
    }
}

impl SsTable {
    /// The newest version of `key` at or below `snapshot`, tombstones included. `hash` is the key's
    /// [`super::hash_key`].
    pub fn get(&self, key: &[u8], hash: u64, snapshot: Seq) -> Result<Option<Hit>> {
        if snapshot < self.meta().min_seq || !self.covers(key) {
            return Ok(None);
        }
        let Some(snapshot) = self.stored_snapshot(snapshot) else { return Ok(None) };
        let opened = self.opened()?;
        let layout = opened.footer.filter_layout;
        let benefit = &opened.filter_benefit;
        let asked = layout != FilterLayout::None && benefit.asks();
        if asked && layout == FilterLayout::Whole {
            let answer = self.passes_whole_filter(opened, hash);
            if !self.or_perhaps(opened, answer) {
                benefit.note_absent();
                return Ok(None);
            }
        }
        let block = self.find_data_block(opened, key, asked.then_some(hash))?;
        let found = match block {
            Some(handle) => self.get_in_block(handle, key, snapshot)?,
            None => None,
        };
        if layout != FilterLayout::None {
            match found {
                Some(_) if benefit.note_found(hash) => self.forget_filter(opened),
                Some(_) => {}
                None if !asked || block.is_none() => benefit.note_absent(),
                None => {}
            }
        }
        Ok(found)
    }

    /// The only data block in which `key` can begin. `None`: the filter of a partition rules the key's `hash` out, or the
    /// index ends before it. Without a hash no filter is asked.
    #[inline]
    fn find_data_block(&self, opened: &Opened, key: &[u8], hash: Option<u64>) -> Result<Option<BlockHandle>> {
        let held;
        let top = match &opened.top {
            Some(top) => top,
            None => {
                held = self.load_top(opened, PRIORITY)?;
                &held
            }
        };
        let top_at = opened.footer.top;
        let index = self.parse(top, top_at)?;
        let (at, _) = index.lower_bound(key).map_err(|damage| self.damage(top_at, damage))?;
        if at == index.len() {
            return Ok(None);
        }
        let (entry, after, end) =
            IndexEntry::read(&index, at).map_err(|damage| self.damage(top_at, damage))?;
        if opened.footer.index_levels == 1 {
            return Ok(Some(entry.block));
        }
        if let Some(hash) = hash.filter(|_| opened.footer.filter_layout == FilterLayout::Partitioned) {
            if !self.passes_partition_filter(opened, &index, (after, end), hash)? {
                return Ok(None);
            }
        }
        self.find_in_index_partition(entry.block, key).map(Some)
    }

    /// False if a partition's filter rules the hash out. `after..end` is the filter's handle in the entry of the top
    /// index, `top`.
    #[inline]
    fn passes_partition_filter(
        &self,
        opened: &Opened,
        top: &KeyedBlock<'_>,
        (after, end): (usize, usize),
        hash: u64,
    ) -> Result<bool> {
        let handle = partition_filter(top, after, end);
        let Some(handle) = handle.map_err(|damage| self.damage(opened.footer.top, damage))? else {
            return Ok(true);
        };
        let filter = self.load(handle, BlockKind::Filter, PRIORITY);
        Ok(self.or_perhaps(opened, filter.and_then(|filter| self.may_contain_hash(&filter, handle, hash))))
    }

    /// The data block for `key` in the index partition at `handle`, a partition with a separator not before
    /// the key.
    #[inline]
    fn find_in_index_partition(&self, handle: BlockHandle, key: &[u8]) -> Result<BlockHandle> {
        let partition = self.load(handle, BlockKind::Index, PRIORITY)?;
        let index = self.parse(&partition, handle)?;
        let (at, _) = index.lower_bound(key).map_err(|damage| self.damage(handle, damage))?;
        if at == index.len() {
            return Err(
                self.damage(handle, DecodeError::damage("an index partition ends before its separator"))
            );
        }
        let (entry, ..) = IndexEntry::read(&index, at).map_err(|damage| self.damage(handle, damage))?;
        Ok(entry.block)
    }

    /// The newest version of `key` at or below the stored `snapshot`, in the data block at `handle`.
    /// Continues in the next blocks with further versions of the key.
    #[inline]
    fn get_in_block(&self, handle: BlockHandle, key: &[u8], snapshot: Seq) -> Result<Option<Hit>> {
        let block = self.load(handle, BlockKind::Data, PRIORITY)?;
        if postings::is_packed(&block) {
            return self.get_in_packed(&block, handle, key, snapshot);
        }
        let keyed = self.parse(&block, handle)?;
        let (slot, exact) = keyed.lower_bound(key).map_err(|damage| self.damage(handle, damage))?;
        if !exact {
            return Ok(None);
        }
        let body = keyed.body(slot).map_err(|damage| self.damage(handle, damage))?;
        let version = find_version(&block, body.start, body.end, snapshot);
        match version.map_err(|damage| self.damage(handle, damage))? {
            Some(version) => {
                let seq = self.seq_of(version.seq);
                Ok(Some(Hit { block, range: version.value, seq, kind: version.kind }))
            }
            None if slot + 1 == keyed.len() && keyed.flags & CONTINUED != 0 => {
                self.get_in_later_blocks(key, snapshot)
            }
            None => Ok(None),
        }
    }

    /// The same in a packed block, where a key has one version.
    fn get_in_packed(
        &self,
        block: &[u8],
        handle: BlockHandle,
        key: &[u8],
        snapshot: Seq,
    ) -> Result<Option<Hit>> {
        let found = postings::find(block, key).map_err(|damage| self.damage(handle, damage))?;
        match found {
            Some(entry) if entry.seq <= snapshot => {
                let mut frame = self.cache().frame(entry.value.len());
                frame.copy_from_slice(&entry.value);
                let (seq, range) = (self.seq_of(entry.seq), 0..entry.value.len());
                Ok(Some(Hit { block: frame.freeze(), range, seq, kind: entry.kind }))
            }
            Some(entry) => {
                work::note_passed(1);
                match entry.goes_on {
                    true => self.get_in_later_blocks(key, snapshot),
                    false => Ok(None),
                }
            }
            None => Ok(None),
        }
    }

    /// Continues a read in the blocks after the first, for a key with versions in several blocks.
    #[cold]
    fn get_in_later_blocks(&self, key: &[u8], snapshot: Seq) -> Result<Option<Hit>> {
        let mut index = IndexCursor::new(Some(CachePriority::High));
        index.seek(self, key)?;
        while index.next(self)? {
            let handle = index.entry(self)?.block;
            let block = self.load(handle, BlockKind::Data, Some(CachePriority::Low))?;
            let block = self.keyed(block, handle)?;
            let keyed = self.parse(&block, handle)?;
            let body = keyed.body(0).map_err(|damage| self.damage(handle, damage))?;
            let version = find_version(&block, body.start, body.end, snapshot);
            if let Some(version) = version.map_err(|damage| self.damage(handle, damage))? {
                let seq = self.seq_of(version.seq);
                return Ok(Some(Hit { block, range: version.value, seq, kind: version.kind }));
            }
            if keyed.len() > 1 || keyed.flags & CONTINUED == 0 {
                break;
            }
        }
        Ok(None)
    }
}
