//! Lists of the store's parts and of work in progress: families, tables, transactions, locks, compactions.
//! Each is copied first and then handed out, so the callback may take its time.

use std::ffi::{c_int, c_void};

use tidesdb::internal::compaction::history::{Action, CompactionOutcome};
use tidesdb::internal::lock::{DumpedLock, KeyPrefix};
use tidesdb::internal::txn::transaction_list::TransactionState;

use crate::error::{guard, OK};
use crate::family::FamilyOptionsC;
use crate::handles::{DbHandle, TxnHandle};
use crate::stats::FamilyStatsC;
use crate::{given, null, Slice};

/// An unknown number, for C.
const UNKNOWN: u64 = u64::MAX;

/// As above, of one byte.
const UNKNOWN_BYTE: u8 = u8::MAX;

/// A callback for rows of one kind.
type VisitRow<T> = Option<unsafe extern "C" fn(context: *mut c_void, row: *const T) -> c_int>;

/// Hands out rows until the callback has enough.
///
/// # Safety
/// As for the crate.
unsafe fn hand_out<T>(
    visit: VisitRow<T>,
    context: *mut c_void,
    rows: impl Iterator<Item = T>,
) -> Result<c_int, tidesdb::Error> {
    let visit = visit.ok_or_else(null)?;
    for row in rows {
        // SAFETY: the caller gave a function that takes these.
        if unsafe { visit(context, &row) } != 0 {
            break;
        }
    }
    Ok(OK)
}

/// `tidesdb_key_part`.
#[repr(C)]
pub struct KeyPartC {
    pub(crate) bytes: Slice,
    pub(crate) size: u64,
}

impl KeyPartC {
    fn of(key: Option<&KeyPrefix>) -> KeyPartC {
        match key {
            Some(key) => KeyPartC { bytes: Slice::of(&key.bytes), size: key.len as u64 },
            None => KeyPartC { bytes: Slice { data: std::ptr::null(), size: 0 }, size: UNKNOWN },
        }
    }
}

