//! Keys that expire: random programs alongside a model with a clock. A row stands in two families, with the
//! same expiry, as a table's row and its index entry do. Flushes, merges, crashes, spilled and prepared
//! transactions come between. Every view sees both or neither, and no view sees a row go. The wall clock
//! jumps in some of them.
//!
//! `EXPIRY_SEED` repeats one program, `EXPIRY_SEEDS` runs more of them.

mod sim;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use sim::{begin, begin_as, env, open, rows, scan, seeds, tiny, tiny_family, Asked, Rng};
use tidesdb::internal::db::introspection::TableInfo;
use tidesdb::internal::db::Db;
use tidesdb::internal::io::faulty::Crash;
use tidesdb::internal::io::FaultyDisk;
use tidesdb::internal::store::family::Family;
use tidesdb::internal::txn::transaction::{Change, ChangeKind, ReadMode, Transaction};
use tidesdb::{Error, Isolation, LogSink, Options, SyncMode, TransactionOptions};

/// Value and expiry (0: never) by key.
type Map = BTreeMap<Vec<u8>, (Vec<u8>, u64)>;
type Seen = Vec<(Vec<u8>, Vec<u8>)>;

fn options(threads: usize) -> Options {
    Options { compaction_threads: threads, ..tiny(SyncMode::Full) }
}

fn make(disk: &FaultyDisk, options: &Options) -> (Db, Vec<Arc<Family>>) {
    let db = open(disk, options).expect("opens");
    let families = [&b"rows"[..], b"entries"]
        .map(|name| db.family(name).or_else(|_| db.create_family(name, tiny_family())).expect("a family"));
    (db, families.to_vec())
}

fn now(disk: &FaultyDisk) -> u64 {
    disk.unix_seconds()
}

fn forward(disk: &FaultyDisk, seconds: u64) {
    disk.advance_clock(seconds * 1_000_000);
}

fn visible(map: &Map, second: u64) -> Seen {
    let live = |expiry: u64| expiry == 0 || expiry > second;
    map.iter().filter(|(_, row)| live(row.1)).map(|(key, row)| (key.clone(), row.0.clone())).collect()
}

/// Entries in files, other than tombstones.
fn in_files(db: &Db, family: &Family) -> u64 {
    let of_it = |table: &TableInfo| table.family == family.id();
    db.tables().iter().filter(|s| of_it(s)).map(|s| s.entries - s.tombstones).sum()
}

fn put(txn: &mut Transaction, family: &Arc<Family>, key: &[u8], value: &[u8], expiry: u64) {
    txn.put_expiring(family, key, value, expiry).expect("puts");
}

fn all(db: &Db, txn: &mut Transaction, family: &Arc<Family>) -> Seen {
    scan(db, txn, family, &Asked::all(true)).expect("scans")
}

struct Reader {
    txn: Transaction,
    seen: Seen,
}

struct World {
    disk: FaultyDisk,
    options: Options,
    db: Db,
    families: Vec<Arc<Family>>,
    rng: Rng,
    map: Map,
    readers: Vec<Reader>,
    dropped: u64,
    /// The wall clock is set now and then.
    jumps: bool,
}

impl World {
    /// The second of a view begun now.
    fn second(&self) -> u64 {
        self.db.expiry_second()
    }

    /// Time passes, in steps shorter than the reserved part of the expiry clock.
    fn forward(&mut self, seconds: u64) {
        forward(&self.disk, seconds);
        self.maintain_clock();
    }

    fn maintain_clock(&mut self) {
        // Only a clock that somebody has read must not go back.
        self.second();
        self.db.maintain_expiry_clock().expect("reserves seconds");
    }

    fn set_wall_clock(&mut self) {
        let by = *self.rng.pick(&[-100_000, -1000, -100, -20, -2, 2, 20, 100, 1000]);
        self.disk.set_wall_clock(by);
        self.maintain_clock();
    }

