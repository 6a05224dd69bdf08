//! The store of `fixtures/v3`: files of the first build with a dictionary kept twice, a list of the log's
//! segments, and reserved seconds of the expiry clock. The content of earlier versions is in their stores.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use tidesdb::internal::db::Db;
use tidesdb::{FormatVersion, Options, SyncMode};

use super::content::{Content, Family, Prepared, Rows};
use super::sim::{begin, normal, tiny_family};

/// A distant second: the year 2200.
const EXPIRY: u64 = 7_258_118_400;

fn key(n: u32) -> Vec<u8> {
    format!("key{n:06}").into_bytes()
}

fn rows(from: u32, to: u32) -> Rows {
    (from..to).map(|n| (key(n), vec![n as u8; 40])).collect()
}

fn prepared() -> Prepared {
    let puts = rows(900, 905).into_iter().map(|(key, value)| ("plain", key, value)).collect();
    Prepared { xid: "prepared", commit: true, puts, deletes: vec![("plain", key(3))] }
}

/// The content of the store: rows in files, and from 100 on in the log.
pub(super) fn content() -> Content {
    let mut content = Content { families: BTreeMap::new(), prepared: vec![prepared()] };
    for name in ["plain", "expiring"] {
        let counters = BTreeMap::from([(0, 6)]);
        let family = Family { options: tiny_family(), record: Vec::new(), rows: rows(0, 150), counters };
        content.families.insert(name, family);
    }
    content
}

fn put(db: &Db, name: &str, from: u32, to: u32) {
    let family = db.family(name.as_bytes()).expect("there");
    let mut txn = begin(db);
    txn.statement_begin(true, Duration::from_secs(20)).expect("statement");
    for (key, value) in rows(from, to) {
        match name {
            "expiring" => txn.put_expiring(&family, &key, &value, EXPIRY).expect("puts"),
            _ => txn.put(&family, &key, &value).expect("puts"),
        }
    }
    txn.commit().expect("commits");
}

/// Makes the store in `directory`, and calls `killed` with it at the moment of the kill.
pub(super) fn make(directory: &Path, killed: impl FnOnce(&Path)) {
    make_in(FormatVersion::One, directory, killed);
}

/// The same store in a version of the formats.
pub(super) fn make_in(least_format: FormatVersion, directory: &Path, killed: impl FnOnce(&Path)) {
    let normal = normal(SyncMode::Full);
    let options = Options { wal_segment_size: 64 << 10, compaction_threads: 0, least_format, ..normal };
    let db = Db::open(directory, options.clone()).expect("opens");
    for name in ["plain", "expiring"] {
        let family = db.create_family(name.as_bytes(), tiny_family()).expect("creates");
        assert_eq!(db.counter_take(&family, 0, 5, 1, 1, u64::MAX).expect("takes"), 1);
        put(&db, name, 0, 100);
    }
    db.flush().expect("flushes");
    db.close().expect("closes");
    let db = Db::open(directory, options).expect("opens");
    for name in ["plain", "expiring"] {
        put(&db, name, 100, 150);
    }
    let mut txn = begin(&db);
    txn.statement_begin(true, Duration::from_secs(20)).expect("statement");
    let family = db.family(b"plain").expect("there");
    for (_, key, value) in prepared().puts {
        txn.put(&family, &key, &value).expect("puts");
    }
    txn.delete(&family, &key(3)).expect("deletes");
    txn.prepare_xa(b"prepared").expect("prepares");
    db.flush_log().expect("syncs");
    killed(directory);
}
