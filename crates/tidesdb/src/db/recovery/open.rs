//! Opening a store: manifest, log, dictionary, in the order of `docs/protocols.md` 1.3.
//!
//! The part of the log not in files is replayed into memtables and flushed to new files. One manifest edit
//! then names the files, the next sequence number and the new epoch's first log segment. A crash before that
//! edit leaves the old epoch's log as it was; after it, the old log is not needed. Prepared batches are
//! written into the new epoch, durably, before the edit. On a disk without room for the files the flush is
//! left to the background (`db/recovery/full_disk.rs`).
//!
//! A read-only opening does the same over an [`OverlayDisk`]: files, edit and log of the new epoch are in
//! memory. The directory keeps every byte. So it needs no clean close beforehand.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Duration;

use crate::cache::BlockCache;
use crate::db::background::Background;
use crate::db::dictionary::{self, FamilyEntry};
use crate::db::identity;
use crate::db::maintenance::Maintenance;
use crate::db::recovery::damaged_dictionary::certain_entries;
use crate::db::recovery::flush::{flush_replayed, RecoveryFlush};
use crate::db::recovery::full_disk;
use crate::db::recovery::replay::{self, Replay, Replayed};
use crate::db::recovery::value_tail::ValueTail;
use crate::db::{Db, LOCK};
use crate::env::Env;
use crate::error::{Error, Result};
use crate::format::units::{Bytes, Micros};
use crate::host::HashSet;
use crate::io::{DirectoryLock, OverlayDisk};
use crate::lock::{LockManager, LockOptions, WaitObserver};
use crate::memtable::{ArenaPool, Memtable};
use crate::mutant::{self, Mutant};
use crate::options::machine::available_memory;
use crate::options::{FormatVersion, LogLevel, Options, RememberedStore};
use crate::store::family::Family;
use crate::store::memtables::Memtables;
use crate::store::super_version::{Flushable, SuperVersion};
use crate::store::{Store, StoreParts};
use crate::sync::note;
use crate::table::TableStore;
use crate::txn::prepared::{prepare_bytes, BatchRoom};
use crate::txn::Transactions;
use crate::types::{FileNo, LogSegment, Lsn, Seq, DICTIONARY};
use crate::values::SyncAlongside;
use crate::version::manifest::parse_manifest_name;
use crate::version::reservations::CompactionReservations;
use crate::version::restoring::check_restored;
use crate::version::{Edit, OpenFor, StoreState, VersionSet};
use crate::wal::{self, Alongside, Purpose, Record, RecordRef, RecoveredSummary, WaitLimit, Wal, WalOptions};

/// Longest wait for room for prepared batches in the new epoch's log.
const REWRITE_WAIT: Duration = Duration::from_secs(60);

impl Db {
    /// Opens or makes the store in `dir` in a given world, or on a given disk.
    pub fn open_on(
        env: impl Into<Env>,
        dir: impl AsRef<Path>,
        options: Options,
        observer: Option<Arc<dyn WaitObserver>>,
    ) -> Result<Db> {
        options.validate()?;
        let log = options.log.clone();
        Db::recover(env.into(), dir.as_ref(), options, observer).inspect_err(|error| {
            if let (Some(log), Some(remedy)) = (log, remedy(dir.as_ref(), error)) {
                log.write(LogLevel::Error, &remedy);
            }
        })
    }

    fn recover(
        env: Env,
        dir: &Path,
        options: Options,
        observer: Option<Arc<dyn WaitObserver>>,
    ) -> Result<Db> {
        let (env, options) = if options.read_only { overlaid(env, options) } else { (env, options) };
        let mut recovery = Recovery::begin(env, dir, options)?;
        let (replayed, summary) = recovery.replay()?;
        let flushed = recovery.flush(&replayed)?;
        let wal = recovery.begin_epoch(&summary)?;
        let logged = recovery.rewrite_prepared(&wal, flushed, &replayed)?;
        wal.sync_all()?;
        let listed = wal.made_segments();
        let installed = recovery.install(logged, &replayed, &summary, &listed)?;
        recovery.finish(wal, installed, replayed, &summary, &listed, observer)
    }
}

