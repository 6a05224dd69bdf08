//! Ranges of deleted keys and the scans that jump over them, with inserts at any place and at any moment. A
//! scan finds the same as point reads of its snapshot, and a consumer finds every row from before its scan.
//!
//! `DEAD_SEED` seeds the random threads, `DEAD_MS` is their time in milliseconds.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rand::{rngs::StdRng, Rng, SeedableRng};
use tidesdb::internal::db::Db;
use tidesdb::internal::store::family::Family;
use tidesdb::internal::txn::cursor::{Cursor, Scan, Start};
use tidesdb::internal::txn::transaction::{ReadMode, Transaction};
use tidesdb::{Error, FamilyOptions, Isolation, Options, SyncMode, TransactionOptions};

/// Number of possible keys.
const KEYS: u64 = 400;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|s| s.parse().ok()).unwrap_or(default)
}

fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

struct Bed {
    _dir: tempfile::TempDir,
    db: Db,
    family: Arc<Family>,
}

impl Bed {
    fn new() -> Bed {
        let dir = tempfile::tempdir().expect("directory");
        let options = Options {
            write_buffer_size: 256 << 10,
            wal_segment_size: 256 << 10,
            sync_mode: SyncMode::None,
            deleted_run: 4,
            ..Options::default()
        };
        let db = Db::open(dir.path(), options).expect("opens");
        let family = db.create_family(b"t", FamilyOptions::default()).expect("creates");
        Bed { _dir: dir, db, family }
    }

    fn begin(&self, isolation: Isolation) -> Transaction {
        let mut txn = self.db.transaction();
        txn.begin(TransactionOptions { isolation, ..TransactionOptions::default() }).expect("begins");
        txn
    }

    /// Keys in the order of a scan, at most so many.
    fn scan(
        &self,
        txn: &mut Transaction,
        start: Start,
        mode: ReadMode,
        most: usize,
    ) -> Result<Vec<u64>, Error> {
        let mut cursor = Cursor::new(self.family.clone());
        let mut keys = Vec::new();
        let mut found = cursor.seek(txn, &Scan { start, mode, expect: 8, ..Scan::default() })?;
        while found && keys.len() < most {
            let mut batch: Vec<u64> = Vec::new();
            for at in 0..cursor.len() {
                batch.push(u64::from_be_bytes(cursor.row(at).0.try_into().expect("a key")));
            }
            keys.extend(&batch);
            found = keys.len() < most && cursor.fetch(txn, batch.len() - 1, start.is_forward())?;
        }
        keys.truncate(most);
        Ok(keys)
    }
}

/// Inserts at random places alongside deletions from both ends; all snapshots are read in both ways.
#[test]
fn a_scan_finds_what_point_reads_find() {
    let (seed, bed) = (number("DEAD_SEED", rand::random()), Bed::new());
    println!("DEAD_SEED={seed}");
    let end = Instant::now() + Duration::from_millis(number("DEAD_MS", 3000));
    let (compared, deleted) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for thread in 0..5 {
            let (bed, compared, deleted) = (&bed, &compared, &deleted);
            scope.spawn(move || {
                let mut rng = StdRng::seed_from_u64(seed.wrapping_add(thread));
                while Instant::now() < end {
                    match thread {
                        0 | 1 => insert(bed, rng.gen_range(0..KEYS)),
                        2 => {
                            let forward = rng.gen();
                            deleted.fetch_add(delete_some(bed, forward, rng.gen_range(1..30)), Relaxed);
                        }
                        _ => {
                            compare(bed, rng.gen());
                            compared.fetch_add(1, Relaxed);
                        }
                    }
                }
            });
        }
    });
    assert!(compared.into_inner() > 20 && deleted.into_inner() > 200);
}

fn insert(bed: &Bed, number: u64) {
    let mut txn = bed.begin(Isolation::ReadCommitted);
    txn.put(&bed.family, &key(number), b"value").and_then(|()| txn.commit()).expect("inserts");
}

