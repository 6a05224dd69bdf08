//! Counters: no value is ever handed out twice. A ceiling is durable before a value at or above the last one
//! is given out (`docs/protocols.md` 6.3). Ceilings of a counter reach the log in ascending order: a writer
//! of one holds the counter's lock in `CounterSet::ceilings`. A background thread reserves the next block
//! when half of one is gone; values below the ceiling are handed out meanwhile. A caller that crosses the
//! ceiling all the same writes one itself, with that lock and without the counter's.

use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Duration;

use crate::db::dictionary::{counter_key, number};
use crate::db::maintenance::Maintenance;
use crate::db::signals::CounterRefill;
use crate::error::{Error, Result};
use crate::host::{Instant, Next, Step};
use crate::options::LogLevel;
use crate::store::counter::Counter;
use crate::store::family::{Family, COUNTERS};
use crate::txn::write_batch::WriteBatch;
use crate::types::{Entry, FamilyId, Kind, DICTIONARY, MAX_SEQ};
use crate::value::{resolve, NoSeparateValues, ReadParts, Seen};
use crate::wal::WaitLimit;

/// Time between two rounds of maintenance.
const MAINTENANCE_INTERVAL: Duration = Duration::from_secs(1);

/// One in so many rounds also releases unused memory of locks.
const ROUNDS_BETWEEN_SWEEPS: u32 = 5;

/// Reserves blocks for counters that ask, and maintains locks and expiry clock once a second. Waits for a
/// counter that asks, for the close, both signalled by [`CounterRefill`], and for the end of the second.
pub(crate) struct ReserveLoop {
    maintenance: Arc<Maintenance>,
    maintain_at: Instant,
    rounds: u32,
    reported: Reported,
}

/// What failed last time, and is in the log.
#[derive(Default)]
struct Reported {
    lock: bool,
    clock: bool,
    values: bool,
}

impl ReserveLoop {
    pub(crate) fn new(maintenance: Arc<Maintenance>) -> ReserveLoop {
        let maintain_at = maintenance.store.env.clock.now() + MAINTENANCE_INTERVAL;
        ReserveLoop { maintenance, maintain_at, rounds: 0, reported: Reported::default() }
    }
}

impl Step for ReserveLoop {
    fn step(&mut self) -> Next {
        let maintenance = &self.maintenance;
        if maintenance.closing.load(Ordering::Acquire) {
            return Next::End;
        }
        let asks = maintenance.counter_refill.queue.lock().pop_front();
        if let Some((family, counter)) = asks {
            if let Err(error) = maintenance.reserve_ahead(family, counter) {
                // It stays marked as asked: who crosses the ceiling tries again, and hears of it.
                maintenance.store.log(LogLevel::Warn, &format!("no block of values reserved ahead: {error}"));
            }
        }
        let clock = &maintenance.store.env.clock;
        if clock.now() >= self.maintain_at {
            self.maintain_at = clock.now() + MAINTENANCE_INTERVAL;
            self.rounds = self.rounds.wrapping_add(1);
            maintenance.maintain(self.rounds, &mut self.reported);
        }
        Next::WaitUntil(self.maintain_at)
    }

    fn wait(&mut self, until: Option<Instant>) {
        let Some(until) = until else { return };
        let CounterRefill { queue, changed } = &self.maintenance.counter_refill;
        let mut queue = queue.lock();
        let clock = &self.maintenance.store.env.clock;
        while queue.is_empty() && !self.maintenance.closing.load(Ordering::Acquire) {
            if clock.wait_until(changed, &mut queue, until) {
                return;
            }
        }
    }
}

impl Maintenance {
    /// Takes `count` values; see `tidesdb_counter_take` in the C interface for their form.
    pub(crate) fn counter_take(
        &self,
        family: &Family,
        counter: u32,
        count: u64,
        offset: u64,
        increment: u64,
        limit: u64,
    ) -> Result<u64> {
        self.store.check_mode()?;
        self.with_counter(family, counter, |state| {
            let range = state.range(count, offset, increment, limit);
            let (first, next) = range.ok_or_else(|| {
                Error::InvalidArgument(format!("the counter has no {count} values up to {limit} left"))
            })?;
            Ok((first, next))
        })
    }

    /// The next value is above `value` from now on.
    pub(crate) fn counter_raise(&self, family: &Family, counter: u32, value: u64) -> Result<()> {
        self.store.check_mode()?;
        self.with_counter(family, counter, |state| Ok(((), state.next.max(value.saturating_add(1)))))
    }

