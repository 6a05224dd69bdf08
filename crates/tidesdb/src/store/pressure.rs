//! Back-pressure: the store's measurements of itself, and the resulting delay of a statement.
//! [`write_controller::delay`] decides, a pure function; here are the numbers and the sleep.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::Arc;
use std::time::Duration;

use crate::compaction::write_controller::{self, Cause, Delay, Pressure};
use crate::error::{Error, Result};
use crate::format::units::Micros;
use crate::host::{Clock, Instant};
use crate::lock::LockOwner;
use crate::options::LogLevel;
use crate::store::compaction_rate::CompactionRate;
use crate::store::memory::Shortage;
use crate::store::no_space_backoff::NoSpaceBackoff;
use crate::store::pace::{Pace, MAX_DELAY};
use crate::store::Store;
use crate::sync::Mutex;

/// Longest sleep between two checks for a kill or of the store.
const STEP: Duration = Duration::from_millis(10);

/// The same in a wait for other transactions' memory.
const MEMORY_STEP: Duration = Duration::from_millis(1);

/// Longest wait for it: small transactions may release theirs all the time, alongside large ones.
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// A wait ends after this time without released memory.
const STANDSTILL: Duration = Duration::from_millis(100);

/// Time after a vain wait without another one: a statement has many rows.
const RESIGNATION: Duration = Duration::from_secs(1);

/// Shorter delays are slept later, together: a sleep costs more than its length.
const SHORTEST_SLEEP: Duration = Duration::from_micros(200);

/// Bytes of changes a transaction may keep in memory, whatever others keep.
pub(crate) const LARGE_BATCH: usize = 64 << 10;

/// Number of large transactions with changes in memory before each gets less.
const LARGE_TRANSACTIONS: u64 = 32;

/// Duration of a writers' standstill before it is reported, in microseconds.
const LONG_STALL_US: u64 = 1_000_000;

/// A standstill of writers: reported once it is long, and at its end.
#[derive(Debug, Default)]
pub(crate) struct Stall {
    /// Its begin and its last writer's time, in microseconds of the disk's clock; 0: none.
    since: AtomicU64,
    last: AtomicU64,
    is_told: AtomicBool,
}

impl Stall {
    /// A writer stands still; returns the report, if the standstill is long by now.
    fn goes_on(&self, cause: Cause, now: u64) -> Option<String> {
        let now = now.max(1);
        let since = self.since.compare_exchange(0, now, Relaxed, Relaxed).err().unwrap_or(now);
        self.last.store(now, Relaxed);
        if now.saturating_sub(since) < LONG_STALL_US || self.is_told.swap(true, Relaxed) {
            return None;
        }
        let why = match cause {
            Cause::Memory => "the memtables are full, and the flush of the older ones is not done",
            Cause::Level0 => {
                "a table has as many runs in level 0 as its l0_stall_threshold: merges do not keep up"
            }
        };
        Some(format!("writers have stood still for {}: {why}", Micros(now.saturating_sub(since))))
    }

    /// A writer goes on; returns the report, if the standstill was long.
    fn is_over(&self) -> Option<String> {
        if self.since.load(Relaxed) == 0 {
            return None;
        }
        let since = self.since.swap(0, Relaxed);
        let lasted = self.last.load(Relaxed).saturating_sub(since);
        (since != 0 && self.is_told.swap(false, Relaxed))
            .then(|| format!("writers go on, after {}", Micros(lasted)))
    }
}

/// The store's measurements of its backlog.
#[derive(Debug)]
pub(crate) struct Gauges {
    /// Runs of level 0, and the number at which writers stop, of the family closest to its stop.
    pub(crate) l0_runs: AtomicU64,
    pub(crate) l0_stop: AtomicU64,
    pub(crate) debt: AtomicU64,
    /// Bytes of memtable flushed per second.
    flush_rate: AtomicU64,
    pub(crate) compaction_rate: CompactionRate,
    pace: Pace,
    pub(crate) stall: Stall,
    /// Merges on a full disk.
    pub(crate) no_space: NoSpaceBackoff,
    /// Time of the last vain wait for transactions' memory.
    stood_still: Mutex<Option<Instant>>,
}

impl Gauges {
    /// Nothing is behind. Pauses pass by `clock`.
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Gauges {
        Gauges {
            l0_runs: AtomicU64::new(0),
            l0_stop: AtomicU64::new(0),
            debt: AtomicU64::new(0),
            flush_rate: AtomicU64::new(0),
            compaction_rate: CompactionRate::new(Arc::clone(&clock)),
            pace: Pace::default(),
            stall: Stall::default(),
            no_space: NoSpaceBackoff::new(clock),
            stood_still: Mutex::new(None),
        }
    }

