//! Transactions and their writes.

use std::ffi::{c_int, c_uint, c_void};
use std::mem::MaybeUninit;
use std::time::Duration;

use tidesdb::internal::db::Db;
use tidesdb::internal::lock::{Mode, TableMode};
use tidesdb::internal::txn::transaction::{Change, ChangeKind, LongValue, SavepointId, Transaction};
use tidesdb::{Error, Isolation, Result, TransactionOptions};

use crate::error::{fail, guard, guard_shared, OK};
use crate::handles::{check_store, DbHandle, FamilyHandle, TxnHandle};
use crate::{answer, bytes, given, Slice};

/// The transaction of a pointer from C.
///
/// # Safety
/// As for the crate; the calling thread is its only user now.
pub(crate) unsafe fn transaction<'a>(txn: *const TxnHandle) -> Result<&'a mut Transaction, Error> {
    // SAFETY: the caller's contract.
    unsafe { Ok(given(txn)?.txn()) }
}

fn isolation(number: c_int) -> Result<Isolation, Error> {
    let level = u8::try_from(number).ok().and_then(Isolation::from_number);
    level.ok_or_else(|| Error::InvalidArgument(format!("{number} is no isolation level")))
}

/// A time from C: the largest number is "no limit".
fn patience(milliseconds: u64) -> Option<Duration> {
    (milliseconds != u64::MAX).then(|| Duration::from_millis(milliseconds))
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_txn_create(db: *mut DbHandle, txn: *mut *mut TxnHandle) -> c_int {
    guard(|| {
        // SAFETY: the crate's contract.
        unsafe { answer(txn, std::ptr::null_mut())? };
        // SAFETY: as above.
        let db = unsafe { given(db)? }.db.clone();
        // SAFETY: as above.
        unsafe { answer(txn, Box::into_raw(Box::new(TxnHandle::new(db))))? };
        Ok(OK)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_txn_free(txn: *mut TxnHandle) {
    if !txn.is_null() {
        guard_shared(|| {
            // SAFETY: the crate's contract: the handle is given up here.
            drop(unsafe { Box::from_raw(txn) });
            Ok(OK)
        });
    }
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_txn_set_cookie(txn: *mut TxnHandle, cookie: *mut c_void) {
    guard(|| {
        // SAFETY: the crate's contract.
        unsafe { given(txn)? }.owner.set_cookie(cookie as u64);
        Ok(OK)
    });
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_txn_set_lock_timeout(txn: *mut TxnHandle, milliseconds: u64) {
    guard(|| {
        // SAFETY: the crate's contract.
        unsafe { transaction(txn)? }.set_lock_timeout(patience(milliseconds));
        Ok(OK)
    });
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_txn_set_preference(txn: *mut TxnHandle, preference: c_int) {
    guard(|| {
        // SAFETY: the crate's contract. The lock table's victim is the one with the largest wish.
        unsafe { given(txn)? }.owner.set_preference(preference.saturating_neg());
        Ok(OK)
    });
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_txn_begin(txn: *mut TxnHandle, level: c_int, flags: c_uint) -> c_int {
    guard(|| {
        if flags > 127 {
            return Err(Error::InvalidArgument(format!("{flags:#x} has unknown flags of a transaction")));
        }
        let options = TransactionOptions {
            isolation: isolation(level)?,
            optimistic: flags & 1 != 0,
            unlocked: flags & 2 != 0,
            ordered_waits: flags & 8 != 0,
            single_statement: flags & 4 != 0,
            sees_expired: flags & 16 != 0,
            oldest_view: flags & 32 != 0,
            priority: flags & 64 != 0,
        };
        // SAFETY: the crate's contract.
        unsafe { transaction(txn)? }.begin(options)?;
        Ok(OK)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_txn_is_active(txn: *const TxnHandle) -> c_int {
    // SAFETY: the crate's contract.
    c_int::from(unsafe { transaction(txn) }.is_ok_and(|txn| txn.is_active()))
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_txn_has_writes(txn: *const TxnHandle) -> c_int {
    // SAFETY: the crate's contract.
    c_int::from(unsafe { transaction(txn) }.is_ok_and(|txn| txn.has_writes()))
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_txn_take_snapshot(txn: *mut TxnHandle) -> c_int {
    guard(|| {
        // SAFETY: the crate's contract.
        unsafe { transaction(txn)? }.take_snapshot()?;
        Ok(OK)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_txn_take_ordered_snapshot(txn: *mut TxnHandle) -> c_int {
    guard(|| {
        // SAFETY: the crate's contract.
        unsafe { transaction(txn)? }.take_ordered_snapshot()?;
        Ok(OK)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_txn_set_snapshot_isolation(txn: *mut TxnHandle, on: c_int) {
    guard(|| {
        // SAFETY: the crate's contract.
        unsafe { transaction(txn)? }.set_snapshot_isolation(on != 0);
        Ok(OK)
    });
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_txn_passed_snapshot(txn: *const TxnHandle) -> c_int {
    // SAFETY: the crate's contract.
    c_int::from(unsafe { transaction(txn) }.is_ok_and(|txn| txn.passed_snapshot()))
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_txn_holds_locks(txn: *const TxnHandle) -> c_int {
    // SAFETY: the crate's contract.
    c_int::from(unsafe { transaction(txn) }.is_ok_and(|txn| txn.holds_locks()))
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_txn_savepoint_set(txn: *mut TxnHandle, savepoint: *mut u64) -> c_int {
    guard(|| {
        // SAFETY: the crate's contract.
        let id = unsafe { transaction(txn)? }.savepoint_set()?;
        // SAFETY: as above.
        unsafe { answer(savepoint, id.0)? };
        Ok(OK)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_txn_savepoint_rollback(txn: *mut TxnHandle, savepoint: u64) -> c_int {
    guard(|| {
        // SAFETY: the crate's contract.
        unsafe { transaction(txn)? }.savepoint_rollback(SavepointId(savepoint))?;
        Ok(OK)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_txn_savepoint_release(txn: *mut TxnHandle, savepoint: u64) {
    guard(|| {
        // SAFETY: the crate's contract.
        unsafe { transaction(txn)? }.savepoint_release(SavepointId(savepoint));
        Ok(OK)
    });
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_txn_statement_begin(
    txn: *mut TxnHandle,
    may_write: c_int,
    backpressure_ms: u64,
) -> c_int {
    guard(|| {
        let patience = patience(backpressure_ms).unwrap_or(Duration::MAX);
        // SAFETY: the crate's contract.
        unsafe { transaction(txn)? }.statement_begin(may_write != 0, patience)?;
        Ok(OK)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_txn_statement_end(txn: *mut TxnHandle) {
    guard(|| {
        // SAFETY: the crate's contract.
        unsafe { transaction(txn)? }.statement_end();
        Ok(OK)
    });
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_txn_statement_rollback(txn: *mut TxnHandle) -> c_int {
    guard(|| {
        // SAFETY: the crate's contract.
        unsafe { transaction(txn)? }.statement_rollback();
        Ok(OK)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_lock_table(
    txn: *mut TxnHandle,
    family: *mut FamilyHandle,
    mode: c_int,
) -> c_int {
    guard(|| {
        let mode = match mode {
            0 => TableMode::IntentShared,
            1 => TableMode::IntentExclusive,
            2 => TableMode::Shared,
            3 => TableMode::Exclusive,
            other => return Err(Error::InvalidArgument(format!("{other} is no mode of a table lock"))),
        };
        // SAFETY: the crate's contract.
        let (family, handle) = unsafe { (given(family)?, given(txn)?) };
        handle.check_store(family)?;
        // SAFETY: as above.
        let txn = unsafe { handle.txn() };
        txn.lock_table(&family.family, mode)?;
        Ok(OK)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_lock_key(
    txn: *mut TxnHandle,
    family: *mut FamilyHandle,
    key: *const u8,
    key_size: usize,
) -> c_int {
    guard(|| {
        // SAFETY: the crate's contract.
        let (family, handle, key) = unsafe { (given(family)?, given(txn)?, bytes(key, key_size)) };
        handle.check_store(family)?;
        // SAFETY: as above.
        unsafe { handle.txn() }.lock(&family.family, key)?;
        Ok(OK)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_lock_advisory(
    txn: *mut TxnHandle,
    family: *mut FamilyHandle,
    key: *const u8,
    key_size: usize,
    mode: c_int,
) -> c_int {
    guard(|| {
        let mode = match mode {
            2 => Mode::Shared,
            3 => Mode::Exclusive,
            other => return Err(Error::InvalidArgument(format!("{other} is no mode of an advisory lock"))),
        };
        // SAFETY: the crate's contract.
        let (family, handle, key) = unsafe { (given(family)?, given(txn)?, bytes(key, key_size)) };
        handle.check_store(family)?;
        // SAFETY: as above.
        unsafe { handle.txn() }.lock_advisory(&family.family, key, mode)?;
        Ok(OK)
    })
}

fn check_xid(xid: &[u8]) -> Result<()> {
    match xid.len() {
        1..=MAX_XID => Ok(()),
        size => Err(Error::InvalidArgument(format!("an xid of {size} bytes is not of 1 to {MAX_XID}"))),
    }
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_txn_ready(txn: *mut TxnHandle) -> c_int {
    guard_shared(|| {
        // SAFETY: the crate's contract.
        unsafe { transaction(txn)? }.ready()?;
        Ok(OK)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_txn_prepare(txn: *mut TxnHandle, xid: *const u8, xid_size: usize) -> c_int {
    guard_shared(|| {
        // SAFETY: the crate's contract.
        let (txn, xid) = unsafe { (transaction(txn)?, bytes(xid, xid_size)) };
        if xid.len() > MAX_XID {
            let size = xid.len();
            return Err(Error::InvalidArgument(format!("an xid of {size} bytes is longer than {MAX_XID}")));
        }
        txn.prepare((!xid.is_empty()).then_some(xid))?;
        Ok(OK)
    })
}

/// Prepares under an xid, which has to be given.
///
/// # Safety
///
/// The crate's contract.
unsafe fn prepare_under(
    txn: *mut TxnHandle,
    xid: *const u8,
    xid_size: usize,
    prepare: impl FnOnce(&mut Transaction, &[u8]) -> Result<()>,
) -> c_int {
    guard_shared(|| {
        // SAFETY: the crate's contract.
        let (txn, xid) = unsafe { (transaction(txn)?, bytes(xid, xid_size)) };
        check_xid(xid)?;
        prepare(txn, xid)?;
        Ok(OK)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_txn_prepare_written(
    txn: *mut TxnHandle,
    xid: *const u8,
    xid_size: usize,
) -> c_int {
    // SAFETY: the crate's contract.
    unsafe { prepare_under(txn, xid, xid_size, Transaction::prepare_written) }
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_txn_prepare_dormant(
    txn: *mut TxnHandle,
    xid: *const u8,
    xid_size: usize,
) -> c_int {
    // SAFETY: the crate's contract.
    unsafe { prepare_under(txn, xid, xid_size, Transaction::prepare_xa) }
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_txn_resume(txn: *mut TxnHandle) -> c_int {
    guard_shared(|| {
        // SAFETY: the crate's contract.
        unsafe { transaction(txn)? }.resume()?;
        Ok(OK)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_txn_order(txn: *mut TxnHandle) {
    guard_shared(|| {
        // SAFETY: the crate's contract.
        unsafe { transaction(txn)? }.order();
        Ok(OK)
    });
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_txn_wait_written(txn: *mut TxnHandle) -> c_int {
    guard_shared(|| {
        // SAFETY: the crate's contract.
        unsafe { transaction(txn)? }.wait_written()?;
        Ok(OK)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_txn_finish(txn: *mut TxnHandle, defer_sync: c_int) -> c_int {
    guard_shared(|| {
        // SAFETY: the crate's contract.
        unsafe { transaction(txn)? }.finish(defer_sync != 0)?;
        Ok(OK)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_txn_commit(txn: *mut TxnHandle) -> c_int {
    guard_shared(|| {
        // SAFETY: the crate's contract.
        unsafe { transaction(txn)? }.commit()?;
        Ok(OK)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_txn_rollback(txn: *mut TxnHandle) -> c_int {
    guard_shared(|| {
        // SAFETY: the crate's contract.
        unsafe { transaction(txn)? }.rollback()?;
        Ok(OK)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_txn_kill(txn: *mut TxnHandle) {
    guard(|| {
        // SAFETY: the crate's contract; the transaction itself is not touched.
        let handle = unsafe { given(txn)? };
        handle.db.kill(&handle.owner);
        Ok(OK)
    });
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_txn_clear_kill(txn: *mut TxnHandle) {
    guard(|| {
        // SAFETY: the crate's contract; the transaction itself is not touched.
        let handle = unsafe { given(txn)? };
        handle.db.clear_kill(&handle.owner);
        Ok(OK)
    });
}

/// `tidesdb_op`.
#[repr(C)]
pub struct OpC {
    pub(crate) family: *mut FamilyHandle,
    pub(crate) key: Slice,
    pub(crate) value: Slice,
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) first_size: u32,
    pub(crate) expiry: u64,
}

/// Longest xid: the servers' own limit with format and lengths.
pub(crate) const MAX_XID: usize = 140;

/// `TIDESDB_OP_PIECES`.
const PIECES: u8 = 4;

/// `TIDESDB_OP_KEEP_REST`.
const KEEP_REST: u8 = 8;

/// `TIDESDB_OP_UNLESS_AT`.
const UNLESS_AT: u8 = 16;

/// All flags of an operation.
const FLAGS: u8 = 31;

/// Operations of one row without an allocation.
const INLINE_OPS: usize = 16;

/// True if the rest of the value stays as it is.
fn keeps_rest(op: &OpC) -> bool {
    op.flags & KEEP_REST != 0
}

/// True if the operation is about the value that the key has.
pub(crate) fn needs_old_value(op: &OpC) -> bool {
    op.flags & (KEEP_REST | UNLESS_AT) != 0
}

/// The change of an operation on a family of `db`; of a value in pieces the first alone.
///
/// # Safety
/// As for the crate.
pub(crate) unsafe fn change_of<'a>(db: &Db, op: &'a OpC) -> Result<Change<'a>, Error> {
    // SAFETY: the crate's contract.
    let key = unsafe { op.key.bytes() };
    // SAFETY: as above; the others are for `long_value_of`.
    let value = match unsafe { pieces(op) } {
        // SAFETY: as above.
        Some(pieces) => unsafe { pieces.first().map_or(&[][..], |first| first.bytes()) },
        // SAFETY: as above.
        None => unsafe { op.value.bytes() },
    };
    let kind = match op.kind {
        1 => ChangeKind::Put(value),
        2 => ChangeKind::Delete,
        3 => ChangeKind::SingleDelete,
        4 => ChangeKind::Insert(value),
        5 => ChangeKind::PutEntry(value),
        6 => ChangeKind::KeepEntry(value),
        other => return Err(Error::InvalidArgument(format!("{other} is no kind of change"))),
    };
    let is_deletion = matches!(kind, ChangeKind::Delete | ChangeKind::SingleDelete);
    if is_deletion && (op.flags & (PIECES | KEEP_REST) != 0 || op.first_size != 0) {
        return Err(Error::InvalidArgument("a deletion has no value, and none in pieces or parts".into()));
    }
    if op.first_size as usize > value.len() || (op.flags & KEEP_REST != 0 && op.first_size == 0) {
        let (first, len) = (op.first_size, value.len());
        return Err(Error::InvalidArgument(format!("{first} of {len} bytes are no first part of a value")));
    }
    if op.flags & KEEP_REST != 0 && !matches!(kind, ChangeKind::Put(_) | ChangeKind::KeepEntry(_)) {
        return Err(Error::InvalidArgument("the rest of a value is kept by a put of the same key".into()));
    }
    if op.flags & UNLESS_AT != 0
        && !(matches!(kind, ChangeKind::Put(_) | ChangeKind::KeepEntry(_))
            && op.flags & (PIECES | KEEP_REST) == PIECES)
    {
        return Err(Error::InvalidArgument("a value is compared by a put of it in pieces".into()));
    }
    if op.flags > FLAGS {
        return Err(Error::InvalidArgument(format!("{:#x} has unknown flags of a change", op.flags)));
    }
    // SAFETY: as above.
    let family = unsafe { given(op.family)? };
    check_store(db, family)?;
    let (lock, count_unchanged) = (op.flags & 1 != 0, op.flags & 2 != 0);
    Ok(Change { family: &family.family, key, kind, lock, count_unchanged, expiry: op.expiry })
}

/// The pieces of an operation whose value is in several.
unsafe fn pieces(op: &OpC) -> Option<&[Slice]> {
    if op.flags & PIECES == 0 || op.value.data.is_null() {
        return None;
    }
    // SAFETY: the crate's contract.
    Some(unsafe { std::slice::from_raw_parts(op.value.data.cast::<Slice>(), op.value.size) })
}

/// The operation whose value is in pieces or parts, all of its pieces but the first, and the place to compare with.
type LongOp<'a> = (usize, Vec<&'a [u8]>, Option<&'a [u8]>);

/// That operation; `None`: none is.
unsafe fn long_value_of(ops: &[OpC]) -> Result<Option<LongOp<'_>>, Error> {
    let is_long = |op: &OpC| op.flags & (PIECES | KEEP_REST) != 0 || op.first_size != 0;
    let mut of_row = ops.iter().enumerate().filter(|(_, op)| is_long(op));
    let Some((index, op)) = of_row.next() else { return Ok(None) };
    if of_row.next().is_some() {
        let what = "of a row's operations one may have a value in pieces or parts";
        return Err(Error::InvalidArgument(what.into()));
    }
    // SAFETY: the crate's contract.
    let mut pieces = unsafe { pieces_after_first(op)? };
    let compares = op.flags & UNLESS_AT != 0;
    let place = if compares { pieces.pop() } else { None };
    if compares && place.is_none() {
        return Err(Error::InvalidArgument("no place follows the value to compare with".into()));
    }
    Ok(Some((index, pieces, place)))
}

/// All pieces of an operation's value but the first; none of a value in one piece.
///
/// # Safety
/// As for the crate.
pub(crate) unsafe fn pieces_after_first(op: &OpC) -> Result<Vec<&[u8]>, Error> {
    if op.flags & PIECES != 0 && !op.value.data.cast::<Slice>().is_aligned() {
        return Err(Error::InvalidArgument("the pieces of a value are not aligned".into()));
    }
    // SAFETY: the crate's contract.
    let pieces = unsafe { pieces(op) }.unwrap_or_default();
    // SAFETY: as above.
    Ok(pieces.iter().skip(1).map(|piece| unsafe { piece.bytes() }).collect())
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_write(
    txn: *mut TxnHandle,
    ops: *const OpC,
    count: usize,
    failed: *mut usize,
) -> c_int {
    guard(|| {
        if count == 0 {
            return Ok(OK);
        }
        // SAFETY: the crate's contract.
        let (handle, ops) = unsafe { (given(txn)?, std::slice::from_ref(given(ops)?)) };
        // SAFETY: as above; the first of them is there.
        let (txn, ops) = unsafe { (handle.txn(), std::slice::from_raw_parts(ops.as_ptr(), count)) };
        // SAFETY: as above.
        let long = unsafe { long_value_of(ops)? };
        let long = long.as_ref().map(|(index, pieces, place)| LongValue {
            change: *index,
            pieces,
            first_part: ops[*index].first_size as usize,
            keeps_rest: keeps_rest(&ops[*index]),
            unless_at: *place,
        });
        let mut inline: [MaybeUninit<Change<'_>>; INLINE_OPS] = [const { MaybeUninit::uninit() }; INLINE_OPS];
        let result = if count <= INLINE_OPS {
            for (slot, op) in inline.iter_mut().zip(ops) {
                // SAFETY: as above.
                slot.write(unsafe { change_of(&handle.db, op)? });
            }
            // SAFETY: the first `count` were just written.
            let changes = unsafe { std::slice::from_raw_parts(inline.as_ptr().cast::<Change<'_>>(), count) };
            txn.write_long(changes, long)
        } else {
            // SAFETY: as above.
            let changes =
                ops.iter().map(|op| unsafe { change_of(&handle.db, op) }).collect::<Result<Vec<_>, _>>()?;
            txn.write_long(&changes, long)
        };
        match result {
            Ok(()) => Ok(OK),
            Err((index, error)) => {
                if !failed.is_null() {
                    // SAFETY: as above.
                    unsafe { failed.write(index) };
                }
                Ok(fail(&error))
            }
        }
    })
}
