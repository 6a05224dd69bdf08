//! The store of `fixtures/v1`: tables format 1, log format 1, manifest format 1, dictionary format 1.
//!
//! | family | what is special |
//! |---|---|
//! | `lz4` | LZ4, small blocks; merged once, two more runs above, several versions of keys kept for a snapshot |
//! | `none` | no compression, pages of an index tree; values of 20 kB and 100 kB, an empty one, a key of 3 kB |
//! | `prefix` | filters with prefixes of 3 bytes, three levels at the least; merged |
//! | `plain` | no filters; another name when it was made; its record was set later |
//! | `one`, `other` | their names were exchanged |
//! | `cut` | truncated, then filled again |
//! | `large` | filled by a transaction that spilled, with deletions |
//! | `late` | made when nothing was flushed any more: it is in the log alone, with a batch of its own record |
//!
//! `gone` was dropped. Prepared and undecided are `spilled` (runs of its own), `small` (XA-prepared,
//! deletions too), `phased` (two-phase). The end of the log was not flushed, and the process was killed.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use tidesdb::internal::db::Db;
use tidesdb::internal::txn::transaction::Transaction;
use tidesdb::{Compression, FamilyOptions, Isolation, Options, SyncMode, TransactionOptions};

use super::content::{Content, Family, Prepared, Rows};
use super::sim::{begin_as, Row};

/// Spills at 32 kB, and merges only on request.
fn small() -> Options {
    Options {
        write_buffer_size: 64 << 10,
        block_cache_size: 64 << 10,
        wal_segment_size: 64 << 10,
        sync_mode: SyncMode::None,
        compaction_threads: 0,
        target_file_size: 16 << 10,
        base_level_size: 64 << 10,
        ..Options::default()
    }
}

/// Room for a batch with a record of its own in the log, of more than 1 MB.
fn large() -> Options {
    Options { write_buffer_size: 8 << 20, wal_segment_size: 1 << 20, ..small() }
}

fn definitions() -> Vec<(&'static str, FamilyOptions)> {
    let base = FamilyOptions { compression: Compression::None, block_size: 512, ..FamilyOptions::default() };
    vec![
        ("lz4", FamilyOptions { compression: Compression::Lz4, block_size: 1024, ..base.clone() }),
        ("none", FamilyOptions { use_btree: true, block_size: 256, ..base.clone() }),
        (
            "prefix",
            FamilyOptions { prefix_len: 3, bloom_fpr: 1, min_levels: 3, level_size_ratio: 2, ..base.clone() },
        ),
        ("plain", FamilyOptions { bloom_filter: false, compression: Compression::Lz4, ..base.clone() }),
        ("one", FamilyOptions { l0_compaction_trigger: 3, l0_stall_threshold: 40, ..base.clone() }),
        (
            "other",
            FamilyOptions {
                tombstone_density_trigger: 5000,
                tombstone_density_min_entries: 10,
                ..base.clone()
            },
        ),
        (
            "cut",
            FamilyOptions { sync_mode: Some(SyncMode::Interval), sync_interval_us: 5000, ..base.clone() },
        ),
        ("large", FamilyOptions { compression: Compression::Lz4, ..base.clone() }),
        ("late", base),
    ]
}

fn key(n: u32) -> Vec<u8> {
    format!("{:03}/{n:06}", n % 5).into_bytes()
}

/// Compressible text, different for each seed.
fn value(seed: u32, len: usize) -> Vec<u8> {
    seed.to_string().bytes().chain([b'.']).cycle().take(len).collect()
}

/// The rounds of a family's content: the keys put, with their seeds, and the keys deleted.
fn round(n: u32) -> (Vec<Row>, Vec<Vec<u8>>) {
    let puts =
        (n * 100..n * 100 + 250).map(|i| (key(i), value(i * 10 + n, 20 + (i % 60) as usize))).collect();
    let deletes = (0..n * 100 + 250).filter(|i| i % 7 == n).map(key).collect();
    (puts, deletes)
}

const ROUNDS: u32 = 4;
const FILLED: [&str; 4] = ["lz4", "none", "prefix", "plain"];

/// Spilling rows: `count` from `first` on.
fn many(first: u32, count: u32) -> Vec<Row> {
    (first..first + count).map(|i| (key(i), value(i, 130))).collect()
}

