//! A disk without room for the log. A write of records without room waits at its place until there is some,
//! and every passing thread tries it again (`docs/design/0021-full-disk-in-the-log.md`).
//!
//! An ordered record cannot be undone, so its committer waits. Nothing new is let in meanwhile: reservations
//! fail with [`Error::DiskFull`], after an attempt of their own. The end of waits ([`Core::end_waits`]) makes
//! a write without room a failure of the log.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::shared::Core;
use crate::error::{Error, Result};
use crate::options::LogLevel;
use crate::sync::{Condvar, Mutex};
use crate::wal::fullness::FullFor;

/// First and longest pause between two attempts of a waiting thread.
const PAUSE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// Number of attempts after which the pause stops growing.
const GROWS: u32 = 6;

/// The reported state of a want of room.
#[derive(Default)]
struct Want {
    /// It is in the error log.
    reported: bool,
    /// The call without room.
    what: String,
}

/// The log's want of room.
#[derive(Default)]
pub(super) struct LogRoom {
    want: Mutex<Want>,
    /// There is room again, the log failed, or waits end.
    changed: Condvar,
    waits_end: AtomicBool,
    /// Number of times the log ran out of room.
    times: AtomicU64,
}

impl Core {
    /// True if records wait for room in the file.
    pub(super) fn is_full(&self) -> bool {
        self.pending_writes.is_full()
    }

    /// Number of times the log ran out of room.
    pub(super) fn times_full(&self) -> u64 {
        self.log_room.times.load(Ordering::Relaxed)
    }

    /// The error while records wait for room, after one more attempt to write them.
    pub(super) fn check_room(&self) -> Result<()> {
        if !self.is_full() || self.pending_writes.try_again(self) {
            return Ok(());
        }
        match self.has_failed() {
            true => Err(self.read_only()),
            false => Err(self.no_room()),
        }
    }

    pub(super) fn no_room(&self) -> Error {
        Error::DiskFull(self.log_room.want.lock().what.clone())
    }

    /// Notes a call on the log without room; false when no thread waits for room any more.
    pub(super) fn note_no_room(&self, what: &str) -> bool {
        if self.waits_end() {
            return false;
        }
        let mut want = self.log_room.want.lock();
        if !std::mem::replace(&mut want.reported, true) {
            want.what = what.into();
            self.log_room.times.fetch_add(1, Ordering::Relaxed);
            drop(want);
            self.fullness.found(FullFor::LogWrite, what, self.clock.now_micros());
            self.notify_background();
        }
        true
    }

    pub(super) fn note_room(&self) {
        let mut want = self.log_room.want.lock();
        let reported = std::mem::take(&mut want.reported);
        self.log_room.changed.notify_all();
        drop(want);
        if reported {
            self.fullness.over(FullFor::LogWrite, self.clock.now_micros());
        }
    }

    /// Waits for a change, for at most a pause growing with the attempts.
    pub(super) fn back_off_for_room(&self, attempts: u32) {
        let mut want = self.log_room.want.lock();
        let ends = || self.waits_end() || self.has_failed();
        if self.is_full() && !ends() {
            let pause = (PAUSE.0 * 2u32.pow(attempts.min(GROWS))).min(PAUSE.1);
            self.log_room.changed.wait_for(&mut want, pause);
        }
    }

    /// True if the owner closes the log, or its server shuts down.
    pub(super) fn waits_end(&self) -> bool {
        self.log_room.waits_end.load(Ordering::SeqCst)
    }

    /// Ends the waits for room from now on: a write without room is a failure of the log.
    pub(super) fn end_waits(&self) {
        self.log_room.waits_end.store(true, Ordering::SeqCst);
        self.wake_for_room();
        self.notify_background();
    }

    pub(super) fn wake_for_room(&self) {
        let _want = self.log_room.want.lock();
        self.log_room.changed.notify_all();
    }

    pub(super) fn report(&self, level: LogLevel, message: &str) {
        if let Some(log) = &self.options.log {
            log.write(level, message);
        }
    }
}
