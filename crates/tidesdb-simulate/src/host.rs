//! The world of a simulated store: time, threads and chance are the scheduler's.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use tidesdb_simulated::internal::env::Env;
use tidesdb_simulated::internal::host::{Clock, Handle, Instant, Random, Spawn, Work};
use tidesdb_simulated::internal::io::Disk;
use tidesdb_simulated::simulation::{self, TaskId};

/// Seconds since 1970 at the begin of a run.
const EPOCH: u64 = 1_800_000_000;

thread_local! {
    /// Seconds by which the wall clock was set ahead. A run has one thread.
    static AHEAD: Cell<i64> = const { Cell::new(0) };
}

/// Sets the wall clock ahead or back.
pub fn set_wall(seconds: i64) {
    AHEAD.set(AHEAD.get() + seconds);
}

/// A run begins: the wall clock is right.
pub fn right_wall() {
    AHEAD.set(0);
}

/// Seconds since a run's begin.
pub fn monotonic_seconds() -> u64 {
    simulation::now_micros() / 1_000_000
}

/// Seconds since 1970, by the wall clock.
pub fn wall() -> u64 {
    (EPOCH + monotonic_seconds()).saturating_add_signed(AHEAD.get())
}

/// The scheduler's clock.
#[derive(Clone, Copy, Debug)]
pub struct SimulatedClock;

impl Clock for SimulatedClock {
    fn now(&self) -> Instant {
        Instant::from_nanos(simulation::now_micros() * 1000)
    }

    fn unix_seconds(&self) -> u64 {
        wall()
    }

    fn sleep(&self, time: Duration) {
        simulation::sleep(time);
    }
}

/// Chance by the run's seed.
#[derive(Clone, Copy, Debug)]
pub struct SimulatedRandom;

impl Random for SimulatedRandom {
    fn next(&self) -> u64 {
        simulation::random()
    }
}

/// Threads are coroutines.
#[derive(Clone, Copy, Debug)]
pub struct Coroutines;

#[derive(Debug)]
struct Coroutine(TaskId);

impl Handle for Coroutine {
    fn is_finished(&self) -> bool {
        simulation::is_done(self.0)
    }

    fn join(self: Box<Self>) {
        simulation::join(self.0);
    }
}

impl Spawn for Coroutines {
    fn spawn(&self, name: &str, work: Work) -> std::io::Result<Box<dyn Handle>> {
        Ok(Box::new(Coroutine(simulation::spawn(name, work))))
    }

    fn cores(&self) -> usize {
        4
    }

    fn yield_to_others(&self) {}
}

/// The world around a disk.
pub fn world(disk: Arc<dyn Disk>) -> Env {
    Env {
        disk,
        clock: Arc::new(SimulatedClock),
        spawn: Arc::new(Coroutines),
        random: Arc::new(SimulatedRandom),
    }
}
