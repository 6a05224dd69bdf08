//! A disk in memory for the tests of this module. Tests can read and damage the bytes of its files.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::host::{Clock, HashMap, Random, SystemClock, SystemRandom};
use crate::io::{Advice, DirectoryLock, Disk, File, OpenMode};
use crate::sync::{Mutex, RwLock};

/// A test's part in every read of a file: counts, waits, or fails it.
#[derive(Default)]
pub struct ReadHook(RwLock<Option<Hook>>);

type Hook = Arc<dyn Fn() -> Result<()> + Send + Sync>;

impl ReadHook {
    pub fn set(&self, hook: impl Fn() -> Result<()> + Send + Sync + 'static) {
        *self.0.write() = Some(Arc::new(hook));
    }

    fn call(&self) -> Result<()> {
        let hook = self.0.read().clone();
        hook.map_or(Ok(()), |hook| hook())
    }
}

impl fmt::Debug for ReadHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReadHook")
    }
}

#[derive(Debug, Default)]
pub struct MemoryFile {
    path: PathBuf,
    pub bytes: RwLock<Vec<u8>>,
    pub reads: AtomicU64,
    pub on_read: ReadHook,
    /// Offset and length of stretches written back early.
    pub written_early: Mutex<Vec<(u64, u64)>>,
}

impl File for MemoryFile {
    fn path(&self) -> &Path {
        &self.path
    }
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.on_read.call()?;
        let bytes = self.bytes.read();
        let start = bytes.len().min(offset as usize);
        let len = buf.len().min(bytes.len() - start);
        buf[..len].copy_from_slice(&bytes[start..start + len]);
        Ok(len)
    }
    fn write_at(&self, buf: &[u8], offset: u64) -> Result<()> {
        let mut bytes = self.bytes.write();
        let end = offset as usize + buf.len();
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[offset as usize..end].copy_from_slice(buf);
        Ok(())
    }
    fn sync_data(&self) -> Result<()> {
        Ok(())
    }
    fn len(&self) -> Result<u64> {
        Ok(self.bytes.read().len() as u64)
    }
    fn allocate(&self, len: u64) -> Result<()> {
        let mut bytes = self.bytes.write();
        if bytes.len() < len as usize {
            bytes.resize(len as usize, 0);
        }
        Ok(())
    }
    fn set_len(&self, len: u64) -> Result<()> {
        self.bytes.write().resize(len as usize, 0);
        Ok(())
    }
    fn advise(&self, offset: u64, len: u64, advice: Advice) {
        if advice == Advice::Written {
            self.written_early.lock().push((offset, len));
        }
    }
}

#[derive(Debug, Default)]
pub struct MemoryDisk {
    files: Mutex<HashMap<PathBuf, Arc<MemoryFile>>>,
    pub opens: AtomicU64,
}

impl MemoryDisk {
    pub fn file(&self, path: &Path) -> Arc<MemoryFile> {
        Arc::clone(&self.files.lock()[path])
    }
}

/// Error for operations that tables do not use: they need only open, remove and exists.
fn refused(what: &str) -> Error {
    Error::InvalidArgument(format!("{what} is not for the disk of table tests"))
}

impl Disk for MemoryDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn File>> {
        self.opens.fetch_add(1, Ordering::Relaxed);
        let mut files = self.files.lock();
        if mode == OpenMode::Create {
            let file = MemoryFile { path: path.to_path_buf(), ..MemoryFile::default() };
            files.insert(path.to_path_buf(), Arc::new(file));
        }
        match files.get(path) {
            Some(file) => Ok(Arc::clone(file) as Arc<dyn File>),
            None => Err(Error::io("open", path, std::io::Error::from(std::io::ErrorKind::NotFound))),
        }
    }
    fn rename(&self, _from: &Path, _to: &Path) -> Result<()> {
        Err(refused("a rename"))
    }
    fn remove(&self, path: &Path) -> Result<()> {
        self.files.lock().remove(path);
        Ok(())
    }
    fn link(&self, _: &Path, _: &Path) -> Result<()> {
        Err(refused("a link"))
    }
    fn remove_dir(&self, _: &Path) -> Result<()> {
        Err(refused("the removal of a directory"))
    }
    fn resolve(&self, path: &Path) -> Result<PathBuf> {
        Ok(path.to_path_buf())
    }
    fn exists(&self, path: &Path) -> Result<bool> {
        Ok(self.files.lock().contains_key(path))
    }
    fn list(&self, _dir: &Path) -> Result<Vec<String>> {
        Err(refused("the list of a directory"))
    }
    fn create_dir_all(&self, _dir: &Path) -> Result<()> {
        Ok(())
    }
    fn sync_dir(&self, _dir: &Path) -> Result<()> {
        Ok(())
    }
    fn lock(&self, _path: &Path) -> Result<Box<dyn DirectoryLock>> {
        Err(refused("a lock"))
    }
    fn lock_shared(&self, _path: &Path) -> Result<Box<dyn DirectoryLock>> {
        Err(refused("a lock"))
    }
    fn free_space(&self, _dir: &Path) -> Result<u64> {
        Ok(u64::MAX)
    }
    fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(SystemClock)
    }
    fn random(&self) -> Arc<dyn Random> {
        Arc::new(SystemRandom)
    }
}
