//! A store on a full disk: it opens with all its content, a family can be dropped, and writes go on once
//! there is space. Nothing is lost on the way, for any call with a full disk and any moment of the machine's
//! death.

mod sim;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sim::{begin, open, rows, Row, DIR};
use tidesdb::internal::cache::BlockCache;
use tidesdb::internal::compaction::history::CompactionOutcome;
use tidesdb::internal::db::Db;
use tidesdb::internal::io::faulty::{Crash, Failure, Fault, Op};
use tidesdb::internal::io::{Disk, FaultyDisk};
use tidesdb::internal::table::TableStore;
use tidesdb::internal::version::{OpenFor, VersionSet};
use tidesdb::{Error, FamilyOptions, Options, SyncMode};

fn options() -> Options {
    Options { compaction_threads: 0, ..sim::tiny(SyncMode::Full) }
}

/// A store after its process died, with a family in files, one only in the log, a prepared transaction, an
/// overwritten row, and two transactions larger than memory. One of these is committed between small ones,
/// one prepared.
fn died(seed: u64) -> (FaultyDisk, Vec<Row>) {
    died_with(seed, &options())
}

fn died_with(seed: u64, options: &Options) -> (FaultyDisk, Vec<Row>) {
    let disk = FaultyDisk::new(seed);
    let db = open(&disk, options).expect("opens");
    let filed = db.create_family(b"filed", FamilyOptions::default()).expect("creates");
    let logged = db.create_family(b"logged", FamilyOptions::default()).expect("creates");
    for batch in 0..3u8 {
        let mut txn = begin(&db);
        txn.put(&filed, &[batch], &[batch; 800]).expect("puts");
        txn.commit().expect("commits");
    }
    db.flush().expect("flushes");
    let mut expected = Vec::new();
    for n in 0..20u8 {
        let mut txn = begin(&db);
        for round in 0..2u8 {
            txn.put(&logged, &[n], &[n + round; 100]).expect("puts");
        }
        txn.commit().expect("commits");
        expected.push((vec![n], vec![n + 1; 100]));
    }
    let [first, second] =
        LARGE.map(|name| db.create_family(name, FamilyOptions::default()).expect("creates"));
    let mut txn = begin(&db);
    for (key, value) in large(1) {
        txn.put(&first, &key, &value).expect("puts");
    }
    txn.commit().expect("commits");
    let mut txn = begin(&db);
    txn.put(&logged, &[50], b"behind").expect("puts");
    txn.commit().expect("commits");
    expected.push((vec![50], b"behind".to_vec()));
    expected.splice(0..0, large(1));
    let mut xa_prepared = begin(&db);
    for (key, value) in large(2) {
        xa_prepared.put(&second, &key, &value).expect("puts");
    }
    xa_prepared.prepare_xa(b"large").expect("prepares");
    let mut txn = begin(&db);
    txn.put(&logged, b"undecided", b"1").expect("puts");
    txn.prepare(Some(b"xid")).expect("prepares");
    let after = disk.crash(Crash::Kill);
    drop((txn, xa_prepared, filed, logged, first, second));
    drop(db);
    (after, expected)
}

/// Families of transactions larger than memory.
const LARGE: [&[u8]; 2] = [b"large1", b"large2"];

/// The rows of one.
fn large(which: u8) -> Vec<Row> {
    (0..60).map(|n| (vec![n], vec![which; 120])).collect()
}

fn prepared(db: &Db) -> Vec<Vec<u8>> {
    let mut xids = db.prepared();
    xids.sort();
    xids
}

fn undecided() -> Vec<Vec<u8>> {
    vec![b"large".to_vec(), b"xid".to_vec()]
}

/// No file can grow from now on.
fn fill(disk: &FaultyDisk) {
    let used =
        disk.files().iter().map(|path| disk.contents(path).map_or(0, |bytes| bytes.len() as u64)).sum();
    disk.set_capacity(Some(used));
}

