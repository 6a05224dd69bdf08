//! Scans of a table at a snapshot. [`IndexCursor`] walks the data blocks through one or two index levels;
//! [`SsTableIterator`] walks the keys and picks each key's version.

use std::ops::Range;
use std::sync::Arc;

use super::block::{BlockHandle, BlockKind, DecodeError};
use super::data_block::{find_version, CONTINUED, CONTINUES};
use super::index::IndexEntry;
use super::keyed_block::KeyedBlock;
use super::read_ahead::{ReadAhead, Window};
use super::reader::{Opened, SsTable};
use crate::cache::{BlockRef, CachePriority};
use crate::error::Result;
use crate::iter::{InternalIterator, KeyRange};
use crate::types::{Entry, Kind, Seq};

/// Blocks crossed in one go after which a scan evicts nothing; its blocks enter the cache only if there is
/// room.
const LONG_SCAN_BLOCKS: u32 = 32;

/// A position in the index: the entry of one data block, or none.
#[derive(Clone)]
pub(super) struct IndexCursor {
    priority: Option<CachePriority>,
    top: Option<BlockRef>,
    /// The partition (0 if it is the only one), once `seek`, `first` or `last` found one.
    part: usize,
    leaf: Option<BlockRef>,
    leaf_at: BlockHandle,
    at: usize,
}

impl IndexCursor {
    pub fn new(priority: Option<CachePriority>) -> IndexCursor {
        let leaf_at = BlockHandle::default();
        IndexCursor { priority, top: None, part: 0, leaf: None, leaf_at, at: 0 }
    }

    /// Sets the cache priority for further index blocks; `None`: they are not cached.
    pub fn set_priority(&mut self, priority: Option<CachePriority>) {
        self.priority = priority;
    }

    fn top(&mut self, table: &SsTable) -> Result<BlockRef> {
        if let Some(top) = &self.top {
            return Ok(top.clone());
        }
        let top = table.load_top(self.opened(table)?, self.priority)?;
        self.top = Some(top.clone());
        Ok(top)
    }

