//! Column families: handles, options, counters.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use tidesdb::{BlockCodec, Compression, Error, FamilyOptions};

use crate::error::{guard, guard_shared, OK};
use crate::handles::{DbHandle, FamilyHandle, TxnHandle};
use crate::values::sync_mode;
use crate::{answer, given, null, Slice, Visit};

/// `tidesdb_family_options`.
#[repr(C)]
pub struct FamilyOptionsC {
    pub(crate) struct_size: usize,
    pub(crate) compression: u8,
    pub(crate) sync_mode: u8,
    pub(crate) bloom_filter: u8,
    pub(crate) use_btree: u8,
    pub(crate) bloom_fpr: u32,
    pub(crate) block_size: u32,
    pub(crate) prefix_len: u32,
    pub(crate) l0_compaction_trigger: u32,
    pub(crate) l0_stall_threshold: u32,
    pub(crate) level_size_ratio: u32,
    pub(crate) min_levels: u32,
    pub(crate) tombstone_density_trigger: u32,
    pub(crate) value_threshold: u32,
    pub(crate) block_codec: u32,
    pub(crate) tombstone_density_min_entries: u64,
    pub(crate) sync_interval_us: u64,
}

/// `TIDESDB_SYNC_DEFAULT`.
const SYNC_DEFAULT: u8 = 255;

