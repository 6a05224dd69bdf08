//! Reads of every kind, compared with the model's answers: points, scans, open cursors.

use std::collections::BTreeMap;

use tidesdb::internal::txn::cursor::{Cursor, Start};
use tidesdb::internal::txn::transaction::ReadMode;
use tidesdb::Isolation;

use super::reference::{refusal, Change, Key, Refusal};
use super::sim::{scan, Asked, Row};
use super::{OpenCursor, World};

impl World {
    pub(super) fn get(&mut self, at: usize) {
        let Some((family, handle)) = self.family() else { return };
        let key = self.key();
        let mode = *self.rng.pick(&[
            ReadMode::Snapshot,
            ReadMode::Snapshot,
            ReadMode::Latest,
            ReadMode::Shared,
            ReadMode::Exclusive,
        ]);
        let seq = self.read_seq(at, mode);
        let locking = matches!(mode, ReadMode::Shared | ReadMode::Exclusive);
        let owner = self.open[at].model.owner;
        let mut expected: Vec<Result<Change, Refusal>> = Vec::new();
        // A locking read that finds nothing: whether it newly took the lock.
        let mut settle_missing = None;
        if locking && self.perhaps_kept_out(at, family, &key) {
            return;
        }
        if !self.live(family) {
            expected.push(Err(Refusal::Dropped));
        } else if seq < self.model.families[&family].created_seq {
            expected.push(Err(Refusal::TooOld));
        } else {
            let locked = match locking {
                true => self.model.lock_or_gap(owner, family, &key, mode == ReadMode::Exclusive),
                false => Ok(false),
            };
            if let Err(refusal) = locked {
                expected.push(Err(refusal));
            } else if let Some(own) = self.open[at].model.own.get(&(family, key.clone())) {
                expected.push(Ok(own.clone()));
            } else {
                let found = self.model.families[&family].at(&key, seq).and_then(|(_, change)| change.clone());
                let missing = locking && found.is_none();
                match if locking { self.conflicts(at, family, &key) } else { Some(false) } {
                    Some(true) => expected.push(Err(Refusal::Conflict)),
                    Some(false) => expected.push(Ok(found)),
                    None => expected.extend([Ok(found), Err(Refusal::Conflict)]),
                }
                settle_missing = missing.then_some(locked == Ok(true));
            }
        }
        let got = match self.open[at].txn.get(&handle, &key, mode) {
            Ok(value) => Ok(value),
            Err(error) => Err(refusal(&error).unwrap_or_else(|| panic!("get: {error}"))),
        };
        assert!(expected.contains(&got), "get {key:?} {mode:?} at {seq}: expected {expected:?}, got {got:?}");
        if let (Some(new), Ok(None)) = (settle_missing, &got) {
            let isolation = self.open[at].model.isolation;
            if isolation < Isolation::RepeatableRead {
                if new {
                    self.model.unlock(owner, family, &key);
                }
            } else if mode == ReadMode::Exclusive {
                self.model.keep_gap(owner, family, &key);
                self.count("gaps");
            }
        }
        self.count("gets");
    }

    /// True if the model cannot say if a lock on the key is free.
    pub(super) fn perhaps_kept_out(&mut self, at: usize, family: u64, key: &[u8]) -> bool {
        let perhaps = self.model.kept_out(self.open[at].model.owner, family, key).is_none();
        if perhaps {
            self.count("vague gaps");
        }
        perhaps
    }

    pub(super) fn asked(&mut self) -> Asked {
        let start = *self.rng.pick(&[
            Start::AtOrAfter,
            Start::After,
            Start::AtOrBefore,
            Start::Before,
            Start::First,
            Start::Last,
        ]);
        let key = self.key();
        // A prefix goes with a key: from the ends of the family it says nothing.
        let keyed = !matches!(start, Start::First | Start::Last);
        let prefix =
            if keyed && self.rng.one_in(3) { 1 + self.rng.below(key.len() as u64) as usize } else { 0 };
        let bound = self.rng.one_in(3).then(|| self.key());
        let mode = if self.rng.one_in(4) { ReadMode::Latest } else { ReadMode::Snapshot };
        Asked { start, key, prefix, bound, mode, expect: self.rng.below(40) as u32 }
    }

    /// A transaction's view of a family at a sequence number.
    pub(super) fn sees(&self, at: usize, family: u64, seq: u64) -> BTreeMap<Key, Vec<u8>> {
        let known = &self.model.families[&family];
        let mut rows: BTreeMap<Key, Vec<u8>> =
            known.keys.keys().filter_map(|key| Some((key.clone(), known.at(key, seq)?.1.clone()?))).collect();
        for ((of, key), change) in &self.open[at].model.own {
            if *of == family {
                match change {
                    Some(value) => rows.insert(key.clone(), value.clone()),
                    None => rows.remove(key),
                };
            }
        }
        rows
    }

