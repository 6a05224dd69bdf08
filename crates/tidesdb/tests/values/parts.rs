//! Values in two parts: the first stays in its entry, reads can take it alone, and an update can leave the rest where it is.

use tidesdb::internal::txn::cursor::Scan;
use tidesdb::internal::txn::ingest::IngestOptions;
use tidesdb::internal::txn::transaction::{Change, ChangeKind, LongValue, PointRead, Transaction};
use tidesdb::internal::types::Pieces;
use tidesdb::internal::value::ReadParts;

use super::*;

const FIRST: usize = 20;

/// A first part and the place of the rest.
type FirstAndPlace = (Vec<u8>, Vec<u8>);

fn first(n: u32) -> Vec<u8> {
    value(n + 7_000_000, FIRST)
}

fn whole(of_first: u32, of_rest: u32, rest_len: usize) -> Vec<u8> {
    [first(of_first), value(of_rest, rest_len)].concat()
}

fn write(
    txn: &mut Transaction,
    family: &Arc<Family>,
    n: u32,
    bytes: &[u8],
    keeps_rest: bool,
) -> Result<(), Error> {
    let (key, kind) = (&key(n)[..], ChangeKind::Put(bytes));
    let change = Change { family, key, kind, lock: true, count_unchanged: keeps_rest, expiry: 0 };
    let long = LongValue { first_part: FIRST, keeps_rest, ..LongValue::default() };
    txn.write_long(&[change], Some(long)).map_err(|(_, error)| error)
}

pub(super) fn put_in_parts(db: &Db, family: &Arc<Family>, n: u32, value: &[u8]) {
    let mut txn = begin(db);
    write(&mut txn, family, n, value, false).expect("puts");
    txn.commit().expect("commits");
}

/// Reads these parts under a lock: the value and the place of its rest.
fn read(db: &Db, txn: &mut Transaction, family: &Arc<Family>, n: u32, parts: ReadParts) -> FirstAndPlace {
    let mut cursor = db.cursor(family);
    let read = PointRead { parts, ..PointRead::of(ReadMode::Exclusive) };
    let value = cursor.get(txn, &key(n), read).expect("reads").expect("is there").to_vec();
    (value, cursor.found_rest_place().to_vec())
}

/// Gives the row another first part.
fn update(db: &Db, family: &Arc<Family>, n: u32, of_first: u32) {
    let mut txn = begin(db);
    let (_, place) = read(db, &mut txn, family, n, ReadParts::FirstAndPlace);
    assert!(!place.is_empty(), "row {n} is in two parts");
    write(&mut txn, family, n, &[first(of_first), place].concat(), true).expect("updates");
    txn.commit().expect("commits");
}

/// Changes the first part of a row whose value is in two, and returns the new one.
pub(super) fn change_first(db: &Db, family: &Arc<Family>, n: u32, step: u32) -> Option<Vec<u8>> {
    let mut txn = begin(db);
    let (_, place) = read(db, &mut txn, family, n, ReadParts::FirstAndPlace);
    if place.is_empty() {
        return None;
    }
    write(&mut txn, family, n, &[first(step), place].concat(), true).expect("updates");
    txn.commit().expect("commits");
    Some(first(step))
}

#[test]
fn a_first_part_is_read_and_written_alone() {
    let disk = FaultyDisk::new(1);
    let options = options(SyncMode::None);
    let (db, family) = new_store(&disk, &options);
    for n in 0..20 {
        put_in_parts(&db, &family, n, &whole(n, n, 3000));
    }
    db.flush().expect("flushes");
    db.close().expect("closes");
    drop(family);
    // An empty cache.
    let db = open(&disk, &options).expect("opens");
    let family = db.family(b"t").expect("is there");
    let mut txn = begin(&db);
    let scan = Scan { parts: ReadParts::FirstAndPlace, expect: 20, ..Scan::default() };
    let mut cursor = db.cursor(&family);
    let mut seen = 0;
    let mut found = cursor.seek(&mut txn, &scan).expect("seeks");
    while found {
        for index in 0..cursor.len() {
            assert_eq!(cursor.row(index), (&key(seen)[..], &first(seen)[..]));
            assert!(!cursor.rest_place(index).is_empty());
            seen += 1;
        }
        found = cursor.fetch(&mut txn, cursor.len() - 1, true).expect("steps");
    }
    assert_eq!(seen, 20);
    let written = db.stats().value_bytes_written;
    for n in 0..20 {
        update(&db, &family, n, n + 100);
    }
    let stats = db.stats();
    assert_eq!(stats.value_bytes_written, written, "the rest is where it was");
    for when in ["in memory", "in level 0", "merged"] {
        for n in 0..20 {
            let found = begin(&db).get(&family, &key(n), ReadMode::Snapshot).expect("reads");
            assert_eq!(found, Some(whole(n + 100, n, 3000)), "{when}");
        }
        match when {
            "in memory" => db.flush().expect("flushes"),
            _ => db.compact(&family).expect("merges"),
        }
        db.collect_values().expect("collects");
    }
    db.verify(&family).expect("verifies");
    drop((txn, cursor, family, db));
    let db = open(&disk.crash(Crash::Drop), &options).expect("opens");
    let found = rows(&db, &db.family(b"t").expect("is there")).expect("reads");
    assert!(found == (0..20).map(|n| (key(n), whole(n + 100, n, 3000))).collect::<Vec<_>>());
}

