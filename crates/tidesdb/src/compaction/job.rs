//! Doing what the picker decided: merges the inputs of a [`Task`], keeps what live snapshots need, and returns
//! the edit that puts the outputs in their place. Outputs and directory are synced when it returns.

use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::flush::shared_file::{SegmentRules, SharedFile};
use crate::io::{File, OpenMode};
use crate::iter::{LiveSnapshots, RawSource};
use crate::options::FamilyOptions;
use crate::table::{SegmentOptions, SegmentWriter};
use crate::types::{Entry, FamilyId, FileNo};
use crate::version::{
    Edit, FamilyLevels, FileUse, Level, NewFile, NewSegment, RawLevelSource, Run, Version, VersionSet,
};

use super::claims::{Claim, Claims, Held};
use super::merge::RawMerge;
use super::picker::{Task, GRANDPARENT_FACTOR};
use super::prune::{rewrite, Counts, Rewrite};

/// What every job is told.
pub struct JobContext<'a> {
    /// The versions of the store.
    pub versions: &'a VersionSet,
    /// The snapshots to keep versions for.
    pub live: &'a LiveSnapshots,
    /// Asked every 256 entries; true: the job ends with `Error::Interrupted`.
    pub stop: &'a dyn Fn() -> bool,
    /// Called every 256 entries with the bytes read since; may sleep.
    pub pace: &'a dyn Fn(u64),
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
        self.versions.disk().sync_dir(self.versions.dir())
    }
}

/// A finished job. To be applied, and its claim released after that.
#[derive(Debug, Default)]
pub struct Compacted {
    /// Outputs in, inputs out.
    pub edit: Edit,
    /// Entries met.
    pub counts: Counts,
    /// Bytes of the segments read.
    pub bytes_read: u64,
    /// Bytes of the segments written.
    pub bytes_written: u64,
}

/// Runs a task of `family`, whose inputs are claimed and in `version`. On an error nothing is left behind and
/// the task may be run again. Errors: I/O, damage of an input (which names it), disk full, `Interrupted`.
pub fn compact(
    context: &JobContext<'_>,
    version: &Version,
    family: FamilyId,
    options: &FamilyOptions,
    target_file_size: u64,
    task: &Task,
) -> Result<Compacted> {
    let nothing = Arc::default();
    let levels = version.family(family).unwrap_or(&nothing);
    let inputs = find(levels, task.from, &task.inputs)?;
    let overlaps = find(levels, task.to, &task.overlaps)?;
    let mut done = Compacted::default();
    let edit = &mut done.edit;
    edit.removed_segments.extend(task.inputs.iter().chain(&task.overlaps).map(|&file| (family, file)));
    edit.cursors.extend(task.cursor.iter().map(|key| (family, task.from, key.clone())));
    if task.moves {
        edit.new_segments.extend(inputs.iter().map(|run| NewSegment {
            file: run.file.number(),
            level: task.to,
            generation: 0,
            meta: run.meta().clone(),
        }));
        return Ok(done);
    }

    done.bytes_read = inputs.iter().chain(&overlaps).map(|run| run.meta().len).sum();
    let generation = inputs.iter().map(|run| run.generation).max().unwrap_or(0);
    let mut sources: Vec<Box<dyn RawSource>> = Vec::new();
    if task.from == 0 {
        sources.extend(inputs.iter().map(|run| Box::new(run.raw_source()) as Box<dyn RawSource>));
    } else {
        sources.push(Box::new(RawLevelSource::new(inputs)));
    }
    if !overlaps.is_empty() {
        sources.push(Box::new(RawLevelSource::new(overlaps)));
    }
    let deeper = task.to as usize..levels.levels.len();
    let bottom = task.to > 0 && levels.levels[deeper.clone().start.min(levels.levels.len())..].is_empty();
    let grandparents = (task.to > 0).then(|| levels.level(task.to + 1)).flatten();
    let mut outputs = Outputs {
        context,
        family,
        options: SegmentOptions::of_family(options, bottom),
        cut_at: if task.to == 0 { u64::MAX } else { target_file_size },
        below: Below::new(levels, task),
        grandparents: Behind::new(grandparents.cloned()),
        grandparents_bytes: 0,
        last_key: Vec::new(),
        writing: None,
        files: Vec::new(),
        segments: Vec::new(),
    };
    done.counts = rewrite(&mut RawMerge::new(sources), context.live, &mut outputs)?;
    outputs.end_segment()?;
    if !outputs.segments.is_empty() {
        context.sync_dir()?;
    }
    for (number, meta) in outputs.segments.drain(..) {
        done.bytes_written += meta.len;
        edit.new_files.push(NewFile { number, len: meta.len });
        let generation = if task.to == 0 { generation } else { 0 };
        edit.new_segments.push(NewSegment { file: number, level: task.to, generation, meta });
    }
    outputs.files.clear();
    Ok(done)
}

