//! A disk over another: reads come from the disk below, changes stay in memory. A store opened through an
//! overlay recovers as any store does, and the directory below keeps every byte, name and time.
//!
//! Invariants:
//! - The disk below gets only calls without changes. It gives a shared lock, never an exclusive one.
//! - The overlay alone answers for a path it has changed; the disk below for any other.
//! - Of a changed file of the disk below, memory holds the changed pages. A new file takes memory only for
//!   its non-zero pages.
//!
//! Nothing is durable here: a sync has nothing to do.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Advice, DirectoryLock, Disk, File, OpenMode};
use crate::error::{Error, Result};
use crate::host::HashMap;
use crate::sync::{Mutex, RwLock};

/// Bytes of a page. Changes of a file are kept page by page.
const PAGE: u64 = 4096;

/// See the module.
#[derive(Debug)]
pub struct OverlayDisk {
    below: Arc<dyn Disk>,
    changed: Mutex<Changed>,
}

/// The paths changed in the overlay.
#[derive(Debug, Default)]
struct Changed {
    /// `None`: the file is removed.
    files: HashMap<PathBuf, Option<Arc<OverlayFile>>>,
    directories: BTreeSet<PathBuf>,
}

impl OverlayDisk {
    /// An overlay without changes.
    pub fn new(below: Arc<dyn Disk>) -> OverlayDisk {
        OverlayDisk { below, changed: Mutex::default() }
    }

    /// Removes `path` in its present state; without a file, the error of an open.
    fn take(&self, changed: &mut Changed, path: &Path) -> Result<Arc<OverlayFile>> {
        match changed.files.insert(path.to_path_buf(), None) {
            Some(Some(file)) => Ok(file),
            Some(None) => Err(missing(path)),
            None => match self.copy_up(path) {
                Ok(file) => Ok(file),
                Err(error) => {
                    changed.files.remove(path);
                    Err(error)
                }
            },
        }
    }

    /// A file of the disk below, made changeable here.
    fn copy_up(&self, path: &Path) -> Result<Arc<OverlayFile>> {
        let below = self.below.open(path, OpenMode::Read)?;
        let len = below.len()?;
        Ok(Arc::new(OverlayFile {
            path: path.to_path_buf(),
            content: RwLock::new(Content { below: Some(below), below_len: len, len, pages: BTreeMap::new() }),
        }))
    }
}

fn missing(path: &Path) -> Error {
    Error::io("open", path, std::io::ErrorKind::NotFound.into())
}

impl Disk for OverlayDisk {
    crate::pass_on!(to below: resolve lock_shared clock random);

    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn File>> {
        let mut changed = self.changed.lock();
        if mode == OpenMode::Create {
            let file = Arc::new(OverlayFile { path: path.to_path_buf(), content: RwLock::default() });
            changed.files.insert(path.to_path_buf(), Some(Arc::clone(&file)));
            return Ok(file);
        }
        match changed.files.get(path) {
            Some(Some(file)) => Ok(Arc::clone(file) as Arc<dyn File>),
            Some(None) => Err(missing(path)),
            None if matches!(mode, OpenMode::Read | OpenMode::ReadDirect) => self.below.open(path, mode),
            None => {
                let file = self.copy_up(path)?;
                changed.files.insert(path.to_path_buf(), Some(Arc::clone(&file)));
                Ok(file)
            }
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let mut changed = self.changed.lock();
        let file = self.take(&mut changed, from)?;
        changed.files.insert(to.to_path_buf(), Some(file));
        Ok(())
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.take(&mut self.changed.lock(), path).map(|_| ())
    }

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        if self.exists(to)? {
            return Err(Error::io("link", to, std::io::ErrorKind::AlreadyExists.into()));
        }
        let mut changed = self.changed.lock();
        let file = self.take(&mut changed, from)?;
        changed.files.insert(from.to_path_buf(), Some(Arc::clone(&file)));
        changed.files.insert(to.to_path_buf(), Some(file));
        Ok(())
    }

