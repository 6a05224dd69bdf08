//! The owner of the current version. It recovers the version from the manifest, applies edits (to the
//! manifest first), and tracks live files; obsolete files are unlinked.
//!
//! One lock serialises edits and is held across their sync. Readers never take it.

mod manifests;
pub(super) mod obsolete;
mod plan;
mod state;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use arc_swap::ArcSwap;

use crate::cache::BlockCache;
use crate::error::{Error, Result};
use crate::host::{HashMap, HashSet};
use crate::io::{DirectoryLock, Disk};
use crate::mutant::{self, Mutant};
use crate::options::{FamilyOptions, FormatVersion};
use crate::sync::{note, Mutex};
use crate::table::{next_table_offset, SsTable, SsTableMeta, TableStore};
use crate::types::{FamilyId, FileNo, MemtableId};
use crate::value_holds::ValueFile;
use crate::values::{NewFiles, Separation, ValueFiles};

use self::obsolete::{Obsolete, ObsoleteFiles};
use self::plan::{plan, FileRecord, Opening, Plan, Replay};
use super::edit::{Edit, NewFile};
use super::manifest::{self, ManifestWriter};
use super::{LiveFile, TableHandle, Version};

pub(crate) use self::state::next_format;
pub use self::state::StoreState;

/// Purpose of an opening.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenFor {
    /// Reading. Nothing on disk changes.
    Read,
    /// Reading. Without a `CURRENT` the only whole manifest counts.
    Salvage,
    /// Writing. An absent store is an error.
    Write,
    /// Writing. An absent store is created.
    WriteOrCreate,
}

/// Live and dead bytes of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileUse {
    /// The file's number.
    pub number: FileNo,
    /// Length in bytes.
    pub len: u64,
    /// Bytes of the live tables, each rounded up to whole pages.
    pub live: u64,
    /// Families with a live table in the file, ascending.
    pub families: Vec<FamilyId>,
}

impl FileUse {
    /// Bytes of dead tables.
    pub fn dead(&self) -> u64 {
        self.len.saturating_sub(self.live)
    }
}

struct Writer {
    /// `None` after a failure of the last manifest: the next edit starts a new one.
    manifest: Option<ManifestWriter>,
    /// Version of the next manifest: [`VersionSet::format`], once the opening is over.
    format: FormatVersion,
    state: StoreState,
    files: HashMap<FileNo, FileRecord>,
    /// Families dropped in this epoch; later additions to them by running jobs are ignored.
    dropped: HashSet<FamilyId>,
    /// Files of failed edits. The manifest in force may or may not name them.
    in_doubt: Vec<Obsolete>,
    /// Manifests to unlink once the next switch is durable.
    stale_manifests: Vec<FileNo>,
}

/// A file pinned by transactions until an edit names it. A prepare refused and tried again pins its file
/// twice.
#[derive(Debug)]
struct PinnedFile {
    file: Arc<LiveFile>,
    pins: u32,
}

/// The versions of a store. All threads share it.
pub struct VersionSet {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    tables: Arc<TableStore>,
    values: Arc<ValueFiles>,
    cache: Arc<BlockCache>,
    current: ArcSwap<Version>,
    next_file: AtomicU64,
    /// The lowest file number of this epoch.
    first_new_file: FileNo,
    obsolete: Arc<ObsoleteFiles>,
    /// Files pinned although no version names them, until an edit names them or their maker gives them up.
    pinned: Mutex<HashMap<FileNo, PinnedFile>>,
    /// Its manifest is `None` in a store open for reading.
    writer: Mutex<Writer>,
    /// Files named by the manifest or the log but missing at the opening, with the families of their tables.
    missing: Mutex<BTreeMap<FileNo, BTreeSet<FamilyId>>>,
    read_only: bool,
    format: FormatVersion,
    /// The directory's lock, owned by the store.
    lock: OnceLock<Weak<dyn DirectoryLock>>,
}

