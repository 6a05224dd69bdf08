//! Single deletes: random programs of INSERT, UPDATE, REPLACE and DELETE as the SQL engine writes them,
//! against a model. Rollbacks, savepoints, spilled and prepared transactions, expiries, unlocked loads, open
//! snapshots, crashes, backups, flushes and merges come in between. No deleted row comes back, in no view;
//! and pairs do cancel.
//!
//! `SINGLE_DELETE_SEED` repeats one program, `SINGLE_DELETE_SEEDS` runs more of them.

mod sim;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sim::{begin, begin_as, open, rows, scan, seeds, tiny, tiny_family, Asked, Rng};
use tidesdb::internal::backup::{restore, BackupOptions, Watch};
use tidesdb::internal::db::Db;
use tidesdb::internal::io::faulty::Crash;
use tidesdb::internal::io::FaultyDisk;
use tidesdb::internal::store::family::Family;
use tidesdb::internal::txn::transaction::{Change, ChangeKind, ReadMode, SavepointId, Transaction};
use tidesdb::{Error, Isolation, Options, SyncMode, TransactionOptions};

/// Value and second of expiry (0: never) by key.
type Map = BTreeMap<Vec<u8>, (Vec<u8>, u64)>;
type Rows = Vec<(Vec<u8>, Vec<u8>)>;

const KEYS: u64 = 60;

fn options(threads: usize) -> Options {
    Options { compaction_threads: threads, ..tiny(SyncMode::Full) }
}

fn now(disk: &FaultyDisk) -> u64 {
    disk.unix_seconds()
}

fn visible(map: &Map, second: u64) -> Rows {
    let live = |expiry: u64| expiry == 0 || expiry > second;
    map.iter().filter(|(_, row)| live(row.1)).map(|(key, row)| (key.clone(), row.0.clone())).collect()
}

fn write(
    txn: &mut Transaction,
    family: &Arc<Family>,
    key: &[u8],
    kind: ChangeKind<'_>,
    count_unchanged: bool,
    expiry: u64,
) -> Result<(), Error> {
    txn.write(&[Change { family, key, kind, lock: true, count_unchanged, expiry }])
        .map_err(|(_, error)| error)
}

struct World {
    disk: FaultyDisk,
    options: Options,
    db: Db,
    family: Arc<Family>,
    rng: Rng,
    map: Map,
    /// Transactions with a snapshot, and their view.
    readers: Vec<(Transaction, Rows)>,
    /// Pairs cancelled in earlier lives.
    cancelled: u64,
    backups: u64,
}

impl World {
    fn key(&mut self) -> Vec<u8> {
        format!("k{:03}", self.rng.below(KEYS)).into_bytes()
    }

    fn value(&mut self) -> Vec<u8> {
        let len = self.rng.below(90) as usize;
        (0..len).map(|_| self.rng.next() as u8).collect()
    }

    fn lives(&self, own: &Map, key: &[u8]) -> bool {
        own.get(key).is_some_and(|row| row.1 == 0 || row.1 > now(&self.disk))
    }

    /// One statement's change of a row.
    fn change(&mut self, txn: &mut Transaction, own: &mut Map) {
        let (key, value) = (self.key(), self.value());
        let lives = self.lives(own, &key);
        let expiry = if self.rng.one_in(12) { now(&self.disk) + self.rng.below(6) } else { 0 };
        let family = self.family.clone();
        match self.rng.below(10) {
            0..=3 => match write(txn, &family, &key, ChangeKind::Insert(&value), false, expiry) {
                Ok(()) => {
                    assert!(!lives, "{} was inserted over a row", key.escape_ascii());
                    own.insert(key, (value, expiry));
                }
                Err(Error::Duplicate) => assert!(lives, "{} does not exist", key.escape_ascii()),
                Err(error) => panic!("insert: {error}"),
            },
            // UPDATE: of a row that is there.
            4 if lives => {
                write(txn, &family, &key, ChangeKind::Put(&value), true, expiry).expect("updates");
                own.insert(key, (value, expiry));
            }
            // REPLACE: the row goes and a new one comes.
            5 => {
                if lives {
                    write(txn, &family, &key, ChangeKind::SingleDelete, false, 0).expect("deletes");
                }
                write(txn, &family, &key, ChangeKind::Insert(&value), false, expiry).expect("inserts");
                own.insert(key, (value, expiry));
            }
            // INSERT without a check (skip_unique_check), as of a new row.
            6 if self.rng.one_in(2) => {
                write(txn, &family, &key, ChangeKind::Put(&value), lives, expiry).expect("puts");
                own.insert(key, (value, expiry));
            }
            _ if lives || self.rng.one_in(4) => {
                match self.rng.one_in(6) {
                    true => txn.delete(&family, &key).expect("deletes"),
                    false => txn.single_delete(&family, &key).expect("deletes"),
                }
                own.remove(&key);
            }
            _ => {}
        }
    }

