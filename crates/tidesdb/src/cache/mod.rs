//! The block cache: frames of data blocks, index and filter partitions under one budget ([`BlockCache`]),
//! between the tables' readers and the disk.
//!
//! A hit takes a shard's lock for reading, probes an open-addressed table and counts a reference; there is no
//! list to maintain. The table is its own CLOCK ring. The hand walks its slots, gives a used frame
//! one more round, and skips frames in use. [`BlockCache::bytes`] therefore never exceeds the capacity. If
//! nothing can be evicted, a block is returned without being cached. Only such blocks, and blocks of an
//! erased file still in use, are not counted.
//!
//! A block missing from the cache is read once for all threads that miss it ([`BlockCache::read`]). In a full cache
//! compressed blocks are kept as their files have them (`compressed.rs`).

mod compressed;
mod frame;
mod shard;
mod single_flight;
mod slab;
pub mod work;

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use crate::memory_gauge::MemoryGauge;
use crate::sync::note;
use crate::types::FileNo;

pub use compressed::CachedForm;
pub use frame::{BlockRef, FrameBuf, FRAME_HEADER};
pub(crate) use single_flight::{Boarding, SingleFlight};

use shard::{Shard, ENTRY_OVERHEAD};
use slab::Slabs;

/// Number of shards, a power of two: enough for a few dozen threads to meet on one lock only rarely.
const SHARDS: usize = 64;

/// Divisor of the capacity for resident parts (top indexes, small filters): one half.
const RESIDENT_SHARE: usize = 2;

/// Rounds of the hand through all shards before an insertion fails. The first clears the marks of use, the
/// second evicts, the third takes frames marked or released meanwhile.
const ROUNDS: usize = 3;

/// Divisor of the capacity for free slots in used slabs: a sixteenth, and at least [`LEAST_SLACK`]. Beyond it
/// blocks are compacted, so that the memory of one block size can serve another.
const SLACK_SHARE: usize = 16;

/// Allowed bytes of free slots in a small cache: enough for a few block sizes with a partly filled slab each.
const LEAST_SLACK: usize = if cfg!(simulation) { 256 << 10 } else { 4 << 20 };

/// Largest block cached when it is written, in bytes.
const MOST_OFFERED: usize = 1 << 20;

/// Divisor of the capacity for young blocks: a thirty-second, and at least a block in each shard. A statement's blocks fit, such
/// as of rows that it reads one by one in another order.
const YOUNG_SHARE: usize = 32;

/// Slots visited by an insertion to compact blocks.
const MOVED: usize = 12;

/// Such insertions from one choice of slabs to the next.
const CHOICE: usize = 1024;

/// What a walk could not move counts less with each further one: a fortieth. Blocks that were in use are free some day.
const FORGOTTEN_SHARE: usize = 40;

/// Memory of a block of `len` bytes in the cache.
fn memory_of(len: usize) -> usize {
    len + FRAME_HEADER + ENTRY_OVERHEAD
}

/// How long an inserted block stays in the cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CachePriority {
    /// Read by key: survives one round of the hand.
    High,
    /// Crossed by a scan: evicted at the next round unless it is used again.
    Low,
    /// With a stored copy: evicted after a few blocks more (`compressed.rs`).
    Young,
    /// With a stored copy that is used often: takes the place of another such block, or is young.
    Hot,
    /// Just written, or crossed by a long scan: inserted only without eviction.
    NoEvict,
}

/// A cache of blocks, keyed by file number and offset. Shared by all threads.
pub struct BlockCache {
    capacity: AtomicUsize,
    /// Bytes of all frames in the shards, of their slots, and of resident parts. At most `capacity`, unless
    /// the capacity was lowered under frames in use.
    used: AtomicUsize,
    resident: AtomicUsize,
    shards: Vec<Shard>,
    /// The memory of its frames.
    slabs: Arc<Slabs>,
    /// Free slots, in bytes, that the last walk over all blocks left between them.
    left_apart: AtomicUsize,
    /// Insertions that met too many free slots.
    scattered: AtomicUsize,
    /// Memory that the cache gives way to, measured and not reserved: stretches of files that scans and merges read ahead,
    /// and tables that are being written, until their blocks, index and filter are in the file.
    pub(crate) read_ahead: Arc<MemoryGauge>,
    pub(crate) table_writers: Arc<MemoryGauge>,
}

