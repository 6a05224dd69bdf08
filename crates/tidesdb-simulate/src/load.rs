//! Families filled in chunks without locks, from the rows of another one, meanwhile unchanged: ALTER by copy, with a
//! replacement of the other one, and builds of indexes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tidesdb_simulated::internal::lock::TableMode;
use tidesdb_simulated::internal::store::family::Family;
use tidesdb_simulated::internal::txn::ingest::IngestOptions;
use tidesdb_simulated::internal::txn::transaction::{Change, ChangeKind, ReadMode, Transaction};
use tidesdb_simulated::internal::types::Pieces;
use tidesdb_simulated::{simulation, Error, TransactionOptions};

use crate::ddl::{change, lock_table};
use crate::events::hit;
use crate::model::{Commit, Found, Range, Row};
use crate::options::family_options;
use crate::random::Random;
use crate::world::{scan_from, sleep_below, World};

/// A loader of families.
pub struct Loader<'a> {
    world: &'a World,
    random: Random,
    made: u64,
    wrong: Option<String>,
}

type Loaded = BTreeMap<Vec<u8>, Row>;

impl<'a> Loader<'a> {
    /// By a seed.
    pub fn new(world: &'a World, seed: u64) -> Loader<'a> {
        Loader { world, random: Random::new(seed, 300), made: 0, wrong: None }
    }

    /// So many families.
    pub fn work(&mut self, families: u64) -> Result<(), String> {
        for _ in 0..families {
            sleep_below(&mut self.random, 20_000);
            let mut writers = self.world.db.transaction();
            let mut view = self.world.db.transaction();
            let loaded = self.load(&mut writers, &mut view);
            let ended = view.rollback().and_then(|()| writers.rollback());
            // Of a load that was given up the new family stays, empty.
            if let Err(error) = loaded.or_else(|error| match error {
                Error::Interrupted => Ok(()),
                error => Err(error),
            }) {
                self.world.met(&error).map_err(|what| format!("bulk load: {what}"))?;
            }
            ended.map_err(|error| format!("end of a bulk load: {error}"))?;
            self.wrong.take().map_or(Ok(()), Err)?;
        }
        Ok(())
    }

    fn load(&mut self, writers: &mut Transaction, view: &mut Transaction) -> Result<(), Error> {
        let world = self.world;
        let Some(family) = world.some_family(&mut self.random) else { return Ok(()) };
        let name = family.name();
        lock_table(writers, |txn| txn.lock_table(&family, TableMode::Shared))?;
        let is_index = self.random.one_in(2);
        view.begin(TransactionOptions { oldest_view: true, ..TransactionOptions::default() })?;
        view.statement_begin(false, Duration::ZERO)?;
        let held = world.views.now();
        let (rows, range) = self.rows(view, &family)?;
        self.check_second(view, &held);
        self.made += 1;
        let into = format!("{}{}", if is_index { 'i' } else { 't' }, self.made).into_bytes();
        let options = family_options(&mut self.random, false);
        if change(world, |ddl| ddl.create(&into, options, b""))?.is_none() {
            return Ok(());
        }
        let target = world.db.family(&into)?;
        let rows = if is_index { entries_of(&rows) } else { rows };
        match self.random.one_in(2) {
            true => self.fill(&target, rows)?,
            false => self.ingest(&target, rows)?,
        }
        // From now on it is there for all but older snapshots.
        let place = match is_index {
            true => change(world, |ddl| ddl.bump(&into))?,
            // The name may be another's by now.
            false => change(world, |ddl| match family.is_dropped() || family.name() != name {
                true => ddl.drop_family(&into),
                false => {
                    ddl.drop_family(&name)?;
                    ddl.rename(&into, &name)?;
                    ddl.bump(&name)
                }
            })?,
        };
        if let Some(seq) = place {
            hit(if is_index { "index built" } else { "family copied" });
            world.history.bumped(target.id(), seq);
            let kind = "bulk load".to_string();
            world.history.ordered(Commit { seq, kept: vec![range], kind, ..Commit::default() });
        }
        Ok(())
    }

    /// Every row still visible to some view is among the read ones: the second is none later than theirs.
    fn check_second(&mut self, view: &Transaction, held: &BTreeMap<u64, u64>) {
        let Some(second) = view.seen_second(ReadMode::Snapshot) else { return };
        let now = self.world.views.now();
        let still = held.iter().filter(|(number, second)| now.get(number) == Some(second));
        if let Some((number, of_watcher)) =
            still.min_by_key(|(_, second)| **second).filter(|(_, s)| **s < second)
        {
            let what = format!("a bulk load reads at second {second}, and watcher {number} at {of_watcher}");
            self.wrong.get_or_insert(what);
        }
    }

    /// All rows of the family with their expiries; nobody changes them before the load's end.
    fn rows(&mut self, view: &mut Transaction, family: &Arc<Family>) -> Result<(Loaded, Range), Error> {
        let mut cursor = self.world.db.cursor(family);
        let mut rows = Loaded::new();
        let mut found = cursor.seek(view, &scan_from(&[], ReadMode::Snapshot, 4))?;
        while found {
            for index in 0..cursor.len() {
                let (key, value) = cursor.row(index);
                let row = Row { value: value.into(), expiry: cursor.expiry(index) };
                rows.insert(key.to_vec(), row);
            }
            if self.random.one_in(4) {
                sleep_below(&mut self.random, 2_000);
            }
            found = cursor.fetch(view, cursor.len() - 1, true)?;
        }
        let second = self.world.second(view, ReadMode::Snapshot);
        let plain = rows.iter().map(|(key, row)| (key.clone(), row.value.to_vec())).collect();
        let range = Range {
            life: family.id(),
            from: Vec::new(),
            to: None,
            found: Found { rows: plain, second },
            unknown: BTreeSet::new(),
        };
        if let Some(seq) = view.snapshot_seq() {
            self.world.history.scanned("bulk load", seq, range.clone(), BTreeMap::new());
        }
        Ok((rows, range))
    }

    fn fill(&mut self, target: &Arc<Family>, rows: Loaded) -> Result<(), Error> {
        let mut rows = rows.into_iter().peekable();
        let mut last = self.world.history.last_answered();
        while rows.peek().is_some() {
            let mut txn = self.world.db.transaction();
            txn.begin(TransactionOptions { unlocked: true, ..TransactionOptions::default() })?;
            txn.statement_begin(true, Duration::from_secs(5))?;
            let mut commit = Commit { kind: "bulk load".into(), ..Commit::default() };
            for (key, row) in rows.by_ref().take(1 + self.random.below(40) as usize) {
                let kind = match self.random.one_in(2) {
                    true => ChangeKind::Put(&row.value),
                    false => ChangeKind::Insert(&row.value),
                };
                let (lock, count_unchanged) = (true, false);
                let change =
                    Change { family: target, key: &key, kind, lock, count_unchanged, expiry: row.expiry };
                txn.write(&[change]).map_err(|(_, error)| error)?;
                commit.writes.insert((target.id(), key), Some(row));
            }
            // It does not wait for a sync: the load ends with one.
            last = self.world.commit_unsynced(&mut txn, commit)?.unwrap_or(0).max(last);
        }
        self.world.db.flush_log()?;
        self.world.history.durable_upto(last);
        Ok(())
    }

    /// By finished tables, past the log: of entries in the order of their keys, and of others.
    fn ingest(&mut self, target: &Arc<Family>, rows: Loaded) -> Result<(), Error> {
        let history = &self.world.history;
        let mut load = self.world.db.ingest(IngestOptions { unlocked: self.random.one_in(2) })?;
        load.set_lock_timeout(Some(Duration::from_secs(5)));
        let mut order: Vec<_> = rows.iter().collect();
        if self.random.one_in(3) {
            let middle = self.random.below(order.len() as u64 + 1) as usize;
            order.rotate_left(middle);
        }
        for (key, row) in order {
            load.add(target, key, Pieces::new(&row.value, &[]), row.expiry)?;
        }
        if self.random.one_in(8) {
            // Given up, it leaves nothing.
            hit("load given up");
            drop(load);
            return Err(Error::Interrupted);
        }
        simulation::take_place();
        let finished = load.finish();
        let Some(seq) = simulation::take_place() else { return finished };
        let writes = rows.into_iter().map(|(key, row)| ((target.id(), key), Some(row))).collect();
        history.ordered(Commit { seq, writes, kind: "ingest".into(), ..Commit::default() });
        finished?;
        self.world.answered(seq, true);
        hit("load by tables");
        Ok(())
    }
}

/// Entries of an index on the values: the value's first bytes, then the row's key.
fn entries_of(rows: &Loaded) -> Loaded {
    let entry = |(key, row): (&Vec<u8>, &Row)| {
        let column = row.value.iter().copied().chain(std::iter::repeat(0)).take(6);
        let entry = column.chain(key.iter().copied()).collect();
        (entry, Row { value: key.as_slice().into(), expiry: row.expiry })
    };
    rows.iter().map(entry).collect()
}
