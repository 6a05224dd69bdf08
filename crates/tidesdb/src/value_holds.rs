//! Holds on value files ([`crate::values`]): a file stays while there is one. Tables, memtables and transactions have holds on
//! the files that their entries point into.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::Arc;

use crate::types::FileNo;

/// A value file that the manifest names. A clone of the handle is a hold.
pub struct ValueFile {
    number: FileNo,
    /// Values whose place is reserved, and that are not whole yet.
    writes: AtomicU32,
    /// A value was written in this life.
    is_new: AtomicBool,
    /// Bytes that its values take, as of the last look; the largest number before the first.
    taken: AtomicU64,
}

impl ValueFile {
    /// A file that the manifest names.
    pub fn new(number: FileNo) -> Arc<ValueFile> {
        Arc::new(ValueFile {
            number,
            writes: AtomicU32::new(0),
            is_new: AtomicBool::new(false),
            taken: AtomicU64::new(u64::MAX),
        })
    }

    /// A value is being written until the returned guard is dropped.
    pub fn begin_write(self: &Arc<Self>) -> ValueWrite {
        self.is_new.store(true, Ordering::Relaxed);
        self.writes.fetch_add(1, Ordering::SeqCst);
        ValueWrite(Arc::clone(self))
    }

    /// True while values are being written.
    pub fn is_written(&self) -> bool {
        self.writes.load(Ordering::SeqCst) > 0
    }

    /// True if values were written to it in this life of the store: it has no holes of an earlier one.
    pub fn is_new(&self) -> bool {
        self.is_new.load(Ordering::Relaxed)
    }

    /// The space of all values but of `bytes` is given back.
    pub fn note_freed(&self, bytes: u64) {
        self.taken.store(bytes, Ordering::Relaxed);
    }

    /// Bytes that its values take, as of the last [`ValueFile::note_freed`]; `None` before the first.
    pub fn taken(&self) -> Option<u64> {
        Some(self.taken.load(Ordering::Relaxed)).filter(|bytes| *bytes != u64::MAX)
    }

    /// The file's number.
    pub fn number(&self) -> FileNo {
        self.number
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
