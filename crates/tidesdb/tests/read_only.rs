//! Stores opened with the option `read_only`: everything is read, nothing is written, neither by a call nor
//! by the opening. And stores open in another process: refused by name, in both modes.

mod sim;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use sim::{begin, normal, rows, seeds, tiny, tiny_family, Rng};
use tidesdb::internal::backup::{BackupOptions, Watch};
use tidesdb::internal::db::Db;
use tidesdb::internal::io::faulty::Crash;
use tidesdb::internal::io::FaultyDisk;
use tidesdb::internal::txn::transaction::ReadMode;

use tidesdb::{Error, Options, SyncMode};

fn read_only(options: Options) -> Options {
    Options { read_only: true, ..options }
}

/// A directory from outside: by name the bytes, inode, mode and time of each entry.
type Seen = BTreeMap<PathBuf, (Vec<u8>, u64, u32, (i64, i64))>;

fn look(dir: &Path) -> Seen {
    let mut seen = Seen::new();
    let mut todo = vec![dir.to_path_buf()];
    while let Some(path) = todo.pop() {
        let meta = fs::symlink_metadata(&path).expect("there");
        let bytes = if meta.is_file() { fs::read(&path).expect("reads") } else { Vec::new() };
        if meta.is_dir() {
            todo.extend(fs::read_dir(&path).expect("lists").map(|entry| entry.expect("an entry").path()));
        }
        seen.insert(path, (bytes, meta.ino(), meta.mode(), (meta.mtime(), meta.mtime_nsec())));
    }
    seen
}

fn assert_same(before: &Seen, dir: &Path) {
    let after = look(dir);
    assert_eq!(before.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>(), "names");
    for (path, was) in before {
        assert!(*was == after[path], "{} has changed", path.display());
    }
}

/// A store with files, an unflushed log, counters and a prepared transaction; returns the rows of its family
/// `t`.
fn make(dir: &Path, options: &Options) -> Vec<(Vec<u8>, Vec<u8>)> {
    let db = Db::open(dir, options.clone()).expect("opens");
    let family = db.create_family(b"t", tiny_family()).expect("creates");
    db.create_family(b"empty", tiny_family()).expect("creates");
    for round in 0..3u32 {
        let mut txn = begin(&db);
        for n in 0..200u32 {
            txn.put(&family, &(n * 3 + round).to_be_bytes(), &[round as u8; 50]).expect("puts");
        }
        txn.commit().expect("commits");
        match round {
            0 => db.compact(&family).expect("merges"),
            1 => db.flush().expect("flushes"),
            _ => {}
        }
    }
    assert_eq!(db.counter_take(&family, 0, 5, 1, 1, u64::MAX).expect("counts"), 1);
    let mut txn = begin(&db);
    txn.put(&family, b"prepared", b"x").expect("puts");
    txn.prepare_xa(b"xid").expect("prepares");
    drop(txn);
    let held = rows(&db, &family).expect("reads");
    assert_eq!(held.len(), 600);
    drop(family);
    db.close().expect("closes");
    held
}

fn assert_refused<T>(what: &str, result: Result<T, Error>) {
    match result {
        Err(Error::ReadOnly(why)) => assert!(why.contains("read_only"), "{what}: {why}"),
        Err(other) => panic!("{what}: {other}"),
        Ok(_) => panic!("{what} is a write, and went through"),
    }
}

