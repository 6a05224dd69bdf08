//! A disk without room for the log's writes. Commits under way wait, others are refused with "disk full" and
//! undone, and writes go on once there is room, without a restart. Nothing answered is lost, nothing refused
//! is there.

mod sim;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use sim::{begin, open, rows, Row};
use tidesdb::internal::db::Db;
use tidesdb::internal::io::faulty::{Crash, Failure, Fault, Op};
use tidesdb::internal::io::FaultyDisk;
use tidesdb::internal::txn::transaction::Transaction;
use tidesdb::{Compression, Error, FamilyOptions, FormatVersion, Options, SyncMode};

const MODES: [SyncMode; 3] = [SyncMode::Full, SyncMode::Interval, SyncMode::None];

fn options(sync_mode: SyncMode) -> Options {
    Options { compaction_threads: 0, ..sim::tiny(sync_mode) }
}

/// From now on no write of the log finds room, but for the next `skip`.
fn fill(disk: &FaultyDisk, skip: u64, failure: Failure) {
    disk.fail(Fault { op: Some(Op::Write), path: ".wal".into(), skip, times: u64::MAX, failure });
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn put(db: &Db, n: u8) -> tidesdb::Result<()> {
    let family = db.family(b"t").expect("there");
    let mut txn = begin(db);
    txn.put(&family, &[n], &[n; 300])?;
    txn.commit()
}

fn row(n: u8) -> Row {
    (vec![n], vec![n; 300])
}

/// The state after a crash now: every answered row, none of the refused ones.
fn check_crash(disk: &FaultyDisk, mode: SyncMode, answered: &[u8], refused: &[u8], context: &str) {
    for crash in [Crash::Kill, Crash::Drop, Crash::Keep, Crash::Tear, Crash::Prefix] {
        let context = format!("{context}, {crash:?}");
        let db = open(&disk.crash(crash), &options(mode)).unwrap_or_else(|e| panic!("{context}: {e}"));
        let found = rows(&db, &db.family(b"t").expect("there")).expect("reads");
        assert!(refused.iter().all(|n| !found.contains(&row(*n))), "{context}: refused and there");
        if mode == SyncMode::Full || crash == Crash::Kill {
            assert!(answered.iter().all(|n| found.contains(&row(*n))), "{context}: answered and lost");
        }
    }
}

/// At each of the log's writes in turn: the commit at it waits, another is refused. Both are right whether
/// the machine dies then or room comes back.
#[test]
fn no_room_at_any_write_of_the_log_refuses_commits_and_loses_none() {
    for mode in MODES {
        for skip in 0..12 {
            let context = format!("{mode:?}, write {skip}");
            let disk = FaultyDisk::new(skip);
            let db = open(&disk, &options(mode)).expect("opens");
            db.create_family(b"t", FamilyOptions::default()).expect("creates");
            fill(&disk, skip, if skip % 2 == 0 { Failure::Enospc } else { Failure::Edquot });
            let answered = parking_lot::Mutex::new(Vec::new());
            let refused = parking_lot::Mutex::new(Vec::new());
            let stop = AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    for n in 0..60 {
                        match put(&db, n) {
                            Ok(()) => answered.lock().push(n),
                            Err(Error::DiskFull(_)) => refused.lock().push(n),
                            Err(error) => panic!("{context}: {error}"),
                        }
                        if stop.load(Ordering::SeqCst) {
                            break;
                        }
                    }
                });
                until("a write meets the full disk", || db.stats().wal_is_full || !refused.lock().is_empty());
                let error = put(&db, 200).expect_err("there is no room");
                assert!(matches!(error, Error::DiskFull(_)), "{context}: {error}");
                if let Err(error) = db.flush() {
                    assert!(matches!(error, Error::DiskFull(_)), "{context}: {error}");
                }
                let (known, not) = (answered.lock().clone(), refused.lock().clone());
                check_crash(&disk, mode, &known, &not, &context);
                stop.store(true, Ordering::SeqCst);
                disk.heal();
            });
            put(&db, 201).unwrap_or_else(|error| panic!("{context}, with room: {error}"));
            let mut known = answered.into_inner();
            known.push(201);
            let expected: Vec<Row> = known.iter().map(|n| row(*n)).collect();
            assert_eq!(rows(&db, &db.family(b"t").expect("there")).expect("reads"), expected, "{context}");
            check_crash(&disk, mode, &known, &[200], &context);
            db.close().unwrap_or_else(|error| panic!("{context}: {error}"));
            check_crash(&disk, SyncMode::Full, &known, &[200], &context);
        }
    }
}

