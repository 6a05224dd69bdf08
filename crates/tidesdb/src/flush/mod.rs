//! Flush: turns immutable memtables into table files, with a table for each written family. Returns an edit
//! with the tables as runs of level 0.
//!
//! Guarantees: the files and their directory are synced before the edit is returned. They hold every version
//! that a live snapshot can read. Data flow: from memtable to version. Before it applies the edit, the caller
//! syncs the log up to the newest commit in the memtables (`docs/protocols.md` 1.6). It applies edits in the
//! order of memtables.

mod run_sizes;
pub(crate) mod table_files;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::iter::prune::Counts;
use crate::iter::version_merge::MergingVersionIterator;
use crate::iter::{LiveSnapshots, VersionIterator};
use crate::mutant::{self, Mutant};
use crate::options::{FamilyOptions, LogLevel, Options};
use crate::sync::note;
use crate::table::SsTableOptions;
use crate::types::{FamilyId, FileNo, MemtableId, RowCount, DICTIONARY};
use crate::version::reservations::{CompactionReservation, CompactionReservations, Held};
use crate::version::{Edit, NewTable, TableHandle, VersionSet};

use run_sizes::{merged_runs, Level0};
use table_files::{TableFiles, TableRules};

pub use run_sizes::{large_table_bound, small_runs_bound};

/// A flush's input: a sealed memtable.
pub trait FlushSource {
    /// The memtable's number.
    fn id(&self) -> MemtableId;
    /// Families with entries in the memtable.
    fn families(&self) -> Vec<FamilyId>;
    /// A family's approximate bytes of keys and values.
    fn bytes(&self, family: FamilyId) -> u64;
    /// The effect of the memtable's commits on a family's row count.
    fn row_count(&self, family: FamilyId) -> RowCount;
    /// An iterator over every version of a family, or `None` if the family has none.
    fn version_iter(&self, family: FamilyId) -> Option<Box<dyn VersionIterator + '_>>;
}

/// The parameters of a flush.
pub struct FlushInput<'a> {
    /// The versions of the store.
    pub versions: &'a VersionSet,
    /// Reservations of running jobs; the flush reserves the small runs of its merge there.
    pub reservations: &'a Arc<CompactionReservations>,
    /// Sealed memtables, ascending, without a gap. At least one.
    pub memtables: &'a [&'a dyn FlushSource],
    /// True if every older memtable is in the current version. Otherwise tombstones stay, and runs of level 0
    /// are not merged.
    pub oldest: bool,
    /// The store's options: sizes of runs and tables.
    pub options: &'a Options,
    /// The snapshots whose versions survive.
    pub live: &'a LiveSnapshots,
    /// The options of a family; `None` skips a dropped family.
    pub family: &'a dyn Fn(FamilyId) -> Option<FamilyOptions>,
    /// Ends the flush with `Error::Interrupted` when set.
    pub stop: &'a AtomicBool,
}

/// A finished flush. It holds its reservations; drop it after the edit was applied.
#[derive(Debug)]
pub struct Flushed {
    /// The edit to apply: files, tables, last sequence number and memtable number. Without survivors it has
    /// no tables.
    pub edit: Edit,
    /// Counts of entries read.
    pub counts: Counts,
    /// Bytes written.
    pub bytes_written: u64,
    /// Reservations of the runs of level 0 removed by the edit.
    pub reservations: Vec<CompactionReservation>,
    /// Read errors of small runs left out of the merge; the caller reports them.
    pub unreadable: Vec<Error>,
}

/// Writes the memtables to files: one for all small tables, one for each large one. An unreadable run of
/// level 0 is put in quarantine and not merged; it stays in place, and the new run does not depend on it.
/// After an error nothing is left over, and the same memtables may be flushed again. Errors: I/O, disk full,
/// `Interrupted`.
pub fn flush(input: &FlushInput<'_>) -> Result<Flushed> {
    let mut without_small_runs = BTreeSet::new();
    let mut unreadable = Vec::new();
    let mut may_relieve = true;
    loop {
        let mut merging = Merging { may_relieve, ..Merging::default() };
        let error = match flush_once(input, &without_small_runs, &mut merging) {
            Err(error) => error,
            Ok(done) => return Ok(Flushed { unreadable, ..done }),
        };
        if matches!(error, Error::DiskFull(_)) && merging.relieves {
            // The disk may have room for the memtables alone.
            may_relieve = false;
        } else {
            let Some(file) = input.versions.unreadable_input(&error, &merging.files) else {
                return Err(error);
            };
            unreadable.push(error);
            input.reservations.quarantine().note_table(merging.family, file);
            without_small_runs.insert(merging.family);
        }
        // Where space is short the next attempt needs the room.
        if let Err(error) = input.versions.delete_obsolete() {
            let what = format!("a file of the attempt stays for now: {error}");
            input.versions.table_files().log(LogLevel::Warn, &what);
        }
    }
}

/// The current family of a flush, and the small runs in its merge.
#[derive(Default)]
struct Merging {
    family: FamilyId,
    files: Vec<FileNo>,
    /// Level 0 is relieved where it needs to be; and it was, of some family.
    may_relieve: bool,
    relieves: bool,
}