/// The steps of an opening, in their order.
struct Recovery<'a> {
    env: Env,
    dir: &'a Path,
    options: Options,
    lock: Arc<dyn DirectoryLock>,
    cache: Arc<BlockCache>,
    versions: VersionSet,
    /// The manifest as found.
    state: StoreState,
    arenas: ArenaPool,
    reservations: Arc<CompactionReservations>,
    /// The newest commit, once the log is read.
    newest: Seq,
    /// Begin of the opening, in microseconds of the clock.
    begun_us: u64,
}

impl<'a> Recovery<'a> {
    /// Locks the directory, checks its owner, and reads the manifest.
    fn begin(env: Env, dir: &'a Path, mut options: Options) -> Result<Recovery<'a>> {
        let disk = &env.disk;
        if options.create_if_missing {
            disk.create_dir_all(dir)?;
        } else if !disk.exists(dir)? {
            return Err(Error::InvalidArgument(format!("there is no store in {}", dir.display())));
        }
        // An overlay takes it as a reader.
        let lock: Arc<dyn DirectoryLock> = Arc::from(disk.lock(&dir.join(LOCK))?);
        check_restored(&**disk, dir)?;
        identity::check(&**disk, dir, options.identity.as_ref())?;
        let tables = TableStore::telling(disk.clone(), dir, options.max_open_files, options.log.clone());
        tables.set_direct(options.reads_directly(available_memory));
        let cache = BlockCache::new(options.block_cache_size);
        if let Some(RememberedStore { mark, place }) = options.remembered.clone() {
            match identity::Mark::parse(&mark) {
                Some(mark) => {
                    // Before an opening for writing changes it.
                    let (tables, cache) = (tables.clone(), cache.clone());
                    let found = VersionSet::open(disk.clone(), dir, tables, cache, OpenFor::Read)?;
                    identity::check_mark(dir, &mark, &place, &found.state())?;
                }
                None => {
                    let what =
                        format!("{place} does not tell which store it was: the one that is here is taken on");
                    options.log(LogLevel::Warn, &what);
                    options.remembered = None;
                }
            }
        }
        let begun_us = env.clock.now_micros();
        let purpose = if options.create_if_missing { OpenFor::WriteOrCreate } else { OpenFor::Write };
        let is_new = options.create_if_missing && VersionSet::is_missing(&**disk, dir)?;
        let least = options.least_format.max(if is_new { options.new_format } else { FormatVersion::One });
        let versions = VersionSet::open_at_least(least, disk.clone(), dir, tables, cache.clone(), purpose)?;
        versions.guard_with(&lock);
        versions.values().set_file_size(options.write_buffer_size as u64);
        versions.values().measure();
        let state = versions.state();
        let arenas = ArenaPool::new(options.write_buffer_size * 2);
        let reservations = CompactionReservations::new(env.clock.clone());
        Ok(Recovery {
            env,
            dir,
            options,
            lock,
            cache,
            versions,
            state,
            arenas,
            reservations,
            newest: 0,
            begun_us,
        })
    }

    /// The first segment of the old epoch's log needed by recovery.
    fn first_live_segment(&self) -> u32 {
        self.state.first_live_segment.max(1)
    }

    /// Reads the part of the log not in files into memtables, and removes unreferenced files.
    fn replay(&mut self) -> Result<(Replayed, RecoveredSummary)> {
        wal::check_listed(&self.env.disk, self.dir, self.state.log_segments.values())?;
        let values = Arc::clone(self.versions.values());
        let mut torn = Lsn(u64::MAX);
        let (replay, summary) = loop {
            let mut tail = ValueTail::new(self.state.last_seq);
            let (replay, summary) = self.read_log(torn, &mut tail)?;
            match tail.first_torn(&values, summary.max_durable_seen)? {
                Some(at) => torn = at,
                None => {
                    tail.rewrite(&values, summary.max_durable_seen)?;
                    break (replay, summary);
                }
            }
        };
        let replayed = replay.finish(&self.versions)?;
        note_replayed(&replayed, &summary);
        self.newest = replayed
            .newest
            .max(summary.max_seq_seen)
            .max(full_disk::newest_of_boundaries(&self.state.boundaries));
        if mutant::is(Mutant::ReplayLosesRuns) {
            self.remove_files_but(HashSet::default());
        }
        // What the log does not name either takes up space that the flush may need.
        self.remove_files_but(&replayed.run_files | &replayed.rolled_back_files);
        Ok((replayed, summary))
    }

    /// Reads the part of the log not in files, up to the record at `torn`; `tail` gets its pointers to values.
    fn read_log(&self, torn: Lsn, tail: &mut ValueTail) -> Result<(Replay, RecoveredSummary)> {
        let StoreState { last_seq, last_generation, durable_upto, .. } = self.state;
        let buffer = self.options.write_buffer_size;
        let mut replay = Replay::new(self.arenas.clone(), buffer, last_seq, last_generation + 1)
            .of_repaired_store(self.state.unproven_upto)
            .with_position(self.state.position)
            .with_values(self.versions.values());
        let visit = &mut |at, record: RecordRef<'_>| {
            tail.note(at, &record);
            replay.record(record)
        };
        let (disk, boundaries) = (&self.env.disk, &self.state.boundaries);
        let first = self.first_live_segment();
        let summary = wal::recover_before(torn, disk, self.dir, first, boundaries, durable_upto, visit)?;
        Ok((replay, summary))
    }