    /// The table, opened. A merge, without a priority, shares nothing with others.
    #[inline]
    fn opened<'t>(&self, table: &'t SsTable) -> Result<&'t Opened> {
        match self.priority {
            Some(_) => table.opened(),
            None => table.opened_by_merge(),
        }
    }

    /// Moves to partition `part`; false if it does not exist.
    fn open_leaf(&mut self, table: &SsTable, part: usize) -> Result<bool> {
        if self.leaf.is_some() && self.part == part {
            return Ok(true);
        }
        let top = self.top(table)?;
        let footer = &self.opened(table)?.footer;
        if footer.index_levels == 1 {
            if part > 0 {
                return Ok(false);
            }
            self.leaf_at = footer.top;
            self.leaf = Some(top);
        } else {
            let index = table.parse(&top, footer.top)?;
            if part >= index.len() {
                return Ok(false);
            }
            let entry = IndexEntry::read(&index, part).map_err(|damage| table.damage(footer.top, damage))?;
            let leaf_at = entry.0.block;
            self.leaf = Some(table.load(leaf_at, BlockKind::Index, self.priority)?);
            self.leaf_at = leaf_at;
        }
        self.part = part;
        Ok(true)
    }

    fn leaf_len(&self, table: &SsTable) -> Result<usize> {
        match &self.leaf {
            Some(leaf) => Ok(table.parse(leaf, self.leaf_at)?.len()),
            None => Ok(0),
        }
    }

    /// Moves to the only block in which `key` can begin: the first with a separator at or above it. False if
    /// there is none.
    pub fn seek(&mut self, table: &SsTable, key: &[u8]) -> Result<bool> {
        let footer = &self.opened(table)?.footer;
        let part = if footer.index_levels == 1 {
            0
        } else {
            let top = self.top(table)?;
            let index = table.parse(&top, footer.top)?;
            index.lower_bound(key).map_err(|damage| table.damage(footer.top, damage))?.0
        };
        if !self.open_leaf(table, part)? {
            return Ok(false);
        }
        let Some(leaf) = &self.leaf else { return Ok(false) };
        let index = table.parse(leaf, self.leaf_at)?;
        self.at = index.lower_bound(key).map_err(|damage| table.damage(self.leaf_at, damage))?.0;
        if self.at < index.len() {
            return Ok(true);
        }
        if footer.index_levels == 2 {
            return Err(table
                .damage(self.leaf_at, DecodeError::damage("an index partition ends before its separator")));
        }
        Ok(false)
    }

    /// Moves to the block with the entry of this rank, or to the last block. False without blocks.
    pub fn seek_rank(&mut self, table: &SsTable, rank: u64) -> Result<bool> {
        let footer = &self.opened(table)?.footer;
        let part = if footer.index_levels == 1 {
            0
        } else {
            let top = self.top(table)?;
            last_before(&table.parse(&top, footer.top)?, rank)
                .map_err(|damage| table.damage(footer.top, damage))?
        };
        if !self.open_leaf(table, part)? {
            return Ok(false);
        }
        let Some(leaf) = &self.leaf else { return Ok(false) };
        let index = table.parse(leaf, self.leaf_at)?;
        self.at = last_before(&index, rank).map_err(|damage| table.damage(self.leaf_at, damage))?;
        Ok(true)
    }

    /// Moves to the first block.
    pub fn first(&mut self, table: &SsTable) -> Result<bool> {
        self.at = 0;
        self.open_leaf(table, 0)
    }

    /// Moves to the last block.
    pub fn last(&mut self, table: &SsTable) -> Result<bool> {
        let footer = &self.opened(table)?.footer;
        let part = if footer.index_levels == 1 {
            0
        } else {
            let top = self.top(table)?;
            table.parse(&top, footer.top)?.len() - 1
        };
        if !self.open_leaf(table, part)? {
            return Ok(false);
        }
        self.at = self.leaf_len(table)? - 1;
        Ok(true)
    }

    /// Moves to the next block. On the last one it stays and returns false.
    pub fn next(&mut self, table: &SsTable) -> Result<bool> {
        if self.next_in_leaf(table)? {
            return Ok(true);
        }
        if !self.open_leaf(table, self.part + 1)? {
            return Ok(false);
        }
        self.at = 0;
        Ok(true)
    }

    /// Moves to the previous block. On the first one it stays and returns false.
    pub fn prev(&mut self, table: &SsTable) -> Result<bool> {
        if self.prev_in_leaf() {
            return Ok(true);
        }
        if self.part == 0 || !self.open_leaf(table, self.part - 1)? {
            return Ok(false);
        }
        self.at = self.leaf_len(table)? - 1;
        Ok(true)
    }

    /// Moves to the next block, as far as its index partition is at hand.
    pub fn next_in_leaf(&mut self, table: &SsTable) -> Result<bool> {
        let there = self.at + 1 < self.leaf_len(table)?;
        self.at += usize::from(there);
        Ok(there)
    }

    /// Moves to the previous block, as far as its index partition is at hand.
    pub fn prev_in_leaf(&mut self) -> bool {
        let there = self.at > 0;
        self.at -= usize::from(there);
        there
    }

    /// The partition, and the entry in it.
    pub fn place(&self) -> (usize, usize) {
        (self.part, self.at)
    }

    /// The index entry at the cursor.
    pub fn entry(&self, table: &SsTable) -> Result<IndexEntry> {
        let leaf = self.leaf.as_deref().unwrap_or_default();
        let index = table.parse(leaf, self.leaf_at)?;
        let entry = IndexEntry::read(&index, self.at);
        Ok(entry.map_err(|damage| table.damage(self.leaf_at, damage))?.0)
    }

    /// Reads the separator of the entry at the cursor.
    pub fn read_separator(&self, table: &SsTable, separator: &mut Vec<u8>) -> Result<()> {
        let leaf = self.leaf.as_deref().unwrap_or_default();
        let index = table.parse(leaf, self.leaf_at)?;
        let read = index.read_key(self.at, separator, false);
        read.map_err(|damage| table.damage(self.leaf_at, damage))?;
        Ok(())
    }
}

/// Position of the last index entry beginning at or before this rank.
fn last_before(index: &KeyedBlock<'_>, rank: u64) -> std::result::Result<usize, DecodeError> {
    let (mut low, mut high) = (0, index.len());
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if IndexEntry::read(index, middle)?.0.before <= rank {
            low = middle;
        } else {
            high = middle;
        }
    }
    Ok(low)
}

