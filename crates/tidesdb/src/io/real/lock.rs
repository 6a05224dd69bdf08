//! The lock of a store's directory: a `flock` on its lock file, and one on the directory itself.
//!
//! A lock file can be removed, and another one made, while it is locked: the next opener would lock the new
//! one. The directory cannot be replaced so without its holder noticing ([`RealLock::confirm`]). Earlier
//! versions lock only the file, and so do file systems without locks on directories (NFS).

use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::regular;
use super::retry::retry;
use crate::error::{Error, Result};
use crate::io::DirectoryLock;
use crate::sync::Mutex;

/// Attempts to lock a file while others replace it.
const ATTEMPTS: usize = 10;

/// Locked as long as it exists.
#[derive(Debug)]
struct Flock(fs::File);

impl Drop for Flock {
    /// Unlocks instead of only closing. A process just forked by another thread holds the descriptor, and
    /// with it the lock, until it executes its program.
    fn drop(&mut self) {
        // SAFETY: the descriptor is open; no memory is passed. Closing it, which follows, unlocks should this fail.
        unsafe { libc::flock(self.0.as_raw_fd(), libc::LOCK_UN) };
    }
}

/// Holds the locks until it is dropped.
#[derive(Debug)]
pub(super) struct RealLock {
    path: PathBuf,
    /// `None`: a reader, and there was no file to lock.
    file: Mutex<Option<Flock>>,
    /// `None`: the file system locks no directories.
    directory: Option<Flock>,
    exclusive: bool,
}

impl RealLock {
    /// Locks the file `path` and its directory, for itself alone.
    pub(super) fn exclusive(path: &Path) -> Result<RealLock> {
        // First: whoever is refused here never has the file, which its holder may have to make again.
        let directory = lock_directory(path, libc::LOCK_EX)?;
        let file = Mutex::new(Some(lock_file(path)?));
        Ok(RealLock { path: path.to_path_buf(), file, directory, exclusive: true })
    }

