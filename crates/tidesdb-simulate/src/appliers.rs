//! Appliers of a cluster: transactions with priority, which must not fail. Those of clients in their way are rolled back, as
//! the server of a cluster does: the observer of waits kills them, and each client looks for that.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tidesdb_simulated::internal::db::Db;
use tidesdb_simulated::internal::lock::{LockOwner, WaitObserver};
use tidesdb_simulated::internal::store::family::Family;
use tidesdb_simulated::internal::txn::transaction::{Change, ChangeKind, ReadMode, Transaction};
use tidesdb_simulated::{Error, Isolation, TransactionOptions};

use crate::client::key_of;
use crate::events::hit;
use crate::model::{Commit, Row, Seen};
use crate::random::Random;
use crate::world::{sleep_below, World, PATIENCE};

/// Locks in a copy of the lock table: all.
const MOST_LOCKS: usize = 10_000;

/// Rolls back the transactions in the way of appliers, and checks their place among the waits.
#[derive(Debug, Default)]
pub struct BruteForce(Mutex<Forced>);

#[derive(Debug, Default)]
struct Forced {
    db: Weak<Db>,
    /// Clients' transactions before their end, by cookie.
    local: BTreeMap<u64, Arc<LockOwner>>,
    /// Appliers' transactions, by id.
    appliers: BTreeSet<u64>,
    wrong: Option<String>,
}

impl BruteForce {
    fn forced(&self) -> MutexGuard<'_, Forced> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The store is open.
    pub fn serves(&self, db: &Arc<Db>) {
        self.forced().db = Arc::downgrade(db);
    }

    /// A client's transaction begins.
    pub fn enter(&self, owner: &Arc<LockOwner>) {
        owner.set_cookie(owner.id());
        self.forced().local.insert(owner.id(), Arc::clone(owner));
    }

    /// A client's transaction ends: appliers wait for it from now on.
    pub fn leave(&self, owner: &LockOwner) {
        self.forced().local.remove(&owner.id());
    }

    fn abort(&self, cookies: &[u64]) {
        // A kill may change coroutines: not under the mutex.
        let (db, victims) = {
            let forced = self.forced();
            let victims = cookies.iter().filter_map(|cookie| forced.local.get(cookie).cloned());
            (forced.db.upgrade(), victims.collect::<Vec<_>>())
        };
        let Some(db) = db else { return };
        victims.iter().for_each(|victim| db.kill(victim));
    }

    /// No wait of a client precedes this one's.
    fn check_place(&self, waiter: &LockOwner) {
        let Some(db) = self.forced().db.upgrade() else { return };
        let locks = db.locks(MOST_LOCKS).locks;
        let Some(at) = locks.iter().position(|lock| lock.waiting && lock.owner.id == waiter.id()) else {
            return;
        };
        let mut forced = self.forced();
        let before = locks[..at].iter().rev().take_while(|lock| {
            lock.waiting && (lock.family, &lock.key) == (locks[at].family, &locks[at].key)
        });
        let mut local = before.filter(|lock| lock.mode != "GAP" && !forced.appliers.contains(&lock.owner.id));
        if let Some(lock) = local.next() {
            let what = format!("{lock:?} precedes {:?}, which has priority", locks[at]);
            forced.wrong.get_or_insert(what);
        }
    }
}

impl WaitObserver for BruteForce {
    fn wait_begins(&self, waiter: &LockOwner, holders: &[u64]) {
        if waiter.has_priority() {
            self.check_place(waiter);
            self.abort(holders);
        }
    }

    fn wait_goes_on(&self, _waiter: &LockOwner, holders: &[u64]) {
        hit("lock in an applier's way later");
        self.abort(holders);
    }

    fn wait_ends(&self, _waiter: &LockOwner) {}
}

