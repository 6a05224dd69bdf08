//! The locks of prepared transactions: held without the owner, taken by `prepare` if no statement did, and
//! back after a restart.

use std::time::Duration;

use tidesdb::internal::io::faulty::{Crash, Failure, Fault, Op};
use tidesdb::internal::lock::{Mode, TableMode};
use tidesdb::internal::txn::cursor::{Scan, Start};
use tidesdb::internal::txn::transaction::{Change, ChangeKind, ReadMode};
use tidesdb::{Error, Isolation, Options, SyncMode, TransactionOptions};

use super::sim::{begin_as, normal, open, tiny_family};
use super::world::{family, key, new_store, small, started};

#[test]
fn a_dormant_transaction_holds_its_locks_and_nothing_else() {
    let disk = new_store(9, &small(SyncMode::None));
    let db = open(&disk, &small(SyncMode::None)).expect("opens");
    let mut txn = begin_as(
        &db,
        TransactionOptions { isolation: Isolation::RepeatableRead, ..TransactionOptions::default() },
    );
    txn.statement_begin(true, Duration::ZERO).expect("begins");
    txn.take_snapshot().expect("takes");
    txn.put(&family(&db), &key(100), &[1; 3000]).expect("puts");
    assert_eq!(db.stats().snapshots, 1);
    txn.prepare_xa(b"x").expect("prepares");
    assert_eq!(db.stats().snapshots, 0, "the snapshot was given back");
    assert!(txn.holds_locks() && txn.has_writes());
    assert!(db.stats().txn_memory_bytes >= 3000, "its batch is counted");
    assert!(txn.put(&family(&db), &key(101), b"late").is_err(), "nothing is added to it");
    let mut other = started(&db);
    assert!(matches!(other.put(&family(&db), &key(100), b"v"), Err(Error::LockTimeout)));
    drop(txn);
    assert!(matches!(other.put(&family(&db), &key(100), b"v"), Err(Error::LockTimeout)), "still");
    assert!(db.stats().txn_memory_bytes >= 3000, "its batch is still counted");
    assert!(db.commit_by_xid(b"x").expect("commits"));
    assert!(!db.commit_by_xid(b"x").expect("answers"), "only once");
    other.put(&family(&db), &key(100), b"v").expect("the lock is gone");
    other.rollback().expect("rolls back");
    assert_eq!(db.stats().txn_memory_bytes, 0);
}

/// A later decider finds the written rows unchanged.
#[test]
fn a_rollback_that_fails_gives_no_lock_back() {
    for xa in [true, false] {
        let disk = new_store(10, &small(SyncMode::Full));
        let db = open(&disk, &small(SyncMode::Full)).expect("opens");
        let mut txn = started(&db);
        txn.put(&family(&db), &key(100), b"v").expect("puts");
        match xa {
            true => txn.prepare_xa(b"x").expect("prepares"),
            false => txn.prepare(Some(b"x")).expect("prepares"),
        }
        disk.fail(Fault {
            op: Some(Op::Sync),
            path: ".wal".into(),
            skip: 0,
            times: 1,
            failure: Failure::Eio,
        });
        txn.rollback().expect_err("the log fails");
        let mut other = started(&db);
        let mut is_held = || {
            let refused = other.lock(&family(&db), &key(100));
            assert!(matches!(refused, Err(Error::ReadOnly(_))), "at once, without a wait: {refused:?}");
            db.locks(10)
                .locks
                .iter()
                .any(|lock| lock.key.as_ref().is_some_and(|prefix| prefix.bytes == key(100)))
        };
        assert!(is_held(), "{xa}");
        txn.rollback().expect_err("the log has failed");
        assert!(is_held(), "{xa}");
        drop(txn);
        assert!(is_held(), "{xa}");
        assert_eq!(db.prepared(), [b"x".to_vec()]);
    }
}

