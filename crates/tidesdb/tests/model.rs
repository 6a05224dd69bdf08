//! Random programs over several families and several concurrent transactions, interleaved by one thread,
//! beside a model that knows snapshots, own writes, locks, conflicts and duplicates. Every answer of the
//! store is compared with the model's, with normal constants and with tiny ones.
//!
//! `MODEL_SEED` repeats one program, `MODEL_PROGRAMS` runs more of them.

mod sim;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use sim::{begin_as, env, open, scan, Asked, Rng, Row};
use tidesdb::db::family::Family;
use tidesdb::io::faulty::Crash;
use tidesdb::io::FaultyDisk;
use tidesdb::options::{Compression, FamilyOptions, Options, SyncMode};
use tidesdb::txn::cursor::{Cursor, Start};
use tidesdb::txn::transaction::{Isolation, Mood, ReadMode, Transaction};
use tidesdb::{Db, Error};

type Key = Vec<u8>;
type Change = Option<Vec<u8>>;
type Changes = BTreeMap<(u64, Key), Change>;

/// A family as the model knows it.
#[derive(Clone, Debug, Default)]
struct ModelFamily {
    birth: u64,
    /// Versions of each key, oldest first.
    keys: BTreeMap<Key, Vec<(u64, Change)>>,
    /// Counters: the highest value handed out or raised to.
    counters: BTreeMap<u32, u64>,
}

impl ModelFamily {
    fn at(&self, key: &[u8], seq: u64) -> Option<&(u64, Change)> {
        self.keys.get(key)?.iter().rev().find(|(s, _)| *s <= seq)
    }
}

#[derive(Debug, Default)]
struct Model {
    seq: u64,
    /// Live families by name, as numbers.
    names: BTreeMap<Vec<u8>, u64>,
    families: BTreeMap<u64, ModelFamily>,
    next_family: u64,
    /// Owner and whether exclusive, of each locked key.
    locks: BTreeMap<(u64, Key), BTreeMap<usize, bool>>,
    gaps: Vec<Gap>,
    /// Prepared transactions that a restart left undecided: xid, changes, owner of the locks.
    undecided: BTreeMap<Vec<u8>, (Changes, usize)>,
    next_owner: usize,
}

/// What a locking read that found nothing keeps others from.
#[derive(Debug)]
struct Gap {
    owner: usize,
    family: u64,
    /// Between these, both excluded.
    after: Option<Key>,
    before: Option<Key>,
    /// It may be smaller: the store looks past so many deleted keys only.
    vague: bool,
}

#[derive(Debug)]
struct ModelTxn {
    owner: usize,
    isolation: Isolation,
    snapshot: Option<u64>,
    statement: Option<u64>,
    own: Changes,
    mark: Changes,
    /// Sum of what was written: beyond the bound the store must refuse, far below it must not.
    bytes: usize,
    prepared: Option<Vec<u8>>,
    ordered: bool,
}

#[derive(Debug, PartialEq, Eq, Clone, Copy)]
enum Refusal {
    Conflict,
    Duplicate,
    Locked,
    Dropped,
    TooOld,
}

fn refusal(error: &Error) -> Option<Refusal> {
    Some(match error {
        Error::Conflict => Refusal::Conflict,
        Error::Duplicate => Refusal::Duplicate,
        Error::LockTimeout => Refusal::Locked,
        Error::NoSuchFamily(_) => Refusal::Dropped,
        Error::SnapshotTooOld => Refusal::TooOld,
        _ => return None,
    })
}

impl Model {
    fn lock_or_gap(
        &mut self,
        owner: usize,
        family: u64,
        key: &[u8],
        exclusive: bool,
    ) -> Result<bool, Refusal> {
        if exclusive && self.kept_out(owner, family, key) == Some(true) {
            return Err(Refusal::Locked);
        }
        self.lock(owner, family, key, exclusive)
    }

    fn unlock(&mut self, owner: usize, family: u64, key: &[u8]) {
        if let Some(held) = self.locks.get_mut(&(family, key.to_vec())) {
            held.remove(&owner);
        }
        self.locks.retain(|_, held| !held.is_empty());
    }

