//! The flush of replayed memtables: files for each run of memtables, and the runs of spilled commits between
//! them, as one edit. Used by [`open`](crate::db::recovery::open), before the store's threads exist.

use std::sync::atomic::AtomicBool;
use std::sync::Arc;

use crate::compaction::picker::deepest_level;
use crate::db::background::{unread_run, MemtableSource};
use crate::db::dictionary::{self, FamilyEntry};
use crate::db::recovery::damaged_dictionary::certain_entries;
use crate::error::Result;
use crate::flush::{self, FlushInput, FlushSource, Flushed};
use crate::host::HashMap;
use crate::iter::LiveSnapshots;
use crate::memtable::{ArenaPool, Memtable};
use crate::options::{FamilyOptions, LogLevel, Options};
use crate::store::super_version::{Flushable, SuperVersion};
use crate::types::{Seq, DICTIONARY};
use crate::version::reservations::CompactionReservations;
use crate::version::{Edit, VersionSet};

/// The flush's output, held until its edit is applied.
#[derive(Default)]
pub(crate) struct RecoveryFlush {
    /// Files and tables of all flushables.
    pub edit: Edit,
    flushed: Vec<Flushed>,
}

impl RecoveryFlush {
    /// Gives the edit up: the files are unlinked later, runs stay.
    pub(crate) fn give_up(self, versions: &VersionSet) {
        for file in self.flushed.iter().flat_map(|flushed| &flushed.edit.new_files) {
            versions.discard_file(file.number);
        }
    }
}

/// Writes the memtables to files and adds the runs. The edit is not applied yet. After an error only the runs
/// are left.
pub(crate) fn flush_replayed(
    versions: &VersionSet,
    reservations: &Arc<CompactionReservations>,
    options: &Options,
    flushables: &[Flushable],
    newest: Seq,
) -> Result<RecoveryFlush> {
    let mut flush = RecoveryFlush::default();
    match flush_flushables(versions, reservations, options, flushables, newest, &mut flush) {
        Ok(()) => Ok(flush),
        Err(error) => {
            flush.give_up(versions);
            Err(error)
        }
    }
}

fn flush_flushables(
    versions: &VersionSet,
    reservations: &Arc<CompactionReservations>,
    options: &Options,
    flushables: &[Flushable],
    newest: Seq,
    into: &mut RecoveryFlush,
) -> Result<()> {
    if flushables.is_empty() {
        return Ok(());
    }
    let RecoveryFlush { edit, flushed } = into;
    let unproven_upto = versions.state().unproven_upto;
    let live = LiveSnapshots { scan_bound: newest, unproven_upto, ..LiveSnapshots::default() };
    let family_options = ReplayedOptions::read(versions, flushables)?;
    let mut rest = flushables;
    while let Some(first) = rest.first() {
        let oldest = rest.len() == flushables.len();
        if let Flushable::Runs(runs) = first {
            let version = versions.current();
            let has_tables = |family| {
                version.family(family).is_some()
                    || edit.new_tables.iter().any(|new| new.meta.family == family)
            };
            let named = runs.edit(&|family| family_options.of(family).is_some(), &|family| {
                let options = family_options.of(family)?;
                (!has_tables(family)).then(|| deepest_level(&options))
            });
            edit.new_files.extend(named.new_files);
            edit.new_tables.extend(named.new_tables);
            edit.row_counts.extend(named.row_counts);
            edit.unproven_upto = edit.unproven_upto.max(named.unproven_upto);
            rest = &rest[1..];
            continue;
        }
        let memtables: Vec<MemtableSource<'_>> =
            rest.iter().map_while(Flushable::memtable).map(MemtableSource::new).collect();
        rest = &rest[memtables.len()..];
        let memtables: Vec<&dyn FlushSource> =
            memtables.iter().map(|memtable| memtable as &dyn FlushSource).collect();
        let done = flush::flush(&FlushInput {
            versions,
            reservations,
            memtables: &memtables,
            oldest,
            options,
            live: &live,
            family: &|family| family_options.of(family),
            stop: &AtomicBool::new(false),
        })?;
        for error in &done.unreadable {
            options.log(LogLevel::Error, &unread_run(error));
        }
        edit.new_files.extend(done.edit.new_files.iter().copied());
        edit.new_tables.extend(done.edit.new_tables.iter().cloned());
        edit.removed_tables.extend(done.edit.removed_tables.iter().copied());
        edit.row_counts.extend(done.edit.row_counts.iter().copied());
        flushed.push(done);
    }
    Ok(())
}

/// Options of the families in replayed memtables, according to the dictionary with its replayed part; unknown
/// families were dropped. In a damaged dictionary, any family may exist: with default options.
struct ReplayedOptions {
    known: HashMap<u32, FamilyOptions>,
    is_complete: bool,
}

impl ReplayedOptions {
    fn read(versions: &VersionSet, flushables: &[Flushable]) -> Result<ReplayedOptions> {
        let active = Arc::new(Memtable::new(0, ArenaPool::new(0)));
        let sealed = flushables.iter().rev().cloned().collect();
        let (entries, damage) =
            certain_entries(&SuperVersion { active, sealed, version: versions.current() })?;
        let mut known = HashMap::default();
        known.insert(DICTIONARY, FamilyOptions::default());
        for (key, (_, kind, value)) in &entries {
            if dictionary::family_name(key).is_some() && !kind.is_tombstone() {
                let entry = FamilyEntry::decode(value)?;
                known.insert(entry.id, entry.options);
            }
        }
        Ok(ReplayedOptions { known, is_complete: damage.is_none() })
    }

    fn of(&self, family: u32) -> Option<FamilyOptions> {
        self.known.get(&family).cloned().or_else(|| (!self.is_complete).then(FamilyOptions::default))
    }
}