/// The runs of a level in these files, in the order of the files.
fn find(levels: &FamilyLevels, level: u8, files: &[FileNo]) -> Result<Vec<Run>> {
    let runs = match level {
        0 => levels.l0.as_slice(),
        _ => levels.level(level).map_or(&[][..], |level| level.runs()),
    };
    let run = |file: &FileNo| {
        runs.iter().find(|run| run.file.number() == *file).cloned().ok_or_else(|| {
            Error::InvalidArgument(format!("level {level} has no segment in file {file} to compact"))
        })
    };
    files.iter().map(run).collect()
}

/// A level read beside ascending keys.
struct Behind {
    level: Option<Arc<Level>>,
    at: usize,
}

impl Behind {
    fn new(level: Option<Arc<Level>>) -> Behind {
        Behind { level, at: 0 }
    }

    /// Bytes of the segments that end before `key` and did not end before the last key asked for.
    fn passed(&mut self, key: &[u8]) -> u64 {
        let mut bytes = 0;
        while let Some(run) = self.level.as_ref().and_then(|level| level.runs().get(self.at)) {
            if run.meta().max_key.as_slice() >= key {
                break;
            }
            bytes += run.meta().len;
            self.at += 1;
        }
        bytes
    }

    /// Whether a segment covers `key`, which is at or behind the last key asked for.
    fn covers(&mut self, key: &[u8]) -> bool {
        self.passed(key);
        let run = self.level.as_ref().and_then(|level| level.runs().get(self.at));
        run.is_some_and(|run| run.meta().min_key.as_slice() <= key)
    }
}

/// The runs below a task's output that are not among its inputs.
struct Below {
    l0: Vec<Run>,
    levels: Vec<Behind>,
}

impl Below {
    fn new(levels: &FamilyLevels, task: &Task) -> Below {
        let mut l0 = Vec::new();
        if task.to == 0 {
            // Those behind the oldest input.
            let older = levels.l0.iter().rev().take_while(|run| !task.inputs.contains(&run.file.number()));
            l0.extend(older.cloned());
        }
        let deeper = levels.levels.iter().skip(task.to as usize).filter(|level| !level.runs().is_empty());
        Below { l0, levels: deeper.map(|level| Behind::new(Some(Arc::clone(level)))).collect() }
    }

    fn covers(&mut self, key: &[u8]) -> bool {
        let covers = |run: &Run| run.meta().min_key.as_slice() <= key && key <= run.meta().max_key.as_slice();
        self.l0.iter().any(covers) || self.levels.iter_mut().any(|level| level.covers(key))
    }
}

/// The files that a compaction writes; unlinked when it is dropped with any.
struct Outputs<'a> {
    context: &'a JobContext<'a>,
    family: FamilyId,
    options: SegmentOptions,
    cut_at: u64,
    below: Below,
    grandparents: Behind,
    /// Bytes of the grandparents that the open output passed.
    grandparents_bytes: u64,
    last_key: Vec<u8>,
    writing: Option<(FileNo, Arc<dyn File>, SegmentWriter)>,
    files: Vec<FileNo>,
    segments: Vec<(FileNo, crate::table::SegmentMeta)>,
}

impl Outputs<'_> {
    fn begin_segment(&mut self) -> Result<()> {
        let versions = self.context.versions;
        let number = versions.new_file_number();
        self.files.push(number);
        let path = versions.tables().path(number);
        let file = versions.disk().open(Path::new(&path), OpenMode::Create)?;
        let writer = SegmentWriter::new(Arc::clone(&file), 0, self.family, self.options.clone())
            .caching(versions.cache(), number);
        self.writing = Some((number, file, writer));
        self.grandparents_bytes = 0;
        Ok(())
    }

    fn end_segment(&mut self) -> Result<()> {
        if let Some((number, file, writer)) = self.writing.take() {
            let meta = writer.finish()?;
            file.sync_data()?;
            self.segments.push((number, meta));
        }
        Ok(())
    }
}

