//! The content of the disk: names and bytes for reads and after a power cut, and the rules for failing calls.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::inode::Inode;
use super::{Failure, Fault, Op};
use crate::error::{Error, Result};

#[derive(Clone, Debug)]
pub(super) enum DirChange {
    Link { path: PathBuf, inode: u64 },
    Unlink { path: PathBuf, inode: u64 },
    Rename { from: PathBuf, to: PathBuf, inode: u64 },
}

#[derive(Clone, Debug)]
pub(super) struct PendingDirChange {
    pub(super) op: u64,
    pub(super) dir: PathBuf,
    pub(super) change: DirChange,
}

pub(super) type Names = BTreeMap<PathBuf, u64>;

pub(super) fn apply(names: &mut Names, change: &DirChange) {
    match change {
        DirChange::Link { path, inode } => {
            names.insert(path.clone(), *inode);
        }
        DirChange::Unlink { path, inode } => {
            if names.get(path) == Some(inode) {
                names.remove(path);
            }
        }
        DirChange::Rename { from, to, inode } => {
            if names.get(from) == Some(inode) {
                names.remove(from);
            }
            names.insert(to.clone(), *inode);
        }
    }
}

/// In place of a lock's number of readers: a writer has it.
pub(super) const WRITER: u32 = u32::MAX;

#[derive(Debug)]
pub(super) struct FaultyState {
    pub(super) live: Names,
    pub(super) durable: Names,
    pub(super) pending: Vec<PendingDirChange>,
    pub(super) inodes: BTreeMap<u64, Inode>,
    /// Open handles of each inode: an unlinked file lives while it has one.
    pub(super) handles: BTreeMap<u64, usize>,
    pub(super) dirs: BTreeSet<PathBuf>,
    /// Readers of each locked path; [`WRITER`] for one writer.
    pub(super) locks: BTreeMap<PathBuf, u32>,
    pub(super) next_inode: u64,
    pub(super) next_op: u64,
    pub(super) history: Vec<Op>,
    pub(super) dies_at: u64,
    pub(super) failing_calls: BTreeMap<u64, Failure>,
    pub(super) faults: Vec<Fault>,
    /// Bytes of files, by a part of their paths, that no read gives.
    pub(super) unreadable: Vec<(String, Range<u64>)>,
    pub(super) capacity: Option<u64>,
    /// No file is opened past the page cache.
    pub(super) refuses_direct: bool,
    /// No part of a file is given back.
    pub(super) refuses_holes: bool,
    /// Bytes of a sector, for files that are.
    pub(super) sector: usize,
    pub(super) rng: u64,
    pub(super) clock: u64,
    /// Seconds by which the wall clock is ahead of the monotonic clock.
    pub(super) wall_ahead: i64,
}

/// The name the system call has in errors.
pub(super) fn name(op: Op) -> &'static str {
    match op {
        Op::Open | Op::Create => "open",
        Op::Read => "read",
        Op::Write => "write",
        Op::Sync => "fdatasync",
        Op::Len | Op::Exists => "stat",
        Op::Allocate => "fallocate",
        Op::SetLen => "truncate",
        Op::Rename => "rename",
        Op::Remove => "unlink",
        Op::Link => "link",
        Op::RemoveDir => "rmdir",
        Op::Resolve => "realpath",
        Op::List => "list",
        Op::CreateDir => "mkdir",
        Op::SyncDir => "fsync",
        Op::Lock => "flock",
        Op::FreeSpace => "statvfs",
    }
}

pub(super) fn os_error(op: Op, path: &Path, code: i32) -> Error {
    Error::io(name(op), path, std::io::Error::from_raw_os_error(code))
}

impl FaultyState {
    /// Counts a call and decides how it fails. `Err` for a dead machine.
    pub(super) fn begin(&mut self, op: Op, path: &Path) -> Result<Option<Failure>> {
        self.history.push(op);
        self.clock += 1;
        let call = self.history.len() as u64;
        if call >= self.dies_at {
            let source = std::io::Error::other("the machine is dead");
            return Err(Error::io(name(op), path, source));
        }
        if let Some(failure) = self.failing_calls.get(&call) {
            return Ok(Some(*failure));
        }
        let text = path.to_string_lossy();
        for fault in &mut self.faults {
            if fault.op.is_some_and(|o| o != op) || !text.contains(&fault.path) || fault.times == 0 {
                continue;
            }
            if fault.skip > 0 {
                fault.skip -= 1;
                continue;
            }
            fault.times -= 1;
            assert!(fault.failure != Failure::Panic, "a call that panics");
            return Ok(Some(fault.failure));
        }
        Ok(None)
    }

    /// As [`FaultyState::begin`], for calls without any effect in a failure.
    pub(super) fn begin_whole(&mut self, op: Op, path: &Path) -> Result<()> {
        match self.begin(op, path)? {
            Some(failure) => failure.code().map_or(Ok(()), |code| Err(os_error(op, path, code))),
            None => Ok(()),
        }
    }

    /// True if a read of `bytes` touches unreadable ones.
    pub(super) fn is_unreadable(&self, path: &Path, bytes: &Range<u64>) -> bool {
        self.unreadable.iter().any(|(part, bad)| {
            bad.start < bytes.end && bytes.start < bad.end && path.to_string_lossy().contains(part)
        })
    }

    pub(super) fn op(&mut self) -> u64 {
        self.next_op += 1;
        self.next_op
    }

    pub(super) fn inode(&mut self, id: u64) -> &mut Inode {
        self.inodes.get_mut(&id).expect("inodes live as long as their names and handles")
    }

    pub(super) fn change_dir(&mut self, dir: &Path, change: DirChange) {
        apply(&mut self.live, &change);
        let op = self.op();
        self.pending.push(PendingDirChange { op, dir: dir.to_path_buf(), change });
    }

    /// Bytes of all files, without their holes.
    pub(super) fn used(&self) -> u64 {
        self.inodes.values().map(Inode::allocated).sum()
    }

    /// Free bytes under the capacity; a large number without one.
    pub(super) fn free(&self) -> u64 {
        let Some(capacity) = self.capacity else { return 1 << 50 };
        capacity.saturating_sub(self.used())
    }

    pub(super) fn collect(&mut self) {
        let FaultyState { inodes, live, durable, handles, pending, .. } = self;
        let mut named: BTreeSet<u64> = live.values().chain(durable.values()).copied().collect();
        for p in pending.iter() {
            match &p.change {
                DirChange::Link { inode, .. }
                | DirChange::Unlink { inode, .. }
                | DirChange::Rename { inode, .. } => named.insert(*inode),
            };
        }
        inodes.retain(|id, _| named.contains(id) || handles.contains_key(id));
    }
}