    /// Removes files named neither by the manifest nor in `named`.
    fn remove_files_but(&self, named: HashSet<FileNo>) {
        for warning in self.versions.remove_unknown_files(&named) {
            self.options.log(LogLevel::Warn, &warning);
        }
    }

    /// Flushes all replayed memtables to files at once: the old epoch's log is then not needed any more.
    /// `None`: the disk is full.
    fn flush(&self, replayed: &Replayed) -> Result<Option<RecoveryFlush>> {
        let flushables = &replayed.flushables;
        unless_full(
            &self.options,
            flush_replayed(&self.versions, &self.reservations, &self.options, flushables, self.newest),
            "what the log holds stays there and in memory",
        )
    }

    /// The log of the new epoch. It may use files after the end of the old one: from now on they are not
    /// missed.
    fn begin_epoch(&self, summary: &RecoveredSummary) -> Result<Wal> {
        let end = summary.end.segment();
        if self.state.log_segments.range(end.saturating_add(1)..).next().is_some() {
            self.versions.apply(Edit { log_forgotten_above: Some(end), ..Edit::default() })?;
        }
        let options = &self.options;
        let values = SyncAlongside::new(Arc::clone(self.versions.values()), self.env.clone());
        let wal_options = WalOptions {
            segment_size: options.wal_segment_size,
            sync_mode: options.sync_mode,
            sync_interval: Duration::from_micros(options.sync_interval_us),
            max_outstanding: super::max_outstanding(options.write_buffer_size),
            format: self.versions.format(),
            log: options.log.clone(),
            alongside: Some(Alongside(Arc::new(move || values.begin()))),
            ..WalOptions::default()
        };
        let (env, dir) = (self.env.clone(), self.dir.to_path_buf());
        let files = summary.files.clone();
        Wal::create(env, dir, self.state.epoch, summary.next_segment, files, wal_options)
    }

    /// Writes prepared transactions to the new epoch's log, if the flush had room.
    fn rewrite_prepared(
        &self,
        wal: &Wal,
        flushed: Option<RecoveryFlush>,
        replayed: &Replayed,
    ) -> Result<Option<RecoveryFlush>> {
        let Some(flushed) = flushed else { return Ok(None) };
        // The copies that are there harm nobody: a later one of a batch counts as the same.
        let rewritten = rewrite_prepares(wal, &replayed.prepared);
        match unless_full(&self.options, rewritten, "prepared transactions stay in the log as it is")? {
            Some(()) => Ok(Some(flushed)),
            None => {
                flushed.give_up(&self.versions);
                Ok(None)
            }
        }
    }

    /// Installs the edit with the new files and the new epoch; false: the disk is full.
    fn install(
        &self,
        flushed: Option<RecoveryFlush>,
        replayed: &Replayed,
        summary: &RecoveredSummary,
        listed: &[LogSegment],
    ) -> Result<bool> {
        let Some(mut flushed) = flushed else { return Ok(false) };
        let mut edit = std::mem::take(&mut flushed.edit);
        edit.last_seq = Some(self.newest);
        edit.position = replayed.position;
        edit.last_generation = replayed.flushables.last().map(Flushable::id);
        edit.first_live_segment = Some(summary.next_segment);
        edit.log_segments = listed.to_vec();
        edit.boundaries_removed =
            self.state.boundaries.iter().map(|boundary| boundary.at.segment()).collect();
        let installed = unless_full(
            &self.options,
            self.versions.apply(edit),
            "what the log holds stays there and in memory",
        )?;
        Ok(installed.is_some())
    }

