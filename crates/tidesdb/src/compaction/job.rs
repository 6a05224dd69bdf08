//! The execution of a picked [`Task`]: merges its inputs, keeps the versions needed by live snapshots, and
//! returns an edit that replaces inputs by outputs. The outputs and their directory are synced on return.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::flush::table_files::{TableFiles, TableRules};
use crate::iter::{LiveSnapshots, VersionIterator};
use crate::mutant::{self, Mutant};
use crate::options::FamilyOptions;
use crate::sync::note;
use crate::table::SsTableOptions;
use crate::types::{Entry, FamilyId, FileNo};
use crate::value_holds::ValueHolds;
use crate::values::{MovedValues, NewFiles, Separation};
use crate::version::{
    mirror, Edit, FamilyLevels, FileUse, Level, LevelVersionIterator, NewFile, NewTable, TableHandle,
    VersionSet,
};

use super::picker::{Task, GRANDPARENT_FACTOR};
use crate::iter::prune::{rewrite, Counts, Rewrite};
use crate::iter::version_merge::MergingVersionIterator;
use crate::version::reservations::{CompactionReservation, CompactionReservations, Held};
use crate::version::table_output::TableOutput;

/// Parameters common to all jobs.
pub struct JobContext<'a> {
    /// The versions of the store.
    pub versions: &'a VersionSet,
    /// The snapshots whose versions survive.
    pub live: &'a LiveSnapshots,
    /// Called every 256 entries; true ends the job with `Error::Interrupted`.
    pub stop: &'a dyn Fn() -> bool,
    /// Called every 256 entries with the bytes read since the last call; may sleep.
    pub pace: &'a dyn Fn(u64),
    /// See [`large_table_bound`](crate::flush::large_table_bound).
    pub large_table: u64,
    /// Makes value files, for values that are long by now; `None`: none leaves its entry.
    pub new_value_files: Option<&'a dyn NewFiles>,
}

impl JobContext<'_> {
    fn tick(&self, bytes: u64) -> Result<()> {
        if (self.stop)() {
            return Err(Error::Interrupted);
        }
        (self.pace)(bytes);
        Ok(())
    }

    fn sync_dir(&self) -> Result<()> {
        if mutant::is(Mutant::MergeDirUnsynced) {
            return Ok(());
        }
        self.versions.table_files().sync()
    }
}

/// A finished job: apply its edit, then release its reservation.
#[derive(Debug, Default)]
pub struct Compacted {
    /// Adds the outputs and removes the inputs.
    pub edit: Edit,
    /// Counts of entries read.
    pub counts: Counts,
    /// Bytes of the tables read.
    pub bytes_read: u64,
    /// Bytes of the tables written.
    pub bytes_written: u64,
    /// Holds on the value files that it has made, until the outputs have theirs.
    #[allow(dead_code, reason = "held and not read")]
    pub values: ValueHolds,
}

/// A level's end that is kept apart has this part of a full output: a thirty-second, a megabyte.
const END_SHARE: u64 = 32;

/// The table before it has this part of a full output at least.
const LEAST_SHARE: u64 = 4;

