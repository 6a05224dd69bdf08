//! Prepared transactions waiting for a decision from outside. They hold only their locks. The log goes on
//! without keeping its old segments for them. A crash at any call to the disk loses neither them nor their
//! decisions.
//!
//! `PREPARED_STRIDE` (1: every call) thins out the crash points.

mod sim;

#[path = "prepared/locks.rs"]
mod locks;
#[path = "prepared/log.rs"]
mod log;
#[path = "prepared/programs.rs"]
mod programs;
#[path = "prepared/world.rs"]
mod world;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use programs::programs;
use sim::{begin, env, open, tables};
use tidesdb::internal::io::faulty::Crash;
use tidesdb::internal::txn::transaction::{ReadMode, Transaction};
use tidesdb::{Error, SyncMode, TransactionOptions};
use world::{
    family, key, new_store, observe, put, recovers, rows_of, small, started, Step, World, FAMILY, LARGE,
    LARGE_KEYS,
};

#[test]
fn a_crash_at_every_call_loses_no_prepared_transaction_and_no_decision_without_sync() {
    crash_at_every_call(SyncMode::None);
}

#[test]
fn a_crash_at_every_call_loses_no_prepared_transaction_and_no_decision_with_sync() {
    crash_at_every_call(SyncMode::Full);
}

fn crash_at_every_call(mode: SyncMode) {
    let stride = env("PREPARED_STRIDE", 1).max(1);
    let (mut points, mut crashes) = (0u64, 0u64);
    for (ordinal, (name, steps)) in programs().into_iter().enumerate() {
        let (options, seed) = (small(mode), ordinal as u64 * 2 + mode as u64);
        let disk = new_store(seed, &options);
        let first = disk.calls() + 1;
        let mut world = World::new(disk, options.clone()).expect("opens");
        world.run(&steps).unwrap_or_else(|e| panic!("{name} without a crash: {e}"));
        let calls = world.disk.calls();
        drop(world.die());
        let step = stride * ((calls - first) / 100 + 1);
        let mut n = first + seed % step;
        while n <= calls + 1 {
            points += 1;
            let disk = new_store(seed, &options);
            disk.crash_at(n);
            let world = match World::new(disk.clone(), options.clone()) {
                Ok(mut world) => {
                    // An error is the crash; what was answered before it counts.
                    let _ = world.run(&steps);
                    world.die()
                }
                Err(_) => {
                    n += step;
                    continue;
                }
            };
            for (which, crash) in Crash::ALL.into_iter().enumerate() {
                crashes += 1;
                let found = disk.crash(crash);
                let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                    recovers(&found, &world, crash, which as u64 == n % 6);
                }));
                if let Err(panic) = done {
                    println!("FAILED: {name}, {mode:?}, call {n} of {calls}, {crash:?}");
                    std::panic::resume_unwind(panic);
                }
            }
            n += step;
        }
    }
    println!("{points} crash points, {crashes} crashes");
    assert!(points > 100, "only {points} points");
}

#[test]
fn an_ordered_snapshot_sees_what_is_ordered_and_not_in_yet() {
    let disk = new_store(12, &small(SyncMode::None));
    let db = open(&disk, &small(SyncMode::None)).expect("opens");
    let mut slow = started(&db);
    slow.put(&family(&db), &key(1), b"ordered").expect("puts");
    slow.prepare(None).expect("prepares");
    slow.order();
    let mut reader = begin(&db);
    reader.take_ordered_snapshot().expect("takes");
    // Nobody has helped the commit in.
    let value = reader.get(&family(&db), &key(1), ReadMode::Snapshot).expect("reads");
    assert_eq!(value.as_deref(), Some(&b"ordered"[..]));
    let mut after = started(&db);
    after.put(&family(&db), &key(2), b"later").expect("puts");
    after.commit().expect("commits");
    assert_eq!(reader.get(&family(&db), &key(2), ReadMode::Snapshot).expect("reads"), None);
    slow.finish(false).expect("commits");
    let mut killed = begin(&db);
    killed.take_ordered_snapshot().expect("takes");
    db.kill(killed.owner());
    let interrupted = killed.get(&family(&db), &key(1), ReadMode::Snapshot);
    assert!(matches!(interrupted, Err(Error::Interrupted)), "{interrupted:?}");
}

