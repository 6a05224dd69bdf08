//! Tests of backups and restores on the faulty disk: their content, and faults in between.

use std::cell::Cell;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::{repair, restore, tables_of_file, verify, BackupFile, BackupInfo, BackupOptions, Watch};
use crate::cache::BlockCache;
use crate::db::Db;
use crate::error::Error;
use crate::io::faulty::{Failure, Fault, Op};
use crate::io::{Disk, FaultyDisk, OpenMode, RealDisk};
use crate::options::{Compression, FamilyOptions, Options};
use crate::table::{BlockFacts, SsTable, TableStore};
use crate::txn::transaction::{ReadMode, TransactionOptions};

const STORE: &str = "/s";
const BACKUP: &str = "/b";

fn options() -> Options {
    Options { write_buffer_size: 1 << 20, wal_segment_size: 1 << 20, ..Options::default() }
}

fn open(disk: &FaultyDisk) -> Db {
    Db::open_on(disk.shared(), STORE, options(), None).expect("opens")
}

fn fill(db: &Db, from: u32) {
    fill_family(db, b"t", from, 0);
}

fn fill_family(db: &Db, name: &[u8], from: u32, salt: u8) {
    let family = match db.family(name) {
        Ok(family) => family,
        Err(_) => {
            let plain = FamilyOptions { compression: Compression::None, ..FamilyOptions::default() };
            db.create_family(name, plain).expect("creates")
        }
    };
    let mut txn = db.transaction();
    txn.begin(TransactionOptions::default()).expect("begins");
    txn.statement_begin(true, Duration::from_secs(20)).expect("statement");
    for n in from..from + 200 {
        txn.put(&family, &n.to_be_bytes(), &[n as u8 ^ salt; 100]).expect("puts");
    }
    txn.commit().expect("commits");
}

fn write(disk: &dyn Disk, path: &Path, text: &str) {
    let file = disk.open(path, OpenMode::Create).expect("makes");
    file.write_at(text.as_bytes(), 0).expect("writes");
    file.sync_data().expect("syncs");
}

#[test]
fn a_backup_keeps_no_memtable() {
    let disk = FaultyDisk::new(1);
    let db = open(&disk);
    fill(&db, 0);
    let memtable = Arc::downgrade(&db.store().super_version().active);
    let mut backup = db.begin_backup(Path::new(BACKUP), BackupOptions::default()).expect("begins");
    backup.take_point(Watch::NONE).expect("takes");
    db.flush().expect("flushes");
    let begun = std::time::Instant::now();
    // The flushing thread lets go of it a moment after it says that it is done.
    while memtable.upgrade().is_some() {
        assert!(begun.elapsed() < Duration::from_secs(10), "memory is held for as long as files are copied");
        std::thread::sleep(Duration::from_millis(1));
    }
    backup.finish(Watch::NONE).expect("is complete");
}

/// The file of a large transaction, prepared at the backup's point, is named only in the log. It is rolled
/// back, and the store is killed. A copy of the next backup by known names must not take another file for it.
#[test]
fn numbers_of_a_backups_files_do_not_come_again() {
    let disk = FaultyDisk::new(1);
    let small = || Options { write_buffer_size: 64 << 10, ..options() };
    let db = Db::open_on(disk.shared(), STORE, small(), None).expect("opens");
    let family = db.create_family(b"t", FamilyOptions::default()).expect("creates");
    db.flush().expect("flushes");
    let mut txn = db.transaction();
    txn.begin(TransactionOptions::default()).expect("begins");
    txn.statement_begin(true, Duration::from_secs(20)).expect("statement");
    for n in 0..2000u32 {
        txn.put(&family, &n.to_be_bytes(), &[n as u8; 100]).expect("puts");
    }
    txn.prepare_xa(b"xid").expect("prepares");
    drop(txn);
    db.backup(Path::new(BACKUP), BackupOptions::default(), Watch::NONE).expect("is complete");
    assert!(db.rollback_by_xid(b"xid").expect("rolls back"));
    drop(family);
    let numbers = |disk: &FaultyDisk, dir: &str| -> Vec<u64> {
        let names = disk.list(Path::new(dir)).expect("lists");
        names.iter().filter_map(|name| name.strip_suffix(".sst")?.parse().ok()).collect()
    };
    let in_backup = numbers(&disk, "/b/store").into_iter().max().expect("files");
    assert!(!numbers(&disk, STORE).contains(&in_backup), "it is gone");
    let disk = disk.crash(crate::io::faulty::Crash::Drop);
    drop(db);
    let db = Db::open_on(disk.shared(), STORE, small(), None).expect("opens");
    let next = db.store().versions.new_file_number();
    assert!(next > in_backup, "{next} comes again: the backup has {in_backup}");
    db.close().expect("closes");
}