/// The number of the manifest to read; for a salvage the only one that is there, if `CURRENT` names none.
fn current_manifest(disk: &dyn Disk, dir: &Path, purpose: OpenFor) -> Result<Option<FileNo>> {
    match manifest::read_current(disk, dir) {
        Ok(None) | Err(Error::Corruption { .. }) if purpose == OpenFor::Salvage => {
            match manifest::find_only(disk, dir)? {
                Some(only) => Ok(Some(only)),
                None => manifest::read_current(disk, dir),
            }
        }
        named => named,
    }
}

/// A number above those of all files. Numbers of files that a crash left behind are not used again.
fn number_after(names: &[String]) -> FileNo {
    let number =
        |name: &String| TableStore::number_of_any(name).or_else(|| manifest::parse_manifest_name(name));
    names.iter().filter_map(number).max().unwrap_or(0) + 1
}

/// An error, if a store may not be made in a directory without a manifest.
fn check_new(dir: &Path, tables: &TableStore, on_disk: &HashSet<FileNo>, purpose: OpenFor) -> Result<()> {
    if let Some(number) = on_disk.iter().min() {
        let what = format!("{} is missing, and this table exists", manifest::CURRENT);
        return Err(tables.damage(*number, what));
    }
    if purpose != OpenFor::WriteOrCreate {
        return Err(Error::InvalidArgument(format!("there is no store in {}", dir.display())));
    }
    Ok(())
}

impl VersionSet {
    /// Recovers the versions of the store in `dir`. For writing, also raises the epoch by one and starts a
    /// new manifest durably; on a full disk the present manifest continues. Files not named by the manifest
    /// stay until [`Self::remove_unknown_files`]. A missing file costs only its tables, whose reads fail
    /// ([`Self::missing`]).
    ///
    /// Errors: damage of `CURRENT` or the manifest, I/O.
    pub fn open(
        disk: Arc<dyn Disk>,
        dir: &Path,
        tables: Arc<TableStore>,
        cache: Arc<BlockCache>,
        purpose: OpenFor,
    ) -> Result<VersionSet> {
        VersionSet::open_at_least(FormatVersion::One, disk, dir, tables, cache, purpose)
    }

    /// Like [`Self::open`]. For writing, a store of a lower version than `least`, or than it has asked for
    /// (`next_format`), moves to it, durably, by its new manifest; on a full disk it stays.
    pub fn open_at_least(
        least: FormatVersion,
        disk: Arc<dyn Disk>,
        dir: &Path,
        tables: Arc<TableStore>,
        cache: Arc<BlockCache>,
        purpose: OpenFor,
    ) -> Result<VersionSet> {
        let current = current_manifest(&*disk, dir, purpose)?;
        let mut names = Vec::new();
        if current.is_some() || disk.exists(dir)? {
            names = disk.list(dir)?;
        }
        let on_disk: HashSet<FileNo> = tables.list()?.into_iter().collect();
        let values = ValueFiles::new(tables.value_files(), Arc::clone(&cache));
        let obsolete = Arc::new(ObsoleteFiles::default());
        let mut version = Version::empty();
        if current.is_none() {
            // A new store: every family is counted.
            version.row_counts.count_from(0);
        }
        let mut replay = Replay {
            version,
            state: StoreState::default(),
            files: HashMap::default(),
            next_file: 1,
            tables: &tables,
            values: &values,
            cache: &cache,
            obsolete: &obsolete,
        };
        let format = match current {
            Some(number) => replay.read(&*disk, dir, number)?,
            None => {
                check_new(dir, &tables, &on_disk, purpose)?;
                disk.create_dir_all(dir)?;
                FormatVersion::One
            }
        };
        let Replay { version, state, files, next_file, .. } = replay;
        let least = least.max(state.next_format());
        let gone = files.iter().filter(|(number, _)| !on_disk.contains(number));
        let missing =
            gone.map(|(&number, record)| (number, record.tables.keys().copied().collect())).collect();
        let next_file = next_file.max(number_after(&names));
        let read_only = matches!(purpose, OpenFor::Read | OpenFor::Salvage);
        let writer = Writer {
            manifest: None,
            format: match (read_only, mutant::is(Mutant::MovesBack)) {
                (true, _) => format,
                (false, true) => least,
                (false, false) => format.max(least),
            },
            state,
            files,
            dropped: HashSet::default(),
            in_doubt: Vec::new(),
            stale_manifests: current.into_iter().collect(),
        };
        let mut set = VersionSet {
            format: writer.format,
            disk,
            dir: dir.to_path_buf(),
            tables,
            values,
            cache,
            current: ArcSwap::from_pointee(version),
            next_file: AtomicU64::new(next_file),
            first_new_file: next_file,
            obsolete,
            pinned: Mutex::default(),
            writer: Mutex::new(writer),
            missing: Mutex::new(missing),
            read_only,
            lock: OnceLock::new(),
        };
        if !read_only {
            let mut writer = set.writer.lock();
            writer.state.epoch += 1;
            set.take_over(&mut writer, current)?;
            let reached = writer.format;
            drop(writer);
            if current.is_some() && reached > format {
                note("edit: higher format");
            }
            set.format = reached;
        }
        Ok(set)
    }

