//! A store under a program of prepared transactions: runs its steps, records the answers, and compares the
//! content after a crash.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tidesdb::internal::db::Db;
use tidesdb::internal::io::faulty::Crash;
use tidesdb::internal::io::FaultyDisk;
use tidesdb::internal::store::family::Family;
use tidesdb::internal::txn::transaction::Transaction;
use tidesdb::{Error, Options, Result, SyncMode};

use super::sim::{self, begin, open, tiny, tiny_family};

pub(super) const FAMILY: &[u8] = b"f";

/// Families written only by spilled transactions.
pub(super) const LARGE: [&[u8]; 3] = [b"l1", b"l2", b"l3"];

/// Keys from here on belong to prepared transactions; fillers use those below.
pub(super) const PREPARED_KEYS: u32 = 100;

/// Transactions with so many times a number from 1 to 3 as first key are larger than memory.
pub(super) const LARGE_KEYS: u32 = 100_000;

/// A row: its family, key and value.
pub(super) type Row = (&'static [u8], Vec<u8>, Vec<u8>);

#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// So many commits with values of so many bytes.
    Fill(u32, usize),
    /// XA PREPARE of some keys.
    XaPrepared(&'static str, u32),
    /// A prepare like the binary log's.
    TwoPhase(&'static str, u32),
    /// One phase, committed or rolled back after its `prepare`.
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
pub(super) struct State {
    pub(super) rows: BTreeMap<(&'static [u8], Vec<u8>), Vec<u8>>,
    pub(super) undecided: BTreeSet<&'static str>,
}

pub(super) fn key(n: u32) -> Vec<u8> {
    format!("key{n:06}").into_bytes()
}

/// The rows of a prepared transaction: its first key's number also makes the values. The last rows of large
/// ones are in the family shared by all, and still in memory at the end.
pub(super) fn rows_of(first: u32) -> Vec<Row> {
    let rows =
        |family, count| (0..count).map(move |n| (family, key(first + n), vec![(first + n) as u8; 120]));
    match (first / LARGE_KEYS) as usize {
        0 => rows(FAMILY, 3).collect(),
        large => rows(LARGE[large - 1], 45).chain(rows(FAMILY, 3)).collect(),
    }
}

pub(super) fn insert(rows: &mut BTreeMap<(&'static [u8], Vec<u8>), Vec<u8>>, new: Vec<Row>) {
    rows.extend(new.into_iter().map(|(family, key, value)| ((family, key), value)));
}

pub(super) struct World {
    pub(super) disk: FaultyDisk,
    pub(super) options: Options,
    pub(super) db: Option<Db>,
    pub(super) live: BTreeMap<&'static str, Transaction>,
    pub(super) prepared: BTreeMap<&'static str, u32>,
    pub(super) history: Vec<State>,
    pub(super) written: usize,
    pub(super) durable: usize,
    pub(super) filled: u32,
}

pub(super) fn new_store(seed: u64, options: &Options) -> FaultyDisk {
    let disk = FaultyDisk::new(seed);
    let db = open(&disk, options).expect("opens");
    for name in LARGE.into_iter().chain([FAMILY]) {
        db.create_family(name, tiny_family()).expect("creates");
    }
    db.close().expect("closes");
    disk
}

pub(super) fn family(db: &Db) -> Arc<Family> {
    db.family(FAMILY).expect("there")
}

pub(super) fn put(db: &Db, txn: &mut Transaction, (family, key, value): &Row) -> Result<()> {
    txn.put(&db.family(family)?, key, value)
}

pub(super) fn started(db: &Db) -> Transaction {
    let mut txn = begin(db);
    txn.set_lock_timeout(Some(Duration::ZERO));
    txn.statement_begin(true, Duration::from_secs(20)).expect("begins");
    txn
}

impl World {
    pub(super) fn new(disk: FaultyDisk, options: Options) -> Result<World> {
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

    pub(super) fn db(&self) -> &Db {
        self.db.as_ref().expect("open")
    }

    pub(super) fn now(&self) -> State {
        self.history[self.history.len() - 1].clone()
    }

    pub(super) fn answered(&mut self, durable: bool) {
        self.written = self.history.len() - 1;
        if durable {
            self.durable = self.written;
        }
    }

    pub(super) fn run(&mut self, steps: &[Step]) -> Result<()> {
        steps.iter().try_for_each(|step| self.step(*step))
    }

    pub(super) fn step(&mut self, step: Step) -> Result<()> {
        let full = self.options.sync_mode == SyncMode::Full;
        let mut next = self.now();
        match step {
            Step::Fill(count, bytes) => {
                for _ in 0..count {
                    self.filled += 1;
                    let (key, value) = (key(self.filled % 17), vec![self.filled as u8; bytes]);
                    let mut txn = begin(self.db());
                    txn.statement_begin(true, Duration::from_secs(20))?;
                    txn.put(&self.db().family(FAMILY)?, &key, &value)?;
                    next.rows.insert((FAMILY, key), value);
                    self.history.push(next.clone());
                    txn.commit()?;
                    self.answered(full);
                }
            }
            Step::XaPrepared(xid, first) | Step::TwoPhase(xid, first) => {
                let mut txn = started(self.db());
                for row in rows_of(first) {
                    put(self.db(), &mut txn, &row)?;
                }
                next.undecided.insert(xid);
                self.prepared.insert(xid, first);
                self.history.push(next);
                let done = match step {
                    Step::XaPrepared(..) => txn.prepare_xa(xid.as_bytes()),
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
                // All that these programs decide in their own connection was XA-prepared.
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
    pub(super) fn die(mut self) -> World {
        self.disk.crash_at(0);
        self.live.clear();
        self.db = None;
        self
    }
}

pub(super) fn observe(db: &Db, like: &[State]) -> State {
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

/// Opens after a crash, compares, checks that prepared transactions keep others out, and decides them.
pub(super) fn recovers(disk: &FaultyDisk, world: &World, crash: Crash, decide: bool) {
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

pub(super) fn small(mode: SyncMode) -> Options {
    Options { compaction_threads: 0, ..tiny(mode) }
}