#[test]
fn parts_are_apart_where_the_rest_is_long_and_the_first_is_not() {
    let disk = FaultyDisk::new(1);
    let (db, family) = new_store(&disk, &options(SyncMode::None));
    // Rest of 99, 100; a value that is long as a whole.
    for (n, rest, is_apart) in [(1, 79, false), (2, 80, false), (3, 99, false), (4, 100, true)] {
        put_in_parts(&db, &family, n, &whole(n, n, rest));
        let (value, place) = read(&db, &mut begin(&db), &family, n, ReadParts::FirstAndPlace);
        assert_eq!(!place.is_empty(), is_apart, "{rest} bytes");
        assert_eq!(value, if is_apart { first(n) } else { whole(n, n, rest) });
        let (value, again) = read(&db, &mut begin(&db), &family, n, ReadParts::BothAndPlace);
        assert_eq!((value, again), (whole(n, n, rest), place));
    }
    let mut txn = begin(&db);
    let long = value(9, 400);
    let key = &key(9)[..];
    let change = Change {
        family: &family,
        key,
        kind: ChangeKind::Put(&long),
        lock: true,
        count_unchanged: false,
        expiry: 0,
    };
    let parts = LongValue { first_part: 150, ..LongValue::default() };
    txn.write_long(&[change], Some(parts)).expect("puts");
    txn.commit().expect("commits");
    let (found, place) = read(&db, &mut begin(&db), &family, 9, ReadParts::FirstAndPlace);
    assert_eq!((found, place.len()), (long, 0), "a first part that is long goes along");
}

/// The place is that of the version which was read: another version's rest does not belong to it.
#[test]
fn the_rest_of_another_version_is_not_kept() {
    let disk = FaultyDisk::new(1);
    let (db, family) = new_store(&disk, &options(SyncMode::None));
    put_in_parts(&db, &family, 1, &whole(1, 1, 500));
    let (_, old) = read(&db, &mut begin(&db), &family, 1, ReadParts::FirstAndPlace);
    put_in_parts(&db, &family, 1, &whole(2, 2, 500));
    let mut txn = begin(&db);
    let keep = |txn: &mut Transaction, n: u32, place: &[u8]| {
        write(txn, &family, n, &[&first(3), place].concat(), true).expect_err("refused")
    };
    assert!(matches!(keep(&mut txn, 1, &old), Error::Conflict));
    assert!(matches!(keep(&mut txn, 2, &old), Error::Conflict), "no such key");
    assert!(matches!(keep(&mut txn, 1, b"no place"), Error::InvalidArgument(_)));
    write(&mut txn, &family, 1, &whole(4, 4, 50), false).expect("puts");
    assert!(matches!(keep(&mut txn, 1, &old), Error::Conflict), "its own version is inline");
    txn.rollback().expect("rolls back");
    let found = begin(&db).get(&family, &key(1), ReadMode::Snapshot).expect("reads");
    assert_eq!(found, Some(whole(2, 2, 500)));
}

