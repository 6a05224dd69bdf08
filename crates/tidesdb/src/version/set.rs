//! The owner of the current version: recovers it from the manifest, applies edits (manifest first, then the
//! version), knows which files are live and unlinks those that are not.
//!
//! One lock serialises edits and is held across their sync; readers never take it.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::Mutex;

use crate::cache::{BlockCache, FileCache};
use crate::error::{Error, Result};
use crate::io::Disk;
use crate::table::{next_table_offset, SsTable, SsTableMeta};
use crate::types::{FamilyId, FileNo, LogSegment, Lsn, MemtableId, Seq};

use super::edit::{Cut, Edit, NewFile, NewTable};
use super::manifest::{self, ManifestWriter, Need};
use super::{Change, LiveFile, TableHandle, Version};

/// A manifest is rewritten when it is longer than this and than `ROTATE_FACTOR` times its snapshot: rewriting
/// then costs at most a quarter of what was appended.
const ROTATE_LEN: u64 = 1 << 20;
const ROTATE_FACTOR: u64 = 4;

/// What a store is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenFor {
    /// Reading; nothing on disk changes.
    Read,
    /// Writing; an error if there is no store.
    Write,
    /// Writing; a store is made if there is none.
    WriteOrCreate,
}

/// What the manifest says beside files and tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreState {
    /// Number of openings for writing, this one included.
    pub epoch: u64,
    /// First live segment of the write-ahead log; recovery ignores lower ones.
    pub first_live_segment: u32,
    /// Joints between epochs of the log.
    pub cuts: Vec<Cut>,
    /// Segments of the log whose files exist, by id. None below the first live one.
    pub log_segments: BTreeMap<u32, LogSegment>,
    /// A position up to which the log was durable.
    pub durable_upto: Lsn,
    /// The newest commit that is in a table.
    pub last_seq: Seq,
    /// The newest generation whose tables are all named.
    pub last_generation: MemtableId,
    /// Transaction ids from here on were never given out.
    pub transaction_ceiling: u64,
    /// The second that the expiry clock has reached; `None`: no entry with an expiry was ever written.
    pub expiry_clock: Option<u64>,
    /// The second that the expiry clock did not pass; `None`: an earlier build said nothing.
    pub expiry_reserved: Option<u64>,
    /// The epoch from which on puts may be unmarked; `None`: every put is marked "may overwrite".
    pub proven_from: Option<u64>,
    /// Remembered options, by name.
    pub options: BTreeMap<String, String>,
}