fn odd_rows() -> Vec<Row> {
    vec![
        (b"20 kB".to_vec(), value(20, 20_000)),
        (b"100 kB".to_vec(), value(100, 100_000)),
        (b"empty".to_vec(), Vec::new()),
        (value(3, 3000), b"a long key".to_vec()),
        (vec![0, 255, 0], vec![255, 0, 254]),
    ]
}

fn prepared() -> Vec<Prepared> {
    let spilled = many(10_000, 600).into_iter().map(|(key, value)| ("large", key, value)).collect();
    let small = (0..5).map(|n| ("lz4", key(20_000 + n), value(n, 50))).collect();
    let phased = (0..5).map(|n| ("none", key(20_000 + n), value(n, 50))).collect();
    vec![
        Prepared { xid: "spilled", commit: true, puts: spilled, deletes: vec![] },
        Prepared { xid: "small", commit: true, puts: small, deletes: vec![("prefix", key(301))] },
        Prepared { xid: "phased", commit: false, puts: phased, deletes: vec![] },
    ]
}

/// The content of the store.
pub(super) fn content() -> Content {
    let mut content = Content { families: BTreeMap::new(), prepared: prepared() };
    for (name, options) in definitions() {
        let record =
            if name == "plain" { b"set later".to_vec() } else { format!("record of {name}").into_bytes() };
        let family = Family { options, record, rows: Rows::new(), counters: BTreeMap::new() };
        content.families.insert(name, family);
    }
    for n in 0..ROUNDS {
        let (puts, deletes) = round(n);
        for name in FILLED {
            content.rows(name).extend(puts.clone());
            deletes.iter().for_each(|key| drop(content.rows(name).remove(key)));
        }
    }
    content.rows("none").extend(odd_rows());
    content.rows("one").insert(b"k".to_vec(), b"of one, made as other".to_vec());
    content.rows("other").insert(b"k".to_vec(), b"of other, made as one".to_vec());
    content.rows("cut").insert(key(2), b"behind the cut".to_vec());
    content.rows("large").extend(many(0, 700));
    (0..700).step_by(9).for_each(|n| drop(content.rows("large").remove(&key(n))));
    content.rows("other").insert(key(1), b"decided".to_vec());
    content.rows("late").extend(batch());
    for n in 0..20 {
        content.rows("lz4").insert(key(n), value(n, 33));
    }
    if let Some(family) = content.families.get_mut("lz4") {
        family.counters.extend([(0, 12), (1, 1001)]);
    }
    content
}

/// More than 1 MB, not flushed.
fn batch() -> Vec<Row> {
    (0..60).map(|n| (key(n), value(n, 20_000))).collect()
}

fn started(db: &Db) -> Transaction {
    let mut txn = begin_as(
        db,
        TransactionOptions { isolation: Isolation::ReadCommitted, ..TransactionOptions::default() },
    );
    txn.statement_begin(true, Duration::from_secs(20)).expect("begins");
    txn
}

fn put(db: &Db, txn: &mut Transaction, family: &str, rows: &[Row]) {
    let family = db.family(family.as_bytes()).expect("there");
    for (key, value) in rows {
        txn.put(&family, key, value).expect("puts");
    }
}

fn commit(db: &Db, family: &str, rows: &[Row]) {
    let mut txn = started(db);
    put(db, &mut txn, family, rows);
    txn.commit().expect("commits");
}

/// Makes the store in `directory`, and calls `killed` with it at the moment of the kill.
pub(super) fn make(directory: &Path, killed: impl FnOnce(&Path)) {
    let db = Db::open(directory, small()).expect("opens");
    define(&db);
    fill(&db);
    let mut spilled = started(&db);
    put_prepared(&db, &mut spilled, "spilled");
    spilled.prepare_xa(b"spilled").expect("prepares");
    assert!(db.stats().spilled_runs >= 3, "transactions spilled: {}", db.stats().spilled_runs);
    drop(spilled);
    db.close().expect("closes");

    let db = Db::open(directory, large()).expect("opens");
    db.flush().expect("flushes");
    let flushed = db.stats().flush_count;
    let mut ddl = db.ddl().expect("begins");
    let (name, options) = definitions().pop().expect("late is the last");
    ddl.create(name.as_bytes(), options, b"record of late").expect("creates");
    ddl.commit().expect("commits");
    commit(&db, "late", &batch());
    for n in 0..20 {
        commit(&db, "lz4", &[(key(n), value(n, 33))]);
    }
    for xid in ["small", "phased"] {
        let mut txn = started(&db);
        put_prepared(&db, &mut txn, xid);
        match xid {
            "small" => txn.prepare_xa(xid.as_bytes()).expect("prepares"),
            _ => txn.prepare(Some(xid.as_bytes())).expect("prepares"),
        }
    }
    for (xid, commit) in [(b"decided", true), (b"refused", false)] as [(&[u8; 7], bool); 2] {
        let mut txn = started(&db);
        put(&db, &mut txn, "other", &[(key(1), xid.to_vec())]);
        txn.prepare(Some(xid)).expect("prepares");
        if commit {
            txn.finish(false).expect("commits");
        } else {
            txn.rollback().expect("rolls back");
        }
    }
    db.flush_log().expect("syncs");
    assert_eq!(db.stats().flush_count, flushed, "the end is in the log alone");
    killed(directory);
}

