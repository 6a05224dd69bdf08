//! The protocol of foreign keys: no child without its parent, at any isolation level, with any concurrent
//! threads, and over restarts with prepared transactions. Parents and children are keys of two families; a
//! third, without entries, has the parents' advisory locks (`docs/protocols.md` 4.14).
//!
//! - A child's insertion takes the parent's advisory lock shared. Then it looks for the parent, by a current
//!   read. If there is none, it locks the parent's row shared, waiting for an inserter, and looks again. A
//!   statement of several children may write all of them first.
//! - A parent's deletion takes its advisory lock exclusively. Then it looks for children, by a current read.
//!   It locks a found one shared, waiting for a deleter, and looks again. A child still there refuses the
//!   deletion.
//! - A child's deletion and a parent's insertion take no advisory lock.
//!
//! `FOREIGN_KEY_SEEDS` is the number of programs, `FOREIGN_KEY_SEED` repeats one (not how its threads
//! interleave).

mod sim;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::Arc;
use std::time::Duration;

use sim::{begin, begin_as, normal, open, scan, seeds, tiny_family, Asked, Rng};
use tidesdb::internal::db::Db;
use tidesdb::internal::io::faulty::Crash;
use tidesdb::internal::io::FaultyDisk;
use tidesdb::internal::lock::Mode;
use tidesdb::internal::store::family::Family;
use tidesdb::internal::txn::cursor::Start;
use tidesdb::internal::txn::transaction::{ReadMode, Transaction};
use tidesdb::{Error, Isolation, Result, SyncMode, TransactionOptions};

const THREADS: u64 = 4;
const TRANSACTIONS: u64 = 50;
/// So few that all threads meet.
const PARENTS: u64 = 3;
const CHILDREN: u64 = 3;
/// Prepared transactions waiting for a decision at a time, more or less: each blocks a parent or two.
const UNDECIDED: usize = 2;

/// Keeps the protocol, or breaks it to check that the test notices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ValueLock {
    Taken,
    LeftOut,
}

/// The outcomes of statements and transactions without a rollback.
#[derive(Debug, Default)]
struct Counts {
    commits: AtomicU64,
    children: AtomicU64,
    orphans_refused: AtomicU64,
    parents_gone: AtomicU64,
    parents_kept: AtomicU64,
    retried: AtomicU64,
    decided: AtomicU64,
}

/// A statement's end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Done {
    Child,
    OrphanRefused,
    ParentGone,
    ParentKept,
    Other,
}

struct Model {
    disk: FaultyDisk,
    db: Db,
    value_lock: ValueLock,
    value_locks: Arc<Family>,
    parents: Arc<Family>,
    children: Arc<Family>,
    counts: Arc<Counts>,
    /// A child without a parent was found.
    found: AtomicBool,
}

/// Counts a thread down, on a panic too.
struct CountDown<'a>(&'a AtomicU64);

impl Drop for CountDown<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

fn parent(n: u64) -> Vec<u8> {
    vec![n as u8]
}

fn child(parent: u64, n: u64) -> Vec<u8> {
    vec![parent as u8, n as u8]
}

fn may_be_retried(error: &Error) -> bool {
    matches!(error, Error::Conflict | Error::Deadlock | Error::LockTimeout)
}

/// Lets others run between a look and the change based on it.
fn pause(rng: &mut Rng) {
    match rng.below(4) {
        0 => std::thread::sleep(Duration::from_micros(rng.below(300))),
        1 => std::thread::yield_now(),
        _ => {}
    }
}

impl Model {
    fn open(disk: &FaultyDisk, value_lock: ValueLock, counts: Arc<Counts>) -> Model {
        let db = open(disk, &normal(SyncMode::None)).expect("opens");
        let family = |name: &[u8]| match db.family(name) {
            Ok(family) => family,
            Err(_) => db.create_family(name, tiny_family()).expect("creates"),
        };
        let (value_locks, parents, children) =
            (family(b"value locks"), family(b"parents"), family(b"children"));
        Model {
            disk: disk.clone(),
            db,
            value_lock,
            value_locks,
            parents,
            children,
            counts,
            found: AtomicBool::new(false),
        }
    }

    fn advise(&self, txn: &mut Transaction, key: &[u8], mode: Mode) -> Result<()> {
        match self.value_lock {
            ValueLock::Taken => txn.lock_advisory(&self.value_locks, key, mode),
            ValueLock::LeftOut => Ok(()),
        }
    }

    fn insert_child(&self, txn: &mut Transaction, rng: &mut Rng) -> Result<Done> {
        let of = rng.below(PARENTS);
        self.advise(txn, &parent(of), Mode::Shared)?;
        if txn.get(&self.parents, &parent(of), ReadMode::Latest)?.is_none()
            && txn.get(&self.parents, &parent(of), ReadMode::Shared)?.is_none()
        {
            return Ok(Done::OrphanRefused);
        }
        pause(rng);
        txn.put(&self.children, &child(of, rng.below(CHILDREN)), b"child")?;
        Ok(Done::Child)
    }

