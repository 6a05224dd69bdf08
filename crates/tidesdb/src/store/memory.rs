//! The bound on a store's memory: its holders, and the order in which they give way (`docs/protocols.md`
//! 7.6).
//!
//! Memtables and transactions know their share before they take it. Index and filter blocks under
//! construction, read-ahead, locks and all other uses are measured instead. A thread compares the sum with
//! the bound ten times a second. The cache gives way first; then compaction waits, then writers do. The cache
//! pays for the other holders, after RocksDB's `CacheReservationManager`.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicU8, AtomicUsize, Ordering::Relaxed};
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::memory_gauge::MemoryGauge;
use crate::mutant::{self, Mutant};
use crate::options::live::LiveOptions;
use crate::store::cache_growth::{CacheGrowth, ProcessWatch, SpareWatch};
use crate::store::Store;
use crate::sync::{note, Mutex};

/// Copies of a large row in memory at once: in the transaction, as the file's block, and compressed.
const COPIES: u64 = 3;

/// The cache keeps this part of its size whatever others hold: a sixteenth, and at least [`LEAST_CACHE`].
const CACHE_SHARE: u64 = 16;
const LEAST_CACHE: u64 = 1 << 20;

/// The cache leaves this part of the bound free for growth until the next measurement: an eighth, and at most
/// [`MOST_HEADROOM`].
const HEADROOM_SHARE: u64 = 8;
const MOST_HEADROOM: u64 = 32 << 20;

/// Bytes beyond the bound before work has to wait: some memory of a store is sized by no option.
const ALLOWANCE: u64 = 16 << 20;

/// Writers wait when the bound is passed by this part of it: a sixteenth.
const WRITERS_SHARE: u64 = 16;

/// Time between two measurements.
pub(crate) const INTERVAL: Duration = Duration::from_millis(100);

/// Longest wait of one compaction for memory: writers depend on compactions to go on.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// The distance of the store from its bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Shortage {
    /// All have the sizes of their options.
    #[default]
    None = 0,
    /// The cache is smaller than its option says.
    Cache = 1,
    /// Compactions wait as well.
    Background = 2,
    /// Writers wait as well.
    Writers = 3,
}

/// Bytes by holder.
#[derive(Clone, Copy, Debug, Default)]
pub struct MemoryUse {
    /// In use by the whole library.
    pub total: u64,
    /// Blocks, index and filter partitions, with free places between blocks.
    pub cache: u64,
    /// The active memtable and those waiting for their flush.
    pub memtables: u64,
    /// Memory of earlier memtables, reused by the next ones.
    pub spare_memtables: u64,
    /// Changes of transactions.
    pub transactions: u64,
    /// The lock table.
    pub locks: u64,
    /// Read-ahead of scans and merges.
    pub read_ahead: u64,
    /// Tables in writing.
    pub table_writers: u64,
    /// Sorts of the program around, counted by itself.
    pub sorts: u64,
}

impl MemoryUse {
    /// Bytes of holders without a figure of their own.
    pub fn rest(&self) -> u64 {
        self.total.saturating_sub(self.known())
    }

