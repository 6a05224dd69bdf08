//! Checks a damaged store while its server is down: lists the damage, and makes a store elsewhere of the
//! rest.
//!
//! Both operations only read the store, under a reader's lock. The copy takes undamaged files as a whole. In
//! a damaged file, each table is written anew from its readable blocks. A damaged log is replayed up to the
//! damage, and the replayed changes go to files. As in a restore, the copy's directory is marked until it is
//! complete.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::copy::Copier;
use super::restore::{is_free, not_empty, write};
use super::verify::{open_versions, read_values, OPEN_FILES};
use super::Watch;
use crate::db::dictionary::{self, FamilyEntry};
use crate::db::recovery::damaged_dictionary::certain_entries;
use crate::db::recovery::flush::flush_replayed;
use crate::db::recovery::replay::{Replay, Replayed};
use crate::db::{identity, LOCK};
use crate::error::{Error, Result};
use crate::format::cluster_position::ClusterPosition;
use crate::host::HashMap;
use crate::io::{DirectoryLock, Disk, OpenMode};
use crate::iter::VersionIterator;
use crate::memtable::{ArenaPool, Memtable};
use crate::options::{FamilyOptions, FormatVersion, Options};
use crate::store::super_version::{Flushable, SuperVersion};
use crate::table::{SsTable, SsTableMeta, SsTableOptions, SsTableWriter, TableStore};
use crate::types::{FamilyId, FileNo, RowCount, Seq, DICTIONARY};
use crate::version::manifest::{self, ManifestWriter};
use crate::version::reservations::CompactionReservations;
use crate::version::restoring::{check_restored, RESTORING};
use crate::version::{Edit, NewFile, NewTable, OpenFor, TableHandle, VersionSet};
use crate::wal;

/// Bytes of a memtable.
const MEMTABLE: usize = 64 << 20;

/// Unreadable places in a row after which the rest of a table is given up.
const MOST_IN_A_ROW: usize = 64;

/// Longest part of a key in a message, in bytes.
const KEY_SHOWN: usize = 32;

/// The outcome of reading a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreCheck {
    /// Tables.
    pub tables: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Damaged or left out parts: a line each, with file and table.
    pub damage: Vec<String>,
    /// Names of the families with damage. Other families of their owner may no longer match them.
    pub families: BTreeSet<String>,
    /// The log is damaged: families it changed may not match others.
    pub is_log_cut: bool,
}

/// Reads the whole store in `dir` while its server is down, and lists the damage in it. Changes nothing.
///
/// # Errors
/// `Busy` while the store is open for writing; `InvalidArgument` without a store; `Corruption` of its
/// manifest, for which there is no replacement; `Interrupted`; I/O.
pub fn verify_store(disk: &Arc<dyn Disk>, dir: &Path, watch: Watch<'_>) -> Result<StoreCheck> {
    let survey = Survey::of(disk, dir, watch)?;
    let mut check = StoreCheck::default();
    check.damage.extend(survey.lost_name.clone());
    for (family, _, table) in survey.tables() {
        check.tables += 1;
        check.bytes += table.meta().len;
        for copy in table.copies() {
            if let Some(error) = damage_of(copy, watch)? {
                survey.note(family, &error.to_string(), &mut check);
            }
        }
        survey.check_values(family, &table, watch, &mut check)?;
    }
    survey.check_runs(watch, &mut check)?;
    check.damage.extend(survey.log_damage.iter().map(|error| format!("log: {error}")));
    check.is_log_cut = survey.log_damage.is_some();
    Ok(check)
}

