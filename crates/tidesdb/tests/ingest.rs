//! Loads of empty families by finished tables, with bounds so small that a load has many tables and, out of
//! order, many runs. Against a model, beside snapshots, writers and backups, on a disk that fails at every
//! call. `crash.rs` crashes loads at every call.
//!
//! `INGEST_SEEDS` runs more random programs, `INGEST_SEED` repeats one.

mod sim;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sim::{begin, open, rows, scan, seeds, tables, Asked, Rng};
use tidesdb::internal::backup::{restore, BackupOptions, Watch};
use tidesdb::internal::db::Db;
use tidesdb::internal::io::faulty::{Crash, Failure, Fault, Op};
use tidesdb::internal::io::{Disk, FaultyDisk};
use tidesdb::internal::store::family::Family;
use tidesdb::internal::txn::ingest::{Ingest, IngestOptions};
use tidesdb::internal::txn::transaction::{ReadMode, Transaction};
use tidesdb::internal::types::Pieces;
use tidesdb::{Error, Options, Result, SyncMode};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

fn options() -> Options {
    Options { write_buffer_size: 4 << 10, compaction_threads: 0, ..sim::tiny(SyncMode::None) }
}

fn make(disk: &FaultyDisk, options: &Options, name: &str) -> (Db, Arc<Family>) {
    let db = open(disk, options).expect("opens");
    if db.family(name.as_bytes()).is_err() {
        db.create_family(name.as_bytes(), sim::tiny_family()).expect("creates");
    }
    let family = db.family(name.as_bytes()).expect("there");
    (db, family)
}

fn key(n: u64) -> Vec<u8> {
    format!("k{n:05}").into_bytes()
}

fn begin_load(db: &Db) -> Ingest {
    let mut load = db.ingest(IngestOptions::default()).expect("begins");
    load.set_lock_timeout(Some(Duration::ZERO));
    load
}

fn add(load: &mut Ingest, family: &Arc<Family>, key: &[u8], value: &[u8]) -> Result<()> {
    load.add(family, key, Pieces::new(value, &[]), 0)
}

/// Loads these keys in this order, each with a value of 40 bytes.
fn load_keys(db: &Db, family: &Arc<Family>, keys: impl IntoIterator<Item = u64>) -> Result<Map> {
    let mut load = begin_load(db);
    let mut loaded = Map::new();
    for n in keys {
        let value = vec![n as u8; 40];
        add(&mut load, family, &key(n), &value)?;
        loaded.insert(key(n), value);
    }
    load.finish().map(|()| loaded)
}

fn content(db: &Db, family: &Arc<Family>) -> Map {
    rows(db, family).expect("reads").into_iter().collect()
}

fn seen_by(db: &Db, txn: &mut Transaction, family: &Arc<Family>) -> Map {
    scan(db, txn, family, &Asked::all(true)).expect("scans").into_iter().collect()
}

fn levels(db: &Db, family: &Family) -> Vec<u8> {
    let mut levels: Vec<u8> =
        db.tables().iter().filter(|table| table.family == family.id()).map(|table| table.level).collect();
    levels.sort_unstable();
    levels
}

#[test]
fn later_snapshots_see_a_load_and_older_ones_do_not() {
    let disk = FaultyDisk::new(1);
    let (db, family) = make(&disk, &options(), "a");
    let (other, mut old) = (db.create_family(b"b", sim::tiny_family()).expect("creates"), begin(&db));
    old.take_snapshot().expect("a free slot");
    let mut load = begin_load(&db);
    let mut expected = Map::new();
    for n in 0..600 {
        add(&mut load, &family, &key(n), &[n as u8; 40]).expect("adds");
        expected.insert(key(n), vec![n as u8; 40]);
        if n == 300 {
            // Others commit meanwhile, in other families.
            let mut txn = begin(&db);
            txn.put(&other, b"k", b"v").expect("puts");
            txn.commit().expect("commits");
        }
    }
    let mut before = begin(&db);
    before.take_snapshot().expect("a free slot");
    assert!(seen_by(&db, &mut before, &family).is_empty());
    let sequence = db.stats().global_sequence;
    load.finish().expect("finishes");
    for flushed in [false, true] {
        if flushed {
            db.flush().expect("flushes");
        }
        for txn in [&mut old, &mut before] {
            assert!(seen_by(&db, txn, &family).is_empty(), "flushed: {flushed}");
            assert_eq!(txn.get(&family, &key(5), ReadMode::Snapshot).expect("reads"), None);
        }
        assert_eq!(content(&db, &family), expected);
        assert_eq!(db.stats().global_sequence, sequence + 1, "one commit");
    }
    let counted = db.family_stats(&family).expect("figures");
    assert_eq!(counted.entries, 600);
    // A row that is newer than the snapshot is a conflict, and a duplicate for a later one.
    assert!(matches!(old.put(&family, &key(7), b"mine"), Err(Error::Conflict)));
    old.rollback().expect("rolls back");
    let mut txn = begin(&db);
    assert!(matches!(txn.insert(&family, &key(7), b"mine"), Err(Error::Duplicate)));
    txn.put(&family, &key(7), b"mine").expect("puts");
    txn.delete(&family, &key(8)).expect("deletes");
    txn.commit().expect("commits");
    expected.insert(key(7), b"mine".to_vec());
    expected.remove(&key(8));
    assert!(seen_by(&db, &mut before, &family).is_empty());
    before.rollback().expect("rolls back");
    for step in 0..3 {
        assert_eq!(content(&db, &family), expected, "step {step}");
        db.flush().expect("flushes");
        db.compact(&family).expect("compacts");
    }
}

