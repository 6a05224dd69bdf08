//! The calls of disk, files and locks.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::inode::Inode;
use super::state::{apply, os_error, DirChange, FaultyState, WRITER};
use super::{Failure, FaultyDisk, Op};
use crate::error::{Error, Result};
use crate::host::{splitmix64, Clock, Instant, Random, SystemClock};
use crate::io::{Advice, DirectoryLock, Disk, File, OpenMode};
use crate::sync::Mutex;

#[derive(Debug)]
struct FaultyFile {
    state: Arc<Mutex<FaultyState>>,
    inode: u64,
    path: PathBuf,
    /// Of a reader past the page cache; else 1.
    sector: usize,
}

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

impl File for FaultyFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn alignment(&self) -> usize {
        self.sector
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let mut state = self.state.lock();
        let places = [offset as usize, buf.len(), buf.as_ptr() as usize];
        if places.iter().any(|place| place % self.sector != 0) {
            return Err(os_error(Op::Read, &self.path, libc::EINVAL));
        }
        let n = match state.begin(Op::Read, &self.path)? {
            Some(failure) if failure.code().is_some() => {
                return Err(os_error(Op::Read, &self.path, libc::EIO))
            }
            Some(Failure::ShortRead) if buf.len() > 1 => {
                1 + splitmix64(&mut state.rng) as usize % (buf.len() - 1)
            }
            _ => buf.len(),
        };
        if state.is_unreadable(&self.path, &(offset..offset + n as u64)) {
            return Err(os_error(Op::Read, &self.path, libc::EIO));
        }
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
            Some(_) => splitmix64(&mut state.rng) as usize % (buf.len() + 1),
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
                let mut rng = splitmix64(&mut state.rng);
                state.inode(self.inode).sync_failed(&mut || splitmix64(&mut rng));
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

    fn clear(&self, len: u64) {
        let mut state = self.state.lock();
        let has_failed = state.begin_whole(Op::Allocate, &self.path).is_err();
        // Some file systems leave the bytes as they are.
        if !has_failed && splitmix64(&mut state.rng) % 4 > 0 {
            let len = len.min(state.inode(self.inode).len());
            let op = state.op();
            state.inode(self.inode).write(op, &vec![0; len as usize], 0);
        }
    }

    fn punch_hole(&self, offset: u64, len: u64) -> Result<bool> {
        let mut state = self.state.lock();
        state.begin_whole(Op::Allocate, &self.path)?;
        if state.refuses_holes {
            return Ok(false);
        }
        let op = state.op();
        state.inode(self.inode).punch(op, offset, len);
        Ok(true)
    }

    fn links(&self) -> Result<u64> {
        let mut state = self.state.lock();
        state.begin_whole(Op::Len, &self.path)?;
        Ok(state.live.values().filter(|inode| **inode == self.inode).count() as u64)
    }

    fn allocated(&self) -> Result<u64> {
        let mut state = self.state.lock();
        state.begin_whole(Op::Len, &self.path)?;
        Ok(state.inode(self.inode).allocated())
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
        let sector = match mode {
            OpenMode::ReadDirect if state.refuses_direct => return Err(os_error(op, path, libc::EINVAL)),
            OpenMode::ReadDirect => state.sector,
            _ => 1,
        };
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
        Ok(Arc::new(FaultyFile { state: self.state.clone(), inode, path: path.to_path_buf(), sector }))
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

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(self.clone())
    }

    fn random(&self) -> Arc<dyn Random> {
        Arc::new(self.clone())
    }
}

/// Threads wait by the machine's clock, since nobody else moves them on. Everything else counts the disk's calls.
impl Clock for FaultyDisk {
    fn now(&self) -> Instant {
        SystemClock.now()
    }

    fn now_micros(&self) -> u64 {
        FaultyDisk::now_micros(self)
    }

    fn unix_seconds(&self) -> u64 {
        FaultyDisk::unix_seconds(self)
    }

    fn sleep(&self, time: Duration) {
        SystemClock.sleep(time);
    }
}

impl Random for FaultyDisk {
    fn next(&self) -> u64 {
        splitmix64(&mut self.state.lock().rng)
    }
}
