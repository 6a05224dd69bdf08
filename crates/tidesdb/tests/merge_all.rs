//! The merge of a whole family (OPTIMIZE TABLE) while others write to it.

mod sim;

use std::cell::Cell;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use sim::{begin, open};
use tidesdb::internal::io::faulty::{Failure, Fault, Op};
use tidesdb::internal::io::FaultyDisk;
use tidesdb::{Compression, FamilyOptions, Options, SyncMode};

/// Later writes are not its work: it ends although every step of it finds a new run in level 0.
#[test]
fn it_ends_while_others_write() {
    let disk = FaultyDisk::new(1);
    let options = Options { compaction_threads: 0, ..sim::normal(SyncMode::None) };
    let db = open(&disk, &options).expect("opens");
    let family = db.create_family(b"t", sim::tiny_family()).expect("creates");
    let write = || {
        let mut txn = begin(&db);
        for n in 0..10u32 {
            txn.put(&family, &n.to_be_bytes(), &[7; 10_000]).expect("puts");
        }
        txn.commit().expect("commits");
        db.flush().expect("flushes");
    };
    write();
    write();
    let asked = Cell::new(0);
    let merged = db.compact_unless(&family, &|| {
        write();
        asked.set(asked.get() + 1);
        asked.get() > 30
    });
    assert!(merged.is_ok(), "{merged:?} after {} steps", asked.get());
    assert!(db.tables().iter().any(|table| table.family == family.id() && table.level > 0));
}