#[test]
fn a_load_takes_no_room_in_the_log_and_no_merge() {
    let disk = FaultyDisk::new(1);
    let (db, family) = make(&disk, &options(), "a");
    db.flush().expect("flushes");
    let before = db.stats();
    load_keys(&db, &family, 0..2000).expect("loads");
    db.flush().expect("flushes");
    let (after, levels) = (db.stats(), levels(&db, &family));
    assert!(levels.len() > 10 && levels.iter().all(|&level| level == 6), "{levels:?}");
    let logged = after.wal_bytes_written - before.wal_bytes_written;
    assert!(logged < 8 << 10, "{logged} bytes of log for 100 KB");
    assert_eq!(after.flush_bytes_written, before.flush_bytes_written);
    assert_eq!(after.compaction_bytes_written, before.compaction_bytes_written);
}

#[test]
fn keys_out_of_order_are_sorted() {
    for order in 0..4 {
        let disk = FaultyDisk::new(1);
        let (db, family) = make(&disk, &options(), "a");
        let before = tables(&disk);
        let keys: Vec<u64> = match order {
            0 => (0..900).rev().collect(),
            1 => (0..900).map(|n| n * 7919 % 907).collect(),
            // In order at first: tables are there already.
            2 => (0..500).chain((500..900).rev()).collect(),
            _ => (400..900).chain(0..400).collect(),
        };
        let expected = load_keys(&db, &family, keys.clone()).expect("loads");
        assert_eq!(expected.len(), 900);
        assert_eq!(content(&db, &family), expected, "order {order}");
        db.flush().expect("flushes");
        let levels = levels(&db, &family);
        assert!(levels.iter().all(|&level| level == 6), "{levels:?}");
        assert!(db.stats().spilled_runs > 2, "{} runs", db.stats().spilled_runs);
        assert!(tables(&disk) - before <= levels.len() + 4, "the runs are gone");
        // A key that is there twice, next to itself, in memory, or first in a table and then in a run.
        for twice in [keys[899], keys[898], keys[0]] {
            let (again, load) = (db.create_family(b"again", sim::tiny_family()).expect("creates"), &keys);
            let done = load_keys(&db, &again, load.iter().copied().chain([twice]));
            assert!(matches!(done, Err(Error::Duplicate)), "order {order}: {done:?}");
            assert!(content(&db, &again).is_empty());
            let mut ddl = db.ddl().expect("begins");
            ddl.drop_family(b"again").expect("drops");
            ddl.commit().expect("commits");
        }
    }
}

