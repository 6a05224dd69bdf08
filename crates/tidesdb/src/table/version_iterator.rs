//! An iterator over every version of a table, for flush and compaction. It reads data blocks through its own
//! window and index partitions past the cache, so that a compaction evicts nothing.

use std::ops::Range;
use std::sync::Arc;

use super::block::{check, BlockHandle, BlockKind, DecodeError};
use super::data_block::{read_version, BlockVersion};
use super::iterator::IndexCursor;
use super::read_ahead::{Window, LONGEST_STRETCH};
use super::reader::SsTable;
use crate::error::Result;
use crate::iter::VersionIterator;
use crate::types::{Entry, Kind, Seq};

/// Payload size, in bytes, beyond which the payload is freed once the next one needs less than half of it.
const KEEP: usize = 1 << 20;

/// An iterator over all entries of a table: keys ascending, versions of a key newest first.
pub struct SsTableVersionIterator {
    table: Arc<SsTable>,
    index: IndexCursor,
    window: Window,
    /// The current block's payload.
    payload: Vec<u8>,
    block_at: BlockHandle,
    slot: usize,
    /// End of the current key's body, then the start of its next version, if there is one.
    body_end: usize,
    older: Option<usize>,
    valid: bool,
    key: Vec<u8>,
    value: Range<usize>,
    seq: Seq,
    kind: Kind,
}

impl SsTable {
    /// A forward scan of every version, with its own read-ahead and without effect on the cache.
    pub fn version_iter(self: &Arc<Self>) -> SsTableVersionIterator {
        SsTableVersionIterator::new(Arc::clone(self))
    }
}

impl SsTableVersionIterator {
    fn new(table: Arc<SsTable>) -> SsTableVersionIterator {
        SsTableVersionIterator {
            table,
            index: IndexCursor::new(None),
            window: Window::default(),
            payload: Vec::new(),
            block_at: BlockHandle::default(),
            slot: 0,
            body_end: 0,
            older: None,
            valid: false,
            key: Vec::new(),
            value: 0..0,
            seq: 0,
            kind: Kind::PUT,
        }
    }

    /// The table.
    pub fn table(&self) -> &Arc<SsTable> {
        &self.table
    }

    /// Bytes of the buffers.
    #[cfg(test)]
    pub fn memory(&self) -> usize {
        self.window.capacity() + self.payload.capacity()
    }

    /// The place in the index of the block under it, or of the block that gave the last error.
    pub fn place(&self) -> (usize, usize) {
        self.index.place()
    }

    /// Recovers from an error of `seek` or `next`: moves to the first entry after the unreadable block, or to
    /// none. After an error of its own it may be called again.
    pub fn skip(&mut self) -> Result<()> {
        self.valid = false;
        self.next_block()
    }

    fn enter_block(&mut self) -> Result<()> {
        let handle = self.index.entry(&self.table)?.block;
        let read = self.read_block(handle);
        match (read, self.table.mirror()) {
            (Err(error), Some(mirror)) => {
                let block = mirror.read_uncached(handle, BlockKind::Data);
                let block = block.and_then(|block| mirror.keyed(block, handle)).map_err(|_| error)?;
                self.payload.clear();
                self.payload.extend_from_slice(&block);
            }
            (done, _) => done?,
        }
        self.block_at = handle;
        Ok(())
    }

    /// Reads the payload of the block at `handle` through the window.
    fn read_block(&mut self, handle: BlockHandle) -> Result<()> {
        let stored =
            self.window.block(&self.table, handle, self.table.stretch_from(handle, LONGEST_STRETCH))?;
        let mut open = || -> Result<(), DecodeError> {
            let encoded = check(stored, BlockKind::Data, handle.offset)?;
            self.payload.clear();
            let len = encoded.keyed_len()?;
            if self.payload.capacity() > KEEP && self.payload.capacity() / 2 > len {
                self.payload = Vec::new();
            }
            self.payload.resize(len, 0);
            encoded.read_keyed(&mut self.payload)
        };
        let opened = open();
        self.window.release_large();
        opened.map_err(|damage| self.table.damage(handle, damage))
    }

    /// Moves to the newest version of slot `slot`, which must exist.
    fn enter_slot(&mut self, slot: usize, same_block: bool) -> Result<()> {
        let keyed = self.table.parse(&self.payload, self.block_at)?;
        let body = keyed
            .read_key(slot, &mut self.key, same_block)
            .map_err(|damage| self.table.damage(self.block_at, damage))?;
        let start = body.start;
        self.body_end = body.end;
        self.slot = slot;
        self.enter_version(start)
    }

    fn enter_version(&mut self, at: usize) -> Result<()> {
        let version = read_version(&self.payload, at, self.body_end);
        let BlockVersion { seq, kind, value, more } =
            version.map_err(|damage| self.table.damage(self.block_at, damage))?;
        self.older = more.then_some(value.end);
        self.seq = self.table.seq_of(seq);
        self.kind = kind;
        self.value = value;
        self.valid = true;
        Ok(())
    }

    fn keys_in_block(&self) -> Result<usize> {
        Ok(self.table.parse(&self.payload, self.block_at)?.len())
    }

    fn next_block(&mut self) -> Result<()> {
        if self.index.next(&self.table)? {
            self.enter_block()?;
            self.enter_slot(0, false)?;
        }
        Ok(())
    }
}

impl VersionIterator for SsTableVersionIterator {
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.valid = false;
        if !self.index.seek(&self.table, key)? {
            return Ok(());
        }
        self.enter_block()?;
        let keyed = self.table.parse(&self.payload, self.block_at)?;
        let (slot, _) = keyed.lower_bound(key).map_err(|damage| self.table.damage(self.block_at, damage))?;
        if slot < keyed.len() {
            self.enter_slot(slot, false)
        } else {
            self.next_block()
        }
    }

    fn next(&mut self) -> Result<()> {
        if !std::mem::take(&mut self.valid) {
            return Ok(());
        }
        if let Some(at) = self.older {
            return self.enter_version(at);
        }
        if self.slot + 1 < self.keys_in_block()? {
            return self.enter_slot(self.slot + 1, true);
        }
        self.next_block()
    }

    fn valid(&self) -> bool {
        self.valid
    }

    fn key(&self) -> &[u8] {
        &self.key
    }

    fn entry(&self) -> Entry<'_> {
        let value = self.payload.get(self.value.clone()).unwrap_or_default();
        Entry::new(self.seq, self.kind, value)
    }
}
