//! The space of unused tables: the amount kept by a store of many tables, of dropped ones and of undone
//! statements, and the time of its release. Without compression, so bytes can be counted.

mod sim;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sim::{begin, open, rows, DIR};
use tidesdb::internal::compaction::history::Action;
use tidesdb::internal::db::Db;
use tidesdb::internal::io::faulty::Crash;
use tidesdb::internal::io::{Disk, FaultyDisk};
use tidesdb::internal::store::family::Family;
use tidesdb::internal::txn::cursor::Scan;
use tidesdb::{Compression, FamilyOptions, Options, SyncMode, TransactionOptions};

const M: u64 = 1 << 20;

/// Bytes of a row's value.
const VALUE: usize = 1000;

fn options() -> Options {
    Options {
        write_buffer_size: 8 << 20,
        wal_segment_size: 4 << 20,
        compaction_threads: 0,
        sync_mode: SyncMode::None,
        ..Options::default()
    }
}

fn settling() -> Options {
    Options { finish_compactions_on_close: true, ..options() }
}

fn plain() -> FamilyOptions {
    FamilyOptions { compression: Compression::None, ..FamilyOptions::default() }
}

fn make(db: &Db, name: &str) -> Arc<Family> {
    db.create_family(name.as_bytes(), plain()).expect("creates")
}

fn fill(db: &Db, family: &Arc<Family>, from: u32, count: u32) {
    let mut txn = begin(db);
    txn.statement_begin(true, Duration::from_secs(20)).expect("statement");
    for n in from..from + count {
        txn.put(family, &n.to_be_bytes(), &[n as u8; VALUE]).expect("puts");
    }
    txn.commit().expect("commits");
}

fn drop_families(db: &Db, names: &[String]) {
    let mut ddl = db.ddl().expect("begins");
    for name in names {
        ddl.drop_family(name.as_bytes()).expect("there");
    }
    ddl.commit().expect("drops");
}

fn files(disk: &FaultyDisk) -> Vec<PathBuf> {
    let names = disk.list(Path::new(DIR)).expect("lists");
    names.iter().filter(|name| name.ends_with(".sst")).map(|name| Path::new(DIR).join(name)).collect()
}

/// Bytes of the table files on the disk, and of the live tables.
fn used(db: &Db, disk: &FaultyDisk) -> (u64, u64) {
    // Files may go meanwhile.
    let on_disk =
        files(disk).iter().filter_map(|file| disk.contents(file)).map(|bytes| bytes.len() as u64).sum();
    (on_disk, db.tables().iter().map(|table| table.bytes).sum())
}

fn is_settled(db: &Db, disk: &FaultyDisk) -> bool {
    let (on_disk, live) = used(db, disk);
    on_disk * 10 <= live * 11
}

/// Bytes written by rewrites of shared files.
fn rewritten(db: &Db) -> u64 {
    let jobs = db.compactions();
    jobs.iter().filter(|job| job.action == Action::Rewrite).map(|job| job.bytes_out).sum()
}

