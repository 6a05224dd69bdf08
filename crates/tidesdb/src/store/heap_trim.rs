//! Returns free heap memory to the operating system.
//!
//! Memory allocated by one thread and freed by another stays in the arena of the first. With glibc's eight
//! arenas a core, memtables, blocks and runs leave free pages all over them. They are a quarter of the
//! resident size after large statements. Most is freed when memory has become a file, so flushes, merges and
//! spills end with a trim.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::host::Instant;

/// Shortest time between two trims: a trim walks all free chunks with the arenas' locks held.
const PAUSE: Duration = Duration::from_secs(1);

/// The time of the last trim.
#[derive(Debug, Default)]
pub(crate) struct HeapTrim {
    /// No trim is due before this time, in nanoseconds of the clock.
    due: AtomicU64,
}

impl HeapTrim {
    /// Returns free pages, at most once a second. Does nothing with another allocator than glibc's, loaded
    /// before it.
    pub(crate) fn trim(&self, now: Instant) {
        let due = self.due.load(Ordering::Relaxed);
        let next = (now + PAUSE).nanos();
        if now.nanos() >= due
            && self.due.compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            trim_allocator();
        }
    }
}

// A simulation's second takes some microseconds, and its stores are small.
#[cfg(all(target_os = "linux", target_env = "gnu", not(any(miri, simulation))))]
fn trim_allocator() {
    // SAFETY: any thread may call it at any time; it touches no memory that is in use.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu", not(any(miri, simulation)))))]
fn trim_allocator() {}
