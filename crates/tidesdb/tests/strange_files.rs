//! Others' changes to the directory of a store, on a real disk. They remove the lock file of an open one, put
//! another directory in its place, or leave FIFOs and symbolic links.

use std::ffi::CString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidesdb::internal::backup::{self, Watch};
use tidesdb::internal::io::{Disk, RealDisk};
use tidesdb::{Db, Error, Options, StoreIdentity};

/// A slower refusal has waited for something.
const AT_ONCE: Duration = Duration::from_secs(20);

fn options() -> Options {
    let identity = StoreIdentity { identity: "a1".into(), place: "/data".into() };
    Options { wal_segment_size: 1 << 20, identity: Some(identity), ..Options::default() }
}

fn open(dir: &Path) -> Result<Db, Error> {
    Db::open(dir, options())
}

fn copy_of(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("makes");
    for entry in fs::read_dir(from).expect("lists") {
        let path = entry.expect("an entry").path();
        let into = to.join(path.file_name().expect("a name"));
        match path.is_dir() {
            true => copy_of(&path, &into),
            false => fs::copy(&path, &into).map(drop).expect("copies"),
        }
    }
}

#[test]
fn a_lock_file_that_is_removed_lets_no_second_store_in() {
    let dir = tempfile::tempdir().expect("directory");
    let home = dir.path().join("store");
    let db = open(&home).expect("opens");
    let family = db.family("f").expect("makes");
    family.put("before", "1").expect("puts");
    for round in 0..2 {
        fs::remove_file(home.join("LOCK")).expect("removes");
        if round == 1 {
            fs::write(home.join("LOCK"), "").expect("another");
        }
        let busy = open(&home).expect_err("it is in use").to_string();
        assert!(busy.contains(&format!("in use by this process ({})", std::process::id())), "{busy}");
        family.put(format!("after {round}"), "1").expect("puts");
        db.flush().expect("flushes");
    }
    assert!(home.join("LOCK").exists(), "it is made again");
    drop(family);
    db.close().expect("closes");
    let db = open(&home).expect("opens");
    let family = db.family("f").expect("opens");
    for key in ["before", "after 0", "after 1"] {
        assert_eq!(family.get(key).expect("reads").as_deref(), Some(&b"1"[..]), "{key}");
    }
}

/// A copy in the place of the directory: the open store stops within seconds, and loses no acknowledged
/// commit. The copy keeps every byte.
#[test]
fn a_store_whose_directory_is_replaced_stops() {
    let dir = tempfile::tempdir().expect("directory");
    let (home, moved) = (dir.path().join("store"), dir.path().join("moved"));
    let db = open(&home).expect("opens");
    let family = db.family("f").expect("makes");
    family.put("first", "1").expect("puts");
    let copy = dir.path().join("copy");
    copy_of(&home, &copy);
    fs::rename(&home, &moved).expect("moves");
    fs::rename(&copy, &home).expect("moves");
    let before = names_in(&home);
    let (begun, mut puts) = (Instant::now(), 0);
    let error = loop {
        match family.put(format!("{puts}"), "1") {
            Ok(()) => puts += 1,
            Err(error) => break error,
        }
        assert!(begun.elapsed() < AT_ONCE, "it acknowledges still, {puts} puts");
        std::thread::sleep(Duration::from_millis(10));
    };
    assert!(error.to_string().contains("was replaced or removed while the store"), "{error}");
    assert!(db.flush().is_err() && db.sync().is_err());
    assert!(family.get("first").expect("reads").is_some());
    drop(family);
    db.close().expect_err("the log has ended");
    assert_eq!(names_in(&home), before);
    let db = open(&moved).expect("opens");
    let family = db.family("f").expect("opens");
    for key in 0..puts {
        assert!(family.get(format!("{key}")).expect("reads").is_some(), "{key} of {puts}");
    }
}

fn names_in(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut todo = vec![dir.to_path_buf()];
    while let Some(path) = todo.pop() {
        for entry in fs::read_dir(path).expect("lists") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                todo.push(path);
            } else {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Runs `work` in a thread of its own; a hang fails the test.
fn at_once<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || send.send(work()));
    receive.recv_timeout(AT_ONCE).unwrap_or_else(|_| panic!("{what} hangs"))
}

/// The messages of an opening, a check and a repair of a store.
fn looked_at(home: &Path, repaired: &Path) -> Vec<String> {
    let disk: Arc<dyn Disk> = RealDisk::shared();
    let mut said = Vec::new();
    match open(home) {
        Ok(db) => {
            let family = db.family("f").expect("opens");
            said.extend(family.get("k").err().map(|error| error.to_string()));
            drop(family);
            let _ = db.close();
        }
        Err(error) => said.push(error.to_string()),
    }
    said.extend(
        Db::open(home, Options { read_only: true, ..options() }).err().map(|error| error.to_string()),
    );
    match backup::verify_store(&disk, home, Watch::NONE) {
        Ok(check) => said.extend(check.damage),
        Err(error) => said.push(error.to_string()),
    }
    said.extend(backup::repair(&disk, home, repaired, Watch::NONE).err().map(|error| error.to_string()));
    said
}

#[test]
fn a_fifo_or_a_link_in_the_place_of_any_file_is_named_and_holds_nobody_up() {
    let dir = tempfile::tempdir().expect("directory");
    let whole = dir.path().join("whole");
    let db = open(&whole).expect("opens");
    let family = db.family("f").expect("makes");
    family.put("k", "in a file").expect("puts");
    db.flush().expect("flushes");
    family.put("l", "in the log").expect("puts");
    drop(family);
    db.close().expect("closes");
    let names = names_in(&whole);
    let kinds = ["CURRENT", "MANIFEST-", ".sst", ".wal", "LOCK", "OWNER"];
    for kind in kinds {
        assert!(names.iter().any(|name| name.to_string_lossy().contains(kind)), "no {kind} in {names:?}");
    }
    for name in names {
        for link in [false, true] {
            let round = tempfile::tempdir().expect("directory");
            let (home, aside) = (round.path().join("store"), round.path().join("aside"));
            copy_of(&whole, &home);
            let path = home.join(name.strip_prefix(&whole).expect("inside"));
            fs::rename(&path, &aside).expect("moves");
            let bytes = fs::read(&aside).expect("reads");
            let kind = if link {
                symlink(&aside, &path).expect("links");
                "a symbolic link"
            } else {
                let name = CString::new(path.to_str().expect("text")).expect("no zero");
                // SAFETY: the name ends with a zero byte.
                assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
                "a FIFO"
            };
            let what = format!("{kind} at {}", path.display());
            let repaired = round.path().join("repaired");
            let said = at_once(&what, move || looked_at(&home, &repaired));
            let told = |line: &String| line.contains(kind) && line.contains(path.to_str().expect("text"));
            assert!(said.iter().any(told), "{what}: {said:?}");
            assert_eq!(fs::read(&aside).expect("reads"), bytes, "{what} is followed");
        }
    }
}