    /// Each holder with its bytes; together they are the total.
    pub fn holders(&self) -> [(&'static str, u64); 9] {
        [
            ("block cache", self.cache),
            ("memtables", self.memtables),
            ("spare memtables", self.spare_memtables),
            ("transactions", self.transactions),
            ("locks", self.locks),
            ("read-ahead", self.read_ahead),
            ("table writers", self.table_writers),
            ("sorts", self.sorts),
            ("rest", self.rest()),
        ]
    }

    fn known(&self) -> u64 {
        self.cache
            + self.memtables
            + self.spare_memtables
            + self.transactions
            + self.locks
            + self.read_ahead
            + self.table_writers
            + self.sorts
    }
}

/// The state of the bound.
#[derive(Debug, Default)]
pub(crate) struct MemoryBound {
    /// Held while the cache's size changes.
    cache: Mutex<CacheState>,
    process: Mutex<ProcessWatch>,
    /// Bytes of memtables beyond which a writer measures; 0: never. See [`Store::give_way_to_memtables`].
    memtables_mark: AtomicU64,
    /// [`Shortage`] by number.
    shortage: AtomicU8,
    /// Bound on a write buffer now; 0: its option.
    buffer: AtomicUsize,
    /// Sorts of the program around, of rows for this store's families.
    pub(crate) sorts: MemoryGauge,
    /// Number of waits of compactions for memory.
    pub(crate) background_waits: AtomicU64,
    /// Number of waits of writers for memory.
    pub(crate) writer_waits: AtomicU64,
}

/// What decides about the cache's size.
#[derive(Debug, Default)]
struct CacheState {
    /// Bytes taken for rows of many megabytes.
    rows: u64,
    /// The other holders at the last measurement.
    others: Others,
    growth: CacheGrowth,
    spare: SpareWatch,
}

/// All memory but the cache's.
#[derive(Clone, Copy, Debug)]
struct Others {
    /// Bytes of the store's other holders.
    bytes: u64,
    /// Bytes that the process leaves the cache.
    left: u64,
}

impl Default for Others {
    fn default() -> Others {
        Others { bytes: 0, left: u64::MAX }
    }
}

impl MemoryBound {
    pub(crate) fn shortage(&self) -> Shortage {
        match self.shortage.load(Relaxed) {
            0 => Shortage::None,
            1 => Shortage::Cache,
            2 => Shortage::Background,
            _ => Shortage::Writers,
        }
    }

    /// There is no bound any more.
    fn end(&self) {
        self.shortage.store(Shortage::None as u8, Relaxed);
        self.buffer.store(0, Relaxed);
        self.memtables_mark.store(0, Relaxed);
    }
}

impl Store {
    /// Bytes by holder, with `locks` bytes for the lock table, known to the transactions.
    pub(crate) fn memory(&self, locks: u64) -> MemoryUse {
        let super_version = self.super_version();
        let mut memory = MemoryUse {
            total: 0,
            cache: self.cache.footprint() as u64,
            memtables: (super_version.active.bytes() + super_version.sealed_bytes()) as u64,
            spare_memtables: self.arenas.pooled_bytes() as u64,
            transactions: self.stats.batch_bytes.load(Relaxed),
            locks,
            read_ahead: self.cache.read_ahead.bytes() as u64,
            table_writers: self.cache.table_writers.bytes() as u64,
            sorts: self.memory_bound.sorts.bytes() as u64,
        };
        let elsewhere = self.cache.slab_bytes() as u64 + memory.sorts;
        let counted = self.options.heap_bytes.map(|heap_bytes| heap_bytes() + elsewhere);
        memory.total = counted.unwrap_or(0).max(memory.known());
        memory
    }

    /// Measures memory, and sets the sizes of cache and write buffers and the shortage.
    pub(crate) fn keep_memory_bound(&self) {
        // The lock table is in a heap that somebody counts.
        let memory = self.memory(0);
        let process = self.options.process.filter(|_| self.live.get().cache_grows);
        let left =
            process.map_or(u64::MAX, |process| self.memory_bound.process.lock().left(&process, memory.cache));
        let others = Others { bytes: memory.total.saturating_sub(memory.cache), left };
        let mut state = self.memory_bound.cache.lock();
        // Under the lock: a change of options ends with a call of this, which is the last one to decide by them.
        let options = self.live.get();
        if options.max_memory == 0 {
            self.set_cache_size(options.block_cache_size as u64);
            self.memory_bound.end();
            return;
        }
        self.give_way(&mut state, &options, others);
        let buffers = memory.memtables + memory.spare_memtables;
        self.choose_write_buffer(&options, memory.total.saturating_sub(memory.cache + buffers));
        let mark = if options.cache_grows { buffers + headroom(&options) / 2 } else { 0 };
        self.memory_bound.memtables_mark.store(mark, Relaxed);
        let lends_spare = state.spare.step(memory.spare_memtables) && options.cache_grows;
        drop(state);
        if lends_spare {
            self.arenas.free_unused();
        }
    }