    fn remove_dir(&self, dir: &Path) -> Result<()> {
        match self.changed.lock().directories.remove(dir) {
            true => Ok(()),
            false => Err(Error::ReadOnly(format!("{} is below an overlay and stays", dir.display()))),
        }
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        {
            let changed = self.changed.lock();
            if let Some(file) = changed.files.get(path) {
                return Ok(file.is_some());
            }
            if changed.directories.contains(path) {
                return Ok(true);
            }
        }
        self.below.exists(path)
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        let changed = self.changed.lock();
        let mut names = BTreeSet::new();
        if !changed.directories.contains(dir) || self.below.exists(dir)? {
            names.extend(self.below.list(dir)?);
        }
        let name_in = |path: &Path| match path.parent() == Some(dir) {
            true => path.file_name().and_then(|name| name.to_str()).map(str::to_owned),
            false => None,
        };
        names.extend(changed.directories.iter().filter_map(|path| name_in(path)));
        for (path, file) in &changed.files {
            let Some(name) = name_in(path) else { continue };
            match file {
                Some(_) => names.insert(name),
                None => names.remove(&name),
            };
        }
        Ok(names.into_iter().collect())
    }

    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        let mut changed = self.changed.lock();
        for dir in dir.ancestors().filter(|dir| !dir.as_os_str().is_empty()) {
            if self.below.exists(dir)? || !changed.directories.insert(dir.to_path_buf()) {
                break;
            }
        }
        Ok(())
    }

    fn sync_dir(&self, _dir: &Path) -> Result<()> {
        Ok(())
    }

    /// A shared lock of the disk below; it keeps writers out.
    fn lock(&self, path: &Path) -> Result<Box<dyn DirectoryLock>> {
        self.lock_shared(path)
    }

    fn free_space(&self, _dir: &Path) -> Result<u64> {
        Ok(u64::MAX)
    }
}

/// A file with changes in memory.
#[derive(Debug)]
struct OverlayFile {
    path: PathBuf,
    content: RwLock<Content>,
}

#[derive(Debug, Default)]
struct Content {
    below: Option<Arc<dyn File>>,
    /// Bytes of the file below still valid: later ones are zeros, or in `pages`.
    below_len: u64,
    len: u64,
    /// Whole pages by number.
    pages: BTreeMap<u64, Box<[u8]>>,
}

impl Content {
    /// Fills `buf` with the bytes at `offset`, as the file below has them.
    fn read_below(&self, buf: &mut [u8], offset: u64) -> Result<()> {
        let known = self.below_len.saturating_sub(offset).min(buf.len() as u64) as usize;
        let (known, zeros) = buf.split_at_mut(known);
        zeros.fill(0);
        match &self.below {
            Some(below) if !known.is_empty() => below.read_exact_at(known, offset),
            _ => Ok(()),
        }
    }

    /// The parts of `offset..offset + len` by page: number of the page, place in it, length.
    fn parts(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize, usize)> {
        let mut done = 0;
        std::iter::from_fn(move || {
            let (at, left) = (offset + done as u64, len - done);
            let within = (at % PAGE) as usize;
            let part = left.min(PAGE as usize - within);
            done += part;
            (part > 0).then_some((at / PAGE, within, part))
        })
    }
}