/// The content not in files when the process died.
fn used(disk: &FaultyDisk) -> u64 {
    disk.files().iter().map(|path| disk.contents(path).map_or(0, |bytes| bytes.len() as u64)).sum()
}

fn logged(db: &Db) -> Vec<Row> {
    let rows = |name: &[u8]| rows(db, &db.family(name).expect("there")).expect("reads");
    [LARGE[1], LARGE[0], b"logged"].into_iter().flat_map(rows).collect()
}

fn put(db: &Db, key: &[u8]) -> tidesdb::Result<()> {
    let family = db.family(b"logged").expect("there");
    let mut txn = begin(db);
    let put = txn.put(&family, key, b"new").map(|_| ());
    put.and_then(|()| txn.commit().map(|_| ()))
}

/// Epoch boundaries in the manifest.
fn boundaries(disk: &FaultyDisk) -> usize {
    let shared: Arc<dyn Disk> = disk.shared();
    let tables = TableStore::new(shared.clone(), Path::new(DIR), 8);
    let versions = VersionSet::open(shared, Path::new(DIR), tables, BlockCache::new(4096), OpenFor::Read);
    versions.expect("opens for reading").state().boundaries.len()
}

#[test]
fn a_store_on_a_full_disk_opens_drops_a_table_and_goes_on_when_there_is_space() {
    let (disk, mut expected) = died(1);
    fill(&disk);
    let db = open(&disk, &options()).expect("opens on a full disk");
    assert_eq!(logged(&db), expected);
    assert_eq!(prepared(&db), undecided());
    let refused = put(&db, b"more").expect_err("there is no room");
    assert!(matches!(refused, Error::DiskFull(_)), "{refused}");
    assert!(matches!(db.create_family(b"x", FamilyOptions::default()), Err(Error::DiskFull(_))));
    assert_eq!(logged(&db), expected);

    // What gives space back, and what decides, is possible.
    assert!(db.commit_by_xid(b"xid").expect("commits"));
    expected.push((b"undecided".to_vec(), b"1".to_vec()));
    assert!(db.commit_by_xid(b"large").expect("commits"));
    expected.splice(0..0, large(2));
    assert_eq!(logged(&db), expected);
    let mut ddl = db.ddl().expect("begins");
    ddl.drop_family(b"filed").expect("is there");
    ddl.commit().expect("drops a family on a full disk");
    assert!(db.family(b"filed").is_err());
    assert_eq!(boundaries(&disk), 1, "the log of the earlier life is still needed");

    disk.set_capacity(None);
    let begun = Instant::now();
    while db.stats().immutable_memtables > 0 {
        assert!(begun.elapsed() < Duration::from_secs(20), "the flush is tried again");
        std::thread::sleep(Duration::from_millis(20));
    }
    put(&db, b"zz").expect("there is room");
    expected.push((b"zz".to_vec(), b"new".to_vec()));
    // The decided batch stood in the earlier life's log.
    db.flush().expect("flushes");
    db.close().expect("closes");
    assert_eq!(boundaries(&disk), 0, "forgotten with the segments before it");
    let db = open(&disk, &options()).expect("opens");
    assert_eq!(logged(&db), expected);
    assert!(db.family(b"filed").is_err());
    db.close().expect("closes");
}

#[test]
fn opening_again_and_again_on_a_full_disk_loses_nothing() {
    let (mut disk, expected) = died(2);
    for round in 0..5 {
        for mode in [Crash::Drop, Crash::Kill] {
            fill(&disk);
            let db = open(&disk, &options()).unwrap_or_else(|e| panic!("round {round}, {mode:?}: {e}"));
            assert_eq!(logged(&db), expected, "round {round}, {mode:?}");
            assert_eq!(prepared(&db), undecided());
            let after = disk.crash(mode);
            drop(db);
            disk = after;
        }
    }
    disk.set_capacity(None);
    let db = open(&disk, &options()).expect("opens with room");
    assert_eq!(logged(&db), expected);
    assert!(db.rollback_by_xid(b"xid").expect("rolls back"));
    assert!(db.rollback_by_xid(b"large").expect("rolls back"));
    put(&db, b"zz").expect("there is room");
    db.close().expect("closes");
    assert_eq!(boundaries(&disk), 0);
}

