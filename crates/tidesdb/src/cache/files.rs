//! Open table files, bounded by `max_open_files`. Asked only when a block is not in the cache, so one lock
//! serves; eviction is CLOCK over a vector. A held file stays open after its eviction.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;

use parking_lot::RwLock;

use crate::error::{Error, Result};
use crate::io::{table_path, Disk, File, OpenMode};
use crate::types::FileNo;

struct Open {
    number: FileNo,
    file: Arc<dyn File>,
    used: AtomicBool,
}

#[derive(Default)]
struct Table {
    /// Sorted by number.
    open: Vec<Open>,
    hand: usize,
}

/// Table files of a store by number, opened when asked for and closed when there are too many.
pub struct FileCache {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    max_open: AtomicUsize,
    table: RwLock<Table>,
}

impl FileCache {
    /// Opens the files of `dir` through `disk`, keeping at most `max_open` (at least one).
    pub fn new(disk: Arc<dyn Disk>, dir: impl Into<PathBuf>, max_open: usize) -> Arc<FileCache> {
        let max_open = AtomicUsize::new(max_open.max(1));
        Arc::new(FileCache { disk, dir: dir.into(), max_open, table: RwLock::default() })
    }

    /// The file with this number, open for reading. One that is missing is damage.
    pub fn get(&self, number: FileNo) -> Result<Arc<dyn File>> {
        {
            let table = self.table.read();
            if let Ok(at) = table.find(number) {
                table.open[at].used.store(true, Ordering::Relaxed);
                return Ok(Arc::clone(&table.open[at].file));
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
        let mut table = self.table.write();
        let kept = match table.find(number) {
            Ok(at) => Arc::clone(&table.open[at].file),
            Err(_) => {
                if table.open.len() >= self.max_open.load(Ordering::Relaxed) {
                    closed = table.evict();
                }
                let at = table.find(number).unwrap_or_else(|at| at);
                table.open.insert(at, Open { number, file: Arc::clone(&file), used: AtomicBool::new(true) });
                file
            }
        };
        drop(table);
        drop(closed);
        kept
    }

    /// Changes the bound; files beyond it that nobody reads are closed at once.
    pub fn set_max_open(&self, max_open: usize) {
        let max_open = max_open.max(1);
        self.max_open.store(max_open, Ordering::Relaxed);
        let mut closed = Vec::new();
        let mut table = self.table.write();
        while table.open.len() > max_open {
            match table.evict() {
                Some(open) => closed.push(open),
                None => break,
            }
        }
        drop(table);
    }

    /// Closes the file with this number, before it is unlinked.
    pub fn forget(&self, number: FileNo) {
        let mut table = self.table.write();
        let closed = table.find(number).ok().map(|at| table.open.remove(at));
        drop(table);
        drop(closed);
    }

    /// Where the file with this number stands.
    pub fn path(&self, number: FileNo) -> PathBuf {
        table_path(&self.dir, number)
    }

    /// The directory of the files.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Number of files that are kept open.
    pub fn open_files(&self) -> usize {
        self.table.read().open.len()
    }
}

impl Table {
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

impl fmt::Debug for FileCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "FileCache({}, {} of {} open)",
            self.dir.display(),
            self.open_files(),
            self.max_open.load(Ordering::Relaxed)
        )
    }
}
