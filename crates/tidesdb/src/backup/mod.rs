//! Online backups. A backup is the image of the store left by a crash at one moment: the manifest at that
//! moment, the tables it names, and a part of the log. The part runs from the manifest's first live segment
//! up to a record of the backup's own, queued between two commits: the point. Recovery opens a backup as it
//! opens the image after a crash. Every commit ordered before the point is in it, none after. Prepared
//! transactions wait for their decision, spilled runs are at their places in the log.
//!
//! Taking the point holds writers only while the record is queued and the live files are noted. No I/O and no
//! wait happens meanwhile. The copied files stay until the end: versions keep their tables, transactions
//! their runs. No segment of the log is reused before it is copied.
//!
//! The file [`INFO`] completes the destination. It is written last, after all files and directories are
//! synced. A failure removes the destination's files. A crash leaves a directory without [`INFO`], and
//! `verify` and `restore` refuse it.
//!
//! ```text
//! destination/
//!   tidesdb_backup_info   what it is, from when, of which files; its own checksum
//!   store/                a store: CURRENT, MANIFEST-*, *.sst, wal/*.wal, OWNER
//!   data/                 files that the owner added (definitions of an SQL server's tables)
//! ```
//!
//! - `point`: the files and the position of a backup, fixed between two commits
//! - `copy`: copies bytes between files, with checksum and pace
//! - [`info`]: the format of the file [`INFO`]
//! - [`verify()`], [`restore()`], [`restore_part()`]: on finished backups, without a store
//! - [`verify_store()`], [`repair()`]: on stores without a running server
//!
//! This module stands above the store. The store knows only whether a backup is running.

mod copy;
pub mod info;
mod inspect;
mod part;
mod point;
mod repair;
mod restore;
#[cfg(test)]
mod tests;
mod verify;
mod watch;

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::Arc;

pub use self::info::{BackupFile, BackupInfo, LeftOut, INFO};
pub use self::inspect::{family_records, lock_for_reading, read_log, tables_of_file, LogRead};
pub use self::part::{restore_part, Part};
pub use self::repair::{repair, verify_store, StoreCheck};
pub use self::restore::restore;
pub use self::verify::verify;
pub use self::watch::Watch;

use self::copy::Copier;
use self::info::{DATA, STORE};
use self::point::BackupPoint;
use self::verify::read_values;
use crate::db::maintenance::Maintenance;
use crate::db::{identity, Db};
use crate::error::{Error, Result};
use crate::host::HashMap;
use crate::io::{Disk, OpenMode};
use crate::options::LogLevel;
use crate::store::Store;
use crate::sync::stage;
use crate::table::{SsTable, TableStore};
use crate::types::{FamilyId, FileNo, Seq, DICTIONARY};
use crate::value_holds::ValueFile;
use crate::version::manifest::{self, ManifestWriter};
use crate::version::Edit;
use crate::wal::{log_dir, segment_path};

/// The one directory in the store's that a backup may go to: on its file system, for a state transfer. The
/// store neither reads nor removes it.
const TRANSFER: &str = "transfer";

/// Options of a backup.
#[derive(Clone, Copy, Debug, Default)]
pub struct BackupOptions {
    /// Hard-links tables to the store's files instead of copying them: quick, and on the same file system
    /// only.
    pub links: bool,
}

/// An earlier backup whose files a new one shares.
struct Base {
    dir: PathBuf,
    /// Its files of tables and values with a sum, by number.
    tables: HashMap<FileNo, BackupFile>,
}

/// A backup being taken, from [`Db::begin_backup`] to [`Backup::finish`]. Removes its files if dropped
/// before.
pub struct Backup {
    store: Arc<Store>,
    maintenance: Arc<Maintenance>,
    disk: Arc<dyn Disk>,
    to: PathBuf,
    /// The table files of the backup.
    tables: Arc<TableStore>,
    info: BackupInfo,
    point: Option<BackupPoint>,
    /// Files and directories made so far, in this order.
    files: Vec<PathBuf>,
    directories: Vec<PathBuf>,
    /// Bytes a second; 0: no limit.
    rate: u64,
    base: Option<Base>,
    without_damaged: bool,
    finished: bool,
}

impl std::fmt::Debug for Backup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Backup").field("to", &self.to).finish_non_exhaustive()
    }
}

