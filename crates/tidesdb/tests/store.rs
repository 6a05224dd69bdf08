//! The store from outside: committed rows are there, after a restart too.

use std::path::Path;
use std::sync::Arc;

use tidesdb::internal::db::Db;
use tidesdb::internal::store::family::Family;
use tidesdb::internal::txn::cursor::{Scan, Start};
use tidesdb::internal::txn::transaction::{ReadMode, Transaction};
use tidesdb::{Error, FamilyOptions, Isolation, Options, SyncMode, TransactionOptions};

fn options() -> Options {
    Options {
        write_buffer_size: 256 << 10,
        wal_segment_size: 256 << 10,
        sync_mode: SyncMode::None,
        ..Options::default()
    }
}

fn begin(db: &Db) -> Transaction {
    let mut txn = db.transaction();
    txn.begin(TransactionOptions::default()).expect("begins");
    txn.statement_begin(true, std::time::Duration::from_secs(10)).expect("statement");
    txn
}

fn rows(db: &Db, family: &Arc<Family>, forward: bool) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut txn = begin(db);
    let rows = rows_in(db, &mut txn, family, forward);
    txn.rollback().expect("rolls back");
    rows
}

fn rows_in(db: &Db, txn: &mut Transaction, family: &Arc<Family>, forward: bool) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut cursor = db.cursor(family);
    let start = if forward { Start::First } else { Start::Last };
    let scan = Scan { start, ..Scan::default() };
    let mut out = Vec::new();
    let mut found = cursor.seek(txn, &scan).expect("seeks");
    while found {
        for index in 0..cursor.len() {
            let (key, value) = cursor.row(index);
            out.push((key.to_vec(), value.to_vec()));
        }
        found = cursor.fetch(txn, cursor.len() - 1, forward).expect("fetches");
    }
    out
}

#[test]
fn committed_rows_survive_a_restart_and_rolled_back_ones_do_not() {
    let dir = tempfile::tempdir().expect("directory");
    let expected: Vec<(Vec<u8>, Vec<u8>)> =
        (0..5000u32).map(|i| (i.to_be_bytes().to_vec(), vec![i as u8; 100])).collect();
    for round in 0..3 {
        let db = Db::open(dir.path(), options()).expect("opens");
        if round == 0 {
            let family = db.create_family(b"t", FamilyOptions::default()).expect("creates");
            for chunk in expected.chunks(50) {
                let mut txn = begin(&db);
                for (key, value) in chunk {
                    txn.put(&family, key, value).expect("puts");
                }
                txn.commit().expect("commits");
            }
            let mut txn = begin(&db);
            txn.put(&family, b"gone", b"x").expect("puts");
            txn.rollback().expect("rolls back");
        }
        let family = db.family(b"t").expect("there");
        assert_eq!(rows(&db, &family, true), expected, "round {round}");
        let mut backward = rows(&db, &family, false);
        backward.reverse();
        assert_eq!(backward, expected, "round {round}, backward");
        if round == 1 {
            db.close().expect("closes");
        }
    }
}

#[test]
fn a_snapshot_does_not_move_and_a_write_over_a_newer_version_conflicts() {
    let dir = tempfile::tempdir().expect("directory");
    let db = Db::open(dir.path(), options()).expect("opens");
    let family = db.create_family(b"t", FamilyOptions::default()).expect("creates");
    let mut writer = begin(&db);
    writer.put(&family, b"a", b"1").expect("puts");
    writer.commit().expect("commits");
    let mut reader = begin(&db);
    assert_eq!(reader.get(&family, b"a", ReadMode::Snapshot).expect("reads"), Some(b"1".to_vec()));
    writer.begin(TransactionOptions::default()).expect("begins");
    writer.put(&family, b"a", b"2").expect("puts");
    writer.commit().expect("commits");
    assert_eq!(reader.get(&family, b"a", ReadMode::Snapshot).expect("reads"), Some(b"1".to_vec()));
    assert!(matches!(reader.put(&family, b"a", b"3"), Err(Error::Conflict)));
    reader.rollback().expect("rolls back");
    let mut reader = db.transaction();
    reader
        .begin(TransactionOptions { isolation: Isolation::ReadCommitted, ..TransactionOptions::default() })
        .expect("begins");
    assert_eq!(reader.get(&family, b"a", ReadMode::Snapshot).expect("reads"), Some(b"2".to_vec()));
}

