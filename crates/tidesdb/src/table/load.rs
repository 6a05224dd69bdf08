//! Blocks of a table: from the cache, from a stored copy in it, or from the file.

use std::cell::RefCell;

use super::block::{
    check, check_stored, is_stored_plain, BlockHandle, BlockKind, DecodeError, EncodedBlock, TRAILER_LEN,
};
use super::data_block::{CONTINUED, CONTINUES};
use super::filter;
use super::keyed_block::KeyedBlock;
use super::postings;
use super::reader::SsTable;
use crate::cache::work;
use crate::cache::{BlockRef, CachePriority};
use crate::error::Result;
use crate::io::{AlignedBuffer, File};
use crate::sync::note;

/// Largest buffer for stored blocks kept by a thread, in bytes: the size of an ordinary block.
const SCRATCH_KEEP: usize = 32 << 10;

/// Size, in bytes, of a block too large for a second copy.
const LARGE_BLOCK: usize = 1 << 20;

impl SsTable {
    /// The block at `handle`, from the cache or from the file. Inserts it into the cache with `priority`, if
    /// given.
    #[inline]
    pub(super) fn load(
        &self,
        handle: BlockHandle,
        kind: BlockKind,
        priority: Option<CachePriority>,
    ) -> Result<BlockRef> {
        let offset = self.meta().offset.wrapping_add(handle.offset);
        work::note_block();
        match self.cache().get(self.file, offset) {
            Some(block) => Ok(block),
            None => self.load_missing(offset, handle, kind, priority),
        }
    }

    /// The rest of `load`, for a block missing from the cache. Reads of merges, without a priority, share nothing: a
    /// client does not wait for a thread of low priority.
    #[cold]
    fn load_missing(
        &self,
        offset: u64,
        handle: BlockHandle,
        kind: BlockKind,
        priority: Option<CachePriority>,
    ) -> Result<BlockRef> {
        let copy = match (kind, priority) {
            (BlockKind::Data, Some(priority)) => self.load_stored_copy(offset, handle, priority),
            _ => None,
        };
        copy.map_or_else(|| self.load_from_file(offset, handle, kind, priority), Ok)
    }

    /// The block from its stored copy in the cache.
    pub(super) fn load_stored_copy(
        &self,
        offset: u64,
        handle: BlockHandle,
        priority: CachePriority,
    ) -> Option<BlockRef> {
        let copy = self.cache().stored_copy(self.file, offset, priority)?;
        match self.decode_block(&copy.bytes, handle, BlockKind::Data) {
            Ok(block) => Some(self.cache().insert_from_copy(self.file, offset, block, &copy)),
            // Memory that changed: the file has the block.
            Err(_) => {
                note("cache: stored copy damaged");
                self.cache().drop_stored_copy(self.file, offset);
                None
            }
        }
    }

    /// The block from the file, for all threads that want it now.
    pub(super) fn load_from_file(
        &self,
        offset: u64,
        handle: BlockHandle,
        kind: BlockKind,
        priority: Option<CachePriority>,
    ) -> Result<BlockRef> {
        let mut damage = None;
        let admit = |stored: &[u8], block: BlockRef| {
            let priority = priority.unwrap_or(CachePriority::NoEvict);
            let priority = self.admit(offset, stored, &block, kind, priority);
            (block, priority)
        };
        let mut read = || {
            let block = self.read(handle, kind, admit);
            self.or_mirror_unlogged(block, |mirror| mirror.read(handle, kind, admit), &mut damage)
        };
        let shared = || match priority {
            Some(priority) => self.cache().read(self.file, offset, priority, read),
            None => Ok(read()?.0),
        };
        let block = work::block_read(|| self.files.now_micros(), shared);
        // Nobody waits for this thread any more.
        self.tell(damage);
        block
    }

    /// The block at `handle` from this copy's file, past the cache.
    pub(super) fn read_uncached(&self, handle: BlockHandle, kind: BlockKind) -> Result<BlockRef> {
        self.read(handle, kind, |_, block| block)
    }

    /// Takes a stored copy of a data block that was read and verified, if this pays. Returns the priority of the block.
    pub(super) fn admit(
        &self,
        offset: u64,
        stored: &[u8],
        block: &BlockRef,
        kind: BlockKind,
        priority: CachePriority,
    ) -> CachePriority {
        match kind {
            // The page cache has blocks as they are stored: it is this tier where tables are read through it.
            BlockKind::Data if self.files.is_direct() => {
                self.cache().admit((self.file, offset), stored, block, priority)
            }
            // Parts of index and filter are of use to every read of the table.
            _ => priority,
        }
    }

    /// The result of `then` for the block at `handle`, with its bytes in the file.
    fn read<T>(
        &self,
        handle: BlockHandle,
        kind: BlockKind,
        then: impl FnOnce(&[u8], BlockRef) -> T,
    ) -> Result<T> {
        self.read_of(&*self.files.get_untold(self.file)?, handle, kind, then)
    }

