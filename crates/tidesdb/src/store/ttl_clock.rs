//! The clock by which entries expire: who reads at which second, and up to which second merges may take
//! entries for gone.
//!
//! Seconds since 1970. The clock follows the wall clock and never goes back, also not across an opening: the
//! manifest keeps the second up to which entries were dropped, so that a row and its index entries, which
//! different merges drop, come back neither together nor alone when the wall clock is set back.
//!
//! A view is what reads together: a snapshot, or the reads of a statement that see the newest versions. Its
//! second is fixed by the first entry with an expiry that it meets; until then it has seen nothing that could
//! vanish. From then on no merge buries an entry that the view still sees. Stores without such entries never
//! come here: `is_used` is one relaxed load.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct TtlClock {
    /// The latest second that anybody has read at.
    now: AtomicU64,
    /// Entries with an expiry may be in the store: the manifest says so.
    used: AtomicBool,
    state: Mutex<TtlClockState>,
}

#[derive(Debug, Default)]
struct TtlClockState {
    /// Entries that expire at it or before may have been buried.
    buried: u64,
    /// Views by their second.
    views: BTreeMap<u64, usize>,
}

impl TtlClock {
    /// The clock of a store whose manifest says `buried`; none: no entry with an expiry was ever written.
    pub fn new(buried: Option<u64>) -> TtlClock {
        let second = buried.unwrap_or(0);
        TtlClock {
            now: AtomicU64::new(second),
            used: AtomicBool::new(buried.is_some()),
            state: Mutex::new(TtlClockState { buried: second, views: BTreeMap::new() }),
        }
    }

    /// Whether there may be entries with an expiry.
    pub fn is_used(&self) -> bool {
        self.used.load(Ordering::Relaxed)
    }

    /// From now on there may be entries with an expiry.
    pub fn set_used(&self) {
        self.used.store(true, Ordering::Release);
    }

    /// The present second, while the wall clock shows `wall`.
    pub fn read(&self, wall: u64) -> u64 {
        let now = self.now.load(Ordering::Acquire);
        if wall <= now {
            return now;
        }
        self.now.fetch_max(wall, Ordering::AcqRel).max(wall)
    }

    /// Begins a view at `second`, or at the second up to which entries were buried if that is later: what
    /// was buried is gone for all of them. Returns its second.
    fn begin_view(&self, second: u64) -> u64 {
        let mut state = self.state.lock();
        let second = second.max(state.buried);
        *state.views.entry(second).or_default() += 1;
        second
    }

    /// Begins a view at the second of the oldest one: what it does not see, no other view does.
    fn begin_oldest_view(&self, wall: u64) -> u64 {
        let now = self.read(wall);
        let mut state = self.state.lock();
        let second = state.views.keys().next().map_or(now, |&oldest| oldest.min(now)).max(state.buried);
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

    /// The second up to which entries have expired for every view, now and later: a merge may bury them.
    pub fn bury(&self, wall: u64) -> u64 {
        let now = self.read(wall);
        let mut state = self.state.lock();
        let second = state.views.keys().next().map_or(now, |&oldest| oldest.min(now));
        state.buried = state.buried.max(second);
        second
    }
}

/// The second of one view. Fixed once, through a shared reference; 0 until then.
#[derive(Debug, Default)]
pub(crate) struct ViewSecond {
    fixed: AtomicU64,
    /// The second at which the view's snapshot was taken; 0: not known.
    taken: AtomicU64,
}

impl ViewSecond {
    /// The snapshot of the view was taken at `second`.
    pub fn note(&self, second: u64) {
        self.taken.store(second, Ordering::Relaxed);
    }

    /// The view's second; fixes it at that of its snapshot, or now.
    pub fn get(&self, clock: &TtlClock, wall: impl FnOnce() -> u64, oldest: bool) -> u64 {
        let fixed = self.fixed.load(Ordering::Relaxed);
        if fixed != 0 {
            return fixed;
        }
        let second = match self.taken.load(Ordering::Relaxed) {
            _ if oldest => clock.begin_oldest_view(wall()),
            0 => clock.begin_view(clock.read(wall())),
            taken => clock.begin_view(taken),
        };
        self.fixed.store(second, Ordering::Relaxed);
        second
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

    fn at(view: &ViewSecond, clock: &TtlClock, wall: u64) -> u64 {
        view.get(clock, || wall, false)
    }

    #[test]
    fn nothing_is_buried_that_a_view_sees() {
        let clock = TtlClock::new(None);
        let (a, b) = (ViewSecond::default(), ViewSecond::default());
        assert_eq!(at(&a, &clock, 100), 100);
        assert_eq!(at(&a, &clock, 107), 100, "the second of a view stands");
        assert_eq!(at(&b, &clock, 110), 110);
        assert_eq!(clock.bury(120), 100);
        a.end(&clock);
        assert_eq!(clock.bury(120), 110);
        b.end(&clock);
        assert_eq!(clock.bury(120), 120);
    }

    #[test]
    fn a_late_view_keeps_the_second_of_its_snapshot_unless_that_was_buried() {
        let clock = TtlClock::new(None);
        let (a, b) = (ViewSecond::default(), ViewSecond::default());
        a.note(clock.read(100));
        b.note(clock.read(100));
        assert_eq!(at(&a, &clock, 105), 100);
        a.end(&clock);
        assert_eq!(clock.bury(106), 106);
        assert_eq!(at(&b, &clock, 107), 106);
        b.end(&clock);
    }

    #[test]
    fn the_clock_does_not_go_back_with_the_wall_clock_nor_over_an_opening() {
        let clock = TtlClock::new(Some(50));
        assert_eq!(clock.read(40), 50);
        assert_eq!(clock.read(60), 60);
        assert_eq!(clock.read(10), 60);
        let view = ViewSecond::default();
        assert_eq!(at(&view, &clock, 10), 60);
        view.end(&clock);
        assert_eq!(clock.bury(10), 60);
        assert_eq!(TtlClock::new(Some(60)).read(10), 60);
    }

    #[test]
    fn the_oldest_view_is_joined() {
        let clock = TtlClock::new(None);
        let (a, b) = (ViewSecond::default(), ViewSecond::default());
        at(&a, &clock, 100);
        assert_eq!(b.get(&clock, || 130, true), 100);
        a.end(&clock);
        assert_eq!(clock.bury(140), 100, "the one that joined still sees it");
        b.end(&clock);
        assert_eq!(b.get(&clock, || 150, true), 150);
    }
}
