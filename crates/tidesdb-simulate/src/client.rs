//! A client of the store: transactions of a few random statements, each answer noted for the history.

use std::collections::BTreeMap;
use std::ops;
use std::sync::Arc;
use std::time::Duration;

use tidesdb_simulated::internal::store::family::Family;
use tidesdb_simulated::internal::txn::transaction::{
    Change, ChangeKind, LongValue, PointRead, ReadMode, SavepointId, Transaction,
};
use tidesdb_simulated::internal::value::ReadParts;
use tidesdb_simulated::{simulation, Error, Isolation, TransactionOptions};

use crate::cut::Part;
use crate::events::hit;
use crate::model::{Commit, Place, Range, Row, Seen, Value};
use crate::program::Leaning;
use crate::random::Random;
use crate::world::{World, PATIENCE};

/// A client's sleep in a transaction: longer than others wait for its locks.
const SLEEP: Duration = Duration::from_secs(8);

/// Most time of one change beyond its wait.
const WORK: Duration = Duration::from_secs(1);

/// Most statements of a transaction.
pub const MOST_STATEMENTS: u64 = 7;

/// One client at work.
pub struct Client<'a> {
    pub(crate) world: &'a World,
    pub(crate) number: usize,
    seed: u64,
    pub(crate) random: Random,
    /// The transaction's number.
    at: u64,
    /// Values are all different: each names its writer.
    pub(crate) written: u64,
    /// The families as the transaction found them: some may be dropped since.
    families: Vec<Arc<Family>>,
    pub(crate) own: BTreeMap<Place, Value>,
    /// Values of locking reads, and ranges kept by them.
    pub(crate) locked: BTreeMap<Place, Seen>,
    pub(crate) kept: Vec<Range>,
    /// The newest answered commit at the transaction's begin: its snapshots are no older.
    pub(crate) floor: u64,
    savepoints: Vec<(SavepointId, BTreeMap<Place, Value>)>,
    /// The second of the snapshot's view.
    second: Option<u64>,
    pub(crate) options: TransactionOptions,
}

/// The kind of a change.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Put,
    Insert,
    Delete,
    SingleDelete,
}

impl Kind {
    fn with(self, value: &[u8]) -> ChangeKind<'_> {
        match self {
            Kind::Put => ChangeKind::Put(value),
            Kind::Insert => ChangeKind::Insert(value),
            Kind::Delete => ChangeKind::Delete,
            Kind::SingleDelete => ChangeKind::SingleDelete,
        }
    }
}

/// Why a statement did not do its work.
pub(crate) enum Failed {
    Store(Error),
    Wrong(String),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Failed {
        Failed::Store(error)
    }
}

/// Bytes of a value that name its writer.
fn name_len(value: &[u8]) -> usize {
    let dots = value.iter().enumerate().filter(|(_, byte)| **byte == b'.');
    dots.map(|(at, _)| at + 1).nth(1).unwrap_or(0)
}

/// The key of this number: the empty one and long ones are among them.
pub fn key_of(number: u64) -> Vec<u8> {
    match number % 16 {
        0 => vec![b'k'; number as usize / 16 % 4],
        7 => format!("k{number:04}{}", "-".repeat(200)).into_bytes(),
        _ => format!("k{number:04}").into_bytes(),
    }
}

