//! Reading a family in order: the merge of its runs at a snapshot with the transaction's own changes, in
//! batches of rows copied out, so that a slice never outlives what it points into.
//!
//! A locking scan goes row by row. Where the transaction keeps gaps free of others' insertions it publishes
//! the interval from its last position to the row that it found, and looks again from the last position if
//! anything was committed since it looked first; only then is the row locked and read (`docs/protocols.md` 4.2).

mod deleted_run;
mod filling;
mod locking;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use self::deleted_run::DeletedRun;
use crate::error::{Error, Result};
use crate::iter::merge::MergingIterator;
use crate::iter::InternalIterator;
use crate::lock::Mode;
use crate::store::deleted_range_cache::Bounds;
use crate::store::family::Family;
use crate::store::view::ReadView;
use crate::store::Store;
use crate::txn::transaction::{OnMissing, ReadMode, Transaction};
use crate::types::{FamilyId, Seq, MAX_SEQ};

/// Steps between two looks at the kill flag.
const KILL_STEPS: u32 = 256;

/// Rows of the largest batch.
const MAX_BATCH: u32 = 32;

/// Bytes at which a batch ends early.
const BATCH_BYTES: usize = 256 << 10;

/// Where a scan begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Start {
    /// First key at or after the given one.
    AtOrAfter,
    /// First key after the given one that does not start with it.
    After,
    /// Last key at or before the given one, or starting with it.
    AtOrBefore,
    /// Last key before the given one.
    Before,
    /// First key of all.
    First,
    /// Last key of all.
    Last,
}

impl Start {
    /// Whether the scan goes towards larger keys.
    pub fn is_forward(self) -> bool {
        matches!(self, Start::AtOrAfter | Start::After | Start::First)
    }
}

/// What a scan reads.
#[derive(Clone, Copy, Debug)]
pub struct Scan<'a> {
    /// Where it begins.
    pub start: Start,
    /// The key that `start` speaks of.
    pub key: &'a [u8],
    /// Rows that do not share so many first bytes of `key` are past the end; 0: none.
    pub prefix: usize,
    /// First key past the end in the direction of the scan.
    pub bound: Option<&'a [u8]>,
    /// How it treats others' changes.
    pub mode: ReadMode,
    /// Skip rows that others have locked. Such a scan keeps no gaps free.
    pub skip_locked: bool,
    /// Read rows that others have locked as they are committed, without a lock; see [`Cursor::is_peek`].
    pub peek_locked: bool,
    /// Rows that the caller expects to read; 0: unknown.
    pub expect: u32,
}

impl Default for Scan<'_> {
    /// Everything, forward, at the transaction's snapshot.
    fn default() -> Self {
        Scan {
            start: Start::First,
            key: &[],
            prefix: 0,
            bound: None,
            mode: ReadMode::Snapshot,
            skip_locked: false,
            peek_locked: false,
            expect: 0,
        }
    }
}

/// Where a row of the batch lies in its bytes.
#[derive(Clone, Copy, Debug)]
struct Span {
    key: usize,
    value: usize,
    end: usize,
    /// When the row expires; 0: never.
    expiry: u64,
}

/// A side of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Edge {
    /// The end of the family that the scan comes from.
    Open,
    /// From the key on, itself included.
    Included,
    /// From the key on, itself excluded.
    Excluded,
}

/// How far a scan has published its range.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Covered {
    /// Not at all.
    Nothing,
    /// Forward: below this key. Backward: this key and those after it.
    To(Vec<u8>),
    /// To the end of the family.
    All,
}

/// What a key is for the scan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum CursorState {
    Live,
    Deleted,
    Expired,
}

/// Which of two streams the next key is on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Next {
    /// A change of the transaction in memory.
    Own,
    /// One that is in a run: on the merge, and hides what is committed.
    Spilled,
    Committed,
    Both,
}

