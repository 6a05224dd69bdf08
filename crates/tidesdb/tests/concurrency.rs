//! Threads against one store, with constants so small that memtables rotate and files merge all the time.
//! Snapshots hold still, no update is lost, indexes agree with their tables, scans miss nothing.
//!
//! `CONCURRENCY_MS` is the time of each test in milliseconds, `CONCURRENCY_SEED` seeds the threads (not their
//! interleaving).

mod sim;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sim::{begin_as, env, scan, Asked, Rng, Row};
use tidesdb::internal::db::Db;
use tidesdb::internal::store::family::Family;
use tidesdb::internal::txn::transaction::{Change, ChangeKind, PointRead, ReadMode, Transaction};
use tidesdb::{Error, FamilyOptions, Isolation, Options, SyncMode, TransactionOptions};

/// The work of a thread, repeated.
type Work<'a> = Box<dyn Fn(&mut Rng) + Sync + 'a>;

struct Bench {
    _dir: tempfile::TempDir,
    db: Db,
    stop: AtomicBool,
    seed: u64,
}

impl Bench {
    fn new() -> Bench {
        let dir = tempfile::tempdir().expect("directory");
        let options = Options {
            write_buffer_size: 64 << 10,
            block_cache_size: 32 << 10,
            wal_segment_size: 128 << 10,
            target_file_size: 16 << 10,
            base_level_size: 64 << 10,
            sync_mode: SyncMode::None,
            ..Options::default()
        };
        let db = Db::open(dir.path(), options).expect("opens");
        let seed = env("CONCURRENCY_SEED", 1);
        println!("CONCURRENCY_SEED={seed}");
        Bench { _dir: dir, db, stop: AtomicBool::new(false), seed }
    }

    fn family(&self, name: &str) -> Arc<Family> {
        let options = FamilyOptions { l0_stall_threshold: 12, ..sim::tiny_family() };
        let options = FamilyOptions { block_size: 256, ..options };
        self.db.create_family(name.as_bytes(), options).expect("creates")
    }

    /// Runs the threads until the time is over; each gets a generator of its own.
    fn run(&self, threads: Vec<(usize, Work<'_>)>) {
        let until = Instant::now() + Duration::from_millis(env("CONCURRENCY_MS", 2500));
        std::thread::scope(|scope| {
            let mut ordinal = 0;
            for (count, work) in &threads {
                for _ in 0..*count {
                    ordinal += 1;
                    let mut rng = Rng(self.seed * 1000 + ordinal);
                    scope.spawn(move || {
                        // A thread that panics ends the others too.
                        let _stop = StopOnPanic(&self.stop);
                        while !self.stop.load(SeqCst) {
                            work(&mut rng);
                        }
                    });
                }
            }
            while Instant::now() < until && !self.stop.load(SeqCst) {
                std::thread::sleep(Duration::from_millis(20));
            }
            self.stop.store(true, SeqCst);
        });
        let stats = self.db.stats();
        println!(
            "{} commits, {} flushes, {} compactions, locks {:?}",
            stats.commits, stats.flush_count, stats.compaction_count, stats.locks
        );
        assert!(stats.flush_count > 3, "memtables rotated meanwhile");
    }

    fn begin(&self, isolation: Isolation) -> Transaction {
        self.begin_as(TransactionOptions { isolation, ..TransactionOptions::default() })
    }

    fn begin_as(&self, options: TransactionOptions) -> Transaction {
        let mut txn = begin_as(&self.db, options);
        txn.set_lock_timeout(Some(Duration::from_secs(20)));
        txn.statement_begin(true, Duration::from_secs(20)).expect("statement");
        txn
    }

    /// Flushes and merges from time to time.
    fn upkeep(&self, family: &Arc<Family>, rng: &mut Rng) {
        match rng.below(3) {
            0 => self.db.compact(family).expect("compacts"),
            _ => self.db.flush().expect("flushes"),
        }
        std::thread::sleep(Duration::from_millis(rng.below(60)));
    }
}

struct StopOnPanic<'a>(&'a AtomicBool);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, SeqCst);
        }
    }
}

fn number(value: &[u8]) -> u64 {
    u64::from_le_bytes(value[..8].try_into().expect("8 bytes"))
}

