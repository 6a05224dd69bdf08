//! The files of a store's tables, by number: made, opened, asked for and removed here and nowhere else, so that no code
//! above knows where they stand. (After RocksDB's and Pebble's `objstorage`; backups copy files between directories, and
//! ask for paths.)
//!
//! Open files are bounded by `max_open_files`. They are asked for only when a block is not in the cache, so one lock
//! serves; eviction is CLOCK over a vector. A held file stays open after its eviction.

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::io::{Disk, File, OpenMode};
use crate::sync::RwLock;
use crate::types::FileNo;

/// Ending of the names of table files.
const SUFFIX: &str = ".sst";

struct Open {
    number: FileNo,
    file: Arc<dyn File>,
    used: AtomicBool,
}

#[derive(Default)]
struct OpenFiles {
    /// Sorted by number.
    open: Vec<Open>,
    hand: usize,
}

/// See the module's comment.
pub struct TableStore {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    max_open: AtomicUsize,
    files: RwLock<OpenFiles>,
}

impl TableStore {
    /// Opens the files of `dir` through `disk`, keeping at most `max_open` (at least one).
    pub fn new(disk: Arc<dyn Disk>, dir: impl Into<PathBuf>, max_open: usize) -> Arc<TableStore> {
        let max_open = AtomicUsize::new(max_open.max(1));
        Arc::new(TableStore { disk, dir: dir.into(), max_open, files: RwLock::default() })
    }

    /// The file with this number, open for reading. One that is missing is damage.
    pub fn get(&self, number: FileNo) -> Result<Arc<dyn File>> {
        {
            let files = self.files.read();
            if let Ok(at) = files.find(number) {
                files.open[at].used.store(true, Ordering::Relaxed);
                return Ok(Arc::clone(&files.open[at].file));
            }
        }
        let path = self.path(number);
        let file = self.disk.open(&path, OpenMode::Read).map_err(|error| match error {
            // It was there when a manifest named it.
            Error::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
                Error::corruption(path, 0, "the file is missing")
            }
            other => other,
        })?;
        Ok(self.keep(number, file))
    }

    /// The clock of the disk, in microseconds.
    pub(crate) fn now_micros(&self) -> u64 {
        self.disk.now_micros()
    }

    /// Keeps a file that is already open (one that was just written) under its number, and returns the one
    /// that is kept.
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

    /// Changes the bound; files beyond it that nobody reads are closed at once.
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

    /// Makes the file of a number that was never given out, for a writer. Its entry is durable after
    /// [`TableStore::sync`].
    pub fn create(&self, number: FileNo) -> Result<Arc<dyn File>> {
        self.disk.open(&self.path(number), OpenMode::Create)
    }

    /// Makes what was created and removed durable.
    pub fn sync(&self) -> Result<()> {
        self.disk.sync_dir(&self.dir)
    }

    /// Whether the file is there.
    pub fn exists(&self, number: FileNo) -> Result<bool> {
        self.disk.exists(&self.path(number))
    }

    /// Closes and unlinks the file. One that is gone is no error; after any other the call can be repeated.
    pub fn remove(&self, number: FileNo) -> Result<()> {
        self.forget(number);
        let path = self.path(number);
        match self.disk.exists(&path)? {
            true => self.disk.remove(&path),
            false => Ok(()),
        }
    }

    /// Numbers of the files that are there, in ascending order; none where there is no store.
    pub fn list(&self) -> Result<Vec<FileNo>> {
        if !self.disk.exists(&self.dir)? {
            return Ok(Vec::new());
        }
        let mut numbers: Vec<FileNo> =
            self.disk.list(&self.dir)?.iter().filter_map(|name| Self::number_of(name)).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// The file as a message shows it.
    pub fn name(&self, number: FileNo) -> String {
        self.path(number).display().to_string()
    }

    /// Damage of a file as a whole.
    pub fn damage(&self, number: FileNo, what: impl Into<String>) -> Error {
        Error::corruption(self.path(number), 0, what)
    }

    /// The file that an error is about, if it is about one of these.
    pub fn file_of(&self, error: &Error) -> Option<FileNo> {
        let (Error::Corruption { path, .. } | Error::Io { path, .. }) = error else { return None };
        let number = Self::number_of(path.file_name()?.to_str()?)?;
        (self.path(number) == *path).then_some(number)
    }

    /// The path of a file, for those who copy and link files between directories.
    pub(crate) fn path(&self, number: FileNo) -> PathBuf {
        self.dir.join(Self::file_name(number))
    }

    /// The name that a table's file has in every store and backup.
    pub fn file_name(number: FileNo) -> String {
        format!("{number:08}{SUFFIX}")
    }

    /// The number in a table file's name, if it is one.
    pub fn number_of(name: &str) -> Option<FileNo> {
        let digits = name.strip_suffix(SUFFIX)?;
        if digits.len() < 8 || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        digits.parse().ok()
    }

    /// Number of files that are kept open.
    pub fn open_files(&self) -> usize {
        self.files.read().open.len()
    }
}

impl OpenFiles {
    fn find(&self, number: FileNo) -> Result<usize, usize> {
        self.open.binary_search_by_key(&number, |open| open.number)
    }

    /// Takes out the first file under the hand that was not used since the hand passed it last.
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
