//! Single operations on a family, each a transaction of its own.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use tidesdb::{Error, FamilyOptions};

use crate::error::{guard, guard_shared, NOT_FOUND, OK};
use crate::family::{family_options, FamilyOptionsC};
use crate::handles::{DbHandle, FamilyHandle};
use crate::{answer, given, Slice};

/// Bytes for C, from the heap of C: whoever frees them needs no size.
pub(crate) fn copied_to_c(bytes: &[u8]) -> Result<Slice, Error> {
    // Also an empty value has an address that is not null: null stands for no value.
    // SAFETY: any size may be asked for; zero is not.
    let data = unsafe { libc::malloc(bytes.len().max(1)) }.cast::<u8>();
    if data.is_null() {
        let error = std::io::Error::from(std::io::ErrorKind::OutOfMemory);
        return Err(Error::io("allocation", "a value", error));
    }
    // SAFETY: the place was just made, and has room for them.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), data, bytes.len()) };
    Ok(Slice { data, size: bytes.len() })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_family_open_or_create(
    db: *mut DbHandle,
    name: Slice,
    options: *const FamilyOptionsC,
    family: *mut *mut FamilyHandle,
) -> c_int {
    guard_shared(|| {
        // SAFETY: the crate's contract.
        unsafe { answer(family, std::ptr::null_mut())? };
        // SAFETY: as above.
        let (handle, name) = unsafe { (given(db)?, name.bytes()) };
        // SAFETY: as above; a null pointer asks for the defaults.
        let options = match unsafe { options.as_ref() } {
            Some(options) => family_options(options)?,
            None => FamilyOptions::default(),
        };
        let opened = FamilyHandle::of(handle, handle.api.family_with(name, options)?);
        // SAFETY: as above.
        unsafe { answer(family, Box::into_raw(Box::new(opened)))? };
        Ok(OK)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_put(family: *mut FamilyHandle, key: Slice, value: Slice) -> c_int {
    guard_shared(|| {
        // SAFETY: the crate's contract.
        let (handle, key, value) = unsafe { (given(family)?, key.bytes(), value.bytes()) };
        handle.single.put(key, value)?;
        Ok(OK)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_get(family: *mut FamilyHandle, key: Slice, value: *mut Slice) -> c_int {
    guard(|| {
        // SAFETY: the crate's contract.
        unsafe { answer(value, Slice { data: std::ptr::null(), size: 0 })? };
        // SAFETY: as above.
        let (handle, key) = unsafe { (given(family)?, key.bytes()) };
        let Some(found) = handle.single.get(key)? else { return Ok(NOT_FOUND) };
        // SAFETY: as above.
        unsafe { answer(value, copied_to_c(&found)?)? };
        Ok(OK)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_delete(family: *mut FamilyHandle, key: Slice) -> c_int {
    guard_shared(|| {
        // SAFETY: the crate's contract.
        let (handle, key) = unsafe { (given(family)?, key.bytes()) };
        handle.single.delete(key)?;
        Ok(OK)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_slice_free(slice: *mut Slice) {
    // SAFETY: the crate's contract.
    let Some(slice) = (unsafe { slice.as_mut() }) else { return };
    // SAFETY: `copied_to_c` took the bytes from this heap; null is allowed.
    unsafe { libc::free(slice.data.cast_mut().cast::<c_void>()) };
    *slice = Slice { data: std::ptr::null(), size: 0 };
}

impl FamilyHandle {
    /// The handle of a family opened by the interface for programs.
    pub(crate) fn of(db: &DbHandle, single: tidesdb::Family) -> FamilyHandle {
        FamilyHandle { family: Arc::clone(single.engine()), db: db.db.clone(), single }
    }
}