    /// A transaction of statements and savepoints, some undone, ended in one of the ways.
    fn transaction(&mut self) {
        let isolation = *self.rng.pick(&[Isolation::ReadCommitted, Isolation::RepeatableRead]);
        let optimistic = self.rng.one_in(4);
        let mut txn =
            begin_as(&self.db, TransactionOptions { isolation, optimistic, ..TransactionOptions::default() });
        let mut own = self.map.clone();
        let mut savepoints: Vec<(SavepointId, Map)> = Vec::new();
        for _ in 0..1 + self.rng.below(4) {
            txn.statement_begin(true, Duration::from_secs(20)).expect("begins");
            let before = own.clone();
            // Beyond four kilobytes a transaction spills.
            let changes = if self.rng.one_in(12) { 150 } else { self.rng.below(6) };
            for _ in 0..changes {
                self.change(&mut txn, &mut own);
            }
            match self.rng.below(8) {
                0 => {
                    txn.statement_rollback();
                    own = before;
                }
                1 if !savepoints.is_empty() => {
                    let at = self.rng.below(savepoints.len() as u64) as usize;
                    let (id, then) = savepoints[at].clone();
                    txn.savepoint_rollback(id).expect("there");
                    savepoints.truncate(at + 1);
                    own = then;
                }
                2..=3 => savepoints.push((txn.savepoint_set().expect("sets"), own.clone())),
                _ => txn.statement_end(),
            }
        }
        match self.rng.below(8) {
            0 => txn.rollback().expect("rolls back"),
            1 if txn.has_writes() => {
                txn.prepare_xa(b"xid").expect("prepares");
                drop(txn);
                if self.rng.one_in(2) {
                    self.restart();
                }
                match self.rng.one_in(4) {
                    true => assert!(self.db.rollback_by_xid(b"xid").expect("rolls back")),
                    false => {
                        assert!(self.db.commit_by_xid(b"xid").expect("commits"));
                        self.map = own;
                    }
                }
            }
            _ => {
                txn.commit().expect("commits");
                self.map = own;
            }
        }
    }

    /// Rows as a bulk load writes them: without a lock and without a check.
    fn load(&mut self) {
        let mut txn =
            begin_as(&self.db, TransactionOptions { unlocked: true, ..TransactionOptions::default() });
        for _ in 0..self.rng.below(10) {
            let (key, value) = (self.key(), self.value());
            let lives = self.lives(&self.map, &key);
            let family = self.family.clone();
            match self.rng.below(3) {
                0 => {
                    write(&mut txn, &family, &key, ChangeKind::SingleDelete, !lives, 0).expect("deletes");
                    self.map.remove(&key);
                }
                1 if !lives => {
                    write(&mut txn, &family, &key, ChangeKind::Insert(&value), false, 0).expect("inserts");
                    self.map.insert(key, (value, 0));
                }
                _ => {
                    write(&mut txn, &family, &key, ChangeKind::Put(&value), lives, 0).expect("puts");
                    self.map.insert(key, (value, 0));
                }
            }
        }
        txn.commit().expect("commits");
        self.db.flush_log().expect("syncs");
    }

