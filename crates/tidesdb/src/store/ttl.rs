//! The store's expiry clock: its ties to the disk's clocks, to flushes and merges, and to the manifest.

use std::sync::atomic::Ordering;

use crate::error::Result;
use crate::iter::LiveSnapshots;
use crate::mutant::{self, Mutant};
use crate::options::LogLevel;
use crate::store::ttl_clock::ClockReading;
use crate::store::Store;
use crate::types::Seq;
use crate::version::Edit;

/// A longer lag is reported, in seconds; it also makes the reservations short.
const REPORTED_LAG: u64 = 60;

/// Seconds by which the manifest's second is ahead of the clock. A kill loses at most as many. The clock goes
/// on after them or, if a small lag hides a set-back wall clock, before them.
const RESERVED: u64 = 60;

/// The same while the wall clock lags: here every kill makes the clock skip the reserved seconds.
const RESERVED_IN_LAG: u64 = 4;

impl Store {
    /// A reading of the store's clocks.
    pub(crate) fn clock_reading(&self) -> ClockReading {
        ClockReading::of(&*self.env.clock)
    }

    /// The present second of the expiry clock.
    pub(crate) fn expiry_second(&self) -> u64 {
        self.ttl_clock.read(self.clock_reading())
    }

    /// Seconds by which the wall clock is behind the expiry clock.
    pub(crate) fn expiry_lag(&self) -> u64 {
        match self.ttl_clock.is_used() {
            true => self.ttl_clock.lag(self.clock_reading()),
            false => 0,
        }
    }

    /// Reserves seconds of the expiry clock in the manifest before they come, and reports a lag. A store
    /// calls it once a second. Readers do not wait for it: while it fails, a kill can set the clock back.
    pub(crate) fn maintain_expiry_clock(&self) -> Result<()> {
        if !self.ttl_clock.is_used() {
            return Ok(());
        }
        let lag = self.expiry_lag();
        let lags = lag > REPORTED_LAG;
        if lags != self.lag_reported.swap(lags, Ordering::Relaxed) {
            self.report_lag(lag);
        }
        if self.check_writable().is_err() {
            return Ok(());
        }
        // While nobody reads a clock that is right, nothing is lost.
        let second =
            if lags { self.ttl_clock.peek(self.clock_reading().micros) } else { self.ttl_clock.shown() };
        let ahead = if lags { RESERVED_IN_LAG } else { RESERVED };
        if second + ahead / 2 < self.versions.state().expiry_reserved.unwrap_or(0) {
            return Ok(());
        }
        self.install(Edit {
            expiry_clock: Some(second),
            expiry_reserved: Some(second + ahead),
            ..Edit::default()
        })
    }

    fn report_lag(&self, lag: u64) {
        let text = match lag {
            0..=REPORTED_LAG => "the system's clock is no longer behind the expiry clock".to_string(),
            _ => format!(
                "the system's clock is {lag} seconds behind the clock by which rows expire: it was ahead before, or is \
                 wrong now. Lifetimes of rows count from that clock, which goes on without the system's"
            ),
        };
        self.log(LogLevel::Warn, &text);
    }

    /// The store closes: the next opening goes on at this second.
    pub(crate) fn settle_expiry_clock(&self) -> Result<()> {
        if !self.ttl_clock.is_used() || mutant::is(Mutant::ExpiryClockUnsettled) {
            return Ok(());
        }
        let second = Some(self.ttl_clock.peek(self.clock_reading().micros));
        self.install(Edit { expiry_clock: second, expiry_reserved: second, ..Edit::default() })
    }

    /// The second up to which merges may drop expired entries; 0 in a store without any expiry.
    pub(crate) fn expired_at(&self) -> u64 {
        match self.ttl_clock.is_used() {
            true => self.ttl_clock.raise_drop_bound(self.clock_reading()),
            false => 0,
        }
    }

    /// The snapshots to preserve in a flush or merge that begins now.
    pub(crate) fn live_snapshots(&self, visible_seq: Seq) -> LiveSnapshots {
        LiveSnapshots {
            expired_at: self.expired_at() + u64::from(mutant::is(Mutant::ExpiredTooEarly)),
            unproven_upto: self.unproven_upto(),
            ..self.snapshots.capture(visible_seq)
        }
    }

    /// The first entry with an expiry is about to be written: the manifest records it before anything else on
    /// disk. An older build refuses such a manifest by the field's tag. So it never takes the time in front
    /// of a value for a part of it.
    pub(crate) fn begin_expiries(&self) -> Result<()> {
        if self.ttl_clock.is_used() {
            return Ok(());
        }
        self.check_writable()?;
        if mutant::is(Mutant::ExpiriesUnrecorded) {
            return Ok(());
        }
        let second = self.expiry_second();
        self.install(Edit {
            expiry_clock: Some(second),
            expiry_reserved: Some(second + RESERVED),
            ..Edit::default()
        })?;
        self.ttl_clock.set_used();
        Ok(())
    }
}
