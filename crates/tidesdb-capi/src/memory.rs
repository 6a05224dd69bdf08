//! Sizes within the memory of the machine or container.

use std::ffi::c_int;

use tidesdb::internal::options::{available_memory, memory_limit, Available, MemoryPlan, Size};

use crate::error::{guard_shared, OK};
use crate::handles::DbHandle;
use crate::{answer, null};

/// `tidesdb_memory_plan`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct MemoryPlanC {
    pub(crate) max_memory: u64,
    pub(crate) block_cache_size: u64,
    pub(crate) write_buffer_size: u64,
    pub(crate) available: u64,
    pub(crate) max_memory_is_set: u8,
    pub(crate) block_cache_is_set: u8,
    pub(crate) write_buffer_is_set: u8,
    pub(crate) cache_grows: u8,
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_plan_memory(plan: *mut MemoryPlanC) -> c_int {
    guard_shared(|| {
        // SAFETY: the crate's contract.
        let c = *unsafe { plan.as_ref() }.ok_or_else(null)?;
        let size = |bytes, is_set| Size { bytes, is_set: is_set != 0 };
        let limit = memory_limit();
        let available = limit.or_else(available_memory).unwrap_or(0);
        let fit = MemoryPlan {
            budget: size(c.max_memory, c.max_memory_is_set),
            block_cache: size(c.block_cache_size, c.block_cache_is_set),
            write_buffer: size(c.write_buffer_size, c.write_buffer_is_set),
        }
        .fit(Available { bytes: available, is_limit: limit.is_some() })?;
        let sizes = fit.sizes;
        let decided = MemoryPlanC {
            max_memory: sizes.budget.bytes,
            block_cache_size: sizes.block_cache.bytes,
            write_buffer_size: sizes.write_buffer.bytes,
            available,
            cache_grows: fit.cache_grows.into(),
            ..c
        };
        // SAFETY: the crate's contract.
        unsafe { answer(plan, decided) }?;
        Ok(OK)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_count_sort_memory(db: *const DbHandle, bytes: i64) {
    // SAFETY: the crate's contract.
    if let Some(handle) = unsafe { db.as_ref() } {
        handle.db.count_sort_memory(bytes as isize);
    }
}
