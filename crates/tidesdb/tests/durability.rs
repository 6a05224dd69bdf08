//! The survival of an answered commit after a killed process, and after a power cut without any unsynced
//! bytes. It depends on the store's mode, the modes of its families, and its own request.

mod sim;

use std::sync::Arc;
use std::time::{Duration, Instant};

use sim::{begin, open, rows};
use tidesdb::internal::db::Db;
use tidesdb::internal::io::faulty::Crash;
use tidesdb::internal::io::FaultyDisk;
use tidesdb::internal::store::family::Family;
use tidesdb::{FamilyOptions, Options, SyncMode, TransactionOptions};

/// Longest wait for a background sync.
const PATIENCE: Duration = Duration::from_secs(20);

fn family(db: &Db, name: &str, sync_mode: Option<SyncMode>) -> Arc<Family> {
    let options = FamilyOptions { sync_mode, ..sim::tiny_family() };
    db.create_family(name.as_bytes(), options).expect("creates")
}

/// Commits one row to each of the families.
fn commit(db: &Db, families: &[&Arc<Family>], key: &str, asked: Option<SyncMode>) {
    let mut txn = begin(db);
    txn.statement_begin(true, PATIENCE).expect("statement");
    txn.set_sync(asked);
    for family in families {
        txn.put(family, key.as_bytes(), b"value").expect("puts");
    }
    txn.commit().expect("commits");
}

/// A family's keys after the machine's death in this way.
fn left(disk: &FaultyDisk, options: &Options, name: &str, crash: Crash) -> Vec<String> {
    let db = open(&disk.crash(crash), options).expect("opens");
    let family = db.family(name.as_bytes()).expect("there");
    let rows = rows(&db, &family).expect("reads");
    rows.into_iter().map(|(key, _)| String::from_utf8(key).expect("text")).collect()
}

#[test]
fn each_mode_keeps_what_it_promises() {
    for mode in [SyncMode::None, SyncMode::Interval, SyncMode::Full] {
        let disk = FaultyDisk::new(1);
        // An interval that does not end within the test.
        let options = Options { sync_interval_us: 3_600_000_000, ..sim::normal(mode) };
        let db = open(&disk, &options).expect("opens");
        let t = family(&db, "t", None);
        commit(&db, &[&t], "a", None);
        assert_eq!(
            left(&disk, &options, "t", Crash::Kill),
            ["a"],
            "{mode:?}: a killed process loses nothing"
        );
        let after_power_cut = left(&disk, &options, "t", Crash::Drop);
        match mode {
            SyncMode::Full => assert_eq!(after_power_cut, ["a"], "FULL loses nothing"),
            _ => assert!(after_power_cut.is_empty(), "{mode:?} has not synced: the test sees the difference"),
        }
        db.flush_log().expect("syncs");
        assert_eq!(left(&disk, &options, "t", Crash::Drop), ["a"], "{mode:?}: a flushed log is durable");
    }
}

/// A bulk load is durable when the log was flushed after it, and syncs nothing before, large batches
/// included.
#[test]
fn a_bulk_load_is_durable_at_its_end() {
    for bytes in [1, 200_000] {
        let disk = FaultyDisk::new(1);
        let options = sim::normal(SyncMode::Full);
        let db = open(&disk, &options).expect("opens");
        let t = family(&db, "t", None);
        let mut txn =
            sim::begin_as(&db, TransactionOptions { unlocked: true, ..TransactionOptions::default() });
        for key in ["a", "b"] {
            txn.put(&t, key.as_bytes(), &vec![b'v'; bytes]).expect("puts");
        }
        txn.commit().expect("commits");
        assert!(left(&disk, &options, "t", Crash::Drop).is_empty(), "{bytes}: nothing was synced yet");
        assert_eq!(left(&disk, &options, "t", Crash::Kill), ["a", "b"]);
        db.flush_log().expect("syncs");
        assert_eq!(left(&disk, &options, "t", Crash::Drop), ["a", "b"]);
    }
}

#[test]
fn interval_loses_no_more_than_the_interval() {
    let disk = FaultyDisk::new(1);
    let options = Options { sync_interval_us: 1000, ..sim::normal(SyncMode::Interval) };
    let db = open(&disk, &options).expect("opens");
    let t = family(&db, "t", None);
    commit(&db, &[&t], "a", None);
    let begun = Instant::now();
    while left(&disk, &options, "t", Crash::Drop) != ["a"] {
        assert!(begun.elapsed() < PATIENCE, "nobody synced");
        // The disk has a clock of its own.
        disk.advance_clock(1000);
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn the_strictest_of_store_families_and_request_counts() {
    let disk = FaultyDisk::new(1);
    let options = sim::normal(SyncMode::None);
    let db = open(&disk, &options).expect("opens");
    let (plain, synced) = (family(&db, "plain", None), family(&db, "synced", Some(SyncMode::Full)));
    commit(&db, &[&plain], "1", None);
    assert!(left(&disk, &options, "plain", Crash::Drop).is_empty(), "NONE, and nobody asked for more");
    commit(&db, &[&plain], "2", Some(SyncMode::Full));
    assert_eq!(
        left(&disk, &options, "plain", Crash::Drop),
        ["1", "2"],
        "its own request, and what was before"
    );
    commit(&db, &[&plain], "3", None);
    assert_eq!(left(&disk, &options, "plain", Crash::Drop), ["1", "2"]);
    commit(&db, &[&plain, &synced], "4", None);
    assert_eq!(
        left(&disk, &options, "plain", Crash::Drop),
        ["1", "2", "3", "4"],
        "a family of FULL is in it"
    );
    assert_eq!(left(&disk, &options, "synced", Crash::Drop), ["4"]);
    // A weaker one takes nothing away.
    let options = sim::normal(SyncMode::Full);
    let disk = FaultyDisk::new(2);
    let db = open(&disk, &options).expect("opens");
    let weak = family(&db, "weak", Some(SyncMode::None));
    commit(&db, &[&weak], "1", Some(SyncMode::None));
    assert_eq!(left(&disk, &options, "weak", Crash::Drop), ["1"]);
}
