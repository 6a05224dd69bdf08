//! The one way to the disk. Every file operation of a store goes through [`Disk`] and [`File`]. Crash tests therefore
//! run the real engine on a faulty disk from a seed. Before a store is open, `options/machine.rs` alone reads the kernel's
//! files. Time and chance are in [`crate::host`]; a disk of the tests brings
//! its own. Without knowledge of formats.

mod aligned;
pub mod faulty;
pub mod overlay;
mod pass_on;
pub mod real;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::host::{Clock, Random};

pub use self::aligned::AlignedBuffer;
pub use self::faulty::FaultyDisk;
pub use self::overlay::OverlayDisk;
pub use self::real::RealDisk;

/// The mode of opening a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpenMode {
    /// An existing file, for reading.
    Read,
    /// An existing file, for reading past the page cache: in whole sectors, see [`File::alignment`]. `EINVAL` where the file
    /// system or the device cannot do it. Bytes that the page cache has not written to the disk yet are written first.
    ReadDirect,
    /// An existing file, for reading and writing.
    ReadWrite,
    /// A new file, for reading and writing; an existing one is emptied.
    Create,
}

/// The plan for a range of a file: of its reader, or of its writer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Advice {
    /// Read in order, soon.
    Sequential,
    /// Read in no order.
    Random,
    /// Will be read soon.
    WillNeed,
    /// Not needed again.
    DontNeed,
    /// Written; the write-back to the disk begins now, so the final sync has little left to write.
    Written,
}

/// An open file. Positioned reads and writes; safe to share between threads.
pub trait File: Send + Sync + fmt::Debug {
    /// Path of its opening, for messages.
    fn path(&self) -> &Path;
    /// Bytes of a sector, if reads must be of whole ones into memory at a multiple of it (`AlignedBuffer` does that); only
    /// the file's end may cut a read short of one. 1: any read will do.
    fn alignment(&self) -> usize {
        1
    }
    /// Reads up to `buf.len()` bytes at `offset`; fewer only at the end of the file.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize>;
    /// Writes all of `buf` at `offset`.
    fn write_at(&self, buf: &[u8], offset: u64) -> Result<()>;
    /// Makes written bytes and the length durable. After an error, nothing is known of bytes written since
    /// the last success.
    fn sync_data(&self) -> Result<()>;
    /// Length in bytes.
    fn len(&self) -> Result<u64>;
    /// True if the file has no bytes.
    fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Reserves blocks for the first `len` bytes and makes the file at least as long, zero-filled.
    fn allocate(&self, len: u64) -> Result<()>;
    /// Makes the first `len` bytes zeros, or leaves them where that means to write them; never fails. A later write of a
    /// part of a page finds zeros in place of bytes that the kernel would have to read. Blocks may be gone afterwards, until
    /// [`File::allocate`].
    fn clear(&self, len: u64) {
        let _ = len;
    }
    /// Gives the whole blocks within `len` bytes at `offset` back to the file system. The bytes read as zeros from then on, or
    /// as before after a power cut; the length stays. False: not possible here, and nothing has changed.
    fn punch_hole(&self, offset: u64, len: u64) -> Result<bool> {
        let _ = (offset, len);
        Ok(false)
    }
    /// Number of names of the file: links of others have its blocks in common.
    fn links(&self) -> Result<u64> {
        Ok(1)
    }
    /// Bytes that it takes on the disk, without holes.
    fn allocated(&self) -> Result<u64> {
        self.len()
    }
    /// Sets the length.
    fn set_len(&self, len: u64) -> Result<()>;
    /// Advises the page cache of `len` bytes, 0: up to the end; never fails.
    fn advise(&self, offset: u64, len: u64, advice: Advice);

    /// Reads exactly `buf.len()` bytes at `offset`; a shorter file is damage.
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<()> {
        let mut done = 0;
        while done < buf.len() {
            let n = self.read_at(&mut buf[done..], offset + done as u64)?;
            if n == 0 {
                return Err(ends_early(self.path(), offset + done as u64, buf.len() - done));
            }
            done += n;
        }
        Ok(())
    }
}

/// The error for a file that ends at `end`, so many bytes before what was to be read.
fn ends_early(path: &Path, end: u64, missing: usize) -> Error {
    Error::corruption(path, end, format!("the file ends {missing} bytes early"))
}

/// Reads the whole of a small file.
pub(crate) fn read_whole(disk: &dyn Disk, path: &Path) -> Result<Vec<u8>> {
    read_at_most(disk, path, u64::MAX)
}

/// As [`read_whole`]; a longer file is damage.
pub(crate) fn read_at_most(disk: &dyn Disk, path: &Path, most: u64) -> Result<Vec<u8>> {
    let file = disk.open(path, OpenMode::Read)?;
    let len = file.len()?;
    if len > most {
        return Err(Error::corruption(path, 0, format!("{len} bytes, where at most {most} are expected")));
    }
    let mut bytes = vec![0; len as usize];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

/// A held lock on a store's directory; dropping it releases the lock.
pub trait DirectoryLock: Send + Sync + fmt::Debug {
    /// True if the lock still keeps others out; checked before an edit of the manifest, and once a second.
    /// False: its file was gone, and is made and locked again; nobody came in meanwhile.
    ///
    /// # Errors
    /// `ReadOnly`: somebody may have come in, so nothing more may be written. I/O: unknown for now.
    fn confirm(&self) -> Result<bool> {
        Ok(true)
    }
}

/// A disk.
pub trait Disk: Send + Sync + fmt::Debug {
    /// Opens a file. The entry of a new file is durable only after [`Disk::sync_dir`].
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn File>>;
    /// Replaces `to` by `from`, atomically; durable only after [`Disk::sync_dir`].
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;
    /// Unlinks a file; durable only after [`Disk::sync_dir`].
    fn remove(&self, path: &Path) -> Result<()>;
    /// Gives the file `from` the further name `to`, not yet in use; durable only after [`Disk::sync_dir`].
    /// Both on one file system.
    fn link(&self, from: &Path, to: &Path) -> Result<()>;
    /// Removes an empty directory; durable only after [`Disk::sync_dir`] of its parent.
    fn remove_dir(&self, dir: &Path) -> Result<()>;
    /// The path without symbolic links, `.` and `..`, as far as it exists.
    fn resolve(&self, path: &Path) -> Result<PathBuf>;
    /// True if the path exists.
    fn exists(&self, path: &Path) -> Result<bool>;
    /// Names of the entries of a directory, sorted.
    fn list(&self, dir: &Path) -> Result<Vec<String>>;
    /// Makes a directory and its parents, durably.
    fn create_dir_all(&self, dir: &Path) -> Result<()>;
    /// Makes the entries of a directory durable.
    fn sync_dir(&self, dir: &Path) -> Result<()>;
    /// Takes the lock file `path` and its directory exclusively, and makes a missing file. `Error::Busy` when
    /// another holder has it, with the process if known.
    fn lock(&self, path: &Path) -> Result<Box<dyn DirectoryLock>>;
    /// Takes the lock file `path` together with other readers, and writes nothing. `Error::Busy` when a
    /// writer has it. A missing file is no error: no store was opened in the directory since it was made.
    fn lock_shared(&self, path: &Path) -> Result<Box<dyn DirectoryLock>>;
    /// Writable bytes in the file system of `dir`.
    fn free_space(&self, dir: &Path) -> Result<u64>;
    /// The clock that belongs to the disk: the machine's, or that of a disk of the tests.
    fn clock(&self) -> Arc<dyn Clock>;
    /// The chance that belongs to it.
    fn random(&self) -> Arc<dyn Random>;
}
