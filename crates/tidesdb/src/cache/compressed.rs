//! Copies of blocks as their files have them, compressed: the cache's second tier. A block that is read while the cache is
//! full enters it as such a copy, which takes a half or a third of the memory. The block itself stays for a short while (it is
//! young), so that a statement that comes back to it decompresses it once. Compare RocksDB's compressed secondary cache.
//! A copy that is used often gets its block into the cache as well, and such a block has to be used often to stay.
//!
//! Values of value files enter it in the same way, but for those just written and those of a longer read: of these a full cache
//! takes the copy alone.
//!
//! Both tiers share shards, hand and budget: a copy's key is its block's with one more bit in the number of the file.

use super::shard;
use super::{memory_of, shard_of, BlockCache, BlockRef, CachePriority, FrameBuf, ENTRY_OVERHEAD};
use crate::mutant::{self, Mutant};
use crate::sync::note;
use crate::types::FileNo;

/// The bit of a copy's file number. Numbers of files do not come so far.
pub(super) const COPY: FileNo = 1 << 63;

/// Uses of a copy in a round of the hand that bring its block into the cache, in place of another block with a copy; those of
/// a young block are none.
const OFTEN: u8 = 64;

/// Uses of a block in a round of the hand that keep it in the cache, where a copy serves too. A block takes the memory of
/// two or three copies, and each of them saves a read of the disk, ten times as dear as a decompression.
pub(super) const KEPT: u8 = 16;

/// Divisor of the capacity: the cache is as good as full when no more than this part is free, an eighth. Free slots take
/// up to half of it.
const ROOMY_SHARE: usize = 8;

/// A stored copy pays from this on: at most so many quarters of the block's memory.
const MOST_QUARTERS: usize = 3;

/// Largest block with a copy, in bytes. A larger one is read faster than it is decompressed, and young ones would displace
/// too much.
const MOST_COPIED: usize = 64 << 10;

/// True if a copy of `stored_len` bytes is worth to have in place of a block of `raw_len` bytes.
pub(super) fn pays(stored_len: usize, raw_len: usize) -> bool {
    memory_of(stored_len) * 4 <= memory_of(raw_len) * MOST_QUARTERS && raw_len <= MOST_COPIED
}

/// A stored copy, found.
pub struct StoredCopy {
    /// The block's bytes in its file.
    pub bytes: BlockRef,
    /// The priority of its block in the cache.
    pub priority: CachePriority,
}

/// How a block enters the cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CachedForm {
    /// As it is, and it stays for as long as it is used.
    Block,
    /// As it is, and it has to be used often to stay: its copy would serve.
    CompressibleBlock,
    /// As its file has it.
    Copy,
}

impl BlockCache {
    /// The form for a block of `raw_len` bytes, just written or read, of which the file has `stored_len`. `all_fit`: the cache may
    /// have room for all blocks of its kind.
    pub fn form_of(&self, stored_len: usize, raw_len: usize, all_fit: bool) -> CachedForm {
        match pays(stored_len, raw_len) {
            false => CachedForm::Block,
            true if all_fit && self.is_roomy_for(memory_of(raw_len)) => CachedForm::CompressibleBlock,
            true => CachedForm::Copy,
        }
    }

    /// Inserts the block of `file` at `offset` in this form.
    pub fn insert_as(
        &self,
        form: CachedForm,
        (file, offset): (FileNo, u64),
        block: BlockRef,
        priority: CachePriority,
    ) {
        match form {
            CachedForm::Block => {}
            CachedForm::CompressibleBlock => block.keep_after(KEPT),
            CachedForm::Copy => {
                note("cache: copy alone kept");
                self.insert(file | COPY, offset, block, priority);
                return;
            }
        }
        self.insert(file, offset, block, priority);
    }

    /// The copy of the block of `file` at `offset`, for a reader with `priority` that missed the block.
    pub fn stored_copy(&self, file: FileNo, offset: u64, priority: CachePriority) -> Option<StoredCopy> {
        let hash = shard::hash(file | COPY, offset);
        let bytes = self.shards[shard_of(hash)].find_copy(hash, file | COPY, offset)?;
        note("cache: stored copy");
        let is_hot = bytes.count_use() >= OFTEN;
        let priority = match priority {
            CachePriority::NoEvict => CachePriority::NoEvict,
            _ if is_hot => {
                bytes.restart_uses();
                CachePriority::Hot
            }
            _ => CachePriority::Young,
        };
        Some(StoredCopy { bytes, priority })
    }

    /// Inserts the block of `file` at `offset`, made from `copy`, with the copy's priority for it.
    pub fn insert_from_copy(
        &self,
        file: FileNo,
        offset: u64,
        block: BlockRef,
        copy: &StoredCopy,
    ) -> BlockRef {
        block.keep_after(KEPT);
        self.insert(file, offset, block, copy.priority)
    }

    /// True if the block of `file` at `offset` has a copy. Counts as no use of it.
    pub fn holds_stored_copy(&self, file: FileNo, offset: u64) -> bool {
        self.holds(file | COPY, offset)
    }

    /// Drops a copy that does not verify: it would keep a good one out for as long as it is used.
    pub fn drop_stored_copy(&self, file: FileNo, offset: u64) {
        let hash = shard::hash(file | COPY, offset);
        self.give_back(self.shards[shard_of(hash)].drop_block(hash, file | COPY, offset));
    }

    /// Takes a copy of `block` of `file` at `offset`, which was read with `priority` and has been verified: `stored` are its
    /// bytes in the file. Returns the priority of the block itself. A block that the cache has room for needs no copy, nor
    /// does one that is hardly compressed, or very large.
    pub fn admit(
        &self,
        at: (FileNo, u64),
        stored: &[u8],
        block: &BlockRef,
        priority: CachePriority,
    ) -> CachePriority {
        self.admit_among(at, stored, block, priority, true)
    }

    /// The same. Unless `all_fit` a cache with room now will have none soon: a block that enters without a copy would be read
    /// again.
    pub fn admit_among(
        &self,
        (file, offset): (FileNo, u64),
        stored: &[u8],
        block: &BlockRef,
        priority: CachePriority,
        all_fit: bool,
    ) -> CachePriority {
        if !pays(stored.len(), block.len()) {
            return priority;
        }
        block.keep_after(KEPT);
        let is_roomy = all_fit && self.is_roomy_for(block.footprint() + ENTRY_OVERHEAD);
        if priority == CachePriority::NoEvict || is_roomy {
            return priority;
        }
        note("cache: stored copy kept");
        let at = if mutant::is(Mutant::CopyOfAnother) { offset & !0x3ff } else { offset };
        // The young block answers the reads that follow at once: a later one keeps the copy.
        self.insert(file | COPY, at, FrameBuf::copy_of(&self.slabs, stored).freeze(), CachePriority::Low);
        CachePriority::Young
    }

    /// True if nothing has to go for `charge` bytes, nor soon. In a full cache used bytes and room go up and down with
    /// each slab that begins or ends: a block that enters in such a moment is one more without a copy.
    fn is_roomy_for(&self, charge: usize) -> bool {
        let capacity = self.capacity();
        self.bytes() + charge <= capacity - capacity / ROOMY_SHARE
    }

    /// Uses of stored copies since the start.
    pub fn copy_hits(&self) -> u64 {
        self.shards.iter().map(shard::Shard::copy_hits).sum()
    }
}
