//! The engine's locks, condition variables and waits of one thread for another. This file alone names `parking_lot`,
//! the locks of `std::sync`, and `loom` (`tests/layers.rs` checks it). A build can therefore replace them:
//!
//! - ordinarily those of `parking_lot` and of the standard library, without anything in between;
//! - under `cfg(loom)` loom's, for the models at the end of some files (`crates/tidesdb-loom`);
//! - under `cfg(simulation)` those of a scheduler of coroutines, for the whole engine (`crates/tidesdb-simulate`).
//!
//! An implementation needs no more than the names here. `Mutex` has `new`, `lock`, `try_lock`, `try_lock_for`,
//! `try_lock_arc_for` and `get_mut`; `RwLock` has `new`, `read` and `write`; `Condvar` has `new`, `wait`, `wait_for`, `notify_one`
//! and `notify_all`; all have `Default` and `Debug`. A limit of a wait is a duration by the clock of the store's
//! `Env` (`env.rs`). Nothing maps a guard, upgrades one, or sends one to another thread but [`ArcMutexGuard`]: a group
//! of DDL holds it from call to call.
//!
//! Where all threads share one thread of the system, as coroutines:
//!
//! - `OnceLock` stays the standard library's: no initialiser waits, takes a lock or calls the disk.
//! - Atomics without a model stay the standard library's, and so do their loops of `compare_exchange`: after each turn
//!   another thread has gone on.
//! - A loop waiting for another thread without a lock takes its turns here: [`spin_loop`], [`yield_now`], [`SpinWait`].
//! - All stores of the process share its statics. No answer depends on their state; `docs/architecture.md` lists them.
//! - Coroutines share thread-locals. The counts of one call's work (`cache/work.rs`) would include the calls of others;
//!   the buffer of a block's stored bytes (`table/reader.rs`) is taken out while in use.

#[cfg(not(any(loom, simulation)))]
pub(crate) use self::os::*;

#[cfg(simulation)]
pub(crate) use self::simulated::*;

// By path: `tidesdb-loom` takes this file from elsewhere.
#[cfg(simulation)]
#[path = "sync/scheduler.rs"]
pub mod scheduler;
#[cfg(simulation)]
#[path = "sync/simulated.rs"]
mod simulated;

#[cfg(loom)]
pub(crate) use self::model::*;

/// The locks of a running engine.
#[cfg(not(any(loom, simulation)))]
mod os {
    use std::time::Duration;

    pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard};
    pub(crate) use std::hint::spin_loop;
    pub(crate) use std::sync::{atomic, Arc};
    pub(crate) use std::thread::{current, park_timeout, yield_now, Thread};

    /// A place where another thread may come in between, for the simulation: it changes coroutines elsewhere only at waits,
    /// locks and calls to the disk.
    #[inline(always)]
    pub(crate) fn point() {}

    /// A place inside a long call, by its name: the simulation counts it, and others may go on for a while before the caller
    /// does.
    #[inline(always)]
    pub(crate) fn stage(_name: &'static str) {}

    /// Tells the simulation of an event, and nobody else.
    #[inline(always)]
    pub(crate) fn note(_kind: &'static str) {}

    /// A guard with a share in its mutex.
    pub(crate) type ArcMutexGuard<T> = parking_lot::ArcMutexGuard<parking_lot::RawMutex, T>;

    /// A mutex whose waiters sleep soon. Those of [`Mutex`] yield first, and a yielding thread gives up its slice of
    /// the processor on newer kernels. A panic under it does not poison it.
    pub(crate) struct SleepMutex<T>(std::sync::Mutex<T>);

    pub(crate) type SleepMutexGuard<'a, T> = std::sync::MutexGuard<'a, T>;

    impl<T> SleepMutex<T> {
        pub(crate) fn new(value: T) -> SleepMutex<T> {
            SleepMutex(std::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> SleepMutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
        }

        pub(crate) fn try_lock(&self) -> Option<SleepMutexGuard<'_, T>> {
            match self.0.try_lock() {
                Ok(guard) => Some(guard),
                Err(std::sync::TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
                Err(std::sync::TryLockError::WouldBlock) => None,
            }
        }
    }

    /// The condition variable of a [`SleepMutex`].
    #[derive(Default)]
    pub(crate) struct SleepCondvar(std::sync::Condvar);

    impl SleepCondvar {
        pub(crate) fn wait_for<'a, T>(
            &self,
            guard: SleepMutexGuard<'a, T>,
            limit: Duration,
        ) -> SleepMutexGuard<'a, T> {
            self.0.wait_timeout(guard, limit).unwrap_or_else(std::sync::PoisonError::into_inner).0
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
    }

    /// The turns of a wait for a briefly held latch: spins, then yields.
    #[derive(Default)]
    pub(crate) struct SpinWait(crossbeam_utils::Backoff);

    impl SpinWait {
        pub(crate) fn turn(&self) {
            self.0.snooze();
        }
    }
}

/// Loom's, with the calls of those above. A model has no clock: waits with a limit have none.
#[cfg(loom)]
mod model {
    use std::ops::{Deref, DerefMut};
    use std::time::Duration;

    pub(crate) use loom::cell::UnsafeCell;
    pub(crate) use loom::hint::spin_loop;
    pub(crate) use loom::sync::{atomic, Arc, RwLockReadGuard, RwLockWriteGuard};
    pub(crate) use loom::thread::{current, yield_now, Thread};

    const NO_PANIC: &str = "no thread of a model panics";

    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

    /// `None` during a wait alone.
    pub(crate) struct MutexGuard<'a, T>(Option<loom::sync::MutexGuard<'a, T>>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Mutex<T> {
            Mutex(loom::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            MutexGuard(Some(self.0.lock().expect(NO_PANIC)))
        }

        pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            self.0.try_lock().ok().map(|guard| MutexGuard(Some(guard)))
        }

        pub(crate) fn get_mut(&mut self) -> &mut T {
            self.0.get_mut().expect(NO_PANIC)
        }
    }

    impl<T> Deref for MutexGuard<'_, T> {
        type Target = T;

        fn deref(&self) -> &T {
            self.0.as_ref().expect("the mutex is held")
        }
    }

    impl<T> DerefMut for MutexGuard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            self.0.as_mut().expect("the mutex is held")
        }
    }

    #[derive(Debug, Default)]
    pub(crate) struct Condvar(loom::sync::Condvar);

    impl Condvar {
        pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
            let held = guard.0.take().expect("the mutex is held");
            guard.0 = Some(self.0.wait(held).expect(NO_PANIC));
        }

        pub(crate) fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, _limit: Duration) {
            self.wait(guard);
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
    }

    #[derive(Debug, Default)]
    pub(crate) struct RwLock<T>(loom::sync::RwLock<T>);

    impl<T> RwLock<T> {
        pub(crate) fn new(value: T) -> RwLock<T> {
            RwLock(loom::sync::RwLock::new(value))
        }

        pub(crate) fn read(&self) -> RwLockReadGuard<'_, T> {
            self.0.read().expect(NO_PANIC)
        }

        pub(crate) fn write(&self) -> RwLockWriteGuard<'_, T> {
            self.0.write().expect(NO_PANIC)
        }
    }

    pub(crate) type SleepMutex<T> = Mutex<T>;
    pub(crate) type SleepMutexGuard<'a, T> = MutexGuard<'a, T>;

    #[derive(Default)]
    pub(crate) struct SleepCondvar(Condvar);

    impl SleepCondvar {
        pub(crate) fn wait_for<'a, T>(
            &self,
            mut guard: SleepMutexGuard<'a, T>,
            _limit: Duration,
        ) -> SleepMutexGuard<'a, T> {
            self.0.wait(&mut guard);
            guard
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
    }

    #[derive(Default)]
    pub(crate) struct SpinWait(());

    impl SpinWait {
        pub(crate) fn turn(&self) {
            yield_now();
        }
    }

    pub(crate) fn note(_kind: &'static str) {}

    pub(crate) fn point() {}

    pub(crate) fn park_timeout(_limit: Duration) {
        loom::thread::park();
    }
}