impl File for OverlayFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let content = self.content.read();
        let len = content.len.saturating_sub(offset).min(buf.len() as u64) as usize;
        let mut rest = &mut buf[..len];
        for (number, within, part) in Content::parts(offset, len) {
            let (into, after) = rest.split_at_mut(part);
            match content.pages.get(&number) {
                Some(page) => into.copy_from_slice(&page[within..within + part]),
                None => content.read_below(into, number * PAGE + within as u64)?,
            }
            rest = after;
        }
        Ok(len)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> Result<()> {
        let mut content = self.content.write();
        let mut rest = buf;
        for (number, within, part) in Content::parts(offset, buf.len()) {
            let (from, after) = rest.split_at(part);
            if !content.pages.contains_key(&number) {
                let mut page = vec![0; PAGE as usize].into_boxed_slice();
                content.read_below(&mut page, number * PAGE)?;
                content.pages.insert(number, page);
            }
            if let Some(page) = content.pages.get_mut(&number) {
                page[within..within + part].copy_from_slice(from);
            }
            rest = after;
        }
        content.len = content.len.max(offset + buf.len() as u64);
        Ok(())
    }

    fn sync_data(&self) -> Result<()> {
        Ok(())
    }

    fn len(&self) -> Result<u64> {
        Ok(self.content.read().len)
    }

    fn allocate(&self, len: u64) -> Result<()> {
        let mut content = self.content.write();
        content.len = content.len.max(len);
        Ok(())
    }

    fn set_len(&self, len: u64) -> Result<()> {
        let mut content = self.content.write();
        if len < content.len {
            content.below_len = content.below_len.min(len);
            // Bytes that are cut off read as zeros where the file grows again.
            content.pages.split_off(&len.div_ceil(PAGE));
            if let Some(page) = content.pages.get_mut(&(len / PAGE)) {
                page[(len % PAGE) as usize..].fill(0);
            }
        }
        content.len = len;
        Ok(())
    }

    fn advise(&self, _offset: u64, _len: u64, _advice: Advice) {}
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;
    use crate::io::FaultyDisk;

    fn whole(disk: &dyn Disk, path: &Path) -> Vec<u8> {
        let file = disk.open(path, OpenMode::Read).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_exact_at(&mut bytes, 0).unwrap();
        bytes
    }

    /// The same random calls to an overlay and to a disk with equal files; the disk below stays unchanged.
    #[test]
    fn behaves_as_a_disk_and_leaves_the_one_below_alone() {
        for seed in 0..60 {
            let mut rng = StdRng::seed_from_u64(seed);
            let (below, right) = (FaultyDisk::new(seed), FaultyDisk::new(seed));
            let path = |n: u32| PathBuf::from(format!("/d/f{n}"));
            for disk in [&below, &right] {
                disk.create_dir_all(Path::new("/d")).unwrap();
            }
            for n in 0..3 {
                let bytes: Vec<u8> = (0..rng.gen_range(0..20_000)).map(|_| rng.gen()).collect();
                for disk in [&below, &right] {
                    disk.open(&path(n), OpenMode::Create).unwrap().write_at(&bytes, 0).unwrap();
                }
            }
            let before: Vec<Vec<u8>> = (0..3).map(|n| whole(&below, &path(n))).collect();
            let overlay = OverlayDisk::new(below.shared());
            for _ in 0..80 {
                let (at, to) = (path(rng.gen_range(0..5)), path(rng.gen_range(0..5)));
                let mode = if rng.gen_bool(0.1) { OpenMode::Create } else { OpenMode::ReadWrite };
                let (what, offset) = (rng.gen_range(0..10), rng.gen_range(0..30_000));
                let bytes: Vec<u8> = (0..rng.gen_range(1..9000)).map(|_| rng.gen()).collect();
                let run = |disk: &dyn Disk| -> Option<()> {
                    match what {
                        0 => disk.remove(&at).ok()?,
                        1 if at != to => disk.rename(&at, &to).ok()?,
                        2 => disk.open(&at, mode).ok()?.set_len(offset).ok()?,
                        3 => disk.open(&at, mode).ok()?.allocate(offset).ok()?,
                        _ => disk.open(&at, mode).ok()?.write_at(&bytes, offset).ok()?,
                    }
                    Some(())
                };
                assert_eq!(run(&overlay), run(&right), "seed {seed}: {what} of {}", at.display());
                let names = right.list(Path::new("/d")).unwrap();
                assert_eq!(overlay.list(Path::new("/d")).unwrap(), names, "seed {seed}");
                for name in names {
                    let path = Path::new("/d").join(name);
                    assert!(overlay.exists(&path).unwrap());
                    assert!(whole(&overlay, &path) == whole(&right, &path), "seed {seed}: {what}");
                }
            }
            let after: Vec<Vec<u8>> = (0..3).map(|n| whole(&below, &path(n))).collect();
            assert!(before == after, "seed {seed}: the disk below has changed");
            assert_eq!(below.list(Path::new("/d")).unwrap().len(), 3);
        }
    }

    #[test]
    fn directories_are_made_in_memory() {
        let below = FaultyDisk::new(1);
        below.create_dir_all(Path::new("/d")).unwrap();
        let overlay = OverlayDisk::new(below.shared());
        overlay.create_dir_all(Path::new("/d/x/y")).unwrap();
        overlay.open(Path::new("/d/x/y/f"), OpenMode::Create).unwrap();
        assert_eq!(overlay.list(Path::new("/d/x")).unwrap(), ["y"]);
        assert_eq!(overlay.list(Path::new("/d/x/y")).unwrap(), ["f"]);
        assert_eq!(overlay.list(Path::new("/d")).unwrap(), ["x"]);
        assert!(!below.exists(Path::new("/d/x")).unwrap());
        overlay.remove(Path::new("/d/x/y/f")).unwrap();
        overlay.remove_dir(Path::new("/d/x/y")).unwrap();
        assert!(!overlay.exists(Path::new("/d/x/y")).unwrap());
        assert!(overlay.remove_dir(Path::new("/d")).is_err());
    }
}
