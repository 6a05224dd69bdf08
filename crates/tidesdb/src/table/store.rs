//! The files of a store's tables, by number. This module alone creates, opens, queries and removes them, and
//! no code above knows their paths. After RocksDB's and Pebble's `objstorage`; only backups, which copy files
//! between directories, ask for paths.
//!
//! `max_open_files` bounds the open files. One lock serves, because only a block missing from the cache needs
//! its file. Eviction is CLOCK over a vector. A file in use stays open after its eviction.
//!
//! Files are read past the page cache, if asked for and possible: the block cache then has the memory of both, and a block
//! is one request of the disk. After RocksDB's `use_direct_reads`.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::host::Clock;
use crate::io::{Advice, AlignedBuffer, Disk, File, OpenMode};
use crate::options::{LogLevel, LogSink};
use crate::sync::{note, Mutex, RwLock};
use crate::types::FileNo;

/// File name extension of table files.
const TABLES: &str = ".sst";

/// File name extension of value files.
const VALUES: &str = ".val";

struct Open {
    number: FileNo,
    file: Arc<dyn File>,
    used: AtomicBool,
}

#[derive(Default)]
struct OpenFiles {
    /// Sorted by file number.
    open: Vec<Open>,
    hand: usize,
}

/// The files of a store's tables. Shared by all threads.
pub struct TableStore {
    /// The extension of their names.
    suffix: &'static str,
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    dir: PathBuf,
    max_open: AtomicUsize,
    files: RwLock<OpenFiles>,
    log: Option<LogSink>,
    /// Files are opened past the page cache.
    direct: AtomicBool,
    /// A file was read so.
    direct_proven: AtomicBool,
    /// How direct reads were refused, until the log is told, and whether there is such a text: nobody else takes the lock.
    refusal: Mutex<Option<String>>,
    has_refusal: AtomicBool,
    /// Reads of blocks that were not in the cache, and their bytes. Those of merges are not among them.
    reads: AtomicU64,
    read_bytes: AtomicU64,
    /// Files whose damage is in the log already.
    logged: Mutex<BTreeSet<FileNo>>,
}

impl TableStore {
    /// Opens the files of `dir` through `disk`, keeping at most `max_open` (at least one).
    pub fn new(disk: Arc<dyn Disk>, dir: impl Into<PathBuf>, max_open: usize) -> Arc<TableStore> {
        TableStore::telling(disk, dir, max_open, None)
    }

    /// As [`TableStore::new`]; what goes wrong and costs nothing yet is told to `log`.
    pub fn telling(
        disk: Arc<dyn Disk>,
        dir: impl Into<PathBuf>,
        max_open: usize,
        log: Option<LogSink>,
    ) -> Arc<TableStore> {
        TableStore::with_suffix(TABLES, disk, dir, max_open, log)
    }

    /// The value files next to these tables, opened and read as they are.
    pub fn value_files(&self) -> Arc<TableStore> {
        let max_open = self.max_open.load(Ordering::Relaxed);
        let values =
            TableStore::with_suffix(VALUES, self.disk.clone(), &self.dir, max_open, self.log.clone());
        values.set_direct(self.is_direct());
        values
    }

    fn with_suffix(
        suffix: &'static str,
        disk: Arc<dyn Disk>,
        dir: impl Into<PathBuf>,
        max_open: usize,
        log: Option<LogSink>,
    ) -> Arc<TableStore> {
        let max_open = AtomicUsize::new(max_open.max(1));
        let clock = disk.clock();
        Arc::new(TableStore {
            suffix,
            disk,
            clock,
            dir: dir.into(),
            max_open,
            files: RwLock::default(),
            log,
            direct: AtomicBool::new(false),
            direct_proven: AtomicBool::new(false),
            refusal: Mutex::default(),
            has_refusal: AtomicBool::new(false),
            reads: AtomicU64::new(0),
            read_bytes: AtomicU64::new(0),
            logged: Mutex::default(),
        })
    }

    /// From now on files are opened for reads past the page cache, or through it. Open ones stay as they are. Where the
    /// file system refuses, a line of the log says so, once.
    pub fn set_direct(&self, direct: bool) {
        self.direct.store(direct, Ordering::Relaxed);
    }

    /// True if files are opened past the page cache.
    pub fn is_direct(&self) -> bool {
        self.direct.load(Ordering::Relaxed)
    }

    /// Writes a line of the log.
    pub(crate) fn log(&self, level: LogLevel, message: &str) {
        if let Some(log) = &self.log {
            log.write(level, message);
        }
    }

    /// A table in a file could not be read, and its second copy could.
    pub(crate) fn tell_damage(&self, number: FileNo, error: &Error) {
        // Descriptors or memory that are missing for a moment are no damage.
        if !error.is_transient() && self.logged.lock().insert(number) {
            self.log(
                LogLevel::Warn,
                &format!(
                    "{error}; its second copy was read, nothing is lost yet: check the disk, take a backup"
                ),
            );
        }
    }

