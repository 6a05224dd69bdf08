//! The store of `fixtures/long_prepare`: a prepared transaction with its record at the start of a segment.
//! The record ends in the fragment at which builds before 26 November 2026 wrote their gathered bytes. They
//! wrote it without its ticket, and their recovery, logging the record again, never came to its end.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use tidesdb::internal::db::Db;
use tidesdb::{Options, SyncMode};

use super::content::{Content, Family, Prepared, Rows};
use super::sim::{begin, normal, tiny_family};

/// Bytes of the prepared row: its record ends between 1 MiB and 32 KiB after that.
const LONG: usize = 1_060_000;

/// Bytes of the row before it, so the prepare itself does not end there.
const SHORT: usize = 25_000;

fn rows() -> Rows {
    BTreeMap::from([(b"a".to_vec(), vec![1; SHORT])])
}

pub(super) fn content() -> Content {
    let puts = vec![("long", b"b".to_vec(), vec![2; LONG])];
    let prepared = vec![Prepared { xid: "prepared", commit: true, puts, deletes: Vec::new() }];
    let family =
        Family { options: tiny_family(), record: Vec::new(), rows: rows(), counters: BTreeMap::new() };
    Content { families: BTreeMap::from([("long", family)]), prepared }
}

/// Makes the store in `directory`, and calls `killed` with it at the moment of the kill.
pub(super) fn make(directory: &Path, killed: impl FnOnce(&Path)) {
    let options = Options {
        wal_segment_size: 2 << 20,
        write_buffer_size: 8 << 20,
        compaction_threads: 0,
        ..normal(SyncMode::Full)
    };
    let db = Db::open(directory, options).expect("opens");
    let family = db.create_family(b"long", tiny_family()).expect("creates");
    let content = content();
    let mut txn = begin(&db);
    for (key, value) in content.families["long"].rows.iter() {
        txn.statement_begin(true, Duration::from_secs(20)).expect("statement");
        txn.put(&family, key, value).expect("puts");
    }
    txn.commit().expect("commits");
    let mut txn = begin(&db);
    txn.statement_begin(true, Duration::from_secs(20)).expect("statement");
    for (_, key, value) in &content.prepared[0].puts {
        txn.put(&family, key, value).expect("puts");
    }
    txn.prepare_xa(b"prepared").expect("prepares");
    killed(directory);
}
