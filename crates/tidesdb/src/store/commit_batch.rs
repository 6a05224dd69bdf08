//! The immutable form of a transaction's changes, from `prepare` on: the bytes for the log, with the place of
//! each change in them. Any thread can put the changes into the memtable.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crate::format::coding::varint_len;
use crate::memtable::Memtable;
use crate::mutant::{self, Mutant};
use crate::store::deleted_range_cache::DeletedRangeCache;
use crate::store::sealed_runs::SealedRuns;
use crate::sync::point;
use crate::types::{CountEffect, FamilyId, Kind, Seq};
use crate::value::pointer_of;
use crate::value_holds::ValueHolds;
use crate::wal::{BatchBuilder, BatchReader, Ticket, WalBytes};

/// A change's place in the body.
#[derive(Clone, Debug)]
struct Placed {
    family: FamilyId,
    kind: Kind,
    effect: CountEffect,
    key: Range<usize>,
    value: Range<usize>,
}

/// The facts fixed by `order`.
#[derive(Debug)]
pub struct Ordered {
    /// Place in the commit order.
    pub seq: Seq,
    /// Place in the log.
    pub ticket: Ticket,
    /// The memtable for the changes.
    pub memtable: Arc<Memtable>,
    /// Ranges of deleted keys; a key put into one ends it.
    pub(crate) deleted_ranges: Arc<DeletedRangeCache>,
}

/// A transaction's changes, immutable and shared.
#[derive(Debug)]
pub struct CommitBatch {
    body: Vec<u8>,
    changes: Vec<Placed>,
    /// Changes before it are in the memtable.
    cursor: AtomicUsize,
    /// All changes are in the memtable; nothing is written any more.
    done: AtomicBool,
    ordered: OnceLock<Ordered>,
    /// Changes outside `body`: for a transaction larger than memory, all of them.
    runs: Option<SealedRuns>,
    /// Holds on the value files of the changes.
    values: ValueHolds,
    /// Those that it has until its changes are in the memtable.
    values_until_applied: ValueHolds,
}

/// Makes a [`CommitBatch`] family by family, in the format of `docs/format/wal.md` ("Batch").
pub(crate) struct CommitBatchBuilder {
    body: BatchBuilder,
    changes: Vec<Placed>,
    family: FamilyId,
}

impl CommitBatchBuilder {
    /// For `families` groups with `changes` changes in all, of about `bytes` bytes.
    pub(crate) fn new(families: usize, changes: usize, bytes: usize) -> CommitBatchBuilder {
        let body = Vec::with_capacity(bytes + 64);
        CommitBatchBuilder {
            body: BatchBuilder::new(body, families),
            changes: Vec::with_capacity(changes),
            family: 0,
        }
    }

    /// Begins the group of a family with `keys` changes.
    pub(crate) fn group(&mut self, family: FamilyId, keys: usize) {
        self.body.group(family, keys);
        self.family = family;
    }

    /// Adds a change to the group.
    pub(crate) fn change(&mut self, kind: Kind, effect: CountEffect, key: &[u8], value: &[u8]) {
        let start = self.body.len();
        self.body.entry(kind, effect, key, value);
        let end = self.body.len();
        // Kind byte, length of the key, key; the value, if any, ends the entry.
        let at = start + 1 + varint_len(key.len() as u64);
        self.changes.push(Placed {
            family: self.family,
            kind,
            effect,
            key: at..at + key.len(),
            value: end - value.len()..end,
        });
    }

    pub(crate) fn finish(self) -> CommitBatch {
        CommitBatch {
            body: self.body.finish(),
            changes: self.changes,
            cursor: AtomicUsize::new(0),
            done: AtomicBool::new(false),
            ordered: OnceLock::new(),
            runs: None,
            values: ValueHolds::default(),
            values_until_applied: ValueHolds::default(),
        }
    }
}

impl WalBytes for CommitBatch {
    fn bytes(&self) -> &[u8] {
        &self.body
    }
}

impl CommitBatch {
    /// A batch with all changes in runs.
    pub(crate) fn spilled(runs: SealedRuns) -> CommitBatch {
        CommitBatch { runs: Some(runs), ..CommitBatchBuilder::new(0, 0, 0).finish() }
    }

    /// The runs of the batch.
    pub(crate) fn runs(&self) -> Option<&SealedRuns> {
        self.runs.as_ref()
    }

