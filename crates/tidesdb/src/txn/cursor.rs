//! Reading a family in order: the merge of its runs at a snapshot with the transaction's own changes, in
//! batches of rows copied out, so that a slice never outlives what it points into.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::db::family::Family;
use crate::db::view::ReadView;
use crate::error::{Error, Result};
use crate::iter::merge::Merge;
use crate::iter::Source;
use crate::lock::{Granted, Mode};
use crate::txn::transaction::{ReadMode, Transaction};
use crate::types::{Seq, MAX_SEQ};

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
    /// Skip rows that others have locked.
    pub skip_locked: bool,
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
    merge: Option<Merge>,
    /// What the merge was built over, and the sequence it reads at.
    view: Option<Arc<ReadView>>,
    seq: Seq,
    /// Sources of the merge, the first ones, that are the transaction's own runs; and which they were.
    own_sources: usize,
    own_runs: u64,
    /// Snapshots of the transaction that had ended when the scan began.
    ended_snapshots: u64,
    /// The merge stands on the next key to look at, in the direction of the batch.
    ahead: bool,
    /// From where own changes are looked up, relative to `last`.
    own_from: Edge,
    forward: bool,
    mode: ReadMode,
    skip_locked: bool,
    prefix: Vec<u8>,
    bound: Option<Vec<u8>>,
    scan_forward: bool,
    next_batch: u32,
    bytes: Vec<u8>,
    spans: Vec<Span>,
    /// Last key looked at, dead ones included.
    last: Vec<u8>,
    /// Key that the last locking read newly locked.
    locked: Option<(Vec<u8>, Mode)>,
}

impl std::fmt::Debug for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cursor").field("family", &self.family.id()).field("rows", &self.spans.len()).finish()
    }
}

