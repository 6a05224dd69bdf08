//! Values that leave their entries later: in a load, and in merges after the family got a threshold.

use tidesdb::internal::txn::ingest::IngestOptions;
use tidesdb::internal::types::Pieces;

use super::*;

/// A family without a threshold, with `count` values of 500 bytes in tables.
fn inline_values(disk: &FaultyDisk, options: &Options, count: u32) -> (Db, Arc<Family>) {
    let db = open(disk, options).expect("opens");
    let family = db.create_family(b"t", tiny_family()).expect("creates");
    for n in 0..count {
        put(&db, &family, n, &value(n, 500)).expect("puts");
    }
    db.flush().expect("flushes");
    (db, family)
}

fn set_threshold(db: &Db) {
    let mut ddl = db.ddl().expect("begins");
    ddl.set_options(b"t", family()).expect("sets");
    ddl.commit().expect("commits");
}

fn check_all(db: &Db, family: &Arc<Family>, count: u32) {
    let mut found = rows(db, family).expect("reads");
    found.retain(|(key, _)| *key != 1000u32.to_be_bytes());
    let expected: Vec<_> = (0..count).map(|n| (key(n), value(n, 500))).collect();
    assert!(found == expected);
}

#[test]
fn merges_move_old_values_to_files_once_a_family_has_a_threshold() {
    let disk = FaultyDisk::new(1);
    let options = options(SyncMode::None);
    let (db, family) = inline_values(&disk, &options, 200);
    db.compact(&family).expect("merges");
    assert!(value_files(&disk).is_empty());
    set_threshold(&db);
    check_all(&db, &family, 200);
    put(&db, &family, 0, &value(0, 500)).expect("puts");
    db.compact(&family).expect("merges");
    let stats = db.family_stats(&family).expect("has figures");
    assert!(stats.value_bytes >= 200 * 400 && stats.data_bytes < 30_000, "{stats:?}");
    check_all(&db, &family, 200);
    db.verify(&family).expect("verifies");
    // The tables hold the files now.
    db.end_value_files().expect("ends files");
    check_all(&db, &family, 200);
    drop((db, family));
    let db = open(&disk.crash(Crash::Drop), &options).expect("opens");
    check_all(&db, &db.family(b"t").expect("is there"), 200);
}

/// Also where most rows of a table are short, and where newer ones have theirs in files already. Once: nothing is left to move.
#[test]
fn a_merge_asked_for_moves_the_few_long_values_of_a_table() {
    let disk = FaultyDisk::new(1);
    let options = options(SyncMode::None);
    let db = open(&disk, &options).expect("opens");
    let family = db.create_family(b"t", tiny_family()).expect("creates");
    let len = |n: u32| if n % 50 == 0 { 500 } else { 10 };
    for n in 0..400 {
        put(&db, &family, n, &value(n, len(n))).expect("puts");
    }
    db.compact(&family).expect("merges");
    set_threshold(&db);
    db.compact(&family).expect("moves");
    assert_eq!(db.family_stats(&family).expect("has figures").value_bytes, 8 * 500);
    let mut ddl = db.ddl().expect("begins");
    ddl.set_options(b"t", FamilyOptions { value_threshold: 2000, ..tiny_family() }).expect("sets");
    ddl.commit().expect("commits");
    for n in 400..440 {
        put(&db, &family, n, &value(n, if n % 2 == 0 { 3000 } else { 600 })).expect("puts");
    }
    db.compact(&family).expect("merges");
    let of_files = |db: &Db| db.family_stats(&family).expect("has figures").value_bytes;
    assert_eq!(of_files(&db), 8 * 500 + 20 * 3000);
    set_threshold(&db);
    db.compact(&family).expect("moves");
    assert_eq!(of_files(&db), 8 * 500 + 20 * 3000 + 20 * 600);
    let merges = db.stats().compaction_count;
    db.compact(&family).expect("has nothing to do");
    assert_eq!(db.stats().compaction_count, merges);
    let found = rows(&db, &family).expect("reads");
    let expected = |n: u32| {
        value(
            n,
            if n < 400 {
                len(n)
            } else if n % 2 == 0 {
                3000
            } else {
                600
            },
        )
    };
    assert!(found == (0..440).map(|n| (key(n), expected(n))).collect::<Vec<_>>());
}

#[test]
fn a_store_of_version_1_moves_when_it_is_opened_after_a_threshold() {
    let disk = FaultyDisk::new(1);
    let options = Options { least_format: FormatVersion::One, ..options(SyncMode::None) };
    let (db, family) = inline_values(&disk, &options, 20);
    drop((db, family));
    let db = open(&disk, &options).expect("opens");
    assert_eq!(db.format(), FormatVersion::One, "nothing asks for more");
    set_threshold(&db);
    let family = db.family(b"t").expect("is there");
    put(&db, &family, 0, &value(0, 500)).expect("puts");
    assert_eq!(db.format(), FormatVersion::One);
    assert!(value_files(&disk).is_empty());
    drop((db, family));
    let db = open(&disk, &options).expect("opens");
    assert_eq!(db.format(), FormatVersion::Two);
    let family = db.family(b"t").expect("is there");
    put(&db, &family, 0, &value(0, 500)).expect("puts");
    assert_eq!(value_files(&disk).len(), 1);
    check_all(&db, &family, 20);
}

