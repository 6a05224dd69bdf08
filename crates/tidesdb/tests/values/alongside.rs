//! Syncs of value files go on at the same time as the log's, once they take long.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use tidesdb::internal::io::{Advice, File};

use super::*;

/// A disk whose syncs of value files take a millisecond. A sync of a value file and one of the log wait for each other
/// once they are to meet.
#[derive(Debug)]
struct Meeting {
    disk: FaultyDisk,
    is_on: AtomicBool,
    /// Syncs now: of value files, of the log.
    present: Mutex<[bool; 2]>,
    changed: Condvar,
    /// The power is cut between the end of the log's next sync and that of a value file: the disk then.
    cuts: AtomicBool,
    cut: Mutex<Option<FaultyDisk>>,
    met: AtomicU64,
    /// The file that takes values; values in others wait.
    gate: Mutex<Option<PathBuf>>,
    /// One waits.
    stands: AtomicBool,
}

#[derive(Debug)]
struct MeetingFile {
    inner: Arc<dyn File>,
    meeting: Arc<Meeting>,
    /// Its place in `present`.
    kind: Option<usize>,
}

impl Meeting {
    fn sync(&self, kind: usize) {
        if kind == 0 {
            self.disk.advance_clock(1000);
        }
        if !self.is_on.load(Ordering::SeqCst) {
            return;
        }
        let mut present = self.present.lock().expect("locks");
        present[kind] = true;
        self.changed.notify_all();
        let (present, waited) = self
            .changed
            .wait_timeout_while(present, Duration::from_secs(10), |present| !present[1 - kind])
            .expect("waits");
        drop(present);
        self.met.fetch_add(u64::from(!waited.timed_out()), Ordering::SeqCst);
    }

    /// A value file's sync comes after the log's, with a power cut between the two.
    fn sync_and_cut(&self, kind: Option<usize>, file: &dyn File) -> Result<(), Error> {
        if kind == Some(0) {
            let cut = self.cut.lock().expect("locks");
            let wait = self.changed.wait_timeout_while(cut, Duration::from_secs(10), |cut| cut.is_none());
            drop(wait.expect("waits"));
        }
        file.sync_data()?;
        if kind == Some(1) {
            *self.cut.lock().expect("locks") = Some(self.disk.crash(Crash::Drop));
            self.changed.notify_all();
        }
        Ok(())
    }

    /// A value in another file than the open one waits. The header does not.
    fn pass_gate(&self, path: &Path, offset: u64) {
        let mut gate = self.gate.lock().expect("locks");
        while offset > 0 && gate.as_deref().is_some_and(|open| open != path) {
            self.stands.store(true, Ordering::SeqCst);
            gate = self.changed.wait(gate).expect("waits");
        }
    }

    fn meet(&self, is_on: bool) {
        *self.present.lock().expect("locks") = [false; 2];
        self.is_on.store(is_on, Ordering::SeqCst);
    }
}

impl File for MeetingFile {
    fn path(&self) -> &Path {
        self.inner.path()
    }
    fn alignment(&self) -> usize {
        self.inner.alignment()
    }
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize, Error> {
        self.inner.read_at(buf, offset)
    }
    fn write_at(&self, buf: &[u8], offset: u64) -> Result<(), Error> {
        if self.kind == Some(0) {
            self.meeting.pass_gate(self.path(), offset);
        }
        self.inner.write_at(buf, offset)
    }
    fn sync_data(&self) -> Result<(), Error> {
        self.kind.into_iter().for_each(|kind| self.meeting.sync(kind));
        if self.meeting.cuts.load(Ordering::SeqCst) {
            return self.meeting.sync_and_cut(self.kind, &*self.inner);
        }
        self.inner.sync_data()
    }
    fn len(&self) -> Result<u64, Error> {
        self.inner.len()
    }
    fn allocate(&self, len: u64) -> Result<(), Error> {
        self.inner.allocate(len)
    }
    fn clear(&self, len: u64) {
        self.inner.clear(len);
    }
    fn punch_hole(&self, offset: u64, len: u64) -> Result<bool, Error> {
        self.inner.punch_hole(offset, len)
    }
    fn links(&self) -> Result<u64, Error> {
        self.inner.links()
    }
    fn allocated(&self) -> Result<u64, Error> {
        self.inner.allocated()
    }
    fn set_len(&self, len: u64) -> Result<(), Error> {
        self.inner.set_len(len)
    }
    fn advise(&self, offset: u64, len: u64, advice: Advice) {
        self.inner.advise(offset, len, advice);
    }
}

#[derive(Debug)]
struct MeetingDisk {
    disk: Arc<dyn Disk>,
    meeting: Arc<Meeting>,
}

impl Disk for MeetingDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn File>, Error> {
        let kind = path.extension().and_then(|extension| match extension.to_str() {
            Some("val") => Some(0),
            Some("wal" | "log") => Some(1),
            _ => None,
        });
        let (inner, meeting) = (self.disk.open(path, mode)?, Arc::clone(&self.meeting));
        Ok(Arc::new(MeetingFile { inner, meeting, kind }))
    }

    tidesdb::pass_on!(to disk: all but open);
}

/// A store with a value file that takes values, whose last sync took long.
fn store() -> (Arc<Meeting>, Db, Arc<Family>) {
    store_with(Options { write_buffer_size: 256 << 10, ..options(SyncMode::Full) })
}

