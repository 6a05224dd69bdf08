//! Read-ahead: a stretch of a table in memory, for consecutive reads of its blocks. A scan with a known end reads up to it
//! by one request; one without begins with a block and doubles.

use std::sync::Arc;

use super::block::{BlockHandle, BlockKind};
use super::footer::FOOTER_LEN;
use super::iterator::IndexCursor;
use super::reader::SsTable;
use crate::cache::{work, BlockRef, CachePriority};
use crate::error::Result;
use crate::io::{AlignedBuffer, File};
use crate::iter::KeyRange;
use crate::memory_gauge::HeldMemory;
use crate::mutant::{self, Mutant};
use crate::sync::note;

/// Buffer size, in bytes, beyond which the buffer is freed once the next stretch needs less than half of it.
/// Large values cause such buffers.
const KEEP: usize = 1 << 20;

/// The first stretch of a scan with a known end, in bytes, where the end is further away. A scan may be given up long before
/// its end, after `LIMIT` rows.
const FIRST_STRETCH: u64 = 32 << 10;

/// The longest run of cached blocks that a stretch reads over, in bytes.
const MOST_READ_OVER: u64 = 16 << 10;

/// The longest stretch, in bytes.
pub(super) const LONGEST_STRETCH: u64 = 256 << 10;

/// A stretch of the file in memory.
#[derive(Default)]
pub(super) struct Window {
    file: Option<Arc<dyn File>>,
    buffer: AlignedBuffer,
    /// Offset of the stretch in the table.
    start: u64,
    /// The last stretch that could not be read. Its blocks are read alone: a bad sector fails every longer read over it.
    failed: Option<BlockHandle>,
    held: HeldMemory,
}

impl Window {
    /// True if the block at `handle` is in memory.
    pub fn holds(&self, handle: BlockHandle) -> bool {
        self.held(handle).is_some()
    }

    /// True if the block at `handle` lies in a stretch that could not be read.
    fn has_failed(&self, handle: BlockHandle) -> bool {
        self.failed.is_some_and(|failed| failed.offset <= handle.offset && handle.end() <= failed.end())
    }

    /// The stored bytes of the block at `handle`. If it is not in memory, reads `stretch`, which has it within, or, after an
    /// error, the block alone: a bad sector of another block is no error of this one.
    pub fn block(&mut self, table: &SsTable, handle: BlockHandle, stretch: BlockHandle) -> Result<&[u8]> {
        table.bounded(handle)?;
        if !self.holds(handle) {
            let stretch = if self.has_failed(handle) { handle } else { stretch };
            match self.read(table, stretch) {
                Err(_) if stretch != handle => {
                    note("table: block read alone after an error");
                    self.failed = Some(stretch);
                    if !mutant::is(Mutant::FailedStretchTaken) {
                        self.read(table, handle)?;
                    }
                }
                done => done?,
            }
        }
        Ok(self.held(handle).unwrap_or_default())
    }

    fn read(&mut self, table: &SsTable, stretch: BlockHandle) -> Result<()> {
        let needed = table.bounded(stretch)?;
        if self.buffer.capacity() / 2 > needed.max(KEEP) {
            self.buffer = AlignedBuffer::default();
        }
        let file = match &self.file {
            Some(file) => file,
            None => self.file.insert(table.file()?),
        };
        self.start = stretch.offset;
        let at = table.meta().offset + stretch.offset;
        self.buffer.make_room(&**file, at, needed);
        // Others measure it while the disk is read.
        self.held.set(self.buffer.capacity(), &table.cache().read_ahead);
        self.buffer.read(&**file, at, needed).map(|_| ())
    }

    /// Bytes of the table that are in memory, such as padding.
    pub fn held(&self, place: BlockHandle) -> Option<&[u8]> {
        let from = place.offset.checked_sub(self.start)?;
        let upto = place.end()?.checked_sub(self.start)?;
        self.buffer.bytes().get(usize::try_from(from).ok()?..usize::try_from(upto).ok()?)
    }

    /// Bytes of the last read.
    pub fn read_bytes(&self) -> usize {
        self.buffer.read_bytes()
    }

    /// Bytes of the buffer.
    #[cfg(test)]
    pub fn capacity(&self) -> usize {
        self.buffer.capacity()
    }

    /// Frees the memory of a large block after the reader has made its own copy.
    pub fn release_large(&mut self) {
        if self.buffer.capacity() > KEEP {
            self.buffer = AlignedBuffer::default();
            self.held.clear();
        }
    }
}

/// How far a scan reads ahead. Each stretch read is followed by one twice as long.
pub(super) struct ReadAhead {
    /// The scan's keys, if its end is known.
    range: Option<Arc<KeyRange>>,
    /// Bytes of the next stretch; 0: a block alone.
    next: u64,
}

impl ReadAhead {
    /// For a scan of `range`; `None`: it may end anywhere.
    pub fn new(range: Option<Arc<KeyRange>>) -> ReadAhead {
        ReadAhead { range, next: 0 }
    }

