//! The choice of the next compaction from plain data: sizes, counts, smallest and largest keys, and the
//! holdings of running jobs. Pure: equal shapes give equal tasks.
//!
//! Leveled, with a dynamic base level like RocksDB's. The bottom level holds most of the data; the target of
//! each level above is smaller by `ratio`. The *base level* is the first with a target of at most
//! `base_level_size` (or 4 times level 0). Level 0 is merged into the base level, past the empty levels
//! between. A small family therefore has only level 0 and the bottom.
//!
//! Sizes of levels count the values in value files, too: an overwritten value lives until a merge meets both of its
//! entries, so the space of dead ones is that of a tree with its values inside. What a merge costs counts tables alone.
//!
//! Candidates in order of their score: level 0 (runs against the trigger, or bytes against `base_level_size`;
//! earlier if merging is cheap), then each level above its target, file by file after a cursor. After those
//! come tables dense in tombstones, tables with many dead versions, and tables with half of their entries
//! expired. The last kind frees the space of tables without new writes.

use std::fmt;

use crate::flush::small_runs_bound;
use crate::host::HashSet;
use crate::options::{FamilyOptions, Options};
use crate::table::Expiries;
use crate::types::{FileNo, Seq};
use crate::version::{FamilyLevels, TableHandle};

use crate::version::reservations::{Held, Output};

/// Deepest level of a family without a higher minimum. At ratio 10 and a base level of 128 MiB it is enough
/// for 12 TiB.
const BOTTOM: u8 = 6;

/// The last level of a family without tables.
pub fn deepest_level(options: &FamilyOptions) -> u8 {
    BOTTOM.max(options.min_levels.clamp(1, 63) as u8)
}

/// Overlap in the base level, as a multiple of the bytes of small runs, above which they merge among
/// themselves.
const SMALL_RUN_OVERLAP: u64 = 8;

/// Greatest overlap in the base level, as a multiple of level 0's bytes, at which two runs of level 0 are
/// merged already.
const CHEAP_OVERLAP: u64 = 2;

/// The bottom is the base level while it holds at most this multiple of level 0's bytes. An intermediate
/// level would write level 0 twice: into it, and at once further down.
const BASE_LEVEL0_FACTOR: u64 = 4;

/// Greatest overlap two levels down, as a multiple of the target file size, for a moved table or an output. A
/// larger overlap would make the next merge that expensive at once. After LevelDB's grandparent limit.
pub const GRANDPARENT_FACTOR: u64 = 10;

/// Values of level 0 are merged down once they have this part of the bytes of those below.
const HIDDEN_PARTS: u64 = 8;

/// Score added where writers stop with the next run: before the fullest level of any family.
const ALMOST_STOPPED: u64 = 1_000_000_000;

/// Least number of entries of a table rewritten for its dead versions.
const GARBAGE_MIN_ENTRIES: u64 = if cfg!(simulation) { 16 } else { 256 };

/// The picker's view of a table.
#[derive(Clone, Debug)]
pub struct TableShape<'a> {
    /// Its file.
    pub file: FileNo,
    /// Bytes of the table.
    pub len: u64,
    /// Bytes of its values in value files.
    pub value_len: u64,
    /// Bytes of its file.
    pub file_len: u64,
    /// Least key.
    pub min_key: &'a [u8],
    /// Greatest key.
    pub max_key: &'a [u8],
    /// Entries.
    pub entries: u64,
    /// Distinct keys.
    pub keys: u64,
    /// Tombstones among the entries.
    pub tombstones: u64,
    /// Greatest sequence number.
    pub max_seq: Seq,
    /// Entries with an expiry.
    pub expiry: Option<Expiries>,
    /// True if a running job holds the table, or it is in quarantine.
    pub busy: bool,
}

impl TableShape<'_> {
    /// Bytes of the table and of its values in value files.
    fn weight(&self) -> u64 {
        self.len + self.value_len
    }
}