/// Runs a task of `family`, with inputs reserved and present in `levels`. After an error nothing is left
/// over, and the task may run again. Errors: I/O, damage of an input (with its name), disk full,
/// `Interrupted`.
pub fn compact(
    context: &JobContext<'_>,
    levels: &FamilyLevels,
    family: FamilyId,
    options: &FamilyOptions,
    target_file_size: u64,
    task: &Task,
) -> Result<Compacted> {
    note(task.reason.event());
    let inputs = find(levels, task.from, &task.inputs)?;
    let overlaps = find(levels, task.to, &task.overlaps)?;
    let mut done = Compacted::default();
    let edit = &mut done.edit;
    edit.removed_tables.extend(task.inputs.iter().chain(&task.overlaps).map(|&file| (family, file)));
    edit.cursors.extend(task.cursor.iter().map(|key| (family, task.from, key.clone())));
    if task.moves {
        edit.new_tables.extend(inputs.iter().map(|table| NewTable {
            file: table.file.number(),
            level: task.to,
            generation: 0,
            meta: table.meta().clone(),
        }));
        return Ok(done);
    }

    done.bytes_read = inputs.iter().chain(&overlaps).map(|table| table.meta().len).sum();
    let generation = inputs.iter().map(|table| table.generation).max().unwrap_or(0);
    let mut iterators: Vec<Box<dyn VersionIterator>> = Vec::new();
    let last_of_all = inputs.iter().chain(&overlaps).max_by_key(|table| &table.meta().max_key).cloned();
    let (inputs, overlaps) = (without_expired(inputs, context.live), without_expired(overlaps, context.live));
    if task.from == 0 {
        iterators
            .extend(inputs.iter().map(|table| Box::new(table.version_iter()) as Box<dyn VersionIterator>));
    } else {
        iterators.push(Box::new(LevelVersionIterator::new(inputs)));
    }
    if !overlaps.is_empty() {
        iterators.push(Box::new(LevelVersionIterator::new(overlaps)));
    }
    let deeper = task.to as usize..levels.levels.len();
    let bottom = task.to > 0 && levels.levels[deeper.clone().start.min(levels.levels.len())..].is_empty();
    let grandparents = (task.to > 0).then(|| levels.level(task.to + 1)).flatten();
    let mut outputs = Outputs {
        context,
        family,
        options: SsTableOptions::of_family(options, bottom),
        cut_at: if task.to == 0 { u64::MAX } else { target_file_size },
        end: end_apart(levels, task, &last_of_all, target_file_size)?,
        below: LowerLevels::new(levels, task),
        grandparents: LevelCursor::new(grandparents.cloned()),
        grandparents_bytes: 0,
        last_key: Vec::new(),
        writing: None,
        files: Vec::new(),
        tables: Vec::new(),
        separation: context.new_value_files.and_then(|new| context.versions.separation(options, new)),
        moved: MovedValues::default(),
    };
    done.counts = rewrite(&mut MergingVersionIterator::new(iterators), context.live, &mut outputs)?;
    outputs.end_table()?;
    done.values = outputs.moved.finish()?;
    if !outputs.tables.is_empty() {
        context.sync_dir()?;
    }
    for (number, meta) in outputs.tables.drain(..) {
        done.bytes_written += meta.len;
        edit.new_files.push(NewFile { number, len: meta.len });
        if meta.mirror != 0 {
            edit.new_files.push(NewFile { number: meta.mirror, len: meta.len });
        }
        let generation = if task.to == 0 { generation } else { 0 };
        edit.new_tables.push(NewTable { file: number, level: task.to, generation, meta });
    }
    outputs.files.clear();
    Ok(done)
}

/// The level's last keys get a table of their own where rows are appended: the next ones of several clients begin a few
/// rows before the last one's end, and only this table is merged with them. `last` has the greatest key of the merge.
/// Returns its first key.
fn end_apart(
    levels: &FamilyLevels,
    task: &Task,
    last: &Option<TableHandle>,
    target_file_size: u64,
) -> Result<Option<Vec<u8>>> {
    let len = (target_file_size / END_SHARE).max(1);
    let tables = levels.level(task.to).map_or(&[][..], |level| level.tables());
    let Some(last) = last.as_ref().filter(|last| {
        let is_end = tables.last().is_none_or(|end| end.meta().max_key <= last.meta().max_key);
        is_end && task.from == 0 && task.to > 0 && task.overlaps.len() <= 1
    }) else {
        return Ok(None);
    };
    if last.meta().len <= len {
        return Ok(Some(last.meta().min_key.clone()));
    }
    last.key_at(1.0 - len as f64 / last.meta().len as f64).map(Some)
}

/// The tables to read: all of them, where no fault is planted.
fn without_expired(mut tables: Vec<TableHandle>, live: &LiveSnapshots) -> Vec<TableHandle> {
    if mutant::is(Mutant::ExpiredTableDropped) {
        tables.retain(|table| table.meta().expiry.is_none_or(|expiry| expiry.newest > live.expired_at));
    }
    tables
}

/// The tables of a level in these files, in the order of the files.
fn find(levels: &FamilyLevels, level: u8, files: &[FileNo]) -> Result<Vec<TableHandle>> {
    let tables = match level {
        0 => levels.l0.as_slice(),
        _ => levels.level(level).map_or(&[][..], |level| level.tables()),
    };
    let table = |file: &FileNo| {
        tables.iter().find(|table| table.file.number() == *file).cloned().ok_or_else(|| {
            Error::InvalidArgument(format!("level {level} has no table in file {file} to compact"))
        })
    };
    files.iter().map(table).collect()
}

