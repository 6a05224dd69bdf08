//! Writes of a transaction: changes in memory, their locks, and the runs of a large transaction.

use std::sync::atomic::Ordering;
use std::sync::Arc;

use super::locking::check_key;
use super::{Change, ChangeKind, LongValue, Transaction};
use crate::cache::CachePriority;
use crate::error::{Error, Result};
use crate::format::value_pointer::ValuePointer;
use crate::lock::{Granted, Mode};
use crate::mutant::{self, Mutant};
use crate::store::family::Family;
use crate::store::pressure::LARGE_BATCH;
use crate::sync::note;
use crate::txn::write_batch::{LargeValue, WriteBatch};
use crate::types::{proves, CountEffect, Entry, FamilyId, Kind, Pieces, MAX_SEQ, MAX_VALUE_LEN};
use crate::value::{pointer_of_entry, EXPIRY_LEN};
use crate::value_holds::ValueFile;
use crate::values::WrittenValue;

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

/// The time of the exclusive lock on a change's key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum KeyLock {
    /// With the change.
    Now,
    /// By the change's run, or by `prepare`: a range may have to keep the key out. The row that it overwrites has its own
    /// lock.
    Later,
    /// Never.
    Never,
}

impl KeyLock {
    /// Of a transaction that locks keys. `asked`: the caller wants the lock at once. `by_run`: a run locks all entries of the
    /// statement.
    fn of(kind: ChangeKind<'_>, asked: bool, by_run: bool) -> KeyLock {
        match kind {
            // It waits for no range (`docs/protocols.md` 4.13).
            ChangeKind::KeepEntry(_) => KeyLock::Never,
            ChangeKind::PutEntry(_) if by_run => KeyLock::Later,
            _ if asked => KeyLock::Now,
            ChangeKind::Put(_) | ChangeKind::PutEntry(_) => KeyLock::Later,
            // The family is nobody else's.
            ChangeKind::Insert(_) => KeyLock::Never,
            // An old entry: the row's lock is enough.
            ChangeKind::Delete | ChangeKind::SingleDelete => KeyLock::Never,
        }
    }
}

/// The question of a change, under the lock on its key, to the key's newest version.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Look {
    /// None.
    Nothing,
    /// Does its kind prove a stronger one?
    Proof,
    /// Is it newer than the snapshot?
    Change,
    /// Is there no live one, and is it newer than the snapshot?
    Absence,
}

impl Look {
    /// `uncompared`: nobody has compared the key with the transaction's snapshot.
    fn of(kind: ChangeKind<'_>, uncompared: bool) -> Look {
        match kind {
            ChangeKind::Insert(_) => Look::Absence,
            // The row was compared, and its entries are as old.
            ChangeKind::PutEntry(_) | ChangeKind::KeepEntry(_) => Look::Nothing,
            _ if uncompared => Look::Change,
            ChangeKind::SingleDelete => Look::Proof,
            ChangeKind::Put(_) | ChangeKind::Delete => Look::Nothing,
        }
    }
}

/// The value of a change.
#[derive(Clone, Copy, Default)]
struct ChangeValue<'a> {
    bytes: Pieces<'a>,
    /// See [`LongValue`].
    first_part: usize,
    keeps_rest: bool,
    unless_at: Option<&'a [u8]>,
}

impl<'a> ChangeValue<'a> {
    /// Of the change with this index; one change has a long value.
    fn of(changes: &[Change<'a>], long: Option<LongValue<'a>>, index: usize) -> ChangeValue<'a> {
        let long = long.filter(|long| long.change == index).unwrap_or_default();
        let bytes = Pieces::new(changes[index].kind.value(), long.pieces);
        let LongValue { first_part, keeps_rest, unless_at, .. } = long;
        ChangeValue { bytes, first_part, keeps_rest, unless_at }
    }

    fn len(&self) -> usize {
        self.bytes.len()
    }
}

/// The error for a too long value; an expiry may stand before it.
pub(crate) fn check_value_len(len: usize) -> Result<()> {
    match len > MAX_VALUE_LEN - EXPIRY_LEN {
        true => Err(Error::InvalidArgument(format!("a value of {len} bytes is too long"))),
        false => Ok(()),
    }
}

