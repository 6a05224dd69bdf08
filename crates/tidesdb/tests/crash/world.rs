//! A store under a program: runs its steps and records the answers.

use std::collections::BTreeMap;
use std::time::Duration;

use tidesdb::internal::db::Db;
use tidesdb::internal::format::ClusterPosition;
use tidesdb::internal::io::FaultyDisk;
use tidesdb::internal::txn::ingest::IngestOptions;
use tidesdb::internal::txn::transaction::Transaction;
use tidesdb::internal::types::Pieces;
use tidesdb::{Error, FamilyOptions, FormatVersion, Options, Result, SyncMode};

use super::sim::{begin, open};
use super::state::{key, position, position_of, value, Expect, State, Step, Write};

pub(super) struct World {
    pub(super) disk: FaultyDisk,
    pub(super) options: Options,
    pub(super) family: FamilyOptions,
    pub(super) db: Option<Db>,
    pub(super) live: BTreeMap<String, Transaction>,
    pub(super) expect: Expect,
}

impl World {
    pub(super) fn new(disk: FaultyDisk, options: Options, family: FamilyOptions) -> Result<World> {
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

    pub(super) fn db(&self) -> &Db {
        self.db.as_ref().expect("open")
    }

    /// The event `next` is under way: from now on it may be found.
    pub(super) fn event(&mut self, next: State) {
        self.expect.history.push(next);
    }

    /// Everything so far was answered.
    pub(super) fn answered(&mut self, durable: bool) {
        self.expect.written = self.expect.history.len() - 1;
        if durable {
            self.expect.durable = self.expect.written;
        }
    }

    /// The position of the next event's commit: in stores of version 2 alone.
    fn next_position(&self) -> Option<ClusterPosition> {
        position_of(self.expect.history.len()).filter(|_| self.db().format() == FormatVersion::Two)
    }

    pub(super) fn run(&mut self, steps: &[Step]) -> Result<()> {
        steps.iter().try_for_each(|step| self.step(step))
    }

    pub(super) fn write(&self, txn: &mut Transaction, writes: &[Write]) -> Result<()> {
        for (name, n, change) in writes {
            let family = self.db().family(name.as_bytes())?;
            match change {
                // An insertion where it can be one, so that its single delete may cancel it.
                Some((len, seed)) => match txn.insert(&family, &key(*n), &value(*len, *seed)) {
                    Err(Error::Duplicate) => txn.put(&family, &key(*n), &value(*len, *seed))?,
                    done => done?,
                },
                None => txn.single_delete(&family, &key(*n))?,
            }
        }
        Ok(())
    }

    pub(super) fn transaction(&self) -> Result<Transaction> {
        let mut txn = begin(self.db());
        txn.set_lock_timeout(Some(Duration::ZERO));
        txn.statement_begin(true, Duration::from_secs(20))?;
        Ok(txn)
    }

    #[expect(clippy::too_many_lines, reason = "one arm for each step of a program")]
    pub(super) fn step(&mut self, step: &Step) -> Result<()> {
        let mut next = self.expect.now().clone();
        match step {
            Step::Commit(sync, writes) => {
                let changes = next.changes(writes);
                next.apply(&changes);
                let mut txn = self.transaction()?;
                txn.set_sync(*sync);
                self.write(&mut txn, writes)?;
                let position = self.next_position();
                txn.set_position(position.as_ref())?;
                next.position = position.or(next.position);
                self.event(next);
                txn.commit()?;
                let mode = self.options.sync_mode.max(sync.unwrap_or(SyncMode::None));
                self.answered(mode == SyncMode::Full);
            }
            Step::Load(writes) => {
                let changes = next.changes(writes);
                next.apply(&changes);
                let mut load = self.db().ingest(IngestOptions::default())?;
                for (name, n, change) in writes {
                    let (len, seed) = change.expect("a load has rows and no deletions");
                    let family = self.db().family(name.as_bytes())?;
                    load.add(&family, &key(*n), Pieces::new(&value(len, seed), &[]), 0)?;
                }
                self.event(next);
                load.finish()?;
                self.answered(true);
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
                let mut live = self.live.remove(*xid);
                let position = self.next_position();
                if let Some(txn) = live.as_mut().filter(|_| *commit) {
                    txn.set_position(position.as_ref())?;
                    next.position = position.or(next.position);
                }
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
                let family = self.db().family(name.as_bytes())?.id();
                self.expect.ids.insert(id, family);
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
                let family = self.db().family(name.as_bytes())?.id();
                self.expect.ids.insert(id, family);
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
            Step::Position(number) => {
                if self.db().format() == FormatVersion::Two {
                    next.position = Some(position(*number));
                    self.event(next);
                    self.db().set_position(&position(*number))?;
                    self.answered(self.options.sync_mode == SyncMode::Full);
                }
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

    /// Ends the process; [`FaultyDisk::crash`] decides the remaining content of the disk.
    pub(super) fn die(mut self) -> (FaultyDisk, Expect) {
        self.disk.crash_at(0);
        self.live.clear();
        self.db = None;
        (self.disk, self.expect)
    }
}
