//! The engine's machine without its files: time, threads and chance. Each is a trait with the machine's implementation;
//! a test or a simulation gives the engine others. [`crate::env::Env`] carries them.
//!
//! Nothing else reads a clock, sleeps, starts a thread or draws a random number (`clippy.toml` forbids the calls).

mod clock;
mod random;
mod threads;

pub use self::clock::{Clock, Instant, SystemClock};
pub use self::random::{HashMap, HashSet, Random, SystemRandom};
pub use self::threads::{run, Handle, Next, Spawn, Step, SystemThreads, Work};
pub use crate::splitmix::splitmix64;