/// The directory of a store as left by a kill, in another place: this process still has the store's lock.
fn killed(from: &Path) -> tempfile::TempDir {
    let to = tempfile::tempdir().expect("directory");
    std::fs::create_dir(to.path().join("wal")).expect("makes");
    for part in ["", "wal"] {
        for entry in std::fs::read_dir(from.join(part)).expect("lists").map(|entry| entry.expect("an entry"))
        {
            if entry.path().is_file() {
                std::fs::copy(entry.path(), to.path().join(part).join(entry.file_name())).expect("copies");
            }
        }
    }
    to
}

#[test]
fn a_prepared_transaction_waits_for_its_decision_over_a_crash() {
    for commit in [true, false] {
        let dir = tempfile::tempdir().expect("directory");
        {
            let db = Db::open(dir.path(), options()).expect("opens");
            let family = db.create_family(b"t", FamilyOptions::default()).expect("creates");
            let mut txn = begin(&db);
            txn.put(&family, b"k", b"v").expect("puts");
            txn.prepare(Some(b"xid-1")).expect("prepares");
            // The transaction is neither committed nor rolled back: the process dies here.
            std::mem::forget(txn);
            std::mem::forget(db);
        }
        let dir = killed(dir.path());
        let db = Db::open(dir.path(), options()).expect("opens");
        let family = db.family(b"t").expect("there");
        assert_eq!(db.prepared(), vec![b"xid-1".to_vec()]);
        assert!(rows(&db, &family, true).is_empty());
        let mut other = begin(&db);
        other.set_lock_timeout(Some(std::time::Duration::from_millis(1)));
        assert!(matches!(other.put(&family, b"k", b"w"), Err(Error::LockTimeout)));
        other.rollback().expect("rolls back");
        let decided = if commit { db.commit_by_xid(b"xid-1") } else { db.rollback_by_xid(b"xid-1") };
        assert!(decided.expect("decides"));
        assert!(!db.commit_by_xid(b"xid-1").expect("answers"), "it is decided once");
        for _ in 0..2 {
            assert_eq!(rows(&db, &family, true).len(), usize::from(commit));
        }
        drop((family, other));
        db.close().expect("closes");
        let db = Db::open(dir.path(), options()).expect("opens");
        assert_eq!(rows(&db, &db.family(b"t").expect("there"), true).len(), usize::from(commit));
    }
}

#[test]
fn an_xid_has_one_prepared_transaction() {
    let dir = tempfile::tempdir().expect("directory");
    let db = Db::open(dir.path(), options()).expect("opens");
    let family = db.create_family(b"t", FamilyOptions::default()).expect("creates");
    let mut first = begin(&db);
    first.put(&family, b"a", b"1").expect("puts");
    first.prepare_xa(b"xid").expect("prepares");
    let mut second = begin(&db);
    second.put(&family, b"b", b"2").expect("puts");
    assert!(matches!(second.prepare_xa(b"xid"), Err(Error::InvalidArgument(_))), "its owner is there");
    drop(first);
    assert!(matches!(second.prepare_xa(b"xid"), Err(Error::InvalidArgument(_))), "it has no owner");
    assert!(matches!(second.prepare(Some(b"xid")), Err(Error::InvalidArgument(_))), "in one phase more");
    assert_eq!(rows(&db, &family, true), vec![], "nothing is decided");
    assert!(db.commit_by_xid(b"xid").expect("commits"));
    second.prepare_xa(b"xid").expect("the xid is free again");
    drop(second);
    assert!(db.commit_by_xid(b"xid").expect("commits"));
    assert_eq!(rows(&db, &family, true).len(), 2);
}

#[test]
fn many_overwrites_flush_compact_and_read_back() {
    let dir = tempfile::tempdir().expect("directory");
    let mut model = std::collections::BTreeMap::new();
    for round in 0..2u64 {
        let db = Db::open(dir.path(), options()).expect("opens");
        if round == 0 {
            db.create_family(b"t", FamilyOptions::default()).expect("creates");
        }
        let family = db.family(b"t").expect("there");
        let mut state = round + 1;
        for _ in 0..600 {
            let mut txn = begin(&db);
            for _ in 0..20 {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let key = ((state >> 33) % 3000).to_be_bytes().to_vec();
                if state % 7 == 0 {
                    txn.delete(&family, &key).expect("deletes");
                    model.remove(&key);
                } else {
                    let value = vec![(state >> 20) as u8; 120];
                    txn.put(&family, &key, &value).expect("puts");
                    model.insert(key, value);
                }
            }
            txn.commit().expect("commits");
        }
        let expected: Vec<_> = model.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
        assert_eq!(rows(&db, &family, true), expected);
        db.compact(&family).expect("compacts");
        assert_eq!(rows(&db, &family, true), expected);
        db.verify(&family).expect("verifies");
        let stats = db.stats();
        assert!(stats.flush_count > 0 && stats.compaction_count > 0, "{stats:?}");
        assert_eq!(db.family_stats(&family).expect("known").tombstones, 0, "compacted to the bottom");
        println!("{}", db.report());
    }
}