/// A cursor over a level's tables that follows ascending keys.
struct LevelCursor {
    level: Option<Arc<Level>>,
    at: usize,
}

impl LevelCursor {
    fn new(level: Option<Arc<Level>>) -> LevelCursor {
        LevelCursor { level, at: 0 }
    }

    /// Bytes of the tables ending before `key`, without those counted by earlier calls.
    fn passed(&mut self, key: &[u8]) -> u64 {
        let mut bytes = 0;
        while let Some(table) = self.level.as_ref().and_then(|level| level.tables().get(self.at)) {
            if table.meta().max_key.as_slice() >= key {
                break;
            }
            bytes += table.meta().len;
            self.at += 1;
        }
        bytes
    }

    /// True if a table's key range has `key`, which must not be below the last one asked for.
    fn covers(&mut self, key: &[u8]) -> bool {
        self.passed(key);
        let table = self.level.as_ref().and_then(|level| level.tables().get(self.at));
        table.is_some_and(|table| table.meta().min_key.as_slice() <= key)
    }
}

/// The tables older than a task's output, apart from its inputs.
struct LowerLevels {
    l0: Vec<TableHandle>,
    levels: Vec<LevelCursor>,
}

impl LowerLevels {
    fn new(levels: &FamilyLevels, task: &Task) -> LowerLevels {
        let mut l0 = Vec::new();
        if task.to == 0 {
            // Those after the oldest input.
            let older =
                levels.l0.iter().rev().take_while(|table| !task.inputs.contains(&table.file.number()));
            l0.extend(older.cloned());
        }
        let deeper = levels.levels.iter().skip(task.to as usize).filter(|level| !level.tables().is_empty());
        LowerLevels { l0, levels: deeper.map(|level| LevelCursor::new(Some(Arc::clone(level)))).collect() }
    }

    fn covers(&mut self, key: &[u8]) -> bool {
        let covers = |table: &TableHandle| {
            table.meta().min_key.as_slice() <= key && key <= table.meta().max_key.as_slice()
        };
        self.l0.iter().any(covers) || self.levels.iter_mut().any(|level| level.covers(key))
    }
}

/// A compaction's output files; dropping them unfinished unlinks them.
struct Outputs<'a> {
    context: &'a JobContext<'a>,
    family: FamilyId,
    options: SsTableOptions,
    cut_at: u64,
    /// The first key of the last output, if that is kept apart.
    end: Option<Vec<u8>>,
    below: LowerLevels,
    grandparents: LevelCursor,
    /// Bytes of the grandparents passed by the open output.
    grandparents_bytes: u64,
    last_key: Vec<u8>,
    writing: Option<TableOutput>,
    files: Vec<FileNo>,
    tables: Vec<(FileNo, crate::table::SsTableMeta)>,
    separation: Option<Separation<'a>>,
    moved: MovedValues,
}

impl Outputs<'_> {
    fn begin_table(&mut self) -> Result<()> {
        let output = TableOutput::create(self.context.versions, self.family, &self.options)?;
        self.files.push(output.number);
        self.writing = Some(output);
        self.grandparents_bytes = 0;
        Ok(())
    }

    fn end_table(&mut self) -> Result<()> {
        if let Some(output) = self.writing.take() {
            let number = output.number;
            let (file, mut meta) = output.finish()?;
            if !mutant::is(Mutant::MergeUnsynced) {
                file.sync_data()?;
            }
            if let Some(mirror) = mirror::write(self.context.versions, &*file, &mut meta)? {
                self.files.push(mirror.number);
            }
            self.context.versions.table_files().written(&*file);
            self.tables.push((number, meta));
        }
        Ok(())
    }
}

