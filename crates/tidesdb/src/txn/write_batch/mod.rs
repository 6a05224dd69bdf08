//! The private batch of a transaction: its changes in the order of their making and, for each family, in the
//! order of keys. The transaction's reads look here first. `prepare` turns it into the immutable batch for
//! the log and the memtable. Cutting back to a mark undoes a statement (`docs/protocols.md` 5.1). A large
//! transaction has its older changes in runs on disk ([`spill`](crate::txn::spill)), and only the latest in
//! memory.

#[cfg(test)]
mod tests;
mod versions;

use std::cmp::Ordering;
use std::sync::Arc;

use crate::error::Result;
use crate::iter::VersionIterator;
use crate::lock::LockOwner;
use crate::store::commit_batch::{CommitBatch, CommitBatchBuilder};
use crate::store::sealed_runs::SealedRuns;
use crate::store::Store;
use crate::txn::spill::runs::Runs;
use crate::types::{CountEffect, Entry, FamilyId, Kind, Pieces};
use crate::value_holds::{ValueFile, ValueHolds};

use self::versions::Changes;
pub(crate) use self::versions::LargeValue;

/// Changes in one chunk of a family's order; a full chunk is split in two. Bounds the memory moved by an
/// insertion in the middle to 4 KiB. Tests reach splits and emptied chunks with few keys.
const CHUNK: usize = if cfg!(any(test, simulation)) { 4 } else { 170 };

/// No entry.
const NONE: u32 = u32::MAX;

/// One change; key and value lie in the batch's bytes.
#[derive(Clone, Copy, Debug)]
struct Change {
    family: FamilyId,
    kind: Kind,
    /// True if the key existed before the first change of it in memory.
    was_live: bool,
    key_len: u32,
    value_len: u32,
    start: usize,
    /// The change of the same key replaced by this one, for cutting back.
    replaced: u32,
}

/// The changes of one family in the order of their keys, in chunks.
///
/// Invariant: no chunk is empty, and `firsts` has the prefix of the first change in each. A search reads it
/// without touching the chunks.
#[derive(Debug)]
struct Order {
    family: FamilyId,
    firsts: Vec<Prefix>,
    chunks: Vec<Vec<ChangePlace>>,
}

/// A change in an order. The first bytes of its key stand next to its id. A search that follows every id to
/// its key waits for memory most of its time (two thirds of a large INSERT ... SELECT).
#[derive(Clone, Copy, Debug)]
struct ChangePlace {
    prefix: Prefix,
    id: u32,
}

/// The first bytes of a key as numbers of the same order; shorter keys are filled with zeros. Sixteen, since keys of one
/// index often begin alike: with a word and some bytes of the row's key, all is said without a look at the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Prefix(u64, u64);

impl Prefix {
    #[inline]
    fn of(key: &[u8]) -> Prefix {
        let half = |bytes: &[u8]| match bytes.first_chunk() {
            Some(bytes) => u64::from_be_bytes(*bytes),
            None => {
                let mut eight = [0; 8];
                eight[..bytes.len()].copy_from_slice(bytes);
                u64::from_be_bytes(eight)
            }
        };
        let (first, second) = key.split_at(key.len().min(8));
        Prefix(half(first), half(second))
    }
}

/// Memory of a batch above which a cut releases it: more than the changes below the bound need.
const KEPT_AFTER_CUT: usize = 32 << 20;

/// Bytes of keys and values, changes, and chunks of orders kept by an empty batch for the next changes: those
/// of an ordinary transaction. A connection may sleep for days, and a server has thousands.
const KEPT_BYTES: usize = 16 << 10;
const KEPT_CHANGES: usize = 128;
const KEPT_CHUNKS: usize = 8;
const KEPT_CHUNK: usize = 64;

/// A point in the history of a batch: the ordinal of the last change before it. The default is the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    ordinal: u64,
}

/// A change read back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnEntry<'a> {
    /// Key.
    pub key: &'a [u8],
    /// The operation of the key's latest change.
    pub kind: Kind,
    /// Its value in the stored form ([`Entry::stored`]); empty for tombstones.
    stored: &'a [u8],
    /// True if the key existed before the first change of it in memory.
    pub was_live: bool,
}

impl<'a> OwnEntry<'a> {
    /// The change as an entry without a sequence number.
    #[inline]
    pub fn entry(&self) -> Entry<'a> {
        Entry::new(0, self.kind, self.stored)
    }
}

