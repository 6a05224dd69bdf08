//! A disk in memory that fails as disks and machines do, reproducibly from a seed.
//!
//! What a program wrote and what is durable are kept apart: the page cache (what reads see) and the
//! platter (what a power cut leaves), for file contents in pages of 4 KiB with every unsynced
//! version of each, and for directories as a list of unsynced changes. [`FaultyDisk::crash`] makes
//! the disk that the machine finds after it died; handles to the old one stay valid and harmless, so
//! threads that survive their own machine cannot reach the new one.
//!
//! Every call is counted; [`FaultyDisk::crash_at`] lets all calls from the n-th on fail, so that a
//! driver can try a crash at each. The clock is virtual and moves by a microsecond a call.

mod inode;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use self::inode::Inode;
use super::{Advice, DirectoryLock, Disk, File, OpenMode};
use crate::error::{Error, Result};

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
    /// Whether the call can change what is stored or what of it is durable. A crash at a call that
    /// changes nothing leaves the same disk as a crash at the next one that does.
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

/// How a call fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    /// An I/O error. A write leaves a part of its bytes; a sync persists some pages, and all of them
    /// count as clean afterwards.
    Eio,
    /// The disk is full. A write leaves a part of its bytes.
    Enospc,
    /// The quota is used up; else as [`Failure::Enospc`].
    Edquot,
    /// A read gives fewer bytes than asked for, at least one. Other calls do not care.
    ShortRead,
    /// A sync answers with success and persists nothing, now or later: for tests that must notice.
    Lie,
}

impl Failure {
    /// The error of calls that fail.
    fn code(self) -> Option<i32> {
        match self {
            Failure::Eio => Some(libc::EIO),
            Failure::Enospc => Some(libc::ENOSPC),
            Failure::Edquot => Some(libc::EDQUOT),
            Failure::ShortRead | Failure::Lie => None,
        }
    }
}

/// Which calls fail, and how.
#[derive(Clone, Debug)]
pub struct Fault {
    /// Only calls of this kind; `None`: any.
    pub op: Option<Op>,
    /// Only calls on paths that contain this.
    pub path: String,
    /// Matching calls to let pass first.
    pub skip: u64,
    /// Matching calls to fail then.
    pub times: u64,
    /// What happens.
    pub failure: Failure,
}

/// The fate of unsynced changes when the machine dies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Crash {
    /// Only the process dies: everything written stays, and what was unsynced is still unsynced.
    Kill,
    /// Power cut; nothing unsynced reached the disk.
    Drop,
    /// Power cut; everything did.
    Keep,
    /// Power cut; everything up to some change did (the last one, half of the time), and of that one
    /// some pages.
    Tear,
    /// Power cut; of each page some version did, directory changes up to some point.
    Reorder,
    /// Power cut; everything up to some change did, of all files and directories together.
    Prefix,
}

impl Crash {
    /// All of them.
    pub const ALL: [Crash; 6] =
        [Crash::Kill, Crash::Drop, Crash::Keep, Crash::Tear, Crash::Reorder, Crash::Prefix];
}

#[derive(Clone, Debug)]
enum DirChange {
    Link { path: PathBuf, inode: u64 },
    Unlink { path: PathBuf, inode: u64 },
    Rename { from: PathBuf, to: PathBuf, inode: u64 },
}

#[derive(Clone, Debug)]
struct PendingDirChange {
    op: u64,
    dir: PathBuf,
    change: DirChange,
}

type Names = BTreeMap<PathBuf, u64>;

