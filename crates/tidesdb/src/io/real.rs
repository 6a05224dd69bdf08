//! The real disk: Linux files with `pread`, `pwrite`, `fdatasync`, `fallocate`. Interrupted system
//! calls are repeated here; every other failure is reported with the operation and the path.
//!
//! On file systems without `fallocate`, zeros are written instead, so a later `pwrite` into the range cannot
//! fail for want of space. (Copy-on-write file systems do not promise it.)

#![allow(clippy::disallowed_methods)] // Here they are called, and nowhere else.

mod direct;
mod lock;
mod regular;
mod retry;

use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use self::lock::RealLock;
use self::retry::retry;
use super::{Advice, DirectoryLock, Disk, File, OpenMode};
use crate::error::{Error, Result};
use crate::host::{Clock, Random, SystemClock, SystemRandom};

/// The machine's disk.
#[derive(Debug, Default, Clone, Copy)]
pub struct RealDisk;

impl RealDisk {
    /// A shared handle.
    pub fn shared() -> Arc<dyn Disk> {
        Arc::new(RealDisk)
    }
}

/// Rights on a new directory: its owner's alone, as for a server's data. The files of the log and of backups
/// have rows, whatever the file mask lets others read.
const DIRECTORY_MODE: u32 = 0o700;

#[derive(Debug)]
struct RealFile {
    file: fs::File,
    path: PathBuf,
    /// See [`File::alignment`].
    alignment: usize,
}

impl RealFile {
    fn fail(&self, op: &'static str, source: io::Error) -> Error {
        Error::io(op, &self.path, source)
    }
}