fn store_with(options: Options) -> (Arc<Meeting>, Db, Arc<Family>) {
    let disk = FaultyDisk::new(1);
    let meeting = Arc::new(Meeting {
        disk: disk.clone(),
        is_on: AtomicBool::new(false),
        present: Mutex::default(),
        changed: Condvar::new(),
        cuts: AtomicBool::new(false),
        cut: Mutex::default(),
        met: AtomicU64::new(0),
        gate: Mutex::default(),
        stands: AtomicBool::new(false),
    });
    let on: Arc<dyn Disk> = Arc::new(MeetingDisk { disk: disk.shared(), meeting: Arc::clone(&meeting) });
    let db = Db::open_on(on, Path::new(DIR), options, None).expect("opens");
    let family = db.create_family(b"t", family()).expect("creates");
    for n in 0..3 {
        put(&db, &family, n, &value(n, 3000)).expect("puts");
    }
    (meeting, db, family)
}

#[test]
fn a_commit_waits_for_one_sync_time() {
    let (meeting, db, family) = store();
    meeting.meet(true);
    put(&db, &family, 10, &value(10, 3000)).expect("puts");
    meeting.meet(false);
    assert_eq!(meeting.met.load(Ordering::SeqCst), 2, "both syncs at the same time");
    drop((db, family));
    let db = open(&meeting.disk.crash(Crash::Drop), &options(SyncMode::Full)).expect("opens");
    let found = begin(&db).get(&db.family(b"t").expect("is there"), &key(10), ReadMode::Snapshot);
    assert_eq!(found.expect("reads"), Some(value(10, 3000)));
}

/// The record is on disk and its value is not: nobody was told of the commit, and a recovery cuts the log before it.
#[test]
fn a_power_cut_between_the_syncs_leaves_what_was_promised() {
    let (meeting, db, family) = store();
    meeting.cuts.store(true, Ordering::SeqCst);
    put(&db, &family, 10, &value(10, 3000)).expect("puts");
    meeting.cuts.store(false, Ordering::SeqCst);
    let mut disk = meeting.cut.lock().expect("locks").take().expect("the log's sync came first");
    for opening in 0..2 {
        let db = open(&disk, &options(SyncMode::Full)).expect("opens");
        let found = rows(&db, &db.family(b"t").expect("is there")).expect("reads");
        assert!(found == (0..3).map(|n| (key(n), value(n, 3000))).collect::<Vec<_>>(), "opening {opening}");
        drop(db);
        disk = disk.crash(Crash::Drop);
    }
}

/// The rows after a commit of row 10 whose syncs of these files fail, and a power cut.
fn rows_after_failed_syncs(paths: &[&str]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let (meeting, db, family) = store();
    for path in paths {
        let (op, path) = (Some(Op::Sync), (*path).into());
        meeting.disk.fail(Fault { op, path, skip: 0, times: 1, failure: Failure::Eio });
    }
    let error = put(&db, &family, 10, &value(10, 3000)).expect_err("is not durable");
    assert!(matches!(error, Error::OutcomeUnknown), "{error}");
    let refused = put(&db, &family, 11, b"short").expect_err("the log has failed");
    assert!(matches!(refused, Error::ReadOnly(_)), "{refused}");
    drop((db, family));
    let db = open(&meeting.disk.crash(Crash::Drop), &options(SyncMode::Full)).expect("opens");
    rows(&db, &db.family(b"t").expect("is there")).expect("reads")
}

#[test]
fn a_failed_sync_of_both_fails_the_log() {
    for paths in [&[".wal"][..], &[".val", ".wal"]] {
        let found = rows_after_failed_syncs(paths);
        // Nobody knows of the last one.
        let promised: Vec<_> = (0..3).map(|n| (key(n), value(n, 3000))).collect();
        assert!(found[..3] == promised && found[3..].iter().all(|row| *row == (key(10), value(10, 3000))));
    }
}

#[test]
fn a_failed_sync_alongside_fails_the_log() {
    let found = rows_after_failed_syncs(&[".val"]);
    assert!(found == (0..3).map(|n| (key(n), value(n, 3000))).collect::<Vec<_>>());
}

/// A writer has begun a file, and not yet synced the one before it: a backup links that one.
#[test]
fn a_linked_backup_has_durable_values_while_a_file_begins() {
    let (meeting, db, family) = store_with(options(SyncMode::None));
    let first = Path::new(DIR).join(&value_files(&meeting.disk)[0]);
    *meeting.gate.lock().expect("locks") = Some(first);
    let writes = AtomicBool::new(true);
    let cut = std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in (10..).take_while(|_| !meeting.stands.load(Ordering::SeqCst)) {
                put(&db, &family, n, &value(n, 3000)).expect("puts");
            }
            writes.store(false, Ordering::SeqCst);
        });
        while !meeting.stands.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let backed_up = db.backup(Path::new("/backup"), BackupOptions { links: true }, Watch::NONE);
        let (cut, waits) = (meeting.disk.crash(Crash::Drop), writes.load(Ordering::SeqCst));
        *meeting.gate.lock().expect("locks") = None;
        meeting.changed.notify_all();
        backed_up.expect("backs up");
        assert!(waits, "the value had its place, and nothing more");
        cut
    });
    let shared: Arc<dyn Disk> = cut.shared();
    verify(&shared, Path::new("/backup"), Watch::NONE).expect("verifies");
}
