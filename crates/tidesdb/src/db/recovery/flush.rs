//! The flush of what was replayed: one file for each run of memtables, and the runs of spilled commits between
//! them, as one edit. Used by [`open`](crate::db::recovery::open), before the store's threads exist.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::Arc;

use crate::db::background::FlushedMemtable;
use crate::db::dictionary::FamilyEntry;
use crate::error::Result;
use crate::flush::{self, FlushInput, FlushSource, Flushed};
use crate::iter::merge::MergingIterator;
use crate::iter::{InternalIterator, LiveSnapshots};
use crate::memtable::{ArenaPool, Memtable};
use crate::options::{FamilyOptions, Options};
use crate::store::view::{Flushable, ReadView};
use crate::types::{Seq, DICTIONARY, MAX_SEQ};
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
    /// The edit will not be applied: what was written is unlinked later, runs stay.
    pub(crate) fn give_up(self, versions: &VersionSet) {
        for file in self.flushed.iter().flat_map(|flushed| &flushed.edit.new_files) {
            versions.discard_file(file.number);
        }
    }
}

/// Writes the memtables to files and adds the runs. The edit is not applied yet. When it fails only the
/// runs are left over.
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
    let live = LiveSnapshots { scan_bound: newest, ..LiveSnapshots::default() };
    let family_options = replayed_options(versions, flushables)?;
    let mut rest = flushables;
    while let Some(first) = rest.first() {
        let oldest = rest.len() == flushables.len();
        if let Flushable::Runs(runs) = first {
            let named = runs.edit(&|family| family_options.contains_key(&family));
            edit.new_files.extend(named.new_files);
            edit.new_tables.extend(named.new_tables);
            edit.row_counts.extend(named.row_counts);
            rest = &rest[1..];
            continue;
        }
        let memtables: Vec<FlushedMemtable<'_>> =
            rest.iter().map_while(Flushable::memtable).map(FlushedMemtable::new).collect();
        rest = &rest[memtables.len()..];
        let memtables: Vec<&dyn FlushSource> =
            memtables.iter().map(|memtable| memtable as &dyn FlushSource).collect();
        let done = flush::flush(&FlushInput {
            versions,
            reservations,
            memtables: &memtables,
            oldest,
            small_runs: flush::small_runs_bound(options),
            live: &live,
            family: &|family| family_options.get(&family).cloned(),
            stop: &AtomicBool::new(false),
        })?;
        edit.new_files.extend(done.edit.new_files.iter().copied());
        edit.new_tables.extend(done.edit.new_tables.iter().cloned());
        edit.removed_tables.extend(done.edit.removed_tables.iter().copied());
        edit.row_counts.extend(done.edit.row_counts.iter().copied());
        flushed.push(done);
    }
    Ok(())
}

/// Options of the families that replayed memtables touch, as the dictionary, replayed part included, has
/// them; families that it does not know were dropped.
fn replayed_options(versions: &VersionSet, flushables: &[Flushable]) -> Result<HashMap<u32, FamilyOptions>> {
    let mut iterators: Vec<Box<dyn InternalIterator>> = Vec::new();
    for memtable in flushables.iter().rev().filter_map(Flushable::memtable) {
        if let Some(iter) = memtable.iter(DICTIONARY, MAX_SEQ) {
            iterators.push(Box::new(iter));
        }
    }
    let empty = Arc::new(Memtable::new(0, ArenaPool::new(0)));
    let view = ReadView { active: empty, sealed: Vec::new(), version: versions.current() };
    iterators.extend(view.iterators(DICTIONARY, MAX_SEQ, &[])?);
    let mut options = HashMap::new();
    options.insert(DICTIONARY, FamilyOptions::default());
    let mut merge = MergingIterator::new(iterators);
    merge.seek(b"f")?;
    while merge.valid() && merge.key().starts_with(b"f") {
        if !merge.entry().kind.is_tombstone() {
            let entry = FamilyEntry::decode(merge.entry().value)?;
            options.insert(entry.id, entry.options);
        }
        merge.next()?;
    }
    Ok(options)
}