/// A value with a number at its start; its length varies to fill memtables.
fn with_number(n: u64, rng: &mut Rng) -> Vec<u8> {
    let mut value = n.to_le_bytes().to_vec();
    value.resize(8 + rng.below(100) as usize, n as u8);
    value
}

fn key(n: u64) -> Vec<u8> {
    n.to_be_bytes().to_vec()
}

fn may_be_retried(error: &Error) -> bool {
    matches!(error, Error::Conflict | Error::Deadlock | Error::LockTimeout)
}

fn load(bench: &Bench, family: &Arc<Family>, keys: u64, value: u64) {
    let mut txn = bench.begin(Isolation::RepeatableRead);
    for n in 0..keys {
        txn.put(family, &key(n), &value.to_le_bytes()).expect("puts");
    }
    txn.commit().expect("commits");
}

fn sum(rows: &[Row]) -> u64 {
    rows.iter().map(|(_, value)| number(value)).sum()
}

#[test]
fn transfers_keep_the_sum_in_every_snapshot() {
    const ACCOUNTS: u64 = 40;
    for optimistic in [false, true] {
        let bench = Bench::new();
        let family = bench.family("accounts");
        load(&bench, &family, ACCOUNTS, 1000);
        let (done, tried, sums) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
        let transfer = |rng: &mut Rng| {
            let (from, to, amount) = (rng.below(ACCOUNTS), rng.below(ACCOUNTS), rng.below(50));
            if from == to {
                return;
            }
            tried.fetch_add(1, SeqCst);
            let mut txn = bench.begin_as(TransactionOptions { optimistic, ..TransactionOptions::default() });
            let mut work = || -> Result<(), Error> {
                let a = number(&txn.get(&family, &key(from), ReadMode::Snapshot)?.expect("there"));
                let b = number(&txn.get(&family, &key(to), ReadMode::Snapshot)?.expect("there"));
                let amount = amount.min(a);
                txn.put(&family, &key(from), &with_number(a - amount, rng))?;
                txn.put(&family, &key(to), &with_number(b + amount, rng))?;
                txn.commit()
            };
            match work() {
                Ok(()) => {
                    done.fetch_add(1, SeqCst);
                }
                Err(error) => {
                    assert!(may_be_retried(&error), "{error}");
                    txn.rollback().expect("rolls back");
                }
            }
        };
        let read = |rng: &mut Rng| {
            let mut txn = bench.begin(Isolation::RepeatableRead);
            let forward = scan(&bench.db, &mut txn, &family, &Asked::all(true)).expect("scans");
            assert_eq!((forward.len() as u64, sum(&forward)), (ACCOUNTS, ACCOUNTS * 1000), "forward");
            if rng.one_in(3) {
                std::thread::sleep(Duration::from_millis(rng.below(100)));
            }
            let mut backward = scan(&bench.db, &mut txn, &family, &Asked::all(false)).expect("scans");
            backward.reverse();
            assert_eq!(forward, backward, "one snapshot, two answers");
            for (key, value) in &forward {
                let got = txn.get(&family, key, ReadMode::Snapshot).expect("reads");
                assert_eq!(got.as_ref(), Some(value), "a point read in the snapshot of the scan");
            }
            sums.fetch_add(1, SeqCst);
            txn.rollback().expect("ends");
        };
        bench.run(vec![
            (3, Box::new(transfer)),
            (2, Box::new(read)),
            (1, Box::new(|rng: &mut Rng| bench.upkeep(&family, rng))),
        ]);
        let (done, tried) = (done.load(SeqCst), tried.load(SeqCst));
        println!("optimistic {optimistic}: {done} of {tried} transfers, {} sums", sums.load(SeqCst));
        assert!(done * 10 >= tried * 3, "{done} of {tried} transfers");
        assert!(sums.load(SeqCst) > 10);
    }
}

