//! Cursors beside commits that are ordered and not yet in a memtable.

use std::path::Path;

use super::{Cursor, Scan, Start};
use crate::db::Db;
use crate::io::FaultyDisk;
use crate::options::{FamilyOptions, Options, SyncMode};
use crate::store::deleted_range_cache::Bounds;
use crate::txn::transaction::{Isolation, ReadMode, Transaction, TransactionOptions};
use crate::types::MAX_SEQ;

fn begin(db: &Db) -> Transaction {
    let mut txn = db.transaction();
    txn.begin(TransactionOptions { isolation: Isolation::ReadCommitted, ..TransactionOptions::default() })
        .expect("begins");
    txn
}

/// A commit that was ordered into a memtable brings the family's first entry into it after it was sealed and after
/// a scan has looked which memtables have some. The scan, placed anew, finds it, and does not take the range that
/// it lies in for dead.
#[test]
fn a_first_entry_in_a_sealed_memtable_is_found_when_a_scan_is_placed_anew() {
    let options = Options { sync_mode: SyncMode::None, deleted_run: 4, ..Options::default() };
    let db = Db::open_on(FaultyDisk::new(1).shared(), Path::new("/s"), options, None).expect("opens");
    let family = db.create_family(b"t", FamilyOptions::default()).expect("creates");
    for delete in [false, true] {
        let mut txn = begin(&db);
        for key in 0..20u8 {
            let key = &[key, 0];
            let done = if delete { txn.delete(&family, key) } else { txn.put(&family, key, b"v") };
            done.expect("writes");
        }
        txn.put(&family, &[200], b"v").and_then(|()| txn.commit()).expect("commits");
    }
    db.flush().expect("flushes");

    let mut writer = begin(&db);
    writer.put(&family, &[4, 1], b"v").and_then(|()| writer.prepare(None)).expect("prepares");
    writer.order();
    let store = db.store();
    // Held, so that nothing is flushed meanwhile: that would help the writer.
    let mut memtables = store.memtables.state.lock();
    store.seal_active(&mut memtables);
    let mut reader = begin(&db);
    let mut cursor = Cursor::new(family.clone());
    let scan = Scan { start: Start::First, mode: ReadMode::Latest, ..Scan::default() };
    assert!(cursor.seek(&mut reader, &scan).expect("seeks"));
    assert_eq!(cursor.row(0).0, [200]);
    writer.finish(false).expect("finishes");
    assert!(cursor.fetch(&mut reader, 0, false).expect("steps back"));
    assert_eq!(cursor.row(0).0, [4, 1]);
    let known = store.pipeline.deleted_ranges().around(family.id(), &[4, 1], MAX_SEQ, &mut Bounds::default());
    assert_eq!(known, None);
    drop(memtables);
}

/// What a scan that locks what is committed sees of the keys 10, 20, 30 and 40 when another transaction gives the row
/// at 20 the key 25 after the scan read 10. `flushed`: 40 alone is in the memtable.
fn moved_in_front(
    mode: ReadMode,
    isolation: Isolation,
    optimistic: bool,
    flushed: bool,
    expect: u32,
) -> Vec<u8> {
    let options = Options { sync_mode: SyncMode::None, ..Options::default() };
    let db = Db::open_on(FaultyDisk::new(1).shared(), Path::new("/s"), options, None).expect("opens");
    let family = db.create_family(b"t", FamilyOptions::default()).expect("creates");
    let mut txn = begin(&db);
    for key in [10u8, 20, 30, 40] {
        txn.put(&family, &[key], b"v").expect("writes");
    }
    txn.commit().expect("commits");
    if flushed {
        db.flush().expect("flushes");
        let mut txn = begin(&db);
        txn.put(&family, &[40], b"w").and_then(|()| txn.commit()).expect("commits");
    }
    let mut reader = db.transaction();
    reader
        .begin(TransactionOptions { isolation, optimistic, ..TransactionOptions::default() })
        .expect("begins");
    reader.statement_begin(true, std::time::Duration::ZERO).expect("statement");
    let mut cursor = Cursor::new(family.clone());
    let scan = Scan { start: Start::First, mode, expect, ..Scan::default() };
    let mut found = cursor.seek(&mut reader, &scan).expect("seeks");
    let (mut seen, mut at) = (Vec::new(), 0);
    while found {
        let key = cursor.row(at).0[0];
        seen.push(key);
        if key == 10 {
            let mut writer = begin(&db);
            writer.delete(&family, &[20]).and_then(|()| writer.put(&family, &[25], b"v")).expect("writes");
            writer.commit().expect("commits");
        }
        if key == 20 {
            // Its row does not have this entry any more, as who reads the row finds out.
            cursor.look_again();
        }
        if key != 20 && at + 1 < cursor.len() {
            at += 1;
        } else {
            found = cursor.fetch(&mut reader, at, true).expect("steps");
            at = 0;
        }
    }
    seen
}

#[test]
fn a_locking_scan_sees_a_row_that_moved_in_front_of_it() {
    use Isolation::{ReadCommitted, RepeatableRead};
    for flushed in [false, true] {
        for expect in [1, 8] {
            for (mode, isolation, optimistic) in [
                (ReadMode::Gap, ReadCommitted, false),
                (ReadMode::Gap, RepeatableRead, true),
                (ReadMode::Exclusive, ReadCommitted, false),
                (ReadMode::Shared, ReadCommitted, false),
            ] {
                let seen = moved_in_front(mode, isolation, optimistic, flushed, expect);
                let rest: Vec<u8> = seen.iter().copied().filter(|key| *key != 20).collect();
                assert_eq!(rest, [10, 25, 30, 40], "{mode:?} {isolation:?} {flushed} {expect}: {seen:?}");
            }
        }
    }
}
