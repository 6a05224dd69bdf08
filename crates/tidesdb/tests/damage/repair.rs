//! `tidesdb-admin verify` and `repair`: the damage is listed, the rest is copied, and the store keeps every
//! byte.

use std::collections::BTreeMap;

use super::*;
use tidesdb::internal::backup::{repair, verify_store, StoreCheck, Watch};
use tidesdb::internal::io::faulty::Crash;
use tidesdb::internal::txn::transaction::Transaction;

const COPY: &str = "/copy";

/// All files of the store.
fn bytes(disk: &FaultyDisk) -> BTreeMap<PathBuf, Vec<u8>> {
    let files = disk.files().into_iter().filter(|path| path.starts_with(DIR));
    files.map(|path| (path.clone(), disk.contents(&path).expect("there"))).collect()
}

/// Verifies the store and repairs it: both list the same files, and nothing in it changes. Returns the left
/// out parts.
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

/// After a crash: files, an unflushed log, and a prepared transaction.
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

/// A transaction that has applied `what` to each of many keys. They are long: a flush would merge a small run
/// with the next.
fn change_each(db: &Db, what: &dyn Fn(&mut Transaction, &[u8])) -> Transaction {
    let mut txn = begin(db);
    txn.statement_begin(true, Duration::from_secs(20)).expect("statement");
    (0..12_000u32).for_each(|n| what(&mut txn, &[&n.to_be_bytes()[..], &[b'k'; 120]].concat()));
    txn
}

fn commit_and_flush(db: &Db, mut txn: Transaction) {
    txn.commit().expect("commits");
    db.flush().expect("flushes");
}

/// Rows, their deletions above them, the same rows again above those. A lost block of deletions makes no old
/// row come back when the new ones go, by single deletes and merges.
#[test]
fn a_lost_deletion_brings_no_row_back() {
    let disk = FaultyDisk::new(1);
    let db = open(&disk, &options()).expect("opens");
    let family = db.create_family(b"bad", sim::tiny_family()).expect("creates");
    let change =
        |db: &Db, what: &dyn Fn(&mut Transaction, &[u8])| commit_and_flush(db, change_each(db, what));
    change(&db, &|txn, key| txn.insert(&family, key, b"old").expect("inserts"));
    db.compact(&family).expect("merges");
    let before = files(&disk);
    change(&db, &|txn, key| txn.delete(&family, key).expect("deletes"));
    let deletions = files(&disk).into_iter().find(|file| !before.contains(file)).expect("a new file");
    change(&db, &|txn, key| txn.insert(&family, key, b"new").expect("inserts"));
    assert!(disk.exists(&deletions).expect("exists"));
    drop(family);
    db.close().expect("closes");
    let middle = disk.contents(&deletions).expect("there").len() as u64 / 2;
    assert!(disk.flip_bit(&deletions, middle, 3));
    assert_eq!(repaired(&disk).len(), 1);
    // The second opening reads its own manifest.
    open_copy(&disk).close().expect("closes");
    let db = open_copy(&disk);
    let family = db.family(b"bad").expect("there");
    assert_eq!(copied_rows(&db, b"bad").len(), 12_000);
    change(&db, &|txn, key| txn.single_delete(&family, key).expect("deletes"));
    assert_eq!(copied_rows(&db, b"bad"), []);
    db.compact(&family).expect("merges");
    assert_eq!(copied_rows(&db, b"bad"), [], "merged");
    // Proofs made after the repair are good.
    change(&db, &|txn, key| txn.insert(&family, key, b"newer").expect("inserts"));
    change(&db, &|txn, key| txn.single_delete(&family, key).expect("deletes"));
    db.compact(&family).expect("merges");
    assert!(db.report().contains("single deletes merged away with their put: 12000\n"), "{}", db.report());
    assert_eq!(copied_rows(&db, b"bad"), []);
    drop(family);
    db.close().expect("closes");
}