#[test]
fn what_the_new_life_wrote_joins_what_the_old_one_left() {
    for mode in Crash::ALL {
        let (disk, mut expected) = died(6);
        fill(&disk);
        let db = open(&disk, &options()).expect("opens on a full disk");
        assert!(db.commit_by_xid(b"xid").expect("commits"));
        expected.push((b"undecided".to_vec(), b"1".to_vec()));
        if mode == Crash::Drop {
            assert!(db.rollback_by_xid(b"large").expect("rolls back"));
        } else {
            assert!(db.commit_by_xid(b"large").expect("commits"));
            expected.splice(0..0, large(2));
        }
        let mut ddl = db.ddl().expect("begins");
        ddl.drop_family(b"filed").expect("is there");
        ddl.commit().expect("drops");
        let after = disk.crash(mode);
        drop(db);
        after.set_capacity(None);
        for _ in 0..2 {
            let db = open(&after, &options()).unwrap_or_else(|e| panic!("{mode:?}: {e}"));
            assert_eq!(logged(&db), expected, "{mode:?}");
            assert!(db.prepared().is_empty() && db.family(b"filed").is_err(), "{mode:?}");
        }
    }
}

#[test]
fn what_an_opening_showed_survives_a_power_cut_even_if_the_old_life_never_synced_it() {
    let unsynced = Options { sync_mode: SyncMode::None, ..options() };
    let (disk, _) = died_with(7, &unsynced);
    // The prepared transaction synced the log; these rows are in the page cache only.
    let db = open(&disk, &unsynced).expect("opens");
    put(&db, b"later").expect("commits");
    let killed = disk.crash(Crash::Kill);
    drop(db);
    assert!(!logged(&open(&killed.crash(Crash::Drop), &unsynced).expect("opens"))
        .iter()
        .any(|(key, _)| key == b"later"));

    fill(&killed);
    let db = open(&killed, &unsynced).expect("opens on a full disk");
    let shown = logged(&db);
    assert!(shown.iter().any(|(key, _)| key == b"later"));
    let cut = killed.crash(Crash::Drop);
    drop(db);
    for room in [false, true] {
        let disk = cut.crash(Crash::Drop);
        if room {
            disk.set_capacity(None);
        }
        assert_eq!(logged(&open(&disk, &unsynced).expect("opens")), shown);
    }
}

#[test]
fn with_little_room_left_every_opening_succeeds() {
    let (before, expected) = died(3);
    for room in (0..200).map(|n| n * 1024) {
        let disk = before.crash(Crash::Kill);
        fill(&disk);
        disk.set_capacity(Some(used(&disk) + room));
        let db = open(&disk, &options()).unwrap_or_else(|e| panic!("{room} bytes of room: {e}"));
        assert_eq!(logged(&db), expected, "{room} bytes of room");
        drop(db);
        disk.set_capacity(None);
        let db = open(&disk, &options()).unwrap_or_else(|e| panic!("after {room} bytes of room: {e}"));
        assert_eq!(logged(&db), expected, "after {room} bytes of room");
    }
}

