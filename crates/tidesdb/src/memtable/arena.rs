//! Memory of a memtable: bump allocation over chunks recycled by a pool.
//!
//! An [`Arena`] only grows. Allocated memory stays in place, untouched by the arena, until the arena is
//! dropped. Pointers into it therefore need no reclamation scheme: a borrow of the arena suffices to follow
//! them. Dropping the arena returns the chunks to the [`ArenaPool`]. The first touch of a fresh page costs
//! 1.5 microseconds, of a recycled one nothing. After the arenas of LevelDB and RocksDB.

use std::alloc::{alloc, dealloc, handle_alloc_error, Layout};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::Arc;

use crate::sync::Mutex;

/// Size of an arena's first chunk in bytes, small for stores with small memtables.
const FIRST_CHUNK: usize = 64 << 10;

/// Size in bytes of the largest chunk; chunks double up to it.
const LAST_CHUNK: usize = 1 << 20;

/// Number of chunk sizes.
const CLASSES: usize = (LAST_CHUNK / FIRST_CHUNK).ilog2() as usize + 1;

/// Allocations of more bytes get a chunk of their own. The unused end of a chunk is thus at most a quarter.
const LARGE: usize = LAST_CHUNK / 4;

/// Alignment of chunks, a cache line, and the largest alignment of an allocation.
const CHUNK_ALIGN: usize = 64;

/// Memory from the allocator, freed on drop.
struct Block {
    start: NonNull<u8>,
    size: usize,
}

// SAFETY: a block owns its memory; nothing in it is tied to a thread.
unsafe impl Send for Block {}

impl Block {
    fn layout(size: usize) -> Layout {
        Layout::from_size_align(size, CHUNK_ALIGN)
            .expect("a key and a value are smaller than the address space")
    }

    fn new(size: usize) -> Block {
        debug_assert!(size > 0);
        let layout = Self::layout(size);
        // SAFETY: the size is not zero.
        let start = unsafe { alloc(layout) };
        match NonNull::new(start) {
            Some(start) => Block { start, size },
            None => handle_alloc_error(layout),
        }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with the same layout.
        unsafe { dealloc(self.start.as_ptr(), Self::layout(self.size)) }
    }
}

#[derive(Default)]
struct Free {
    classes: [Vec<Block>; CLASSES],
    bytes: usize,
    /// Bytes of chunks in arenas.
    lent: usize,
}

struct PoolInner {
    free: Mutex<Free>,
    limit: AtomicUsize,
}

/// A pool of chunks for arenas. A clone is a second handle to the same pool.
#[derive(Clone)]
pub struct ArenaPool {
    inner: Arc<PoolInner>,
}

impl ArenaPool {
    /// A pool. It keeps unused chunks while they and the chunks of arenas total at most `limit` bytes.
    pub fn new(limit: usize) -> ArenaPool {
        ArenaPool { inner: Arc::new(PoolInner { free: Mutex::default(), limit: AtomicUsize::new(limit) }) }
    }

    /// Bytes of unused chunks in the pool.
    pub fn pooled_bytes(&self) -> usize {
        self.inner.free.lock().bytes
    }

    /// Changes the limit and frees unused chunks beyond it.
    pub fn set_limit(&self, limit: usize) {
        self.inner.limit.store(limit, Ordering::Relaxed);
        let mut freed = Vec::new();
        let mut free = self.inner.free.lock();
        while free.bytes > 0 && free.bytes + free.lent > limit {
            let Some(block) = free.classes.iter_mut().rev().find_map(Vec::pop) else { break };
            free.bytes -= block.size;
            freed.push(block);
        }
        drop(free);
    }

    /// Frees all unused chunks.
    pub(crate) fn free_unused(&self) {
        let mut free = self.inner.free.lock();
        let freed = std::mem::take(&mut free.classes);
        free.bytes = 0;
        drop(free);
        drop(freed);
    }

    fn take(&self, class: usize) -> Block {
        let mut free = self.inner.free.lock();
        free.lent += FIRST_CHUNK << class;
        if let Some(block) = free.classes[class].pop() {
            free.bytes -= block.size;
            return block;
        }
        drop(free);
        Block::new(FIRST_CHUNK << class)
    }

