//! The cluster's position: with its commit or not at all, through flushes, released logs, closes, crashes, backups and
//! repairs. `crash.rs` and the simulation look for it after every crash.

mod sim;

use std::path::Path;

use sim::{begin, open, DIR};
use tidesdb::internal::backup::{repair, restore, verify, BackupOptions, Watch};
use tidesdb::internal::db::Db;
use tidesdb::internal::format::{ClusterPosition, Gtid};
use tidesdb::internal::io::faulty::Crash;
use tidesdb::internal::io::FaultyDisk;
use tidesdb::internal::txn::transaction::Transaction;
use tidesdb::{Error, FormatVersion, Options, SyncMode};

fn options() -> Options {
    Options { compaction_threads: 0, least_format: FormatVersion::Two, ..sim::tiny(SyncMode::Full) }
}

fn at(number: i64) -> ClusterPosition {
    ClusterPosition { uuid: *b"a cluster's uuid", number, gtid: None }
}

fn with_gtid(number: i64) -> ClusterPosition {
    ClusterPosition { gtid: Some(Gtid { domain: 1, server: 2, number: 3 }), ..at(number) }
}

fn made(disk: &FaultyDisk) -> Db {
    let db = open(disk, &options()).expect("opens");
    db.create_family(b"t", sim::tiny_family()).expect("creates");
    db
}

fn again(disk: &FaultyDisk) -> Db {
    open(disk, &options()).expect("opens")
}

fn with_row(db: &Db, key: u8, len: usize) -> Transaction {
    let mut txn = begin(db);
    txn.put(&db.family(b"t").expect("there"), &[key], &vec![key; len]).expect("puts");
    txn
}

fn commit_at(db: &Db, key: u8, position: ClusterPosition) {
    let mut txn = with_row(db, key, 10);
    txn.set_position(Some(&position)).expect("takes it");
    txn.commit().expect("commits");
}

fn commit(db: &Db, key: u8) {
    with_row(db, key, 10).commit().expect("commits");
}

/// A crash now leaves this position, and so does a close after it.
fn opens_at(disk: &FaultyDisk, crash: Crash, expected: Option<ClusterPosition>) {
    let disk = disk.crash(crash);
    for _ in 0..2 {
        let db = again(&disk);
        assert_eq!(db.position(), expected, "after {crash:?}");
        db.close().expect("closes");
    }
}

#[test]
fn the_newest_commit_counts_and_not_the_highest_number() {
    let disk = FaultyDisk::new(1);
    let db = made(&disk);
    assert_eq!(db.position(), None);
    for position in [at(7), with_gtid(9), at(3), ClusterPosition { uuid: [0; 16], number: -1, gtid: None }] {
        commit_at(&db, 1, position);
        assert_eq!(db.position(), Some(position));
        commit(&db, 2);
        assert_eq!(db.position(), Some(position), "a commit without one changes nothing");
        opens_at(&disk, Crash::Drop, Some(position));
    }
    for number in [50, 40] {
        db.set_position(&at(number)).expect("sets it");
        assert_eq!(db.position(), Some(at(number)));
        opens_at(&disk, Crash::Drop, Some(at(number)));
    }
}

#[test]
fn it_outlives_the_log_in_the_manifest() {
    for (crash, is_set) in [(Crash::Kill, false), (Crash::Drop, true), (Crash::Drop, false)] {
        let disk = FaultyDisk::new(1);
        let db = made(&disk);
        // Nothing is left in memory: a position alone leaves it so.
        db.flush().expect("flushes");
        let position = with_gtid(5);
        match is_set {
            true => db.set_position(&position).expect("sets it"),
            false => commit_at(&db, 1, position),
        }
        db.flush().expect("flushes");
        assert_eq!(state(&disk.crash(crash)).0, Some(position), "in the manifest: {is_set}");
        // The log goes on until its first segments are used again.
        let first = segment(&db);
        for n in 0..2000u32 {
            with_row(&db, n as u8, 200).commit().expect("commits");
            if n % 100 == 0 {
                db.flush().expect("flushes");
            }
        }
        assert!(segment(&db) > first + 3);
        assert_eq!(db.position(), Some(position));
        opens_at(&disk, crash, Some(position));
    }
}

