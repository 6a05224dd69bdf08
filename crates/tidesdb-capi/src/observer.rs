//! Lock waits and deadlocks, told to the program.

use std::ffi::{c_int, c_void};

use tidesdb::internal::lock::{Deadlock, LockOwner, VictimReason, WaitObserver};

use crate::introspection::LockInfoC;

/// `tidesdb_deadlock_wait`.
#[repr(C)]
pub struct DeadlockWaitC {
    pub(crate) cookie: *mut c_void,
    pub(crate) written: u64,
    pub(crate) waited_us: u64,
    pub(crate) wants: LockInfoC,
    pub(crate) in_the_way: LockInfoC,
}

/// `tidesdb_deadlock`.
#[repr(C)]
pub struct DeadlockC {
    pub(crate) waits: *const DeadlockWaitC,
    pub(crate) wait_count: usize,
    pub(crate) victim: usize,
    pub(crate) reason: u8,
}

/// Told of a wait and of those in its way.
type WaitOfC = unsafe extern "C" fn(
    context: *mut c_void,
    waiter: *mut c_void,
    holders: *const *mut c_void,
    holder_count: usize,
);

/// `tidesdb_wait_observer`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct WaitObserverC {
    pub(crate) context: *mut c_void,
    pub(crate) wait_begins: Option<WaitOfC>,
    pub(crate) wait_ends: Option<unsafe extern "C" fn(context: *mut c_void, waiter: *mut c_void)>,
    pub(crate) gaps_conflict:
        Option<unsafe extern "C" fn(context: *mut c_void, a: *mut c_void, b: *mut c_void) -> c_int>,
    pub(crate) deadlock: Option<unsafe extern "C" fn(context: *mut c_void, deadlock: *const DeadlockC)>,
    pub(crate) wait_goes_on: Option<WaitOfC>,
}

// SAFETY: the observer's functions and context may be used from any thread; the header demands it.
unsafe impl Send for WaitObserverC {}
// SAFETY: as above.
unsafe impl Sync for WaitObserverC {}

/// The observer of a program.
pub(crate) struct Observer(pub(crate) WaitObserverC);

impl Observer {
    fn tell(&self, tell: Option<WaitOfC>, waiter: &LockOwner, holders: &[u64]) {
        if let Some(tell) = tell {
            let holders: Vec<*mut c_void> = holders.iter().map(|&cookie| cookie as *mut c_void).collect();
            // SAFETY: the caller of tidesdb_open gave a function that takes these.
            unsafe { tell(self.0.context, waiter.cookie() as *mut c_void, holders.as_ptr(), holders.len()) };
        }
    }
}

impl WaitObserver for Observer {
    fn wait_begins(&self, waiter: &LockOwner, holders: &[u64]) {
        self.tell(self.0.wait_begins, waiter, holders);
    }

    fn wait_goes_on(&self, waiter: &LockOwner, holders: &[u64]) {
        self.tell(self.0.wait_goes_on, waiter, holders);
    }

    fn wait_ends(&self, waiter: &LockOwner) {
        if let Some(ends) = self.0.wait_ends {
            // SAFETY: as above.
            unsafe { ends(self.0.context, waiter.cookie() as *mut c_void) };
        }
    }

    fn gaps_conflict(&self, a: &LockOwner, b: &LockOwner) -> bool {
        self.0.gaps_conflict.is_none_or(|conflict| {
            // SAFETY: as above.
            unsafe { conflict(self.0.context, a.cookie() as *mut c_void, b.cookie() as *mut c_void) != 0 }
        })
    }

    fn deadlock(&self, deadlock: &Deadlock) {
        let Some(tell) = self.0.deadlock else { return };
        let waits: Vec<DeadlockWaitC> = deadlock
            .waits
            .iter()
            .map(|wait| DeadlockWaitC {
                cookie: wait.cookie as *mut c_void,
                written: wait.written,
                waited_us: wait.waited_us,
                wants: LockInfoC::of(&wait.wants, b""),
                in_the_way: LockInfoC::of(&wait.in_the_way, b""),
            })
            .collect();
        let reason = match deadlock.reason {
            VictimReason::Preference => 0,
            VictimReason::FewestKeys => 1,
            VictimReason::Youngest => 2,
        };
        let deadlock =
            DeadlockC { waits: waits.as_ptr(), wait_count: waits.len(), victim: deadlock.victim, reason };
        // SAFETY: as above.
        unsafe { tell(self.0.context, &deadlock) };
    }
}
