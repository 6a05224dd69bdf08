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
use crate::store::Store;
use crate::sync::Mutex;

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
    /// Bytes taken for rows of many megabytes. Held while the cache's size changes.
    rows: Mutex<u64>,
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

impl MemoryBound {
    pub(crate) fn shortage(&self) -> Shortage {
        match self.shortage.load(Relaxed) {
            0 => Shortage::None,
            1 => Shortage::Cache,
            2 => Shortage::Background,
            _ => Shortage::Writers,
        }
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

    /// Measures memory, and sets the cache's size and the shortage.
    pub(crate) fn keep_memory_bound(&self) {
        // The lock table is in a heap that somebody counts.
        let memory = self.memory(0);
        self.give_way(memory.total.saturating_sub(memory.cache));
        let buffers = memory.memtables + memory.spare_memtables;
        self.choose_write_buffer(memory.total.saturating_sub(memory.cache + buffers));
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
    fn choose_write_buffer(&self, fixed: u64) {
        let options = self.live.get();
        let (full, wanted) = (options.write_buffer_size, write_buffer(&options, fixed) as usize);
        let now = self.write_buffer_in_force();
        if wanted != now && (wanted == full || wanted.abs_diff(now) >= full / 16) {
            self.memory_bound.buffer.store(wanted, Relaxed);
            self.arenas.set_limit(2 * wanted);
        }
    }

    /// `others`: bytes of all holders but the cache.
    fn give_way(&self, others: u64) {
        let rows = self.memory_bound.rows.lock();
        let now = self.cache.capacity() as u64;
        let options = self.live.get();
        let wanted = cache_size(&options, *rows, others);
        // Up in steps: a size that moves by a block with each measurement would help nobody.
        let step = options.block_cache_size as u64 / CACHE_SHARE;
        if wanted < now || wanted >= now + step || wanted == options.block_cache_size as u64 {
            self.set_cache_size(wanted);
        }
        let shortage = shortage(&options, others, self.cache.capacity() as u64);
        self.memory_bound.shortage.store(shortage as u8, Relaxed);
    }

    /// Memory counted for transactions and for large rows, in accounts without a public figure. 0 while none is open.
    #[cfg(simulation)]
    pub fn counted_for_transactions(&self) -> [(&'static str, u64); 4] {
        [
            ("bytes of commits under way", self.stats.committing_bytes.load(Relaxed)),
            ("bytes of undecided transactions", self.stats.undecided_bytes.load(Relaxed)),
            ("large batches", self.stats.large_batches.load(Relaxed)),
            ("bytes for large rows", *self.memory_bound.rows.lock()),
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
        let mut rows = self.memory_bound.rows.lock();
        let most = beside_write_buffers(&options);
        if rows.saturating_add(bytes) > most {
            return Err(Error::TooLittleMemory {
                len: len as u64,
                most: most.saturating_sub(*rows) / COPIES,
            });
        }
        *rows += bytes;
        self.set_cache_size(cache_size(&options, *rows, 0).min(self.cache.capacity() as u64));
        Ok(RowMemory { store: Arc::clone(self), bytes })
    }

    /// Sets the cache's size after a change of options: the new one, or less if others have the memory.
    pub(crate) fn resize_cache(&self) {
        let options = self.live.get();
        match options.max_memory {
            0 => {
                let _rows = self.memory_bound.rows.lock();
                self.set_cache_size(options.block_cache_size as u64);
                self.memory_bound.shortage.store(Shortage::None as u8, Relaxed);
                self.memory_bound.buffer.store(0, Relaxed);
            }
            _ => self.keep_memory_bound(),
        }
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
            *self.store.memory_bound.rows.lock() -= self.bytes;
            if mutant::is(Mutant::RowGivenBackTwice) {
                let mut rows = self.store.memory_bound.rows.lock();
                *rows = rows.wrapping_sub(self.bytes);
            }
            self.store.resize_cache();
        }
    }
}

/// Bytes of the bound left by the write buffers to the cache and the rest.
fn beside_write_buffers(options: &LiveOptions) -> u64 {
    options.max_memory.saturating_sub(2 * options.write_buffer_size as u64)
}

fn least_cache(options: &LiveOptions) -> u64 {
    let size = options.block_cache_size as u64;
    (size / CACHE_SHARE).max(LEAST_CACHE).min(size)
}

/// The cache's size, next to `rows` bytes for large rows, possibly all in use, and `others` bytes of all
/// holders but the cache.
fn cache_size(options: &LiveOptions, rows: u64, others: u64) -> u64 {
    let planned = beside_write_buffers(options).saturating_sub(rows);
    let headroom = (options.max_memory / HEADROOM_SHARE).min(MOST_HEADROOM);
    let measured = options.max_memory.saturating_sub(others + headroom).max(least_cache(options));
    (options.block_cache_size as u64).min(planned).min(measured)
}

/// The size of each of two write buffers, next to the least cache and `fixed` bytes. Thousands of connections
/// take more than the cache can give.
fn write_buffer(options: &LiveOptions, fixed: u64) -> u64 {
    let full = options.write_buffer_size as u64;
    let headroom = (options.max_memory / HEADROOM_SHARE).min(MOST_HEADROOM);
    let room = options.max_memory.saturating_sub(fixed + least_cache(options) + headroom);
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
