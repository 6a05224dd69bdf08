//! The shared state of a run's coroutines: the store, the history, and the promise of a commit's answer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidesdb_simulated::internal::db::Db;
use tidesdb_simulated::internal::store::family::Family;
use tidesdb_simulated::internal::txn::cursor::{Scan, Start};
use tidesdb_simulated::internal::txn::transaction::{ReadMode, Transaction};
use tidesdb_simulated::{simulation, Error, SyncMode, TransactionOptions};

use crate::events::hit;
use crate::faults::Faults;
use crate::history::History;
use crate::model::{Commit, Content, Found, Life, Names, Rows};
use crate::positions::Positions;
use crate::program::Program;
use crate::random::Random;

/// Longest wait for a lock or for room.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// See the module's comment.
#[derive(Debug)]
pub struct World {
    /// The store.
    pub db: Arc<Db>,
    /// The record of all answers.
    pub history: Arc<History>,
    /// How durable an acknowledged commit is.
    pub mode: CertainMode,
    /// The program of the run.
    pub program: Program,
    /// A wait may end with its time.
    pub in_vain: bool,
    /// Faults of the disk.
    pub faults: Arc<Faults>,
    /// Views held open.
    pub views: Views,
    /// Positions given to commits.
    pub positions: Positions,
}

/// Views held open, with the second of each.
#[derive(Debug, Default)]
pub struct Views(Mutex<BTreeMap<u64, u64>>);

impl Views {
    /// The views now.
    pub fn now(&self) -> BTreeMap<u64, u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The view of this number sees rows by this second; `None`: it ends.
    pub fn set(&self, number: u64, second: Option<u64>) {
        let mut views = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match second {
            Some(second) => views.insert(number, second),
            None => views.remove(&number),
        };
    }
}

impl World {
    /// The answer to an expected error; `Err`: it is not expected.
    pub fn met(&self, error: &Error) -> Result<(), String> {
        match error {
            Error::Conflict => hit("conflict"),
            Error::Deadlock => hit("deadlock"),
            Error::LockTimeout if self.in_vain => hit("lock timeout"),
            Error::Duplicate => hit("duplicate"),
            Error::NoSuchFamily(_) => hit("family gone"),
            Error::SnapshotTooOld => hit("snapshot older than the family"),
            Error::TooManyLocks { .. } => hit("too many locks"),
            Error::PreparedTooLarge { .. } => hit("too much prepared"),
            Error::TooLittleMemory { .. } => hit("too little memory"),
            Error::BackpressureTimeout if self.in_vain => hit("held back for too long"),
            Error::Interrupted if self.program.is_forced() => hit("rolled back for an applier"),
            error if self.faults.excuse(error) => hit("excused by a fault"),
            other => return Err(format!("{other:?}")),
        }
        Ok(())
    }

    /// One of the families of clients, if there is any.
    pub fn some_family(&self, random: &mut Random) -> Option<Arc<Family>> {
        let names = self.db.family_names(b"f");
        let name = names.get(random.below(names.len() as u64) as usize)?;
        self.db.family(name).ok()
    }

    /// The families by their names. Between two changes of the dictionary alone.
    pub fn names(&self) -> Names {
        let names = self.db.family_names(b"");
        names.iter().filter_map(|name| Some((name.to_vec(), self.db.family(name).ok()?.id()))).collect()
    }

    /// Families whose own mode makes each of their commits durable.
    fn synced_families(&self) -> BTreeSet<Life> {
        let mut synced = BTreeSet::new();
        if self.program.family_modes {
            let families = self.db.families().into_iter().map(|info| info.family);
            let of_mode = families.filter(|family| family.options().sync_mode == Some(SyncMode::Full));
            synced.extend(of_mode.map(|family| family.id()));
        }
        synced
    }

    /// The second of the view of a read in `mode`, or the present one if no row could vanish from it.
    pub fn second(&self, txn: &Transaction, mode: ReadMode) -> u64 {
        txn.seen_second(mode).unwrap_or_else(|| self.db.expiry_second())
    }