/// The wish is lost on a full disk: the next opening finds the threshold and asks again.
#[test]
fn a_store_asks_for_version_2_again_when_it_could_not_note_it() {
    let disk = FaultyDisk::new(1);
    let options = Options { least_format: FormatVersion::One, ..options(SyncMode::Full) };
    let (db, family) = inline_values(&disk, &options, 5);
    disk.fail(Fault {
        op: Some(Op::Write),
        path: "MANIFEST".into(),
        skip: 0,
        times: 100,
        failure: Failure::Enospc,
    });
    set_threshold(&db);
    disk.heal();
    drop((db, family));
    let formats = [FormatVersion::One, FormatVersion::Two];
    for format in formats {
        assert_eq!(open(&disk, &options).expect("opens").format(), format);
    }
}

#[test]
fn a_new_store_begins_in_the_version_that_is_asked_for_and_an_old_one_stays() {
    let (one, two) = (FormatVersion::One, FormatVersion::Two);
    let new = Options { least_format: one, new_format: two, ..options(SyncMode::None) };
    let old = Options { new_format: one, ..new.clone() };
    let disk = FaultyDisk::new(1);
    for (options, format) in [(&old, one), (&new, one)] {
        assert_eq!(open(&disk, options).expect("opens").format(), format);
    }
    let disk = FaultyDisk::new(1);
    for options in [&new, &old] {
        assert_eq!(open(&disk, options).expect("opens").format(), two);
    }
}

fn load(db: &Db, family: &Arc<Family>, order: impl Iterator<Item = u32>) {
    let mut load = db.ingest(IngestOptions::default()).expect("begins");
    for n in order {
        load.add(family, &key(n), Pieces::new(&value(n, 500), &[]), 0).expect("adds");
    }
    load.finish().expect("finishes");
}

#[test]
fn a_load_writes_long_values_to_files_once_and_they_are_durable() {
    for shuffled in [false, true] {
        let disk = FaultyDisk::new(1);
        let options = options(SyncMode::None);
        let (db, family) = new_store(&disk, &options);
        let order = move |n: u32| if shuffled { n * 77 % 200 } else { n };
        load(&db, &family, (0..200).map(order));
        let after = disk.crash(Crash::Drop);
        let stats = db.family_stats(&family).expect("has figures");
        assert!(stats.value_bytes >= 200 * 400 && stats.data_bytes < 40_000, "{stats:?}");
        for (db, family) in [(db, family), {
            let db = open(&after, &options).expect("opens");
            let family = db.family(b"t").expect("is there");
            (db, family)
        }] {
            check_all(&db, &family, 200);
            db.flush().expect("flushes");
            db.compact(&family).expect("merges");
            db.end_value_files().expect("ends files");
            check_all(&db, &family, 200);
            db.verify(&family).expect("verifies");
        }
    }
}

/// Each call of a merge with values to move fails, or the machine dies at it: no value is lost.
#[test]
fn a_merge_that_moves_values_ends_anywhere_and_loses_nothing() {
    let options = options(SyncMode::Full);
    let before = |seed| {
        let disk = FaultyDisk::new(seed);
        let (db, family) = inline_values(&disk, &options, 60);
        set_threshold(&db);
        // In the file that takes values, and outlives its memtable.
        put(&db, &family, 1000, &value(1000, 500)).expect("puts");
        db.flush().expect("flushes");
        (disk, db, family)
    };
    let (disk, db, family) = before(0);
    let first = disk.calls();
    db.compact(&family).expect("merges");
    assert!(!value_files(&disk).is_empty());
    let calls = disk.calls() - first;
    for call in 1..=calls {
        let (disk, db, family) = before(call);
        disk.fail_call(disk.calls() + call, Failure::Eio);
        if let Err(error) = db.compact(&family) {
            assert!(!error.to_string().is_empty());
        }
        // A thread in the background may have taken a call.
        disk.heal();
        check_all(&db, &family, 60);
        // The manifest may have the edit of a merge that failed: nothing that its tables point to is given back.
        let _ = db.collect_values();
        let _ = db.end_value_files();
        let killed = open(&disk.crash(Crash::Kill), &options).expect("opens");
        check_all(&killed, &killed.family(b"t").expect("is there"), 60);
        for crash in [Crash::Kill, Crash::Drop, Crash::Keep, Crash::Tear, Crash::Reorder] {
            let (disk, db, family) = before(call);
            disk.crash_at(disk.calls() + call);
            // Any answer: the machine is dead.
            let _ = db.compact(&family);
            let db = open(&disk.crash(crash), &options).expect("opens");
            let family = db.family(b"t").expect("is there");
            check_all(&db, &family, 60);
            db.compact(&family).expect("merges");
            check_all(&db, &family, 60);
        }
    }
}