/// The private batch.
#[derive(Debug, Default)]
pub struct WriteBatch {
    bytes: Vec<u8>,
    changes: Vec<Change>,
    orders: Vec<Order>,
    spare: Vec<Vec<ChangePlace>>,
    /// The ordinal of the last change before those in memory.
    base: u64,
    runs: Runs,
    /// Holds on the value files with values of its changes, those undone included.
    values: ValueHolds,
    /// Holds that memtables need not take over.
    values_until_applied: ValueHolds,
}

impl WriteBatch {
    /// True if there is no change, in memory or in runs.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.runs.is_empty()
    }

    /// Bytes of keys and values in memory, with a constant for each change; the bound applies to it.
    pub fn size(&self) -> usize {
        self.bytes.len() + self.changes.len() * std::mem::size_of::<Change>()
    }

    /// Number of changes in memory (a key changed twice counts twice).
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// Number of changes made, those in runs included.
    pub fn made(&self) -> u64 {
        self.base + self.changes.len() as u64
    }

    /// The present end of the batch.
    pub fn mark(&self) -> Mark {
        Mark { ordinal: self.made() }
    }

    /// The changes in runs.
    pub(crate) fn runs(&self) -> &Runs {
        &self.runs
    }

    /// Writes the changes in memory to a run, and keeps them: [`WriteBatch::forget_written`] or
    /// [`WriteBatch::take_back_run`] comes next. Errors: I/O, disk full, `Interrupted`; nothing changes then.
    /// `large` has the values pushed without their bytes.
    pub(crate) fn write_run(
        &mut self,
        store: &Store,
        owner: &LockOwner,
        large: &[LargeValue<'_>],
    ) -> Result<()> {
        let mut runs = std::mem::take(&mut self.runs);
        let added = runs.add(store, owner, &Changes { batch: self, large });
        self.runs = runs;
        added
    }

    /// Removes from memory the changes just written to a run, or taken over by a commit. Marks stay good.
    pub(crate) fn forget_written(&mut self) {
        self.base = self.made();
        self.forget_memory();
    }

    /// True if an empty batch would have less memory.
    pub(crate) fn is_large(&self) -> bool {
        self.bytes.capacity() > KEPT_BYTES || self.changes.capacity() > KEPT_CHANGES
    }

    /// Undoes [`WriteBatch::write_run`].
    pub(crate) fn take_back_run(&mut self) {
        self.runs.take_back();
    }

    /// Forgets the cut away files after the first `kept`. Returns whether there were any.
    pub(crate) fn forget_cut(&mut self, kept: usize) -> bool {
        self.runs.forget_cut(kept)
    }

    /// Merges runs once they are many. Errors: as [`WriteBatch::write_run`]; no change is lost then.
    pub(crate) fn merge_runs(&mut self, store: &Store, owner: &LockOwner) -> Result<()> {
        self.runs.merge_alike(store, owner)
    }

    /// The latest changes in the form of the log.
    pub(crate) fn to_commit_batch(&self) -> CommitBatch {
        let mut batch = CommitBatchBuilder::new(self.touched().count(), self.len(), self.size());
        for (family, entries) in self.families() {
            batch.group(family, self.keys(family));
            for entry in entries {
                let effect = CountEffect::of(entry.kind, entry.was_live);
                batch.change(entry.kind, effect, entry.key, entry.stored);
            }
        }
        batch.finish().holding(self.values.clone(), self.values_until_applied.clone())
    }

    /// Holds on the value files of its changes.
    pub(crate) fn values(&self) -> ValueHolds {
        let mut all = self.values.clone();
        self.values_until_applied.iter().for_each(|file| all.add(Arc::clone(file)));
        all
    }

    /// The batch has changes with values in this file, and so have tables until these changes are in tables.
    pub(crate) fn hold_until_applied(&mut self, file: Arc<ValueFile>) {
        self.values_until_applied.add(file);
    }

    /// The batch has changes with values in this file.
    pub(crate) fn hold(&mut self, file: Arc<ValueFile>) {
        self.values.add(file);
    }

    /// Every change of a family, in memory and in runs, those hidden by later ones included.
    pub(crate) fn version_iters(&self, family: FamilyId) -> Vec<Box<dyn VersionIterator + '_>> {
        let memory = Changes { batch: self, large: &[] }.iter(family);
        let mut all: Vec<Box<dyn VersionIterator + '_>> = vec![Box::new(memory)];
        all.extend(self.runs.version_iters(family));
        all
    }

    /// All changes as durable runs; the batch stays as it is.
    pub(crate) fn seal(&self, store: &Store, owner: &LockOwner) -> Result<SealedRuns> {
        SealedRuns::seal(store, owner, &self.runs, &Changes { batch: self, large: &[] })
    }

    /// Adds a change; a later change of a key hides the earlier one. A put counts as one of a new key, a
    /// deletion as one of an existing key.
    pub fn push(&mut self, family: FamilyId, key: &[u8], kind: Kind, value: &[u8]) {
        self.push_as(family, key, kind, value, CountEffect::Counts);
    }

    /// Adds a change with this effect. Of several changes of a key, the first says whether it existed before,
    /// and the last whether it does now.
    pub fn push_as(&mut self, family: FamilyId, key: &[u8], kind: Kind, value: &[u8], effect: CountEffect) {
        self.push_in_pieces(family, key, kind, None, Pieces::new(value, &[]), effect);
    }

    /// As [`WriteBatch::push_as`]; `expiry` belongs to a kind with one, and stands before the value.
    pub fn push_in_pieces(
        &mut self,
        family: FamilyId,
        key: &[u8],
        kind: Kind,
        expiry: Option<u64>,
        value: Pieces<'_>,
        effect: CountEffect,
    ) {
        let expiry = expiry.map(u64::to_le_bytes);
        let expiry = expiry.as_ref().map_or(&[][..], |bytes| bytes);
        let id = self.changes.len() as u32;
        let start = self.bytes.len();
        let value_len = expiry.len() + value.len();
        self.bytes.reserve(key.len() + value_len);
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(expiry);
        value.iter().for_each(|piece| self.bytes.extend_from_slice(piece));
        let order = self.order_of(family);
        let (chunk, place) = self.search(order, key);
        let Order { firsts, chunks, .. } = &mut self.orders[order];
        let replaced = match place {
            Ok(at) => std::mem::replace(&mut chunks[chunk][at].id, id),
            Err(at) => {
                let prefix = Prefix::of(key);
                if chunks.is_empty() {
                    chunks.push(self.spare.pop().unwrap_or_default());
                    firsts.push(prefix);
                }
                chunks[chunk].insert(at, ChangePlace { prefix, id });
                if at == 0 {
                    firsts[chunk] = prefix;
                }
                if chunks[chunk].len() > CHUNK {
                    // A batch in key order leaves full chunks behind; any other splits in the middle.
                    let cut = if at == CHUNK { CHUNK } else { CHUNK / 2 };
                    let mut right = self.spare.pop().unwrap_or_default();
                    right.extend(chunks[chunk].drain(cut..));
                    firsts.insert(chunk + 1, right[0].prefix);
                    chunks.insert(chunk + 1, right);
                }
                NONE
            }
        };
        let was_live = match self.changes.get(replaced as usize) {
            Some(replaced) => replaced.was_live,
            None => kind.is_tombstone() == (effect != CountEffect::Unchanged),
        };
        self.changes.push(Change {
            family,
            kind,
            was_live,
            key_len: key.len() as u32,
            value_len: value_len as u32,
            start,
            replaced,
        });
    }

    /// Undoes every change made after `mark`.
    pub fn cut_back(&mut self, mark: Mark) {
        if mark.ordinal >= self.made() {
            return;
        }
        if mark.ordinal <= self.base {
            self.forget_memory();
            self.runs.cut_back(mark.ordinal);
            self.base = mark.ordinal;
            return;
        }
        let left = (mark.ordinal - self.base) as usize;
        let bytes = self.changes[left].start;
        while self.changes.len() > left {
            let id = self.changes.len() - 1;
            let change = self.changes[id];
            let order = self.order_of(change.family);
            let (chunk, place) = {
                let key = &self.bytes[change.start..change.start + change.key_len as usize];
                self.search(order, key)
            };
            if let Ok(at) = place {
                let Order { firsts, chunks, .. } = &mut self.orders[order];
                if change.replaced == NONE {
                    chunks[chunk].remove(at);
                    match chunks[chunk].first() {
                        Some(first) => firsts[chunk] = first.prefix,
                        None => {
                            firsts.remove(chunk);
                            self.spare.push(chunks.remove(chunk));
                        }
                    }
                } else {
                    chunks[chunk][at].id = change.replaced;
                }
            }
            self.changes.pop();
        }
        self.bytes.truncate(bytes);
        if self.bytes.capacity() >= KEPT_AFTER_CUT {
            // A large row is gone, and nobody counts its memory any more.
            self.bytes.shrink_to(KEPT_AFTER_CUT / 2);
        }
    }

    /// Forgets everything; releases memory beyond an ordinary transaction's.
    pub fn clear(&mut self) {
        self.forget_memory();
        self.runs.clear();
        self.values.clear();
        self.values_until_applied.clear();
        self.base = 0;
    }

    fn forget_memory(&mut self) {
        self.changes.clear();
        self.bytes.clear();
        if self.bytes.capacity() > KEPT_BYTES {
            self.bytes = Vec::new();
        }
        if self.changes.capacity() > KEPT_CHANGES {
            self.changes = Vec::new();
        }
        self.spare.extend(self.orders.drain(..).flat_map(|order| order.chunks));
        self.spare.retain(|chunk| chunk.capacity() <= KEPT_CHUNK);
        self.spare.truncate(KEPT_CHUNKS);
        self.spare.iter_mut().for_each(Vec::clear);
        if self.orders.capacity() > KEPT_CHUNKS {
            self.orders = Vec::new();
        }
        if self.spare.capacity() > 2 * KEPT_CHUNKS {
            self.spare.shrink_to_fit();
        }
    }

    /// Bytes of its memory.
    #[cfg(test)]
    fn memory(&self) -> usize {
        let chunks = self.orders.iter().flat_map(|order| &order.chunks).chain(&self.spare);
        self.bytes.capacity()
            + self.changes.capacity() * size_of::<Change>()
            + chunks.map(|chunk| chunk.capacity() * size_of::<ChangePlace>()).sum::<usize>()
            + self.spare.capacity() * size_of::<Vec<ChangePlace>>()
            + self.orders.capacity() * size_of::<Order>()
    }

    /// True if the family has changes in memory.
    pub fn touches(&self, family: FamilyId) -> bool {
        self.touched().any(|touched| touched == family)
    }

    /// Families with changes in memory, in no order.
    pub fn touched(&self) -> impl Iterator<Item = FamilyId> + '_ {
        self.orders.iter().filter(|order| !order.chunks.is_empty()).map(|order| order.family)
    }

    /// The latest change of a key in memory.
    pub fn get(&self, family: FamilyId, key: &[u8]) -> Option<OwnEntry<'_>> {
        let order = self.orders.iter().position(|order| order.family == family)?;
        let (chunk, place) = self.search(order, key);
        place.ok().map(|at| self.entry(self.orders[order].chunks[chunk][at].id))
    }

    /// The point after the first change of a key in memory.
    pub(crate) fn first_change(&self, family: FamilyId, key: &[u8]) -> Option<Mark> {
        let order = self.orders.iter().position(|order| order.family == family)?;
        let (chunk, place) = self.search(order, key);
        // A family whose changes were all undone has no chunk.
        let at = place.ok()?;
        let mut id = self.orders[order].chunks[chunk][at].id;
        while let Some(change) = self.changes.get(id as usize).filter(|change| change.replaced != NONE) {
            id = change.replaced;
        }
        Some(Mark { ordinal: self.base + u64::from(id) + 1 })
    }

    /// The first key changed in memory at or after `key` (`after`: strictly after).
    pub fn first_from(&self, family: FamilyId, key: &[u8], after: bool) -> Option<OwnEntry<'_>> {
        let order = self.orders.iter().position(|order| order.family == family)?;
        let (chunk, place) = self.search(order, key);
        let chunks = &self.orders[order].chunks;
        let at = match place {
            Ok(at) if after => at + 1,
            Ok(at) | Err(at) => at,
        };
        let place = chunks.get(chunk)?.get(at).or_else(|| chunks.get(chunk + 1)?.first())?;
        Some(self.entry(place.id))
    }

    /// The last key changed in memory at or before `key` (`before`: strictly before); `None` for `key` is the
    /// end.
    pub fn last_to(&self, family: FamilyId, key: Option<&[u8]>, before: bool) -> Option<OwnEntry<'_>> {
        let order = self.orders.iter().position(|order| order.family == family)?;
        let chunks = &self.orders[order].chunks;
        let Some(key) = key else {
            return chunks.last()?.last().map(|place| self.entry(place.id));
        };
        let (chunk, place) = self.search(order, key);
        let past = match place {
            Ok(at) if !before => at + 1,
            Ok(at) | Err(at) => at,
        };
        let place = match past.checked_sub(1) {
            Some(at) => chunks.get(chunk)?.get(at),
            None => chunks.get(chunk.checked_sub(1)?)?.last(),
        };
        place.map(|place| self.entry(place.id))
    }

    /// Families with changes in memory, ascending, each with its latest changes in the order of keys.
    pub fn families(&self) -> impl Iterator<Item = (FamilyId, impl Iterator<Item = OwnEntry<'_>> + '_)> + '_ {
        let mut places: Vec<usize> =
            (0..self.orders.len()).filter(|&at| !self.orders[at].chunks.is_empty()).collect();
        places.sort_unstable_by_key(|&at| self.orders[at].family);
        places.into_iter().map(|at| {
            let order = &self.orders[at];
            (order.family, order.chunks.iter().flatten().map(|place| self.entry(place.id)))
        })
    }

    /// The keys of a family with a put in memory, ascending. Keys deleted by a later change count too,
    /// because it may be undone.
    pub fn puts_of(&self, family: FamilyId) -> impl Iterator<Item = &[u8]> + '_ {
        let order = self.orders.iter().find(|order| order.family == family);
        let places = order.into_iter().flat_map(|order| order.chunks.iter().flatten());
        places.filter(|place| self.is_put(place.id)).map(|place| self.key(place.id))
    }

    /// True if a change, or one replaced by it, is a put.
    fn is_put(&self, mut id: u32) -> bool {
        while let Some(change) = self.changes.get(id as usize) {
            if !change.kind.is_tombstone() {
                return true;
            }
            id = change.replaced;
        }
        false
    }

    /// Number of keys with changes in memory in a family.
    pub fn keys(&self, family: FamilyId) -> usize {
        let order = self.orders.iter().find(|order| order.family == family);
        order.map_or(0, |order| order.chunks.iter().map(Vec::len).sum())
    }

    fn entry(&self, id: u32) -> OwnEntry<'_> {
        let change = &self.changes[id as usize];
        let (key, value) = self.bytes[change.start..][..(change.key_len + change.value_len) as usize]
            .split_at(change.key_len as usize);
        OwnEntry { key, kind: change.kind, stored: value, was_live: change.was_live }
    }

    fn key(&self, id: u32) -> &[u8] {
        let change = &self.changes[id as usize];
        &self.bytes[change.start..change.start + change.key_len as usize]
    }

    fn order_of(&mut self, family: FamilyId) -> usize {
        match self.orders.iter().position(|order| order.family == family) {
            Some(at) => at,
            None => {
                self.orders.push(Order { family, firsts: Vec::new(), chunks: Vec::new() });
                self.orders.len() - 1
            }
        }
    }

    /// The chunk where `key` is or belongs, and its place there.
    fn search(&self, order: usize, key: &[u8]) -> (usize, Result<usize, usize>) {
        let Order { firsts, chunks, .. } = &self.orders[order];
        let prefix = Prefix::of(key);
        let compare =
            |place: &ChangePlace| place.prefix.cmp(&prefix).then_with(|| self.key(place.id).cmp(key));
        let above = |chunk: usize| match firsts[chunk].cmp(&prefix) {
            Ordering::Equal => compare(&chunks[chunk][0]).is_gt(),
            order => order.is_gt(),
        };
        let Some(last) = chunks.len().checked_sub(1) else { return (0, Err(0)) };
        // Batches are mostly made in key order: look at the end first.
        let mut chunk = last;
        if above(last) {
            let mut end = last;
            chunk = 0;
            while end - chunk > 1 {
                let middle = (chunk + end) / 2;
                *(if above(middle) { &mut end } else { &mut chunk }) = middle;
            }
        }
        let places = &chunks[chunk];
        let place = match places.last().map(compare) {
            Some(Ordering::Less) => Err(places.len()),
            _ => places.binary_search_by(compare),
        };
        (chunk, place)
    }
}