    /// The next value to hand out.
    pub(crate) fn counter_peek(&self, family: &Family, counter: u32) -> Result<u64> {
        self.with_counter(family, counter, |state| Ok((state.next.max(1), state.next)))
    }

    fn with_counter<T>(
        &self,
        family: &Family,
        counter: u32,
        change: impl Fn(&Counter) -> Result<(T, u64)>,
    ) -> Result<T> {
        self.store.catalog.check_complete()?;
        let set = family.counters();
        let cell = set
            .counters
            .get(counter as usize)
            .ok_or_else(|| Error::InvalidArgument(format!("counter {counter} is not below {COUNTERS}")))?;
        let mut writer = None;
        loop {
            family.check_live()?;
            let mut slot = cell.lock();
            let state = match &mut *slot {
                Some(state) => state,
                None => slot.insert(Counter::at(self.stored_counter(family, counter)?)),
            };
            let (answer, next) = change(state)?;
            if next <= state.ceiling {
                state.next = next;
                if state.asks_for_more() {
                    drop(slot);
                    self.counter_refill.push(family.id(), counter);
                }
                return Ok(answer);
            }
            if writer.is_none() {
                // A block may be on its way.
                drop(slot);
                writer = Some(set.ceilings[counter as usize].lock());
                continue;
            }
            let ceiling = state.ceiling_for(next);
            // Values below the present ceiling, and readers of the counter, do not wait for the log.
            drop(slot);
            self.write_ceiling(family.id(), counter, ceiling)?;
            if let Some(state) = &mut *cell.lock() {
                state.ceiling = ceiling;
                state.asked = false;
            }
        }
    }

    /// Makes a ceiling durable. The counter's lock in `CounterSet::ceilings` is held.
    fn write_ceiling(&self, family: FamilyId, counter: u32, ceiling: u64) -> Result<()> {
        let mut batch = WriteBatch::default();
        let key = counter_key(family, counter);
        batch.push(DICTIONARY, &key, Kind::PUT.marked_may_overwrite(), &ceiling.to_le_bytes());
        self.transactions.commit_internal(&batch, None).map(|_| ())
    }

    /// Reserves the next block of a counter, on its request.
    fn reserve_ahead(&self, id: FamilyId, counter: u32) -> Result<()> {
        let Some(family) = self.store.catalog.by_id(id) else { return Ok(()) };
        let set = family.counters();
        let (cell, writer) = (&set.counters[counter as usize], &set.ceilings[counter as usize]);
        // Its holder may wait for room in the log, and writes a ceiling or ends the counter.
        let Some(_writer) = writer.try_lock() else { return Ok(()) };
        let ceiling = match &mut *cell.lock() {
            // Somebody who crossed the ceiling, a DDL or the close was faster otherwise.
            Some(state) if state.asked && !family.is_dropped() => state.ceiling_for(state.ceiling),
            _ => return Ok(()),
        };
        self.write_ceiling(id, counter, ceiling)?;
        if let Some(state) = &mut *cell.lock() {
            state.ceiling = ceiling;
            state.asked = false;
        }
        Ok(())
    }

    /// What is to be done once a second: seconds of the expiry clock, idle locks' memory, the directory's lock.
    fn maintain(&self, rounds: u32, reported: &mut Reported) {
        if rounds % ROUNDS_BETWEEN_SWEEPS == 0 {
            self.transactions.locks.give_back_idle();
        }
        let report = |reported: &mut bool, what: &str, done: Result<()>| {
            let reported_before = std::mem::replace(reported, done.is_err());
            if let (Err(error), false) = (done, reported_before) {
                let again =
                    if matches!(error, Error::ReadOnly(_)) { "" } else { ", tried again each second" };
                self.store.log(LogLevel::Warn, &format!("{what}{again}: {error}"));
            }
        };
        report(&mut reported.lock, "the lock of the directory is not confirmed", self.store.check_lock());
        report(
            &mut reported.clock,
            "no seconds of the expiry clock reserved ahead",
            self.store.maintain_expiry_clock(),
        );
        report(
            &mut reported.values,
            "value files without values stay for now",
            self.store.end_value_files().map(|_| ()),
        );
        self.store.look_for_room_for_values();
    }

    fn stored_counter(&self, family: &Family, counter: u32) -> Result<u64> {
        let mut value = Vec::new();
        let key = counter_key(family.id(), counter);
        // No entry of the dictionary expires.
        let read = |entry: Entry<'_>| resolve(&entry, || 0, &NoSeparateValues, ReadParts::Both, &mut value);
        match self.store.newest(DICTIONARY, &key, MAX_SEQ, read)? {
            Some(Seen { live: true, .. }) => number(&value)
                .ok_or_else(|| Error::corruption("dictionary", 0, "a counter's entry is not 8 bytes long")),
            _ => Ok(1),
        }
    }