impl File for RealFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn alignment(&self) -> usize {
        self.alignment
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let mut done = 0;
        while done < buf.len() {
            match self.file.read_at(&mut buf[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(n) => {
                    done += n;
                    if done % self.alignment != 0 {
                        // The end of the file, or a place from where a read of whole sectors cannot go on.
                        break;
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(self.fail("read", e)),
            }
        }
        Ok(done)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> Result<()> {
        self.file.write_all_at(buf, offset).map_err(|e| self.fail("write", e))
    }

    fn sync_data(&self) -> Result<()> {
        // Not repeated when it fails: the kernel reports a failed writeback once and then calls the
        // pages clean (`docs/protocols.md` 1.3).
        self.file.sync_data().map_err(|e| self.fail("fdatasync", e))
    }

    fn len(&self) -> Result<u64> {
        self.file.metadata().map(|m| m.len()).map_err(|e| self.fail("stat", e))
    }

    fn clear(&self, len: u64) {
        if let Ok(size) = libc::off_t::try_from(len) {
            // SAFETY: the descriptor is open as long as `self`; no memory is passed.
            let _ = retry(|| unsafe {
                libc::fallocate(self.file.as_raw_fd(), libc::FALLOC_FL_ZERO_RANGE, 0, size)
            });
        }
    }

    fn allocate(&self, len: u64) -> Result<()> {
        let fd = self.file.as_raw_fd();
        let Ok(size) = libc::off_t::try_from(len) else {
            return Err(Error::InvalidArgument(format!("a file of {len} bytes")));
        };
        if size == 0 {
            return Ok(());
        }
        // SAFETY: `fd` is open as long as `self`; no memory is passed.
        match retry(|| unsafe { libc::fallocate(fd, 0, 0, size) }) {
            Ok(()) => Ok(()),
            Err(e) if matches!(e.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOSYS)) => {
                let zeros = [0u8; 64 << 10];
                let mut at = self.len()?;
                while at < len {
                    let n = zeros.len().min(usize::try_from(len - at).unwrap_or(usize::MAX));
                    self.write_at(&zeros[..n], at)?;
                    at += n as u64;
                }
                Ok(())
            }
            Err(e) => Err(self.fail("fallocate", e)),
        }
    }

    fn punch_hole(&self, offset: u64, len: u64) -> Result<bool> {
        let (Ok(at), Ok(size)) = (libc::off_t::try_from(offset), libc::off_t::try_from(len)) else {
            return Err(Error::InvalidArgument(format!("a hole of {len} bytes at {offset}")));
        };
        let how = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        // SAFETY: the descriptor is open as long as `self`; no memory is passed.
        match retry(|| unsafe { libc::fallocate(self.file.as_raw_fd(), how, at, size) }) {
            Ok(()) => Ok(true),
            Err(e)
                if matches!(
                    e.raw_os_error(),
                    Some(libc::EOPNOTSUPP | libc::ENOSYS | libc::EINVAL | libc::ENODEV | libc::EPERM)
                ) =>
            {
                Ok(false)
            }
            Err(e) => Err(self.fail("fallocate", e)),
        }
    }

    fn links(&self) -> Result<u64> {
        self.file.metadata().map(|m| m.nlink()).map_err(|e| self.fail("stat", e))
    }

    fn allocated(&self) -> Result<u64> {
        self.file.metadata().map(|m| m.blocks() * 512).map_err(|e| self.fail("stat", e))
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.file.set_len(len).map_err(|e| self.fail("truncate", e))
    }

    fn advise(&self, offset: u64, len: u64, advice: Advice) {
        let (Ok(offset), Ok(len)) = (libc::off_t::try_from(offset), libc::off_t::try_from(len)) else {
            return;
        };
        let advice = match advice {
            Advice::Sequential => libc::POSIX_FADV_SEQUENTIAL,
            Advice::Random => libc::POSIX_FADV_RANDOM,
            Advice::WillNeed => libc::POSIX_FADV_WILLNEED,
            Advice::DontNeed => libc::POSIX_FADV_DONTNEED,
            Advice::Written => {
                // Without waiting it takes no error away from the sync that follows.
                // SAFETY: the descriptor is open as long as `self`; no memory is passed. It may fail.
                unsafe {
                    libc::sync_file_range(self.file.as_raw_fd(), offset, len, libc::SYNC_FILE_RANGE_WRITE)
                };
                return;
            }
        };
        // SAFETY: the descriptor is open as long as `self`; no memory is passed. Advice may fail.
        unsafe { libc::posix_fadvise(self.file.as_raw_fd(), offset, len, advice) };
    }
}

fn sync_directory(dir: &Path) -> Result<()> {
    let file = fs::File::open(dir).map_err(|e| Error::io("open", dir, e))?;
    file.sync_all().map_err(|e| Error::io("fsync", dir, e))
}

impl Disk for RealDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn File>> {
        let mut options = fs::OpenOptions::new();
        options.read(true);
        match mode {
            OpenMode::Read | OpenMode::ReadDirect => &mut options,
            OpenMode::ReadWrite => options.write(true),
            OpenMode::Create => options.write(true).create(true).truncate(true),
        };
        let direct = mode == OpenMode::ReadDirect;
        let file = regular::open(path, &mut options, if direct { libc::O_DIRECT } else { 0 })?;
        let alignment =
            if direct { direct::alignment(&file).map_err(|e| Error::io("open", path, e))? } else { 1 };
        Ok(Arc::new(RealFile { file, path: path.to_path_buf(), alignment }))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        fs::rename(from, to).map_err(|e| Error::io("rename", from, e))
    }

    fn remove(&self, path: &Path) -> Result<()> {
        fs::remove_file(path).map_err(|e| Error::io("unlink", path, e))
    }

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        fs::hard_link(from, to).map_err(|e| Error::io("link", to, e))
    }

    fn remove_dir(&self, dir: &Path) -> Result<()> {
        fs::remove_dir(dir).map_err(|e| Error::io("rmdir", dir, e))
    }