    fn lock(&mut self, owner: usize, family: u64, key: &[u8], exclusive: bool) -> Result<bool, Refusal> {
        let held = self.locks.entry((family, key.to_vec())).or_default();
        if held.iter().any(|(other, theirs)| *other != owner && (exclusive || *theirs)) {
            return Err(Refusal::Locked);
        }
        let before = held.get(&owner).copied();
        held.insert(owner, exclusive || before == Some(true));
        Ok(before.is_none())
    }

    /// The gap around a key that is not there, up to the next live keys and those that others have locked.
    fn keep_gap(&mut self, owner: usize, family: u64, key: &[u8]) {
        let ends = |known: &Key| {
            let newest = self.families[&family].at(known, u64::MAX);
            let live = newest.is_some_and(|(_, change)| change.is_some());
            let held = self.locks.get(&(family, known.clone()));
            live || held
                .is_some_and(|held| held.iter().any(|(other, exclusive)| *other != owner && *exclusive))
        };
        let mut keys: BTreeSet<Key> = self.families[&family].keys.keys().cloned().collect();
        let dead = keys.len();
        keys.extend(self.locks.keys().filter(|(of, _)| *of == family).map(|(_, key)| key.clone()));
        let after = keys.iter().rev().find(|known| known.as_slice() < key && ends(known)).cloned();
        let before = keys.iter().find(|known| known.as_slice() > key && ends(known)).cloned();
        self.gaps.push(Gap { owner, family, after, before, vague: dead > 64 });
    }

    /// Whether another's gap keeps `owner` from a lock on `key`; `None`: perhaps.
    fn kept_out(&self, owner: usize, family: u64, key: &[u8]) -> Option<bool> {
        let mine = self.locks.get(&(family, key.to_vec())).and_then(|held| held.get(&owner));
        if mine == Some(&true) {
            return Some(false);
        }
        let within = |gap: &&Gap| {
            gap.owner != owner
                && gap.family == family
                && gap.after.as_ref().is_none_or(|after| after.as_slice() < key)
                && gap.before.as_ref().is_none_or(|before| key < before.as_slice())
        };
        let mut met = self.gaps.iter().filter(within).peekable();
        match met.peek().is_some() {
            false => Some(false),
            true => met.any(|gap| !gap.vague).then_some(true),
        }
    }

    fn unlock_all(&mut self, owner: usize) {
        self.gaps.retain(|gap| gap.owner != owner);
        for held in self.locks.values_mut() {
            held.remove(&owner);
        }
        self.locks.retain(|_, held| !held.is_empty());
    }

    fn commit(&mut self, changes: &Changes) {
        if changes.is_empty() {
            return;
        }
        self.seq += 1;
        for ((family, key), change) in changes {
            // A family dropped since: its changes go nowhere.
            if let Some(family) = self.families.get_mut(family) {
                family.keys.entry(key.clone()).or_default().push((self.seq, change.clone()));
            }
        }
    }

    fn create(&mut self, name: &[u8]) {
        self.seq += 1;
        self.next_family += 1;
        self.families.insert(self.next_family, ModelFamily { birth: self.seq, ..ModelFamily::default() });
        self.names.insert(name.to_vec(), self.next_family);
    }
}

struct Open {
    txn: Transaction,
    model: ModelTxn,
    /// A cursor with what it scans and the key it stands on.
    cursor: Option<OpenCursor>,
}

struct OpenCursor {
    cursor: Cursor,
    family: u64,
    asked: Asked,
    /// Place in the cursor's batch, and the transaction's change counter when the batch was read.
    place: usize,
    changes: u64,
}

struct World {
    seed: u64,
    rng: Rng,
    options: Options,
    family_options: Vec<FamilyOptions>,
    disk: FaultyDisk,
    db: Option<Db>,
    handles: BTreeMap<u64, Arc<Family>>,
    model: Model,
    open: Vec<Open>,
    crash_ok: Vec<Crash>,
    counts: BTreeMap<&'static str, u64>,
    keys: u64,
    value: usize,
}

const WAIT: Duration = Duration::from_secs(20);