/// An iterator over a table at a snapshot: each key once, with its newest version at or below the snapshot.
///
/// Position: a slot of a data block. For a key with versions in several blocks it is the slot of the visible
/// version; steps skip all of the key's slots.
pub struct SsTableIterator {
    table: Arc<SsTable>,
    /// Compared with stored sequence numbers. `None`: no entry is visible.
    snapshot: Option<Seq>,
    index: IndexCursor,
    block: Option<BlockRef>,
    block_at: BlockHandle,
    /// Number of keys in the block (0 without a block), and the block's flags.
    keys: usize,
    flags: u32,
    slot: usize,
    /// Number of blocks entered since the last seek.
    crossed: u32,
    /// What was read ahead, and how far the next read goes.
    window: Window,
    ahead: ReadAhead,
    /// Direction of the scan.
    forward: bool,
    valid: bool,
    key: Vec<u8>,
    /// True if `key` is a key of `block`; its prefix is then reused.
    key_in_block: bool,
    value: Range<usize>,
    seq: Seq,
    kind: Kind,
}

/// The visibility of the slot under a scan.
enum BlockSlot {
    /// The key has a visible version, now the current one.
    Visible,
    /// The key has none.
    Hidden,
}

impl SsTable {
    /// A scan at `snapshot` in both directions, through the cache.
    pub fn iter(self: &Arc<Self>, snapshot: Seq) -> SsTableIterator {
        SsTableIterator::new(Arc::clone(self), snapshot, None)
    }

    /// The same for a scan of `range`: it reads ahead to that end by one request. Keys out of the range are found too.
    pub fn iter_within(self: &Arc<Self>, snapshot: Seq, range: &Arc<KeyRange>) -> SsTableIterator {
        SsTableIterator::new(Arc::clone(self), snapshot, Some(Arc::clone(range)))
    }
}

impl SsTableIterator {
    fn new(table: Arc<SsTable>, snapshot: Seq, range: Option<Arc<KeyRange>>) -> SsTableIterator {
        SsTableIterator {
            snapshot: table.stored_snapshot(snapshot),
            table,
            index: IndexCursor::new(Some(CachePriority::High)),
            block: None,
            block_at: BlockHandle::default(),
            keys: 0,
            flags: 0,
            slot: 0,
            crossed: 0,
            window: Window::default(),
            ahead: ReadAhead::new(range),
            forward: true,
            valid: false,
            key: Vec::new(),
            key_in_block: false,
            value: 0..0,
            seq: 0,
            kind: Kind::PUT,
        }
    }

    /// Loads the block at the index cursor, unless it is the current one.
    fn enter_block(&mut self) -> Result<()> {
        let handle = self.index.entry(&self.table)?.block;
        if self.block.is_some() && handle == self.block_at {
            return Ok(());
        }
        self.block = None;
        self.key_in_block = false;
        self.crossed += 1;
        self.keys = 0;
        let priority = match self.crossed {
            0..=1 => CachePriority::High,
            2..=LONG_SCAN_BLOCKS => CachePriority::Low,
            _ => CachePriority::NoEvict,
        };
        let SsTableIterator { table, window, ahead, index, forward, .. } = self;
        let block =
            table.load_scanned(handle, priority, window, || ahead.stretch(table, index, handle, *forward))?;
        let block = table.keyed(block, handle)?;
        let keyed = self.table.parse(&block, handle)?;
        (self.keys, self.flags) = (keyed.len(), keyed.flags);
        self.block = Some(block);
        self.block_at = handle;
        Ok(())
    }

    /// Finds the visible version of the key that begins at the current slot. May move on to the key's slots
    /// in later blocks.
    fn resolve(&mut self) -> Result<BlockSlot> {
        let Some(snapshot) = self.snapshot else { return Ok(BlockSlot::Hidden) };
        loop {
            let Some(block) = &self.block else { return Ok(BlockSlot::Hidden) };
            let keyed = self.table.parse(block, self.block_at)?;
            let damage = |damage| self.table.damage(self.block_at, damage);
            let body = keyed.read_key(self.slot, &mut self.key, self.key_in_block).map_err(damage)?;
            self.key_in_block = true;
            if let Some(version) = find_version(block, body.start, body.end, snapshot).map_err(damage)? {
                self.value = version.value;
                self.seq = self.table.seq_of(version.seq);
                self.kind = version.kind;
                self.valid = true;
                return Ok(BlockSlot::Visible);
            }
            let goes_on = self.slot + 1 == self.keys && self.flags & CONTINUED != 0;
            if !goes_on || !self.next_block()? {
                return Ok(BlockSlot::Hidden);
            }
        }
    }