/// They leave nothing in memory that a flush would take, and the log with them.
#[test]
fn positions_alone_do_not_keep_the_log() {
    let disk = FaultyDisk::new(1);
    let db = made(&disk);
    for number in 0..20_000 {
        db.set_position(&at(number)).expect("sets it");
    }
    assert!(segment(&db) > 10);
    db.flush().expect("flushes");
    let of_log = |path: &std::path::PathBuf| path.extension().is_some_and(|end| end == "wal");
    let kept = disk.files().iter().filter(|path| of_log(path)).count();
    assert!(kept < 8, "{kept} segments are kept");
    opens_at(&disk, Crash::Drop, Some(at(19_999)));
}

fn segment(db: &Db) -> u32 {
    db.stats().wal_segment as u32
}

/// The manifest's position, and whether a log is needed.
fn state(disk: &FaultyDisk) -> (Option<ClusterPosition>, bool) {
    use std::sync::Arc;
    use tidesdb::internal::cache::BlockCache;
    use tidesdb::internal::io::Disk;
    use tidesdb::internal::table::TableStore;
    use tidesdb::internal::version::{OpenFor, VersionSet};
    let shared: Arc<dyn Disk> = disk.shared();
    let (dir, cache) = (Path::new(DIR), BlockCache::new(0));
    let tables = TableStore::new(shared.clone(), dir, 8);
    let state = VersionSet::open(shared, dir, tables, cache, OpenFor::Read).expect("reads").state();
    (state.position, !state.log_segments.is_empty())
}

#[test]
fn a_clean_close_lets_the_log_go_and_keeps_the_position() {
    for is_set in [true, false] {
        let disk = FaultyDisk::new(1);
        let db = Db::open_on(disk.shared(), DIR, Options { flush_on_close: true, ..options() }, None)
            .expect("opens");
        db.create_family(b"t", sim::tiny_family()).expect("creates");
        commit_at(&db, 1, at(8));
        if is_set {
            db.flush().expect("flushes");
            db.set_position(&at(4)).expect("sets it");
        }
        db.close().expect("closes");
        let expected = Some(if is_set { at(4) } else { at(8) });
        assert_eq!(state(&disk), (expected, false));
        for path in disk.files().iter().filter(|path| path.extension().is_some_and(|end| end == "wal")) {
            use tidesdb::internal::io::Disk;
            disk.remove(path).expect("removes");
        }
        assert_eq!(again(&disk).position(), expected);
    }
}

/// An opening flushes what it has replayed: the old log is gone, and the memtable of a position alone is empty.
#[test]
fn an_opening_takes_it_over_from_the_log() {
    let disk = FaultyDisk::new(1);
    let db = made(&disk);
    commit_at(&db, 1, at(1));
    db.flush().expect("flushes");
    db.set_position(&at(2)).expect("sets it");
    let disk = disk.crash(Crash::Drop);
    assert_eq!(state(&disk).0, Some(at(1)));
    let db = again(&disk);
    assert_eq!((db.position(), state(&disk).0), (Some(at(2)), Some(at(2))));
    drop(db);
    opens_at(&disk, Crash::Drop, Some(at(2)));
}

/// The log may still have records that are older than the manifest's.
#[test]
fn a_record_of_a_flushed_commit_does_not_set_it_back() {
    let disk = FaultyDisk::new(1);
    let db = made(&disk);
    // Its segment stays: the prepared transaction is in it.
    let mut undecided = with_row(&db, 9, 10);
    undecided.prepare_xa(b"xid").expect("prepares");
    commit_at(&db, 1, at(1));
    commit_at(&db, 2, at(2));
    db.flush().expect("flushes");
    commit(&db, 3);
    opens_at(&disk, Crash::Drop, Some(at(2)));
}