#[test]
fn a_literal_computed_from_a_read_is_never_written_over_another() {
    const ROWS: u64 = 16;
    for optimistic in [false, true] {
        let bench = Bench::new();
        let family = bench.family("rows");
        load(&bench, &family, ROWS, 0);
        let (done, tried) = (AtomicU64::new(0), AtomicU64::new(0));
        let add = |rng: &mut Rng| {
            let at = key(rng.below(ROWS));
            tried.fetch_add(1, SeqCst);
            let mut txn = bench.begin_as(TransactionOptions { optimistic, ..TransactionOptions::default() });
            let mut work = || -> Result<(), Error> {
                let n = number(&txn.get(&family, &at, ReadMode::Snapshot)?.expect("there"));
                if rng.one_in(50) {
                    std::thread::yield_now();
                }
                txn.statement_begin(true, Duration::from_secs(20))?;
                txn.put(&family, &at, &with_number(n + 1, rng))?;
                txn.commit()
            };
            match work() {
                Ok(()) => {
                    done.fetch_add(1, SeqCst);
                }
                Err(error) => {
                    assert!(may_be_retried(&error), "{error}");
                    txn.rollback().expect("rolls back");
                }
            }
        };
        bench.run(vec![(8, Box::new(add)), (1, Box::new(|rng: &mut Rng| bench.upkeep(&family, rng)))]);
        let rows = sim::rows(&bench.db, &family).expect("reads");
        let (done, tried) = (done.load(SeqCst), tried.load(SeqCst));
        println!("optimistic {optimistic}: {done} of {tried}");
        assert_eq!(sum(&rows), done, "updates that were answered, and updates that are there");
        assert!(done * 10 >= tried * 3, "{done} of {tried} attempts succeed");
    }
}

#[test]
fn autocommit_counters_meet_no_error() {
    for (isolation, optimistic) in [
        (Isolation::RepeatableRead, false),
        (Isolation::ReadCommitted, false),
        (Isolation::RepeatableRead, true),
        (Isolation::ReadCommitted, true),
    ] {
        let bench = Bench::new();
        let family = bench.family("counter");
        load(&bench, &family, 2, 0);
        let done = AtomicU64::new(0);
        let add = |rng: &mut Rng| {
            let at = key(rng.below(2));
            let mut txn =
                bench.begin_as(TransactionOptions { isolation, optimistic, ..TransactionOptions::default() });
            let n =
                number(&txn.get(&family, &at, ReadMode::Exclusive).expect("locks and reads").expect("there"));
            txn.put(&family, &at, &with_number(n + 1, rng)).expect("writes");
            txn.commit().expect("commits");
            done.fetch_add(1, SeqCst);
        };
        bench.run(vec![(8, Box::new(add)), (1, Box::new(|rng: &mut Rng| bench.upkeep(&family, rng)))]);
        let rows = sim::rows(&bench.db, &family).expect("reads");
        println!("{isolation:?}, optimistic {optimistic}: {}", done.load(SeqCst));
        assert_eq!(sum(&rows), done.load(SeqCst), "{isolation:?}, optimistic {optimistic}");
    }
}

