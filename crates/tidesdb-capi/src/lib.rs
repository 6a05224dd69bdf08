//! The C interface of the TidesDB storage engine, as `include/tidesdb.h` documents it. Each function
//! here is described there; this crate only translates.
//!
//! Safety, for the whole crate: pointers come from C. A handle pointer was given out by a function of this
//! crate and not freed; a pointer to bytes is valid for its length during the call; out-pointers are
//! writable. The header demands all of it of the caller, and of threads: a transaction and a cursor are used
//! by one thread at a time.

#![allow(clippy::missing_safety_doc)] // One contract for all, in the header and above.

mod backup;
mod cursor;
mod ddl;
mod error;
mod family;
mod handles;
mod heap;
mod ingest;
mod introspection;
mod iter;
mod live;
mod memory;
mod observer;
mod position;
mod single;
mod stats;
mod store;
mod txn;
mod txn_keys;
mod values;

#[cfg(test)]
mod layout_test;

pub use backup::*;
pub use cursor::*;
pub use ddl::*;
pub use error::*;
pub use family::*;
pub use handles::*;
pub use ingest::*;
pub use introspection::*;
pub use iter::*;
pub use live::*;
pub use memory::*;
pub use observer::*;
pub use position::*;
pub use single::*;
pub use stats::*;
pub use store::*;
pub use txn::*;
pub use txn_keys::*;

use std::ffi::c_int;

use tidesdb::Error;

/// The heap of the engine alone: C's `malloc` stays as the program around it has it.
///
/// In a server's heap, memtables and cached blocks are freed by other threads than their makers. They fill
/// glibc's arenas for the short-lived memory of connections: each statement then maps and unmaps a heap.
#[global_allocator]
static HEAP: heap::Heap = heap::Heap;

/// `tidesdb_slice`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Slice {
    /// First byte; may be null when `size` is 0.
    pub data: *const u8,
    /// Number of bytes.
    pub size: usize,
}

impl Slice {
    /// A slice over bytes with a longer life than its use.
    pub(crate) fn of(bytes: &[u8]) -> Slice {
        Slice { data: bytes.as_ptr(), size: bytes.len() }
    }

    /// The bytes.
    ///
    /// # Safety
    /// As for the crate.
    pub(crate) unsafe fn bytes<'a>(self) -> &'a [u8] {
        // SAFETY: the caller's contract.
        unsafe { bytes(self.data, self.size) }
    }
}

/// The bytes at a pointer.
///
/// # Safety
/// As for the crate.
pub(crate) unsafe fn bytes<'a>(data: *const u8, size: usize) -> &'a [u8] {
    if data.is_null() || size == 0 {
        &[]
    } else {
        // SAFETY: the caller's contract.
        unsafe { std::slice::from_raw_parts(data, size) }
    }
}

/// The object of a pointer from C; a null pointer is an error.
///
/// # Safety
/// As for the crate.
pub(crate) unsafe fn given<'a, T>(pointer: *const T) -> Result<&'a T, Error> {
    // SAFETY: the caller's contract.
    unsafe { pointer.as_ref() }.ok_or_else(null)
}

/// As [`given`], for an object not in use by anybody else.
///
/// # Safety
/// As for the crate.
pub(crate) unsafe fn given_mut<'a, T>(pointer: *mut T) -> Result<&'a mut T, Error> {
    // SAFETY: the caller's contract.
    unsafe { pointer.as_mut() }.ok_or_else(null)
}

/// Writes a result where C wants it; a null pointer is an error.
///
/// # Safety
/// As for the crate.
pub(crate) unsafe fn answer<T>(to: *mut T, value: T) -> Result<(), Error> {
    if to.is_null() {
        return Err(null());
    }
    // SAFETY: the caller's contract.
    unsafe { to.write(value) };
    Ok(())
}

/// The error of a null pointer.
pub(crate) fn null() -> Error {
    Error::InvalidArgument("a pointer that must not be null is null".into())
}

/// The type of `visit` callbacks.
pub type Visit = Option<unsafe extern "C" fn(context: *mut std::ffi::c_void, item: Slice) -> c_int>;
