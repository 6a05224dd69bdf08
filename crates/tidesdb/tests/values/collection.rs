//! The space of dead values: some comes back, and some has to stay.

use super::*;

/// A store with `count` values of 20 KB in files of 256 KB, on disk.
fn large_values(disk: &FaultyDisk, mode: SyncMode, count: u32) -> (Db, Arc<Family>) {
    let (db, family) = new_store(disk, &Options { write_buffer_size: 256 << 10, ..options(mode) });
    for n in 0..count {
        put(&db, &family, n, &value(n, LARGE)).expect("puts");
    }
    db.flush().expect("flushes");
    (db, family)
}

const LARGE: usize = 20_000;

/// Gives space back until there was some: a thread in the background may have a memtable's holds for a moment.
fn collect(db: &Db) -> u64 {
    let collected = (0..1000).find_map(|_| {
        let bytes = db.collect_values().expect("collects");
        std::thread::sleep(std::time::Duration::from_millis(u64::from(bytes == 0)));
        (bytes > 0).then_some(bytes)
    });
    collected.unwrap_or(0)
}

#[test]
fn the_space_of_dead_values_comes_back_and_nothing_is_copied() {
    let disk = FaultyDisk::new(1);
    let (mut db, mut family) = large_values(&disk, SyncMode::None, 200);
    let live = 200 * LARGE as u64;
    let mut rng = Rng(7);
    let mut expected: Vec<u32> = (0..200).collect();
    let mut most = 0;
    for round in 1..=10u32 {
        for i in 0..200 {
            let n = rng.below(200) as u32;
            let of = round * 1000 + i;
            put(&db, &family, n, &value(of, LARGE)).expect("puts");
            expected[n as usize] = of;
            if i % 20 == 19 {
                db.flush().expect("flushes");
                db.compact(&family).expect("merges");
                db.end_value_files().expect("ends files");
                db.collect_values().expect("collects");
                most = most.max(disk.used());
            }
        }
        if round == 5 {
            drop(family);
            db.close().expect("closes");
            db = open(&disk, &Options { write_buffer_size: 256 << 10, ..options(SyncMode::None) })
                .expect("opens");
            family = db.family(b"t").expect("is there");
        }
    }
    for (n, of) in expected.iter().enumerate() {
        let found = begin(&db).get(&family, &key(n as u32), ReadMode::Snapshot).expect("reads");
        assert!(found == Some(value(*of, LARGE)), "{n}");
    }
    db.verify(&family).expect("verifies");
    // Tables, log and the file that takes values are in it.
    assert!(most < live * 15 / 10, "{most} of {live}");
    assert!(disk.used() < live * 14 / 10, "{} of {live}", disk.used());
}

/// Overwrites the odd ones of the values, and merges.
fn overwrite_half(db: &Db, family: &Arc<Family>, count: u32) {
    for n in (1..count).step_by(2) {
        put(db, family, n, b"short").expect("puts");
    }
    db.flush().expect("flushes");
    db.compact(family).expect("merges");
}

fn check_half(db: &Db, family: &Arc<Family>, count: u32) {
    for n in 0..count {
        let found = begin(db).get(family, &key(n), ReadMode::Snapshot).expect("reads").expect("is there");
        assert!(if n % 2 == 1 { found == b"short" } else { found == value(n, LARGE) }, "{n}");
    }
}

#[test]
fn no_space_is_given_back_that_a_snapshot_or_a_linked_backup_needs() {
    let disk = FaultyDisk::new(1);
    let (db, family) = large_values(&disk, SyncMode::None, 100);
    let mut reader = begin(&db);
    assert!(reader.get(&family, &key(0), ReadMode::Snapshot).expect("reads").is_some());
    db.backup(Path::new("/backup"), BackupOptions { links: true }, Watch::NONE).expect("backs up");
    overwrite_half(&db, &family, 100);
    assert_eq!(db.collect_values().expect("collects"), 0, "a snapshot has the old versions");
    for n in 0..100 {
        assert!(
            reader.get(&family, &key(n), ReadMode::Snapshot).expect("reads") == Some(value(n, LARGE)),
            "{n}"
        );
    }
    drop(reader);
    db.compact(&family).expect("merges");
    assert_eq!(db.collect_values().expect("collects"), 0, "the backup has the files");
    verify(&disk.shared(), Path::new("/backup"), Watch::NONE).expect("verifies");
    for name in disk.shared().list(Path::new("/backup/store")).expect("lists") {
        if name.ends_with(".val") {
            disk.shared().remove(&Path::new("/backup/store").join(name)).expect("removes");
        }
    }
    let before = disk.used();
    let freed = collect(&db);
    assert!(freed >= 30 * LARGE as u64, "{freed}");
    assert_eq!(before - disk.used(), freed / 4096 * 4096);
    check_half(&db, &family, 100);
    assert_eq!(db.collect_values().expect("collects"), 0, "no more has died");
    // Records of the log point to what is gone.
    for links in [false, true] {
        let (to, restored) = (format!("/after_{links}"), format!("/restored_{links}"));
        let (to, restored) = (Path::new(&to), Path::new(&restored));
        db.backup(to, BackupOptions { links }, Watch::NONE).expect("backs up");
        restore(&disk.shared(), to, restored, None, Watch::NONE).expect("restores");
        let db = Db::open_on(disk.shared(), restored, options(SyncMode::None), None).expect("opens");
        check_half(&db, &db.family(b"t").expect("is there"), 100);
    }
}

