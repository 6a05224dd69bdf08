//! Makes a store of a backup, and copies the owner's files to the owner's directory. The backup is verified
//! first. A file marks the store until all is there and durable, and a marked store is refused at opening.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::copy::{self, Copier};
use super::info::{DATA, STORE};
use super::{verify, BackupInfo, Watch};
use crate::db::LOCK;
use crate::error::{Error, Result};
use crate::io::{Disk, OpenMode};
use crate::version::restoring::RESTORING;

/// A restore writes this file into the directory of the owner's files. It holds the path of the backup. The
/// owner removes it after it has handled the restored files.
const RESTORED: &str = "tidesdb_restored";

/// Name of files with options of a folder of the owner; an existing one stays.
const FOLDER_OPTIONS: &str = "db.opt";

/// Verifies the backup in `from` and makes a store of it in `store`, an empty or missing directory. The
/// owner's files go to `data`, an existing directory, along with a file `tidesdb_restored`. Files of equal
/// content already in `data` stay. The backup does not change.
///
/// # Errors
/// As [`verify()`]; `InvalidArgument` for a `store` with files in it, or a different file in `data`:
/// nothing is changed then. After other errors (`DiskFull`, `Interrupted`, I/O) the incomplete store is
/// refused at opening.
pub fn restore(
    disk: &Arc<dyn Disk>,
    from: &Path,
    store: &Path,
    data: Option<&Path>,
    watch: Watch<'_>,
) -> Result<BackupInfo> {
    let (from, store) = (disk.resolve(from)?, disk.resolve(store)?);
    let data = data.map(|data| disk.resolve(data)).transpose()?;
    for into in std::iter::once(&store).chain(&data) {
        if into.starts_with(&from) || from.starts_with(into) && into == &store {
            let what = format!("{} lies in the backup {}, or around it", into.display(), from.display());
            return Err(Error::InvalidArgument(what));
        }
    }
    // All that is in the way is said at once, and before the backup is read.
    let in_the_way = disk.exists(&store)? && !is_free(&**disk, &store)?;
    let definitions = BackupInfo::read(&**disk, &from)
        .and_then(|info| data_files(&**disk, &info, data.as_deref()).map(drop));
    if in_the_way {
        let also = match definitions {
            Err(Error::InvalidArgument(what)) => format!("; and {what}"),
            _ => String::new(),
        };
        return Err(not_empty(&store, &also));
    }
    definitions?;
    let info = verify(disk, &from, watch)?;
    let data_files = data_files(&**disk, &info, data.as_deref())?;

    disk.create_dir_all(&store)?;
    // From here on nobody opens the store, nor restores into it. It was free a while ago.
    let _lock = disk.lock(&store.join(LOCK))?;
    if !is_free(&**disk, &store)? {
        return Err(not_empty(&store, ""));
    }
    disk.create_dir_all(&wal_of(&store))?;
    write(&**disk, &store.join(RESTORING), &format!("from {}\n", from.display()))?;
    let mut copier = Copier::new(&**disk, watch);
    copier.total = info.bytes();
    for file in &info.files {
        let Some(name) = file.name.strip_prefix(&format!("{STORE}/")) else { continue };
        copy_checked(&mut copier, &from.join(&file.name), &store.join(name), file.len, file.crc)?;
    }
    disk.sync_dir(&wal_of(&store))?;
    disk.sync_dir(&store)?;
    if let Some(data) = &data {
        let mut directories = vec![data.clone()];
        for (file, to) in data_files {
            let directory = to.parent().unwrap_or(data).to_path_buf();
            if !directories.contains(&directory) {
                disk.create_dir_all(&directory)?;
                directories.push(directory);
            }
            // Under its name stands the whole file or none: a restore that is repeated takes half of one for another's.
            let part = part_of(&to);
            let copied = copy_checked(&mut copier, &from.join(&file.name), &part, file.len, file.crc);
            let free = || match disk.exists(&to)? {
                true => Err(Error::InvalidArgument(format!("{} was made meanwhile; it stays", to.display()))),
                false => Ok(()),
            };
            if let Err(error) = copied.and_then(|()| free()).and_then(|()| disk.rename(&part, &to)) {
                let _ = disk.remove(&part);
                return Err(error);
            }
        }
        let text = format!("from {} of commit {}\n", from.display(), info.seq);
        write(&**disk, &data.join(RESTORED), &text)?;
        directories.iter().try_for_each(|directory| disk.sync_dir(directory))?;
    }
    disk.remove(&store.join(RESTORING))?;
    disk.sync_dir(&store)?;
    Ok(info)
}

/// True if a store's directory is empty but for the lock file.
pub(super) fn is_free(disk: &dyn Disk, store: &Path) -> Result<bool> {
    Ok(disk.list(store)?.iter().all(|name| name == LOCK))
}

pub(super) fn not_empty(store: &Path, also: &str) -> Error {
    Error::InvalidArgument(format!(
        "{} is not empty: remove it, if what it holds is not needed, or choose another directory{also}",
        store.display()
    ))
}

fn wal_of(store: &Path) -> PathBuf {
    crate::wal::log_dir(store)
}

/// The owner's files not yet in `data`, and their destinations.
fn data_files<'a>(
    disk: &dyn Disk,
    info: &'a BackupInfo,
    data: Option<&Path>,
) -> Result<Vec<(&'a super::BackupFile, PathBuf)>> {
    let mut missing = Vec::new();
    for file in &info.files {
        let Some(name) = file.name.strip_prefix(&format!("{DATA}/")) else { continue };
        let Some(data) = data else {
            return Err(Error::InvalidArgument(format!(
                "the backup holds files of a data directory ({name}, ...): say where that is"
            )));
        };
        if !disk.exists(data)? {
            return Err(Error::InvalidArgument(format!("there is no data directory {}", data.display())));
        }
        let to = data.join(name);
        if !disk.exists(&to)? {
            missing.push((file, to));
            continue;
        }
        let (len, crc) = copy::sum(disk, &to, Watch::NONE)?;
        let same = len == file.len && Some(crc) == file.crc;
        if !same && to.file_name().is_none_or(|name| name != FOLDER_OPTIONS) {
            return Err(Error::InvalidArgument(format!(
                "{} is there and is not the backup's: restore into a data directory without tables of a store, or \
                 remove the file",
                to.display()
            )));
        }
    }
    Ok(missing)
}

/// The name of an owner's file during its writing.
fn part_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(".part");
    name.into()
}

pub(super) fn copy_checked(
    copier: &mut Copier<'_>,
    from: &Path,
    to: &Path,
    len: u64,
    crc: Option<u32>,
) -> Result<()> {
    let copied = copier.synced(from, to, len)?;
    match crc.is_some_and(|crc| crc != copied) {
        true => Err(Error::corruption(from, 0, "the sum of the file is not that of the backup")),
        false => Ok(()),
    }
}

pub(super) fn write(disk: &dyn Disk, path: &Path, text: &str) -> Result<()> {
    let file = disk.open(path, OpenMode::Create)?;
    file.write_at(text.as_bytes(), 0)?;
    file.sync_data()?;
    disk.sync_dir(path.parent().unwrap_or(Path::new("/")))
}
