//! Estimates, maintenance of a family, statistics and the report.

use std::ffi::{c_char, c_int, CString};

use tidesdb::internal::db::stats::{FamilyStats, StoreStats};
use tidesdb::internal::iter::KeyRange;
use tidesdb::Error;

use crate::error::{guard, guard_shared, NOT_FOUND, OK};
use crate::handles::{DbHandle, FamilyHandle, TxnHandle};
use crate::{answer, given, Slice};

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_estimate_range(
    family: *mut FamilyHandle,
    lower: Slice,
    upper: Slice,
    rows: *mut u64,
) -> c_int {
    guard(|| {
        // SAFETY: the crate's contract.
        let handle = unsafe { given(family)? };
        // SAFETY: as above.
        let bound = |slice: Slice| (!slice.data.is_null()).then(|| unsafe { slice.bytes() }.to_vec());
        let range = KeyRange { lower: bound(lower), upper: bound(upper) };
        let estimate = handle.db.estimate(&handle.family, &range)?;
        // SAFETY: as above.
        unsafe { answer(rows, estimate)? };
        Ok(OK)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_key_at(
    family: *mut FamilyHandle,
    share: f64,
    key: *mut u8,
    capacity: usize,
    size: *mut usize,
) -> c_int {
    guard(|| {
        // SAFETY: the crate's contract.
        let handle = unsafe { given(family)? };
        let Some(found) = handle.db.key_at(&handle.family, share)? else { return Ok(NOT_FOUND) };
        let len = found.len().min(capacity);
        if len > 0 {
            if key.is_null() {
                return Err(Error::InvalidArgument("no room for a key".to_string()));
            }
            // SAFETY: the caller has room for `capacity` bytes, and nothing of ours lies there.
            unsafe { key.copy_from_nonoverlapping(found.as_ptr(), len) };
        }
        // SAFETY: as above.
        unsafe { answer(size, len)? };
        Ok(OK)
    })
}

/// `tidesdb_family_stats`.
#[repr(C)]
pub struct FamilyStatsC {
    pub(crate) struct_size: usize,
    pub(crate) entries: u64,
    pub(crate) tombstones: u64,
    pub(crate) data_bytes: u64,
    pub(crate) value_bytes: u64,
    pub(crate) memtable_bytes: u64,
    pub(crate) mean_row_bytes: u64,
    pub(crate) runs: u32,
    pub(crate) levels: u32,
    pub(crate) counted: u64,
}

impl FamilyStatsC {
    /// Figures as C has them.
    pub(crate) fn of(s: &FamilyStats) -> FamilyStatsC {
        FamilyStatsC {
            struct_size: std::mem::size_of::<FamilyStatsC>(),
            entries: s.entries,
            tombstones: s.tombstones,
            data_bytes: s.data_bytes,
            value_bytes: s.value_bytes,
            memtable_bytes: s.memtable_bytes,
            mean_row_bytes: s.mean_row_bytes,
            runs: s.runs,
            levels: s.levels,
            counted: s.counted.into(),
        }
    }
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_family_get_stats(
    family: *mut FamilyHandle,
    stats: *mut FamilyStatsC,
) -> c_int {
    guard(|| {
        // SAFETY: the crate's contract.
        let handle = unsafe { given(family)? };
        let s = handle.db.family_stats(&handle.family)?;
        let value = FamilyStatsC::of(&s);
        // SAFETY: as above.
        unsafe { answer(stats, value)? };
        Ok(OK)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_family_old_form(family: *mut FamilyHandle, size: *mut u64) -> c_int {
    guard(|| {
        // SAFETY: the crate's contract.
        let handle = unsafe { given(family)? };
        let old = handle.db.old_form_bytes(&handle.family)?;
        // SAFETY: as above.
        unsafe { answer(size, old)? };
        Ok(OK)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_compact(family: *mut FamilyHandle, txn: *mut TxnHandle) -> c_int {
    guard_shared(|| {
        // SAFETY: the crate's contract.
        let handle = unsafe { given(family)? };
        // SAFETY: as above.
        let txn = unsafe { txn.as_ref() };
        handle.db.compact_unless(&handle.family, &|| txn.is_some_and(TxnHandle::is_killed))?;
        Ok(OK)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_verify(family: *mut FamilyHandle, txn: *mut TxnHandle) -> c_int {
    guard(|| {
        // SAFETY: the crate's contract.
        let handle = unsafe { given(family)? };
        // SAFETY: as above.
        let txn = unsafe { txn.as_ref() };
        handle.db.verify_unless(&handle.family, &|| txn.is_some_and(TxnHandle::is_killed))?;
        Ok(OK)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_count_rows(
    family: *mut FamilyHandle,
    txn: *mut TxnHandle,
    rows: *mut u64,
) -> c_int {
    guard_shared(|| {
        // SAFETY: the crate's contract.
        let handle = unsafe { given(family)? };
        // SAFETY: as above.
        let txn = unsafe { txn.as_ref() };
        let counted = handle.db.count_rows(&handle.family, &|| txn.is_some_and(TxnHandle::is_killed))?;
        // SAFETY: as above.
        unsafe { answer(rows, counted)? };
        Ok(OK)
    })
}

/// `tidesdb_stats` from one list: a field of the header and where the engine's statistics have it.
macro_rules! stats {
    ($s:ident, $($field:ident: $value:expr,)*) => {
        /// `tidesdb_stats`.
        #[repr(C)]
        #[derive(Default)]
        #[allow(missing_docs)] // The fields are those of the header.
        pub struct StatsC {
            pub struct_size: usize,
            $(pub $field: u64,)*
        }

        impl StatsC {
            fn of($s: &StoreStats) -> StatsC {
                StatsC { struct_size: std::mem::size_of::<StatsC>(), $($field: $value,)* }
            }
        }
    };
}

stats! { s,
    column_families: s.column_families,
    global_sequence: s.global_sequence,
    memtable_bytes: s.memtable_bytes,
    txn_memory_bytes: s.txn_memory_bytes,
    memory_limit: s.memory_limit,
    total_sstables: s.total_sstables,
    open_sstables: s.open_sstables,
    data_size_bytes: s.data_size_bytes,
    immutable_memtables: s.immutable_memtables,
    flush_pending: s.immutable_memtables,
    flush_queue: s.immutable_memtables,
    compaction_queue: s.compaction_queue,
    cache_entries: s.cache_entries,
    cache_bytes: s.cache_bytes,
    cache_hits: s.cache_hits,
    cache_misses: s.cache_misses,
    cache_compressed_hits: s.cache_compressed_hits,
    cache_partitions: s.cache_partitions,
    table_reads: s.table_reads,
    table_read_bytes: s.table_read_bytes,
    value_files: s.value_files,
    value_bytes: s.value_bytes,
    value_bytes_written: s.value_bytes_written,
    value_bytes_freed: s.value_bytes_freed,
    total_tombstones: s.total_tombstones,
    total_entries: s.total_entries,
    backpressure_waits: s.backpressure_waits,
    backpressure_wait_us: s.backpressure_wait_us,
    lock_waits: s.locks.waits,
    lock_wait_us: s.locks.wait_us,
    lock_deadlocks: s.locks.deadlocks,
    lock_timeouts: s.locks.timeouts,
    lock_held: s.locks.held,
    lock_entries: s.locks.entries,
    lock_chain_max: s.locks.chain_max,
    wal_generation: s.wal_segment,
    wal_bytes_written: s.wal_bytes_written,
    flush_bytes_written: s.flush_bytes_written,
    compaction_bytes_written: s.compaction_bytes_written,
    compaction_bytes_read: s.compaction_bytes_read,
    user_bytes_written: s.user_bytes_written,
    flush_count: s.flush_count,
    compaction_count: s.compaction_count,
    compaction_debt_bytes: s.compaction_debt_bytes,
    is_flushing: s.is_flushing.into(),
    wal_syncs: s.wal_syncs,
    wal_groups: s.wal_groups,
    commits: s.commits,
    spilled_runs: s.spilled_runs,
    lock_waiting: s.locks.waiting,
    lock_escalations: s.locks.escalations,
    lock_entry_recycles: s.locks.recycles,
    conflicts: s.conflicts,
    snapshots: s.snapshots,
    max_tombstones_per_million: (s.densest.density * 1e6) as u64,
    max_tombstones_level: s.densest.level.into(),
    expiry_clock_lag_seconds: s.expiry_lag,
    wal_full: s.wal_full,
    memory_total: s.memory.total,
    memory_block_cache: s.memory.cache,
    memory_memtables: s.memory.memtables,
    memory_spare_memtables: s.memory.spare_memtables,
    memory_transactions: s.memory.transactions,
    memory_locks: s.memory.locks,
    memory_read_ahead: s.memory.read_ahead,
    memory_table_writers: s.memory.table_writers,
    memory_sorts: s.memory.sorts,
    memory_rest: s.memory.rest(),
    memory_shortage: s.shortage as u64,
    cache_capacity: s.cache_capacity,
    memory_background_waits: s.memory_background_waits,
    memory_writer_waits: s.memory_writer_waits,
    get_samples: s.gets.count,
    get_sample_us: s.gets.us,
    commit_samples: s.commit_times.count,
    commit_sample_us: s.commit_times.us,
    wal_sync_us: s.sync_times.us,
    flush_us: s.flush_times.us,
    compaction_us: s.merge_times.us,
    flush_failures: s.flush_failures,
    compaction_failures: s.merge_failures,
    damage_met: s.corruptions + crate::error::damage_met(),
    set_aside_families: s.set_aside_families,
    missing_files: s.missing_files,
    read_only: s.is_read_only.into(),
    oldest_snapshot_seconds: s.oldest_snapshot_seconds,
    free_space_bytes: s.free_space,
    disk_full: s.disk_is_full.into(),
    disk_full_count: s.disk_full_count,
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_get_stats(db: *mut DbHandle, stats: *mut StatsC) -> c_int {
    guard(|| {
        // SAFETY: the crate's contract.
        let known = unsafe { given(db)? }.db.stats();
        // SAFETY: as above.
        unsafe { answer(stats, StatsC::of(&known))? };
        Ok(OK)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_status_text(db: *mut DbHandle, text: *mut *mut c_char) -> c_int {
    guard(|| {
        // SAFETY: the crate's contract.
        let report = unsafe { given(db)? }.db.report();
        // SAFETY: as above.
        unsafe { answer(text, std::ptr::null_mut())? };
        let report = CString::new(report.replace('\0', " ")).unwrap_or_default();
        // SAFETY: as above.
        unsafe { answer(text, report.into_raw())? };
        Ok(OK)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_free_text(text: *mut c_char) {
    if !text.is_null() {
        // SAFETY: the text came from tidesdb_status_text.
        drop(unsafe { CString::from_raw(text) });
    }
}
