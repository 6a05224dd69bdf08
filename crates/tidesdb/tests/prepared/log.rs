//! Prepared transactions and the log: how much of it they hold and for how long, and their state after its
//! failure.

use std::path::Path;
use std::time::{Duration, Instant};

use tidesdb::internal::io::faulty::{Crash, Failure, Fault, Op};
use tidesdb::internal::io::{Disk, FaultyDisk};
use tidesdb::internal::txn::cursor::Scan;
use tidesdb::internal::txn::transaction::{ReadMode, Transaction};
use tidesdb::{Error, Isolation, Options, SyncMode, TransactionOptions};

use super::sim::{self, normal, open, DIR};
use super::world::{
    family, insert, key, new_store, observe, put, rows_of, small, started, State, Step, World, LARGE_KEYS,
    PREPARED_KEYS,
};

fn log_files(disk: &FaultyDisk) -> usize {
    disk.list(&Path::new(DIR).join("wal")).expect("lists").len()
}

/// The log comes down to `bound` files: background threads release them, and may have to wait for a core.
fn log_comes_down_to(bound: usize, disk: &FaultyDisk) {
    log_comes_down_while(bound, disk, || std::thread::sleep(Duration::from_millis(5)));
}

/// The same while `work` goes on.
fn log_comes_down_while(bound: usize, disk: &FaultyDisk, mut work: impl FnMut()) {
    let begun = Instant::now();
    while log_files(disk) > bound {
        assert!(begun.elapsed() < Duration::from_secs(30), "{} files of the log stay", log_files(disk));
        work();
    }
}

#[test]
fn a_forgotten_prepared_transaction_does_not_hold_the_log() {
    for xa_prepared in [true, false] {
        for mode in [SyncMode::None, SyncMode::Full] {
            let disk = new_store(7, &small(mode));
            let mut world = World::new(disk.clone(), small(mode)).expect("opens");
            let prepare = if xa_prepared { Step::XaPrepared("x", 100) } else { Step::TwoPhase("x", 100) };
            world.run(&[prepare, Step::Fill(1200, 1500), Step::Flush]).expect("runs");
            let segment = world.db().stats().wal_segment;
            assert!(segment > 20, "the log went on for a while: {segment}");
            log_comes_down_to(10, &disk);
            world.run(&[Step::Leave("x"), Step::Reopen, Step::Fill(300, 1500), Step::Flush]).expect("runs");
            log_comes_down_to(10, &disk);
            assert_eq!(world.db().prepared(), [b"x".to_vec()]);
            world.step(Step::ByXid("x", true)).expect("commits");
            let seen = observe(world.db(), &[]);
            assert_eq!(seen, world.now());
        }
    }
}

#[test]
fn prepares_that_are_rolled_back_leave_no_long_log() {
    let disk = new_store(8, &small(SyncMode::None));
    let db = open(&disk, &small(SyncMode::None)).expect("opens");
    let round = |n: u32| {
        let mut txn = started(&db);
        txn.put(&family(&db), &key(PREPARED_KEYS + n % 5), &[7; 1500]).expect("puts");
        if n.is_multiple_of(2) {
            txn.prepare_xa(b"x").expect("prepares");
        } else {
            txn.prepare(Some(b"x")).expect("prepares");
        }
        txn.rollback().expect("rolls back");
    };
    (0..1500).for_each(round);
    let segment = db.stats().wal_segment;
    assert!(segment > 20, "the log went on for a while: {segment}");
    let mut n = 0;
    log_comes_down_while(12, &disk, || {
        n += 1;
        round(n);
    });
}

#[test]
fn prepared_transactions_take_a_quarter_of_the_log_at_most() {
    // A write buffer of 8 KiB: 4 KiB for them.
    let options = small(SyncMode::None);
    let disk = new_store(10, &options);
    let db = open(&disk, &options).expect("opens");
    let mut first = started(&db);
    first.put(&family(&db), &key(100), &[1; 2500]).expect("puts");
    first.prepare_xa(b"a").expect("prepares");
    let mut second = started(&db);
    second.put(&family(&db), &key(200), &[2; 2500]).expect("puts");
    let refused = second.prepare_xa(b"b").expect_err("too much").to_string();
    for word in ["4096", "25", "commit or roll back", options.write_buffer_variable] {
        assert!(refused.contains(word), "{word} in: {refused}");
    }
    second.statement_begin(true, Duration::ZERO).expect("the transaction is as before");
    first.rollback().expect("rolls back");
    second.prepare_xa(b"b").expect("there is room now");
    second.finish(false).expect("commits");
    let mut reader = started(&db);
    let value = reader.get(&family(&db), &key(200), ReadMode::Snapshot).expect("reads");
    assert_eq!(value, Some(vec![2; 2500]));
}

