//! A model of a store whose writers want more than its merges can do: the write controller and the measured rate of
//! compaction together, on disks of several speeds. It takes no time, so its figures do not depend on the machine.
//!
//! The model has a memtable, level 0, a base level and a level below it that stays as it is. One merge takes all runs of
//! level 0 with the base level, another one the base level's excess with its share of the level below.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;
use std::time::Duration;

use crate::compaction::write_controller::{delay, Delay, Pressure};
use crate::host::{Clock, Instant};
use crate::store::compaction_rate::{CompactionRate, Merge};
use crate::store::pace::MAX_DELAY;

const MIB: f64 = (1 << 20) as f64;
const BUFFER: f64 = 64.0 * MIB;
const BASE: f64 = 128.0 * MIB;
const LOWER: f64 = 2560.0 * MIB;
const FLUSH_RATE: f64 = 128.0 * MIB;
const L0_STOP: u64 = 10;
const WRITERS: f64 = 8.0;
const STATEMENT: f64 = 2048.0;
const STEP: f64 = 0.02;
const SECONDS: usize = 400;

/// A clock that the model moves.
#[derive(Debug, Default)]
pub(super) struct Stopped(AtomicU64);

impl Clock for Stopped {
    fn now(&self) -> Instant {
        Instant::from_nanos(self.0.load(Relaxed))
    }
    fn unix_seconds(&self) -> u64 {
        0
    }
    fn sleep(&self, time: Duration) {
        self.0.fetch_add(time.as_nanos() as u64, Relaxed);
    }
}

/// A merge under way: bytes to read, and those of them still unread.
struct Running<'a> {
    bytes: f64,
    left: f64,
    /// Runs of level 0, or bytes of the base level, that it takes away.
    runs: usize,
    excess: f64,
    told: Merge<'a>,
}

#[derive(Default)]
struct Levels {
    active: f64,
    unflushed: f64,
    flushed: f64,
    l0: Vec<f64>,
    base: f64,
}

impl Levels {
    /// As the picker counts it.
    fn debt(&self) -> f64 {
        let incoming: f64 = if self.l0.len() >= 4 { self.l0.iter().sum() } else { 0.0 };
        let held = self.base + incoming;
        let excess = (held - BASE).max(0.0);
        incoming + if incoming > 0.0 { self.base } else { 0.0 } + excess + LOWER * excess / held.max(1.0)
    }

    fn pressure(&self, compaction_rate: u64) -> Pressure {
        Pressure {
            active: self.active as u64,
            active_limit: BUFFER as u64,
            unflushed: self.unflushed as u64,
            flush_rate: FLUSH_RATE as u64,
            l0_runs: self.l0.len() as u64,
            l0_stop: L0_STOP,
            debt: self.debt() as u64,
            debt_soft: 16 * BASE as u64,
            compaction_rate,
        }
    }

    /// Writes for one step by writers that could write `demand` bytes a second.
    fn write(&mut self, demand: f64, compaction_rate: u64) -> f64 {
        let pace = match delay(&self.pressure(compaction_rate), STATEMENT as u64) {
            Delay::Stop(_) => return 0.0,
            // None waits longer than the longest delay.
            Delay::Share(share) => {
                (STATEMENT * 1e9 / share as f64).max(WRITERS * STATEMENT * 1e9 / MAX_DELAY as f64)
            }
            Delay::None => demand,
        };
        let bytes = STEP * demand.min(pace);
        let bytes = if self.unflushed > 0.0 { bytes.min(BUFFER - self.active) } else { bytes };
        self.active += bytes;
        bytes
    }

    /// True if a flush ended.
    fn flush(&mut self) -> bool {
        if self.active >= BUFFER && self.unflushed == 0.0 {
            (self.unflushed, self.flushed, self.active) = (self.active, self.active, 0.0);
        }
        let flushing = self.unflushed > 0.0;
        self.unflushed = (self.unflushed - FLUSH_RATE * STEP).max(0.0);
        if flushing && self.unflushed == 0.0 {
            self.l0.push(self.flushed);
        }
        flushing && self.unflushed == 0.0
    }
}

