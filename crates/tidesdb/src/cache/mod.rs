//! The one cache: frames of data blocks, index and filter partitions under one budget
//! ([`BlockCache`]). Stands between the tables' readers and the disk.
//!
//! A hit takes a shard's lock for reading, probes an open-addressed table and counts a reference; there is
//! no list to maintain. The table is its own CLOCK ring: the hand walks its slots, gives a frame that was
//! used since the last round one more, and passes by frames that somebody holds. So what [`BlockCache::bytes`]
//! says never exceeds the capacity. When nothing can be evicted, a block is handed out without being
//! kept; such blocks, and blocks of an erased file that are still held, are the only ones uncounted.

mod frame;
mod shard;
mod slab;
pub mod work;

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use crate::types::FileNo;

pub use frame::{BlockRef, FrameBuf, FRAME_HEADER};

use shard::{Shard, ENTRY_OVERHEAD};

/// Number of shards; a power of two. Enough that a few dozen threads seldom meet on one lock.
const SHARDS: usize = 64;

/// Resident pieces (top indexes, small filters) may take this share of the capacity: one half.
const RESIDENT_SHARE: usize = 2;

/// Times that the hand goes round all shards before a block finds no room: once to take away the marks of
/// use, once to evict, and once more for what is marked or released meanwhile.
const ROUNDS: usize = 3;

/// Part of the capacity that free slots among used ones may take: a sixteenth, and at least [`LEAST_SLACK`]. Beyond it blocks
/// are moved together, so that the memory of one block size goes to another.
const SLACK_SHARE: usize = 16;

/// A small cache may have this much, for a few block sizes with a slab that is not full.
const LEAST_SLACK: usize = 4 << 20;

/// Capacities of all caches of the process, which share their slabs.
static CAPACITIES: AtomicUsize = AtomicUsize::new(0);

/// Largest block that is kept as it is written, in bytes.
const MOST_OFFERED: usize = 1 << 20;

/// Slots that an insertion looks at to move blocks together.
const MOVED: usize = 12;

/// How long a block that is inserted stays in the cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CachePriority {
    /// Read by key: survives one round of the hand.
    High,
    /// Passed by a scan: goes at the next round unless it is used again.
    Low,
    /// Just written, or passed by a long scan: nothing is evicted for it.
    NoEvict,
}

/// A cache of blocks, keyed by file number and offset. Shared by all threads.
pub struct BlockCache {
    capacity: AtomicUsize,
    /// Bytes of all frames in the shards, of their slots, and of resident pieces; at most `capacity`
    /// unless the capacity was lowered under frames that are held.
    used: AtomicUsize,
    resident: AtomicUsize,
    shards: Vec<Shard>,
}

impl BlockCache {
    /// A cache that holds at most `bytes`, headers and free places between blocks included.
    pub fn new(bytes: usize) -> Arc<BlockCache> {
        CAPACITIES.fetch_add(bytes, Ordering::Relaxed);
        Arc::new(BlockCache {
            capacity: AtomicUsize::new(bytes),
            used: AtomicUsize::new(0),
            resident: AtomicUsize::new(0),
            shards: (0..SHARDS).map(|_| Shard::default()).collect(),
        })
    }

    /// The block of `file` at `offset`, if it is here.
    #[inline]
    pub fn get(&self, file: FileNo, offset: u64) -> Option<BlockRef> {
        let hash = shard::hash(file, offset);
        self.shards[shard_of(hash)].get(hash, file, offset)
    }

    /// Keeps `block` as that of `file` at `offset`, evicting others unless it is [`CachePriority::NoEvict`], and
    /// returns it; or returns the one that another thread has put there meanwhile. When there is no room, it is
    /// returned without being kept.
    pub fn insert(&self, file: FileNo, offset: u64, block: BlockRef, priority: CachePriority) -> BlockRef {
        let charge = block.footprint() + ENTRY_OVERHEAD;
        let hash = shard::hash(file, offset);
        let home = shard_of(hash);
        let room = match priority {
            CachePriority::High | CachePriority::Low => self.make_room(charge, home),
            CachePriority::NoEvict => self.take_free(charge).is_ok(),
        };
        if !room {
            return block;
        }
        if priority == CachePriority::High {
            block.mark_used();
        }
        match self.shards[home].insert(hash, file, offset, block) {
            Ok(kept) => kept,
            Err(existing) => {
                self.give_back(charge);
                existing
            }
        }
    }

    /// Keeps a copy of a block that was just written as that of `file` at `offset`, where there is room that
    /// nobody uses. A block of a file that comes to nothing is to be given back by [`BlockCache::erase_file`].
    pub fn offer(&self, file: FileNo, offset: u64, payload: &[u8]) {
        // A copy of a large one costs more than it saves.
        if payload.len() <= MOST_OFFERED
            && self.bytes() + payload.len() + FRAME_HEADER + ENTRY_OVERHEAD <= self.room()
        {
            self.insert(file, offset, FrameBuf::copy_of(payload).freeze(), CachePriority::NoEvict);
        }
    }