    pub(super) fn scan(&mut self, at: usize) {
        let Some((family, handle)) = self.family() else { return };
        let asked = self.asked();
        let seq = self.read_seq(at, asked.mode);
        let expected = if !self.live(family) {
            Err(Refusal::Dropped)
        } else if seq < self.model.families[&family].created_seq {
            Err(Refusal::TooOld)
        } else {
            Ok(scanned(&self.sees(at, family, seq), &asked))
        };
        let db = self.db().clone();
        let got = match scan(&db, &mut self.open[at].txn, &handle, &asked) {
            Ok(rows) => Ok(rows),
            Err(error) => Err(refusal(&error).unwrap_or_else(|| panic!("scan: {error}"))),
        };
        assert_eq!(got, expected, "scan {asked:?} at {seq}");
        self.count("scans");
    }

    /// Steps an open cursor alongside writes, of its own transaction and of others, both ways.
    pub(super) fn step(&mut self, at: usize) {
        if self.open[at].cursor.is_none() {
            let Some((family, handle)) = self.family() else { return };
            let mut asked = self.asked();
            (asked.prefix, asked.bound, asked.mode) = (0, None, ReadMode::Snapshot);
            let txn = &self.open[at].model;
            let would = match txn.isolation {
                Isolation::ReadCommitted => txn.statement,
                _ => txn.snapshot,
            };
            let unborn = |seq: u64| seq < self.model.families[&family].created_seq;
            if !self.live(family) || txn.isolation == Isolation::ReadUncommitted || would.is_some_and(unborn)
            {
                return;
            }
            let seq = self.read_seq(at, asked.mode);
            let expected = scanned(&self.sees(at, family, seq), &asked).into_iter().next();
            let mut cursor = self.db().cursor(&handle);
            let open = &mut self.open[at];
            let found = cursor.seek(&mut open.txn, &asked.scan()).expect("seeks");
            let got = found.then(|| row(&cursor, 0));
            assert_eq!(got, expected, "seek {asked:?} at {seq}");
            let changes = open.txn.change_counter().load(std::sync::atomic::Ordering::Relaxed);
            if found {
                open.cursor = Some(OpenCursor { cursor, family, asked, place: 0, changes });
            }
            return;
        }
        let (seq, turn) = (self.read_seq(at, ReadMode::Snapshot), self.rng.one_in(5));
        let Some(mut standing) = self.open[at].cursor.take() else { return };
        if !self.live(standing.family) {
            return;
        }
        let mut forward = standing.asked.start.is_forward();
        if turn {
            forward = !forward;
            standing.asked.start = if forward { Start::AtOrAfter } else { Start::AtOrBefore };
        }
        let here = row(&standing.cursor, standing.place).0;
        let sees = self.sees(at, standing.family, seq);
        let open = &mut self.open[at];
        let changes = open.txn.change_counter().load(std::sync::atomic::Ordering::Relaxed);
        if !turn && changes == standing.changes && self.rng.one_in(5) {
            let expected = if forward { sees.range(here..).count() } else { sees.range(..=here).count() };
            let got = standing.cursor.count(&mut open.txn, standing.place).expect("counts");
            assert_eq!(got, expected as u64, "count, forward {forward}, at {seq}");
            self.count("counts of rows");
            return;
        }
        let next = match forward {
            true => sees.range((std::ops::Bound::Excluded(here.clone()), std::ops::Bound::Unbounded)).next(),
            false => sees.range(..here.clone()).next_back(),
        };
        let expected = next.map(|(key, value)| (key.clone(), value.clone()));
        let open = &mut self.open[at];
        let prefetched = standing.place + 1 < standing.cursor.len() && changes == standing.changes && !turn;
        let found = if prefetched {
            standing.place += 1;
            true
        } else {
            let found = standing.cursor.fetch(&mut open.txn, standing.place, forward).expect("fetches");
            (standing.place, standing.changes) = (0, changes);
            found
        };
        let got = found.then(|| row(&standing.cursor, standing.place));
        assert_eq!(got, expected, "step from {here:?}, forward {forward}, at {seq}");
        if found {
            open.cursor = Some(standing);
        }
        self.count("cursor steps");
    }
}

pub(super) fn row(cursor: &Cursor, at: usize) -> Row {
    let (key, value) = cursor.row(at);
    (key.to_vec(), value.to_vec())
}

/// The rows of a scan among `rows`.
pub(super) fn scanned(rows: &BTreeMap<Key, Vec<u8>>, asked: &Asked) -> Vec<Row> {
    let key = &asked.key;
    let begins = |k: &Key| match asked.start {
        Start::First | Start::Last => true,
        Start::AtOrAfter => k >= key,
        Start::After => k > key && !k.starts_with(key),
        Start::AtOrBefore => k <= key || k.starts_with(key),
        Start::Before => k < key,
    };
    let forward = asked.start.is_forward();
    let prefix = &key[..asked.prefix.min(key.len())];
    let goes_on = |k: &Key| {
        k.starts_with(prefix)
            && asked.bound.as_ref().is_none_or(|bound| if forward { k < bound } else { k > bound })
    };
    let mut all: Vec<Row> = rows.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
    if !forward {
        all.reverse();
    }
    all.into_iter().filter(|(k, _)| begins(k)).take_while(|(k, _)| goes_on(k)).collect()
}