#[test]
fn only_empty_families_are_loaded_and_nobody_writes_beside() {
    let disk = FaultyDisk::new(1);
    let (db, family) = make(&disk, &options(), "full");
    let put = |key: u64| -> Result<()> {
        let mut txn = begin(&db);
        txn.set_lock_timeout(Some(Duration::ZERO));
        txn.put(&family, &self::key(key), b"v")?;
        txn.commit()
    };
    let refused = |what: &str| {
        let error = load_keys(&db, &family, [1]).expect_err("it has entries");
        let text = error.to_string();
        assert!(matches!(error, Error::InvalidArgument(_)), "{what}: {text}");
        assert!(text.contains("full") && text.contains("truncate"), "{what}: {text}");
    };
    put(1).expect("puts");
    refused("in memory");
    db.flush().expect("flushes");
    refused("in a file");
    let mut ddl = db.ddl().expect("begins");
    ddl.truncate(b"full").expect("truncates");
    ddl.commit().expect("commits");
    let family = db.family(b"full").expect("there");
    let mut load = begin_load(&db);
    add(&mut load, &family, &key(1), b"v").expect("adds");
    let mut txn = begin(&db);
    txn.set_lock_timeout(Some(Duration::ZERO));
    assert!(matches!(txn.put(&family, &key(2), b"v"), Err(Error::LockTimeout)));
    assert!(matches!(txn.get(&family, &key(2), ReadMode::Shared), Err(Error::LockTimeout)));
    assert_eq!(txn.get(&family, &key(2), ReadMode::Snapshot).expect("reads"), None);
    txn.rollback().expect("rolls back");
    // The other way round: a locking reader keeps the load out.
    drop(load);
    let mut txn = begin(&db);
    txn.get(&family, &key(2), ReadMode::Exclusive).expect("locks");
    let mut load = begin_load(&db);
    assert!(matches!(add(&mut load, &family, &key(1), b"v"), Err(Error::LockTimeout)));
    txn.rollback().expect("rolls back");
    add(&mut load, &family, &key(1), b"v").expect("adds");
    load.finish().expect("finishes");
    assert_eq!(content(&db, &family).len(), 1);
    // Without locks the last look decides.
    let unlocked = IngestOptions { unlocked: true };
    let fresh = db.create_family(b"fresh", sim::tiny_family()).expect("creates");
    let (mut one, mut two) = (db.ingest(unlocked).expect("begins"), db.ingest(unlocked).expect("begins"));
    add(&mut one, &fresh, &key(1), b"one").expect("adds");
    add(&mut two, &fresh, &key(2), b"two").expect("adds");
    one.finish().expect("finishes");
    assert!(matches!(two.finish(), Err(Error::InvalidArgument(_))));
    assert_eq!(content(&db, &fresh).into_keys().collect::<Vec<_>>(), [key(1)]);
}

#[test]
fn a_dropped_or_killed_load_leaves_nothing() {
    let disk = FaultyDisk::new(1);
    let (db, family) = make(&disk, &options(), "a");
    db.flush().expect("flushes");
    let before = tables(&disk);
    for end in 0..4 {
        let mut load = begin_load(&db);
        for n in (0..400).chain((400..700).rev()) {
            add(&mut load, &family, &key(n), &[7; 40]).expect("adds");
        }
        assert!(tables(&disk) > before);
        match end {
            0 => drop(load),
            1 => {
                db.kill(&load.owner().clone());
                assert!(matches!(add(&mut load, &family, &key(900), b"v"), Err(Error::Interrupted)));
                assert!(matches!(load.finish(), Err(Error::Interrupted)));
            }
            2 => {
                let mut ddl = db.ddl().expect("begins");
                ddl.truncate(b"a").expect("truncates");
                ddl.commit().expect("commits");
                assert!(matches!(load.finish(), Err(Error::NoSuchFamily(_))));
                break;
            }
            _ => unreachable!("the last one breaks"),
        }
        assert_eq!(tables(&disk), before, "end {end}");
        assert!(content(&db, &family).is_empty());
    }
    let family = db.family(b"a").expect("there");
    assert_eq!(tables(&disk), before);
    load_keys(&db, &family, []).expect("an empty load does nothing");
    assert_eq!(load_keys(&db, &family, 0..9).expect("loads"), content(&db, &family));
}

#[test]
fn expiries_and_large_values_are_loaded() {
    for sorted in [true, false] {
        let disk = FaultyDisk::new(1);
        let (db, family) = make(&disk, &options(), "a");
        let (now, large) = (db.expiry_second(), vec![9u8; 3 << 20]);
        let pieces: [&[u8]; 2] = [&large[..1 << 20], &large[1 << 20..]];
        let in_pieces = Pieces::new(b"", &pieces);
        let mut rows = vec![
            (b"a", Pieces::new(b"gone", &[]), now - 1),
            (b"b", Pieces::new(b"later", &[]), now + 1000),
            (b"c", in_pieces, 0),
            (b"d", in_pieces, now + 1000),
        ];
        if !sorted {
            rows.reverse();
        }
        let mut load = begin_load(&db);
        for (key, value, expiry) in rows {
            load.add(&family, key, value, expiry).expect("adds");
        }
        load.finish().expect("finishes");
        drop(db);
        for disk in [disk.crash(Crash::Kill), disk] {
            let (db, family) = make(&disk, &options(), "a");
            let seen = content(&db, &family);
            assert_eq!(seen.keys().map(|key| &key[..]).collect::<Vec<_>>(), [b"b", b"c", b"d"]);
            assert!(seen[&b"c"[..]] == large && seen[&b"d"[..]] == large && seen[&b"b"[..]] == b"later");
            assert_eq!(db.count_rows(&family, &|| false).expect("counts"), 3);
        }
    }
}