    /// Returns a chunk to the pool, or frees it if the pool has no room.
    fn give_back(&self, block: Block) {
        let size = block.size;
        let mut free = self.inner.free.lock();
        free.lent -= size;
        if free.bytes + free.lent + size <= self.inner.limit.load(Ordering::Relaxed) {
            free.bytes += size;
            free.classes[(size / FIRST_CHUNK).ilog2() as usize].push(block);
        }
    }
}

/// A block with its fill mark. `used` never exceeds the block's size; a closed chunk is full.
struct Chunk {
    block: Block,
    used: AtomicUsize,
}

impl Chunk {
    fn alloc(&self, size: usize, align: usize) -> Option<NonNull<u8>> {
        let mut used = self.used.load(Ordering::Relaxed);
        loop {
            let start = (used + align - 1) & !(align - 1);
            let end = start + size;
            if end > self.block.size {
                return None;
            }
            match self.used.compare_exchange_weak(used, end, Ordering::Relaxed, Ordering::Relaxed) {
                // SAFETY: `start` is inside the block.
                Ok(_) => return Some(unsafe { self.block.start.add(start) }),
                Err(now) => used = now,
            }
        }
    }
}

#[derive(Default)]
struct Chunks {
    /// All chunks so far, made by `Box::into_raw`.
    all: Vec<*mut Chunk>,
    /// Blocks of large allocations.
    large: Vec<Block>,
}

/// A bump allocator; see the module's comment. All threads allocate from one current chunk.
pub(super) struct Arena {
    pool: ArenaPool,
    /// The chunk being filled; null before the first allocation.
    current: AtomicPtr<Chunk>,
    /// Bytes used in closed chunks and in large blocks.
    closed: AtomicUsize,
    chunks: Mutex<Chunks>,
}

// SAFETY: chunks are owned by the arena and shared through atomics and the mutex only.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

impl Arena {
    pub(super) fn new(pool: ArenaPool) -> Arena {
        Arena {
            pool,
            current: AtomicPtr::new(ptr::null_mut()),
            closed: AtomicUsize::new(0),
            chunks: Mutex::default(),
        }
    }

    /// Allocated bytes, padding included.
    pub(super) fn bytes(&self) -> usize {
        // Under the mutex no chunk is closed between the two reads.
        let _chunks = self.chunks.lock();
        let current = self.current.load(Ordering::Acquire);
        // SAFETY: chunks live as long as the arena.
        let open = if current.is_null() { 0 } else { unsafe { (*current).used.load(Ordering::Relaxed) } };
        self.closed.load(Ordering::Relaxed) + open
    }

    /// Allocates `size` bytes (at least one) at a multiple of `align` (a power of two up to 64). The contents
    /// are undefined. The memory is the caller's alone and lives as long as the arena.
    pub(super) fn alloc(&self, size: usize, align: usize) -> NonNull<u8> {
        debug_assert!(size > 0 && align.is_power_of_two() && align <= CHUNK_ALIGN);
        if size > LARGE {
            let block = Block::new(size);
            let start = block.start;
            self.closed.fetch_add(size, Ordering::Relaxed);
            self.chunks.lock().large.push(block);
            return start;
        }
        loop {
            let current = self.current.load(Ordering::Acquire);
            if !current.is_null() {
                // SAFETY: chunks live as long as the arena.
                if let Some(start) = unsafe { (*current).alloc(size, align) } {
                    return start;
                }
            }
            self.open_chunk(current, size);
        }
    }

