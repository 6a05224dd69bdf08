//! Crashes of the whole engine on the faulty disk. Short programs crash at every call to the disk, in
//! every way, and again inside recovery; random programs crash at random calls, life after life.
//!
//! What is demanded after each crash: the store opens; its content is a prefix of the commit order that
//! has everything that was promised (all that was answered, after a killed process; all that was answered
//! in FULL, after a power cut); no transaction is there by half; prepared transactions that were answered
//! and not decided wait for their decision; no counter hands a value out twice; what recovery showed once
//! stays; no file is left over.
//!
//! `CRASH_SEEDS` runs more random programs, `CRASH_SEED` repeats one, `CRASH_STRIDE` (1: every call) thins
//! out the enumeration.

mod sim;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::Path;
use std::time::Duration;

use sim::{begin, env, open, Rng, DIR};
use tidesdb::cache::{BlockCache, FileCache};
use tidesdb::io::faulty::Crash;
use tidesdb::io::{Disk, FaultyDisk};
use tidesdb::options::{FamilyOptions, Options, SyncMode};
use tidesdb::txn::transaction::Transaction;
use tidesdb::version::{OpenFor, VersionSet};
use tidesdb::{Db, Error, Result};

/// A family in the life of the store, whatever its name.
type Incarnation = u64;

/// Length and hash of a value.
type Value = (usize, u64);