    /// Gives up the old log, or keeps its unflushed part; then starts the store.
    fn finish(
        self,
        wal: Wal,
        installed: bool,
        replayed: Replayed,
        summary: &RecoveredSummary,
        listed: &[LogSegment],
        observer: Option<Arc<dyn WaitObserver>>,
    ) -> Result<Db> {
        let first_segment = summary.next_segment;
        let opened = Opened::of(&self, &replayed, summary);
        let memtables = Memtables::default();
        let mut sealed = Vec::new();
        // Where the old epoch's log stays, the batches of prepared transactions stay in it.
        let held_from = if installed { first_segment } else { self.first_live_segment() };
        if installed {
            wal.release_before(first_segment);
            if !replayed.rolled_back_files.is_empty() {
                self.remove_files_but(replayed.run_files);
            }
        } else {
            note("recovery: epoch boundary on a full disk");
            full_disk::join_epochs(&*self.env.disk, self.dir, &self.versions, summary, self.newest, listed)?;
            sealed = full_disk::seal(&replayed, held_from, &memtables);
        }
        drop(replayed.flushables);
        let versions = Arc::new(self.versions);
        wal.list_segments(listed, list_in(versions.clone()))?;

        let active = Arc::new(Memtable::new(replayed.next_memtable_id, self.arenas.clone()));
        let super_version = SuperVersion { active: active.clone(), sealed, version: versions.current() };
        memtables.state.lock().min_segment.insert(active.id(), first_segment);
        let (max_total, cores) = (self.options.lock_bound(), self.env.spawn.cores());
        let lock_options = LockOptions { max_total, ..LockOptions::of_cores(cores) };
        let locks = LockManager::with_options(observer, self.env.clock.clone(), lock_options);
        let store = Arc::new(Store::new(StoreParts {
            options: self.options,
            dir: self.dir.to_path_buf(),
            env: self.env,
            lock: self.lock,
            wal,
            versions,
            cache: self.cache,
            arenas: self.arenas,
            super_version,
            memtables,
            newest: self.newest,
            position: replayed.position,
            newest_transaction: replayed.newest_transaction,
        }));
        let transactions = Arc::new(Transactions::new(store.clone(), locks));
        let maintenance = Arc::new(Maintenance::new(transactions.clone(), self.reservations));
        maintenance.load_dictionary()?;
        maintenance.tell_missing();
        maintenance.begin_epoch_of_build()?;
        maintenance.take_on()?;
        if store.catalog.all().iter().any(|family| family.value_threshold() != 0) {
            store.ask_for_value_files();
        }
        store.choose_sync_interval();
        transactions.restore_prepared(replayed.prepared, held_from)?;
        maintenance.shape_changed();
        if let Err(error) = store.maintain_expiry_clock() {
            store.log(LogLevel::Warn, &format!("no seconds of the expiry clock reserved ahead: {error}"));
        }
        let background = Arc::new(Background::start(&maintenance)?);
        opened.tell(&store);
        Ok(Db { store, transactions, maintenance, background })
    }
}

/// Tells the simulation what the log had.
fn note_replayed(replayed: &Replayed, summary: &RecoveredSummary) {
    let runs = replayed.flushables.iter().any(|flushable| flushable.memtable().is_none());
    let kinds = [
        (!replayed.flushables.is_empty(), "recovery: flush"),
        (runs, "recovery: runs"),
        (!replayed.prepared.is_empty(), "recovery: prepared"),
        (summary.discarded > 0, "recovery: torn tail"),
    ];
    kinds.iter().filter(|(is_one, _)| *is_one).for_each(|(_, kind)| note(kind));
}

/// The log line about an opening.
struct Opened {
    begun_us: u64,
    records: u64,
    memtables: usize,
    bytes: u64,
    prepared: usize,
    newest: Seq,
}

impl Opened {
    fn of(recovery: &Recovery<'_>, replayed: &Replayed, summary: &RecoveredSummary) -> Opened {
        let memtables = replayed.flushables.iter().filter_map(Flushable::memtable);
        Opened {
            begun_us: recovery.begun_us,
            records: summary.records,
            memtables: replayed.flushables.len(),
            bytes: memtables.map(|memtable| memtable.bytes() as u64).sum(),
            prepared: replayed.prepared.len(),
            newest: recovery.newest,
        }
    }

