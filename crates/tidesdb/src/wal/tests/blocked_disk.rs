//! A disk whose log files keep no bytes, and take none while they are blocked: for lengths by the thousand, and for a disk
//! that does not answer.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use crate::error::Result;
use crate::io::{Advice, DirectoryLock, Disk, File, OpenMode};

/// Whether writes wait.
#[derive(Default, Debug)]
pub(super) struct Gate {
    closed: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    pub(super) fn set(&self, closed: bool) {
        *self.closed.lock() = closed;
        self.opened.notify_all();
    }

    fn pass(&self) {
        let mut closed = self.closed.lock();
        while *closed {
            self.opened.wait(&mut closed);
        }
    }
}

#[derive(Debug)]
pub(super) struct BlockedDisk {
    pub(super) inner: Arc<dyn Disk>,
    pub(super) gate: Arc<Gate>,
}

#[derive(Debug)]
struct BlockedFile {
    inner: Arc<dyn File>,
    gate: Arc<Gate>,
}

impl File for BlockedFile {
    fn path(&self) -> &Path {
        self.inner.path()
    }
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        self.inner.read_at(buf, offset)
    }
    fn write_at(&self, _buf: &[u8], _offset: u64) -> Result<()> {
        self.gate.pass();
        Ok(())
    }
    fn sync_data(&self) -> Result<()> {
        self.gate.pass();
        Ok(())
    }
    fn len(&self) -> Result<u64> {
        self.inner.len()
    }
    fn allocate(&self, len: u64) -> Result<()> {
        self.inner.allocate(len)
    }
    fn set_len(&self, len: u64) -> Result<()> {
        self.inner.set_len(len)
    }
    fn advise(&self, offset: u64, len: u64, advice: Advice) {
        self.inner.advise(offset, len, advice);
    }
}

impl Disk for BlockedDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn File>> {
        Ok(Arc::new(BlockedFile { inner: self.inner.open(path, mode)?, gate: self.gate.clone() }))
    }
    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.inner.rename(from, to)
    }
    fn remove(&self, path: &Path) -> Result<()> {
        self.inner.remove(path)
    }
    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        self.inner.link(from, to)
    }
    fn remove_dir(&self, dir: &Path) -> Result<()> {
        self.inner.remove_dir(dir)
    }
    fn resolve(&self, path: &Path) -> Result<PathBuf> {
        self.inner.resolve(path)
    }
    fn exists(&self, path: &Path) -> Result<bool> {
        self.inner.exists(path)
    }
    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        self.inner.list(dir)
    }
    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        self.inner.create_dir_all(dir)
    }
    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.inner.sync_dir(dir)
    }
    fn lock(&self, path: &Path) -> Result<Box<dyn DirectoryLock>> {
        self.inner.lock(path)
    }
    fn lock_shared(&self, path: &Path) -> Result<Box<dyn DirectoryLock>> {
        self.inner.lock_shared(path)
    }
    fn free_space(&self, dir: &Path) -> Result<u64> {
        self.inner.free_space(dir)
    }
    fn now_micros(&self) -> u64 {
        self.inner.now_micros()
    }
    fn unix_seconds(&self) -> u64 {
        self.inner.unix_seconds()
    }
    fn random(&self) -> u64 {
        self.inner.random()
    }
}
