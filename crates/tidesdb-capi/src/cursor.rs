//! Cursors: point reads and scans, with the head for C++'s inline reads.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use tidesdb::internal::cache;
use tidesdb::internal::txn::cursor::{Cursor, Scan, Start};
use tidesdb::internal::txn::transaction::{OnMissing, PointRead, ReadMode};
use tidesdb::internal::value::ReadParts;
use tidesdb::Error;

use crate::error::{guard, NOT_FOUND, OK, PEEKED, SKIPPED};
use crate::handles::{FamilyHandle, TxnHandle};
use crate::txn::transaction;
use crate::{answer, bytes, given, given_mut, Slice};

/// `tidesdb_row`.
#[repr(C)]
pub struct RowC {
    pub(crate) key: *const u8,
    pub(crate) value: *const u8,
    pub(crate) key_size: usize,
    pub(crate) value_size: usize,
    pub(crate) expiry: u64,
    pub(crate) place_size: usize,
}

/// `tidesdb_cursor`: the fields visible to C, then the private ones.
#[repr(C)]
pub struct CursorHandle {
    pub(crate) rows: *const RowC,
    pub(crate) count: u32,
    pub(crate) position: u32,
    pub(crate) changes: *const u64,
    pub(crate) changes_seen: u64,
    pub(crate) direction: i32,
    pub(crate) expiry: u64,
    pub(crate) place_size: usize,
    pub(crate) inner: Cursor,
    /// The family's store.
    pub(crate) store: *const c_void,
    pub(crate) batch: Vec<RowC>,
    /// Kept for `changes` to stay valid.
    pub(crate) counter: Arc<AtomicU64>,
    pub(crate) txn: *const TxnHandle,
    /// The counters of the reads' work.
    pub(crate) work: Option<ReadWorkC>,
}

/// `tidesdb_read_work`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ReadWorkC {
    pub(crate) blocks: *mut u64,
    pub(crate) blocks_read: *mut u64,
    pub(crate) read_time: *mut u64,
    pub(crate) passed: *mut u64,
    pub(crate) units: f64,
}