    /// Takes `bytes` of the budget for a piece that stays resident outside of the shards, evicting blocks;
    /// `None` if resident pieces would then take more than half of the capacity, or when there is no
    /// room. Dropping the reservation gives the bytes back.
    pub fn reserve(self: &Arc<Self>, bytes: usize) -> Option<Reservation> {
        let most = self.capacity() / RESIDENT_SHARE;
        let add = |now: usize| now.checked_add(bytes).filter(|&sum| sum <= most);
        self.resident.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).ok()?;
        if !self.make_room(bytes, bytes % SHARDS) {
            self.resident.fetch_sub(bytes, Ordering::Relaxed);
            return None;
        }
        Some(Reservation { cache: Arc::clone(self), bytes })
    }

    /// Adds `charge` to the used bytes once they fit, evicting from shard `home` and then from the others;
    /// false when everything else is held.
    fn make_room(&self, charge: usize, home: usize) -> bool {
        let mut shard = home;
        let mut visited = 0;
        if self.slack() > self.allowed_slack() {
            self.shards[home].move_together(MOVED);
        }
        loop {
            let Err(now) = self.take_free(charge) else { return true };
            let room = self.room();
            if charge > room || visited > ROUNDS * SHARDS {
                return false;
            }
            let excess = now.saturating_add(charge).saturating_sub(room);
            let freed = self.shards[shard].evict(excess);
            self.give_back(freed);
            if freed < excess {
                shard = (shard + 1) % SHARDS;
                visited += 1;
            }
        }
    }

    /// Adds `charge` to the used bytes if they fit as it is; otherwise says what is used.
    fn take_free(&self, charge: usize) -> Result<usize, usize> {
        let room = self.room();
        let add = |now: usize| now.checked_add(charge).filter(|&sum| sum <= room);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add)
    }

    /// This cache's share of free slots in slabs that have used ones.
    fn slack(&self) -> usize {
        let all = CAPACITIES.load(Ordering::Relaxed).max(1) as u128;
        (slab::slack() as u128 * self.capacity() as u128 / all) as usize
    }

    /// Bytes of the capacity that blocks may have: free slots among them are memory, too, up to a sixteenth. In a cache of
    /// less than 64 MB they may be more, up to [`LEAST_SLACK`], on top.
    fn room(&self) -> usize {
        let capacity = self.capacity();
        capacity - self.slack().min(capacity / SLACK_SHARE)
    }

    fn allowed_slack(&self) -> usize {
        (self.capacity() / SLACK_SHARE).max(LEAST_SLACK)
    }

    fn give_back(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Drops every block of `file`, whose number is never used again. Blocks that are held stay valid.
    pub fn erase_file(&self, file: FileNo) {
        self.erase_files(&[file]);
    }

    /// As [`BlockCache::erase_file`], for several at once: it looks at every slot, in a cache of 16 GB at millions.
    /// `files` ascend.
    pub fn erase_files(&self, files: &[FileNo]) {
        if files.is_empty() {
            return;
        }
        for shard in &self.shards {
            self.give_back(shard.erase(files));
        }
    }

    /// Changes the budget; lowering it evicts at once what nobody holds.
    pub fn set_capacity(&self, bytes: usize) {
        let before = self.capacity.swap(bytes, Ordering::Relaxed);
        CAPACITIES.fetch_add(bytes.wrapping_sub(before), Ordering::Relaxed);
        for _ in 0..ROUNDS {
            for (at, shard) in self.shards.iter().enumerate() {
                // Every shard gives its part, so that what is used survives in all of them.
                let excess = self.bytes().saturating_sub(self.room());
                self.give_back(shard.evict(excess.div_ceil(SHARDS - at)));
            }
        }
        // What is left lies in as many slabs as before: those go back to the kernel once they are empty.
        for shard in &self.shards {
            if bytes < before && self.slack() > self.allowed_slack() {
                shard.move_together(usize::MAX);
            }
        }
    }

    /// The budget in bytes.
    pub fn capacity(&self) -> usize {
        self.capacity.load(Ordering::Relaxed)
    }

    /// Bytes of the budget that are in use: frames with their headers and slots, and resident pieces.
    pub fn bytes(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Bytes in use and those of free places between them.
    pub fn footprint(&self) -> usize {
        self.bytes() + self.slack()
    }

    /// Bytes of the memory from which the caches of this process take their frames, which is not the program's
    /// allocator's. Larger frames and resident pieces are.
    pub fn slab_bytes(&self) -> usize {
        slab::resident()
    }

    /// Bytes of it that are resident pieces.
    pub fn resident_bytes(&self) -> usize {
        self.resident.load(Ordering::Relaxed)
    }

    /// Number of blocks in the cache.
    pub fn entries(&self) -> usize {
        self.shards.iter().map(Shard::entries).sum()
    }

    /// Shards, each under a latch of its own.
    pub fn shard_count(&self) -> usize {
        self.shards.len()
    }

    /// Lookups that found their block, since the start.
    pub fn hits(&self) -> u64 {
        self.shards.iter().map(Shard::hits).sum()
    }

    /// Lookups that did not, since the start.
    pub fn misses(&self) -> u64 {
        self.shards.iter().map(Shard::misses).sum()
    }
}

impl Drop for BlockCache {
    fn drop(&mut self) {
        CAPACITIES.fetch_sub(self.capacity(), Ordering::Relaxed);
    }
}

impl fmt::Debug for BlockCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BlockCache({} of {} bytes, {} blocks)", self.bytes(), self.capacity(), self.entries())
    }
}

fn shard_of(hash: u64) -> usize {
    (hash >> 58) as usize % SHARDS
}

/// Bytes of a cache's budget that a resident piece takes; given back on drop.
#[derive(Debug)]
pub struct Reservation {
    cache: Arc<BlockCache>,
    bytes: usize,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.cache.resident.fetch_sub(self.bytes, Ordering::Relaxed);
        self.cache.give_back(self.bytes);
    }
}

#[cfg(test)]
mod tests;
