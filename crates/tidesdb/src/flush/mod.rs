//! Flush: immutable memtables become table files with a table for each family that had writes, and an edit that
//! names them as runs of level 0.
//!
//! Guarantees: the files and their directory are synced when the edit is returned; what any live snapshot can
//! read is in them. Stands between memtable and version; the log is the caller's: it is synced up to the
//! newest commit in the memtables before the edit is applied (`docs/protocols.md` 1.6), and edits are applied in
//! the order of memtables.

pub(crate) mod table_files;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::iter::prune::Counts;
use crate::iter::version_merge::MergingVersionIterator;
use crate::iter::{LiveSnapshots, VersionIterator};
use crate::options::{FamilyOptions, Options};
use crate::table::SsTableOptions;
use crate::types::{FamilyId, FileNo, MemtableId, RowCount, DICTIONARY};
use crate::version::reservations::{CompactionReservation, CompactionReservations, Held};
use crate::version::{Edit, NewTable, TableHandle, VersionSet};

use table_files::{large_table_bound, TableFiles, TableRules};

/// Runs of level 0 are merged into a flush while they and the new entries are below this together: small
/// families stay one run in a shared file. Less where the write buffer is small, so that a flush does not
/// write much more than it was given. None in a store opened for reading: its flush after recovery goes to memory, and
/// what is on the disk is to be shown as it is.
pub fn small_runs_bound(options: &Options) -> u64 {
    if options.read_only {
        return 0;
    }
    (1 << 20).min(options.write_buffer_size as u64 / 16)
}

/// ... and while each is at most so many times what the merge wrote before it (or [`TINY_RUN`]), so that a family
/// that gets little with each flush is not rewritten with each.
const SMALL_RUN_FACTOR: u64 = 8;

/// A run that is merged whatever the new entries are: about the cost of a file operation.
const TINY_RUN: u64 = 64 << 10;

/// A flush's input: a sealed memtable.
pub trait FlushSource {
    /// Its number.
    fn id(&self) -> MemtableId;
    /// The families that have entries in it.
    fn families(&self) -> Vec<FamilyId>;
    /// About how many bytes of keys and values a family has in it.
    fn bytes(&self, family: FamilyId) -> u64;
    /// Its commits' effect on the number of a family's rows.
    fn row_count(&self, family: FamilyId) -> RowCount;
    /// Every version of a family, or `None` if it has none.
    fn version_iter(&self, family: FamilyId) -> Option<Box<dyn VersionIterator + '_>>;
}

/// What a flush is told.
pub struct FlushInput<'a> {
    /// The versions of the store.
    pub versions: &'a VersionSet,
    /// Running jobs; small runs that the flush merges are reserved.
    pub reservations: &'a Arc<CompactionReservations>,
    /// Sealed memtables, ascending, without a gap. At least one.
    pub memtables: &'a [&'a dyn FlushSource],
    /// Whether every older memtable is in the current version: only then tombstones may go and runs of
    /// level 0 be merged.
    pub oldest: bool,
    /// The store's: sizes of runs and tables.
    pub options: &'a Options,
    /// The snapshots to keep versions for.
    pub live: &'a LiveSnapshots,
    /// The options of a family; `None` if it was dropped: it is skipped.
    pub family: &'a dyn Fn(FamilyId) -> Option<FamilyOptions>,
    /// When set, the flush ends with `Error::Interrupted`.
    pub stop: &'a AtomicBool,
}

/// A finished flush. The reservations are held until it is dropped, which is after the edit was applied.
#[derive(Debug)]
pub struct Flushed {
    /// To be applied: the files, their tables, last sequence number and memtable number. Without tables if nothing
    /// survived.
    pub edit: Edit,
    /// Entries met.
    pub counts: Counts,
    /// Bytes written.
    pub bytes_written: u64,
    /// Reservations of the runs of level 0 that the edit removes.
    pub reservations: Vec<CompactionReservation>,
    /// What could not be read of small runs, which were left out: to be told.
    pub unreadable: Vec<Error>,
}

/// Writes the memtables to files: one for all small tables, one for each large one. A run of level 0 that cannot be
/// read is set aside and not merged: it stays where it is, and the new run does not depend on it. On an error nothing
/// is left over and the same memtables may be flushed again. Errors: I/O, disk full, `Interrupted`.
pub fn flush(input: &FlushInput<'_>) -> Result<Flushed> {
    let mut without_small_runs = BTreeSet::new();
    let mut unreadable = Vec::new();
    loop {
        let mut merging = Merging::default();
        let error = match flush_once(input, &without_small_runs, &mut merging) {
            Err(error) => error,
            Ok(done) => return Ok(Flushed { unreadable, ..done }),
        };
        let Some(file) = input.versions.unreadable_input(&error, &merging.files) else { return Err(error) };
        unreadable.push(error);
        input.reservations.set_aside().note_table(merging.family, file);
        without_small_runs.insert(merging.family);
        // Where space is short the next attempt needs the room.
        if let Err(error) = input.versions.delete_obsolete() {
            tracing::warn!(%error, "a file of the attempt stays for now");
        }
    }
}

/// The family that a flush is at, and the small runs that it merges.
#[derive(Default)]
struct Merging {
    family: FamilyId,
    files: Vec<FileNo>,
}

/// No run of the families `without_small_runs` is merged into it.
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
        let (small, deeper, reservation) = small_runs(input, bound, family, bytes);
        *merging = Merging { family, files: small.iter().map(|run| run.file.number()).collect() };
        flushed.reservations.extend(reservation);
        let mut iterators: Vec<Box<dyn VersionIterator + '_>> =
            input.memtables.iter().rev().filter_map(|g| g.version_iter(family)).collect();
        for run in &small {
            iterators.push(Box::new(run.version_iter()));
            flushed.edit.removed_tables.push((family, run.file.number()));
        }
        let below = deeper || !input.oldest;
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
        if let Err(error) = input.versions.table_files().sync() {
            files.iter().for_each(|file| input.versions.discard_file(file.number));
            return Err(error);
        }
        flushed.edit.new_files.extend(files);
    }
    Ok(flushed)
}

/// The newest runs of level 0 that are merged into the flush, newest first, reserved; and whether the family has
/// other runs, all of which are older.
fn small_runs(
    input: &FlushInput<'_>,
    bound: u64,
    family: FamilyId,
    bytes: u64,
) -> (Vec<TableHandle>, bool, Option<CompactionReservation>) {
    input.reservations.with(input.versions, |version, reservations| {
        let Some(levels) = version.family(family) else {
            return (Vec::new(), false, None);
        };
        let mut merged = bytes;
        let take = |run: &&TableHandle| {
            let len = run.meta().len;
            let fits = len <= TINY_RUN.max(merged * SMALL_RUN_FACTOR) && merged + len < bound;
            merged += len;
            fits && input.oldest && !reservations.holds(family, run.file.number())
        };
        let small: Vec<TableHandle> = levels.l0.iter().take_while(take).cloned().collect();
        let deeper = small.len() < levels.l0.len() || !levels.levels.is_empty();
        if small.is_empty() {
            return (small, deeper, None);
        }
        let files = small.iter().map(|run| run.file.number()).collect();
        let reservation = reservations.reserve(family, Held { files, output: None });
        (small, deeper, Some(reservation))
    })
}