/// The picker's view of a family.
#[derive(Clone, Debug, Default)]
pub struct FamilyShape<'a> {
    /// Level 0, newest first.
    pub l0: Vec<TableShape<'a>>,
    /// `levels[i]` is level i + 1, ascending.
    pub levels: Vec<Vec<TableShape<'a>>>,
    /// Cursors by level.
    pub cursors: &'a [(u8, Vec<u8>)],
    /// Output places of running jobs.
    pub outputs: Vec<Output>,
}

/// The bounds of a family's shape.
#[derive(Clone, Debug, PartialEq)]
pub struct Bounds {
    /// Number of runs at which level 0 is due.
    pub trigger: u64,
    /// Number of runs at which writers stop.
    pub stop: u64,
    /// Target of the base level in bytes.
    pub base_level_size: u64,
    /// Bytes of a small run of level 0, an upper bound. Small runs merge among themselves above a much larger
    /// base level.
    pub small_run: u64,
    /// Bytes at which an output is cut.
    pub target_file_size: u64,
    /// Ratio of a level's target to the target above.
    pub ratio: u64,
    /// Least number of levels below 0.
    pub min_levels: u8,
    /// Tombstones per 10,000 entries for an early compaction of a table; 0: off.
    pub tombstone_density: u64,
    /// Least number of entries for `tombstone_density`.
    pub tombstone_min_entries: u64,
    /// The oldest readable sequence number.
    pub oldest_snapshot: Seq,
    /// Entries with an expiry up to this second have expired for every reader; 0: none.
    pub expired_at: u64,
}

impl Bounds {
    /// The bounds set by options.
    pub fn new(store: &Options, family: &FamilyOptions, oldest_snapshot: Seq) -> Bounds {
        Bounds {
            // Where writers stop, merging has begun: else nothing would end the stop.
            trigger: family.l0_compaction_trigger.min(family.l0_stall_threshold).max(1).into(),
            stop: family.l0_stall_threshold.into(),
            base_level_size: store.base_level_size.max(1),
            small_run: small_runs_bound(store),
            target_file_size: store.target_file_size.max(1),
            ratio: family.level_size_ratio.max(2).into(),
            min_levels: family.min_levels.clamp(1, 63) as u8,
            tombstone_density: family.tombstone_density_trigger.into(),
            tombstone_min_entries: family.tombstone_density_min_entries,
            oldest_snapshot,
            expired_at: 0,
        }
    }
}

/// Reason for a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Level 0 has too many runs, or merging them is cheap.
    Level0,
    /// Small runs of level 0 above a large base level.
    Level0Small,
    /// Level 0 has too many runs, but running jobs block the way into the base level.
    Level0Waiting,
    /// The level exceeds its target.
    LevelFull,
    /// Dense tombstones.
    Tombstones,
    /// Many versions are invisible to every snapshot.
    DeadVersions,
    /// Many entries have expired.
    Expired,
    /// Requested by a caller.
    Manual,
}

impl Reason {
    /// Its event, for the simulation.
    pub(super) fn event(self) -> &'static str {
        match self {
            Reason::Level0 => "merge: level 0",
            Reason::Level0Small => "merge: level 0, small runs",
            Reason::Level0Waiting => "merge: level 0, way blocked",
            Reason::LevelFull => "merge: full level",
            Reason::Tombstones => "merge: tombstones",
            Reason::DeadVersions => "merge: dead versions",
            Reason::Expired => "merge: expired",
            Reason::Manual => "merge: manual",
        }
    }
}

/// A compaction to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// Its reason.
    pub reason: Reason,
    /// Urgency, in thousandths; from 1000 on a bound is exceeded, from [`ALMOST_STOPPED`] on writers stop soon.
    pub score: u64,
    /// Level of the inputs.
    pub from: u8,
    /// Level of the outputs; equal to `from` for a rewrite in place.
    pub to: u8,
    /// Files of the inputs: newest first in level 0, ascending by key below.
    pub inputs: Vec<FileNo>,
    /// Files of `to` in the merge, ascending by key.
    pub overlaps: Vec<FileNo>,
    /// Least key of inputs and overlaps.
    pub min_key: Vec<u8>,
    /// Greatest key of inputs and overlaps.
    pub max_key: Vec<u8>,
    /// True for a move: the inputs change their level without a rewrite.
    pub moves: bool,
    /// The next compaction cursor of `from`.
    pub cursor: Option<Vec<u8>>,
    /// Bytes of inputs and overlaps.
    pub bytes: u64,
}