/// Runs a read; its work is added to the numbers of the program, if it gave some.
fn counted<T>(work: Option<ReadWorkC>, read: impl FnOnce() -> T) -> T {
    let Some(to) = work else { return read() };
    let (got, done) = cache::counted(read);
    let time = done.read_us as f64 * to.units;
    let adds = [
        (to.blocks, done.blocks),
        (to.blocks_read, done.blocks_read),
        (to.read_time, time as u64),
        (to.passed, done.passed),
    ];
    for (number, more) in adds {
        // SAFETY: the crate's contract: the program's numbers outlive the cursor, or their next setting.
        unsafe { *number = (*number).wrapping_add(more) };
    }
    got
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_cursor_set_work(cursor: *mut CursorHandle, work: *const ReadWorkC) {
    guard(|| {
        // SAFETY: the crate's contract.
        let (handle, work) = unsafe { (given_mut(cursor)?, work.as_ref().copied()) };
        if let Some(work) = &work {
            // SAFETY: as above.
            unsafe {
                (given(work.blocks)?, given(work.blocks_read)?, given(work.read_time)?, given(work.passed)?)
            };
        }
        handle.work = work;
        Ok(OK)
    });
}

/// `tidesdb_seek`.
#[repr(C)]
pub struct SeekC {
    pub(crate) key: *const u8,
    pub(crate) key_size: usize,
    pub(crate) prefix_size: usize,
    pub(crate) bound: *const u8,
    pub(crate) bound_size: usize,
    pub(crate) start: u8,
    pub(crate) mode: u8,
    pub(crate) batch_hint: u16,
}

/// Answers of `tidesdb_find_keys`.
const IS_MISSING: u8 = 0;
const IS_THERE: u8 = 1;
const EXPIRES: u8 = 2;

const FIRST_PART: u32 = 8;
const SKIP_LOCKED: u32 = 16;
const PEEK_LOCKED: u32 = 32;

const BY_ENTRY: u32 = 64;
const BOTH_VERSIONS: u32 = 128;

/// A point read in this mode, and whether locked rows are read without their locks.
fn read_of(mode: u32) -> Result<(PointRead, bool), Error> {
    let (skip_locked, peek) = (mode & SKIP_LOCKED != 0, mode & PEEK_LOCKED != 0);
    let on_missing = if mode & BY_ENTRY != 0 { OnMissing::Forget } else { OnMissing::Keep };
    let parts = if mode & FIRST_PART != 0 { ReadParts::FirstAndPlace } else { ReadParts::BothAndPlace };
    let mode = match mode & !(SKIP_LOCKED | PEEK_LOCKED | FIRST_PART | BY_ENTRY) {
        0 => ReadMode::Snapshot,
        1 => ReadMode::Latest,
        2 => ReadMode::Shared,
        3 => ReadMode::Exclusive,
        4 => ReadMode::Gap,
        other => return Err(Error::InvalidArgument(format!("{other} is no read mode"))),
    };
    Ok((PointRead { mode, skip_locked, on_missing, parts }, peek))
}

impl CursorHandle {
    /// Error when the transaction is one of another store.
    fn check_store(&self, txn: &TxnHandle) -> Result<(), Error> {
        if self.store == Arc::as_ptr(txn.db.store()).cast() {
            return Ok(());
        }
        Err(Error::InvalidArgument("the cursor and the transaction are of two stores".into()))
    }

    /// Whether a scan has placed it on a row of its batch.
    fn stands_on_row(&self) -> bool {
        !self.txn.is_null() && self.direction != 0 && !self.batch.is_empty()
    }

    fn forget_batch(&mut self) {
        self.batch.clear();
        self.count = 0;
        self.position = 0;
        self.direction = 0;
    }

    /// Shows the engine's batch to C.
    fn show(&mut self, found: bool, forward: bool) -> c_int {
        self.batch.clear();
        for index in 0..self.inner.len() {
            let (key, value) = self.inner.row(index);
            self.batch.push(RowC {
                key: key.as_ptr(),
                value: value.as_ptr(),
                key_size: key.len(),
                value_size: value.len(),
                expiry: self.inner.expiry(index),
                place_size: self.inner.rest_place(index).len(),
            });
        }
        self.rows = self.batch.as_ptr();
        self.count = self.batch.len() as u32;
        self.position = 0;
        self.direction = if forward { 1 } else { -1 };
        self.changes_seen = self.counter.load(Ordering::Relaxed);
        if found && self.inner.is_peek() {
            PEEKED
        } else if found {
            OK
        } else {
            NOT_FOUND
        }
    }
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_cursor_open(
    family: *mut FamilyHandle,
    cursor: *mut *mut CursorHandle,
) -> c_int {
    guard(|| {
        // SAFETY: the crate's contract.
        unsafe { answer(cursor, std::ptr::null_mut())? };
        // SAFETY: as above.
        let family = unsafe { given(family)? };
        let counter = Arc::new(AtomicU64::new(0));
        let handle = CursorHandle {
            rows: std::ptr::null(),
            count: 0,
            position: 0,
            changes: counter.as_ptr(),
            changes_seen: 0,
            direction: 0,
            expiry: 0,
            place_size: 0,
            inner: family.db.cursor(&family.family),
            store: Arc::as_ptr(family.db.store()).cast(),
            batch: Vec::new(),
            counter,
            txn: std::ptr::null(),
            work: None,
        };
        // SAFETY: as above.
        unsafe { answer(cursor, Box::into_raw(Box::new(handle)))? };
        Ok(OK)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_cursor_close(cursor: *mut CursorHandle) {
    if !cursor.is_null() {
        // SAFETY: the crate's contract: the handle is given up here.
        drop(unsafe { Box::from_raw(cursor) });
    }
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_cursor_reset(cursor: *mut CursorHandle) {
    guard(|| {
        // SAFETY: the crate's contract.
        let handle = unsafe { given_mut(cursor)? };
        handle.forget_batch();
        handle.inner.reset();
        handle.txn = std::ptr::null();
        Ok(OK)
    });
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_cursor_free_value(cursor: *mut CursorHandle) {
    guard(|| {
        // SAFETY: the crate's contract.
        let handle = unsafe { given_mut(cursor)? };
        // A step that has no row leads to the engine, which goes on after this one.
        if handle.count == 0 || handle.position + 1 == handle.count {
            handle.inner.free_value(handle.position as usize);
            let (direction, changes_seen) = (handle.direction, handle.changes_seen);
            handle.show(true, true);
            (handle.direction, handle.changes_seen) = (direction, changes_seen);
        }
        Ok(OK)
    });
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_cursor_get(
    cursor: *mut CursorHandle,
    txn: *mut TxnHandle,
    key: *const u8,
    key_size: usize,
    mode: c_int,
    value: *mut Slice,
) -> c_int {
    guard(|| {
        // SAFETY: the crate's contract.
        let (handle, owner, key) = unsafe { (given_mut(cursor)?, given(txn)?, bytes(key, key_size)) };
        handle.check_store(owner)?;
        // SAFETY: as above.
        let txn = unsafe { owner.txn() };
        handle.forget_batch();
        let (read, peek) = read_of(mode as u32)?;
        let inner = &mut handle.inner;
        let found = counted(handle.work, || match peek {
            true => inner.get_or_peek(txn, key, read),
            false => inner.get(txn, key, read),
        });
        match found {
            Ok(Some(found)) => {
                // SAFETY: as above.
                unsafe { answer(value, Slice::of(found))? };
                handle.expiry = handle.inner.found_expiry();
                handle.place_size = handle.inner.found_rest_place().len();
                Ok(if handle.inner.is_peek() { PEEKED } else { OK })
            }
            Ok(None) => Ok(NOT_FOUND),
            Err(Error::LockTimeout) if read.skip_locked => Ok(SKIPPED),
            Err(error) => Err(error),
        }
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_find_keys(
    txn: *mut TxnHandle,
    family: *mut FamilyHandle,
    keys: *const Slice,
    count: usize,
    found: *mut u8,
) -> c_int {
    guard(|| {
        if count == 0 {
            return Ok(OK);
        }
        // SAFETY: the crate's contract.
        let (handle, family) = unsafe { (given(txn)?, given(family)?) };
        handle.check_store(family)?;
        // SAFETY: as above.
        unsafe { (given(keys)?, given(found)?) };
        // SAFETY: as above; neither is null.
        let keys = unsafe { std::slice::from_raw_parts(keys, count) };
        // SAFETY: as above.
        let found = unsafe { std::slice::from_raw_parts_mut(found, count) };
        let mut answers = found.iter_mut();
        // SAFETY: as above.
        let txn = unsafe { handle.txn() };
        // SAFETY: as above.
        txn.find_all(&family.family, keys.iter().map(|key| unsafe { key.bytes() }), |answer| {
            if let Some(found) = answers.next() {
                *found = match answer {
                    None => IS_MISSING,
                    Some(0) => IS_THERE,
                    Some(_) => EXPIRES,
                };
            }
        })?;
        Ok(OK)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_cursor_seek(
    cursor: *mut CursorHandle,
    txn: *mut TxnHandle,
    seek: *const SeekC,
) -> c_int {
    guard(|| {
        // SAFETY: the crate's contract.
        let (handle, owner, c) = unsafe { (given_mut(cursor)?, given(txn)?, given(seek)?) };
        handle.forget_batch();
        handle.check_store(owner)?;
        handle.txn = txn;
        // SAFETY: as above.
        let txn = unsafe { owner.txn() };
        if !Arc::ptr_eq(&handle.counter, txn.change_counter()) {
            handle.counter = txn.change_counter().clone();
            handle.changes = handle.counter.as_ptr();
        }
        let start = match c.start {
            0 => Start::AtOrAfter,
            1 => Start::After,
            2 => Start::AtOrBefore,
            3 => Start::Before,
            4 => Start::First,
            5 => Start::Last,
            other => return Err(Error::InvalidArgument(format!("{other} is no start of a scan"))),
        };
        let mode = u32::from(c.mode);
        let both_versions = mode & BOTH_VERSIONS != 0;
        if mode & BY_ENTRY != 0 {
            return Err(Error::InvalidArgument("a scan does not come from an entry of an index".into()));
        }
        let (PointRead { mode, skip_locked, parts, .. }, peek_locked) = read_of(mode & !BOTH_VERSIONS)?;
        // SAFETY: as above.
        let (key, bound) = unsafe { (bytes(c.key, c.key_size), bytes(c.bound, c.bound_size)) };
        let scan = Scan {
            start,
            key,
            prefix: c.prefix_size,
            bound: (!c.bound.is_null()).then_some(bound),
            mode,
            skip_locked,
            peek_locked,
            both_versions,
            parts,
            expect: c.batch_hint.into(),
        };
        let found = counted(handle.work, || handle.inner.seek(txn, &scan))?;
        Ok(handle.show(found, start.is_forward()))
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_cursor_fetch(cursor: *mut CursorHandle, direction: c_int) -> c_int {
    guard(|| {
        // SAFETY: the crate's contract.
        let handle = unsafe { given_mut(cursor)? };
        if !handle.stands_on_row() {
            return Ok(NOT_FOUND);
        }
        let position = handle.position as usize;
        handle.batch.clear();
        handle.count = 0;
        // SAFETY: the transaction of the last seek, by the crate's contract still there.
        let txn = unsafe { transaction(handle.txn)? };
        let found = counted(handle.work, || handle.inner.fetch(txn, position, direction > 0))?;
        Ok(handle.show(found, direction > 0))
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_cursor_count(cursor: *mut CursorHandle, rows: *mut u64) -> c_int {
    guard(|| {
        // SAFETY: the crate's contract.
        let handle = unsafe { given_mut(cursor)? };
        // SAFETY: as above.
        unsafe { answer(rows, 0)? };
        if !handle.stands_on_row() {
            return Ok(NOT_FOUND);
        }
        let position = handle.position as usize;
        handle.forget_batch();
        // SAFETY: the transaction of the last seek, by the crate's contract still there.
        let txn = unsafe { transaction(handle.txn)? };
        let total = counted(handle.work, || handle.inner.count(txn, position))?;
        // SAFETY: as above.
        unsafe { answer(rows, total)? };
        Ok(OK)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_cursor_relock(cursor: *mut CursorHandle, txn: *mut TxnHandle) -> c_int {
    guard(|| {
        // SAFETY: the crate's contract.
        let (handle, owner) = unsafe { (given_mut(cursor)?, given(txn)?) };
        handle.check_store(owner)?;
        let forward = handle.direction >= 0;
        handle.batch.clear();
        handle.count = 0;
        // SAFETY: as above.
        let txn = unsafe { owner.txn() };
        let found = counted(handle.work, || handle.inner.relock(txn))?;
        Ok(handle.show(found, forward))
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_cursor_look_again(cursor: *mut CursorHandle, at_key: u8) {
    guard(|| {
        // SAFETY: the crate's contract.
        let handle = unsafe { given_mut(cursor)? };
        handle.count = handle.count.min(handle.position.saturating_add(1));
        handle.inner.look_again(at_key != 0);
        Ok(OK)
    });
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_cursor_unlock_row(cursor: *mut CursorHandle, txn: *mut TxnHandle) {
    guard(|| {
        // SAFETY: the crate's contract.
        let (handle, txn) = unsafe { (given_mut(cursor)?, transaction(txn)?) };
        handle.inner.unlock_row(txn);
        Ok(OK)
    });
}