impl StoreState {
    fn apply(&mut self, edit: &Edit) {
        self.epoch = edit.epoch.unwrap_or(self.epoch);
        self.first_live_segment = self.first_live_segment.max(edit.first_live_segment.unwrap_or(0));
        let above = edit.log_forgotten_above.unwrap_or(u32::MAX);
        self.log_segments.retain(|&id, _| id <= above);
        self.log_segments.extend(edit.log_segments.iter().map(|segment| (segment.id, *segment)));
        self.log_segments.retain(|&id, _| id >= self.first_live_segment);
        self.cuts.retain(|cut| !edit.cuts_removed.contains(&cut.at.segment()));
        self.cuts.extend(&edit.cuts);
        self.durable_upto = self.durable_upto.max(edit.durable_upto.unwrap_or_default());
        self.last_seq = self.last_seq.max(edit.last_seq.unwrap_or(0));
        self.last_generation = self.last_generation.max(edit.last_generation.unwrap_or(0));
        self.transaction_ceiling = self.transaction_ceiling.max(edit.transaction_ceiling.unwrap_or(0));
        self.expiry_clock = self.expiry_clock.max(edit.expiry_clock);
        self.expiry_reserved = edit.expiry_reserved.or(self.expiry_reserved);
        self.proven_from = self.proven_from.or(edit.proven_from);
        for (name, value) in &edit.options {
            if value.is_empty() {
                self.options.remove(name);
            } else {
                self.options.insert(name.clone(), value.clone());
            }
        }
    }
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

struct FileRecord {
    file: Arc<LiveFile>,
    /// Bytes of each family's table.
    tables: BTreeMap<FamilyId, u64>,
}

/// Files to unlink.
#[derive(Default)]
pub(super) struct ObsoleteFiles {
    queue: Mutex<Vec<Obsolete>>,
    /// Held while files are unlinked; the number of pauses.
    pauses: Mutex<usize>,
}

#[derive(Clone, Copy)]
enum Obsolete {
    Table(FileNo),
    Manifest(FileNo),
}

impl ObsoleteFiles {
    pub(super) fn push_table(&self, number: FileNo) {
        self.queue.lock().push(Obsolete::Table(number));
    }
}

/// While it is held no file of the store is unlinked (a backup copies what a manifest names).
pub struct DeletionPause(Arc<ObsoleteFiles>);

impl Drop for DeletionPause {
    fn drop(&mut self) {
        *self.0.pauses.lock() -= 1;
    }
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

/// The versions of a store. Shared by all threads.
pub struct VersionSet {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    tables: Arc<FileCache>,
    cache: Arc<BlockCache>,
    current: ArcSwap<Version>,
    next_file: AtomicU64,
    /// Files from this number on were made in this epoch.
    first_new_file: FileNo,
    obsolete: Arc<ObsoleteFiles>,
    /// Files that stay although no version names them: an edit will, or their maker gives them up.
    guests: Mutex<HashMap<FileNo, Arc<LiveFile>>>,
    /// `None`: open for reading.
    writer: Mutex<Writer>,
    /// Files that manifest or log name and that were not there when the store was opened, with the families of their
    /// tables.
    missing: Mutex<BTreeMap<FileNo, BTreeSet<FamilyId>>>,
    read_only: bool,
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
        tables: Arc<FileCache>,
        cache: Arc<BlockCache>,
        purpose: OpenFor,
    ) -> Result<VersionSet> {
        let current = manifest::read_current(&*disk, dir)?;
        let mut names = Vec::new();
        if current.is_some() || disk.exists(dir)? {
            names = disk.list(dir)?;
        }
        let on_disk: HashSet<FileNo> = names.iter().filter_map(|name| parse_table_name(name)).collect();
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
                return Err(Error::corruption(tables.path(*number), 0, what));
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
        let read_only = purpose == OpenFor::Read;
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
        };
        if !read_only {
            let mut writer = set.writer.lock();
            writer.state.epoch += 1;
            set.take_over(&mut writer, current)?;
        }
        Ok(set)
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
    /// tables) or [`VersionSet::give_up_file`].
    pub fn keep_file(&self, file: &Arc<LiveFile>) {
        file.set_kept();
        self.guests.lock().insert(file.number(), Arc::clone(file));
    }

