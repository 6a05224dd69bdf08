//! `tidesdb-admin verify` and `repair`: the damage is listed, the rest is copied, and the store keeps every byte.

use std::collections::BTreeMap;

use super::*;
use tidesdb::internal::backup::{repair, verify_store, StoreCheck, Watch};
use tidesdb::internal::io::faulty::Crash;

const COPY: &str = "/copy";

/// All files of the store.
fn bytes(disk: &FaultyDisk) -> BTreeMap<PathBuf, Vec<u8>> {
    let files = disk.files().into_iter().filter(|path| path.starts_with(DIR));
    files.map(|path| (path.clone(), disk.contents(&path).expect("there"))).collect()
}

/// Verifies the store and repairs it: both list the same files, and nothing in it changes. What was left out.
fn repaired(disk: &FaultyDisk) -> Vec<String> {
    let before = bytes(disk);
    let (shared, dir): (Arc<dyn Disk>, _) = (disk.shared(), Path::new(DIR));
    let verified = verify_store(&shared, dir, Watch::NONE).expect("reads").damage;
    let left_out = repair(&shared, dir, Path::new(COPY), Watch::NONE).expect("copies").damage;
    assert!(bytes(disk) == before, "the store was written to");
    assert_eq!(verified.is_empty(), left_out.is_empty(), "{verified:?}, {left_out:?}");
    let again = verify_store(&shared, Path::new(COPY), Watch::NONE).expect("reads");
    assert_eq!(again.damage, Vec::<String>::new(), "the copy is whole");
    left_out
}

fn open_copy(disk: &FaultyDisk) -> Db {
    Db::open_on(disk.shared(), Path::new(COPY), options(), None).expect("the copy opens")
}

fn copied_rows(db: &Db, name: &[u8]) -> Vec<Row> {
    rows(db, &db.family(name).expect("there")).expect("reads")
}

/// After a crash: files, a log that is not in files, and a prepared transaction.
#[test]
fn a_store_that_is_whole_is_copied_as_it_is() {
    let disk = FaultyDisk::new(1);
    let (bad_rows, good_rows, _) = two_families(&disk);
    let db = open(&disk, &options()).expect("opens");
    let new = db.create_family(b"new", sim::tiny_family()).expect("creates");
    fill(&db, &new, 0, 100);
    let mut txn = begin(&db);
    txn.statement_begin(true, Duration::from_secs(20)).expect("statement");
    txn.put(&new, b"undecided", b"value").expect("puts");
    txn.prepare_xa(b"xid").expect("prepares");
    drop(txn);
    let disk = disk.crash(Crash::Drop);
    drop((new, db));
    assert_eq!(repaired(&disk), Vec::<String>::new());
    let db = open_copy(&disk);
    assert_eq!((copied_rows(&db, b"bad"), copied_rows(&db, b"good")), (bad_rows, good_rows));
    assert_eq!(copied_rows(&db, b"new").len(), 100);
    assert_eq!(db.prepared(), [b"xid".to_vec()]);
    assert!(db.commit_by_xid(b"xid").expect("commits"));
    db.close().expect("closes");
}

#[test]
fn one_damaged_block_costs_its_rows() {
    let disk = FaultyDisk::new(1);
    let (bad_rows, good_rows, file) = two_families(&disk);
    let middle = disk.contents(&file).expect("there").len() as u64 / 2;
    assert!(disk.flip_bit(&file, middle, 3));
    let left_out = repaired(&disk);
    assert_eq!(left_out.len(), 1, "{left_out:?}");
    assert!(
        left_out[0].contains("'bad'") && left_out[0].contains(file.to_str().expect("a name")),
        "{left_out:?}"
    );
    let db = open_copy(&disk);
    let left = copied_rows(&db, b"bad");
    assert!(left.len() < bad_rows.len() && left.len() + 10 > bad_rows.len(), "{} rows", left.len());
    assert!(left.iter().all(|row| bad_rows.contains(row)));
    assert_eq!(copied_rows(&db, b"good"), good_rows);
    fill(&db, &db.family(b"bad").expect("there"), 0, 12_000);
    assert_eq!(copied_rows(&db, b"bad"), bad_rows);
    db.close().expect("closes");
}

#[test]
fn a_missing_file_costs_its_table() {
    let disk = FaultyDisk::new(1);
    let (_, good_rows, file) = two_families(&disk);
    disk.remove(&file).expect("unlinks");
    let left_out = repaired(&disk).join("\n");
    assert!(left_out.contains("'bad'") && left_out.contains(file.to_str().expect("a name")), "{left_out}");
    let db = open_copy(&disk);
    assert_eq!(copied_rows(&db, b"bad"), []);
    assert_eq!(copied_rows(&db, b"good"), good_rows);
    db.close().expect("closes");
}

/// The store does not open; the copy has its files, and the commits up to the damage.
#[test]
fn a_damaged_log_costs_the_commits_from_there_on() {
    let disk = FaultyDisk::new(1);
    let (_, good_rows, _) = two_families(&disk);
    let db = open(&disk, &options()).expect("opens");
    let new = db.create_family(b"new", sim::tiny_family()).expect("creates");
    (0..40).for_each(|part| fill(&db, &new, part * 100, 100));
    let disk = disk.crash(Crash::Drop);
    drop((new, db));
    let is_full = |path: &PathBuf| {
        let bytes = disk.contents(path).unwrap_or_default();
        path.to_string_lossy().ends_with(".wal") && bytes.get(200_000).is_some_and(|byte| *byte != 0)
    };
    let segment = disk.files().into_iter().find(is_full).expect("the one in use");
    assert!(disk.flip_bit(&segment, 200_000, 3));
    let refused = open(&disk, &options()).expect_err("commits would be lost without a word");
    assert!(refused.to_string().contains(segment.to_str().expect("a name")), "{refused}");
    let left_out = repaired(&disk).join("\n");
    assert!(left_out.contains(segment.to_str().expect("a name")), "{left_out}");
    let db = open_copy(&disk);
    assert_eq!(copied_rows(&db, b"good"), good_rows);
    let left = copied_rows(&db, b"new").len();
    assert!(
        left >= 1000 && left < 4000 && left % 100 == 0,
        "{left} rows: whole transactions, the first ones"
    );
    db.close().expect("closes");
}

#[test]
fn a_store_in_use_and_a_place_in_use_are_refused() {
    let disk = FaultyDisk::new(1);
    two_families(&disk);
    let db = open(&disk, &options()).expect("opens");
    let (shared, dir): (Arc<dyn Disk>, _) = (disk.shared(), Path::new(DIR));
    let refused = |done: tidesdb::Result<StoreCheck>| done.map(|check| check.tables).expect_err("refused");
    let busy = refused(repair(&shared, dir, Path::new(COPY), Watch::NONE));
    assert!(matches!(busy, Error::Busy(_)), "{busy}");
    db.close().expect("closes");
    for to in [DIR, "/store/inside", "/"] {
        let wrong = refused(repair(&shared, dir, Path::new(to), Watch::NONE));
        assert!(matches!(wrong, Error::InvalidArgument(_)), "{to}: {wrong}");
    }
    repair(&shared, dir, Path::new(COPY), Watch::NONE).expect("copies");
    let taken = refused(repair(&shared, dir, Path::new(COPY), Watch::NONE));
    assert!(taken.to_string().contains("not empty"), "{taken}");
}