#[test]
fn savepoints_outlive_statements_and_end_with_the_transaction() {
    let disk = new_store(13, &small(SyncMode::None));
    let db = open(&disk, &small(SyncMode::None)).expect("opens");
    let f = family(&db);
    let get = |txn: &mut Transaction, n: u32| {
        txn.get(&f, &key(n), ReadMode::Snapshot).expect("reads").map(|v| v[0])
    };
    let mut txn = started(&db);
    txn.put(&f, &key(1), b"1").expect("puts");
    let a = txn.savepoint_set().expect("sets");
    txn.put(&f, &key(1), b"2").expect("puts");
    txn.put(&f, &key(2), b"2").expect("puts");
    txn.statement_end();
    txn.statement_begin(true, Duration::ZERO).expect("begins");
    let b = txn.savepoint_set().expect("sets");
    txn.delete(&f, &key(1)).expect("deletes");
    let c = txn.savepoint_set().expect("sets");
    txn.put(&f, &key(3), b"3").expect("puts");
    // A statement of which a part was undone can be undone as a whole.
    txn.savepoint_rollback(c).expect("rolls back");
    assert_eq!((get(&mut txn, 1), get(&mut txn, 2), get(&mut txn, 3)), (None, Some(b'2'), None));
    txn.savepoint_release(b);
    assert!(txn.savepoint_rollback(b).is_err(), "released");
    txn.statement_rollback();
    assert_eq!((get(&mut txn, 1), get(&mut txn, 2)), (Some(b'2'), Some(b'2')));
    txn.savepoint_rollback(a).expect("rolls back");
    assert_eq!((get(&mut txn, 1), get(&mut txn, 2)), (Some(b'1'), None));
    assert!(txn.savepoint_rollback(c).is_err(), "set later");
    // A statement that ended before the cut is not undone by a later call.
    txn.statement_rollback();
    assert_eq!(get(&mut txn, 1), Some(b'1'));
    txn.commit().expect("commits");
    txn.begin(TransactionOptions::default()).expect("begins");
    assert!(txn.savepoint_rollback(a).is_err(), "of the transaction before");
    assert_eq!(get(&mut txn, 1), Some(b'1'));
    txn.rollback().expect("rolls back");
}

/// A server may forget savepoints without a release, as for a function with two of them. A released one is
/// found without a search through all others.
#[test]
fn a_million_forgotten_savepoints_cost_no_search() {
    let disk = new_store(15, &small(SyncMode::None));
    let db = open(&disk, &small(SyncMode::None)).expect("opens");
    let mut txn = started(&db);
    let begun = std::time::Instant::now();
    for _ in 0..1_000_000 {
        let first = txn.savepoint_set().expect("sets");
        txn.savepoint_set().expect("sets");
        txn.savepoint_release(first);
    }
    // All of them a million times is an hour.
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    txn.rollback().expect("rolls back");
}