    /// Moves to the first slot of the next block; false if there is none.
    fn next_block(&mut self) -> Result<bool> {
        self.forward = true;
        if !self.index.next(&self.table)? {
            return Ok(false);
        }
        self.enter_block()?;
        self.slot = 0;
        Ok(true)
    }

    /// Moves past the current key to the first slot of the next one; false at the end.
    #[inline]
    fn next_key(&mut self) -> Result<bool> {
        loop {
            if self.slot + 1 < self.keys {
                self.slot += 1;
                return Ok(true);
            }
            let flags = self.flags;
            if !self.next_block()? {
                return Ok(false);
            }
            if flags & CONTINUED == 0 {
                return Ok(true);
            }
            // The first slot of this block is still the same key: go round and step over it.
        }
    }

    /// Moves to the first slot of the previous key; false at the beginning.
    fn prev_key(&mut self) -> Result<bool> {
        loop {
            if self.slot > 0 {
                self.slot -= 1;
                break;
            }
            let flags = self.flags;
            if !self.prev_block()? {
                return Ok(false);
            }
            if flags & CONTINUES == 0 {
                break;
            }
            // The last slot of this block is still the same key: go round and step over it.
        }
        // Where that key began in an earlier block, go there.
        while self.slot == 0 && self.flags & CONTINUES != 0 {
            if !self.prev_block()? {
                return Err(self
                    .table
                    .damage(self.block_at, DecodeError::damage("a key without its beginning")));
            }
        }
        Ok(true)
    }

    /// Moves to the last slot of the previous block; false if there is none.
    fn prev_block(&mut self) -> Result<bool> {
        self.forward = false;
        if !self.index.prev(&self.table)? {
            return Ok(false);
        }
        self.enter_block()?;
        self.slot = self.keys - 1;
        Ok(true)
    }

    /// Moves forward to the first key with a visible version, from the one at the current slot on.
    #[inline]
    fn settle_forward(&mut self) -> Result<()> {
        loop {
            if let BlockSlot::Visible = self.resolve()? {
                return Ok(());
            }
            if !self.next_key()? {
                return Ok(());
            }
        }
    }

    /// Moves backward to the first key with a visible version, from the one at the current slot on.
    fn settle_backward(&mut self) -> Result<()> {
        loop {
            if let BlockSlot::Visible = self.resolve()? {
                return Ok(());
            }
            if !self.prev_key()? {
                return Ok(());
            }
        }
    }