    fn key(&mut self) -> Vec<u8> {
        format!("k{:03}", self.rng.below(120)).into_bytes()
    }

    /// Random changes of a transaction, made to both families and to a copy of the map.
    fn change(&mut self, txn: &mut Transaction, changes: u64) -> Map {
        let mut map = self.map.clone();
        for _ in 0..changes {
            let key = self.key();
            if self.rng.one_in(6) {
                for family in &self.families {
                    txn.delete(family, &key).expect("deletes");
                }
                map.remove(&key);
                continue;
            }
            let expiry = if self.rng.one_in(4) { 0 } else { self.second() + self.rng.below(12) };
            let value = vec![b'a' + self.rng.below(26) as u8; 10 + self.rng.below(60) as usize];
            for family in &self.families {
                put(txn, family, &key, &value, expiry);
            }
            map.insert(key, (value, expiry));
        }
        map
    }

    fn transaction(&mut self) {
        let mut txn = begin(&self.db);
        let changes = if self.rng.one_in(8) { 200 } else { 1 + self.rng.below(8) };
        let map = self.change(&mut txn, changes);
        match self.rng.below(6) {
            0 => txn.rollback().expect("rolls back"),
            1 => {
                txn.prepare_xa(b"xid").expect("prepares");
                drop(txn);
                if self.rng.one_in(2) {
                    self.restart();
                }
                if self.rng.one_in(3) {
                    self.forward(3);
                }
                assert!(self.db.commit_by_xid(b"xid").expect("commits"));
                self.map = map;
            }
            _ => {
                txn.commit().expect("commits");
                self.map = map;
            }
        }
    }

    /// An insert of a new key: it is a duplicate exactly when the key lives.
    fn insert(&mut self) {
        let key = self.key();
        let expiry = self.second() + 5;
        let lives = self.map.get(&key).is_some_and(|row| row.1 == 0 || row.1 > self.second());
        let mut txn = begin(&self.db);
        for family in &self.families {
            let kind = ChangeKind::Insert(b"new");
            let done =
                txn.write(&[Change { family, key: &key, kind, lock: true, count_unchanged: false, expiry }]);
            match done {
                Ok(()) => assert!(!lives, "{} was inserted over a row", key.escape_ascii()),
                Err((_, Error::Duplicate)) => assert!(lives, "{} does not exist", key.escape_ascii()),
                Err((_, error)) => panic!("{error}"),
            }
        }
        txn.commit().expect("commits");
        if !lives {
            self.map.insert(key, (b"new".to_vec(), expiry));
        }
    }

    fn read(&mut self) {
        let second = self.second();
        let expected = visible(&self.map, second);
        let mode = *self.rng.pick(&[ReadMode::Snapshot, ReadMode::Latest, ReadMode::Shared]);
        let mut txn = begin(&self.db);
        for family in &self.families {
            let seen = scan(&self.db, &mut txn, family, &Asked { mode, ..Asked::all(true) }).expect("scans");
            assert_eq!(seen, expected, "at {second}, {mode:?}");
            let key = format!("k{:03}", self.rng.below(120)).into_bytes();
            let at = expected.iter().find(|row| row.0 == key).map(|row| row.1.clone());
            assert_eq!(txn.get(family, &key, mode).expect("reads"), at);
        }
        txn.rollback().expect("ends");
        for family in &self.families {
            assert_eq!(rows(&self.db, family).expect("reads"), expected);
        }
    }

    /// A reader whose view stands still from here on.
    fn open_reader(&mut self) {
        let mut txn = begin(&self.db);
        let seen = all(&self.db, &mut txn, &self.families[0]);
        assert_eq!(seen, visible(&self.map, self.second()));
        self.readers.push(Reader { txn, seen });
    }

    fn check_readers(&mut self) {
        for reader in &mut self.readers {
            for family in &self.families {
                assert_eq!(all(&self.db, &mut reader.txn, family), reader.seen, "a view has changed");
            }
        }
    }

