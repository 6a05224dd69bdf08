//! Damage in a table file is reported, with the file's name, wherever it is met. No wrong data is returned or
//! copied; other files stay usable.

mod sim;

#[path = "damage/dictionary.rs"]
mod dictionary;
#[path = "damage/missing.rs"]
mod missing;
#[path = "damage/repair.rs"]
mod repair;
#[path = "damage/swapped.rs"]
mod swapped;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sim::{begin, open, rows, Row, DIR};
use tidesdb::internal::compaction::history::{Action, CompactionOutcome};
use tidesdb::internal::db::Db;
use tidesdb::internal::io::faulty::{Failure, Fault, Op};
use tidesdb::internal::io::{Disk, FaultyDisk};
use tidesdb::internal::store::family::Family;
use tidesdb::{Error, Options, SyncMode};

fn options() -> Options {
    // No cache worth the name: what was damaged is read again. A memtable that takes all that a test writes.
    let normal = sim::normal(SyncMode::Full);
    Options { compaction_threads: 0, block_cache_size: 4 << 10, write_buffer_size: 8 << 20, ..normal }
}

fn fill(db: &Db, family: &Arc<Family>, from: u32, count: u32) {
    let mut txn = begin(db);
    txn.statement_begin(true, Duration::from_secs(20)).expect("statement");
    for n in from..from + count {
        txn.put(family, &n.to_be_bytes(), &[n as u8; 100]).expect("puts");
    }
    txn.commit().expect("commits");
}

fn files(disk: &FaultyDisk) -> Vec<PathBuf> {
    let names = disk.list(Path::new(DIR)).expect("lists");
    names.iter().filter(|name| name.ends_with(".sst")).map(|name| Path::new(DIR).join(name)).collect()
}

/// A store with the rows of two families in files of their own; the file of the first.
fn two_families(disk: &FaultyDisk) -> (Vec<Row>, Vec<Row>, PathBuf) {
    let db = open(disk, &options()).expect("opens");
    let bad = db.create_family(b"bad", sim::tiny_family()).expect("creates");
    let good = db.create_family(b"good", sim::tiny_family()).expect("creates");
    // The dictionary's entries have a file of their own.
    db.flush().expect("flushes");
    // More than what a flush would merge with the next run.
    fill(&db, &bad, 0, 12_000);
    db.flush().expect("flushes");
    let file = files(disk).pop().expect("the newest file");
    fill(&db, &good, 0, 12_000);
    db.flush().expect("flushes");
    assert_eq!(files(disk).len(), 4, "the dictionary has two");
    assert!(disk.exists(&file).expect("exists"));
    let all = (rows(&db, &bad).expect("reads"), rows(&db, &good).expect("reads"), file);
    db.close().expect("closes");
    all
}

#[test]
fn a_damaged_block_is_told_and_the_rest_goes_on() {
    let disk = FaultyDisk::new(1);
    let (expected, good_rows, file) = two_families(&disk);
    let middle = disk.contents(&file).expect("there").len() as u64 / 2;
    assert!(disk.flip_bit(&file, middle, 3));
    let db = open(&disk, &options()).expect("opens");
    let (bad, good) = (db.family(b"bad").expect("there"), db.family(b"good").expect("there"));
    let named = |error: &Error| match error {
        Error::Corruption { path, .. } => assert_eq!(path, &file),
        other => panic!("{other}"),
    };
    named(&rows(&db, &bad).map(|rows| rows.len()).expect_err("a scan meets it"));
    named(&db.verify(&bad).expect_err("CHECK TABLE meets it"));
    named(&db.compact(&bad).expect_err("it is not carried into a new file"));
    assert!(disk.exists(&file).expect("exists"), "the damaged file stays");
    // Rows in other blocks of the file, writes to it, and all of the other family.
    let mut txn = begin(&db);
    let last = expected.last().expect("rows");
    let read = tidesdb::internal::txn::transaction::ReadMode::Snapshot;
    assert_eq!(txn.get(&bad, &last.0, read).expect("reads").as_ref(), Some(&last.1));
    txn.rollback().expect("rolls back");
    fill(&db, &bad, 20_000, 10);
    fill(&db, &good, 0, 10);
    db.flush().expect("flushes");
    db.compact(&good).expect("compacts");
    assert_eq!(rows(&db, &good).expect("reads"), good_rows);
    db.verify(&good).expect("is whole");
    db.close().expect("closes");
}