    /// Commits the transaction in one phase, and notes it. Its place, if it changed anything.
    pub fn commit(&self, txn: &mut Transaction, mut commit: Commit) -> Result<Option<u64>, Error> {
        let (before, synced) = (self.mode.now(), self.synced_families());
        txn.prepare(None)?;
        let synced = &synced & &self.synced_families();
        let durable = (before == self.mode.now() && before.is_full())
            || commit.writes.keys().any(|(life, _)| synced.contains(life));
        let seq = self.finish(txn, &mut commit)?;
        if let Some(seq) = seq {
            self.answered(seq, durable || self.mode.now().is_full());
        }
        Ok(seq)
    }

    /// A commit was answered.
    pub fn answered(&self, seq: u64, durable: bool) {
        self.history.answered(seq, durable);
        self.faults.answered();
    }

    /// The same, of a bulk load: its answer promises nothing before a sync of the log.
    pub fn commit_unsynced(&self, txn: &mut Transaction, mut commit: Commit) -> Result<Option<u64>, Error> {
        txn.prepare(None)?;
        self.finish(txn, &mut commit)
    }

    fn finish(&self, txn: &mut Transaction, commit: &mut Commit) -> Result<Option<u64>, Error> {
        self.give_position(txn, commit)?;
        txn.order();
        let seq = txn.ordered_seq();
        if let Some(seq) = seq {
            commit.seq = seq;
            self.history.ordered(std::mem::take(commit));
        }
        txn.finish(false)?;
        seq.into_iter().for_each(|_| hit("commit"));
        Ok(seq)
    }
}

/// The store's sync mode as far as it is certain: while it changes, the weaker one.
#[derive(Debug)]
pub struct CertainMode(Mutex<ModeNow>);

/// The mode, and how often it was changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ModeNow {
    mode: SyncMode,
    changes: u64,
}

impl ModeNow {
    /// Whether an answered commit is durable.
    pub fn is_full(self) -> bool {
        self.mode == SyncMode::Full
    }
}

impl CertainMode {
    /// At the opening.
    pub fn new(mode: SyncMode) -> CertainMode {
        CertainMode(Mutex::new(ModeNow { mode, changes: 0 }))
    }

    /// Now.
    pub fn now(&self) -> ModeNow {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It begins to change, or has changed.
    pub fn set(&self, mode: SyncMode) {
        let mut now = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *now = ModeNow { mode, changes: now.changes + 1 };
    }
}

/// The scan of all rows from a key on, in batches of about `expect` rows.
pub fn scan_from(from: &[u8], mode: ReadMode, expect: u32) -> Scan<'_> {
    let start = if from.is_empty() { Start::First } else { Start::AtOrAfter };
    Scan { start, key: from, mode, expect, ..Scan::default() }
}

/// The rows of a scan; `pause` is called between two batches.
pub fn read_rows(
    db: &Db,
    txn: &mut Transaction,
    family: &Arc<Family>,
    scan: &Scan<'_>,
    mut pause: impl FnMut(),
) -> Result<Rows, Error> {
    let mut cursor = db.cursor(family);
    let mut rows = Rows::new();
    let mut found = cursor.seek(txn, scan)?;
    while found {
        for index in 0..cursor.len() {
            let (key, value) = cursor.row(index);
            rows.push((key.to_vec(), value.to_vec()));
        }
        pause();
        found = cursor.fetch(txn, cursor.len() - 1, true)?;
    }
    Ok(rows)
}

/// All families of a store with their rows, and its position, while nobody changes it.
pub fn content_of(db: &Db) -> Result<Content, String> {
    let read = |name: &[u8]| {
        let family = db.family(name)?;
        let mut txn = db.transaction();
        txn.begin(TransactionOptions::default())?;
        txn.statement_begin(false, Duration::ZERO)?;
        let rows = read_rows(db, &mut txn, &family, &scan_from(&[], ReadMode::Snapshot, 0), || {})?;
        let second = txn.seen_second(ReadMode::Snapshot).unwrap_or_else(|| db.expiry_second());
        txn.rollback()?;
        Ok((family.id(), Found { rows, second }))
    };
    let names = db.family_names(b"");
    let each = names.iter().map(|name| Ok((name.to_vec(), read(name)?)));
    let families = each.collect::<Result<_, Error>>().map_err(|error| format!("scan of all: {error}"))?;
    Ok(Content { families, position: db.position() })
}

/// Sleeps for less than so many microseconds.
pub fn sleep_below(random: &mut Random, micros: u64) {
    simulation::sleep(Duration::from_micros(random.below(micros)));
}