/// A state transfer sends the store of a backup as it is, from a directory in the store's.
#[test]
fn a_backup_in_the_stores_directory_for_a_transfer_is_a_store() {
    let disk = FaultyDisk::new(1);
    let db = open(&disk);
    fill(&db, 0);
    db.flush().expect("flushes");
    fill(&db, 200);
    let links = BackupOptions { links: true };
    for inside in ["/s", "/s/wal", "/s/transfer/below", "/s/other"] {
        let refused = db.backup(Path::new(inside), links, Watch::NONE);
        assert!(matches!(refused, Err(Error::InvalidArgument(_))), "{inside}: {refused:?}");
    }
    let mut backup = db.begin_backup(Path::new("/s/transfer"), links).expect("begins");
    backup.take_point(Watch::NONE).expect("takes");
    fill(&db, 400);
    backup.finish(Watch::NONE).expect("is complete");
    db.close().expect("closes");
    let db = open(&disk);
    assert_eq!(rows(&db, b"t").expect("reads"), 600, "the store lives with it");
    db.close().expect("closes");
    let sent = Db::open_on(disk.shared(), "/s/transfer/store", options(), None).expect("opens");
    assert_eq!(rows(&sent, b"t").expect("reads"), 400, "of the moment");
}

/// Each marker says how to go on.
#[test]
fn half_a_restore_and_half_a_state_transfer_are_refused_by_name() {
    let disk = FaultyDisk::new(1);
    open(&disk).close().expect("closes");
    for (marker, remedy) in
        [("from /b\n", "restore again"), ("state transfer 7\n", "start the server in its cluster")]
    {
        write(&disk, Path::new("/s/RESTORING"), marker);
        let refused = Db::open_on(disk.shared(), STORE, options(), None).expect_err("is half");
        assert!(refused.to_string().contains(remedy), "{refused}");
    }
    disk.remove(Path::new("/s/RESTORING")).expect("removes");
    open(&disk);
}

/// A backup of a store in `/s`; the store is removed afterwards.
fn backed_up(disk: &FaultyDisk) {
    let db = open(disk);
    fill(&db, 0);
    db.flush().expect("flushes");
    let mut backup = db.begin_backup(Path::new(BACKUP), BackupOptions::default()).expect("begins");
    write(disk, Path::new("/t.frm"), "a definition");
    backup.add_file(Path::new("/t.frm"), "t.frm").expect("adds");
    backup.take_point(Watch::NONE).expect("takes");
    backup.finish(Watch::NONE).expect("is complete");
    db.close().expect("closes");
}

const INTO: &str = "/into";

/// Restores into `/into`; `meanwhile` is called with each progress report.
fn restored(disk: &FaultyDisk, meanwhile: &dyn Fn()) -> crate::error::Result<()> {
    disk.create_dir_all(Path::new("/data")).expect("makes");
    let watch = Watch { stop: &|| false, progress: &|_, _| meanwhile() };
    let (from, into, data) = (Path::new(BACKUP), Path::new(INTO), Path::new("/data"));
    restore(&disk.shared(), from, into, Some(data), watch).map(|_| ())
}

#[test]
fn a_store_that_was_made_while_the_backup_was_verified_is_not_written_over() {
    let disk = FaultyDisk::new(1);
    backed_up(&disk);
    let made = Cell::new(false);
    let done = restored(&disk, &|| {
        if !made.replace(true) {
            Db::open_on(disk.shared(), INTO, options(), None).expect("opens").close().expect("closes");
        }
    });
    assert!(matches!(done, Err(Error::InvalidArgument(_))), "{done:?}");
    let db = Db::open_on(disk.shared(), INTO, options(), None).expect("it is whole");
    assert!(db.family(b"t").is_err(), "it is the one that was made");
}