#[test]
fn no_space_at_any_one_call_of_opening_loses_nothing() {
    let (before, expected) = died(4);
    let probe = before.crash(Crash::Kill);
    drop(open(&probe, &options()).expect("opens"));
    let (mut opened, mut refused) = (0, 0);
    for call in 1..=probe.calls() {
        let disk = before.crash(Crash::Kill);
        disk.fail_call(call, Failure::Enospc);
        match open(&disk, &options()) {
            Ok(db) => {
                opened += 1;
                // The call may be none of the opening, but the first of a reader.
                disk.heal();
                assert_eq!(logged(&db), expected, "no space at call {call}");
                assert_eq!(prepared(&db), undecided(), "no space at call {call}");
            }
            Err(Error::DiskFull(_)) => refused += 1,
            // A directory's sync that fails, or a sync of the log, is no want of space.
            Err(Error::Io { .. } | Error::OutcomeUnknown | Error::ReadOnly(_)) => refused += 1,
            Err(other) => panic!("no space at call {call}: {other}"),
        }
        for mode in [Crash::Drop, Crash::Keep] {
            let after = disk.crash(mode);
            let db = open(&after, &options()).unwrap_or_else(|e| panic!("call {call}, then {mode:?}: {e}"));
            assert_eq!(logged(&db), expected, "no space at call {call}, then {mode:?}");
            assert_eq!(prepared(&db), undecided(), "no space at call {call}, then {mode:?}");
        }
    }
    assert!(opened > 0 && refused > 0, "{opened} opened, {refused} refused");
}

#[test]
fn a_crash_at_every_call_of_opening_on_a_full_disk_loses_nothing() {
    let (before, expected) = died(5);
    let probe = before.crash(Crash::Kill);
    fill(&probe);
    drop(open(&probe, &options()).expect("opens"));
    for call in 1..=probe.calls() {
        for mode in Crash::ALL {
            let disk = before.crash(Crash::Kill);
            fill(&disk);
            disk.crash_at(call);
            drop(open(&disk, &options()));
            let after = disk.crash(mode);
            fill(&after);
            let db = open(&after, &options());
            let db = db.unwrap_or_else(|e| panic!("dead at call {call}, {mode:?}, still full: {e}"));
            assert_eq!(logged(&db), expected, "dead at call {call}, {mode:?}");
            drop(db);
            let end = after.crash(Crash::Drop);
            end.set_capacity(None);
            let db = open(&end, &options()).unwrap_or_else(|e| panic!("dead at call {call}, {mode:?}: {e}"));
            assert_eq!(logged(&db), expected, "dead at call {call}, {mode:?}, then with room");
            assert_eq!(prepared(&db), undecided());
        }
    }
}

#[test]
fn a_crash_at_every_call_of_deciding_on_a_full_disk_loses_no_answer() {
    let (before, expected) = died(11);
    let mut committed = expected.clone();
    committed.splice(0..0, large(2));
    let states = [(expected, undecided()), (committed.clone(), vec![b"xid".to_vec()]), (committed, vec![])];
    // How many decisions were answered.
    let decide = |db: &Db| -> usize {
        let first = db.commit_by_xid(b"large").is_ok();
        let second = first && db.rollback_by_xid(b"xid").is_ok();
        if let (true, Ok(mut ddl)) = (second, db.ddl()) {
            let _ = ddl.drop_family(b"filed").and_then(|()| ddl.commit());
        }
        usize::from(first) + usize::from(second)
    };
    let probe = before.crash(Crash::Kill);
    fill(&probe);
    let db = open(&probe, &options()).expect("opens");
    let opened = probe.calls();
    assert_eq!(decide(&db), 2);
    let calls = probe.calls();
    drop(db);
    let mut seen = [0; 3];
    // Background threads make calls too, more or fewer: the first turn is at the very next call, whichever it is. Under
    // load their calls may take all turns between the two decisions: then the turns are taken again.
    let turns = || std::iter::once(0).chain(opened + 1..=calls + 1);
    for call in (0..10).flat_map(|_| turns()) {
        if call == 0 && seen.iter().all(|&times| times > 0) {
            break;
        }
        for mode in Crash::ALL {
            let disk = before.crash(Crash::Kill);
            fill(&disk);
            let db = open(&disk, &options()).expect("opens");
            disk.crash_at(call.max(disk.calls() + 1));
            let answered = decide(&db);
            let after = disk.crash(mode);
            drop(db);
            after.set_capacity(None);
            let db = open(&after, &options()).unwrap_or_else(|e| panic!("call {call}, {mode:?}: {e}"));
            let found = (logged(&db), prepared(&db));
            let state = states.iter().position(|state| *state == found);
            let state = state.unwrap_or_else(|| panic!("call {call}, {mode:?}: {:?}", found.1));
            assert!(state >= answered, "call {call}, {mode:?}: {answered} answered, {state} found");
            seen[state] += 1;
        }
    }
    assert!(seen.iter().all(|&times| times > 0), "{seen:?}");
}

