//! The clock for expiries: the second of each reader, and the second up to which merges may drop expired
//! entries.
//!
//! Seconds since 1970. The clock follows the wall clock and never goes back. While the wall clock lags, it
//! goes on at the pace of the monotonic clock. An entry lives for its lifetime even after a wall clock was
//! ahead and came back. So a lifetime counts from this clock, not from the wall clock ([`TtlClock::lag`]).
//!
//! It does not go back across an opening either. The manifest keeps two seconds: one already reached, and a
//! limit. The clock does not pass the limit before the manifest has a later one. After a kill, a wall clock
//! earlier than the former was set back, and the clock goes on from the latter. So a row and its index
//! entries, dropped by different merges, come back neither together nor alone.
//!
//! A view is the unit of consistent reads: a snapshot, or the reads of a statement at the newest versions.
//! Its second is fixed by the first entry with an expiry it meets; until then it has seen nothing that could
//! vanish. From then on no merge drops an entry visible in the view. Stores without such entries never come
//! here: `is_used` is one relaxed load.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use crate::host::Clock;
use crate::mutant::{self, Mutant};
use crate::sync::Mutex;

const MICROS: i64 = 1_000_000;

/// The last second of the clock; leaves room for sums of microseconds.
const LAST_SECOND: u64 = 1 << 42;

/// The wall clock shows whole seconds, and small steps are common: a lag of so many seconds counts as none.
const TOLERANCE: u64 = 1;

/// A wall clock so many seconds before the manifest's second was set back.
const SET_BACK: u64 = 3;

/// A reading of both clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClockReading {
    /// Wall clock, in seconds since 1970.
    pub wall: u64,
    /// Monotonic clock, in microseconds.
    pub micros: u64,
}