#[test]
fn nobody_opens_a_store_that_is_being_restored() {
    let disk = FaultyDisk::new(1);
    backed_up(&disk);
    let refused = Cell::new(0);
    restored(&disk, &|| {
        if disk.exists(&Path::new(INTO).join("RESTORING")).expect("exists") {
            let opened = Db::open_on(disk.shared(), INTO, options(), None);
            assert!(matches!(opened, Err(Error::Busy(_))), "{opened:?}");
            refused.set(refused.get() + 1);
        }
    })
    .expect("restores");
    assert!(refused.get() > 0);
    let db = Db::open_on(disk.shared(), INTO, options(), None).expect("opens");
    db.family(b"t").expect("there");
}

#[test]
fn a_definition_that_was_made_meanwhile_stays() {
    let disk = FaultyDisk::new(1);
    backed_up(&disk);
    let definition = Path::new("/data/t.frm");
    let done = restored(&disk, &|| {
        if disk.exists(Path::new("/data/t.frm.part")).expect("exists") {
            write(&disk, definition, "another table");
        }
    });
    assert!(matches!(done, Err(Error::InvalidArgument(_))), "{done:?}");
    assert_eq!(disk.contents(definition).as_deref(), Some(&b"another table"[..]));
}

/// A backup of a store with one damaged block, one missing table or one damaged segment of the log fails. It
/// names the file of the store, and leaves nothing.
#[test]
fn a_backup_of_a_damaged_store_fails_and_names_the_file() {
    for (kind, links) in
        [("flip", false), ("flip", true), ("missing", false), ("missing", true), ("log", false)]
    {
        let disk = FaultyDisk::new(1);
        let db = open(&disk);
        fill(&db, 0);
        db.flush().expect("flushes");
        // More than what the log must prove: the rest of it may be a torn tail.
        (1..20).for_each(|part| fill(&db, part * 200));
        db.flush_log().expect("syncs");
        let suffix = if kind == "log" { ".wal" } else { ".sst" };
        let is_one = |path: &std::path::PathBuf| {
            let bytes = disk.contents(path).unwrap_or_default();
            let is_long = bytes.get(20_000..).is_some_and(|rest| rest.iter().any(|byte| *byte != 0));
            path.starts_with(STORE) && path.to_string_lossy().ends_with(suffix) && is_long
        };
        let file = disk.files().into_iter().find(is_one).expect("there is one");
        match kind {
            "missing" => disk.remove(&file).expect("unlinks"),
            _ => assert!(disk.flip_bit(&file, 20_000, 3)),
        }
        let named = match db.backup(Path::new(BACKUP), BackupOptions { links }, Watch::NONE) {
            Err(error) => error.to_string(),
            Ok(info) => panic!("{kind}: it succeeds: {info:?}"),
        };
        assert!(named.contains(file.to_str().expect("a name")), "{kind}: {named}");
        assert!(!disk.exists(Path::new(BACKUP)).expect("exists"), "{kind}: its remains are there");
    }
}

/// Takes a backup that leaves out damaged files.
fn without_damaged(db: &Db, links: bool) -> crate::error::Result<BackupInfo> {
    let mut backup = db.begin_backup(Path::new(BACKUP), BackupOptions { links })?;
    backup.leave_out_damaged();
    backup.take_point(Watch::NONE)?;
    backup.finish(Watch::NONE)
}

fn rows(db: &Db, name: &[u8]) -> crate::error::Result<usize> {
    let family = db.family(name)?;
    let mut txn = db.transaction();
    txn.begin(TransactionOptions::default())?;
    txn.statement_begin(false, Duration::from_secs(20))?;
    let found = (0..1000u32).map(|n| txn.get(&family, &n.to_be_bytes(), ReadMode::Snapshot));
    let found = found.collect::<crate::error::Result<Vec<_>>>()?;
    Ok(found.into_iter().flatten().count())
}