/// The first key behind every key that starts with `key`, into `out`; false when there is none.
fn successor_of_prefix(key: &[u8], out: &mut Vec<u8>) -> bool {
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
            own_sources: 0,
            own_runs: 0,
            ended_snapshots: 0,
            ahead: false,
            own_from: Edge::Open,
            forward: true,
            mode: ReadMode::Snapshot,
            skip_locked: false,
            prefix: Vec::new(),
            bound: None,
            scan_forward: true,
            next_batch: 1,
            bytes: Vec::new(),
            spans: Vec::new(),
            last: Vec::new(),
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

    /// Point read; the value stays in the cursor until its next use.
    pub fn get(
        &mut self,
        txn: &mut Transaction,
        key: &[u8],
        mode: ReadMode,
        skip_locked: bool,
    ) -> Result<Option<&[u8]>> {
        self.spans.clear();
        self.locked = None;
        let found = txn.get_into(&self.family, key, mode, skip_locked, &mut self.bytes)?;
        if found.newly_locked {
            let lock = if mode == ReadMode::Shared { Mode::Shared } else { Mode::Exclusive };
            self.locked = Some((key.to_vec(), lock));
        }
        Ok(found.live.then_some(self.bytes.as_slice()))
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
            // The keys that start with the given one count as it: begin at the first key behind them.
            Start::After if successor_of_prefix(scan.key, &mut self.last) => Edge::Included,
            Start::AtOrBefore if successor_of_prefix(scan.key, &mut self.last) => Edge::Excluded,
            Start::After => {
                self.ahead = false;
                return Ok(false);
            }
            Start::AtOrBefore => Edge::Open,
        };
        self.place()?;
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
        }
        let moved = self.own_runs != txn.batch.runs().changes();
        let stale = moved || (self.mode != ReadMode::Snapshot && !self.is_current(txn));
        if stale {
            self.open(txn, self.seq)?;
        }
        if leftover || turned || stale || !self.ahead {
            self.place()?;
        }
        self.fill(txn)
    }

    fn is_current(&self, txn: &Transaction) -> bool {
        self.view.as_ref().is_some_and(|view| txn.store.is_current(view))
    }

    /// Builds the merge over the runs as they are now, unless it is.
    fn open(&mut self, txn: &Transaction, seq: Seq) -> Result<()> {
        let view = txn.store.view();
        let mut sources = txn.batch.runs().sources(self.family.id(), &self.prefix)?;
        self.own_sources = sources.len();
        self.own_runs = txn.batch.runs().changes();
        sources.extend(view.sources(self.family.id(), seq, &self.prefix)?);
        self.merge = Some(Merge::new(sources));
        self.view = Some(view);
        self.seq = seq;
        Ok(())
    }

    /// Brings the merge to the first key to look at.
    fn place(&mut self) -> Result<()> {
        let Some(merge) = &mut self.merge else { return Ok(()) };
        self.ahead = true;
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

    fn past_end(&self, key: &[u8]) -> bool {
        if !key.starts_with(&self.prefix) {
            return true;
        }
        match &self.bound {
            Some(bound) if self.scan_forward => key >= bound.as_slice(),
            Some(bound) => key <= bound.as_slice(),
            None => false,
        }
    }

    /// Copies the next key and its value, own or committed, behind the batch's bytes. `None` at the end.
    fn copy_next(&mut self, txn: &Transaction, own_changes: bool) -> Result<Option<(Next, Span, bool, Seq)>> {
        let Some(merge) = &mut self.merge else { return Ok(None) };
        let family = self.family.id();
        let own = match (own_changes, self.forward, self.own_from) {
            (false, _, _) => None,
            (true, true, Edge::Open) => txn.batch.first_from(family, &[], false),
            (true, true, edge) => txn.batch.first_from(family, &self.last, edge == Edge::Excluded),
            (true, false, Edge::Open) => txn.batch.last_to(family, None, false),
            (true, false, edge) => txn.batch.last_to(family, Some(&self.last), edge == Edge::Excluded),
        };
        let next = match (&own, merge.valid()) {
            (None, false) => return Ok(None),
            (Some(_), false) => Next::Own,
            (None, true) => Next::Committed,
            (Some(own), true) => match (own.key.cmp(merge.key()), self.forward) {
                (Ordering::Equal, _) => Next::Both,
                (Ordering::Less, true) | (Ordering::Greater, false) => Next::Own,
                _ => Next::Committed,
            },
        };
        let next = match next {
            Next::Committed if merge.current_source() < Some(self.own_sources) => Next::Spilled,
            next => next,
        };
        let key = self.bytes.len();
        let (kind, value, seq) = match own {
            Some(own) if matches!(next, Next::Own | Next::Both) => {
                self.bytes.extend_from_slice(own.key);
                let value = self.bytes.len();
                self.bytes.extend_from_slice(own.value);
                (own.kind, value, 0)
            }
            _ => {
                let entry = merge.entry();
                self.bytes.extend_from_slice(merge.key());
                let value = self.bytes.len();
                self.bytes.extend_from_slice(entry.value);
                (entry.kind, value, entry.seq)
            }
        };
        if next != Next::Own {
            if self.forward {
                merge.next()?;
            } else {
                merge.prev()?;
            }
        }
        if own_changes {
            self.last.clear();
            self.last.extend_from_slice(&self.bytes[key..value]);
            self.own_from = Edge::Excluded;
        }
        Ok(Some((next, Span { key, value, end: self.bytes.len() }, !kind.is_tombstone(), seq)))
    }

    fn fill(&mut self, txn: &mut Transaction) -> Result<bool> {
        self.bytes.clear();
        self.spans.clear();
        let locking = matches!(self.mode, ReadMode::Shared | ReadMode::Exclusive);
        let want = if locking { 1 } else { self.next_batch as usize };
        self.next_batch = (self.next_batch * 4).min(MAX_BATCH);
        let own_changes = !txn.batch.is_empty() && txn.batch.touches(self.family.id());
        let mut steps = 0u32;
        while self.spans.len() < want && self.bytes.len() < BATCH_BYTES {
            steps += 1;
            if steps % KILL_STEPS == 0 && txn.owner().is_killed() {
                return Err(Error::Interrupted);
            }
            let Some((next, mut span, mut live, seq)) = self.copy_next(txn, own_changes)? else { break };
            if self.past_end(&self.bytes[span.key..span.value]) {
                // The merge has left this key behind: what follows must place it anew.
                self.ahead = false;
                break;
            }
            if locking && next == Next::Committed {
                if live {
                    live = self.lock_found(txn, &mut span)?;
                } else {
                    txn.check_unchanged(seq)?;
                }
            }
            if live {
                self.spans.push(span);
            } else {
                self.bytes.truncate(span.key);
            }
        }
        Ok(!self.spans.is_empty())
    }

    /// Locks the key found, then reads its newest version in place of the one found before the lock.
    /// False when it is gone, or another has it and such rows are skipped.
    fn lock_found(&mut self, txn: &mut Transaction, span: &mut Span) -> Result<bool> {
        let lock = if self.mode == ReadMode::Shared { Mode::Shared } else { Mode::Exclusive };
        let key = self.bytes[span.key..span.value].to_vec();
        let Some(granted) = txn.lock_key(self.family.id(), &key, lock, self.skip_locked)? else {
            return Ok(false);
        };
        let mut value = Vec::new();
        let newest = txn.store.newest(self.family.id(), &key, MAX_SEQ, Some(&mut value))?;
        let live = match newest {
            Some((seq, kind)) => {
                txn.check_unchanged(seq)?;
                !kind.is_tombstone()
            }
            None => false,
        };
        if live {
            self.bytes.truncate(span.value);
            self.bytes.extend_from_slice(&value);
            span.end = self.bytes.len();
            self.locked = (granted == Granted::New).then_some((key, lock));
        } else if granted == Granted::New {
            txn.unlock_key(self.family.id(), &key, lock);
        }
        Ok(live)
    }
}