    /// Bytes still to compact.
    pub(crate) fn debt(&self) -> u64 {
        self.debt.load(Relaxed)
    }

    /// A flush of `bytes` took `time`.
    pub(crate) fn flushed(&self, bytes: u64, time: Duration) {
        let now = (bytes as f64 / time.as_secs_f64().max(1e-3)) as u64;
        let before = self.flush_rate.load(Relaxed);
        self.flush_rate.store(if before == 0 { now } else { (before * 3 + now) / 4 }, Relaxed);
    }
}

impl Store {
    /// The call in which a merge found the disk full, while there is no more space than then.
    fn merge_without_space(&self) -> Option<String> {
        let no_space = &self.pressure.no_space;
        no_space.look_again(|family| self.family_options(family).is_some(), || self.free_space());
        no_space.lacks_space()
    }

    /// True if a merge waits for space after a full disk.
    pub(crate) fn merges_lack_space(&self) -> bool {
        self.merge_without_space().is_some()
    }

    fn pressure_now(&self) -> Pressure {
        let view = self.super_version.load();
        Pressure {
            active: view.active.bytes() as u64,
            active_limit: self.write_buffer_in_force() as u64,
            unflushed: view.sealed_bytes() as u64,
            flush_rate: self.pressure.flush_rate.load(Relaxed),
            l0_runs: self.pressure.l0_runs.load(Relaxed),
            l0_stop: self.pressure.l0_stop.load(Relaxed),
            debt: self.pressure.debt.load(Relaxed),
            debt_soft: self.options.base_level_size * 16,
            compaction_rate: self.pressure.compaction_rate.get(),
        }
    }

    /// Mean bytes of a commit in a memtable. Bytes in runs do not count: after a load of gigabytes,
    /// statements do not wait for a share of it.
    pub(crate) fn mean_commit(&self) -> u64 {
        // In this order: what is taken away was added before.
        let runs = self.stats.run_bytes.load(Relaxed);
        let bytes = self.stats.user_bytes.load(Relaxed).saturating_sub(runs);
        bytes / self.stats.commits.load(Relaxed).max(1)
    }

    /// Bound on the changes of all open transactions, in bytes: a write buffer, or less under a small bound.
    pub(crate) fn memory_of_transactions(&self) -> u64 {
        let (buffer, bound) = (self.live.write_buffer_size() as u64, self.live.max_memory() / 8);
        if bound == 0 {
            buffer
        } else {
            bound.clamp(buffer / 2, buffer)
        }
    }

    /// Bytes of changes a transaction may keep in memory, once it has more than [`LARGE_BATCH`].
    pub(crate) fn share_of_transaction(&self) -> usize {
        let all = self.stats.batch_bytes.load(Relaxed);
        let others = &[&self.stats.committing_bytes, &self.stats.undecided_bytes];
        let open = others.iter().fold(all, |open, other| open.saturating_sub(other.load(Relaxed)));
        let most = self.memory_of_transactions();
        if open <= most {
            return usize::MAX;
        }
        (most / self.stats.large_batches.load(Relaxed).max(LARGE_TRANSACTIONS)) as usize
    }

    /// Sleeps and looks again until `done` has an answer; `None` after `longest`, and `Interrupted` on a
    /// kill. There is no wake-up: an answer is seen a step late, and memory never released costs `longest`.
    fn look_until<T>(
        &self,
        longest: Duration,
        owner: &LockOwner,
        mut done: impl FnMut() -> Option<T>,
    ) -> Result<Option<T>> {
        let clock = &*self.env.clock;
        self.stats.count_backpressure(clock, || {
            let begun = clock.now();
            loop {
                if let Some(answer) = done() {
                    return Ok(Some(answer));
                }
                if owner.is_killed() {
                    return Err(Error::Interrupted);
                }
                if clock.elapsed(begun) >= longest {
                    return Ok(None);
                }
                clock.sleep(MEMORY_STEP);
            }
        })
    }