/// Undoing updates brings the first parts back, also from runs; holds on the rest's file end with the transaction.
#[test]
fn updates_in_one_transaction_are_undone_and_spilled() {
    let disk = FaultyDisk::new(1);
    let options = Options { max_memory: 2 << 20, ..options(SyncMode::None) };
    let (db, family) = new_store(&disk, &options);
    for n in 0..200 {
        put_in_parts(&db, &family, n, &whole(n, n, 300));
    }
    let mut txn = begin(&db);
    for round in 0..30 {
        let mark = txn.savepoint_set().expect("sets");
        for n in 0..200 {
            let (value, place) = read(&db, &mut txn, &family, n, ReadParts::FirstAndPlace);
            assert_eq!(
                value,
                first(if round == 0 { n } else { n + 1000 * (round - round % 2) }),
                "round {round}"
            );
            write(&mut txn, &family, n, &[first(n + 1000 * (round + 1)), place].concat(), true)
                .expect("updates");
        }
        // Every other round is undone.
        if round % 2 == 0 {
            txn.savepoint_rollback(mark).expect("undoes");
            for n in 0..200 {
                let (_, place) = read(&db, &mut txn, &family, n, ReadParts::FirstAndPlace);
                let bytes = [first(n + 1000 * round), place].concat();
                write(&mut txn, &family, n, &bytes, true).expect("updates");
            }
        }
    }
    txn.commit().expect("commits");
    let found = rows(&db, &family).expect("reads");
    assert!(found == (0..200).map(|n| (key(n), whole(n + 30_000, n, 300))).collect::<Vec<_>>());
}

/// The log's end does not depend on a value that an earlier commit brought, but on one of its own transaction.
#[test]
fn a_kept_value_ends_no_log_and_an_own_one_does() {
    let disk = FaultyDisk::new(1);
    let options = options(SyncMode::None);
    let (db, family) = new_store(&disk, &options);
    put_in_parts(&db, &family, 1, &whole(1, 1, 3000));
    put_in_parts(&db, &family, 2, &whole(2, 2, 3000));
    db.flush().expect("flushes");
    db.flush_log().expect("syncs");
    update(&db, &family, 1, 11);
    put(&db, &family, 5, b"after it").expect("puts");
    drop((family, db));
    // The value of row 1 is damaged where it lies.
    let disk = disk.crash(Crash::Kill);
    let path = Path::new(DIR).join(&value_files(&disk)[0]);
    let file = disk.shared().open(&path, OpenMode::ReadWrite).expect("opens");
    file.write_at(b"damage", 700).expect("writes");
    let db = open(&disk, &options).expect("opens");
    let family = db.family(b"t").expect("is there");
    let found = begin(&db).get(&family, &key(5), ReadMode::Snapshot).expect("reads");
    assert_eq!(found.as_deref(), Some(&b"after it"[..]), "the log goes on after the damaged row");
    let (found, _) = read(&db, &mut begin(&db), &family, 1, ReadParts::FirstAndPlace);
    assert_eq!(found, first(11));
    let error = begin(&db).get(&family, &key(1), ReadMode::Snapshot).expect_err("the rest is damaged");
    assert!(matches!(error, Error::Corruption { .. }), "{error}");
}

#[test]
fn a_value_updated_by_its_own_transaction_may_be_the_torn_tail() {
    let (mut torn, mut whole_rows) = (0, 0);
    for seed in 0..40 {
        let disk = FaultyDisk::new(seed);
        let options = Options { write_buffer_size: 256 << 10, ..options(SyncMode::None) };
        let (db, family) = new_store(&disk, &options);
        put(&db, &family, 0, &value(0, 3000)).expect("puts");
        db.flush_log().expect("syncs");
        std::thread::sleep(std::time::Duration::from_millis(20));
        for n in 1..20 {
            let mut txn = begin(&db);
            write(&mut txn, &family, n, &whole(n, n, 3000), false).expect("puts");
            let (_, place) = read(&db, &mut txn, &family, n, ReadParts::FirstAndPlace);
            write(&mut txn, &family, n, &[first(n + 50), place].concat(), true).expect("updates");
            txn.commit().expect("commits");
        }
        drop((family, db));
        let disk = disk.crash([Crash::Reorder, Crash::Tear][seed as usize % 2]);
        let db = open(&disk, &options).expect("opens");
        let found = rows(&db, &db.family(b"t").expect("is there")).expect("every row that is there reads");
        let expected = (1..20).map(|n| (key(n), whole(n + 50, n, 3000)));
        let expected: Vec<_> = std::iter::once((key(0), value(0, 3000))).chain(expected).collect();
        assert!(found == expected[..found.len()], "seed {seed}: a prefix of the commits");
        torn += usize::from(found.len() < 20);
        whole_rows += found.len() - 1;
    }
    assert!(torn > 0 && whole_rows > 10, "{torn} torn, {whole_rows} rows");
}