struct Outcome {
    /// Bytes a second, mean and of the slowest tenth of the seconds, in MiB.
    mean: f64,
    slow: f64,
    /// Seconds without a byte.
    idle: usize,
}

/// Runs the model on a disk that merges `merge_rate` bytes a second. Not `measured`: at the default rate.
fn run(merge_rate: f64, demand: f64, measured: bool) -> Outcome {
    let clock = Arc::new(Stopped::default());
    let rate = CompactionRate::new(Arc::<Stopped>::clone(&clock));
    let (mut levels, mut written) = (Levels::default(), 0.0);
    let (mut upper, mut lower): (Option<Running>, Option<Running>) = (None, None);
    let mut seconds = Vec::new();
    for _ in 0..SECONDS {
        let before = written;
        for _ in 0..(1.0 / STEP) as usize {
            written += levels.write(demand, if measured { rate.get() } else { 0 });
            let mut changed = levels.flush();
            if upper.is_none() && levels.l0.len() >= 4 {
                let bytes = levels.l0.iter().sum::<f64>() + levels.base;
                let runs = levels.l0.len();
                upper = Some(Running { bytes, left: bytes, runs, excess: 0.0, told: rate.begin() });
            }
            if lower.is_none() && levels.base > BASE {
                let excess = levels.base - BASE;
                let bytes = excess + LOWER * excess / levels.base;
                lower = Some(Running { bytes, left: bytes, runs: 0, excess, told: rate.begin() });
            }
            let running = upper.iter().len() + lower.iter().len();
            clock.sleep(Duration::from_secs_f64(STEP));
            for slot in [&mut upper, &mut lower] {
                let Some(merge) = slot else { continue };
                merge.left -= merge_rate * STEP / running as f64;
                if merge.left > 0.0 {
                    continue;
                }
                let done = slot.take().expect("it is there");
                levels.base += levels.l0.drain(..done.runs).sum::<f64>() - done.excess;
                done.told.finish(done.bytes as u64);
                changed = true;
            }
            if changed {
                rate.look(written as u64, levels.debt() as u64);
            }
        }
        seconds.push((written - before) / MIB);
    }
    let mut late = seconds.split_off(30);
    late.sort_by(f64::total_cmp);
    Outcome {
        mean: late.iter().sum::<f64>() / late.len() as f64,
        slow: late[late.len() / 10],
        idle: late.iter().filter(|&&second| second == 0.0).count(),
    }
}

/// By a constant rate writers stood still for most of the time on the first two of these disks.
#[test]
fn writers_do_not_stand_still_on_any_disk() {
    for (merge_rate, demand) in [(20.0, 60.0), (50.0, 60.0), (100.0, 60.0), (100.0, 200.0), (400.0, 200.0)] {
        let now = run(merge_rate * MIB, demand * MIB, true);
        assert_eq!(now.idle, 0, "merges of {merge_rate} MiB a second");
        assert!(now.slow > now.mean / 4.0, "{merge_rate}: {} of {} MiB a second", now.slow, now.mean);
    }
}

#[test]
fn the_measured_rate_costs_little_of_the_writes() {
    for (merge_rate, demand) in [(20.0, 60.0), (50.0, 60.0), (100.0, 200.0), (200.0, 60.0), (800.0, 200.0)] {
        let now = run(merge_rate * MIB, demand * MIB, true);
        let constant = run(merge_rate * MIB, demand * MIB, false);
        println!(
            "{merge_rate} MiB/s: {:.1} ({:.1}, {} s idle), by a constant {:.1} ({:.1}, {} s idle)",
            now.mean, now.slow, now.idle, constant.mean, constant.slow, constant.idle
        );
        assert!(now.mean > constant.mean * 0.85, "{merge_rate}: {} of {}", now.mean, constant.mean);
    }
}
