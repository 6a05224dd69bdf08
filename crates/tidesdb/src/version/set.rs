//! The owner of the current version: recovers it from the manifest, applies edits (manifest first, then the
//! version), knows which files are live and unlinks those that are not.
//!
//! One lock serialises edits and is held across their sync; readers never take it.

mod manifests;
pub(super) mod obsolete;
mod plan;
mod state;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use arc_swap::ArcSwap;

use crate::cache::BlockCache;
use crate::error::{Error, Result};
use crate::io::{DirectoryLock, Disk};
use crate::sync::Mutex;
use crate::table::{next_table_offset, SsTable, SsTableMeta, TableStore};
use crate::types::{FamilyId, FileNo, MemtableId};

use self::obsolete::ObsoleteFiles;
use self::plan::{plan, Opening, Plan, Replay};
use super::edit::{Edit, NewFile};
use super::manifest::{self, ManifestWriter};
use super::{LiveFile, TableHandle, Version};

pub use self::state::StoreState;

/// What a store is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenFor {
    /// Reading; nothing on disk changes.
    Read,
    /// Reading, and where `CURRENT` is lost the only manifest counts.
    Salvage,
    /// Writing; an error if there is no store.
    Write,
    /// Writing; a store is made if there is none.
    WriteOrCreate,
}

/// How a file is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileUse {
    /// Its number.
    pub number: FileNo,
    /// Its length in bytes.
    pub len: u64,
    /// Bytes of its live tables, each rounded up to whole pages.
    pub live: u64,
    /// The families that have a live table in it, ascending.
    pub families: Vec<FamilyId>,
}

impl FileUse {
    /// Bytes of tables that nobody needs.
    pub fn dead(&self) -> u64 {
        self.len.saturating_sub(self.live)
    }
}

struct FileRecord {
    file: Arc<LiveFile>,
    /// Bytes of each family's table.
    tables: BTreeMap<FamilyId, u64>,
}

struct Writer {
    /// `None`: the next edit begins a new manifest, because the last one failed.
    manifest: Option<ManifestWriter>,
    state: StoreState,
    files: HashMap<FileNo, FileRecord>,
    /// Families dropped in this epoch: what a running job still adds to them is ignored.
    dropped: HashSet<FamilyId>,
    /// Files of failed edits, which the manifest in force may or may not name.
    limbo: Vec<FileNo>,
    /// Manifests that are out of force once the next switch is durable.
    stale_manifests: Vec<FileNo>,
}

/// A file that transactions keep until an edit names it. A prepare that is refused and tried again keeps it twice.
#[derive(Debug)]
struct Guest {
    file: Arc<LiveFile>,
    keepers: u32,
}

/// The versions of a store. Shared by all threads.
pub struct VersionSet {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    tables: Arc<TableStore>,
    cache: Arc<BlockCache>,
    current: ArcSwap<Version>,
    next_file: AtomicU64,
    /// Files from this number on were made in this epoch.
    first_new_file: FileNo,
    obsolete: Arc<ObsoleteFiles>,
    /// Files that stay although no version names them: an edit will, or their maker gives them up.
    guests: Mutex<HashMap<FileNo, Guest>>,
    /// `None`: open for reading.
    writer: Mutex<Writer>,
    /// Files that manifest or log name and that were not there when the store was opened, with the families of their
    /// tables.
    missing: Mutex<BTreeMap<FileNo, BTreeSet<FamilyId>>>,
    read_only: bool,
    /// The directory's lock, which the store holds.
    lock: OnceLock<Weak<dyn DirectoryLock>>,
}