fn put_prepared(db: &Db, txn: &mut Transaction, xid: &str) {
    let prepared = prepared().into_iter().find(|prepared| prepared.xid == xid).expect("one of ours");
    for (family, key, value) in prepared.puts {
        put(db, txn, family, &[(key, value)]);
    }
    for (family, key) in prepared.deletes {
        txn.delete(&db.family(family.as_bytes()).expect("there"), &key).expect("deletes");
    }
}

/// Makes and changes the families.
fn define(db: &Db) {
    let mut ddl = db.ddl().expect("begins");
    for (name, options) in definitions() {
        let first_name = match name {
            "plain" => "first name",
            "one" => "other",
            "other" => "one",
            "late" => continue,
            name => name,
        };
        ddl.create(first_name.as_bytes(), options, format!("record of {name}").as_bytes()).expect("creates");
    }
    ddl.create(b"gone", FamilyOptions::default(), b"").expect("creates");
    ddl.commit().expect("commits");
    commit(db, "other", &[(b"k".to_vec(), b"of one, made as other".to_vec())]);
    commit(db, "one", &[(b"k".to_vec(), b"of other, made as one".to_vec())]);
    commit(db, "gone", &many(0, 20));
    commit(db, "cut", &many(0, 20));
    db.flush().expect("flushes");
    let mut ddl = db.ddl().expect("begins");
    ddl.rename(b"first name", b"plain").expect("renames");
    ddl.set_record(b"plain", b"set later").expect("sets");
    ddl.rename(b"one", b"between").expect("renames");
    ddl.rename(b"other", b"one").expect("renames");
    ddl.rename(b"between", b"other").expect("renames");
    ddl.drop_family(b"gone").expect("drops");
    ddl.truncate(b"cut").expect("truncates");
    ddl.commit().expect("commits");
    commit(db, "cut", &[(key(2), b"behind the cut".to_vec())]);
    let family = db.family(b"lz4").expect("there");
    assert_eq!(db.counter_take(&family, 0, 11, 1, 1, u64::MAX).expect("takes"), 1);
    db.counter_raise(&family, 1, 1000).expect("raises");
}

/// Rows in runs of level 0 and below, some with versions kept by a snapshot.
fn fill(db: &Db) {
    let mut reader = begin_as(db, TransactionOptions::default());
    for n in 0..ROUNDS {
        if n == 2 {
            reader.take_snapshot().expect("takes");
        }
        let (puts, deletes) = round(n);
        for name in FILLED {
            puts.chunks(50).for_each(|rows| commit(db, name, rows));
            let family = db.family(name.as_bytes()).expect("there");
            let mut txn = started(db);
            deletes.iter().for_each(|key| txn.delete(&family, key).expect("deletes"));
            txn.commit().expect("commits");
        }
        if n == 2 {
            odd_rows().into_iter().for_each(|row| commit(db, "none", &[row]));
        }
        db.flush().expect("flushes");
        let merged: &[&str] = if n == 1 { &["lz4", "prefix"] } else { &["none"] };
        for name in merged {
            db.compact(&db.family(name.as_bytes()).expect("there")).expect("merges");
        }
    }
    reader.rollback().expect("rolls back");
    let mut txn = started(db);
    put(db, &mut txn, "large", &many(0, 700));
    let family = db.family(b"large").expect("there");
    (0..700).step_by(9).for_each(|n| txn.delete(&family, &key(n)).expect("deletes"));
    txn.commit().expect("commits");
    db.flush().expect("flushes");
}