impl ClockReading {
    /// Reads both clocks, the wall clock first: a pause between the two readings cannot put the expiry
    /// clock ahead.
    pub fn of(clock: &dyn Clock) -> ClockReading {
        let wall = clock.unix_seconds();
        ClockReading { wall, micros: clock.now_micros() }
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct TtlClock {
    /// The clock less the monotonic clock, in microseconds. It only grows, so the clock never goes back.
    offset: AtomicI64,
    /// The latest second of any read.
    shown: AtomicU64,
    /// Entries with an expiry may be in the store, according to the manifest.
    used: AtomicBool,
    state: Mutex<TtlClockState>,
}

#[derive(Debug, Default)]
struct TtlClockState {
    /// Merges may have dropped entries that expire at or before this second.
    drop_bound: u64,
    /// Views by their second.
    views: BTreeMap<u64, usize>,
}

/// The second at which a store's clock goes on, while the wall clock shows `wall`. `reached`: the second in
/// the manifest; `reserved`: the limit the clock did not pass.
pub(crate) fn second_at_opening(reached: u64, reserved: Option<u64>, wall: u64) -> u64 {
    if mutant::is(Mutant::ExpiryClockForgotten) {
        return 0;
    }
    match wall.saturating_add(SET_BACK) > reached {
        true => reached,
        false => reserved.unwrap_or(0).max(reached),
    }
}

impl TtlClock {
    /// The clock of a store that goes on at `second`; `None`: no entry with an expiry was ever written.
    pub fn new(second: Option<u64>, micros: u64) -> TtlClock {
        let clock = TtlClock {
            used: AtomicBool::new(second.is_some()),
            offset: AtomicI64::new(i64::MIN),
            ..TtlClock::default()
        };
        let second = second.unwrap_or(0);
        clock.read(ClockReading { wall: second, micros });
        clock.state.lock().drop_bound = second;
        clock
    }

    /// True if there may be entries with an expiry.
    pub fn is_used(&self) -> bool {
        self.used.load(Ordering::Relaxed)
    }

    /// From now on there may be entries with an expiry.
    pub fn set_used(&self) {
        self.used.store(true, Ordering::Release);
    }

    /// The present second.
    pub fn read(&self, reading: ClockReading) -> u64 {
        let micros = micros_of(reading.micros);
        let wall = reading.wall.min(LAST_SECOND) as i64 * MICROS;
        let by_wall = wall - micros;
        let mut offset = self.offset.load(Ordering::Acquire);
        if mutant::is(Mutant::ExpiryClockGoesBack) {
            offset = by_wall;
        }
        if by_wall > offset {
            offset = self.offset.fetch_max(by_wall, Ordering::AcqRel).max(by_wall);
        }
        self.note_shown(second_of(offset, micros))
    }

    /// The present second by the monotonic clock alone; the wall clock moves nothing.
    pub fn peek(&self, micros: u64) -> u64 {
        let second = second_of(self.offset.load(Ordering::Acquire), micros_of(micros));
        second.max(self.shown.load(Ordering::Relaxed))
    }

    /// Seconds by which the wall clock lags.
    pub fn lag(&self, reading: ClockReading) -> u64 {
        match self.peek(reading.micros).saturating_sub(reading.wall) {
            0..=TOLERANCE => 0,
            lag => lag,
        }
    }

    /// The latest second of any read.
    pub fn shown(&self) -> u64 {
        self.shown.load(Ordering::Relaxed)
    }

    fn note_shown(&self, second: u64) -> u64 {
        // A store in each read would move the cache line from core to core.
        if second > self.shown.load(Ordering::Relaxed) {
            self.shown.fetch_max(second, Ordering::Relaxed);
        }
        second
    }

    /// Begins a view at `second`, or at the second up to which entries were dropped if later: dropped entries
    /// are gone for all views. Returns its second.
    fn begin_view(&self, second: u64) -> u64 {
        let mut state = self.state.lock();
        let second = second.max(state.drop_bound);
        *state.views.entry(second).or_default() += 1;
        second
    }

    /// Begins a view at the second of the oldest view: entries invisible in it are invisible in every other.
    fn begin_oldest_view(&self, reading: ClockReading) -> u64 {
        let now = self.read(reading);
        let mut state = self.state.lock();
        let oldest = state.views.keys().next().filter(|_| !mutant::is(Mutant::OldestViewIsNew));
        let second = oldest.map_or(now, |&oldest| oldest.min(now)).max(state.drop_bound);
        *state.views.entry(second).or_default() += 1;
        second
    }

    fn end_view(&self, second: u64) {
        let mut state = self.state.lock();
        if let Some(views) = state.views.get_mut(&second) {
            *views -= 1;
            if *views == 0 {
                state.views.remove(&second);
            }
        }
    }

    /// The second up to which entries have expired for every view, now and later: a merge may drop them.
    pub fn raise_drop_bound(&self, reading: ClockReading) -> u64 {
        let now = self.read(reading);
        let mut state = self.state.lock();
        let oldest = state.views.keys().next().filter(|_| !mutant::is(Mutant::ExpiredUnderView));
        let second = oldest.map_or(now, |&oldest| oldest.min(now));
        state.drop_bound = state.drop_bound.max(second);
        second
    }
}

fn micros_of(micros: u64) -> i64 {
    // 140,000 years.
    micros.min(LAST_SECOND * MICROS as u64) as i64
}

fn second_of(offset: i64, micros: i64) -> u64 {
    u64::try_from(offset.saturating_add(micros) / MICROS).unwrap_or(0)
}

/// The second of one view. Fixed once, through a shared reference; 0 until then.
#[derive(Debug, Default)]
pub(crate) struct ViewSecond {
    fixed: AtomicU64,
    /// The second at the time of the view's snapshot; 0: unknown.
    taken: AtomicU64,
}

impl ViewSecond {
    /// The snapshot of the view was taken at `second`.
    pub fn note(&self, second: u64) {
        self.taken.store(second, Ordering::Relaxed);
    }

    /// The view's second; fixes it at its snapshot's second, or at the present one.
    pub fn get(&self, clock: &TtlClock, read: impl FnOnce() -> ClockReading, oldest: bool) -> u64 {
        let fixed = self.fixed.load(Ordering::Relaxed);
        if fixed != 0 {
            return fixed;
        }
        let second = match self.taken.load(Ordering::Relaxed) {
            _ if oldest => clock.begin_oldest_view(read()),
            0 => clock.begin_view(clock.read(read())),
            taken => clock.begin_view(taken),
        };
        self.fixed.store(second, Ordering::Relaxed);
        second
    }

    /// The view's second, once an entry with an expiry has fixed it.
    #[cfg(simulation)]
    pub fn fixed(&self) -> Option<u64> {
        Some(self.fixed.load(Ordering::Relaxed)).filter(|second| *second != 0)
    }

    /// Ends the view.
    pub fn end(&self, clock: &TtlClock) {
        let fixed = self.fixed.swap(0, Ordering::Relaxed);
        if fixed != 0 {
            clock.end_view(fixed);
        }
        self.taken.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reading with both clocks equal.
    fn on(wall: u64) -> ClockReading {
        ClockReading { wall, micros: wall * 1_000_000 }
    }

    fn at(view: &ViewSecond, clock: &TtlClock, wall: u64) -> u64 {
        view.get(clock, || on(wall), false)
    }

    #[test]
    fn nothing_is_buried_that_a_view_sees() {
        let clock = TtlClock::new(None, 0);
        let (a, b) = (ViewSecond::default(), ViewSecond::default());
        assert_eq!(at(&a, &clock, 100), 100);
        assert_eq!(at(&a, &clock, 107), 100, "the second of a view stands");
        assert_eq!(at(&b, &clock, 110), 110);
        assert_eq!(clock.raise_drop_bound(on(120)), 100);
        a.end(&clock);
        assert_eq!(clock.raise_drop_bound(on(120)), 110);
        b.end(&clock);
        assert_eq!(clock.raise_drop_bound(on(120)), 120);
    }

    #[test]
    fn a_late_view_keeps_the_second_of_its_snapshot_unless_that_was_buried() {
        let clock = TtlClock::new(None, 0);
        let (a, b) = (ViewSecond::default(), ViewSecond::default());
        a.note(clock.read(on(100)));
        b.note(clock.read(on(100)));
        assert_eq!(at(&a, &clock, 105), 100);
        a.end(&clock);
        assert_eq!(clock.raise_drop_bound(on(106)), 106);
        assert_eq!(at(&b, &clock, 107), 106);
        b.end(&clock);
    }

    #[test]
    fn the_clock_does_not_go_back_with_the_wall_clock_nor_over_an_opening() {
        let reading = |wall, micros| ClockReading { wall, micros };
        let clock = TtlClock::new(Some(50), 7);
        assert_eq!(clock.read(reading(40, 7)), 50);
        assert_eq!(clock.read(reading(60, 7)), 60);
        assert_eq!(clock.read(reading(10, 7)), 60);
        let view = ViewSecond::default();
        assert_eq!(view.get(&clock, || reading(10, 7), false), 60);
        view.end(&clock);
        assert_eq!(clock.raise_drop_bound(reading(10, 7)), 60);
        assert_eq!(TtlClock::new(Some(60), 7).read(reading(10, 7)), 60);
    }

    #[test]
    fn a_lagging_wall_clock_does_not_stop_the_clock() {
        let second = 1_000_000;
        let clock = TtlClock::new(None, 0);
        assert_eq!(clock.read(ClockReading { wall: 5000, micros: 10 * second }), 5000);
        for (wall, micros, now) in [(100, 10, 5000), (100, 15, 5005), (4000, 1010, 6000), (5999, 1010, 6000)]
        {
            assert_eq!(clock.read(ClockReading { wall, micros: micros * second }), now);
            let lag = clock.lag(ClockReading { wall, micros: micros * second });
            assert_eq!(lag, if now - wall > TOLERANCE { now - wall } else { 0 });
        }
        assert_eq!(clock.peek(1011 * second), 6001, "no wall clock is needed");
        assert_eq!(clock.read(ClockReading { wall: 7000, micros: 1011 * second }), 7000, "it has caught up");
        assert_eq!(clock.read(ClockReading { wall: 7001, micros: 1012 * second }), 7001);
        assert_eq!(clock.lag(ClockReading { wall: 7001, micros: 1012 * second }), 0);
    }

    #[test]
    fn seconds_from_a_manifest_do_not_overflow() {
        let clock = TtlClock::new(Some(u64::MAX), u64::MAX);
        assert_eq!(clock.read(ClockReading { wall: u64::MAX, micros: u64::MAX }), LAST_SECOND);
        assert_eq!(TtlClock::new(None, u64::MAX).read(ClockReading { wall: 9, micros: 0 }), 9);
    }

    #[test]
    fn an_opening_goes_on_from_the_reserved_second_when_the_wall_clock_was_set_back() {
        assert_eq!(second_at_opening(1000, Some(1060), 1000), 1000);
        assert_eq!(second_at_opening(1000, Some(1060), 998), 1000, "a rounding");
        assert_eq!(second_at_opening(1000, Some(1060), 900), 1060);
        assert_eq!(second_at_opening(1000, None, 900), 1000, "the manifest of an earlier build");
    }

    #[test]
    fn the_oldest_view_is_joined() {
        let clock = TtlClock::new(None, 0);
        let (a, b) = (ViewSecond::default(), ViewSecond::default());
        at(&a, &clock, 100);
        assert_eq!(b.get(&clock, || on(130), true), 100);
        a.end(&clock);
        assert_eq!(clock.raise_drop_bound(on(140)), 100, "the one that joined still sees it");
        b.end(&clock);
        assert_eq!(b.get(&clock, || on(150), true), 150);
    }
}
