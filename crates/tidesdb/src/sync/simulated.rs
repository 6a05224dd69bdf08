//! The locks and waits of the simulation: each wait gives the thread to another coroutine ([`scheduler`]).
//!
//! All coroutines run on one thread of the system. The holder of a lock is therefore another coroutine, itself at a wait;
//! between two waits nothing else runs.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::OnceLock;
use std::time::Duration;

pub(crate) use super::scheduler::{note, stage, switch as point};
pub(crate) use std::sync::{atomic, Arc};

use super::scheduler;

fn address<T: ?Sized>(of: &T) -> usize {
    std::ptr::from_ref(of).cast::<u8>() as usize
}

type Held<T> = parking_lot::ArcMutexGuard<parking_lot::RawMutex, T>;

/// See the module's comment. A guard may outlive its borrow of the mutex ([`ArcMutexGuard`]): the value stands apart, and
/// is put there at the first use, so `new` is `const` as with other mutexes.
#[derive(Debug)]
pub(crate) struct Mutex<T> {
    initial: std::sync::Mutex<Option<T>>,
    inner: OnceLock<Arc<parking_lot::Mutex<T>>>,
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Mutex<T> {
        Mutex::new(T::default())
    }
}

/// The guard of a [`Mutex`].
pub struct MutexGuard<'a, T> {
    held: ArcMutexGuard<T>,
    of: PhantomData<&'a Mutex<T>>,
}

/// A guard with a share in its mutex.
pub(crate) struct ArcMutexGuard<T> {
    mutex: Arc<parking_lot::Mutex<T>>,
    /// `None` during a wait alone.
    held: Option<Held<T>>,
}

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Mutex<T> {
        Mutex { initial: std::sync::Mutex::new(Some(value)), inner: OnceLock::new() }
    }

    fn inner(&self) -> &Arc<parking_lot::Mutex<T>> {
        self.inner.get_or_init(|| {
            let initial = self.initial.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
            Arc::new(parking_lot::Mutex::new(initial.expect("it is taken once")))
        })
    }

    fn take(&self) -> ArcMutexGuard<T> {
        ArcMutexGuard::take(self.inner())
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard { held: self.take(), of: PhantomData }
    }

    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let mutex = self.inner();
        let held = Some(mutex.try_lock_arc()?);
        Some(MutexGuard { held: ArcMutexGuard { mutex: Arc::clone(mutex), held }, of: PhantomData })
    }

    pub(crate) fn try_lock_for(&self, limit: Duration) -> Option<MutexGuard<'_, T>> {
        let end = scheduler::now_micros() + limit.as_micros() as u64;
        loop {
            if let Some(guard) = self.try_lock() {
                return Some(guard);
            }
            let left = end.checked_sub(scheduler::now_micros()).filter(|left| *left > 0)?;
            scheduler::block(address(&**self.inner()), Some(Duration::from_micros(left)));
        }
    }

    pub(crate) fn try_lock_arc_for(self: &Arc<Self>, limit: Duration) -> Option<ArcMutexGuard<T>> {
        self.try_lock_for(limit).map(|guard| guard.held)
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.inner();
        let inner = self.inner.get_mut().expect("it is there");
        Arc::get_mut(inner).expect("nobody holds it").get_mut()
    }
}

impl<T> ArcMutexGuard<T> {
    fn take(mutex: &Arc<parking_lot::Mutex<T>>) -> ArcMutexGuard<T> {
        scheduler::switch();
        loop {
            if let Some(held) = mutex.try_lock_arc() {
                return ArcMutexGuard { mutex: Arc::clone(mutex), held: Some(held) };
            }
            scheduler::block(address(&**mutex), None);
        }
    }

    fn give(&mut self) {
        self.held = None;
        scheduler::wake_all(address(&*self.mutex));
    }

    /// Waits at `on` without the mutex; true: the time was over.
    fn wait_at(&mut self, on: usize, limit: Option<Duration>) -> bool {
        self.give();
        let timed_out = scheduler::block(on, limit);
        self.held = ArcMutexGuard::take(&self.mutex).held.take();
        timed_out
    }
}

impl<T> Drop for ArcMutexGuard<T> {
    fn drop(&mut self) {
        if self.held.is_some() {
            self.give();
        }
    }
}

impl<T> Deref for ArcMutexGuard<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.held.as_ref().expect("the mutex is held")
    }
}

impl<T> DerefMut for ArcMutexGuard<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.held.as_mut().expect("the mutex is held")
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.held
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.held
    }
}

/// How a wait with a limit ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    pub(crate) fn timed_out(self) -> bool {
        self.0
    }
}

/// A condition variable; the byte gives it an address of its own.
#[derive(Debug, Default)]
pub struct Condvar(#[allow(dead_code)] u8);

impl Condvar {
    pub(crate) fn new() -> Condvar {
        Condvar(0)
    }

    pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        guard.held.wait_at(address(self), None);
    }

    pub(crate) fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, limit: Duration) -> WaitTimeoutResult {
        WaitTimeoutResult(guard.held.wait_at(address(self), Some(limit)))
    }

    pub(crate) fn notify_one(&self) {
        scheduler::wake_one(address(self));
    }

    pub(crate) fn notify_all(&self) {
        scheduler::wake_all(address(self));
    }
}

#[derive(Debug, Default)]
pub(crate) struct RwLock<T>(parking_lot::RwLock<T>);

/// Wakes the waiters of a lock once its guard is gone.
struct WakeAt(usize);

impl Drop for WakeAt {
    fn drop(&mut self) {
        scheduler::wake_all(self.0);
    }
}

// Fields are dropped in their order: the lock is free when the others wake.
pub(crate) struct RwLockReadGuard<'a, T>(parking_lot::RwLockReadGuard<'a, T>, #[allow(dead_code)] WakeAt);
pub(crate) struct RwLockWriteGuard<'a, T>(parking_lot::RwLockWriteGuard<'a, T>, #[allow(dead_code)] WakeAt);

impl<T> RwLock<T> {
    pub(crate) fn new(value: T) -> RwLock<T> {
        RwLock(parking_lot::RwLock::new(value))
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, T> {
        loop {
            if let Some(guard) = self.0.try_read() {
                return RwLockReadGuard(guard, WakeAt(address(self)));
            }
            scheduler::block(address(self), None);
        }
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, T> {
        scheduler::switch();
        loop {
            if let Some(guard) = self.0.try_write() {
                return RwLockWriteGuard(guard, WakeAt(address(self)));
            }
            scheduler::block(address(self), None);
        }
    }
}

impl<T> Deref for RwLockReadGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for RwLockWriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
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
        limit: Duration,
    ) -> SleepMutexGuard<'a, T> {
        self.0.wait_for(&mut guard, limit);
        guard
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// A turn gives the thread to others: one of them has to end the wait.
#[derive(Default)]
pub(crate) struct SpinWait(());

impl SpinWait {
    pub(crate) fn turn(&self) {
        scheduler::yield_now();
    }
}

pub(crate) fn spin_loop() {
    scheduler::yield_now();
}

pub(crate) fn yield_now() {
    scheduler::yield_now();
}

/// A handle to a coroutine, for its waiters.
#[derive(Clone, Debug)]
pub(crate) struct Thread(scheduler::TaskId);

impl Thread {
    pub(crate) fn unpark(&self) {
        scheduler::unpark(self.0);
    }
}

pub(crate) fn current() -> Thread {
    Thread(scheduler::current())
}

pub(crate) fn park_timeout(limit: Duration) {
    scheduler::park(limit);
}