    /// Tells the log if a file system has refused direct reads. Not for a thread that others wait for: the program's log may
    /// read the same table (`docs/protocols.md` 8.4).
    pub(crate) fn tell_refusal(&self) {
        if self.has_refusal.load(Ordering::Relaxed) {
            let refusal = self.refusal.lock().take();
            self.has_refusal.store(false, Ordering::Relaxed);
            if let Some(refusal) = refusal {
                self.log(LogLevel::Warn, &refusal);
            }
        }
    }

    /// File `number`, open for reading. A missing file is damage.
    pub fn get(&self, number: FileNo) -> Result<Arc<dyn File>> {
        let file = self.get_untold(number);
        self.tell_refusal();
        file
    }

    /// The same, where the program's log must not be called: [`TableStore::tell_refusal`] comes later.
    pub(crate) fn get_untold(&self, number: FileNo) -> Result<Arc<dyn File>> {
        {
            let files = self.files.read();
            if let Ok(at) = files.find(number) {
                files.open[at].used.store(true, Ordering::Relaxed);
                return Ok(Arc::clone(&files.open[at].file));
            }
        }
        let path = self.path(number);
        let file = self.open(&path).map_err(|error| match error {
            // It was there when a manifest named it.
            Error::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
                Error::corruption(path, 0, "the file is missing")
            }
            other => other,
        })?;
        Ok(self.keep(number, file))
    }

    /// Counts a read of `bytes`, with the sectors around what was asked for.
    pub(crate) fn note_read(&self, bytes: usize) {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.read_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Reads of blocks that were not in the cache, since the start.
    pub fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    /// Bytes of these reads.
    pub fn read_bytes(&self) -> u64 {
        self.read_bytes.load(Ordering::Relaxed)
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn File>> {
        if self.is_direct() {
            match self.open_direct(path) {
                Err(error) if is_refusal(&error) => {
                    if self.direct.swap(false, Ordering::Relaxed) {
                        let text = format!("direct reads are not possible here ({error}): tables are read through the page cache");
                        *self.refusal.lock() = Some(text);
                        self.has_refusal.store(true, Ordering::Relaxed);
                    }
                }
                done => return done,
            }
        }
        self.disk.open(path, OpenMode::Read)
    }

    /// The first file is read from, too: some file systems open it and refuse then.
    fn open_direct(&self, path: &Path) -> Result<Arc<dyn File>> {
        let file = self.disk.open(path, OpenMode::ReadDirect)?;
        note("table: file opened past the page cache");
        if !self.direct_proven.load(Ordering::Relaxed) {
            match AlignedBuffer::default().read(&*file, 0, 1) {
                Ok(_) => self.direct_proven.store(true, Ordering::Relaxed),
                Err(error) if is_refusal(&error) => return Err(error),
                // A file without a byte proves nothing, nor does a bad sector, which may be all that is wrong with the file.
                Err(_) => {}
            }
        }
        Ok(file)
    }

    /// A file was written and synced, and is read by [`TableStore::get`] from now on.
    pub fn written(&self, file: &dyn File) {
        if self.is_direct() {
            // Its pages would only take memory.
            file.advise(0, 0, Advice::DontNeed);
        }
    }

    /// The clock of the disk, in microseconds.
    pub(crate) fn now_micros(&self) -> u64 {
        self.clock.now_micros()
    }

    /// Keeps an open file, just written, under its number. Returns the kept one, which may be another
    /// thread's.
    pub fn keep(&self, number: FileNo, file: Arc<dyn File>) -> Arc<dyn File> {
        let mut closed = None;
        let mut files = self.files.write();
        let kept = match files.find(number) {
            Ok(at) => Arc::clone(&files.open[at].file),
            Err(_) => {
                if files.open.len() >= self.max_open.load(Ordering::Relaxed) {
                    closed = files.evict();
                }
                let at = files.find(number).unwrap_or_else(|at| at);
                files.open.insert(at, Open { number, file: Arc::clone(&file), used: AtomicBool::new(true) });
                file
            }
        };
        drop(files);
        drop(closed);
        kept
    }

    /// Changes the bound on open files and closes those beyond it, except files in use.
    pub fn set_max_open(&self, max_open: usize) {
        let max_open = max_open.max(1);
        self.max_open.store(max_open, Ordering::Relaxed);
        let mut closed = Vec::new();
        let mut files = self.files.write();
        while files.open.len() > max_open {
            match files.evict() {
                Some(open) => closed.push(open),
                None => break,
            }
        }
        drop(files);
    }

    /// Closes the file with this number, before it is unlinked.
    pub fn forget(&self, number: FileNo) {
        let mut files = self.files.write();
        let closed = files.find(number).ok().map(|at| files.open.remove(at));
        drop(files);
        drop(closed);
    }

    /// Creates the file of a fresh number, for a writer. Its directory entry is durable after
    /// [`TableStore::sync`].
    pub fn create(&self, number: FileNo) -> Result<Arc<dyn File>> {
        self.disk.open(&self.path(number), OpenMode::Create)
    }

    /// An existing file, for a writer.
    pub fn open_to_write(&self, number: FileNo) -> Result<Arc<dyn File>> {
        self.disk.open(&self.path(number), OpenMode::ReadWrite)
    }

    /// Makes all creations and removals durable.
    pub fn sync(&self) -> Result<()> {
        self.disk.sync_dir(&self.dir)
    }

    /// True if the file exists.
    pub fn exists(&self, number: FileNo) -> Result<bool> {
        self.disk.exists(&self.path(number))
    }

    /// Closes and unlinks the file. An absent file is no error. After an error the call can be repeated.
    pub fn remove(&self, number: FileNo) -> Result<()> {
        self.forget(number);
        let path = self.path(number);
        match self.disk.exists(&path)? {
            true => self.disk.remove(&path),
            false => Ok(()),
        }
    }

    /// Numbers of the existing files in ascending order; none without a store.
    pub fn list(&self) -> Result<Vec<FileNo>> {
        if !self.disk.exists(&self.dir)? {
            return Ok(Vec::new());
        }
        let mut numbers: Vec<FileNo> =
            self.disk.list(&self.dir)?.iter().filter_map(|name| number_in(name, self.suffix)).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// The file's name in messages.
    pub fn name(&self, number: FileNo) -> String {
        self.path(number).display().to_string()
    }

    /// The error for damage of a file as a whole.
    pub fn damage(&self, number: FileNo, what: impl Into<String>) -> Error {
        Error::corruption(self.path(number), 0, what)
    }

    /// The file of an error, if it is one of these files.
    pub fn file_of(&self, error: &Error) -> Option<FileNo> {
        let (Error::Corruption { path, .. } | Error::Io { path, .. }) = error else { return None };
        let number = number_in(path.file_name()?.to_str()?, self.suffix)?;
        (self.path(number) == *path).then_some(number)
    }

    /// The path of a file, for copies and links between directories.
    pub(crate) fn path(&self, number: FileNo) -> PathBuf {
        self.dir.join(name_of(number, self.suffix))
    }

    /// The directory of the files.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The name of a table's file in every store and backup.
    pub fn file_name(number: FileNo) -> String {
        name_of(number, TABLES)
    }

    /// The name of a value file in every store and backup.
    pub fn value_file_name(number: FileNo) -> String {
        name_of(number, VALUES)
    }

    /// True for the path of a value file, in every store and backup.
    pub fn is_value_file(path: &Path) -> bool {
        path.file_name().and_then(|name| number_in(name.to_str()?, VALUES)).is_some()
    }

    /// The number of a table file or value file, by its name.
    pub fn number_of_any(name: &str) -> Option<FileNo> {
        number_in(name, TABLES).or_else(|| number_in(name, VALUES))
    }

    /// Parses a table file's name; `None` for any other name.
    pub fn number_of(name: &str) -> Option<FileNo> {
        number_in(name, TABLES)
    }

    /// Number of open files.
    pub fn open_files(&self) -> usize {
        self.files.read().open.len()
    }
}

fn name_of(number: FileNo, suffix: &str) -> String {
    format!("{number:08}{suffix}")
}

fn number_in(name: &str, suffix: &str) -> Option<FileNo> {
    let digits = name.strip_suffix(suffix)?;
    if digits.len() < 8 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok()
}

/// True if the file system or the device cannot read past the page cache.
fn is_refusal(error: &Error) -> bool {
    matches!(error, Error::Io { source, .. }
        if matches!(source.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP | libc::ENOSYS)))
}

impl OpenFiles {
    fn find(&self, number: FileNo) -> Result<usize, usize> {
        self.open.binary_search_by_key(&number, |open| open.number)
    }

    /// Removes the first file under the hand not used since the hand's last pass.
    fn evict(&mut self) -> Option<Open> {
        loop {
            if self.open.is_empty() {
                return None;
            }
            self.hand %= self.open.len();
            if !self.open[self.hand].used.swap(false, Ordering::Relaxed) {
                return Some(self.open.remove(self.hand));
            }
            self.hand += 1;
        }
    }
}

impl fmt::Debug for TableStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "TableStore({}, {} of {} open)",
            self.dir.display(),
            self.open_files(),
            self.max_open.load(Ordering::Relaxed)
        )
    }
}