/// Each call of a load fails once. It answers, and nothing or everything of it is there, now and after a
/// restart; the store goes on.
#[test]
fn a_failure_at_every_call_leaves_all_or_nothing() {
    let orders: [fn() -> Vec<u64>; 2] =
        [|| (0..250).collect(), || (0..120).chain((120..250).rev()).collect()];
    for (ordinal, order) in orders.into_iter().enumerate() {
        let run = |n: Option<(u64, Failure)>| {
            let disk = FaultyDisk::new(ordinal as u64);
            let (db, family) = make(&disk, &options(), "a");
            db.flush().expect("flushes");
            let first = disk.calls();
            if let Some((n, failure)) = n {
                disk.fail_call(first + n, failure);
            }
            let done = load_keys(&db, &family, order()).map(|_| ());
            (disk.calls() - first, disk, db, family, done)
        };
        let (calls, .., done) = run(None);
        done.expect("without a failure it loads");
        let mut failed = 0;
        for (n, failure) in (1..=calls).flat_map(|n| [(n, Failure::Eio), (n, Failure::Enospc)]) {
            let (_, disk, db, family, done) = run(Some((n, failure)));
            disk.heal();
            let what = format!("order {ordinal}, call {n} of {calls}, {failure:?}: {done:?}");
            failed += u64::from(done.is_err());
            let whole = done.is_ok();
            let outcome_known = !matches!(done, Err(Error::ReadOnly(_) | Error::OutcomeUnknown));
            drop(done);
            if db.flush_log().is_ok() {
                let seen = content(&db, &family).len();
                assert!(seen == if whole { 250 } else { 0 } || !outcome_known, "{what}: {seen} rows");
                if !whole && outcome_known {
                    load_keys(&db, &family, 0..9).unwrap_or_else(|e| panic!("{what}: again: {e}"));
                    assert_eq!(content(&db, &family).len(), 9, "{what}");
                }
            }
            let now = db.flush_log().is_ok().then(|| content(&db, &family));
            drop((db, family));
            let (db, family) = make(&disk.crash(Crash::Kill), &options(), "a");
            let seen = content(&db, &family);
            match now {
                Some(now) => assert_eq!(seen, now, "{what}"),
                None => assert!([0, 250].contains(&seen.len()), "{what}: {} rows", seen.len()),
            }
        }
        assert!(failed > 20, "{failed} of {calls} calls failed");
    }
}

#[test]
fn a_full_disk_refuses_a_load_and_keeps_none_of_its_files() {
    let disk = FaultyDisk::new(1);
    let (db, family) = make(&disk, &options(), "a");
    db.flush().expect("flushes");
    let before = tables(&disk);
    let full = Fault {
        op: Some(Op::Write),
        path: ".sst".into(),
        skip: 2,
        times: 1_000_000,
        failure: Failure::Enospc,
    };
    for keys in [(0..600).collect::<Vec<u64>>(), (0..600).rev().collect()] {
        disk.fail(full.clone());
        let done = load_keys(&db, &family, keys);
        assert!(matches!(done, Err(Error::DiskFull(_))), "{done:?}");
        disk.heal();
        assert_eq!(tables(&disk), before);
    }
    let expected = load_keys(&db, &family, 0..600).expect("there is room again");
    assert_eq!(content(&db, &family), expected);
}

#[test]
fn a_backup_has_a_load_that_has_finished_and_no_other() {
    let disk = FaultyDisk::new(1);
    let (db, family) = make(&disk, &options(), "a");
    let restored = |n: u32| {
        let (from, into) = (format!("/backup{n}"), format!("/restored{n}"));
        db.backup(Path::new(&from), BackupOptions::default(), Watch::NONE).expect("a backup");
        let shared: Arc<dyn Disk> = disk.shared();
        restore(&shared, Path::new(&from), Path::new(&into), None, Watch::NONE).expect("restores");
        let db = Db::open_on(shared, Path::new(&into), options(), None).expect("opens");
        let family = db.family(b"a").expect("there");
        db.verify(&family).expect("verifies");
        content(&db, &family)
    };
    let mut load = begin_load(&db);
    for n in 0..600 {
        add(&mut load, &family, &key(n), &[1; 40]).expect("adds");
    }
    assert!(restored(1).is_empty());
    load.finish().expect("finishes");
    let expected = content(&db, &family);
    assert!(expected.len() == 600 && restored(2) == expected);
    db.flush().expect("flushes");
    assert_eq!(restored(3), expected);
}