/// Waits for the compaction threads, while the disk's clock goes on.
fn settle(db: &Db, disk: &FaultyDisk, what: &str) {
    let begun = Instant::now();
    while !is_settled(db, disk) {
        let (on_disk, live) = used(db, disk);
        assert!(begun.elapsed() < Duration::from_secs(30), "{what}: {on_disk} bytes of files for {live}");
        disk.advance_clock(1_000_000);
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A thousand tables of 20 KB in shared files. One dropped table is not worth the rewrite of the others; a
/// third is.
#[test]
fn of_a_thousand_tables_one_is_dropped_and_then_a_third() {
    let disk = FaultyDisk::new(1);
    let db = open(&disk, &Options { compaction_threads: 1, ..options() }).expect("opens");
    let names: Vec<String> = (0..1000).map(|n| format!("t{n:03}")).collect();
    let families: Vec<Arc<Family>> = names.iter().map(|name| make(&db, name)).collect();
    families.iter().for_each(|family| fill(&db, family, 0, 20));
    db.flush().expect("flushes");
    settle(&db, &disk, "loaded");
    let before = rewritten(&db);

    drop_families(&db, &names[500..501]);
    for _ in 0..10 {
        disk.advance_clock(2_000_000);
        std::thread::sleep(Duration::from_millis(120));
    }
    assert_eq!(rewritten(&db), before, "20 KB are not worth a rewrite");
    assert!(is_settled(&db, &disk));

    let third: Vec<String> = names.iter().step_by(3).cloned().collect();
    drop_families(&db, &third);
    assert!(!is_settled(&db, &disk), "the others keep the files");
    settle(&db, &disk, "a third is dropped");
    let (on_disk, live) = used(&db, &disk);
    assert!(live > 12 * M && on_disk < 15 * M, "{on_disk} bytes of files for {live}");
    let moved = rewritten(&db) - before;
    assert!(moved < 15 * M, "{moved} bytes were written to give 6.7 MB back");
    for (family, name) in families.iter().zip(&names) {
        if !third.contains(name) && name != "t500" {
            assert_eq!(rows(&db, family).expect("reads").len(), 20, "{name}");
        }
    }
    db.close().expect("closes");
}

/// Under writes nothing is moved out of a file whose unused part may still grow.
#[test]
fn a_busy_store_moves_no_more_than_it_gives_back() {
    let disk = FaultyDisk::new(1);
    let db = open(&disk, &Options { compaction_threads: 1, ..options() }).expect("opens");
    let names: Vec<String> = (0..300).map(|n| format!("t{n:03}")).collect();
    let families: Vec<Arc<Family>> = names.iter().map(|name| make(&db, name)).collect();
    families.iter().for_each(|family| fill(&db, family, 0, 60));
    db.flush().expect("flushes");
    let third: Vec<String> = names.iter().step_by(3).cloned().collect();
    drop_families(&db, &third);
    let before = rewritten(&db);
    let busy = make(&db, "busy");
    for round in 0..20 {
        fill(&db, &busy, round, 1);
        db.flush().expect("flushes");
        disk.advance_clock(1_000_000);
        std::thread::sleep(Duration::from_millis(60));
    }
    assert_eq!(rewritten(&db), before, "a third of the files is dead, and somebody writes");
    assert!(!is_settled(&db, &disk));
    settle(&db, &disk, "nobody writes any more");
    db.close().expect("closes");
}

/// Rounds of writes to many tables of all sizes, with merges, drops and reopenings. At rest the store is
/// little longer than its tables, and each row is there.
#[test]
fn many_tables_of_all_sizes_settle() {
    let disk = FaultyDisk::new(1);
    let mut rng = sim::Rng(7);
    let mut tables: Vec<(String, u32)> = Vec::new();
    let mut db = open(&disk, &settling()).expect("opens");
    for round in 0..6u32 {
        for number in 0..25 {
            let name = format!("t{round}-{number:02}");
            make(&db, &name);
            tables.push((name, 0));
        }
        for _ in 0..80 {
            let at = rng.below(tables.len() as u64) as usize;
            let count = [3, 30, 100, 900][rng.below(4) as usize];
            let (name, rows) = &mut tables[at];
            let family = db.family(name.as_bytes()).expect("there");
            fill(&db, &family, *rows, count);
            *rows += count;
            if rng.one_in(12) {
                db.flush().expect("flushes");
                db.compact(&family).expect("merges");
            }
        }
        for _ in 0..8 {
            let (name, _) = tables.swap_remove(rng.below(tables.len() as u64) as usize);
            drop_families(&db, &[name]);
        }
        db.close().expect("settles");
        db = open(&disk, &settling()).expect("opens");
        let (on_disk, live) = used(&db, &disk);
        assert!(is_settled(&db, &disk), "round {round}: {on_disk} bytes of files for {live}");
    }
    for (name, count) in &tables {
        let family = db.family(name.as_bytes()).expect("there");
        assert_eq!(rows(&db, &family).expect("reads").len() as u32, *count, "{name}");
    }
    db.close().expect("closes");
}

/// An undone bulk statement leaves nothing, by itself or in a committed transaction; its files are gone with
/// the transaction.
#[test]
fn a_bulk_statement_taken_back_gives_its_space_back() {
    let disk = FaultyDisk::new(1);
    let db = open(&disk, &Options { write_buffer_size: 2 << 20, ..options() }).expect("opens");
    let (table, index) = (make(&db, "table"), make(&db, "index"));
    fill(&db, &table, 0, 1000);
    fill(&db, &index, 0, 1000);
    db.flush().expect("flushes");
    let before = used(&db, &disk);
    let bulk = |txn: &mut tidesdb::internal::txn::transaction::Transaction| {
        for n in 10_000..20_000u32 {
            txn.put(&table, &n.to_be_bytes(), &[n as u8; VALUE]).expect("puts");
            txn.put(&index, &n.to_be_bytes(), &[n as u8; 100]).expect("puts");
        }
    };
    let mut txn = begin(&db);
    txn.statement_begin(true, Duration::from_secs(20)).expect("statement");
    bulk(&mut txn);
    assert!(used(&db, &disk).0 > before.0 + 8 * M, "it has spilled");
    txn.rollback().expect("rolls back");
    assert_eq!(used(&db, &disk), before);

    let mut txn = begin(&db);
    txn.statement_begin(true, Duration::from_secs(20)).expect("statement");
    txn.put(&table, &5000u32.to_be_bytes(), &[1; VALUE]).expect("puts");
    txn.statement_begin(true, Duration::from_secs(20)).expect("statement");
    bulk(&mut txn);
    txn.statement_rollback();
    txn.commit().expect("commits");
    db.flush().expect("flushes");
    assert_eq!(rows(&db, &table).expect("reads").len(), 1001);
    let (on_disk, live) = used(&db, &disk);
    assert!(is_settled(&db, &disk), "{on_disk} bytes of files for {live}");
    db.close().expect("closes");
}

/// The runs of a load have a file for each large table: the merge of one gives its space back, whatever
/// becomes of the others. So do flushes.
#[test]
fn large_tables_share_no_file() {
    for spills in [false, true] {
        let disk = FaultyDisk::new(1);
        let size = if spills { 2 << 20 } else { 32 << 20 };
        let db = open(&disk, &Options { write_buffer_size: size, ..options() }).expect("opens");
        let families: Vec<Arc<Family>> = ["a", "b", "c"].iter().map(|name| make(&db, name)).collect();
        let small = make(&db, "small");
        db.flush().expect("flushes");
        let mut txn = begin(&db);
        txn.statement_begin(true, Duration::from_secs(20)).expect("statement");
        for n in 0..4000u32 {
            for family in &families {
                txn.put(family, &n.to_be_bytes(), &[n as u8; VALUE]).expect("puts");
            }
            if !spills && n % 1000 == 999 {
                txn.commit().expect("commits");
                txn.begin(TransactionOptions::default()).expect("begins");
                txn.statement_begin(true, Duration::from_secs(20)).expect("statement");
            }
        }
        txn.put(&small, b"k", b"v").expect("puts");
        txn.commit().expect("commits");
        db.flush().expect("flushes");
        assert_eq!(db.stats().spilled_runs > 0, spills);
        for (family, rest) in families.iter().zip([8, 4, 0]) {
            db.compact(family).expect("merges");
            // A shared file would stay for those that are not merged: twice their bytes. The flush has told before it let go
            // of the runs.
            settle(&db, &disk, &format!("{rest} MB not merged"));
        }
        assert_eq!(rows(&db, &small).expect("reads").len(), 1);
        drop((families, small, txn));
        db.close().expect("closes");
        let db = open(&disk, &options()).expect("opens");
        assert_eq!(rows(&db, &db.family(b"b").expect("there")).expect("reads").len(), 4000);
        db.close().expect("closes");
    }
}

/// Two large tables; while `work` uses the first, the second is dropped: its file is gone when the drop is
/// answered.
fn dropped_alongside(work: impl FnOnce(&Db, &Arc<Family>, &dyn Fn())) {
    let disk = FaultyDisk::new(1);
    let db = open(&disk, &options()).expect("opens");
    let (used, gone) = (make(&db, "used"), make(&db, "gone"));
    db.flush().expect("flushes");
    fill(&db, &used, 0, 3000);
    db.flush().expect("flushes");
    let others = files(&disk);
    fill(&db, &gone, 0, 3000);
    db.flush().expect("flushes");
    let file = files(&disk).into_iter().find(|file| !others.contains(file)).expect("a new file");
    let dropped = AtomicBool::new(false);
    let drop_it = || {
        if !dropped.swap(true, Ordering::Relaxed) {
            assert!(disk.exists(&file).expect("exists"));
            drop_families(&db, &["gone".into()]);
            assert!(!disk.exists(&file).expect("exists"), "something keeps another family's file");
        }
    };
    work(&db, &used, &drop_it);
    assert!(dropped.load(Ordering::Relaxed));
    db.close().expect("closes");
}

#[test]
fn a_scan_keeps_no_file_of_a_dropped_table() {
    dropped_alongside(|db, used, drop_it| {
        let mut txn = begin(db);
        txn.statement_begin(false, Duration::ZERO).expect("statement");
        let mut cursor = db.cursor(used);
        let mut found = cursor.seek(&mut txn, &Scan::default()).expect("seeks");
        let mut seen = 0;
        while found {
            seen += cursor.len();
            drop_it();
            found = cursor.fetch(&mut txn, cursor.len() - 1, true).expect("fetches");
        }
        assert_eq!(seen, 3000);
        drop(cursor);
        txn.rollback().expect("rolls back");
    });
}

#[test]
fn a_check_keeps_no_file_of_a_dropped_table() {
    dropped_alongside(|db, used, drop_it| {
        let looked = || {
            drop_it();
            false
        };
        db.verify_unless(used, &looked).expect("whole");
    });
}

#[test]
fn a_merge_keeps_no_file_of_a_dropped_table() {
    dropped_alongside(|db, used, drop_it| {
        let looked = || {
            drop_it();
            false
        };
        db.compact_unless(used, &looked).expect("merges");
    });
}

/// A crash at every call of a rewrite: each row is there, and no file is left over.
#[test]
fn a_crash_within_a_rewrite_loses_nothing() {
    let before = FaultyDisk::new(1);
    let db = open(&before, &options()).expect("opens");
    let names: Vec<String> = (0..8).map(|n| format!("t{n}")).collect();
    names.iter().for_each(|name| fill(&db, &make(&db, name), 0, 40));
    db.flush().expect("flushes");
    drop_families(&db, &names[2..]);
    db.close().expect("closes");
    let calls = |disk: &FaultyDisk| {
        let db = open(disk, &settling()).expect("opens");
        let from = disk.calls();
        db.close().expect("settles");
        (from, disk.calls(), db_written(disk))
    };
    let (from, upto, rewritten) = calls(&before.crash(Crash::Keep));
    assert!(rewritten && upto - from > 10, "{from} {upto}");
    let mut crashes = 0;
    for n in from..=upto {
        let dead = before.crash(Crash::Keep);
        // An error is the crash.
        let db = open(&dead, &settling()).expect("opens");
        dead.crash_at(n);
        let _ = db.close();
        for crash in Crash::ALL {
            crashes += 1;
            let found = dead.crash(crash);
            let db = open(&found, &options()).unwrap_or_else(|e| panic!("call {n}, {crash:?}: {e}"));
            for name in &names[..2] {
                let family = db.family(name.as_bytes()).expect("there");
                assert_eq!(rows(&db, &family).expect("reads").len(), 40, "call {n}, {crash:?}");
                db.verify(&family).expect("whole");
                // Unlinks what the opening made obsolete, too.
                db.compact(&family).expect("merges");
            }
            let named = db.stats().total_sstables as usize;
            assert_eq!(files(&found).len(), named, "call {n}, {crash:?}: files left over");
            db.close().expect("closes");
        }
    }
    assert!(crashes > 50);
}

/// True if the files of the store in [`a_crash_within_a_rewrite_loses_nothing`] were rewritten.
fn db_written(disk: &FaultyDisk) -> bool {
    let db = open(disk, &options()).expect("opens");
    let settled = is_settled(&db, disk);
    db.close().expect("closes");
    settled
}