#[test]
fn any_flipped_bit_of_a_file_gives_an_error_or_the_right_rows() {
    let disk = FaultyDisk::new(1);
    let (expected, good_rows, file) = two_families(&disk);
    let length = disk.contents(&file).expect("there").len() as u64;
    let seed = sim::env("DAMAGE_SEED", 1);
    println!("DAMAGE_SEED={seed}");
    let mut rng = sim::Rng(seed);
    let mut told = 0;
    let rounds = 45;
    for round in 0..rounds {
        // Every third one near the end, where index and footer are.
        let offset = match round % 3 {
            0 => length - 1 - rng.below(2000),
            _ => rng.below(length),
        };
        let bit = rng.below(8) as u8;
        let what = format!("bit {bit} of byte {offset} of {length}");
        assert!(disk.flip_bit(&file, offset, bit), "{what}");
        match open(&disk, &options()) {
            Ok(db) => {
                let (bad, good) = (db.family(b"bad").expect("there"), db.family(b"good").expect("there"));
                match rows(&db, &bad) {
                    Ok(rows) => assert!(rows == expected, "{what}: wrong rows"),
                    Err(Error::Corruption { path, .. }) => {
                        told += 1;
                        assert_eq!(path, file, "{what}");
                    }
                    Err(other) => panic!("{what}: {other}"),
                }
                assert_eq!(rows(&db, &good).expect("reads"), good_rows, "{what}");
                db.close().expect("closes");
            }
            Err(error) => panic!("{what}: the store does not open: {error}"),
        }
        assert!(disk.flip_bit(&file, offset, bit), "back");
    }
    assert!(told > rounds / 2, "{told} of {rounds} flips were told");
}