/// A cursor on one family; used by one thread at a time.
pub struct Cursor {
    family: Arc<Family>,
    merge: Option<MergingIterator>,
    /// What the merge was built over, and the sequence it reads at.
    view: Option<Arc<ReadView>>,
    seq: Seq,
    /// Iterators of the merge, the first ones, that are the transaction's own runs; and which they were.
    own_iterators: usize,
    own_runs: u64,
    /// Memtables of `view` that had no entries of the family when the merge was built.
    absent_from: usize,
    /// All commits up to this one were there when the merge was last placed.
    placed_at: Seq,
    /// Snapshots of the transaction that had ended when the scan began.
    ended_snapshots: u64,
    /// The merge stands on the next key to look at, in the direction of the batch.
    ahead: bool,
    /// From where own changes are looked up, relative to `last`.
    own_from: Edge,
    forward: bool,
    mode: ReadMode,
    skip_locked: bool,
    peek_locked: bool,
    /// The row of the batch is another's, read without its lock.
    peeked: bool,
    /// The scan keeps the gaps between its rows free of insertions.
    gaps: bool,
    /// How far it has done so, in its direction.
    covered: Covered,
    /// Position that the gap being looked through begins at, with `own_from` of that moment.
    gap_start: Vec<u8>,
    prefix: Vec<u8>,
    bound: Option<Vec<u8>>,
    scan_forward: bool,
    next_batch: u32,
    bytes: Vec<u8>,
    spans: Vec<Span>,
    /// Last key looked at, dead ones included.
    last: Vec<u8>,
    dead: DeletedRun,
    /// Where a range that is jumped over is copied to.
    known_dead: Bounds,
    /// When the row of the last point read expires.
    found_expiry: u64,
    /// Key that the last locking read newly locked.
    locked: Option<(Vec<u8>, Mode)>,
}

impl std::fmt::Debug for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cursor").field("family", &self.family.id()).field("rows", &self.spans.len()).finish()
    }
}

/// The first key after every key that starts with `key`, into `out`; false when there is none.
pub(crate) fn successor_of_prefix(key: &[u8], out: &mut Vec<u8>) -> bool {
    out.clear();
    out.extend_from_slice(key);
    while let Some(last) = out.pop() {
        if last < 0xff {
            out.push(last + 1);
            return true;
        }
    }
    false
}

impl Cursor {
    /// A cursor on `family`; it stands nowhere.
    pub fn new(family: Arc<Family>) -> Cursor {
        Cursor {
            family,
            merge: None,
            view: None,
            seq: 0,
            own_iterators: 0,
            own_runs: 0,
            absent_from: 0,
            placed_at: 0,
            ended_snapshots: 0,
            ahead: false,
            own_from: Edge::Open,
            forward: true,
            mode: ReadMode::Snapshot,
            skip_locked: false,
            peek_locked: false,
            peeked: false,
            gaps: false,
            covered: Covered::Nothing,
            gap_start: Vec::new(),
            prefix: Vec::new(),
            bound: None,
            scan_forward: true,
            next_batch: 1,
            bytes: Vec::new(),
            spans: Vec::new(),
            last: Vec::new(),
            dead: DeletedRun::default(),
            known_dead: Bounds::default(),
            found_expiry: 0,
            locked: None,
        }
    }

    /// The family.
    pub fn family(&self) -> &Arc<Family> {
        &self.family
    }

    /// Gives back what pins memory; the cursor can be used again after a seek.
    pub fn reset(&mut self) {
        self.merge = None;
        self.view = None;
        self.spans.clear();
        self.locked = None;
        if self.bytes.capacity() > BATCH_BYTES {
            self.bytes = Vec::new();
        }
    }

    /// Rows in the batch.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether the batch has no row.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Key and value of a row of the batch.
    pub fn row(&self, index: usize) -> (&[u8], &[u8]) {
        let span = self.spans[index];
        (&self.bytes[span.key..span.value], &self.bytes[span.value..span.end])
    }

    /// When a row of the batch expires, in seconds since 1970; 0: never.
    pub fn expiry(&self, index: usize) -> u64 {
        self.spans[index].expiry
    }

    /// When the row that the last point read found expires; 0: never.
    pub fn found_expiry(&self) -> u64 {
        self.found_expiry
    }

    /// Point read; the value stays in the cursor until its next use.
    pub fn get(
        &mut self,
        txn: &mut Transaction,
        key: &[u8],
        mode: ReadMode,
        skip_locked: bool,
        on_missing: OnMissing,
    ) -> Result<Option<&[u8]>> {
        self.spans.clear();
        self.locked = None;
        self.peeked = false;
        let found = txn.get_into(&self.family, key, mode, skip_locked, on_missing, &mut self.bytes)?;
        self.found_expiry = found.expiry;
        if found.newly_locked {
            let lock = if mode == ReadMode::Shared { Mode::Shared } else { Mode::Exclusive };
            self.locked = Some((key.to_vec(), lock));
        }
        Ok(found.live.then_some(self.bytes.as_slice()))
    }