    /// Children of several parents: all are written first, then the parents' locks are taken, then the
    /// parents are looked for together. Without one of them the statement is undone.
    fn insert_children(&self, txn: &mut Transaction, rng: &mut Rng) -> Result<Done> {
        let of: Vec<u64> = (0..PARENTS).filter(|_| rng.one_in(2)).collect();
        for &of in &of {
            txn.put(&self.children, &child(of, rng.below(CHILDREN)), b"child")?;
        }
        pause(rng);
        for &of in &of {
            self.advise(txn, &parent(of), Mode::Shared)?;
        }
        let parents: Vec<_> = of.into_iter().map(parent).collect();
        let mut missing = Vec::new();
        let mut looked_for = parents.iter();
        txn.find_all(&self.parents, parents.iter().map(Vec::as_slice), |found| {
            missing.extend(looked_for.next().filter(|_| found.is_none()));
        })?;
        for parent in missing {
            if txn.get(&self.parents, parent, ReadMode::Shared)?.is_none() {
                txn.statement_rollback();
                return Ok(Done::OrphanRefused);
            }
        }
        Ok(Done::Child)
    }

    fn delete_parent(&self, txn: &mut Transaction, rng: &mut Rng) -> Result<Done> {
        let of = rng.below(PARENTS);
        self.advise(txn, &parent(of), Mode::Exclusive)?;
        let all = Asked {
            start: Start::AtOrAfter,
            key: parent(of),
            bound: Some(parent(of + 1)),
            mode: ReadMode::Latest,
            ..Asked::all(true)
        };
        for (key, _) in scan(&self.db, txn, &self.children, &all)? {
            if txn.get(&self.children, &key, ReadMode::Shared)?.is_some() {
                return Ok(Done::ParentKept);
            }
        }
        pause(rng);
        txn.delete(&self.parents, &parent(of))?;
        Ok(Done::ParentGone)
    }

    fn statement(&self, txn: &mut Transaction, rng: &mut Rng) -> Result<Done> {
        match rng.below(12) {
            0..=2 => self.insert_child(txn, rng),
            3 => self.insert_children(txn, rng),
            4..=6 => self.delete_parent(txn, rng),
            7 | 8 => txn.put(&self.parents, &parent(rng.below(PARENTS)), b"parent").map(|()| Done::Other),
            9 | 10 => {
                let key = child(rng.below(PARENTS), rng.below(CHILDREN));
                txn.delete(&self.children, &key).map(|()| Done::Other)
            }
            // An old snapshot for what comes.
            _ => txn.get(&self.parents, &parent(0), ReadMode::Snapshot).map(|_| Done::Other),
        }
    }

    /// Runs statements, some of them undone; returns the ends of the others.
    fn statements(&self, txn: &mut Transaction, rng: &mut Rng) -> Result<Vec<Done>> {
        let mut done = Vec::new();
        let mut savepoints = Vec::new();
        for _ in 0..=rng.below(4) {
            txn.statement_begin(true, Duration::from_secs(20))?;
            if rng.one_in(4) {
                savepoints.push((txn.savepoint_set()?, done.len()));
            }
            let end = self.statement(txn, rng)?;
            let undone = rng.one_in(8);
            if undone {
                txn.statement_rollback();
            } else {
                done.push(end);
            }
            txn.statement_end();
            if !savepoints.is_empty() && rng.one_in(4) {
                let at = rng.below(savepoints.len() as u64) as usize;
                savepoints.truncate(at + 1);
                txn.savepoint_rollback(savepoints[at].0)?;
                done.truncate(savepoints[at].1);
            }
        }
        Ok(done)
    }

    fn transaction(&self, rng: &mut Rng, name: &str) -> Result<()> {
        let isolation = Isolation::from_number(rng.below(5) as u8).expect("a level");
        let options = TransactionOptions { isolation, optimistic: rng.one_in(2), ..Default::default() };
        let mut txn = begin_as(&self.db, options);
        // What waits for a prepared transaction waits for its decision.
        txn.set_lock_timeout(Some(Duration::from_millis(*rng.pick(&[0, 5, 20]))));
        txn.set_snapshot_isolation(rng.one_in(2));
        let done = self.statements(&mut txn, rng)?;
        pause(rng);
        match rng.below(8) {
            0 | 1 => return txn.rollback(),
            2 | 3 => {
                txn.prepare(Some(name.as_bytes()))?;
                pause(rng);
                if rng.one_in(4) {
                    return txn.rollback();
                }
                txn.finish(false)?;
            }
            4 if txn.has_writes() && self.db.prepared().len() < UNDECIDED => {
                // Its owner goes: somebody else decides, perhaps after a restart.
                return txn.prepare_xa(name.as_bytes());
            }
            _ => txn.commit()?,
        }
        self.counts.commits.fetch_add(1, Relaxed);
        for end in done {
            let counter = match end {
                Done::Child => &self.counts.children,
                Done::OrphanRefused => &self.counts.orphans_refused,
                Done::ParentGone => &self.counts.parents_gone,
                Done::ParentKept => &self.counts.parents_kept,
                Done::Other => continue,
            };
            counter.fetch_add(1, Relaxed);
        }
        Ok(())
    }

