//! The pace of writers: a leaky bucket that all of them share. Each statement fills in its share of the time that the
//! pace allows for it, and waits for what is above the brim. So writers slower than the pace never wait, and the pace
//! needs no knowledge of their number.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::host::Instant;

/// Longest delay of one statement, in nanoseconds. The next statements wait for the rest.
pub(crate) const MAX_DELAY: u64 = 20_000_000;

/// Time that slow writers may catch up on, in nanoseconds.
const CREDIT: u64 = 10_000_000;

/// Time to which the statements so far are entitled, in nanoseconds of the monotonic clock.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    taken_to: AtomicU64,
}

impl Pace {
    /// Takes `share` nanoseconds for a statement, at most [`MAX_DELAY`]; returns the nanoseconds that it waits, at
    /// most as many.
    pub(crate) fn take(&self, now: Instant, share: u64) -> u64 {
        let now = now.nanos();
        let after = |taken: u64| {
            // Nor does a wait cut short at the longest delay make later statements wait.
            taken
                .clamp(now.saturating_sub(CREDIT), now.saturating_add(MAX_DELAY))
                .saturating_add(share.min(MAX_DELAY))
        };
        let taken = self.taken_to.fetch_update(Relaxed, Relaxed, |taken| Some(after(taken)));
        let taken = taken.map_or_else(after, after);
        taken.saturating_sub(now).min(MAX_DELAY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Statements of one writer, each with work of its own and a share, for `count` statements; the time they take.
    fn time(pace: &Pace, work: u64, share: u64, count: u64) -> u64 {
        let mut now = 1_000 * MS;
        for _ in 0..count {
            now += pace.take(Instant::from_nanos(now), share) + work;
        }
        now - 1_000 * MS
    }

    #[test]
    fn writers_slower_than_the_pace_do_not_wait() {
        assert_eq!(time(&Pace::default(), 2 * MS, MS, 1000), 2000 * MS);
    }

    #[test]
    fn faster_writers_keep_the_pace() {
        let took = time(&Pace::default(), MS / 10, MS, 1000);
        assert!((980 * MS..=1010 * MS).contains(&took), "{took}");
    }

    #[test]
    fn writers_share_the_pace() {
        let (pace, mut next) = (Pace::default(), [1_000 * MS; 8]);
        for _ in 0..8_000 {
            let writer = (0..8).min_by_key(|&writer| next[writer]).expect("there are eight");
            next[writer] += pace.take(Instant::from_nanos(next[writer]), MS) + MS / 10;
        }
        let took = next.iter().max().expect("there are eight") - 1_000 * MS;
        assert!((7_900 * MS..=8_100 * MS).contains(&took), "{took}");
    }

    #[test]
    fn no_wait_is_longer_than_the_longest_delay_nor_left_to_later_statements() {
        let (pace, now) = (Pace::default(), 1_000 * MS);
        for _ in 0..100 {
            assert!(pace.take(Instant::from_nanos(now), 1_000 * MS) <= MAX_DELAY);
        }
        let later = now + 2 * MAX_DELAY + 1_000 * MS;
        assert_eq!(pace.take(Instant::from_nanos(later), 1), 0);
    }
}