impl FamilyOptionsC {
    /// Options as C has them.
    pub(crate) fn of(d: &FamilyOptions) -> FamilyOptionsC {
        FamilyOptionsC {
            struct_size: std::mem::size_of::<FamilyOptionsC>(),
            compression: d.compression as u8,
            sync_mode: d.sync_mode.map_or(SYNC_DEFAULT, |mode| mode as u8),
            bloom_filter: d.bloom_filter.into(),
            use_btree: d.use_btree.into(),
            bloom_fpr: d.bloom_fpr,
            block_size: d.block_size,
            prefix_len: d.prefix_len,
            l0_compaction_trigger: d.l0_compaction_trigger,
            l0_stall_threshold: d.l0_stall_threshold,
            level_size_ratio: d.level_size_ratio,
            min_levels: d.min_levels,
            tombstone_density_trigger: d.tombstone_density_trigger,
            value_threshold: d.value_threshold,
            block_codec: d.block_codec as u32,
            tombstone_density_min_entries: d.tombstone_density_min_entries,
            sync_interval_us: d.sync_interval_us,
        }
    }
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_family_value_threshold(family: *const FamilyHandle) -> u64 {
    // SAFETY: the crate's contract.
    unsafe { family.as_ref() }.map_or(0, |handle| handle.db.value_threshold(&handle.family).into())
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_family_options_init(options: *mut FamilyOptionsC) {
    let value = FamilyOptionsC::of(&FamilyOptions::default());
    // SAFETY: the crate's contract.
    let _ = unsafe { answer(options, value) };
}

/// The options in C's struct.
pub(crate) fn family_options(c: &FamilyOptionsC) -> Result<FamilyOptions, Error> {
    if c.struct_size != std::mem::size_of::<FamilyOptionsC>() {
        let what = "the options were not made by tidesdb_family_options_init";
        return Err(Error::InvalidArgument(what.into()));
    }
    let compression = Compression::from_byte(c.compression).ok_or_else(|| {
        Error::InvalidArgument(format!("compression = {}: 0 to 4 are known", c.compression))
    })?;
    let block_codec = u8::try_from(c.block_codec).ok().and_then(BlockCodec::from_byte);
    let block_codec = block_codec.ok_or_else(|| {
        Error::InvalidArgument(format!("block_codec = {}: 0 and 1 are known", c.block_codec))
    })?;
    Ok(FamilyOptions {
        compression,
        sync_mode: match c.sync_mode {
            SYNC_DEFAULT => None,
            mode => Some(sync_mode(mode)?),
        },
        bloom_filter: c.bloom_filter != 0,
        use_btree: c.use_btree != 0,
        bloom_fpr: c.bloom_fpr,
        block_size: c.block_size,
        prefix_len: c.prefix_len,
        l0_compaction_trigger: c.l0_compaction_trigger,
        l0_stall_threshold: c.l0_stall_threshold,
        level_size_ratio: c.level_size_ratio,
        min_levels: c.min_levels,
        tombstone_density_trigger: c.tombstone_density_trigger,
        tombstone_density_min_entries: c.tombstone_density_min_entries,
        sync_interval_us: c.sync_interval_us,
        value_threshold: c.value_threshold,
        block_codec,
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_family_open(
    db: *mut DbHandle,
    name: Slice,
    family: *mut *mut FamilyHandle,
) -> c_int {
    guard(|| {
        // SAFETY: the crate's contract.
        unsafe { answer(family, std::ptr::null_mut())? };
        // SAFETY: as above.
        let (handle, name) = unsafe { (given(db)?, name.bytes()) };
        let opened = FamilyHandle::of(handle, handle.api.handle(handle.db.family(name)?));
        // SAFETY: as above.
        unsafe { answer(family, Box::into_raw(Box::new(opened)))? };
        Ok(OK)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_family_close(family: *mut FamilyHandle) {
    if !family.is_null() {
        // SAFETY: the crate's contract: the handle is given up here.
        drop(unsafe { Box::from_raw(family) });
    }
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_family_id(family: *const FamilyHandle) -> u32 {
    // SAFETY: the crate's contract.
    unsafe { given(family) }.map_or(0, |handle| handle.family.id())
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_family_attach(index: *mut FamilyHandle, table: *mut FamilyHandle) -> c_int {
    guard(|| {
        // SAFETY: the crate's contract.
        let (index, table) = unsafe { (given(index)?, given(table)?) };
        if !Arc::ptr_eq(index.db.store(), table.db.store()) {
            return Err(Error::InvalidArgument("the families are of two stores".into()));
        }
        index.db.attach(&index.family, &table.family)?;
        Ok(OK)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_family_record(
    family: *const FamilyHandle,
    buffer: *mut u8,
    size: usize,
    needed: *mut usize,
) -> c_int {
    guard(|| {
        // SAFETY: the crate's contract.
        let record = unsafe { given(family)? }.family.record();
        let count = if buffer.is_null() { 0 } else { record.len().min(size) };
        if count > 0 {
            // SAFETY: `buffer` has `size` bytes by the crate's contract.
            unsafe { std::ptr::copy_nonoverlapping(record.as_ptr(), buffer, count) };
        }
        // SAFETY: as above.
        unsafe { answer(needed, record.len())? };
        Ok(OK)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_family_list(
    db: *mut DbHandle,
    prefix: Slice,
    visit: Visit,
    context: *mut c_void,
) -> c_int {
    guard(|| {
        // SAFETY: the crate's contract.
        let (handle, prefix) = unsafe { (given(db)?, prefix.bytes()) };
        let visit = visit.ok_or_else(null)?;
        for name in handle.db.family_names(prefix) {
            // SAFETY: as above.
            if unsafe { visit(context, Slice::of(&name)) } != 0 {
                break;
            }
        }
        Ok(OK)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_counter_take(
    family: *mut FamilyHandle,
    counter: u32,
    count: u64,
    offset: u64,
    increment: u64,
    limit: u64,
    first: *mut u64,
) -> c_int {
    guard_shared(|| {
        // SAFETY: the crate's contract.
        let handle = unsafe { given(family)? };
        let value = handle.db.counter_take(&handle.family, counter, count, offset, increment, limit)?;
        // SAFETY: as above.
        unsafe { answer(first, value)? };
        Ok(OK)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_counter_raise(
    _txn: *mut TxnHandle,
    family: *mut FamilyHandle,
    counter: u32,
    value: u64,
) -> c_int {
    guard_shared(|| {
        // SAFETY: the crate's contract.
        let handle = unsafe { given(family)? };
        handle.db.counter_raise(&handle.family, counter, value)?;
        Ok(OK)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_counter_peek(family: *const FamilyHandle, counter: u32) -> u64 {
    let mut value = 1;
    guard(|| {
        // SAFETY: the crate's contract.
        let handle = unsafe { given(family)? };
        value = handle.db.counter_peek(&handle.family, counter)?;
        Ok(OK)
    });
    value
}