impl<'a> Client<'a> {
    /// The client with this number.
    pub fn new(world: &'a World, number: usize, seed: u64) -> Client<'a> {
        Client {
            world,
            number,
            seed,
            random: Random::new(seed, 100 + number as u64),
            at: 0,
            written: 0,
            families: Vec::new(),
            own: BTreeMap::new(),
            locked: BTreeMap::new(),
            kept: Vec::new(),
            floor: 0,
            savepoints: Vec::new(),
            second: None,
            options: TransactionOptions::default(),
        }
    }

    /// The transactions with these numbers; returns the failure.
    pub fn work(&mut self, transactions: ops::Range<u64>) -> Result<(), String> {
        // Values differ from those of an earlier client with the number.
        self.written = transactions.start << 16;
        for at in transactions {
            if self.world.program.cut.has(Part::Transaction(self.number as u64, at)) {
                continue;
            }
            self.at = at;
            self.begin_part(0);
            self.transaction().map_err(|what| format!("client {}: {what}", self.number))?;
        }
        Ok(())
    }

    /// After a failure the transaction's locks stay, and it goes with the client.
    pub(crate) fn rollback(&self, txn: &mut Transaction) -> Result<(), String> {
        hit("rollback");
        match txn.rollback() {
            Err(error) if !self.world.faults.excuse(&error) => Err(format!("rollback: {error}")),
            _ => Ok(()),
        }
    }

    /// Each part draws numbers of its own: the others stay as they are where one is left out.
    fn begin_part(&mut self, part: u64) {
        let (client, transaction) = (self.number as u64, self.at);
        self.random = Random::new(self.seed, ((client + 1) << 32) + (transaction << 8) + part);
    }

    pub(crate) fn family(&mut self) -> Result<Arc<Family>, Failed> {
        if self.families.is_empty() || self.random.one_in(8) {
            let found = self.world.some_family(&mut self.random);
            return found.ok_or_else(|| Failed::Store(Error::NoSuchFamily("f".into())));
        }
        let which = self.random.below(self.families.len() as u64) as usize;
        Ok(Arc::clone(&self.families[which]))
    }

    pub(crate) fn place(&mut self) -> Result<(Arc<Family>, Place), Failed> {
        let family = self.family()?;
        let place = (family.id(), key_of(self.random.below(self.world.program.keys)));
        Ok((family, place))
    }

    pub(crate) fn row(&mut self) -> Row {
        self.written += 1;
        let mut value = format!("{}.{}.", self.number, self.written).into_bytes();
        match self.random.below(40) {
            0 => value.truncate(self.random.below(3) as usize),
            1 | 2 => value.resize(value.len() + self.random.below(self.world.program.longest) as usize, b'l'),
            _ => {
                let len = self.random.below(self.world.program.longest.min(20_000) / 20 + 10) as usize;
                value.resize(value.len() + len, b'a' + (self.written % 26) as u8);
            }
        }
        let expires = self.world.program.expiring && self.random.one_in(3);
        let life = self.random.pick(&[0, 1, 2, 5, 60, 1000]);
        let expiry = if expires { self.world.db.expiry_second() + life } else { 0 };
        Row { value: value.into(), expiry }
    }

    fn transaction(&mut self) -> Result<(), String> {
        let isolation = self.random.pick(&[
            Isolation::ReadCommitted,
            Isolation::RepeatableRead,
            Isolation::RepeatableRead,
            Isolation::Snapshot,
            Isolation::Serializable,
            Isolation::ReadUncommitted,
        ]);
        let optimistic = self.random.one_in(3);
        self.options = TransactionOptions { isolation, optimistic, ..TransactionOptions::default() };
        let mut txn = self.world.db.transaction();
        self.floor = self.world.history.last_answered();
        txn.begin(self.options).map_err(|error| format!("begin: {error}"))?;
        txn.set_lock_timeout(Some(PATIENCE));
        if self.world.program.is_forced() {
            self.world.program.brute_force.enter(txn.owner());
        }
        (self.own, self.locked, self.kept, self.savepoints, self.second) = Default::default();
        let names = self.world.db.family_names(b"f");
        self.families = names.iter().filter_map(|name| self.world.db.family(name).ok()).collect();
        for statement in 0..1 + self.random.below(MOST_STATEMENTS) {
            if self.world.program.cut.has(Part::Statement(self.number as u64, self.at, statement)) {
                continue;
            }
            self.begin_part(1 + statement);
            if let Err(error) = self.statement(&mut txn)? {
                self.world.met(&error)?;
                return self.rollback(&mut txn);
            }
        }
        self.begin_part(255);
        let kind = format!(
            "client {}, {isolation:?}, {}, {} savepoints",
            self.number,
            if optimistic { "optimistic" } else { "pessimistic" },
            self.savepoints.len()
        );
        let snapshot = (isolation >= Isolation::RepeatableRead).then(|| txn.snapshot_seq()).flatten();
        let mut replaced = std::mem::take(&mut self.locked);
        replaced.retain(|place, _| self.own.contains_key(place));
        let (writes, kept) = (std::mem::take(&mut self.own), std::mem::take(&mut self.kept));
        self.end(txn, Commit { writes, replaced, kept, snapshot, kind, ..Commit::default() })
    }

    /// `Ok(Err)`: an error at which the transaction ends. A duplicate does not end it.
    fn statement(&mut self, txn: &mut Transaction) -> Result<Result<(), Error>, String> {
        if self.world.program.sleepy && self.random.one_in(8) && !self.world.program.cut.has(Part::Sleep) {
            hit("sleep in a transaction");
            let until = simulation::now_micros() + SLEEP.as_micros() as u64;
            while simulation::now_micros() < until && !txn.owner().is_killed() {
                // A killed one is rolled back for its client.
                simulation::sleep(if self.world.program.is_forced() { SLEEP / 40 } else { SLEEP });
            }
            if txn.owner().is_killed() {
                return Ok(Err(Error::Interrupted));
            }
        }
        if let Err(error) = txn.statement_begin(true, PATIENCE) {
            return Ok(Err(error));
        }
        let (before, locked, runs) = (self.own.clone(), self.locked.clone(), txn.run_changes());
        // Ranges come into the way of appliers.
        let scans = self.world.program.is_forced() && self.random.one_in(2);
        let words = self.world.program.leaning == Leaning::Words && !self.random.one_in(4);
        let done = match if words {
            13 + self.random.below(2)
        } else if scans {
            11
        } else {
            self.random.below(13)
        } {
            0..=3 => self.write(txn),
            4 => self.insert(txn),
            5 => self.delete(txn),
            6 | 7 if self.random.one_in(3) => self.get_many(txn),
            6 | 7 => self.get(txn),
            8 => self.locking_get(txn).map(drop),
            9 => self.scan(txn),
            10 => self.savepoint(txn),
            11 => self.locking_scan(txn),
            13 => self.document(txn),
            14 => self.search(txn),
            _ => self.many(txn),
        };
        match done {
            Ok(()) => txn.statement_end(),
            Err(Failed::Store(Error::Duplicate)) => {
                hit("duplicate");
                if txn.run_changes() != runs {
                    self.forget_given_back(&locked);
                }
                txn.statement_rollback();
                self.own = before;
            }
            Err(Failed::Store(error)) => return Ok(Err(error)),
            Err(Failed::Wrong(what)) => return Err(what),
        }
        Ok(Ok(()))
    }

    /// Undoes a statement with spilled changes. With its files go its first locks on changed keys: others may change
    /// them, and a later statement reads them anew.
    fn forget_given_back(&mut self, locked_before: &BTreeMap<Place, Seen>) {
        let known = self.locked.len();
        let own = &self.own;
        self.locked.retain(|place, _| locked_before.contains_key(place) || !own.contains_key(place));
        if self.locked.len() < known {
            hit("locks of an undone statement given back");
        }
    }

    pub(crate) fn change(
        &mut self,
        txn: &mut Transaction,
        family: &Arc<Family>,
        place: Place,
        row: Option<Row>,
        kind: Kind,
        count_unchanged: bool,
    ) -> Result<(), Failed> {
        let value = row.as_ref().map_or(&[][..], |row| &row.value);
        let expiry = row.as_ref().map_or(0, |row| row.expiry);
        let change =
            Change { family, key: &place.1, kind: kind.with(value), lock: true, count_unchanged, expiry };
        let first_part = if self.written % 4 < 3 { name_len(value) } else { 0 };
        let begun = simulation::now_micros();
        let long = LongValue { first_part, ..LongValue::default() };
        let wrote = txn.write_long(&[change], Some(long)).map_err(|(_, error)| error);
        let took = Duration::from_micros(simulation::now_micros() - begun);
        if took > PATIENCE + WORK && !self.world.in_vain {
            return Err(Failed::Wrong(format!("a change took {took:?} with a patience of {PATIENCE:?}")));
        }
        wrote?;
        self.own.insert(place, row);
        Ok(())
    }

    fn write(&mut self, txn: &mut Transaction) -> Result<(), Failed> {
        let ((family, place), row) = (self.place()?, self.row());
        let has_parts = family.options().value_threshold > 1;
        if has_parts && self.written % 3 == 0 && self.locking_get_of(txn, &family, &place)? {
            return self.write_first(txn, &family, place, row);
        }
        if has_parts && self.written % 3 == 1 && self.locking_get_of(txn, &family, &place)? {
            return self.write_if_changed(txn, &family, place, row);
        }
        if !self.world.program.counted {
            return self.change(txn, &family, place, Some(row), Kind::Put, false);
        }
        // What is missing below REPEATABLE READ is not kept free: an insertion asks again.
        match self.locking_get_of(txn, &family, &place)? {
            true => self.change(txn, &family, place, Some(row), Kind::Put, true),
            false => self.change(txn, &family, place, Some(row), Kind::Insert, false),
        }
    }

    /// These parts of a row, read under its lock, and the place of its rest; that is empty where the value is in one.
    fn locked_parts(
        &self,
        txn: &mut Transaction,
        family: &Arc<Family>,
        place: &Place,
        parts: ReadParts,
    ) -> Result<(Vec<u8>, Vec<u8>), Failed> {
        let mut cursor = self.world.db.cursor(family);
        let read = PointRead { parts, ..PointRead::of(ReadMode::Exclusive) };
        let value = cursor.get(txn, &place.1, read)?.unwrap_or_default().to_vec();
        Ok((value, cursor.found_rest_place().to_vec()))
    }

    /// Another first part for a locked row whose value is in two, else another row.
    fn write_first(
        &mut self,
        txn: &mut Transaction,
        family: &Arc<Family>,
        place: Place,
        row: Row,
    ) -> Result<(), Failed> {
        let (first, at) = self.locked_parts(txn, family, &place, ReadParts::FirstAndPlace)?;
        let (whole, also_at) = self.locked_parts(txn, family, &place, ReadParts::BothAndPlace)?;
        // Others change the row of an optimistic transaction.
        if !whole.starts_with(&first) && !self.options.optimistic {
            return Err(Failed::Wrong(format!("the first part of {:?} is not its value's", place.1)));
        }
        let name = name_len(&row.value);
        if at.is_empty() || at != also_at || name == 0 {
            return self.change(txn, family, place, Some(row), Kind::Put, true);
        }
        let bytes = [&row.value[..name], &at].concat();
        let kind = ChangeKind::Put(&bytes);
        let change =
            Change { family, key: &place.1, kind, lock: true, count_unchanged: true, expiry: row.expiry };
        let long = LongValue { first_part: name, keeps_rest: true, ..LongValue::default() };
        txn.write_long(&[change], Some(long)).map_err(|(_, error)| error)?;
        let value = [&row.value[..name], &whole[first.len()..]].concat();
        self.own.insert(place, Some(Row { value: value.into(), ..row }));
        Ok(())
    }

    /// The value of a locked row again, or with another last byte, where that is in a value file; else another row.
    fn write_if_changed(
        &mut self,
        txn: &mut Transaction,
        family: &Arc<Family>,
        place: Place,
        row: Row,
    ) -> Result<(), Failed> {
        let (mut value, at) = self.locked_parts(txn, family, &place, ReadParts::BothAndPlace)?;
        if at.is_empty() {
            return self.change(txn, family, place, Some(row), Kind::Put, true);
        }
        let differs = self.random.one_in(2);
        *value.last_mut().expect("long") ^= u8::from(differs);
        let kind = ChangeKind::Put(&value);
        let change =
            Change { family, key: &place.1, kind, lock: true, count_unchanged: true, expiry: row.expiry };
        let long = LongValue { first_part: name_len(&value), unless_at: Some(&at), ..LongValue::default() };
        match txn.write_long(&[change], Some(long)).map_err(|(_, error)| error) {
            Err(Error::Unchanged) if differs => {
                Err(Failed::Wrong(format!("another value of {:?} counts as unchanged", place.1)))
            }
            Err(Error::Unchanged) => {
                hit("value unchanged");
                Ok(())
            }
            written => {
                written?;
                self.own.insert(place, Some(Row { value: value.into(), ..row }));
                Ok(())
            }
        }
    }

    /// Enough rows for changes to leave memory. A duplicate ends it in its midst.
    fn many(&mut self, txn: &mut Transaction) -> Result<(), Failed> {
        for _ in 0..self.random.below(30) {
            match self.random.one_in(20) {
                true => self.insert(txn)?,
                false => self.write(txn)?,
            }
        }
        Ok(())
    }

    fn insert(&mut self, txn: &mut Transaction) -> Result<(), Failed> {
        let ((family, place), row) = (self.place()?, self.row());
        let own = self.own.get(&place).cloned();
        let inserted = self.change(txn, &family, place.clone(), Some(row), Kind::Insert, false);
        if matches!(inserted, Err(Failed::Store(Error::Duplicate)))
            && txn.get(&family, &place.1, ReadMode::Latest)?.is_none()
        {
            return Err(Failed::Wrong(format!("a duplicate of {:?}, which is not there", place.1)));
        }
        inserted?;
        let second = self.world.second(txn, ReadMode::Latest);
        if own.as_ref().is_some_and(|own| own.as_ref().is_some_and(|row| row.lives(second))) {
            return Err(Failed::Wrong(format!("an insert over an own row of {:?} succeeded", place.1)));
        }
        if own.is_none() {
            // The key was free where the commit is.
            self.locked.entry(place).or_insert(Seen { value: None, second });
        }
        Ok(())
    }

    fn delete(&mut self, txn: &mut Transaction) -> Result<(), Failed> {
        let (family, first) = (self.family()?, self.random.below(self.world.program.keys));
        // A queue's rows go one after the other.
        let count = if self.random.one_in(2) { 1 } else { self.random.below(12) };
        for number in first..first + count {
            let place = (family.id(), key_of(number));
            if self.world.program.counted && !self.locking_get_of(txn, &family, &place)? {
                continue;
            }
            let kind = if self.random.one_in(2) { Kind::Delete } else { Kind::SingleDelete };
            self.change(txn, &family, place, None, kind, false)?;
        }
        Ok(())
    }

    /// The view of a transaction's snapshot keeps its second.
    pub(crate) fn check_second(&mut self, txn: &Transaction) -> Result<(), Failed> {
        if self.options.isolation < Isolation::RepeatableRead {
            return Ok(());
        }
        let second = txn.seen_second(ReadMode::Snapshot);
        match (self.second, second) {
            (Some(before), Some(now)) if before != now => {
                Err(Failed::Wrong(format!("its view was of second {before}, and is of {now}")))
            }
            _ => {
                self.second = self.second.or(second);
                Ok(())
            }
        }
    }

    fn savepoint(&mut self, txn: &mut Transaction) -> Result<(), Failed> {
        hit("savepoint");
        if self.savepoints.is_empty() || self.random.one_in(2) {
            self.savepoints.push((txn.savepoint_set()?, self.own.clone()));
            return Ok(());
        }
        let which = self.random.below(self.savepoints.len() as u64) as usize;
        self.savepoints.truncate(which + 1);
        let (id, own) = self.savepoints[which].clone();
        txn.savepoint_rollback(id)?;
        self.own = own;
        Ok(())
    }
}
