//! Holds on value files ([`crate::values`]): a file stays while there is one. Tables, memtables and transactions have holds on
//! the files that their entries point into.

use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::Arc;

use crate::types::FileNo;

/// A value file that the manifest names. A clone of the handle is a hold.
pub struct ValueFile {
    number: FileNo,
    /// Values whose place is reserved, and that are not whole yet.
    writes: AtomicU32,
    /// Bytes that it takes: as found on disk, what was written since, and less as holes were made.
    taken: AtomicU64,
    /// The same of all files of the store.
    of_all: Arc<AtomicU64>,
}

impl ValueFile {
    /// A file that the manifest names, of a store whose files take `of_all` bytes.
    pub fn new(number: FileNo, of_all: &Arc<AtomicU64>) -> Arc<ValueFile> {
        let (writes, taken) = (AtomicU32::new(0), AtomicU64::new(0));
        Arc::new(ValueFile { number, writes, taken, of_all: Arc::clone(of_all) })
    }

    /// Values are being written until the returned guard is dropped.
    pub fn begin_write(self: &Arc<Self>) -> ValueWrite {
        self.writes.fetch_add(1, Ordering::SeqCst);
        ValueWrite(Arc::clone(self))
    }

    /// True while values are being written.
    pub fn is_written(&self) -> bool {
        self.writes.load(Ordering::SeqCst) > 0
    }

    /// It takes so many bytes more.
    pub fn add_taken(&self, bytes: u64) {
        self.taken.fetch_add(bytes, Ordering::Relaxed);
        self.of_all.fetch_add(bytes, Ordering::Relaxed);
    }

    /// It takes so many bytes.
    pub fn set_taken(&self, bytes: u64) {
        let before = self.taken.swap(bytes, Ordering::Relaxed);
        // Wraps around where it is less.
        self.of_all.fetch_add(bytes.wrapping_sub(before), Ordering::Relaxed);
    }

    /// Bytes that it takes, about.
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// The file's number.
    pub fn number(&self) -> FileNo {
        self.number
    }
}

impl Drop for ValueFile {
    fn drop(&mut self) {
        self.set_taken(0);
    }
}

/// A write of a value to its file; it ends when it is dropped.
pub struct ValueWrite(Arc<ValueFile>);

impl Drop for ValueWrite {
    fn drop(&mut self) {
        self.0.writes.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Holds on some files, each once.
#[derive(Clone, Debug, Default)]
pub struct ValueHolds(Vec<Arc<ValueFile>>);

impl ValueHolds {
    /// Adds a hold. The file added last is looked at first.
    pub fn add(&mut self, file: Arc<ValueFile>) {
        if self.0.iter().rev().all(|held| held.number != file.number) {
            self.0.push(file);
        }
    }

    /// Gives all holds back.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// The files.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<ValueFile>> {
        self.0.iter()
    }
}

impl fmt::Debug for ValueFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.number)
    }
}