#[test]
fn a_store_is_read_and_keeps_every_byte() {
    for options in [normal(SyncMode::Full), tiny(SyncMode::Interval), Options::default()] {
        let home = tempfile::tempdir().expect("a directory");
        let dir = home.path().join("store");
        let held = make(&dir, &options);
        let before = look(home.path());
        for life in 0..2 {
            let db = Db::open(&dir, read_only(options.clone())).expect("opens");
            let second = Db::open(&dir, read_only(options.clone())).expect("readers share a store");
            let family = db.family(b"t").expect("there");
            assert_eq!(rows(&db, &family).expect("reads"), held);
            assert_eq!(rows(&second, &second.family(b"t").expect("there")).expect("reads"), held);
            db.verify(&family).expect("verifies");
            assert_eq!(db.prepared(), [b"xid".to_vec()]);
            assert_eq!(db.counter_peek(&family, 0).expect("looks"), 6);

            let mut txn = begin(&db);
            txn.statement_begin(true, Duration::from_secs(1)).expect("begins");
            let found = txn.get(&family, &3u32.to_be_bytes(), ReadMode::Exclusive).expect("reads and locks");
            assert_eq!(found, Some(vec![0; 50]));
            assert_refused("put", txn.put(&family, b"k", b"v"));
            assert_refused("insert", txn.insert(&family, b"k", b"v"));
            assert_refused("delete", txn.delete(&family, b"k"));
            assert_refused("single delete", txn.single_delete(&family, b"k"));
            txn.commit().expect("a transaction that read ends as any does");
            assert_refused("a family", db.create_family(b"new", tiny_family()));
            assert_refused("a change of families", db.ddl().map(|_| ()));
            assert_refused("a flush", db.flush());
            assert_refused("a merge", db.compact(&family));
            assert_refused("a count", db.count_rows(&family, &|| false));
            assert_refused("a counter", db.counter_take(&family, 0, 1, 1, 1, u64::MAX));
            assert_refused("a counter", db.counter_raise(&family, 0, 99));
            assert_refused("a decision", db.commit_by_xid(b"xid"));
            assert_refused("a decision", db.rollback_by_xid(b"xid"));
            let to = home.path().join("backup");
            assert_refused("a backup", db.backup(&to, BackupOptions::default(), Watch::NONE));
            // The background has time to do what it should not.
            std::thread::sleep(Duration::from_millis(if life == 0 { 700 } else { 0 }));
            assert_same(&before, home.path());
            drop((txn, family));
            if life == 0 {
                db.close().expect("closes");
                second.close().expect("closes");
            }
        }
        assert_same(&before, home.path());
        let db = Db::open(&dir, options).expect("opens for writing");
        let family = db.family(b"t").expect("there");
        assert_eq!(rows(&db, &family).expect("reads"), held);
        assert!(db.commit_by_xid(b"xid").expect("commits"));
        assert_eq!(rows(&db, &family).expect("reads").len(), held.len() + 1);
        drop(family);
        db.close().expect("closes");
    }
}

#[test]
fn where_no_store_is_none_is_made() {
    let home = tempfile::tempdir().expect("a directory");
    fs::create_dir(home.path().join("empty")).expect("makes");
    let before = look(home.path());
    for name in ["empty", "missing"] {
        let refused = Db::open(home.path().join(name), read_only(Options::default())).unwrap_err();
        assert!(refused.to_string().contains("there is no store in"), "{refused}");
    }
    assert_same(&before, home.path());
}

#[test]
fn a_store_without_a_lock_file_is_read_too() {
    let home = tempfile::tempdir().expect("a directory");
    let held = make(home.path(), &Options::default());
    fs::remove_file(home.path().join("LOCK")).expect("removes");
    let before = look(home.path());
    let db = Db::open(home.path(), read_only(Options::default())).expect("opens");
    assert_eq!(rows(&db, &db.family(b"t").expect("there")).expect("reads"), held);
    db.close().expect("closes");
    assert_same(&before, home.path());
}

/// After any crash a read-only opening shows the same as the next opening for writing, and changes nothing of
/// it.
#[test]
fn after_a_crash_a_reader_sees_what_recovery_makes() {
    let dir = Path::new(sim::DIR);
    for seed in seeds("READ_ONLY", 30) {
        println!("READ_ONLY_SEED={seed}");
        let mut rng = Rng(seed);
        let options = tiny(*rng.pick(&[SyncMode::None, SyncMode::Interval, SyncMode::Full]));
        let disk = FaultyDisk::new(seed);
        let db = sim::open(&disk, &options).expect("opens");
        let family = db.create_family(b"t", tiny_family()).expect("creates");
        for _ in 0..rng.below(60) {
            let mut txn = begin(&db);
            txn.set_lock_timeout(Some(Duration::ZERO));
            let most = if rng.one_in(10) { 150 } else { 6 };
            let changes = 1 + rng.below(most);
            // The keys of the prepared transaction stay locked, and no thread is left that could end it.
            let locked = (0..changes).any(|_| {
                let key = rng.below(300).to_be_bytes();
                let done = match rng.one_in(4) {
                    true => txn.delete(&family, &key),
                    false => txn.put(&family, &key, &vec![1; 5 + (key[7] as usize) % 60]),
                };
                match done {
                    Err(Error::LockTimeout) => true,
                    done => done.map(|()| false).expect("writes"),
                }
            });
            match rng.below(20) {
                0 => txn.rollback().expect("rolls back"),
                _ if locked => txn.rollback().expect("rolls back"),
                1 if db.prepared().is_empty() => txn.prepare_xa(b"xid").expect("prepares"),
                _ => txn.commit().expect("commits"),
            }
            drop(txn);
            if rng.one_in(8) {
                db.flush().expect("flushes");
            }
        }
        let crashed = disk.crash(*rng.pick(&Crash::ALL));
        let contents = |disk: &FaultyDisk| -> Vec<_> {
            disk.files().into_iter().map(|path| (disk.contents(&path), path)).collect()
        };
        let before = contents(&crashed);
        let reader =
            Db::open_on(crashed.shared(), dir, read_only(options.clone()), None).expect("opens to read");
        let seen = rows(&reader, &reader.family(b"t").expect("there")).expect("reads");
        let prepared = reader.prepared();
        reader.close().expect("closes");
        assert!(contents(&crashed) == before, "seed {seed}: the disk has changed");
        let writer = sim::open(&crashed, &options).expect("opens");
        assert_eq!(rows(&writer, &writer.family(b"t").expect("there")).expect("reads"), seen, "seed {seed}");
        assert_eq!(writer.prepared(), prepared, "seed {seed}");
        writer.close().expect("closes");
        drop(family);
    }
}