/// Compaction meets the damage of one family again and again; the runs of the other are merged all the same.
#[test]
fn the_compaction_of_others_goes_on() {
    let disk = FaultyDisk::new(1);
    let (_, _, file) = two_families(&disk);
    let middle = disk.contents(&file).expect("there").len() as u64 / 2;
    assert!(disk.flip_bit(&file, middle, 3));
    let options = Options { compaction_threads: 1, base_level_size: 1 << 20, ..options() };
    let db = open(&disk, &options).expect("opens");
    let (bad, good) = (db.family(b"bad").expect("there"), db.family(b"good").expect("there"));
    let runs = |family: &Arc<Family>| db.family_stats(family).expect("counts").runs;
    for round in 0..6 {
        fill(&db, &bad, round * 12_000, 12_000);
        db.flush().expect("flushes");
        fill(&db, &good, round * 12_000, 12_000);
        db.flush().expect("flushes");
    }
    let begun = std::time::Instant::now();
    while runs(&good) > 3 {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "{} runs of the family that is whole, {} of the other",
            runs(&good),
            runs(&bad)
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Only the damaged file is in quarantine: the newer runs of its family are merged, so they do not pile up.
#[test]
fn the_other_runs_of_the_damaged_family_are_merged() {
    let disk = FaultyDisk::new(1);
    let (_, _, file) = two_families(&disk);
    let middle = disk.contents(&file).expect("there").len() as u64 / 2;
    assert!(disk.flip_bit(&file, middle, 3));
    let db = open(&disk, &Options { compaction_threads: 1, ..options() }).expect("opens");
    let bad = db.family(b"bad").expect("there");
    for round in 1..9 {
        // It expects that no statement waits for 20 seconds.
        fill(&db, &bad, round * 12_000, 12_000);
        db.flush().expect("flushes");
    }
    let runs = || db.family_stats(&bad).expect("counts").runs;
    let begun = std::time::Instant::now();
    while runs() > 3 {
        assert!(begun.elapsed() < Duration::from_secs(30), "{} runs", runs());
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(disk.exists(&file).expect("exists"), "the damaged file stays");
}

/// A sink of messages, and the messages.
fn told() -> (tidesdb::LogSink, Arc<Mutex<Vec<String>>>) {
    let told = Arc::new(Mutex::new(Vec::new()));
    let into = told.clone();
    let sink = tidesdb::LogSink::new(move |level, message| {
        if level >= tidesdb::LogLevel::Warn {
            into.lock().expect("whole").push(message.to_string());
        }
    });
    (sink, told)
}

/// A family with a single, small and damaged run, due to be merged by the next flush; and an undamaged
/// family. Returns the rows of the latter and the damaged file.
fn small_run(disk: &FaultyDisk) -> (Vec<Row>, PathBuf) {
    let db = open(disk, &options()).expect("opens");
    let small = db.create_family(b"small", sim::tiny_family()).expect("creates");
    let good = db.create_family(b"good", sim::tiny_family()).expect("creates");
    // The dictionary's entries have a file of their own.
    db.flush().expect("flushes");
    fill(&db, &small, 0, 100);
    db.flush().expect("flushes");
    let file = files(disk).pop().expect("the newest file");
    fill(&db, &good, 0, 100);
    db.flush().expect("flushes");
    let rows = rows(&db, &good).expect("reads");
    drop((small, good));
    db.close().expect("closes");
    assert!(disk.exists(&file).expect("exists"));
    assert!(disk.flip_bit(&file, 50, 3), "a block of the small family");
    (rows, file)
}

/// A flush merges small runs of level 0 with its memtable. Damage in one of them keeps neither the memtable
/// from the disk nor the others from being merged.
#[test]
fn a_flush_goes_on_without_the_damaged_small_run() {
    let disk = FaultyDisk::new(1);
    let (expected, file) = small_run(&disk);
    let (log, told) = told();
    let db = open(&disk, &Options { log: Some(log), ..options() }).expect("opens");
    let (small, good) = (db.family(b"small").expect("there"), db.family(b"good").expect("there"));
    // Without the memtable.
    let runs = |family| db.family_stats(family).expect("counts").runs - 1;
    for round in 0..3 {
        fill(&db, &small, 50 + round, 10);
        fill(&db, &good, round, 10);
        db.flush().expect("what is in memory goes to files");
        // The other family's small run is merged along as ever, and so are the newer ones of this.
        assert_eq!((runs(&small), runs(&good)), (2, 1), "round {round}");
    }
    let told = told.lock().expect("whole").clone();
    assert_eq!(told.len(), 1, "it is read once, then left alone: {told:?}");
    assert!(told[0].contains(file.to_str().expect("a name")), "{told:?}");
    assert_eq!(rows(&db, &good).expect("reads"), expected);
    let told = db.verify(&small).expect_err("the damage is still told");
    assert!(matches!(told, Error::Corruption { .. }), "{told}");
    db.close().expect("closes");
}

/// An I/O error of the flush's own output is no damage of its inputs: nothing is put in quarantine, the flush
/// is tried again.
#[test]
fn an_error_of_the_new_file_puts_nothing_in_quarantine() {
    let disk = FaultyDisk::new(1);
    let (log, told) = told();
    let db = open(&disk, &Options { log: Some(log), ..options() }).expect("opens");
    let good = db.create_family(b"good", sim::tiny_family()).expect("creates");
    fill(&db, &good, 0, 100);
    db.flush().expect("flushes");
    fill(&db, &good, 0, 10);
    let (op, path, failure) = (Some(Op::Write), ".sst".into(), Failure::Eio);
    disk.fail(Fault { op, path, skip: 0, times: 1, failure });
    let failed = db.flush().expect_err("whoever asks for a flush hears of it");
    assert!(matches!(failed, Error::Io { .. }), "{failed}");
    db.flush().expect("at the second try");
    let told = told.lock().expect("whole").clone();
    assert!(told.len() == 1 && told[0].contains("flush failed"), "{told:?}");
    assert_eq!(db.family_stats(&good).expect("counts").runs, 2, "the memtable, and one run of both flushes");
}

/// The same for the log's content at an opening after a crash.
#[test]
fn a_store_with_a_damaged_small_run_opens() {
    let disk = FaultyDisk::new(1);
    let (expected, _) = small_run(&disk);
    let options = Options { flush_on_close: false, ..options() };
    let db = open(&disk, &options).expect("opens");
    let (small, good) = (db.family(b"small").expect("there"), db.family(b"good").expect("there"));
    fill(&db, &small, 50, 10);
    fill(&db, &good, 0, 10);
    drop((small, good));
    db.close().expect("closes");
    let db = open(&disk, &options).expect("one damaged table does not keep the others from being opened");
    let good = db.family(b"good").expect("there");
    assert_eq!(rows(&db, &good).expect("reads"), expected);
    db.close().expect("closes");
}

/// More rows than in a table merged by a flush with the next one, fewer than in one with its own file.
const SHARED_ROWS: u32 = 300;

fn sharing() -> Options {
    Options { write_buffer_size: 512 << 10, ..options() }
}

/// Files shared by four families, with all but the first dropped: each is worth rewriting. Returns the files.
fn sparse(disk: &FaultyDisk, names: &[&str]) -> Vec<PathBuf> {
    let db = open(disk, &sharing()).expect("opens");
    let gone = |name: &str| ["x", "y", "z"].map(|other| format!("{name}-{other}"));
    let mut shared = Vec::new();
    for name in names {
        let all = std::iter::once(name.to_string()).chain(gone(name));
        let all: Vec<_> =
            all.map(|name| db.create_family(name.as_bytes(), sim::tiny_family()).expect("creates")).collect();
        db.flush().expect("flushes");
        all.iter().for_each(|family| fill(&db, family, 0, SHARED_ROWS));
        db.flush().expect("flushes");
        shared.push(files(disk).pop().expect("the newest file"));
    }
    for name in names.iter().flat_map(|name| gone(name)) {
        let mut ddl = db.ddl().expect("begins");
        ddl.drop_family(name.as_bytes()).expect("there");
        ddl.commit().expect("drops");
    }
    db.close().expect("closes");
    let is_shared = |file: &PathBuf| disk.contents(file).is_some_and(|bytes| bytes.len() > 120 << 10);
    assert!(shared.iter().all(is_shared), "all families are in it, and it is still needed");
    shared
}

/// The survivor of a shared file is damaged and its family in quarantine. Nothing can be rewritten for now,
/// and nobody tries again and again without a pause.
#[test]
fn a_file_that_cannot_be_rewritten_does_not_keep_merges_busy() {
    let disk = FaultyDisk::new(1);
    let file = sparse(&disk, &["bad"]).remove(0);
    assert!(disk.flip_bit(&file, 10_000, 3), "a block of what is left");
    let db = open(&disk, &Options { compaction_threads: 1, ..sharing() }).expect("opens");
    let bad = db.family(b"bad").expect("there");
    // A second run: the merge of both fails, and the family is put in quarantine.
    fill(&db, &bad, 0, SHARED_ROWS);
    db.flush().expect("flushes");
    let met = |db: &Db| {
        db.compactions()
            .iter()
            .any(|job| job.action == Action::Merge && job.outcome == CompactionOutcome::Failed)
    };
    let begun = std::time::Instant::now();
    while !met(&db) {
        assert!(begun.elapsed() < Duration::from_secs(20), "no merge met the damage");
        std::thread::sleep(Duration::from_millis(10));
    }
    // The thread pauses after an error, for five seconds at most.
    std::thread::sleep(Duration::from_secs(7));
    let jobs = db.compactions().iter().map(|job| job.id).max().unwrap_or(0);
    assert!(jobs < 30, "{jobs} jobs within some seconds");
    drop(bad);
    db.close().expect("closes");
}

/// Of two sparse files the first is damaged: the second is rewritten all the same, and unlinked.
#[test]
fn the_rewrite_of_other_files_goes_on() {
    let disk = FaultyDisk::new(1);
    let shared = sparse(&disk, &["bad", "good"]);
    assert!(disk.flip_bit(&shared[0], 10_000, 3), "a block of what is left");
    let db = open(&disk, &Options { compaction_threads: 1, ..sharing() }).expect("opens");
    let begun = std::time::Instant::now();
    while disk.exists(&shared[1]).expect("exists") {
        assert!(begun.elapsed() < Duration::from_secs(20), "the whole file is still there, half of it dead");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(disk.exists(&shared[0]).expect("exists"), "the damaged file stays");
    db.close().expect("closes");
}
