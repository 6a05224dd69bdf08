//! Read-ahead: a stretch of a table in memory, for consecutive reads of its blocks.

use std::sync::Arc;

use super::block::{BlockHandle, BlockKind};
use super::reader::SsTable;
use crate::cache::{work, BlockRef, CachePriority};
use crate::error::Result;
use crate::io::File;
use crate::memory_gauge::HeldMemory;

/// Buffer size, in bytes, beyond which the buffer is freed once the next stretch needs less than half of it.
/// Large values cause such buffers.
const KEEP: usize = 1 << 20;

/// Read-ahead of long scans, in bytes.
const SCAN_WINDOW: usize = 64 << 10;

/// A stretch of the file in memory.
#[derive(Default)]
pub(super) struct Window {
    file: Option<Arc<dyn File>>,
    bytes: Vec<u8>,
    /// Offset of the stretch in the table.
    start: u64,
    held: HeldMemory,
}

impl Window {
    /// The stored bytes of the block at `handle`. If it is not in memory, reads `ahead` bytes from its start.
    pub fn block(&mut self, table: &SsTable, handle: BlockHandle, ahead: usize) -> Result<&[u8]> {
        let len = table.bounded(handle)?;
        let from = handle.offset.checked_sub(self.start).and_then(|from| usize::try_from(from).ok());
        let held = from.and_then(|from| Some(from..from.checked_add(len)?));
        let range = match held.filter(|range| range.end <= self.bytes.len()) {
            Some(range) => range,
            None => {
                let left = usize::try_from(table.meta().len - handle.offset).unwrap_or(usize::MAX);
                let needed = len.max(ahead.min(left));
                if self.bytes.capacity() / 2 > needed.max(KEEP) {
                    self.bytes = Vec::new();
                }
                self.bytes.clear();
                self.bytes.resize(needed, 0);
                self.held.set(self.bytes.capacity(), &table.cache().read_ahead);
                self.start = handle.offset;
                let file = match &self.file {
                    Some(file) => file,
                    None => self.file.insert(table.file()?),
                };
                let read = file.read_exact_at(&mut self.bytes, table.meta().offset + handle.offset);
                if read.is_err() {
                    self.bytes.clear();
                }
                read?;
                0..len
            }
        };
        Ok(&self.bytes[range])
    }

    /// Bytes of the buffer.
    #[cfg(test)]
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Frees the memory of a large block after the reader has made its own copy.
    pub fn release_large(&mut self) {
        if self.bytes.capacity() > KEEP {
            self.bytes = Vec::new();
            self.held.clear();
        }
    }

    /// Frees the memory and releases the file.
    pub fn close(&mut self) {
        if self.file.is_some() {
            *self = Window::default();
        }
    }
}

impl SsTable {
    /// The data block at `handle` for a long scan forward: from the cache, or through `window`. The read is not shared: it
    /// is longer than a block, and the others need windows of their own.
    pub(super) fn load_ahead(&self, handle: BlockHandle, window: &mut Window) -> Result<BlockRef> {
        let offset = self.meta().offset.wrapping_add(handle.offset);
        work::note_block();
        if let Some(block) = self.cache().get(self.file, offset) {
            return Ok(block);
        }
        work::block_read(
            || self.files.now_micros(),
            || {
                let block = window
                    .block(self, handle, SCAN_WINDOW)
                    .and_then(|stored| self.decode_block(stored, handle, BlockKind::Data));
                window.release_large();
                let block = self.or_mirror(block, |mirror| mirror.read_uncached(handle, BlockKind::Data))?;
                Ok(self.cache().insert(self.file, offset, block, CachePriority::NoEvict))
            },
        )
    }
}