#[test]
fn it_comes_with_every_form_of_commit() {
    let disk = FaultyDisk::new(1);
    let db = made(&disk);
    // In two phases, set after the prepare.
    let mut txn = with_row(&db, 1, 10);
    txn.prepare(Some(b"two")).expect("prepares");
    txn.set_position(Some(&at(1))).expect("takes it");
    assert_eq!(db.position(), None, "it is not ordered");
    opens_at(&disk, Crash::Drop, None);
    txn.order();
    assert_eq!(db.position(), Some(at(1)));
    txn.finish(false).expect("finishes");
    opens_at(&disk, Crash::Drop, Some(at(1)));
    // XA: before and after the resume.
    for number in [2, 3] {
        let mut txn = with_row(&db, 2, 10);
        txn.prepare_xa(b"xa").expect("prepares");
        if number == 2 {
            txn.set_position(Some(&at(2))).expect("takes it");
        }
        txn.resume().expect("resumes");
        if number == 3 {
            txn.set_position(Some(&at(3))).expect("takes it");
        }
        txn.finish(false).expect("finishes");
        opens_at(&disk, Crash::Drop, Some(at(number)));
    }
    // Larger than memory: runs. The memtable before them has the position before.
    let mut txn = begin(&db);
    let family = db.family(b"t").expect("there");
    for n in 0..200u32 {
        txn.put(&family, &n.to_be_bytes(), &[7; 100]).expect("puts");
    }
    txn.set_position(Some(&with_gtid(4))).expect("takes it");
    txn.commit().expect("commits");
    assert!(db.stats().spilled_runs > 0);
    opens_at(&disk, Crash::Drop, Some(with_gtid(4)));
    db.flush().expect("flushes");
    opens_at(&disk, Crash::Drop, Some(with_gtid(4)));
    // Without changes.
    let mut txn = begin(&db);
    txn.set_position(Some(&at(5))).expect("takes it");
    txn.commit().expect("commits");
    opens_at(&disk, Crash::Drop, Some(at(5)));
}

/// A batch of more than a megabyte is in the log before its marker.
#[test]
fn a_large_commit_has_it_in_its_marker() {
    let options = Options {
        compaction_threads: 0,
        least_format: FormatVersion::Two,
        write_buffer_size: 64 << 20,
        ..sim::normal(SyncMode::Full)
    };
    let disk = FaultyDisk::new(1);
    let db = open(&disk, &options).expect("opens");
    db.create_family(b"t", sim::tiny_family()).expect("creates");
    let mut txn = with_row(&db, 1, 3 << 20);
    txn.set_position(Some(&with_gtid(i64::MAX))).expect("takes it");
    txn.prepare(None).expect("prepares");
    let before = disk.crash(Crash::Kill);
    txn.finish(false).expect("finishes");
    let after = disk.crash(Crash::Drop);
    drop((txn, db));
    assert_eq!(open(&before, &options).expect("opens").position(), None);
    assert_eq!(open(&after, &options).expect("opens").position(), Some(with_gtid(i64::MAX)));
}

#[test]
fn a_transaction_forgets_it_at_its_end() {
    let disk = FaultyDisk::new(1);
    let db = made(&disk);
    let mut txn = with_row(&db, 1, 10);
    txn.set_position(Some(&at(1))).expect("takes it");
    txn.rollback().expect("rolls back");
    txn.begin(tidesdb::TransactionOptions::default()).expect("begins");
    txn.put(&db.family(b"t").expect("there"), b"k", b"v").expect("puts");
    txn.commit().expect("commits");
    assert_eq!(db.position(), None);
    let mut txn = with_row(&db, 1, 10);
    txn.set_position(Some(&at(2))).expect("takes it");
    txn.set_position(None).expect("takes it back");
    txn.commit().expect("commits");
    assert_eq!(db.position(), None);
    // Prepared, and decided by somebody who does not know it.
    let mut txn = with_row(&db, 1, 10);
    txn.prepare_xa(b"xid").expect("prepares");
    txn.set_position(Some(&at(3))).expect("takes it");
    drop(txn);
    assert!(db.commit_by_xid(b"xid").expect("commits"));
    assert_eq!(db.position(), None);
}

#[test]
fn it_is_refused_where_no_commit_could_have_it() {
    let disk = FaultyDisk::new(1);
    let db = made(&disk);
    let refused = |txn: &mut Transaction, what: &str| match txn.set_position(Some(&at(1))) {
        Err(Error::InvalidArgument(why)) => assert!(why.contains(what), "{why}"),
        other => panic!("{other:?}"),
    };
    refused(&mut db.transaction(), "not begun");
    let mut txn = begin(&db);
    txn.prepare(None).expect("prepares");
    refused(&mut txn, "without changes");
    let mut txn = with_row(&db, 1, 10);
    txn.prepare(None).expect("prepares");
    txn.order();
    refused(&mut txn, "its place");
    txn.finish(false).expect("finishes");
    assert_eq!(db.position(), None);
}

