//! Transactions at REPEATABLE READ that take the newest version of a key although their snapshot does not
//! show it.

mod sim;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use sim::{begin, begin_as, seeds, Rng};
use tidesdb::internal::db::Db;
use tidesdb::internal::io::FaultyDisk;
use tidesdb::internal::store::family::Family;
use tidesdb::internal::txn::cursor::{Scan, Start};
use tidesdb::internal::txn::transaction::{Change, ChangeKind, ReadMode, Transaction};
use tidesdb::{Error, Isolation, Options, SyncMode, TransactionOptions};

/// A spill at about 25 changes.
fn options() -> Options {
    Options { write_buffer_size: 4 << 10, ..sim::tiny(SyncMode::None) }
}

fn key(n: u64) -> Vec<u8> {
    format!("k{n:04}").into_bytes()
}

fn make(disk: &FaultyDisk) -> (Db, Arc<Family>) {
    let db = sim::open(disk, &options()).expect("opens");
    db.create_family(b"a", sim::tiny_family()).expect("creates");
    let family = db.family(b"a").expect("there");
    (db, family)
}

/// A transaction with a snapshot older than `later`.
fn behind(
    db: &Db,
    family: &Arc<Family>,
    options: TransactionOptions,
    later: &[(&[u8], &[u8])],
) -> Transaction {
    let mut txn = begin_as(db, options);
    txn.get(family, b"none", ReadMode::Snapshot).expect("reads");
    let mut other = begin(db);
    for (key, value) in later {
        other.put(family, key, value).expect("puts");
    }
    other.commit().expect("commits");
    txn
}

fn put_one(db: &Db, family: &Arc<Family>, key: &[u8], value: &[u8]) {
    let mut txn = begin(db);
    txn.put(family, key, value).expect("puts");
    txn.commit().expect("commits");
}

#[test]
fn off_takes_the_newest_version_and_on_refuses_it() {
    let disk = FaultyDisk::new(1);
    let (db, family) = make(&disk);
    let a = &family;
    put_one(&db, a, b"a", b"1");
    put_one(&db, a, b"b", b"1");
    let mut txn = behind(&db, a, TransactionOptions::default(), &[(b"a", b"2"), (b"b", b"2"), (b"c", b"2")]);
    txn.set_snapshot_isolation(false);
    assert!(!txn.passed_snapshot());
    assert_eq!(txn.get(a, b"a", ReadMode::Exclusive).expect("reads").as_deref(), Some(&b"2"[..]));
    assert!(txn.passed_snapshot());
    assert_eq!(txn.get(a, b"a", ReadMode::Snapshot).expect("reads").as_deref(), Some(&b"1"[..]));
    assert_eq!(txn.get(a, b"c", ReadMode::Shared).expect("reads").as_deref(), Some(&b"2"[..]));
    assert!(matches!(txn.insert(a, b"c", b"3"), Err(Error::Duplicate)));
    txn.update(a, b"a", b"3").expect("updates");
    assert_eq!(txn.get(a, b"a", ReadMode::Snapshot).expect("reads").as_deref(), Some(&b"3"[..]));
    assert_eq!(txn.get(a, b"b", ReadMode::Snapshot).expect("reads").as_deref(), Some(&b"1"[..]));
    // On again: its own rows are its own, others are compared, the locked ones too.
    txn.set_snapshot_isolation(true);
    txn.update(a, b"a", b"4").expect("updates");
    assert!(matches!(txn.update(a, b"c", b"4"), Err(Error::Conflict)));
    txn.rollback().expect("rolls back");
    txn.begin(TransactionOptions::default()).expect("begins");
    assert!(!txn.passed_snapshot(), "a new transaction begins with it on");
    txn.rollback().expect("rolls back");
}

#[test]
fn other_levels_and_optimistic_transactions_compare() {
    for (isolation, optimistic) in [(Isolation::Snapshot, false), (Isolation::RepeatableRead, true)] {
        let disk = FaultyDisk::new(2);
        let (db, family) = make(&disk);
        let a = &family;
        put_one(&db, a, b"a", b"1");
        let options = TransactionOptions { isolation, optimistic, ..TransactionOptions::default() };
        let mut txn = behind(&db, a, options, &[(b"a", b"2")]);
        txn.set_snapshot_isolation(false);
        let refused = txn.update(a, b"a", b"3");
        assert!(matches!(refused, Err(Error::Conflict | Error::Deadlock)), "{refused:?}");
        txn.rollback().expect("rolls back");
    }
}