impl Db {
    /// Takes an online backup of the store into `to`, an empty or missing directory; returns when it is
    /// complete and durable.
    ///
    /// # Errors
    /// As [`Db::begin_backup`], [`Backup::take_point`] and [`Backup::finish`]; nothing is left in
    /// `to` then.
    pub fn backup(&self, to: &Path, options: BackupOptions, watch: Watch<'_>) -> Result<BackupInfo> {
        let mut backup = self.begin_backup(to, options)?;
        backup.take_point(watch)?;
        backup.finish(watch)
    }

    /// Checks the destination and makes it. One backup at a time.
    ///
    /// # Errors
    /// `InvalidArgument` for a destination with files in it, or inside or around the store's directory,
    /// but for its directory `transfer`;
    /// `Busy` while another backup is taken; `ReadOnly` after a failure of the log; I/O.
    pub fn begin_backup(&self, to: &Path, options: BackupOptions) -> Result<Backup> {
        let store = self.store().clone();
        store.check_writable()?;
        let disk = store.versions.disk().clone();
        let to = disk.resolve(to)?;
        let home = disk.resolve(&store.dir)?;
        let is_transfer = to == home.join(TRANSFER);
        if !is_transfer && to.starts_with(&home) || home.starts_with(&to) {
            return Err(Error::InvalidArgument(format!(
                "a backup into {} would lie in the directory of the store, {}, or around it; give it one of its own",
                to.display(),
                home.display()
            )));
        }
        if self.maintenance.backup_runs.swap(true, Ordering::AcqRel) {
            return Err(Error::Busy("a backup of this store is being taken; there is one at a time".into()));
        }
        let info = BackupInfo::begin(options.links, store.env.clock.unix_seconds());
        let mut backup = Backup {
            store,
            maintenance: self.maintenance.clone(),
            tables: TableStore::new(disk.clone(), to.join(STORE), 1),
            disk,
            to,
            info,
            point: None,
            files: Vec::new(),
            directories: Vec::new(),
            rate: 0,
            base: None,
            without_damaged: false,
            finished: false,
        };
        backup.make_destination()?;
        Ok(backup)
    }
}

impl Backup {
    fn make_destination(&mut self) -> Result<()> {
        if self.disk.exists(&self.to)? {
            let names = self.disk.list(&self.to)?;
            if !names.is_empty() {
                let unfinished = names.iter().any(|name| name == STORE) && !names.iter().any(|n| n == INFO);
                let why = match unfinished {
                    true => "it holds the remains of a backup that did not finish; remove it",
                    false => "it is not empty; a backup needs a directory that is empty or not there yet",
                };
                return Err(Error::InvalidArgument(format!("{}: {why}", self.to.display())));
            }
        } else {
            self.check_parent()?;
            self.make_directory(self.to.clone())?;
        }
        let home = self.to.join(STORE);
        self.make_directory(home.clone())?;
        self.make_directory(log_dir(&home))
    }

    /// Makes only the last directory. A missing parent may be the mount point of an absent disk, and the
    /// backup would fill the disk below.
    fn check_parent(&self) -> Result<()> {
        let Some(parent) = self.to.parent().filter(|parent| parent.parent().is_some()) else { return Ok(()) };
        match self.disk.exists(parent)? {
            true => Ok(()),
            false => Err(Error::InvalidArgument(format!(
                "{}: there is no directory {}; make it, or mount its disk",
                self.to.display(),
                parent.display()
            ))),
        }
    }

    fn make_directory(&mut self, path: PathBuf) -> Result<()> {
        self.directories.push(path.clone());
        self.disk.create_dir_all(&path)
    }

    /// Limits reads and writes of table files and log, in bytes a second; 0: no limit.
    pub fn set_rate(&mut self, bytes_a_second: u64) {
        self.rate = bytes_a_second;
    }

    /// Shares table files with an earlier backup of this store. A file with the same content in both becomes
    /// a hard link to the earlier backup's file, in place of a copy. Both backups stay whole without each
    /// other. Every file of the store is read and compared by its checksum: equal numbers prove nothing after
    /// a restore.
    ///
    /// # Errors
    /// As [`BackupInfo::read`].
    pub fn set_base(&mut self, base: &Path) -> Result<()> {
        let dir = self.disk.resolve(base)?;
        let info = BackupInfo::read(&*self.disk, &dir)?;
        let number =
            |file: &BackupFile| TableStore::number_of_any(file.name.strip_prefix(STORE)?.strip_prefix('/')?);
        let with_sum = info.files.into_iter().filter(|file| file.crc.is_some());
        let tables = with_sum.filter_map(|file| Some((number(&file)?, file))).collect();
        self.base = Some(Base { dir, tables });
        Ok(())
    }