/// What a transaction does: name of a family, key, length and seed of the value or a deletion.
type Write = (&'static str, u32, Option<(usize, u64)>);

#[derive(Clone, Debug)]
enum Step {
    Commit(Option<SyncMode>, Vec<Write>),
    Prepare(&'static str, Vec<Write>),
    Decide(&'static str, bool),
    Create(&'static str),
    Drop(&'static str),
    Rename(&'static str, &'static str),
    Truncate(&'static str),
    Exchange(&'static str, &'static str),
    Record(&'static str, u64),
    Take(&'static str, u64),
    Raise(&'static str, u64),
    Flush,
    Compact(&'static str),
    SyncLog,
    Reopen,
}

fn value(len: usize, seed: u64) -> Vec<u8> {
    let mut rng = Rng(seed);
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        bytes.extend_from_slice(&rng.next().to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

fn hash(bytes: &[u8]) -> Value {
    let hash =
        bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3));
    (bytes.len(), hash)
}

fn key(n: u32) -> Vec<u8> {
    format!("key{n:06}").into_bytes()
}

/// The committed content of a store, and what is prepared and undecided.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct State {
    /// Name to family and its opaque record.
    names: BTreeMap<String, (Incarnation, Vec<u8>)>,
    rows: BTreeMap<Incarnation, BTreeMap<Vec<u8>, Value>>,
    undecided: BTreeSet<String>,
}

type Changes = Vec<(Incarnation, Vec<u8>, Option<Value>)>;

impl State {
    fn apply(&mut self, changes: &Changes) {
        for (family, key, value) in changes {
            let Some(rows) = self.rows.get_mut(family) else { continue };
            match value {
                Some(value) => rows.insert(key.clone(), *value),
                None => rows.remove(key),
            };
        }
    }

    fn changes(&self, writes: &[Write]) -> Changes {
        writes
            .iter()
            .map(|(name, n, change)| {
                (self.names[*name].0, key(*n), change.map(|(len, seed)| hash(&value(len, seed))))
            })
            .collect()
    }

    /// A short picture, for messages.
    fn picture(&self) -> String {
        let families: Vec<String> = self
            .names
            .iter()
            .map(|(name, (id, record))| {
                let keys: Vec<String> = self.rows[id]
                    .iter()
                    .map(|(k, v)| format!("{}={:x}", String::from_utf8_lossy(&k[3..]), v.1 & 0xffff))
                    .collect();
                format!("{name}#{id} {record:?} {{{}}}", keys.join(" "))
            })
            .collect();
        format!("{} undecided {:?}", families.join(", "), self.undecided)
    }
}

/// What may be found after a crash.
#[derive(Clone, Debug, Default)]
struct Expect {
    /// The state after each logged event, in the order of the log; the first is that of the last opening.
    history: Vec<State>,
    /// Events that were answered, in any mode.
    written: usize,
    /// Events that were answered and promised to survive a power cut.
    durable: usize,
    prepared: BTreeMap<String, Changes>,
    /// Highest value that the counter of a family has handed out or was raised to.
    handed: BTreeMap<Incarnation, u64>,
    next_incarnation: Incarnation,
}

impl Expect {
    fn now(&self) -> &State {
        &self.history[self.history.len() - 1]
    }

    /// The states that are right after a crash.
    fn right(&self, crash: Crash) -> &[State] {
        &self.history[if crash == Crash::Kill { self.written } else { self.durable }..]
    }
}

struct World {
    disk: FaultyDisk,
    options: Options,
    family: FamilyOptions,
    db: Option<Db>,
    live: BTreeMap<String, Transaction>,
    expect: Expect,
}

impl World {
    fn new(disk: FaultyDisk, options: Options, family: FamilyOptions) -> Result<World> {
        let mut world = World {
            disk,
            options,
            family,
            db: None,
            live: BTreeMap::new(),
            expect: Expect { history: vec![State::default()], ..Expect::default() },
        };
        world.db = Some(open(&world.disk, &world.options)?);
        Ok(world)
    }

    fn db(&self) -> &Db {
        self.db.as_ref().expect("open")
    }

    /// The event `next` is under way: from now on it may be found.
    fn event(&mut self, next: State) {
        self.expect.history.push(next);
    }

    /// Everything so far was answered.
    fn answered(&mut self, durable: bool) {
        self.expect.written = self.expect.history.len() - 1;
        if durable {
            self.expect.durable = self.expect.written;
        }
    }

    fn run(&mut self, steps: &[Step]) -> Result<()> {
        steps.iter().try_for_each(|step| self.step(step))
    }

    fn write(&self, txn: &mut Transaction, writes: &[Write]) -> Result<()> {
        for (name, n, change) in writes {
            let family = self.db().family(name.as_bytes())?;
            match change {
                Some((len, seed)) => txn.put(&family, &key(*n), &value(*len, *seed))?,
                None => txn.delete(&family, &key(*n))?,
            }
        }
        Ok(())
    }

    fn transaction(&self) -> Result<Transaction> {
        let mut txn = begin(self.db());
        txn.set_lock_timeout(Some(Duration::ZERO));
        txn.statement_begin(true, Duration::from_secs(20))?;
        Ok(txn)
    }

    fn step(&mut self, step: &Step) -> Result<()> {
        let mut next = self.expect.now().clone();
        match step {
            Step::Commit(sync, writes) => {
                let changes = next.changes(writes);
                next.apply(&changes);
                let mut txn = self.transaction()?;
                txn.set_sync(*sync);
                self.write(&mut txn, writes)?;
                self.event(next);
                txn.commit()?;
                let mode = self.options.sync_mode.max(sync.unwrap_or(SyncMode::None));
                self.answered(mode == SyncMode::Full);
            }
            Step::Prepare(xid, writes) => {
                let changes = next.changes(writes);
                next.undecided.insert((*xid).to_string());
                let mut txn = self.transaction()?;
                self.write(&mut txn, writes)?;
                self.expect.prepared.insert((*xid).to_string(), changes);
                self.event(next);
                let done = txn.prepare(Some(xid.as_bytes()));
                self.live.insert((*xid).to_string(), txn);
                done?;
                self.answered(true);
            }
            Step::Decide(xid, commit) => {
                next.undecided.remove(*xid);
                if *commit {
                    next.apply(&self.expect.prepared[*xid]);
                }
                let live = self.live.remove(*xid);
                self.event(next);
                let mut durable = true;
                match (live, *commit) {
                    (Some(mut txn), true) => {
                        txn.finish(false)?;
                        durable = self.options.sync_mode == SyncMode::Full;
                    }
                    (Some(mut txn), false) => txn.rollback()?,
                    (None, true) => assert!(self.db().commit_by_xid(xid.as_bytes())?, "{xid} is known"),
                    (None, false) => assert!(self.db().rollback_by_xid(xid.as_bytes())?, "{xid} is known"),
                }
                self.answered(durable);
            }
            Step::Create(name) => {
                self.expect.next_incarnation += 1;
                let id = self.expect.next_incarnation;
                next.names.insert((*name).to_string(), (id, b"new".to_vec()));
                next.rows.insert(id, BTreeMap::new());
                let mut ddl = self.db().ddl()?;
                ddl.create(name.as_bytes(), self.family.clone(), b"new")?;
                self.event(next);
                ddl.commit()?;
                self.answered(true);
            }
            Step::Drop(name) => {
                if let Some((id, _)) = next.names.remove(*name) {
                    next.rows.remove(&id);
                }
                let mut ddl = self.db().ddl()?;
                ddl.drop_family(name.as_bytes())?;
                self.event(next);
                ddl.commit()?;
                self.answered(true);
            }
            Step::Rename(from, to) => {
                if let Some(family) = next.names.remove(*from) {
                    next.names.insert((*to).to_string(), family);
                }
                let mut ddl = self.db().ddl()?;
                ddl.rename(from.as_bytes(), to.as_bytes())?;
                self.event(next);
                ddl.commit()?;
                self.answered(true);
            }
            Step::Truncate(name) => {
                self.expect.next_incarnation += 1;
                let id = self.expect.next_incarnation;
                if let Some((old, _)) = next.names.get(*name).cloned() {
                    next.rows.remove(&old);
                }
                if let Some(entry) = next.names.get_mut(*name) {
                    entry.0 = id;
                }
                next.rows.insert(id, BTreeMap::new());
                let mut ddl = self.db().ddl()?;
                ddl.truncate(name.as_bytes())?;
                self.event(next);
                ddl.commit()?;
                self.answered(true);
            }
            Step::Exchange(a, b) => {
                let (one, other) = (next.names[*a].clone(), next.names[*b].clone());
                next.names.insert((*a).to_string(), other);
                next.names.insert((*b).to_string(), one);
                let mut ddl = self.db().ddl()?;
                ddl.rename(a.as_bytes(), b"between")?;
                ddl.rename(b.as_bytes(), a.as_bytes())?;
                ddl.rename(b"between", b.as_bytes())?;
                self.event(next);
                ddl.commit()?;
                self.answered(true);
            }
            Step::Record(name, seed) => {
                if let Some(entry) = next.names.get_mut(*name) {
                    entry.1 = value(20, *seed);
                }
                let mut ddl = self.db().ddl()?;
                ddl.set_record(name.as_bytes(), &value(20, *seed))?;
                self.event(next);
                ddl.commit()?;
                self.answered(true);
            }
            Step::Take(name, count) => {
                let id = next.names[*name].0;
                let family = self.db().family(name.as_bytes())?;
                let first = self.db().counter_take(&family, 0, *count, 1, 1, u64::MAX)?;
                let handed = self.expect.handed.entry(id).or_default();
                assert!(first > *handed, "{first} was handed out before: {handed}");
                *handed = first + count - 1;
            }
            Step::Raise(name, to) => {
                let id = next.names[*name].0;
                let family = self.db().family(name.as_bytes())?;
                self.db().counter_raise(&family, 0, *to)?;
                let handed = self.expect.handed.entry(id).or_default();
                *handed = (*handed).max(*to);
            }
            Step::Flush => {
                self.db().flush()?;
            }
            Step::Compact(name) => {
                let family = self.db().family(name.as_bytes())?;
                self.db().compact(&family)?;
            }
            Step::SyncLog => {
                self.db().flush_log()?;
                self.answered(true);
            }
            Step::Reopen => {
                for (xid, mut txn) in std::mem::take(&mut self.live) {
                    let mut next = self.expect.now().clone();
                    next.undecided.remove(&xid);
                    self.event(next);
                    txn.rollback()?;
                    self.answered(true);
                }
                if let Some(db) = self.db.take() {
                    db.close()?;
                }
                self.answered(true);
                self.db = Some(open(&self.disk, &self.options)?);
            }
        }
        Ok(())
    }

    /// Ends the process; what the disk holds is what [`FaultyDisk::crash`] makes of it.
    fn die(mut self) -> (FaultyDisk, Expect) {
        self.disk.crash_at(0);
        self.live.clear();
        self.db = None;
        (self.disk, self.expect)
    }
}

/// The content of a store, with the incarnations that `like` gives its names.
fn observe(db: &Db, like: &[State]) -> Result<State> {
    let mut seen = State::default();
    let mut rows = BTreeMap::new();
    for name in db.family_names(b"") {
        let family = db.family(&name)?;
        db.verify(&family)?;
        let content: BTreeMap<Vec<u8>, Value> =
            sim::rows(db, &family)?.into_iter().map(|(k, v)| (k, hash(&v))).collect();
        let name = String::from_utf8_lossy(&name).into_owned();
        seen.names.insert(name.clone(), (0, family.record().to_vec()));
        rows.insert(name, content);
    }
    seen.undecided = db.prepared().iter().map(|xid| String::from_utf8_lossy(xid).into_owned()).collect();
    // Incarnations cannot be seen from outside: take those of the right state that looks the same.
    let same = like.iter().rev().find(|state| {
        state.undecided == seen.undecided
            && state.names.len() == seen.names.len()
            && state.names.iter().all(|(name, (id, record))| {
                seen.names.get(name).is_some_and(|(_, r)| r == record) && state.rows[id] == rows[name]
            })
    });
    match same {
        Some(state) => Ok(state.clone()),
        None => {
            for (id, (name, content)) in rows.into_iter().enumerate() {
                if let Some(entry) = seen.names.get_mut(&name) {
                    entry.0 = id as u64 + 1_000_000;
                }
                seen.rows.insert(id as u64 + 1_000_000, content);
            }
            Ok(seen)
        }
    }
}

/// Opens the store after a crash and compares; returns it with the state that was found.
fn recover(disk: &FaultyDisk, options: &Options, expect: &Expect, crash: Crash) -> (Db, State) {
    let db = open(disk, options).unwrap_or_else(|e| panic!("after {crash:?} the store does not open: {e}"));
    let right = expect.right(crash);
    let seen = observe(&db, right).unwrap_or_else(|e| panic!("after {crash:?} it does not read: {e}"));
    if !right.contains(&seen) {
        for (at, state) in expect.history.iter().enumerate().rev().take(6) {
            println!("right {at}: {}", state.picture());
        }
        println!("found: {}", seen.picture());
        let lost = expect.history.contains(&seen);
        panic!(
            "after {crash:?}: {} ({} written, {} durable of {})",
            if lost { "promised commits are lost" } else { "no prefix of the commit order" },
            expect.written,
            expect.durable,
            expect.history.len() - 1
        );
    }
    for (name, (id, _)) in &seen.names {
        let Some(handed) = expect.handed.get(id) else { continue };
        let family = db.family(name.as_bytes()).expect("there");
        let next = db.counter_peek(&family, 0).expect("peeks");
        assert!(
            next > *handed,
            "after {crash:?} the counter of {name} gives {next}; {handed} was handed out"
        );
    }
    (db, seen)
}

/// A recovered store goes on: prepared ones are decided, commits follow, and a power cut loses nothing.
fn goes_on(disk: &FaultyDisk, options: &Options, expect: &Expect, (db, seen): (Db, State), seed: u64) {
    let mut rng = Rng(seed);
    let mut state = seen;
    let mut handed = expect.handed.clone();
    for xid in state.undecided.clone() {
        let commit = rng.one_in(2);
        let known = match commit {
            true => db.commit_by_xid(xid.as_bytes()),
            false => db.rollback_by_xid(xid.as_bytes()),
        };
        assert!(known.expect("decides"), "{xid} waits for its decision");
        state.undecided.remove(&xid);
        if commit {
            state.apply(&expect.prepared[&xid]);
        }
    }
    for (name, (id, _)) in state.names.clone() {
        let family = db.family(name.as_bytes()).expect("there");
        let taken = db.counter_take(&family, 0, 3, 1, 1, u64::MAX).expect("takes");
        let highest = handed.entry(id).or_default();
        assert!(taken > *highest, "{taken} was handed out before ({highest})");
        *highest = taken + 2;
        let mut txn = begin(&db);
        txn.set_sync(Some(SyncMode::Full));
        let value = value(30, rng.next());
        txn.put(&family, &key(999), &value).expect("puts");
        txn.commit().expect("commits");
        state.apply(&vec![(id, key(999), Some(hash(&value)))]);
    }
    let next = disk.crash(Crash::Drop);
    disk.crash_at(0);
    drop(db);
    let all = Expect { history: vec![state.clone()], handed, ..expect.clone() };
    let all = Expect { written: 0, durable: 0, ..all };
    let (db, _) = recover(&next, options, &all, Crash::Drop);
    // And a clean restart leaves no file that nothing names.
    db.close().expect("closes");
    let quiet = Options { compaction_threads: 0, ..options.clone() };
    let db = open(&next, &quiet).expect("opens");
    no_orphans(&next.crash(Crash::Kill));
    let seen = observe(&db, std::slice::from_ref(&state)).expect("reads");
    assert_eq!(seen, state, "after a clean restart");
}

fn no_orphans(disk: &FaultyDisk) {
    let dir = Path::new(DIR);
    let tables = FileCache::new(disk.shared(), dir, 8);
    let cache = BlockCache::new(0);
    let set = VersionSet::open(disk.shared(), dir, tables, cache, OpenFor::Read).expect("the manifest reads");
    let (files, manifest) = set.live_files();
    let named: HashSet<String> = files.iter().map(|file| format!("{:08}.sst", file.number)).collect();
    let names = disk.list(dir).expect("lists");
    let tables: HashSet<String> = names.iter().filter(|name| name.ends_with(".sst")).cloned().collect();
    assert_eq!(tables, named, "tables on disk, and tables in the manifest {manifest:?}");
    let manifests = names.iter().filter(|name| name.starts_with("MANIFEST")).count();
    assert_eq!(manifests, 1, "one manifest: {names:?}");
    let logs = disk.list(&dir.join("wal")).expect("lists").len();
    assert!(logs <= 24, "{logs} files of the log");
}

fn put(family: &'static str, n: u32, seed: u64) -> Write {
    (family, n, Some((10 + (seed % 50) as usize, seed)))
}

fn commit(writes: &[Write]) -> Step {
    Step::Commit(None, writes.to_vec())
}

fn full(writes: &[Write]) -> Step {
    Step::Commit(Some(SyncMode::Full), writes.to_vec())
}

/// Commits that fill about `bytes` of log and memtable.
fn filling(family: &'static str, count: u32, bytes: usize, seed: u64) -> Vec<Step> {
    (0..count).map(|n| commit(&[(family, n % 17, Some((bytes, seed + u64::from(n))))])).collect()
}

fn large(family: &'static str, seed: u64) -> Vec<Write> {
    (0..40u32).map(|n| (family, n, Some((28_000, seed + u64::from(n))))).collect()
}

/// The short programs: a name, whether the constants are tiny, the steps.
fn short_programs() -> Vec<(&'static str, bool, Vec<Step>)> {
    use Step::*;
    let a = |n, seed| put("a", n, seed);
    let mut all: Vec<(&'static str, bool, Vec<Step>)> = vec![
        ("an empty store", true, vec![]),
        ("one commit", true, vec![Create("a"), commit(&[a(1, 1)])]),
        (
            "commits of many keys",
            true,
            vec![
                Create("a"),
                Create("b"),
                commit(&[a(1, 1), a(2, 2), put("b", 1, 3)]),
                commit(&[a(1, 4), ("a", 2, None), put("b", 2, 5)]),
                commit(&[("b", 1, None), ("b", 2, None), a(3, 6)]),
            ],
        ),
        (
            "commits of mixed modes",
            true,
            vec![
                Create("a"),
                commit(&[a(1, 1)]),
                commit(&[a(2, 1)]),
                full(&[a(3, 1)]),
                commit(&[a(1, 2)]),
                commit(&[a(2, 2)]),
                Step::Commit(Some(SyncMode::Interval), vec![a(4, 2)]),
                full(&[a(3, 2)]),
                commit(&[a(1, 3)]),
            ],
        ),
        (
            "a sync of the log",
            true,
            vec![Create("a"), commit(&[a(1, 1)]), commit(&[a(2, 1)]), SyncLog, commit(&[a(3, 1)])],
        ),
        (
            "prepare and commit",
            true,
            vec![
                Create("a"),
                commit(&[a(1, 1)]),
                Prepare("x1", vec![a(2, 2), a(3, 2)]),
                Decide("x1", true),
                commit(&[a(2, 3)]),
            ],
        ),
        (
            "prepare and roll back",
            true,
            vec![
                Create("a"),
                commit(&[a(1, 1)]),
                Prepare("x1", vec![a(1, 2), a(3, 2)]),
                Decide("x1", false),
                commit(&[a(1, 3)]),
            ],
        ),
        (
            "prepared ones beside each other",
            true,
            vec![
                Create("a"),
                Prepare("x1", vec![a(1, 1)]),
                commit(&[a(7, 1)]),
                Prepare("x2", vec![a(2, 2), ("a", 7, None)]),
                Prepare("x3", vec![a(3, 3)]),
                Decide("x2", true),
                commit(&[a(8, 8)]),
                Decide("x1", false),
                commit(&[a(9, 8)]),
            ],
        ),
        (
            "prepared over a flush",
            true,
            vec![
                Create("a"),
                Prepare("x1", vec![a(1, 1)]),
                commit(&[a(2, 1)]),
                Flush,
                commit(&[a(3, 1)]),
                Decide("x1", true),
                Flush,
                commit(&[a(4, 4)]),
            ],
        ),
        (
            "rolled back over a flush",
            true,
            vec![
                Create("a"),
                Prepare("x1", vec![a(1, 1)]),
                commit(&[a(2, 1)]),
                Flush,
                Decide("x1", false),
                Flush,
                commit(&[a(1, 4)]),
                Flush,
            ],
        ),
        (
            "create, drop, create",
            true,
            vec![Create("a"), commit(&[a(1, 1)]), Drop("a"), Create("a"), commit(&[a(2, 2)]), Drop("a")],
        ),
        (
            "drop over a flush",
            true,
            vec![
                Create("a"),
                Create("b"),
                commit(&[a(1, 1), put("b", 1, 1)]),
                Flush,
                Drop("a"),
                commit(&[put("b", 2, 2)]),
                Flush,
                Create("a"),
                commit(&[a(3, 3)]),
            ],
        ),
        (
            "rename",
            true,
            vec![
                Create("a"),
                commit(&[a(1, 1)]),
                Rename("a", "b"),
                commit(&[put("b", 2, 2)]),
                Flush,
                Rename("b", "c"),
                commit(&[put("c", 1, 3)]),
            ],
        ),
        (
            "truncate",
            true,
            vec![
                Create("a"),
                commit(&[a(1, 1), a(2, 1)]),
                Truncate("a"),
                commit(&[a(2, 2)]),
                Flush,
                Truncate("a"),
                commit(&[a(3, 3)]),
            ],
        ),
        (
            "exchange",
            true,
            vec![
                Create("a"),
                Create("b"),
                commit(&[a(1, 1), put("b", 1, 2)]),
                Exchange("a", "b"),
                commit(&[a(2, 3)]),
                Flush,
                Exchange("a", "b"),
            ],
        ),
        (
            "records",
            true,
            vec![Create("a"), Record("a", 5), commit(&[a(1, 1)]), Flush, Record("a", 6), Record("a", 7)],
        ),
        (
            "a drop with a prepared transaction on it",
            true,
            vec![
                Create("a"),
                Create("b"),
                Prepare("x1", vec![a(1, 1), put("b", 1, 1)]),
                Drop("a"),
                commit(&[put("b", 2, 2)]),
                Flush,
                Decide("x1", true),
                commit(&[put("b", 3, 2)]),
            ],
        ),
        (
            "counters",
            true,
            vec![
                Create("a"),
                Take("a", 1),
                Take("a", 5),
                commit(&[a(1, 1)]),
                Take("a", 200),
                Raise("a", 10_000),
                Take("a", 1),
                Flush,
                Take("a", 3),
                Take("a", 500),
            ],
        ),
        (
            "counters of a truncated and a renamed family",
            true,
            vec![
                Create("a"),
                Take("a", 100),
                Rename("a", "b"),
                Take("b", 100),
                Truncate("b"),
                Take("b", 7),
                Flush,
                Take("b", 7),
            ],
        ),
        (
            "counters over restarts",
            true,
            vec![Create("a"), Take("a", 10), Reopen, Take("a", 10), Reopen, Take("a", 200), Reopen],
        ),
        (
            "restarts",
            true,
            vec![
                Create("a"),
                commit(&[a(1, 1)]),
                Reopen,
                commit(&[a(2, 2)]),
                Prepare("x1", vec![a(3, 3)]),
                Reopen,
                commit(&[a(4, 4)]),
                Reopen,
            ],
        ),
        (
            "flushes",
            true,
            vec![
                Create("a"),
                commit(&[a(1, 1), a(2, 1)]),
                Flush,
                commit(&[a(1, 2), ("a", 2, None)]),
                Flush,
                commit(&[a(3, 3)]),
                Flush,
            ],
        ),
        (
            "flushes of several families",
            true,
            vec![
                Create("a"),
                Create("b"),
                Create("c"),
                commit(&[a(1, 1), put("b", 1, 1), put("c", 1, 1)]),
                Flush,
                commit(&[put("b", 1, 2)]),
                Flush,
                commit(&[a(1, 3), put("c", 1, 3)]),
                Flush,
            ],
        ),
        (
            "a compaction",
            true,
            vec![
                Create("a"),
                commit(&[a(1, 1), a(2, 1), a(3, 1)]),
                Flush,
                commit(&[a(1, 2), ("a", 2, None)]),
                Compact("a"),
                commit(&[a(4, 4)]),
                Compact("a"),
            ],
        ),
        ("compactions of several files", true, {
            let mut steps = vec![Create("a")];
            steps.extend(filling("a", 60, 300, 1));
            steps.push(Compact("a"));
            steps.extend(filling("a", 30, 300, 100));
            steps.push(Compact("a"));
            steps
        }),
    ];
    let mut recycling = vec![Create("a")];
    recycling.extend(filling("a", 40, 3_000, 1));
    recycling.push(Flush);
    recycling.extend(filling("a", 30, 3_000, 100));
    all.push(("recycling of the log", true, recycling));
    let mut held = vec![Create("a"), Prepare("x1", vec![a(100, 1)])];
    held.extend(filling("a", 40, 3_000, 1));
    held.push(Flush);
    held.extend([Decide("x1", true), commit(&[a(101, 1)])]);
    held.extend(filling("a", 25, 3_000, 100));
    all.push(("a prepared transaction holds the log", true, held));
    let mut rolled = vec![Create("a"), Prepare("x1", vec![a(100, 1)])];
    rolled.extend(filling("a", 40, 3_000, 1));
    rolled.extend([Decide("x1", false), commit(&[a(100, 2)])]);
    rolled.extend(filling("a", 25, 3_000, 100));
    all.push(("a rolled back transaction held the log", true, rolled));
    all.push((
        "a large batch",
        false,
        vec![
            Create("a"),
            commit(&[a(1, 1)]),
            commit(&large("a", 100)),
            commit(&[a(2, 2)]),
            Flush,
            commit(&[a(3, 3)]),
        ],
    ));
    all.push((
        "a large batch, prepared",
        false,
        vec![
            Create("a"),
            Prepare("x1", large("a", 100)),
            commit(&[a(50, 1)]),
            Decide("x1", true),
            commit(&[a(2, 2)]),
        ],
    ));
    all.extend(spilled_programs());
    all
}

/// Writes that outgrow half of the tiny write buffer: `count` keys from `first` on, every fifth deleted. About
/// 50 of them fill it once.
fn spilling(family: &'static str, first: u32, count: u32, seed: u64) -> Vec<Write> {
    let write = |n| match n % 5 {
        4 => (family, n, None),
        _ => put(family, n, seed + u64::from(n)),
    };
    (first..first + count).map(write).collect()
}

/// Programs with transactions whose changes go to runs.
fn spilled_programs() -> Vec<(&'static str, bool, Vec<Step>)> {
    use Step::*;
    let a = |n, seed| put("a", n, seed);
    let mut both = spilling("a", 0, 80, 300);
    both.extend(spilling("b", 20, 80, 400));
    both.extend(spilling("a", 30, 70, 500));
    vec![
        (
            "a spilled commit",
            true,
            vec![
                Create("a"),
                commit(&[a(1, 1), a(2, 1), a(95, 1)]),
                commit(&spilling("a", 0, 90, 100)),
                commit(&[a(2, 2), a(4, 4)]),
                Flush,
                commit(&[a(3, 3)]),
            ],
        ),
        (
            "a spilled commit, merged, of two families",
            true,
            vec![
                Create("a"),
                Create("b"),
                commit(&[a(1, 1), put("b", 21, 1)]),
                commit(&both),
                commit(&[a(31, 2), put("b", 22, 2)]),
                commit(&spilling("a", 25, 180, 600)),
                Compact("a"),
                commit(&[a(3, 3)]),
            ],
        ),
        (
            "spilled commits over restarts",
            true,
            vec![
                Create("a"),
                commit(&spilling("a", 0, 90, 100)),
                commit(&[a(1, 2)]),
                commit(&spilling("a", 10, 90, 200)),
                Reopen,
                commit(&[a(2, 2)]),
                commit(&spilling("a", 20, 180, 300)),
                Reopen,
                commit(&[a(3, 2)]),
            ],
        ),
        (
            "spilled, prepared and committed",
            true,
            vec![
                Create("a"),
                Create("b"),
                commit(&[a(1, 1)]),
                Prepare("x1", spilling("a", 0, 90, 100)),
                commit(&[put("b", 1, 1)]),
                Flush,
                Decide("x1", true),
                commit(&[a(2, 2)]),
                Flush,
                commit(&[a(3, 2)]),
            ],
        ),
        (
            "spilled, prepared and rolled back",
            true,
            vec![
                Create("a"),
                Create("b"),
                commit(&[a(1, 1)]),
                Prepare("x1", both),
                Decide("x1", false),
                commit(&[put("b", 1, 1), a(7, 7)]),
                Flush,
                commit(&[a(2, 2)]),
            ],
        ),
        (
            "a drop with a spilled and prepared transaction on it",
            true,
            vec![
                Create("a"),
                Create("b"),
                Prepare("x1", spilling("a", 0, 90, 100)),
                Drop("a"),
                commit(&[put("b", 2, 2)]),
                Flush,
                Decide("x1", true),
                commit(&[put("b", 3, 2)]),
            ],
        ),
    ]
}

fn constants(tiny: bool, mode: SyncMode) -> (Options, FamilyOptions) {
    let (mut options, family) = match tiny {
        true => (sim::tiny(mode), sim::tiny_family()),
        false => (
            Options { write_buffer_size: 4 << 20, wal_segment_size: 256 << 10, ..sim::tiny(mode) },
            FamilyOptions { block_size: 4096, ..sim::tiny_family() },
        ),
    };
    options.compaction_threads = 0;
    (options, family)
}

fn attempt<T>(what: impl Fn() -> String, work: impl FnOnce() -> T) -> T {
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)) {
        Ok(done) => done,
        Err(panic) => {
            println!("FAILED: {}", what());
            std::panic::resume_unwind(panic);
        }
    }
}

/// Calls that opening a new store takes: a crash among them leaves nothing to speak of, and is tried in
/// one program only.
fn calls_of_opening(options: &Options) -> u64 {
    let disk = FaultyDisk::new(1);
    let db = open(&disk, options).expect("opens");
    let calls = disk.calls();
    drop(db);
    calls
}

#[test]
fn a_crash_at_every_call_of_short_programs() {
    let stride = env("CRASH_STRIDE", 1).max(1);
    let only = std::env::var("CRASH_PROGRAM").ok();
    let (mut points, mut crashes, mut inner) = (0u64, 0u64, 0u64);
    let (mut recycled, mut spilled) = (false, 0);
    for (ordinal, (name, tiny, steps)) in short_programs().into_iter().enumerate() {
        if only.as_ref().is_some_and(|only| only != name) {
            continue;
        }
        for mode in [SyncMode::None, SyncMode::Full] {
            let (options, family) = constants(tiny, mode);
            let seed = ordinal as u64 * 2 + mode as u64;
            let mut world =
                World::new(FaultyDisk::new(seed), options.clone(), family.clone()).expect("opens");
            world.run(&steps).unwrap_or_else(|e| panic!("{name} without a crash: {e}"));
            recycled |= world.db().stats().wal_segment > 6;
            spilled += world.db().stats().spilled_runs;
            let calls = world.disk.calls();
            drop(world.die());
            let first = if ordinal == 0 { 1 } else { calls_of_opening(&options) + 1 };
            // The long ones are thinned out, each mode in its own way, so that they stay affordable.
            let step = stride * (calls / 400 + 1);
            let mut n = first + seed % step;
            while n <= calls + 1 {
                points += 1;
                let disk = FaultyDisk::new(seed);
                disk.crash_at(n);
                let (dead, expect) = match World::new(disk.clone(), options.clone(), family.clone()) {
                    Ok(mut world) => {
                        // An error is the crash; what was answered before it counts.
                        let _ = world.run(&steps);
                        world.die()
                    }
                    Err(_) => (disk, Expect { history: vec![State::default()], ..Expect::default() }),
                };
                for (which, crash) in Crash::ALL.into_iter().enumerate() {
                    crashes += 1;
                    let what = || format!("{name}, {mode:?}, call {n} of {calls}, {crash:?}");
                    attempt(what, || {
                        let found = dead.crash(crash);
                        if which as u64 == n % 6 && (n / 6) % 17 == 0 {
                            inner += crash_inside_recovery(&found, &options, &expect, crash, n);
                        }
                        let recovered = recover(&found, &options, &expect, crash);
                        if which as u64 == (n / 3) % 6 {
                            goes_on(&found, &options, &expect, recovered, n);
                        } else {
                            found.crash_at(0);
                        }
                    });
                }
                n += step;
            }
        }
    }
    println!("{points} crash points, {crashes} crashes, {inner} crashes inside recovery");
    println!("{spilled} runs of spilled transactions without a crash");
    assert!(only.is_some() || recycled, "a segment of the log was used again");
    assert!(only.is_some() || spilled > 20, "transactions spilled");
}

/// Crashes the recovery of `found` at every one of its calls; the next recovery must find what is right.
fn crash_inside_recovery(
    found: &FaultyDisk,
    options: &Options,
    expect: &Expect,
    crash: Crash,
    seed: u64,
) -> u64 {
    let dry = found.crash(Crash::Kill);
    drop(open(&dry, options).expect("opens"));
    let calls = dry.calls();
    let mut crashes = 0;
    for n in 1..=calls {
        let again = found.crash(Crash::Kill);
        if !dry.history()[n as usize - 1].changes() {
            continue;
        }
        again.crash_at(n);
        drop(open(&again, options));
        let second = Crash::ALL[((n + seed) % 6) as usize];
        let disk = again.crash(second);
        // Of two crashes the weaker promise counts.
        let worst = if crash == Crash::Kill { second } else { crash };
        attempt(
            || format!("and inside recovery at call {n} of {calls}, {second:?}"),
            || {
                let (db, _) = recover(&disk, options, expect, worst);
                disk.crash_at(0);
                drop(db);
            },
        );
        crashes += 1;
    }
    crashes
}

const NAMES: [&str; 3] = ["a", "b", "c"];
const XIDS: [&str; 12] = ["x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11"];

/// The next step of a random program, possible in the state that the world is in.
fn random_step(rng: &mut Rng, world: &World, life: u64) -> Step {
    let state = world.expect.now();
    let names: Vec<&'static str> = NAMES.into_iter().filter(|name| state.names.contains_key(*name)).collect();
    let free: Vec<&'static str> = NAMES.into_iter().filter(|name| !state.names.contains_key(*name)).collect();
    if names.is_empty() {
        return Step::Create(rng.pick::<&'static str>(&free));
    }
    let name = *rng.pick(&names);
    // Keys of prepared transactions are theirs alone: nothing waits in these programs.
    let writes = |rng: &mut Rng, base: u32| -> Vec<Write> {
        let count = if rng.one_in(8) { 30 } else { 1 + rng.below(4) };
        (0..count)
            .map(|_| {
                let name = *rng.pick(&names);
                let len = if rng.one_in(10) { 400 } else { rng.below(60) as usize };
                let change = (!rng.one_in(4)).then(|| (len, rng.next()));
                (name, base + rng.below(40) as u32, change)
            })
            .collect()
    };
    match rng.below(100) {
        0..=54 => {
            let sync = *rng.pick(&[None, None, Some(SyncMode::None), Some(SyncMode::Full)]);
            Step::Commit(sync, writes(rng, 0))
        }
        55..=62 => {
            let used = |xid: &str| world.expect.prepared.contains_key(xid);
            match XIDS.iter().position(|xid| !used(xid)) {
                Some(at) => Step::Prepare(XIDS[at], writes(rng, 1000 + at as u32 * 100)),
                None => Step::SyncLog,
            }
        }
        63..=70 => match state.undecided.iter().next() {
            Some(xid) => {
                let at = XIDS.iter().position(|known| known == xid).expect("one of ours");
                Step::Decide(XIDS[at], rng.one_in(2))
            }
            None => Step::Take(name, 1 + rng.below(100)),
        },
        71..=73 if !free.is_empty() => Step::Create(rng.pick::<&'static str>(&free)),
        74..=75 => Step::Drop(name),
        76..=77 if !free.is_empty() => Step::Rename(name, rng.pick::<&'static str>(&free)),
        78..=79 => Step::Truncate(name),
        80 if names.len() > 1 => Step::Exchange(names[0], names[1]),
        81 => Step::Record(name, life),
        82..=85 => Step::Take(name, 1 + rng.below(150)),
        86 => Step::Raise(name, rng.below(2000)),
        87..=90 => Step::Flush,
        91..=92 => Step::Compact(name),
        93..=94 => Step::SyncLog,
        95 if life > 0 => Step::Reopen,
        _ => Step::Commit(None, writes(rng, 0)),
    }
}

/// Three lives of a store, each ended by a crash at a random call.
fn random_lives(seed: u64) -> (u64, u64) {
    let mut rng = Rng(seed);
    let mode = *rng.pick(&[SyncMode::None, SyncMode::Interval, SyncMode::Full]);
    let (mut options, family) = constants(true, mode);
    options.write_buffer_size = *rng.pick(&[4 << 10, 8 << 10, 64 << 10]);
    options.compaction_threads = rng.below(2) as usize;
    let mut disk = FaultyDisk::new(seed);
    let mut world = World::new(disk.clone(), options.clone(), family.clone()).expect("opens");
    let (mut steps, mut lives) = (0, 0);
    for life in 0..3u64 {
        lives += 1;
        let calls = disk.calls();
        let far = *rng.pick(&[20, 60, 200, 600]);
        disk.crash_at(calls + 1 + rng.below(far));
        let trace = std::env::var("CRASH_TRACE").is_ok();
        for _ in 0..60 {
            let step = random_step(&mut rng, &world, life);
            if trace {
                println!("life {life}, call {}: {step:?}", disk.calls());
            }
            steps += 1;
            if let Err(error) = world.step(&step) {
                if trace {
                    println!("ends: {error}");
                }
                assert!(
                    !matches!(
                        error,
                        Error::Corruption { .. }
                            | Error::InvalidArgument(_)
                            | Error::Conflict
                            | Error::Duplicate
                    ),
                    "{step:?}: {error}"
                );
                break;
            }
        }
        let (dead, expect) = world.die();
        let crash = *rng.pick(&Crash::ALL);
        if trace {
            println!("crash {crash:?}");
        }
        let found = dead.crash(crash);
        if rng.one_in(8) {
            let again = found.crash(Crash::Kill);
            again.crash_at(1 + rng.below(80));
            drop(open(&again, &options));
            let second = *rng.pick(&Crash::ALL);
            let worst = if crash == Crash::Kill { second } else { crash };
            let twice = again.crash(second);
            drop(recover(&twice, &options, &expect, worst));
        }
        let (db, seen) = recover(&found, &options, &expect, crash);
        disk = found;
        // What was found is the past from now on; what is gone may not come back.
        let prepared = expect.prepared.clone();
        world = World {
            disk: disk.clone(),
            options: options.clone(),
            family: family.clone(),
            db: Some(db),
            live: BTreeMap::new(),
            expect: Expect { history: vec![seen], written: 0, durable: 0, prepared, ..expect },
        };
    }
    let World { db, expect, .. } = world;
    let db = db.expect("open");
    let state = expect.now().clone();
    goes_on(&disk, &options, &expect, (db, state), seed);
    (steps, lives)
}

#[test]
fn random_programs_crash_at_random_calls_life_after_life() {
    let seeds: Vec<u64> = match std::env::var("CRASH_SEED") {
        Ok(seed) => vec![seed.parse().expect("a number")],
        Err(_) => (1..=env("CRASH_SEEDS", 2000)).collect(),
    };
    let (mut steps, mut lives) = (0, 0);
    for &seed in &seeds {
        let (s, l) = attempt(|| format!("CRASH_SEED={seed}"), || random_lives(seed));
        steps += s;
        lives += l;
    }
    println!("{} programs, {steps} steps, {lives} crashes", seeds.len());
}

/// Whether a step can be made in this state: one before it may have failed.
fn is_possible(step: &Step, world: &World) -> bool {
    let state = world.expect.now();
    let has = |name: &&str| state.names.contains_key(*name);
    match step {
        Step::Commit(_, writes) | Step::Prepare(_, writes) => writes.iter().all(|(name, _, _)| has(name)),
        Step::Decide(xid, _) => state.undecided.contains(*xid),
        Step::Create(name) => !has(name),
        Step::Rename(from, to) => has(from) && !has(to),
        Step::Exchange(a, b) => has(a) && has(b),
        Step::Drop(name)
        | Step::Truncate(name)
        | Step::Record(name, _)
        | Step::Take(name, _)
        | Step::Raise(name, _)
        | Step::Compact(name) => has(name),
        Step::Flush | Step::SyncLog | Step::Reopen => true,
    }
}

/// Runs the steps on a disk on which a call fails; goes on after errors, unless the log is dead.
fn run_with_failure(world: &mut World, steps: &[Step]) {
    for step in steps {
        if world.db.is_none() {
            // The opening failed, and nothing fails any more.
            world.db = Some(open(&world.disk, &world.options).expect("opens after a failed opening"));
        }
        if !is_possible(step, world) {
            continue;
        }
        let (events, xids) = (world.expect.history.len(), world.live.len());
        let Err(error) = world.step(step) else { continue };
        assert!(
            !matches!(error, Error::InvalidArgument(_) | Error::Conflict | Error::Duplicate),
            "{step:?}: {error}"
        );
        if matches!(error, Error::OutcomeUnknown) {
            // It may be there, and nothing follows.
            return;
        }
        // It was refused: it may not be there. (A clean restart takes what was answered with it.)
        if !matches!(step, Step::Reopen) {
            world.expect.history.truncate(events);
        }
        if let (Step::Prepare(xid, _), true) = (step, world.live.len() > xids) {
            world.live.remove(*xid);
        }
        if matches!(error, Error::ReadOnly(_)) || world.db.as_ref().is_some_and(|db| db.flush_log().is_err())
        {
            return;
        }
    }
    if let Some(db) = &world.db {
        let mut now = world.expect.now().clone();
        // Prepared transactions of this life are not among the recovered ones.
        now.undecided = db.prepared().iter().map(|xid| String::from_utf8_lossy(xid).into_owned()).collect();
        // The failure may hit this very reading, once.
        let like = std::slice::from_ref(&now);
        let seen = observe(db, like).or_else(|_| observe(db, like)).expect("reads");
        assert_eq!(seen, now, "before the crash");
    }
}

#[test]
fn a_failing_call_loses_nothing_that_was_answered() {
    use tidesdb::io::faulty::Failure;
    let stride = env("CRASH_STRIDE", 1).max(1) * 3;
    let only = std::env::var("CRASH_PROGRAM").ok();
    let mut failures = 0;
    for (ordinal, (name, tiny, steps)) in short_programs().into_iter().enumerate() {
        if only.as_ref().is_some_and(|only| only != name) {
            continue;
        }
        let mode = [SyncMode::None, SyncMode::Full][ordinal % 2];
        let (options, family) = constants(tiny, mode);
        let seed = ordinal as u64;
        let mut world = World::new(FaultyDisk::new(seed), options.clone(), family.clone()).expect("opens");
        world.run(&steps).unwrap_or_else(|e| panic!("{name} without a failure: {e}"));
        let calls = world.disk.calls();
        drop(world.die());
        let mut n = 1 + seed % stride;
        while n <= calls {
            for failure in [Failure::Eio, Failure::Enospc, Failure::ShortRead] {
                failures += 1;
                let disk = FaultyDisk::new(seed);
                disk.fail_call(n, failure);
                attempt(
                    || format!("{name}, {mode:?}, {failure:?} at call {n} of {calls}"),
                    || {
                        let mut world = match World::new(disk.clone(), options.clone(), family.clone()) {
                            Ok(world) => world,
                            Err(_) => World::new(disk.clone(), options.clone(), family.clone())
                                .expect("opens after a failed opening"),
                        };
                        run_with_failure(&mut world, &steps);
                        let (dead, expect) = world.die();
                        let crash = Crash::ALL[(n % 6) as usize];
                        let found = dead.crash(crash);
                        drop(recover(&found, &options, &expect, crash));
                    },
                );
            }
            n += stride * (calls / 150 + 1);
        }
    }
    println!("{failures} failing calls");
}

/// A test of the tests: a disk whose syncs of one kind do nothing loses something that they notice.
#[test]
fn every_kind_of_sync_is_missed_when_it_lies() {
    use tidesdb::io::faulty::{Failure, Fault, Op};
    let kinds = [
        ("the log", Op::Sync, ".wal"),
        ("the log's directory", Op::SyncDir, "/wal"),
        ("tables", Op::Sync, ".sst"),
        ("the manifest", Op::Sync, "MANIFEST"),
        ("CURRENT", Op::Sync, "CURRENT"),
        ("the store's directory", Op::SyncDir, "/store"),
    ];
    for (what, op, path) in kinds {
        let mut noticed = None;
        'programs: for (name, tiny, steps) in short_programs() {
            let (options, family) = constants(tiny, SyncMode::Full);
            for crash in [Crash::Drop, Crash::Reorder] {
                let disk = FaultyDisk::new(1);
                let lie = Failure::Lie;
                disk.fail(Fault { op: Some(op), path: path.into(), skip: 0, times: u64::MAX, failure: lie });
                let mut world = World::new(disk, options.clone(), family.clone()).expect("opens");
                world.run(&steps).expect("runs");
                let (dead, expect) = world.die();
                let found = dead.crash(crash);
                let right = expect.right(crash);
                let wrong = match open(&found, &options) {
                    Ok(db) => !observe(&db, right).is_ok_and(|seen| right.contains(&seen)),
                    Err(_) => true,
                };
                if wrong {
                    noticed = Some((name, crash));
                    break 'programs;
                }
            }
        }
        println!("{what}: {noticed:?}");
        assert!(noticed.is_some(), "a lying sync of {what} is noticed by no program");
    }
}