#[test]
fn a_damaged_table_is_left_out_on_request_and_the_others_are_restored() {
    for (kind, links) in [("flip", false), ("flip", true), ("missing", false), ("missing", true)] {
        let disk = FaultyDisk::new(1);
        let db = open(&disk);
        let mut files = Vec::new();
        for name in [&b"shop/t\0p"[..], b"shop/u\0p"] {
            let before = disk.files();
            fill_family(&db, name, 0, 0);
            db.flush().expect("flushes");
            let is_new = |path: &std::path::PathBuf| {
                let is_table = path.starts_with(STORE) && path.to_string_lossy().ends_with(".sst");
                let is_large = disk.contents(path).is_some_and(|bytes| bytes.len() > 20_000);
                is_table && is_large && !before.contains(path)
            };
            files.extend(disk.files().into_iter().filter(is_new));
        }
        assert_eq!(files.len(), 2, "a file for each table: {files:?}");
        match kind {
            "missing" => disk.remove(&files[0]).expect("unlinks"),
            _ => assert!(disk.flip_bit(&files[0], 10_000, 3)),
        }
        db.backup(Path::new(BACKUP), BackupOptions { links }, Watch::NONE)
            .expect_err("nobody asked to leave it out");
        let info = without_damaged(&db, links).expect("goes on");
        let name = files[0].file_name().and_then(|name| name.to_str()).expect("a name");
        let left_out: Vec<_> =
            info.left_out.iter().map(|left_out| (left_out.file.clone(), left_out.family.as_str())).collect();
        assert_eq!(left_out, [(format!("store/{name}"), "shop/t\0p")], "{kind}");
        let shared = disk.shared();
        assert_eq!(verify(&shared, Path::new(BACKUP), Watch::NONE).expect("verifies"), info);
        restore(&shared, Path::new(BACKUP), Path::new(INTO), None, Watch::NONE).expect("restores");
        let restored = Db::open_on(disk.shared(), INTO, options(), None).expect("opens");
        assert_eq!(rows(&restored, b"shop/u\0p").expect("reads"), 200, "{kind}");
        let sick = rows(&restored, b"shop/t\0p").expect_err("no row is missing silently").to_string();
        assert!(sick.contains(name), "{kind}: {sick}");
    }
}

/// Want of descriptors is no damage: the table would be missing in the backup for nothing.
#[test]
fn a_table_that_cannot_be_opened_now_is_not_left_out() {
    for links in [false, true] {
        let disk = FaultyDisk::new(1);
        let db = open(&disk);
        fill(&db, 0);
        db.flush().expect("flushes");
        db.close().expect("closes");
        // Nothing of the file is known.
        let db = open(&disk);
        let path = format!("{STORE}/");
        disk.fail(Fault { op: Some(Op::Open), path, skip: 0, times: u64::MAX, failure: Failure::Emfile });
        let error = without_damaged(&db, links).expect_err("it fails").to_string();
        assert!(error.contains("Too many open files"), "{links}: {error}");
        disk.heal();
        assert!(without_damaged(&db, links).expect("it is complete").left_out.is_empty());
    }
}