    /// True if a recovery that finds the batch needs files for it: runs, or value files.
    pub(crate) fn has_files(&self) -> bool {
        let mut values = self.values.iter().chain(self.values_until_applied.iter());
        self.runs.is_some() || values.next().is_some()
    }

    /// Bytes of keys and values in the body and in runs.
    pub fn user_bytes(&self) -> u64 {
        self.body.len() as u64 + self.runs.as_ref().map_or(0, SealedRuns::raw_bytes)
    }

    /// The same batch with runs, named for it in the log.
    pub(crate) fn with_runs(self, runs: Option<SealedRuns>) -> CommitBatch {
        CommitBatch { runs, ..self }
    }

    /// The same batch with holds on the value files of its changes.
    /// Its memtable does not take `until_applied` over.
    pub(crate) fn holding(self, values: ValueHolds, until_applied: ValueHolds) -> CommitBatch {
        CommitBatch { values, values_until_applied: until_applied, ..self }
    }

    /// The pointers of the changes with values in value files, in their stored form.
    pub(crate) fn pointers(&self) -> impl Iterator<Item = &[u8]> {
        self.changes.iter().filter_map(|change| pointer_of(change.kind, &self.body[change.value.clone()]))
    }

    /// A batch from a body read from the log.
    pub fn from_body(body: Vec<u8>) -> Result<CommitBatch, &'static str> {
        let base = body.as_ptr() as usize;
        let place = |bytes: &[u8]| {
            let start = (bytes.as_ptr() as usize).saturating_sub(base);
            // An empty slice may point anywhere.
            if bytes.is_empty() {
                0..0
            } else {
                start..start + bytes.len()
            }
        };
        let mut changes = Vec::new();
        for entry in BatchReader::new(&body)? {
            let entry = entry?;
            let (key, value) = (place(entry.key), place(entry.value));
            changes.push(Placed { family: entry.family, kind: entry.kind, effect: entry.effect, key, value });
        }
        Ok(CommitBatch {
            body,
            changes,
            cursor: AtomicUsize::new(0),
            done: AtomicBool::new(false),
            ordered: OnceLock::new(),
            runs: None,
            values: ValueHolds::default(),
            values_until_applied: ValueHolds::default(),
        })
    }

    /// The batch body in its form in the log.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// Number of changes.
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// Bytes of memory of the batch.
    pub(crate) fn memory(&self) -> usize {
        self.body.capacity() + self.changes.capacity() * size_of::<Placed>()
    }

    /// Approximate memory of the changes in a memtable, in bytes.
    pub fn memtable_bytes(&self) -> usize {
        self.body.len() + self.changes.len() * 64
    }

    /// The keys of the changes.
    pub fn keys(&self) -> impl Iterator<Item = (FamilyId, &[u8])> {
        self.changes.iter().map(|change| (change.family, &self.body[change.key.clone()]))
    }

    /// The facts fixed by `order`; `None` before it.
    pub fn ordered(&self) -> Option<&Ordered> {
        self.ordered.get()
    }

    /// Fixes the place in the order. Called once, under the order lock.
    pub(super) fn set_ordered(&self, ordered: Ordered) {
        let set = self.ordered.set(ordered);
        debug_assert!(set.is_ok(), "a batch is ordered once");
    }

    /// True if every change is in the memtable.
    pub fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }

    /// Puts the remaining changes into the memtable. Any number of threads may do so at once: a repeated step
    /// has no effect, and no thread writes after the batch is done.
    pub fn apply(&self, oldest_snapshot: Seq) {
        let Some(ordered) = self.ordered.get() else { return };
        if !mutant::is(Mutant::ValueFileUnheld) {
            self.values.iter().for_each(|file| ordered.memtable.hold(file));
        }
        loop {
            let at = self.cursor.load(Ordering::Acquire);
            let Some(change) = self.changes.get(at) else { break };
            let key = &self.body[change.key.clone()];
            point();
            if !change.kind.is_tombstone() && !mutant::is(Mutant::DeadRangeKeepsRow) {
                ordered.deleted_ranges.put(change.family, key);
            }
            ordered.memtable.tree_or_create(change.family).insert_counted(
                key,
                ordered.seq,
                (change.kind, change.effect),
                &self.body[change.value.clone()],
                &self.done,
                oldest_snapshot,
            );
            self.cursor.fetch_max(at + 1, Ordering::AcqRel);
        }
        self.done.store(true, Ordering::Release);
    }
}
