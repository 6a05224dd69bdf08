//! Time: the wall clock, the monotonic clock, sleeps, and waits with a deadline.

#![allow(clippy::disallowed_methods)] // Here they are called, and nowhere else.

use std::fmt;
use std::ops::Add;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::sync::{Condvar, MutexGuard};

/// A point of a [`Clock`]'s monotonic time, in nanoseconds from a start of the clock's own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Instant(u64);

impl Instant {
    /// So many nanoseconds after the clock's start.
    pub const fn from_nanos(nanos: u64) -> Instant {
        Instant(nanos)
    }

    /// Nanoseconds from the clock's start.
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// Microseconds from the clock's start.
    pub const fn micros(self) -> u64 {
        self.0 / 1000
    }

    /// The time from `earlier` to this; none when `earlier` is later.
    pub const fn since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;

    fn add(self, time: Duration) -> Instant {
        Instant(self.0.saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)))
    }
}

/// Time. Shared by all threads of a store.
pub trait Clock: Send + Sync + fmt::Debug {
    /// Monotonic time, for waits, deadlines and durations. It passes while a thread sleeps.
    fn now(&self) -> Instant;

    /// Monotonic time in microseconds, for reports of the engine and for states of some length. The clock of a faulty
    /// disk counts calls here, while threads wait by [`Clock::now`]; to every other clock it is the same time.
    fn now_micros(&self) -> u64 {
        self.now().micros()
    }

    /// Wall clock, in seconds since 1970.
    fn unix_seconds(&self) -> u64;

    /// Returns after `time`.
    fn sleep(&self, time: Duration);
}

impl dyn Clock + '_ {
    /// The time since `earlier`.
    pub fn elapsed(&self, earlier: Instant) -> Duration {
        self.now().since(earlier)
    }

    /// Waits for a notification of `condvar`, at the latest until `deadline`; true if the deadline has passed. Limits in
    /// [`Condvar::wait_for`] pass by the same time.
    pub fn wait_until<T>(&self, condvar: &Condvar, guard: &mut MutexGuard<'_, T>, deadline: Instant) -> bool {
        let left = deadline.since(self.now());
        left.is_zero() || condvar.wait_for(guard, left).timed_out()
    }
}

/// The operating system's clocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Instant {
        // No state: the start that all clocks of the process share, so that their readings can be compared.
        static START: OnceLock<std::time::Instant> = OnceLock::new();
        let nanos = START.get_or_init(std::time::Instant::now).elapsed().as_nanos();
        Instant(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    fn unix_seconds(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
    }

    fn sleep(&self, time: Duration) {
        std::thread::sleep(time);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::sync::Mutex;

    #[test]
    fn instants_are_compared_and_do_not_overflow() {
        let at = Instant::from_nanos(5_000);
        let later = at + Duration::from_micros(3);
        assert_eq!((later.micros(), later.since(at)), (8, Duration::from_micros(3)));
        assert_eq!(at.since(later), Duration::ZERO);
        assert_eq!((later + Duration::MAX).nanos(), u64::MAX);
    }

    #[test]
    fn a_wait_ends_at_its_deadline_or_when_it_is_told() {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        assert!(clock.unix_seconds() > 1_700_000_000);
        let (told, changed) = (Mutex::new(false), Condvar::new());
        let mut guard = told.lock();
        let begun = clock.now();
        assert!(clock.wait_until(&changed, &mut guard, begun), "its deadline has come");
        let deadline = begun + Duration::from_millis(2);
        while !clock.wait_until(&changed, &mut guard, deadline) {}
        assert!(clock.now() >= deadline && clock.elapsed(begun) >= Duration::from_millis(2));
        drop(guard);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut guard = told.lock();
                let never = clock.now() + Duration::from_secs(3600);
                while !*guard {
                    assert!(!clock.wait_until(&changed, &mut guard, never));
                }
            });
            *told.lock() = true;
            changed.notify_all();
        });
    }
}