impl Rewrite for Outputs<'_> {
    fn below(&mut self, key: &[u8]) -> bool {
        self.below.covers(key)
    }

    fn keep(&mut self, key: &[u8], entry: Entry<'_>) -> Result<()> {
        if let Some((_, _, writer)) = &self.writing {
            if key != self.last_key.as_slice() {
                self.grandparents_bytes += self.grandparents.passed(key);
                if writer.estimated_len() >= self.cut_at
                    || self.grandparents_bytes / GRANDPARENT_FACTOR > self.cut_at
                {
                    self.end_segment()?;
                }
            }
        }
        if self.writing.is_none() {
            self.grandparents.passed(key);
            self.begin_segment()?;
        }
        if key != self.last_key.as_slice() {
            self.last_key.clear();
            self.last_key.extend_from_slice(key);
        }
        match &mut self.writing {
            Some((_, _, writer)) => writer.add(key, entry),
            None => Ok(()),
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

/// A file whose survivors are to be rewritten, with what was claimed for it.
#[derive(Debug)]
pub struct SparseTask {
    /// The file.
    pub file: FileNo,
    /// The version that the survivors are in.
    pub version: Arc<Version>,
    /// Families whose segments are claimed.
    pub families: Vec<FamilyId>,
    /// To be held until the edit was applied.
    pub claims: Vec<Claim>,
}

/// Claims the survivors of the first of `files` (from [`VersionSet::sparse_files`]) of which a job holds none.
pub fn pick_sparse(claims: &Arc<Claims>, versions: &VersionSet, files: &[FileUse]) -> Option<SparseTask> {
    claims.with(versions, |version, view| {
        let lives = |family: FamilyId, file: FileNo| {
            version.family(family).is_some_and(|f| f.runs().any(|(_, run)| run.file.number() == file))
        };
        let file = files.iter().find(|file| {
            let held = |&family: &FamilyId| view.holds(family, file.number);
            file.families.iter().any(|&f| lives(f, file.number)) && !file.families.iter().any(held)
        })?;
        let families: Vec<FamilyId> =
            file.families.iter().copied().filter(|&f| lives(f, file.number)).collect();
        let held = || Held { files: vec![file.number], output: None };
        let claims = families.iter().map(|&family| view.claim(family, held())).collect();
        Some(SparseTask { file: file.number, version: Arc::clone(version), families, claims })
    })
}

/// Rewrites what lives in a sparse file into a new shared file, each segment in the place of the old one.
/// `family` gives a family's options, or `None` if it was dropped: it is left out. Errors as [`compact`].
pub fn rewrite_sparse(
    context: &JobContext<'_>,
    task: &SparseTask,
    family: &dyn Fn(FamilyId) -> Option<FamilyOptions>,
) -> Result<Compacted> {
    let mut done = Compacted::default();
    let mut file = SharedFile::new(context.versions);
    for &id in &task.families {
        let Some(options) = family(id) else { continue };
        let levels = task.version.family(id);
        let found = levels.and_then(|levels| levels.runs().find(|(_, run)| run.file.number() == task.file));
        let Some((level, run)) = found else { continue };
        let rules = SegmentRules {
            family: id,
            options: SegmentOptions::of_family(&options, false),
            below: &mut |_| true,
            tick: &mut |bytes| context.tick(bytes),
        };
        let (meta, counts) = file.segment(&mut run.raw_source(), context.live, rules)?;
        done.counts += counts;
        done.bytes_read += run.meta().len;
        done.edit.removed_segments.push((id, task.file));
        if let (Some(meta), Some(number)) = (meta, file.number()) {
            done.bytes_written += meta.len;
            done.edit.new_segments.push(NewSegment { file: number, level, generation: run.generation, meta });
        }
    }
    if let Some(new) = file.finish()? {
        if let Err(error) = context.sync_dir() {
            context.versions.discard_file(new.number);
            return Err(error);
        }
        done.edit.new_files.push(new);
    }
    Ok(done)
}
