//! A power cut, made after the server was killed: takes back or keeps the unsynced changes in the library's
//! journal, by a [`Loss`].
//!
//! - A page holds any number of its unsynced changes, the first ones of them. Pages do not depend on each other.
//! - A length is any of those since the last sync. In the binary log it ends before the first lost byte: file
//!   systems with ordered data, on which the server relies, show no hole there.
//! - A failed sync leaves pages clean: a later sync does not cover them, unless they changed again in between.
//! - InnoDB's data files keep everything written: with pages of 4 KiB taken back InnoDB 11.8.6 once failed to
//!   recover ("Not applying INSERT_HEAP_DYNAMIC due to corruption"), and its recovery is not under test.
//! - Names in the store's directories keep the first of their unsynced changes, each directory on its own. Names of the
//!   server's files are durable with the next sync of any file, as on ext4.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{DirEntryExt, FileExt};
use std::path::{Path, PathBuf};

use rand::rngs::StdRng;
use rand::RngExt;
use tidelab_server::error::{io_error, Result};

use super::journal::{Change, Entry, Journal};
use super::{Kind, Roots};

/// Bytes written to the disk together.
const PAGE: u64 = 4096;

/// The fate of unsynced changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Loss {
    /// All are lost.
    All,
    /// Each page, length and directory keeps some, none or all.
    Some,
    /// Those after a moment are lost: a disk with writes in order.
    Late,
}

impl Loss {
    /// All of them.
    pub const ALL: [Loss; 3] = [Loss::All, Loss::Some, Loss::Late];
}

/// Changes taken back by a power cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TakenBack {
    /// Unsynced changes of pages.
    pub unsynced: u64,
    /// The lost ones of them.
    pub changes: u64,
    /// Files with another length.
    pub lengths: u64,
    /// Unsynced names.
    pub unsynced_names: u64,
    /// The lost ones of them.
    pub names: u64,
}

/// A part of a change, within one page.
#[derive(Clone, Copy, Debug)]
struct PageChange {
    /// Index of the entry.
    entry: usize,
    /// A failed sync called it clean.
    clean: bool,
}

/// The unsynced changes of one file.
#[derive(Debug, Default)]
struct Unsynced {
    pages: BTreeMap<u64, Vec<PageChange>>,
    lengths: Vec<PageChange>,
}

impl Unsynced {
    fn add(&mut self, index: usize, entry: &Entry) {
        let (from, to, grows) = match entry.change {
            Change::Write { offset, size, length_before } => {
                (offset, offset + size, offset + size > length_before)
            }
            Change::Length { length, length_before } => (length, length_before, true),
            _ => return,
        };
        let change = PageChange { entry: index, clean: false };
        if grows {
            self.lengths.push(change);
        }
        for page in from / PAGE..to.div_ceil(PAGE) {
            self.pages.entry(page).or_default().push(change);
        }
    }

    /// A sync covers all up to the last dirty change before it.
    fn sync(&mut self, entries: &[Entry], upto: u64) {
        let sync = |changes: &mut Vec<PageChange>| {
            let covered = |change: &PageChange| !change.clean && entries[change.entry].position < upto;
            if let Some(last) = changes.iter().rposition(covered) {
                changes.drain(..=last);
            }
        };
        sync(&mut self.lengths);
        self.pages.retain(|_, changes| {
            sync(changes);
            !changes.is_empty()
        });
    }

    fn fail(&mut self, entries: &[Entry], upto: u64) {
        for change in self.pages.values_mut().flatten().chain(&mut self.lengths) {
            change.clean |= entries[change.entry].position < upto;
        }
    }
}

/// See the module's comment.
#[derive(Debug)]
pub struct PowerCut<'a> {
    /// The directory of the control file and the journal.
    pub side: &'a Path,
    /// The directories whose files have a kind.
    pub roots: &'a Roots,
    /// The fate of unsynced changes.
    pub loss: Loss,
}