    /// Replaces the current chunk by one with room for `size` bytes, unless another thread has done so since
    /// `full` was read.
    #[cold]
    fn open_chunk(&self, full: *mut Chunk, size: usize) {
        let mut chunks = self.chunks.lock();
        if self.current.load(Ordering::Acquire) != full {
            return;
        }
        let mut class = 0;
        if !full.is_null() {
            // SAFETY: chunks live as long as the arena.
            let chunk = unsafe { &*full };
            // Full from now on: a thread that still holds it allocates elsewhere, the sum stays exact.
            let used = chunk.used.swap(chunk.block.size, Ordering::Relaxed);
            self.closed.fetch_add(used, Ordering::Relaxed);
            class = (chunk.block.size / FIRST_CHUNK).ilog2() as usize + 1;
        }
        class = class.min(CLASSES - 1);
        while FIRST_CHUNK << class < size {
            class += 1;
        }
        let chunk = Box::new(Chunk { block: self.pool.take(class), used: AtomicUsize::new(0) });
        let chunk = Box::into_raw(chunk);
        chunks.all.push(chunk);
        self.current.store(chunk, Ordering::Release);
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        for chunk in self.chunks.get_mut().all.drain(..) {
            // SAFETY: made by `Box::into_raw` in `open_chunk`, and `&mut self` says that nobody borrows.
            let chunk = unsafe { Box::from_raw(chunk) };
            self.pool.give_back(chunk.block);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn counts_what_is_used_and_recycles_up_to_the_limit() {
        let pool = ArenaPool::new(FIRST_CHUNK + 2 * FIRST_CHUNK);
        let arena = Arena::new(pool.clone());
        assert_eq!(arena.bytes(), 0);
        let first = arena.alloc(8, 8);
        let second = arena.alloc(64, 64);
        assert_eq!(second.as_ptr() as usize % 64, 0);
        assert_ne!(first, second);
        assert_eq!(arena.bytes(), 128, "56 bytes of padding");
        arena.alloc(FIRST_CHUNK, 8);
        assert_eq!(arena.bytes(), 128 + FIRST_CHUNK);
        arena.alloc(LARGE + 1, 8);
        assert_eq!(arena.bytes(), 128 + FIRST_CHUNK + LARGE + 1);
        drop(arena);
        assert_eq!(pool.pooled_bytes(), 3 * FIRST_CHUNK);
        let (one, two) = (Arena::new(pool.clone()), Arena::new(pool.clone()));
        assert_eq!(one.alloc(8, 8), first, "the first chunk came from the pool");
        two.alloc(8, 8);
        assert_eq!(pool.pooled_bytes(), 2 * FIRST_CHUNK);
    }

    #[test]
    fn unused_chunks_and_those_of_arenas_have_the_limit_together() {
        let pool = ArenaPool::new(5 * FIRST_CHUNK);
        let (one, two) = (Arena::new(pool.clone()), Arena::new(pool.clone()));
        for arena in [&one, &two] {
            arena.alloc(8, 8);
            arena.alloc(FIRST_CHUNK, 8);
        }
        drop(one);
        assert_eq!(pool.pooled_bytes(), 2 * FIRST_CHUNK, "three are in use");
        drop(two);
        assert_eq!(pool.pooled_bytes(), 5 * FIRST_CHUNK);
    }

    #[test]
    fn threads_get_disjoint_memory() {
        let arena = Arena::new(ArenaPool::new(0));
        let rounds = if cfg!(miri) { 50 } else { 20_000 };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4u8)
                .map(|id| {
                    let arena = &arena;
                    scope.spawn(move || {
                        let mut mine = Vec::new();
                        for round in 0..rounds {
                            let size = 1 + round % 90;
                            let start = arena.alloc(size, 8);
                            // SAFETY: freshly allocated with this size.
                            unsafe { start.as_ptr().write_bytes(id, size) };
                            mine.push((start.as_ptr() as usize, start, size));
                        }
                        for (_, start, size) in &mine {
                            // SAFETY: written above, alive while the arena is borrowed.
                            let bytes = unsafe { std::slice::from_raw_parts(start.as_ptr(), *size) };
                            assert!(bytes.iter().all(|&byte| byte == id));
                        }
                        mine.iter().map(|m| m.2.div_ceil(8) * 8).sum::<usize>()
                    })
                })
                .collect();
            let sum: usize = threads.into_iter().map(|t| t.join().unwrap()).sum();
            assert!(arena.bytes() <= sum && arena.bytes() + 8 * 64 >= sum, "{} of {sum}", arena.bytes());
        });
    }
}