impl BlockCache {
    /// A cache of at most `bytes`, headers and free slots between blocks included.
    pub fn new(bytes: usize) -> Arc<BlockCache> {
        Arc::new(BlockCache {
            capacity: AtomicUsize::new(bytes),
            used: AtomicUsize::new(0),
            resident: AtomicUsize::new(0),
            shards: (0..SHARDS).map(|_| Shard::default()).collect(),
            slabs: Slabs::new(),
            left_apart: AtomicUsize::new(0),
            scattered: AtomicUsize::new(0),
            read_ahead: Arc::default(),
            table_writers: Arc::default(),
        })
    }

    /// A zeroed frame of `len` bytes in the cache's memory, to be filled and perhaps inserted.
    pub fn frame(&self, len: usize) -> FrameBuf {
        FrameBuf::new(&self.slabs, len)
    }

    /// The block of `file` at `offset`, if it is cached.
    #[inline]
    pub fn get(&self, file: FileNo, offset: u64) -> Option<BlockRef> {
        let hash = shard::hash(file, offset);
        self.shards[shard_of(hash)].get(hash, file, offset)
    }

    /// True if the block of `file` at `offset` is cached. Counts as no use of it.
    pub fn holds(&self, file: FileNo, offset: u64) -> bool {
        let hash = shard::hash(file, offset);
        self.shards[shard_of(hash)].holds(hash, file, offset)
    }

    /// The block of `file` at `offset`, after [`BlockCache::get`] has missed it. The first of several threads calls `read`
    /// and inserts the block with the priority that it returns; the others wait for it, and keep it with `priority`, unless a
    /// stored copy serves. If its `read` fails or panics, each of them calls its own, unless the block has come meanwhile.
    /// `read` must not come here again, and calls nothing of the program around the store.
    pub fn read<E>(
        &self,
        file: FileNo,
        offset: u64,
        priority: CachePriority,
        read: impl FnOnce() -> Result<(BlockRef, CachePriority), E>,
    ) -> Result<BlockRef, E> {
        let hash = shard::hash(file, offset);
        let shard = &self.shards[shard_of(hash)];
        let lead = match shard.reads.board((file, offset)) {
            Boarding::Lead(lead) => Some(lead),
            Boarding::Landed(block) => {
                note("cache: shared read");
                // The leader may have kept it for nobody but itself.
                return Ok(match (priority, shard.peek(hash, file, offset)) {
                    (_, Some(cached)) => cached,
                    (CachePriority::NoEvict, None) => block,
                    (_, None) if self.holds_stored_copy(file, offset) => block,
                    (_, None) => self.insert(file, offset, block, priority),
                });
            }
            Boarding::Failed => {
                note("cache: shared read that failed");
                None
            }
        };
        let block = match shard.peek(hash, file, offset) {
            Some(block) => block,
            None => {
                let (block, priority) = read()?;
                self.insert(file, offset, block, priority)
            }
        };
        if let Some(lead) = lead {
            lead.land(&block);
        }
        Ok(block)
    }