    fn check(&mut self) {
        let expected = visible(&self.map, now(&self.disk));
        assert_eq!(rows(&self.db, &self.family).expect("reads"), expected, "what is committed");
        let mut txn = begin(&self.db);
        for n in 0..KEYS {
            let key = format!("k{n:03}").into_bytes();
            let found = txn.get(&self.family, &key, ReadMode::Latest).expect("reads");
            let right = expected.iter().find(|row| row.0 == key).map(|row| row.1.clone());
            assert_eq!(found, right, "{}", key.escape_ascii());
        }
        txn.rollback().expect("ends");
        // A replica's applier sees rows that have expired, as long as they are there, and none that was deleted.
        let mut txn =
            begin_as(&self.db, TransactionOptions { sees_expired: true, ..TransactionOptions::default() });
        let seen = scan(&self.db, &mut txn, &self.family, &Asked::all(true)).expect("scans");
        for (key, value) in seen {
            assert_eq!(self.map.get(&key).map(|row| &row.0), Some(&value), "{}", key.escape_ascii());
        }
        txn.rollback().expect("ends");
        for (reader, seen) in &mut self.readers {
            let now = scan(&self.db, reader, &self.family, &Asked::all(true)).expect("scans");
            assert_eq!(now, *seen, "a snapshot has changed");
        }
    }

    /// A write over something newer than the snapshot is a conflict, for a row and for a missing one.
    fn check_conflict(&mut self) {
        let key = self.key();
        let mut old = begin(&self.db);
        old.take_snapshot().expect("takes");
        let lives = self.lives(&self.map, &key);
        let mut txn = begin(&self.db);
        if !lives {
            write(&mut txn, &self.family, &key, ChangeKind::Insert(b"new"), false, 0).expect("inserts");
            txn.commit().expect("commits");
            txn.begin(TransactionOptions::default()).expect("begins");
        }
        txn.single_delete(&self.family, &key).expect("deletes");
        txn.commit().expect("commits");
        self.map.remove(&key);
        self.db.compact(&self.family).expect("merges");
        let again = write(&mut old, &self.family, &key, ChangeKind::Insert(b"x"), false, 0);
        assert!(matches!(again, Err(Error::Conflict)), "{again:?}");
        old.rollback().expect("ends");
    }

    fn restart(&mut self) {
        self.readers.clear();
        self.cancelled += self.db.stats().cancelled_pairs;
        let disk = self.disk.crash(*self.rng.pick(&Crash::ALL));
        let db = open(&disk, &self.options).expect("opens");
        self.family = db.family(b"t").expect("there");
        drop(std::mem::replace(&mut self.db, db));
        self.disk = disk;
    }

    /// A backup holds the same rows.
    fn back_up(&mut self) {
        self.backups += 1;
        let (to, dir) = (format!("/backup{}", self.backups), format!("/restored{}", self.backups));
        let (to, dir) = (Path::new(&to), Path::new(&dir));
        let expected = visible(&self.map, now(&self.disk));
        self.db.backup(to, BackupOptions::default(), Watch::NONE).expect("backs up");
        let disk = self.disk.shared();
        restore(&disk, to, dir, None, Watch::NONE).expect("restores");
        let copy = Db::open_on(disk, dir, self.options.clone(), None).expect("opens");
        let family = copy.family(b"t").expect("there");
        assert_eq!(rows(&copy, &family).expect("reads"), expected, "the backup");
        copy.compact(&family).expect("merges");
        assert_eq!(rows(&copy, &family).expect("reads"), expected, "the backup, merged");
        copy.close().expect("closes");
    }

    fn run(&mut self, steps: u64) {
        for _ in 0..steps {
            match self.rng.below(40) {
                0 => self.restart(),
                1..=5 => self.db.flush().expect("flushes"),
                6..=7 => self.db.compact(&self.family).expect("merges"),
                8 => self.load(),
                9..=10 => self.disk.advance_clock(1_000_000),
                11 => self.check_conflict(),
                12..=14 => {
                    let mut txn = begin(&self.db);
                    txn.take_snapshot().expect("takes");
                    let seen = scan(&self.db, &mut txn, &self.family, &Asked::all(true)).expect("scans");
                    self.readers.push((txn, seen));
                }
                15..=17 if !self.readers.is_empty() => {
                    let at = self.rng.below(self.readers.len() as u64) as usize;
                    self.readers.swap_remove(at);
                }
                18..=20 => self.check(),
                21 if self.backups < 2 => self.back_up(),
                _ => self.transaction(),
            }
        }
        self.readers.clear();
        self.check();
        self.db.compact(&self.family).expect("merges");
        self.check();
        self.cancelled += self.db.stats().cancelled_pairs;
    }
}