    fn restart(&mut self) {
        self.check_readers();
        self.readers.clear();
        let (second, lag) = (self.second(), self.db.expiry_lag());
        let disk = self.disk.crash(*self.rng.pick(&Crash::ALL));
        let (db, families) = make(&disk, &self.options);
        drop(std::mem::replace(&mut self.db, db));
        (self.disk, self.families) = (disk, families);
        if self.db.has_expiring_keys() {
            let after = self.second();
            let back = if lag > 60 { 0 } else { lag };
            assert!(
                after + back >= second,
                "the clock goes back from {second} to {after}, the lag was {lag}"
            );
            let most = now(&self.disk).max(second + 64);
            assert!(after <= most, "the clock jumps from {second} to {after}");
        }
    }

    fn run(&mut self, steps: u64) {
        for _ in 0..steps {
            match self.rng.below(16) {
                0 => self.restart(),
                1 => self.db.flush().expect("flushes"),
                2 => {
                    let family = self.rng.pick(&self.families).clone();
                    self.db.flush().expect("flushes");
                    let before = in_files(&self.db, &family);
                    self.db.compact(&family).expect("compacts");
                    self.db.verify(&family).expect("verifies");
                    self.dropped += before.saturating_sub(in_files(&self.db, &family));
                }
                3 if self.jumps && self.rng.one_in(4) => self.set_wall_clock(),
                3..=5 => {
                    let seconds = 1 + self.rng.below(3);
                    self.forward(seconds);
                }
                6 if self.readers.len() < 3 => self.open_reader(),
                7 if !self.readers.is_empty() => {
                    self.check_readers();
                    let at = self.rng.below(self.readers.len() as u64) as usize;
                    self.readers.swap_remove(at);
                }
                8 => self.insert(),
                9 | 10 => self.read(),
                _ => self.transaction(),
            }
        }
        self.check_readers();
        self.readers.clear();
        self.read();
        self.restart();
        self.read();
    }
}

fn world(seed: u64) -> World {
    let disk = FaultyDisk::new(seed);
    let options = options((seed % 2) as usize);
    let (db, families) = make(&disk, &options);
    World {
        disk,
        options,
        db,
        families,
        rng: Rng(seed),
        map: Map::new(),
        readers: Vec::new(),
        dropped: 0,
        jumps: seed % 3 == 0,
    }
}

#[test]
fn random_programs_agree_with_the_model() {
    let mut dropped = 0;
    for seed in seeds("EXPIRY", 40) {
        println!("seed {seed}");
        let mut world = world(seed);
        world.run(60);
        dropped += world.dropped;
    }
    assert!(dropped > 0, "no merge gave anything back");
}

/// A crashing program's knowledge of its commits.
struct Crashing {
    answered: Map,
    /// The unanswered transaction.
    unanswered: Option<Map>,
}

impl Crashing {
    fn run(&mut self, disk: &FaultyDisk, seed: u64) -> Result<(), Error> {
        let mut rng = Rng(seed);
        let db = open(disk, &options(0))?;
        let families = [db.family(b"rows")?, db.family(b"entries")?];
        for step in 0..24u64 {
            match rng.below(6) {
                0 => forward(disk, 1 + rng.below(4)),
                1 => db.flush()?,
                2 => {
                    db.flush()?;
                    db.compact(&families[rng.below(2) as usize])?;
                }
                _ => {
                    let mut txn = db.transaction();
                    txn.begin(TransactionOptions::default())?;
                    let mut map = self.answered.clone();
                    for _ in 0..1 + rng.below(12) {
                        let key = format!("k{:02}", rng.below(30)).into_bytes();
                        let expiry = if rng.one_in(4) { 0 } else { now(disk) + rng.below(8) };
                        let value = vec![b'a' + (step % 26) as u8; 30];
                        for family in &families {
                            txn.put_expiring(family, &key, &value, expiry)?;
                        }
                        map.insert(key, (value, expiry));
                    }
                    self.unanswered = Some(map);
                    txn.commit()?;
                    self.answered = self.unanswered.take().unwrap_or_default();
                }
            }
        }
        Ok(())
    }