    /// Called before a write that brings the memtables to `bytes`, which is asked only where the cache grows. Measures
    /// once they have taken half of the headroom since the last measurement: they can take lent memory faster than the
    /// loop looks.
    pub(crate) fn give_way_to_memtables(&self, bytes: impl FnOnce() -> u64) {
        let mark = &self.memory_bound.memtables_mark;
        let passed = mark.load(Relaxed);
        // One writer measures; the others go on.
        if passed != 0 && bytes() > passed && mark.compare_exchange(passed, 0, Relaxed, Relaxed).is_ok() {
            note("cache: measured by a writer");
            self.keep_memory_bound();
        }
    }

    /// Size of a full memtable in bytes: the option, or less if others have the memory.
    pub(crate) fn write_buffer_in_force(&self) -> usize {
        let size = self.live.write_buffer_size();
        match self.memory_bound.buffer.load(Relaxed) {
            0 => size,
            most => size.min(most),
        }
    }

    /// `fixed`: bytes held by neither cache nor write buffers.
    fn choose_write_buffer(&self, options: &LiveOptions, fixed: u64) {
        let (full, wanted) = (options.write_buffer_size, write_buffer(options, fixed) as usize);
        let now = self.write_buffer_in_force();
        if wanted != now && (wanted == full || wanted.abs_diff(now) >= full / 16) {
            self.memory_bound.buffer.store(wanted, Relaxed);
            self.arenas.set_limit(2 * wanted);
        }
    }

    fn give_way(&self, state: &mut CacheState, options: &LiveOptions, others: Others) {
        let now = self.cache.capacity() as u64;
        state.others = others;
        let most = cache_size(options, state.rows, others);
        if options.cache_grows {
            let wanted = state.growth.step(most, now);
            if wanted != now {
                note(if wanted > now { "cache: grows" } else { "cache: gives way" });
            }
            self.set_cache_size(wanted);
            if cfg!(simulation) {
                assert!(wanted <= most, "the cache has {wanted} bytes, and room for {most}");
            }
        } else {
            // Up in steps: a size that moves by a block with each measurement would help nobody.
            let step = options.block_cache_size as u64 / CACHE_SHARE;
            if most < now || most >= now + step || most == options.block_cache_size as u64 {
                self.set_cache_size(most);
            }
        }
        let shortage = shortage(options, others.bytes, self.cache.capacity() as u64);
        self.memory_bound.shortage.store(shortage as u8, Relaxed);
    }

