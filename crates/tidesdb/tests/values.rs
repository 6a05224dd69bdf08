//! Values in value files: read and written through all of a store's life, and what is left of them after crashes, failures
//! and damage. The crash tests (`crash.rs`) run their programs with value files too.

mod sim;

#[path = "values/alongside.rs"]
mod alongside;
#[path = "values/collection.rs"]
mod collection;
#[path = "values/links.rs"]
mod links;
#[path = "values/parts.rs"]
mod parts;
#[path = "values/scans.rs"]
mod scans;
#[path = "values/separation.rs"]
mod separation;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use sim::{begin, open, rows, tiny, tiny_family, Rng, DIR};
use tidesdb::internal::backup::{repair, restore, verify, verify_store, BackupOptions, Watch};
use tidesdb::internal::db::Db;
use tidesdb::internal::io::faulty::{Crash, Failure, Fault, Op};
use tidesdb::internal::io::{Disk, FaultyDisk, OpenMode};
use tidesdb::internal::store::family::Family;
use tidesdb::internal::txn::transaction::ReadMode;
use tidesdb::{Compression, Error, FamilyOptions, FormatVersion, Options, SyncMode};

const THRESHOLD: u32 = 100;

fn options(mode: SyncMode) -> Options {
    Options {
        least_format: FormatVersion::Two,
        write_buffer_size: 32 << 10,
        compaction_threads: 0,
        ..tiny(mode)
    }
}

fn family() -> FamilyOptions {
    FamilyOptions { value_threshold: THRESHOLD, ..tiny_family() }
}

fn new_store(disk: &FaultyDisk, options: &Options) -> (Db, Arc<Family>) {
    let db = open(disk, options).expect("opens");
    let family = db.create_family(b"t", family()).expect("creates");
    (db, family)
}

fn key(n: u32) -> Vec<u8> {
    n.to_be_bytes().to_vec()
}

/// A value of its own of this length.
fn value(n: u32, len: usize) -> Vec<u8> {
    let mut state = u64::from(n) + 1;
    let next = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    (0..len).map(next).collect()
}

fn put(db: &Db, family: &Arc<Family>, n: u32, value: &[u8]) -> Result<(), Error> {
    let mut txn = begin(db);
    txn.put(family, &key(n), value)?;
    txn.commit()
}

fn value_files(disk: &FaultyDisk) -> Vec<String> {
    let names = disk.shared().list(Path::new(DIR)).expect("lists");
    names.into_iter().filter(|name| name.ends_with(".val")).collect()
}

fn bytes_of(disk: &FaultyDisk, suffix: &str) -> u64 {
    let shared = disk.shared();
    let names = shared.list(Path::new(DIR)).expect("lists");
    let of = names.iter().filter(|name| name.ends_with(suffix));
    of.map(|name| {
        shared.open(&Path::new(DIR).join(name), OpenMode::Read).expect("opens").len().expect("a length")
    })
    .sum()
}