/// Makes a store in `to`, an empty or missing directory, of the readable parts of the store in `from`, while
/// its server is down. Lists the left out parts. Keys of an unreadable place may show older rows.
///
/// # Errors
/// As [`verify_store`]; `InvalidArgument` for a `to` with files in it, or inside or around `from`;
/// `DiskFull`.
pub fn repair(disk: &Arc<dyn Disk>, from: &Path, to: &Path, watch: Watch<'_>) -> Result<StoreCheck> {
    let (from, to) = (disk.resolve(from)?, disk.resolve(to)?);
    if to.starts_with(&from) || from.starts_with(&to) {
        let what = format!("{} lies in the store {}, or around it", to.display(), from.display());
        return Err(Error::InvalidArgument(what));
    }
    if disk.exists(&to)? && !is_free(&**disk, &to)? {
        return Err(not_empty(&to, ""));
    }
    let survey = Survey::of(disk, &from, watch)?;
    disk.create_dir_all(&to)?;
    let lock = disk.lock(&to.join(LOCK))?;
    if !is_free(&**disk, &to)? {
        return Err(not_empty(&to, ""));
    }
    disk.create_dir_all(&wal::log_dir(&to))?;
    write(&**disk, &to.join(RESTORING), &format!("from {}\n", from.display()))?;
    let mut check = StoreCheck::default();
    let mut copy = StoreCopy {
        disk,
        from: &from,
        to: &to,
        from_tables: Arc::clone(survey.versions.table_files()),
        to_tables: TableStore::new(Arc::clone(disk), &to, OPEN_FILES),
        copier: Copier::new(&**disk, watch),
        watch,
    };
    let mut edit = copy.tables(&survey, &mut check)?;
    copy.runs(&survey, &mut check)?;
    copy.values(&survey)?;
    let position = match survey.position() {
        Some(lost) if !check.damage.is_empty() => {
            // The log's records up to here count for nothing either.
            edit.unproven_upto = Some(survey.newest());
            let what = format!("the cluster's position {lost}: commits up to there are not whole");
            check.damage.push(what);
            // Undefined, and not missing: a store that never had one may stand alongside an engine that has.
            let undefined = Some(ClusterPosition { number: -1, gtid: None, ..lost });
            edit.position = undefined;
            undefined
        }
        // The log has the rest, if it is copied.
        whole => whole,
    };
    if survey.log_damage.is_none() {
        copy.log()?;
    } else {
        // A position in the damaged log means nothing in a new one.
        (edit.first_live_segment, edit.durable_upto) = (None, None);
        (edit.boundaries, edit.log_segments) = (Vec::new(), Vec::new());
    }
    let owner = from.join(identity::OWNER);
    if disk.exists(&owner)? {
        copy.copier.unsynced(&owner, &to.join(identity::OWNER))?;
        disk.open(&to.join(identity::OWNER), OpenMode::ReadWrite)?.sync_data()?;
    }
    let number = edit.next_file.unwrap_or(1);
    edit.next_file = Some(number + 1);
    ManifestWriter::create(&**disk, &to, number, survey.versions.format(), &edit)?;
    manifest::set_current(&**disk, &to, number)?;
    survey.flush_log(disk, &to, position, &mut check)?;
    disk.sync_dir(&wal::log_dir(&to))?;
    disk.remove(&to.join(RESTORING))?;
    disk.sync_dir(&to)?;
    drop(lock);
    Ok(check)
}

/// The readable parts of a store.
struct Survey {
    versions: VersionSet,
    /// Damage of the file with the manifest's name.
    lost_name: Option<String>,
    names: HashMap<FamilyId, (String, FamilyOptions)>,
    /// `None`: no part of the log is usable.
    replayed: Option<Replayed>,
    log_damage: Option<Error>,
    _lock: Box<dyn DirectoryLock>,
}

impl Survey {
    fn of(disk: &Arc<dyn Disk>, dir: &Path, watch: Watch<'_>) -> Result<Survey> {
        if !disk.exists(dir)? {
            return Err(Error::InvalidArgument(format!("there is no store in {}", dir.display())));
        }
        let lock = disk.lock_shared(&dir.join(LOCK))?;
        check_restored(&**disk, dir)?;
        let versions = open_versions(disk, dir, OpenFor::Salvage)?;
        let state = versions.state();
        let mut replay =
            Replay::new(ArenaPool::new(MEMTABLE), MEMTABLE, state.last_seq, state.last_generation + 1)
                .with_values(versions.values())
                .of_repaired_store(state.unproven_upto)
                .with_position(state.position);
        let first = state.first_live_segment.max(1);
        let found =
            wal::recover(disk, dir, first, &state.boundaries, state.durable_upto, &mut |_, record| {
                watch.check()?;
                replay.record(record)
            });
        let listed = wal::check_listed(disk, dir, state.log_segments.values());
        let mut log_damage = unreadable(listed.and(found.map(|_| ())))?;
        // The records before the damage are a prefix of the commits.
        let replayed = match replay.finish(&versions) {
            Ok(replayed) => Some(replayed),
            Err(error @ Error::Corruption { .. }) => {
                log_damage.get_or_insert(error);
                None
            }
            Err(error) => return Err(error),
        };
        let lost_name = match manifest::read_current(&**disk, dir) {
            Ok(Some(_)) => None,
            Ok(None) => Some(format!("{} is missing", dir.join(manifest::CURRENT).display())),
            Err(error) => Some(error.to_string()),
        };
        let mut survey =
            Survey { versions, lost_name, names: HashMap::default(), replayed, log_damage, _lock: lock };
        let active = Arc::new(Memtable::new(0, ArenaPool::new(0)));
        let sealed = survey.flushables().iter().rev().cloned().collect();
        let (entries, _) =
            certain_entries(&SuperVersion { active, sealed, version: survey.versions.current() })?;
        for (key, (_, kind, value)) in &entries {
            let Some(name) = dictionary::family_name(key).filter(|_| !kind.is_tombstone()) else { continue };
            let entry = FamilyEntry::decode(value)?;
            survey.names.insert(entry.id, (String::from_utf8_lossy(name).into_owned(), entry.options));
        }
        Ok(survey)
    }