    /// The store after a crash: both families agree, before and after everything is merged.
    fn check(&self, disk: &FaultyDisk) {
        let (db, families) = make(disk, &options(0));
        let mut seen = Vec::new();
        for merged in [false, true] {
            for family in &families {
                let mut expected = vec![visible(&self.answered, now(disk))];
                expected.extend(self.unanswered.as_ref().map(|map| visible(map, now(disk))));
                let found = rows(&db, family).expect("reads");
                assert!(expected.contains(&found), "merged: {merged}, {found:?}, not {expected:?}");
                seen.push(found);
                if merged {
                    db.verify(family).expect("verifies");
                }
            }
            for family in &families {
                db.compact(family).expect("compacts");
            }
        }
        assert!(seen.windows(2).all(|pair| pair[0] == pair[1]), "{seen:?}");
        forward(disk, 10);
        let kept = rows(&db, &families[0]).expect("reads");
        let mut never = vec![visible(&self.answered, u64::MAX)];
        never.extend(self.unanswered.as_ref().map(|map| visible(map, u64::MAX)));
        assert!(never.contains(&kept), "{kept:?} are left, of {never:?}");
    }
}

#[test]
fn a_crash_at_any_call_leaves_rows_and_entries_that_agree() {
    let mut crashes = 0;
    for seed in 1..=env("EXPIRY_CRASH_SEEDS", 12) {
        let fresh = || {
            let disk = FaultyDisk::new(seed);
            drop(make(&disk, &options(0)));
            disk
        };
        let disk = fresh();
        let first = disk.calls() + 1;
        let mut whole = Crashing { answered: Map::new(), unanswered: None };
        whole.run(&disk, seed).expect("runs to its end");
        let calls = disk.calls();
        let mut at = first + seed % 7;
        while at <= calls {
            let disk = fresh();
            disk.crash_at(at);
            let mut program = Crashing { answered: Map::new(), unanswered: None };
            let ended = program.run(&disk, seed);
            for crash in Crash::ALL {
                crashes += 1;
                let left = disk.crash(crash);
                let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| program.check(&left)));
                if let Err(panic) = checked {
                    println!("FAILED: seed {seed}, call {at} of {calls}, {crash:?}, {ended:?}");
                    std::panic::resume_unwind(panic);
                }
            }
            at += 7;
        }
    }
    println!("{crashes} crashes");
    assert!(crashes > 500 || env("EXPIRY_CRASH_SEEDS", 12) < 12, "{crashes} crashes");
}