impl Rewrite for Outputs<'_> {
    fn below(&mut self, key: &[u8]) -> bool {
        self.below.covers(key) && !mutant::is(Mutant::MergeDropsTombstones)
    }

    fn keep(&mut self, key: &[u8], entry: Entry<'_>) -> Result<()> {
        let ends = self.end.take_if(|end| end.as_slice() <= key).is_some();
        if let Some(output) = &self.writing {
            if key != self.last_key.as_slice() {
                self.grandparents_bytes += self.grandparents.passed(key);
                // What is left before the end stays for good: not many small tables.
                let ends = ends && output.writer.estimated_len() >= self.cut_at / LEAST_SHARE;
                if ends {
                    note("merge: end kept apart");
                }
                if ends
                    || output.writer.estimated_len() >= self.cut_at
                    || self.grandparents_bytes / GRANDPARENT_FACTOR > self.cut_at
                {
                    self.end_table()?;
                }
            }
        }
        if self.writing.is_none() {
            self.grandparents.passed(key);
            self.begin_table()?;
        }
        if key != self.last_key.as_slice() {
            self.last_key.clear();
            self.last_key.extend_from_slice(key);
        }
        let Some(TableOutput { writer, .. }) = &mut self.writing else { return Ok(()) };
        match &self.separation {
            Some(separation) => separation.add(writer, (self.family, key), entry, &mut self.moved),
            None => writer.add(key, entry),
        }
    }

    fn tick(&mut self, bytes: u64) -> Result<()> {
        self.context.tick(bytes)
    }
}

impl Drop for Outputs<'_> {
    fn drop(&mut self) {
        self.writing = None;
        for number in self.files.drain(..) {
            self.context.versions.discard_file(number);
        }
    }
}

/// A sparse file with the reserved tables to rewrite.
#[derive(Debug)]
pub struct SparseTask {
    /// The file.
    pub file: FileNo,
    /// Its live tables, with their levels; reserved.
    pub tables: Vec<(u8, TableHandle)>,
    /// Reservations to hold until the edit was applied.
    #[allow(dead_code, reason = "held and not read: the reservations end when they are dropped")]
    pub reservations: Vec<CompactionReservation>,
}

impl SparseTask {
    /// The families of the live tables.
    pub fn families(&self) -> Vec<FamilyId> {
        self.tables.iter().map(|(_, table)| table.meta().family).collect()
    }
}

/// Reserves the live tables of the first free file among `files` (from
/// [`sparse::worth_rewriting`](super::sparse::worth_rewriting)). A file is free if no job holds one of its
/// tables.
pub fn pick_sparse(
    reservations: &Arc<CompactionReservations>,
    versions: &VersionSet,
    files: &[FileUse],
) -> Option<SparseTask> {
    reservations.with(versions, |version, view| {
        files.iter().find_map(|file| {
            let of_family = |&family: &FamilyId| {
                let mut tables = version.family(family)?.tables();
                let (level, table) = tables.find(|(_, table)| table.file.number() == file.number)?;
                Some((level, table.clone()))
            };
            let tables: Vec<(u8, TableHandle)> = file.families.iter().filter_map(of_family).collect();
            if tables.is_empty() || file.families.iter().any(|&family| view.holds(family, file.number)) {
                return None;
            }
            let mut reserve = |(_, table): &(u8, TableHandle)| {
                view.reserve(table.meta().family, Held { files: vec![file.number], output: None })
            };
            let reservations = tables.iter().map(&mut reserve).collect();
            Some(SparseTask { file: file.number, tables, reservations })
        })
    })
}

/// Rewrites the live tables of a sparse file into new files, each in its old place in the version. `family`
/// gives a family's options; `None` leaves out a dropped family. Errors as in [`compact`].
pub fn rewrite_sparse(
    context: &JobContext<'_>,
    task: &SparseTask,
    family: &dyn Fn(FamilyId) -> Option<FamilyOptions>,
) -> Result<Compacted> {
    note("merge: file with dead tables");
    let mut done = Compacted::default();
    let mut files = TableFiles::new(context.versions, context.large_table);
    for (level, table) in &task.tables {
        let id = table.meta().family;
        let Some(options) = family(id) else { continue };
        let rules = TableRules {
            family: id,
            options: SsTableOptions::of_family(&options, false),
            bytes: table.meta().len,
            below: &mut |_| true,
            tick: &mut |bytes| context.tick(bytes),
        };
        let (new, counts) = files.table(&mut table.version_iter(), context.live, rules)?;
        done.counts += counts;
        done.bytes_read += table.meta().len;
        done.edit.removed_tables.push((id, task.file));
        if let Some((file, meta)) = new {
            done.bytes_written += meta.len;
            let generation = table.generation;
            done.edit.new_tables.push(NewTable { file, level: *level, generation, meta });
        }
    }
    let files = files.finish()?;
    if !files.is_empty() {
        if let Err(error) = context.sync_dir() {
            files.iter().for_each(|file| context.versions.discard_file(file.number));
            return Err(error);
        }
        done.edit.new_files.extend(files);
    }
    Ok(done)
}