/// One applier's transactions, so many.
pub fn work(world: &World, seed: u64, number: u64, rounds: u64) -> Result<(), String> {
    let mut applier = Applier { world, number, random: Random::new(seed, 800 + number), written: 0 };
    for _ in 0..rounds {
        sleep_below(&mut applier.random, 20_000);
        applier.transaction().map_err(|what| format!("applier {number}: {what}"))?;
    }
    Ok(())
}

struct Applier<'a> {
    world: &'a World,
    number: u64,
    random: Random,
    /// Values are all different: each names its writer.
    written: u64,
}

impl Applier<'_> {
    fn transaction(&mut self) -> Result<(), String> {
        let mut txn = self.world.db.transaction();
        let isolation = Isolation::ReadCommitted;
        let options = TransactionOptions { isolation, priority: true, ..TransactionOptions::default() };
        txn.begin(options).map_err(|error| format!("begin: {error}"))?;
        txn.set_lock_timeout(Some(PATIENCE));
        let brute_force = &self.world.program.brute_force;
        brute_force.forced().appliers.insert(txn.owner().id());
        let mut commit = Commit { kind: format!("applier {}", self.number), ..Commit::default() };
        let done =
            self.apply(&mut txn, &mut commit).and_then(|()| self.world.commit(&mut txn, commit).map(drop));
        brute_force.forced().wrong.take().map_or(Ok(()), Err)?;
        let Err(error) = done else {
            hit("commit with priority");
            return Ok(());
        };
        let must_not = match error {
            Error::Deadlock | Error::Interrupted | Error::TooManyLocks { .. } | Error::Conflict => true,
            Error::LockTimeout => !self.world.program.appliers_wait_in_vain(),
            _ => false,
        };
        if must_not && !self.world.faults.excuse(&error) {
            return Err(format!("a transaction with priority fails: {error:?}"));
        }
        self.world.met(&error)?;
        match txn.rollback() {
            Err(error) if !self.world.faults.excuse(&error) => Err(format!("rollback: {error}")),
            _ => Ok(()),
        }
    }

    /// Changes rows in the order of their keys: no two appliers wait for each other.
    fn apply(&mut self, txn: &mut Transaction, commit: &mut Commit) -> Result<(), Error> {
        txn.statement_begin(true, PATIENCE)?;
        let names = self.world.db.family_names(b"f");
        let families: BTreeMap<u32, Arc<Family>> = names
            .iter()
            .filter_map(|name| self.world.db.family(name).ok())
            .map(|family| (family.id(), family))
            .collect();
        for family in families.values() {
            let count = self.random.below(5);
            let numbers = (0..count).map(|_| key_of(self.random.below(self.world.program.keys)));
            let keys: BTreeSet<Vec<u8>> = numbers.collect();
            for key in keys {
                self.change(txn, family, key, commit)?;
            }
        }
        txn.statement_end();
        Ok(())
    }

    fn change(
        &mut self,
        txn: &mut Transaction,
        family: &Arc<Family>,
        key: Vec<u8>,
        commit: &mut Commit,
    ) -> Result<(), Error> {
        let value = txn.get(family, &key, ReadMode::Exclusive)?;
        let exists = value.is_some();
        // Below REPEATABLE READ a missing key is not kept: whether a put makes a new row is not known.
        if !exists && self.world.program.counted {
            return Ok(());
        }
        self.written += 1;
        let row = format!("a{}.{}.", self.number, self.written).into_bytes();
        let deletes = exists && self.random.one_in(4);
        let kind = if deletes { ChangeKind::Delete } else { ChangeKind::Put(&row) };
        let count_unchanged = exists && !deletes;
        let change = Change { family, key: &key, kind, lock: true, count_unchanged, expiry: 0 };
        txn.write(&[change]).map_err(|(_, error)| error)?;
        let place = (family.id(), key);
        if exists {
            let second = self.world.second(txn, ReadMode::Exclusive);
            commit.replaced.insert(place.clone(), Seen { value: value.map(Into::into), second });
        }
        let row = (!deletes).then(|| Row { value: row.into(), expiry: 0 });
        commit.writes.insert(place, row);
        Ok(())
    }
}
