//! The flush of what was replayed: one file for each run of memtables, and the runs of spilled commits between
//! them, as one edit. Used by [`open`](crate::db::open), before the store's threads exist.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::Arc;

use crate::compaction::claims::Claims;
use crate::db::background::FlushedMemtable;
use crate::db::dictionary::FamilyEntry;
use crate::db::view::{Layer, ReadView};
use crate::error::Result;
use crate::flush::{self, FlushInput, FlushSource, Flushed};
use crate::iter::merge::Merge;
use crate::iter::{LiveSnapshots, Source};
use crate::memtable::{ArenaPool, Generation};
use crate::options::{FamilyOptions, Options};
use crate::types::{Seq, DICTIONARY, MAX_SEQ};
use crate::version::{Edit, VersionSet};

/// What the flush made, to be held until its edit is applied.
#[derive(Default)]
pub(crate) struct ReplayedFlush {
    /// Files and segments of all layers.
    pub edit: Edit,
    flushed: Vec<Flushed>,
}

impl ReplayedFlush {
    /// The edit will not be applied: what was written is unlinked later, runs stay.
    pub(crate) fn give_up(self, versions: &VersionSet) {
        for file in self.flushed.iter().flat_map(|flushed| &flushed.edit.new_files) {
            versions.discard_file(file.number);
        }
    }
}

/// Writes the memtables to files and adds the runs. The edit is not applied yet. When it fails nothing is left
/// behind but the runs.
pub(crate) fn flush_replayed(
    versions: &VersionSet,
    claims: &Arc<Claims>,
    options: &Options,
    layers: &[Layer],
    newest: Seq,
) -> Result<ReplayedFlush> {
    let mut flush = ReplayedFlush::default();
    match flush_layers(versions, claims, options, layers, newest, &mut flush) {
        Ok(()) => Ok(flush),
        Err(error) => {
            flush.give_up(versions);
            Err(error)
        }
    }
}

fn flush_layers(
    versions: &VersionSet,
    claims: &Arc<Claims>,
    options: &Options,
    layers: &[Layer],
    newest: Seq,
    into: &mut ReplayedFlush,
) -> Result<()> {
    if layers.is_empty() {
        return Ok(());
    }
    let ReplayedFlush { edit, flushed } = into;
    let live = LiveSnapshots { claim: newest, ..LiveSnapshots::default() };
    let family_options = replayed_options(versions, layers)?;
    let mut rest = layers;
    while let Some(first) = rest.first() {
        let oldest = rest.len() == layers.len();
        if let Layer::Runs(runs) = first {
            let named = runs.edit(&|family| family_options.contains_key(&family));
            edit.new_files.extend(named.new_files);
            edit.new_segments.extend(named.new_segments);
            edit.tallies.extend(named.tallies);
            rest = &rest[1..];
            continue;
        }
        let memtables: Vec<FlushedMemtable<'_>> =
            rest.iter().map_while(Layer::memtable).map(FlushedMemtable::new).collect();
        rest = &rest[memtables.len()..];
        let generations: Vec<&dyn FlushSource> =
            memtables.iter().map(|memtable| memtable as &dyn FlushSource).collect();
        let done = flush::flush(&FlushInput {
            versions,
            claims,
            generations: &generations,
            oldest,
            small_runs: flush::small_runs_bound(options),
            live: &live,
            family: &|family| family_options.get(&family).cloned(),
            stop: &AtomicBool::new(false),
        })?;
        edit.new_files.extend(done.edit.new_files.iter().copied());
        edit.new_segments.extend(done.edit.new_segments.iter().cloned());
        edit.removed_segments.extend(done.edit.removed_segments.iter().copied());
        edit.tallies.extend(done.edit.tallies.iter().copied());
        flushed.push(done);
    }
    Ok(())
}

/// Options of the families that replayed memtables touch, as the dictionary, replayed part included, has
/// them; families that it does not know were dropped.
fn replayed_options(versions: &VersionSet, layers: &[Layer]) -> Result<HashMap<u32, FamilyOptions>> {
    let mut sources: Vec<Box<dyn Source>> = Vec::new();
    for generation in layers.iter().rev().filter_map(Layer::memtable) {
        if let Some(source) = generation.source(DICTIONARY, MAX_SEQ) {
            sources.push(Box::new(source));
        }
    }
    let empty = Arc::new(Generation::new(0, ArenaPool::new(0)));
    let view = ReadView { active: empty, sealed: Vec::new(), version: versions.current() };
    sources.extend(view.sources(DICTIONARY, MAX_SEQ, &[])?);
    let mut options = HashMap::new();
    options.insert(DICTIONARY, FamilyOptions::default());
    let mut merge = Merge::new(sources);
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
