//! Value files that take no more values, synced or not: a backup hard-links them.

use super::*;

/// A store without syncs. Its next value begins a second file, and finds no room there. Returns the rows before.
fn store_at_the_end_of_a_file(disk: &FaultyDisk) -> (Db, Arc<Family>, usize) {
    let (db, family) = new_store(disk, &options(SyncMode::None));
    let mut last = None;
    for n in 0.. {
        // The record after the header of the second file.
        let path = value_files(disk).first().cloned().unwrap_or_default();
        if last.as_ref().is_some_and(|last: &String| *last == path) && is_full(disk, &path) {
            let full = Failure::Enospc;
            disk.fail(Fault { op: Some(Op::Write), path: ".val".into(), skip: 1, times: 1, failure: full });
            let refused = put(&db, &family, n, &value(n, 3000)).expect_err("no room");
            assert!(matches!(refused, Error::DiskFull(_)), "{refused}");
            assert_eq!(value_files(disk).len(), 2, "it began a file");
            disk.heal();
            return (db, family, n as usize);
        }
        put(&db, &family, n, &value(n, 3000)).expect("puts");
        last = value_files(disk).first().cloned();
    }
    unreachable!("a file ends")
}

/// Another value has no room in it.
fn is_full(disk: &FaultyDisk, name: &str) -> bool {
    let file = disk.shared().open(&Path::new(DIR).join(name), OpenMode::Read).expect("opens");
    file.len().expect("a length") + 3100 > 32 << 10
}

/// The first value of a file has no room: nobody else begins the file, and syncs those before.
#[test]
fn a_value_without_room_in_a_new_file_leaves_the_others_durable() {
    let disk = FaultyDisk::new(1);
    let (db, _family, count) = store_at_the_end_of_a_file(&disk);
    let options = options(SyncMode::None);
    for _ in 0..500 {
        let found = disk.crash(Crash::Drop);
        let other = open(&found, &options).expect("opens");
        if rows(&other, &other.family(b"t").expect("is there")).expect("reads").len() == count {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    drop(db);
    panic!("nothing synced the values");
}

#[test]
fn a_linked_backup_after_a_value_without_room_outlives_a_power_cut() {
    let disk = FaultyDisk::new(1);
    let (db, _family, count) = store_at_the_end_of_a_file(&disk);
    db.backup(Path::new("/backup"), BackupOptions { links: true }, Watch::NONE).expect("backs up");
    let cut = disk.crash(Crash::Drop);
    let shared: Arc<dyn Disk> = cut.shared();
    verify(&shared, Path::new("/backup"), Watch::NONE).expect("verifies");
    restore(&shared, Path::new("/backup"), Path::new("/restored"), None, Watch::NONE).expect("restores");
    let db = Db::open_on(cut.shared(), "/restored", options(SyncMode::None), None).expect("opens");
    assert_eq!(rows(&db, &db.family(b"t").expect("is there")).expect("reads").len(), count);
}