impl Task {
    /// The holdings to reserve for the task.
    pub fn held(&self) -> Held {
        let output = Output { level: self.to, min_key: self.min_key.clone(), max_key: self.max_key.clone() };
        Held {
            files: self.inputs.iter().chain(&self.overlaps).copied().collect(),
            output: (self.to > 0).then_some(output),
        }
    }
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = if self.moves { "move" } else { "merge" };
        write!(f, "{:?} {}: {verb} L{} {:?}", self.reason, self.score, self.from, self.inputs)?;
        if !self.overlaps.is_empty() {
            write!(f, " with L{} {:?}", self.to, self.overlaps)?;
        }
        let (min, max) = (self.min_key.escape_ascii(), self.max_key.escape_ascii());
        write!(f, " to L{} [{min}..{max}]", self.to)
    }
}

/// Target sizes of the levels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Targets {
    /// The base level, the destination of level 0.
    pub base: u8,
    /// The deepest level.
    pub bottom: u8,
    /// `bytes[l]` for level l from `base` to `bottom`; 0 above.
    pub bytes: Vec<u64>,
}

impl<'a> FamilyShape<'a> {
    /// The shape of a family's tables, with `held` by running jobs and `quarantined` for skipped files.
    pub fn new<'h>(
        levels: &'a FamilyLevels,
        held: impl Iterator<Item = &'h Held>,
        quarantined: &dyn Fn(FileNo) -> bool,
    ) -> FamilyShape<'a> {
        let mut busy = HashSet::default();
        let mut outputs = Vec::new();
        for held in held {
            busy.extend(held.files.iter().copied());
            outputs.extend(held.output.clone());
        }
        let shape = |run: &'a TableHandle| {
            let meta = run.meta();
            TableShape {
                file: run.file.number(),
                len: meta.len,
                value_len: meta.value_bytes(),
                file_len: run.file.len(),
                min_key: &meta.min_key,
                max_key: &meta.max_key,
                entries: meta.entries,
                keys: meta.keys,
                tombstones: meta.tombstones,
                max_seq: meta.max_seq,
                expiry: meta.expiry,
                busy: busy.contains(&run.file.number()) || quarantined(run.file.number()),
            }
        };
        FamilyShape {
            l0: levels.l0.iter().map(shape).collect(),
            levels: levels.levels.iter().map(|level| level.tables().iter().map(shape).collect()).collect(),
            cursors: &levels.cursors,
            outputs,
        }
    }

    fn level(&self, level: u8) -> &[TableShape<'a>] {
        if level == 0 {
            return &self.l0;
        }
        self.levels.get(level as usize - 1).map_or(&[], Vec::as_slice)
    }

    /// Tables of a level below 0 with keys from `min` to `max`.
    fn overlapping(&self, level: u8, min: &[u8], max: &[u8]) -> &[TableShape<'a>] {
        let runs = self.level(level);
        let from = runs.partition_point(|run| run.max_key < min);
        let len = runs[from..].partition_point(|run| run.min_key <= max);
        &runs[from..from + len]
    }

    fn output_is_taken(&self, level: u8, min: &[u8], max: &[u8]) -> bool {
        self.outputs.iter().any(|output| {
            output.level == level && output.min_key.as_slice() <= max && min <= output.max_key.as_slice()
        })
    }

    /// Target sizes of the levels.
    pub fn targets(&self, bounds: &Bounds) -> Targets {
        let deepest = self.levels.len() as u8;
        let bottom = BOTTOM.max(bounds.min_levels).max(deepest);
        let largest = (1..=bottom).map(|level| weight(self.level(level))).max().unwrap_or(0);
        let first_used = (1..=bottom).find(|&level| !self.level(level).is_empty()).unwrap_or(bottom);
        let highest_base = first_used.min(bottom + 1 - bounds.min_levels);
        let base_size = bounds.base_level_size.max(weight(&self.l0) * BASE_LEVEL0_FACTOR);
        let mut targets = vec![0; bottom as usize + 1];
        let mut base = bottom;
        targets[base as usize] = largest.max(bounds.base_level_size);
        while base > 1 && (targets[base as usize] > base_size || base > highest_base) {
            targets[base as usize - 1] = (targets[base as usize] / bounds.ratio).max(1);
            base -= 1;
        }
        Targets { base, bottom, bytes: targets }
    }
}