    /// Leaves out damaged or missing table files, in place of failing. Their families cannot be read in the
    /// restored store, as after the loss of a file. [`BackupInfo::left_out`] names them. Damage of the
    /// dictionary or the log fails as before.
    pub fn leave_out_damaged(&mut self) {
        self.without_damaged = true;
    }

    /// Fixes the point: the backup holds every commit ordered before it, and none after. Returns the newest
    /// commit in it.
    ///
    /// # Errors
    /// `DiskFull`, `BackpressureTimeout` or `Interrupted` while it waits for room in the log; `ReadOnly` when
    /// the log fails.
    pub fn take_point(&mut self, watch: Watch<'_>) -> Result<Seq> {
        let point = match self.point.take() {
            Some(taken) => taken,
            None => BackupPoint::take(&self.maintenance.transactions, watch)?,
        };
        self.info.seq = point.seq();
        self.point = Some(point);
        Ok(self.info.seq)
    }

    /// Copies a file of the store's owner; `name` is its path below the backup's `data`. [`Backup::finish`]
    /// syncs it.
    ///
    /// # Errors
    /// `InvalidArgument` for a name that leads elsewhere or is taken; I/O.
    pub fn add_file(&mut self, from: &Path, name: &str) -> Result<()> {
        let name = format!("{DATA}/{name}");
        info::check_name(&name)?;
        if self.info.files.iter().any(|file| file.name == name) {
            return Err(Error::InvalidArgument(format!("{name} is in the backup already")));
        }
        let to = self.to.join(&name);
        let directory = to.parent().map(Path::to_path_buf).unwrap_or_default();
        for missing in directory.ancestors().take_while(|at| *at != self.to).collect::<Vec<_>>().iter().rev()
        {
            if !self.directories.iter().any(|made| made == missing) {
                self.make_directory(missing.to_path_buf())?;
            }
        }
        self.files.push(to.clone());
        let (len, crc) = Copier::new(&*self.disk, Watch::NONE).unsynced(from, &to)?;
        self.info.files.push(BackupFile { name, len, crc: Some(crc) });
        Ok(())
    }

    /// Adds a note for the restore, as a position in another log. One line.
    ///
    /// # Errors
    /// `InvalidArgument` for a name with a space, or a value of several lines.
    pub fn note(&mut self, name: &str, value: &str) -> Result<()> {
        info::check_note(name, value)?;
        self.info.notes.push((name.to_string(), value.to_string()));
        Ok(())
    }

    /// Copies everything, makes it durable, and completes the backup.
    ///
    /// # Errors
    /// `InvalidArgument` without a point; `Corruption` for damage in the store, with the file's name;
    /// `DiskFull`, `Interrupted`, I/O. After an error the backup's files are removed.
    pub fn finish(mut self, watch: Watch<'_>) -> Result<BackupInfo> {
        let Some(mut point) = self.point.take() else {
            return Err(Error::InvalidArgument("a backup is finished before its point was taken".into()));
        };
        self.store.check_open()?;
        let tables = point.tables();
        let segments = point.segments(&self.store)?;
        self.info.log_end = point.log_end(&self.store)?;
        let log_bytes: u64 = segments.iter().map(|segment| segment.bytes).sum();
        let table_bytes: u64 = tables.iter().map(|(_, len)| len).sum();
        let disk = self.disk.clone();
        let mut copier = Copier::new(&*disk, watch);
        copier.rate = self.rate;
        let reads_tables = !self.info.links || self.rate > 0;
        let mut value_bytes = 0;
        for file in point.values() {
            let values = self.store.versions.values().store();
            if values.exists(file.number())? {
                value_bytes += disk.open(&values.path(file.number()), OpenMode::Read)?.len()?;
            }
        }
        copier.total = log_bytes + if reads_tables { table_bytes + value_bytes } else { 0 };

        let home = self.to.join(STORE);
        for segment in segments {
            stage("stage: backup, before a log file");
            let from = segment_path(&self.store.dir, segment.number);
            let to = segment_path(&home, segment.number);
            self.files.push(to.clone());
            let crc = copier.synced(&from, &to, segment.bytes)?;
            self.list(&to, segment.bytes, Some(crc))?;
        }
        point.release_log();
        let mut by_file = point.tables_by_file();
        for &(number, len) in &tables {
            watch.check()?;
            stage("stage: backup, before a table file");
            let of_file = by_file.remove(&number).unwrap_or_default();
            match self.take_table(&mut copier, number, len, &of_file, watch) {
                Err(error) if self.without_damaged && self.is_of_table(&error, number) => {
                    self.leave_out(number, &of_file, error)?;
                }
                done => done?,
            }
        }
        for (file, links) in self.choose_links(point.values())? {
            watch.check()?;
            stage("stage: backup, before a value file");
            self.take_values(&mut copier, &file, links)?;
        }
        self.check_values(&point, watch)?;
        self.write_manifest(&point)?;
        drop(point);
        stage("stage: backup, point given up");
        self.check_log(watch)?;
        self.copy_owner(&mut copier)?;
        self.sync(watch)?;
        // The store gives none of their numbers to another file, after a power cut either: the edit says the next one.
        self.store.install(Edit::default())?;

        self.info.finished = self.store.env.clock.unix_seconds();
        let info = self.to.join(INFO);
        self.files.push(info.clone());
        self.info.write(&*disk, &info)?;
        self.finished = true;
        Ok(self.info.clone())
    }

