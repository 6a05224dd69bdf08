//! Groups of dictionary changes.

use std::ffi::c_int;

use tidesdb::internal::db::ddl::Ddl;

use crate::error::{guard, guard_shared, OK};
use crate::family::{family_options, FamilyOptionsC};
use crate::handles::DbHandle;
use crate::{answer, given, given_mut, Slice};

/// `tidesdb_ddl`.
pub struct DdlHandle {
    ddl: Ddl,
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_ddl_begin(db: *mut DbHandle, ddl: *mut *mut DdlHandle) -> c_int {
    guard(|| {
        // SAFETY: the crate's contract.
        unsafe { answer(ddl, std::ptr::null_mut())? };
        // SAFETY: as above.
        let handle = unsafe { given(db)? };
        let begun = DdlHandle { ddl: handle.db.ddl()? };
        // SAFETY: as above.
        unsafe { answer(ddl, Box::into_raw(Box::new(begun)))? };
        Ok(OK)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_ddl_create(
    ddl: *mut DdlHandle,
    name: Slice,
    options: *const FamilyOptionsC,
    record: Slice,
) -> c_int {
    guard(|| {
        // SAFETY: the crate's contract.
        let (handle, options) = unsafe { (given_mut(ddl)?, family_options(given(options)?)?) };
        // SAFETY: as above.
        let (name, record) = unsafe { (name.bytes(), record.bytes()) };
        handle.ddl.create(name, options, record)?;
        Ok(OK)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_ddl_drop(ddl: *mut DdlHandle, name: Slice) -> c_int {
    guard(|| {
        // SAFETY: the crate's contract.
        let (handle, name) = unsafe { (given_mut(ddl)?, name.bytes()) };
        handle.ddl.drop_family(name)?;
        Ok(OK)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_ddl_rename(ddl: *mut DdlHandle, from: Slice, to: Slice) -> c_int {
    guard(|| {
        // SAFETY: the crate's contract.
        let (handle, from, to) = unsafe { (given_mut(ddl)?, from.bytes(), to.bytes()) };
        handle.ddl.rename(from, to)?;
        Ok(OK)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_ddl_truncate(ddl: *mut DdlHandle, name: Slice) -> c_int {
    guard(|| {
        // SAFETY: the crate's contract.
        let (handle, name) = unsafe { (given_mut(ddl)?, name.bytes()) };
        handle.ddl.truncate(name)?;
        Ok(OK)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_ddl_set_record(ddl: *mut DdlHandle, name: Slice, record: Slice) -> c_int {
    guard(|| {
        // SAFETY: the crate's contract.
        let (handle, name, record) = unsafe { (given_mut(ddl)?, name.bytes(), record.bytes()) };
        handle.ddl.set_record(name, record)?;
        Ok(OK)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_ddl_set_options(
    ddl: *mut DdlHandle,
    name: Slice,
    options: *const FamilyOptionsC,
) -> c_int {
    guard(|| {
        // SAFETY: the crate's contract.
        let (handle, name, options) =
            unsafe { (given_mut(ddl)?, name.bytes(), family_options(given(options)?)?) };
        handle.ddl.set_options(name, options)?;
        Ok(OK)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_ddl_bump(ddl: *mut DdlHandle, name: Slice) -> c_int {
    guard(|| {
        // SAFETY: the crate's contract.
        let (handle, name) = unsafe { (given_mut(ddl)?, name.bytes()) };
        handle.ddl.bump(name)?;
        Ok(OK)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_ddl_set_counter(
    ddl: *mut DdlHandle,
    name: Slice,
    counter: u32,
    next: u64,
) -> c_int {
    guard(|| {
        // SAFETY: the crate's contract.
        let (handle, name) = unsafe { (given_mut(ddl)?, name.bytes()) };
        handle.ddl.set_counter(name, counter, next)?;
        Ok(OK)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_ddl_commit(ddl: *mut DdlHandle) -> c_int {
    guard_shared(|| {
        // SAFETY: the crate's contract: the handle is given up here.
        let handle = unsafe { Box::from_raw(given_mut(ddl)?) };
        handle.ddl.commit()?;
        Ok(OK)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_ddl_abort(ddl: *mut DdlHandle) {
    if !ddl.is_null() {
        // SAFETY: the crate's contract: the handle is given up here.
        drop(unsafe { Box::from_raw(ddl) });
    }
}