/// Bytes of a pointer to a value file, about.
const POINTER_BYTES: usize = 32;

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
        self.write_long(changes, None)
    }

    /// As [`Transaction::write`]; one change has this long value. A row larger than the transaction's share of memory is written
    /// to a run from the caller's memory, without a copy.
    pub fn write_long(
        &mut self,
        changes: &[Change<'_>],
        long: Option<LongValue<'_>>,
    ) -> Result<(), (usize, Error)> {
        self.require_active().and_then(|()| self.store.check_mode()).map_err(|e| (0, e))?;
        let bytes = (changes.iter().enumerate())
            .map(|(index, change)| self.bytes_in_batch(change, &ChangeValue::of(changes, long, index)))
            .sum();
        if bytes > self.store.live.spill_bound() {
            let _memory = self.store.take_for_row(bytes).map_err(|e| (0, e))?;
            return self.write_large(changes, long);
        }
        let has_room = bytes <= LARGE_BATCH || self.wait_for_memory(bytes).map_err(|e| (0, e))?;
        let mark = self.batch.mark();
        for (index, change) in changes.iter().enumerate() {
            if let Err(error) = self.write_one(change, &ChangeValue::of(changes, long, index)) {
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

    /// Bytes of a change's value in memory.
    fn bytes_in_batch(&self, change: &Change<'_>, value: &ChangeValue<'_>) -> usize {
        let (kind, len) = (change.kind.unproven(), value.len());
        match self.store.inline_part(change.family, kind, len, value.first_part) {
            Some(inline) if !value.keeps_rest => inline + POINTER_BYTES,
            _ => len,
        }
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
        long: Option<LongValue<'_>>,
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
            let value = ChangeValue::of(changes, long, index);
            // Changed twice in one row, it is one of the changes in memory. So is one whose bytes are not all of its value.
            let stays = value.keeps_rest
                || self.bytes_in_batch(change, &value) <= small
                || known(&self.batch, change);
            let in_batch = if stays { value } else { ChangeValue::default() };
            let written = check_value_len(value.len()).and_then(|()| self.write_one(change, &in_batch));
            if let Err(error) = written {
                self.batch.cut_back(mark);
                self.changed();
                return Err((index, error));
            }
            if !stays {
                large.push(LargeValue { change: (self.batch.len() - 1) as u32, value: value.bytes });
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

    /// Adds a change in five steps: lock the key, look at its newest version, refuse a duplicate or a conflict, prove a
    /// stronger kind, push.
    fn write_one(&mut self, change: &Change<'_>, value: &ChangeValue<'_>) -> Result<()> {
        change.family.check_live()?;
        check_key(change.key)?;
        let is_insert = matches!(change.kind, ChangeKind::Insert(_));
        if is_insert && change.count_unchanged {
            return Err(Error::InvalidArgument("what must not exist is a new row".into()));
        }
        let unproven = change.kind.unproven();
        let expires = change.expiry != 0 && !unproven.is_tombstone();
        if expires {
            self.store.begin_expiries()?;
        }
        let key_lock = self.key_lock(change);
        let proven = match key_lock {
            KeyLock::Now => self.lock_and_look(change)?,
            KeyLock::Later | KeyLock::Never => {
                if is_insert && self.is_taken(change.family.id(), change.key)? {
                    return Err(Error::Duplicate);
                }
                None
            }
        };
        self.locks.unlocked_puts |= key_lock == KeyLock::Later;
        let kind = proven.unwrap_or(unproven);
        let is_lost = mutant::is(Mutant::ExpiryLostByUpdate)
            && self.batch.get(change.family.id(), change.key).is_some();
        let expires = expires && !is_lost;
        let kind = if expires { kind.with_expiry() } else { kind };
        let effect = if change.count_unchanged { CountEffect::Unchanged } else { CountEffect::Counts };
        let expiry = expires.then_some(change.expiry);
        let family = change.family.id();
        let written = match value.keeps_rest {
            true => Some(self.keep_rest(change, value, key_lock)?),
            false => self.separate(change, kind, value)?.map(|written| (written, true)),
        };
        let Some((WrittenValue { pointer, file }, memtable_holds)) = written else {
            self.batch.push_in_pieces(family, change.key, kind, expiry, value.bytes, effect);
            return Ok(());
        };
        match memtable_holds {
            true => self.batch.hold(file),
            false => self.batch.hold_until_applied(file),
        }
        let pointer = Pieces::new(&pointer, &[]);
        self.batch.push_in_pieces(family, change.key, kind.with_pointer(), expiry, pointer, effect);
        Ok(())
    }

    /// Writes a long value to a value file, but for its part that stays in the entry.
    fn separate(
        &self,
        change: &Change<'_>,
        kind: Kind,
        value: &ChangeValue<'_>,
    ) -> Result<Option<WrittenValue>> {
        let unless_at = value.unless_at.map(|place| {
            let no_place = || Error::InvalidArgument("the place of a value to compare with is none".into());
            ValuePointer::decode_place(place).ok_or_else(no_place)
        });
        let unless_at = unless_at.transpose()?;
        let inline = self.store.inline_part(change.family, kind, value.len(), value.first_part);
        let Some(inline) = inline else { return Ok(None) };
        check_value_len(value.len())?;
        // A value that takes another's place is likelier to be read soon than a new key's.
        let is_insert = matches!(change.kind, ChangeKind::Insert(_));
        let priority = if is_insert { CachePriority::NoEvict } else { CachePriority::Low };
        let parts = value.bytes.split_at(inline);
        self.store.write_value((change.family, change.key), parts, unless_at, priority).map(Some)
    }

    /// The first part with the pointer of the key's newest version, which the caller has read, and a hold on the file. False: no
    /// memtable needs the hold (`docs/protocols.md` 9.7).
    fn keep_rest(
        &self,
        change: &Change<'_>,
        value: &ChangeValue<'_>,
        key_lock: KeyLock,
    ) -> Result<(WrittenValue, bool)> {
        let bytes = change.kind.value();
        let (first, place) = bytes.split_at(value.first_part.min(bytes.len()));
        let read =
            ValuePointer::decode_place(place).filter(|_| !first.is_empty() && value.len() == bytes.len());
        let read = read.ok_or_else(|| Error::InvalidArgument("the place of a kept value is none".into()))?;
        check_value_len(first.len().saturating_add(read.raw_len as usize))?;
        let family = change.family.id();
        let kept_of = |entry: &Entry<'_>| -> Option<(ValuePointer, bool)> {
            let (_, newest) = ValuePointer::decode(pointer_of_entry(entry)?)?;
            newest.has_place_of(&read).then_some((newest, entry.kind.has_expiry()))
        };
        // While the version is held: its file has a hold.
        let hold = |(kept, expires): (ValuePointer, bool)| -> Result<(ValuePointer, Arc<ValueFile>, bool)> {
            if let Some(file) = self.store.versions.values().hold(kept.file) {
                return Ok((kept, file, expires));
            }
            change.family.check_live()?;
            let what = "the manifest does not name a value file that an entry needs";
            Err(self.store.versions.values().store().damage(kept.file, what))
        };
        let own = self.own(family, change.key)?;
        let (kept, file, needs_hold) = match own {
            Some(own) => {
                let (kept, file, _) = hold(kept_of(&own.entry()).ok_or(Error::Conflict)?)?;
                // The transaction has a hold for its own version. The record with this entry may be the one that brings the value.
                (kept, file, false)
            }
            None => {
                let find = |entry: Entry<'_>| kept_of(&entry).map(hold).transpose();
                let found = self.store.newest(family, change.key, MAX_SEQ, find)?.flatten();
                let (kept, file, expires) = found.ok_or(Error::Conflict)?;
                // Others replace a version that the lock does not keep, and merges drop one that has expired.
                let may_go = key_lock != KeyLock::Now || self.options.optimistic || expires;
                (ValuePointer { kept: true, ..kept }, file, may_go)
            }
        };
        note("values: rest kept");
        let mut pointer = Vec::with_capacity(value.len() + EXPIRY_LEN);
        kept.encode(first, &mut pointer);
        Ok((WrittenValue { pointer, file }, needs_hold))
    }

    /// When the change's key gets its lock.
    fn key_lock(&self, change: &Change<'_>) -> KeyLock {
        if self.options.unlocked || mutant::is(Mutant::WriteWithoutLock) {
            return KeyLock::Never;
        }
        // Of a large statement the entries are locked by the run that they go to, all at once.
        let by_run = self.options.single_statement && !self.batch.runs().is_empty();
        KeyLock::of(change.kind, change.lock, by_run)
    }

    /// Locks the change's key and looks at its newest version. Returns the proven kind, if there is a proof.
    fn lock_and_look(&mut self, change: &Change<'_>) -> Result<Option<Kind>> {
        let (family, key) = (change.family.id(), change.key);
        let granted = self.lock_key(family, key, Mode::Exclusive, false)?;
        let compared = granted == Some(Granted::AlreadyHeld) && self.was_compared(change);
        let look = Look::of(change.kind, !compared && self.snapshots.transaction.is_some());
        if look == Look::Nothing {
            return Ok(None);
        }
        if let Some(own) = self.own(family, key)? {
            return match look == Look::Absence && self.takes_place(&own.entry()) {
                true => Err(Error::Duplicate),
                false => Ok(None),
            };
        }
        let newest = self.store.newest(family, key, MAX_SEQ, |entry| {
            Ok((entry.seq, entry.kind, look == Look::Absence && self.takes_place(&entry)))
        })?;
        if let Some((seq, _, taken)) = newest.filter(|_| look != Look::Proof) {
            // The entries of a new index are as old as the rows it was made from, and those have been compared.
            let made = seq <= change.family.created_seq();
            let unchanged = if made { Ok(()) } else { self.check_unchanged(seq) };
            if taken && !mutant::is(Mutant::DuplicateUnseen) {
                return Err(Error::Duplicate);
            }
            unchanged?;
        }
        if !self.store.proves_inserts.load(Ordering::Acquire) {
            return Ok(None);
        }
        let newest = newest.map(|(seq, kind, _)| {
            match kind.is_tombstone() || proves(seq, self.store.unproven_upto()) {
                true => kind,
                false => kind.marked_may_overwrite(),
            }
        });
        Ok(proven_kind(change.kind, newest))
    }

    /// True if a key that was locked before was compared with the snapshot then.
    ///
    /// A key under a lock on the table was not. Nor was one that was locked while versions newer than the snapshot were
    /// taken, or whose lock says so for an insertion that looks for no duplicate.
    fn was_compared(&self, change: &Change<'_>) -> bool {
        let looked_at = match self.may_pass_snapshot() {
            true => change.count_unchanged || change.kind.value().is_empty(),
            false => !self.passed_snapshot(),
        };
        looked_at && !self.locks.uncompared.load(Ordering::Relaxed)
    }

    /// True if a live entry keeps a key from being inserted.
    fn is_taken(&self, family: FamilyId, key: &[u8]) -> Result<bool> {
        match self.own(family, key)? {
            Some(own) => Ok(self.takes_place(&own.entry())),
            None => {
                let taken = |entry: Entry<'_>| Ok(self.takes_place(&entry));
                Ok(self.store.newest(family, key, MAX_SEQ, taken)? == Some(true))
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_of_locks_and_looks() {
        use {KeyLock::*, Look::*};
        // The lock if it is asked for, if not, and if a run locks entries; the look at a key compared before, and at another.
        let cases = [
            (ChangeKind::Put(b""), [Now, Later, Now], [Nothing, Change]),
            (ChangeKind::Insert(b""), [Now, Never, Now], [Absence, Absence]),
            (ChangeKind::PutEntry(b""), [Now, Later, Later], [Nothing, Nothing]),
            (ChangeKind::KeepEntry(b""), [Never, Never, Never], [Nothing, Nothing]),
            (ChangeKind::Delete, [Now, Never, Now], [Nothing, Change]),
            (ChangeKind::SingleDelete, [Now, Never, Now], [Proof, Change]),
        ];
        for (kind, locks, looks) in cases {
            let of = |asked, by_run| KeyLock::of(kind, asked, by_run);
            assert_eq!([of(true, false), of(false, false), of(true, true)], locks, "{kind:?}");
            assert_eq!([false, true].map(|uncompared| Look::of(kind, uncompared)), looks, "{kind:?}");
        }
    }

    #[test]
    fn table_of_proofs() {
        let put = Kind::PUT.marked_may_overwrite();
        for (kind, newest, proven) in [
            (ChangeKind::Insert(b""), None, Some(Kind::PUT)),
            (ChangeKind::Insert(b""), Some(Kind::DELETE), Some(Kind::PUT)),
            (ChangeKind::Insert(b""), Some(put), None),
            (ChangeKind::SingleDelete, Some(Kind::PUT), Some(Kind::SINGLE_DELETE)),
            (ChangeKind::SingleDelete, Some(put), None),
            (ChangeKind::SingleDelete, Some(Kind::DELETE), None),
            (ChangeKind::SingleDelete, None, None),
            (ChangeKind::Put(b""), None, None),
            (ChangeKind::Delete, Some(Kind::PUT), None),
        ] {
            assert_eq!(proven_kind(kind, newest), proven, "{kind:?} over {newest:?}");
        }
    }
}
