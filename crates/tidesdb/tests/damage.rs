//! Damage in a table file: it is told, by the name of the file, wherever it is met; nothing wrong is handed
//! out or carried on; what lies in other files goes on.

mod sim;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sim::{begin, open, rows, Row, DIR};
use tidesdb::db::family::Family;
use tidesdb::io::{Disk, FaultyDisk};
use tidesdb::options::{Options, SyncMode};
use tidesdb::{Db, Error};

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
    // More than what a flush would merge with the next run.
    fill(&db, &bad, 0, 12_000);
    db.flush().expect("flushes");
    let file = files(disk).pop().expect("one file");
    fill(&db, &good, 0, 12_000);
    db.flush().expect("flushes");
    assert_eq!(files(disk).len(), 2);
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
    let read = tidesdb::txn::transaction::ReadMode::Snapshot;
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

/// The runs of a family whose damaged file keeps them from being merged pile up beyond where writers stop; nobody
/// would end that stop, so that nobody is stopped.
#[test]
fn runs_that_damage_piles_up_stop_no_writer() {
    let disk = FaultyDisk::new(1);
    let (_, _, file) = two_families(&disk);
    let middle = disk.contents(&file).expect("there").len() as u64 / 2;
    assert!(disk.flip_bit(&file, middle, 3));
    let db = open(&disk, &Options { compaction_threads: 1, ..options() }).expect("opens");
    let (bad, good) = (db.family(b"bad").expect("there"), db.family(b"good").expect("there"));
    let stop = bad.options().l0_stall_threshold as usize;
    for round in 0..stop as u32 + 3 {
        // It expects that no statement waits for 20 seconds.
        fill(&db, &bad, round * 12_000, 12_000);
        db.flush().expect("flushes");
    }
    let runs = db.family_stats(&bad).expect("counts").runs;
    assert!(runs as usize > stop, "{runs} runs, writers stop at {stop}");
    fill(&db, &good, 0, 10);
}