/// A batch logged before its order: two-phase, by XA PREPARE, large, and with runs in files.
#[test]
fn a_prepare_without_room_is_refused_and_undone() {
    let mut refused = 0;
    for form in ["two phases", "XA", "large", "runs", "runs in two phases", "XA with runs"] {
        for skip in 0..4 {
            let context = format!("{form}, write {skip}");
            let disk = FaultyDisk::new(skip);
            let options = match form {
                "large" => Options { write_buffer_size: 8 << 20, ..options(SyncMode::None) },
                _ => options(SyncMode::None),
            };
            let db = open(&disk, &options).expect("opens");
            let t = db.create_family(b"t", FamilyOptions::default()).expect("creates");
            put(&db, 1).expect("commits");
            let prepare = || {
                let mut txn = begin(&db);
                if form == "large" {
                    txn.put(&t, b"x", &vec![7; 3 << 19])?;
                }
                for n in 0..if form.contains("runs") { 100 } else { 3 } {
                    txn.put(&t, &[b'x', n], &[n; 100])?;
                }
                match form {
                    "XA" | "XA with runs" => txn.prepare_xa(b"xid")?,
                    "two phases" | "runs in two phases" => txn.prepare(Some(b"xid"))?,
                    _ => txn.prepare(None)?,
                }
                Ok(txn)
            };
            fill(&disk, skip, Failure::Enospc);
            let error = match prepare() {
                Err(error) => error,
                Ok(mut txn) => {
                    // Its writes are fewer.
                    disk.heal();
                    txn.commit().unwrap_or_else(|error| panic!("{context}: {error}"));
                    continue;
                }
            };
            refused += 1;
            assert!(matches!(error, Error::DiskFull(_)), "{context}: {error}");
            let there = |db: &Db| {
                let found = rows(db, &db.family(b"t").expect("there")).expect("reads");
                assert!(found.contains(&row(1)), "{context}: answered and lost");
                found.iter().any(|(key, _)| key[0] == b'x')
            };
            assert!(!there(&db), "{context}");
            let crashed = disk.crash(Crash::Kill);
            let again = open(&crashed, &options).unwrap_or_else(|e| panic!("{context}: {e}"));
            assert!(!there(&again), "{context}: refused and there");
            // A coordinator has no record of it, and rolls it back.
            for xid in again.prepared() {
                assert_eq!(xid, b"xid", "{context}");
                assert!(again.rollback_by_xid(&xid).expect("rolls back"));
            }
            drop(again);
            disk.heal();
            // Its locks are free, and so is its name.
            let txn = prepare().unwrap_or_else(|error: Error| panic!("{context}, with room: {error}"));
            { txn }.commit().unwrap_or_else(|error| panic!("{context}, with room: {error}"));
            assert!(there(&db) && db.prepared().is_empty(), "{context}");
            db.flush().unwrap_or_else(|error| panic!("{context}: {error}"));
            let tables = || sim::tables(&disk);
            let with_runs = tables();
            drop(t);
            db.close().unwrap_or_else(|error| panic!("{context}: {error}"));
            let again = open(&disk, &options).unwrap_or_else(|e| panic!("{context}: {e}"));
            assert!(there(&again) && again.prepared().is_empty(), "{context}");
            assert!(tables() <= with_runs + 1, "{context}: files of the refused one stay");
        }
    }
    assert!(refused >= 6, "{refused}");
}