    fn tell(&self, store: &Store) {
        let time = Micros(store.now_micros().saturating_sub(self.begun_us));
        let mut what = format!("opened {} in {time}, newest commit {}: ", store.dir.display(), self.newest);
        what += &match self.records {
            0 => "no record of the log was to be replayed".to_string(),
            records => format!(
                "recovery replayed {records} records of the log, with {} in {} memtables",
                Bytes(self.bytes),
                self.memtables
            ),
        };
        if self.prepared > 0 {
            what += &format!("; {} prepared transactions wait for a decision", self.prepared);
        }
        store.log(LogLevel::Info, &what);
    }
}

/// Lists segments of the log in the manifest.
fn list_in(versions: Arc<VersionSet>) -> wal::ListSegment {
    Box::new(move |segment| {
        versions.apply(Edit { log_segments: vec![segment], ..Edit::default() }).map(|_| ())
    })
}

/// `None` on a full disk: the store opens all the same, with a warning about the unfinished step.
fn unless_full<T>(options: &Options, result: Result<T>, left: &str) -> Result<Option<T>> {
    match result {
        Err(Error::DiskFull(what)) => {
            options.log(
                LogLevel::Error,
                &format!("the disk is full ({what}): {left}; make room, nothing is lost"),
            );
            Ok(None)
        }
        done => done.map(Some),
    }
}

/// The remedy for a store in `dir` that does not open; `None`: the error has it, or it is no damage.
fn remedy(dir: &Path, error: &Error) -> Option<String> {
    let is_manifest =
        |path: &Path| path.file_name().and_then(|name| name.to_str()).and_then(parse_manifest_name).is_some();
    let dir = dir.display();
    match error {
        Error::Corruption { path, .. } | Error::Io { path, .. } if is_manifest(path) => Some(format!(
            "the store in {dir} does not open: without {} nobody knows which files belong to it. Put this file back, or \
             restore a backup",
            path.display()
        )),
        Error::Corruption { .. } => Some(format!(
            "the store in {dir} does not open: `tidesdb-admin verify {dir}` lists what is damaged, `tidesdb-admin repair \
             {dir} --to NEWDIR` copies what can be read"
        )),
        _ => None,
    }
}

/// The world and the options of a read-only opening: writes stay in memory, no store is made, no merge runs.
fn overlaid(env: Env, options: Options) -> (Env, Options) {
    let options = Options { create_if_missing: false, compaction_threads: 0, ..options };
    (Env { disk: Arc::new(OverlayDisk::new(env.disk)), ..env }, options)
}

/// Writes the prepared transactions to the new epoch's log. `DiskFull`: some of them may be there; the room
/// for decisions is untouched.
fn rewrite_prepares(wal: &Wal, prepared: &[replay::ReplayedPrepare]) -> Result<()> {
    for (txn, head, batch) in prepared {
        let record = Record::RewrittenPrepare { txn: *txn, head: head.clone(), batch: batch.clone() };
        let room = BatchRoom::of(prepare_bytes(head, batch), batch, |bytes| {
            wal.reserve(bytes, Purpose::Ordinary, &WaitLimit::of(REWRITE_WAIT))
        })?;
        let ticket = room.queue(*txn, batch, record, |room, record| wal.enqueue(room, record));
        // Nobody else writes the log yet, and what is queued counts against the next reservation.
        wal.wait_written_unless_full(ticket)?;
    }
    Ok(())
}

impl Maintenance {
    /// Records in the manifest features unknown to earlier builds, so these refuse the store from now on. New
    /// families are counted from now on, older ones once [`Db::count_rows`] has counted them. Puts may be
    /// unmarked from now on: an earlier build that replayed one would lose the tombstone below it
    /// (`docs/protocols.md` 3.5).
    fn begin_epoch_of_build(&self) -> Result<()> {
        if self.store.catalog.is_incomplete() {
            // Nobody knows the next family number.
            return Ok(());
        }
        let (version, state) = (self.store.versions.current(), self.store.versions.state());
        let next_family = self.next_family.load(Ordering::Acquire);
        let edit = Edit {
            counted_from: version.counted_from().is_none().then_some(next_family),
            proven_from: state.proven_from.is_none().then_some(state.epoch),
            ..Default::default()
        };
        if edit.counted_from.is_some() || edit.proven_from.is_some() {
            match self.store.install(edit) {
                // The next opening says so.
                Err(error @ Error::DiskFull(_)) => {
                    let what = "rows are not counted, and deletions not single, until the next opening";
                    self.store.log(LogLevel::Warn, &format!("{what}: {error}"));
                    return Ok(());
                }
                done => done?,
            }
        }
        self.store.proves_inserts.store(true, Ordering::Release);
        Ok(())
    }