/// One attempt at a flush. It merges no run of the families `without_small_runs`.
fn flush_once(
    input: &FlushInput<'_>,
    without_small_runs: &BTreeSet<FamilyId>,
    merging: &mut Merging,
) -> Result<Flushed> {
    let Some(newest) = input.memtables.last() else {
        return Err(Error::InvalidArgument("a flush of no memtable".into()));
    };
    let families: BTreeSet<FamilyId> = input.memtables.iter().flat_map(|g| g.families()).collect();
    let mut flushed = Flushed {
        edit: Edit { last_generation: Some(newest.id()), ..Edit::default() },
        counts: Counts::default(),
        bytes_written: 0,
        reservations: Vec::new(),
        unreadable: Vec::new(),
    };
    let mut files = TableFiles::new(input.versions, large_table_bound(input.options));
    let mut tick = |_: u64| match input.stop.load(Ordering::Relaxed) {
        true => Err(Error::Interrupted),
        false => Ok(()),
    };
    let relieved = if merging.may_relieve { relieved(input, &families) } else { BTreeSet::new() };
    for family in families {
        let Some(options) = (input.family)(family) else { continue };
        let mut row_count = RowCount::ZERO;
        input.memtables.iter().for_each(|memtable| row_count += memtable.row_count(family));
        if family != DICTIONARY && row_count != RowCount::ZERO {
            flushed.edit.row_counts.push((family, row_count));
        }
        let bytes = input.memtables.iter().map(|g| g.bytes(family)).sum();
        let is_left_out = without_small_runs.contains(&family);
        let bound = if is_left_out { 0 } else { small_runs_bound(input.options) };
        let relieves = relieved.contains(&family);
        let (small, deeper, reservation) = runs_to_merge(input, bound, relieves, family, bytes);
        merging.family = family;
        merging.files = small.iter().map(|run| run.file.number()).collect();
        merging.relieves |= relieves && !small.is_empty();
        flushed.reservations.extend(reservation);
        let mut iterators: Vec<Box<dyn VersionIterator + '_>> =
            input.memtables.iter().rev().filter_map(|g| g.version_iter(family)).collect();
        if !small.is_empty() {
            note("merge: small runs in a flush");
        }
        for run in &small {
            if !mutant::is(Mutant::SmallRunForgotten) {
                iterators.push(Box::new(run.version_iter()));
            }
            flushed.edit.removed_tables.push((family, run.file.number()));
        }
        let below = (deeper || !input.oldest) && !mutant::is(Mutant::FlushDropsTombstones);
        let rules = TableRules {
            family,
            options: SsTableOptions::of_family(&options, false),
            bytes: bytes + small.iter().map(|run| run.meta().len).sum::<u64>(),
            below: &mut |_| below,
            tick: &mut tick,
        };
        let (table, counts) = files.table(&mut MergingVersionIterator::new(iterators), input.live, rules)?;
        flushed.counts += counts;
        if let Some((file, meta)) = table {
            flushed.bytes_written += meta.len;
            flushed.edit.new_tables.push(NewTable { file, level: 0, generation: newest.id(), meta });
        }
    }
    flushed.edit.last_seq = Some(flushed.counts.max_seq);
    let files = files.finish()?;
    if !files.is_empty() {
        let synced = match mutant::is(Mutant::FlushDirUnsynced) {
            true => Ok(()),
            false => input.versions.table_files().sync(),
        };
        if let Err(error) = synced {
            files.iter().for_each(|file| input.versions.discard_file(file.number));
            return Err(error);
        }
        flushed.edit.new_files.extend(files);
    }
    Ok(flushed)
}

/// The families whose level 0 the flush relieves: those that stop writers with the next run, and of those that do so
/// soon the one with most runs. So a flush does not take much longer than others.
fn relieved(input: &FlushInput<'_>, families: &BTreeSet<FamilyId>) -> BTreeSet<FamilyId> {
    let version = input.versions.current();
    let states = families.iter().filter_map(|&family| {
        let runs = version.family(family)?.l0.len();
        Some((runs, family, Level0::of(runs, &(input.family)(family)?, input.options)))
    });
    let piled: Vec<_> = states.filter(|(_, _, state)| *state > Level0::Short).collect();
    let most = piled.iter().max_by_key(|&&(runs, family, _)| (runs, std::cmp::Reverse(family)));
    let full = piled.iter().filter(|(_, _, state)| *state == Level0::Full);
    full.chain(most).map(|&(_, family, _)| family).collect()
}

/// Reserves and returns the newest runs of level 0 to merge into the flush, newest first. The flag is true if
/// the family has other runs; all of those are older.
fn runs_to_merge(
    input: &FlushInput<'_>,
    bound: u64,
    relieves: bool,
    family: FamilyId,
    bytes: u64,
) -> (Vec<TableHandle>, bool, Option<CompactionReservation>) {
    let relieves = relieves && bound > 0;
    input.reservations.with(input.versions, |version, reservations| {
        let Some(levels) = version.family(family) else {
            return (Vec::new(), false, None);
        };
        let is_free = |run: &&TableHandle| input.oldest && !reservations.holds(family, run.file.number());
        let free = levels.l0.iter().take_while(is_free).map(|run| run.meta().len);
        let merged = merged_runs(free, bytes, bound, relieves);
        let small: Vec<TableHandle> = levels.l0.iter().take(merged).cloned().collect();
        if relieves && !small.is_empty() {
            note("merge: level 0 relieved by a flush");
        }
        let deeper = small.len() < levels.l0.len() || !levels.levels.is_empty();
        if small.is_empty() {
            return (small, deeper, None);
        }
        let files = small.iter().map(|run| run.file.number()).collect();
        let reservation = reservations.reserve(family, Held { files, output: None });
        (small, deeper, Some(reservation))
    })
}