    fn flushables(&self) -> &[Flushable] {
        self.replayed.as_ref().map_or(&[], |replayed| &replayed.flushables)
    }

    /// Sequence number of the newest readable commit.
    fn newest(&self) -> Seq {
        self.replayed.as_ref().map_or(0, |replayed| replayed.newest).max(self.versions.state().last_seq)
    }

    /// The cluster's position as of that commit.
    fn position(&self) -> Option<ClusterPosition> {
        let replayed = self.replayed.as_ref().map(|replayed| replayed.position);
        replayed.unwrap_or_else(|| self.versions.state().position)
    }

    fn name(&self, family: FamilyId) -> String {
        match self.names.get(&family) {
            Some((name, _)) => format!("'{name}'"),
            None if family == DICTIONARY => "the dictionary".into(),
            None => format!("the family number {family}, whose name is not known"),
        }
    }

    /// Notes damage of a family.
    fn note(&self, family: FamilyId, what: &str, check: &mut StoreCheck) {
        check.damage.push(format!("{}: {what}", self.name(family)));
        check.families.extend(self.names.get(&family).map(|(name, _)| name.clone()));
    }

    /// Every table in the manifest, by family and level.
    fn tables(&self) -> Vec<(FamilyId, u8, TableHandle)> {
        let version = self.versions.current();
        let mut families: Vec<_> = version.families().collect();
        families.sort_by_key(|(family, _)| *family);
        let of = |(family, levels): (FamilyId, &Arc<crate::version::FamilyLevels>)| {
            let tables = levels.tables().map(|(level, table)| (family, level, table.clone()));
            tables.collect::<Vec<_>>()
        };
        families.into_iter().flat_map(of).collect()
    }

    /// The tables of the runs named in the log.
    fn runs(&self) -> Vec<TableHandle> {
        let mut runs = Vec::new();
        for flushable in self.flushables() {
            if let Flushable::Runs(committed) = flushable {
                runs.extend_from_slice(committed.all());
            }
        }
        let prepared = self.replayed.iter().flat_map(|replayed| &replayed.prepared);
        for sealed in prepared.filter_map(|(_, _, batch)| batch.runs()) {
            runs.extend(sealed.open_all(&self.versions));
        }
        runs
    }

    /// Reads the values of a table in value files; each that cannot be read costs its row.
    fn check_values(
        &self,
        family: FamilyId,
        table: &TableHandle,
        watch: Watch<'_>,
        check: &mut StoreCheck,
    ) -> Result<()> {
        let values = self.versions.values();
        let read = read_values(values, &table.table, watch, &mut |key, error| {
            let error = unreadable(Err(error))?;
            error.iter().for_each(|error| {
                self.note(family, &format!("the value of key {}: {error}", shown(key)), check)
            });
            Ok(())
        });
        // Damage of the table itself is noted already.
        unreadable(read).map(|_| ())
    }

    fn check_runs(&self, watch: Watch<'_>, check: &mut StoreCheck) -> Result<()> {
        for run in self.runs() {
            check.tables += 1;
            check.bytes += run.meta().len;
            if let Some(error) = damage_of(&run.table, watch)? {
                self.note(run.meta().family, &format!("in a large transaction: {error}"), check);
            }
        }
        Ok(())
    }