    /// Copies or links the file of `tables`, and reads every block of them. A backup must be restorable, and
    /// its owner can act on damage only now. The file is in the page cache at this moment.
    fn take_table(
        &mut self,
        copier: &mut Copier<'_>,
        number: FileNo,
        len: u64,
        tables: &[Arc<SsTable>],
        watch: Watch<'_>,
    ) -> Result<()> {
        let from = self.store.versions.table_files().path(number);
        let to = self.tables.path(number);
        self.files.push(to.clone());
        let crc = self.take_file(copier, (&from, &to), number, len, self.info.links)?;
        for table in tables {
            table.verify_unless(watch.stop)?;
        }
        self.list(&to, len, crc)
    }

    /// The value files, each with the choice of a link over a copy. One that takes values is copied as far as it goes. Those
    /// to be linked are durable on return.
    fn choose_links(&self, files: Vec<Arc<ValueFile>>) -> Result<Vec<(Arc<ValueFile>, bool)>> {
        let values = self.store.versions.values();
        let chosen = files.into_iter().map(|file| {
            let links = self.info.links && !values.takes_values(&file);
            (file, links)
        });
        let chosen: Vec<_> = chosen.collect();
        // After the choice: the values of a file that takes no more of them stand in one of this sync or an earlier one.
        if chosen.iter().any(|(_, links)| *links) {
            values.sync()?;
        }
        Ok(chosen)
    }

    /// Copies or links a value file.
    fn take_values(&mut self, copier: &mut Copier<'_>, file: &ValueFile, links: bool) -> Result<()> {
        let number = file.number();
        let values = Arc::clone(self.store.versions.values());
        if !values.store().exists(number)? {
            // If an entry has a value there, the backup fails or leaves the file out.
            return Ok(());
        }
        let from = values.store().path(number);
        let len = self.disk.open(&from, OpenMode::Read)?.len()?;
        let to = self.to.join(STORE).join(TableStore::value_file_name(number));
        self.files.push(to.clone());
        let crc = self.take_file(copier, (&from, &to), number, len, links)?;
        self.list(&to, len, crc)
    }

    /// Reads every value that a table points to: a backup must be restorable, and its owner can act on damage only now.
    fn check_values(&mut self, point: &BackupPoint, watch: Watch<'_>) -> Result<()> {
        let values = Arc::clone(self.store.versions.values());
        let left_out = self.info.left_out_files();
        for table in point.handles().iter().filter(|table| !left_out.contains(&table.file.number())) {
            read_values(
                &values,
                &table.table,
                watch,
                &mut |_, error| match values.store().file_of(&error) {
                    Some(number) if self.without_damaged => {
                        self.leave_out_values(number, table.meta().family, &error)
                    }
                    _ => Err(error),
                },
            )?;
        }
        Ok(())
    }