#[test]
fn table_locks_come_back_with_a_prepared_transaction() {
    let options = small(SyncMode::Full);
    let disk = new_store(11, &options);
    let db = open(&disk, &options).expect("opens");
    let other = db.create_family(b"other", tiny_family()).expect("creates");
    let mut txn = started(&db);
    txn.lock_table(&other, TableMode::Shared).expect("locks");
    txn.put(&family(&db), &key(100), b"v").expect("puts");
    txn.prepare_xa(b"x").expect("prepares");
    let found = disk.crash(Crash::Drop);
    disk.crash_at(0);
    drop((txn, other, db));
    let db = open(&found, &options).expect("opens");
    let (one, other) = (family(&db), db.family(b"other").expect("there"));
    let mut txn = started(&db);
    txn.lock_table(&other, TableMode::IntentShared).expect("readers share it");
    assert!(matches!(txn.put(&other, b"k", b"v"), Err(Error::LockTimeout)), "S on the table stands");
    assert!(matches!(txn.lock_table(&one, TableMode::Exclusive), Err(Error::LockTimeout)), "so does IX");
    txn.put(&one, &key(101), b"v").expect("other rows are free");
    txn.rollback().expect("rolls back");
    assert!(db.rollback_by_xid(b"x").expect("rolls back"));
    let mut txn = started(&db);
    txn.lock_table(&one, TableMode::Exclusive).expect("free");
    txn.put(&other, b"k", b"v").expect("free");
}

/// Two prepared transactions share a key, and still share it after a second restart, from the copies of their
/// records.
#[test]
fn advisory_locks_come_back_with_a_prepared_transaction() {
    let options = small(SyncMode::Full);
    let disk = new_store(24, &options);
    let db = open(&disk, &options).expect("opens");
    let guards = db.create_family(b"guards", tiny_family()).expect("creates");
    let mut a = started(&db);
    a.put(&family(&db), &key(100), b"v").expect("puts");
    a.statement_end();
    let savepoint = a.savepoint_set().expect("sets");
    a.lock_advisory(&guards, b"shared", Mode::Shared).expect("locks");
    a.lock_advisory(&guards, b"raised", Mode::Shared).expect("locks");
    a.lock_advisory(&guards, b"raised", Mode::Exclusive).expect("raises");
    a.savepoint_rollback(savepoint).expect("rolls back");
    a.statement_rollback();
    a.prepare_xa(b"a").expect("prepares");
    let mut b = begin_as(&db, TransactionOptions { optimistic: true, ..TransactionOptions::default() });
    b.put(&family(&db), &key(101), b"v").expect("puts");
    b.lock_advisory(&guards, b"shared", Mode::Shared).expect("shares");
    b.lock_advisory(&guards, b"alone", Mode::Exclusive).expect("locks");
    b.prepare(Some(b"b")).expect("prepares");
    let mut nothing = started(&db);
    nothing.lock_advisory(&guards, b"nothing", Mode::Exclusive).expect("locks");
    nothing.prepare_xa(b"nothing").expect("prepares");
    let mut found = disk.crash(Crash::Drop);
    disk.crash_at(0);
    drop((a, b, nothing, guards, db));
    for _ in 0..2 {
        let db = open(&found, &options).expect("opens");
        let guards = db.family(b"guards").expect("there");
        let mut other = started(&db);
        other.lock_advisory(&guards, b"shared", Mode::Shared).expect("goes on being shared");
        other.lock_advisory(&guards, b"nothing", Mode::Exclusive).expect("its owner wrote nothing");
        for (key, mode) in [
            (&b"shared"[..], Mode::Exclusive),
            (b"raised", Mode::Shared),
            (b"raised", Mode::Exclusive),
            (b"alone", Mode::Shared),
        ] {
            let refused = other.lock_advisory(&guards, key, mode);
            assert!(matches!(refused, Err(Error::LockTimeout)), "{key:?} {mode:?}: {refused:?}");
        }
        let again = found.crash(Crash::Drop);
        found.crash_at(0);
        drop((other, guards, db));
        found = again;
    }
    let db = open(&found, &options).expect("opens");
    let guards = db.family(b"guards").expect("there");
    let mut other = started(&db);
    assert!(db.commit_by_xid(b"a").expect("commits"));
    other.lock_advisory(&guards, b"raised", Mode::Exclusive).expect("is free");
    let shared = other.lock_advisory(&guards, b"shared", Mode::Exclusive);
    assert!(matches!(shared, Err(Error::LockTimeout)), "the other one has it: {shared:?}");
    assert!(db.rollback_by_xid(b"b").expect("rolls back"));
    for key in [&b"shared"[..], b"alone"] {
        other.lock_advisory(&guards, key, Mode::Exclusive).expect("is free");
    }
    other.rollback().expect("rolls back");
    assert_eq!(db.stats().locks.held, 0);
}

