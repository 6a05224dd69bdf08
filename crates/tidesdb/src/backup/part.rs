//! A part of a backup becomes a store: the tables of some families, with the whole dictionary and log.
//! Reading a few tables of a large backup then costs no more than their size. The other families of such a
//! store lack their files; reads of them fail as after the loss of a file. The store is for reading, and is
//! thrown away.

use std::path::Path;
use std::sync::Arc;

use super::copy::Copier;
use super::info::{DATA, STORE};
use super::restore::{copy_checked, is_free, not_empty, write};
use super::verify::open_versions;
use super::{inspect, BackupFile, BackupInfo, Watch};
use crate::db::LOCK;
use crate::error::{Error, Result};
use crate::host::HashSet;
use crate::io::{Disk, OpenMode};
use crate::table::TableStore;
use crate::types::{FileNo, DICTIONARY};
use crate::version::restoring::RESTORING;
use crate::version::OpenFor;
use crate::wal::log_dir;

/// The wanted part of a backup.
pub struct Part<'a> {
    /// True if a family is wanted, by its name.
    pub family: &'a dyn Fn(&[u8]) -> bool,
    /// True if a file of the owner is wanted, by its path below the backup's `data`.
    pub file: &'a dyn Fn(&str) -> bool,
}

impl std::fmt::Debug for Part<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Part")
    }
}

/// Makes a store in `store`, an empty or missing directory, of a part of the backup in `from`. Puts the
/// wanted files of the owner into `data`. Tables are hard links where the file system allows it; nothing
/// changes them. Reads check their blocks, not this call.
///
/// # Errors
/// `InvalidArgument` for an unfinished backup, a backup without such a family, or a `store` with files in it;
/// `Corruption` of manifest, dictionary, log, or a copied file; `DiskFull`, `Interrupted`, I/O.
pub fn restore_part(
    disk: &Arc<dyn Disk>,
    from: &Path,
    store: &Path,
    data: &Path,
    part: &Part<'_>,
    watch: Watch<'_>,
) -> Result<BackupInfo> {
    let from = disk.resolve(from)?;
    let info = BackupInfo::read(&**disk, &from)?;
    let left_out = files_of_others(disk, &from.join(STORE), part)?;
    disk.create_dir_all(store)?;
    let _lock = disk.lock(&store.join(LOCK))?;
    if !is_free(&**disk, store)? {
        return Err(not_empty(store, ""));
    }
    disk.create_dir_all(&log_dir(store))?;
    write(&**disk, &store.join(RESTORING), &format!("a part, from {}\n", from.display()))?;
    let mut copier = Copier::new(&**disk, watch);
    for file in &info.files {
        watch.check()?;
        let path = from.join(&file.name);
        if let Some(name) = file.name.strip_prefix(&format!("{STORE}/")) {
            let number = TableStore::number_of_any(name);
            if number.is_some_and(|number| left_out.contains(&number)) {
                continue;
            }
            let to = store.join(name);
            match number.is_some() && is_linked(&**disk, file, &path, &to)? {
                true => {}
                false => copy_checked(&mut copier, &path, &to, file.len, file.crc)?,
            }
        } else if let Some(name) =
            file.name.strip_prefix(&format!("{DATA}/")).filter(|name| (part.file)(name))
        {
            let to = data.join(name);
            disk.create_dir_all(to.parent().unwrap_or(data))?;
            copy_checked(&mut copier, &path, &to, file.len, file.crc)?;
        }
    }
    disk.remove(&store.join(RESTORING))?;
    Ok(info)
}

/// The files without tables of a wanted family or of the dictionary.
fn files_of_others(disk: &Arc<dyn Disk>, home: &Path, part: &Part<'_>) -> Result<HashSet<FileNo>> {
    let names = inspect::family_names(disk, home)?;
    let of_part = names.iter().filter(|(_, name)| (part.family)(name));
    let wanted: HashSet<_> = of_part.map(|(family, _)| *family).collect();
    if wanted.is_empty() {
        return Err(Error::InvalidArgument(format!("the store {} has no such table", home.display())));
    }
    let versions = open_versions(disk, home, OpenFor::Read)?;
    let version = versions.current();
    let (mut kept, mut others) = (HashSet::default(), HashSet::default());
    for (family, levels) in version.families() {
        let files = match family == DICTIONARY || wanted.contains(&family) {
            true => &mut kept,
            false => &mut others,
        };
        files.extend(levels.tables().flat_map(|(_, table)| table.files()));
    }
    others.retain(|number| !kept.contains(number));
    Ok(others)
}

/// Gives a table's file a further name. False: this file system, or this user, cannot.
fn is_linked(disk: &dyn Disk, file: &BackupFile, from: &Path, to: &Path) -> Result<bool> {
    match disk.link(from, to) {
        Ok(()) if disk.open(to, OpenMode::Read)?.len()? == file.len => Ok(true),
        Ok(()) => Err(Error::corruption(from, 0, format!("the file had {} bytes in the backup", file.len))),
        Err(Error::Io { source, .. })
            if matches!(
                source.raw_os_error(),
                Some(libc::EXDEV | libc::EPERM | libc::EMLINK | libc::EOPNOTSUPP)
            ) =>
        {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}