/// Ends value files until it is `done`: a thread in the background may have the last hold for a moment.
fn end_until(db: &Db, done: impl Fn() -> bool) {
    for _ in 0..1000 {
        db.end_value_files().expect("ends files");
        if done() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("the value files stay");
}

#[test]
fn long_values_are_written_once_and_read_from_everywhere() {
    let disk = FaultyDisk::new(1);
    let options = options(SyncMode::None);
    let (db, family) = new_store(&disk, &options);
    let mut expected = BTreeMap::new();
    for n in 0..200u32 {
        // Around the threshold, empty, and longer than a file.
        let len = [0, 99, 100, 101, 1000, 40_000][n as usize % 6];
        put(&db, &family, n, &value(n, len)).expect("puts");
        expected.insert(key(n), value(n, len));
    }
    let check = |db: &Db, family: &Arc<Family>, what: &str| {
        let found: BTreeMap<_, _> = rows(db, family).expect("scans").into_iter().collect();
        assert!(found == expected, "{what}");
        for (key, value) in &expected {
            let found = begin(db).get(family, key, ReadMode::Snapshot).expect("reads");
            assert_eq!(found.as_ref(), Some(value), "{what}");
        }
    };
    check(&db, &family, "in memory");
    db.flush().expect("flushes");
    check(&db, &family, "in level 0");
    let written = bytes_of(&disk, ".val");
    let long: u64 =
        expected.values().filter(|value| value.len() >= 100).map(|value| value.len() as u64).sum();
    assert!(written > long && written < long + long / 10, "{written} bytes of files for {long} of values");
    for _ in 0..3 {
        db.compact(&family).expect("merges");
    }
    assert_eq!(bytes_of(&disk, ".val"), written, "a merge writes no value");
    assert!(bytes_of(&disk, ".sst") < 60_000, "{} bytes of tables", bytes_of(&disk, ".sst"));
    check(&db, &family, "merged");
    drop(family);
    db.close().expect("closes");
    let db = open(&disk, &options).expect("opens");
    let family = db.family(b"t").expect("is there");
    check(&db, &family, "after a restart");
}

/// A read past the page cache would wait until the system has written the new bytes.
#[test]
fn a_new_value_is_read_from_the_cache() {
    for (cache, reads) in [(1 << 20, 0), (0, 1)] {
        let disk = FaultyDisk::new(1);
        let options = Options { block_cache_size: cache, ..options(SyncMode::None) };
        let (db, family) = new_store(&disk, &options);
        for version in 1..=2 {
            put(&db, &family, 1, &value(version, 3000)).expect("puts");
        }
        let before = db.stats().table_reads;
        let found = begin(&db).get(&family, &key(1), ReadMode::Snapshot).expect("reads");
        assert_eq!(found, Some(value(2, 3000)));
        assert_eq!(db.stats().table_reads - before, reads, "a cache of {cache} bytes");
    }
}

#[test]
fn values_are_compressed_as_their_family_and_a_store_of_version_1_has_none() {
    let disk = FaultyDisk::new(1);
    let options = options(SyncMode::None);
    let db = open(&disk, &options).expect("opens");
    let zeros = vec![7; 20_000];
    for (name, compression, most) in [(b"z", Compression::Zstd, 300), (b"n", Compression::None, 30_000)] {
        let before = bytes_of(&disk, ".val");
        let family = db.create_family(name, FamilyOptions { compression, ..family() }).expect("creates");
        put(&db, &family, 1, &zeros).expect("puts");
        let written = bytes_of(&disk, ".val") - before;
        assert!(written < most, "{compression:?}: {written}");
        assert_eq!(begin(&db).get(&family, &key(1), ReadMode::Snapshot).expect("reads"), Some(zeros.clone()));
    }
    let old = FaultyDisk::new(1);
    let options = Options { least_format: FormatVersion::One, ..options };
    let (db, family) = new_store(&old, &options);
    put(&db, &family, 1, &zeros).expect("puts");
    assert_eq!(value_files(&old), Vec::<String>::new());
    drop((db, family));
    // Its next opening moves it.
    let db = open(&old, &Options { least_format: FormatVersion::Two, ..options }).expect("opens");
    let family = db.family(b"t").expect("is there");
    put(&db, &family, 2, &zeros).expect("puts");
    assert_eq!(value_files(&old).len(), 1);
    for n in [1, 2] {
        assert_eq!(begin(&db).get(&family, &key(n), ReadMode::Snapshot).expect("reads"), Some(zeros.clone()));
    }
}

#[test]
fn a_file_goes_when_nobody_needs_a_value_of_it() {
    let disk = FaultyDisk::new(1);
    let (db, family) = new_store(&disk, &options(SyncMode::None));
    for n in 0..40 {
        put(&db, &family, n, &value(n, 2000)).expect("puts");
    }
    let first = value_files(&disk);
    assert!(first.len() >= 2, "{first:?}");
    let mut reader = begin(&db);
    assert_eq!(reader.get(&family, &key(1), ReadMode::Snapshot).expect("reads"), Some(value(1, 2000)));
    for n in 0..40 {
        put(&db, &family, n, &value(n + 1000, 2000)).expect("puts");
    }
    db.flush().expect("flushes");
    db.compact(&family).expect("merges");
    db.end_value_files().expect("ends files");
    assert!(first.iter().all(|name| value_files(&disk).contains(name)), "a snapshot has them");
    for n in 0..40 {
        assert_eq!(reader.get(&family, &key(n), ReadMode::Snapshot).expect("reads"), Some(value(n, 2000)));
    }
    drop(reader);
    db.compact(&family).expect("merges");
    db.end_value_files().expect("ends files");
    // The last of them took values of the second round too.
    let left = |disk: &FaultyDisk| first.iter().filter(|name| value_files(disk).contains(name)).count();
    end_until(&db, || left(&disk) <= 1);
    for n in 0..40 {
        let found = begin(&db).get(&family, &key(n), ReadMode::Snapshot).expect("reads");
        assert_eq!(found, Some(value(n + 1000, 2000)));
    }
    let mut ddl = db.ddl().expect("begins");
    ddl.drop_family(b"t").expect("drops");
    ddl.commit().expect("commits");
    drop(family);
    db.flush().expect("flushes");
    end_until(&db, || value_files(&disk).len() <= 1);
}

#[test]
fn rolled_back_and_undone_values_take_space_and_are_never_seen() {
    let disk = FaultyDisk::new(1);
    let (db, family) = new_store(&disk, &options(SyncMode::None));
    put(&db, &family, 1, &value(1, 500)).expect("puts");
    let mut txn = begin(&db);
    txn.put(&family, &key(1), &value(2, 500)).expect("puts");
    let savepoint = txn.savepoint_set().expect("sets");
    txn.put(&family, &key(1), &value(3, 500)).expect("puts");
    assert_eq!(txn.get(&family, &key(1), ReadMode::Snapshot).expect("reads"), Some(value(3, 500)));
    txn.savepoint_rollback(savepoint).expect("undoes");
    assert_eq!(txn.get(&family, &key(1), ReadMode::Snapshot).expect("reads"), Some(value(2, 500)));
    txn.rollback().expect("rolls back");
    assert_eq!(begin(&db).get(&family, &key(1), ReadMode::Snapshot).expect("reads"), Some(value(1, 500)));
}

#[test]
fn a_transaction_larger_than_memory_and_a_prepared_one_keep_their_values() {
    let disk = FaultyDisk::new(1);
    let options = options(SyncMode::Full);
    let (db, family) = new_store(&disk, &options);
    let mut large = begin(&db);
    for n in 0..3000u32 {
        large.put(&family, &key(n), &value(n, 150)).expect("puts");
    }
    assert!(db.stats().spilled_runs > 0, "it outgrew memory");
    large.commit().expect("commits");
    let mut prepared = begin(&db);
    for n in 5000..5100u32 {
        prepared.put(&family, &key(n), &value(n, 150)).expect("puts");
    }
    prepared.prepare_xa(b"xid").expect("prepares");
    drop(prepared);
    db.flush().expect("flushes");
    db.end_value_files().expect("ends files");
    drop((family, db));
    let disk = disk.crash(Crash::Drop);
    let db = open(&disk, &options).expect("opens");
    db.end_value_files().expect("ends files");
    let family = db.family(b"t").expect("is there");
    assert!(db.commit_by_xid(b"xid").expect("commits"));
    let found: BTreeMap<_, _> = rows(&db, &family).expect("scans").into_iter().collect();
    let expected: BTreeMap<_, _> = (0..3000).chain(5000..5100).map(|n| (key(n), value(n, 150))).collect();
    assert!(found == expected);
}

/// Without a sync a power cut may take the value of a record that the log has: the log ends before it.
#[test]
fn a_record_without_its_whole_value_is_the_torn_tail() {
    let (mut torn, mut kept) = (0, 0);
    for seed in 0..60 {
        let disk = FaultyDisk::new(seed);
        let options = Options { write_buffer_size: 256 << 10, ..options(SyncMode::None) };
        let (db, family) = new_store(&disk, &options);
        for n in 0..10 {
            put(&db, &family, n, &value(n, 3000)).expect("puts");
        }
        db.flush_log().expect("syncs");
        // The sync that the new file has asked for in the background is not to cover what follows.
        std::thread::sleep(std::time::Duration::from_millis(20));
        for n in 10..30 {
            put(&db, &family, n, &value(n, 3000)).expect("puts");
        }
        drop((family, db));
        let disk = disk.crash([Crash::Reorder, Crash::Tear][seed as usize % 2]);
        let db = open(&disk, &options).expect("opens");
        let family = db.family(b"t").expect("is there");
        let found = rows(&db, &family).expect("every row that is there reads");
        let expected: Vec<_> = (0..found.len() as u32).map(|n| (key(n), value(n, 3000))).collect();
        assert!(found == expected, "seed {seed}: a prefix of the commits");
        assert!(found.len() >= 10, "seed {seed}: {} rows", found.len());
        torn += usize::from(found.len() < 30);
        kept += found.len() - 10;
        // What was kept is durable now.
        drop((family, db));
        let disk = disk.crash(Crash::Drop);
        let db = open(&disk, &options).expect("opens");
        assert_eq!(rows(&db, &db.family(b"t").expect("is there")).expect("reads").len(), found.len());
    }
    assert!(torn > 0 && kept > 10, "{torn} torn, {kept} kept");
}

#[test]
fn a_damaged_value_costs_its_row_and_is_named() {
    let disk = FaultyDisk::new(1);
    let options = Options { block_cache_size: 0, ..options(SyncMode::None) };
    let (db, family) = new_store(&disk, &options);
    for n in 0..5 {
        put(&db, &family, n, &value(n, 3000)).expect("puts");
    }
    db.flush().expect("flushes");
    let name = value_files(&disk)[0].clone();
    let path = Path::new(DIR).join(&name);
    let file = disk.shared().open(&path, OpenMode::ReadWrite).expect("opens");
    let mut bytes = vec![0; file.len().expect("a length") as usize];
    file.read_exact_at(&mut bytes, 0).expect("reads");
    let wanted = value(2, 3000);
    let at = bytes.windows(100).position(|window| window == &wanted[..100]).expect("is there");
    file.write_at(&[bytes[at + 50] ^ 1], at as u64 + 50).expect("writes");
    for n in 0..5 {
        let found = begin(&db).get(&family, &key(n), ReadMode::Snapshot);
        match found {
            Ok(found) if n != 2 => assert_eq!(found, Some(value(n, 3000))),
            Err(Error::Corruption { path, .. }) if n == 2 => assert!(path.ends_with(&name), "{path:?}"),
            other => panic!("{n}: {other:?}"),
        }
    }
    // A merge and a change of the row need no value.
    db.compact(&family).expect("merges");
    drop((family, db));
    let shared: Arc<dyn Disk> = disk.shared();
    let check = verify_store(&shared, Path::new(DIR), Watch::NONE).expect("reads");
    assert_eq!(check.damage.len(), 1, "{:?}", check.damage);
    assert!(check.damage[0].contains(&name) && check.damage[0].contains("'t'"), "{:?}", check.damage);
    let db = open(&disk, &options).expect("opens");
    let family = db.family(b"t").expect("is there");
    put(&db, &family, 2, &value(9, 3000)).expect("puts");
    assert_eq!(rows(&db, &family).expect("scans").len(), 5);
}

#[test]
fn backups_restores_and_repairs_have_the_values() {
    for links in [false, true] {
        let disk = FaultyDisk::new(1);
        let shared: Arc<dyn Disk> = disk.shared();
        let options = options(SyncMode::None);
        let (db, family) = new_store(&disk, &options);
        for n in 0..40 {
            put(&db, &family, n, &value(n, 2000)).expect("puts");
            if n == 20 {
                db.flush().expect("flushes");
            }
        }
        db.backup(Path::new("/backup"), BackupOptions { links }, Watch::NONE).expect("backs up");
        let expected = rows(&db, &family).expect("reads");
        for n in 0..40 {
            put(&db, &family, n, &value(n + 100, 2000)).expect("puts");
        }
        db.flush().expect("flushes");
        db.compact(&family).expect("merges");
        db.end_value_files().expect("ends files");
        let later = rows(&db, &family).expect("reads");
        drop((family, db));
        verify(&shared, Path::new("/backup"), Watch::NONE).expect("verifies");
        restore(&shared, Path::new("/backup"), Path::new("/restored"), None, Watch::NONE).expect("restores");
        assert_eq!(
            repair(&shared, Path::new(DIR), Path::new("/repaired"), Watch::NONE)
                .expect("repairs")
                .damage
                .len(),
            0
        );
        for (dir, expected) in [("/restored", &expected), ("/repaired", &later)] {
            let db = Db::open_on(disk.shared(), dir, options.clone(), None).expect("opens");
            let family = db.family(b"t").expect("is there");
            assert!(rows(&db, &family).expect("reads") == *expected, "{dir}");
        }
    }
}

#[test]
fn a_full_disk_refuses_a_value_and_loses_none() {
    let disk = FaultyDisk::new(1);
    let options = options(SyncMode::None);
    let (db, family) = new_store(&disk, &options);
    put(&db, &family, 1, &value(1, 3000)).expect("puts");
    let full =
        Fault { op: Some(Op::Write), path: ".val".into(), skip: 0, times: 1, failure: Failure::Enospc };
    disk.fail(full);
    let refused = put(&db, &family, 1, &value(2, 3000)).expect_err("no room");
    assert!(matches!(refused, Error::DiskFull(_)), "{refused}");
    let stats = db.stats();
    assert!(stats.disk_is_full && stats.disk_full_count == 1, "it is told");
    put(&db, &family, 2, &value(3, 3000)).expect("puts");
    // Room for one is none for all: a thread looks each second.
    assert!(db.stats().disk_is_full);
    let begun = std::time::Instant::now();
    while db.stats().disk_is_full {
        assert!(begun.elapsed() < std::time::Duration::from_secs(30), "the room is not noticed");
        disk.advance_clock(500_000);
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let expected = vec![(key(1), value(1, 3000)), (key(2), value(3, 3000))];
    assert!(rows(&db, &family).expect("reads") == expected);
}

/// The log is as durable as its values: a failed sync of a value file ends it.
#[test]
fn a_failed_sync_of_a_value_file_fails_the_log() {
    let disk = FaultyDisk::new(1);
    let options = options(SyncMode::Full);
    let (db, family) = new_store(&disk, &options);
    put(&db, &family, 1, &value(1, 3000)).expect("puts");
    disk.fail(Fault { op: Some(Op::Sync), path: ".val".into(), skip: 0, times: 1, failure: Failure::Eio });
    let lost = put(&db, &family, 1, &value(2, 3000)).expect_err("the sync fails");
    assert!(matches!(lost, Error::OutcomeUnknown), "{lost}");
    let refused = put(&db, &family, 1, &value(3, 3000)).expect_err("the log is over");
    assert!(matches!(refused, Error::ReadOnly(_)), "{refused}");
    assert_eq!(begin(&db).get(&family, &key(1), ReadMode::Snapshot).expect("reads"), Some(value(1, 3000)));
}

#[test]
fn random_changes_agree_with_a_model() {
    for seed in 0..20 {
        let disk = FaultyDisk::new(seed);
        let mut rng = Rng(seed + 1);
        let mut options = options([SyncMode::None, SyncMode::Full][seed as usize % 2]);
        options.compaction_threads = 1;
        options.write_buffer_size = [32 << 10, 256 << 10][seed as usize / 2 % 2];
        let longest = [2500, 30_000][seed as usize / 2 % 2];
        let (mut db, mut family) = new_store(&disk, &options);
        let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        for step in 0..400u32 {
            let n = rng.below(30) as u32;
            match rng.below(24) {
                20..=21 => {
                    let value = value(step, 20 + rng.below(longest) as usize);
                    parts::put_in_parts(&db, &family, n, &value);
                    model.insert(key(n), value);
                }
                22..=23 => {
                    let changed = model
                        .get_mut(&key(n))
                        .map(|value| (parts::change_first(&db, &family, n, step), value));
                    if let Some((Some(first), value)) = changed {
                        value[..first.len()].copy_from_slice(&first);
                    }
                }
                0..=11 => {
                    let value = value(step, rng.below(longest) as usize);
                    put(&db, &family, n, &value).expect("puts");
                    model.insert(key(n), value);
                }
                12..=14 => {
                    let mut txn = begin(&db);
                    txn.delete(&family, &key(n)).expect("deletes");
                    txn.commit().expect("commits");
                    model.remove(&key(n));
                }
                15 => db.flush().expect("flushes"),
                16 => db.compact(&family).expect("merges"),
                17 if rng.one_in(2) => {
                    db.end_value_files().expect("ends files");
                }
                17 => {
                    db.collect_values().expect("collects");
                }
                18 if rng.one_in(4) => {
                    drop(family);
                    db.close().expect("closes");
                    db = open(&disk, &options).expect("opens");
                    family = db.family(b"t").expect("is there");
                }
                _ => {
                    let found = begin(&db).get(&family, &key(n), ReadMode::Snapshot).expect("reads");
                    assert_eq!(found.as_ref(), model.get(&key(n)), "seed {seed}, step {step}");
                }
            }
        }
        let found: BTreeMap<_, _> = rows(&db, &family).expect("scans").into_iter().collect();
        assert!(found == model, "seed {seed}");
    }
}

/// A failed sync takes the pages' state with it: a later sync of the file would succeed and prove nothing.
#[test]
fn a_failed_sync_of_values_by_one_transaction_is_no_success_for_another() {
    let disk = FaultyDisk::new(1);
    let options = options(SyncMode::Full);
    let (db, family) = new_store(&disk, &options);
    let mut small = begin(&db);
    small.put(&family, &key(9999), &value(1, 3000)).expect("puts");
    let mut large = begin(&db);
    for n in 0..3000u32 {
        large.put(&family, &key(n), &value(n, 150)).expect("puts");
    }
    assert!(db.stats().spilled_runs > 0, "it outgrew memory");
    disk.fail(Fault { op: Some(Op::Sync), path: ".val".into(), skip: 0, times: 1, failure: Failure::Eio });
    large.commit().expect_err("its values are not durable");
    small.commit().expect_err("nor are these");
    drop((small, large));
    assert!(begin(&db).get(&family, &key(9999), ReadMode::Snapshot).expect("reads").is_none());
}

/// A recovery may find what the failed log has of a refused prepare, and its values with it.
#[test]
fn after_a_failure_of_the_log_no_value_file_ends() {
    let disk = FaultyDisk::new(1);
    let options = options(SyncMode::Full);
    let (db, family) = new_store(&disk, &options);
    let mut prepared = begin(&db);
    for n in 0..40u32 {
        prepared.put(&family, &key(n), &value(n, 2000)).expect("puts");
    }
    let before = value_files(&disk);
    assert!(before.len() > 1, "{before:?}");
    disk.fail(Fault { op: Some(Op::Sync), path: ".wal".into(), skip: 0, times: 1, failure: Failure::Eio });
    prepared.prepare_xa(b"xid").expect_err("the log fails");
    drop(prepared);
    db.end_value_files().expect_err("the log failed");
    assert_eq!(value_files(&disk), before);
    drop((family, db));
    let disk = disk.crash(Crash::Keep);
    let db = open(&disk, &options).expect("opens");
    let family = db.family(b"t").expect("is there");
    assert!(db.commit_by_xid(b"xid").expect("commits"), "the record is in the log");
    let expected: Vec<_> = (0..40).map(|n| (key(n), value(n, 2000))).collect();
    assert!(rows(&db, &family).expect("reads") == expected);
}

/// The file ends at every place within the last record, also within its key.
#[test]
fn a_value_file_that_is_cut_anywhere_is_a_torn_tail() {
    let disk = FaultyDisk::new(1);
    let options = options(SyncMode::None);
    let (db, family) = new_store(&disk, &options);
    put(&db, &family, 1, &value(1, 200)).expect("puts");
    db.flush_log().expect("syncs");
    put(&db, &family, 2, &value(2, 200)).expect("puts");
    drop((family, db));
    let path = Path::new(DIR).join(&value_files(&disk)[0]);
    let len = disk.shared().open(&path, OpenMode::Read).expect("opens").len().expect("a length");
    for cut in 0..250 {
        let disk = disk.crash(Crash::Kill);
        disk.shared().open(&path, OpenMode::ReadWrite).expect("opens").set_len(len - cut).expect("cuts");
        let db = open(&disk, &options).unwrap_or_else(|error| panic!("{cut} bytes: {error}"));
        let found = match rows(&db, &db.family(b"t").expect("is there")) {
            Ok(found) => found,
            // The file's first value has asked for a sync: it may have come late, and a durable value that is lost is damage.
            Err(Error::Corruption { .. }) if cut > 0 => continue,
            Err(error) => panic!("{cut} bytes: {error}"),
        };
        let expected: Vec<_> = (1..=2).map(|n| (key(n), value(n, 200))).collect();
        // Its last bytes are those of the key, which a durable record does not need.
        let least = if cut == 0 { 2 } else { 1 };
        assert!(
            found.len() >= least && found == expected[..found.len()],
            "{cut} bytes: {} rows",
            found.len()
        );
    }
}

/// Nothing asks for a sync in this mode: but what a power cut may take, and a recovery must read, stays bounded.
#[test]
fn values_are_synced_as_files_are_filled() {
    let disk = FaultyDisk::new(1);
    let options = Options { write_buffer_size: 64 << 10, ..options(SyncMode::None) };
    let (db, family) = new_store(&disk, &options);
    for n in 0..200 {
        put(&db, &family, n, &value(n, 3000)).expect("puts");
    }
    for _ in 0..1000 {
        let found = disk.crash(Crash::Drop);
        let other = open(&found, &options).expect("opens");
        let family = other.family(b"t").expect("is there");
        if rows(&other, &family).expect("reads").len() >= 150 {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("nothing synced the values");
}

/// The values of a killed process are in the page cache alone. A recovery that shows their rows has made them durable.
#[test]
fn recovered_values_outlive_a_power_cut() {
    let disk = FaultyDisk::new(1);
    let options = options(SyncMode::None);
    let (db, family) = new_store(&disk, &options);
    for n in 0..8 {
        put(&db, &family, n, &value(n, 2000)).expect("puts");
    }
    let expected = rows(&db, &family).expect("reads");
    drop((family, db));
    let disk = disk.crash(Crash::Kill);
    let db = open(&disk, &options).expect("opens");
    drop(db);
    let disk = disk.crash(Crash::Drop);
    let db = open(&disk, &options).expect("opens");
    assert!(rows(&db, &db.family(b"t").expect("is there")).expect("reads") == expected);
}

/// A backup is read while its owner can still act, and goes on without damaged files only when told to.
#[test]
fn a_damaged_or_missing_value_fails_a_backup_or_is_left_out() {
    for missing in [false, true] {
        let disk = FaultyDisk::new(1);
        let shared: Arc<dyn Disk> = disk.shared();
        let options = Options { block_cache_size: 0, ..options(SyncMode::None) };
        let (db, family) = new_store(&disk, &options);
        for n in 0..40 {
            put(&db, &family, n, &value(n, 2000)).expect("puts");
        }
        db.flush().expect("flushes");
        drop((family, db));
        let name = value_files(&disk)[0].clone();
        let path = Path::new(DIR).join(&name);
        if missing {
            shared.remove(&path).expect("removes");
        } else {
            let file = shared.open(&path, OpenMode::ReadWrite).expect("opens");
            file.write_at(&[0xff; 4096], 4096).expect("writes");
        }
        let db = open(&disk, &options).expect("opens");
        let refused = db.backup(Path::new("/refused"), BackupOptions::default(), Watch::NONE);
        match refused {
            Err(Error::Corruption { path, .. }) => assert!(path.ends_with(&name), "{path:?}"),
            other => panic!("{other:?}"),
        }
        let mut backup = db.begin_backup(Path::new("/partly"), BackupOptions::default()).expect("begins");
        backup.leave_out_damaged();
        backup.take_point(Watch::NONE).expect("takes its point");
        let info = backup.finish(Watch::NONE).expect("finishes");
        assert_eq!(info.left_out.len(), 1, "{:?}", info.left_out);
        assert!(info.left_out[0].file.ends_with(&name) && info.left_out[0].family == "t");
        drop(db);
        verify(&shared, Path::new("/partly"), Watch::NONE).expect("verifies");
        restore(&shared, Path::new("/partly"), Path::new("/restored"), None, Watch::NONE).expect("restores");
        let db = Db::open_on(disk.shared(), "/restored", options, None).expect("opens");
        let family = db.family(b"t").expect("is there");
        let read = |n| begin(&db).get(&family, &key(n), ReadMode::Snapshot);
        assert!(matches!(read(0), Err(Error::Corruption { .. })));
        assert_eq!(read(39).expect("reads"), Some(value(39, 2000)));
    }
}

/// One transaction alone, without a commit: its files are synced as they are filled.
#[test]
fn a_statement_that_begins_a_file_syncs_those_before() {
    let disk = FaultyDisk::new(1);
    let (db, family) = new_store(&disk, &options(SyncMode::None));
    let mut txn = begin(&db);
    disk.fail(Fault { op: Some(Op::Sync), path: ".val".into(), skip: 4, times: 1, failure: Failure::Eio });
    let failed = (0..200).find_map(|n| txn.put(&family, &key(n), &value(n, 3000)).err());
    assert!(matches!(failed, Some(Error::Io { .. })), "{failed:?}");
    txn.rollback().expect("rolls back");
    // Nothing is known of the others' values either.
    put(&db, &family, 1, &value(1, 3000)).expect("the log is not synced in this mode");
    db.flush_log().expect_err("and cannot be");
}