/// `tidesdb_family_info`.
#[repr(C)]
pub struct FamilyInfoC {
    pub(crate) name: Slice,
    pub(crate) options: FamilyOptionsC,
    pub(crate) stats: FamilyStatsC,
    pub(crate) created_seq: u64,
    pub(crate) old_form_bytes: u64,
    pub(crate) id: u32,
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_families(
    db: *mut DbHandle,
    visit: VisitRow<FamilyInfoC>,
    context: *mut c_void,
) -> c_int {
    guard(|| {
        // SAFETY: the crate's contract.
        let families = unsafe { given(db)? }.db.families();
        let names: Vec<_> = families.iter().map(|info| info.family.name()).collect();
        let rows = families.iter().zip(&names).map(|(info, name)| FamilyInfoC {
            name: Slice::of(name),
            options: FamilyOptionsC::of(&info.family.options()),
            stats: FamilyStatsC::of(&info.stats),
            created_seq: info.family.created_seq(),
            old_form_bytes: info.old_form_bytes,
            id: info.family.id(),
        });
        // SAFETY: as above.
        unsafe { hand_out(visit, context, rows) }
    })
}

/// `tidesdb_table_info`.
#[repr(C)]
pub struct TableInfoC {
    pub(crate) name: Slice,
    pub(crate) min_key: KeyPartC,
    pub(crate) max_key: KeyPartC,
    pub(crate) file: u64,
    pub(crate) file_bytes: u64,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    pub(crate) entries: u64,
    pub(crate) tombstones: u64,
    pub(crate) keys: u64,
    pub(crate) raw_bytes: u64,
    pub(crate) min_seq: u64,
    pub(crate) max_seq: u64,
    pub(crate) family: u32,
    pub(crate) level: u32,
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_tables(
    db: *mut DbHandle,
    visit: VisitRow<TableInfoC>,
    context: *mut c_void,
) -> c_int {
    guard(|| {
        // SAFETY: the crate's contract.
        let tables = unsafe { given(db)? }.db.tables();
        let rows = tables.iter().map(|s| TableInfoC {
            name: Slice::of(&s.name),
            min_key: KeyPartC::of(Some(&s.min_key)),
            max_key: KeyPartC::of(Some(&s.max_key)),
            file: s.file,
            file_bytes: s.file_bytes,
            offset: s.offset,
            bytes: s.bytes,
            entries: s.entries,
            tombstones: s.tombstones,
            keys: s.keys,
            raw_bytes: s.raw_bytes,
            min_seq: s.min_seq,
            max_seq: s.max_seq,
            family: s.family,
            level: s.level.into(),
        });
        // SAFETY: as above.
        unsafe { hand_out(visit, context, rows) }
    })
}

/// `tidesdb_value_file_info`.
#[repr(C)]
pub struct ValueFileInfoC {
    pub(crate) file: u64,
    pub(crate) bytes: u64,
    pub(crate) values: u64,
    pub(crate) value_bytes: u64,
    pub(crate) sstables: u64,
    pub(crate) other_holds: u64,
    pub(crate) takes_values: u64,
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_value_files(
    db: *mut DbHandle,
    visit: VisitRow<ValueFileInfoC>,
    context: *mut c_void,
) -> c_int {
    guard(|| {
        // SAFETY: the crate's contract.
        let files = unsafe { given(db)? }.db.value_files();
        let rows = files.iter().map(|file| ValueFileInfoC {
            file: file.file,
            bytes: file.bytes,
            values: file.values,
            value_bytes: file.value_bytes,
            sstables: file.tables,
            other_holds: file.other_holds,
            takes_values: file.takes_values.into(),
        });
        // SAFETY: as above.
        unsafe { hand_out(visit, context, rows) }
    })
}

/// `tidesdb_lock_info`.
#[repr(C)]
pub struct LockInfoC {
    pub(crate) name: Slice,
    pub(crate) mode: Slice,
    pub(crate) key: KeyPartC,
    pub(crate) range_end: KeyPartC,
    pub(crate) txn: u64,
    pub(crate) session: u64,
    pub(crate) blocking_txn: u64,
    pub(crate) blocking_session: u64,
    pub(crate) family: u32,
    pub(crate) kind: u8,
    pub(crate) waiting: u8,
    pub(crate) intent: u8,
}

impl LockInfoC {
    /// Of a lock, and the name of its family; both outlive its use.
    pub(crate) fn of(lock: &DumpedLock, name: &[u8]) -> LockInfoC {
        LockInfoC {
            name: Slice::of(name),
            mode: Slice::of(lock.mode.as_bytes()),
            key: KeyPartC::of(lock.key.as_ref()),
            range_end: KeyPartC::of(lock.range_to.as_ref().and_then(Option::as_ref)),
            txn: lock.owner.id,
            session: lock.owner.session,
            blocking_txn: lock.blocker.map_or(UNKNOWN, |blocker| blocker.id),
            blocking_session: lock.blocker.map_or(0, |blocker| blocker.session),
            family: lock.family,
            kind: match (&lock.key, &lock.range_to) {
                (None, _) => 0,
                (Some(_), None) => 1,
                (Some(_), Some(_)) => 2,
            },
            waiting: lock.waiting.into(),
            intent: lock.intent.into(),
        }
    }
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_locks(
    db: *mut DbHandle,
    limit: usize,
    visit: VisitRow<LockInfoC>,
    context: *mut c_void,
    complete: *mut c_int,
) -> c_int {
    guard(|| {
        // SAFETY: the crate's contract.
        let db = unsafe { &given(db)?.db };
        let dump = db.locks(limit);
        // SAFETY: as above.
        unsafe { crate::answer(complete, dump.complete.into())? };
        let names: Vec<_> = dump.locks.iter().map(|lock| db.family_name(lock.family)).collect();
        let rows = dump.locks.iter().zip(&names).map(|(lock, name)| LockInfoC::of(lock, name));
        // SAFETY: as above.
        unsafe { hand_out(visit, context, rows) }
    })
}

/// `tidesdb_txn_info`.
#[repr(C)]
pub struct TxnInfoC {
    pub(crate) xid: Slice,
    pub(crate) id: u64,
    pub(crate) session: u64,
    pub(crate) begun_us: u64,
    pub(crate) waits_since_us: u64,
    pub(crate) blocking_txn: u64,
    pub(crate) blocking_session: u64,
    pub(crate) snapshot: u64,
    pub(crate) changes: u64,
    pub(crate) batch_bytes: u64,
    pub(crate) locks: u64,
    pub(crate) tables: u64,
    pub(crate) state: u8,
    pub(crate) isolation: u8,
    pub(crate) optimistic: u8,
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_transactions(
    db: *mut DbHandle,
    visit: VisitRow<TxnInfoC>,
    context: *mut c_void,
) -> c_int {
    guard(|| {
        // SAFETY: the crate's contract.
        let transactions = unsafe { given(db)? }.db.transactions();
        let rows = transactions.iter().map(|txn| TxnInfoC {
            xid: Slice::of(txn.xid.as_deref().unwrap_or_default()),
            id: txn.id,
            session: txn.session,
            begun_us: txn.begun_us.unwrap_or(UNKNOWN),
            waits_since_us: txn.waits_since_us.unwrap_or(UNKNOWN),
            blocking_txn: txn.blocker.map_or(UNKNOWN, |blocker| blocker.id),
            blocking_session: txn.blocker.map_or(0, |blocker| blocker.session),
            snapshot: txn.snapshot.unwrap_or(UNKNOWN),
            changes: txn.changes,
            batch_bytes: txn.batch_bytes,
            locks: txn.held.map_or(UNKNOWN, |held| held.points),
            tables: txn.held.map_or(UNKNOWN, |held| held.tables),
            state: match txn.state {
                TransactionState::Running => 0,
                TransactionState::Waiting => 1,
                TransactionState::Prepared => 2,
            },
            isolation: txn.isolation.map_or(UNKNOWN_BYTE, |level| level as u8),
            optimistic: txn.optimistic.into(),
        });
        // SAFETY: as above.
        unsafe { hand_out(visit, context, rows) }
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_txn_set_session(txn: *mut TxnHandle, session: u64) {
    guard(|| {
        // SAFETY: the crate's contract.
        unsafe { given(txn)? }.set_session(session);
        Ok(OK)
    });
}

/// `tidesdb_compaction_info`.
#[repr(C)]
pub struct CompactionInfoC {
    pub(crate) name: Slice,
    pub(crate) reason: Slice,
    pub(crate) id: u64,
    pub(crate) tables_in: u64,
    pub(crate) tables_out: u64,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
    pub(crate) raw_bytes: u64,
    pub(crate) entries_in: u64,
    pub(crate) entries_out: u64,
    pub(crate) begun_us: u64,
    pub(crate) ended_us: u64,
    pub(crate) family: u32,
    pub(crate) action: u8,
    pub(crate) outcome: u8,
    pub(crate) from: u8,
    pub(crate) to: u8,
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_compactions(
    db: *mut DbHandle,
    visit: VisitRow<CompactionInfoC>,
    context: *mut c_void,
) -> c_int {
    guard(|| {
        // SAFETY: the crate's contract.
        let db = unsafe { &given(db)?.db };
        let records = db.compactions();
        let names: Vec<_> =
            records.iter().map(|record| record.family.map(|family| db.family_name(family))).collect();
        let rows = records.iter().zip(&names).map(|(record, name)| CompactionInfoC {
            name: Slice::of(name.as_deref().unwrap_or_default()),
            reason: Slice::of(record.reason.as_bytes()),
            id: record.id,
            tables_in: record.tables_in,
            tables_out: record.tables_out,
            bytes_in: record.bytes_in,
            bytes_out: record.bytes_out,
            raw_bytes: record.raw_bytes,
            entries_in: record.entries_in,
            entries_out: record.entries_out,
            begun_us: record.begun_us,
            ended_us: record.ended_us.unwrap_or(UNKNOWN),
            family: record.family.unwrap_or(u32::MAX),
            action: match record.action {
                Action::Merge => 0,
                Action::Move => 1,
                Action::Rewrite => 2,
            },
            outcome: match record.outcome {
                CompactionOutcome::Running => 0,
                CompactionOutcome::Done => 1,
                CompactionOutcome::Failed => 2,
                CompactionOutcome::Interrupted => 3,
            },
            from: record.from.unwrap_or(UNKNOWN_BYTE),
            to: record.to.unwrap_or(UNKNOWN_BYTE),
        });
        // SAFETY: as above.
        unsafe { hand_out(visit, context, rows) }
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_now_micros(db: *const DbHandle) -> u64 {
    // SAFETY: the crate's contract.
    unsafe { db.as_ref() }.map_or(0, |handle| handle.db.now_micros())
}