#[test]
fn no_row_comes_back_and_pairs_cancel() {
    let mut cancelled = 0;
    for seed in seeds("SINGLE_DELETE", 40) {
        println!("SINGLE_DELETE_SEED={seed}");
        let (disk, options) = (FaultyDisk::new(seed), options(seed as usize % 2));
        let db = open(&disk, &options).expect("opens");
        let family = db.create_family(b"t", tiny_family()).expect("creates");
        let mut world = World {
            disk,
            options,
            db,
            family,
            rng: Rng(seed),
            map: Map::new(),
            readers: Vec::new(),
            cancelled: 0,
            backups: 0,
        };
        world.run(300);
        cancelled += world.cancelled;
        world.db.close().expect("closes");
    }
    assert!(cancelled > 0, "no pair cancelled");
    println!("{cancelled} pairs cancelled");
}

/// Entries and tombstones of the family's files.
fn in_files(db: &Db) -> (u64, u64) {
    db.tables().iter().filter(|s| s.family != 0).fold((0, 0), |(e, t), s| (e + s.entries, t + s.tombstones))
}

/// A store without background merges, whose family `t` has one old row in its last level: `below` is never
/// empty.
fn with_a_bottom() -> (FaultyDisk, Db, Arc<Family>) {
    let disk = FaultyDisk::new(1);
    let options = Options { write_buffer_size: 1 << 20, ..options(0) };
    let db = open(&disk, &options).expect("opens");
    let family = db.create_family(b"t", tiny_family()).expect("creates");
    for key in [b"a", b"z"] {
        let mut txn = begin(&db);
        txn.put(&family, key, b"old").expect("puts");
        txn.commit().expect("commits");
    }
    db.compact(&family).expect("merges");
    (disk, db, family)
}

fn commit(db: &Db, change: impl FnOnce(&mut Transaction)) {
    let mut txn = begin(db);
    change(&mut txn);
    txn.commit().expect("commits");
}

#[test]
fn of_rows_that_came_and_went_within_a_memtable_nothing_is_written() {
    let (_disk, db, family) = with_a_bottom();
    for single in [false, true] {
        for n in 0..100u32 {
            commit(&db, |txn| txn.insert(&family, &[b"m", &n.to_be_bytes()[..]].concat(), b"row").unwrap());
        }
        for n in 0..100u32 {
            let key = [b"m", &n.to_be_bytes()[..]].concat();
            commit(&db, |txn| match single {
                true => txn.single_delete(&family, &key).unwrap(),
                false => txn.delete(&family, &key).unwrap(),
            });
        }
        if !single {
            db.flush().expect("flushes");
            assert_eq!(in_files(&db), (102, 100), "plain deletions go down to the last level");
            db.compact(&family).expect("merges");
        }
    }
    db.flush().expect("flushes");
    assert_eq!(in_files(&db), (2, 0));
    assert_eq!(db.stats().cancelled_pairs, 100);
    assert!(db.report().contains("single deletes merged away with their put: 100\n"), "{}", db.report());
    db.close().expect("closes");
}