#[test]
fn closing_can_finish_compactions() {
    let dir = tempfile::tempdir().expect("directory");
    for finish in [false, true] {
        let options = Options { finish_compactions_on_close: finish, compaction_threads: 0, ..options() };
        let db = Db::open(dir.path(), options.clone()).expect("opens");
        let name = if finish { &b"b"[..] } else { &b"a"[..] };
        let family = db.create_family(name, FamilyOptions::default()).expect("creates");
        for round in 0..8u32 {
            let mut txn = begin(&db);
            for key in 0..40u32 {
                txn.put(&family, &(key * 8 + round).to_be_bytes(), &[round as u8; 1000]).expect("puts");
            }
            txn.commit().expect("commits");
            db.flush().expect("flushes");
        }
        let before = db.family_stats(&family).expect("known").runs;
        drop(family);
        db.close().expect("closes");
        let db = Db::open(dir.path(), options).expect("opens");
        let family = db.family(name).expect("there");
        let after = db.family_stats(&family).expect("known").runs;
        if finish {
            assert!(after < before, "{before} runs became {after}");
        } else {
            assert!(after >= before, "{before} runs became {after} without being asked");
        }
    }
}

/// An operation killed between two blocks leaves nothing, and can be done again.
#[test]
fn merging_and_verifying_end_when_they_are_interrupted() {
    let dir = tempfile::tempdir().expect("directory");
    let db = Db::open(dir.path(), Options { compaction_threads: 0, ..options() }).expect("opens");
    let family = db.create_family(b"f", FamilyOptions::default()).expect("creates");
    for round in 0..4u8 {
        let mut txn = begin(&db);
        for n in 0..1500u32 {
            txn.put(&family, &n.to_be_bytes(), &[round; 60]).expect("puts");
        }
        txn.commit().expect("commits");
        db.flush().expect("flushes");
    }
    let tables = || {
        let names =
            std::fs::read_dir(dir.path()).expect("lists").map(|entry| entry.expect("lists").file_name());
        names.filter(|name| name.to_string_lossy().ends_with(".sst")).count()
    };
    let after = |asked: u32| {
        let left = std::cell::Cell::new(asked);
        move || left.replace(left.get().saturating_sub(1)) == 0
    };
    let before = tables();
    for asked in [0, 1, 2, 10] {
        let answer = db.compact_unless(&family, &after(asked));
        assert!(matches!(answer, Err(Error::Interrupted)), "asked {asked} times: {answer:?}");
        assert_eq!(tables(), before, "asked {asked} times");
        let answer = db.verify_unless(&family, &after(asked));
        assert!(matches!(answer, Err(Error::Interrupted)), "asked {asked} times: {answer:?}");
    }
    db.compact_unless(&family, &|| false).expect("merges");
    db.verify_unless(&family, &|| false).expect("verifies");
    assert_eq!(rows(&db, &family, true).len(), 1500);
}

/// A scan reads the files in their former state, or anew once its memtable has been flushed. A dropped family
/// is an error then, and not the end of its rows.
#[test]
fn a_scan_does_not_end_where_its_family_is_dropped() {
    let dir = tempfile::tempdir().expect("directory");
    let db = Db::open(dir.path(), options()).expect("opens");
    let family = db.create_family(b"f", FamilyOptions::default()).expect("creates");
    let mut txn = begin(&db);
    for n in 0..5000u32 {
        txn.put(&family, &n.to_be_bytes(), &[7; 20]).expect("puts");
    }
    txn.commit().expect("commits");
    let mut txn = begin(&db);
    let mut cursor = db.cursor(&family);
    assert!(cursor.seek(&mut txn, &Scan::default()).expect("seeks"));
    let mut found = cursor.len();
    db.flush().expect("flushes");
    let mut ddl = db.ddl().expect("begins");
    ddl.drop_family(b"f").and_then(|()| ddl.commit()).expect("drops");
    db.flush().expect("flushes");
    let ended = loop {
        match cursor.fetch(&mut txn, cursor.len() - 1, true) {
            Ok(true) => found += cursor.len(),
            Ok(false) => break Ok(found),
            Err(error) => break Err(error),
        }
    };
    assert!(matches!(ended, Ok(5000) | Err(Error::NoSuchFamily(_))), "{ended:?}");
}
