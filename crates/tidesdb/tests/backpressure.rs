//! Writers during a stuck flush: held back, in the end with a clear error, and ended by a KILL in any wait.
//! Afterwards exactly the answered commits are there.

mod sim;

use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use sim::{begin, env, rows, DIR};
use tidesdb::internal::db::Db;
use tidesdb::internal::io::{Disk, FaultyDisk, File, OpenMode};
use tidesdb::internal::store::family::Family;
use tidesdb::{Error, Options, Result, SyncMode, TransactionOptions};

/// A disk on which opening a table file waits while the gate is shut.
#[derive(Debug)]
struct Gate {
    disk: FaultyDisk,
    shut: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    fn new(disk: FaultyDisk) -> Arc<Gate> {
        Arc::new(Gate { disk, shut: Mutex::new(false), opened: Condvar::new() })
    }

    fn set(&self, shut: bool) {
        *self.shut.lock().expect("lock") = shut;
        self.opened.notify_all();
    }
}

impl Disk for Gate {
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn File>> {
        if path.extension().is_some_and(|extension| extension == "sst") {
            let shut = self.shut.lock().expect("lock");
            drop(self.opened.wait_while(shut, |shut| *shut).expect("lock"));
        }
        self.disk.open(path, mode)
    }

    tidesdb::pass_on!(to disk: all but open);
}

const VALUE: [u8; 500] = [7; 500];

/// Opens the gate when dropped, so a failed test ends.
struct Shut(Arc<Gate>);

impl Drop for Shut {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

/// A store with stuck flushes, and its number of rows: most of what fits into its memory.
fn full(gate: &Arc<Gate>) -> (Db, Arc<Family>, u64, Shut) {
    let options = Options { write_buffer_size: 256 << 10, ..sim::normal(SyncMode::None) };
    let db = Db::open_on(gate.clone(), DIR, options, None).expect("opens");
    let family = db.create_family(b"t", sim::tiny_family()).expect("creates");
    gate.set(true);
    let shut = Shut(gate.clone());
    let mut n = 0u64;
    while db.stats().immutable_memtables == 0 || db.stats().memtable_bytes < 350 << 10 {
        let mut txn = begin(&db);
        txn.put(&family, &n.to_be_bytes(), &VALUE).expect("puts");
        txn.commit().expect("there is room");
        n += 1;
    }
    (db, family, n, shut)
}

fn eventually(what: &str, done: impl Fn() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_kill_ends_a_commit_that_waits_for_memory() {
    for two_phase in [false, true] {
        let disk = FaultyDisk::new(env("SEED", 1));
        let gate = Gate::new(disk.clone());
        let (db, family, count, shut) = full(&gate);
        let mut txn = begin(&db);
        let owner = txn.owner().clone();
        let waits = db.stats().backpressure_waits;
        let committed = std::thread::scope(|scope| {
            let family = &family;
            let writer = scope.spawn(move || {
                let mut n = count;
                loop {
                    let xid = two_phase.then_some(&b"x"[..]);
                    let done = txn.put(family, &n.to_be_bytes(), &VALUE).and_then(|()| txn.prepare(xid));
                    if let Err(error) = done.and_then(|()| txn.commit()) {
                        let ended = Instant::now();
                        txn.rollback().expect("rolls back");
                        return (n, error, ended);
                    }
                    n += 1;
                    txn.begin(TransactionOptions::default()).expect("begins");
                }
            });
            eventually("a commit waits", || db.stats().backpressure_waits > waits);
            let killed = Instant::now();
            db.kill(&owner);
            let (committed, error, ended) = writer.join().expect("joins");
            assert!(matches!(error, Error::Interrupted), "two-phase {two_phase}: {error:?}");
            assert!(ended - killed < Duration::from_secs(5), "{:?} after the kill", ended - killed);
            committed
        });
        drop(shut);
        db.flush().expect("flushes");
        assert_eq!(rows(&db, &family).expect("reads").len() as u64, committed);
        assert!(db.prepared().is_empty());
        drop(db);
        let db = sim::open(&disk, &sim::normal(SyncMode::None)).expect("opens again");
        let family = db.family(b"t").expect("there");
        assert_eq!(rows(&db, &family).expect("reads").len() as u64, committed);
    }
}

#[test]
fn a_statement_gives_up_after_its_patience_and_the_next_goes_on_when_there_is_room() {
    let gate = Gate::new(FaultyDisk::new(env("SEED", 1)));
    let (db, family, mut count, shut) = full(&gate);
    let patience = Duration::from_millis(50);
    let mut refused = None;
    // Delays come first, and the stop when memory is full.
    for _ in 0..1000 {
        let mut txn = begin(&db);
        match txn.statement_begin(true, patience) {
            Ok(()) => {
                txn.put(&family, &count.to_be_bytes(), &VALUE).expect("puts");
                txn.commit().expect("there is room");
                count += 1;
            }
            Err(error) => {
                refused = Some(error);
                break;
            }
        }
    }
    assert!(matches!(refused, Some(Error::BackpressureTimeout)), "{refused:?}");
    drop(shut);
    let mut txn = begin(&db);
    txn.statement_begin(true, Duration::from_secs(60)).expect("room comes");
    txn.put(&family, &count.to_be_bytes(), &VALUE).expect("puts");
    txn.commit().expect("commits");
    assert_eq!(rows(&db, &family).expect("reads").len() as u64, count + 1);
}

/// A KILL before the begin of a statement ends the statement at its wait.
#[test]
fn a_kill_before_a_statement_ends_its_wait_for_room() {
    let gate = Gate::new(FaultyDisk::new(env("SEED", 1)));
    let (db, family, mut count, _shut) = full(&gate);
    loop {
        let mut txn = begin(&db);
        match txn.statement_begin(true, Duration::from_millis(50)) {
            Ok(()) => {
                txn.put(&family, &count.to_be_bytes(), &VALUE).expect("puts");
                txn.commit().expect("there is room");
                count += 1;
            }
            Err(error) => {
                assert!(matches!(error, Error::BackpressureTimeout), "{error:?}");
                break;
            }
        }
    }
    let mut txn = begin(&db);
    db.kill(txn.owner());
    let begun = Instant::now();
    let killed = txn.statement_begin(true, Duration::from_secs(10));
    assert!(matches!(killed, Err(Error::Interrupted)), "{killed:?}");
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    // The next statement is not meant.
    db.clear_kill(txn.owner());
    let refused = txn.statement_begin(true, Duration::from_millis(50));
    assert!(matches!(refused, Err(Error::BackpressureTimeout)), "{refused:?}");
}
