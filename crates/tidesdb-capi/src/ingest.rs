//! Loads of empty families.

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_uint};
use std::sync::Arc;

use tidesdb::internal::db::Db;
use tidesdb::internal::lock::LockOwner;
use tidesdb::internal::txn::ingest::{Ingest, IngestOptions};
use tidesdb::internal::txn::transaction::ChangeKind;
use tidesdb::internal::types::Pieces;
use tidesdb::Error;

use crate::error::{fail, guard, guard_shared, OK};
use crate::handles::{check_store, DbHandle};
use crate::txn::{change_of, needs_old_value, pieces_after_first, OpC};
use crate::{answer, given, null};

/// `tidesdb_ingest`. Kills come from other threads and touch `db` and `owner` alone.
pub struct IngestHandle {
    db: Db,
    owner: Arc<LockOwner>,
    inner: UnsafeCell<Ingest>,
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_ingest_begin(
    db: *mut DbHandle,
    flags: c_uint,
    ingest: *mut *mut IngestHandle,
) -> c_int {
    guard(|| {
        // SAFETY: the crate's contract.
        unsafe { answer(ingest, std::ptr::null_mut())? };
        if flags > 1 {
            return Err(Error::InvalidArgument(format!("{flags:#x} has unknown flags of a load")));
        }
        // SAFETY: as above.
        let db = unsafe { given(db)? }.db.clone();
        let inner = db.ingest(IngestOptions { unlocked: flags & 1 != 0 })?;
        let handle = IngestHandle { owner: inner.owner().clone(), inner: UnsafeCell::new(inner), db };
        // SAFETY: as above.
        unsafe { answer(ingest, Box::into_raw(Box::new(handle)))? };
        Ok(OK)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_ingest_add(
    ingest: *mut IngestHandle,
    ops: *const OpC,
    count: usize,
    failed: *mut usize,
) -> c_int {
    guard(|| {
        if count == 0 {
            return Ok(OK);
        }
        // SAFETY: the crate's contract.
        let (handle, first) = unsafe { (given(ingest)?, given(ops)?) };
        // SAFETY: as above; the first of them is there, and nobody else uses the load now.
        let (load, ops) = unsafe { (&mut *handle.inner.get(), std::slice::from_raw_parts(first, count)) };
        let mut index = 0;
        while index < ops.len() {
            // SAFETY: as above.
            let (count, mut added) = unsafe { add_plain(handle, load, &ops[index..]) };
            index += count;
            if added.is_ok() && index < ops.len() {
                // SAFETY: as above.
                added = unsafe { add(handle, load, &ops[index]) };
                index += usize::from(added.is_ok());
            }
            if let Err(error) = added {
                if !failed.is_null() {
                    // SAFETY: as above.
                    unsafe { failed.write(index) };
                }
                return Ok(fail(&error));
            }
        }
        Ok(OK)
    })
}

/// The first rows of `ops` that have one family, a value in one piece, and no expiry. Returns how many are in the load.
///
/// # Safety
/// As for the crate.
unsafe fn add_plain(handle: &IngestHandle, load: &mut Ingest, ops: &[OpC]) -> (usize, Result<(), Error>) {
    let Some(first) = ops.first() else { return (0, Ok(())) };
    let is_plain = |op: &&OpC| {
        op.family == first.family && op.kind == 1 && op.flags == 0 && op.first_size == 0 && op.expiry == 0
    };
    if !is_plain(&first) {
        return (0, Ok(()));
    }
    // SAFETY: the caller's contract.
    let family = match unsafe { given(first.family) } {
        Ok(family) => family,
        Err(error) => return (0, Err(error)),
    };
    if let Err(error) = check_store(&handle.db, family) {
        return (0, Err(error));
    }
    // SAFETY: as above.
    let entries = ops.iter().take_while(is_plain).map(|op| unsafe { (op.key.bytes(), op.value.bytes()) });
    load.add_ascending(&family.family, entries)
}

/// # Safety
/// As for the crate.
unsafe fn add(handle: &IngestHandle, load: &mut Ingest, op: &OpC) -> Result<(), Error> {
    // SAFETY: the caller's contract.
    let change = unsafe { change_of(&handle.db, op)? };
    let (ChangeKind::Put(value), false, false) = (change.kind, change.count_unchanged, needs_old_value(op))
    else {
        return Err(Error::InvalidArgument("a load takes puts of new keys and nothing else".into()));
    };
    // SAFETY: as above.
    let more = unsafe { pieces_after_first(op)? };
    let value = (Pieces::new(value, &more), op.first_size as usize);
    load.add_in_parts(change.family, change.key, value, change.expiry)
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_ingest_kill(ingest: *mut IngestHandle) {
    guard(|| {
        // SAFETY: the crate's contract; the load itself is not touched.
        let handle = unsafe { given(ingest)? };
        handle.db.kill(&handle.owner);
        Ok(OK)
    });
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_ingest_finish(ingest: *mut IngestHandle) -> c_int {
    guard_shared(|| {
        if ingest.is_null() {
            return Err(null());
        }
        // SAFETY: the crate's contract: the handle is given up here.
        let handle = unsafe { Box::from_raw(ingest) };
        handle.inner.into_inner().finish()?;
        Ok(OK)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_ingest_abandon(ingest: *mut IngestHandle) {
    if !ingest.is_null() {
        guard_shared(|| {
            // SAFETY: the crate's contract: the handle is given up here.
            drop(unsafe { Box::from_raw(ingest) });
            Ok(OK)
        });
    }
}