/// The kind of deletion written, seen by the entries left after a flush.
#[test]
fn a_deletion_is_single_only_where_one_put_is_proven() {
    type Program = fn(&Db, &Arc<Family>);
    let single = |db: &Db, family: &Arc<Family>| commit(db, |txn| txn.single_delete(family, b"k").unwrap());
    let insert = |db: &Db, family: &Arc<Family>| commit(db, |txn| txn.insert(family, b"k", b"1").unwrap());
    // Name, what comes before the single delete, whether it cancels.
    let cases: [(&str, Program, u64); 9] = [
        ("INSERT", |_, _| {}, 1),
        ("INSERT, UPDATE", |db, f| commit(db, |txn| txn.update(f, b"k", b"2").unwrap()), 0),
        (
            "INSERT, DELETE, INSERT",
            |db, f| {
                commit(db, |txn| txn.delete(f, b"k").unwrap());
                commit(db, |txn| txn.insert(f, b"k", b"2").unwrap());
            },
            1,
        ),
        (
            "INSERT, REPLACE",
            |db, f| {
                commit(db, |txn| {
                    txn.single_delete(f, b"k").unwrap();
                    txn.insert(f, b"k", b"2").unwrap();
                });
            },
            0,
        ),
        (
            "INSERT, a deletion that is rolled back",
            |db, f| {
                let mut txn = begin(db);
                txn.single_delete(f, b"k").unwrap();
                txn.rollback().unwrap();
            },
            1,
        ),
        (
            "INSERT, a REPLACE undone by a savepoint",
            |db, f| {
                commit(db, |txn| {
                    let savepoint = txn.savepoint_set().unwrap();
                    txn.single_delete(f, b"k").unwrap();
                    txn.insert(f, b"k", b"2").unwrap();
                    txn.savepoint_rollback(savepoint).unwrap();
                });
            },
            1,
        ),
        ("INSERT, flush", |db, _| db.flush().unwrap(), 1),
        (
            "INSERT, flush, UPDATE",
            |db, f| {
                db.flush().unwrap();
                commit(db, |txn| txn.update(f, b"k", b"2").unwrap());
            },
            0,
        ),
        (
            "INSERT, DELETE, INSERT, flush: the deletion went",
            |db, f| {
                commit(db, |txn| txn.single_delete(f, b"k").unwrap());
                commit(db, |txn| txn.insert(f, b"k", b"2").unwrap());
                db.flush().unwrap();
            },
            0,
        ),
    ];
    for (name, before, cancels) in cases {
        let (_disk, db, family) = with_a_bottom();
        insert(&db, &family);
        before(&db, &family);
        single(&db, &family);
        db.flush().expect("flushes");
        assert_eq!(db.stats().cancelled_pairs, cancels, "{name}");
        assert_eq!(rows(&db, &family).expect("reads").len(), 2, "{name}");
        db.compact(&family).expect("merges");
        assert_eq!(rows(&db, &family).expect("reads").len(), 2, "{name}, merged");
        assert_eq!(in_files(&db), (2, 0), "{name}");
        db.close().expect("closes");
    }
}

/// The put left by a deletion in the last level, if the deletion and an insertion over it cancel.
#[test]
fn an_insertion_over_an_expired_row_is_one_over_a_row() {
    let (disk, db, family) = with_a_bottom();
    let soon = now(&disk) + 5;
    commit(&db, |txn| txn.put_expiring(&family, b"k", b"expires", soon).unwrap());
    db.compact(&family).expect("merges");
    disk.advance_clock(10_000_000);
    commit(&db, |txn| txn.insert(&family, b"k", b"1").unwrap());
    commit(&db, |txn| txn.single_delete(&family, b"k").unwrap());
    db.flush().expect("flushes");
    assert_eq!(db.stats().cancelled_pairs, 0);
    let mut applier =
        begin_as(&db, TransactionOptions { sees_expired: true, ..TransactionOptions::default() });
    assert_eq!(applier.get(&family, b"k", ReadMode::Latest).expect("reads"), None);
    applier.rollback().expect("ends");
    db.close().expect("closes");
}

#[test]
fn an_insertion_without_a_lock_proves_nothing() {
    let (_disk, db, family) = with_a_bottom();
    let mut load = begin_as(&db, TransactionOptions { unlocked: true, ..TransactionOptions::default() });
    load.insert(&family, b"k", b"2").expect("inserts");
    commit(&db, |txn| txn.insert(&family, b"k", b"1").unwrap());
    load.commit().expect("commits");
    commit(&db, |txn| txn.single_delete(&family, b"k").unwrap());
    db.flush().expect("flushes");
    assert_eq!(db.stats().cancelled_pairs, 0);
    assert_eq!(rows(&db, &family).expect("reads").len(), 2);
    db.close().expect("closes");
}

/// A put locked only by `prepare` may come over an insertion made and committed since.
#[test]
fn a_put_that_is_locked_late_is_marked() {
    let (_disk, db, family) = with_a_bottom();
    let mut late = begin(&db);
    let put = Change {
        family: &family,
        key: b"k",
        kind: ChangeKind::Put(b"2"),
        lock: false,
        count_unchanged: false,
        expiry: 0,
    };
    late.write(&[put]).expect("puts");
    commit(&db, |txn| txn.insert(&family, b"k", b"1").unwrap());
    late.commit().expect("commits");
    commit(&db, |txn| txn.single_delete(&family, b"k").unwrap());
    db.flush().expect("flushes");
    assert_eq!(db.stats().cancelled_pairs, 0);
    assert_eq!(rows(&db, &family).expect("reads").len(), 2);
    db.close().expect("closes");
}

