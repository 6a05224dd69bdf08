//! Backups under writers, on a real disk: each is restored and compared with the model at its moment.
//!
//! Writers number their transactions through one locked row, so the commit order is known: a restored store
//! must hold exactly a prefix. Alongside run writers without shared rows (each has its own order),
//! transactions larger than memory, prepared ones, flushes, merges and definitions.
//!
//! `BACKUP_ROUNDS` is the number of backups, `BACKUP_SEED` seeds the threads.

mod sim;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sim::{begin_as, env, Rng};
use tidesdb::internal::backup::{restore, restore_part, verify, BackupOptions, Part, Watch};
use tidesdb::internal::db::Db;
use tidesdb::internal::io::RealDisk;
use tidesdb::internal::store::family::Family;
use tidesdb::internal::txn::transaction::{ReadMode, Transaction};
use tidesdb::{Isolation, Options, SyncMode, TransactionOptions};

const NUMBERED: usize = 3;
const ALONE: usize = 2;
/// One in so many numbered transactions is larger than memory.
const LARGE_EVERY: u64 = 29;

fn options() -> Options {
    Options {
        write_buffer_size: 128 << 10,
        block_cache_size: 64 << 10,
        wal_segment_size: 128 << 10,
        target_file_size: 32 << 10,
        base_level_size: 64 << 10,
        sync_mode: SyncMode::None,
        ..Options::default()
    }
}

/// The work of a thread, repeated.
type Work<'a> = Box<dyn Fn(&mut Rng) + Send + Sync + 'a>;

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// The changes of numbered transaction `n` to the rows: a function of `n` alone.
fn changes(n: u64) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
    let mut rng = Rng(n);
    let (count, len) = if n % LARGE_EVERY == 0 { (150, 900) } else { (1 + rng.below(4), 60) };
    let mut out = Vec::new();
    for _ in 0..count {
        let key = format!("row{:04}", rng.below(600)).into_bytes();
        let value = (!rng.one_in(5)).then(|| rng.next().to_le_bytes().repeat(len / 8));
        out.push((key, value));
    }
    out
}

fn model(upto: u64) -> Rows {
    let mut rows = Rows::new();
    for n in 1..=upto {
        for (key, value) in changes(n) {
            match value {
                Some(value) => rows.insert(key, value),
                None => rows.remove(&key),
            };
        }
    }
    rows
}

fn begin(db: &Db) -> Transaction {
    let mut txn = begin_as(
        db,
        TransactionOptions { isolation: Isolation::ReadCommitted, ..TransactionOptions::default() },
    );
    txn.set_lock_timeout(Some(Duration::from_secs(30)));
    txn.statement_begin(true, Duration::from_secs(30)).expect("statement");
    txn
}

fn number(value: Option<Vec<u8>>) -> u64 {
    value.map_or(0, |value| u64::from_le_bytes(value[..8].try_into().expect("8 bytes")))
}

/// The answered events: lower bounds for the content of a later backup.
#[derive(Default)]
struct Answered {
    numbered: AtomicU64,
    alone: [AtomicU64; ALONE],
    decided: AtomicU64,
}

struct Families {
    order: Arc<Family>,
    rows: Arc<Family>,
    alone: Arc<Family>,
    prepared: Arc<Family>,
}

impl Families {
    fn of(db: &Db) -> Families {
        let family = |name: &str| db.family(name.as_bytes()).expect("there");
        Families {
            order: family("order"),
            rows: family("rows"),
            alone: family("alone"),
            prepared: family("prepared"),
        }
    }
}

fn numbered(db: &Db, families: &Families, answered: &Answered) {
    let mut txn = begin(db);
    let n = number(txn.get(&families.order, b"n", ReadMode::Exclusive).expect("locks")) + 1;
    txn.put(&families.order, b"n", &n.to_le_bytes()).expect("puts");
    for (key, value) in changes(n) {
        match value {
            Some(value) => txn.put(&families.rows, &key, &value).expect("puts"),
            None => txn.delete(&families.rows, &key).expect("deletes"),
        }
    }
    txn.commit().expect("commits");
    answered.numbered.fetch_max(n, SeqCst);
}