/// No room in the log is freed during an opening. No later commit finds it taken by transactions waiting for
/// a decision.
#[test]
fn many_prepared_transactions_are_recovered_and_leave_room_for_others() {
    let options = Options { write_buffer_size: 1 << 20, wal_segment_size: 1 << 20, ..small(SyncMode::None) };
    let disk = new_store(16, &options);
    let db = open(&disk, &options).expect("opens");
    let xid = |n: u32| format!("x{n}").into_bytes();
    for n in 0..100 {
        let mut txn = started(&db);
        txn.put(&family(&db), &key(n), &[n as u8; 30_000]).expect("puts");
        txn.prepare(Some(&xid(n))).expect("prepares");
    }
    assert_eq!(db.prepared().len(), 100, "three times what the log takes at a time");
    let found = disk.crash(Crash::Drop);
    disk.crash_at(0);
    drop(db);
    let begun = Instant::now();
    let db = open(&found, &options).expect("opens");
    assert_eq!(db.prepared().len(), 100);
    let mut txn = started(&db);
    txn.put(&family(&db), &key(1000), b"another").expect("puts");
    txn.commit().expect("there is room");
    for n in (0..100).rev() {
        assert!(db.commit_by_xid(&xid(n)).expect("commits"));
    }
    assert!(begun.elapsed() < Duration::from_secs(50), "nothing waited for room: {:?}", begun.elapsed());
    assert_eq!(sim::rows(&db, &family(&db)).expect("reads").len(), 101);
}

/// An owner dropped between `order` and `finish` leaves a commit, and holds no part of the log.
#[test]
fn an_ordered_transaction_whose_owner_goes_is_committed() {
    for first in [100, LARGE_KEYS] {
        let options = small(SyncMode::None);
        let disk = new_store(17, &options);
        let mut world = World::new(disk.clone(), options).expect("opens");
        let mut txn = started(world.db());
        for row in rows_of(first) {
            put(world.db(), &mut txn, &row).expect("puts");
        }
        txn.prepare(Some(b"x")).expect("prepares");
        txn.order();
        drop(txn);
        assert_eq!(world.db().prepared(), Vec::<Vec<u8>>::new());
        let mut next = State::default();
        insert(&mut next.rows, rows_of(first));
        assert_eq!(observe(world.db(), &[]), next);
        world.history.push(next);
        world.run(&[Step::Fill(1200, 1500), Step::Flush]).expect("runs");
        log_comes_down_to(10, &disk);
        assert_eq!(observe(world.db(), &[]), world.now());
    }
}

/// The log fails between a prepare and its commit. The coordinator's log may have a two-phase one as
/// committed, and after the restart it is: the answer is not "no". In one phase nothing of it is in the log.
#[test]
fn a_log_that_fails_behind_a_prepare_leaves_the_outcome_to_the_restart() {
    let disk = new_store(10, &normal(SyncMode::Full));
    let db = open(&disk, &normal(SyncMode::Full)).expect("opens");
    let mut writers: Vec<Transaction> = (0..3).map(|_| started(&db)).collect();
    for (n, txn) in writers.iter_mut().enumerate() {
        txn.put(&family(&db), &key(100 + n as u32), b"v").expect("puts");
    }
    let [two, one, fails] = &mut writers[..] else { unreachable!("three of them") };
    two.prepare(Some(b"x")).expect("prepares");
    one.prepare(None).expect("prepares");
    disk.fail(Fault { op: Some(Op::Write), path: ".wal".into(), skip: 0, times: 1, failure: Failure::Eio });
    assert!(matches!(fails.commit(), Err(Error::OutcomeUnknown)));
    let answer = two.finish(true);
    assert!(matches!(answer, Err(Error::OutcomeUnknown)), "{answer:?}");
    let answer = one.finish(false);
    assert!(matches!(answer, Err(Error::ReadOnly(_))), "{answer:?}");
    drop(writers);
    drop(db);
    let disk = disk.crash(Crash::Kill);
    let db = open(&disk, &normal(SyncMode::Full)).expect("opens");
    assert_eq!(db.prepared(), [b"x".to_vec()]);
    assert!(db.commit_by_xid(b"x").expect("commits"));
    let rows = sim::rows(&db, &family(&db)).expect("reads");
    let there = |n: u32| rows.iter().any(|(found, _)| *found == key(n));
    assert!(there(100) && !there(101));
}