/// However long it takes, the runs piling up above it stop no writer: they merge among themselves.
#[test]
fn it_stops_no_writer() {
    let disk = FaultyDisk::new(1);
    // Runs are longer than files are meant to be, as with the usual sizes.
    let options =
        Options { compaction_threads: 1, target_file_size: 32 << 10, ..sim::normal(SyncMode::None) };
    let db = open(&disk, &options).expect("opens");
    let wish = FamilyOptions { l0_compaction_trigger: 4, l0_stall_threshold: 10, ..sim::tiny_family() };
    let family = db.create_family(b"t", wish).expect("creates");
    let other = db.create_family(b"other", sim::tiny_family()).expect("creates");
    let write = |round: u32| {
        let mut txn = begin(&db);
        txn.statement_begin(true, Duration::from_secs(5)).map_err(|e| format!("round {round}: {e}"))?;
        for n in 0..10u32 {
            txn.put(&family, &n.to_be_bytes(), &[7; 10_000]).expect("puts");
        }
        txn.put(&other, b"k", b"v").expect("puts");
        txn.commit().expect("commits");
        db.flush().expect("flushes");
        Ok::<(), String>(())
    };
    write(0).expect("nothing to wait for");
    let (begun, end) = (AtomicBool::new(false), AtomicBool::new(false));
    let written = std::thread::scope(|scope| {
        let merge = scope.spawn(|| {
            db.compact_unless(&family, &|| {
                begun.store(true, SeqCst);
                while !end.load(SeqCst) {
                    std::thread::sleep(Duration::from_millis(1));
                }
                false
            })
        });
        while !begun.load(SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let written = (1..30).try_for_each(write);
        end.store(true, SeqCst);
        merge.join().expect("no panic").expect("merges");
        written
    });
    assert_eq!(written, Ok(()));
}

/// Figures of old files read the end of each once, and are no place that meets damage.
#[test]
fn figures_of_old_files_read_each_end_once() {
    let disk = FaultyDisk::new(1);
    let options =
        Options { compaction_threads: 0, target_file_size: 64 << 10, ..sim::normal(SyncMode::None) };
    let db = open(&disk, &options).expect("opens");
    let with = |compression| FamilyOptions { compression, ..FamilyOptions::default() };
    let family = db.create_family(b"t", with(Compression::None)).expect("creates");
    for n in 0..600u32 {
        let mut txn = begin(&db);
        txn.put(&family, &n.to_be_bytes(), &[7; 1_000]).expect("puts");
        txn.commit().expect("commits");
    }
    db.compact(&family).expect("merges");
    let mut ddl = db.ddl().expect("begins");
    ddl.set_options(b"t", with(Compression::Zstd)).expect("changes");
    ddl.commit().expect("commits");
    // Not of all files: one that was merged away may still be there.
    let live: Vec<String> = db.tables().iter().map(|table| format!("{:08}.sst", table.file)).collect();
    db.close().expect("closes");

    let is_live = |path: &PathBuf| live.iter().any(|name| path.ends_with(name));
    let tables = disk.files().into_iter().filter(is_live);
    let lengths = tables.map(|path| (disk.contents(&path).map_or(0, |bytes| bytes.len()), path));
    let (len, largest) = lengths.max().expect("there are some");
    assert!(disk.flip_bit(&largest, len as u64 - 10, 3), "its end is damaged");
    let db = open(&disk, &options).expect("opens again");
    let family = db.family(b"t").expect("there");
    let all = db.family_stats(&family).expect("there").data_bytes;
    let old = db.old_form_bytes(&family).expect("damage is met elsewhere");
    assert!(old > 0 && old < all && old + len as u64 >= all, "{old} of {all}, {len} are damaged");
    let fault = Fault { op: None, path: ".sst".into(), skip: 0, times: u64::MAX, failure: Failure::Eio };
    disk.fail(fault);
    assert_eq!(db.old_form_bytes(&family).expect("known"), old, "a poll reads nothing again");
    assert_eq!(db.stats().corruptions, 0);
}

/// Times are those of merges that were done: a rate of both is the time of one.
#[test]
fn a_merge_that_fails_has_no_part_in_the_times() {
    let disk = FaultyDisk::new(1);
    let db = open(&disk, &Options { compaction_threads: 0, ..sim::normal(SyncMode::None) }).expect("opens");
    let family = db.create_family(b"t", FamilyOptions::default()).expect("creates");
    for _ in 0..2 {
        let mut txn = begin(&db);
        txn.put(&family, b"k", b"v").expect("puts");
        txn.commit().expect("commits");
        db.flush().expect("flushes");
    }
    disk.fail(Fault { op: Some(Op::Write), path: ".sst".into(), skip: 0, times: 1, failure: Failure::Eio });
    db.compact(&family).expect_err("the disk fails");
    let merges = || (db.stats().merge_times.count, db.stats().compaction_count);
    assert_eq!(merges().0, 0);
    db.compact(&family).expect("merges");
    assert!(merges().0 > 0 && merges().0 == merges().1, "{:?}", merges());
}

/// A merged table in the last level is rewritten when its options have changed, and only then.
#[test]
fn it_rewrites_what_was_written_under_other_options() {
    let disk = FaultyDisk::new(1);
    let options =
        Options { compaction_threads: 0, target_file_size: 64 << 10, ..sim::normal(SyncMode::None) };
    let db = open(&disk, &options).expect("opens");
    let with = |compression| FamilyOptions { compression, ..FamilyOptions::default() };
    let family = db.create_family(b"t", with(Compression::None)).expect("creates");
    for n in 0..600u32 {
        let mut txn = begin(&db);
        txn.put(&family, &n.to_be_bytes(), &[7; 1_000]).expect("puts");
        txn.commit().expect("commits");
    }
    db.compact(&family).expect("merges");
    let (old, data) = (
        || db.old_form_bytes(&family).expect("reads"),
        || db.family_stats(&family).expect("there").data_bytes,
    );
    let before = data();
    assert!(before > 600_000);
    assert_eq!(old(), 0);
    let tables = || db.tables().into_iter().filter(|table| table.family == family.id()).count();
    assert!(tables() > 2, "some files are rewritten one by one");

    let mut ddl = db.ddl().expect("begins");
    ddl.set_options(b"t", with(Compression::Zstd)).expect("changes");
    ddl.commit().expect("commits");
    assert_eq!((old(), data()), (before, before), "the files are as they were");
    db.compact(&family).expect("rewrites");
    assert_eq!(old(), 0);
    assert!(data() < before / 10, "{} of {before}", data());
    assert_eq!(sim::rows(&db, &family).expect("reads").len(), 600);

    let written = db.stats().compaction_bytes_written;
    db.compact(&family).expect("has nothing to do");
    assert_eq!(db.stats().compaction_bytes_written, written);

    // What a table says of itself outlives the store.
    db.close().expect("closes");
    let db = open(&disk, &options).expect("opens again");
    let family = db.family(b"t").expect("there");
    assert_eq!(db.old_form_bytes(&family).expect("reads"), 0);
}

/// A snapshot keeps versions and tombstones through a merge into the last level; the next merge of the whole family
/// after its end drops them.
#[test]
fn it_drops_what_an_earlier_one_kept_for_a_snapshot() {
    let disk = FaultyDisk::new(1);
    let options = Options { compaction_threads: 0, ..sim::normal(SyncMode::None) };
    let db = open(&disk, &options).expect("opens");
    let family = db.create_family(b"t", sim::tiny_family()).expect("creates");
    let write = |delete: bool| {
        let mut txn = begin(&db);
        for n in 0..40u32 {
            let key = n.to_be_bytes();
            let done = match delete && n % 2 == 0 {
                true => txn.delete(&family, &key),
                false => txn.put(&family, &key, &[7; 100]),
            };
            done.expect("writes");
        }
        txn.commit().expect("commits");
        db.flush().expect("flushes");
    };
    let shape = || {
        let tables = db.tables();
        let of_family = tables.iter().filter(|table| table.family == family.id());
        of_family.fold((0, 0), |(entries, dead), table| (entries + table.entries, dead + table.tombstones))
    };
    write(false);
    let mut reader = begin(&db);
    reader.take_snapshot().expect("takes");
    write(true);
    db.compact(&family).expect("merges");
    assert_eq!(shape(), (80, 20), "the snapshot sees the old versions");
    db.compact(&family).expect("merges");
    assert_eq!(shape(), (80, 20), "it ends, with nothing to drop");
    reader.rollback().expect("ends");
    db.compact(&family).expect("merges");
    assert_eq!(shape(), (20, 0));
}