fn bytes(runs: &[TableShape<'_>]) -> u64 {
    runs.iter().map(|run| run.len).sum()
}

/// Bytes of tables and of their values in value files.
fn weight(runs: &[TableShape<'_>]) -> u64 {
    runs.iter().map(TableShape::weight).sum()
}

/// The same of the tables not held by a running job.
fn free_weight(runs: &[TableShape<'_>]) -> u64 {
    runs.iter().filter(|run| !run.busy).map(TableShape::weight).sum()
}

/// The most urgent compaction of a family, if one is due.
pub fn pick(shape: &FamilyShape<'_>, bounds: &Bounds) -> Option<Task> {
    if shape.l0.len() < 2 && shape.levels.is_empty() && bounds.trigger > 1 && bounds.tombstone_density == 0 {
        return pick_expired(shape, bounds);
    }
    let targets = shape.targets(bounds);
    let mut scores = vec![(level0_score(shape, bounds, &targets), 0)];
    for level in targets.base..targets.bottom {
        scores.push((free_weight(shape.level(level)) * 1000 / targets.bytes[level as usize], level));
    }
    scores.retain(|(score, level)| *score > 1000 || (*score == 1000 && *level == 0));
    scores.sort_by_key(|&(score, level)| (std::cmp::Reverse(score), level));
    for (score, level) in scores {
        let task = match level {
            0 => pick_level0(shape, bounds, &targets, score),
            _ => pick_level(shape, bounds, &targets, level, score),
        };
        if task.is_some() {
            return task;
        }
    }
    pick_tombstones(shape, bounds, &targets)
        .or_else(|| pick_dead_versions(shape, bounds))
        .or_else(|| pick_expired(shape, bounds))
}

/// The oldest runs of level 0 up to the first busy one, newest first.
fn oldest_free<'s, 'a>(shape: &'s FamilyShape<'a>) -> &'s [TableShape<'a>] {
    let free = shape.l0.iter().rev().take_while(|run| !run.busy).count();
    &shape.l0[shape.l0.len() - free..]
}

fn level0_score(shape: &FamilyShape<'_>, bounds: &Bounds, targets: &Targets) -> u64 {
    let free: Vec<_> = shape.l0.iter().filter(|run| !run.busy).cloned().collect();
    let by_runs = free.len() as u64 * 1000 / bounds.trigger;
    let by_bytes = if free.len() > 1 { weight(&free) * 1000 / bounds.base_level_size } else { 0 };
    let by_values = if free.len() > 1 { values_score(shape, bounds, &free) } else { 0 };
    let almost = shape.l0.len() as u64 + 1 >= bounds.stop && free.len() > 1;
    let score = by_runs.max(by_bytes).max(by_values) + if almost { ALMOST_STOPPED } else { 0 };
    if score < 1000 && free.len() > 1 {
        if let Some((min, max)) = key_range(&free) {
            let overlap = bytes(shape.overlapping(targets.base, min, max));
            if overlap <= bytes(&free) * CHEAP_OVERLAP {
                return 1000;
            }
        }
    }
    score
}

/// Values of level 0 against those below: they may hide as many dead ones.
fn values_score(shape: &FamilyShape<'_>, bounds: &Bounds, free: &[TableShape<'_>]) -> u64 {
    let values = |runs: &[TableShape<'_>]| runs.iter().map(|run| run.value_len).sum::<u64>();
    // The tables count, too: a merge of few long values must not rewrite many short ones.
    let below: u64 = shape.levels.iter().map(|level| weight(level)).sum();
    let most = (below / HIDDEN_PARTS).max(bounds.base_level_size / HIDDEN_PARTS);
    values(free) * 1000 / most.max(1)
}

fn key_range<'a>(runs: &[TableShape<'a>]) -> Option<(&'a [u8], &'a [u8])> {
    Some((runs.iter().map(|run| run.min_key).min()?, runs.iter().map(|run| run.max_key).max()?))
}