impl PowerCut<'_> {
    /// Takes changes back. Afterwards everything left is durable, and the journal is empty. No process may
    /// use the files.
    pub fn make(&self, random: &mut StdRng) -> Result<TakenBack> {
        let path = self.side.join("journal");
        let mut journal = Journal::read(&path)?;
        let is_sync = |change: &Change| matches!(change, Change::Sync { .. } | Change::SyncDirectory { .. });
        journal.entries.retain(|entry| entry.kind != Kind::InnoDb || is_sync(&entry.change));
        let trash = self.side.join("trash");
        let mut files = BTreeMap::new();
        for root in [&trash, &self.roots.store, &self.roots.data] {
            find_files(root, &mut files)?;
        }
        let end = journal.bytes.len() as u64;
        // With `Late`: the moment. Some of the moments lie where nothing is unsynced any more.
        let moment = end - random.random_range(0..=end.min(4 << 20));
        let mut taken = TakenBack::default();
        for (inode, unsynced) in unsynced_bytes(&journal.entries) {
            // A file without a name has nothing that can come back.
            if let Some(path) = files.get(&inode) {
                self.take_back_bytes(&journal, path, &unsynced, moment, random, &mut taken)?;
            }
        }
        self.take_back_names(&journal.entries, &trash, moment, random, &mut taken)?;
        for entry in fs::read_dir(&trash).map_err(io_error("cannot read", &trash))?.flatten() {
            fs::remove_file(entry.path()).map_err(io_error("cannot remove", entry.path()))?;
        }
        match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(io_error("cannot remove", &path)(error))
            }
            _ => Ok(taken),
        }
    }

    /// The number of the first changes to keep, of some in a row.
    fn kept(&self, positions: &[u64], moment: u64, random: &mut StdRng) -> usize {
        match self.loss {
            Loss::All => 0,
            Loss::Late => positions.iter().filter(|position| **position < moment).count(),
            Loss::Some => match random.random_range(0..3) {
                0 => 0,
                1 => positions.len(),
                _ => random.random_range(0..=positions.len()),
            },
        }
    }

    fn take_back_bytes(
        &self,
        journal: &Journal,
        path: &Path,
        unsynced: &Unsynced,
        moment: u64,
        random: &mut StdRng,
        taken: &mut TakenBack,
    ) -> Result<()> {
        let file =
            OpenOptions::new().read(true).write(true).open(path).map_err(io_error("cannot open", path))?;
        let entries = &journal.entries;
        let positions =
            |changes: &[PageChange]| changes.iter().map(|c| entries[c.entry].position).collect::<Vec<u64>>();
        let length = file.metadata().map_err(io_error("cannot look at", path))?.len();
        let before = |change: &PageChange| match entries[change.entry].change {
            Change::Write { length_before, .. } | Change::Length { length_before, .. } => length_before,
            _ => length,
        };
        let durable_length = unsynced.lengths.first().map_or(length, before);
        let kept = self.kept(&positions(&unsynced.lengths), moment, random);
        let mut new_length = unsynced.lengths.get(kept).map_or(length, before);
        let mut pages = Vec::new();
        for (page, changes) in &unsynced.pages {
            let kept = self.kept(&positions(changes), moment, random);
            taken.unsynced += changes.len() as u64;
            taken.changes += (changes.len() - kept) as u64;
            if kept == changes.len() {
                continue;
            }
            let mut bytes = read_page(&file, *page).map_err(io_error("cannot read", path))?;
            for change in changes[kept..].iter().rev() {
                let entry = &entries[change.entry];
                let from = undo(&mut bytes, *page, entry, &journal.bytes);
                if entry.kind == Kind::Binlog && from >= durable_length {
                    new_length = new_length.min(from);
                }
            }
            pages.push((*page, bytes));
        }
        if new_length != length {
            taken.lengths += 1;
            file.set_len(new_length).map_err(io_error("cannot cut", path))?;
        }
        for (page, bytes) in pages {
            let at = page * PAGE;
            let size = usize::try_from(new_length.saturating_sub(at).min(PAGE)).unwrap_or(0);
            file.write_all_at(&bytes[..size], at).map_err(io_error("cannot write", path))?;
        }
        Ok(())
    }

    fn take_back_names(
        &self,
        entries: &[Entry],
        trash: &Path,
        moment: u64,
        random: &mut StdRng,
        taken: &mut TakenBack,
    ) -> Result<()> {
        let mut lost: Vec<&Entry> = Vec::new();
        for changes in unsynced_names(entries).values() {
            let positions: Vec<u64> = changes.iter().map(|entry| entry.position).collect();
            let kept = self.kept(&positions, moment, random);
            taken.unsynced_names += changes.len() as u64;
            taken.names += (changes.len() - kept) as u64;
            lost.extend(&changes[kept..]);
        }
        lost.sort_by_key(|entry| std::cmp::Reverse(entry.position));
        for entry in lost {
            undo_name(entry, trash)?;
        }
        Ok(())
    }
}

