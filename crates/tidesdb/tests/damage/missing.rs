//! A missing file: the store opens, its tables are unreadable, all others are readable.

use super::*;
use tidesdb::internal::io::faulty::Crash;
use tidesdb::internal::io::OpenMode;

/// A table file of no epoch and no manifest.
fn unknown(disk: &FaultyDisk, name: &str) -> PathBuf {
    let path = Path::new(DIR).join(name);
    let file = disk.open(&path, OpenMode::Create).expect("makes");
    file.write_at(b"somebody's last copy", 0).expect("writes");
    file.sync_data().expect("syncs");
    disk.sync_dir(Path::new(DIR)).expect("syncs");
    path
}

fn is_damage_of(error: &Error, file: &Path) {
    match error {
        Error::Corruption { path, .. } => assert_eq!(path, file),
        other => panic!("{other}"),
    }
}

#[test]
fn a_missing_table_file_costs_its_family_alone() {
    let disk = FaultyDisk::new(1);
    let (_, good_rows, file) = two_families(&disk);
    disk.remove(&file).expect("unlinks");
    let unknown = unknown(&disk, "00000900.sst");
    let (log, told) = told();
    let options = Options { compaction_threads: 1, log: Some(log), ..options() };
    let db = open(&disk, &options).expect("one missing file does not keep the others from being opened");
    let told = told.lock().expect("whole").join("\n");
    for part in [file.to_str().expect("a name"), "is missing", "'bad'", "tidesdb-admin repair"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert!(disk.exists(&unknown).expect("exists"), "it may be what the manifest lost: {told}");
    let (bad, good) = (db.family(b"bad").expect("there"), db.family(b"good").expect("there"));
    is_damage_of(&rows(&db, &bad).map(|rows| rows.len()).expect_err("a scan meets it"), &file);
    is_damage_of(&db.verify(&bad).expect_err("CHECK TABLE meets it"), &file);
    assert_eq!(rows(&db, &good).expect("reads"), good_rows);
    // Both are written to, flushed and merged.
    for round in 1..4 {
        // Over its keys in part: else tables are moved, unread.
        fill(&db, &bad, round * 6_000, 12_000);
        fill(&db, &good, 0, 12_000);
        db.flush().expect("flushes");
    }
    db.compact(&good).expect("compacts");
    is_damage_of(&db.compact(&bad).expect_err("what is missing is not left out of a merge"), &file);
    assert_eq!(rows(&db, &good).expect("reads"), good_rows);
    drop((bad, good));
    // Dropped, the family misses nothing any more.
    let mut ddl = db.ddl().expect("begins");
    ddl.drop_family(b"bad").expect("there");
    ddl.commit().expect("drops");
    db.close().expect("closes");
    let db = open(&disk, &options).expect("opens");
    assert_eq!(rows(&db, &db.family(b"good").expect("there")).expect("reads"), good_rows);
    assert!(!disk.exists(&unknown).expect("exists"), "nothing is missing: it goes");
    db.close().expect("closes");
}

/// The manifest's last edit, of a merge, has rotted and looks like a torn tail. Its inputs are unlinked: the
/// outputs, without a name in the manifest now, are the last copy.
#[test]
fn the_outputs_of_a_forgotten_merge_stay() {
    let disk = FaultyDisk::new(1);
    let (_, good_rows, first) = two_families(&disk);
    let db = open(&disk, &options()).expect("opens");
    let bad = db.family(b"bad").expect("there");
    fill(&db, &bad, 0, 12_000);
    db.flush().expect("flushes");
    let inputs = [first, files(&disk).pop().expect("the newest file")];
    db.compact(&bad).expect("merges");
    let disk = disk.crash(Crash::Keep);
    for input in inputs.iter().filter(|input| disk.exists(input).expect("exists")) {
        disk.remove(input).expect("unlinks");
    }
    drop((bad, db));
    let output = files(&disk).pop().expect("files");
    let manifest = disk.files().into_iter().rfind(|path| path.to_string_lossy().contains("MANIFEST-"));
    let manifest = manifest.expect("there is one");
    let bytes = disk.contents(&manifest).expect("there");
    let last = bytes.iter().rposition(|byte| *byte != 0).expect("not empty");
    assert!(disk.flip_bit(&manifest, last as u64, 1));
    for _ in 0..2 {
        let db = open(&disk, &options()).expect("opens");
        let (bad, good) = (db.family(b"bad").expect("there"), db.family(b"good").expect("there"));
        let told = rows(&db, &bad).map(|rows| rows.len()).expect_err("its tables are gone");
        assert!(matches!(told, Error::Corruption { .. }), "{told}");
        assert_eq!(rows(&db, &good).expect("reads"), good_rows);
        assert!(disk.exists(&output).expect("exists"), "the merge's output is the last copy");
        drop((bad, good));
        db.close().expect("closes");
    }
}

#[test]
fn a_file_that_cannot_be_unlinked_keeps_no_store_from_being_opened() {
    let disk = FaultyDisk::new(1);
    let (_, good_rows, _) = two_families(&disk);
    let unknown = unknown(&disk, "00000900.sst");
    let (op, path, failure) = (Some(Op::Remove), "00000900".into(), Failure::Eio);
    disk.fail(Fault { op, path, skip: 0, times: 1, failure });
    let (log, told) = told();
    let db = open(&disk, &Options { log: Some(log), ..options() }).expect("opens");
    let told = told.lock().expect("whole").join("\n");
    assert!(told.contains("00000900.sst"), "{told}");
    assert_eq!(rows(&db, &db.family(b"good").expect("there")).expect("reads"), good_rows);
    db.close().expect("closes");
    drop(open(&disk, &options()).expect("opens"));
    assert!(!disk.exists(&unknown).expect("exists"), "the next opening removes it");
}

/// Two transactions larger than memory are prepared; a run of the first is damaged, or missing. The second is
/// found with its locks and is decided. So is the first, for the rest of its changes.
#[test]
fn the_damaged_run_of_a_prepared_transaction_keeps_no_store_from_being_opened() {
    for missing in [false, true] {
        let disk = FaultyDisk::new(1);
        let options = Options { write_buffer_size: 4 << 10, ..sim::tiny(SyncMode::Full) };
        let db = open(&disk, &options).expect("opens");
        let family = db.create_family(b"f", sim::tiny_family()).expect("creates");
        db.flush().expect("flushes");
        let before = files(&disk);
        let mut runs = Vec::new();
        for (from, xid) in [(0u32, b"one"), (1000, b"two")] {
            let mut txn = begin(&db);
            txn.statement_begin(true, Duration::from_secs(20)).expect("statement");
            let changes = if from == 0 { 200 } else { 3 };
            for n in from..from + changes {
                txn.put(&family, &n.to_be_bytes(), &[n as u8; 60]).expect("puts");
            }
            txn.prepare_xa(xid).expect("prepares");
            drop(txn);
            let new = files(&disk).into_iter().filter(|file| !before.contains(file) && !runs.contains(file));
            runs.extend(new.collect::<Vec<_>>());
        }
        assert!(!runs.is_empty(), "the first one spilled");
        let disk = disk.crash(Crash::Keep);
        drop((family, db));
        for run in &runs {
            match missing {
                true => disk.remove(run).expect("unlinks"),
                // In its last table, where the footer is.
                false => {
                    let len = disk.contents(run).expect("there").len() as u64;
                    assert!(disk.flip_bit(run, len - 10, 3));
                }
            }
        }
        let db = open(&disk, &options).expect("opens");
        let mut found = db.prepared();
        found.sort();
        assert_eq!(found, [b"one".to_vec(), b"two".to_vec()]);
        assert!(db.commit_by_xid(b"two").expect("commits"));
        assert!(db.rollback_by_xid(b"one").expect("rolls back"));
        let family = db.family(b"f").expect("there");
        assert_eq!(rows(&db, &family).expect("reads").len(), 3);
        drop(family);
        db.close().expect("closes");
    }
}
