//! Advisory locks of transactions: real locks in every kind of transaction, kept to its end, without effect
//! on its reads and writes. `lock/advisory_test.rs` has their conflicts, `prepared/locks.rs` their life over
//! a restart.

mod sim;

use std::sync::Arc;
use std::time::Duration;

use sim::{begin_as, normal, open, tiny_family};
use tidesdb::internal::db::Db;
use tidesdb::internal::io::FaultyDisk;
use tidesdb::internal::lock::Mode;
use tidesdb::internal::store::family::Family;
use tidesdb::internal::txn::transaction::{ReadMode, Transaction};
use tidesdb::{Error, Isolation, SyncMode, TransactionOptions};

const SOON: Option<Duration> = Some(Duration::ZERO);
const LATE: Option<Duration> = Some(Duration::from_secs(60));

fn new_store() -> (Db, Arc<Family>, Arc<Family>) {
    let db = open(&FaultyDisk::new(1), &normal(SyncMode::None)).expect("opens");
    let rows = db.create_family(b"rows", tiny_family()).expect("creates");
    let guards = db.create_family(b"guards", tiny_family()).expect("creates");
    (db, rows, guards)
}

fn started(db: &Db, options: TransactionOptions, timeout: Option<Duration>) -> Transaction {
    let mut txn = begin_as(db, options);
    txn.set_lock_timeout(timeout);
    txn.statement_begin(true, Duration::from_secs(20)).expect("begins");
    txn
}

fn usual(db: &Db) -> Transaction {
    started(db, TransactionOptions::default(), SOON)
}

/// Every level in every mode.
fn kinds() -> Vec<TransactionOptions> {
    let mut out = Vec::new();
    for level in 0..5 {
        let isolation = Isolation::from_number(level).expect("a level");
        for (optimistic, unlocked) in [(false, false), (true, false), (false, true)] {
            out.push(TransactionOptions { isolation, optimistic, unlocked, ..TransactionOptions::default() });
        }
    }
    out
}

/// Waits until the transaction waits for a lock.
fn await_wait(db: &Db, id: u64) {
    for _ in 0..60_000 {
        if db.transactions().iter().any(|txn| txn.id == id && txn.waits_since_us.is_some()) {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("transaction {id} does not wait");
}

#[test]
fn it_is_a_lock_that_is_waited_for_in_every_transaction() {
    for options in kinds() {
        let (db, rows, guards) = new_store();
        let mut holder = started(&db, options, SOON);
        holder.lock_advisory(&guards, b"k", Mode::Exclusive).expect("is free");
        let mut reader = usual(&db);
        let refused = reader.lock_advisory(&guards, b"k", Mode::Shared);
        assert!(matches!(refused, Err(Error::LockTimeout)), "{options:?}: {refused:?}");
        let mut waiter = started(&db, options, LATE);
        // Who holds something waits all the same, an optimistic one too.
        waiter.put(&rows, b"row", b"v").expect("puts");
        let id = waiter.owner().id();
        std::thread::scope(|scope| {
            let wait = scope.spawn(|| waiter.lock_advisory(&guards, b"k", Mode::Shared));
            await_wait(&db, id);
            holder.commit().expect("commits");
            wait.join().expect("ends").expect("gets it");
        });
        reader.lock_advisory(&guards, b"k", Mode::Shared).expect("shares it");
        assert!(matches!(reader.lock_advisory(&guards, b"k", Mode::Exclusive), Err(Error::LockTimeout)));
        waiter.commit().expect("commits");
        reader.lock_advisory(&guards, b"k", Mode::Exclusive).expect("raises it");
        assert!(!reader.has_writes());
        reader.commit().expect("commits");
        assert_eq!(db.stats().locks.held, 0, "{options:?}");
    }
}

#[test]
fn undoing_statements_and_savepoints_keeps_it() {
    for options in kinds() {
        let (db, rows, guards) = new_store();
        let mut txn = started(&db, options, SOON);
        let savepoint = txn.savepoint_set().expect("sets");
        txn.lock_advisory(&guards, b"savepoint", Mode::Exclusive).expect("locks");
        txn.put(&rows, b"row", b"v").expect("puts");
        txn.savepoint_rollback(savepoint).expect("rolls back");
        txn.statement_end();
        txn.statement_begin(true, Duration::from_secs(20)).expect("begins");
        txn.lock_advisory(&guards, b"statement", Mode::Exclusive).expect("locks");
        txn.statement_rollback();
        let mut other = usual(&db);
        for key in [&b"savepoint"[..], b"statement"] {
            let refused = other.lock_advisory(&guards, key, Mode::Shared);
            assert!(matches!(refused, Err(Error::LockTimeout)), "{options:?}: {refused:?}");
        }
        txn.rollback().expect("rolls back");
        for key in [&b"savepoint"[..], b"statement"] {
            other.lock_advisory(&guards, key, Mode::Shared).expect("is free");
        }
    }
}

#[test]
fn a_kill_ends_the_wait_for_it() {
    for options in kinds() {
        let (db, _, guards) = new_store();
        let mut holder = usual(&db);
        holder.lock_advisory(&guards, b"k", Mode::Shared).expect("is free");
        let mut waiter = started(&db, options, LATE);
        let owner = waiter.owner().clone();
        std::thread::scope(|scope| {
            let wait = scope.spawn(|| waiter.lock_advisory(&guards, b"k", Mode::Exclusive));
            await_wait(&db, owner.id());
            db.kill(&owner);
            let killed = wait.join().expect("ends");
            assert!(matches!(killed, Err(Error::Interrupted)), "{options:?}: {killed:?}");
        });
        waiter.rollback().expect("rolls back");
        holder.lock_advisory(&guards, b"k", Mode::Exclusive).expect("nobody else has it");
    }
}

/// An old snapshot neither keeps the lock from being taken, nor is it replaced.
#[test]
fn the_snapshot_has_no_part_in_it() {
    for options in kinds().into_iter().filter(|kind| kind.isolation == Isolation::RepeatableRead) {
        let (db, rows, guards) = new_store();
        let mut txn = started(&db, options, SOON);
        txn.take_snapshot().expect("takes");
        let mut other = usual(&db);
        other.lock_advisory(&guards, b"k", Mode::Exclusive).expect("is free");
        other.put(&rows, b"row", b"newer").expect("puts");
        other.commit().expect("commits");
        txn.lock_advisory(&guards, b"k", Mode::Exclusive).expect("is free");
        assert_eq!(txn.get(&rows, b"row", ReadMode::Snapshot).expect("reads"), None);
        assert!(txn.get(&rows, b"row", ReadMode::Latest).expect("reads").is_some(), "a current read decides");
        assert!(!txn.passed_snapshot());
    }
}

#[test]
fn a_family_that_is_gone_has_none() {
    let (db, _, guards) = new_store();
    let mut ddl = db.ddl().expect("begins");
    ddl.drop_family(b"guards").expect("drops");
    ddl.commit().expect("commits");
    let mut txn = usual(&db);
    assert!(txn.lock_advisory(&guards, b"k", Mode::Shared).is_err());
    txn.rollback().expect("rolls back");
    assert!(matches!(txn.lock_advisory(&guards, b"k", Mode::Shared), Err(Error::InvalidArgument(_))));
}
