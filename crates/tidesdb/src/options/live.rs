//! Options of an open store that can change.
//!
//! [`LiveOptions`] is a plain copy of their values, for an owner to read and set. [`LiveValues`] has the
//! values in force: commits and statements read them without a latch. One change at a time replaces them
//! ([`Db::set_live_options`](crate::internal::db::Db::set_live_options)).

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicU8, AtomicUsize, Ordering};

use crossbeam_utils::CachePadded;

use super::{Options, SyncMode};

/// The changeable options of an open store; [`Options`] describes each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveOptions {
    /// Applies to the active memtable: a smaller size seals it at the next commit.
    pub write_buffer_size: usize,
    /// A smaller cache evicts before the change returns.
    pub block_cache_size: usize,
    /// The cache may grow beyond its size to what `max_memory` leaves.
    pub cache_grows: bool,
    /// The bound on all memory.
    pub max_memory: u64,
    /// Once a stricter mode is set, all commits answered before are as durable as those after.
    pub sync_mode: SyncMode,
    /// Longest time between background syncs, in microseconds.
    pub sync_interval_us: u64,
    /// A surplus thread ends its merge first.
    pub compaction_threads: usize,
    /// Bound on open table files.
    pub max_open_files: usize,
    /// Read when the store is closed.
    pub finish_compactions_on_close: bool,
    /// Read when the store is closed.
    pub flush_on_close: bool,
}

impl LiveOptions {
    /// Those of a store's options.
    pub fn of(options: &Options) -> LiveOptions {
        LiveOptions {
            write_buffer_size: options.write_buffer_size,
            block_cache_size: options.block_cache_size,
            cache_grows: options.cache_grows,
            max_memory: options.max_memory,
            sync_mode: options.sync_mode,
            sync_interval_us: options.sync_interval_us,
            compaction_threads: options.compaction_threads,
            max_open_files: options.max_open_files,
            finish_compactions_on_close: options.finish_compactions_on_close,
            flush_on_close: options.flush_on_close,
        }
    }

    /// `options` with these values.
    pub(crate) fn over(self, options: &Options) -> Options {
        Options {
            write_buffer_size: self.write_buffer_size,
            block_cache_size: self.block_cache_size,
            cache_grows: self.cache_grows,
            max_memory: self.max_memory,
            sync_mode: self.sync_mode,
            sync_interval_us: self.sync_interval_us,
            compaction_threads: self.compaction_threads,
            max_open_files: self.max_open_files,
            finish_compactions_on_close: self.finish_compactions_on_close,
            flush_on_close: self.flush_on_close,
            ..options.clone()
        }
    }

    /// The differences from `before`, in one line for the log; empty: none.
    pub(crate) fn changes(&self, before: &LiveOptions) -> String {
        let shown = |options: &LiveOptions| {
            [
                ("write_buffer_size", options.write_buffer_size.to_string()),
                ("block_cache_size", options.block_cache_size.to_string()),
                ("cache_grows", options.cache_grows.to_string()),
                ("max_memory", options.max_memory.to_string()),
                ("sync_mode", format!("{:?}", options.sync_mode)),
                ("sync_interval_us", options.sync_interval_us.to_string()),
                ("compaction_threads", options.compaction_threads.to_string()),
                ("max_open_files", options.max_open_files.to_string()),
                ("finish_compactions_on_close", options.finish_compactions_on_close.to_string()),
                ("flush_on_close", options.flush_on_close.to_string()),
            ]
        };
        let pairs = shown(before).into_iter().zip(shown(self));
        let changed = pairs.filter(|(old, new)| old != new);
        let lines: Vec<String> =
            changed.map(|(old, new)| format!("{} is {}, it was {}", new.0, new.1, old.1)).collect();
        lines.join("; ")
    }
}

/// The values in force. Every commit reads them and writes are rare: they have cache lines of their own.
#[derive(Debug)]
pub(crate) struct LiveValues(CachePadded<Cells>);

#[derive(Debug)]
struct Cells {
    write_buffer_size: AtomicUsize,
    block_cache_size: AtomicUsize,
    cache_grows: AtomicBool,
    max_memory: AtomicU64,
    sync_mode: AtomicU8,
    /// Every answered commit is durable; lags behind a stricter `sync_mode` until a sync makes it true.
    all_durable: AtomicBool,
    sync_interval_us: AtomicU64,
    compaction_threads: AtomicUsize,
    max_open_files: AtomicUsize,
    finish_compactions_on_close: AtomicBool,
    flush_on_close: AtomicBool,
}

