//! Changes of options while the store is open.

use std::ffi::c_int;
use std::sync::atomic::Ordering;

use tidesdb::internal::options::LiveOptions;

use crate::error::{guard, OK};
use crate::handles::DbHandle;
use crate::values::sync_mode;
use crate::{answer, given};

/// `tidesdb_live_options`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct LiveOptionsC {
    pub(crate) write_buffer_size: u64,
    pub(crate) block_cache_size: u64,
    pub(crate) max_memory: u64,
    pub(crate) sync_interval_us: u64,
    pub(crate) max_open_files: u32,
    pub(crate) compaction_threads: u32,
    pub(crate) log_level: c_int,
    pub(crate) sync_mode: u8,
    pub(crate) finish_compactions_on_close: u8,
    pub(crate) flush_on_close: u8,
    pub(crate) cache_grows: u8,
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_get_live_options(db: *mut DbHandle, options: *mut LiveOptionsC) -> c_int {
    guard(|| {
        // SAFETY: the crate's contract.
        let handle = unsafe { given(db)? };
        let now = handle.db.live_options();
        let value = LiveOptionsC {
            write_buffer_size: now.write_buffer_size as u64,
            block_cache_size: now.block_cache_size as u64,
            max_memory: now.max_memory,
            sync_interval_us: now.sync_interval_us,
            max_open_files: u32::try_from(now.max_open_files).unwrap_or(u32::MAX),
            compaction_threads: u32::try_from(now.compaction_threads).unwrap_or(u32::MAX),
            log_level: handle.log_level.load(Ordering::Relaxed),
            sync_mode: now.sync_mode as u8,
            finish_compactions_on_close: now.finish_compactions_on_close.into(),
            flush_on_close: now.flush_on_close.into(),
            cache_grows: now.cache_grows.into(),
        };
        // SAFETY: the crate's contract.
        unsafe { answer(options, value) }?;
        Ok(OK)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_set_live_options(db: *mut DbHandle, options: *const LiveOptionsC) -> c_int {
    guard(|| {
        // SAFETY: the crate's contract.
        let (handle, c) = unsafe { (given(db)?, given(options)?) };
        let size = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
        handle.db.set_live_options(&LiveOptions {
            write_buffer_size: size(c.write_buffer_size),
            block_cache_size: size(c.block_cache_size),
            cache_grows: c.cache_grows != 0,
            max_memory: c.max_memory,
            sync_mode: sync_mode(c.sync_mode)?,
            sync_interval_us: c.sync_interval_us,
            compaction_threads: c.compaction_threads as usize,
            max_open_files: c.max_open_files as usize,
            finish_compactions_on_close: c.finish_compactions_on_close != 0,
            flush_on_close: c.flush_on_close != 0,
        })?;
        handle.log_level.store(c.log_level, Ordering::Relaxed);
        Ok(OK)
    })
}