fn alone(db: &Db, families: &Families, answered: &Answered, who: usize) {
    let n = answered.alone[who].load(SeqCst) + 1;
    let mut txn = begin(db);
    for part in 0..3u8 {
        txn.put(&families.alone, &[who as u8, part], &n.to_le_bytes()).expect("puts");
    }
    txn.commit().expect("commits");
    answered.alone[who].store(n, SeqCst);
}

/// Prepares, waits a little, decides: even ones are committed.
fn in_two_phases(db: &Db, families: &Families, answered: &Answered, rng: &mut Rng) {
    let n = answered.decided.load(SeqCst) + 1;
    let mut txn = begin(db);
    let large = n % 5 == 0;
    for part in 0..if large { 120u32 } else { 2 } {
        let key = [n.to_be_bytes().as_slice(), &part.to_be_bytes()].concat();
        txn.put(&families.prepared, &key, &[7; 900]).expect("puts");
    }
    txn.prepare(Some(format!("x{n}").as_bytes())).expect("prepares");
    std::thread::sleep(Duration::from_millis(rng.below(30)));
    match n % 2 {
        0 => txn.commit().expect("commits"),
        _ => txn.rollback().expect("rolls back"),
    }
    answered.decided.store(n, SeqCst);
}

fn upkeep(db: &Db, families: &Families, rng: &mut Rng) {
    match rng.below(5) {
        0 => db.flush().expect("flushes"),
        1 => db.compact(&families.rows).expect("compacts"),
        2 => drop(db.create_family(b"passing", sim::tiny_family())),
        3 => {
            let mut ddl = db.ddl().expect("begins");
            if ddl.drop_family(b"passing").is_ok() {
                ddl.commit().expect("drops");
            }
        }
        _ => {}
    }
    std::thread::sleep(Duration::from_millis(rng.below(40)));
}

/// Bounds of a backup's content: answered before its begin, and begun before its point.
struct Bounds {
    numbered: (u64, u64),
    alone: [(u64, u64); ALONE],
    decided: (u64, u64),
}

fn check(home: &Path, bounds: &Bounds) -> u64 {
    let db = Db::open(home, options()).expect("the restored store opens");
    let families = Families::of(&db);
    let mut txn = begin(&db);
    let mut get =
        |family: &Arc<Family>, key: &[u8]| number(txn.get(family, key, ReadMode::Snapshot).expect("reads"));
    let n = get(&families.order, b"n");
    assert!((bounds.numbered.0..=bounds.numbered.1).contains(&n), "{n} of {:?}", bounds.numbered);
    for (who, (least, most)) in bounds.alone.into_iter().enumerate() {
        let parts: Vec<u64> = (0..3).map(|part| get(&families.alone, &[who as u8, part])).collect();
        assert!(parts.iter().all(|part| *part == parts[0]), "a transaction by half: {parts:?}");
        assert!((least..=most).contains(&parts[0]), "{} of {least}..={most}", parts[0]);
    }
    drop(txn);
    let rows: Rows = sim::rows(&db, &families.rows).expect("reads").into_iter().collect();
    let expected = model(n);
    assert!(rows == expected, "the rows of {n} transactions: {} of {}", rows.len(), expected.len());

    // Of the prepared ones the newest may wait for its decision; those before have theirs.
    let waiting = db.prepared();
    assert!(waiting.len() <= 1, "{waiting:?}");
    for xid in &waiting {
        let xid: u64 = String::from_utf8_lossy(&xid[1..]).parse().expect("a number");
        assert!(xid > bounds.decided.0 && xid <= bounds.decided.1, "{xid} of {:?}", bounds.decided);
    }
    for xid in waiting {
        assert!(db.commit_by_xid(&xid).expect("commits"));
    }
    let mut whole: BTreeMap<u64, u32> = BTreeMap::new();
    for (key, _) in sim::rows(&db, &families.prepared).expect("reads") {
        *whole.entry(u64::from_be_bytes(key[..8].try_into().expect("8 bytes"))).or_default() += 1;
    }
    for (n, parts) in &whole {
        assert_eq!(*parts, if n % 5 == 0 { 120 } else { 2 }, "transaction {n} is whole");
    }
    for n in (2..=bounds.decided.0).step_by(2) {
        assert!(whole.contains_key(&n), "{n} was committed before");
    }
    for name in db.family_names(b"") {
        db.verify(&db.family(&name).expect("there")).expect("verifies");
    }
    db.close().expect("closes");
    n
}