/// Files of an earlier backup are shared by content. After a restore another store has the same numbers.
#[test]
fn an_incremental_backup_shares_equal_files_and_stands_alone() {
    let disk = FaultyDisk::new(1);
    let db = open(&disk);
    fill(&db, 0);
    db.flush().expect("flushes");
    let take = |db: &Db, to: &str, base: Option<&str>| {
        let mut backup = db.begin_backup(Path::new(to), BackupOptions::default()).expect("begins");
        if let Some(base) = base {
            backup.set_base(Path::new(base)).expect("a base");
        }
        backup.take_point(Watch::NONE).expect("takes");
        backup.finish(Watch::NONE).expect("is complete")
    };
    assert_eq!(take(&db, BACKUP, None).shared_bytes, 0);
    // A restore takes a number for its recovery, as this backup does.
    take(&db, "/b1", None);
    fill_family(&db, b"u", 0, 1);
    db.flush().expect("flushes");
    let second = take(&db, "/b2", Some(BACKUP));
    let tables = second.files.iter().filter(|file| file.name.ends_with(".sst"));
    let all: u64 = tables.map(|file| file.len).sum();
    assert!(second.shared_bytes > 20_000 && second.shared_bytes + 20_000 < all, "{second:?}");
    let mut refused = db.begin_backup(Path::new("/b3"), BackupOptions::default()).expect("begins");
    assert!(matches!(refused.set_base(Path::new("/nowhere")), Err(Error::InvalidArgument(_))));
    drop(refused);
    db.close().expect("closes");

    // The first one restored goes on with other rows under the numbers of the second one's files.
    let shared = disk.shared();
    restore(&shared, Path::new(BACKUP), Path::new(INTO), None, Watch::NONE).expect("restores");
    let other = Db::open_on(disk.shared(), INTO, options(), None).expect("opens");
    fill_family(&other, b"u", 0, 2);
    other.flush().expect("flushes");
    let fourth = take(&other, "/b4", Some("/b2"));
    let same_name = |file: &&BackupFile| {
        let known = second.files.iter().find(|known| known.name == file.name);
        file.len > 20_000 && known.is_some_and(|known| known.len == file.len && known.crc != file.crc)
    };
    assert!(fourth.files.iter().any(|file| same_name(&file)), "{second:?} {fourth:?}");
    for path in disk.files().iter().filter(|path| path.starts_with(BACKUP) || path.starts_with("/b2")) {
        disk.remove(path).expect("unlinks");
    }
    verify(&shared, Path::new("/b4"), Watch::NONE).expect("it needs no other one");
    restore(&shared, Path::new("/b4"), Path::new("/into4"), None, Watch::NONE).expect("restores");
    let last = Db::open_on(disk.shared(), "/into4", options(), None).expect("opens");
    let family = last.family(b"u").expect("there");
    let mut txn = last.transaction();
    txn.begin(TransactionOptions::default()).expect("begins");
    txn.statement_begin(false, Duration::from_secs(20)).expect("statement");
    let row = txn.get(&family, &7u32.to_be_bytes(), ReadMode::Snapshot).expect("reads");
    assert_eq!(row.map(|row| row[0]), Some(7 ^ 2));
}

/// Damage in the base is not damage in the store, and does not go into the next backup.
#[test]
fn files_that_the_base_lost_are_copied() {
    for kind in ["missing", "flipped", "short"] {
        let disk = FaultyDisk::new(1);
        let db = open(&disk);
        fill(&db, 0);
        db.flush().expect("flushes");
        db.backup(Path::new(BACKUP), BackupOptions::default(), Watch::NONE).expect("the base");
        let is_large = |path: &std::path::PathBuf| {
            path.starts_with(BACKUP)
                && path.to_string_lossy().ends_with(".sst")
                && disk.contents(path).is_some_and(|bytes| bytes.len() > 20_000)
        };
        let hit: Vec<_> = disk.files().into_iter().filter(is_large).collect();
        assert!(!hit.is_empty());
        for path in &hit {
            match kind {
                "missing" => disk.remove(path).expect("unlinks"),
                "flipped" => assert!(disk.flip_bit(path, 10_000, 3)),
                _ => disk.open(path, OpenMode::ReadWrite).expect("opens").set_len(10_000).expect("cuts"),
            }
        }
        let mut backup = db.begin_backup(Path::new("/b2"), BackupOptions::default()).expect("begins");
        backup.set_base(Path::new(BACKUP)).expect("a base");
        backup.leave_out_damaged();
        backup.take_point(Watch::NONE).expect("takes");
        let info = backup.finish(Watch::NONE).expect("is complete");
        assert!(info.left_out.is_empty() && info.shared_bytes < 20_000, "{kind}: {info:?}");
        assert_eq!(verify(&disk.shared(), Path::new("/b2"), Watch::NONE).expect("verifies"), info, "{kind}");
    }
}

#[test]
fn a_rate_holds_a_copy_back_and_an_end_is_heard() {
    let directory = tempfile::tempdir().expect("directory");
    let db = Db::open_on(RealDisk::shared(), directory.path().join("store"), options(), None).expect("opens");
    (0..20).for_each(|part| fill(&db, part * 200));
    db.flush().expect("flushes");
    let take = |to: &str, rate, stop: &dyn Fn() -> bool| {
        let mut backup =
            db.begin_backup(&directory.path().join(to), BackupOptions::default()).expect("begins");
        backup.set_rate(rate);
        backup.take_point(Watch::NONE).expect("takes");
        let begun = std::time::Instant::now();
        let done = backup.finish(Watch { stop, progress: &|_, _| {} });
        (done, begun.elapsed())
    };
    let (done, took) = take("slow", 2 << 20, &|| false);
    let least = Duration::from_micros(done.expect("is complete").bytes() * 1_000_000 / (2 << 20) * 9 / 10);
    assert!(least > Duration::from_millis(100) && took >= least, "{took:?} of {least:?}");
    // At a byte a second it is the end that ends it.
    let asked = Cell::new(0);
    let (done, _) = take("ended", 1, &|| asked.replace(asked.get() + 1) > 10);
    assert!(matches!(done, Err(Error::Interrupted)), "{done:?}");
}