#[test]
fn a_store_of_version_1_refuses_it() {
    let disk = FaultyDisk::new(1);
    let db = open(&disk, &Options { least_format: FormatVersion::One, ..options() }).expect("opens");
    db.create_family(b"t", sim::tiny_family()).expect("creates");
    let mut txn = with_row(&db, 1, 10);
    for refused in [txn.set_position(Some(&at(1))), db.set_position(&at(1))] {
        match refused {
            Err(Error::InvalidArgument(why)) => {
                assert!(why.contains("version 2") && why.contains(DIR), "{why}");
            }
            other => panic!("{other:?}"),
        }
    }
    txn.commit().expect("commits");
    assert_eq!(db.position(), None);
    drop((txn, db));
    let db = again(&disk);
    db.set_position(&at(1)).expect("it has moved to version 2");
}

#[test]
fn a_backup_has_that_of_its_last_commit() {
    let disk = FaultyDisk::new(1);
    let db = made(&disk);
    let is_flushed = |n: i64| n == 2;
    for n in 1..4 {
        commit_at(&db, n as u8, at(10 - n));
        if is_flushed(n) {
            db.flush().expect("flushes");
        }
        let to = format!("/backup{n}");
        let links = BackupOptions { links: n == 1 };
        db.backup(Path::new(&to), links, Watch::NONE).expect("a backup");
    }
    db.set_position(&at(50)).expect("sets it");
    drop(db);
    for n in 1..4 {
        let (from, to) = (format!("/backup{n}"), format!("/restored{n}"));
        let shared = disk.shared();
        verify(&shared, Path::new(&from), Watch::NONE).expect("verifies");
        restore(&shared, Path::new(&from), Path::new(&to), None, Watch::NONE).expect("restores");
        let db = Db::open_on(disk.shared(), &to, options(), None).expect("opens");
        assert_eq!(db.position(), Some(at(10 - n)), "backup {n}");
    }
}

/// A store that may miss commits of the cluster must not say that it has them.
#[test]
fn a_repair_that_lost_something_has_an_undefined_one() {
    for is_damaged in [false, true] {
        let disk = FaultyDisk::new(1);
        let db = made(&disk);
        (0..200).for_each(|n| commit_at(&db, n, at(i64::from(n))));
        db.flush().expect("flushes");
        commit_at(&db, 201, at(500));
        let disk = disk.crash(Crash::Drop);
        drop(db);
        if is_damaged {
            let tables: Vec<_> = disk
                .files()
                .into_iter()
                .filter(|path| path.extension().is_some_and(|end| end == "sst"))
                .collect();
            // The row of key 100, in whichever file it is.
            let row = [100u8; 10];
            let hit = tables.iter().find_map(|path| {
                let bytes = disk.contents(path)?;
                let at = bytes.windows(row.len()).position(|part| part == row)?;
                Some((path.clone(), at))
            });
            let (path, at) = hit.expect("a table has it");
            assert!(disk.flip_bit(&path, at as u64, 1));
        }
        let check = repair(&disk.shared(), Path::new(DIR), Path::new("/copy"), Watch::NONE).expect("repairs");
        assert_eq!(!check.damage.is_empty(), is_damaged, "{:?}", check.damage);
        let told = check.damage.iter().any(|what| what.contains("cluster's position"));
        assert_eq!(told, is_damaged, "{:?}", check.damage);
        let db = Db::open_on(disk.shared(), "/copy", options(), None).expect("opens");
        assert_eq!(db.position(), Some(at(if is_damaged { -1 } else { 500 })));
        db.set_position(&at(600)).expect("sets it");
        drop(db);
        let disk = disk.crash(Crash::Drop);
        let db = Db::open_on(disk.shared(), "/copy", options(), None).expect("opens");
        assert_eq!(db.position(), Some(at(600)), "that of a commit after the repair counts");
    }
}

/// No file can grow from now on.
fn fill(disk: &FaultyDisk) {
    let used =
        disk.files().iter().map(|path| disk.contents(path).map_or(0, |bytes| bytes.len() as u64)).sum();
    disk.set_capacity(Some(used));
}

