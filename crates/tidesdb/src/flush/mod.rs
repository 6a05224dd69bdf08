//! Flush: immutable memtable generations become one table file with a segment for each family that had
//! writes, and an edit that names them as runs of level 0.
//!
//! Guarantees: the file and its directory are synced when the edit is returned; what any live snapshot can
//! read is in the file. Stands between memtable and version; the log is the caller's: it is synced up to the
//! newest commit in the generations before the edit is applied (`protocols.md` 1.6), and edits are applied in
//! the order of generations.

pub(crate) mod shared_file;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use crate::compaction::claims::{Claim, Claims, Held};
use crate::compaction::merge::RawMerge;
use crate::compaction::prune::Counts;
use crate::error::{Error, Result};
use crate::iter::{LiveSnapshots, RawSource};
use crate::options::{FamilyOptions, Options};
use crate::table::SegmentOptions;
use crate::types::{FamilyId, GenerationId, Tally, DICTIONARY};
use crate::version::{Edit, NewSegment, Run, VersionSet};

use shared_file::{SegmentRules, SharedFile};

/// Runs of level 0 are merged into a flush while they and the new entries are below this together: small
/// families stay one run in a shared file. Less where the write buffer is small, so that a flush does not
/// write much more than it was given.
pub fn small_runs_bound(options: &Options) -> u64 {
    (1 << 20).min(options.write_buffer_size as u64 / 16)
}

/// ... and while each is at most so many times what the merge wrote before it (or [`TINY_RUN`]), so that a family
/// that gets little with each flush is not rewritten with each.
const SMALL_RUN_FACTOR: u64 = 8;

/// A run that is merged whatever the new entries are: about the cost of a file operation.
const TINY_RUN: u64 = 64 << 10;

/// What a flush reads: a sealed memtable generation.
pub trait FlushSource {
    /// Its number.
    fn id(&self) -> GenerationId;
    /// The families that have entries in it.
    fn families(&self) -> Vec<FamilyId>;
    /// About how many bytes of keys and values a family has in it.
    fn bytes(&self, family: FamilyId) -> u64;
    /// What its commits do to the number of a family's rows.
    fn tally(&self, family: FamilyId) -> Tally;
    /// Every version of a family, or `None` if it has none.
    fn raw_source(&self, family: FamilyId) -> Option<Box<dyn RawSource + '_>>;
}

/// What a flush is told.
pub struct FlushInput<'a> {
    /// The versions of the store.
    pub versions: &'a VersionSet,
    /// Running jobs; small runs that the flush merges are claimed.
    pub claims: &'a Arc<Claims>,
    /// Sealed generations, ascending, without a gap. At least one.
    pub generations: &'a [&'a dyn FlushSource],
    /// Whether every older generation is in the current version: only then tombstones may go and runs of
    /// level 0 be merged.
    pub oldest: bool,
    /// See [`small_runs_bound`].
    pub small_runs: u64,
    /// The snapshots to keep versions for.
    pub live: &'a LiveSnapshots,
    /// The options of a family; `None` if it was dropped: it is skipped.
    pub family: &'a dyn Fn(FamilyId) -> Option<FamilyOptions>,
    /// When set, the flush ends with `Error::Interrupted`.
    pub stop: &'a AtomicBool,
}

/// A finished flush. The claims are held until it is dropped, which is after the edit was applied.
#[derive(Debug)]
pub struct Flushed {
    /// To be applied: the file, its segments, last sequence number and generation. Without segments if nothing
    /// survived.
    pub edit: Edit,
    /// Entries met.
    pub counts: Counts,
    /// Bytes written.
    pub bytes_written: u64,
    /// Claims on the runs of level 0 that the edit removes.
    pub claims: Vec<Claim>,
}

/// Writes the generations to one file. On an error nothing is left behind and the same generations may be
/// flushed again. Errors: I/O, disk full, `Interrupted`.
pub fn flush(input: &FlushInput<'_>) -> Result<Flushed> {
    let Some(newest) = input.generations.last() else {
        return Err(Error::InvalidArgument("a flush of no generation".into()));
    };
    let families: BTreeSet<FamilyId> = input.generations.iter().flat_map(|g| g.families()).collect();
    let mut flushed = Flushed {
        edit: Edit { last_generation: Some(newest.id()), ..Edit::default() },
        counts: Counts::default(),
        bytes_written: 0,
        claims: Vec::new(),
    };
    let mut file = SharedFile::new(input.versions);
    let mut tick = |_: u64| match input.stop.load(Ordering::Relaxed) {
        true => Err(Error::Interrupted),
        false => Ok(()),
    };
    for family in families {
        let Some(options) = (input.family)(family) else { continue };
        let mut tally = Tally::ZERO;
        input.generations.iter().for_each(|generation| tally += generation.tally(family));
        if family != DICTIONARY && tally != Tally::ZERO {
            flushed.edit.tallies.push((family, tally));
        }
        let bytes = input.generations.iter().map(|g| g.bytes(family)).sum();
        let (small, deeper, claim) = small_runs(input, family, bytes);
        flushed.claims.extend(claim);
        let mut sources: Vec<Box<dyn RawSource + '_>> =
            input.generations.iter().rev().filter_map(|g| g.raw_source(family)).collect();
        for run in &small {
            sources.push(Box::new(run.raw_source()));
            flushed.edit.removed_segments.push((family, run.file.number()));
        }
        let below = deeper || !input.oldest;
        let rules = SegmentRules {
            family,
            options: SegmentOptions::of_family(&options, false),
            below: &mut |_| below,
            tick: &mut tick,
        };
        let (meta, counts) = file.segment(&mut RawMerge::new(sources), input.live, rules)?;
        flushed.counts += counts;
        if let (Some(meta), Some(number)) = (meta, file.number()) {
            flushed.bytes_written += meta.len;
            flushed.edit.new_segments.push(NewSegment {
                file: number,
                level: 0,
                generation: newest.id(),
                meta,
            });
        }
    }
    flushed.edit.last_seq = Some(flushed.counts.max_seq);
    if let Some(new) = file.finish()? {
        if let Err(error) = input.versions.disk().sync_dir(input.versions.dir()) {
            input.versions.discard_file(new.number);
            return Err(error);
        }
        flushed.edit.new_files.push(new);
    }
    Ok(flushed)
}

/// The newest runs of level 0 that are merged into the flush, newest first, claimed; and whether the family has
/// other runs, all of which are older.
fn small_runs(input: &FlushInput<'_>, family: FamilyId, bytes: u64) -> (Vec<Run>, bool, Option<Claim>) {
    input.claims.with(input.versions, |version, claims| {
        let Some(levels) = version.family(family) else {
            return (Vec::new(), false, None);
        };
        let mut merged = bytes;
        let take = |run: &&Run| {
            let len = run.meta().len;
            let fits = len <= TINY_RUN.max(merged * SMALL_RUN_FACTOR) && merged + len < input.small_runs;
            merged += len;
            fits && input.oldest && !claims.holds(family, run.file.number())
        };
        let small: Vec<Run> = levels.l0.iter().take_while(take).cloned().collect();
        let deeper = small.len() < levels.l0.len() || !levels.levels.is_empty();
        if small.is_empty() {
            return (small, deeper, None);
        }
        let files = small.iter().map(|run| run.file.number()).collect();
        let claim = claims.claim(family, Held { files, output: None });
        (small, deeper, Some(claim))
    })
}
