//! A client of the store: transactions of a few random statements, each answer noted for the history.

use std::collections::BTreeMap;
use std::ops;
use std::sync::Arc;
use std::time::Duration;

use tidesdb_simulated::internal::db::Db;
use tidesdb_simulated::internal::store::family::Family;
use tidesdb_simulated::internal::txn::cursor::{Scan, Start};
use tidesdb_simulated::internal::txn::transaction::{ReadMode, SavepointId, Transaction};
use tidesdb_simulated::simulation;
use tidesdb_simulated::{Error, Isolation, SyncMode, TransactionOptions};

use crate::cut::{Cut, Part};
use crate::events::hit;
use crate::faults::Faults;
use crate::history::{History, Place, Proofs, Range, Value};
use crate::random::Random;

/// Longest wait for a lock or for room.
const PATIENCE: Duration = Duration::from_secs(5);

/// A client that sleeps in a transaction does so longer than others wait for its locks.
const SLEEP: Duration = Duration::from_secs(8);

/// Most time of one change beyond its wait.
const WORK: Duration = Duration::from_secs(1);

/// Rows in the order of their keys.
pub type Rows = Vec<(Vec<u8>, Vec<u8>)>;

/// Most statements of a transaction.
pub const MOST_STATEMENTS: u64 = 7;

/// What the clients of a run share.
#[derive(Debug)]
pub struct World {
    /// The store.
    pub db: Arc<Db>,
    /// Its families, by their numbers in the program.
    pub families: Vec<Arc<Family>>,
    /// What happened.
    pub history: Arc<History>,
    /// How durable an acknowledged commit is.
    pub sync_mode: SyncMode,
    /// Keys of a family.
    pub keys: u64,
    /// Longest value, in bytes.
    pub longest: u64,
    /// Clients sleep in transactions: others may wait in vain. Elsewhere whoever holds a lock goes on, and a wait that
    /// ends with its time is one that nobody told.
    pub sleepy: bool,
    /// Faults of the disk.
    pub faults: Arc<Faults>,
    /// Parts of the program that are left out.
    pub cut: Cut,
}

/// One client at work.
pub struct Client<'a> {
    world: &'a World,
    number: usize,
    seed: u64,
    random: Random,
    /// The transaction's number.
    at: u64,
    /// Values are all different: each says who wrote it.
    written: u64,
    own: BTreeMap<Place, Value>,
    /// Values that a locking read gave.
    locked: BTreeMap<Place, Value>,
    /// Ranges that a locking scan gave.
    ranges: Vec<Range>,
    /// The newest commit that was answered when the transaction began: its snapshots are no older.
    floor: u64,
    savepoints: Vec<(SavepointId, BTreeMap<Place, Value>)>,
    isolation: Isolation,
}

/// The key with a number.
fn key(number: u64) -> Vec<u8> {
    format!("k{number:04}").into_bytes()
}

/// The rows of a family from a key on, as plain reads see them.
pub fn read_rows(db: &Db, txn: &mut Transaction, family: &Arc<Family>, from: &[u8]) -> Result<Rows, Error> {
    let start = if from.is_empty() { Start::First } else { Start::AtOrAfter };
    read_scan(db, txn, family, &Scan { start, key: from, ..Scan::default() })
}

/// The rows of a scan.
fn read_scan(db: &Db, txn: &mut Transaction, family: &Arc<Family>, scan: &Scan<'_>) -> Result<Rows, Error> {
    let mut cursor = db.cursor(family);
    let mut rows = Vec::new();
    let mut found = cursor.seek(txn, scan)?;
    while found {
        for index in 0..cursor.len() {
            let (key, value) = cursor.row(index);
            rows.push((key.to_vec(), value.to_vec()));
        }
        found = cursor.fetch(txn, cursor.len() - 1, true)?;
    }
    Ok(rows)
}