fn pick_level0(shape: &FamilyShape<'_>, bounds: &Bounds, targets: &Targets, score: u64) -> Option<Task> {
    let runs = oldest_free(shape);
    if runs.len() as u64 >= bounds.trigger.min(2) {
        let (min, max) = key_range(runs)?;
        let overlap = weight(shape.overlapping(targets.base, min, max));
        let small = runs.iter().all(|run| run.weight() < bounds.small_run);
        if small && runs.len() > 1 && overlap > weight(runs) * SMALL_RUN_OVERLAP {
            return Some(within_level0(runs, Reason::Level0Small, score));
        }
        let task = downwards(shape, bounds, targets, Reason::Level0, score, 0, runs);
        if task.is_some() {
            return task;
        }
    }
    if (shape.l0.len() as u64) < bounds.trigger {
        return None;
    }
    // The newest runs that nobody holds; one that is large against those before it ends them.
    let skipped = shape.l0.iter().take_while(|run| run.busy).count();
    let free = shape.l0[skipped..].iter().take_while(|run| !run.busy).count() as u64;
    let piled = free >= bounds.trigger || shape.l0.len() as u64 >= bounds.trigger * 2;
    // Where many have piled up their length does not matter: writers are about to stop, perhaps for as long as a merge
    // of the whole family takes.
    let limit = if piled { u64::MAX } else { bounds.target_file_size * 2 };
    for from in skipped..shape.l0.len() {
        let mut sum = 0;
        let fits = |run: &&TableShape<'_>| {
            let fits =
                !run.busy && sum + run.len <= limit && (sum == 0 || run.len <= sum * 2 + bounds.small_run);
            sum += run.len;
            fits
        };
        let len = shape.l0[from..].iter().take_while(fits).count();
        if len > 1 {
            return Some(within_level0(&shape.l0[from..from + len], Reason::Level0Waiting, score));
        }
        // One tiny run before large ones, of a spilled commit, say, must not stop writers.
        if !piled || shape.l0[from].busy {
            break;
        }
    }
    None
}