fn delete_some(bed: &Bed, forward: bool, most: usize) -> u64 {
    let mut txn = bed.begin(Isolation::ReadCommitted);
    let start = if forward { Start::First } else { Start::Last };
    let keys = bed.scan(&mut txn, start, ReadMode::Snapshot, most).expect("scans");
    for &number in &keys {
        txn.delete(&bed.family, &key(number)).expect("deletes");
    }
    txn.commit().expect("commits");
    keys.len() as u64
}

fn compare(bed: &Bed, forward: bool) {
    let mut txn = bed.begin(Isolation::RepeatableRead);
    let start = if forward { Start::First } else { Start::Last };
    let mut scanned = bed.scan(&mut txn, start, ReadMode::Snapshot, usize::MAX).expect("scans");
    if !forward {
        scanned.reverse();
    }
    let found: Vec<u64> = (0..KEYS)
        .filter(|&number| txn.get(&bed.family, &key(number), ReadMode::Snapshot).expect("reads").is_some())
        .collect();
    assert_eq!(scanned, found);
    txn.rollback().expect("rolls back");
}

/// One consumer takes the first row, or the last one, under its lock; a row inserted before its scan is never
/// passed over.
#[test]
fn a_consumer_finds_what_was_there_before_it_looked() {
    let (seed, bed) = (number("DEAD_SEED", rand::random()), Bed::new());
    println!("DEAD_SEED={seed}");
    let end = Instant::now() + Duration::from_millis(number("DEAD_MS", 3000));
    // Insertions that were answered, less deletions: one that is not answered yet may be deleted.
    let (there, stop) = (Mutex::new(BTreeMap::<u64, i32>::new()), AtomicBool::new(false));
    let count = |number: u64, change: i32| {
        let mut there = there.lock().expect("lives");
        let now = there.remove(&number).unwrap_or(0) + change;
        if now != 0 {
            there.insert(number, now);
        }
    };
    let mut taken = 0;
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (bed, there, stop, count) = (&bed, &there, &stop, &count);
            scope.spawn(move || {
                let mut rng = StdRng::seed_from_u64(seed.wrapping_add(thread));
                while !stop.load(Relaxed) {
                    // Each its own keys: a key is inserted by nobody else while it is taken.
                    let number = rng.gen_range(0..KEYS / 2) * 2 + thread;
                    if there.lock().expect("lives").contains_key(&number) {
                        std::thread::yield_now();
                        continue;
                    }
                    insert(bed, number);
                    count(number, 1);
                }
            });
        }
        let mut rng = StdRng::seed_from_u64(seed.wrapping_add(9));
        while Instant::now() < end {
            let (forward, isolation) = match rng.gen_range(0..4) {
                0 => (false, Isolation::ReadCommitted),
                1 => (true, Isolation::RepeatableRead),
                _ => (true, Isolation::ReadCommitted),
            };
            let before = there.lock().expect("lives").clone();
            let mut before = before.into_iter().filter(|&(_, count)| count > 0).map(|(number, _)| number);
            let mut txn = bed.begin(isolation);
            let start = if forward { Start::First } else { Start::Last };
            let found = match bed.scan(&mut txn, start, ReadMode::Exclusive, 1) {
                Ok(found) => found.first().copied(),
                Err(error) => {
                    stop.store(true, Relaxed);
                    panic!("the only one who waits: {error}");
                }
            };
            let must = if forward { before.next() } else { before.next_back() };
            let passed = match (must, found, forward) {
                (Some(must), Some(found), true) => found > must,
                (Some(must), Some(found), false) => found < must,
                (Some(_), None, _) => true,
                (None, _, _) => false,
            };
            if passed {
                stop.store(true, Relaxed);
                panic!("{must:?} was there, and {found:?} was found");
            }
            if let Some(found) = found {
                txn.delete(&bed.family, &key(found)).expect("deletes");
                txn.commit().expect("commits");
                count(found, -1);
                taken += 1;
            } else {
                txn.rollback().expect("rolls back");
            }
        }
        stop.store(true, Relaxed);
    });
    assert!(taken > 200, "{taken} taken");
}