#[test]
#[allow(clippy::too_many_lines, reason = "writers, readers and their check")]
fn an_index_agrees_with_its_table_in_every_snapshot() {
    const ROWS: u64 = 300;
    let bench = Bench::new();
    let (table, index) = (bench.family("table"), bench.family("index"));
    let entry = |value: u64, row: u64| [value.to_be_bytes(), row.to_be_bytes()].concat();
    for chunk in (0..ROWS).collect::<Vec<_>>().chunks(50) {
        let mut txn = bench.begin(Isolation::RepeatableRead);
        for &row in chunk {
            txn.put(&table, &key(row), &0u64.to_le_bytes()).expect("puts");
            txn.put(&index, &entry(0, row), b"").expect("puts");
        }
        txn.commit().expect("commits");
    }
    let (changed, checked) = (AtomicU64::new(0), AtomicU64::new(0));
    let change = |rng: &mut Rng| {
        let row = rng.below(ROWS);
        let isolation = *rng.pick(&[Isolation::RepeatableRead, Isolation::ReadCommitted]);
        let mut txn = bench.begin(isolation);
        let mut work = || -> Result<bool, Error> {
            // The row first, then its entries. At READ COMMITTED nothing is kept of a row that is not there:
            // it may come meanwhile.
            let old = txn.get(&table, &key(row), ReadMode::Exclusive)?;
            let new = rng.below(50);
            if let Some(old) = &old {
                txn.delete(&index, &entry(number(old), row))?;
            }
            if old.is_some() && rng.one_in(6) {
                txn.single_delete(&table, &key(row))?;
            } else {
                match &old {
                    Some(_) => txn.put(&table, &key(row), &with_number(new, rng))?,
                    None => txn.insert(&table, &key(row), &with_number(new, rng))?,
                }
                txn.put(&index, &entry(new, row), b"")?;
            }
            if rng.one_in(10) {
                txn.rollback()?;
                return Ok(false);
            }
            txn.commit()?;
            Ok(true)
        };
        match work() {
            Ok(committed) => {
                changed.fetch_add(u64::from(committed), SeqCst);
            }
            Err(error) => {
                assert!(may_be_retried(&error) || matches!(error, Error::Duplicate), "{error}");
                txn.rollback().expect("rolls back");
            }
        }
    };
    let check = |rng: &mut Rng| {
        let mut txn = bench.begin(Isolation::RepeatableRead);
        let mut before: Option<BTreeMap<Vec<u8>, u64>> = None;
        for _ in 0..1 + rng.below(4) {
            let backward = rng.one_in(2);
            let entries = scan(&bench.db, &mut txn, &index, &Asked::all(!backward)).expect("scans");
            let rows = scan(&bench.db, &mut txn, &table, &Asked::all(rng.one_in(2))).expect("scans");
            let from_table: BTreeMap<Vec<u8>, u64> =
                rows.iter().map(|(k, v)| (k.clone(), number(v))).collect();
            let from_index: BTreeMap<Vec<u8>, u64> = entries
                .iter()
                .map(|(k, _)| (k[8..].to_vec(), u64::from_be_bytes(k[..8].try_into().expect("8 bytes"))))
                .collect();
            assert_eq!(entries.len(), from_index.len(), "a row has two entries");
            assert_eq!(from_index, from_table, "index and table");
            if let Some(before) = before.replace(from_table) {
                assert_eq!(before, from_index, "the snapshot moved");
            }
            // One value's entries by prefix, and a bounded scan of the same.
            let value = rng.below(50);
            let mut asked = Asked::all(true);
            asked.start = tidesdb::internal::txn::cursor::Start::AtOrAfter;
            asked.key = value.to_be_bytes().to_vec();
            asked.prefix = 8;
            let found = scan(&bench.db, &mut txn, &index, &asked).expect("scans");
            let expected = from_index.values().filter(|v| **v == value).count();
            assert_eq!(found.len(), expected, "entries of {value}");
            checked.fetch_add(1, SeqCst);
            std::thread::sleep(Duration::from_millis(rng.below(120)));
        }
        txn.rollback().expect("ends");
    };
    bench.run(vec![
        (3, Box::new(change)),
        (3, Box::new(check)),
        (1, Box::new(|rng: &mut Rng| bench.upkeep(if rng.one_in(2) { &table } else { &index }, rng))),
    ]);
    println!("{} changes, {} checks", changed.load(SeqCst), checked.load(SeqCst));
    assert!(changed.load(SeqCst) > 100 && checked.load(SeqCst) > 10);
}

/// Values of a unique index; there are half as many rows more.
const UNIQUE_VALUES: u64 = 16;