#[test]
fn a_load_writes_each_rest_once_in_any_order() {
    for order in [1, 7919] {
        let disk = FaultyDisk::new(1);
        let options = options(SyncMode::None);
        let (db, family) = new_store(&disk, &options);
        let mut load = db.ingest(IngestOptions::default()).expect("begins");
        for n in (0..1000).map(|n| n * order % 1000) {
            let (first, rest) = (first(n), value(n, 900));
            let pieces = [&rest[..]];
            load.add_in_parts(&family, &key(n), (Pieces::new(&first, &pieces), FIRST), 0).expect("adds");
        }
        load.finish().expect("finishes");
        let written = db.stats().value_bytes_written;
        assert!((900_000..1_050_000).contains(&written), "{written} bytes");
        for n in 0..1000 {
            let (value, place) = read(&db, &mut begin(&db), &family, n, ReadParts::FirstAndPlace);
            assert!(value == first(n) && !place.is_empty());
        }
        update(&db, &family, 5, 50);
        let mut expected: Vec<_> = (0..1000).map(|n| (key(n), whole(n, n, 900))).collect();
        expected[5].1 = whole(50, 5, 900);
        assert!(rows(&db, &family).expect("reads") == expected);
        drop((family, db));
        let db = open(&disk.crash(Crash::Kill), &options).expect("opens");
        assert!(rows(&db, &db.family(b"t").expect("is there")).expect("reads") == expected);
    }
}

/// A first part that grows is no long value: what stands after it is the place of the rest.
#[test]
fn a_kept_first_part_may_be_longer_than_a_transactions_memory() {
    for len in [5000, 70_000, 1_200_000] {
        let disk = FaultyDisk::new(1);
        let options = options(SyncMode::None);
        let (db, family) = new_store(&disk, &options);
        put_in_parts(&db, &family, 1, &whole(1, 1, 3000));
        let mut txn = begin(&db);
        let (_, place) = read(&db, &mut txn, &family, 1, ReadParts::FirstAndPlace);
        let (long, key) = (value(9, len), key(1));
        let bytes = [&long[..], &place].concat();
        let kind = ChangeKind::Put(&bytes);
        let change =
            Change { family: &family, key: &key, kind, lock: true, count_unchanged: true, expiry: 0 };
        let parts = LongValue { first_part: len, keeps_rest: true, ..LongValue::default() };
        txn.write_long(&[change], Some(parts)).expect("updates");
        txn.commit().expect("commits");
        let expected = [long, value(1, 3000)].concat();
        for when in ["committed", "flushed", "merged"] {
            let found = begin(&db).get(&family, &key, ReadMode::Snapshot).expect("reads");
            assert!(found.as_ref() == Some(&expected), "{len} bytes, {when}");
            db.flush().expect("flushes");
            db.compact(&family).expect("merges");
            db.collect_values().expect("collects");
        }
        drop((txn, family, db));
        let db = open(&disk.crash(Crash::Kill), &options).expect("opens");
        assert!(rows(&db, &db.family(b"t").expect("is there")).expect("reads") == [(key, expected)]);
    }
}

#[test]
fn a_load_takes_first_parts_of_any_length() {
    for order in [1, 3] {
        let disk = FaultyDisk::new(1);
        let options = Options { write_buffer_size: 1 << 20, ..options(SyncMode::None) };
        let db = open(&disk, &options).expect("opens");
        let of_family = FamilyOptions { value_threshold: 3 << 20, ..family() };
        let family = db.create_family(b"t", of_family).expect("creates");
        let mut load = db.ingest(IngestOptions::default()).expect("begins");
        let lens = [10, 60_000, 70_000, 1_500_000];
        let rest = value(7, 4 << 20);
        for n in (0..4).map(|n| n * order % 4) {
            let first = value(n, lens[n as usize]);
            let pieces = [&rest[..]];
            let parts = (Pieces::new(&first, &pieces), first.len());
            load.add_in_parts(&family, &key(n), parts, 0).expect("adds");
        }
        load.finish().expect("finishes");
        for n in 0..4 {
            let expected = [value(n, lens[n as usize]), rest.clone()].concat();
            let found = begin(&db).get(&family, &key(n), ReadMode::Snapshot).expect("reads");
            assert!(found == Some(expected), "{n}");
            let (_, place) = read(&db, &mut begin(&db), &family, n, ReadParts::FirstAndPlace);
            assert_eq!(place.is_empty(), n > 1, "{n}");
        }
    }
}