    fn work(&self, rng: &mut Rng, thread: u64) {
        for n in 0..TRANSACTIONS {
            let name = format!("{thread}-{n}-{}", rng.next());
            match self.transaction(rng, &name) {
                Err(error) if may_be_retried(&error) => drop(self.counts.retried.fetch_add(1, Relaxed)),
                done => done.expect("works"),
            }
            // Some are left at a round's end, and others meet them at the begin of the next.
            if (TRANSACTIONS / 3..TRANSACTIONS * 2 / 3).contains(&n) && rng.one_in(3) {
                self.decide(rng);
            }
            if rng.one_in(8) {
                self.look();
            }
            if self.found.load(Relaxed) {
                return;
            }
        }
    }

    /// Decides one of the detached XA transactions.
    fn decide(&self, rng: &mut Rng) {
        let Some(xid) = self.db.prepared().into_iter().next() else { return };
        let decided = match rng.one_in(3) {
            true => self.db.rollback_by_xid(&xid),
            false => self.db.commit_by_xid(&xid),
        };
        // Another may have been faster.
        if decided.expect("decides") {
            self.counts.decided.fetch_add(1, Relaxed);
        }
    }

    /// Compares children and parents at one snapshot.
    fn look(&self) {
        let mut txn = begin(&self.db);
        let mut keys = |family| scan(&self.db, &mut txn, family, &Asked::all(true)).expect("reads");
        let parents: BTreeSet<_> = keys(&self.parents).into_iter().map(|(key, _)| key).collect();
        if keys(&self.children).iter().any(|(key, _)| !parents.contains(&key[..1])) {
            self.found.store(true, Relaxed);
        }
    }

    /// Threads work until each has had its transactions, or a child without a parent is found.
    fn round(&self, seed: u64) {
        let working = AtomicU64::new(THREADS);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (mut rng, working) = (Rng(seed * 1000 + thread), &working);
                scope.spawn(move || {
                    let _end = CountDown(working);
                    self.work(&mut rng, thread);
                });
            }
            // The disk's clock stands still, and limits of waits count by it.
            while working.load(Relaxed) > 0 {
                std::thread::sleep(Duration::from_millis(1));
                self.disk.advance_clock(1000);
            }
        });
        self.look();
    }
}

/// Two rounds with a crash between them, and the decision of all remaining transactions. True if a child
/// without a parent was found.
fn finds_an_orphan(seed: u64, value_lock: ValueLock, counts: &Arc<Counts>) -> bool {
    let disk = FaultyDisk::new(seed);
    let model = Model::open(&disk, value_lock, counts.clone());
    model.round(seed * 2);
    let mut found = model.found.load(Relaxed);
    let after = disk.crash(Crash::Drop);
    disk.crash_at(0);
    drop(model);
    let model = Model::open(&after, value_lock, counts.clone());
    model.round(seed * 2 + 1);
    let mut rng = Rng(seed);
    while !model.db.prepared().is_empty() {
        model.decide(&mut rng);
    }
    model.look();
    found |= model.found.load(Relaxed);
    assert_eq!(model.db.stats().locks.held, 0, "seed {seed}: a lock outlives its transaction");
    found
}

#[test]
fn no_child_is_without_its_parent() {
    let counts = Arc::default();
    let all = seeds("FOREIGN_KEY", 24);
    for &seed in &all {
        let found = finds_an_orphan(seed, ValueLock::Taken, &counts);
        assert!(!found, "FOREIGN_KEY_SEED={seed}: a child without a parent");
    }
    println!("{counts:?}");
    let floor = |counter: &AtomicU64, each: u64| {
        let (done, least) = (counter.load(Relaxed), each * all.len() as u64);
        assert!(done >= least, "{done} of {least}: {counts:?}");
    };
    floor(&counts.commits, 30);
    floor(&counts.children, 10);
    floor(&counts.parents_gone, 2);
    floor(&counts.parents_kept, 5);
    floor(&counts.orphans_refused, 2);
    floor(&counts.decided, 1);
}

/// The same programs see it when the advisory locks are left out.
#[test]
fn without_advisory_locks_a_child_loses_its_parent() {
    let counts = Arc::default();
    let found = (1..=40).find(|&seed| finds_an_orphan(seed, ValueLock::LeftOut, &counts));
    println!("{found:?}, {counts:?}");
    assert!(found.is_some(), "no seed finds it: {counts:?}");
}