    /// Goes on without a damaged value file.
    fn leave_out_values(&mut self, number: FileNo, family: FamilyId, error: &Error) -> Result<()> {
        let file = format!("{STORE}/{}", TableStore::value_file_name(number));
        let to = self.to.join(&file);
        if self.disk.exists(&to)? {
            self.store.log(LogLevel::Warn, &format!("a backup goes on without a damaged file: {error}"));
            self.disk.remove(&to)?;
        }
        self.files.retain(|path| *path != to);
        self.info.files.retain(|listed| listed.name != file);
        let family = self.name_of(family);
        if !self.info.left_out.iter().any(|left_out| left_out.file == file && left_out.family == family) {
            self.info.left_out.push(LeftOut { file, family });
        }
        Ok(())
    }

    /// The name of a family. One without a name was dropped after the backup's moment.
    fn name_of(&self, family: FamilyId) -> String {
        let name = self.store.catalog.by_id(family).map(|family| family.name());
        let name = name.map_or_else(|| family.to_string().into_bytes(), |name| name.to_vec());
        String::from_utf8_lossy(&name).into_owned()
    }

    /// Copies the first `len` bytes of a file, links it, or shares the base's. Returns the sum of a copy.
    fn take_file(
        &mut self,
        copier: &mut Copier<'_>,
        (from, to): (&Path, &Path),
        number: FileNo,
        len: u64,
        links: bool,
    ) -> Result<Option<u32>> {
        let known = self.base.as_ref().and_then(|base| {
            let file = base.tables.get(&number).filter(|file| file.len == len)?;
            Some((base.dir.join(&file.name), file.crc?))
        });
        Ok(match known {
            _ if links => {
                if self.rate > 0 {
                    copier.read(from, len)?;
                }
                self.link(from, to, len)?;
                None
            }
            Some((shared, crc))
                if copier.read(from, len)? == crc && self.share(copier, &shared, to, len, crc)? =>
            {
                self.info.shared_bytes += len;
                Some(crc)
            }
            _ => Some(copier.synced(from, to, len)?),
        })
    }

    /// Links the base's file `shared`, if its bytes still match the base's list. False: they do not, and
    /// nothing is at `to`. Errors: another file system, and a stop.
    fn share(&self, copier: &mut Copier<'_>, shared: &Path, to: &Path, len: u64, crc: u32) -> Result<bool> {
        copier.total += len;
        let found = self.link(shared, to, len).and_then(|()| copier.read(to, len));
        match found {
            Ok(found) if found == crc => return Ok(true),
            Err(error @ (Error::InvalidArgument(_) | Error::Interrupted)) => return Err(error),
            _ => {}
        }
        let what =
            format!("the base's file {} is not as its list says: the store's is copied", shared.display());
        self.store.log(LogLevel::Warn, &what);
        if self.disk.exists(to)? {
            self.disk.remove(to)?;
        }
        Ok(false)
    }

    /// True if an error reports damage of a table file of the store. A failure to open it for want of
    /// descriptors or memory is no damage.
    fn is_of_table(&self, error: &Error, number: FileNo) -> bool {
        self.store.versions.table_files().file_of(error) == Some(number)
            && match error {
                Error::Io { source, .. } => {
                    matches!(source.kind(), ErrorKind::NotFound | ErrorKind::UnexpectedEof)
                        || source.raw_os_error() == Some(libc::EIO)
                }
                _ => true,
            }
    }

    /// Goes on without a damaged file, unless a table of the dictionary is in it.
    fn leave_out(&mut self, number: FileNo, tables: &[Arc<SsTable>], error: Error) -> Result<()> {
        let families: BTreeSet<FamilyId> = tables.iter().map(|table| table.meta().family).collect();
        if families.contains(&DICTIONARY) {
            return Err(error);
        }
        self.store.log(LogLevel::Warn, &format!("a backup goes on without a damaged file: {error}"));
        self.tables.remove(number)?;
        let to = self.tables.path(number);
        self.files.retain(|file| *file != to);
        let file = format!("{STORE}/{}", TableStore::file_name(number));
        for family in families {
            let family = self.name_of(family);
            self.info.left_out.push(LeftOut { file: file.clone(), family });
        }
        Ok(())
    }

    /// Reads the copied log; an error names the source file.
    fn check_log(&self, watch: Watch<'_>) -> Result<()> {
        let home = self.to.join(STORE);
        let origin = |path: PathBuf| match path.strip_prefix(&home) {
            Ok(name) => self.store.dir.join(name),
            Err(_) => path,
        };
        verify::check_log(&self.disk, &home, &self.info, watch).map_err(|error| match error {
            Error::Corruption { path, offset, what } => {
                Error::Corruption { path: origin(path), offset, what }
            }
            other => other,
        })
    }