    /// As [`Cursor::get`], and when another has the key locked reads what is committed, without a lock: then
    /// [`Cursor::is_peek`].
    pub fn get_or_peek(
        &mut self,
        txn: &mut Transaction,
        key: &[u8],
        mode: ReadMode,
        on_missing: OnMissing,
    ) -> Result<Option<&[u8]>> {
        let live = match self.get(txn, key, mode, true, on_missing).map(|found| found.is_some()) {
            Err(Error::LockTimeout) => {
                self.peeked = self.get(txn, key, ReadMode::Latest, false, on_missing)?.is_some();
                self.peeked
            }
            other => other?,
        };
        Ok(live.then_some(self.bytes.as_slice()))
    }

    /// Whether the row that the cursor stands on is locked by another and was read as it is committed: what
    /// a scan with `peek_locked` does.
    pub fn is_peek(&self) -> bool {
        self.peeked
    }

    /// Reads the row of [`Cursor::is_peek`] again, waiting for its lock; when it is gone, stands on the next
    /// one. False at the end.
    pub fn relock(&mut self, txn: &mut Transaction) -> Result<bool> {
        let Some(&span) = self.spans.first().filter(|_| self.peeked) else { return Ok(false) };
        txn.require_active()?;
        self.last.clear();
        self.last.extend_from_slice(&self.bytes[span.key..span.value]);
        self.own_from = Edge::Included;
        self.covered = Covered::Nothing;
        self.place(txn)?;
        let peek = std::mem::replace(&mut self.peek_locked, false);
        let found = self.fill(txn);
        self.peek_locked = peek;
        found
    }

    /// Gives back the lock that the last locking read newly took.
    pub fn unlock_row(&mut self, txn: &Transaction) {
        if let Some((key, mode)) = self.locked.take() {
            txn.unlock_key(self.family.id(), &key, mode);
        }
    }

    /// Stands on the first row of a scan: `true`, and the batch's first row is it.
    pub fn seek(&mut self, txn: &mut Transaction, scan: &Scan<'_>) -> Result<bool> {
        txn.require_active()?;
        self.spans.clear();
        self.locked = None;
        self.mode = scan.mode;
        self.skip_locked = scan.skip_locked;
        self.peek_locked = scan.peek_locked;
        self.peeked = false;
        self.gaps = scan.mode.may_keep_gaps() && !scan.skip_locked && txn.keeps_gaps();
        self.covered = Covered::Nothing;
        self.prefix.clear();
        self.prefix.extend_from_slice(&scan.key[..scan.prefix.min(scan.key.len())]);
        match (&mut self.bound, scan.bound) {
            (Some(own), Some(given)) => {
                own.clear();
                own.extend_from_slice(given);
            }
            (own, given) => *own = given.map(<[u8]>::to_vec),
        }
        self.scan_forward = scan.start.is_forward();
        self.forward = self.scan_forward;
        self.next_batch = scan.expect.clamp(1, MAX_BATCH);
        let seq = txn.read_seq(scan.mode)?;
        txn.check_family(&self.family, seq)?;
        self.ended_snapshots = txn.ended_snapshots();
        self.open(txn, seq)?;
        self.own_from = match scan.start {
            Start::First | Start::Last => Edge::Open,
            Start::AtOrAfter | Start::Before => {
                self.last.clear();
                self.last.extend_from_slice(scan.key);
                if self.forward {
                    Edge::Included
                } else {
                    Edge::Excluded
                }
            }
            // The keys that start with the given one count as it: begin at the first key after them.
            Start::After if successor_of_prefix(scan.key, &mut self.last) => Edge::Included,
            Start::AtOrBefore if successor_of_prefix(scan.key, &mut self.last) => Edge::Excluded,
            Start::After => {
                self.ahead = false;
                return Ok(false);
            }
            Start::AtOrBefore => Edge::Open,
        };
        self.place(txn)?;
        self.fill(txn)
    }

    /// Steps from the row `position` of the batch: `true`, and the new batch's first row is the next one
    /// in the given direction.
    pub fn fetch(&mut self, txn: &mut Transaction, position: usize, forward: bool) -> Result<bool> {
        let Some(&span) = self.spans.get(position) else { return Ok(false) };
        if self.ended_snapshots != txn.ended_snapshots() {
            return Err(Error::InvalidArgument("the snapshot of the scan has ended; seek again".into()));
        }
        self.locked = None;
        let leftover = position + 1 < self.spans.len();
        let turned = forward != self.forward;
        self.last.clear();
        self.last.extend_from_slice(&self.bytes[span.key..span.value]);
        self.own_from = Edge::Excluded;
        self.forward = forward;
        if turned {
            self.next_batch = 1;
            self.covered = Covered::Nothing;
        }
        let stale = self.refresh(txn)?;
        if leftover || turned || stale || !self.ahead {
            self.place(txn)?;
        }
        self.fill(txn)
    }

