//! Value files: large values, written once, apart from log, memtables and tables. Those have a pointer in their place. After
//! WiscKey (Lu et al., FAST 2016); a table names the value files of its entries, as in Pebble.
//!
//! - `format`: the bytes of a file's header and of a record;
//! - `collect`: the space of values that nobody needs;
//! - `separation`: long values of entries that a merge or a load moves;
//! - `writer`: the present file of writers, and the syncs;
//! - `alongside`: a sync at the same time as the log's;
//! - `read`: reads, and the cache;
//! - `together`: reads of several values;
//! - here: all files of a store.
//!
//! Guarantees: a value's bytes never change, and its file stays while anybody holds it: a table of any version, a memtable, a
//! transaction. Data flow: a writer's value goes to a file, its pointer into the transaction's batch; reads come with the
//! pointer.

mod alongside;
#[cfg(test)]
mod cached_test;
mod collect;
mod format;
mod read;
mod separation;
mod together;
mod writer;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;

use crate::cache::BlockCache;
use crate::error::{Error, Result};
use crate::format::value_pointer::ValuePointer;
use crate::io::AlignedBuffer;
use crate::sync::Mutex;
use crate::table::TableStore;
use crate::types::{Entry, FileNo};
use crate::value::pointer_of_entry;
use crate::value_holds::ValueFile;

use self::format::{RecordHeader, RECORD_HEADER};
use self::writer::{Writer, LARGEST_FILE};

pub use self::alongside::SyncAlongside;
pub use self::collect::NeededValues;
pub use self::separation::{inline_part, MovedValues, NewFiles, Separation};
pub(crate) use self::together::{FailedValue, ValuesTogether};
pub use self::writer::{NewValue, WrittenValue};

/// The value files of a store, by number. Shared by all threads.
pub struct ValueFiles {
    store: Arc<TableStore>,
    cache: Arc<BlockCache>,
    /// The files in the manifest.
    files: Mutex<BTreeMap<FileNo, Arc<ValueFile>>>,
    writer: Writer,
    file_size: AtomicU64,
    /// What all files take.
    bytes: Arc<AtomicU64>,
    /// The file system gives no parts of files back.
    refuses_holes: AtomicBool,
}

impl ValueFiles {
    /// Those of the store with these files. `store` has their names, and opens them.
    pub fn new(store: Arc<TableStore>, cache: Arc<BlockCache>) -> Arc<ValueFiles> {
        Arc::new(ValueFiles {
            store,
            cache,
            files: Mutex::default(),
            writer: Writer::default(),
            file_size: AtomicU64::new(0),
            bytes: Arc::default(),
            refuses_holes: AtomicBool::new(false),
        })
    }

    /// The files on disk.
    pub fn store(&self) -> &Arc<TableStore> {
        &self.store
    }

    /// Number of files.
    pub fn count(&self) -> usize {
        self.files.lock().len()
    }

    /// Bytes of all files, about.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Finds out how many bytes the files of the opened store take. One that cannot be asked counts as full: it is asked when
    /// its space is given back. Who reads the values of one that is missing is told.
    pub fn measure(&self) {
        for file in self.hold_all() {
            let number = file.number();
            let on_disk = self.store.get_untold(number);
            let taken = on_disk.and_then(|on_disk| on_disk.allocated().or_else(|_| on_disk.len()));
            let is_missing = || self.store.exists(number).is_ok_and(|exists| !exists);
            file.set_taken(taken.unwrap_or_else(|_| if is_missing() { 0 } else { LARGEST_FILE }));
        }
    }

    /// The manifest names the file from now on.
    pub fn note_named(&self, number: FileNo) {
        self.files.lock().entry(number).or_insert_with(|| ValueFile::new(number, &self.bytes));
    }

    /// The manifest names the file no more.
    pub fn note_ended(&self, number: FileNo) {
        self.files.lock().remove(&number);
    }

    /// A hold on a file; `None` if the manifest names no such file.
    pub fn hold(&self, number: FileNo) -> Option<Arc<ValueFile>> {
        self.files.lock().get(&number).cloned()
    }

    /// A hold on the file of a pointer in its stored form; `None` if the manifest names no such file.
    pub fn hold_of(&self, pointer: &[u8]) -> Option<Arc<ValueFile>> {
        self.hold(ValuePointer::decode(pointer)?.1.file)
    }

