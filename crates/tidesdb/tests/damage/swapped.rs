//! A whole file in the place of another: a copy under a wrong name, two names exchanged.

use super::*;

/// Two runs of one family over the same keys, of the same length: footers and blocks of either fit the
/// other's place.
#[test]
fn two_files_that_changed_places_are_told() {
    let disk = FaultyDisk::new(1);
    let db = open(&disk, &options()).expect("opens");
    let family = db.create_family(b"f", sim::tiny_family()).expect("creates");
    db.flush().expect("flushes");
    let before = files(&disk);
    for round in 0..2u8 {
        let mut txn = begin(&db);
        txn.statement_begin(true, Duration::from_secs(20)).expect("statement");
        // More than what a flush would merge with the next run.
        (0..12_000u32).for_each(|n| txn.put(&family, &n.to_be_bytes(), &[round; 100]).expect("puts"));
        txn.commit().expect("commits");
        db.flush().expect("flushes");
    }
    let expected = rows(&db, &family).expect("reads");
    drop(family);
    db.close().expect("closes");
    let runs: Vec<PathBuf> = files(&disk).into_iter().filter(|file| !before.contains(file)).collect();
    let length = |file: &PathBuf| disk.contents(file).expect("there").len();
    assert_eq!(runs.len(), 2);
    assert_eq!(length(&runs[0]), length(&runs[1]));
    let exchange = || {
        let between = Path::new(DIR).join("between");
        disk.rename(&runs[0], &between).expect("renames");
        disk.rename(&runs[1], &runs[0]).expect("renames");
        disk.rename(&between, &runs[1]).expect("renames");
    };
    exchange();
    let db = open(&disk, &options()).expect("opens");
    let family = db.family(b"f").expect("there");
    let told =
        rows(&db, &family).map(|rows| rows == expected).expect_err("the wrong rows are not handed out");
    assert!(matches!(&told, Error::Corruption { path, .. } if runs.contains(path)), "{told}");
    let first = 0u32.to_be_bytes();
    let read = tidesdb::internal::txn::transaction::ReadMode::Snapshot;
    let told = begin(&db).get(&family, &first, read).expect_err("nor is one of them");
    assert!(matches!(&told, Error::Corruption { path, .. } if runs.contains(path)), "{told}");
    drop(family);
    db.close().expect("closes");
    exchange();
    let db = open(&disk, &options()).expect("opens");
    assert_eq!(rows(&db, &db.family(b"f").expect("there")).expect("reads"), expected);
}