impl<'a> Client<'a> {
    /// The client with this number.
    pub fn new(world: &'a World, number: usize, seed: u64) -> Client<'a> {
        let random = Random::new(seed, 100 + number as u64);
        Client {
            world,
            number,
            seed,
            random,
            at: 0,
            written: 0,
            own: BTreeMap::new(),
            locked: BTreeMap::new(),
            ranges: Vec::new(),
            floor: 0,
            savepoints: Vec::new(),
            isolation: Isolation::default(),
        }
    }

    /// The transactions with these numbers; what went wrong.
    pub fn work(&mut self, transactions: ops::Range<u64>) -> Result<(), String> {
        // Values differ from those of an earlier client with the number.
        self.written = transactions.start << 16;
        for at in transactions {
            if self.world.cut.has(Part::Transaction(self.number as u64, at)) {
                continue;
            }
            self.at = at;
            self.begin_part(0);
            self.transaction().map_err(|what| format!("client {}: {what}", self.number))?;
        }
        Ok(())
    }

    /// An error that a client may meet.
    fn met(&self, error: &Error) -> Result<(), String> {
        match error {
            Error::Conflict => hit("conflict"),
            Error::Deadlock => hit("deadlock"),
            Error::LockTimeout if self.world.sleepy => hit("lock timeout"),
            Error::Duplicate => hit("duplicate"),
            error if self.world.faults.excuse(error) => hit("excused by a fault"),
            other => return Err(format!("{other:?}")),
        }
        Ok(())
    }

    /// After a failure the transaction's locks stay, and it goes with the client.
    fn rollback(&self, txn: &mut Transaction) -> Result<(), String> {
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

    fn place(&mut self) -> Place {
        let family = self.random.below(self.world.families.len() as u64) as usize;
        (family, key(self.random.below(self.world.keys)))
    }

    fn value(&mut self) -> Vec<u8> {
        self.written += 1;
        let mut value = format!("{}.{}.", self.number, self.written).into_bytes();
        let len = match self.random.below(20) {
            0 => self.random.below(self.world.longest),
            _ => self.random.below(self.world.longest / 20 + 10),
        };
        value.resize(value.len() + len as usize, b'a' + (self.written % 26) as u8);
        value
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
        let options = TransactionOptions { isolation, optimistic, ..TransactionOptions::default() };
        let mut txn = self.world.db.transaction();
        txn.begin(options).map_err(|error| format!("begin: {error}"))?;
        txn.set_lock_timeout(Some(PATIENCE));
        (self.own, self.locked, self.ranges, self.savepoints) = Default::default();
        self.floor = self.world.history.answered();
        self.isolation = isolation;
        for statement in 0..1 + self.random.below(MOST_STATEMENTS) {
            if self.world.cut.has(Part::Statement(self.number as u64, self.at, statement)) {
                continue;
            }
            self.begin_part(1 + statement);
            if let Err(error) = self.statement(&mut txn, optimistic)? {
                self.met(&error)?;
                return self.rollback(&mut txn);
            }
        }
        self.begin_part(255);
        self.end(&mut txn, isolation, optimistic)
    }

    /// `Ok(Err)`: an error that ends the transaction. A duplicate does not.
    fn statement(&mut self, txn: &mut Transaction, optimistic: bool) -> Result<Result<(), Error>, String> {
        if self.world.sleepy && self.random.one_in(8) && !self.world.cut.has(Part::Sleep) {
            hit("sleep in a transaction");
            simulation::sleep(SLEEP);
        }
        if let Err(error) = txn.statement_begin(true, PATIENCE) {
            return Ok(Err(error));
        }
        let before = self.own.clone();
        let done = match self.random.below(12) {
            0..=3 => self.write(txn),
            4 => self.insert(txn),
            5 => self.delete(txn),
            6 | 7 => self.get(txn),
            8 => self.locking_get(txn),
            9 => self.scan(txn),
            10 if self.random.one_in(2) => self.locking_scan(txn, optimistic),
            10 => self.savepoint(txn),
            _ => self.many(txn),
        };
        match done {
            Ok(()) => txn.statement_end(),
            Err(Failed::Store(Error::Duplicate)) => {
                hit("duplicate");
                txn.statement_rollback();
                self.own = before;
            }
            Err(Failed::Store(error)) => return Ok(Err(error)),
            Err(Failed::Wrong(what)) => return Err(what),
        }
        Ok(Ok(()))
    }

    fn write(&mut self, txn: &mut Transaction) -> Result<(), Failed> {
        let (place, value) = (self.place(), self.value());
        let begun = simulation::now_micros();
        let put = txn.put(&self.world.families[place.0], &place.1, &value);
        if u128::from(simulation::now_micros() - begun) > (PATIENCE + WORK).as_micros() {
            let waited = (simulation::now_micros() - begun) / 1_000_000;
            return Err(Failed::Wrong(format!("a change took {waited} s with a patience of {PATIENCE:?}")));
        }
        put?;
        self.own.insert(place, Some(value));
        Ok(())
    }

    /// So many rows that the changes may leave memory. A duplicate ends it in its midst.
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
        let (place, value) = (self.place(), self.value());
        let own = self.own.get(&place).cloned();
        txn.insert(&self.world.families[place.0], &place.1, &value)?;
        if let Some(Some(_)) = own {
            return Err(Failed::Wrong(format!("an insert over an own row of {:?} succeeded", place.1)));
        }
        if own.is_none() && !self.locked.contains_key(&place) {
            // The key was free where the commit is.
            self.locked.insert(place.clone(), None);
        }
        self.own.insert(place, Some(value));
        Ok(())
    }

    fn delete(&mut self, txn: &mut Transaction) -> Result<(), Failed> {
        let (family, first) = (self.place().0, self.random.below(self.world.keys));
        // A queue's rows go one after the other.
        let count = if self.random.one_in(2) { 1 } else { self.random.below(12) };
        for number in first..first + count {
            let place = (family, key(number));
            txn.delete(&self.world.families[family], &place.1)?;
            self.own.insert(place, None);
        }
        Ok(())
    }

    fn expect_own(&self, place: &Place, got: &Value) -> Result<bool, Failed> {
        match self.own.get(place) {
            None => Ok(false),
            Some(own) if own == got => Ok(true),
            Some(own) => Err(Failed::Wrong(format!(
                "it read {:?} of {} after it wrote {:?}",
                got.as_ref().map(Vec::len),
                place.1.escape_ascii(),
                own.as_ref().map(Vec::len)
            ))),
        }
    }

    fn get(&mut self, txn: &mut Transaction) -> Result<(), Failed> {
        hit("read");
        let place = self.place();
        let got = txn.get(&self.world.families[place.0], &place.1, ReadMode::Snapshot)?;
        if self.expect_own(&place, &got)? {
            return Ok(());
        }
        if let Some(seq) = self.snapshot(txn)? {
            self.world.history.read(self.number, seq, place, got);
        }
        Ok(())
    }

    fn locking_get(&mut self, txn: &mut Transaction) -> Result<(), Failed> {
        hit("read");
        let place = self.place();
        let got = txn.get(&self.world.families[place.0], &place.1, ReadMode::Exclusive)?;
        // Below REPEATABLE READ nothing keeps a missing key free.
        let is_kept = got.is_some() || self.isolation >= Isolation::RepeatableRead;
        if !self.expect_own(&place, &got)? && is_kept {
            self.locked.entry(place).or_insert(got);
        }
        Ok(())
    }

    fn scan(&mut self, txn: &mut Transaction) -> Result<(), Failed> {
        hit("scan");
        let (family, from) = self.place();
        let rows = read_rows(&self.world.db, txn, &self.world.families[family], &from)?;
        if !rows.is_sorted_by(|a, b| a.0 < b.0) {
            return Err(Failed::Wrong(format!("a scan of {} is not in order", from.escape_ascii())));
        }
        if let Some(seq) = self.snapshot(txn)? {
            self.world.history.scanned(self.number, seq, (family, from), rows, self.own.clone());
        }
        Ok(())
    }

    /// The snapshot of plain reads now. What was answered before the transaction began is in it.
    fn snapshot(&self, txn: &Transaction) -> Result<Option<u64>, Failed> {
        match txn.snapshot_seq() {
            Some(seq) if seq < self.floor => Err(Failed::Wrong(format!(
                "it reads at {seq}, and commit {} was answered before it began",
                self.floor
            ))),
            seq => Ok(seq),
        }
    }

    /// Up to a hundred keys, each row locked, and the gaps between them where the transaction keeps gaps.
    fn locking_scan(&mut self, txn: &mut Transaction, optimistic: bool) -> Result<(), Failed> {
        hit("locking scan");
        let first = self.random.below(self.world.keys);
        let family = self.random.below(self.world.families.len() as u64) as usize;
        let (from, to) = (key(first), key(first + 1 + self.random.below(100)));
        let mode = self.random.pick(&[ReadMode::Exclusive, ReadMode::Shared]);
        let scan = Scan { start: Start::AtOrAfter, key: &from, bound: Some(&to), mode, ..Scan::default() };
        let rows = read_scan(&self.world.db, txn, &self.world.families[family], &scan)?;
        if !rows.is_sorted_by(|a, b| a.0 < b.0) {
            return Err(Failed::Wrong(format!("a locking scan of {} is not in order", from.escape_ascii())));
        }
        let keeps_gaps = match self.isolation {
            Isolation::Serializable => true,
            isolation => isolation >= Isolation::RepeatableRead && !optimistic,
        };
        if keeps_gaps {
            let own = self.own.keys().filter(|(of, _)| *of == family).map(|(_, key)| key.clone()).collect();
            self.ranges.push(Range { family, from, to, rows: rows.into_iter().collect(), own });
        }
        Ok(())
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

    fn end(&mut self, txn: &mut Transaction, isolation: Isolation, optimistic: bool) -> Result<(), String> {
        if self.random.one_in(6) {
            return self.rollback(txn);
        }
        let history = &self.world.history;
        let snapshot = (isolation >= Isolation::RepeatableRead).then(|| txn.snapshot_seq()).flatten();
        history.begin_commit(self.number, &self.own);
        let two_phase = self.random.one_in(5).then(|| format!("xid{}.{}", self.number, self.written));
        if let Err(error) = txn.prepare(two_phase.as_deref().map(str::as_bytes)) {
            history.refused(self.number);
            self.met(&error)?;
            return self.rollback(txn);
        }
        if txn.is_spilled() {
            hit("spilled transaction");
        }
        if self.random.one_in(10) {
            hit("rollback after the prepare");
            history.refused(self.number);
            return self.rollback(txn);
        }
        txn.order();
        let Some(seq) = txn.ordered_seq() else {
            history.refused(self.number);
            return txn.finish(false).map_err(|error| format!("commit of nothing: {error}"));
        };
        // An insert's key was free, and a locked value stood, at this place.
        let mut replaced = std::mem::take(&mut self.locked);
        replaced.retain(|place, _| self.own.contains_key(place));
        let locking = if optimistic { "optimistic" } else { "pessimistic" };
        let kind =
            format!("client {}, {isolation:?}, {locking}, {} savepoints", self.number, self.savepoints.len());
        let ranges = std::mem::take(&mut self.ranges);
        history.ordered(self.number, seq, Proofs { replaced, ranges, snapshot }, kind);
        if let Err(error) = txn.finish(false) {
            // A restart shows what became of it.
            return self.met(&error).map_err(|error| format!("commit: {error}"));
        }
        hit("commit");
        history.answer(seq);
        if two_phase.is_some() {
            hit("commit in two phases");
        }
        if self.world.sync_mode == SyncMode::Full {
            history.acknowledged(seq);
        }
        Ok(())
    }
}

/// Why a statement did not do its work.
enum Failed {
    Store(Error),
    Wrong(String),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Failed {
        Failed::Store(error)
    }
}
