//! Read-ahead: a stretch of a table in memory, from which blocks are taken that are read one behind the other.

use std::sync::Arc;

use super::block::BlockHandle;
use super::reader::SsTable;
use crate::error::Result;
use crate::io::File;
use crate::memory_gauge::{HeldMemory, READ_AHEAD};

/// A buffer beyond it is given back when the next stretch needs less than half of it: a large value made it.
const KEEP: usize = 1 << 20;

/// A stretch of the file in memory.
pub(super) struct Window {
    file: Option<Arc<dyn File>>,
    bytes: Vec<u8>,
    /// Where it begins in the table.
    start: u64,
    held: HeldMemory,
}

impl Default for Window {
    fn default() -> Window {
        Window { file: None, bytes: Vec::new(), start: 0, held: HeldMemory::none(&READ_AHEAD) }
    }
}

impl Window {
    /// The stored bytes of the block at `handle`. When it has to be read, so is what stands behind it, `ahead`
    /// bytes in all.
    pub fn block(&mut self, table: &SsTable, handle: BlockHandle, ahead: usize) -> Result<&[u8]> {
        let len = table.bounded(handle)?;
        let within = |window: &Window| {
            let from = usize::try_from(handle.offset.checked_sub(window.start)?).ok()?;
            let range = from..from.checked_add(len)?;
            (range.end <= window.bytes.len()).then_some(range)
        };
        let range = match within(self) {
            Some(range) => range,
            None => {
                let behind = usize::try_from(table.meta().len - handle.offset).unwrap_or(usize::MAX);
                let needed = len.max(ahead.min(behind));
                if self.bytes.capacity() / 2 > needed.max(KEEP) {
                    self.bytes = Vec::new();
                }
                self.bytes.clear();
                self.bytes.resize(needed, 0);
                self.held.set(self.bytes.capacity());
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

    /// Bytes of its buffer.
    #[cfg(test)]
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Gives back the memory of a large block, of which the reader has its own copy now.
    pub fn release_large(&mut self) {
        if self.bytes.capacity() > KEEP {
            self.bytes = Vec::new();
            self.held.set(0);
        }
    }

    /// Gives back memory and file.
    pub fn close(&mut self) {
        if self.file.is_some() {
            *self = Window::default();
        }
    }
}
