//! Calls to the disk, and their failures.

/// A kind of call to the disk.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[allow(missing_docs)] // the names are those of the calls
pub enum Op {
    Open,
    Create,
    Read,
    Write,
    Sync,
    Len,
    Allocate,
    SetLen,
    Rename,
    Remove,
    Link,
    RemoveDir,
    Resolve,
    Exists,
    List,
    CreateDir,
    SyncDir,
    Lock,
    FreeSpace,
}

impl Op {
    /// True if the call can change the stored or the durable content. A crash at a call without a change
    /// leaves the same disk as a crash at the next changing one.
    pub fn changes(self) -> bool {
        use Op::*;
        matches!(
            self,
            Create
                | Write
                | Sync
                | Allocate
                | SetLen
                | Rename
                | Remove
                | Link
                | RemoveDir
                | CreateDir
                | SyncDir
        )
    }
}

/// The effect of a failing call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    /// An I/O error. A write leaves a part of its bytes; a sync persists some pages, and all of them
    /// count as clean afterwards.
    Eio,
    /// The disk is full. A write leaves a part of its bytes.
    Enospc,
    /// The quota is used up; else as [`Failure::Enospc`].
    Edquot,
    /// No descriptor is left.
    Emfile,
    /// The call panics.
    Panic,
    /// A read gives fewer bytes than asked for, at least one. Other calls do not care.
    ShortRead,
    /// A sync reports success and persists nothing, now or later: for tests that must notice it.
    Lie,
}

impl Failure {
    /// The operating system's error number of failing calls.
    pub(super) fn code(self) -> Option<i32> {
        match self {
            Failure::Eio => Some(libc::EIO),
            Failure::Enospc => Some(libc::ENOSPC),
            Failure::Edquot => Some(libc::EDQUOT),
            Failure::Emfile => Some(libc::EMFILE),
            Failure::ShortRead | Failure::Lie | Failure::Panic => None,
        }
    }
}

/// A rule for failing calls.
#[derive(Clone, Debug)]
pub struct Fault {
    /// Only calls of this kind; `None`: any.
    pub op: Option<Op>,
    /// Only calls on paths containing this text.
    pub path: String,
    /// Matching calls to let pass first.
    pub skip: u64,
    /// Matching calls to fail then.
    pub times: u64,
    /// The kind of failure.
    pub failure: Failure,
}