/// A sector of a table of a megabyte cannot be read: a repair leaves out the rows of the blocks in it, and no others.
#[test]
fn a_bad_sector_costs_a_repair_its_blocks_and_no_others() {
    const ROWS: u32 = 10_000;
    // In the first blocks, amid a long read, at the end of one, and in two adjacent blocks.
    for (first, last) in
        [(0, 511), (1_024, 1_535), (100_352, 100_863), (258_048, 262_143), (600_064, 604_672)]
    {
        let disk = FaultyDisk::new(1);
        let large = Options { write_buffer_size: 8 << 20, ..options() };
        let db = Db::open_on(disk.shared(), STORE, large, None).expect("opens");
        (0..ROWS / 200).for_each(|part| fill(&db, part * 200));
        db.flush().expect("flushes");
        db.close().expect("closes");
        let len = |path: &std::path::PathBuf| disk.contents(path).map_or(0, |bytes| bytes.len());
        let file = disk.files().into_iter().max_by_key(|path| match path.extension() {
            Some(suffix) if suffix == "sst" => len(path),
            _ => 0,
        });
        let file = file.expect("a table");
        let name = file.file_name().and_then(|name| name.to_str()).expect("a name");
        let number = TableStore::number_of(name).expect("a number");
        let shared = disk.shared();
        let tables = tables_of_file(&shared, Path::new(STORE), number).expect("reads");
        assert_eq!(tables.len(), 1, "one table in {name}");
        let meta = tables[0].1.clone();
        assert!(meta.len > 1 << 20 && meta.offset == 0, "{meta:?}");
        let table =
            SsTable::open(TableStore::new(disk.shared(), STORE, 4), BlockCache::new(1 << 20), number, meta);
        let mut blocks = Vec::new();
        table.each_block(&mut |block| {
            blocks.push(block.expect("is whole"));
            true
        });
        let is_bad = |block: &BlockFacts| block.offset <= last && block.offset + block.len > first;
        let bad = blocks.iter().filter(|block| is_bad(block)).count();
        // Each key has one version: the key is its rank.
        let mut ends = blocks.iter().skip(1).map(|block| block.before as u32).chain([ROWS]);
        let rows_of = |block: &BlockFacts| block.before as u32..ends.next().expect("an end");
        let of_bad = |block: &BlockFacts, rows: Range<u32>| if is_bad(block) { rows } else { 0..0 };
        let lost: Vec<u32> = blocks
            .iter()
            .zip(blocks.iter().map(rows_of))
            .flat_map(|(block, rows)| of_bad(block, rows))
            .collect();
        disk.spoil(file.to_str().expect("a name"), first..last + 1);
        let left_out =
            repair(&shared, Path::new(STORE), Path::new(INTO), Watch::NONE).expect("copies").damage;
        assert_eq!(left_out.len(), bad, "{first}: {left_out:?}");
        disk.heal();
        let db = Db::open_on(disk.shared(), INTO, options(), None).expect("opens");
        let family = db.family(b"t").expect("there");
        let mut txn = db.transaction();
        txn.begin(TransactionOptions::default()).expect("begins");
        txn.statement_begin(false, Duration::from_secs(20)).expect("statement");
        let is_missing =
            |n: &u32| txn.get(&family, &n.to_be_bytes(), ReadMode::Snapshot).expect("reads").is_none();
        let missing: Vec<u32> = (0..ROWS).filter(is_missing).collect();
        assert_eq!(missing, lost, "{first}");
        assert!(!lost.is_empty() && lost.len() < 150, "{first}: {} rows", lost.len());
    }
}