#[test]
fn under_writers_each_backup_restores_to_its_moment() {
    let directory = tempfile::tempdir().expect("directory");
    let at = |name: String| directory.path().join(name);
    let db = Db::open(at("store".into()), options()).expect("opens");
    for name in ["order", "rows", "alone", "prepared"] {
        db.create_family(name.as_bytes(), sim::tiny_family()).expect("creates");
    }
    let families = Families::of(&db);
    let (answered, stop) = (Answered::default(), AtomicBool::new(false));
    let seed = env("BACKUP_SEED", 1);
    println!("BACKUP_SEED={seed}");
    let mut taken = Vec::new();
    std::thread::scope(|scope| {
        let mut works: Vec<Work<'_>> = Vec::new();
        let (db, families, answered, stop) = (&db, &families, &answered, &stop);
        for _ in 0..NUMBERED {
            works.push(Box::new(|_: &mut Rng| numbered(db, families, answered)));
        }
        for who in 0..ALONE {
            works.push(Box::new(move |_: &mut Rng| alone(db, families, answered, who)));
        }
        works.push(Box::new(|rng: &mut Rng| in_two_phases(db, families, answered, rng)));
        works.push(Box::new(|rng: &mut Rng| upkeep(db, families, rng)));
        for (ordinal, work) in works.into_iter().enumerate() {
            let mut rng = Rng(seed * 100 + ordinal as u64);
            scope.spawn(move || {
                let _stop = StopOnPanic(stop);
                while !stop.load(SeqCst) {
                    work(&mut rng);
                }
            });
        }
        let _stop = StopOnPanic(stop);
        let mut rng = Rng(seed);
        for round in 0..env("BACKUP_ROUNDS", 8) {
            std::thread::sleep(Duration::from_millis(20 + rng.below(60)));
            let to = at(format!("backup{round}"));
            let load = |count: &AtomicU64| count.load(SeqCst);
            let least = (
                load(&answered.numbered),
                [0, 1].map(|who| load(&answered.alone[who])),
                load(&answered.decided),
            );
            let mut backup = db.begin_backup(&to, BackupOptions { links: round % 2 == 1 }).expect("begins");
            let begun = Instant::now();
            backup.take_point(Watch::NONE).expect("a point");
            let held = begun.elapsed();
            // One more may be in that was not answered yet.
            let bounds = Bounds {
                numbered: (least.0, load(&answered.numbered) + NUMBERED as u64),
                alone: [0, 1].map(|who| (least.1[who], load(&answered.alone[who]) + 1)),
                decided: (least.2, load(&answered.decided) + 1),
            };
            let info = backup.finish(Watch::NONE).expect("a backup");
            println!("{round}: {} files, {} bytes, moment {held:?}", info.files.len(), info.bytes());
            taken.push((to, bounds));
        }
        stop.store(true, SeqCst);
    });
    let stats = db.stats();
    assert!(stats.flush_count > 3 && stats.spilled_runs > 3, "{stats:?}");
    drop(families);
    db.close().expect("closes");
    let disk = RealDisk::shared();
    let mut before = 0;
    for (round, (from, bounds)) in taken.iter().enumerate() {
        verify(&disk, from, Watch::NONE).expect("verifies");
        let home = at(format!("restored{round}"));
        restore(&disk, from, &home, None, Watch::NONE).expect("restores");
        let n = check(&home, bounds);
        println!("{round}: {n} numbered transactions");
        assert!(n >= before, "moments follow each other");
        before = n;
        // What was restored and went on has left the backup as it was.
        verify(&disk, from, Watch::NONE).expect("verifies again");
    }
    assert!(before > 100, "{before} numbered transactions");
}

struct StopOnPanic<'a>(&'a AtomicBool);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, SeqCst);
        }
    }
}