    /// A file that was kept, and that no edit named, is unlinked when the last handle to it is gone.
    pub fn give_up_file(&self, file: &Arc<LiveFile>) {
        if self.guests.lock().remove(&file.number()).is_some() {
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
        let (Error::Corruption { path, .. } | Error::Io { path, .. }) = error else { return None };
        let number = parse_table_name(path.file_name()?.to_str()?)?;
        (inputs.contains(&number) && self.tables.path(number) == *path).then_some(number)
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

    /// Open table files.
    pub fn table_files(&self) -> &Arc<FileCache> {
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
        let writer = &mut *self.writer.lock();
        edit.next_file = Some(self.next_file.load(Ordering::Relaxed));
        let guests = self.guests.lock().clone();
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
        if let Err(error) = self.write(writer, &edit) {
            if writer.manifest.is_some() {
                // Nothing of the edit was written, so no manifest names the files.
                offered.iter().for_each(|&number| self.obsolete.push_table(number));
            } else {
                writer.limbo.extend(offered);
            }
            return Err(error);
        }

        writer.state.apply(&edit);
        writer.dropped.extend(&edit.dropped_families);
        plan.install(&mut writer.files);
        offered.iter().filter(|n| !named.contains(n)).for_each(|&n| self.obsolete.push_table(n));
        for number in hosted {
            let guest = self.guests.lock().remove(&number);
            if let Some(guest) = guest.filter(|_| !named.contains(&number)) {
                guest.set_obsolete();
            }
        }
        let next = Arc::new(plan.version);
        self.current.store(Arc::clone(&next));
        Ok(next)
    }

    /// Files that hold tables of several families, or did, and of which less than half is live: their
    /// survivors are worth rewriting.
    pub fn sparse_files(&self) -> Vec<FileUse> {
        let writer = self.writer.lock();
        let mut sparse: Vec<FileUse> = writer
            .files
            .values()
            .filter_map(|record| {
                let live: u64 = record.tables.values().map(|&len| next_table_offset(len)).sum();
                (live * 2 < record.file.len()).then(|| FileUse {
                    number: record.file.number(),
                    len: record.file.len(),
                    live,
                    families: record.tables.keys().copied().collect(),
                })
            })
            .collect();
        sparse.sort_by_key(|file| file.number);
        sparse
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

    /// Unlinks files that no version names any more; returns how many. For a background thread. A file that
    /// cannot be unlinked is tried again at the next call.
    pub fn delete_obsolete(&self) -> Result<usize> {
        let pauses = self.obsolete.pauses.lock();
        if *pauses > 0 || self.read_only {
            return Ok(0);
        }
        let queue = std::mem::take(&mut *self.obsolete.queue.lock());
        let tables = queue.iter().filter_map(|item| match item {
            Obsolete::Table(number) => Some(*number),
            Obsolete::Manifest(_) => None,
        });
        let mut tables: Vec<FileNo> = tables.collect();
        tables.sort_unstable();
        tables.iter().for_each(|&number| self.tables.forget(number));
        self.cache.erase_files(&tables);
        let mut failed = None;
        let mut unlinked = 0;
        for item in queue {
            let path = match item {
                Obsolete::Table(number) => self.tables.path(number),
                Obsolete::Manifest(number) => self.dir.join(manifest::manifest_name(number)),
            };
            match self
                .disk
                .exists(&path)
                .and_then(|exists| if exists { self.disk.remove(&path) } else { Ok(()) })
            {
                Ok(()) => unlinked += 1,
                Err(error) => {
                    self.obsolete.queue.lock().push(item);
                    failed = Some(error);
                }
            }
        }
        failed.map_or(Ok(unlinked), Err)
    }

    /// Holds back all unlinking until the returned value is dropped.
    pub fn pause_deletions(&self) -> DeletionPause {
        *self.obsolete.pauses.lock() += 1;
        DeletionPause(Arc::clone(&self.obsolete))
    }

    /// Unlinks tables and manifests that an earlier epoch left behind and nothing names; returns warnings: those that
    /// cannot be unlinked, and those that stay. To be called once, after the log was replayed (`docs/protocols.md` 5.2);
    /// `keep` are tables that the log names.
    ///
    /// No table goes while a named file is missing. The manifest's last edit may have rotted, where it looks like a torn
    /// tail: if that was a merge, its inputs are gone and its outputs are unknown here.
    pub fn remove_unknown_files(&self, keep: &HashSet<FileNo>) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.read_only {
            return warnings;
        }
        let writer = self.writer.lock();
        let in_force = writer.manifest.as_ref().map(ManifestWriter::number);
        let is_whole = self.missing.lock().is_empty();
        let names = self.disk.list(&self.dir).unwrap_or_else(|error| {
            warnings.push(format!("files that nothing names stay: {error}"));
            Vec::new()
        });
        for name in names {
            let unknown = match (parse_table_name(&name), manifest::parse_manifest_name(&name)) {
                (Some(n), _) => {
                    n < self.first_new_file && !writer.files.contains_key(&n) && !keep.contains(&n)
                }
                (_, Some(n)) => n < self.first_new_file && in_force != Some(n),
                _ => false,
            };
            if !unknown {
                continue;
            }
            let path = self.dir.join(&name);
            if !is_whole && parse_table_name(&name).is_some() {
                warnings
                    .push(format!("{} stays: nothing names it, and a named file is missing", path.display()));
            } else if let Err(error) = self.disk.remove(&path) {
                warnings.push(format!("a file that nothing names stays: {error}"));
            }
        }
        warnings
    }

    /// Writes an edit so that it is durable on return. After an error nothing of it was written if there still
    /// is a manifest to write to.
    fn write(&self, writer: &mut Writer, edit: &Edit) -> Result<()> {
        let full = |m: &ManifestWriter| m.bytes() > ROTATE_LEN.max(m.snapshot_bytes() * ROTATE_FACTOR);
        if writer.manifest.as_ref().is_none_or(full) {
            match self.begin_manifest(writer) {
                // A long manifest is as good as a new one.
                Err(error @ Error::DiskFull(_)) if writer.manifest.is_some() => {
                    tracing::warn!(%error, "no room for a new manifest; the present one goes on");
                }
                done => done?,
            }
        }
        // Edits that add nothing: an opening's epoch and cut, dropped families, released segments of the log. The
        // count of a scan can wait, that of a flush comes with it. Seconds of the expiry clock can wait too.
        let counted = !edit.row_counts.is_empty() && edit.last_generation.is_none();
        let waits = counted || edit.expiry_reserved.is_some();
        let adds = !edit.new_tables.is_empty() || !edit.new_files.is_empty() || waits;
        let need = match (adds, edit.last_generation) {
            (true, _) => Need::Ordinary,
            (false, Some(_)) => Need::EmptyFlush,
            (false, None) => Need::Urgent,
        };
        let manifest = writer.manifest.as_mut().expect("begin_manifest sets it or fails");
        let done = manifest.append(edit, need);
        if manifest.failed() {
            writer.stale_manifests.push(manifest.number());
            writer.manifest = None;
        }
        done
    }

    /// Writes the state, with the epoch of this opening, to a new manifest; without room for one, the epoch
    /// goes after the edits of the manifest in force.
    fn take_over(&self, writer: &mut Writer, current: Option<FileNo>) -> Result<()> {
        let error = match (self.begin_manifest(writer), current) {
            (Err(error @ Error::DiskFull(_)), Some(_)) => error,
            (done, _) => return done,
        };
        if manifest::read_current(&*self.disk, &self.dir)? != current {
            // The new one may be in force, now or after a power cut.
            return Err(error);
        }
        let Some(number) = current else { return Err(error) };
        tracing::warn!(%error, "no room for a new manifest; the one in force goes on");
        let mut resumed = ManifestWriter::resume(&*self.disk, &self.dir, number)?;
        let epoch = Edit { epoch: Some(writer.state.epoch), ..Edit::default() };
        resumed.append(&epoch, Need::Urgent)?;
        // What the attempt left takes up space; `CURRENT` names none of it.
        for name in self.disk.list(&self.dir)? {
            let attempt = manifest::parse_manifest_name(&name).is_some_and(|n| n >= self.first_new_file);
            if attempt || name == manifest::CURRENT_TMP {
                self.disk.remove(&self.dir.join(&name))?;
            }
        }
        writer.stale_manifests.clear();
        writer.manifest = Some(resumed);
        Ok(())
    }

    /// Writes the state to a new manifest and puts it in force, durably. After `DiskFull` the manifest before
    /// it is still the one to write to, if it was and `CURRENT` still names it.
    fn begin_manifest(&self, writer: &mut Writer) -> Result<()> {
        let number = self.new_file_number();
        let snapshot = self.snapshot(writer);
        let made = ManifestWriter::create(&*self.disk, &self.dir, number, &snapshot)
            .and_then(|made| manifest::set_current(&*self.disk, &self.dir, number).map(|()| made));
        let before = writer.manifest.take();
        let manifest = match made {
            Ok(manifest) => manifest,
            Err(error @ Error::DiskFull(_)) if before.is_some() => {
                let now = manifest::read_current(&*self.disk, &self.dir)?;
                if now == before.as_ref().map(ManifestWriter::number) {
                    self.obsolete.queue.lock().push(Obsolete::Manifest(number));
                    writer.manifest = before;
                } else {
                    writer.stale_manifests.extend(before.map(|old| old.number()));
                    writer.stale_manifests.push(number);
                }
                return Err(error);
            }
            Err(error) => {
                // Out of force, this one too, at the next success.
                writer.stale_manifests.extend(before.map(|old| old.number()));
                writer.stale_manifests.push(number);
                return Err(error);
            }
        };
        writer.stale_manifests.extend(before.map(|old| old.number()));
        let mut queue = self.obsolete.queue.lock();
        queue.extend(writer.stale_manifests.drain(..).map(Obsolete::Manifest));
        queue.extend(writer.limbo.drain(..).map(Obsolete::Table));
        writer.manifest = Some(manifest);
        Ok(())
    }

    /// The whole state as one edit.
    fn snapshot(&self, writer: &Writer) -> Edit {
        let version = self.current.load();
        let state = &writer.state;
        let mut edit = Edit {
            epoch: Some(state.epoch),
            next_file: Some(self.next_file.load(Ordering::Relaxed)),
            first_live_segment: Some(state.first_live_segment),
            cuts: state.cuts.clone(),
            durable_upto: Some(state.durable_upto),
            last_seq: Some(state.last_seq),
            last_generation: Some(state.last_generation),
            transaction_ceiling: Some(state.transaction_ceiling),
            expiry_clock: state.expiry_clock,
            expiry_reserved: state.expiry_reserved,
            log_segments: state.log_segments.values().copied().collect(),
            proven_from: state.proven_from,
            options: state.options.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
            counted_from: version.counted_from(),
            row_counts: version.row_counts().collect(),
            ..Edit::default()
        };
        edit.row_counts.sort_by_key(|(family, _)| *family);
        for record in writer.files.values() {
            edit.new_files.push(NewFile { number: record.file.number(), len: record.file.len() });
        }
        edit.new_files.sort_by_key(|file| file.number);
        let mut families: Vec<_> = version.families().collect();
        families.sort_by_key(|(id, _)| *id);
        for (family, levels) in families {
            for (level, table) in levels.tables() {
                let meta = table.meta().clone();
                let (file, generation) = (table.file.number(), table.generation);
                edit.new_tables.push(NewTable { file, level, generation, meta });
            }
            let cursors = levels.cursors.iter().map(|(level, key)| (family, *level, key.clone()));
            edit.cursors.extend(cursors);
        }
        edit
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

/// What an edit does to versions and files, checked and not yet done.
struct Plan {
    version: Version,
    new_files: Vec<Arc<LiveFile>>,
    /// Tables taken out of files, and put into them.
    removed: Vec<(FileNo, FamilyId)>,
    added: Vec<(FileNo, FamilyId, u64)>,
    /// Files that have no live table afterwards.
    dead: Vec<FileNo>,
}

impl Plan {
    fn install(&self, files: &mut HashMap<FileNo, FileRecord>) {
        for file in &self.new_files {
            files.insert(file.number(), FileRecord { file: Arc::clone(file), tables: BTreeMap::new() });
        }
        for (number, family) in &self.removed {
            if let Some(record) = files.get_mut(number) {
                record.tables.remove(family);
            }
        }
        for (number, family, len) in &self.added {
            if let Some(record) = files.get_mut(number) {
                record.tables.insert(*family, *len);
            }
        }
        for number in &self.dead {
            if let Some(record) = files.remove(number) {
                record.file.set_obsolete();
            }
        }
    }
}

/// What the files and tables that an edit adds are made with.
struct Opening<'a> {
    guests: &'a HashMap<FileNo, Arc<LiveFile>>,
    tables: &'a Arc<FileCache>,
    cache: &'a Arc<BlockCache>,
    obsolete: &'a Arc<ObsoleteFiles>,
}

fn plan(
    current: &Version,
    files: &HashMap<FileNo, FileRecord>,
    edit: &Edit,
    open: &Opening<'_>,
) -> std::result::Result<Plan, String> {
    let mut changes: BTreeMap<FamilyId, Change> = BTreeMap::new();
    let mut removed = Vec::new();
    for &family in &edit.dropped_families {
        changes.entry(family).or_default().dropped = true;
        let levels = current.family(family);
        let files = levels.iter().flat_map(|l| l.tables()).flat_map(|(_, table)| table.files());
        removed.extend(files.map(|file| (file, family)));
    }
    for &(family, file) in &edit.removed_tables {
        changes.entry(family).or_default().removed.push(file);
        let levels = current.family(family);
        let table = levels.iter().flat_map(|l| l.tables()).find(|(_, table)| table.file.number() == file);
        match table {
            Some((_, table)) => removed.extend(table.files().map(|file| (file, family))),
            None => removed.push((file, family)),
        }
    }
    let mut new_files = HashMap::new();
    for file in &edit.new_files {
        let guest = open.guests.get(&file.number).cloned();
        let live = guest.unwrap_or_else(|| LiveFile::new(file.number, file.len, open.obsolete));
        if files.contains_key(&file.number) || new_files.insert(file.number, live).is_some() {
            return Err(format!("file {} is added twice", file.number));
        }
    }
    let mut added = Vec::new();
    for new in &edit.new_tables {
        let file = |number: FileNo| {
            let file = files.get(&number).map(|record| &record.file).or_else(|| new_files.get(&number));
            file.cloned().ok_or_else(|| format!("there is no file {number}"))
        };
        let twin = Some(new.meta.twin).filter(|&twin| twin != 0).map(file).transpose()?;
        let file = file(new.file)?;
        if let Some(twin) = &twin {
            if twin.len() != new.meta.len {
                return Err(format!(
                    "file {} is no copy of a table of family {}",
                    twin.number(),
                    new.meta.family
                ));
            }
            added.push((twin.number(), new.meta.family, new.meta.len));
        }
        if new.meta.offset + new.meta.len > file.len() {
            return Err(format!("a table of family {} ends behind file {}", new.meta.family, new.file));
        }
        let table =
            SsTable::open(Arc::clone(open.tables), Arc::clone(open.cache), new.file, new.meta.clone());
        added.push((new.file, new.meta.family, new.meta.len));
        let change = changes.entry(new.meta.family).or_default();
        change.added.push((new.level, TableHandle { table, file, twin, generation: new.generation }));
    }
    for (family, level, key) in &edit.cursors {
        changes.entry(*family).or_default().cursors.push((*level, key.clone()));
    }
    let version = current.edited(changes, edit)?;

    let mut live: HashMap<FileNo, i64> = HashMap::new();
    removed.iter().for_each(|(file, _)| *live.entry(*file).or_default() -= 1);
    added.iter().for_each(|(file, _, _)| *live.entry(*file).or_default() += 1);
    let tables = |file: &FileNo| files.get(file).map_or(0, |record| record.tables.len() as i64);
    let mut dead: Vec<FileNo> =
        live.iter().filter(|(file, change)| tables(file) + **change <= 0).map(|(file, _)| *file).collect();
    dead.sort_unstable();
    Ok(Plan { version, new_files: new_files.into_values().collect(), removed, added, dead })
}

/// A manifest on its way to becoming the state of a version set.
struct Replay<'a> {
    version: Version,
    state: StoreState,
    files: HashMap<FileNo, FileRecord>,
    next_file: FileNo,
    tables: &'a Arc<FileCache>,
    cache: &'a Arc<BlockCache>,
    obsolete: &'a Arc<ObsoleteFiles>,
}

impl Replay<'_> {
    fn apply(&mut self, edit: &Edit) -> std::result::Result<(), String> {
        let (tables, cache, obsolete) = (self.tables, self.cache, self.obsolete);
        let open = Opening { guests: &HashMap::new(), tables, cache, obsolete };
        let plan = plan(&self.version, &self.files, edit, &open)?;
        if plan.dead != edit.deleted_files {
            return Err(format!("it deletes {:?} and leaves {:?} empty", edit.deleted_files, plan.dead));
        }
        // What an earlier epoch unlinked is not queued again: files are taken out before they are obsolete.
        for number in &plan.dead {
            self.files.remove(number);
        }
        plan.install(&mut self.files);
        self.state.apply(edit);
        self.next_file = self.next_file.max(edit.next_file.unwrap_or(0));
        self.version = plan.version;
        self.version.number = 0;
        Ok(())
    }
}

/// The number in a table file's name, if it is one.
fn parse_table_name(name: &str) -> Option<FileNo> {
    let digits = name.strip_suffix(".sst")?;
    if digits.len() < 8 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok()
}