#[test]
fn a_family_is_dropped_when_neither_disk_nor_memory_has_room() {
    let disk = FaultyDisk::new(8);
    let db = open(&disk, &options()).expect("opens");
    let filed = db.create_family(b"filed", FamilyOptions::default()).expect("creates");
    db.create_family(b"logged", FamilyOptions::default()).expect("creates");
    let mut txn = begin(&db);
    txn.put(&filed, b"k", &[1; 800]).expect("puts");
    txn.commit().expect("commits");
    db.flush().expect("flushes");
    fill(&disk);
    let full = (0..2000u32).find_map(|n| put(&db, &n.to_be_bytes()).err()).expect("memory is full");
    assert!(matches!(full, Error::DiskFull(_)), "{full}");
    let mut ddl = db.ddl().expect("begins");
    ddl.drop_family(b"filed").expect("is there");
    ddl.commit().expect("drops a family");
    assert!(matches!(db.create_family(b"x", FamilyOptions::default()), Err(Error::DiskFull(_))));
    disk.set_capacity(None);
    db.flush().expect("flushes");
    put(&db, b"zz").expect("there is room");
}

/// A store without anything to flush, with more prepared transactions than a segment of the log takes.
#[test]
fn prepared_transactions_that_find_no_room_in_the_new_log_stay_in_the_old_one() {
    let options = Options { write_buffer_size: 1 << 20, ..options() };
    let disk = FaultyDisk::new(9);
    let db = open(&disk, &options).expect("opens");
    let family = db.create_family(b"logged", FamilyOptions::default()).expect("creates");
    db.flush().expect("flushes");
    for n in 0..20u8 {
        let mut txn = begin(&db);
        txn.put(&family, &[n], &[n; 20_000]).expect("puts");
        txn.prepare(Some(&[n])).expect("prepares");
    }
    let before = disk.crash(Crash::Kill);
    drop((family, db));
    for room in [0, 4, 40, 100, 200, 400, 600] {
        let disk = before.crash(Crash::Kill);
        fill(&disk);
        disk.set_capacity(Some(used(&disk) + room * 1024));
        let db = open(&disk, &options).unwrap_or_else(|e| panic!("{room} KiB of room: {e}"));
        assert_eq!(prepared(&db).len(), 20, "{room} KiB of room");
        assert!(db.rollback_by_xid(&[7]).expect("rolls back"));
        let after = disk.crash(Crash::Drop);
        drop(db);
        after.set_capacity(None);
        let db = open(&after, &options).unwrap_or_else(|e| panic!("after {room} KiB of room: {e}"));
        assert_eq!(prepared(&db).len(), 19, "after {room} KiB of room");
        assert!(db.commit_by_xid(&[8]).expect("commits"));
        let family = db.family(b"logged").expect("there");
        assert_eq!(rows(&db, &family).expect("reads"), [(vec![8], vec![8; 20_000])]);
    }
}