/// Threads look several times a second, also where each finds something to merge, or asks again and again.
#[test]
fn a_thread_gives_space_back_in_time() {
    let disk = FaultyDisk::new(1);
    let options = Options { write_buffer_size: 256 << 10, compaction_threads: 2, ..options(SyncMode::None) };
    let (db, family) = new_store(&disk, &options);
    for n in 0..100 {
        put(&db, &family, n, &value(n, LARGE)).expect("puts");
    }
    let full = disk.used();
    overwrite_half(&db, &family, 100);
    let begun = std::time::Instant::now();
    while disk.used() > full * 7 / 10 {
        assert!(begun.elapsed() < std::time::Duration::from_secs(30), "{} of {full}", disk.used());
        // A look comes every few milliseconds of the disk's clock.
        disk.advance_clock(20_000);
        db.flush().expect("flushes");
        put(&db, &family, 1000, b"short").expect("puts");
    }
    check_half(&db, &family, 100);
}

#[test]
fn a_file_system_without_holes_is_told_once_and_keeps_whole_files() {
    let disk = FaultyDisk::new(1);
    let (db, family) = large_values(&disk, SyncMode::None, 100);
    disk.refuse_holes(true);
    overwrite_half(&db, &family, 100);
    for _ in 0..2 {
        assert_eq!(db.collect_values().expect("collects"), 0);
    }
    check_half(&db, &family, 100);
}

/// A value without its space has its record in the log still, above the last place known as durable by a record. The
/// manifest knows more: the records after it are no torn tail.
#[test]
fn records_after_one_whose_value_is_gone_outlive_a_power_cut() {
    let disk = FaultyDisk::new(1);
    let options = Options { write_buffer_size: 256 << 10, ..options(SyncMode::None) };
    let (db, family) = new_store(&disk, &options);
    for n in 0..30 {
        put(&db, &family, n, &value(n, LARGE)).expect("puts");
        if n % 2 == 1 {
            put(&db, &family, n, b"short").expect("puts");
        }
    }
    let mut prepared = begin(&db);
    prepared.put(&family, b"prepared", b"too").expect("puts");
    prepared.prepare_xa(b"xid").expect("prepares");
    drop(prepared);
    // Flushed and given back without a later record in the log.
    db.flush().expect("flushes");
    assert!(collect(&db) > 0);
    let disk = disk.crash(Crash::Drop);
    let db = open(&disk, &options).expect("opens");
    assert_eq!(db.prepared(), [b"xid".to_vec()]);
    check_half(&db, &db.family(b"t").expect("is there"), 30);
}

/// Each call of a collection fails, or the machine dies at it: no needed value is lost, and the store goes on.
#[test]
fn a_collection_that_ends_anywhere_loses_nothing() {
    let before = |seed| {
        let disk = FaultyDisk::new(seed);
        let (db, family) = large_values(&disk, SyncMode::Full, 60);
        overwrite_half(&db, &family, 60);
        (disk, db, family)
    };
    let (disk, db, _family) = before(0);
    let first = disk.calls();
    assert!(db.collect_values().expect("collects") > 0);
    let calls = disk.calls() - first;
    for call in 1..=calls {
        let (disk, db, family) = before(call);
        disk.fail_call(disk.calls() + call, Failure::Eio);
        if let Err(error) = db.collect_values() {
            assert!(!error.to_string().is_empty());
        }
        check_half(&db, &family, 60);
        for crash in [Crash::Kill, Crash::Drop, Crash::Keep, Crash::Tear, Crash::Reorder] {
            let (disk, db, _family) = before(call);
            disk.crash_at(disk.calls() + call);
            // Any answer: the machine is dead.
            let _ = db.collect_values();
            let after = disk.crash(crash);
            let db = open(&after, &options(SyncMode::Full)).expect("opens");
            let family = db.family(b"t").expect("is there");
            check_half(&db, &family, 60);
            db.collect_values().expect("collects");
            check_half(&db, &family, 60);
        }
    }
}

/// Commits wait for room in the log: the space of dead values comes back all the same, and makes room.
#[test]
fn a_full_disk_gets_the_space_of_dead_values_back() {
    let disk = FaultyDisk::new(6);
    let (db, family) = large_values(&disk, SyncMode::Full, 100);
    overwrite_half(&db, &family, 100);
    disk.fail(Fault {
        op: Some(Op::Write),
        path: ".wal".into(),
        skip: 0,
        times: u64::MAX,
        failure: Failure::Enospc,
    });
    let waiting = {
        let (db, family) = (db.clone(), Arc::clone(&family));
        std::thread::spawn(move || put(&db, &family, 1000, b"waits"))
    };
    while !db.stats().wal_is_full {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let freed = collect(&db);
    assert!(freed > 20 * LARGE as u64, "{freed}");
    disk.heal();
    let _ = waiting.join().expect("ends");
    check_half(&db, &family, 100);
    let after = disk.crash(Crash::Drop);
    drop((db, family));
    let db = open(&after, &options(SyncMode::Full)).expect("opens");
    check_half(&db, &db.family(b"t").expect("is there"), 100);
}
