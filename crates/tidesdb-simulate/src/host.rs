//! The world of a simulated store: time, threads and chance are the scheduler's.

use std::sync::Arc;
use std::time::Duration;

use tidesdb_simulated::internal::env::Env;
use tidesdb_simulated::internal::host::{Clock, Handle, Instant, Random, Spawn, Work};
use tidesdb_simulated::internal::io::Disk;
use tidesdb_simulated::simulation::{self, TaskId};

/// Seconds since 1970 at the begin of a run.
const EPOCH: u64 = 1_800_000_000;

/// The scheduler's clock.
#[derive(Clone, Copy, Debug)]
pub struct SimulatedClock;

impl Clock for SimulatedClock {
    fn now(&self) -> Instant {
        Instant::from_nanos(simulation::now_micros() * 1000)
    }

    fn unix_seconds(&self) -> u64 {
        EPOCH + simulation::now_micros() / 1_000_000
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
        2
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