impl LiveValues {
    pub(crate) fn new(options: &Options) -> LiveValues {
        LiveValues(CachePadded::new(Cells {
            write_buffer_size: AtomicUsize::new(options.write_buffer_size),
            block_cache_size: AtomicUsize::new(options.block_cache_size),
            cache_grows: AtomicBool::new(options.cache_grows),
            max_memory: AtomicU64::new(options.max_memory),
            sync_mode: AtomicU8::new(options.sync_mode as u8),
            all_durable: AtomicBool::new(options.sync_mode == SyncMode::Full),
            sync_interval_us: AtomicU64::new(options.sync_interval_us),
            compaction_threads: AtomicUsize::new(options.compaction_threads),
            max_open_files: AtomicUsize::new(options.max_open_files),
            finish_compactions_on_close: AtomicBool::new(options.finish_compactions_on_close),
            flush_on_close: AtomicBool::new(options.flush_on_close),
        }))
    }

    pub(crate) fn get(&self) -> LiveOptions {
        LiveOptions {
            write_buffer_size: self.write_buffer_size(),
            block_cache_size: self.0.block_cache_size.load(Ordering::Relaxed),
            cache_grows: self.0.cache_grows.load(Ordering::Relaxed),
            max_memory: self.max_memory(),
            sync_mode: self.sync_mode(),
            sync_interval_us: self.0.sync_interval_us.load(Ordering::Relaxed),
            compaction_threads: self.0.compaction_threads.load(Ordering::Relaxed),
            max_open_files: self.0.max_open_files.load(Ordering::Relaxed),
            finish_compactions_on_close: self.0.finish_compactions_on_close.load(Ordering::Relaxed),
            flush_on_close: self.0.flush_on_close.load(Ordering::Relaxed),
        }
    }

    /// Sets all values but the sync mode.
    pub(crate) fn set(&self, to: &LiveOptions) {
        self.0.write_buffer_size.store(to.write_buffer_size, Ordering::Relaxed);
        self.0.block_cache_size.store(to.block_cache_size, Ordering::Relaxed);
        self.0.cache_grows.store(to.cache_grows, Ordering::Relaxed);
        self.0.max_memory.store(to.max_memory, Ordering::Relaxed);
        self.0.sync_interval_us.store(to.sync_interval_us, Ordering::Relaxed);
        self.0.compaction_threads.store(to.compaction_threads, Ordering::Relaxed);
        self.0.max_open_files.store(to.max_open_files, Ordering::Relaxed);
        self.0.finish_compactions_on_close.store(to.finish_compactions_on_close, Ordering::Relaxed);
        self.0.flush_on_close.store(to.flush_on_close, Ordering::Relaxed);
    }

    pub(crate) fn write_buffer_size(&self) -> usize {
        self.0.write_buffer_size.load(Ordering::Relaxed)
    }

    pub(crate) fn max_memory(&self) -> u64 {
        self.0.max_memory.load(Ordering::Relaxed)
    }

    /// The mode of commits not answered yet.
    pub(crate) fn sync_mode(&self) -> SyncMode {
        match self.0.sync_mode.load(Ordering::SeqCst) {
            0 => SyncMode::None,
            1 => SyncMode::Interval,
            _ => SyncMode::Full,
        }
    }

    pub(crate) fn set_sync_mode(&self, mode: SyncMode) {
        self.0.sync_mode.store(mode as u8, Ordering::SeqCst);
    }

    /// True if every answered commit is durable.
    pub(crate) fn all_durable(&self) -> bool {
        self.0.all_durable.load(Ordering::SeqCst)
    }

    pub(crate) fn set_all_durable(&self, durable: bool) {
        self.0.all_durable.store(durable, Ordering::SeqCst);
    }

    /// See [`Options::lock_bound`].
    pub(crate) fn lock_bound(&self) -> usize {
        super::lock_bound(self.write_buffer_size())
    }

    /// See [`Options::spill_bound`].
    pub(crate) fn spill_bound(&self) -> usize {
        super::spill_bound(self.write_buffer_size())
    }
}
