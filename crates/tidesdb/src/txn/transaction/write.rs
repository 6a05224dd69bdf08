//! Writes of a transaction: changes in memory, their locks, and the runs of a large transaction.

use std::sync::atomic::Ordering;
use std::sync::Arc;

use super::locking::check_key;
use super::{Change, ChangeKind, Transaction};
use crate::error::{Error, Result};
use crate::lock::{Granted, Mode};
use crate::mutant::{self, Mutant};
use crate::store::family::Family;
use crate::store::pressure::LARGE_BATCH;
use crate::ttl::EXPIRY_LEN;
use crate::txn::write_batch::{LargeValue, WriteBatch};
use crate::types::{proves, CountEffect, FamilyId, Kind, Pieces, MAX_SEQ, MAX_VALUE_LEN};

/// Part of the bound on locks for one transaction while all together hold nearly all of them.
const CROWDED_SHARE: usize = 16;

/// The kind by which a compaction may cancel a deletion with its put (`docs/protocols.md` 3.5), if `newest`,
/// the key's newest version, proves it. The caller holds the exclusive lock on the key to its end and has not
/// changed the key: its change comes next above `newest`.
///
/// - An insertion over a tombstone, or over nothing, needs no mark "may overwrite".
/// - A single delete of such an insertion deletes the only put since the key did not exist.
///
/// An expired put counts as a put: readers of expired entries would find it again.
fn proven_kind(change: ChangeKind<'_>, newest: Option<Kind>) -> Option<Kind> {
    match change {
        ChangeKind::Insert(_) if newest.is_none_or(Kind::is_tombstone) => Some(Kind::PUT),
        ChangeKind::SingleDelete if newest.is_some_and(Kind::is_proven_insert) => Some(Kind::SINGLE_DELETE),
        _ => None,
    }
}

/// The value of a change; one change has further pieces.
fn value_of<'a>(changes: &[Change<'a>], more: Option<(usize, &'a [&'a [u8]])>, index: usize) -> Pieces<'a> {
    let pieces = more.filter(|(at, _)| *at == index).map_or(&[][..], |(_, pieces)| pieces);
    Pieces::new(changes[index].kind.value(), pieces)
}

/// The error for a too long value; an expiry may stand before it.
pub(crate) fn check_value_len(len: usize) -> Result<()> {
    match len > MAX_VALUE_LEN - EXPIRY_LEN {
        true => Err(Error::InvalidArgument(format!("a value of {len} bytes is too long"))),
        false => Ok(()),
    }
}

impl Transaction {
    /// Moves the changes in memory to a run beyond the bound. Also beyond the transaction's share, while all
    /// together fill their memory or hold nearly all possible locks.
    fn spill_if_large(&mut self) -> Result<()> {
        self.changed();
        let live = &self.store.live;
        let (size, bound) = (self.batch.size(), live.spill_bound());
        let crowded = size > LARGE_BATCH && size > self.store.share_of_transaction();
        let many = self.batch.len() > live.lock_bound() / CROWDED_SHARE;
        if size > bound || crowded || (many && self.transactions.locks.is_scarce(&self.owner)) {
            return self.spill(&[]);
        }
        Ok(())
    }