/// Files below a directory by their inodes. One with several names is found under any of them.
fn find_files(directory: &Path, files: &mut BTreeMap<u64, PathBuf>) -> Result<()> {
    for entry in fs::read_dir(directory).map_err(io_error("cannot read", directory))? {
        let entry = entry.map_err(io_error("cannot read", directory))?;
        let kind = entry.file_type().map_err(io_error("cannot look at", entry.path()))?;
        if kind.is_dir() {
            find_files(&entry.path(), files)?;
        } else if kind.is_file() {
            files.insert(entry.ino(), entry.path());
        }
    }
    Ok(())
}

/// Unsynced changes of bytes and lengths, by inode.
fn unsynced_bytes(entries: &[Entry]) -> BTreeMap<u64, Unsynced> {
    let mut files: BTreeMap<u64, Unsynced> = BTreeMap::new();
    for (index, entry) in entries.iter().enumerate() {
        match entry.change {
            Change::Write { .. } | Change::Length { .. } => {
                files.entry(entry.inode).or_default().add(index, entry);
            }
            Change::Sync { upto } => {
                files.entry(entry.inode).or_default().sync(entries, upto);
            }
            // The server's own files are not known to survive that, and it does not go on with them.
            Change::FailedSync { upto } if entry.kind.is_store() => {
                files.entry(entry.inode).or_default().fail(entries, upto);
            }
            _ => {}
        }
    }
    files
}

/// The directory of the changed name.
fn directory_of(change: &Change) -> Option<&Path> {
    match change {
        Change::Create(path)
        | Change::Unlink(path)
        | Change::Link(path)
        | Change::MakeDirectory(path)
        | Change::RemoveDirectory(path)
        | Change::Rename { to: path, .. } => path.parent(),
        _ => None,
    }
}

/// Unsynced changes of names, in their order, by directory. Those of the server's files are one group.
fn unsynced_names(entries: &[Entry]) -> BTreeMap<PathBuf, Vec<&Entry>> {
    let mut directories: BTreeMap<PathBuf, Vec<&Entry>> = BTreeMap::new();
    let server = PathBuf::new();
    for entry in entries {
        match &entry.change {
            Change::SyncDirectory { directory, upto } => {
                if let Some(changes) = directories.get_mut(directory) {
                    changes.retain(|change| change.position >= *upto);
                }
                directories.remove(&server);
            }
            Change::Sync { .. } => {
                directories.remove(&server);
            }
            change => {
                if let Some(directory) = directory_of(change) {
                    let group = if entry.kind.is_store() { directory.to_path_buf() } else { server.clone() };
                    directories.entry(group).or_default().push(entry);
                }
            }
        }
    }
    directories
}

fn read_page(file: &File, page: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![0; PAGE as usize];
    let mut done = 0;
    while done < bytes.len() {
        match file.read_at(&mut bytes[done..], page * PAGE + done as u64)? {
            0 => break,
            read => done += read,
        }
    }
    Ok(bytes)
}

/// Puts a change's old bytes back into a page, zeros where the file ended. Returns the offset in the file where the
/// change begins in this page.
fn undo(bytes: &mut [u8], page: u64, entry: &Entry, journal: &[u8]) -> u64 {
    let (offset, end) = match entry.change {
        Change::Write { offset, size, .. } => (offset, offset + size),
        Change::Length { length, length_before } => (length, length_before),
        _ => return u64::MAX,
    };
    let (from, to) = (offset.max(page * PAGE), end.min((page + 1) * PAGE));
    let old = &journal[entry.old.clone()];
    for at in from..to {
        let index = usize::try_from(at - offset).unwrap_or(usize::MAX);
        if let Ok(place) = usize::try_from(at - page * PAGE) {
            bytes[place] = old.get(index).copied().unwrap_or(0);
        }
    }
    from
}

/// Undoes a change of a name. A name in another state than after the change stays: someone outside of the
/// library's sight changed it, or the change was refused.
fn undo_name(entry: &Entry, trash: &Path) -> Result<()> {
    let bring_back = |inode: u64, path: &Path| fs::hard_link(trash.join(inode.to_string()), path);
    let done = match &entry.change {
        Change::Create(path) | Change::Link(path) => fs::remove_file(path),
        Change::Unlink(path) => bring_back(entry.inode, path),
        Change::Rename { from, to, replaced } => fs::rename(to, from).and_then(|()| match replaced {
            0 => Ok(()),
            replaced => bring_back(*replaced, to),
        }),
        Change::MakeDirectory(path) => fs::remove_dir_all(path),
        Change::RemoveDirectory(path) => fs::create_dir(path),
        _ => Ok(()),
    };
    match done {
        Err(error)
            if matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::AlreadyExists) =>
        {
            Ok(())
        }
        done => {
            done.map_err(io_error("cannot undo a change in", directory_of(&entry.change).unwrap_or(trash)))
        }
    }
}