/// Rows with a unique value each, written as the plugin writes them: at any level, no two committed rows ever
/// have the same value.
#[test]
fn a_unique_index_has_each_value_once() {
    for optimistic in [false, true] {
        let bench = Bench::new();
        let (table, unique) = (bench.family("table"), bench.family("unique"));
        let (done, refused) = (AtomicU64::new(0), AtomicU64::new(0));
        let checked = AtomicU64::new(0);
        let change = |rng: &mut Rng| {
            let isolation =
                *rng.pick(&[Isolation::ReadCommitted, Isolation::ReadCommitted, Isolation::RepeatableRead]);
            let mut txn =
                bench.begin_as(TransactionOptions { isolation, optimistic, ..TransactionOptions::default() });
            let mut work = || -> Result<(), Error> {
                for _ in 0..1 + rng.below(3) {
                    let read_committed = isolation == Isolation::ReadCommitted;
                    match change_unique(&bench, &mut txn, &table, &unique, read_committed, rng) {
                        Err(Error::Duplicate) => refused.fetch_add(1, SeqCst),
                        other => other.map(|()| 0)?,
                    };
                    if rng.one_in(8) {
                        txn.statement_rollback();
                    } else {
                        txn.statement_end();
                    }
                    txn.statement_begin(true, Duration::from_secs(20))?;
                }
                match rng.one_in(8) {
                    true => txn.rollback(),
                    false => txn.commit(),
                }
            };
            match work() {
                Ok(()) => {
                    done.fetch_add(1, SeqCst);
                }
                Err(error) => {
                    assert!(matches!(error, Error::Deadlock | Error::Conflict), "{error}");
                    txn.rollback().expect("rolls back");
                }
            }
        };
        let check = |rng: &mut Rng| {
            let mut txn = bench.begin(Isolation::RepeatableRead);
            let rows = scan(&bench.db, &mut txn, &table, &Asked::all(rng.one_in(2))).expect("scans");
            let entries = scan(&bench.db, &mut txn, &unique, &Asked::all(rng.one_in(2))).expect("scans");
            let of_row: BTreeMap<u64, Vec<u8>> = rows.iter().map(|(k, v)| (number(v), k.clone())).collect();
            assert_eq!(of_row.len(), rows.len(), "two rows have one value: {rows:?}");
            let of_entry: BTreeMap<u64, Vec<u8>> = entries
                .iter()
                .map(|(k, v)| (u64::from_be_bytes(k[..].try_into().expect("8 bytes")), v.clone()))
                .collect();
            assert_eq!(of_row, of_entry, "rows and their index");
            txn.rollback().expect("ends");
            checked.fetch_add(1, SeqCst);
            std::thread::sleep(Duration::from_millis(1));
        };
        bench.run(vec![
            (5, Box::new(change)),
            (1, Box::new(check)),
            (1, Box::new(|rng: &mut Rng| bench.upkeep(if rng.one_in(2) { &table } else { &unique }, rng))),
        ]);
        let (done, refused, checked) = (done.into_inner(), refused.into_inner(), checked.into_inner());
        println!("optimistic {optimistic}: {done} transactions, {refused} duplicates, {checked} checks");
        assert!(done > 100 && refused > 100 && checked > 20);
    }
}

fn change<'a>(family: &'a Arc<Family>, key: &'a [u8], kind: ChangeKind<'a>) -> Change<'a> {
    Change { family, key, kind, lock: true, count_unchanged: false, expiry: 0 }
}

/// INSERT, UPDATE, DELETE or REPLACE of one row.
fn change_unique(
    bench: &Bench,
    txn: &mut Transaction,
    table: &Arc<Family>,
    unique: &Arc<Family>,
    read_committed: bool,
    rng: &mut Rng,
) -> Result<(), Error> {
    let value = rng.below(UNIQUE_VALUES);
    let (row_key, entry_key) = (key(rng.below(UNIQUE_VALUES * 3 / 2)), key(value));
    let new = with_number(value, rng);
    let inserts = [
        change(table, &row_key, ChangeKind::Insert(&new)),
        change(unique, &entry_key, ChangeKind::Insert(&row_key)),
    ];
    let action = rng.below(5);
    if action == 0 {
        return txn.write(&inserts).map_err(|(_, error)| error);
    }
    if action == 1 {
        // REPLACE: what stands in the way goes, found through the index that it stands in.
        for _ in 0..4 {
            let Err((index, error)) = txn.write(&inserts) else { return Ok(()) };
            if !matches!(error, Error::Duplicate) {
                return Err(error);
            }
            let holder = match index {
                0 => row_key.clone(),
                _ => txn.get(unique, &entry_key, ReadMode::Exclusive)?.expect("its key is locked"),
            };
            let Some(old) = txn.get(table, &holder, ReadMode::Exclusive)? else {
                panic!("an entry under its lock names a row that is not there");
            };
            let old_entry = key(number(&old));
            txn.write(&[
                change(table, &holder, ChangeKind::Delete),
                change(unique, &old_entry, ChangeKind::Delete),
            ])
            .map_err(|(_, error)| error)?;
        }
        return Err(Error::Duplicate);
    }
    // A locking read through the index that the statement does not use, given back as the server does.
    let mut cursor = bench.db.cursor(unique);
    let looked = key(rng.below(UNIQUE_VALUES));
    cursor.get(txn, &looked, PointRead::of(ReadMode::Exclusive))?;
    if read_committed {
        cursor.unlock_row(txn);
    }
    let Some(old) = txn.get(table, &row_key, ReadMode::Exclusive)? else { return Ok(()) };
    let old_entry = key(number(&old));
    if action == 2 {
        return txn
            .write(&[
                change(table, &row_key, ChangeKind::Delete),
                change(unique, &old_entry, ChangeKind::Delete),
            ])
            .map_err(|(_, error)| error);
    }
    let put = change(table, &row_key, ChangeKind::Put(&new));
    if old_entry == entry_key {
        return txn.write(&[put]).map_err(|(_, error)| error);
    }
    txn.write(&[
        put,
        change(unique, &old_entry, ChangeKind::Delete),
        change(unique, &entry_key, ChangeKind::Insert(&row_key)),
    ])
    .map_err(|(_, error)| error)
}

