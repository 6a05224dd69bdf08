//! Cursors beside commits that are ordered and not yet in a memtable.

use std::path::Path;

use super::{Cursor, Scan, Start};
use crate::io::FaultyDisk;
use crate::options::{FamilyOptions, Options, SyncMode};
use crate::txn::dead_ranges::Bounds;
use crate::txn::transaction::{Isolation, Mood, ReadMode, Transaction};
use crate::types::MAX_SEQ;
use crate::Db;

fn begin(db: &Db) -> Transaction {
    let mut txn = db.transaction();
    txn.begin(Mood { isolation: Isolation::ReadCommitted, ..Mood::default() }).expect("begins");
    txn
}

/// A commit that was ordered into a memtable brings the family's first entry into it after it was sealed and after
/// a scan has looked which memtables have some. The scan, placed anew, finds it, and does not take the range that
/// it lies in for dead.
#[test]
fn a_first_entry_in_a_sealed_memtable_is_found_when_a_scan_is_placed_anew() {
    let options = Options { sync_mode: SyncMode::None, dead_run: 4, ..Options::default() };
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
    let known = store.pipeline.dead_ranges().around(family.id(), &[4, 1], MAX_SEQ, &mut Bounds::default());
    assert_eq!(known, None);
    drop(memtables);
}