    /// Writes the changes of a damaged log, up to the damage, into files of the new store.
    fn flush_log(
        &self,
        disk: &Arc<dyn Disk>,
        to: &Path,
        position: Option<ClusterPosition>,
        check: &mut StoreCheck,
    ) -> Result<()> {
        let Some(error) = &self.log_damage else { return Ok(()) };
        let newest = self.replayed.as_ref().map_or(0, |replayed| replayed.newest);
        check.damage.push(format!("log: {error}; commits after sequence number {newest} are left out"));
        check.is_log_cut = true;
        let Some(replayed) = &self.replayed else { return Ok(()) };
        for (_, head, _) in &replayed.prepared {
            check.damage.push(format!("the prepared transaction {}", head.xid.escape_ascii()));
        }
        let versions = open_versions(disk, to, OpenFor::Write)?;
        let (reservations, flushables) = (CompactionReservations::new(disk.clock()), &replayed.flushables);
        let mut flushed = flush_replayed(&versions, &reservations, &Options::default(), flushables, newest)?;
        let mut edit = std::mem::take(&mut flushed.edit);
        edit.last_seq = Some(newest);
        edit.position = position;
        edit.last_generation = flushables.last().map(Flushable::id);
        versions.apply(edit)?;
        versions.delete_obsolete().map(|_| ())
    }
}

/// A store being made of another's readable parts.
struct StoreCopy<'a> {
    disk: &'a Arc<dyn Disk>,
    from: &'a Path,
    to: &'a Path,
    from_tables: Arc<TableStore>,
    to_tables: Arc<TableStore>,
    copier: Copier<'a>,
    watch: Watch<'a>,
}