impl World {
    fn new(seed: u64, tiny: bool) -> World {
        let mut rng = Rng(seed);
        let sync = *rng.pick(&[SyncMode::None, SyncMode::Interval, SyncMode::Full]);
        let mut options = if tiny { sim::tiny(sync) } else { sim::normal(sync) };
        if tiny {
            options.write_buffer_size = (4 << 10) << rng.below(3);
            options.block_cache_size = *rng.pick(&[0, 1 << 10, 8 << 10]);
            options.target_file_size = *rng.pick(&[1 << 10, 4 << 10]);
            options.base_level_size = *rng.pick(&[4 << 10, 16 << 10]);
        }
        let mut crash_ok = vec![Crash::Kill];
        if sync == SyncMode::Full {
            crash_ok.extend(Crash::ALL);
        }
        let normal = FamilyOptions::default();
        let family_options = if tiny {
            vec![
                FamilyOptions { block_size: 128, ..sim::tiny_family() },
                FamilyOptions { block_size: 256, prefix_len: 2, use_btree: true, ..sim::tiny_family() },
                FamilyOptions { compression: Compression::Lz4, bloom_filter: false, ..sim::tiny_family() },
                FamilyOptions {
                    tombstone_density_trigger: 2500,
                    tombstone_density_min_entries: 8,
                    min_levels: 3,
                    ..sim::tiny_family()
                },
            ]
        } else {
            vec![
                normal.clone(),
                FamilyOptions { prefix_len: 3, ..normal.clone() },
                FamilyOptions { use_btree: true, compression: Compression::None, ..normal },
            ]
        };
        let disk = FaultyDisk::new(seed);
        let db = open(&disk, &options).expect("opens");
        let (keys, value) = (*rng.pick(&[6, 40, 300]), *rng.pick(&[4, 40, 200]));
        World {
            seed,
            rng,
            options,
            family_options,
            disk,
            db: Some(db),
            handles: BTreeMap::new(),
            model: Model::default(),
            open: Vec::new(),
            crash_ok,
            counts: BTreeMap::new(),
            keys,
            value,
        }
    }

    fn db(&self) -> &Db {
        self.db.as_ref().expect("open")
    }

    fn trace(&self, what: impl FnOnce() -> String) {
        if std::env::var("MODEL_TRACE").is_ok() {
            println!("{}", what());
        }
    }

    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    fn key(&mut self) -> Key {
        let n = self.rng.below(self.keys);
        match n % 4 {
            // Keys of one to a few bytes with shared prefixes, so that prefixes and bounds meet keys.
            0 => format!("{:02}", n % 100).into_bytes(),
            1 => format!("{:02}/{:03}", n % 10, n).into_bytes(),
            2 => vec![0xff, (n % 7) as u8, (n / 7) as u8],
            _ => format!("{n:05}").into_bytes(),
        }
    }

    fn value(&mut self) -> Vec<u8> {
        let len = self.rng.below(self.value as u64 + 1) as usize;
        let mut value = self.rng.next().to_le_bytes().to_vec();
        value.resize(len, (self.rng.next() % 251) as u8);
        value
    }

    /// A family that lives, sometimes one that was dropped.
    fn family(&mut self) -> Option<(u64, Arc<Family>)> {
        let live: Vec<u64> = self.model.names.values().copied().collect();
        let id = if !live.is_empty() && !self.rng.one_in(40) {
            *self.rng.pick(&live)
        } else {
            let all: Vec<u64> = self.handles.keys().copied().collect();
            if all.is_empty() {
                return None;
            }
            *self.rng.pick(&all)
        };
        Some((id, self.handles[&id].clone()))
    }

    fn live(&self, family: u64) -> bool {
        self.model.names.values().any(|id| *id == family)
    }

    fn name(&mut self) -> Vec<u8> {
        format!("t{}", self.rng.below(5)).into_bytes()
    }

    /// The sequence that a plain read of a transaction reads at; takes the snapshot as the store does.
    fn read_seq(&mut self, at: usize, mode: ReadMode) -> u64 {
        let now = self.model.seq;
        let txn = &mut self.open[at].model;
        if mode != ReadMode::Snapshot {
            return u64::MAX;
        }
        match txn.isolation {
            Isolation::ReadUncommitted => u64::MAX,
            Isolation::ReadCommitted => *txn.statement.get_or_insert(now),
            _ => *txn.snapshot.get_or_insert(now),
        }
    }

