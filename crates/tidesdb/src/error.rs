//! The engine's only error type. "Not found" is never an error: reads return `Option`.

use std::path::PathBuf;

/// Result with the engine's error type as default.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Errors; a caller can act on each variant.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused an operation on a file.
    #[error("{op} of {}: {source}", path.display())]
    Io {
        /// The attempted operation ("open", "write", "fdatasync", ...).
        op: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// Stored bytes differ from the written ones.
    #[error("damage in {} at offset {offset}: {what}", path.display())]
    Corruption {
        /// The file.
        path: PathBuf,
        /// Byte offset in the file.
        offset: u64,
        /// The expected and the found contents.
        what: String,
    },
    /// Stored bytes are intact, in a format of a later version.
    #[error("{} was made by a later version of TidesDB; this one cannot read it: {what}", path.display())]
    LaterVersion {
        /// The file.
        path: PathBuf,
        /// The unknown part of the format.
        what: String,
    },
    /// The request is not supported by this engine, or breaks a documented limit.
    #[error("{0}")]
    InvalidArgument(String),
    /// The store, or its write-ahead log, is read-only after a failure or by option.
    #[error("the store is read-only: {0}")]
    ReadOnly(String),
    /// The store is used by another process or belongs to another owner.
    #[error("{0}")]
    Busy(String),
    /// A column family of this name exists.
    #[error("column family '{0}' exists")]
    FamilyExists(String),
    /// There is no column family of this name.
    #[error("column family '{0}' does not exist")]
    NoSuchFamily(String),
    /// The snapshot is older than the column family.
    #[error("the column family is newer than the transaction's snapshot")]
    SnapshotTooOld,
    /// A live entry of this key exists.
    #[error("a live entry of this key exists")]
    Duplicate,
    /// A change that is wanted only where it is one leaves the value as it is, to all appearance. Nothing is written.
    #[error("the value seems to be the one that the key has")]
    Unchanged,
    /// A version newer than the transaction's snapshot exists. The transaction must be rolled back.
    #[error("a version newer than the transaction's snapshot exists")]
    Conflict,
    /// The transaction is a deadlock's victim or, if optimistic, met another's intent. It must be rolled
    /// back.
    #[error("deadlock found; the transaction must be rolled back")]
    Deadlock,
    /// A lock was not granted in time.
    #[error("a lock was not granted in time")]
    LockTimeout,
    /// A transaction has reached its bound on key locks, and they could not become one lock on the column
    /// family.
    #[error(
        "more than the {bound} key locks that a transaction may hold, and others use the column family: \
         commit more often"
    )]
    TooManyLocks {
        /// Most key locks of a transaction.
        bound: usize,
    },
    /// The bound on memory leaves no room for a row.
    #[error("a row of {len} bytes does not fit into memory: the bound leaves {most} to one now")]
    TooLittleMemory {
        /// Bytes of the row.
        len: u64,
        /// Bytes now available for a row.
        most: u64,
    },
    /// Back-pressure delayed a writer for longer than allowed.
    #[error("held back by back-pressure for longer than allowed")]
    BackpressureTimeout,
    /// A kill interrupted the wait.
    #[error("interrupted")]
    Interrupted,
    /// Prepared transactions without a decision would exceed their share of the log.
    #[error(
        "preparing {size} bytes alongside the {others} of prepared transactions that nobody has decided passes \
         the bound of {bound}, a quarter of the log: commit or roll back some of them, or raise {variable}"
    )]
    PreparedTooLarge {
        /// Bytes of this prepare in the log.
        size: u64,
        /// Bytes of the other prepared transactions.
        others: u64,
        /// Most bytes of all of them together.
        bound: u64,
        /// The option that sets the bound.
        variable: &'static str,
    },
    /// The disk is full, or the quota of the store's user.
    #[error("the disk is full: {0}")]
    DiskFull(String),
    /// The log failed after the commit was written. Only a restart shows if the commit survives.
    #[error("the log failed; whether the transaction is committed is known only after a restart")]
    OutcomeUnknown,
}

impl Error {
    /// An I/O error with its context.
    pub fn io(op: &'static str, path: impl Into<PathBuf>, source: std::io::Error) -> Error {
        let path = path.into();
        if matches!(source.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT)) {
            return Error::DiskFull(format!("{op} of {}", path.display()));
        }
        Error::Io { op, path, source }
    }

    /// True if stored bytes differ from the written ones, or their file is gone. After an I/O error the disk
    /// may still give the bytes the next time.
    pub(crate) fn is_damage(&self) -> bool {
        match self {
            Error::Corruption { .. } => true,
            Error::Io { source, .. } => source.kind() == std::io::ErrorKind::NotFound,
            _ => false,
        }
    }

    /// True if a repeated call can succeed without a repair: space, descriptors or memory were missing, or
    /// others were in the way.
    pub fn is_transient(&self) -> bool {
        match self {
            Error::DiskFull(_) | Error::Busy(_) | Error::Interrupted => true,
            Error::Io { source, .. } => matches!(
                source.raw_os_error(),
                Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::EAGAIN | libc::EINTR)
            ),
            _ => false,
        }
    }

    /// The error for damage in a file.
    pub fn corruption(path: impl Into<PathBuf>, offset: u64, what: impl Into<String>) -> Error {
        Error::Corruption { path: path.into(), offset, what: what.into() }
    }

    /// The error for a file in a format of a later version.
    pub fn later_version(path: impl Into<PathBuf>, what: impl Into<String>) -> Error {
        Error::LaterVersion { path: path.into(), what: what.into() }
    }
}

/// Aborts the process if a panic unwinds through work awaited by other threads. Half-made work has no
/// successor, and its waiters would wait for ever. (A thread that panicked before may work on, in a
/// destructor.)
pub(crate) struct AbortOnPanic {
    panicking: bool,
}

impl AbortOnPanic {
    pub(crate) fn new() -> AbortOnPanic {
        AbortOnPanic { panicking: std::thread::panicking() }
    }
}

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        // The simulation ends the run, and no thread goes on.
        if std::thread::panicking() && !self.panicking && !cfg!(simulation) {
            std::process::abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passes_is_no_fault_of_a_file() {
        let of = |code| Error::io("open", "/f", std::io::Error::from_raw_os_error(code));
        for code in [libc::EMFILE, libc::ENFILE, libc::ENOMEM, libc::EINTR, libc::ENOSPC] {
            assert!(of(code).is_transient(), "{}", of(code));
        }
        for error in
            [of(libc::EIO), of(libc::ENOENT), of(libc::ETIMEDOUT), Error::corruption("/f", 0, "what")]
        {
            assert!(!error.is_transient(), "{error}");
        }
    }

    #[test]
    fn a_quota_that_is_used_up_is_a_full_disk() {
        for code in [libc::ENOSPC, libc::EDQUOT] {
            let error = Error::io("write", "/f", std::io::Error::from_raw_os_error(code));
            assert!(matches!(error, Error::DiskFull(_)), "{error:?}");
        }
    }
}