#[test]
fn a_snapshot_between_put_and_deletion_keeps_both() {
    let (_disk, db, family) = with_a_bottom();
    commit(&db, |txn| txn.insert(&family, b"k", b"1").unwrap());
    let mut reader = begin(&db);
    reader.take_snapshot().expect("takes");
    commit(&db, |txn| txn.single_delete(&family, b"k").unwrap());
    db.flush().expect("flushes");
    assert_eq!((in_files(&db), db.stats().cancelled_pairs), ((4, 1), 0));
    assert_eq!(reader.get(&family, b"k", ReadMode::Snapshot).expect("reads").as_deref(), Some(&b"1"[..]));
    reader.rollback().expect("ends");
    // The next flush takes the small run in.
    commit(&db, |txn| txn.put(&family, b"y", b"1").unwrap());
    db.flush().expect("flushes");
    assert_eq!((in_files(&db), db.stats().cancelled_pairs), ((3, 0), 1));
    db.close().expect("closes");
}

/// Threads change a few keys under locks while the background flushes and merges. Each locked read finds the
/// state left by the last commit of its key.
#[test]
fn under_its_lock_a_key_is_as_its_last_commit_left_it() {
    const KEYS: usize = 12;
    let disk = FaultyDisk::new(7);
    let db = open(&disk, &options(1)).expect("opens");
    let family = db.create_family(b"t", tiny_family()).expect("creates");
    // Written under the key's lock.
    let truth: [Mutex<Option<Vec<u8>>>; KEYS] = Default::default();
    let (writes, deletions) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let (db, family, truth, writes, deletions) = (&db, &family, &truth, &writes, &deletions);
            scope.spawn(move || {
                let mut rng = Rng(thread + 1);
                while writes.load(Relaxed) < 12_000 {
                    let at = rng.below(KEYS as u64) as usize;
                    let key = format!("k{at:02}").into_bytes();
                    let mode = TransactionOptions {
                        isolation: Isolation::ReadCommitted,
                        optimistic: rng.one_in(3),
                        ..TransactionOptions::default()
                    };
                    let mut txn = begin_as(db, mode);
                    txn.lock(family, &key).expect("locks");
                    let found = txn.get(family, &key, ReadMode::Exclusive).expect("reads");
                    assert_eq!(found, *truth[at].lock().expect("whole"), "k{at:02}");
                    let write = writes.fetch_add(1, Relaxed);
                    let value = [&write.to_be_bytes()[..], &[7; 60]].concat();
                    let next = match (&found, rng.below(4)) {
                        (None, _) => txn.insert(family, &key, &value).map(|()| Some(value)),
                        (Some(_), 0) => txn.update(family, &key, &value).map(|()| Some(value)),
                        (Some(_), 1) => {
                            let replaced = txn.single_delete(family, &key);
                            replaced.and_then(|()| txn.insert(family, &key, &value)).map(|()| Some(value))
                        }
                        (Some(_), _) => txn.single_delete(family, &key).map(|()| None),
                    };
                    let next = next.expect("writes");
                    if rng.one_in(8) {
                        txn.rollback().expect("rolls back");
                        continue;
                    }
                    deletions.fetch_add(u64::from(next.is_none()), Relaxed);
                    *truth[at].lock().expect("whole") = next;
                    txn.commit().expect("commits");
                }
            });
        }
        let (db, family, writes) = (&db, &family, &writes);
        scope.spawn(move || {
            while writes.load(Relaxed) < 12_000 {
                let mut reader = begin(db);
                reader.take_snapshot().expect("takes");
                let seen = scan(db, &mut reader, family, &Asked::all(true)).expect("scans");
                db.flush().expect("flushes");
                let again = scan(db, &mut reader, family, &Asked::all(true)).expect("scans");
                assert_eq!(again, seen, "a snapshot has changed");
                reader.rollback().expect("ends");
                db.compact(family).expect("merges");
            }
        });
    });
    let (deletions, cancelled) = (deletions.into_inner(), db.stats().cancelled_pairs);
    assert!(deletions > 1000 && cancelled > 100, "{cancelled} pairs cancelled of {deletions} deletions");
    db.compact(&family).expect("merges");
    let live = truth.iter().filter(|value| value.lock().expect("whole").is_some()).count();
    assert_eq!(rows(&db, &family).expect("reads").len(), live);
    assert_eq!(in_files(&db), (live as u64, 0));
    db.close().expect("closes");
}