    fn resolve(&self, path: &Path) -> Result<PathBuf> {
        let fail = |e| Error::io("realpath", path, e);
        let absolute = std::path::absolute(path).map_err(fail)?;
        let mut missing = Vec::new();
        let mut at = absolute.as_path();
        loop {
            match fs::canonicalize(at) {
                Ok(mut real) => {
                    real.extend(missing.into_iter().rev());
                    return Ok(real);
                }
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(fail(e)),
            }
            let (Some(name), Some(parent)) = (at.file_name(), at.parent()) else {
                return Err(fail(io::ErrorKind::NotFound.into()));
            };
            missing.push(name);
            at = parent;
        }
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        // A link that leads nowhere has the name all the same.
        match fs::symlink_metadata(path) {
            Ok(_) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(Error::io("stat", path, e)),
        }
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(dir).map_err(|e| Error::io("list", dir, e))? {
            let entry = entry.map_err(|e| Error::io("list", dir, e))?;
            // A name that is not UTF-8 is none of ours.
            if let Ok(name) = entry.file_name().into_string() {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        let mut missing = Vec::new();
        let mut at = dir;
        while !at.as_os_str().is_empty() && !self.exists(at)? {
            missing.push(at);
            match at.parent() {
                Some(parent) => at = parent,
                None => break,
            }
        }
        for new in missing.into_iter().rev() {
            match fs::DirBuilder::new().mode(DIRECTORY_MODE).create(new) {
                Ok(()) => {}
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(Error::io("mkdir", new, e)),
            }
            match new.parent() {
                Some(parent) if !parent.as_os_str().is_empty() => sync_directory(parent)?,
                _ => sync_directory(Path::new("."))?,
            }
        }
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        sync_directory(dir)
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn DirectoryLock>> {
        Ok(Box::new(RealLock::exclusive(path)?))
    }

    fn lock_shared(&self, path: &Path) -> Result<Box<dyn DirectoryLock>> {
        Ok(Box::new(RealLock::shared(path)?))
    }

    fn free_space(&self, dir: &Path) -> Result<u64> {
        let name = std::ffi::CString::new(dir.as_os_str().as_bytes())
            .map_err(|_| Error::InvalidArgument("a path with a zero byte".into()))?;
        let mut stat = std::mem::MaybeUninit::<libc::statvfs>::zeroed();
        // SAFETY: `name` ends with a zero byte and `stat` is a writable statvfs.
        retry(|| unsafe { libc::statvfs(name.as_ptr(), stat.as_mut_ptr()) })
            .map_err(|e| Error::io("statvfs", dir, e))?;
        // SAFETY: all zeros is a valid statvfs, and the call filled it.
        let stat = unsafe { stat.assume_init() };
        #[allow(clippy::unnecessary_cast)] // other targets have narrower fields
        Ok((stat.f_bavail as u64).saturating_mul(stat.f_frsize as u64))
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(SystemClock)
    }

    fn random(&self) -> Arc<dyn Random> {
        Arc::new(SystemRandom)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_hole_reads_as_zeros_and_its_blocks_are_free() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let file = RealDisk.open(&path, OpenMode::Create).unwrap();
        file.write_at(&[7; 100_000], 0).unwrap();
        file.sync_data().unwrap();
        let blocks = || fs::metadata(&path).unwrap().blocks() * 512;
        let before = blocks();
        let is_possible = file.punch_hole(8192, 40_960).unwrap();
        file.sync_data().unwrap();
        let mut bytes = vec![0; 100_000];
        file.read_exact_at(&mut bytes, 0).unwrap();
        let zeros = if is_possible { 40_960 } else { 0 };
        assert!(bytes[8192..8192 + zeros].iter().all(|byte| *byte == 0));
        assert!(bytes[..8192].iter().chain(&bytes[8192 + zeros..]).all(|byte| *byte == 7));
        assert_eq!(before - blocks(), zeros as u64);
        assert_eq!(file.links().unwrap(), 1);
        RealDisk.link(&path, &dir.path().join("b")).unwrap();
        assert_eq!(file.links().unwrap(), 2);
    }

    #[test]
    fn files_are_written_read_allocated_and_cut() {
        let dir = tempfile::tempdir().unwrap();
        let disk = RealDisk;
        let path = dir.path().join("a");
        let file = disk.open(&path, OpenMode::Create).unwrap();
        file.allocate(100_000).unwrap();
        assert_eq!(file.len().unwrap(), 100_000);
        file.write_at(b"hello", 70_000).unwrap();
        file.sync_data().unwrap();
        let mut buf = [0; 10];
        assert_eq!(file.read_at(&mut buf, 69_998).unwrap(), 10);
        assert_eq!(&buf, b"\0\0hello\0\0\0");
        file.clear(80_000);
        assert_eq!(file.len().unwrap(), 100_000);
        assert_eq!(file.read_at(&mut buf, 69_998).unwrap(), 10);
        assert!([b"\0\0hello\0\0\0", &[0; 10]].contains(&&buf), "some file systems cannot: {buf:?}");
        file.set_len(70_003).unwrap();
        assert_eq!(file.read_at(&mut buf, 69_998).unwrap(), 5);
        assert!(matches!(file.read_exact_at(&mut buf, 69_998), Err(Error::Corruption { .. })));
        file.advise(0, 4096, Advice::Written);
        file.advise(0, 4096, Advice::DontNeed);

        disk.rename(&path, &dir.path().join("b")).unwrap();
        disk.sync_dir(dir.path()).unwrap();
        assert_eq!(disk.list(dir.path()).unwrap(), ["b"]);
        assert!(matches!(disk.open(&path, OpenMode::Read), Err(Error::Io { op: "open", .. })));
        disk.link(&dir.path().join("b"), &dir.path().join("c")).unwrap();
        assert!(disk.link(&dir.path().join("b"), &dir.path().join("c")).is_err(), "the name is taken");
        disk.remove(&dir.path().join("b")).unwrap();
        let left = disk.open(&dir.path().join("c"), OpenMode::Read).unwrap();
        assert_eq!(left.len().unwrap(), 70_003);
        assert!(!disk.exists(&dir.path().join("b")).unwrap());
    }

    #[test]
    fn what_was_written_is_read_past_the_page_cache_or_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let bytes: Vec<u8> = (0..100_001u32).map(|n| (n / 3) as u8).collect();
        RealDisk.open(&path, OpenMode::Create).unwrap().write_at(&bytes, 0).unwrap();
        let file = match RealDisk.open(&path, OpenMode::ReadDirect) {
            Ok(file) => file,
            Err(Error::Io { source, .. }) => {
                assert_eq!(source.raw_os_error(), Some(libc::EINVAL));
                return;
            }
            Err(other) => panic!("{other}"),
        };
        assert!(file.alignment().is_power_of_two() && file.alignment() >= 1);
        let mut buffer = crate::io::AlignedBuffer::default();
        for (offset, len) in [(0, 1), (0, 100_001), (4_095, 2), (99_000, 1_001), (70_000, 4_096)] {
            assert_eq!(buffer.read(&*file, offset as u64, len).unwrap(), &bytes[offset..offset + len]);
        }
        assert!(matches!(buffer.read(&*file, 100_000, 2), Err(Error::Corruption { .. })));
    }

    #[test]
    fn directories_locks_and_space() {
        let dir = tempfile::tempdir().unwrap();
        let disk = RealDisk;
        let deep = dir.path().join("x/y/z");
        disk.create_dir_all(&deep).unwrap();
        disk.create_dir_all(&deep).unwrap();
        assert!(disk.exists(&deep).unwrap());
        for made in [&deep, deep.parent().unwrap()] {
            assert_eq!(fs::metadata(made).unwrap().permissions().mode() & 0o777, 0o700);
        }
        let lock = disk.lock(&deep.join("LOCK")).unwrap();
        assert!(matches!(disk.lock(&deep.join("LOCK")), Err(Error::Busy(_))));
        drop(lock);
        disk.lock(&deep.join("LOCK")).unwrap();
        let readers =
            [disk.lock_shared(&deep.join("LOCK")).unwrap(), disk.lock_shared(&deep.join("LOCK")).unwrap()];
        let busy = disk.lock(&deep.join("LOCK")).unwrap_err().to_string();
        assert!(busy.contains(&format!("this process ({})", std::process::id())), "{busy}");
        drop(readers);
        let _writer = disk.lock(&deep.join("LOCK")).unwrap();
        assert!(matches!(disk.lock_shared(&deep.join("LOCK")), Err(Error::Busy(_))));
        disk.lock_shared(&dir.path().join("NONE")).unwrap();
        assert!(!disk.exists(&dir.path().join("NONE")).unwrap());
        assert!(disk.free_space(&deep).unwrap() > 0);
    }
}