    /// Whether changing a key whose newest version is `newest` is a conflict. `None`: either is right,
    /// because the versions that would show it may be gone.
    fn conflicts(&self, at: usize, family: u64, key: &[u8]) -> Option<bool> {
        let txn = &self.open[at].model;
        let Some(snapshot) = txn.snapshot.filter(|_| txn.isolation >= Isolation::RepeatableRead) else {
            return Some(false);
        };
        let Some(known) = self.model.families.get(&family) else { return Some(false) };
        let Some((seq, change)) = known.at(key, u64::MAX) else { return Some(false) };
        if *seq <= snapshot {
            return Some(false);
        }
        let absent_then = known.at(key, snapshot).is_none_or(|(_, change)| change.is_none());
        if change.is_none() && absent_then {
            return None;
        }
        Some(true)
    }

    fn begin(&mut self) {
        let isolation = *self.rng.pick(&[
            Isolation::RepeatableRead,
            Isolation::RepeatableRead,
            Isolation::Snapshot,
            Isolation::ReadCommitted,
            Isolation::ReadUncommitted,
        ]);
        let mood = Mood { isolation, ..Mood::default() };
        let mut txn = begin_as(self.db(), mood);
        txn.set_lock_timeout(Some(Duration::ZERO));
        self.model.next_owner += 1;
        let model = ModelTxn {
            owner: self.model.next_owner,
            isolation,
            snapshot: None,
            statement: None,
            own: BTreeMap::new(),
            mark: BTreeMap::new(),
            bytes: 0,
            prepared: None,
            ordered: false,
        };
        self.open.push(Open { txn, model, cursor: None });
        let at = self.open.len() - 1;
        self.statement(at);
    }

    fn statement(&mut self, at: usize) {
        let now = self.model.seq;
        let open = &mut self.open[at];
        open.cursor = None;
        open.txn.statement_begin(true, WAIT).expect("statement");
        open.model.statement = None;
        open.model.mark = open.model.own.clone();
        if open.model.isolation == Isolation::Snapshot {
            open.model.snapshot.get_or_insert(now);
        }
    }

    fn write(&mut self, at: usize) {
        let Some((family, handle)) = self.family() else { return };
        let (key, value) = (self.key(), self.value());
        // Transactions that spill lock whole tables: they have a model of their own, in spill.rs.
        let bound = self.options.write_buffer_size / 2;
        if self.open[at].model.bytes + key.len() + value.len() + 64 > bound {
            self.count("large enough");
            return;
        }
        if self.perhaps_kept_out(at, family, &key) {
            return;
        }
        let kind = self.rng.below(3);
        // What must come, in the order in which the store looks.
        let mut expected: Vec<Result<(), Refusal>> = vec![Ok(())];
        let owner = self.open[at].model.owner;
        if !self.live(family) {
            expected = vec![Err(Refusal::Dropped)];
        } else {
            let own = self.open[at].model.own.get(&(family, key.clone())).cloned();
            match self.model.lock_or_gap(owner, family, &key, true) {
                Err(refusal) => expected = vec![Err(refusal)],
                Ok(_) => {
                    let newest = self.model.families[&family].at(&key, u64::MAX);
                    let live = newest.is_some_and(|(_, change)| change.is_some());
                    match (own, kind) {
                        (Some(Some(_)), 1) => expected = vec![Err(Refusal::Duplicate)],
                        (Some(_), _) => {}
                        (None, 1) if live => expected = vec![Err(Refusal::Duplicate)],
                        (None, _) => match self.conflicts(at, family, &key) {
                            Some(true) => expected = vec![Err(Refusal::Conflict)],
                            Some(false) => {}
                            None => expected.push(Err(Refusal::Conflict)),
                        },
                    }
                }
            }
        }
        let txn = &mut self.open[at].txn;
        let done = match kind {
            0 => txn.put(&handle, &key, &value),
            1 => txn.insert(&handle, &key, &value),
            _ => txn.delete(&handle, &key),
        };
        let bytes = key.len() + if kind == 2 { 0 } else { value.len() };
        let open = &mut self.open[at];
        match done {
            Ok(()) => {
                assert!(expected.contains(&Ok(())), "expected {expected:?}, the write was accepted");
                open.model.bytes += bytes + 32;
                assert!(open.model.own.len() < bound, "far more than the bound was accepted");
                let change = (kind != 2).then_some(value);
                open.model.own.insert((family, key), change);
                self.count("writes");
            }
            Err(error) => {
                let got = refusal(&error).unwrap_or_else(|| panic!("write: {error}"));
                assert!(expected.contains(&Err(got)), "expected {expected:?}, got {got:?}");
                self.count(match got {
                    Refusal::Conflict => "conflicts",
                    Refusal::Duplicate => "duplicates",
                    Refusal::Locked => "lock timeouts",
                    Refusal::Dropped => "dropped",
                    Refusal::TooOld => unreachable!("no write asks for the family's birth"),
                });
                // A transaction that met a conflict must be rolled back; some go on all the same, and
                // must then meet it again.
                if got == Refusal::Conflict && !self.rng.one_in(3) {
                    self.end(at, false);
                }
            }
        }
    }