/// A transaction whose prepare is refused may try again, with the same runs.
#[test]
fn a_prepare_that_is_tried_again_keeps_its_runs() {
    let mut refused = 0;
    for keys in 20..400_u16 {
        let disk = FaultyDisk::new(u64::from(keys));
        let options = options(SyncMode::None);
        let db = open(&disk, &options).expect("opens");
        let t = db.create_family(b"t", FamilyOptions::default()).expect("creates");
        let mut txn = begin(&db);
        for n in 0..keys {
            txn.put(&t, &[b"x", &n.to_be_bytes()[..]].concat(), &[n as u8; 100]).expect("puts");
        }
        fill(&disk, 0, Failure::Enospc);
        // One without runs may find room in memory.
        let Err(error) = txn.prepare(Some(b"xid")) else { continue };
        refused += 1;
        assert!(matches!(error, Error::DiskFull(_)), "{keys} keys: {error}");
        disk.heal();
        txn.prepare(Some(b"xid")).unwrap_or_else(|error| panic!("{keys} keys, with room: {error}"));
        txn.commit().unwrap_or_else(|error| panic!("{keys} keys, with room: {error}"));
        db.flush().unwrap_or_else(|error| panic!("{keys} keys: {error}"));
        put(&db, 1).expect("commits");
        db.flush().unwrap_or_else(|error| panic!("{keys} keys: {error}"));
        drop((txn, t));
        db.close().unwrap_or_else(|error| panic!("{keys} keys: {error}"));
        let db = open(&disk, &options).unwrap_or_else(|error| panic!("{keys} keys: {error}"));
        let found = rows(&db, &db.family(b"t").expect("there"));
        assert_eq!(found.map(|rows| rows.len() as u64).expect("reads"), u64::from(keys) + 1);
    }
    assert!(refused > 50, "{refused}");
}

/// A large transaction's prepare is refused and given up. Its files go once the log has room for its
/// rollback, without a flush or another transaction.
#[test]
fn a_refused_prepare_keeps_no_files() {
    let mut refused = 0;
    for keys in (60..400_u16).step_by(17) {
        let disk = FaultyDisk::new(u64::from(keys));
        let options = Options { compaction_threads: 1, ..options(SyncMode::None) };
        let db = open(&disk, &options).expect("opens");
        let t = db.create_family(b"t", FamilyOptions::default()).expect("creates");
        let before = sim::tables(&disk);
        let mut txn = begin(&db);
        for n in 0..keys {
            txn.put(&t, &[b"x", &n.to_be_bytes()[..]].concat(), &[n as u8; 100]).expect("puts");
        }
        if db.stats().spilled_runs == 0 {
            continue;
        }
        fill(&disk, 0, Failure::Enospc);
        if txn.prepare(Some(b"xid")).is_ok() {
            continue;
        }
        txn.rollback().expect("rolls back");
        refused += 1;
        disk.heal();
        let left = || sim::tables(&disk);
        until(&format!("{keys} keys: files of a transaction that is over stay"), || left() <= before);
        assert_eq!(db.stats().flush_count, 0);
    }
    assert!(refused > 10, "{refused}");
}

/// A flush waiting for the log writes no table at its attempts.
#[test]
fn a_flush_without_room_in_the_log_leaves_no_tables() {
    let disk = FaultyDisk::new(1);
    let db = open(&disk, &options(SyncMode::Full)).expect("opens");
    db.create_family(b"t", FamilyOptions::default()).expect("creates");
    put(&db, 1).expect("commits");
    let tables = || sim::tables(&disk);
    fill(&disk, 0, Failure::Enospc);
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| put(&db, 2));
        until("the commit waits", || db.stats().wal_is_full);
        let before = tables();
        let flushes: Vec<_> = (0..10).map(|_| db.flush()).collect();
        let after = tables();
        disk.heal();
        assert!(flushes.iter().all(|flush| matches!(flush, Err(Error::DiskFull(_)))), "{flushes:?}");
        assert!(after <= before + 1, "{after} tables, {before} before");
        waits.join().expect("no panic").expect("commits");
    });
    db.flush().expect("flushes");
    assert_eq!(rows(&db, &db.family(b"t").expect("there")).expect("reads"), [row(1), row(2)]);
}