    /// Threads that wait for another's read.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.shards.iter().map(|shard| shard.reads.waiting()).sum()
    }

    /// Inserts `block` as the one of `file` at `offset` and returns it, or another thread's block already
    /// there. Evicts others to make room, except for [`CachePriority::NoEvict`]. Without room the block is
    /// returned uncached.
    pub fn insert(&self, file: FileNo, offset: u64, block: BlockRef, priority: CachePriority) -> BlockRef {
        let charge = block.footprint() + ENTRY_OVERHEAD;
        let hash = shard::hash(file, offset);
        let home = shard_of(hash);
        let room = match priority {
            CachePriority::High | CachePriority::Low => self.make_room(charge, home),
            CachePriority::Hot if self.make_room_among_copied(charge, home) => true,
            CachePriority::Young | CachePriority::Hot => {
                let most = self.capacity() / YOUNG_SHARE / SHARDS;
                self.give_back(self.shards[home].retire_for((file, offset), charge, most));
                self.make_room(charge, home)
            }
            CachePriority::NoEvict => self.has_place_for(charge) && self.take_free(charge).is_ok(),
        };
        if !room {
            return block;
        }
        if matches!(priority, CachePriority::High | CachePriority::Hot) {
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

    /// Inserts a copy of a block just written as the one of `file` at `offset`, if there is unused room. If
    /// the file is given up, the caller erases it with [`BlockCache::erase_file`]. `stored_len` is the block's length in
    /// the file where its readers keep stored copies.
    pub fn offer(&self, file: FileNo, offset: u64, payload: &[u8], stored_len: Option<usize>) {
        // A copy of a large one costs more than it saves.
        if payload.len() <= MOST_OFFERED && self.has_place_for(memory_of(payload.len())) {
            let block = FrameBuf::copy_of(&self.slabs, payload).freeze();
            if stored_len.is_some_and(|len| compressed::pays(len, payload.len())) {
                block.keep_after(compressed::KEPT);
            }
            self.insert(file, offset, block, CachePriority::NoEvict);
        }
    }

    /// Reserves `bytes` of the budget for a resident part outside of the shards, and evicts blocks for it.
    /// `None` without room, or if resident parts would exceed half of the capacity. Dropping the reservation
    /// releases the bytes.
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

    /// Adds `charge` to the used bytes once they fit, evicting from shard `home` and then from the others.
    /// False if all other frames are in use.
    fn make_room(&self, charge: usize, home: usize) -> bool {
        let mut shard = home;
        let mut visited = 0;
        if self.is_scattered() {
            // Slabs with a block in use for long never leave, and others then have to.
            let is_due = self.scattered.fetch_add(1, Ordering::Relaxed) % CHOICE == 0;
            if (is_due || !self.slabs.has_leaving()) && !self.slabs.choose_leaving() {
                self.left_apart.store(self.slack(), Ordering::Relaxed);
            }
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

    /// Adds `charge` to the used bytes once they fit, evicting from shard `home` blocks that have copies. False if that is
    /// not enough.
    fn make_room_among_copied(&self, charge: usize, home: usize) -> bool {
        let Err(now) = self.take_free(charge) else { return true };
        let excess = now.saturating_add(charge).saturating_sub(self.room());
        self.give_back(self.shards[home].evict_copied(excess));
        self.take_free(charge).is_ok()
    }

    /// Adds `charge` to the used bytes if they fit without eviction; the error is the present number of used
    /// bytes.
    fn take_free(&self, charge: usize) -> Result<usize, usize> {
        let room = self.room();
        let add = |now: usize| now.checked_add(charge).filter(|&sum| sum <= room);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add)
    }

    /// The free slots in used slabs, in bytes.
    fn slack(&self) -> usize {
        self.slabs.slack()
    }

    /// Bytes of the capacity for blocks. Free slots between them take memory too, up to a sixteenth. In a
    /// cache of less than 64 MB there may be more free slots, up to [`LEAST_SLACK`], on top.
    fn room(&self) -> usize {
        let capacity = self.capacity();
        capacity - self.slack().min(capacity / SLACK_SHARE)
    }

    fn allowed_slack(&self) -> usize {
        (self.capacity() / SLACK_SHARE).max(LEAST_SLACK)
    }

    /// True if free slots take more than their share, and a walk over all blocks would make them fewer.
    fn is_scattered(&self) -> bool {
        let allowed = self.allowed_slack();
        self.slack() > allowed.max(self.left_apart.load(Ordering::Relaxed) + allowed / 2)
    }

    /// True if there is unused room for a block that nobody asked for. Between scattered blocks it may need a further slab.
    fn has_place_for(&self, bytes: usize) -> bool {
        let has_slab = !self.is_scattered() || self.footprint() + bytes <= self.capacity();
        has_slab && self.bytes() + bytes <= self.room()
    }

    /// Moves blocks together where free slots between them take more than their share: a slab that becomes empty
    /// serves another size, or returns its pages. Erased files and a lower capacity leave holes everywhere. It may visit
    /// every slot: a tenth of a second for a gigabyte. Called ten times a second by one thread; until then blocks that
    /// nobody asked for stay out.
    pub fn move_together(&self) {
        let before = self.slack();
        let left = self.left_apart.load(Ordering::Relaxed);
        self.left_apart.store((left - left / FORGOTTEN_SHARE).min(before), Ordering::Relaxed);
        if !self.is_scattered() {
            return;
        }
        note("cache: moved together");
        self.slabs.choose_leaving();
        for shard in self.shards.iter().take_while(|_| self.slabs.has_leaving()) {
            shard.move_all_together();
        }
        self.slabs.let_stay();
        // Holes made meanwhile are for the next walk.
        self.left_apart.store(self.slack().min(before), Ordering::Relaxed);
    }

    fn give_back(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Erases every block of `file`, a number never used again. Blocks in use stay valid.
    pub fn erase_file(&self, file: FileNo) {
        self.erase_files(&[file]);
    }

    /// Like [`BlockCache::erase_file`], for several files at once; `files` ascend. It visits every slot:
    /// millions in a cache of 16 GB.
    pub fn erase_files(&self, files: &[FileNo]) {
        if files.is_empty() {
            return;
        }
        for shard in &self.shards {
            self.give_back(shard.erase(files));
        }
    }

    /// Changes the budget. A lower one evicts unused blocks at once; the slabs of those left go with
    /// [`BlockCache::move_together`].
    pub fn set_capacity(&self, bytes: usize) {
        self.capacity.store(bytes, Ordering::Relaxed);
        for round in 0..2 * ROUNDS {
            for (at, shard) in self.shards.iter().enumerate() {
                // Every shard gives its part, so that what is used survives in all of them; in the end one that has more.
                let parts = if round < ROUNDS { SHARDS - at } else { 1 };
                let excess = self.bytes().saturating_sub(self.room());
                self.give_back(shard.evict(excess.div_ceil(parts)));
            }
        }
    }

    /// The budget in bytes.
    pub fn capacity(&self) -> usize {
        self.capacity.load(Ordering::Relaxed)
    }

    /// Used bytes of the budget: frames with their headers and slots, and resident parts.
    pub fn bytes(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Used bytes and those of free slots between them.
    pub fn footprint(&self) -> usize {
        self.bytes() + self.slack()
    }

    /// Bytes of slabs, the memory of the cache's frames. It is not the program's allocator's; the largest frames and
    /// resident parts are.
    pub fn slab_bytes(&self) -> usize {
        self.slabs.resident()
    }

    /// Bytes of the budget used by resident parts.
    pub fn resident_bytes(&self) -> usize {
        self.resident.load(Ordering::Relaxed)
    }

    /// Number of blocks in the cache.
    pub fn entries(&self) -> usize {
        self.shards.iter().map(Shard::entries).sum()
    }

    /// Number of shards, each with its own latch.
    pub fn shard_count(&self) -> usize {
        self.shards.len()
    }

    /// Successful lookups since the start, of a block or of its stored copy.
    pub fn hits(&self) -> u64 {
        self.shards.iter().map(Shard::hits).sum::<u64>() + self.copy_hits()
    }

    /// Unsuccessful lookups since the start, of block and stored copy.
    pub fn misses(&self) -> u64 {
        self.shards.iter().map(Shard::misses).sum::<u64>().saturating_sub(self.copy_hits())
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

/// Bytes of a cache's budget reserved for a resident part; released on drop.
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
