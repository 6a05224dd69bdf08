//! Tests of cursors alongside commits that are ordered but not yet in a memtable.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::Arc;

use super::position::Edge;
use super::row_batch::LARGE_BATCH;
use super::{Cursor, Scan, Start};
use crate::db::Db;
use crate::error::Error;
use crate::io::FaultyDisk;
use crate::options::{FamilyOptions, Options, SyncMode};
use crate::store::deleted_range_cache::{Bounds, Seen};
use crate::store::family::Family;
use crate::txn::transaction::{Isolation, PointRead, ReadMode, Transaction, TransactionOptions};
use crate::types::{CountEffect, Kind, MAX_SEQ};

fn begin(db: &Db) -> Transaction {
    let mut txn = db.transaction();
    txn.begin(TransactionOptions { isolation: Isolation::ReadCommitted, ..TransactionOptions::default() })
        .expect("begins");
    txn
}

/// The family's first entry reaches a memtable after the memtable was sealed, and after a scan looked for
/// memtables with entries. Its commit was ordered before. The scan, placed again, finds the entry, and does
/// not treat its range as dead.
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

/// The result of a scan of the newest versions, with locks, over the keys 10, 20, 30 and 40. Another
/// transaction moves the row at 20 to the key 25 after the scan read 10. `flushed`: only 40 is in the
/// memtable.
fn moved_in_front(
    mode: ReadMode,
    isolation: Isolation,
    optimistic: bool,
    flushed: bool,
    expect: u32,
) -> Vec<u8> {
    let (db, family) = four_keys(Options::default(), flushed);
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
            cursor.look_again(false);
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

/// A store whose only family has the keys 10, 20, 30 and 40, in the memtable, or, `flushed`, all but 40 in a
/// table.
fn four_keys(options: Options, flushed: bool) -> (Db, Arc<Family>) {
    let options = Options { sync_mode: SyncMode::None, ..options };
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
    (db, family)
}

/// Moves the row at 20 to the key 25 in an ordered commit. The memtable holds only its deletion if `begun`,
/// else none of it.
fn order_move(db: &Db, family: &Arc<Family>, begun: bool) -> Transaction {
    let mut writer = begin(db);
    writer.delete(family, &[20]).and_then(|()| writer.put(family, &[25], b"v")).expect("writes");
    writer.prepare(None).expect("prepares");
    writer.order();
    if begun {
        let store = db.store();
        store.super_version().active.tree_or_create(family.id()).insert_counted(
            &[20],
            store.pipeline.last_ordered(),
            (Kind::DELETE, CountEffect::Counts),
            b"",
            &AtomicBool::new(false),
            0,
        );
    }
    writer
}

/// The keys after 10 in a scan at READ COMMITTED; `meanwhile` runs once the scan has read 10.
fn after_ten(db: &Db, family: &Arc<Family>, scan: &Scan<'_>, meanwhile: impl FnOnce(&mut Cursor)) -> Vec<u8> {
    let mut reader = begin(db);
    reader.set_lock_timeout(Some(std::time::Duration::ZERO));
    let mut cursor = Cursor::new(family.clone());
    assert!(cursor.seek(&mut reader, scan).expect("seeks"));
    assert_eq!(cursor.row(0).0, [10]);
    meanwhile(&mut cursor);
    let mut seen = Vec::new();
    let mut at = 0;
    while cursor.fetch(&mut reader, at, true).expect("steps") {
        seen.extend((0..cursor.len()).map(|row| cursor.row(row).0[0]));
        at = cursor.len() - 1;
    }
    seen
}

/// The deletion of a commit is visible before the new key of its row.
#[test]
fn a_locking_scan_waits_for_the_rest_of_a_commit_whose_deletion_it_meets() {
    let (db, family) = four_keys(Options::default(), false);
    let scan = Scan { start: Start::First, mode: ReadMode::Gap, expect: 1, ..Scan::default() };
    let _writer = order_move(&db, &family, true);
    assert_eq!(after_ten(&db, &family, &scan, |_| {}), [25, 30, 40]);
}

/// The caller notices by the row, not by the entry.
#[test]
fn a_locking_scan_that_looks_again_sees_what_is_ordered() {
    let (db, family) = four_keys(Options::default(), false);
    let scan = Scan { start: Start::First, mode: ReadMode::Gap, expect: 1, ..Scan::default() };
    let mut writer = None;
    let seen = after_ten(&db, &family, &scan, |cursor| {
        writer = Some(order_move(&db, &family, false));
        cursor.look_again(false);
    });
    assert_eq!(seen, [25, 30, 40]);
}

/// The entry of a unique index goes from one row to another while the scan is at it.
#[test]
fn a_scan_that_looks_at_its_key_again_sees_the_key_s_new_row() {
    let (db, family) = four_keys(Options::default(), false);
    for (forward, start, expected) in [(true, Start::First, [10, 10, 20]), (false, Start::Last, [40, 40, 30])]
    {
        let scan = Scan { start, mode: ReadMode::Gap, expect: 8, ..Scan::default() };
        let mut reader = begin(&db);
        let mut cursor = Cursor::new(family.clone());
        assert!(cursor.seek(&mut reader, &scan).expect("seeks"));
        let mut seen = vec![(cursor.row(0).0[0], cursor.row(0).1.to_vec())];
        let mut writer = begin(&db);
        writer.put(&family, &[expected[0]], b"another row").expect("writes");
        writer.commit().expect("commits");
        cursor.look_again(true);
        for _ in 0..2 {
            assert!(cursor.fetch(&mut reader, 0, forward).expect("steps"));
            seen.push((cursor.row(0).0[0], cursor.row(0).1.to_vec()));
        }
        assert_eq!(seen.iter().map(|row| row.0).collect::<Vec<_>>(), expected);
        assert_eq!(seen[1].1, b"another row");
    }
}

/// A scan ends after it was told to look again; the next one, which keeps gaps, begins where that one stood.
#[test]
fn a_look_at_the_key_ends_with_its_scan() {
    let (db, family) = four_keys(Options::default(), false);
    let mut reader = begin(&db);
    let mut cursor = Cursor::new(family.clone());
    let scan = Scan { start: Start::First, mode: ReadMode::Gap, expect: 1, ..Scan::default() };
    assert!(cursor.seek(&mut reader, &scan).expect("seeks"));
    cursor.look_again(true);
    reader.commit().expect("commits");
    let mut reader = db.transaction();
    let level = TransactionOptions { isolation: Isolation::RepeatableRead, ..TransactionOptions::default() };
    reader.begin(level).expect("begins");
    let scan = Scan { start: Start::First, mode: ReadMode::Exclusive, expect: 1, ..Scan::default() };
    assert!(cursor.seek(&mut reader, &scan).expect("seeks"));
    let first = cursor.row(0).0.to_vec();
    let other = db.create_family(b"other", FamilyOptions::default()).expect("creates");
    let mut writer = begin(&db);
    writer.put(&other, b"k", b"v").expect("writes");
    writer.commit().expect("commits");
    assert!(cursor.fetch(&mut reader, 0, true).expect("steps"));
    assert_ne!(cursor.row(0).0, first, "the first row comes once");
}

/// A semi-consistent scan finds the row in a table, and finds the deletion only when it does not get the
/// lock.
#[test]
fn a_scan_that_peeks_waits_for_the_rest_of_a_commit_that_took_its_row() {
    let (db, family) = four_keys(Options::default(), true);
    let mode = ReadMode::Exclusive;
    let scan = Scan { start: Start::First, mode, peek_locked: true, expect: 1, ..Scan::default() };
    let mut writer = None;
    let seen = after_ten(&db, &family, &scan, |_| {
        // The scan has to see that something was committed.
        let mut other = begin(&db);
        other.put(&family, &[90], b"v").and_then(|()| other.commit()).expect("commits");
        writer = Some(order_move(&db, &family, true));
    });
    assert_eq!(seen, [25, 30, 40, 90]);
}

/// A commit may have moved a row out of a dead range to a key in front of the scan. The scan then has not
/// seen all of this commit.
#[test]
fn a_locking_scan_does_not_jump_over_what_died_after_it_was_placed() {
    let (db, family) = four_keys(Options { deleted_run: 4, ..Options::default() }, false);
    let mut txn = begin(&db);
    for key in 12..20u8 {
        txn.put(&family, &[key], b"v").expect("writes");
    }
    txn.commit().expect("commits");
    for key in 12..20u8 {
        txn.begin(TransactionOptions::default()).and_then(|()| txn.delete(&family, &[key])).expect("deletes");
        txn.commit().expect("commits");
    }
    let mut reader = begin(&db);
    let mut cursor = Cursor::new(family.clone());
    let scan = Scan { start: Start::First, mode: ReadMode::Gap, expect: 1, ..Scan::default() };
    assert!(cursor.seek(&mut reader, &scan).expect("seeks"));
    assert_eq!(cursor.row(0).0, [10]);

    // Into a memtable that the scan's merge does not have.
    let store = db.store();
    let mut memtables = store.memtables.state.lock();
    store.seal_active(&mut memtables);
    let mut writer = begin(&db);
    writer.delete(&family, &[20]).and_then(|()| writer.put(&family, &[25], b"v")).expect("writes");
    writer.commit().expect("commits");
    let visible = store.pipeline.visible_seq();
    let dead = Bounds { from: vec![12], to: vec![21] };
    let ranges = store.pipeline.deleted_ranges();
    ranges.learn(family.id(), &dead, Seen { upto: visible, newest: visible, steps: 9 }, || visible);
    assert!(ranges.around(family.id(), &[15], MAX_SEQ, &mut Bounds::default()).is_some());
    // As when all of this happens while the scan steps on.
    cursor.position.set(&[10], Edge::Excluded);
    assert!(cursor.fill(&mut reader).expect("fills"));
    let mut seen = Vec::new();
    loop {
        seen.push(cursor.row(0).0[0]);
        // The entry's row tells that it is gone.
        if seen == [20] {
            cursor.look_again(false);
        }
        if !cursor.fetch(&mut reader, 0, true).expect("steps") {
            break;
        }
    }
    assert_eq!(seen, [20, 25, 30, 40]);
    drop(memtables);
}

/// Rows of many megabytes among small ones. A scan in any mode and direction sees all of them and keeps no
/// block of a large one. It goes on from a row with a freed value.
#[test]
fn a_large_row_is_in_memory_once_and_a_scan_goes_on_after_it() {
    let options = Options { sync_mode: SyncMode::None, ..Options::default() };
    let db = Db::open_on(FaultyDisk::new(1).shared(), Path::new("/s"), options, None).expect("opens");
    let family = db.create_family(b"t", FamilyOptions::default()).expect("creates");
    let value = |key: u8| vec![key; if key % 3 == 1 { LARGE_BATCH + 1000 } else { 10 }];
    let mut txn = begin(&db);
    for key in 0..8u8 {
        txn.put(&family, &[key], &value(key)).expect("writes");
    }
    txn.commit().expect("commits");
    db.flush().expect("flushes");

    let modes = [ReadMode::Snapshot, ReadMode::Latest, ReadMode::Shared, ReadMode::Exclusive];
    for (mode, forward, own) in modes.into_iter().flat_map(|mode| {
        [(true, false), (true, true), (false, false), (false, true)]
            .map(|(forward, own)| (mode, forward, own))
    }) {
        let mut reader = begin(&db);
        if own {
            reader.put(&family, &[9], &value(10)).expect("writes");
        }
        let mut cursor = Cursor::new(family.clone());
        let start = if forward { Start::First } else { Start::Last };
        let mut found = cursor.seek(&mut reader, &Scan { start, mode, ..Scan::default() }).expect("seeks");
        let mut seen = Vec::new();
        while found {
            for row in 0..cursor.len() {
                let (key, bytes) = cursor.row(row);
                assert_eq!(bytes, value(if key[0] == 9 { 10 } else { key[0] }), "{mode:?} {forward} {own}");
                seen.push(key[0]);
                let is_large = bytes.len() > LARGE_BATCH;
                assert!(!is_large || row + 1 == cursor.len(), "it ends its batch");
                if is_large {
                    assert!(cursor.merged.merge.is_none(), "nothing holds its block");
                    cursor.free_value(row);
                    assert_eq!((cursor.len(), cursor.row(0)), (1, (&[seen[seen.len() - 1]][..], &[][..])));
                    assert!(cursor.batch.bytes.capacity() < LARGE_BATCH);
                    break;
                }
            }
            found = cursor.fetch(&mut reader, cursor.len() - 1, forward).expect("steps");
        }
        let mut expected: Vec<u8> = (0..8).chain(own.then_some(9)).collect();
        if !forward {
            expected.reverse();
        }
        assert_eq!(seen, expected, "{mode:?} {forward} {own}");
        assert_eq!(cursor.get(&mut reader, &[1], PointRead::of(mode)).expect("reads"), Some(&value(1)[..]));
        cursor.free_value(0);
        assert!(cursor.is_empty() && cursor.batch.bytes.capacity() == 0);
        reader.rollback().expect("ends");
    }
}

/// A scan of a snapshot releases flushed memtables, and reads the same rows in their files.
#[test]
fn a_long_scan_of_a_snapshot_keeps_no_flushed_memtable() {
    let options = Options { sync_mode: SyncMode::None, write_buffer_size: 4 << 20, ..Options::default() };
    let db = Db::open_on(FaultyDisk::new(1).shared(), Path::new("/s"), options, None).expect("opens");
    let family = db.create_family(b"t", FamilyOptions::default()).expect("creates");
    let put = |value: u8| {
        let mut txn = begin(&db);
        for key in 0..=255u8 {
            txn.put(&family, &[key], &[value; 200]).expect("puts");
        }
        txn.commit().expect("commits");
    };
    put(1);
    let mut reader = db.transaction();
    reader.begin(TransactionOptions::default()).expect("begins");
    let mut cursor = Cursor::new(family.clone());
    let scan = Scan { start: Start::First, ..Scan::default() };
    assert!(cursor.seek(&mut reader, &scan).expect("seeks"));
    put(2);
    let spare = || db.store().arenas.pooled_bytes();
    let before = spare();
    db.flush().expect("flushes");
    assert_eq!(spare(), before, "the scan has the memtable");
    let mut rows = 0;
    while {
        for at in 0..cursor.len() {
            assert_eq!(cursor.row(at), (&[rows as u8][..], &[1; 200][..]));
            rows += 1;
        }
        cursor.fetch(&mut reader, cursor.len() - 1, true).expect("steps")
    } {}
    assert_eq!(rows, 256);
    // The flush may hold it a little longer.
    let begun = std::time::Instant::now();
    while spare() == before {
        assert!(begun.elapsed() < std::time::Duration::from_secs(20), "the scan has let go of it");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// A count goes on from any row of the batch, over own changes and those of others, and looks for KILL even
/// where no two rows are counted in one walk.
#[test]
fn a_count_goes_on_from_a_row_and_can_be_killed() {
    for (own, total) in [(false, 5u64), (true, 6)] {
        let (db, family) = four_keys(Options::default(), true);
        let mut txn = begin(&db);
        txn.delete(&family, &[30]).and_then(|()| txn.put(&family, &[5], b"v")).expect("writes");
        txn.put(&family, &[6], b"v").and_then(|()| txn.commit()).expect("commits");
        let mut reader = begin(&db);
        reader.statement_begin(true, std::time::Duration::ZERO).expect("statement");
        if own {
            reader.put(&family, &[7], b"v").expect("writes");
        }
        let mut cursor = Cursor::new(family.clone());
        let scan = Scan { expect: 3, ..Scan::default() };
        for from in 0..3 {
            assert!(cursor.seek(&mut reader, &scan).expect("seeks"));
            assert_eq!(cursor.count(&mut reader, from).expect("counts"), total - from as u64, "{own} {from}");
            assert!(cursor.is_empty(), "it stands on no row");
        }
        let bounded = Scan { bound: Some(&[20]), ..scan };
        assert!(cursor.seek(&mut reader, &bounded).expect("seeks"));
        assert_eq!(cursor.count(&mut reader, 0).expect("counts"), total - 2);
        let backward = Scan { start: Start::Last, ..scan };
        assert!(cursor.seek(&mut reader, &backward).expect("seeks"));
        assert_eq!(cursor.count(&mut reader, 0).expect("counts"), total);
        let locking = Scan { mode: ReadMode::Latest, ..scan };
        assert!(cursor.seek(&mut reader, &locking).expect("seeks"));
        assert!(matches!(cursor.count(&mut reader, 0), Err(Error::InvalidArgument(_))));
        assert!(cursor.seek(&mut reader, &scan).expect("seeks"));
        db.kill(reader.owner());
        assert!(matches!(cursor.count(&mut reader, 0), Err(Error::Interrupted)));
    }
}