/// A commit waiting for room when the store closes gets [`Error::OutcomeUnknown`]: only a restart shows its
/// outcome.
#[test]
fn a_close_ends_the_waits_for_room() {
    let disk = FaultyDisk::new(1);
    let db = open(&disk, &options(SyncMode::Full)).expect("opens");
    db.create_family(b"t", FamilyOptions::default()).expect("creates");
    put(&db, 1).expect("commits");
    fill(&disk, 0, Failure::Enospc);
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| put(&db, 2));
        until("the commit waits", || db.stats().wal_is_full);
        std::thread::sleep(Duration::from_millis(50));
        assert!(!waits.is_finished());
        db.end_log_waits();
        let error = waits.join().expect("no panic").expect_err("there was no room");
        assert!(matches!(error, Error::OutcomeUnknown), "{error}");
    });
    assert!(matches!(put(&db, 3), Err(Error::ReadOnly(_))));
    assert_eq!(rows(&db, &db.family(b"t").expect("there")).expect("reads"), [row(1)]);
    assert!(db.close().is_err());
    check_crash(&disk, SyncMode::Full, &[1], &[3], "closed");
    let db = open(&disk.crash(Crash::Kill), &options(SyncMode::Full)).expect("opens");
    put(&db, 4).expect("commits after a restart");
}

/// The counter's last value is to be written at the close, and there is no room for it.
#[test]
fn a_close_with_a_used_counter_waits_for_no_room() {
    let disk = FaultyDisk::new(1);
    let db = open(&disk, &options(SyncMode::Full)).expect("opens");
    let family = db.create_family(b"t", FamilyOptions::default()).expect("creates");
    put(&db, 1).expect("commits");
    assert_eq!(db.counter_take(&family, 0, 1, 1, 1, u64::MAX).expect("has values"), 1);
    fill(&disk, 0, Failure::Enospc);
    drop(family);
    let (told, ends) = std::sync::mpsc::channel();
    std::thread::spawn(move || told.send(db.close()));
    let closed = ends.recv_timeout(Duration::from_secs(20)).expect("the close ends");
    assert!(closed.is_err(), "the counter's value is not durable");
    check_crash(&disk, SyncMode::Full, &[1], &[], "closed");
    let db = open(&disk.crash(Crash::Kill), &options(SyncMode::Full)).expect("opens");
    let family = db.family(b"t").expect("there");
    assert!(db.counter_take(&family, 0, 1, 1, 1, u64::MAX).expect("has values") > 1, "no value twice");
}

/// Somebody crosses the counter's ceiling and meets the full disk; a CREATE waits for room in the log. Others look at
/// the counter, and get "disk full" for their DDL, at once.
#[test]
fn a_ceiling_and_a_create_without_room_hold_up_nobody_else() {
    let disk = FaultyDisk::new(1);
    let db = open(&disk, &options(SyncMode::Full)).expect("opens");
    let family = db.create_family(b"t", FamilyOptions::default()).expect("creates");
    let take = |db: &Db, count| db.counter_take(&db.family(b"t").expect("there"), 0, count, 1, 1, u64::MAX);
    take(&db, 1).expect("has values");
    fill(&disk, 0, Failure::Enospc);
    let error = take(&db, 1_000_000).expect_err("the next ceiling has no room");
    assert!(matches!(error, Error::DiskFull(_)), "{error}");
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| {
            assert!(db.counter_peek(&family, 0).expect("reads") >= 2);
            db.ddl().map(|_| ()).expect_err("there is no room")
        });
        until("others go on", || asked.is_finished());
        let error = asked.join().expect("no panic");
        assert!(matches!(error, Error::DiskFull(_)), "{error}");
    });
    disk.heal();
    assert!(take(&db, 1).expect("has room") >= 2);
    drop(family);
    db.close().expect("closes");
}

/// The store is to finish its merges at the close, and its flush finds no room. A commit that waits ends all the same.
#[test]
fn a_close_that_fails_early_ends_the_waits_for_room() {
    let disk = FaultyDisk::new(1);
    let options = Options { finish_compactions_on_close: true, ..options(SyncMode::Full) };
    let db = open(&disk, &options).expect("opens");
    db.create_family(b"t", FamilyOptions::default()).expect("creates");
    put(&db, 1).expect("commits");
    fill(&disk, 0, Failure::Enospc);
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| put(&db, 2));
        until("the commit waits", || db.stats().wal_is_full);
        assert!(db.clone().close().is_err());
        until("the commit ends", || waits.is_finished());
        let error = waits.join().expect("no panic").expect_err("there was no room");
        assert!(matches!(error, Error::OutcomeUnknown), "{error}");
    });
    check_crash(&disk, SyncMode::Full, &[1], &[3], "closed");
}