    /// An owner without a memory of the store adopts it under a new id, and later tells it from copies by the
    /// id.
    fn take_on(&self) -> Result<()> {
        let options = &self.store.options;
        if options.read_only || options.identity.is_none() || options.remembered.is_some() {
            return Ok(());
        }
        let versions = &self.store.versions;
        let option = identity::taken_on(&versions.state(), &*self.store.env.random);
        let edit = Edit { options: vec![option], ..Edit::default() };
        match self.store.install(edit) {
            // Its owner remembers nothing of it, and the next opening draws an id. The failed edit may be on the disk, where
            // a mark under the former id would count as that of a copy.
            Err(Error::DiskFull(_)) => {
                self.store.id_is_uncertain.store(true, Ordering::Release);
                Ok(())
            }
            done => done,
        }
    }

    /// Logs the store's missing files, and the remedy.
    fn tell_missing(&self) {
        for (number, families) in self.store.versions.missing() {
            let names: Vec<String> = families.iter().map(|&id| self.store.label(id)).collect();
            let name = self.store.versions.table_files().name(number);
            let what = format!(
                "{name} is missing: what it held of {} cannot be read, all else can; put the file back, or restore a \
                 backup, or drop the tables; `tidesdb-admin repair` copies what is left",
                names.join(", ")
            );
            self.store.log(LogLevel::Error, &what);
        }
    }

    /// Reads the dictionary into the catalog and drops families without an entry. If both copies are
    /// unreadable, only the certain families are loaded, and none is dropped.
    fn load_dictionary(&self) -> Result<()> {
        let (entries, damage) = certain_entries(&self.store.super_version())?;
        let mut next_family = DICTIONARY + 1;
        for (key, (seq, kind, value)) in &entries {
            if kind.is_tombstone() {
                continue;
            }
            if let Some(name) = dictionary::family_name(key) {
                let family = FamilyEntry::decode(value)?;
                next_family = next_family.max(family.id + 1);
                self.store.catalog.insert(Family::new(family.id, name, family.options, &family.record, *seq));
            } else if key == dictionary::NEXT_FAMILY {
                let stored = dictionary::number(value).and_then(|n| u32::try_from(n).ok());
                let stored = stored
                    .ok_or_else(|| Error::corruption("dictionary", 0, "the next family number is damaged"))?;
                next_family = next_family.max(stored);
            }
        }
        self.next_family.store(next_family, Ordering::Release);
        if let Some(error) = damage {
            self.store.catalog.set_incomplete(&error);
            let what = format!(
                "the dictionary is damaged in both copies ({error}): of its families {} are there, of others nobody \
                 knows which table they are; nothing is dropped, and no definition or counter can be changed; copy what \
                 is left with `tidesdb-admin repair`, or restore a backup",
                self.store.catalog.len()
            );
            self.store.log(LogLevel::Error, &what);
            return Ok(());
        }
        let gone: Vec<u32> = self
            .store
            .versions
            .current()
            .families()
            .map(|(id, _)| id)
            .chain(self.store.versions.current().row_counts().map(|(id, _)| id))
            .filter(|&id| !self.store.catalog.is_live(id))
            .collect::<BTreeSet<u32>>()
            .into_iter()
            .collect();
        if !gone.is_empty() {
            match self.store.install(crate::version::Edit { dropped_families: gone, ..Default::default() }) {
                // They have no name; the next opening drops them.
                Err(error @ Error::DiskFull(_)) => {
                    self.store.log(LogLevel::Warn, &format!("space of dropped families stays: {error}"));
                }
                done => done?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::FaultyDisk;

    #[test]
    fn the_manifest_says_from_which_epoch_on_puts_may_be_unmarked() {
        let disk = FaultyDisk::new(1);
        for epoch in 1..=3 {
            let db = Db::open_on(disk.shared(), "/s", Options::default(), None).expect("opens");
            let state = db.store.versions.state();
            assert_eq!((state.epoch, state.proven_from), (epoch, Some(1)));
            assert!(db.store.proves_inserts.load(Ordering::Acquire));
            db.close().expect("closes");
        }
    }
}