    /// True if a directory has no store yet.
    ///
    /// Errors: damage of `CURRENT`, I/O.
    pub fn is_missing(disk: &dyn Disk, dir: &Path) -> Result<bool> {
        Ok(manifest::read_current(disk, dir)?.is_none())
    }

    /// Sets the directory's lock. From now on nothing is written or unlinked unless `lock` still excludes
    /// others.
    pub fn guard_with(&self, lock: &Arc<dyn DirectoryLock>) {
        let _ = self.lock.set(Arc::downgrade(lock));
    }

    /// Fails if the directory is a different one, or other processes may have access.
    pub(super) fn check_lock(&self) -> Result<()> {
        match self.lock.get().and_then(Weak::upgrade) {
            Some(lock) => lock.confirm().map(|_| ()),
            None => Ok(()),
        }
    }

    /// The current version. Takes no lock.
    #[inline]
    pub fn current(&self) -> Arc<Version> {
        self.current.load_full()
    }

    /// The current version for a short look, at less cost than [`Self::current`].
    #[inline]
    pub fn load(&self) -> arc_swap::Guard<Arc<Version>> {
        self.current.load()
    }

    /// The manifest's state apart from files and tables.
    pub fn state(&self) -> StoreState {
        self.writer.lock().state.clone()
    }

    /// Version of the formats of the store's new files.
    pub fn format(&self) -> FormatVersion {
        self.format
    }

    /// The whole state as the first edit of another manifest, and its version, which keeps the files alive.
    pub fn capture(&self) -> (Edit, Arc<Version>) {
        let writer = self.writer.lock();
        (self.snapshot(&writer), self.current.load_full())
    }

    /// A fresh file number.
    pub fn new_file_number(&self) -> FileNo {
        self.next_file.fetch_add(1, Ordering::Relaxed)
    }

    /// Gives up a job's file that no edit has named yet. It is unlinked later.
    pub fn discard_file(&self, number: FileNo) {
        self.obsolete.push_table(number);
    }

    /// A private file of a job or transaction: unlinked after its last handle is dropped, unless it is
    /// pinned.
    pub fn private_file(&self, number: FileNo, len: u64) -> Arc<LiveFile> {
        let file = LiveFile::new(number, len, &self.obsolete);
        file.set_obsolete();
        file
    }

    /// Pins the file, which stays even without handles until an edit names it; the life of its tables then
    /// decides. Otherwise each call needs its [`VersionSet::unpin_file`].
    pub fn pin_file(&self, file: &Arc<LiveFile>) {
        file.clear_obsolete();
        let mut pinned = self.pinned.lock();
        let pin = pinned.entry(file.number());
        pin.or_insert_with(|| PinnedFile { file: Arc::clone(file), pins: 0 }).pins += 1;
    }

    /// Ends one [`Self::pin_file`]. After the last one an unnamed file is unlinked when its last handle is
    /// dropped.
    pub fn unpin_file(&self, file: &Arc<LiveFile>) {
        let mut pinned = self.pinned.lock();
        let Some(pin) = pinned.get_mut(&file.number()) else { return };
        pin.pins -= 1;
        if pin.pins == 0 {
            pinned.remove(&file.number());
            file.set_obsolete();
        }
    }