    /// Visits the keys after the current slot whose versions are all in this block. Returns true with the
    /// scan at the key refused by `visit`, or false with the scan at the last one visited.
    fn walk_block(&mut self, visit: &mut dyn FnMut(&[u8], Entry<'_>) -> bool) -> Result<bool> {
        let (Some(snapshot), Some(block)) = (self.snapshot, &self.block) else { return Ok(false) };
        let keyed = self.table.parse(block, self.block_at)?;
        let damage = |damage| self.table.damage(self.block_at, damage);
        // Older versions of the last key may stand in the next block.
        let whole = self.keys - usize::from(self.flags & CONTINUED != 0);
        while self.slot + 1 < whole {
            self.slot += 1;
            let body = keyed.read_key(self.slot, &mut self.key, self.key_in_block).map_err(damage)?;
            self.key_in_block = true;
            let Some(version) = find_version(block, body.start, body.end, snapshot).map_err(damage)? else {
                continue;
            };
            let seq = self.table.seq_of(version.seq);
            let value = block.get(version.value.clone()).unwrap_or_default();
            if !visit(&self.key, Entry::new(seq, version.kind, value)) {
                (self.value, self.seq, self.kind) = (version.value, seq, version.kind);
                self.valid = true;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Prepares a seek; false if the snapshot sees no entry of the table.
    fn begin_seek(&mut self, forward: bool) -> bool {
        self.valid = false;
        self.crossed = 0;
        self.forward = forward;
        self.ahead.begin();
        self.index.set_priority(Some(CachePriority::High));
        self.snapshot.is_some()
    }

    /// Loads the block of `key`. Returns the slot of its first key at or above `key` (perhaps one after the
    /// last), and true if the two are equal. `None` if all keys are below `key`.
    fn locate(&mut self, key: &[u8]) -> Result<Option<(usize, bool)>> {
        // Where the last seek ended is where the next one often begins.
        if let Some(block) = &self.block {
            let keyed = self.table.parse(block, self.block_at)?;
            let (slot, exact) =
                keyed.lower_bound(key).map_err(|damage| self.table.damage(self.block_at, damage))?;
            if slot > 0 && slot < keyed.len() {
                return Ok(Some((slot, exact)));
            }
        }
        // After an error the block must not be taken for the one that the index stands on.
        let (block, keys) = (self.block.take(), std::mem::take(&mut self.keys));
        if !self.index.seek(&self.table, key)? {
            return Ok(None);
        }
        (self.block, self.keys) = (block, keys);
        self.enter_block()?;
        let Some(block) = &self.block else { return Ok(None) };
        let keyed = self.table.parse(block, self.block_at)?;
        let found = keyed.lower_bound(key).map_err(|damage| self.table.damage(self.block_at, damage))?;
        Ok(Some(found))
    }
}

impl SsTableIterator {
    /// Moves to `key` if it has a visible version here, otherwise to no entry. Ascending keys are mostly
    /// found in the block of the previous one.
    pub fn find(&mut self, key: &[u8]) -> Result<bool> {
        if !self.begin_seek(true) {
            return Ok(false);
        }
        let Some((slot, true)) = self.locate(key)? else { return Ok(false) };
        self.slot = slot;
        Ok(matches!(self.resolve()?, BlockSlot::Visible))
    }
}

impl InternalIterator for SsTableIterator {
    fn seek_to_first(&mut self) -> Result<()> {
        if !self.begin_seek(true) {
            return Ok(());
        }
        if self.index.first(&self.table)? {
            self.enter_block()?;
            self.slot = 0;
            self.settle_forward()?;
        }
        Ok(())
    }

    fn seek_to_last(&mut self) -> Result<()> {
        if !self.begin_seek(false) {
            return Ok(());
        }
        if self.index.last(&self.table)? {
            self.enter_block()?;
            // One slot after the last, from where a step back finds the last key's beginning.
            self.slot = self.keys;
            if self.prev_key()? {
                self.settle_backward()?;
            }
        }
        Ok(())
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        if !self.begin_seek(true) {
            return Ok(());
        }
        let Some((slot, _)) = self.locate(key)? else { return Ok(()) };
        self.slot = slot;
        if slot == self.keys && !self.next_block()? {
            return Ok(());
        }
        self.settle_forward()
    }

    fn seek_for_prev(&mut self, key: &[u8]) -> Result<()> {
        if !self.begin_seek(false) {
            return Ok(());
        }
        let Some((slot, exact)) = self.locate(key)? else { return self.seek_to_last() };
        self.slot = slot;
        if exact {
            if let BlockSlot::Visible = self.resolve()? {
                return Ok(());
            }
        }
        if self.prev_key()? {
            self.settle_backward()?;
        }
        Ok(())
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        if std::mem::take(&mut self.valid) && self.next_key()? {
            self.settle_forward()?;
        }
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        if std::mem::take(&mut self.valid) && self.prev_key()? {
            self.settle_backward()?;
        }
        Ok(())
    }

    #[inline]
    fn valid(&self) -> bool {
        self.valid
    }

    #[inline]
    fn key(&self) -> &[u8] {
        &self.key
    }

    #[inline]
    fn entry(&self) -> Entry<'_> {
        let block = self.block.as_deref().unwrap_or_default();
        let value = block.get(self.value.clone()).unwrap_or_default();
        Entry::new(self.seq, self.kind, value)
    }

    fn walk(&mut self, visit: &mut dyn FnMut(&[u8], Entry<'_>) -> bool) -> Result<()> {
        while self.valid && visit(&self.key, self.entry()) {
            self.valid = false;
            if self.walk_block(visit)? {
                break;
            }
            if self.next_key()? {
                self.settle_forward()?;
            }
        }
        Ok(())
    }
}