    /// The same together with other readers; does not make a missing file.
    pub(super) fn shared(path: &Path) -> Result<RealLock> {
        let directory = lock_directory(path, libc::LOCK_SH)?;
        let file = match regular::open(path, fs::OpenOptions::new().read(true), 0) {
            Ok(file) => Some(flock(file, path, path, libc::LOCK_SH)?),
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        Ok(RealLock { path: path.to_path_buf(), file: Mutex::new(file), directory, exclusive: false })
    }

    fn lost(&self, path: &Path) -> Error {
        Error::ReadOnly(format!(
            "{} was replaced or removed while the store in {} was open: another process may have opened it",
            path.display(),
            directory_of(&self.path).display()
        ))
    }
}

impl DirectoryLock for RealLock {
    fn confirm(&self) -> Result<bool> {
        if !self.exclusive {
            return Ok(true);
        }
        let dir = directory_of(&self.path);
        if let Some(Flock(held)) = &self.directory {
            if !names(fs::metadata(dir), held, dir)? {
                return Err(self.lost(dir));
            }
        }
        let mut file = self.file.lock();
        let Some(Flock(held)) = &*file else { return Err(self.lost(&self.path)) };
        if names(fs::symlink_metadata(&self.path), held, &self.path)? {
            return Ok(true);
        }
        if self.directory.is_none() {
            return Err(self.lost(&self.path));
        }
        // The directory is locked: an earlier version alone may have come in, and has the new file then.
        *file = Some(lock_file(&self.path).map_err(|error| match error {
            Error::Busy(_) => self.lost(&self.path),
            other => other,
        })?);
        Ok(false)
    }
}

/// True if a path, by its metadata, is the open file.
fn names(found: io::Result<fs::Metadata>, held: &fs::File, path: &Path) -> Result<bool> {
    match found {
        Ok(found) => {
            let held = held.metadata().map_err(|e| Error::io("stat", path, e))?;
            Ok((found.dev(), found.ino()) == (held.dev(), held.ino()))
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(Error::io("stat", path, e)),
    }
}

fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Locks the file exclusively, and makes a missing one.
fn lock_file(path: &Path) -> Result<Flock> {
    for _ in 0..ATTEMPTS {
        let mut options = fs::OpenOptions::new();
        let file = regular::open(path, options.read(true).write(true).create(true).truncate(false), 0)?;
        let lock = flock(file, path, path, libc::LOCK_EX)?;
        // Its name may have gone to another file before it was locked.
        if names(fs::symlink_metadata(path), &lock.0, path)? {
            return Ok(lock);
        }
    }
    Err(Error::Busy(format!("{} is replaced again and again while it is being locked", path.display())))
}

/// Locks the directory of the file `path`; `None` if the file system cannot.
fn lock_directory(path: &Path, kind: libc::c_int) -> Result<Option<Flock>> {
    let dir = directory_of(path);
    let directory = match fs::File::open(dir) {
        Ok(directory) => directory,
        Err(e) if e.kind() == io::ErrorKind::NotFound && kind == libc::LOCK_SH => return Ok(None),
        Err(e) => return Err(Error::io("open", dir, e)),
    };
    match flock(directory, dir, path, kind) {
        Ok(lock) => Ok(Some(lock)),
        Err(Error::Io { source, .. }) if is_unsupported(&source) => Ok(None),
        Err(error) => Err(error),
    }
}

/// True if the file system locks no directories. NFS makes an exclusive `flock` a lock of a file open for
/// writing.
fn is_unsupported(error: &io::Error) -> bool {
    let unsupported = [libc::EBADF, libc::EINVAL, libc::EISDIR, libc::ENOLCK, libc::ENOSYS, libc::EOPNOTSUPP];
    error.raw_os_error().is_some_and(|code| unsupported.contains(&code))
}

/// Takes the `flock` on an open file, for the lock file `of`. `Error::Busy` names the process with the lock.
fn flock(file: fs::File, path: &Path, of: &Path, kind: libc::c_int) -> Result<Flock> {
    // SAFETY: the descriptor is open; no memory is passed.
    match retry(|| unsafe { libc::flock(file.as_raw_fd(), kind | libc::LOCK_NB) }) {
        Ok(()) => Ok(Flock(file)),
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
            let by = match lock_holder(&file) {
                Some(pid) if pid == std::process::id() => format!("this process ({pid})"),
                Some(pid) => format!("process {pid}"),
                None => "another process".into(),
            };
            let store = directory_of(of).display();
            Err(Error::Busy(format!(
                "the store in {store} is in use by {by}, which has {} locked",
                path.display()
            )))
        }
        Err(e) => Err(Error::io("flock", path, e)),
    }
}

/// The process with a `flock` on the file, according to `/proc/locks`; `None` if it is not listed.
fn lock_holder(file: &fs::File) -> Option<u32> {
    let meta = file.metadata().ok()?;
    let device = (libc::major(meta.dev()), libc::minor(meta.dev()));
    let locks = fs::read_to_string("/proc/locks").ok()?;
    locks.lines().find_map(|line| holder_of(line, device, meta.ino()))
}

/// The process of a line such as `1: FLOCK  ADVISORY  WRITE 4711 fe:00:1234 0 EOF`, if it is of this file.
fn holder_of(line: &str, device: (libc::c_uint, libc::c_uint), inode: u64) -> Option<u32> {
    let mut words = line.split_whitespace().skip(1);
    // The line of a waiter has `->` before the kind.
    if words.next()? != "FLOCK" {
        return None;
    }
    let pid = words.nth(2)?.parse().ok().filter(|pid| *pid > 0)?;
    let mut file = words.next()?.split(':');
    let mut hex = || libc::c_uint::from_str_radix(file.next()?, 16).ok();
    let found = (hex()?, hex()?);
    (found == device && file.next()?.parse() == Ok(inode)).then_some(pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_locks_name_their_process() {
        let line = "3: FLOCK  ADVISORY  WRITE 4711 fe:0a:1234 0 EOF";
        assert_eq!(holder_of(line, (0xfe, 10), 1234), Some(4711));
        assert_eq!(holder_of(line, (0xfe, 10), 1235), None);
        assert_eq!(holder_of(line, (0xfe, 0), 1234), None);
        assert_eq!(holder_of(&line.replace("FLOCK ", "-> FLOCK "), (0xfe, 10), 1234), None);
        assert_eq!(holder_of(&line.replace("4711", "0"), (0xfe, 10), 1234), None, "of another container");
        assert_eq!(holder_of("", (0xfe, 10), 1234), None);
    }

    /// A starting process has copies of all descriptors until it executes its program.
    #[test]
    fn a_lock_ends_though_a_starting_process_has_its_descriptor() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("LOCK");
        let file = fs::File::create(&path).unwrap();
        let _of_the_process = file.try_clone().unwrap();
        drop(flock(file, &path, &path, libc::LOCK_EX).unwrap());
        RealLock::exclusive(&path).unwrap();
    }

    #[test]
    fn a_removed_lock_file_lets_nobody_in_and_is_made_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("LOCK");
        let lock = RealLock::exclusive(&path).unwrap();
        assert!(lock.confirm().unwrap());
        for replace in [false, true] {
            fs::remove_file(&path).unwrap();
            if replace {
                fs::write(&path, "").unwrap();
            }
            let busy = [RealLock::exclusive(&path), RealLock::shared(&path)];
            for busy in busy {
                let busy = busy.unwrap_err().to_string();
                assert!(busy.contains(&format!("in use by this process ({})", std::process::id())), "{busy}");
            }
            assert!(!lock.confirm().unwrap(), "the file is another one");
            assert!(lock.confirm().unwrap());
        }
        drop(lock);
        RealLock::exclusive(&path).unwrap();
    }

    #[test]
    fn a_lock_file_that_an_earlier_version_has_is_lost() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("LOCK");
        let lock = RealLock::exclusive(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let theirs = lock_file(&path).unwrap();
        for _ in 0..2 {
            assert!(matches!(lock.confirm(), Err(Error::ReadOnly(_))));
        }
        drop(theirs);
    }

    #[test]
    fn another_directory_in_the_place_of_the_locked_one_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let (store, moved) = (dir.path().join("store"), dir.path().join("moved"));
        fs::create_dir(&store).unwrap();
        let lock = RealLock::exclusive(&store.join("LOCK")).unwrap();
        fs::rename(&store, &moved).unwrap();
        assert!(matches!(lock.confirm(), Err(Error::ReadOnly(_))));
        fs::create_dir(&store).unwrap();
        fs::hard_link(moved.join("LOCK"), store.join("LOCK")).unwrap();
        let lost = lock.confirm().unwrap_err().to_string();
        assert!(lost.contains(&format!("{} was replaced or removed", store.display())), "{lost}");
        fs::remove_dir_all(&store).unwrap();
        fs::rename(&moved, &store).unwrap();
        assert!(lock.confirm().unwrap());
    }

    /// As on NFS.
    #[test]
    fn without_a_lock_on_the_directory_a_replaced_file_is_lost() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("LOCK");
        let lock = RealLock { directory: None, ..RealLock::exclusive(&path).unwrap() };
        assert!(lock.confirm().unwrap());
        fs::remove_file(&path).unwrap();
        assert!(matches!(lock.confirm(), Err(Error::ReadOnly(_))));
        assert!(!path.exists());
    }
}
