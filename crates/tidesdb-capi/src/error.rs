//! Statuses, messages, and the border that no panic crosses.

use std::cell::RefCell;
use std::ffi::{c_char, c_int, CStr, CString};
use std::panic::{catch_unwind, AssertUnwindSafe};

use tidesdb::Error;

/// `TIDESDB_OK`.
pub const OK: c_int = 0;
/// `TIDESDB_NOT_FOUND`.
pub const NOT_FOUND: c_int = 1;
/// `TIDESDB_SKIPPED`.
pub const SKIPPED: c_int = 2;
/// `TIDESDB_PEEKED`.
pub const PEEKED: c_int = 3;
/// `TIDESDB_INVALID`.
pub const INVALID: c_int = 22;
/// `TIDESDB_PANIC`.
pub const PANIC: c_int = 99;

thread_local! {
    static LAST: RefCell<CString> = RefCell::new(CString::default());
}

fn remember(message: &str) {
    let clean: Vec<u8> = message.bytes().filter(|&byte| byte != 0).collect();
    LAST.with(|last| *last.borrow_mut() = CString::new(clean).unwrap_or_default());
}

/// The status of an error, whose message is remembered for the calling thread.
pub(crate) fn fail(error: &Error) -> c_int {
    remember(&error.to_string());
    match error {
        Error::Duplicate => 10,
        Error::Conflict => 11,
        Error::Deadlock => 12,
        Error::LockTimeout => 13,
        Error::Interrupted => 14,
        Error::PreparedTooLarge { .. } => 15,
        Error::TooManyLocks { .. } => 18,
        Error::SnapshotTooOld => 16,
        Error::BackpressureTimeout => 17,
        Error::NoSuchFamily(_) => 20,
        Error::FamilyExists(_) => 21,
        Error::InvalidArgument(_) => INVALID,
        Error::Io { .. } => 30,
        Error::Corruption { .. } => 31,
        Error::ReadOnly(_) => 32,
        Error::Busy(_) => 33,
        Error::DiskFull(_) => 34,
        Error::OutcomeUnknown => 35,
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

/// As [`guard`] for work that changes shared state: a panic aborts the process, because a half-made
/// change would lie and the log recovers.
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
        0 => c"ok",
        1 => c"not found",
        2 => c"skipped",
        3 => c"read without its lock",
        10 => c"duplicate key",
        11 => c"conflict with a newer version",
        12 => c"deadlock",
        13 => c"lock wait timeout",
        14 => c"interrupted",
        15 => c"transaction too large",
        16 => c"snapshot older than the column family",
        17 => c"back-pressure timeout",
        18 => c"too many locks",
        20 => c"no such column family",
        21 => c"column family exists",
        22 => c"invalid argument",
        30 => c"I/O error",
        31 => c"damaged data",
        32 => c"read-only",
        33 => c"busy",
        34 => c"disk full",
        35 => c"outcome unknown until restart",
        99 => c"internal error",
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
