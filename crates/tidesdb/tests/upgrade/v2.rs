//! The store of `fixtures/v2`: files of the first build with counts of rows. It repeats nothing of version 1:
//! it covers the numbers of rows in the log, the names of runs and the manifest. Its writers declare their
//! effects truthfully.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use tidesdb::internal::db::Db;
use tidesdb::internal::txn::transaction::Transaction;
use tidesdb::{Options, SyncMode, TransactionOptions};

use super::content::{Content, Family, Prepared, Rows};
use super::sim::{begin_as, normal, tiny, tiny_family};

fn key(n: u32) -> Vec<u8> {
    format!("key{n:06}").into_bytes()
}

fn value(n: u32) -> Vec<u8> {
    vec![n as u8; 60 + n as usize % 50]
}

/// A family's rows before the last life of the store, and after it.
fn rows(from: u32, to: u32) -> Rows {
    let mut rows: Rows = (from..to).map(|n| (key(n), value(n))).collect();
    (from..to).step_by(5).for_each(|n| drop(rows.remove(&key(n))));
    rows.extend((from..to).filter(|n| n % 5 == 3).map(|n| (key(n), b"updated".to_vec())));
    rows
}

/// Puts all rows of the range in `txn`, then deletes and updates some of them: leaves the content of
/// [`rows`].
fn write(db: &Db, txn: &mut Transaction, family: &str, from: u32, to: u32) {
    let family = db.family(family.as_bytes()).expect("there");
    (from..to).for_each(|n| txn.put(&family, &key(n), &value(n)).expect("puts"));
    (from..to).step_by(5).for_each(|n| txn.delete(&family, &key(n)).expect("deletes"));
    let changed = (from..to).filter(|n| n % 5 == 3);
    changed.for_each(|n| txn.update(&family, &key(n), b"updated").expect("updates"));
}

fn prepared() -> Vec<Prepared> {
    let new = (10_000..10_200).map(|n| ("large", key(n), value(n)));
    let old = (0..300).filter(|n| n % 5 == 1).map(|n| ("large", key(n), b"updated by spilled".to_vec()));
    let small = |n: u32| vec![("plain", key(n), b"prepared".to_vec()), ("plain", key(20_000 + n), value(n))];
    vec![
        Prepared {
            xid: "spilled",
            commit: true,
            puts: new.chain(old).collect(),
            deletes: vec![("large", key(2))],
        },
        Prepared {
            xid: "small",
            commit: true,
            puts: small(1),
            deletes: vec![("plain", key(2)), ("plain", key(4))],
        },
        Prepared { xid: "phased", commit: false, puts: small(6), deletes: vec![("plain", key(7))] },
    ]
}

fn prepare(db: &Db, xid: &str) -> Transaction {
    let prepared = prepared().into_iter().find(|prepared| prepared.xid == xid).expect("one of ours");
    let mut txn = started(db);
    for (name, key, value) in prepared.puts {
        let family = db.family(name.as_bytes()).expect("there");
        // Keys of rows are below.
        match key < self::key(10_000) {
            true => txn.update(&family, &key, &value).expect("updates"),
            false => txn.put(&family, &key, &value).expect("puts"),
        }
    }
    for (name, key) in prepared.deletes {
        txn.delete(&db.family(name.as_bytes()).expect("there"), &key).expect("deletes");
    }
    txn
}

/// The content of the store.
pub(super) fn content() -> Content {
    let mut content = Content { families: BTreeMap::new(), prepared: prepared() };
    for (name, ends) in
        [("plain", &[(0, 200), (300, 340)][..]), ("large", &[(0, 300), (400, 700)]), ("cut", &[])]
    {
        let rows = ends.iter().flat_map(|&(from, to)| rows(from, to)).collect();
        let family = Family { options: tiny_family(), record: Vec::new(), rows, counters: BTreeMap::new() };
        content.families.insert(name, family);
    }
    content
}

fn started(db: &Db) -> Transaction {
    let mut txn = begin_as(db, TransactionOptions::default());
    txn.statement_begin(true, Duration::from_secs(20)).expect("begins");
    txn
}

fn commit(db: &Db, family: &str, from: u32, to: u32) {
    let mut txn = started(db);
    write(db, &mut txn, family, from, to);
    txn.commit().expect("commits");
}

/// Makes the store in `directory`, and calls `killed` with it at the moment of the kill.
pub(super) fn make(directory: &Path, killed: impl FnOnce(&Path)) {
    let db = Db::open(directory, tiny(SyncMode::Full)).expect("opens");
    for name in ["plain", "large", "cut"] {
        db.create_family(name.as_bytes(), tiny_family()).expect("creates");
    }
    (0..200).step_by(10).for_each(|n| commit(&db, "plain", n, n + 10));
    commit(&db, "cut", 0, 20);
    let mut ddl = db.ddl().expect("begins");
    ddl.truncate(b"cut").expect("truncates");
    ddl.commit().expect("commits");
    commit(&db, "large", 0, 300);
    let mut spilled = prepare(&db, "spilled");
    spilled.prepare_xa(b"spilled").expect("prepares");
    assert!(db.stats().spilled_runs >= 3, "transactions spilled: {}", db.stats().spilled_runs);
    drop(spilled);
    db.close().expect("closes");

    // Here the log has what comes: the commit of runs too. No merge removes a file while the store is copied.
    let options = Options { write_buffer_size: 128 << 10, compaction_threads: 0, ..normal(SyncMode::Full) };
    let db = Db::open(directory, options).expect("opens");
    let flushed = db.stats().flush_count;
    commit(&db, "plain", 300, 340);
    let mut phased = prepare(&db, "phased");
    phased.prepare(Some(b"phased")).expect("prepares");
    let mut small = prepare(&db, "small");
    small.prepare_xa(b"small").expect("prepares");
    commit(&db, "large", 400, 700);
    db.flush_log().expect("syncs");
    assert_eq!(db.stats().flush_count, flushed, "the end is in the log alone");
    killed(directory);
}