/// Deciding and logging again at the same time: every decision counts, nothing comes back.
#[test]
fn deciders_and_the_log_do_not_disturb_each_other() {
    let options = small(SyncMode::None);
    let disk = new_store(14, &options);
    let db = open(&disk, &options).expect("opens");
    let stop = AtomicBool::new(false);
    let rounds = env("PREPARED_ROUNDS", 40) as u32;
    std::thread::scope(|scope| {
        let filler = scope.spawn(|| {
            let mut n = 0u32;
            while !stop.load(Ordering::Relaxed) {
                n += 1;
                let mut txn = begin(&db);
                txn.statement_begin(true, Duration::from_secs(20)).expect("begins");
                txn.put(&family(&db), &key(n % 17), &[n as u8; 1500]).expect("puts");
                txn.commit().expect("commits");
            }
        });
        let deciders: Vec<_> = (0..3u32)
            .map(|which| {
                let db = &db;
                scope.spawn(move || {
                    for round in 0..rounds {
                        let xid = format!("x{which}-{round}");
                        let mut txn = started(db);
                        let first = 1000 + (which * rounds + round) * 10;
                        for row in rows_of(first) {
                            put(db, &mut txn, &row).expect("puts");
                        }
                        txn.prepare_xa(xid.as_bytes()).expect("prepares");
                        if round % 3 == 0 {
                            // Long enough to be logged again now and then.
                            std::thread::sleep(Duration::from_millis(10));
                        }
                        match round % 4 {
                            0 => txn.finish(false).expect("commits"),
                            1 => txn.rollback().expect("rolls back"),
                            2 => {
                                drop(txn);
                                assert!(db.commit_by_xid(xid.as_bytes()).expect("commits"));
                            }
                            _ => {
                                drop(txn);
                                assert!(db.rollback_by_xid(xid.as_bytes()).expect("rolls back"));
                            }
                        }
                    }
                })
            })
            .collect();
        for decider in deciders {
            decider.join().expect("decides");
        }
        stop.store(true, Ordering::Relaxed);
        filler.join().expect("fills");
    });
    let found = disk.crash(Crash::Drop);
    disk.crash_at(0);
    drop(db);
    let db = open(&found, &options).expect("opens");
    assert_eq!(db.prepared(), Vec::<Vec<u8>>::new());
    let rows: BTreeMap<_, _> = sim::rows(&db, &family(&db)).expect("reads").into_iter().collect();
    for which in 0..3u32 {
        for round in 0..rounds {
            for (_, key, value) in rows_of(1000 + (which * rounds + round) * 10) {
                let committed = matches!(round % 4, 0 | 2);
                assert_eq!(rows.get(&key), committed.then_some(&value), "{which} {round}");
            }
        }
    }
}

/// On a full disk a prepared transaction can be rolled back; a commit without room leaves it prepared.
#[test]
fn a_full_disk_keeps_prepared_transactions_decidable() {
    let options = small(SyncMode::None);
    let disk = new_store(15, &options);
    let mut world = World::new(disk.clone(), options.clone()).expect("opens");
    world.run(&[Step::XaPrepared("x", 100), Step::XaPrepared("y", 110), Step::Leave("x")]).expect("prepares");
    let used: usize =
        disk.files().iter().filter_map(|path| disk.contents(path)).map(|bytes| bytes.len()).sum();
    disk.set_capacity(Some(used as u64));
    let mut full = None;
    // Small ones last: they end when the memtable cannot be sealed any more, whatever else is full before. No
    // statements begin, which would end while there is room for a mean commit.
    for bytes in [1500, 50] {
        for round in 0..2000 {
            let mut txn = begin(world.db());
            txn.put(&family(world.db()), &key(round % 17), &vec![round as u8; bytes]).expect("puts");
            if let Err(error) = txn.commit() {
                full = Some((round, error));
                break;
            }
        }
    }
    world.history.push(observe(world.db(), &world.history));
    let (round, error) = full.expect("the disk is full at some time");
    assert!(matches!(error, Error::DiskFull(_)), "after {round} commits: {error}");
    let refused = world.db().commit_by_xid(b"x").expect_err("there is no room for its rows");
    assert!(matches!(refused, Error::DiskFull(_)), "{refused}");
    assert_eq!(world.db().prepared(), [b"x".to_vec()], "still prepared");
    let mut other = begin(world.db());
    other.set_lock_timeout(Some(Duration::ZERO));
    assert!(matches!(other.put(&family(world.db()), &key(100), b"v"), Err(Error::LockTimeout)));
    drop(other);
    world.step(Step::Own("y", false)).expect("rolls back");
    disk.set_capacity(None);
    world.step(Step::Flush).or_else(|_| world.step(Step::Flush)).expect("flushes again");
    world.step(Step::ByXid("x", true)).expect("commits");
    let seen = observe(world.db(), &[]);
    assert_eq!(seen, world.now());
    let world = world.die();
    recovers(&disk.crash(Crash::Drop), &world, Crash::Drop, true);
}

