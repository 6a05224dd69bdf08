//! Prepared transactions that wait for a decision from outside: they hold their locks and nothing else, the
//! log goes on without keeping its old segments for them, and a crash at any call to the disk loses neither
//! them nor what was decided.
//!
//! `PREPARED_STRIDE` (1: every call) thins out the crash points.

mod sim;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sim::{begin, begin_as, env, normal, open, tiny, tiny_family, DIR};
use tidesdb::db::family::Family;
use tidesdb::io::faulty::{Crash, Failure, Fault, Op};
use tidesdb::io::{Disk, FaultyDisk};
use tidesdb::lock::TableMode;
use tidesdb::options::{Options, SyncMode};
use tidesdb::txn::cursor::{Scan, Start};
use tidesdb::txn::transaction::{Change, ChangeKind, Isolation, Mood, ReadMode, Transaction};
use tidesdb::{Db, Error, Result};

const FAMILY: &[u8] = b"f";

/// Families that only spilled transactions write: they hold a table lock X there.
const LARGE: [&[u8]; 3] = [b"l1", b"l2", b"l3"];

/// Keys from here on belong to prepared transactions; fillers use those below.
const PREPARED_KEYS: u32 = 100;

/// Transactions whose first key is so many times a number from 1 to 3 outgrow memory.
const LARGE_KEYS: u32 = 100_000;