impl VersionSet {
    /// Recovers the versions of the store in `dir`; for writing, also begins a new manifest with the epoch
    /// raised by one, durably, or on a full disk goes on with the one that is there. Files that the manifest does not
    /// name stay until [`Self::remove_unknown_files`]. A named file that is missing costs its tables alone: reading them
    /// fails ([`Self::missing`]).
    ///
    /// Errors: damage of `CURRENT` or the manifest, I/O.
    pub fn open(
        disk: Arc<dyn Disk>,
        dir: &Path,
        tables: Arc<TableStore>,
        cache: Arc<BlockCache>,
        purpose: OpenFor,
    ) -> Result<VersionSet> {
        let current = match manifest::read_current(&*disk, dir) {
            Ok(None) | Err(Error::Corruption { .. }) if purpose == OpenFor::Salvage => {
                match manifest::find_only(&*disk, dir)? {
                    Some(only) => Some(only),
                    None => manifest::read_current(&*disk, dir)?,
                }
            }
            named => named?,
        };
        let mut names = Vec::new();
        if current.is_some() || disk.exists(dir)? {
            names = disk.list(dir)?;
        }
        let on_disk: HashSet<FileNo> = tables.list()?.into_iter().collect();
        let obsolete = Arc::new(ObsoleteFiles::default());
        let mut version = Version::empty();
        if current.is_none() {
            // A new store: every family is counted.
            version.row_counts.count_from(0);
        }
        let mut replay = Replay {
            version,
            state: StoreState::default(),
            files: HashMap::new(),
            next_file: 1,
            tables: &tables,
            cache: &cache,
            obsolete: &obsolete,
        };
        if let Some(number) = current {
            let path = dir.join(manifest::manifest_name(number));
            for (ordinal, edit) in manifest::read_manifest(&*disk, dir, number)?.iter().enumerate() {
                replay
                    .apply(edit)
                    .map_err(|e| Error::corruption(&path, 0, format!("edit {ordinal} does not fit: {e}")))?;
            }
        } else {
            if let Some(number) = on_disk.iter().min() {
                let what = format!("{} is missing, and this table exists", manifest::CURRENT);
                return Err(tables.damage(*number, what));
            }
            if purpose != OpenFor::WriteOrCreate {
                return Err(Error::InvalidArgument(format!("there is no store in {}", dir.display())));
            }
            disk.create_dir_all(dir)?;
        }
        let Replay { version, state, files, mut next_file, .. } = replay;
        let gone = files.iter().filter(|(number, _)| !on_disk.contains(number));
        let missing =
            gone.map(|(&number, record)| (number, record.tables.keys().copied().collect())).collect();
        // Numbers of files that a crash left behind are not used again.
        let manifests = names.iter().filter_map(|name| manifest::parse_manifest_name(name));
        next_file = on_disk.iter().copied().chain(manifests).chain([next_file - 1]).fold(0, FileNo::max) + 1;
        let read_only = matches!(purpose, OpenFor::Read | OpenFor::Salvage);
        let writer = Writer {
            manifest: None,
            state,
            files,
            dropped: HashSet::new(),
            limbo: Vec::new(),
            stale_manifests: current.into_iter().collect(),
        };
        let set = VersionSet {
            disk,
            dir: dir.to_path_buf(),
            tables,
            cache,
            current: ArcSwap::from_pointee(version),
            next_file: AtomicU64::new(next_file),
            first_new_file: next_file,
            obsolete,
            guests: Mutex::default(),
            writer: Mutex::new(writer),
            missing: Mutex::new(missing),
            read_only,
            lock: OnceLock::new(),
        };
        if !read_only {
            let mut writer = set.writer.lock();
            writer.state.epoch += 1;
            set.take_over(&mut writer, current)?;
        }
        Ok(set)
    }

    /// From now on nothing is written or unlinked unless `lock` still keeps others out of the directory.
    pub fn guard_with(&self, lock: &Arc<dyn DirectoryLock>) {
        let _ = self.lock.set(Arc::downgrade(lock));
    }

    /// Error when the directory is another one, or others may have come in.
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

    /// A cheaper way to look at the current version; not for holding long.
    #[inline]
    pub fn load(&self) -> arc_swap::Guard<Arc<Version>> {
        self.current.load()
    }

    /// What the manifest says beside files and tables.
    pub fn state(&self) -> StoreState {
        self.writer.lock().state.clone()
    }

    /// The whole state as the first edit of a manifest elsewhere, and the version that it describes, which keeps
    /// its files.
    pub fn capture(&self) -> (Edit, Arc<Version>) {
        let writer = self.writer.lock();
        (self.snapshot(&writer), self.current.load_full())
    }

    /// A file number that was never given out.
    pub fn new_file_number(&self) -> FileNo {
        self.next_file.fetch_add(1, Ordering::Relaxed)
    }

    /// Gives up a file that a job made and that no edit was offered with; unlinked later.
    pub fn discard_file(&self, number: FileNo) {
        self.obsolete.push_table(number);
    }

    /// A file of a job or transaction: unlinked when the last handle to it is gone, unless it was kept.
    pub fn private_file(&self, number: FileNo, len: u64) -> Arc<LiveFile> {
        let file = LiveFile::new(number, len, &self.obsolete);
        file.set_obsolete();
        file
    }

    /// From now on the file stays, whoever drops it, until an edit names it (its life is then that of its
    /// tables) or each call of this has its [`VersionSet::give_up_file`].
    pub fn keep_file(&self, file: &Arc<LiveFile>) {
        file.set_kept();
        let mut guests = self.guests.lock();
        let guest = guests.entry(file.number());
        guest.or_insert_with(|| Guest { file: Arc::clone(file), keepers: 0 }).keepers += 1;
    }

    /// A file that nobody keeps any more, and that no edit named, is unlinked when the last handle to it is gone.
    pub fn give_up_file(&self, file: &Arc<LiveFile>) {
        let mut guests = self.guests.lock();
        let Some(guest) = guests.get_mut(&file.number()) else { return };
        guest.keepers -= 1;
        if guest.keepers == 0 {
            guests.remove(&file.number());
            file.set_obsolete();
        }
    }

    /// A table in a file, for reads beside the versions.
    pub fn open_table(&self, file: &Arc<LiveFile>, meta: SsTableMeta, generation: MemtableId) -> TableHandle {
        let (tables, cache) = (Arc::clone(&self.tables), Arc::clone(&self.cache));
        let table = SsTable::open(tables, cache, file.number(), meta);
        TableHandle { table, file: Arc::clone(file), twin: None, generation }
    }