/// One family under loads, small transactions, merges and restarts, with old snapshots.
struct World {
    disk: FaultyDisk,
    options: Options,
    db: Db,
    family: Arc<Family>,
    rng: Rng,
    now: Map,
    loads: u64,
}

impl World {
    fn reload(&mut self) {
        let mut ddl = self.db.ddl().expect("begins");
        ddl.truncate(b"a").expect("truncates");
        ddl.commit().expect("commits");
        self.family = self.db.family(b"a").expect("there");
        self.now.clear();
        let mut old = begin(&self.db);
        old.take_snapshot().expect("a free slot");
        let count = self.rng.below(700);
        let (sorted, mixed) = (self.rng.one_in(2), self.rng.one_in(2));
        let mut load = begin_load(&self.db);
        let mut next = Map::new();
        for n in 0..count {
            let n = match (sorted, mixed) {
                (true, _) => n,
                (false, true) if n < count / 2 => n,
                _ => self.rng.below(2000),
            };
            let value = vec![self.rng.next() as u8; self.rng.below(60) as usize];
            // Out of order a second add may be found at the end only: this program has none of them.
            if next.contains_key(&key(n)) {
                continue;
            }
            add(&mut load, &self.family, &key(n), &value).expect("adds");
            next.insert(key(n), value);
        }
        if self.rng.one_in(4) {
            drop(load);
        } else {
            load.finish().expect("finishes");
            self.now = next;
            self.loads += 1;
        }
        assert!(seen_by(&self.db, &mut old, &self.family).is_empty());
        self.check();
    }

    fn small(&mut self) {
        let mut txn = begin(&self.db);
        for _ in 0..1 + self.rng.below(40) {
            let (key, value) = (key(self.rng.below(2000)), vec![self.rng.next() as u8; 30]);
            match self.rng.one_in(3) {
                true => {
                    txn.single_delete(&self.family, &key).expect("deletes");
                    self.now.remove(&key);
                }
                false => {
                    txn.put(&self.family, &key, &value).expect("puts");
                    self.now.insert(key, value);
                }
            }
        }
        txn.commit().expect("commits");
    }

    fn check(&mut self) {
        assert_eq!(content(&self.db, &self.family), self.now);
        let mut txn = begin(&self.db);
        for _ in 0..20 {
            let key = key(self.rng.below(2000));
            let found = txn.get(&self.family, &key, ReadMode::Snapshot).expect("reads");
            assert_eq!(found.as_ref(), self.now.get(&key), "{}", key.escape_ascii());
        }
    }

    fn restart(&mut self) {
        let crash = self.rng.one_in(2);
        let stand_in = open(&FaultyDisk::new(1), &self.options).expect("a stand-in");
        let db = std::mem::replace(&mut self.db, stand_in);
        match crash {
            true => {
                drop(db);
                self.disk = self.disk.crash(Crash::Kill);
            }
            false => db.close().expect("closes"),
        }
        (self.db, self.family) = make(&self.disk, &self.options, "a");
    }
}

fn random_program(seed: u64) -> u64 {
    let disk = FaultyDisk::new(seed);
    let options = Options { compaction_threads: (seed % 2) as usize, ..options() };
    let (db, family) = make(&disk, &options, "a");
    let mut world = World { disk, options, db, family, rng: Rng(seed), now: Map::new(), loads: 0 };
    for _ in 0..25 {
        match world.rng.below(10) {
            0..=2 => world.reload(),
            3 => world.restart(),
            4 => world.db.flush().expect("flushes"),
            5 => {
                world.db.compact(&world.family.clone()).expect("compacts");
                world.db.verify(&world.family).expect("verifies");
            }
            _ => world.small(),
        }
        world.check();
    }
    world.restart();
    world.check();
    let counted = world.db.count_rows(&world.family, &|| false).expect("counts");
    assert_eq!(counted, world.now.len() as u64);
    world.loads
}

#[test]
fn random_programs_agree_with_the_model() {
    let mut loads = 0;
    for seed in seeds("INGEST", 16) {
        println!("seed {seed}");
        loads += random_program(seed);
    }
    println!("{loads} loads");
}