fn apply(names: &mut Names, change: &DirChange) {
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

#[derive(Debug)]
struct FaultyState {
    live: Names,
    durable: Names,
    pending: Vec<PendingDirChange>,
    inodes: BTreeMap<u64, Inode>,
    /// Open handles of each inode: an unlinked file lives as long as one is there.
    handles: BTreeMap<u64, usize>,
    dirs: BTreeSet<PathBuf>,
    /// Readers of each locked path; [`WRITER`] for one writer.
    locks: BTreeMap<PathBuf, u32>,
    next_inode: u64,
    next_op: u64,
    history: Vec<Op>,
    dies_at: u64,
    failing_calls: BTreeMap<u64, Failure>,
    faults: Vec<Fault>,
    capacity: Option<u64>,
    rng: u64,
    clock: u64,
    /// Seconds by which the wall clock is ahead of the other one.
    wall_ahead: i64,
}

fn random(state: &mut u64) -> u64 {
    // splitmix64
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The name the system call has in errors.
fn name(op: Op) -> &'static str {
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

fn os_error(op: Op, path: &Path, code: i32) -> Error {
    Error::io(name(op), path, std::io::Error::from_raw_os_error(code))
}

impl FaultyState {
    /// Counts a call and decides how it fails. `Err` for a dead machine.
    fn begin(&mut self, op: Op, path: &Path) -> Result<Option<Failure>> {
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
            return Ok(Some(fault.failure));
        }
        Ok(None)
    }

    /// As [`FaultyState::begin`], for calls that a failure leaves without effect.
    fn begin_whole(&mut self, op: Op, path: &Path) -> Result<()> {
        match self.begin(op, path)? {
            Some(failure) => failure.code().map_or(Ok(()), |code| Err(os_error(op, path, code))),
            None => Ok(()),
        }
    }

    fn op(&mut self) -> u64 {
        self.next_op += 1;
        self.next_op
    }

    fn inode(&mut self, id: u64) -> &mut Inode {
        self.inodes.get_mut(&id).expect("inodes live as long as their names and handles")
    }

    fn change_dir(&mut self, dir: &Path, change: DirChange) {
        apply(&mut self.live, &change);
        let op = self.op();
        self.pending.push(PendingDirChange { op, dir: dir.to_path_buf(), change });
    }

    /// Bytes of all files, if a capacity is set.
    fn free(&self) -> u64 {
        let Some(capacity) = self.capacity else { return 1 << 50 };
        let used: u64 = self.inodes.values().map(|i| i.len()).sum();
        capacity.saturating_sub(used)
    }

    fn collect(&mut self) {
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

/// The disk. Clones are the same disk.
#[derive(Clone, Debug)]
pub struct FaultyDisk {
    state: Arc<Mutex<FaultyState>>,
}

#[derive(Debug)]
struct FaultyFile {
    state: Arc<Mutex<FaultyState>>,
    inode: u64,
    path: PathBuf,
}

/// In the place of the number of readers of a lock: a writer has it.
const WRITER: u32 = u32::MAX;

fn in_use(path: &Path) -> Error {
    let store = path.parent().unwrap_or(path).display();
    Error::Busy(format!(
        "the store in {store} is in use by another process, which has {} locked",
        path.display()
    ))
}

#[derive(Debug)]
struct FaultyLock {
    state: Arc<Mutex<FaultyState>>,
    path: PathBuf,
}

impl DirectoryLock for FaultyLock {}

impl Drop for FaultyLock {
    fn drop(&mut self) {
        let mut state = self.state.lock();
        match state.locks.get_mut(&self.path) {
            Some(readers) if *readers != WRITER && *readers > 1 => *readers -= 1,
            _ => drop(state.locks.remove(&self.path)),
        }
    }
}

impl Drop for FaultyFile {
    fn drop(&mut self) {
        let mut state = self.state.lock();
        if let Some(count) = state.handles.get_mut(&self.inode) {
            *count -= 1;
            if *count == 0 {
                state.handles.remove(&self.inode);
            }
        }
    }
}

impl FaultyDisk {
    /// An empty disk (with a root directory); `seed` decides everything random about it.
    pub fn new(seed: u64) -> FaultyDisk {
        let mut rng = seed;
        random(&mut rng);
        FaultyDisk {
            state: Arc::new(Mutex::new(FaultyState {
                live: Names::new(),
                durable: Names::new(),
                pending: Vec::new(),
                inodes: BTreeMap::new(),
                handles: BTreeMap::new(),
                dirs: BTreeSet::from([PathBuf::from("/")]),
                locks: BTreeMap::new(),
                next_inode: 1,
                next_op: 0,
                history: Vec::new(),
                dies_at: u64::MAX,
                failing_calls: BTreeMap::new(),
                faults: Vec::new(),
                capacity: None,
                rng,
                clock: 1_000_000,
                wall_ahead: 0,
            })),
        }
    }

    /// As a shared trait object.
    pub fn shared(&self) -> Arc<dyn Disk> {
        Arc::new(self.clone())
    }

    /// Calls so far (clock, randomness and advice do not count).
    pub fn calls(&self) -> u64 {
        self.state.lock().history.len() as u64
    }

    /// The kind of every call so far; call `n` (from 1) is at index `n - 1`.
    pub fn history(&self) -> Vec<Op> {
        self.state.lock().history.clone()
    }

    /// From call `n` (from 1) on every call fails and has no effect, as if the machine had died.
    pub fn crash_at(&self, n: u64) {
        self.state.lock().dies_at = n;
    }

    /// Call `n` (from 1) fails.
    pub fn fail_call(&self, n: u64, failure: Failure) {
        self.state.lock().failing_calls.insert(n, failure);
    }

    /// Adds a rule; rules are tried in the order in which they were added.
    pub fn fail(&self, fault: Fault) {
        self.state.lock().faults.push(fault);
    }

    /// Forgets every rule, failing call and planned crash.
    pub fn heal(&self) {
        let mut state = self.state.lock();
        state.faults.clear();
        state.failing_calls.clear();
        state.dies_at = u64::MAX;
    }

    /// Bounds the sum of all files' lengths, in bytes; growing beyond is "no space".
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.state.lock().capacity = bytes;
    }

    /// Sets the wall clock ahead or back; the monotonic clock stays.
    pub fn set_wall_clock(&self, seconds: i64) {
        self.state.lock().wall_ahead += seconds;
    }

    /// Moves the clock.
    pub fn advance_clock(&self, micros: u64) {
        self.state.lock().clock += micros;
    }

    /// Flips a bit of a file, in the cache and on the platter. False if there is no such byte.
    pub fn flip_bit(&self, path: &Path, offset: u64, bit: u8) -> bool {
        let mut state = self.state.lock();
        match state.live.get(path).copied() {
            Some(id) if offset < state.inode(id).len() => {
                state.inode(id).damage(offset, |byte| byte ^ (1 << (bit & 7)));
                true
            }
            _ => false,
        }
    }

    /// Overwrites bytes of a file, in the cache and on the platter. False if there is no such file.
    pub fn overwrite(&self, path: &Path, offset: u64, bytes: &[u8]) -> bool {
        let mut state = self.state.lock();
        let Some(id) = state.live.get(path).copied() else { return false };
        for (i, new) in bytes.iter().enumerate() {
            state.inode(id).damage(offset + i as u64, |_| *new);
        }
        true
    }

    /// A file's bytes as reads see them.
    pub fn contents(&self, path: &Path) -> Option<Vec<u8>> {
        let mut state = self.state.lock();
        let id = state.live.get(path).copied()?;
        let inode = state.inode(id);
        let mut bytes = vec![0; usize::try_from(inode.len()).ok()?];
        inode.read(&mut bytes, 0);
        Some(bytes)
    }

    /// Paths of all files as reads see them.
    pub fn files(&self) -> Vec<PathBuf> {
        self.state.lock().live.keys().cloned().collect()
    }

    /// The disk that is found after the machine (or the process) died now. It shares nothing with
    /// this one, has no faults, and its calls are counted from 0. Repeated crashes of one disk draw
    /// different numbers.
    pub fn crash(&self, mode: Crash) -> FaultyDisk {
        let mut state = self.state.lock();
        let seed = random(&mut state.rng);
        let mut rng = seed;
        let mut ops: Vec<u64> = state.pending.iter().map(|p| p.op).collect();
        ops.extend(state.inodes.values().flat_map(|i| i.pending_ops()));
        ops.sort_unstable();
        ops.dedup();
        // Changes below `whole` persist, those above not; `torn` itself by pages.
        let (whole, torn) = match mode {
            Crash::Drop => (0, None),
            Crash::Kill | Crash::Keep | Crash::Reorder => (u64::MAX, None),
            Crash::Prefix => match random(&mut rng) as usize % (ops.len() + 1) {
                n if n == ops.len() => (u64::MAX, None),
                n => (ops[n], None),
            },
            Crash::Tear if ops.is_empty() => (u64::MAX, None),
            Crash::Tear => {
                let pick = random(&mut rng) as usize;
                let op = if pick & 1 == 0 { ops[ops.len() - 1] } else { ops[(pick >> 1) % ops.len()] };
                (op, Some(op))
            }
        };
        let mut live = state.durable.clone();
        let mut durable = state.durable.clone();
        let mut pending = Vec::new();
        match mode {
            Crash::Kill => {
                live = state.live.clone();
                pending.clone_from(&state.pending);
            }
            _ => {
                let end = match mode {
                    Crash::Reorder => random(&mut rng) as usize % (state.pending.len() + 1),
                    _ => state.pending.iter().take_while(|p| p.op < whole).count(),
                };
                for change in &state.pending[..end] {
                    apply(&mut live, &change.change);
                }
                durable.clone_from(&live);
            }
        }
        let inodes = state
            .inodes
            .iter()
            .map(|(id, inode)| {
                let inode = match mode {
                    Crash::Kill => inode.clone(),
                    Crash::Reorder => inode.after_reordering(&mut || random(&mut rng)),
                    _ => inode.after_cut(whole, torn, &mut || random(&mut rng)),
                };
                (*id, inode)
            })
            .collect();
        let mut next = FaultyState {
            live,
            durable,
            pending,
            inodes,
            handles: BTreeMap::new(),
            dirs: state.dirs.clone(),
            locks: BTreeMap::new(),
            next_inode: state.next_inode,
            next_op: state.next_op,
            history: Vec::new(),
            dies_at: u64::MAX,
            failing_calls: BTreeMap::new(),
            faults: Vec::new(),
            capacity: state.capacity,
            rng,
            clock: state.clock + 1_000_000,
            wall_ahead: state.wall_ahead,
        };
        next.collect();
        FaultyDisk { state: Arc::new(Mutex::new(next)) }
    }
}

impl File for FaultyFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let mut state = self.state.lock();
        let n = match state.begin(Op::Read, &self.path)? {
            Some(failure) if failure.code().is_some() => {
                return Err(os_error(Op::Read, &self.path, libc::EIO))
            }
            Some(Failure::ShortRead) if buf.len() > 1 => {
                1 + random(&mut state.rng) as usize % (buf.len() - 1)
            }
            _ => buf.len(),
        };
        Ok(state.inode(self.inode).read(&mut buf[..n], offset))
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> Result<()> {
        let mut state = self.state.lock();
        let mut failure = state.begin(Op::Write, &self.path)?.and_then(Failure::code);
        let growth = (offset + buf.len() as u64).saturating_sub(state.inode(self.inode).len());
        if growth > 0 && growth > state.free() {
            failure = failure.or(Some(libc::ENOSPC));
        }
        let n = match failure {
            Some(_) => random(&mut state.rng) as usize % (buf.len() + 1),
            None => buf.len(),
        };
        let n = if matches!(failure, Some(libc::ENOSPC | libc::EDQUOT)) && growth > 0 { 0 } else { n };
        let op = state.op();
        state.inode(self.inode).write(op, &buf[..n], offset);
        match failure {
            Some(code) => Err(os_error(Op::Write, &self.path, code)),
            None => Ok(()),
        }
    }

    fn sync_data(&self) -> Result<()> {
        let mut state = self.state.lock();
        let failure = state.begin(Op::Sync, &self.path)?;
        match (failure, failure.and_then(Failure::code)) {
            (_, Some(code)) => {
                let mut rng = random(&mut state.rng);
                state.inode(self.inode).sync_failed(&mut || random(&mut rng));
                Err(os_error(Op::Sync, &self.path, code))
            }
            (Some(Failure::Lie), _) => {
                state.inode(self.inode).forget_pending();
                Ok(())
            }
            _ => {
                state.inode(self.inode).sync();
                Ok(())
            }
        }
    }

    fn len(&self) -> Result<u64> {
        let mut state = self.state.lock();
        state.begin_whole(Op::Len, &self.path)?;
        Ok(state.inode(self.inode).len())
    }

    fn allocate(&self, len: u64) -> Result<()> {
        let mut state = self.state.lock();
        state.begin_whole(Op::Allocate, &self.path)?;
        let old = state.inode(self.inode).len();
        if len > old {
            if len - old > state.free() {
                return Err(os_error(Op::Allocate, &self.path, libc::ENOSPC));
            }
            let op = state.op();
            state.inode(self.inode).set_len(op, len);
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> Result<()> {
        let mut state = self.state.lock();
        state.begin_whole(Op::SetLen, &self.path)?;
        let growth = len.saturating_sub(state.inode(self.inode).len());
        if growth > state.free() {
            return Err(os_error(Op::SetLen, &self.path, libc::ENOSPC));
        }
        let op = state.op();
        state.inode(self.inode).set_len(op, len);
        Ok(())
    }

    fn advise(&self, _offset: u64, _len: u64, _advice: Advice) {}
}

impl FaultyDisk {
    fn parent(path: &Path) -> PathBuf {
        path.parent().map_or_else(PathBuf::new, Path::to_path_buf)
    }
}

impl Disk for FaultyDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn File>> {
        let op = if mode == OpenMode::Create { Op::Create } else { Op::Open };
        let mut state = self.state.lock();
        state.begin_whole(op, path)?;
        let inode = match (state.live.get(path).copied(), mode) {
            (Some(id), OpenMode::Create) => {
                let op = state.op();
                state.inode(id).set_len(op, 0);
                id
            }
            (Some(id), _) => id,
            (None, OpenMode::Create) => {
                let dir = Self::parent(path);
                if !state.dirs.contains(&dir) {
                    return Err(os_error(Op::Create, path, libc::ENOENT));
                }
                let id = state.next_inode;
                state.next_inode += 1;
                state.inodes.insert(id, Inode::default());
                state.change_dir(&dir, DirChange::Link { path: path.to_path_buf(), inode: id });
                id
            }
            (None, _) => return Err(os_error(Op::Open, path, libc::ENOENT)),
        };
        *state.handles.entry(inode).or_insert(0) += 1;
        Ok(Arc::new(FaultyFile { state: self.state.clone(), inode, path: path.to_path_buf() }))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let mut state = self.state.lock();
        state.begin_whole(Op::Rename, from)?;
        let Some(inode) = state.live.get(from).copied() else {
            return Err(os_error(Op::Rename, from, libc::ENOENT));
        };
        let change = DirChange::Rename { from: from.to_path_buf(), to: to.to_path_buf(), inode };
        state.change_dir(&Self::parent(to), change);
        Ok(())
    }

    fn remove(&self, path: &Path) -> Result<()> {
        let mut state = self.state.lock();
        state.begin_whole(Op::Remove, path)?;
        let Some(inode) = state.live.get(path).copied() else {
            return Err(os_error(Op::Remove, path, libc::ENOENT));
        };
        state.change_dir(&Self::parent(path), DirChange::Unlink { path: path.to_path_buf(), inode });
        Ok(())
    }

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        let mut state = self.state.lock();
        state.begin_whole(Op::Link, to)?;
        let Some(inode) = state.live.get(from).copied() else {
            return Err(os_error(Op::Link, from, libc::ENOENT));
        };
        if state.live.contains_key(to) {
            return Err(os_error(Op::Link, to, libc::EEXIST));
        }
        state.change_dir(&Self::parent(to), DirChange::Link { path: to.to_path_buf(), inode });
        Ok(())
    }

    fn remove_dir(&self, dir: &Path) -> Result<()> {
        let mut state = self.state.lock();
        state.begin_whole(Op::RemoveDir, dir)?;
        let inside = |path: &PathBuf| path.parent() == Some(dir);
        if state.live.keys().any(inside) || state.dirs.iter().any(inside) {
            return Err(os_error(Op::RemoveDir, dir, libc::ENOTEMPTY));
        }
        match state.dirs.remove(dir) {
            true => Ok(()),
            false => Err(os_error(Op::RemoveDir, dir, libc::ENOENT)),
        }
    }

    fn resolve(&self, path: &Path) -> Result<PathBuf> {
        self.state.lock().begin_whole(Op::Resolve, path)?;
        Ok(path.to_path_buf())
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        let mut state = self.state.lock();
        state.begin_whole(Op::Exists, path)?;
        Ok(state.live.contains_key(path) || state.dirs.contains(path))
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        let mut state = self.state.lock();
        state.begin_whole(Op::List, dir)?;
        if !state.dirs.contains(dir) {
            return Err(os_error(Op::List, dir, libc::ENOENT));
        }
        let mut names: Vec<String> = state
            .live
            .keys()
            .chain(&state.dirs)
            .filter(|path| path.parent() == Some(dir))
            .filter_map(|path| path.file_name()?.to_str().map(str::to_owned))
            .collect();
        names.sort();
        Ok(names)
    }

    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        let mut state = self.state.lock();
        state.begin_whole(Op::CreateDir, dir)?;
        for ancestor in dir.ancestors() {
            state.dirs.insert(ancestor.to_path_buf());
        }
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        let mut state = self.state.lock();
        let failure = state.begin(Op::SyncDir, dir)?;
        if failure.and_then(Failure::code).is_some() {
            return Err(os_error(Op::SyncDir, dir, libc::EIO));
        }
        if failure == Some(Failure::Lie) {
            return Ok(());
        }
        let FaultyState { durable, pending, .. } = &mut *state;
        pending.retain(|p| {
            if p.dir == dir {
                apply(durable, &p.change);
            }
            p.dir != dir
        });
        state.collect();
        Ok(())
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn DirectoryLock>> {
        let mut state = self.state.lock();
        state.begin_whole(Op::Lock, path)?;
        if state.locks.contains_key(path) {
            return Err(in_use(path));
        }
        state.locks.insert(path.to_path_buf(), WRITER);
        Ok(Box::new(FaultyLock { state: self.state.clone(), path: path.to_path_buf() }))
    }

    fn lock_shared(&self, path: &Path) -> Result<Box<dyn DirectoryLock>> {
        let mut state = self.state.lock();
        state.begin_whole(Op::Lock, path)?;
        let readers = state.locks.entry(path.to_path_buf()).or_default();
        if *readers == WRITER {
            return Err(in_use(path));
        }
        *readers += 1;
        Ok(Box::new(FaultyLock { state: self.state.clone(), path: path.to_path_buf() }))
    }

    fn free_space(&self, dir: &Path) -> Result<u64> {
        let mut state = self.state.lock();
        state.begin_whole(Op::FreeSpace, dir)?;
        Ok(state.free())
    }

    fn now_micros(&self) -> u64 {
        self.state.lock().clock
    }

    fn unix_seconds(&self) -> u64 {
        let state = self.state.lock();
        (1_760_000_000 + state.clock / 1_000_000).saturating_add_signed(state.wall_ahead)
    }

    fn random(&self) -> u64 {
        random(&mut self.state.lock().rng)
    }
}
