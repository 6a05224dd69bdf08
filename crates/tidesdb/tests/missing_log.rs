//! Log files missing after a crash: the store is refused, with their names in the error; or they were empty.
//! A store closed with all its content in tables needs none.

mod sim;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sim::{begin, open, rows, Row, DIR};
use tidesdb::internal::db::Db;
use tidesdb::internal::io::faulty::Crash;
use tidesdb::internal::io::{Disk, FaultyDisk};
use tidesdb::internal::store::family::Family;
use tidesdb::{Error, Options, SyncMode};

fn options() -> Options {
    // The memtable takes all that a test writes, and so the log has several segments.
    Options {
        compaction_threads: 0,
        wal_segment_size: 64 << 10,
        write_buffer_size: 8 << 20,
        ..sim::normal(SyncMode::Full)
    }
}

fn fill(db: &Db, family: &Arc<Family>, from: u32, count: u32) {
    for n in from..from + count {
        let mut txn = begin(db);
        txn.put(family, &n.to_be_bytes(), &[n as u8; 1000]).expect("puts");
        txn.commit().expect("commits");
    }
}

fn log_files(disk: &FaultyDisk) -> Vec<PathBuf> {
    let dir = Path::new(DIR).join("wal");
    disk.list(&dir).expect("lists").into_iter().map(|name| dir.join(name)).collect()
}

fn remove(disk: &FaultyDisk, path: &Path) {
    disk.remove(path).expect("removes");
    disk.sync_dir(path.parent().expect("a directory")).expect("syncs");
}

fn remove_log(disk: &FaultyDisk) {
    log_files(disk).iter().for_each(|path| remove(disk, path));
    disk.remove_dir(&Path::new(DIR).join("wal")).expect("removes");
    disk.sync_dir(Path::new(DIR)).expect("syncs");
}

/// A store opened twice and killed with commits in several segments; its rows.
fn killed(flush_first: bool) -> (FaultyDisk, Vec<Row>) {
    let disk = FaultyDisk::new(5);
    let db = open(&disk, &options()).expect("opens");
    let family = db.create_family(b"rows", sim::tiny_family()).expect("creates");
    fill(&db, &family, 0, 100);
    drop((family, db));
    let disk = disk.crash(Crash::Kill);
    let db = open(&disk, &options()).expect("opens");
    let family = db.family(b"rows").expect("there");
    fill(&db, &family, 100, 150);
    if flush_first {
        db.flush().expect("flushes");
    }
    fill(&db, &family, 250, 150);
    let all = rows(&db, &family).expect("reads");
    assert_eq!(all.len(), 400);
    drop((family, db));
    (disk.crash(Crash::Drop), all)
}

fn all_rows(db: &Db) -> Vec<Row> {
    rows(db, &db.family(b"rows").expect("there")).expect("reads")
}

#[test]
fn each_missing_file_is_named_or_held_nothing() {
    for flush_first in [false, true] {
        let (disk, all) = killed(flush_first);
        let (mut refused, mut opened) = (0, 0);
        for path in log_files(&disk) {
            let disk = disk.crash(Crash::Kill);
            remove(&disk, &path);
            match open(&disk, &options()) {
                Ok(db) => {
                    assert_eq!(all_rows(&db), all, "without {}", path.display());
                    opened += 1;
                }
                Err(error) => {
                    let text = error.to_string();
                    let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
                    assert!(
                        matches!(error, Error::Corruption { .. }) && text.contains(name),
                        "{name}: {text}"
                    );
                    assert!(text.contains("tidesdb-admin log give-up /store"), "{text}");
                    refused += 1;
                }
            }
        }
        println!("flushed: {flush_first}: {refused} files were missed, {opened} not");
        assert!(refused > 2, "{refused}");
    }
}

#[test]
fn a_missing_directory_is_named_with_all_its_files() {
    let (disk, _) = killed(false);
    let before: BTreeSet<PathBuf> = log_files(&disk).into_iter().collect();
    remove_log(&disk);
    for _ in 0..2 {
        let text = open(&disk, &options()).expect_err("refused").to_string();
        assert!(text.contains("/store/wal at"), "{text}");
        let named = before.iter().filter(|path| text.contains(path.file_name().unwrap().to_str().unwrap()));
        assert!(named.count() > 5, "{text}");
    }
}

/// A cut-off file and one with the content of another count as missing.
#[test]
fn an_emptied_or_overwritten_file_is_missed() {
    let (disk, _) = killed(false);
    let shared = disk.shared();
    let open_as = tidesdb::internal::io::OpenMode::ReadWrite;
    let path = log_files(&disk).pop().expect("a file");
    let emptied = disk.crash(Crash::Kill);
    emptied.shared().open(&path, open_as).expect("opens").set_len(0).expect("cuts");
    assert!(matches!(open(&emptied, &options()), Err(Error::Corruption { .. })));
    shared.open(&path, open_as).expect("opens").write_at(&[7; 4096], 0).expect("writes");
    let opened = open(&disk, &options());
    // A segment without records may be lost.
    if let Ok(db) = &opened {
        assert_eq!(all_rows(db).len(), 400);
    }
}

#[test]
fn a_store_closed_with_all_in_tables_needs_no_log() {
    let (disk, all) = killed(false);
    let with_flush = Options { flush_on_close: true, ..options() };
    open(&disk, &with_flush).expect("opens").close().expect("closes");
    remove_log(&disk);
    let db = open(&disk, &options()).expect("opens without a log");
    assert_eq!(all_rows(&db), all);
    // Without a flush the log has the newest commits, also after an orderly end.
    let family = db.family(b"rows").expect("there");
    fill(&db, &family, 1000, 1);
    drop(family);
    db.close().expect("closes");
    let without = disk.crash(Crash::Kill);
    remove_log(&without);
    assert!(matches!(open(&without, &options()), Err(Error::Corruption { .. })));
    let db = open(&disk, &options()).expect("opens");
    assert_eq!(all_rows(&db).len(), 401);
    // Nothing new: what the opening replayed is in tables.
    db.close().expect("closes");
    remove_log(&disk);
    assert_eq!(all_rows(&open(&disk, &options()).expect("opens")).len(), 401);
}

#[test]
fn a_log_that_is_given_up_ends_before_its_first_missing_file() {
    let (disk, all) = killed(false);
    let nothing = Db::give_up_log(disk.shared(), Path::new(DIR));
    assert!(matches!(nothing, Err(Error::InvalidArgument(_))), "{nothing:?}");
    let (mut kept, mut none) = (0, 0);
    for path in log_files(&disk) {
        let disk = disk.crash(Crash::Kill);
        remove(&disk, &path);
        if open(&disk, &options()).is_ok() {
            continue;
        }
        let lost = Db::give_up_log(disk.shared(), Path::new(DIR)).expect("gives up");
        assert_eq!(lost.missing.len(), 1);
        let db = open(&disk, &options()).expect("opens");
        let found = all_rows(&db);
        assert_eq!(found[..], all[..found.len()], "a prefix of the commits");
        assert!(found.len() >= 100, "the first life is in tables");
        match lost.kept_upto {
            Some(_) => kept += 1,
            None => none += 1,
        }
        let family = db.family(b"rows").expect("there");
        fill(&db, &family, 5000, 100);
        drop((family, db));
        let db = open(&disk.crash(Crash::Drop), &options()).expect("opens after a crash");
        assert_eq!(all_rows(&db).len(), found.len() + 100);
    }
    assert!(kept > 2 && none > 0, "{kept} starts of the log were kept, {none} times none");
}