/// Flushes find room, merges do not: writers stopped by level 0 get the reason, and go on when there is
/// space.
#[test]
fn writers_that_wait_for_a_merge_without_room_are_told_that_the_disk_is_full() {
    let disk = FaultyDisk::new(77);
    let options = Options { compaction_threads: 1, ..sim::normal(SyncMode::None) };
    let db = open(&disk, &options).expect("opens");
    let family_options =
        FamilyOptions { l0_compaction_trigger: 2, l0_stall_threshold: 3, ..sim::tiny_family() };
    let t = db.create_family(b"merged", family_options).expect("creates");
    let put = |n: u32| -> tidesdb::Result<()> {
        let mut txn = begin(&db);
        txn.statement_begin(true, Duration::from_secs(3))?;
        // Each file spans all keys: none is moved down without a merge.
        for key in [n % 2, 2 + n, 1000] {
            txn.put(&t, &key.to_be_bytes(), &[n as u8; 20_000])?;
        }
        txn.commit()
    };
    let mut refused = None;
    for n in 0..10 {
        if let Err(error) = put(n) {
            refused = Some(error);
            break;
        }
        // Room for one file, not for the merge of two; a merge that tries takes it for a moment.
        disk.set_capacity(Some(used(&disk) + 90_000));
        let begun = Instant::now();
        while let Err(error) = db.flush() {
            assert!(
                matches!(error, Error::DiskFull(_)) && begun.elapsed() < Duration::from_secs(20),
                "{error}"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let begun = Instant::now();
    assert!(matches!(refused, Some(Error::DiskFull(_))), "{refused:?}");
    disk.set_capacity(None);
    // The answer of a second ago is asked for again.
    disk.advance_clock(2_000_000);
    while let Err(error) = put(100) {
        assert!(matches!(error, Error::DiskFull(_)), "{error}");
        assert!(begun.elapsed() < Duration::from_secs(30), "there is space, and writers are still refused");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The output of a merge without space is unlinked before the next attempt. Otherwise each attempt leaves
/// less room for the next, and the disk stays full when others make room on it.
#[test]
fn merges_that_find_no_space_leave_nothing_behind() {
    let disk = FaultyDisk::new(78);
    let options = Options { compaction_threads: 1, ..sim::normal(SyncMode::None) };
    let db = open(&disk, &options).expect("opens");
    let t = db.create_family(b"merged", sim::tiny_family()).expect("creates");
    db.flush().expect("flushes");
    let tables = || sim::tables(&disk);
    let before = tables();
    let put = |n: u32| {
        let mut txn = begin(&db);
        // Each file spans all keys: none is moved down without a merge.
        for key in [0, 1 + n, 2 + n, 3 + n, 1000] {
            txn.put(&t, &key.to_be_bytes(), &[n as u8; 20_000]).expect("puts");
        }
        txn.commit().expect("commits");
    };
    put(0);
    db.flush().expect("flushes");
    // The second run's file is synced, no merge's.
    disk.fail(Fault {
        op: Some(Op::Sync),
        path: ".sst".into(),
        skip: 1,
        times: u64::MAX,
        failure: Failure::Enospc,
    });
    put(1);
    db.flush().expect("flushes");
    let failed = || db.compactions().iter().filter(|job| job.outcome == CompactionOutcome::Failed).count();
    let begun = Instant::now();
    while failed() < 5 {
        assert!(begun.elapsed() < Duration::from_secs(30), "{} attempts", failed());
        std::thread::sleep(Duration::from_millis(10));
    }
    // Two runs, and what an attempt is writing.
    let left = tables() - before;
    assert!(left <= 3, "{left} files after {} attempts", failed());
    disk.heal();
}

/// The most urgent merge wants more space than there is. It fills the disk once; then a smaller one of
/// another family has its turn, and frees space.
#[test]
fn a_merge_that_cannot_fit_keeps_no_other_away() {
    let disk = FaultyDisk::new(79);
    let quiet = Options { compaction_threads: 0, ..sim::normal(SyncMode::None) };
    let db = open(&disk, &quiet).expect("opens");
    let [large, small] =
        [&b"large"[..], b"small"].map(|name| db.create_family(name, sim::tiny_family()).expect("creates"));
    let (large_id, small_id) = (large.id(), small.id());
    for n in 0..12u32 {
        let mut txn = begin(&db);
        for key in [0, 1 + n, 1000] {
            txn.put(&large, &key.to_be_bytes(), &vec![n as u8; 60_000]).expect("puts");
            if n < 5 {
                txn.put(&small, &key.to_be_bytes(), &[n as u8; 100]).expect("puts");
            }
        }
        txn.commit().expect("commits");
        db.flush().expect("flushes");
    }
    drop((large, small));
    db.close().expect("closes");
    let used: u64 = disk.files().iter().map(|path| disk.contents(path).expect("there").len() as u64).sum();
    disk.set_capacity(Some(used + 400_000));
    let db = open(&disk, &Options { compaction_threads: 1, ..quiet }).expect("opens");
    let of = |family, outcome| {
        db.compactions().iter().filter(|job| job.family == Some(family) && job.outcome == outcome).count()
    };
    let begun = Instant::now();
    while of(small_id, CompactionOutcome::Done) == 0 {
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", db.compactions());
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(
        (of(large_id, CompactionOutcome::Failed), of(large_id, CompactionOutcome::Done)),
        (1, 0),
        "{:?}",
        db.compactions()
    );
    disk.set_capacity(None);
    // The answer of a second ago is asked for again.
    disk.advance_clock(2_000_000);
    let begun = Instant::now();
    while of(large_id, CompactionOutcome::Done) == 0 {
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", db.compactions());
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The disk fills within the second in which it was last asked: the merge that fails waits for more than there
/// was at its begin, not for more than there was before.
#[test]
fn a_merge_without_space_waits_for_no_more_than_it_lacked() {
    let disk = FaultyDisk::new(80);
    let db = open(&disk, &Options { compaction_threads: 0, ..sim::normal(SyncMode::None) }).expect("opens");
    let t = db.create_family(b"t", sim::tiny_family()).expect("creates");
    for n in 0..12u32 {
        let mut txn = begin(&db);
        for key in [0, 1 + n, 1000] {
            txn.put(&t, &key.to_be_bytes(), &vec![n as u8; 60_000]).expect("puts");
        }
        txn.commit().expect("commits");
        db.flush().expect("flushes");
    }
    let jobs = |outcome| db.compactions().iter().filter(|job| job.outcome == outcome).count();
    let until = |outcome| {
        let begun = Instant::now();
        while jobs(outcome) == 0 {
            assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", db.compactions());
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    let used = used(&disk);
    disk.advance_clock(2_000_000);
    disk.set_capacity(Some(used + 1_400_000));
    assert_eq!(db.free_space(), 1_400_000);
    disk.set_capacity(Some(used + 400_000));
    let mut options = db.live_options();
    options.compaction_threads = 1;
    db.set_live_options(&options).expect("changes");
    until(CompactionOutcome::Failed);
    disk.set_capacity(Some(used + 1_200_000));
    disk.advance_clock(2_000_000);
    until(CompactionOutcome::Done);
    assert_eq!(jobs(CompactionOutcome::Failed), 1, "{:?}", db.compactions());
}

/// An edit with an unwritten manifest is in none: its tables, and the begun manifest, go at once.
#[test]
fn a_manifest_that_cannot_be_begun_leaves_no_files() {
    let disk = FaultyDisk::new(3);
    let db = open(&disk, &options()).expect("opens");
    let t = db.create_family(b"t", FamilyOptions::default()).expect("creates");
    let put = |n: u8| {
        let mut txn = begin(&db);
        txn.put(&t, &[n], &[n; 300]).expect("puts");
        txn.commit().expect("commits");
    };
    let fault = |op, times, failure| {
        disk.fail(Fault { op: Some(op), path: "MANIFEST".into(), skip: 0, times, failure });
    };
    put(1);
    fault(Op::Sync, 1, Failure::Eio);
    db.flush().expect_err("the manifest's sync fails");
    fault(Op::Write, u64::MAX, Failure::Enospc);
    let _ = db.flush();
    let before = disk.files().len();
    for _ in 0..10 {
        db.flush().expect_err("there is no room for a new manifest");
    }
    assert!(disk.files().len() <= before + 2, "{before} files before: {:?}", disk.files());
    disk.heal();
    db.flush().expect("flushes");
    put(2);
    drop(t);
    db.close().expect("closes");
    let db = open(&disk, &options()).expect("opens");
    assert_eq!(rows(&db, &db.family(b"t").expect("there")).expect("reads").len(), 2);
}

#[test]
fn a_flush_without_room_is_told_and_counted_once_until_there_is_some() {
    let disk = FaultyDisk::new(1);
    let told = Arc::new(std::sync::Mutex::new(Vec::new()));
    let into = told.clone();
    let log = tidesdb::LogSink::new(move |level, line| {
        if level >= tidesdb::LogLevel::Warn {
            into.lock().expect("whole").push(line.to_string());
        }
    });
    let db = open(&disk, &Options { log: Some(log), ..options() }).expect("opens");
    let family = db.create_family(b"f", FamilyOptions::default()).expect("creates");
    let mut txn = begin(&db);
    txn.put(&family, b"k", b"v").expect("puts");
    txn.commit().expect("commits");
    let (op, path, failure) = (Some(Op::Write), ".sst".into(), Failure::Enospc);
    disk.fail(Fault { op, path, skip: 0, times: u64::MAX, failure });
    for _ in 0..3 {
        assert!(matches!(db.flush(), Err(Error::DiskFull(_))));
    }
    assert_eq!((db.stats().disk_is_full, db.stats().disk_full_count), (true, 1));
    assert!(db.report().contains("the disk is full"), "{}", db.report());
    disk.heal();
    db.flush().expect("flushes");
    let begun = Instant::now();
    // The line comes after those who wait for the flush are told.
    while db.stats().disk_is_full {
        assert!(begun.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(1));
    }
    let told = told.lock().expect("whole").clone();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(
        told[0].contains("the disk is full: no room for a flush (") && told[0].contains(".sst"),
        "{told:?}"
    );
    assert!(told[1].contains("the disk has room again"), "{told:?}");
    assert_eq!(db.stats().disk_full_count, 1);
}

/// No merge includes a dropped table: its failed merge keeps nobody waiting, long before its pause is over.
#[test]
fn a_merge_without_room_whose_table_is_dropped_is_no_full_disk() {
    let disk = FaultyDisk::new(80);
    let quiet = Options { compaction_threads: 0, ..sim::normal(SyncMode::None) };
    let db = open(&disk, &quiet).expect("opens");
    let t = db.create_family(b"merged", sim::tiny_family()).expect("creates");
    for n in 0..12u32 {
        let mut txn = begin(&db);
        // Each file spans all keys: none is moved down without a merge.
        for key in [0, 1 + n, 1000] {
            txn.put(&t, &key.to_be_bytes(), &[n as u8; 60_000]).expect("puts");
        }
        txn.commit().expect("commits");
        db.flush().expect("flushes");
    }
    drop(t);
    db.close().expect("closes");
    disk.set_capacity(Some(used(&disk) + 400_000));
    let db = open(&disk, &Options { compaction_threads: 1, ..quiet }).expect("opens");
    let until = |what: &str, done: &dyn Fn() -> bool| {
        let begun = Instant::now();
        while !done() {
            assert!(begun.elapsed() < Duration::from_secs(20), "{what}: {:?}", db.compactions());
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    until("no merge found the disk full", &|| db.stats().disk_is_full);
    let mut ddl = db.ddl().expect("begins");
    ddl.drop_family(b"merged").expect("is there");
    ddl.commit().expect("drops");
    until("the disk counts as full for a table that is gone", &|| !db.stats().disk_is_full);
}