#[test]
fn owners_files_and_notes_come_back_and_lead_nowhere_else() {
    let directory = tempfile::tempdir().expect("directory");
    let at = |name: &str| directory.path().join(name);
    let write = |path: &Path, text: &str| std::fs::write(path, text).expect("writes");
    let db = Db::open(at("store"), options()).expect("opens");
    let data = at("data");
    std::fs::create_dir_all(data.join("shop")).expect("makes");
    write(&data.join("shop/t.frm"), "definition");
    write(&data.join("shop/db.opt"), "utf8mb4");

    let mut backup = db.begin_backup(&at("backup"), BackupOptions { links: true }).expect("begins");
    backup.take_point(Watch::NONE).expect("a point");
    backup.add_file(&data.join("shop/t.frm"), "shop/t.frm").expect("adds");
    backup.add_file(&data.join("shop/db.opt"), "shop/db.opt").expect("adds");
    backup.note("position", "log.000007 4711").expect("notes");
    assert!(backup.add_file(&data.join("shop/t.frm"), "shop/t.frm").is_err(), "twice");
    assert!(backup.add_file(&data.join("shop/t.frm"), "../t.frm").is_err(), "outside");
    backup.finish(Watch::NONE).expect("finishes");

    let disk = RealDisk::shared();
    let into = |store: &str, data: Option<&str>| {
        let data = data.map(at);
        restore(&disk, &at("backup"), &at(store), data.as_deref(), Watch::NONE)
    };
    assert!(into("r1", None).is_err(), "nowhere for the owner's files");
    assert!(into("r1", Some("nowhere")).is_err(), "a directory that is not there");
    std::fs::create_dir_all(at("new/shop")).expect("makes");
    write(&at("new/shop/t.frm"), "another");
    let refused = into("r1", Some("new")).expect_err("another definition").to_string();
    assert!(refused.contains("shop/t.frm") && !at("r1").exists(), "{refused}");
    // With a store that is in use too: both are named at once.
    let refused = into("store", Some("new")).expect_err("a store in use").to_string();
    assert!(refused.contains("is not empty") && refused.contains("shop/t.frm"), "{refused}");
    std::fs::remove_file(at("new/shop/t.frm")).expect("removes");
    write(&at("new/shop/db.opt"), "latin1");
    let info = into("r1", Some("new")).expect("restores");
    assert_eq!(info.find_note("position"), Some("log.000007 4711"));
    let read = |name: &str| std::fs::read_to_string(at(name)).expect("reads");
    assert_eq!((read("new/shop/t.frm"), read("new/shop/db.opt")), ("definition".into(), "latin1".into()));
    assert!(read("new/tidesdb_restored").contains("backup"));
    Db::open(at("r1"), options()).expect("opens").close().expect("closes");

    // A link to the store's directory is the store's directory.
    std::os::unix::fs::symlink(at("store"), at("alias")).expect("links");
    assert!(db.backup(&at("alias/inside"), BackupOptions::default(), Watch::NONE).is_err());
}

/// An interrupted restore leaves no half of an owner's file. The store is removed, as the message asks, and
/// the next restore succeeds.
#[test]
fn an_interrupted_restore_can_be_repeated() {
    let directory = tempfile::tempdir().expect("directory");
    let at = |name: &str| directory.path().join(name);
    let db = Db::open(at("store"), options()).expect("opens");
    std::fs::create_dir_all(at("data/shop")).expect("makes");
    for name in ["a.frm", "b.frm"] {
        std::fs::write(at("data/shop").join(name), name).expect("writes");
    }
    let mut backup = db.begin_backup(&at("backup"), BackupOptions::default()).expect("begins");
    backup.take_point(Watch::NONE).expect("a point");
    for name in ["a.frm", "b.frm"] {
        backup.add_file(&at("data/shop").join(name), &format!("shop/{name}")).expect("adds");
    }
    backup.finish(Watch::NONE).expect("finishes");

    let disk = RealDisk::shared();
    let (mut interrupted, mut stop_at) = (0, 0);
    loop {
        let (store, data) = (at("restored"), at("new"));
        std::fs::create_dir_all(&data).expect("makes");
        let asked = AtomicU64::new(0);
        let watch = Watch { stop: &|| asked.fetch_add(1, SeqCst) >= stop_at, progress: &|_, _| {} };
        let done = restore(&disk, &at("backup"), &store, Some(&data), watch);
        if let Err(error) = &done {
            assert!(matches!(error, tidesdb::Error::Interrupted), "{error}");
            interrupted += 1;
            if store.exists() {
                std::fs::remove_dir_all(&store).expect("removes");
            }
        }
        let ended = done.is_ok();
        if !ended {
            restore(&disk, &at("backup"), &store, Some(&data), Watch::NONE)
                .unwrap_or_else(|error| panic!("after an interruption at {stop_at}: {error}"));
        }
        for name in ["a.frm", "b.frm"] {
            assert_eq!(std::fs::read_to_string(data.join("shop").join(name)).expect("reads"), name);
        }
        assert_eq!(std::fs::read_dir(data.join("shop")).expect("lists").count(), 2, "nothing else");
        std::fs::remove_dir_all(&store).expect("removes");
        std::fs::remove_dir_all(&data).expect("removes");
        if ended {
            break;
        }
        stop_at += 1;
    }
    assert!(interrupted > 5, "{interrupted} places");
}