#[test]
fn an_opening_on_a_full_disk_keeps_it_in_the_log() {
    for (runs, crash) in
        [(false, Crash::Kill), (true, Crash::Drop), (false, Crash::Drop), (true, Crash::Kill)]
    {
        let disk = FaultyDisk::new(1);
        let db = made(&disk);
        commit_at(&db, 1, at(9));
        db.flush().expect("flushes");
        commit_at(&db, 2, at(8));
        if runs {
            let mut txn = begin(&db);
            let family = db.family(b"t").expect("there");
            for n in 0..200u32 {
                txn.put(&family, &n.to_be_bytes(), &[7; 100]).expect("puts");
            }
            txn.set_position(Some(&at(7))).expect("takes it");
            txn.commit().expect("commits");
        }
        db.set_position(&at(6)).expect("sets it");
        let disk = disk.crash(Crash::Kill);
        drop(db);
        fill(&disk);
        for _ in 0..2 {
            let db = again(&disk);
            assert_eq!(db.position(), Some(at(6)), "runs: {runs}");
            drop(db);
        }
        let db = again(&disk);
        disk.set_capacity(None);
        db.flush().expect("flushes");
        assert_eq!(state(&disk.crash(Crash::Kill)).0, Some(at(6)));
        for n in 0..500u32 {
            commit(&db, n as u8);
            if n % 100 == 0 {
                db.flush().expect("flushes");
            }
        }
        assert_eq!(db.position(), Some(at(6)));
        assert_eq!(state(&disk.crash(Crash::Kill)).0, Some(at(6)));
        opens_at(&disk, crash, Some(at(6)));
    }
}

/// Row n is committed with position n; one thread reads what survives each moment.
#[test]
fn it_never_names_a_commit_whose_changes_are_lost() {
    for seed in sim::seeds("POSITION", 40) {
        let mut rng = sim::Rng(seed);
        let mode = *rng.pick(&[SyncMode::None, SyncMode::Interval, SyncMode::Full]);
        let options = Options {
            compaction_threads: 0,
            least_format: FormatVersion::Two,
            write_buffer_size: 4 << 10,
            ..sim::tiny(mode)
        };
        let mut disk = FaultyDisk::new(seed);
        let mut next = 1i64;
        for life in 0..4 {
            let db = open(&disk, &options).expect("opens");
            if db.family(b"t").is_err() {
                db.create_family(b"t", sim::tiny_family()).expect("creates");
            }
            let family = db.family(b"t").expect("there");
            let keys: Vec<i64> = sim::rows(&db, &family)
                .expect("reads")
                .iter()
                .map(|(key, _)| i64::from_be_bytes(key[..8].try_into().expect("eight bytes")))
                .collect();
            let position = db.position().map_or(0, |position| position.number);
            let expected: Vec<i64> = (1..=position).collect();
            assert_eq!(keys, expected, "POSITION_SEED={seed}, life {life}");
            assert!(position < next, "POSITION_SEED={seed}");
            next = position + 1;
            let answered = next + rng.below(200) as i64;
            while next <= answered {
                let mut txn = begin(&db);
                let len = if rng.one_in(20) { 3000 } else { 20 };
                txn.put(&family, &next.to_be_bytes(), &vec![1; len]).expect("puts");
                let two_phase = rng.one_in(4);
                if two_phase {
                    txn.prepare(Some(b"xid")).expect("prepares");
                }
                txn.set_position(Some(&at(next))).expect("takes it");
                txn.commit().expect("commits");
                next += 1;
                if rng.one_in(60) {
                    db.flush().expect("flushes");
                }
            }
            let crash = *rng.pick(&Crash::ALL);
            let found = disk.crash(crash);
            disk.crash_at(0);
            drop((family, db));
            if crash == Crash::Kill || mode == SyncMode::Full {
                let db = open(&found.crash(Crash::Kill), &options).expect("opens");
                let position = db.position().map_or(0, |position| position.number);
                assert_eq!(position, next - 1, "POSITION_SEED={seed}: it was answered, {crash:?}");
            }
            // Those prepared and undecided would hold their keys.
            disk = found;
            let db = open(&disk, &options).expect("opens");
            db.prepared().iter().for_each(|xid| assert!(db.rollback_by_xid(xid).expect("rolls back")));
        }
    }
}