    /// A scan begins.
    pub fn begin(&mut self) {
        self.next = 0;
    }

    /// The blocks to be read with the one under `index`, at `handle`: those that follow it in the scan's direction up to its
    /// end, as far as they stand one after the other. The last of them is not cached; cached ones between are read over: a
    /// few of them cost less than one more request. Damage of the index after this block ends them: the scan may end before.
    pub fn stretch(
        &mut self,
        table: &SsTable,
        index: &IndexCursor,
        handle: BlockHandle,
        forward: bool,
    ) -> BlockHandle {
        let end =
            self.range
                .as_ref()
                .and_then(|range| if forward { range.upper.as_ref() } else { range.lower.as_ref() });
        let most = match (self.next, end) {
            (0, Some(_)) => FIRST_STRETCH,
            (next, _) => next,
        };
        self.next = most.max(handle.len).saturating_mul(2).min(LONGEST_STRETCH);
        let mut stretch = handle;
        if most <= handle.len {
            return stretch;
        }
        let mut index = index.clone();
        let mut separator = Vec::new();
        let (mut reached, mut read_over) = (handle, 0);
        while let Ok(Some(next)) = next_within(table, &mut index, end, forward, &mut separator) {
            match reached.joined(next).filter(|joined| joined.len <= most && table.bounded(*joined).is_ok()) {
                Some(joined) => reached = joined,
                None => break,
            }
            if table.is_cached(next) {
                read_over += next.len;
                if read_over > MOST_READ_OVER {
                    break;
                }
                continue;
            }
            if read_over > 0 {
                note("table: cached blocks read over");
            }
            (stretch, read_over) = (reached, 0);
        }
        stretch
    }
}

/// Moves `index` to the next block in the scan's direction, if its index partition is at hand and keys of it may lie before
/// the scan's end.
fn next_within(
    table: &SsTable,
    index: &mut IndexCursor,
    end: Option<&Vec<u8>>,
    forward: bool,
    separator: &mut Vec<u8>,
) -> Result<Option<BlockHandle>> {
    if forward {
        // Keys of the next block are at or above this one's separator.
        if let Some(end) = end {
            index.read_separator(table, separator)?;
            if *separator >= *end {
                return Ok(None);
            }
        }
        if !index.next_in_leaf(table)? {
            return Ok(None);
        }
    } else {
        if !index.prev_in_leaf() {
            return Ok(None);
        }
        // Keys of that block are at or below its separator.
        if let Some(end) = end {
            index.read_separator(table, separator)?;
            if *separator < *end {
                return Ok(None);
            }
        }
    }
    Ok(Some(index.entry(table)?.block))
}

impl SsTable {
    /// The data block at `handle`, under `index`, for a scan: from the cache, through `window`, or, where it is read alone,
    /// together with others that miss it. A longer read is not shared: the others need windows of their own.
    pub(super) fn load_scanned(
        &self,
        handle: BlockHandle,
        priority: CachePriority,
        window: &mut Window,
        ahead: impl FnOnce() -> BlockHandle,
    ) -> Result<BlockRef> {
        let offset = self.meta().offset.wrapping_add(handle.offset);
        work::note_block();
        if let Some(block) = self.cache().get(self.file, offset) {
            return Ok(block);
        }
        if let Some(block) = self.load_stored_copy(offset, handle, priority) {
            return Ok(block);
        }
        let is_held = window.holds(handle);
        let stretch = if is_held || window.has_failed(handle) { handle } else { ahead() };
        if !is_held && stretch == handle {
            return self.load_from_file(offset, handle, BlockKind::Data, Some(priority));
        }
        if !is_held {
            note("table: blocks read together");
        }
        work::block_read(
            || self.files.now_micros(),
            || {
                let mut priority = priority;
                let decode = |stored: &[u8]| {
                    let block = self.decode_block(stored, handle, BlockKind::Data)?;
                    priority = self.admit(offset, stored, &block, BlockKind::Data, priority);
                    Ok(block)
                };
                let block = match window.block(self, handle, stretch).map(decode) {
                    Ok(block) => {
                        if !is_held {
                            self.files.note_read(window.read_bytes());
                        }
                        block
                    }
                    Err(error) => Err(error),
                };
                window.release_large();
                let block = self.or_mirror(block, |mirror| mirror.read_uncached(handle, BlockKind::Data))?;
                Ok(self.cache().insert(self.file, offset, block, priority))
            },
        )
    }

    /// The stretch from the block at `handle` on, about `bytes` long, or to the end of the table's blocks.
    pub(super) fn stretch_from(&self, handle: BlockHandle, bytes: u64) -> BlockHandle {
        let left = self.meta().len.saturating_sub(FOOTER_LEN as u64).saturating_sub(handle.offset);
        BlockHandle { offset: handle.offset, len: handle.len.max(bytes.min(left)) }
    }

    fn is_cached(&self, handle: BlockHandle) -> bool {
        let offset = self.meta().offset.wrapping_add(handle.offset);
        self.cache().holds(self.file, offset) || self.cache().holds_stored_copy(self.file, offset)
    }
}