    /// Writes the next values as ceilings, so a clean restart leaves no gap.
    ///
    /// Errors: `DiskFull` while records wait for room in the log, those of a DDL with one of the counters, too.
    pub(crate) fn settle_counters(&self) -> Result<()> {
        let mut batch = WriteBatch::default();
        for family in self.store.catalog.all() {
            let Some(set) = family.used_counters() else { continue };
            for (counter, slot) in (0u32..).zip(&set.counters) {
                let _writer = loop {
                    if let Some(writer) = set.ceilings[counter as usize].try_lock_for(WaitLimit::STEP) {
                        break writer;
                    }
                    // A DDL that has it may wait for room.
                    self.store.wal.check_room()?;
                };
                if let Some(state) = slot.lock().as_mut().filter(|state| state.ceiling != state.next) {
                    let key = counter_key(family.id(), counter);
                    batch.push(DICTIONARY, &key, Kind::PUT.marked_may_overwrite(), &state.next.to_le_bytes());
                    state.ceiling = state.next;
                    state.asked = false;
                }
            }
        }
        if batch.is_empty() {
            return Ok(());
        }
        self.transactions.commit_internal(&batch, None).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::db::Db;
    use crate::io::faulty::Crash;
    use crate::io::FaultyDisk;
    use crate::options::{FamilyOptions, Options};

    fn open(disk: &FaultyDisk) -> Db {
        let options = Options { write_buffer_size: 1 << 20, wal_segment_size: 1 << 20, ..Options::default() };
        Db::open_on(disk.shared(), "/s", options, None).expect("opens")
    }

    fn take(db: &Db, family: &Family) -> u64 {
        db.counter_take(family, 3, 1, 1, 1, u64::MAX).expect("has values")
    }

    #[test]
    fn the_next_block_is_durable_before_the_first_one_runs_out() {
        let disk = FaultyDisk::new(1);
        let db = open(&disk);
        let family = db.create_family(b"t", FamilyOptions::default()).expect("creates");
        assert_eq!(take(&db, &family), 1);
        let first = db.maintenance.stored_counter(&family, 3).expect("reads");
        while take(&db, &family) < first * 3 / 4 {}
        // The entry is in the memtable before the log is synced; the counter has its ceiling after that.
        let durable = || family.counters().counters[3].lock().as_ref().map_or(0, |state| state.ceiling);
        let begun = Instant::now();
        while durable() <= first {
            assert!(begun.elapsed() < Duration::from_secs(20), "no block was reserved ahead of {first}");
            std::thread::sleep(Duration::from_millis(1));
        }
        // Crossing the first ceiling waits for nobody now: the log may even be gone.
        let second = durable();
        let after = disk.crash(Crash::Drop);
        disk.crash_at(disk.calls() + 1);
        while take(&db, &family) < first + 1 {}
        drop((db, family));
        let db = open(&after);
        assert_eq!(
            take(&db, &db.family(b"t").expect("there")),
            second,
            "what was handed out stays handed out"
        );
    }

    #[test]
    fn no_value_twice_with_many_takers_a_ddl_and_crashes() {
        let mut disk = FaultyDisk::new(2);
        let mut known: HashSet<u64> = HashSet::new();
        for life in 0..4 {
            let db = open(&disk);
            if life == 0 {
                db.create_family(b"t", FamilyOptions::default()).expect("creates");
            }
            let family = db.family(b"t").expect("there");
            let takers: Vec<_> = (0..4)
                .map(|_| {
                    let (db, family): (Db, Arc<Family>) = (db.clone(), family.clone());
                    std::thread::spawn(move || (0..3000).map(|_| take(&db, &family)).collect::<Vec<u64>>())
                })
                .collect();
            // Upwards, far beyond what is being reserved.
            let mut ddl = db.ddl().expect("begins");
            ddl.set_counter(b"t", 3, (life + 1) * 1_000_000).expect("is there");
            ddl.commit().expect("commits");
            for taker in takers {
                for value in taker.join().expect("ends") {
                    assert!(known.insert(value), "{value} was handed out twice");
                }
            }
            let after = disk.crash(if life % 2 == 0 { Crash::Drop } else { Crash::Kill });
            drop((db, family));
            disk = after;
        }
        let db = open(&disk);
        let next = take(&db, &db.family(b"t").expect("there"));
        assert!(known.insert(next) && next >= 4_000_000, "{next}");
    }
}