    /// The files that manifest or log name and that were not there at the opening, with the families of their tables.
    pub fn missing(&self) -> BTreeMap<FileNo, BTreeSet<FamilyId>> {
        self.missing.lock().clone()
    }

    /// Notes that a file which the log names, with tables of `families`, is not there.
    pub fn note_missing(&self, number: FileNo, families: impl IntoIterator<Item = FamilyId>) {
        self.missing.lock().entry(number).or_default().extend(families);
    }

    /// Which of `inputs`, files of a job, an error says cannot be read: damage, or an I/O error of that file.
    pub fn unreadable_input(&self, error: &Error, inputs: &[FileNo]) -> Option<FileNo> {
        self.tables.file_of(error).filter(|number| inputs.contains(number))
    }

    /// The disk that the store stands on.
    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// The store's directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Blocks of the files.
    pub fn cache(&self) -> &Arc<BlockCache> {
        &self.cache
    }

    /// The files of the tables.
    pub fn table_files(&self) -> &Arc<TableStore> {
        &self.tables
    }

    /// Applies an edit: writes it to the manifest, syncs, and makes the next version current, which it
    /// returns. Parts that concern families dropped in this epoch are left out, and files that are then
    /// without a live table are unlinked later, as are all whose last table the edit removes.
    ///
    /// The caller synced the new files, their directory, and the log up to the newest commit in them. From the
    /// call on the new files belong to the version set, also when it fails.
    ///
    /// Errors: `InvalidArgument` for an edit that does not fit the current version (nothing is written);
    /// I/O, after which the version is the old one and the same tables may be offered again under new
    /// files: the next edit begins a new manifest.
    pub fn apply(&self, mut edit: Edit) -> Result<Arc<Version>> {
        if self.read_only {
            return Err(Error::ReadOnly("it is open for reading".into()));
        }
        self.check_lock()?;
        let writer = &mut *self.writer.lock();
        edit.next_file = Some(self.next_file.load(Ordering::Relaxed));
        let guests: HashMap<FileNo, Arc<LiveFile>> =
            self.guests.lock().iter().map(|(&number, guest)| (number, Arc::clone(&guest.file))).collect();
        // Guests outlive a failure: the same files are offered again.
        let offered: Vec<FileNo> =
            edit.new_files.iter().map(|file| file.number).filter(|n| !guests.contains_key(n)).collect();
        let hosted: Vec<FileNo> =
            edit.new_files.iter().map(|file| file.number).filter(|n| guests.contains_key(n)).collect();
        edit.new_tables.retain(|new| !writer.dropped.contains(&new.meta.family));
        edit.removed_tables.retain(|(family, _)| !writer.dropped.contains(family));
        edit.cursors.retain(|(family, _, _)| !writer.dropped.contains(family));
        edit.row_counts.retain(|(family, _)| !writer.dropped.contains(family));
        let named: HashSet<FileNo> =
            edit.new_tables.iter().flat_map(|new| [new.file, new.meta.twin]).collect();
        edit.new_files.retain(|file| named.contains(&file.number));

        let current = self.current.load_full();
        let plan = self
            .plan(&current, &writer.files, &guests, &edit)
            .map_err(|e| Error::InvalidArgument(format!("the edit does not fit the version: {e}")));
        let plan = match plan {
            Ok(plan) => plan,
            Err(error) => {
                offered.iter().for_each(|&number| self.obsolete.push_table(number));
                return Err(error);
            }
        };
        edit.deleted_files = plan.dead.clone();
        if let Err(failure) = self.write(writer, &edit) {
            match failure.begun {
                true => writer.limbo.extend(offered),
                // No manifest names the files.
                false => offered.iter().for_each(|&number| self.obsolete.push_table(number)),
            }
            return Err(failure.error);
        }

        writer.state.apply(&edit);
        writer.dropped.extend(&edit.dropped_families);
        plan.install(&mut writer.files);
        offered.iter().filter(|n| !named.contains(n)).for_each(|&n| self.obsolete.push_table(n));
        for number in hosted {
            let guest = self.guests.lock().remove(&number);
            if let Some(guest) = guest.filter(|_| !named.contains(&number)) {
                guest.file.set_obsolete();
            }
        }
        let next = Arc::new(plan.version);
        self.current.store(Arc::clone(&next));
        Ok(next)
    }

    /// How the files are used, by number. Families are listed of those with dead bytes alone.
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

    /// Numbers and lengths of all files that the manifest names, and the number of the manifest.
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
        guests: &HashMap<FileNo, Arc<LiveFile>>,
        edit: &Edit,
    ) -> std::result::Result<Plan, String> {
        let open = Opening { guests, tables: &self.tables, cache: &self.cache, obsolete: &self.obsolete };
        plan(current, files, edit, &open)
    }
}

impl std::fmt::Debug for VersionSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "VersionSet({}, {:?})", self.dir.display(), self.load())
    }
}