/// The space of a rolled back, spilled transaction is free at the answer.
#[test]
fn a_rolled_back_prepare_leaves_no_files() {
    let options = small(SyncMode::None);
    let disk = new_store(18, &options);
    let mut world = World::new(disk.clone(), options).expect("opens");
    let before = tables(&disk);
    for steps in [
        &[Step::XaPrepared("x", LARGE_KEYS), Step::Own("x", false)][..],
        &[Step::TwoPhase("x", LARGE_KEYS), Step::Own("x", false)],
        &[Step::XaPrepared("x", LARGE_KEYS), Step::Leave("x"), Step::ByXid("x", false)],
        &[Step::TwoPhase("x", LARGE_KEYS), Step::Leave("x"), Step::ByXid("x", false)],
        &[Step::Alone(LARGE_KEYS, false)],
    ] {
        world.run(steps).expect("runs");
        assert_eq!(tables(&disk), before, "{steps:?}");
    }
    world.run(&[Step::XaPrepared("x", LARGE_KEYS), Step::Reopen]).expect("runs");
    let recovered = tables(&disk);
    world.step(Step::ByXid("x", false)).expect("rolls back");
    assert!(tables(&disk) < recovered, "{} of {recovered} tables", tables(&disk));
}

/// A rollback written and not synced is read by an opening, and gone for the next one after a power cut.
/// Until the first has made its own state durable, the runs stay.
#[test]
fn a_rollback_that_no_sync_has_seen_unlinks_no_runs() {
    let options = small(SyncMode::Full);
    let disk = new_store(19, &options);
    let mut world = World::new(disk.clone(), options.clone()).expect("opens");
    world.run(&[Step::XaPrepared("x", LARGE_KEYS), Step::Leave("x")]).expect("runs");
    let xid = world.db().prepared();
    assert_eq!(xid.len(), 1);
    let (prepared, xid) = (disk.crash(Crash::Kill), &xid[0]);
    let mut undecided = 0;
    for call in 1..8 {
        let disk = prepared.crash(Crash::Kill);
        let db = open(&disk, &options).expect("opens");
        disk.crash_at(disk.calls() + call);
        let _ = db.rollback_by_xid(xid);
        drop(db);
        let found = disk.crash(Crash::Kill);
        let dry = found.crash(Crash::Kill);
        drop(open(&dry, &options).expect("opens"));
        for n in (1..=dry.calls()).filter(|&n| dry.history()[n as usize - 1].changes()) {
            let again = found.crash(Crash::Kill);
            again.crash_at(n);
            drop(open(&again, &options));
            let db = open(&again.crash(Crash::Drop), &options).expect("opens after two crashes");
            if db.prepared().contains(xid) {
                undecided += 1;
                let context = format!("rollback at call {call}, opening at call {n}");
                assert!(db.commit_by_xid(xid).unwrap_or_else(|e| panic!("{context}: {e}")), "{context}");
                db.flush().unwrap_or_else(|e| panic!("{context}: {e}"));
                let found = |name: &[u8]| {
                    let family = db.family(name).expect("there");
                    sim::rows(&db, &family).unwrap_or_else(|e| panic!("{context}: {e}")).len()
                };
                assert_eq!(found(LARGE[0]) + found(FAMILY), rows_of(LARGE_KEYS).len(), "{context}");
            }
        }
    }
    assert!(undecided > 20, "{undecided}");
}