    /// Memory counted for transactions and for large rows, in accounts without a public figure. 0 while none is open.
    #[cfg(simulation)]
    pub fn counted_for_transactions(&self) -> [(&'static str, u64); 4] {
        [
            ("bytes of commits under way", self.stats.committing_bytes.load(Relaxed)),
            ("bytes of undecided transactions", self.stats.undecided_bytes.load(Relaxed)),
            ("large batches", self.stats.large_batches.load(Relaxed)),
            ("bytes for large rows", self.memory_bound.cache.lock().rows),
        ]
    }

    /// Before a compaction: waits while memory is short, for a few seconds at most.
    pub(crate) fn wait_for_memory(&self, closing: &AtomicBool) {
        if self.memory_bound.shortage() < Shortage::Background {
            return;
        }
        self.memory_bound.background_waits.fetch_add(1, Relaxed);
        let begun = self.env.clock.now();
        while self.memory_bound.shortage() >= Shortage::Background
            && self.env.clock.elapsed(begun) < LONGEST_WAIT
            && !closing.load(Relaxed)
        {
            self.env.clock.sleep(INTERVAL / 4);
        }
    }

    /// Takes memory for the writing of a row of `len` bytes. [`Error::TooLittleMemory`] if the bound, the
    /// write buffers and others' rows leave too little.
    pub(crate) fn take_for_row(self: &Arc<Store>, len: usize) -> Result<RowMemory> {
        let options = self.live.get();
        if options.max_memory == 0 {
            return Ok(RowMemory { store: Arc::clone(self), bytes: 0 });
        }
        let bytes = len as u64 * COPIES;
        let mut state = self.memory_bound.cache.lock();
        let most = beside_write_buffers(&options);
        if state.rows.saturating_add(bytes) > most {
            return Err(Error::TooLittleMemory {
                len: len as u64,
                most: most.saturating_sub(state.rows) / COPIES,
            });
        }
        state.rows += bytes;
        self.set_cache_size(cache_size(&options, state.rows, state.others).min(self.cache.capacity() as u64));
        Ok(RowMemory { store: Arc::clone(self), bytes })
    }

    fn set_cache_size(&self, bytes: u64) {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        if self.cache.capacity() != bytes {
            self.cache.set_capacity(bytes);
        }
    }
}

/// Memory for the writing of a large row, released at its end, after the row went to a file or was given up.
#[derive(Debug)]
pub(crate) struct RowMemory {
    store: Arc<Store>,
    bytes: u64,
}

impl Drop for RowMemory {
    fn drop(&mut self) {
        if self.bytes > 0 {
            let mut state = self.store.memory_bound.cache.lock();
            state.rows -= self.bytes;
            if mutant::is(Mutant::RowGivenBackTwice) {
                state.rows = state.rows.wrapping_sub(self.bytes);
            }
            drop(state);
            // One that grows does so by the loop's measurements.
            if !self.store.live.get().cache_grows {
                self.store.keep_memory_bound();
            }
        }
    }
}

/// Bytes of the bound left by the write buffers to the cache and the rest.
fn beside_write_buffers(options: &LiveOptions) -> u64 {
    options.max_memory.saturating_sub(2 * options.write_buffer_size as u64)
}

/// Bytes of the bound for growth until the next measurement.
fn headroom(options: &LiveOptions) -> u64 {
    (options.max_memory / HEADROOM_SHARE).min(MOST_HEADROOM)
}

fn least_cache(options: &LiveOptions) -> u64 {
    let size = options.block_cache_size as u64;
    (size / CACHE_SHARE).max(LEAST_CACHE).min(size)
}

/// The most that the cache may have, next to `rows` bytes for large rows, possibly all in use, and to `others`. A cache of a
/// size keeps to it, and leaves the write buffers theirs. One that grows has what nobody uses.
fn cache_size(options: &LiveOptions, rows: u64, others: Others) -> u64 {
    let measured = options.max_memory.saturating_sub(others.bytes + headroom(options));
    if options.cache_grows {
        return measured.min(others.left).saturating_sub(rows).max(least_cache(options));
    }
    let planned = beside_write_buffers(options).saturating_sub(rows);
    (options.block_cache_size as u64).min(planned).min(measured.max(least_cache(options)))
}

/// The size of each of two write buffers, next to the least cache and `fixed` bytes. Thousands of connections
/// take more than the cache can give.
fn write_buffer(options: &LiveOptions, fixed: u64) -> u64 {
    let full = options.write_buffer_size as u64;
    let room = options.max_memory.saturating_sub(fixed + least_cache(options) + headroom(options));
    (room / 2).clamp(full / 4, full)
}

fn shortage(options: &LiveOptions, others: u64, cache_size: u64) -> Shortage {
    let bound = options.max_memory;
    let over = (others + least_cache(options)).saturating_sub(bound + ALLOWANCE);
    if over > bound / WRITERS_SHARE {
        Shortage::Writers
    } else if over > 0 {
        Shortage::Background
    } else if cache_size < options.block_cache_size as u64 {
        Shortage::Cache
    } else {
        Shortage::None
    }
}

#[cfg(test)]
mod tests;