/// Completely expired rows are gone from both families, from files and from reads.
#[test]
fn merges_give_back_the_space_of_what_expired() {
    let disk = FaultyDisk::new(3);
    let (db, families) = make(&disk, &options(1));
    let mut txn = begin(&db);
    for n in 0..400u32 {
        for family in &families {
            put(&mut txn, family, format!("k{n:04}").as_bytes(), &[7; 40], now(&disk) + 10);
        }
        if n % 50 == 49 {
            txn.commit().expect("commits");
            txn.begin(TransactionOptions::default()).expect("begins");
        }
    }
    txn.rollback().expect("ends");
    db.flush().expect("flushes");
    let held = |db: &Db| -> u64 { families.iter().map(|family| in_files(db, family)).sum() };
    let before = held(&db);
    assert!(before >= 800, "{before}");

    // A view that sees the rows keeps them.
    let mut reader = begin(&db);
    assert_eq!(all(&db, &mut reader, &families[0]).len(), 400);
    forward(&disk, 11);
    for family in &families {
        db.compact(family).expect("compacts");
    }
    assert_eq!(all(&db, &mut reader, &families[1]).len(), 400);
    assert_eq!(rows(&db, &families[0]).expect("reads").len(), 0);
    reader.rollback().expect("ends");

    // Nobody writes and nobody asks: the store merges them by itself.
    let begun = Instant::now();
    while held(&db) > 0 {
        assert!(begun.elapsed() < Duration::from_secs(60), "{} of {before} entries are left", held(&db));
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The same for a large transaction found in the log by a restart; its record has no expiries.
#[test]
fn what_expired_of_a_large_transaction_goes_after_a_restart() {
    let disk = FaultyDisk::new(3);
    let (db, families) = make(&disk, &options(0));
    let mut txn = begin(&db);
    for n in 0..4000u32 {
        put(&mut txn, &families[0], format!("k{n:04}").as_bytes(), &[7; 40], now(&disk) + 10);
    }
    txn.prepare_xa(b"xid").expect("prepares");
    assert!(db.stats().spilled_runs > 0);
    drop((txn, families));
    let disk = disk.crash(Crash::Drop);
    drop(db);
    let (db, families) = make(&disk, &options(1));
    assert!(db.commit_by_xid(b"xid").expect("commits"));
    db.flush().expect("flushes");
    assert_eq!(in_files(&db, &families[0]), 4000);
    forward(&disk, 11);
    let begun = Instant::now();
    while in_files(&db, &families[0]) > 0 {
        assert!(begun.elapsed() < Duration::from_secs(30), "{} are left", in_files(&db, &families[0]));
        std::thread::sleep(Duration::from_millis(50));
    }
    drop(families);
    db.close().expect("closes");
}

/// A requested compaction drops expired rows, in the last level too, and few of many as well.
#[test]
fn a_compaction_drops_what_expired_in_the_last_level() {
    let disk = FaultyDisk::new(8);
    let (db, families) = make(&disk, &options(0));
    let rows = &families[0];
    let mut txn = begin(&db);
    for n in 0..100u32 {
        let expiry = if n < 10 { now(&disk) + 10 } else { 0 };
        put(&mut txn, rows, format!("k{n:04}").as_bytes(), &[7; 40], expiry);
    }
    txn.commit().expect("commits");
    db.flush().expect("flushes");
    db.compact(rows).expect("compacts");
    let held = || in_files(&db, rows);
    assert_eq!(held(), 100);
    let mut reader = begin(&db);
    assert_eq!(all(&db, &mut reader, rows).len(), 100);
    forward(&disk, 11);
    db.compact(rows).expect("compacts");
    assert_eq!((held(), all(&db, &mut reader, rows).len()), (100, 100), "a view sees them");
    reader.rollback().expect("ends");
    db.compact(rows).expect("compacts");
    assert_eq!(held(), 90);
    db.verify(rows).expect("verifies");
}

/// A row dropped by a merge in one family does not live again in the other when the wall clock is set back.
#[test]
fn a_clock_that_is_set_back_brings_nothing_back() {
    let disk = FaultyDisk::new(4);
    let (db, families) = make(&disk, &options(0));
    let start = now(&disk);
    let mut txn = begin(&db);
    for family in &families {
        put(&mut txn, family, b"k", b"v", start + 10);
    }
    txn.commit().expect("commits");
    db.flush().expect("flushes");
    // A disk of the same bytes whose clock has not moved.
    let behind = |disk: &FaultyDisk| {
        let then = disk.crash(Crash::Kill);
        assert!(now(&then) >= now(disk));
        then
    };
    forward(&disk, 11);
    db.compact(&families[0]).expect("compacts");
    drop(db);
    let disk = behind(&disk);
    let files: Vec<_> =
        disk.files().into_iter().filter_map(|p| Some((p.clone(), disk.contents(&p)?))).collect();
    let early = FaultyDisk::new(5);
    let shared = early.shared();
    for (path, bytes) in files {
        shared.create_dir_all(path.parent().expect("a directory")).expect("makes it");
        let file = shared.open(&path, tidesdb::internal::io::OpenMode::Create).expect("makes a file");
        file.write_at(&bytes, 0).expect("writes");
        file.sync_data().expect("syncs");
    }
    assert!(now(&early) < start + 10, "the clock of the copy is behind");
    let (db, families) = make(&early, &options(0));
    for family in &families {
        assert_eq!(rows(&db, family).expect("reads"), []);
    }
}

/// Lines of the store's log.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

impl Lines {
    fn sink(&self) -> LogSink {
        let lines = self.clone();
        LogSink::new(move |_, line| lines.0.lock().expect("no panic").push(line.to_string()))
    }

    /// Reports of a lag since the last call.
    fn reports(&self) -> usize {
        let lines = std::mem::take(&mut *self.0.lock().expect("no panic"));
        lines.iter().filter(|line| line.contains("seconds behind the clock by which rows expire")).count()
    }
}

/// A day ahead, read once, and back: rows written later live for their lifetime, over restarts.
#[test]
fn rows_live_their_time_after_a_wall_clock_that_was_ahead() {
    let disk = FaultyDisk::new(7);
    let lines = Lines::default();
    let options = Options { log: Some(lines.sink()), ..options(0) };
    let (db, families) = make(&disk, &options);
    let keys = |db: &Db| -> Vec<Vec<u8>> {
        let table = db.family(b"rows").expect("the family");
        rows(db, &table).expect("reads").into_iter().map(|row| row.0).collect()
    };
    let write = |db: &Db, key: &[u8], lifetime: u64| {
        let table = db.family(b"rows").expect("the family");
        let mut txn = begin(db);
        // As a client has it that knows the wall clock.
        put(&mut txn, &table, key, b"v", now(&disk) + db.expiry_lag() + lifetime);
        txn.commit().expect("commits");
    };
    write(&db, b"before", 50);
    disk.set_wall_clock(86_400);
    assert_eq!(keys(&db), [b"before"; 0]);
    disk.set_wall_clock(-86_400);
    assert_eq!(db.expiry_lag(), 86_400);
    assert_eq!(db.stats().expiry_lag, 86_400);
    db.maintain_expiry_clock().expect("reserves");
    db.maintain_expiry_clock().expect("reserves");
    assert_eq!(lines.reports(), 1, "once");
    write(&db, b"short", 10);
    assert_eq!(keys(&db), [b"short"]);
    forward(&disk, 8);
    assert_eq!(keys(&db), [b"short"]);
    forward(&disk, 3);
    assert_eq!(keys(&db), [b"short"; 0]);

    // Over an orderly restart the clock goes on where it was.
    write(&db, b"long", 100);
    forward(&disk, 50);
    let second = db.expiry_second();
    drop(families);
    db.close().expect("closes");
    let db = open(&disk, &options).expect("opens");
    assert!((second..=second + 1).contains(&db.expiry_second()));
    assert!(lines.reports() == 1, "at the opening");
    assert_eq!(keys(&db), [b"long"]);
    write(&db, b"next", 30);
    forward(&disk, 20);
    assert_eq!(keys(&db), [&b"long"[..], b"next"]);
    db.maintain_expiry_clock().expect("reserves");

    // A kill costs a few seconds at most, and revives nothing.
    let second = db.expiry_second();
    let left = disk.crash(Crash::Drop);
    drop(db);
    let db = open(&left, &options).expect("opens");
    let now = db.expiry_second();
    assert!((second..=second + 5).contains(&now), "{second} and {now}");
    assert_eq!(keys(&db), [&b"long"[..], b"next"]);
    forward(&left, 9);
    assert_eq!(keys(&db), [b"long"]);
    assert_eq!(lines.reports(), 1);

    // The wall clock catches up, and is the clock again.
    left.set_wall_clock(86_400 + 1000);
    assert_eq!((db.expiry_lag(), db.expiry_second()), (0, self::now(&left)));
    db.maintain_expiry_clock().expect("reserves");
    left.set_wall_clock(-1000);
    db.maintain_expiry_clock().expect("reserves");
    assert_eq!(lines.reports(), 1, "a new lag");
}

/// The clock was set back while the store was down after a kill: no row expired for a reader comes back.
#[test]
fn a_clock_set_back_over_a_kill_revives_nothing() {
    let disk = FaultyDisk::new(9);
    let (db, families) = make(&disk, &options(0));
    let mut txn = begin(&db);
    put(&mut txn, &families[0], b"k", b"v", now(&disk) + 10);
    txn.commit().expect("commits");
    forward(&disk, 40);
    assert_eq!(rows(&db, &families[0]).expect("reads"), []);
    let left = disk.crash(Crash::Drop);
    drop(db);
    left.set_wall_clock(-3600);
    let (db, families) = make(&left, &options(0));
    assert_eq!(rows(&db, &families[0]).expect("reads"), []);
    assert!(db.expiry_lag() >= 3600, "{}", db.expiry_lag());
}

/// A transaction with a snapshot sees the same rows, under locks too. At READ COMMITTED each statement reads
/// the clock, and so does a locking read without a snapshot.
#[test]
fn a_transaction_has_one_second_and_a_statement_has_one() {
    let disk = FaultyDisk::new(6);
    let (db, families) = make(&disk, &options(0));
    let rows = &families[0];
    let mut txn = begin(&db);
    put(&mut txn, rows, b"k", b"v", now(&disk) + 5);
    txn.commit().expect("commits");
    let of = |isolation| begin_as(&db, TransactionOptions { isolation, ..TransactionOptions::default() });
    let mut repeatable = of(Isolation::RepeatableRead);
    let mut committed = of(Isolation::ReadCommitted);
    let mut serializable = of(Isolation::Serializable);
    // It takes its snapshot and looks at the row later only.
    let mut late = of(Isolation::RepeatableRead);
    late.take_snapshot().expect("a snapshot");
    for txn in [&mut repeatable, &mut committed] {
        assert!(txn.get(rows, b"k", ReadMode::Snapshot).expect("reads").is_some());
    }
    assert!(serializable.get(rows, b"k", ReadMode::Shared).expect("reads").is_some());
    assert!(committed.get(rows, b"k", ReadMode::Latest).expect("reads").is_some());
    forward(&disk, 6);
    assert!(committed.get(rows, b"k", ReadMode::Latest).expect("reads").is_some(), "the same statement");
    committed.statement_end();
    assert!(committed.get(rows, b"k", ReadMode::Snapshot).expect("reads").is_none(), "the next");
    assert!(repeatable.get(rows, b"k", ReadMode::Snapshot).expect("reads").is_some());
    assert!(late.get(rows, b"k", ReadMode::Snapshot).expect("reads").is_some());
    assert!(serializable.get(rows, b"k", ReadMode::Shared).expect("reads").is_some());
    assert!(repeatable.get(rows, b"k", ReadMode::Latest).expect("reads").is_some());
    serializable.rollback().expect("ends");
    assert!(matches!(repeatable.insert(rows, b"k", b"w"), Err(Error::Duplicate)));
    repeatable.rollback().expect("ends");
    let mut locking = of(Isolation::RepeatableRead);
    put(&mut locking, &families[1], b"k", b"v", now(&disk) + 5);
    assert!(locking.get(&families[1], b"k", ReadMode::Exclusive).expect("reads").is_some());
    forward(&disk, 6);
    assert!(
        locking.get(&families[1], b"k", ReadMode::Exclusive).expect("reads").is_some(),
        "the same statement"
    );
    locking.statement_end();
    assert!(locking.get(&families[1], b"k", ReadMode::Exclusive).expect("reads").is_none(), "the next");
    locking.insert(rows, b"k", b"w").expect("inserts");
    let mut applier =
        begin_as(&db, TransactionOptions { sees_expired: true, ..TransactionOptions::default() });
    assert!(applier.get(rows, b"k", ReadMode::Latest).expect("reads").is_some());
}