#[test]
fn scans_under_writers_miss_no_stable_row() {
    const ROWS: u64 = 400;
    let bench = Bench::new();
    let family = bench.family("rows");
    // Even rows stay, though their values change; odd ones come and go.
    let mut rng = Rng(7);
    for chunk in (0..ROWS).step_by(2).collect::<Vec<_>>().chunks(50) {
        let mut txn = bench.begin(Isolation::RepeatableRead);
        for &row in chunk {
            txn.put(&family, &key(row), &with_number(row, &mut rng)).expect("puts");
        }
        txn.commit().expect("commits");
    }
    let (writes, scans) = (AtomicU64::new(0), AtomicU64::new(0));
    let write = |rng: &mut Rng| {
        let row = rng.below(ROWS);
        let mut txn = bench.begin(Isolation::ReadCommitted);
        match row % 2 == 1 && rng.one_in(2) {
            true => txn.delete(&family, &key(row)).expect("deletes"),
            false => txn.put(&family, &key(row), &with_number(row, rng)).expect("puts"),
        }
        txn.commit().expect("commits");
        writes.fetch_add(1, SeqCst);
    };
    let read = |rng: &mut Rng| {
        let isolation = *rng.pick(&[Isolation::RepeatableRead, Isolation::ReadCommitted]);
        let mut txn = bench.begin(isolation);
        let forward = rng.one_in(2);
        let mut asked = Asked::all(forward);
        asked.mode = *rng.pick(&[ReadMode::Snapshot, ReadMode::Latest]);
        asked.expect = rng.below(40) as u32;
        let mut cursor = bench.db.cursor(&family);
        let mut seen = Vec::new();
        let mut found = cursor.seek(&mut txn, &asked.scan()).expect("seeks");
        while found {
            for at in 0..cursor.len() {
                let (key, value) = cursor.row(at);
                let row = u64::from_be_bytes(key.try_into().expect("8 bytes"));
                assert_eq!(number(value), row, "a value of another row");
                seen.push(row);
            }
            if rng.one_in(10) {
                std::thread::sleep(Duration::from_millis(rng.below(10)));
            }
            found = cursor.fetch(&mut txn, cursor.len() - 1, forward).expect("fetches");
        }
        if !forward {
            seen.reverse();
        }
        assert!(seen.windows(2).all(|w| w[0] < w[1]), "in order, once each: {seen:?}");
        let stable: Vec<u64> = seen.iter().copied().filter(|row| row % 2 == 0).collect();
        assert_eq!(stable, (0..ROWS).step_by(2).collect::<Vec<_>>(), "{:?}, forward {forward}", asked.mode);
        for _ in 0..5 {
            let row = rng.below(ROWS / 2) * 2;
            let mode = *rng.pick(&[ReadMode::Snapshot, ReadMode::Latest]);
            assert!(txn.get(&family, &key(row), mode).expect("reads").is_some(), "row {row} in {mode:?}");
        }
        scans.fetch_add(1, SeqCst);
        txn.rollback().expect("ends");
    };
    bench.run(vec![
        (3, Box::new(write)),
        (3, Box::new(read)),
        (1, Box::new(|rng: &mut Rng| bench.upkeep(&family, rng))),
    ]);
    println!("{} writes, {} scans", writes.load(SeqCst), scans.load(SeqCst));
    assert!(writes.load(SeqCst) > 100 && scans.load(SeqCst) > 10);
}