/// Counters alongside large values change all the time. The memtable of their rows holds no file of old values.
#[test]
fn kept_values_in_a_memtable_keep_no_others_space() {
    let disk = FaultyDisk::new(1);
    let options = Options { write_buffer_size: 256 << 10, ..options(SyncMode::None) };
    let (db, family) = new_store(&disk, &options);
    for n in 0..60 {
        put_in_parts(&db, &family, n, &whole(n, n, 20_000));
    }
    for n in (1..60).step_by(2) {
        put(&db, &family, n, b"short").expect("puts");
    }
    db.flush().expect("flushes");
    db.compact(&family).expect("merges");
    for n in (0..60).step_by(2) {
        update(&db, &family, n, n + 100);
    }
    let freed = (0..1000).find(|_| {
        std::thread::sleep(std::time::Duration::from_millis(1));
        db.collect_values().expect("collects") > 200_000
    });
    assert!(freed.is_some(), "half of the values are dead");
    for when in ["in memory", "flushed", "merged"] {
        for n in (0..60).step_by(2) {
            let found = begin(&db).get(&family, &key(n), ReadMode::Snapshot).expect("reads");
            assert!(found == Some(whole(n + 100, n, 20_000)), "{n}, {when}");
        }
        db.flush().expect("flushes");
        if when == "flushed" {
            db.compact(&family).expect("merges");
        }
        db.collect_values().expect("collects");
    }
}

/// A merge drops a version that has expired: one in memory that keeps its rest needs it still.
#[test]
fn the_rest_of_an_expired_version_stays_for_one_that_lives_on() {
    let disk = FaultyDisk::new(1);
    let options = Options { write_buffer_size: 256 << 10, compaction_threads: 1, ..options(SyncMode::None) };
    let (db, family) = new_store(&disk, &options);
    let put = |n: u32, bytes: &[u8], keeps_rest, expiry| {
        let mut txn = begin(&db);
        let (key, kind) = (&key(n)[..], ChangeKind::Put(bytes));
        let change = Change { family: &family, key, kind, lock: true, count_unchanged: false, expiry };
        let long = LongValue { first_part: FIRST, keeps_rest, ..LongValue::default() };
        txn.write_long(&[change], Some(long)).expect("puts");
        txn.commit().expect("commits");
    };
    for n in 0..40 {
        put(n, &whole(n, n, 20_000), false, db.expiry_second() + 2);
    }
    db.flush().expect("flushes");
    db.compact(&family).expect("merges");
    for n in 0..40 {
        let (_, place) = read(&db, &mut begin(&db), &family, n, ReadParts::FirstAndPlace);
        put(n, &[first(n + 100), place].concat(), true, 0);
    }
    disk.advance_clock(5_000_000);
    db.expiry_second();
    db.maintain_expiry_clock().expect("reserves seconds");
    let dropped = (0..3000).find(|_| {
        std::thread::sleep(std::time::Duration::from_millis(1));
        let tables = db.tables();
        tables.iter().filter(|of| of.family == family.id()).all(|of| of.entries == of.tombstones)
    });
    assert!(dropped.is_some(), "what has expired is dropped");
    db.end_value_files().expect("ends files");
    db.collect_values().expect("collects");
    for n in 0..40 {
        let found = begin(&db).get(&family, &key(n), ReadMode::Snapshot).expect("reads");
        assert!(found == Some(whole(n + 100, n, 20_000)), "{n}");
    }
}

#[test]
fn a_value_that_the_key_has_is_not_written_again() {
    let disk = FaultyDisk::new(1);
    let (db, family) = new_store(&disk, &options(SyncMode::None));
    put_in_parts(&db, &family, 1, &whole(1, 1, 3000));
    let written = db.stats().value_bytes_written;

    let mut txn = begin(&db);
    let (_, place) = read(&db, &mut txn, &family, 1, ReadParts::FirstAndPlace);
    let mut write = |rest: &[u8], unless_at: &[u8]| {
        let pieces = [rest];
        let (key, kind) = (&key(1)[..], ChangeKind::Put(&first(1)));
        let change = Change { family: &family, key, kind, lock: true, count_unchanged: true, expiry: 0 };
        let long = LongValue {
            pieces: &pieces,
            first_part: FIRST,
            unless_at: Some(unless_at),
            ..LongValue::default()
        };
        txn.write_long(&[change], Some(long)).map_err(|(_, error)| error)
    };
    assert!(matches!(write(&value(1, 3000), &place), Err(Error::Unchanged)));
    assert!(matches!(write(&value(1, 3000), &place[1..]), Err(Error::InvalidArgument(_))));
    assert_eq!(db.stats().value_bytes_written, written);
    // Of the same length; longer; too short for a value file.
    for other in [value(2, 3000), value(1, 3001), value(1, 10)] {
        write(&other, &place).expect("writes");
    }
    write(&value(2, 3000), &place).expect("writes");
    txn.commit().expect("commits");
    assert!(db.stats().value_bytes_written > written);

    let (found, _) = read(&db, &mut begin(&db), &family, 1, ReadParts::Both);
    assert_eq!(found, whole(1, 2, 3000));
}