    /// The same, from `file`.
    pub(super) fn read_of<T>(
        &self,
        file: &dyn File,
        handle: BlockHandle,
        kind: BlockKind,
        then: impl FnOnce(&[u8], BlockRef) -> T,
    ) -> Result<T> {
        thread_local! {
            static SCRATCH: RefCell<AlignedBuffer> = RefCell::default();
        }
        let len = self.bounded(handle)?;
        if len > LARGE_BLOCK {
            if let Some(block) = self.read_plain(file, handle, kind, len)? {
                let stored = block.clone();
                return Ok(then(&stored, block));
            }
        }
        // Nobody has it meanwhile, whoever runs in this thread during the read.
        let mut scratch = SCRATCH.take();
        let read = scratch.read(file, self.meta().offset + handle.offset, len).map(|_| ()).and_then(|()| {
            self.files.note_read(scratch.read_bytes());
            let stored = scratch.bytes();
            Ok(then(stored, self.decode_block(stored, handle, kind)?))
        });
        scratch.shrink(SCRATCH_KEEP);
        SCRATCH.set(scratch);
        read
    }

    /// An uncompressed block of many megabytes, read into its frame at once, or in pieces from a file past the page cache;
    /// `None` if the block is compressed.
    fn read_plain(
        &self,
        file: &dyn File,
        handle: BlockHandle,
        kind: BlockKind,
        len: usize,
    ) -> Result<Option<BlockRef>> {
        let mut piece = AlignedBuffer::default();
        let (start, stored) = (self.meta().offset + handle.offset, len - TRAILER_LEN);
        let mut trailer = [0; TRAILER_LEN];
        trailer.copy_from_slice(piece.read(file, start + stored as u64, TRAILER_LEN)?);
        if !is_stored_plain(&trailer) {
            return Ok(None);
        }
        let mut frame = self.cache().frame(stored);
        if file.alignment() > 1 {
            for (number, part) in frame.chunks_mut(LARGE_BLOCK).enumerate() {
                let at = start + (number * LARGE_BLOCK) as u64;
                part.copy_from_slice(piece.read(file, at, part.len())?);
            }
        } else {
            file.read_exact_at(&mut frame, start)?;
        }
        self.files.note_read(len);
        check_stored(&frame, &trailer, kind, handle.offset)
            .and_then(|encoded| check_payload(&frame, kind, encoded.is_postings))
            .map_err(|damage| self.damage(handle, damage))?;
        Ok(Some(frame.freeze()))
    }

    /// A data block as a keyed block: unpacked if it has lists of postings, which the cache keeps packed.
    #[inline]
    pub(super) fn keyed(&self, block: BlockRef, handle: BlockHandle) -> Result<BlockRef> {
        match postings::is_packed(&block) {
            true => self.unpacked(&block, handle),
            false => Ok(block),
        }
    }

    fn unpacked(&self, packed: &[u8], handle: BlockHandle) -> Result<BlockRef> {
        note("table: postings unpacked");
        let unpacked = || -> Result<BlockRef, DecodeError> {
            let mut frame = self.cache().frame(postings::unpacked_len(packed)?);
            postings::unpack(packed, &mut frame)?;
            Ok(frame.freeze())
        };
        unpacked().map_err(|damage| self.damage(handle, damage))
    }

    /// Verifies and decodes a stored block.
    pub(super) fn decode_block(
        &self,
        stored: &[u8],
        handle: BlockHandle,
        kind: BlockKind,
    ) -> Result<BlockRef> {
        let decoded = || -> Result<BlockRef, DecodeError> {
            let encoded = check(stored, kind, handle.offset)?;
            let mut frame = self.cache().frame(encoded.raw_len);
            encoded.decode(&mut frame)?;
            check_payload(&frame, kind, encoded.is_postings)?;
            Ok(frame.freeze())
        };
        decoded().map_err(|damage| self.damage(handle, damage))
    }
}

impl EncodedBlock<'_> {
    /// Length of the data block as a keyed block, in bytes.
    pub(super) fn keyed_len(&self) -> Result<usize, DecodeError> {
        match self.is_postings {
            true => postings::unpacked_len(self.stored),
            false => Ok(self.raw_len),
        }
    }

    /// The data block as a keyed block, checked, into `payload` of [`EncodedBlock::keyed_len`] bytes.
    pub(super) fn read_keyed(&self, payload: &mut [u8]) -> Result<(), DecodeError> {
        if self.is_postings {
            return postings::unpack(self.stored, payload);
        }
        self.decode(payload)?;
        check_payload(payload, BlockKind::Data, false)
    }
}

/// Checks the structure of a payload with a verified checksum. Lists of postings are checked as they are unpacked.
pub(super) fn check_payload(payload: &[u8], kind: BlockKind, is_postings: bool) -> Result<(), DecodeError> {
    match kind {
        BlockKind::Data if is_postings => postings::unpacked_len(payload).map(|_| ()),
        BlockKind::Data => KeyedBlock::parse(payload)?.check(CONTINUES | CONTINUED),
        BlockKind::Index | BlockKind::TopIndex => KeyedBlock::parse(payload)?.check(0),
        BlockKind::Filter => filter::check(payload),
        BlockKind::Properties => Ok(()),
    }
}