    /// Holds on all files, ascending by number.
    pub fn hold_all(&self) -> Vec<Arc<ValueFile>> {
        self.files.lock().values().cloned().collect()
    }

    /// True if the file takes values: its bytes so far stay, and others follow.
    pub fn takes_values(&self, file: &ValueFile) -> bool {
        self.writer.current.lock().as_ref().is_some_and(|current| current.number() == file.number())
            || file.is_written()
    }

    /// Ends files without holds: nobody will ever ask for a value of theirs. `end` takes them out of the manifest, unless there
    /// are none. No file is ended or begins meanwhile.
    pub fn end_unheld(&self, end: impl FnOnce(Vec<FileNo>) -> Result<()>) -> Result<usize> {
        // A new file has no hold before it takes values, which happens under this lock.
        let _no_changes = self.hold_changes();
        let unheld: Vec<FileNo> = {
            let files = self.files.lock();
            // Holds are taken of held files, of the one that takes values, and under the lock above.
            files.values().filter(|file| Arc::strong_count(file) == 1).map(|file| file.number()).collect()
        };
        let count = unheld.len();
        if count > 0 {
            end(unheld)?;
        }
        Ok(count)
    }

    /// Until the returned guard is dropped no file begins or ends. Taken before the locks of the manifest.
    pub fn hold_changes(&self) -> impl Sized + '_ {
        self.writer.current.lock()
    }

    /// True if the file of a pointer is not on disk.
    ///
    /// Errors: the bytes are no pointer: damage, or a later version's form.
    pub fn is_missing(&self, pointer: &[u8]) -> Result<bool> {
        let (_, pointer) = ValuePointer::decode(pointer).ok_or_else(|| self.no_pointer())?;
        Ok(self.store.exists(pointer.file).is_ok_and(|exists| !exists))
    }

    /// Writes the records of these pointers again in place, and syncs their files: a sync that follows may tell nothing of a
    /// write of an earlier epoch.
    pub fn rewrite<'p>(&self, pointers: impl Iterator<Item = &'p [u8]>) -> Result<()> {
        let mut places: Vec<(FileNo, u64)> = Vec::new();
        for pointer in pointers {
            let (_, pointer) = ValuePointer::decode(pointer).ok_or_else(|| self.no_pointer())?;
            places.push((pointer.file, pointer.offset));
        }
        places.sort_unstable();
        places.dedup();
        for of_file in places.chunk_by(|a, b| a.0 == b.0) {
            let number = of_file[0].0;
            if !self.store.exists(number)? {
                continue;
            }
            let file = self.store.open_to_write(number)?;
            for &(_, offset) in of_file {
                let mut header = [0; RECORD_HEADER];
                file.read_exact_at(&mut header, offset)?;
                let mut record = vec![0; RecordHeader::record_len(&header)];
                file.read_exact_at(&mut record, offset)?;
                file.write_at(&record, offset)?;
            }
            file.sync_data()?;
        }
        Ok(())
    }

    fn no_pointer(&self) -> Error {
        Error::corruption(self.store.dir(), 0, "the pointer of an entry to a value file")
    }

    /// Checks the whole record of a pointer, its key too: what [`ValueFiles::rewrite`] reads.
    ///
    /// Errors: I/O; damage.
    pub fn verify_record(&self, stored: &[u8]) -> Result<()> {
        let (_, pointer) = ValuePointer::decode(stored).ok_or_else(|| self.no_pointer())?;
        let file = self.store.get(pointer.file)?;
        let mut buffer = AlignedBuffer::default();
        let damage = |what| Error::corruption(self.store.path(pointer.file), pointer.offset, what);
        let header = buffer.read(&*file, pointer.offset, RECORD_HEADER)?;
        RecordHeader::check_place(header, &pointer).map_err(damage)?;
        let len = RecordHeader::record_len(header);
        let record = buffer.read(&*file, pointer.offset, len)?;
        RecordHeader::check_record(record, &pointer).map_err(damage)
    }

    /// Checks the value of an entry on disk, if it has one in a value file. Errors as [`ValueFiles::verify`].
    pub fn verify_entry(&self, entry: &Entry<'_>) -> Result<()> {
        pointer_of_entry(entry).map_or(Ok(()), |pointer| self.verify(pointer))
    }
}

impl fmt::Debug for ValueFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ValueFiles({:?}, {} files)", self.store, self.files.lock().len())
    }
}