    /// What was read ahead of the batch's rows is old: the next step looks at what is committed then. For a scan over
    /// entries whose caller found the row of one changed: it may have an entry in front of the scan now.
    pub fn look_again(&mut self) {
        self.ahead = false;
    }

    /// Builds the merge anew if it lacks a run that there is now and that the scan is to see. Returns whether
    /// it did.
    fn refresh(&mut self, txn: &Transaction) -> Result<bool> {
        let has_committed = self.mode == ReadMode::Snapshot
            || self.view.as_ref().is_some_and(|view| {
                let grown = self.absent_from > 0 && self.memtables_without(view) < self.absent_from;
                !grown && txn.store.is_current(view)
            });
        let has_all = has_committed && self.own_runs == txn.batch.runs().changes();
        if !has_all {
            self.open(txn, self.seq)?;
        }
        Ok(!has_all)
    }

    /// Memtables of a view that have no entries of the family. Commits that were ordered before a memtable was sealed
    /// may bring their first ones into it after that.
    fn memtables_without(&self, view: &ReadView) -> usize {
        view.memtables().filter(|memtable| memtable.tree(self.family.id()).is_none()).count()
    }

    /// Builds the merge over the runs as they are now.
    fn open(&mut self, txn: &Transaction, seq: Seq) -> Result<()> {
        let view = txn.store.view();
        self.absent_from = self.memtables_without(&view);
        let mut iterators = txn.batch.runs().iterators(self.family.id(), &self.prefix)?;
        self.own_iterators = iterators.len();
        self.own_runs = txn.batch.runs().changes();
        iterators.extend(view.iterators(self.family.id(), seq, &self.prefix)?);
        self.merge = Some(MergingIterator::new(iterators));
        self.view = Some(view);
        self.seq = seq;
        Ok(())
    }

    /// Brings the merge to the first key to look at.
    fn place(&mut self, txn: &Transaction) -> Result<()> {
        if self.mode != ReadMode::Snapshot {
            // In this order: what is committed now may stand in a memtable that came after the merge's runs.
            self.placed_at = txn.store.pipeline.visible_seq();
            self.refresh(txn)?;
        }
        let Some(merge) = &mut self.merge else { return Ok(()) };
        self.ahead = true;
        self.dead.steps = 0;
        match (self.own_from, self.forward) {
            (Edge::Open, true) => merge.seek_to_first(),
            (Edge::Open, false) => merge.seek_to_last(),
            (edge, true) => {
                merge.seek(&self.last)?;
                if edge == Edge::Excluded && merge.valid() && merge.key() == self.last {
                    merge.next()?;
                }
                Ok(())
            }
            (edge, false) => {
                merge.seek_for_prev(&self.last)?;
                if edge == Edge::Excluded && merge.valid() && merge.key() == self.last {
                    merge.prev()?;
                }
                Ok(())
            }
        }
    }
}

/// The first key after `key`.
fn behind(key: &[u8]) -> Vec<u8> {
    let mut next = Vec::with_capacity(key.len() + 1);
    next.extend_from_slice(key);
    next.push(0);
    next
}

fn look_for_kill(txn: &Transaction, steps: &mut u32) -> Result<()> {
    *steps += 1;
    if *steps % KILL_STEPS == 0 && txn.owner().is_killed() {
        return Err(Error::Interrupted);
    }
    Ok(())
}

/// The gap around a missing key: from behind the live key before it up to the one after it. Looks past a
/// bounded number of deleted keys; an end found so is nearer than it could be.
pub(crate) fn gap_around(store: &Store, family: FamilyId, key: &[u8]) -> Result<(Vec<u8>, Option<Vec<u8>>)> {
    const DEAD_KEYS: usize = 8;
    let mut merge = MergingIterator::new(store.view().iterators(family, MAX_SEQ, &[])?);
    merge.seek(key)?;
    let mut steps = 0;
    while merge.valid() && merge.entry().kind.is_tombstone() && steps < DEAD_KEYS {
        merge.next()?;
        steps += 1;
    }
    let to = merge.valid().then(|| merge.key().to_vec());
    let to = to.filter(|to| to.as_slice() > key);
    merge.seek_for_prev(key)?;
    let mut steps = 0;
    while merge.valid() && merge.entry().kind.is_tombstone() && steps < DEAD_KEYS {
        merge.prev()?;
        steps += 1;
    }
    let from = if merge.valid() { behind(merge.key()) } else { Vec::new() };
    Ok((from, to))
}