/// Merges neighbouring runs of level 0 into one.
fn within_level0(runs: &[TableShape<'_>], reason: Reason, score: u64) -> Task {
    let (min, max) = key_range(runs).unwrap_or_default();
    Task {
        reason,
        score,
        from: 0,
        to: 0,
        inputs: runs.iter().map(|run| run.file).collect(),
        overlaps: Vec::new(),
        min_key: min.to_vec(),
        max_key: max.to_vec(),
        moves: false,
        cursor: None,
        bytes: bytes(runs),
    }
}

/// Merges `inputs`, neighbours in `from`, into the next level (from level 0: the base level). `None` if a
/// running job is in the way.
fn downwards(
    shape: &FamilyShape<'_>,
    bounds: &Bounds,
    targets: &Targets,
    reason: Reason,
    score: u64,
    from: u8,
    inputs: &[TableShape<'_>],
) -> Option<Task> {
    let to = if from == 0 { targets.base } else { from + 1 };
    let (mut min, mut max) = key_range(inputs)?;
    let overlaps = shape.overlapping(to, min, max);
    if let (Some(first), Some(last)) = (overlaps.first(), overlaps.last()) {
        (min, max) = (min.min(first.min_key), max.max(last.max_key));
    }
    if inputs.iter().chain(overlaps).any(|run| run.busy) || shape.output_is_taken(to, min, max) {
        return None;
    }
    let moves = overlaps.is_empty()
        && !matches!(reason, Reason::Tombstones | Reason::Expired)
        && apart(inputs)
        && inputs.iter().all(|run| is_movable(shape, bounds, targets, to, run));
    Some(Task {
        reason,
        score,
        from,
        to,
        inputs: inputs.iter().map(|run| run.file).collect(),
        overlaps: overlaps.iter().map(|run| run.file).collect(),
        min_key: min.to_vec(),
        max_key: max.to_vec(),
        moves,
        cursor: if from > 0 { inputs.last().map(|run| run.max_key.to_vec()) } else { None },
        bytes: bytes(inputs) + bytes(overlaps),
    })
}

/// True if no two of the runs overlap.
fn apart(runs: &[TableShape<'_>]) -> bool {
    let mut ranges: Vec<_> = runs.iter().map(|run| (run.min_key, run.max_key)).collect();
    ranges.sort_unstable();
    ranges.windows(2).all(|pair| pair[0].1 < pair[1].0)
}

/// True if moving a table is as good as a rewrite. It must own most of its file, be not much longer than an
/// output, have little to drop, and leave the next merge cheap.
fn is_movable(
    shape: &FamilyShape<'_>,
    bounds: &Bounds,
    targets: &Targets,
    to: u8,
    run: &TableShape<'_>,
) -> bool {
    let grandparents =
        if to < targets.bottom { shape.overlapping(to + 1, run.min_key, run.max_key) } else { &[] };
    let last = (to..=targets.bottom).skip(1).all(|level| shape.level(level).is_empty());
    run.len * 2 >= run.file_len
        && run.len <= bounds.target_file_size * 2
        && (run.entries - run.keys.min(run.entries)) * 10 <= run.entries
        && (run.tombstones == 0 || !last)
        && bytes(grandparents) <= bounds.target_file_size * GRANDPARENT_FACTOR
}

fn pick_level(
    shape: &FamilyShape<'_>,
    bounds: &Bounds,
    targets: &Targets,
    level: u8,
    score: u64,
) -> Option<Task> {
    let runs = shape.level(level);
    let cursor = shape.cursors.iter().find(|(l, _)| *l == level).map_or(&[][..], |(_, key)| key);
    let start = if cursor.is_empty() { 0 } else { runs.partition_point(|run| run.min_key <= cursor) };
    for step in 0..runs.len() {
        let at = (start + step) % runs.len();
        let one = &runs[at..at + 1];
        let Some(mut task) = downwards(shape, bounds, targets, Reason::LevelFull, score, level, one) else {
            continue;
        };
        // Neighbours that cost no further overlap come along.
        let mut end = at + 1;
        let mut sum = runs[at].len;
        while !task.overlaps.is_empty() && end < runs.len() && sum + runs[end].len <= bounds.target_file_size
        {
            sum += runs[end].len;
            end += 1;
            match downwards(shape, bounds, targets, Reason::LevelFull, score, level, &runs[at..end]) {
                Some(wider) if wider.overlaps == task.overlaps => task = wider,
                _ => break,
            }
        }
        return Some(task);
    }
    None
}

/// A table dense in tombstones. Merged downwards; at the bottom, rewritten once all its tombstones may be
/// dropped.
fn pick_tombstones(shape: &FamilyShape<'_>, bounds: &Bounds, targets: &Targets) -> Option<Task> {
    if bounds.tombstone_density == 0 {
        return None;
    }
    let dense = |run: &TableShape<'_>| {
        !run.busy
            && run.tombstones > 0
            && run.entries >= bounds.tombstone_min_entries
            && run.tombstones * 10_000 >= run.entries * bounds.tombstone_density
    };
    let oldest = oldest_free(shape);
    if oldest.iter().any(dense) {
        let task = downwards(shape, bounds, targets, Reason::Tombstones, 900, 0, oldest);
        if task.is_some() {
            return task;
        }
    }
    let deepest = shape.levels.len() as u8;
    for level in 1..=deepest {
        let runs = shape.level(level);
        for (at, run) in runs.iter().enumerate().filter(|(_, run)| dense(run)) {
            let task = if level < deepest {
                downwards(shape, bounds, targets, Reason::Tombstones, 900, level, &runs[at..at + 1])
            } else {
                in_place(shape, bounds, level, run, Reason::Tombstones, 900)
            };
            if task.is_some() {
                return task;
            }
        }
    }
    None
}

/// A table with a quarter of its versions dead.
fn pick_dead_versions(shape: &FamilyShape<'_>, bounds: &Bounds) -> Option<Task> {
    (1..=shape.levels.len() as u8).find_map(|level| {
        shape.level(level).iter().find_map(|run| {
            let dead = run.entries.saturating_sub(run.keys);
            (!run.busy && run.entries >= GARBAGE_MIN_ENTRIES && dead * 4 >= run.entries)
                .then(|| in_place(shape, bounds, level, run, Reason::DeadVersions, 500))
                .flatten()
        })
    })
}

/// A table with half of its entries expired. Merged downwards; at the bottom, rewritten once all expired
/// entries may be dropped.
fn pick_expired(shape: &FamilyShape<'_>, bounds: &Bounds) -> Option<Task> {
    if bounds.expired_at == 0 {
        return None;
    }
    let expired = |run: &TableShape<'_>| {
        let entries = run.expiry.map_or(0, |expiry| expiry.expired_at(bounds.expired_at));
        !run.busy && entries > 0 && entries * 2 >= run.entries
    };
    let oldest = oldest_free(shape);
    if oldest.iter().any(expired) {
        let targets = shape.targets(bounds);
        let task = downwards(shape, bounds, &targets, Reason::Expired, 400, 0, oldest);
        if task.is_some() {
            return task;
        }
    }
    let deepest = shape.levels.len() as u8;
    (1..=deepest).find_map(|level| {
        let runs = shape.level(level);
        runs.iter().enumerate().filter(|(_, run)| expired(run)).find_map(|(at, run)| {
            if level < deepest {
                let targets = shape.targets(bounds);
                downwards(shape, bounds, &targets, Reason::Expired, 400, level, &runs[at..at + 1])
            } else {
                in_place(shape, bounds, level, run, Reason::Expired, 400)
            }
        })
    })
}

/// Rewrites one table in its level, if the oldest snapshot is not below any of its entries.
fn in_place(
    shape: &FamilyShape<'_>,
    bounds: &Bounds,
    level: u8,
    run: &TableShape<'_>,
    reason: Reason,
    score: u64,
) -> Option<Task> {
    if run.max_seq > bounds.oldest_snapshot || shape.output_is_taken(level, run.min_key, run.max_key) {
        return None;
    }
    Some(Task {
        reason,
        score,
        from: level,
        to: level,
        inputs: vec![run.file],
        overlaps: Vec::new(),
        min_key: run.min_key.to_vec(),
        max_key: run.max_key.to_vec(),
        moves: false,
        cursor: None,
        bytes: run.len,
    })
}

/// Bytes that compactions of a family must still read before every level is within its target, for statistics
/// and for the write controller.
pub fn debt(shape: &FamilyShape<'_>, bounds: &Bounds) -> u64 {
    let targets = shape.targets(bounds);
    let part = |bytes: u64, of: u64, all: u64| (bytes as u128 * of as u128 / all.max(1) as u128) as u64;
    // Targets count values; a merge reads tables alone.
    let (mut debt, mut incoming, mut incoming_weight) = (0, 0, 0);
    if shape.l0.len() as u64 >= bounds.trigger.max(2) {
        (incoming, incoming_weight) = (bytes(&shape.l0), weight(&shape.l0));
        debt += incoming + bytes(shape.level(targets.base));
    }
    for level in targets.base..targets.bottom {
        let runs = shape.level(level);
        let (held, held_weight) = (bytes(runs) + incoming, weight(runs) + incoming_weight);
        incoming_weight = held_weight.saturating_sub(targets.bytes[level as usize]);
        incoming = part(held, incoming_weight, held_weight);
        if incoming_weight > 0 {
            debt += incoming + part(bytes(shape.level(level + 1)), incoming_weight, held_weight);
        }
    }
    debt
}