    fn get(&mut self, at: usize) {
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
        } else if seq < self.model.families[&family].birth {
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

    /// Whether the model cannot say if a lock on the key is free.
    fn perhaps_kept_out(&mut self, at: usize, family: u64, key: &[u8]) -> bool {
        let perhaps = self.model.kept_out(self.open[at].model.owner, family, key).is_none();
        if perhaps {
            self.count("vague gaps");
        }
        perhaps
    }

    fn asked(&mut self) -> Asked {
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

    /// What a transaction sees of a family at a sequence.
    fn sees(&self, at: usize, family: u64, seq: u64) -> BTreeMap<Key, Vec<u8>> {
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

    fn scan(&mut self, at: usize) {
        let Some((family, handle)) = self.family() else { return };
        let asked = self.asked();
        let seq = self.read_seq(at, asked.mode);
        let expected = if !self.live(family) {
            Err(Refusal::Dropped)
        } else if seq < self.model.families[&family].birth {
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

    /// Steps a cursor that stays open over writes, of its own transaction and of others, both ways.
    fn step(&mut self, at: usize) {
        if self.open[at].cursor.is_none() {
            let Some((family, handle)) = self.family() else { return };
            let mut asked = self.asked();
            (asked.prefix, asked.bound, asked.mode) = (0, None, ReadMode::Snapshot);
            let txn = &self.open[at].model;
            let would = match txn.isolation {
                Isolation::ReadCommitted => txn.statement,
                _ => txn.snapshot,
            };
            let unborn = |seq: u64| seq < self.model.families[&family].birth;
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
        let next = match forward {
            true => sees.range((std::ops::Bound::Excluded(here.clone()), std::ops::Bound::Unbounded)).next(),
            false => sees.range(..here.clone()).next_back(),
        };
        let expected = next.map(|(key, value)| (key.clone(), value.clone()));
        let open = &mut self.open[at];
        let changes = open.txn.change_counter().load(std::sync::atomic::Ordering::Relaxed);
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

    fn end(&mut self, at: usize, commit: bool) {
        let mut open = self.open.swap_remove(at);
        open.cursor = None;
        if commit {
            open.txn.commit().expect("commits");
            self.model.commit(&open.model.own);
            self.count("commits");
        } else {
            open.txn.rollback().expect("rolls back");
            self.count("rollbacks");
        }
        self.model.unlock_all(open.model.owner);
    }

    fn prepare(&mut self, at: usize) {
        let xid = format!("x{}-{}", self.seed, self.rng.next()).into_bytes();
        let two_phase = self.rng.one_in(2);
        self.trace(|| format!("prepare {:?} {two_phase}", String::from_utf8_lossy(&xid)));
        let open = &mut self.open[at];
        open.cursor = None;
        open.txn.prepare(two_phase.then_some(&xid)).expect("prepares");
        open.model.prepared = Some(if two_phase { xid } else { Vec::new() });
        self.count("prepares");
    }

    fn decide(&mut self, at: usize) {
        let writer = self.open.iter().position(|o| o.model.prepared.is_none() && !o.model.own.is_empty());
        if let Some(writer) = writer.filter(|_| !self.open[at].model.ordered && self.rng.one_in(2)) {
            let open = &mut self.open[at];
            open.txn.order();
            // It is in the commit order, whatever comes, and visible as soon as a later commit is.
            let own = open.model.own.clone();
            open.model.ordered = true;
            self.model.commit(&own);
            self.end(writer, true);
            self.count("overtaken");
            return;
        }
        let mut open = self.open.swap_remove(at);
        if open.model.ordered || self.rng.one_in(2) {
            let checkpoint = self.rng.one_in(2);
            open.txn.finish(checkpoint).expect("finishes");
            if checkpoint {
                // The marker's sync was left to the checkpoint request, which comes now.
                self.db().flush_log().expect("syncs");
            }
            if !open.model.ordered {
                self.model.commit(&open.model.own);
            }
        } else {
            open.txn.rollback().expect("rolls back");
        }
        self.model.unlock_all(open.model.owner);
    }

    fn ddl(&mut self) {
        let (name, other) = (self.name(), self.name());
        let options = self.rng.pick(&self.family_options.clone()).clone();
        let mut ddl = self.db().ddl().expect("begins");
        let (has, has_other) = (self.model.names.contains_key(&name), self.model.names.contains_key(&other));
        let what = if self.model.names.len() < 2 { 0 } else { self.rng.below(8) };
        match what {
            0 | 1 => {
                let done = ddl.create(&name, options, b"made");
                assert_eq!(done.is_err(), has, "create {name:?}: {done:?}");
                if done.is_ok() && !self.rng.one_in(8) {
                    ddl.commit().expect("commits");
                    self.model.create(&name);
                    self.count("creates");
                }
            }
            2 => {
                let done = ddl.drop_family(&name);
                assert_eq!(done.is_ok(), has, "drop {name:?}: {done:?}");
                if has {
                    ddl.commit().expect("commits");
                    self.model.seq += 1;
                    if let Some(id) = self.model.names.remove(&name) {
                        self.model.families.remove(&id);
                        self.model.locks.retain(|(family, _), _| *family != id);
                        self.model.gaps.retain(|gap| gap.family != id);
                    }
                    self.count("drops");
                }
            }
            3 | 4 => {
                let done = ddl.rename(&name, &other);
                assert_eq!(done.is_ok(), has && !has_other, "rename {name:?} to {other:?}: {done:?}");
                if done.is_ok() {
                    ddl.commit().expect("commits");
                    self.model.seq += 1;
                    if let Some(id) = self.model.names.remove(&name) {
                        self.model.names.insert(other, id);
                    }
                    self.count("renames");
                }
            }
            5 => {
                let done = ddl.truncate(&name);
                assert_eq!(done.is_ok(), has, "truncate {name:?}: {done:?}");
                if has {
                    ddl.commit().expect("commits");
                    if let Some(id) = self.model.names.remove(&name) {
                        self.model.families.remove(&id);
                        self.model.locks.retain(|(family, _), _| *family != id);
                        self.model.gaps.retain(|gap| gap.family != id);
                    }
                    self.model.create(&name);
                    self.count("truncates");
                }
            }
            6 => {
                if has && has_other && name != other {
                    // The exchange of two names, as ALTER by COPY makes it.
                    ddl.rename(&name, b"between").expect("renames");
                    ddl.rename(&other, &name).expect("renames");
                    ddl.rename(b"between", &other).expect("renames");
                    ddl.commit().expect("commits");
                    self.model.seq += 1;
                    let (a, b) = (self.model.names[&name], self.model.names[&other]);
                    self.model.names.insert(name, b);
                    self.model.names.insert(other, a);
                    self.count("exchanges");
                }
            }
            _ => {
                if has {
                    let options = self.rng.pick(&self.family_options.clone()).clone();
                    ddl.set_options(&name, options).expect("sets");
                    ddl.commit().expect("commits");
                    self.model.seq += 1;
                    self.count("alters");
                }
            }
        }
        self.refresh_handles();
    }

    fn refresh_handles(&mut self) {
        let names: BTreeSet<Vec<u8>> = self.db().family_names(b"").iter().map(|n| n.to_vec()).collect();
        assert_eq!(names, self.model.names.keys().cloned().collect(), "names of families");
        for (name, id) in self.model.names.clone() {
            let handle = self.db().family(&name).expect("there");
            if let Some(known) = self.handles.get(&id) {
                assert!(Arc::ptr_eq(known, &handle), "one object for a family");
            }
            self.handles.insert(id, handle);
        }
    }

    fn counter(&mut self) {
        let Some((family, handle)) = self.family() else { return };
        let counter = self.rng.below(2) as u32;
        if !self.live(family) {
            let taken = self.db().counter_take(&handle, counter, 1, 1, 1, u64::MAX);
            assert!(matches!(taken, Err(Error::NoSuchFamily(_))), "a counter of a dropped family: {taken:?}");
            return;
        }
        let highest = self.model.families[&family].counters.get(&counter).copied().unwrap_or(0);
        let now = match self.rng.below(4) {
            0 => {
                let to = highest.saturating_sub(2) + self.rng.below(300);
                self.db().counter_raise(&handle, counter, to).expect("raises");
                highest.max(to)
            }
            1 => {
                let next = self.db().counter_peek(&handle, counter).expect("peeks");
                assert!(next > highest, "the next value {next} is not above {highest}");
                highest
            }
            _ => {
                let (count, increment) = (1 + self.rng.below(90), 1 + self.rng.below(3));
                let offset = self.rng.below(increment);
                let first = self
                    .db()
                    .counter_take(&handle, counter, count, offset, increment, u64::MAX)
                    .expect("takes");
                assert!(first > highest, "{first} was handed out before ({highest})");
                assert_eq!(first % increment, offset, "offset");
                first + (count - 1) * increment
            }
        };
        self.model.families.get_mut(&family).expect("live").counters.insert(counter, now);
        self.count("counters");
    }

    /// Restarts the store; transactions that are open are gone, prepared ones wait for their decision.
    fn restart(&mut self) {
        let clean = self.rng.one_in(2);
        let mode = *self.rng.pick(&self.crash_ok.clone());
        let crashed = self.disk.crash(mode);
        if !clean {
            self.disk.crash_at(0);
        }
        for open in std::mem::take(&mut self.open) {
            let Open { mut txn, model, cursor } = open;
            drop(cursor);
            match (clean, &model.prepared) {
                // A clean end decides what it can.
                (true, Some(_)) if model.ordered || self.rng.one_in(2) => {
                    txn.finish(false).expect("finishes");
                    if !model.ordered {
                        self.model.commit(&model.own);
                    }
                    self.model.unlock_all(model.owner);
                }
                (true, _) => {
                    txn.rollback().expect("rolls back");
                    self.model.unlock_all(model.owner);
                }
                // Ordered without a finish: its marker may be in the log's queue only.
                (false, Some(_)) if model.ordered => unreachable!("ordered ones are finished before a crash"),
                (false, Some(xid)) if !xid.is_empty() && !model.own.is_empty() => {
                    // Of its locks those on written keys come back.
                    self.model.unlock_all(model.owner);
                    for (family, key) in model.own.keys() {
                        self.model.lock(model.owner, *family, key, true).expect("nobody else has it");
                    }
                    self.model.undecided.insert(xid.clone(), (model.own, model.owner));
                }
                (false, _) => self.model.unlock_all(model.owner),
            }
        }
        self.trace(|| format!("restart, clean {clean}, {mode:?}"));
        let db = self.db.take().expect("open");
        self.handles.clear();
        if clean {
            db.close().expect("closes");
            self.count("clean restarts");
        } else {
            drop(db);
            self.disk = crashed;
            self.count("crashes");
        }
        self.db = Some(
            open(&self.disk, &self.options)
                .unwrap_or_else(|e| panic!("opens after {mode:?}, clean {clean}: {e}")),
        );
        // Handles of families that were dropped are gone with the store.
        let mut undecided = self.db().prepared();
        undecided.sort();
        assert_eq!(undecided, self.model.undecided.keys().cloned().collect::<Vec<_>>(), "undecided");
        self.refresh_handles();
        self.compare();
    }

    fn decide_recovered(&mut self) {
        let Some(xid) = self.model.undecided.keys().next().cloned() else { return };
        let Some((own, owner)) = self.model.undecided.remove(&xid) else { return };
        let commit = self.rng.one_in(2);
        self.trace(|| format!("decide {:?}: {commit}", String::from_utf8_lossy(&xid)));
        let known = match commit {
            true => self.db().commit_by_xid(&xid),
            false => self.db().rollback_by_xid(&xid),
        };
        assert!(known.expect("decides"), "the transaction is known");
        if commit {
            self.model.commit(&own);
        }
        self.model.unlock_all(owner);
        self.count("decided after a restart");
    }

    /// The whole committed content.
    fn compare(&mut self) {
        for (name, id) in self.model.names.clone() {
            let family = self.db().family(&name).expect("there");
            let known = &self.model.families[&id];
            let expected: Vec<Row> = known
                .keys
                .keys()
                .filter_map(|key| Some((key.clone(), known.at(key, u64::MAX)?.1.clone()?)))
                .collect();
            assert_eq!(sim::rows(self.db(), &family).expect("reads"), expected, "family {name:?}");
            for (counter, highest) in &known.counters {
                let next = self.db().counter_peek(&family, *counter).expect("peeks");
                assert!(next > *highest, "counter {counter} would hand out {next}, and {highest} was");
            }
        }
    }

    fn run(&mut self, steps: u64) {
        for step in 0..steps {
            let choice = self.rng.below(100);
            self.trace(|| format!("step {step}: {choice}, {} open, seq {}", self.open.len(), self.model.seq));
            if self.open.len() < 4 && (self.open.is_empty() || choice < 8) {
                self.begin();
            }
            let at = self.rng.below(self.open.len() as u64) as usize;
            if self.open[at].model.prepared.is_some() {
                if self.rng.one_in(3) || self.open[at].model.ordered {
                    self.decide(at);
                }
                continue;
            }
            match choice {
                0..=44 => self.write(at),
                45..=54 => self.get(at),
                55..=60 => self.scan(at),
                61..=70 => self.step(at),
                71..=73 => self.statement(at),
                74..=75 => {
                    let open = &mut self.open[at];
                    open.cursor = None;
                    open.txn.statement_rollback();
                    open.model.own = open.model.mark.clone();
                    open.model.statement = None;
                }
                76..=84 => self.end(at, true),
                85..=86 => self.end(at, false),
                87..=88 => self.prepare(at),
                89..=91 => self.ddl(),
                92..=93 => self.counter(),
                94 => self.db().flush().expect("flushes"),
                95 => {
                    if let Some((family, handle)) = self.family() {
                        if self.live(family) {
                            self.db().compact(&handle).expect("compacts");
                            self.db().verify(&handle).expect("verifies");
                        }
                    }
                }
                96 => self.decide_recovered(),
                97..=98 if !self.model.undecided.is_empty() && self.rng.one_in(2) => self.decide_recovered(),
                97 if !self.open.iter().any(|open| open.model.ordered) => {
                    if self.rng.one_in(2) {
                        self.restart();
                    }
                }
                _ => self.compare(),
            }
        }
        while !self.open.is_empty() {
            if self.open[0].model.prepared.is_some() {
                self.decide(0);
            } else {
                self.end(0, true);
            }
        }
        while !self.model.undecided.is_empty() {
            self.decide_recovered();
        }
        self.compare();
    }
}

fn row(cursor: &Cursor, at: usize) -> Row {
    let (key, value) = cursor.row(at);
    (key.to_vec(), value.to_vec())
}

/// The rows that a scan finds among `rows`.
fn scanned(rows: &BTreeMap<Key, Vec<u8>>, asked: &Asked) -> Vec<Row> {
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

fn programs(tiny: bool, count: u64, steps: u64) {
    let seeds: Vec<u64> = match std::env::var("MODEL_SEED") {
        Ok(seed) => vec![seed.parse().expect("a number")],
        Err(_) => (1..=count).collect(),
    };
    let mut totals: BTreeMap<&'static str, u64> = BTreeMap::new();
    for seed in &seeds {
        let mut world = World::new(*seed * 2 + u64::from(tiny), tiny);
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| world.run(steps)));
        if let Err(panic) = result {
            println!("MODEL_SEED={seed} (tiny: {tiny}) reproduces it");
            std::mem::forget(world);
            std::panic::resume_unwind(panic);
        }
        for (what, n) in &world.counts {
            *totals.entry(what).or_default() += n;
        }
    }
    println!("{} programs: {totals:?}", seeds.len());
    if seeds.len() >= 20 {
        for what in [
            "writes",
            "conflicts",
            "duplicates",
            "lock timeouts",
            "dropped",
            "gets",
            "scans",
            "cursor steps",
            "commits",
            "prepares",
            "creates",
            "drops",
            "renames",
            "truncates",
            "exchanges",
            "counters",
            "crashes",
            "clean restarts",
            "decided after a restart",
        ] {
            assert!(totals.contains_key(what), "{what} never happened: {totals:?}");
        }
    }
}

#[test]
fn random_programs_agree_with_the_model_with_tiny_constants() {
    programs(true, env("MODEL_PROGRAMS", 40), env("MODEL_STEPS", 800));
}

#[test]
fn random_programs_agree_with_the_model_with_normal_constants() {
    programs(false, env("MODEL_PROGRAMS", 30), env("MODEL_STEPS", 800));
}
