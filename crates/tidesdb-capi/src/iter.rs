//! Iterators over a range, at a snapshot of their own or in a transaction.

use std::ffi::c_int;
use std::sync::Arc;

use tidesdb::internal::api::{ByteRange, RangeCursor, SnapshotCursor};
use tidesdb::Error;

use crate::error::{guard, NOT_FOUND, OK};
use crate::handles::{FamilyHandle, TxnHandle};
use crate::txn::transaction;
use crate::{answer, given, given_mut, Slice};

/// `tidesdb_iter`.
pub enum IterHandle {
    /// With a snapshot of its own.
    Alone(SnapshotCursor),
    /// In the caller's transaction; it outlives the iterator.
    Within(RangeCursor, *const TxnHandle),
}

/// A movement of an iterator.
enum Move<'a> {
    First,
    Last,
    Seek(&'a [u8]),
    Next,
    Prev,
}

impl IterHandle {
    fn row(&self) -> Option<(&[u8], &[u8])> {
        match self {
            IterHandle::Alone(cursor) => cursor.row(),
            IterHandle::Within(cursor, _) => cursor.row(),
        }
    }

    /// # Safety
    /// As for the crate: the transaction, if there is one, was not freed, and this thread may use it.
    unsafe fn go(&mut self, to: Move<'_>) -> Result<c_int, Error> {
        let found = match self {
            IterHandle::Alone(cursor) => match to {
                Move::First => cursor.first(),
                Move::Last => cursor.last(),
                Move::Seek(key) => cursor.seek(key),
                Move::Next => cursor.step(true),
                Move::Prev => cursor.step(false),
            },
            IterHandle::Within(cursor, txn) => {
                // SAFETY: the caller's contract.
                let txn = unsafe { transaction(*txn)? };
                match to {
                    Move::First => cursor.first(txn),
                    Move::Last => cursor.last(txn),
                    Move::Seek(key) => cursor.seek(txn, key),
                    Move::Next => cursor.step(txn, true),
                    Move::Prev => cursor.step(txn, false),
                }
            }
        }?;
        Ok(if found { OK } else { NOT_FOUND })
    }
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_iter_new(
    family: *mut FamilyHandle,
    txn: *mut TxnHandle,
    lower: Slice,
    upper: Slice,
    iter: *mut *mut IterHandle,
) -> c_int {
    guard(|| {
        // SAFETY: the crate's contract.
        unsafe { answer(iter, std::ptr::null_mut())? };
        // SAFETY: as above.
        let (handle, lower) = unsafe { (given(family)?, lower.bytes()) };
        // SAFETY: as above.
        let end = (!upper.data.is_null()).then(|| unsafe { upper.bytes() }.to_vec());
        let range = ByteRange { lower: lower.to_vec(), upper: end, prefix: 0 };
        // SAFETY: as above; a null pointer asks for a snapshot of its own.
        let mut opened = match unsafe { txn.as_ref() } {
            None => IterHandle::Alone(handle.single.cursor(range)?),
            Some(owner) => {
                owner.check_store(handle)?;
                // SAFETY: as above.
                let mode = unsafe { owner.txn() }.plain_read_mode();
                IterHandle::Within(RangeCursor::new(Arc::clone(&handle.family), range, mode), txn)
            }
        };
        // SAFETY: as above.
        unsafe { opened.go(Move::First)? };
        // SAFETY: as above.
        unsafe { answer(iter, Box::into_raw(Box::new(opened)))? };
        Ok(OK)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_iter_free(iter: *mut IterHandle) {
    if !iter.is_null() {
        guard(|| {
            // SAFETY: the crate's contract: the handle is given up here.
            drop(unsafe { Box::from_raw(iter) });
            Ok(OK)
        });
    }
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_iter_first(iter: *mut IterHandle) -> c_int {
    // SAFETY: the crate's contract.
    guard(|| unsafe { given_mut(iter)?.go(Move::First) })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_iter_last(iter: *mut IterHandle) -> c_int {
    // SAFETY: the crate's contract.
    guard(|| unsafe { given_mut(iter)?.go(Move::Last) })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_iter_seek(iter: *mut IterHandle, key: Slice) -> c_int {
    // SAFETY: the crate's contract.
    guard(|| unsafe { given_mut(iter)?.go(Move::Seek(key.bytes())) })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_iter_next(iter: *mut IterHandle) -> c_int {
    // SAFETY: the crate's contract.
    guard(|| unsafe { given_mut(iter)?.go(Move::Next) })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_iter_prev(iter: *mut IterHandle) -> c_int {
    // SAFETY: the crate's contract.
    guard(|| unsafe { given_mut(iter)?.go(Move::Prev) })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_iter_valid(iter: *const IterHandle) -> c_int {
    // SAFETY: the crate's contract.
    unsafe { iter.as_ref() }.is_some_and(|iter| iter.row().is_some()).into()
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_iter_key(iter: *const IterHandle) -> Slice {
    // SAFETY: the crate's contract.
    let row = unsafe { iter.as_ref() }.and_then(IterHandle::row);
    row.map_or(Slice { data: std::ptr::null(), size: 0 }, |(key, _)| Slice::of(key))
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_iter_value(iter: *const IterHandle) -> Slice {
    // SAFETY: the crate's contract.
    let row = unsafe { iter.as_ref() }.and_then(IterHandle::row);
    row.map_or(Slice { data: std::ptr::null(), size: 0 }, |(_, value)| Slice::of(value))
}
