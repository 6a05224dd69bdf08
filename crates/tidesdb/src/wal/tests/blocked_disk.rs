//! A disk whose log files keep no bytes, and take none while blocked. For lengths by the thousand, and for a
//! disk without an answer.

use std::path::Path;
use std::sync::Arc;

use crate::error::Result;
use crate::io::{Advice, Disk, File, OpenMode};
use crate::sync::{Condvar, Mutex};

/// A gate for writes: closed, they wait.
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
    fn alignment(&self) -> usize {
        self.inner.alignment()
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
    fn clear(&self, len: u64) {
        self.inner.clear(len);
    }
    fn punch_hole(&self, offset: u64, len: u64) -> Result<bool> {
        self.inner.punch_hole(offset, len)
    }
    fn links(&self) -> Result<u64> {
        self.inner.links()
    }
    fn allocated(&self) -> Result<u64> {
        self.inner.allocated()
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
    crate::pass_on!(to inner: all but open);
}