/// SERIALIZABLE: rows read by a prepared transaction stay unchanged over a restart, however they were locked.
/// Each of the two would get in the way of a lock on the family in place of the other's.
#[test]
fn very_many_advisory_locks_come_back_alongside_anothers() {
    let options = Options { compaction_threads: 0, ..normal(SyncMode::Full) };
    let disk = new_store(14, &options);
    let db = open(&disk, &options).expect("opens");
    let guards = db.create_family(b"guards", tiny_family()).expect("creates");
    let mut many = started(&db);
    let mut one = started(&db);
    one.lock_advisory(&guards, b"one", Mode::Exclusive).expect("locks");
    for i in 0..10_001_u32 {
        many.lock_advisory(&guards, &i.to_be_bytes(), Mode::Shared).expect("locks");
    }
    many.put(&family(&db), &key(100), b"v").expect("puts");
    one.put(&family(&db), &key(101), b"v").expect("puts");
    many.prepare_xa(b"many").expect("prepares");
    one.prepare_xa(b"one").expect("prepares");
    let found = disk.crash(Crash::Drop);
    disk.crash_at(0);
    drop((many, one, guards, db));
    let db = open(&found, &options).expect("opens");
    let guards = db.family(b"guards").expect("there");
    let mut other = started(&db);
    other.lock_advisory(&guards, b"two", Mode::Exclusive).expect("nobody has it");
    assert!(matches!(other.lock_advisory(&guards, b"one", Mode::Shared), Err(Error::LockTimeout)));
    let refused = other.lock_advisory(&guards, &7_u32.to_be_bytes(), Mode::Exclusive);
    assert!(matches!(refused, Err(Error::LockTimeout)));
    assert!(db.commit_by_xid(b"many").expect("commits") && db.commit_by_xid(b"one").expect("commits"));
}

#[test]
fn rows_read_for_update_stay_as_they_are_over_a_restart() {
    for mode in [ReadMode::Shared, ReadMode::Exclusive] {
        let options = small(SyncMode::Full);
        let disk = new_store(21, &options);
        let db = open(&disk, &options).expect("opens");
        let mut txn = started(&db);
        txn.put(&family(&db), &key(101), b"read").expect("puts");
        txn.commit().expect("commits");
        let mut txn = begin_as(
            &db,
            TransactionOptions { isolation: Isolation::Serializable, ..TransactionOptions::default() },
        );
        let read = txn.get(&family(&db), &key(101), mode).expect("reads");
        assert_eq!(read, Some(b"read".to_vec()));
        txn.put(&family(&db), &key(100), b"v").expect("puts");
        txn.prepare_xa(b"x").expect("prepares");
        let found = disk.crash(Crash::Drop);
        disk.crash_at(0);
        drop((txn, db));
        let db = open(&found, &options).expect("opens");
        let mut other = started(&db);
        for n in [100, 101] {
            let put = other.put(&family(&db), &key(n), b"theirs");
            assert!(matches!(put, Err(Error::LockTimeout)), "{n} {mode:?}: {put:?}");
        }
        other.rollback().expect("rolls back");
        assert!(db.commit_by_xid(b"x").expect("commits"));
    }
}