    /// Opens a table in a file outside of the versions.
    pub fn open_table(&self, file: &Arc<LiveFile>, meta: SsTableMeta, generation: MemtableId) -> TableHandle {
        let (tables, cache) = (Arc::clone(&self.tables), Arc::clone(&self.cache));
        let holds = self.holds_of(&meta);
        let table = SsTable::open(tables, cache, file.number(), meta);
        TableHandle { table, file: Arc::clone(file), mirror: None, generation, values: holds }
    }

    /// Holds on the value files of a table outside of the versions, as far as the manifest names them.
    fn holds_of(&self, meta: &SsTableMeta) -> Arc<[Arc<ValueFile>]> {
        meta.values.iter().filter_map(|of| self.values.hold(of.file)).collect()
    }

    /// Files named by the manifest or the log but missing at the opening, with the families of their tables.
    pub fn missing(&self) -> BTreeMap<FileNo, BTreeSet<FamilyId>> {
        self.missing.lock().clone()
    }

    /// Notes a missing file that the log names, with tables of `families`.
    pub fn note_missing(&self, number: FileNo, families: impl IntoIterator<Item = FamilyId>) {
        self.missing.lock().entry(number).or_default().extend(families);
    }

    /// The file among `inputs` of a job to which a read error belongs, be it damage or I/O.
    pub fn unreadable_input(&self, error: &Error, inputs: &[FileNo]) -> Option<FileNo> {
        self.tables.file_of(error).filter(|number| inputs.contains(number))
    }

    /// The store's disk.
    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// The store's directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The cache of the files' blocks.
    pub fn cache(&self) -> &Arc<BlockCache> {
        &self.cache
    }

    /// The files of the tables.
    pub fn table_files(&self) -> &Arc<TableStore> {
        &self.tables
    }

    /// The value files.
    pub fn values(&self) -> &Arc<ValueFiles> {
        &self.values
    }