/// The same, with the new rows in a transaction prepared before the repair and committed after it, in memory
/// and in runs. Right away, and after a crash without the commit's flush.
#[test]
fn a_prepared_transaction_proves_nothing_after_a_repair() {
    for (len, crashes) in [(3, false), (3, true), (600, false), (600, true)] {
        let disk = FaultyDisk::new(1);
        let db = open(&disk, &options()).expect("opens");
        let family = db.create_family(b"bad", sim::tiny_family()).expect("creates");
        let change =
            |db: &Db, what: &dyn Fn(&mut Transaction, &[u8])| commit_and_flush(db, change_each(db, what));
        change(&db, &|txn, key| txn.insert(&family, key, b"old").expect("inserts"));
        db.compact(&family).expect("merges");
        let before = files(&disk);
        change(&db, &|txn, key| txn.delete(&family, key).expect("deletes"));
        let deletions = files(&disk).into_iter().find(|file| !before.contains(file)).expect("a new file");
        let new = vec![b'n'; len];
        let mut txn = change_each(&db, &|txn, key| txn.insert(&family, key, &new).expect("inserts"));
        assert_eq!(db.stats().spilled_runs > 0, len > 3);
        txn.prepare_xa(b"xid").expect("prepares");
        drop((txn, family));
        let disk = disk.crash(Crash::Drop);
        drop(db);
        let middle = disk.contents(&deletions).expect("there").len() as u64 / 2;
        assert!(disk.flip_bit(&deletions, middle, 3));
        assert_eq!(repaired(&disk).len(), 1);
        let mut disk = disk;
        let mut db = open_copy(&disk);
        assert!(db.commit_by_xid(b"xid").expect("commits"));
        if crashes {
            disk = disk.crash(Crash::Drop);
            db = open_copy(&disk);
        }
        db.flush().expect("flushes");
        let family = db.family(b"bad").expect("there");
        assert_eq!(copied_rows(&db, b"bad").len(), 12_000);
        change(&db, &|txn, key| txn.single_delete(&family, key).expect("deletes"));
        assert_eq!(copied_rows(&db, b"bad"), []);
        db.compact(&family).expect("merges");
        assert_eq!(copied_rows(&db, b"bad"), [], "merged: rows of {len} bytes, crashes {crashes}");
        drop(family);
        db.close().expect("closes");
    }
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
    let middle = |disk: &FaultyDisk, path: &PathBuf| {
        disk.contents(path).unwrap_or_default().get(200_000..201_000).map(<[u8]>::to_vec)
    };
    // Segments of the store's first life may lie there to be used again.
    let before: BTreeMap<_, _> =
        disk.files().into_iter().map(|path| (path.clone(), middle(&disk, &path))).collect();
    (0..40).for_each(|part| fill(&db, &new, part * 100, 100));
    let disk = disk.crash(Crash::Drop);
    drop((new, db));
    let is_full = |path: &PathBuf| {
        let now = middle(&disk, path);
        path.to_string_lossy().ends_with(".wal")
            && now.as_ref().is_some_and(|bytes| bytes.iter().any(|byte| *byte != 0))
            && before.get(path).is_none_or(|bytes| *bytes != now)
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
        (1000..4000).contains(&left) && left % 100 == 0,
        "{left} rows: whole transactions, the first ones"
    );
    db.close().expect("closes");
}

/// The one-line file with the manifest's name: the store does not open, and the copy has everything.
#[test]
fn a_lost_name_of_the_manifest_costs_nothing() {
    let disk = FaultyDisk::new(1);
    let (bad_rows, good_rows, _) = two_families(&disk);
    let current = Path::new(DIR).join("CURRENT");
    for (missing, to) in [(false, "/copy"), (true, "/other")] {
        match missing {
            false => assert!(disk.flip_bit(&current, 3, 3)),
            true => disk.remove(&current).expect("unlinks"),
        }
        let refused = open(&disk, &options()).expect_err("nobody knows which manifest counts");
        assert!(refused.to_string().contains("CURRENT"), "{refused}");
        let (before, shared): (_, Arc<dyn Disk>) = (bytes(&disk), disk.shared());
        let verified = verify_store(&shared, Path::new(DIR), Watch::NONE).expect("reads").damage;
        assert!(verified.len() == 1 && verified[0].contains("CURRENT"), "{verified:?}");
        let left_out = repair(&shared, Path::new(DIR), Path::new(to), Watch::NONE).expect("copies").damage;
        assert_eq!(left_out, Vec::<String>::new());
        assert!(bytes(&disk) == before, "the store was written to");
        let db = Db::open_on(disk.shared(), Path::new(to), options(), None).expect("the copy opens");
        assert_eq!(
            (copied_rows(&db, b"bad"), copied_rows(&db, b"good")),
            (bad_rows.clone(), good_rows.clone())
        );
        db.close().expect("closes");
    }
}

/// There is no replacement for the manifest, and the message sends nobody to a useless tool.
#[test]
fn a_damaged_or_missing_manifest_names_itself_and_the_backup() {
    for missing in [false, true] {
        let disk = FaultyDisk::new(1);
        two_families(&disk);
        let is_manifest = |path: &PathBuf| path.to_string_lossy().contains("MANIFEST-");
        let manifest = disk.files().into_iter().find(is_manifest).expect("there is one");
        match missing {
            false => assert!(disk.flip_bit(&manifest, 30, 3)),
            true => disk.remove(&manifest).expect("unlinks"),
        }
        let (log, told) = told();
        let refused =
            open(&disk, &Options { log: Some(log), ..options() }).expect_err("nothing can be known");
        let told = told.lock().expect("whole").join("\n");
        for text in [&refused.to_string(), &told] {
            assert!(text.contains(manifest.to_str().expect("a name")), "{text}");
        }
        assert!(told.contains("restore a backup") && !told.contains("repair"), "{told}");
        let shared: Arc<dyn Disk> = disk.shared();
        let refused = verify_store(&shared, Path::new(DIR), Watch::NONE).expect_err("nor by verify");
        assert!(refused.to_string().contains(manifest.to_str().expect("a name")), "{refused}");
    }
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