/// A commit that a failure of the log refused is in memory until the restart. No locking read and no change goes by it:
/// an UPDATE would find that the row it deleted is gone.
#[test]
fn locking_reads_do_not_see_a_commit_that_a_failed_log_refused() {
    let disk = new_store(12, &normal(SyncMode::Full));
    let db = open(&disk, &normal(SyncMode::Full)).expect("opens");
    let family = family(&db);
    let mut sets = started(&db);
    sets.put(&family, &key(0), b"first").expect("puts");
    sets.put(&family, &key(1), b"there").expect("puts");
    sets.commit().expect("commits");
    let (mut refused, mut fails) = (started(&db), started(&db));
    refused.delete(&family, &key(1)).expect("deletes");
    refused.prepare(None).expect("prepares");
    fails.put(&family, &key(2), b"v").expect("puts");
    // It stands on the first row when the log fails.
    let isolation = Isolation::ReadCommitted;
    let (mut reader, mut under_way) = (db.transaction(), db.cursor(&family));
    reader.begin(TransactionOptions { isolation, ..TransactionOptions::default() }).expect("begins");
    reader.statement_begin(true, Duration::from_secs(10)).expect("begins");
    let locking = Scan { mode: ReadMode::Exclusive, ..Scan::default() };
    assert!(under_way.seek(&mut reader, &locking).expect("seeks"));
    disk.fail(Fault { op: Some(Op::Write), path: ".wal".into(), skip: 0, times: 1, failure: Failure::Eio });
    assert!(matches!(fails.commit(), Err(Error::OutcomeUnknown)));
    assert!(matches!(refused.finish(false), Err(Error::ReadOnly(_))));

    let there = [(key(0), b"first".to_vec()), (key(1), b"there".to_vec())];
    assert_eq!(sim::rows(&db, &family).expect("reads"), there);
    let next = under_way.fetch(&mut reader, 0, true);
    assert!(matches!(next, Err(Error::ReadOnly(_))), "{next:?}");
    for mode in [ReadMode::Latest, ReadMode::Shared, ReadMode::Exclusive] {
        let read = started(&db).get(&family, &key(1), mode);
        assert!(matches!(read, Err(Error::ReadOnly(_))), "{mode:?}: {read:?}");
    }
    // A scan at READ COMMITTED passes a deleted row without asking for its lock.
    let mut txn = db.transaction();
    txn.begin(TransactionOptions { isolation, ..TransactionOptions::default() }).expect("begins");
    txn.statement_begin(true, Duration::from_secs(10)).expect("begins");
    let found = db.cursor(&family).seek(&mut txn, &locking);
    assert!(matches!(found, Err(Error::ReadOnly(_))), "{found:?}");
    assert!(matches!(started(&db).put(&family, &key(1), b"again"), Err(Error::ReadOnly(_))));
}

/// Two-phase commits are answered before their markers are synced. A later failed sync hides none of them
/// until the restart: the coordinator's log has decided them.
#[test]
fn answered_commits_stay_after_a_sync_of_the_log_failed() {
    let disk = new_store(11, &normal(SyncMode::Full));
    let db = open(&disk, &normal(SyncMode::Full)).expect("opens");
    for n in 0..10 {
        let mut txn = started(&db);
        txn.put(&family(&db), &key(n), b"v").expect("puts");
        txn.prepare(Some(&[n as u8])).expect("prepares");
        txn.finish(true).expect("answers");
    }
    let rows = || sim::rows(&db, &family(&db)).expect("reads").len();
    assert_eq!(rows(), 10);
    disk.fail(Fault { op: Some(Op::Sync), path: ".wal".into(), skip: 0, times: 1, failure: Failure::Eio });
    let mut fails = started(&db);
    fails.put(&family(&db), &key(10), b"v").expect("puts");
    assert!(fails.prepare(Some(b"last")).is_err());
    assert_eq!(rows(), 10, "a failure takes no answered commit back");
    assert!(matches!(db.flush_log(), Err(Error::ReadOnly(_))));
}