    /// Moves the long values of a family with these options to value files, which version 2 of the formats has; `None`: they
    /// stay in their entries.
    pub(crate) fn separation<'a>(
        &'a self,
        options: &FamilyOptions,
        new: &'a dyn NewFiles,
    ) -> Option<Separation<'a>> {
        let is_possible = self.format == FormatVersion::Two;
        is_possible.then(|| Separation::of_family(&self.values, options, new)).flatten()
    }

    /// Gives up a new value file that no edit has named.
    pub fn discard_value_file(&self, number: FileNo) {
        self.obsolete.push(Obsolete::Values(number));
    }

    /// Applies an edit: writes it to the manifest, syncs, and makes the next version current. Returns the
    /// next version. Parts for families dropped in this epoch are left out. Files without a live table are
    /// unlinked later.
    ///
    /// Before the call, the caller syncs the new files, their directory, and the log up to the newest commit
    /// in them. From the call on the version set owns the new files, even after an error.
    ///
    /// Errors: `InvalidArgument` for an edit that does not fit the current version (nothing is written); I/O.
    /// After an I/O error the old version stays current, and the next edit starts a new manifest. The same
    /// tables may be offered again in new files.
    pub fn apply(&self, mut edit: Edit) -> Result<Arc<Version>> {
        if self.read_only {
            return Err(Error::ReadOnly("it is open for reading".into()));
        }
        self.check_lock()?;
        let writer = &mut *self.writer.lock();
        edit.next_file = Some(self.next_file.load(Ordering::Relaxed));
        let pinned: HashMap<FileNo, Arc<LiveFile>> =
            self.pinned.lock().iter().map(|(&number, pin)| (number, Arc::clone(&pin.file))).collect();
        // Pins outlive a failure: the same files are offered again.
        let offered: Vec<FileNo> =
            edit.new_files.iter().map(|file| file.number).filter(|n| !pinned.contains_key(n)).collect();
        let already_pinned: Vec<FileNo> =
            edit.new_files.iter().map(|file| file.number).filter(|n| pinned.contains_key(n)).collect();
        edit.new_tables.retain(|new| !writer.dropped.contains(&new.meta.family));
        edit.removed_tables.retain(|(family, _)| !writer.dropped.contains(family));
        edit.cursors.retain(|(family, _, _)| !writer.dropped.contains(family));
        edit.row_counts.retain(|(family, _)| !writer.dropped.contains(family));
        let named: HashSet<FileNo> =
            edit.new_tables.iter().flat_map(|new| [new.file, new.meta.mirror]).collect();
        edit.new_files.retain(|file| named.contains(&file.number));

        let current = self.current.load_full();
        let plan = self
            .plan(&current, &writer.files, &pinned, &edit)
            .map_err(|e| Error::InvalidArgument(format!("the edit does not fit the version: {e}")));
        let plan = match plan {
            Ok(plan) => plan,
            Err(error) => {
                offered.iter().for_each(|&number| self.obsolete.push_table(number));
                return Err(error);
            }
        };
        edit.deleted_files = plan.dead.clone();
        if mutant::is(Mutant::UnlinkedBeforeEdit) {
            plan.dead.iter().try_for_each(|&number| self.tables.remove(number))?;
        }
        if let Err(failure) = self.write(writer, &edit) {
            let tables = offered.into_iter().map(Obsolete::Table);
            let offered = tables.chain(edit.value_files.iter().copied().map(Obsolete::Values));
            match failure.begun {
                true => writer.in_doubt.extend(offered),
                // No manifest names the files.
                false => offered.for_each(|file| self.obsolete.push(file)),
            }
            return Err(failure.error);
        }

        edit.note();
        writer.state.apply(&edit);
        writer.dropped.extend(&edit.dropped_families);
        plan.install(&mut writer.files);
        edit.value_files.iter().for_each(|&number| self.values.note_named(number));
        for &number in &edit.ended_value_files {
            self.values.note_ended(number);
            self.obsolete.push(Obsolete::Values(number));
        }
        offered.iter().filter(|n| !named.contains(n)).for_each(|&n| self.obsolete.push_table(n));
        for number in already_pinned {
            let pin = self.pinned.lock().remove(&number);
            if let Some(pin) = pin.filter(|_| !named.contains(&number)) {
                pin.file.set_obsolete();
            }
        }
        let next = Arc::new(plan.version);
        self.current.store(Arc::clone(&next));
        Ok(next)
    }

    /// Live and dead bytes of the files, by number. Only files with dead bytes list their families.
    pub fn file_uses(&self) -> Vec<FileUse> {
        let writer = self.writer.lock();
        let of = |record: &FileRecord| {
            let live: u64 = record.tables.values().map(|&len| next_table_offset(len)).sum();
            let mut file = FileUse {
                number: record.file.number(),
                len: record.file.len(),
                // The last table does not fill its page.
                live: live.min(record.file.len()),
                families: Vec::new(),
            };
            if file.dead() > 0 {
                file.families.extend(record.tables.keys());
            }
            file
        };
        let mut files: Vec<FileUse> = writer.files.values().map(of).collect();
        files.sort_by_key(|file| file.number);
        files
    }

    /// Numbers and lengths of all files in the manifest, and the manifest's number.
    pub fn live_files(&self) -> (Vec<NewFile>, Option<FileNo>) {
        let writer = self.writer.lock();
        let mut files: Vec<NewFile> = writer
            .files
            .values()
            .map(|record| NewFile { number: record.file.number(), len: record.file.len() })
            .collect();
        files.sort_by_key(|file| file.number);
        (files, writer.manifest.as_ref().map(ManifestWriter::number))
    }

    fn plan(
        &self,
        current: &Version,
        files: &HashMap<FileNo, FileRecord>,
        pinned: &HashMap<FileNo, Arc<LiveFile>>,
        edit: &Edit,
    ) -> std::result::Result<Plan, String> {
        let (tables, values) = (&self.tables, &self.values);
        let open = Opening { pinned, tables, values, cache: &self.cache, obsolete: &self.obsolete };
        plan(current, files, edit, &open)
    }
}

impl std::fmt::Debug for VersionSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "VersionSet({}, {:?})", self.dir.display(), self.load())
    }
}
