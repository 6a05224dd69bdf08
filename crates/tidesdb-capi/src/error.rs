//! Statuses, messages, and the border no panic crosses.

use std::cell::RefCell;
use std::ffi::{c_char, c_int, CStr, CString};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicU64, Ordering};

use tidesdb::Error;

/// `TIDESDB_OK`.
pub const OK: c_int = 0;
/// `TIDESDB_NOT_FOUND`.
pub const NOT_FOUND: c_int = 1;
/// `TIDESDB_SKIPPED`.
pub const SKIPPED: c_int = 2;
/// `TIDESDB_PEEKED`.
pub const PEEKED: c_int = 3;
/// `TIDESDB_UNCHANGED`.
pub const UNCHANGED: c_int = 4;
/// `TIDESDB_DUPLICATE`.
pub const DUPLICATE: c_int = 10;
/// `TIDESDB_CONFLICT`.
pub const CONFLICT: c_int = 11;
/// `TIDESDB_DEADLOCK`.
pub const DEADLOCK: c_int = 12;
/// `TIDESDB_LOCK_TIMEOUT`.
pub const LOCK_TIMEOUT: c_int = 13;
/// `TIDESDB_INTERRUPTED`.
pub const INTERRUPTED: c_int = 14;
/// `TIDESDB_TOO_LARGE`.
pub const TOO_LARGE: c_int = 15;
/// `TIDESDB_SNAPSHOT_TOO_OLD`.
pub const SNAPSHOT_TOO_OLD: c_int = 16;
/// `TIDESDB_BACKPRESSURE`.
pub const BACKPRESSURE: c_int = 17;
/// `TIDESDB_TOO_MANY_LOCKS`.
pub const TOO_MANY_LOCKS: c_int = 18;
/// `TIDESDB_NO_SUCH_FAMILY`.
pub const NO_SUCH_FAMILY: c_int = 20;
/// `TIDESDB_FAMILY_EXISTS`.
pub const FAMILY_EXISTS: c_int = 21;
/// `TIDESDB_NO_MEMORY`.
pub const NO_MEMORY: c_int = 19;
/// `TIDESDB_INVALID`.
pub const INVALID: c_int = 22;
/// `TIDESDB_IO`.
pub const IO: c_int = 30;
/// `TIDESDB_CORRUPTION`.
pub const CORRUPTION: c_int = 31;
/// `TIDESDB_READ_ONLY`.
pub const READ_ONLY: c_int = 32;
/// `TIDESDB_BUSY`.
pub const BUSY: c_int = 33;
/// `TIDESDB_DISK_FULL`.
pub const DISK_FULL: c_int = 34;
/// `TIDESDB_OUTCOME_UNKNOWN`.
pub const OUTCOME_UNKNOWN: c_int = 35;
/// `TIDESDB_PANIC`.
pub const PANIC: c_int = 99;

thread_local! {
    static LAST: RefCell<CString> = RefCell::new(CString::default());
}

fn remember(message: &str) {
    let clean: Vec<u8> = message.bytes().filter(|&byte| byte != 0).collect();
    LAST.with(|last| *last.borrow_mut() = CString::new(clean).unwrap_or_default());
}

/// Calls answered with damaged data.
static DAMAGE: AtomicU64 = AtomicU64::new(0);

/// Calls answered with damaged data since the start of the process.
pub(crate) fn damage_met() -> u64 {
    DAMAGE.load(Ordering::Relaxed)
}

/// The status of an error, whose message is remembered for the calling thread.
pub(crate) fn fail(error: &Error) -> c_int {
    remember(&error.to_string());
    if matches!(error, Error::Corruption { .. }) {
        DAMAGE.fetch_add(1, Ordering::Relaxed);
    }
    match error {
        Error::Duplicate => DUPLICATE,
        Error::Unchanged => UNCHANGED,
        Error::Conflict => CONFLICT,
        Error::Deadlock => DEADLOCK,
        Error::LockTimeout => LOCK_TIMEOUT,
        Error::Interrupted => INTERRUPTED,
        Error::PreparedTooLarge { .. } => TOO_LARGE,
        Error::TooManyLocks { .. } => TOO_MANY_LOCKS,
        Error::TooLittleMemory { .. } => NO_MEMORY,
        Error::SnapshotTooOld => SNAPSHOT_TOO_OLD,
        Error::BackpressureTimeout => BACKPRESSURE,
        Error::NoSuchFamily(_) => NO_SUCH_FAMILY,
        Error::FamilyExists(_) => FAMILY_EXISTS,
        Error::InvalidArgument(_) => INVALID,
        Error::Io { .. } => IO,
        Error::Corruption { .. } | Error::LaterVersion { .. } => CORRUPTION,
        Error::ReadOnly(_) => READ_ONLY,
        Error::Busy(_) => BUSY,
        Error::DiskFull(_) => DISK_FULL,
        Error::OutcomeUnknown => OUTCOME_UNKNOWN,
    }
}

/// Runs `body`; an error becomes its status, a panic `TIDESDB_PANIC`. For work on private data.
pub(crate) fn guard(body: impl FnOnce() -> Result<c_int, Error>) -> c_int {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(status)) => status,
        Ok(Err(error)) => fail(&error),
        Err(_) => {
            remember("internal error: a panic in the engine; see the error log");
            PANIC
        }
    }
}

/// As [`guard`] for work on shared state: a panic aborts the process, because a half-made change would lie
/// and the log recovers.
pub(crate) fn guard_shared(body: impl FnOnce() -> Result<c_int, Error>) -> c_int {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(status)) => status,
        Ok(Err(error)) => fail(&error),
        Err(_) => std::process::abort(),
    }
}

/// See the header.
#[no_mangle]
pub extern "C" fn tidesdb_strerror(status: c_int) -> *const c_char {
    let text: &'static CStr = match status {
        OK => c"ok",
        NOT_FOUND => c"not found",
        SKIPPED => c"skipped",
        PEEKED => c"read without its lock",
        UNCHANGED => c"unchanged",
        DUPLICATE => c"duplicate key",
        CONFLICT => c"conflict with a newer version",
        DEADLOCK => c"deadlock",
        LOCK_TIMEOUT => c"lock wait timeout",
        INTERRUPTED => c"interrupted",
        TOO_LARGE => c"transaction too large",
        SNAPSHOT_TOO_OLD => c"snapshot older than the column family",
        BACKPRESSURE => c"back-pressure timeout",
        TOO_MANY_LOCKS => c"too many locks",
        NO_SUCH_FAMILY => c"no such column family",
        FAMILY_EXISTS => c"column family exists",
        INVALID => c"invalid argument",
        IO => c"I/O error",
        CORRUPTION => c"damaged data",
        READ_ONLY => c"read-only",
        BUSY => c"busy",
        DISK_FULL => c"disk full",
        OUTCOME_UNKNOWN => c"outcome unknown until restart",
        PANIC => c"internal error",
        _ => c"unknown status",
    };
    text.as_ptr()
}

/// See the header.
#[no_mangle]
pub extern "C" fn tidesdb_last_error() -> *const c_char {
    LAST.with(|last| last.borrow().as_ptr())
}

/// See the header.
#[no_mangle]
pub extern "C" fn tidesdb_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}