    /// Waits until `reserve` succeeds, while transactions release memory. False: it did not, or another wait
    /// was in vain a moment ago. `Interrupted` on a kill.
    pub(crate) fn wait_for_transactions(
        &self,
        max_wait: Duration,
        owner: &LockOwner,
        mut reserve: impl FnMut() -> bool,
    ) -> Result<bool> {
        let clock = &*self.env.clock;
        if self.pressure.stood_still.lock().is_some_and(|when| clock.elapsed(when) < RESIGNATION) {
            return Ok(reserve());
        }
        let (mut seen, mut since) = (self.stats.batch_bytes.load(Relaxed), clock.now());
        let answer = self.look_until(max_wait.min(LONGEST_WAIT), owner, || {
            if reserve() {
                return Some(true);
            }
            let now = self.stats.batch_bytes.load(Relaxed);
            if now < seen {
                since = clock.now();
            }
            seen = now;
            (clock.elapsed(since) >= STANDSTILL).then_some(false)
        })?;
        let reserved = answer.unwrap_or(false);
        if !reserved {
            *self.pressure.stood_still.lock() = Some(clock.now());
        }
        Ok(reserved)
    }

    /// Waits at the begin of a statement while ending transactions have many changes in memory; those waiting
    /// for their client do not count. An ending transaction needs only the logs, the server's among them, and
    /// a replica's answer if the server asks for one. So the wait is short and bounded. An applier does not
    /// wait: committing transactions may wait for its turn.
    fn wait_for_committers(&self, max_wait: Duration, owner: &LockOwner) -> Result<()> {
        if owner.is_applier() {
            return Ok(());
        }
        let most = self.memory_of_transactions() / 2;
        let is_over = || (self.stats.committing_bytes.load(Relaxed) <= most).then_some(());
        if is_over().is_none() {
            self.look_until(max_wait.min(LONGEST_WAIT), owner, is_over)?;
        }
        Ok(())
    }

    fn tell_stall(&self, line: Option<String>) {
        if let Some(line) = line {
            self.log(LogLevel::Warn, &line);
        }
    }

    /// Delays a statement while flush and compaction lag; its transaction holds no lock. Errors after
    /// `max_wait`, on a kill, and when the disk is full or the log failed.
    pub(crate) fn throttle(&self, max_wait: Duration, owner: &LockOwner) -> Result<()> {
        let clock = &*self.env.clock;
        if self.memory_bound.shortage() == Shortage::Writers {
            self.memory_bound.writer_waits.fetch_add(1, Relaxed);
            let sleep = Duration::from_nanos(MAX_DELAY).min(max_wait);
            self.stats.count_backpressure(clock, || clock.sleep(sleep));
        }
        self.wait_for_committers(max_wait, owner)?;
        let bytes = self.mean_commit();
        let mut begun = None;
        loop {
            let cause = match write_controller::delay(&self.pressure_now(), bytes) {
                Delay::None => {
                    self.tell_stall(self.pressure.stall.is_over());
                    return Ok(());
                }
                Delay::Share(share) => {
                    self.tell_stall(self.pressure.stall.is_over());
                    let sleep = Duration::from_nanos(self.pressure.pace.take(clock.now(), share));
                    if sleep >= SHORTEST_SLEEP {
                        self.stats.count_backpressure(clock, || clock.sleep(sleep.min(max_wait)));
                    }
                    return Ok(());
                }
                Delay::Stop(cause) => cause,
            };
            self.wal_alive()?;
            self.tell_stall(self.pressure.stall.goes_on(cause, self.now_micros()));
            if owner.is_killed() {
                return Err(Error::Interrupted);
            }
            if clock.elapsed(*begun.get_or_insert_with(|| clock.now())) >= max_wait {
                return Err(Error::BackpressureTimeout);
            }
            self.stats.count_backpressure(clock, || {
                let merging = (cause == Cause::Level0).then(|| self.merge_without_space()).flatten();
                let mut state = self.memtables.state.lock();
                if let Some(stuck) = &state.stuck {
                    return Err(stuck.error(self));
                }
                if let Some(call) = merging {
                    return Err(Error::DiskFull(call));
                }
                self.memtables.changed.wait_for(&mut state, STEP);
                Ok(())
            })?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_stall_is_told_when_it_is_long_and_when_it_is_over() {
        let stall = Stall::default();
        assert_eq!((stall.is_over(), stall.goes_on(Cause::Level0, 1_000)), (None, None));
        assert_eq!((stall.goes_on(Cause::Level0, 900_000), stall.is_over()), (None, None));
        assert_eq!(stall.goes_on(Cause::Memory, 2_000_000), None);
        let line = stall.goes_on(Cause::Memory, 3_200_000).expect("it is long");
        assert!(line.starts_with("writers have stood still for 1.2 s: the memtables are full"), "{line}");
        assert_eq!(stall.goes_on(Cause::Memory, 5_500_000), None);
        assert_eq!(stall.is_over().as_deref(), Some("writers go on, after 3.5 s"));
        assert_eq!(stall.is_over(), None);
    }
}