/// One family comes without the files of others; work on the resulting store does not touch the backup.
#[test]
fn a_part_of_a_backup_reads_as_the_whole_and_leaves_it_alone() {
    let directory = tempfile::tempdir().expect("directory");
    let at = |name: &str| directory.path().join(name);
    let db = Db::open(at("store"), options()).expect("opens");
    for name in ["wanted", "other"] {
        let family = db.create_family(name.as_bytes(), tidesdb::FamilyOptions::default()).expect("makes");
        for n in 0..2000u32 {
            let mut txn = begin(&db);
            txn.put(&family, &n.to_be_bytes(), &[n as u8; 200]).expect("puts");
            txn.commit().expect("commits");
        }
        db.flush().expect("flushes");
        db.compact(&family).expect("merges");
    }
    std::fs::write(at("definition"), "wanted").expect("writes");
    let mut backup = db.begin_backup(&at("backup"), BackupOptions::default()).expect("begins");
    backup.take_point(Watch::NONE).expect("a point");
    for name in ["wanted.frm", "other.frm"] {
        backup.add_file(&at("definition"), name).expect("adds");
    }
    backup.finish(Watch::NONE).expect("finishes");

    let disk = RealDisk::shared();
    std::fs::create_dir(at("data")).expect("makes");
    let part = |family: &'static [u8], store: &str| {
        let part =
            Part { family: &move |name: &[u8]| name == family, file: &|name: &str| name == "wanted.frm" };
        restore_part(&disk, &at("backup"), &at(store), &at("data"), &part, Watch::NONE)
    };
    let refused = part(b"nobody", "part").expect_err("no such family").to_string();
    assert!(refused.contains("has no such table") && !at("part").exists(), "{refused}");
    part(b"wanted", "part").expect("restores");
    assert!(part(b"wanted", "part").is_err(), "into a store that is there");
    assert!(at("data/wanted.frm").exists() && !at("data/other.frm").exists());
    let files = |store: &str| {
        let names = std::fs::read_dir(at(store)).expect("lists").map(|entry| entry.expect("lists").path());
        names.filter(|path| path.extension().is_some_and(|extension| extension == "sst")).count()
    };
    assert!(files("part") < files("backup/store"), "{} of {}", files("part"), files("backup/store"));

    let opened = Db::open(at("part"), options()).expect("opens");
    let family = opened.family(b"wanted").expect("it is there");
    let mut txn = begin(&opened);
    for n in 0..2000u32 {
        let found = txn.get(&family, &n.to_be_bytes(), ReadMode::Snapshot).expect("reads");
        assert_eq!(found, Some(vec![n as u8; 200]), "{n}");
        txn.put(&family, &n.to_be_bytes(), b"changed").expect("puts");
    }
    txn.commit().expect("commits");
    opened.flush().expect("flushes");
    opened.compact(&family).expect("merges");
    drop(family);
    opened.close().expect("closes");
    verify(&disk, &at("backup"), Watch::NONE).expect("whole as before");
}