/// A prepared transaction keeps its decision: it waits for room, and is not lost.
#[test]
fn a_decision_waits_for_room() {
    for commit in [true, false] {
        let disk = FaultyDisk::new(2);
        let db = open(&disk, &options(SyncMode::Full)).expect("opens");
        let t = db.create_family(b"t", FamilyOptions::default()).expect("creates");
        let mut txn = begin(&db);
        txn.put(&t, &[1], &[1; 300]).expect("puts");
        txn.prepare(Some(b"xid")).expect("prepares");
        fill(&disk, 0, Failure::Edquot);
        std::thread::scope(|scope| {
            let decided = scope.spawn(move || if commit { txn.commit() } else { txn.rollback() });
            until("the decision waits", || db.stats().wal_is_full);
            let crashed = open(&disk.crash(Crash::Drop), &options(SyncMode::Full)).expect("opens");
            assert_eq!(crashed.prepared(), [b"xid"]);
            disk.heal();
            decided.join().expect("no panic").expect("decides");
        });
        let after = open(&disk.crash(Crash::Drop), &options(SyncMode::Full)).expect("opens");
        assert!(after.prepared().is_empty());
        let expected = if commit { vec![row(1)] } else { vec![] };
        assert_eq!(rows(&after, &after.family(b"t").expect("there")).expect("reads"), expected);
    }
}

/// Gives the disk room at its end: a test that fails ends, too.
struct Heal<'a>(&'a FaultyDisk);

impl Drop for Heal<'_> {
    fn drop(&mut self) {
        self.0.heal();
    }
}

/// A store with value files, and with a used counter in the family `d`. A drop of `d` waits for room in the log while `work`
/// runs, which gets a transaction with values in two files.
fn while_a_drop_waits(work: impl FnOnce(&Db, Transaction)) {
    let disk = FaultyDisk::new(1);
    let options = Options { least_format: FormatVersion::Two, ..options(SyncMode::Full) };
    let db = open(&disk, &options).expect("opens");
    let compression = Compression::None;
    let with_values = FamilyOptions { value_threshold: 100, compression, ..FamilyOptions::default() };
    let family = db.create_family(b"v", with_values).expect("creates");
    let mut txn = begin(&db);
    for n in 0..2 {
        txn.put(&family, &[n], &[n; 6 << 10]).expect("puts");
    }
    let family = db.create_family(b"d", FamilyOptions::default()).expect("creates");
    db.counter_take(&family, 0, 60, 1, 1, u64::MAX).expect("has values");
    drop(family);
    db.flush_log().expect("syncs");
    fill(&disk, 0, Failure::Enospc);
    std::thread::scope(|scope| {
        let drops = scope.spawn(|| {
            let mut ddl = db.ddl()?;
            ddl.drop_family(b"d")?;
            ddl.commit()
        });
        let _heals = Heal(&disk);
        until("the drop waits", || db.stats().wal_is_full);
        work(&db, txn);
        disk.heal();
        until("the drop ends", || drops.is_finished());
    });
}

/// A drop holds its counters, and waits. The thread that reserves blocks of counters does its other work meanwhile.
#[test]
fn a_counter_that_a_drop_holds_keeps_no_thread_from_its_work() {
    while_a_drop_waits(|db, mut txn| {
        // Less than half of the block is left: another one is asked for.
        db.counter_take(&db.family(b"d").expect("there"), 0, 70, 1, 1, u64::MAX).expect("has values");
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(db.stats().value_files, 2);
        txn.rollback().expect("rolls back");
        until("a file without values ends", || db.stats().value_files == 1);
    });
}

/// Another thread's drop holds a counter that the close is to write.
#[test]
fn a_close_waits_for_no_drop_that_waits_for_room() {
    while_a_drop_waits(|db, txn| {
        drop(txn);
        let (told, ends) = std::sync::mpsc::channel();
        let closing = db.clone();
        std::thread::spawn(move || told.send(closing.close()));
        assert!(ends.recv_timeout(Duration::from_secs(20)).expect("the close ends").is_err());
    });
}