/// Another process with the store open; killed when dropped.
struct Other(Child);

const CHILD: &str = "READ_ONLY_TEST_CHILD";

impl Other {
    /// Opens the store in `dir` in a child process; the child has written one row, if it may.
    fn with(dir: &Path, mode: &str) -> Other {
        let mut child = Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "other_process", "--nocapture", "--test-threads=1"])
            .env(CHILD, format!("{mode}:{}", dir.display()))
            .stdout(Stdio::piped())
            .spawn()
            .expect("starts");
        let out = BufReader::new(child.stdout.take().expect("piped"));
        let open = out.lines().map_while(Result::ok).any(|line| line.contains("the store is open"));
        assert!(open, "the child did not open the store");
        Other(child)
    }

    fn assert_names_it(&self, dir: &Path, refused: &Error) {
        assert!(matches!(refused, Error::Busy(_)), "{refused}");
        let expected = format!("the store in {} is in use by process {}", dir.display(), self.0.id());
        assert!(refused.to_string().starts_with(&expected), "{refused}");
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The child of the tests below; nothing by itself.
#[test]
fn other_process() {
    let Ok(asked) = std::env::var(CHILD) else { return };
    let (mode, dir) = asked.split_once(':').expect("a mode and a directory");
    let options = Options { read_only: mode == "read", ..Options::default() };
    let db = Db::open(dir, options).expect("opens");
    if mode == "write" {
        let family = db.family(b"t").expect("there");
        let mut txn = begin(&db);
        txn.put(&family, b"of the child", b"row").expect("puts");
        txn.commit().expect("commits");
    }
    println!("the store is open");
    std::thread::sleep(Duration::from_secs(600));
}

#[test]
fn a_store_that_another_process_writes_is_refused_by_name_in_both_modes() {
    let home = tempfile::tempdir().expect("a directory");
    let held = make(home.path(), &Options::default());
    let other = Other::with(home.path(), "write");
    for options in [Options::default(), read_only(Options::default())] {
        other.assert_names_it(home.path(), &Db::open(home.path(), options).unwrap_err());
    }
    // It dies with its log as it is: that is read without being recovered.
    drop(other);
    let before = look(home.path());
    let db = Db::open(home.path(), read_only(Options::default())).expect("opens");
    let seen = rows(&db, &db.family(b"t").expect("there")).expect("reads");
    assert_eq!(seen.len(), held.len() + 1);
    assert!(seen.contains(&(b"of the child".to_vec(), b"row".to_vec())));
    db.close().expect("closes");
    assert_same(&before, home.path());
}

#[test]
fn a_store_that_another_process_reads_is_read_and_not_written() {
    let home = tempfile::tempdir().expect("a directory");
    let held = make(home.path(), &Options::default());
    let before = look(home.path());
    let other = Other::with(home.path(), "read");
    other.assert_names_it(home.path(), &Db::open(home.path(), Options::default()).unwrap_err());
    let db = Db::open(home.path(), read_only(Options::default())).expect("opens");
    assert_eq!(rows(&db, &db.family(b"t").expect("there")).expect("reads"), held);
    db.close().expect("closes");
    assert_same(&before, home.path());
    drop(other);
    Db::open(home.path(), Options::default()).expect("opens").close().expect("closes");
}
