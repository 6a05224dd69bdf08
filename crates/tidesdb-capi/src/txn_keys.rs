//! Reads and writes of one key in a transaction.

use std::ffi::c_int;

use tidesdb::internal::txn::transaction::{ReadMode, Transaction};
use tidesdb::Error;

use crate::error::{guard, NOT_FOUND, OK};
use crate::handles::{FamilyHandle, TxnHandle};
use crate::single::copied_to_c;
use crate::{answer, given, Slice};

/// The family and the transaction behind two pointers from C.
///
/// # Safety
/// As for the crate; the calling thread is the transaction's only user now.
unsafe fn both<'a>(
    txn: *mut TxnHandle,
    family: *mut FamilyHandle,
) -> Result<(&'a mut Transaction, &'a FamilyHandle), Error> {
    // SAFETY: the caller's contract.
    let (owner, family) = unsafe { (given(txn)?, given(family)?) };
    owner.check_store(family)?;
    // SAFETY: as above.
    Ok((unsafe { owner.txn() }, family))
}

/// Reads a key; `mode` of the transaction gives the mode.
///
/// # Safety
/// As for the crate.
unsafe fn read(
    txn: *mut TxnHandle,
    family: *mut FamilyHandle,
    key: Slice,
    value: *mut Slice,
    mode: impl FnOnce(&Transaction) -> ReadMode,
) -> Result<c_int, Error> {
    // SAFETY: the caller's contract.
    unsafe { answer(value, Slice { data: std::ptr::null(), size: 0 })? };
    // SAFETY: as above.
    let ((txn, handle), key) = unsafe { (both(txn, family)?, key.bytes()) };
    let mode = mode(txn);
    let Some(found) = txn.get(&handle.family, key, mode)? else { return Ok(NOT_FOUND) };
    // SAFETY: as above.
    unsafe { answer(value, copied_to_c(&found)?)? };
    Ok(OK)
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_txn_put(
    txn: *mut TxnHandle,
    family: *mut FamilyHandle,
    key: Slice,
    value: Slice,
) -> c_int {
    guard(|| {
        // SAFETY: the crate's contract.
        let ((txn, handle), key, value) = unsafe { (both(txn, family)?, key.bytes(), value.bytes()) };
        txn.put(&handle.family, key, value)?;
        Ok(OK)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_txn_delete(
    txn: *mut TxnHandle,
    family: *mut FamilyHandle,
    key: Slice,
) -> c_int {
    guard(|| {
        // SAFETY: the crate's contract.
        let ((txn, handle), key) = unsafe { (both(txn, family)?, key.bytes()) };
        txn.delete(&handle.family, key)?;
        Ok(OK)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_txn_get(
    txn: *mut TxnHandle,
    family: *mut FamilyHandle,
    key: Slice,
    value: *mut Slice,
) -> c_int {
    // SAFETY: the crate's contract.
    guard(|| unsafe { read(txn, family, key, value, Transaction::plain_read_mode) })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_txn_get_for_update(
    txn: *mut TxnHandle,
    family: *mut FamilyHandle,
    key: Slice,
    value: *mut Slice,
) -> c_int {
    // SAFETY: the crate's contract.
    guard(|| unsafe { read(txn, family, key, value, |_| ReadMode::Exclusive) })
}