/// Others keep the gap around an entry, and wait for its row: a second put of the entry must not wait for
/// them. The commit must not wait either if the transaction also inserts without a lock, into a family of its
/// own.
#[test]
fn an_entry_that_is_kept_waits_for_nobody() {
    let disk = FaultyDisk::new(3);
    let (db, family) = make(&disk);
    let a = &family;
    put_one(&db, a, b"e", b"row");
    let mut reader = begin(&db);
    let mut cursor = db.cursor(a);
    let gap = Scan { mode: ReadMode::Gap, ..Scan::default() };
    assert!(cursor.seek(&mut reader, &gap).expect("seeks"));
    let mut txn = begin(&db);
    txn.set_lock_timeout(Some(Duration::ZERO));
    let change = |kind| Change { family: a, key: b"e", kind, lock: false, count_unchanged: true, expiry: 0 };
    txn.write(&[change(ChangeKind::KeepEntry(b"row"))]).expect("writes");
    let own = db.create_family(b"own", sim::tiny_family()).expect("creates");
    let insert = Change {
        family: &own,
        kind: ChangeKind::Insert(b""),
        count_unchanged: false,
        ..change(ChangeKind::Delete)
    };
    txn.write(&[insert]).expect("inserts");
    assert!(matches!(txn.write(&[insert]), Err((0, Error::Duplicate))));
    assert_eq!(txn.get(a, b"e", ReadMode::Snapshot).expect("reads").as_deref(), Some(&b"row"[..]));
    txn.commit().expect("commits without the lock");
    reader.rollback().expect("rolls back");
}

/// The expected result of a scan over both versions: key, value, in the order of the scan.
fn expected(
    seen: &BTreeMap<Vec<u8>, Vec<u8>>,
    own: &BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    forward: bool,
) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut keys: Vec<&Vec<u8>> = seen.keys().chain(own.keys()).collect();
    keys.sort();
    keys.dedup();
    if !forward {
        keys.reverse();
    }
    let versions = |key: &Vec<u8>| [own.get(key).cloned().flatten(), seen.get(key).cloned()];
    keys.into_iter()
        .flat_map(|key| versions(key).into_iter().flatten().map(move |value| (key.clone(), value)))
        .collect()
}

/// Random changes over a random snapshot, in memory and in runs. A scan gives both versions of each key,
/// whatever is written while it is on one of them.
#[test]
fn a_scan_gives_both_versions_of_a_key() {
    for seed in seeds("BOTH_VERSIONS", 60) {
        let mut rng = Rng(seed);
        let disk = FaultyDisk::new(seed);
        let (db, family) = make(&disk);
        let a = &family;
        let mut seen = BTreeMap::new();
        for n in 0..60 {
            if !rng.one_in(3) {
                let value = format!("seen {n}").into_bytes();
                put_one(&db, a, &key(n), &value);
                seen.insert(key(n), value);
            }
        }
        let mut txn =
            behind(&db, a, TransactionOptions::default(), &[(&key(5), b"later"), (&key(61), b"later")]);
        txn.set_snapshot_isolation(false);
        let mut own = BTreeMap::new();
        for _ in 0..rng.below(150) {
            let key = key(rng.below(60));
            if rng.one_in(4) {
                txn.delete(a, &key).expect("deletes");
                own.insert(key, None);
            } else {
                let value = format!("own {}", rng.below(1000)).into_bytes();
                txn.put(a, &key, &value).expect("puts");
                own.insert(key, Some(value));
            }
        }
        let mut cursor = db.cursor(a);
        for forward in [true, false] {
            let expect = rng.below(33) as u32;
            let start = if forward { Start::First } else { Start::Last };
            let scan = Scan { start, both_versions: true, expect, ..Scan::default() };
            let mut found = Vec::new();
            let mut more = cursor.seek(&mut txn, &scan).expect("seeks");
            while more {
                let take = 1 + rng.below(cursor.len() as u64) as usize;
                for index in 0..take {
                    let (key, value) = cursor.row(index);
                    found.push((key.to_vec(), value.to_vec()));
                }
                if rng.one_in(5) {
                    // A change elsewhere: what was read ahead is read again.
                    txn.put(a, b"zz", b"own").expect("puts");
                    own.insert(b"zz".to_vec(), Some(b"own".to_vec()));
                }
                more = cursor.fetch(&mut txn, take - 1, forward).expect("steps");
            }
            let mut wanted = expected(&seen, &own, forward);
            // The last key comes when it was written before the scan was there.
            wanted.retain(|(key, _)| key != b"zz");
            found.retain(|(key, _)| key != b"zz");
            assert_eq!(found, wanted, "seed {seed}, forward {forward}");
        }
        txn.rollback().expect("rolls back");
    }
}