/// `prepare`, of either kind, locks keys put without a lock: another may keep their place free.
#[test]
fn a_prepare_locks_what_no_statement_locked() {
    let disk = new_store(19, &small(SyncMode::None));
    let db = open(&disk, &small(SyncMode::None)).expect("opens");
    let f = family(&db);
    let mut reader = started(&db);
    let mut cursor = db.cursor(&f);
    let scan = Scan { mode: ReadMode::Exclusive, ..Scan::default() };
    assert!(!cursor.seek(&mut reader, &scan).expect("scans"), "nothing is there, and nothing may come");
    for xa_prepared in [false, true] {
        let mut txn = started(&db);
        let change = Change {
            family: &f,
            key: b"k",
            kind: ChangeKind::Put(b"v"),
            lock: false,
            count_unchanged: false,
            expiry: 0,
        };
        txn.write(&[change]).expect("puts");
        let refused = match xa_prepared {
            false => txn.prepare(Some(b"x")),
            true => txn.prepare_xa(b"x"),
        };
        assert!(matches!(refused, Err(Error::LockTimeout)), "xa_prepared: {xa_prepared}, {refused:?}");
    }
}

/// A range of one may lie over keys locked by another: it was published, and the wait for them failed.
/// Recovery must not depend on the order of the two.
#[test]
fn a_range_over_anothers_keys_does_not_keep_a_store_from_opening() {
    for ranges_first in [true, false] {
        let options = small(SyncMode::Full);
        let disk = new_store(12, &options);
        let db = open(&disk, &options).expect("opens");
        let mut writer = started(&db);
        writer.put(&family(&db), &key(105), b"v").expect("puts");
        let mut reader = begin_as(
            &db,
            TransactionOptions { isolation: Isolation::Serializable, ..TransactionOptions::default() },
        );
        reader.set_lock_timeout(Some(Duration::ZERO));
        reader.put(&family(&db), &key(100), b"v").expect("puts");
        let from = key(101);
        let scan = Scan { start: Start::AtOrAfter, key: &from, mode: ReadMode::Shared, ..Scan::default() };
        let blocked = db.cursor(&family(&db)).seek(&mut reader, &scan);
        assert!(matches!(blocked, Err(Error::LockTimeout)), "{blocked:?}");
        reader.statement_rollback();
        reader.put(&family(&db), &key(100), b"v").expect("puts");
        let order = if ranges_first {
            [(&mut reader, b"r"), (&mut writer, b"w")]
        } else {
            [(&mut writer, b"w"), (&mut reader, b"r")]
        };
        for (txn, xid) in order {
            txn.prepare_xa(xid).expect("prepares");
        }
        let found = disk.crash(Crash::Drop);
        disk.crash_at(0);
        drop((reader, writer, db));
        let db = open(&found, &options).expect("opens");
        assert!(db.commit_by_xid(b"w").expect("commits"));
        let mut other = started(&db);
        assert!(
            matches!(other.put(&family(&db), &key(105), b"v"), Err(Error::LockTimeout)),
            "the range stands"
        );
        other.rollback().expect("rolls back");
        assert!(db.commit_by_xid(b"r").expect("commits"));
    }
}

/// Recovery takes the former locks, however many: an escalation would meet others' locks.
#[test]
fn many_locks_of_one_prepared_transaction_leave_room_for_anothers() {
    const KEYS: u32 = 9000;
    let options = Options { compaction_threads: 0, ..normal(SyncMode::Full) };
    assert!(options.lock_bound() < KEYS as usize);
    let disk = new_store(13, &options);
    let db = open(&disk, &options).expect("opens");
    let (mut large, mut small) = (started(&db), started(&db));
    small.put(&family(&db), &key(KEYS), b"v").expect("puts");
    for n in 0..KEYS {
        large.put(&family(&db), &key(n), b"v").expect("puts");
    }
    large.prepare_xa(b"large").expect("prepares");
    small.prepare_xa(b"small").expect("prepares");
    let found = disk.crash(Crash::Drop);
    disk.crash_at(0);
    drop((large, small, db));
    let db = open(&found, &options).expect("opens");
    assert!(db.commit_by_xid(b"large").expect("commits"));
    assert!(db.commit_by_xid(b"small").expect("commits"));
}