    /// Lists a file of the backup.
    fn list(&mut self, path: &Path, len: u64, crc: Option<u32>) -> Result<()> {
        let name = path.strip_prefix(&self.to).ok().and_then(Path::to_str).map(str::to_string);
        let Some(name) = name else {
            return Err(Error::InvalidArgument(format!("{} has a name that is not UTF-8", path.display())));
        };
        self.info.files.push(BackupFile { name, len, crc });
        Ok(())
    }

    fn link(&self, from: &Path, to: &Path, len: u64) -> Result<()> {
        match self.disk.link(from, to) {
            Err(Error::Io { source, .. }) if source.raw_os_error() == Some(libc::EXDEV) => {
                Err(Error::InvalidArgument(format!(
                    "{} is on another file system than {}: hard links do not reach there; choose a directory on its file \
                     system, or take a backup with copies and without a base",
                    self.to.display(),
                    from.parent().unwrap_or(from).display()
                )))
            }
            done => done,
        }?;
        let found = self.disk.open(to, OpenMode::Read)?.len()?;
        match found == len {
            true => Ok(()),
            false => Err(Error::corruption(from, found, format!("the file has {len} bytes in the manifest"))),
        }
    }

    /// The manifest of the point, in force.
    fn write_manifest(&mut self, point: &BackupPoint) -> Result<()> {
        let home = self.to.join(STORE);
        let number = point.manifest_number();
        let paths = [home.join(manifest::manifest_name(number)), home.join(manifest::CURRENT)];
        self.files.extend(paths.iter().cloned());
        self.files.push(home.join(manifest::CURRENT_TMP));
        let snapshot = point.snapshot(self.info.log_end);
        ManifestWriter::create(&*self.disk, &home, number, point.format(), &snapshot)?;
        manifest::set_current(&*self.disk, &home, number)?;
        for path in paths {
            let (len, crc) = copy::sum(&*self.disk, &path, Watch::NONE)?;
            self.list(&path, len, Some(crc))?;
        }
        Ok(())
    }

    fn copy_owner(&mut self, copier: &mut Copier<'_>) -> Result<()> {
        let from = self.store.dir.join(identity::OWNER);
        if !self.disk.exists(&from)? {
            return Ok(());
        }
        let to = self.to.join(STORE).join(identity::OWNER);
        self.files.push(to.clone());
        let (len, crc) = copier.unsynced(&from, &to)?;
        self.disk.open(&to, OpenMode::ReadWrite)?.sync_data()?;
        self.list(&to, len, Some(crc))
    }

    /// Syncs added files and all directories.
    fn sync(&self, watch: Watch<'_>) -> Result<()> {
        let data = self.to.join(DATA);
        for file in self.files.iter().filter(|file| file.starts_with(&data)) {
            watch.check()?;
            self.disk.open(file, OpenMode::ReadWrite)?.sync_data()?;
        }
        for directory in self.directories.iter().rev() {
            self.disk.sync_dir(directory)?;
        }
        match self.directories.contains(&self.to) {
            true => Ok(()),
            false => self.disk.sync_dir(&self.to),
        }
    }

    /// Removes the destination's files. Files it cannot remove stay, without [`INFO`], so they are no backup.
    fn remove_all(&self) {
        let gone = |path: &PathBuf| -> Result<()> {
            match self.disk.exists(path)? {
                true => self.disk.remove(path),
                false => Ok(()),
            }
        };
        let mut left = None;
        // The last one first: it is the one that makes a backup of the others.
        for file in self.files.iter().rev() {
            left = left.or(gone(file).err());
        }
        for directory in self.directories.iter().rev() {
            left = left.or(self.disk.remove_dir(directory).err());
        }
        if let Some(error) = left {
            let what = format!("what an unfinished backup left in {} stays: {error}", self.to.display());
            self.store.log(LogLevel::Warn, &what);
        }
    }
}

impl Drop for Backup {
    fn drop(&mut self) {
        if !self.finished {
            self.remove_all();
        }
        // Files that only the backup kept can go.
        self.point = None;
        self.store.unlink_unused();
        self.maintenance.backup_runs.store(false, Ordering::Release);
    }
}