/// A row: its family, key and value.
type Row = (&'static [u8], Vec<u8>, Vec<u8>);

#[derive(Clone, Copy, Debug)]
enum Step {
    /// So many commits with values of so many bytes.
    Fill(u32, usize),
    /// XA PREPARE of some keys.
    Dormant(&'static str, u32),
    /// A prepare as the binary log's.
    TwoPhase(&'static str, u32),
    /// One phase, committed or rolled back behind its `prepare`.
    Alone(u32, bool),
    /// The owner goes.
    Leave(&'static str),
    /// The owner decides.
    Own(&'static str, bool),
    /// Somebody else decides.
    ByXid(&'static str, bool),
    Flush,
    Reopen,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct State {
    rows: BTreeMap<(&'static [u8], Vec<u8>), Vec<u8>>,
    undecided: BTreeSet<&'static str>,
}

fn key(n: u32) -> Vec<u8> {
    format!("key{n:06}").into_bytes()
}

/// The rows that a prepared transaction writes: its first key's number also makes the values. Of large ones
/// the last are in the family that all share and still in memory at the end.
fn rows_of(first: u32) -> Vec<Row> {
    let rows =
        |family, count| (0..count).map(move |n| (family, key(first + n), vec![(first + n) as u8; 120]));
    match (first / LARGE_KEYS) as usize {
        0 => rows(FAMILY, 3).collect(),
        large => rows(LARGE[large - 1], 45).chain(rows(FAMILY, 3)).collect(),
    }
}

fn insert(rows: &mut BTreeMap<(&'static [u8], Vec<u8>), Vec<u8>>, new: Vec<Row>) {
    rows.extend(new.into_iter().map(|(family, key, value)| ((family, key), value)));
}

struct World {
    disk: FaultyDisk,
    options: Options,
    db: Option<Db>,
    live: BTreeMap<&'static str, Transaction>,
    prepared: BTreeMap<&'static str, u32>,
    history: Vec<State>,
    written: usize,
    durable: usize,
    filled: u32,
}

fn new_store(seed: u64, options: &Options) -> FaultyDisk {
    let disk = FaultyDisk::new(seed);
    let db = open(&disk, options).expect("opens");
    for name in LARGE.into_iter().chain([FAMILY]) {
        db.create_family(name, tiny_family()).expect("creates");
    }
    db.close().expect("closes");
    disk
}

fn family(db: &Db) -> Arc<Family> {
    db.family(FAMILY).expect("there")
}

fn put(db: &Db, txn: &mut Transaction, (family, key, value): &Row) -> Result<()> {
    txn.put(&db.family(family)?, key, value)
}

fn started(db: &Db) -> Transaction {
    let mut txn = begin(db);
    txn.set_lock_timeout(Some(Duration::ZERO));
    txn.statement_begin(true, Duration::from_secs(20)).expect("begins");
    txn
}

impl World {
    fn new(disk: FaultyDisk, options: Options) -> Result<World> {
        let db = open(&disk, &options)?;
        Ok(World {
            disk,
            options,
            db: Some(db),
            live: BTreeMap::new(),
            prepared: BTreeMap::new(),
            history: vec![State::default()],
            written: 0,
            durable: 0,
            filled: 0,
        })
    }

    fn db(&self) -> &Db {
        self.db.as_ref().expect("open")
    }

    fn now(&self) -> State {
        self.history[self.history.len() - 1].clone()
    }

    fn answered(&mut self, durable: bool) {
        self.written = self.history.len() - 1;
        if durable {
            self.durable = self.written;
        }
    }

    fn run(&mut self, steps: &[Step]) -> Result<()> {
        steps.iter().try_for_each(|step| self.step(*step))
    }

    fn step(&mut self, step: Step) -> Result<()> {
        let full = self.options.sync_mode == SyncMode::Full;
        let mut next = self.now();
        match step {
            Step::Fill(count, bytes) => {
                for _ in 0..count {
                    self.filled += 1;
                    let (key, value) = (key(self.filled % 17), vec![self.filled as u8; bytes]);
                    let mut txn = begin(self.db());
                    txn.statement_begin(true, Duration::from_secs(20))?;
                    txn.put(&family(self.db()), &key, &value)?;
                    next.rows.insert((FAMILY, key), value);
                    self.history.push(next.clone());
                    txn.commit()?;
                    self.answered(full);
                }
            }
            Step::Dormant(xid, first) | Step::TwoPhase(xid, first) => {
                let mut txn = started(self.db());
                for row in rows_of(first) {
                    put(self.db(), &mut txn, &row)?;
                }
                next.undecided.insert(xid);
                self.prepared.insert(xid, first);
                self.history.push(next);
                let done = match step {
                    Step::Dormant(..) => txn.prepare_dormant(xid.as_bytes()),
                    _ => txn.prepare(Some(xid.as_bytes())),
                };
                self.live.insert(xid, txn);
                done?;
                self.answered(true);
            }
            Step::Alone(first, commit) => {
                let mut txn = started(self.db());
                for row in rows_of(first) {
                    put(self.db(), &mut txn, &row)?;
                }
                txn.prepare(None)?;
                if commit {
                    insert(&mut next.rows, rows_of(first));
                    self.history.push(next);
                    txn.finish(false)?;
                    self.answered(full);
                } else {
                    txn.rollback()?;
                }
            }
            Step::Leave(xid) => drop(self.live.remove(xid)),
            Step::Own(xid, commit) | Step::ByXid(xid, commit) => {
                next.undecided.remove(xid);
                if commit {
                    insert(&mut next.rows, rows_of(self.prepared[xid]));
                }
                self.history.push(next);
                match (self.live.remove(xid), commit) {
                    (Some(mut txn), true) => txn.finish(false)?,
                    (Some(mut txn), false) => txn.rollback()?,
                    (None, true) => assert!(self.db().commit_by_xid(xid.as_bytes())?, "{xid} is known"),
                    (None, false) => assert!(self.db().rollback_by_xid(xid.as_bytes())?, "{xid} is known"),
                }
                // All that these programs decide in their own connection was dormant.
                self.answered(true);
            }
            Step::Flush => self.db().flush()?,
            Step::Reopen => {
                self.live.clear();
                if let Some(db) = self.db.take() {
                    db.close()?;
                }
                self.answered(true);
                self.db = Some(open(&self.disk, &self.options)?);
            }
        }
        Ok(())
    }

    /// Ends the process.
    fn die(mut self) -> World {
        self.disk.crash_at(0);
        self.live.clear();
        self.db = None;
        self
    }
}

fn observe(db: &Db, like: &[State]) -> State {
    let mut rows = BTreeMap::new();
    for name in LARGE.into_iter().chain([FAMILY]) {
        let seen = sim::rows(db, &db.family(name).expect("there")).expect("reads");
        insert(&mut rows, seen.into_iter().map(|(key, value)| (name, key, value)).collect());
    }
    let names = db.prepared();
    let all: BTreeSet<&'static str> = like.iter().flat_map(|state| state.undecided.clone()).collect();
    let undecided: BTreeSet<&'static str> =
        all.into_iter().filter(|xid| names.iter().any(|name| name == xid.as_bytes())).collect();
    assert_eq!(undecided.len(), names.len(), "only known ones are prepared: {names:?}");
    State { rows, undecided }
}

/// Opens after a crash, compares, sees that the prepared keep others out, and decides them.
fn recovers(disk: &FaultyDisk, world: &World, crash: Crash, decide: bool) {
    let db = open(disk, &world.options).unwrap_or_else(|e| panic!("it does not open: {e}"));
    let right = &world.history[if crash == Crash::Kill { world.written } else { world.durable }..];
    let seen = observe(&db, &world.history);
    assert!(
        right.contains(&seen),
        "neither of the {} states that are right: undecided {:?}, {} rows; right are {:?}",
        right.len(),
        seen.undecided,
        seen.rows.len(),
        right.iter().map(|state| (&state.undecided, state.rows.len())).collect::<Vec<_>>()
    );
    let mut state = seen;
    for (at, xid) in state.undecided.clone().into_iter().enumerate() {
        let rows = rows_of(world.prepared[xid]);
        for row in &rows {
            let mut txn = started(&db);
            let refused = put(&db, &mut txn, row).expect_err("it is locked");
            assert!(matches!(refused, Error::LockTimeout), "{xid}: {refused}");
        }
        if !decide {
            continue;
        }
        let commit = at % 2 == 0;
        let known = match commit {
            true => db.commit_by_xid(xid.as_bytes()),
            false => db.rollback_by_xid(xid.as_bytes()),
        };
        assert!(known.expect("decides"), "{xid} is known");
        state.undecided.remove(xid);
        if commit {
            insert(&mut state.rows, rows.clone());
        }
        let mut txn = started(&db);
        for (family, key, _) in &rows {
            txn.delete(&db.family(family).expect("there"), key).expect("the locks are gone");
        }
    }
    if decide {
        // What was decided stays so, whatever the mode.
        let next = disk.crash(Crash::Drop);
        disk.crash_at(0);
        drop(db);
        let db = open(&next, &world.options).expect("opens again");
        assert_eq!(observe(&db, &world.history), state, "after a power cut behind the decisions");
        next.crash_at(0);
    } else {
        disk.crash_at(0);
    }
}

fn programs() -> Vec<(&'static str, Vec<Step>)> {
    use Step::*;
    vec![
        (
            "decided by the owner",
            vec![
                Dormant("x", 100),
                Dormant("y", 110),
                Fill(1, 50),
                Own("x", true),
                Own("y", false),
                Fill(1, 50),
            ],
        ),
        (
            "left and decided by xid",
            vec![
                Dormant("x", 100),
                Dormant("y", 110),
                Leave("x"),
                Leave("y"),
                Fill(1, 50),
                ByXid("x", true),
                ByXid("y", false),
                Fill(1, 50),
            ],
        ),
        (
            "across a restart",
            vec![
                Dormant("x", 100),
                TwoPhase("y", 110),
                Leave("y"),
                Fill(2, 50),
                Reopen,
                Fill(1, 50),
                ByXid("x", true),
                Reopen,
                ByXid("y", false),
            ],
        ),
        (
            "logged again, then decided",
            vec![
                Dormant("x", 100),
                TwoPhase("y", 110),
                Leave("y"),
                Dormant("z", 120),
                Fill(90, 1500),
                Flush,
                ByXid("y", true),
                Fill(60, 1500),
                Own("x", true),
                Own("z", false),
                Fill(40, 1500),
                Flush,
            ],
        ),
        (
            "logged again across a restart",
            vec![Dormant("x", 100), Fill(80, 1500), Flush, Reopen, Fill(80, 1500), Flush, ByXid("x", true)],
        ),
        (
            "spilled, decided by the owner",
            vec![
                Dormant("x", 100_000),
                Dormant("y", 110),
                Alone(300_000, true),
                Dormant("z", 200_000),
                Fill(2, 50),
                Own("x", true),
                Own("y", true),
                Alone(300_050, false),
                Own("z", false),
                Fill(1, 50),
            ],
        ),
        (
            "spilled, left and decided by xid",
            vec![
                Fill(2, 50),
                Dormant("y", 110),
                Dormant("x", 100_000),
                TwoPhase("z", 200_000),
                Leave("x"),
                Leave("y"),
                Leave("z"),
                Fill(2, 50),
                ByXid("z", true),
                Flush,
                ByXid("x", false),
                ByXid("y", true),
                Fill(1, 50),
            ],
        ),
        (
            "spilled, across a restart",
            vec![
                TwoPhase("x", 100_000),
                Dormant("y", 200_000),
                Dormant("z", 120),
                Fill(2, 50),
                Alone(300_000, true),
                Fill(2, 50),
                Leave("x"),
                Reopen,
                Fill(1, 50),
                ByXid("x", true),
                Fill(1, 50),
                Reopen,
                ByXid("y", true),
                Fill(1, 50),
                ByXid("z", false),
            ],
        ),
        (
            "spilled, logged again, then decided",
            vec![
                Dormant("x", 100_000),
                TwoPhase("y", 200_000),
                Dormant("z", 120),
                Leave("y"),
                Fill(90, 1500),
                Flush,
                ByXid("y", true),
                Fill(60, 1500),
                Alone(300_000, true),
                Own("x", true),
                Own("z", false),
                Fill(40, 1500),
                Flush,
            ],
        ),
    ]
}

fn small(mode: SyncMode) -> Options {
    Options { compaction_threads: 0, ..tiny(mode) }
}

#[test]
fn a_crash_at_every_call_loses_no_prepared_transaction_and_no_decision() {
    let stride = env("PREPARED_STRIDE", 1).max(1);
    let (mut points, mut crashes) = (0u64, 0u64);
    for (ordinal, (name, steps)) in programs().into_iter().enumerate() {
        for mode in [SyncMode::None, SyncMode::Full] {
            let (options, seed) = (small(mode), ordinal as u64 * 2 + mode as u64);
            let disk = new_store(seed, &options);
            let first = disk.calls() + 1;
            let mut world = World::new(disk, options.clone()).expect("opens");
            world.run(&steps).unwrap_or_else(|e| panic!("{name} without a crash: {e}"));
            let calls = world.disk.calls();
            drop(world.die());
            let step = stride * ((calls - first) / 150 + 1);
            let mut n = first + seed % step;
            while n <= calls + 1 {
                points += 1;
                let disk = new_store(seed, &options);
                disk.crash_at(n);
                let world = match World::new(disk.clone(), options.clone()) {
                    Ok(mut world) => {
                        // An error is the crash; what was answered before it counts.
                        let _ = world.run(&steps);
                        world.die()
                    }
                    Err(_) => {
                        n += step;
                        continue;
                    }
                };
                for (which, crash) in Crash::ALL.into_iter().enumerate() {
                    crashes += 1;
                    let found = disk.crash(crash);
                    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                        recovers(&found, &world, crash, which as u64 == n % 6);
                    }));
                    if let Err(panic) = done {
                        println!("FAILED: {name}, {mode:?}, call {n} of {calls}, {crash:?}");
                        std::panic::resume_unwind(panic);
                    }
                }
                n += step;
            }
        }
    }
    println!("{points} crash points, {crashes} crashes");
    assert!(points > 100, "only {points} points");
}

fn log_files(disk: &FaultyDisk) -> usize {
    disk.list(&Path::new(DIR).join("wal")).expect("lists").len()
}

/// The log comes down to `bound` files: background threads let go of them, which may have to wait for a core.
fn log_comes_down_to(bound: usize, disk: &FaultyDisk) {
    log_comes_down_while(bound, disk, || std::thread::sleep(Duration::from_millis(5)));
}

/// The same while `work` goes on.
fn log_comes_down_while(bound: usize, disk: &FaultyDisk, mut work: impl FnMut()) {
    let begun = Instant::now();
    while log_files(disk) > bound {
        assert!(begun.elapsed() < Duration::from_secs(30), "{} files of the log stay", log_files(disk));
        work();
    }
}

#[test]
fn a_forgotten_prepared_transaction_does_not_hold_the_log() {
    for dormant in [true, false] {
        for mode in [SyncMode::None, SyncMode::Full] {
            let disk = new_store(7, &small(mode));
            let mut world = World::new(disk.clone(), small(mode)).expect("opens");
            let prepare = if dormant { Step::Dormant("x", 100) } else { Step::TwoPhase("x", 100) };
            world.run(&[prepare, Step::Fill(1200, 1500), Step::Flush]).expect("runs");
            let segment = world.db().stats().wal_segment;
            assert!(segment > 20, "the log went on for a while: {segment}");
            log_comes_down_to(10, &disk);
            world.run(&[Step::Leave("x"), Step::Reopen, Step::Fill(300, 1500), Step::Flush]).expect("runs");
            log_comes_down_to(10, &disk);
            assert_eq!(world.db().prepared(), [b"x".to_vec()]);
            world.step(Step::ByXid("x", true)).expect("commits");
            let seen = observe(world.db(), &[]);
            assert_eq!(seen, world.now());
        }
    }
}

#[test]
fn prepares_that_are_rolled_back_leave_no_long_log() {
    let disk = new_store(8, &small(SyncMode::None));
    let db = open(&disk, &small(SyncMode::None)).expect("opens");
    let round = |n: u32| {
        let mut txn = started(&db);
        txn.put(&family(&db), &key(PREPARED_KEYS + n % 5), &[7; 1500]).expect("puts");
        if n.is_multiple_of(2) {
            txn.prepare_dormant(b"x").expect("prepares");
        } else {
            txn.prepare(Some(b"x")).expect("prepares");
        }
        txn.rollback().expect("rolls back");
    };
    (0..1500).for_each(round);
    let segment = db.stats().wal_segment;
    assert!(segment > 20, "the log went on for a while: {segment}");
    let mut n = 0;
    log_comes_down_while(12, &disk, || {
        n += 1;
        round(n);
    });
}

#[test]
fn a_dormant_transaction_holds_its_locks_and_nothing_else() {
    let disk = new_store(9, &small(SyncMode::None));
    let db = open(&disk, &small(SyncMode::None)).expect("opens");
    let mut txn = begin_as(&db, Mood { isolation: Isolation::RepeatableRead, ..Mood::default() });
    txn.statement_begin(true, Duration::ZERO).expect("begins");
    txn.take_snapshot().expect("takes");
    txn.put(&family(&db), &key(100), &[1; 3000]).expect("puts");
    assert_eq!(db.stats().snapshots, 1);
    txn.prepare_dormant(b"x").expect("prepares");
    assert_eq!(db.stats().snapshots, 0, "the snapshot was given back");
    assert!(txn.holds_locks() && txn.has_writes());
    assert!(db.stats().txn_memory_bytes >= 3000, "its batch is counted");
    assert!(txn.put(&family(&db), &key(101), b"late").is_err(), "nothing is added to it");
    let mut other = started(&db);
    assert!(matches!(other.put(&family(&db), &key(100), b"v"), Err(Error::LockTimeout)));
    drop(txn);
    assert!(matches!(other.put(&family(&db), &key(100), b"v"), Err(Error::LockTimeout)), "still");
    assert!(db.stats().txn_memory_bytes >= 3000, "its batch is still counted");
    assert!(db.commit_by_xid(b"x").expect("commits"));
    assert!(!db.commit_by_xid(b"x").expect("answers"), "only once");
    other.put(&family(&db), &key(100), b"v").expect("the lock is gone");
    other.rollback().expect("rolls back");
    assert_eq!(db.stats().txn_memory_bytes, 0);
}

#[test]
fn prepared_transactions_take_a_quarter_of_the_log_at_most() {
    // A write buffer of 8 KiB: 4 KiB for them.
    let options = small(SyncMode::None);
    let disk = new_store(10, &options);
    let db = open(&disk, &options).expect("opens");
    let mut first = started(&db);
    first.put(&family(&db), &key(100), &[1; 2500]).expect("puts");
    first.prepare_dormant(b"a").expect("prepares");
    let mut second = started(&db);
    second.put(&family(&db), &key(200), &[2; 2500]).expect("puts");
    let refused = second.prepare_dormant(b"b").expect_err("too much").to_string();
    for word in ["4096", "25", "XA RECOVER", options.write_buffer_variable] {
        assert!(refused.contains(word), "{word} in: {refused}");
    }
    second.statement_begin(true, Duration::ZERO).expect("the transaction is as before");
    first.rollback().expect("rolls back");
    second.prepare_dormant(b"b").expect("there is room now");
    second.finish(false).expect("commits");
    let mut reader = started(&db);
    let value = reader.get(&family(&db), &key(200), ReadMode::Snapshot).expect("reads");
    assert_eq!(value, Some(vec![2; 2500]));
}

#[test]
fn table_locks_come_back_with_a_prepared_transaction() {
    let options = small(SyncMode::Full);
    let disk = new_store(11, &options);
    let db = open(&disk, &options).expect("opens");
    let other = db.create_family(b"other", tiny_family()).expect("creates");
    let mut txn = started(&db);
    txn.lock_table(&other, TableMode::Shared).expect("locks");
    txn.put(&family(&db), &key(100), b"v").expect("puts");
    txn.prepare_dormant(b"x").expect("prepares");
    let found = disk.crash(Crash::Drop);
    disk.crash_at(0);
    drop((txn, other, db));
    let db = open(&found, &options).expect("opens");
    let (one, other) = (family(&db), db.family(b"other").expect("there"));
    let mut txn = started(&db);
    txn.lock_table(&other, TableMode::IntentShared).expect("readers share it");
    assert!(matches!(txn.put(&other, b"k", b"v"), Err(Error::LockTimeout)), "S on the table stands");
    assert!(matches!(txn.lock_table(&one, TableMode::Exclusive), Err(Error::LockTimeout)), "so does IX");
    txn.put(&one, &key(101), b"v").expect("other rows are free");
    txn.rollback().expect("rolls back");
    assert!(db.rollback_by_xid(b"x").expect("rolls back"));
    let mut txn = started(&db);
    txn.lock_table(&one, TableMode::Exclusive).expect("free");
    txn.put(&other, b"k", b"v").expect("free");
}

/// What was put without a lock is locked by `prepare`, of either kind: another may keep its place free.
#[test]
fn a_prepare_locks_what_no_statement_locked() {
    let disk = new_store(19, &small(SyncMode::None));
    let db = open(&disk, &small(SyncMode::None)).expect("opens");
    let f = family(&db);
    let mut reader = started(&db);
    let mut cursor = db.cursor(&f);
    let scan = Scan { mode: ReadMode::Exclusive, ..Scan::default() };
    assert!(!cursor.seek(&mut reader, &scan).expect("scans"), "nothing is there, and nothing may come");
    for dormant in [false, true] {
        let mut txn = started(&db);
        let change = Change { family: &f, key: b"k", kind: ChangeKind::Put(b"v"), lock: false };
        txn.write(&[change]).expect("puts");
        let refused = match dormant {
            false => txn.prepare(Some(b"x")),
            true => txn.prepare_dormant(b"x"),
        };
        assert!(matches!(refused, Err(Error::LockTimeout)), "dormant: {dormant}, {refused:?}");
    }
}

/// A range of one may lie over keys that another has locked: it was published, and the wait for them failed.
/// Recovery must not depend on which of the two comes first.
#[test]
fn a_range_over_anothers_keys_does_not_keep_a_store_from_opening() {
    for ranges_first in [true, false] {
        let options = small(SyncMode::Full);
        let disk = new_store(12, &options);
        let db = open(&disk, &options).expect("opens");
        let mut writer = started(&db);
        writer.put(&family(&db), &key(105), b"v").expect("puts");
        let mut reader = begin_as(&db, Mood { isolation: Isolation::Serializable, ..Mood::default() });
        reader.set_lock_timeout(Some(Duration::ZERO));
        reader.put(&family(&db), &key(100), b"v").expect("puts");
        let from = key(101);
        let scan = Scan { start: Start::AtOrAfter, key: &from, mode: ReadMode::Shared, ..Scan::default() };
        let blocked = db.cursor(&family(&db)).seek(&mut reader, &scan);
        assert!(matches!(blocked, Err(Error::LockTimeout)), "{blocked:?}");
        reader.statement_rollback();
        reader.put(&family(&db), &key(100), b"v").expect("puts");
        let order = if ranges_first {
            [(&mut reader, b"r"), (&mut writer, b"w")]
        } else {
            [(&mut writer, b"w"), (&mut reader, b"r")]
        };
        for (txn, xid) in order {
            txn.prepare_dormant(xid).expect("prepares");
        }
        let found = disk.crash(Crash::Drop);
        disk.crash_at(0);
        drop((reader, writer, db));
        let db = open(&found, &options).expect("opens");
        assert!(db.commit_by_xid(b"w").expect("commits"));
        let mut other = started(&db);
        assert!(
            matches!(other.put(&family(&db), &key(105), b"v"), Err(Error::LockTimeout)),
            "the range stands"
        );
        other.rollback().expect("rolls back");
        assert!(db.commit_by_xid(b"r").expect("commits"));
    }
}

/// Recovery takes the locks that were there, however many: an escalation would meet others' locks.
#[test]
fn many_locks_of_one_prepared_transaction_leave_room_for_anothers() {
    const KEYS: u32 = 3200;
    let options = Options { compaction_threads: 0, ..normal(SyncMode::Full) };
    assert!(options.lock_bound() < KEYS as usize);
    let disk = new_store(13, &options);
    let db = open(&disk, &options).expect("opens");
    let (mut large, mut small) = (started(&db), started(&db));
    small.put(&family(&db), &key(KEYS), b"v").expect("puts");
    for n in 0..KEYS {
        large.put(&family(&db), &key(n), b"v").expect("puts");
    }
    large.prepare_dormant(b"large").expect("prepares");
    small.prepare_dormant(b"small").expect("prepares");
    let found = disk.crash(Crash::Drop);
    disk.crash_at(0);
    drop((large, small, db));
    let db = open(&found, &options).expect("opens");
    assert!(db.commit_by_xid(b"large").expect("commits"));
    assert!(db.commit_by_xid(b"small").expect("commits"));
}

#[test]
fn an_ordered_snapshot_sees_what_is_ordered_and_not_in_yet() {
    let disk = new_store(12, &small(SyncMode::None));
    let db = open(&disk, &small(SyncMode::None)).expect("opens");
    let mut slow = started(&db);
    slow.put(&family(&db), &key(1), b"ordered").expect("puts");
    slow.prepare(None).expect("prepares");
    slow.order();
    let mut reader = begin(&db);
    reader.take_ordered_snapshot().expect("takes");
    // Nobody has helped the commit in.
    let value = reader.get(&family(&db), &key(1), ReadMode::Snapshot).expect("reads");
    assert_eq!(value.as_deref(), Some(&b"ordered"[..]));
    let mut after = started(&db);
    after.put(&family(&db), &key(2), b"later").expect("puts");
    after.commit().expect("commits");
    assert_eq!(reader.get(&family(&db), &key(2), ReadMode::Snapshot).expect("reads"), None);
    slow.finish(false).expect("commits");
    let mut killed = begin(&db);
    killed.take_ordered_snapshot().expect("takes");
    db.kill(killed.owner());
    let interrupted = killed.get(&family(&db), &key(1), ReadMode::Snapshot);
    assert!(matches!(interrupted, Err(Error::Interrupted)), "{interrupted:?}");
}

#[test]
fn savepoints_outlive_statements_and_end_with_the_transaction() {
    let disk = new_store(13, &small(SyncMode::None));
    let db = open(&disk, &small(SyncMode::None)).expect("opens");
    let f = family(&db);
    let get = |txn: &mut Transaction, n: u32| {
        txn.get(&f, &key(n), ReadMode::Snapshot).expect("reads").map(|v| v[0])
    };
    let mut txn = started(&db);
    txn.put(&f, &key(1), b"1").expect("puts");
    let a = txn.savepoint_set().expect("sets");
    txn.put(&f, &key(1), b"2").expect("puts");
    txn.put(&f, &key(2), b"2").expect("puts");
    txn.statement_end();
    txn.statement_begin(true, Duration::ZERO).expect("begins");
    let b = txn.savepoint_set().expect("sets");
    txn.delete(&f, &key(1)).expect("deletes");
    let c = txn.savepoint_set().expect("sets");
    txn.put(&f, &key(3), b"3").expect("puts");
    // A statement of which a part was undone can be undone as a whole.
    txn.savepoint_rollback(c).expect("rolls back");
    assert_eq!((get(&mut txn, 1), get(&mut txn, 2), get(&mut txn, 3)), (None, Some(b'2'), None));
    txn.savepoint_release(b);
    assert!(txn.savepoint_rollback(b).is_err(), "released");
    txn.statement_rollback();
    assert_eq!((get(&mut txn, 1), get(&mut txn, 2)), (Some(b'2'), Some(b'2')));
    txn.savepoint_rollback(a).expect("rolls back");
    assert_eq!((get(&mut txn, 1), get(&mut txn, 2)), (Some(b'1'), None));
    assert!(txn.savepoint_rollback(c).is_err(), "set later");
    // A statement that ended before the cut is not undone by a later call.
    txn.statement_rollback();
    assert_eq!(get(&mut txn, 1), Some(b'1'));
    txn.commit().expect("commits");
    txn.begin(Mood::default()).expect("begins");
    assert!(txn.savepoint_rollback(a).is_err(), "of the transaction before");
    assert_eq!(get(&mut txn, 1), Some(b'1'));
    txn.rollback().expect("rolls back");
}

/// Deciding and logging again at the same time: every decision counts, nothing comes back.
#[test]
fn deciders_and_the_log_do_not_disturb_each_other() {
    let options = small(SyncMode::None);
    let disk = new_store(14, &options);
    let db = open(&disk, &options).expect("opens");
    let stop = AtomicBool::new(false);
    let rounds = env("PREPARED_ROUNDS", 40) as u32;
    std::thread::scope(|scope| {
        let filler = scope.spawn(|| {
            let mut n = 0u32;
            while !stop.load(Ordering::Relaxed) {
                n += 1;
                let mut txn = begin(&db);
                txn.statement_begin(true, Duration::from_secs(20)).expect("begins");
                txn.put(&family(&db), &key(n % 17), &[n as u8; 1500]).expect("puts");
                txn.commit().expect("commits");
            }
        });
        let deciders: Vec<_> = (0..3u32)
            .map(|which| {
                let db = &db;
                scope.spawn(move || {
                    for round in 0..rounds {
                        let xid = format!("x{which}-{round}");
                        let mut txn = started(db);
                        let first = 1000 + (which * rounds + round) * 10;
                        for row in rows_of(first) {
                            put(db, &mut txn, &row).expect("puts");
                        }
                        txn.prepare_dormant(xid.as_bytes()).expect("prepares");
                        if round % 3 == 0 {
                            // Long enough to be logged again now and then.
                            std::thread::sleep(Duration::from_millis(10));
                        }
                        match round % 4 {
                            0 => txn.finish(false).expect("commits"),
                            1 => txn.rollback().expect("rolls back"),
                            2 => {
                                drop(txn);
                                assert!(db.commit_by_xid(xid.as_bytes()).expect("commits"));
                            }
                            _ => {
                                drop(txn);
                                assert!(db.rollback_by_xid(xid.as_bytes()).expect("rolls back"));
                            }
                        }
                    }
                })
            })
            .collect();
        for decider in deciders {
            decider.join().expect("decides");
        }
        stop.store(true, Ordering::Relaxed);
        filler.join().expect("fills");
    });
    let found = disk.crash(Crash::Drop);
    disk.crash_at(0);
    drop(db);
    let db = open(&found, &options).expect("opens");
    assert_eq!(db.prepared(), Vec::<Vec<u8>>::new());
    let rows: BTreeMap<_, _> = sim::rows(&db, &family(&db)).expect("reads").into_iter().collect();
    for which in 0..3u32 {
        for round in 0..rounds {
            for (_, key, value) in rows_of(1000 + (which * rounds + round) * 10) {
                let committed = matches!(round % 4, 0 | 2);
                assert_eq!(rows.get(&key), committed.then_some(&value), "{which} {round}");
            }
        }
    }
}

/// On a full disk a prepared transaction can be rolled back; a commit that finds no room leaves it prepared.
#[test]
fn a_full_disk_keeps_prepared_transactions_decidable() {
    let options = small(SyncMode::None);
    let disk = new_store(15, &options);
    let mut world = World::new(disk.clone(), options.clone()).expect("opens");
    world.run(&[Step::Dormant("x", 100), Step::Dormant("y", 110), Step::Leave("x")]).expect("prepares");
    let used: usize =
        disk.files().iter().filter_map(|path| disk.contents(path)).map(|bytes| bytes.len()).sum();
    disk.set_capacity(Some(used as u64));
    let mut full = None;
    // Small ones last: they end when the memtable cannot be sealed any more, whatever else is full before. No
    // statements begin, which would end while there is room for a mean commit.
    for bytes in [1500, 50] {
        for round in 0..2000 {
            let mut txn = begin(world.db());
            txn.put(&family(world.db()), &key(round % 17), &vec![round as u8; bytes]).expect("puts");
            if let Err(error) = txn.commit() {
                full = Some((round, error));
                break;
            }
        }
    }
    world.history.push(observe(world.db(), &world.history));
    let (round, error) = full.expect("the disk is full at some time");
    assert!(matches!(error, Error::DiskFull(_)), "after {round} commits: {error}");
    let refused = world.db().commit_by_xid(b"x").expect_err("there is no room for its rows");
    assert!(matches!(refused, Error::DiskFull(_)), "{refused}");
    assert_eq!(world.db().prepared(), [b"x".to_vec()], "still prepared");
    let mut other = begin(world.db());
    other.set_lock_timeout(Some(Duration::ZERO));
    assert!(matches!(other.put(&family(world.db()), &key(100), b"v"), Err(Error::LockTimeout)));
    drop(other);
    world.step(Step::Own("y", false)).expect("rolls back");
    disk.set_capacity(None);
    world.step(Step::Flush).or_else(|_| world.step(Step::Flush)).expect("flushes again");
    world.step(Step::ByXid("x", true)).expect("commits");
    let seen = observe(world.db(), &[]);
    assert_eq!(seen, world.now());
    let world = world.die();
    recovers(&disk.crash(Crash::Drop), &world, Crash::Drop, true);
}

/// Nobody frees room in the log while a store is being opened, and no other commit afterwards finds it taken by
/// those that wait for a decision.
#[test]
fn many_prepared_transactions_are_recovered_and_leave_room_for_others() {
    let options = Options { write_buffer_size: 1 << 20, wal_segment_size: 1 << 20, ..small(SyncMode::None) };
    let disk = new_store(16, &options);
    let db = open(&disk, &options).expect("opens");
    let xid = |n: u32| format!("x{n}").into_bytes();
    for n in 0..100 {
        let mut txn = started(&db);
        txn.put(&family(&db), &key(n), &[n as u8; 30_000]).expect("puts");
        txn.prepare(Some(&xid(n))).expect("prepares");
    }
    assert_eq!(db.prepared().len(), 100, "three times what the log takes at a time");
    let found = disk.crash(Crash::Drop);
    disk.crash_at(0);
    drop(db);
    let begun = Instant::now();
    let db = open(&found, &options).expect("opens");
    assert_eq!(db.prepared().len(), 100);
    let mut txn = started(&db);
    txn.put(&family(&db), &key(1000), b"another").expect("puts");
    txn.commit().expect("there is room");
    for n in (0..100).rev() {
        assert!(db.commit_by_xid(&xid(n)).expect("commits"));
    }
    assert!(begun.elapsed() < Duration::from_secs(50), "nothing waited for room: {:?}", begun.elapsed());
    assert_eq!(sim::rows(&db, &family(&db)).expect("reads").len(), 101);
}

/// An owner that goes between `order` and `finish` leaves a commit behind, and nothing that holds the log.
#[test]
fn an_ordered_transaction_whose_owner_goes_is_committed() {
    for first in [100, LARGE_KEYS] {
        let options = small(SyncMode::None);
        let disk = new_store(17, &options);
        let mut world = World::new(disk.clone(), options).expect("opens");
        let mut txn = started(world.db());
        for row in rows_of(first) {
            put(world.db(), &mut txn, &row).expect("puts");
        }
        txn.prepare(Some(b"x")).expect("prepares");
        txn.order();
        drop(txn);
        assert_eq!(world.db().prepared(), Vec::<Vec<u8>>::new());
        let mut next = State::default();
        insert(&mut next.rows, rows_of(first));
        assert_eq!(observe(world.db(), &[]), next);
        world.history.push(next);
        world.run(&[Step::Fill(1200, 1500), Step::Flush]).expect("runs");
        log_comes_down_to(10, &disk);
        assert_eq!(observe(world.db(), &[]), world.now());
    }
}

/// The space of a spilled transaction that is rolled back is there again with the answer.
#[test]
fn a_rolled_back_prepare_leaves_no_files() {
    let tables = |disk: &FaultyDisk| {
        disk.files().iter().filter(|path| path.extension().is_some_and(|e| e == "sst")).count()
    };
    let options = small(SyncMode::None);
    let disk = new_store(18, &options);
    let mut world = World::new(disk.clone(), options).expect("opens");
    let before = tables(&disk);
    for steps in [
        &[Step::Dormant("x", LARGE_KEYS), Step::Own("x", false)][..],
        &[Step::TwoPhase("x", LARGE_KEYS), Step::Own("x", false)],
        &[Step::Dormant("x", LARGE_KEYS), Step::Leave("x"), Step::ByXid("x", false)],
        &[Step::TwoPhase("x", LARGE_KEYS), Step::Leave("x"), Step::ByXid("x", false)],
        &[Step::Alone(LARGE_KEYS, false)],
    ] {
        world.run(steps).expect("runs");
        assert_eq!(tables(&disk), before, "{steps:?}");
    }
    world.run(&[Step::Dormant("x", LARGE_KEYS), Step::Reopen]).expect("runs");
    let recovered = tables(&disk);
    world.step(Step::ByXid("x", false)).expect("rolls back");
    assert!(tables(&disk) < recovered, "{} of {recovered} tables", tables(&disk));
}

/// The log fails between a prepare and its commit. Of a two-phase one the coordinator's log may say that it is
/// committed, and after the restart it is: the answer is not "no". In one phase nothing of it is in the log.
#[test]
fn a_log_that_fails_behind_a_prepare_leaves_the_outcome_to_the_restart() {
    let disk = new_store(10, &normal(SyncMode::Full));
    let db = open(&disk, &normal(SyncMode::Full)).expect("opens");
    let mut writers: Vec<Transaction> = (0..3).map(|_| started(&db)).collect();
    for (n, txn) in writers.iter_mut().enumerate() {
        txn.put(&family(&db), &key(100 + n as u32), b"v").expect("puts");
    }
    let [two, one, fails] = &mut writers[..] else { unreachable!("three of them") };
    two.prepare(Some(b"x")).expect("prepares");
    one.prepare(None).expect("prepares");
    disk.fail(Fault { op: Some(Op::Write), path: ".wal".into(), skip: 0, times: 1, failure: Failure::Eio });
    assert!(matches!(fails.commit(), Err(Error::OutcomeUnknown)));
    let answer = two.finish(true);
    assert!(matches!(answer, Err(Error::OutcomeUnknown)), "{answer:?}");
    let answer = one.finish(false);
    assert!(matches!(answer, Err(Error::ReadOnly(_))), "{answer:?}");
    drop(writers);
    drop(db);
    let disk = disk.crash(Crash::Kill);
    let db = open(&disk, &normal(SyncMode::Full)).expect("opens");
    assert_eq!(db.prepared(), [b"x".to_vec()]);
    assert!(db.commit_by_xid(b"x").expect("commits"));
    let rows = sim::rows(&db, &family(&db)).expect("reads");
    let there = |n: u32| rows.iter().any(|(found, _)| *found == key(n));
    assert!(there(100) && !there(101));
}