    /// Moves the changes in memory to a run. This locks their keys: neither keys nor locks of a large
    /// transaction fill memory. `large` has the values pushed without their bytes. Errors: I/O, disk full,
    /// `Interrupted`, those of a wait for a lock; no change is lost then.
    fn spill(&mut self, large: &[LargeValue<'_>]) -> Result<()> {
        if self.batch.size() == 0 {
            return Ok(());
        }
        if let Err(error) = self.batch.write_run(&self.store, &self.owner, large) {
            // The part that was written takes space, perhaps of a full disk.
            self.store.unlink_unused();
            return Err(error);
        }
        if !self.options.unlocked {
            if let Err(error) = self.lock_run() {
                self.batch.take_back_run();
                return Err(error);
            }
        }
        self.batch.forget_written();
        self.count(self.batch.size());
        let known = self.batch.runs().changes();
        let merged = self.batch.merge_runs(&self.store, &self.owner);
        let changed = self.batch.runs().changes() != known;
        if changed && !self.options.unlocked {
            self.transactions.lock_runs(&self.owner, self.batch.runs(), false);
        }
        if changed || merged.is_err() {
            self.store.unlink_unused();
        }
        self.store.heap_trim.trim(self.store.env.clock.now());
        merged
    }

    /// Locks the keys in the newest run, still in memory, by their presence in it. Keys without a statement's
    /// lock are locked once nobody else has them. Undoing the statement may drop its runs: a key locked by an
    /// earlier statement, unchanged by it, keeps its entry.
    fn lock_run(&self) -> Result<()> {
        let (locks, owner) = (&self.transactions.locks, &self.owner);
        self.transactions.lock_runs(owner, self.batch.runs(), self.locks.unlocked_puts);
        if self.locks.unlocked_puts {
            for family in self.batch.touched().filter(|family| self.store.catalog.is_live(*family)) {
                let keys = || self.batch.puts_of(family);
                locks.confirm(owner, family, keys, self.policy(false))?;
            }
        }
        locks.release_to_implicit(owner, &mut |family, key, earlier| {
            self.batch.first_change(family, key).is_some_and(|first| !earlier || first <= self.undo.statement)
        });
        Ok(())
    }

    /// Applies a row's changes in order, all or none. On failure the index of the failing change comes with
    /// the error; locks taken stay. [`Error::ReadOnly`] in a store open for reading only.
    pub fn write(&mut self, changes: &[Change<'_>]) -> Result<(), (usize, Error)> {
        self.write_in_pieces(changes, None)
    }

    /// As [`Transaction::write`]; the value of the change with this index continues with these pieces. A row
    /// larger than the transaction's share of memory is written to a run from the caller's memory, without a
    /// copy.
    pub fn write_in_pieces(
        &mut self,
        changes: &[Change<'_>],
        more: Option<(usize, &[&[u8]])>,
    ) -> Result<(), (usize, Error)> {
        self.require_active().and_then(|()| self.store.check_mode()).map_err(|e| (0, e))?;
        let bytes = changes.iter().map(|change| change.kind.value().len()).sum::<usize>()
            + more.map_or(0, |(_, pieces)| pieces.iter().map(|piece| piece.len()).sum());
        if bytes > self.store.live.spill_bound() {
            let _memory = self.store.take_for_row(bytes).map_err(|e| (0, e))?;
            return self.write_large(changes, more);
        }
        let has_room = bytes <= LARGE_BATCH || self.wait_for_memory(bytes).map_err(|e| (0, e))?;
        let mark = self.batch.mark();
        for (index, change) in changes.iter().enumerate() {
            if let Err(error) = self.write_one(change, value_of(changes, more, index)) {
                self.batch.cut_back(mark);
                self.changed();
                return Err((index, error));
            }
        }
        let spilled = if has_room { self.spill_if_large() } else { self.spill(&[]) };
        if let Err(error) = spilled {
            self.batch.cut_back(mark);
            self.changed();
            return Err((changes.len().saturating_sub(1), error));
        }
        self.owner.set_written(self.batch.made());
        Ok(())
    }

    /// Takes memory for changes of so many bytes: spills its own changes to runs, or waits until others have
    /// done so. False if nobody does for a while, perhaps because all wait for their clients or for this
    /// transaction's locks. The changes then go to a run.
    fn wait_for_memory(&mut self, bytes: usize) -> Result<bool> {
        if self.published.reserve(&self.store, bytes) {
            return Ok(true);
        }
        if self.batch.size() > LARGE_BATCH {
            self.spill(&[])?;
        }
        let Transaction { store, published, owner, max_wait, .. } = self;
        store.wait_for_transactions(*max_wait, owner, || published.reserve(store, bytes))
    }

    /// Writes a row to a run, its large values directly from the caller's memory.
    fn write_large(
        &mut self,
        changes: &[Change<'_>],
        more: Option<(usize, &[&[u8]])>,
    ) -> Result<(), (usize, Error)> {
        let known =
            |batch: &WriteBatch, change: &Change<'_>| batch.get(change.family.id(), change.key).is_some();
        // A table's block with a large value has one version: earlier ones go to another table.
        if changes.iter().any(|change| known(&self.batch, change)) {
            self.spill(&[]).map_err(|e| (0, e))?;
        }
        let mark = self.batch.mark();
        let small = LARGE_BATCH.min(self.store.live.spill_bound());
        let mut large = Vec::new();
        for (index, change) in changes.iter().enumerate() {
            let value = value_of(changes, more, index);
            // Changed twice in one row, it is one of the changes in memory.
            let stays = value.len() <= small || known(&self.batch, change);
            let written = check_value_len(value.len())
                .and_then(|()| self.write_one(change, if stays { value } else { Pieces::default() }));
            if let Err(error) = written {
                self.batch.cut_back(mark);
                self.changed();
                return Err((index, error));
            }
            if !stays {
                large.push(LargeValue { change: (self.batch.len() - 1) as u32, value });
            }
        }
        let written = self.spill(&large);
        if written.is_err() {
            self.batch.cut_back(mark);
        }
        self.changed();
        self.owner.set_written(self.batch.made());
        written.map_err(|error| (changes.len().saturating_sub(1), error))
    }

    /// `stored`: the value in its stored form.
    fn write_one(&mut self, change: &Change<'_>, stored: Pieces<'_>) -> Result<()> {
        let Change { family, key, .. } = *change;
        family.check_live()?;
        check_key(key)?;
        // The kinds that need no proof; a proof below makes stronger ones of them.
        let kind = match change.kind {
            ChangeKind::Put(_)
            | ChangeKind::Insert(_)
            | ChangeKind::PutEntry(_)
            | ChangeKind::KeepEntry(_) => Kind::PUT.marked_may_overwrite(),
            ChangeKind::Delete | ChangeKind::SingleDelete => Kind::DELETE,
        };
        let expires = change.expiry != 0 && !kind.is_tombstone();
        if expires {
            self.store.begin_expiries()?;
        }
        let insert = matches!(change.kind, ChangeKind::Insert(_));
        let single = matches!(change.kind, ChangeKind::SingleDelete);
        let mut proven = None;
        if insert && change.count_unchanged {
            return Err(Error::InvalidArgument("what must not exist is a new row".into()));
        }
        let entry = matches!(change.kind, ChangeKind::PutEntry(_));
        // Of a large statement the entries are locked by the run that they go to, all at once.
        let later = entry && self.options.single_statement && !self.batch.runs().is_empty();
        let kept = matches!(change.kind, ChangeKind::KeepEntry(_));
        let lock = change.lock && !self.options.unlocked && !later && !kept;
        let lock = lock && !mutant::is(Mutant::WriteWithoutLock);
        if lock {
            let granted = self.lock_key(family.id(), key, Mode::Exclusive, false)?;
            // A key under a lock on the table was not looked at when that was taken.
            // Nor was one that was locked while versions newer than the snapshot were taken, or whose lock says so
            // for an insertion that looks for no duplicate.
            let looked_at = match self.takes_newest() {
                true => change.count_unchanged || change.kind.value().is_empty(),
                false => !self.overtook(),
            };
            let compared = granted == Some(Granted::AlreadyHeld)
                && looked_at
                && !self.locks.uncompared.load(Ordering::Relaxed);
            let unread = !compared && !entry && self.snapshots.transaction.is_some();
            let own = match insert || unread || single {
                true => self.own(family.id(), key)?.map(|own| {
                    let (kind, stored) = own.stored();
                    self.takes_place(kind, stored)
                }),
                false => Some(true),
            };
            if own.is_none() {
                let newest = self.store.newest(family.id(), key, MAX_SEQ, None)?;
                if let Some((seq, kind)) = newest.filter(|_| insert || unread) {
                    // The entries of a new index are as old as the rows it was made from, and those have been compared.
                    let made = seq <= family.created_seq();
                    let unchanged = if made { Ok(()) } else { self.check_unchanged(seq) };
                    if insert
                        && self.is_taken(family.id(), key, kind)?
                        && !mutant::is(Mutant::DuplicateUnseen)
                    {
                        return Err(Error::Duplicate);
                    }
                    unchanged?;
                }
                if self.store.proves_inserts.load(Ordering::Acquire) {
                    let newest = newest.map(|(seq, kind)| {
                        match kind.is_tombstone() || proves(seq, self.store.unproven_upto()) {
                            true => kind,
                            false => kind.marked_may_overwrite(),
                        }
                    });
                    proven = proven_kind(change.kind, newest);
                }
            } else if insert && own == Some(true) {
                return Err(Error::Duplicate);
            }
        } else if insert {
            let live = match self.own(family.id(), key)? {
                Some(own) => {
                    let (kind, stored) = own.stored();
                    self.takes_place(kind, stored)
                }
                None => match self.store.newest(family.id(), key, MAX_SEQ, None)? {
                    Some((_, kind)) => self.is_taken(family.id(), key, kind)?,
                    None => false,
                },
            };
            if live {
                return Err(Error::Duplicate);
            }
        }
        let kind = proven.unwrap_or(kind);
        let kind = if expires { kind.with_expiry() } else { kind };
        // A range may have to keep it out; the row it overwrites keeps its own lock. A kept entry waits for no range
        // (`docs/protocols.md` 4.13), and an insertion without a lock is into a family that is nobody else's.
        self.locks.unlocked_puts |=
            !lock && !kept && !insert && !self.options.unlocked && !kind.is_tombstone();
        let effect = if change.count_unchanged { CountEffect::Unchanged } else { CountEffect::Counts };
        let expiry = kind.has_expiry().then_some(change.expiry);
        self.batch.push_in_pieces(family.id(), key, kind, expiry, stored, effect);
        Ok(())
    }

    /// Locks keys put without a statement's lock. A large transaction may have too many of them for an entry
    /// each. A deletion has its lock already, or is one of an old entry and needs none
    /// (`docs/design/0006-ranges.md`). Optimistic transactions wait here, too (`docs/protocols.md` 4.8).
    pub(super) fn lock_rest(&mut self) -> Result<()> {
        if !self.locks.unlocked_puts {
            return Ok(());
        }
        if !self.batch.runs().is_empty() && self.batch.len() > self.store.live.lock_bound() / CROWDED_SHARE {
            return self.spill(&[]);
        }
        // A dropped row log has no locks any more: the lock table would keep new ones for ever.
        let live = |family: FamilyId| self.store.catalog.is_live(family);
        for (family, entries) in self.batch.families().filter(|(family, _)| live(*family)) {
            for entry in entries.filter(|entry| !entry.kind.is_tombstone()) {
                let policy = self.policy(false);
                self.transactions.locks.lock_point(
                    &self.owner,
                    family,
                    entry.key,
                    Mode::Exclusive,
                    policy,
                )?;
            }
        }
        Ok(())
    }

    /// Writes one key, locked; it counts as a new row (see [`Change::count_unchanged`]).
    pub fn put(&mut self, family: &Arc<Family>, key: &[u8], value: &[u8]) -> Result<()> {
        self.write(&[Change {
            family,
            key,
            kind: ChangeKind::Put(value),
            lock: true,
            count_unchanged: false,
            expiry: 0,
        }])
        .map_err(|(_, e)| e)
    }

    /// Writes one existing key, locked; the number of rows stays.
    pub fn update(&mut self, family: &Arc<Family>, key: &[u8], value: &[u8]) -> Result<()> {
        let kind = ChangeKind::Put(value);
        self.write(&[Change { family, key, kind, lock: true, count_unchanged: true, expiry: 0 }])
            .map_err(|(_, e)| e)
    }

    /// As [`Transaction::put`], with an expiry: from the second `expiry` since 1970 on the key does not
    /// exist.
    pub fn put_expiring(
        &mut self,
        family: &Arc<Family>,
        key: &[u8],
        value: &[u8],
        expiry: u64,
    ) -> Result<()> {
        let kind = ChangeKind::Put(value);
        self.write(&[Change { family, key, kind, lock: true, count_unchanged: false, expiry }])
            .map_err(|(_, e)| e)
    }

    /// Writes one new key, locked; an error if it exists.
    pub fn insert(&mut self, family: &Arc<Family>, key: &[u8], value: &[u8]) -> Result<()> {
        self.write(&[Change {
            family,
            key,
            kind: ChangeKind::Insert(value),
            lock: true,
            count_unchanged: false,
            expiry: 0,
        }])
        .map_err(|(_, e)| e)
    }

    /// Deletes one key, locked; it counts as a row less.
    pub fn delete(&mut self, family: &Arc<Family>, key: &[u8]) -> Result<()> {
        self.write(&[Change {
            family,
            key,
            kind: ChangeKind::Delete,
            lock: true,
            count_unchanged: false,
            expiry: 0,
        }])
        .map_err(|(_, e)| e)
    }

    /// As [`Transaction::delete`], but as a single delete if the engine can prove exactly one put since the
    /// key last did not exist ([`ChangeKind::SingleDelete`]).
    pub fn single_delete(&mut self, family: &Arc<Family>, key: &[u8]) -> Result<()> {
        let kind = ChangeKind::SingleDelete;
        self.write(&[Change { family, key, kind, lock: true, count_unchanged: false, expiry: 0 }])
            .map_err(|(_, e)| e)
    }
}