impl StoreCopy<'_> {
    /// Copies the manifest's tables; returns the manifest of the copy.
    fn tables(&mut self, survey: &Survey, check: &mut StoreCheck) -> Result<Edit> {
        let (mut edit, _) = survey.versions.capture();
        // The dictionary gets its second copy again when it is flushed.
        (edit.new_files, edit.new_tables) = (Vec::new(), Vec::new());
        let mut by_file: BTreeMap<FileNo, Vec<(FamilyId, u8, TableHandle)>> = BTreeMap::new();
        for (family, level, table) in survey.tables() {
            by_file.entry(table.file.number()).or_default().push((family, level, table));
        }
        for (number, tables) in by_file {
            check.tables += tables.len() as u64;
            check.bytes += tables.iter().map(|(_, _, table)| table.meta().len).sum::<u64>();
            let len = tables[0].2.file.len();
            let whole = self.copy_whole(number, len, &tables)?;
            if whole {
                edit.new_files.push(NewFile { number, len });
            }
            for (family, level, table) in tables {
                let generation = table.generation;
                if whole {
                    let meta = SsTableMeta { mirror: 0, ..table.meta().clone() };
                    edit.new_tables.push(NewTable { file: number, level, generation, meta });
                    continue;
                }
                let file = edit.next_file.unwrap_or(1);
                edit.next_file = Some(file + 1);
                let options =
                    survey.names.get(&family).map_or_else(FamilyOptions::default, |(_, o)| o.clone());
                let format = survey.versions.format();
                let (meta, lost) = self.salvage(&table, (&options, format), file)?;
                if !lost.is_empty() {
                    // Its number of rows is not known any more.
                    edit.row_counts.push((family, RowCount { rows: 0, uncounted: 1 }));
                }
                lost.iter().for_each(|what| survey.note(family, what, check));
                if let Some(meta) = meta {
                    edit.new_files.push(NewFile { number: file, len: meta.len });
                    edit.new_tables.push(NewTable { file, level, generation, meta });
                }
            }
        }
        let mut nameless: Vec<FamilyId> = edit.new_tables.iter().map(|new| new.meta.family).collect();
        nameless.retain(|family| *family != DICTIONARY && !survey.names.contains_key(family));
        nameless.sort_unstable();
        nameless.dedup();
        check.damage.extend(nameless.into_iter().map(|family| survey.name(family)));
        edit.new_files.sort_by_key(|file| file.number);
        if !check.damage.is_empty() {
            // A lost tombstone may have stood below any put that is there.
            edit.unproven_upto = Some(survey.newest());
        }
        Ok(edit)
    }

    /// Copies a file if all of its tables are whole; false: they are not.
    fn copy_whole(
        &mut self,
        number: FileNo,
        len: u64,
        tables: &[(FamilyId, u8, TableHandle)],
    ) -> Result<bool> {
        for (_, _, table) in tables {
            if damage_of(&table.table, self.watch)?.is_some() {
                return Ok(false);
            }
        }
        let (from, to) = (self.from_tables.path(number), self.to_tables.path(number));
        let copied = self.copier.synced(&from, &to, len).map(|_| ());
        let whole = match copied {
            Err(Error::Io { path, .. } | Error::Corruption { path, .. }) if path == from => false,
            done => {
                done?;
                true
            }
        };
        if !whole {
            self.to_tables.remove(number)?;
        }
        Ok(whole)
    }

    /// Writes a table anew without its unreadable blocks; returns these.
    fn salvage(
        &self,
        table: &TableHandle,
        (options, format): (&FamilyOptions, FormatVersion),
        number: FileNo,
    ) -> Result<(Option<SsTableMeta>, Vec<String>)> {
        let mut iter = table.version_iter();
        let mut writer: Option<SsTableWriter> = None;
        let file = self.to_tables.create(number)?;
        let (mut lost, mut last, mut in_a_row, mut lost_at) = (Vec::new(), Vec::new(), 0, None);
        let mut step = iter.seek(&[]);
        let mut entries = 0u64;
        loop {
            if let Some(error) = unreadable(step)? {
                let what = format!("{error}; keys after '{}'", shown(&last));
                in_a_row += 1;
                // Adjacent bad blocks give one text: their places differ.
                let is_same = lost.last() == Some(&what) && lost_at == Some(iter.place());
                lost_at = Some(iter.place());
                if is_same || in_a_row > MOST_IN_A_ROW {
                    // The index itself, or a disk that reads nothing.
                    lost.push("the rest of the table".into());
                    break;
                }
                lost.push(what);
                step = iter.skip();
                continue;
            }
            if !iter.valid() {
                break;
            }
            in_a_row = 0;
            entries += 1;
            if entries % 256 == 0 {
                self.watch.check()?;
            }
            let writer = writer.get_or_insert_with(|| {
                let shape = SsTableOptions::of_family(options, false);
                SsTableWriter::new(Arc::clone(&file), 0, table.meta().family, shape).in_format(format)
            });
            writer.add(iter.key(), iter.entry())?;
            last.clear();
            last.extend_from_slice(iter.key());
            step = iter.next();
        }
        let Some(writer) = writer else {
            drop(file);
            self.to_tables.remove(number)?;
            if lost.is_empty() {
                let name = self.from_tables.name(table.file.number());
                lost.push(format!("{name} has no entry that can be read"));
            }
            return Ok((None, lost));
        };
        let meta = writer.finish()?;
        file.sync_data()?;
        Ok((Some(meta), lost))
    }

    /// Copies the runs of large transactions named in the log.
    fn runs(&mut self, survey: &Survey, check: &mut StoreCheck) -> Result<()> {
        survey.check_runs(self.watch, check)?;
        let mut files: Vec<FileNo> =
            survey.replayed.iter().flat_map(|replayed| replayed.run_files.iter().copied()).collect();
        files.sort_unstable();
        for number in files {
            if !self.from_tables.exists(number)? {
                continue;
            }
            // One that is damaged is copied as it is: reading it fails in the copy too.
            let len = self.from_tables.get(number)?.len()?;
            self.copier.synced(&self.from_tables.path(number), &self.to_tables.path(number), len)?;
        }
        Ok(())
    }

    /// Copies the value files as they are: what is damaged in them fails in the copy too.
    fn values(&mut self, survey: &Survey) -> Result<()> {
        let values = survey.versions.values();
        for number in values.hold_all().iter().map(|file| file.number()) {
            if values.store().exists(number)? {
                let (from, to) =
                    (values.store().path(number), self.to.join(TableStore::value_file_name(number)));
                let len = self.disk.open(&from, OpenMode::Read)?.len()?;
                self.copier.synced(&from, &to, len)?;
            }
        }
        Ok(())
    }

    fn log(&mut self) -> Result<()> {
        let (from, to) = (wal::log_dir(self.from), wal::log_dir(self.to));
        if !self.disk.exists(&from)? {
            return Ok(());
        }
        for name in self.disk.list(&from)? {
            let (from, to): (PathBuf, PathBuf) = (from.join(&name), to.join(&name));
            let len = self.disk.open(&from, OpenMode::Read)?.len()?;
            self.copier.synced(&from, &to, len)?;
        }
        Ok(())
    }
}

/// The first error of reading a whole table, if it is damage.
fn damage_of(table: &SsTable, watch: Watch<'_>) -> Result<Option<Error>> {
    unreadable(table.verify_unless(watch.stop).map(|_| ()))
}

/// The error, if it reports unreadable bytes; other errors are passed on.
fn unreadable(result: Result<()>) -> Result<Option<Error>> {
    match result {
        Ok(()) => Ok(None),
        Err(error @ (Error::Corruption { .. } | Error::Io { .. })) => Ok(Some(error)),
        Err(error) => Err(error),
    }
}

fn shown(key: &[u8]) -> String {
    let more = if key.len() > KEY_SHOWN { "..." } else { "" };
    format!("{}{more}", key[..key.len().min(KEY_SHOWN)].escape_ascii())
}
