//! The schedule of one client's operations: evenly, at a rate, independent of the server.
//!
//! A slot is the due beginning of an operation. Latencies are counted from the slot: a wait for the operation
//! before it counts, and a stall shows in all operations due in it (coordinated omission).
//!
//! A late client begins its next operation at once, but is never later than `catch_up`. Older slots are given
//! up, because a burst after a stall would be another load than the one asked for. Each given-up slot is
//! reported with its wait so far. This is less than its operation would have taken; the percentiles keep it.

use std::time::Duration;

/// The slots of one client.
#[derive(Clone, Debug)]
pub struct Pace {
    /// From one slot to the next.
    interval: Duration,
    /// The next slot, since the start.
    next: Duration,
    /// The longest time from its slot to an operation's begin, because of catching up.
    catch_up: Duration,
}

impl Pace {
    /// One of `clients` with `per_second` operations together. Their slots are spread over an interval;
    /// `first` is the first client's first slot.
    pub fn new(per_second: f64, clients: u32, number: u32, first: Duration, catch_up: Duration) -> Pace {
        let interval = Duration::from_secs_f64(f64::from(clients) / per_second);
        let share = f64::from(number) / f64::from(clients);
        Pace { interval, next: first + interval.mul_f64(share), catch_up }
    }

    /// The next slot, given the time since the start: when it lies ahead the client waits for it. `given_up`
    /// gets the wait of each skipped slot.
    pub fn slot(&mut self, now: Duration, mut given_up: impl FnMut(Duration)) -> Duration {
        while self.next + self.catch_up < now {
            given_up(now - self.next);
            self.next += self.interval;
        }
        let slot = self.next;
        self.next += self.interval;
        slot
    }

    /// The load is over at `end`: `slot`, if it was got and not used, and all later ones before the
    /// end are given up. Without them a stall at the end would not show.
    pub fn leave(
        &mut self,
        slot: Option<Duration>,
        end: Duration,
        now: Duration,
        mut given_up: impl FnMut(Duration),
    ) {
        self.next = slot.unwrap_or(self.next);
        while self.next < end {
            given_up(now.saturating_sub(self.next));
            self.next += self.interval;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::Latencies;

    const MS: Duration = Duration::from_millis(1);

    /// A client on a simulated clock against a server whose time for an operation is known.
    /// Latencies from the slots, latencies from the real begin, operations, slots given up.
    fn simulate(
        mut pace: Pace,
        until: Duration,
        mut takes: impl FnMut(Duration) -> Duration,
    ) -> (Latencies, Latencies, u64, u64) {
        let (mut now, mut done, mut given_up) = (Duration::ZERO, 0, 0);
        let (mut from_slot, mut from_begin) = (Latencies::default(), Latencies::default());
        loop {
            let slot = pace.slot(now, |wait| {
                given_up += 1;
                from_slot.record(wait);
            });
            now = now.max(slot);
            if now >= until {
                return (from_slot, from_begin, done, given_up);
            }
            let begin = now;
            now += takes(now);
            from_begin.record(now - begin);
            from_slot.record(now - slot);
            done += 1;
        }
    }

    #[test]
    fn a_server_that_keeps_up_sees_the_rate() {
        let pace = Pace::new(100.0, 1, 0, Duration::ZERO, Duration::from_secs(1));
        let (from_slot, from_begin, done, given_up) = simulate(pace, 10_000 * MS, |_| 2 * MS);
        assert_eq!((done, given_up), (1000, 0));
        assert_eq!(from_slot.figures(), from_begin.figures(), "nothing waited");
    }

    #[test]
    fn clients_share_the_rate_and_do_not_begin_together() {
        let slots: Vec<u64> = (0..4)
            .flat_map(|number| {
                let mut pace = Pace::new(400.0, 4, number, MS, Duration::ZERO);
                [pace.slot(Duration::ZERO, |_| ()), pace.slot(MS, |_| ())]
            })
            .map(|slot| u64::try_from(slot.as_micros()).unwrap())
            .collect();
        assert_eq!(slots, [1000, 11_000, 3500, 13_500, 6000, 16_000, 8500, 18_500]);
    }

    #[test]
    fn a_stall_shows_in_all_operations_that_fall_into_it() {
        // 100 a second for 10 s; at 5 s the server stands still for 800 ms.
        let stall = |now: Duration| if now == 5000 * MS { 800 * MS } else { MS };
        let pace = Pace::new(100.0, 1, 0, Duration::ZERO, Duration::from_secs(1));
        let (from_slot, from_begin, done, given_up) = simulate(pace, 10_000 * MS, stall);
        assert_eq!((done, given_up), (1000, 0), "what was late was caught up");
        // Of the 1000, 79 more waited; a client that only looks at its clock sees one.
        assert!((from_begin.figures().p99_ms - 1.0).abs() < 0.02);
        assert!(from_slot.figures().p95_ms > 300.0, "{:?}", from_slot.figures());
        assert!((from_slot.figures().max_ms - 800.0).abs() < 0.01);
    }

    #[test]
    fn catching_up_is_bounded_and_what_is_given_up_is_counted() {
        let stall = |now: Duration| if now == 2000 * MS { 5000 * MS } else { MS };
        let pace = Pace::new(100.0, 1, 0, Duration::ZERO, Duration::from_secs(1));
        let (from_slot, _, done, given_up) = simulate(pace, 10_000 * MS, stall);
        assert_eq!(done + given_up, 1000, "each slot is accounted for");
        // The slots from 2.01 s on were due; those older than 1 s at 7 s were given up.
        assert_eq!(given_up, 399);
        assert_eq!(from_slot.count(), 1000);
        // Half of the operations waited: with the given-up ones the median knows.
        assert!(from_slot.figures().p50_ms > 0.9 && from_slot.figures().p95_ms > 4000.0);
    }

    #[test]
    fn a_stall_at_the_end_shows_too() {
        // The operation of 9 s ends at 12 s, the load at 10 s: 99 slots were due meanwhile.
        let mut pace = Pace::new(100.0, 1, 0, Duration::ZERO, Duration::from_secs(1));
        let mut slot = Duration::ZERO;
        while slot < 9000 * MS {
            slot = pace.slot(slot, |_| panic!("nothing was late"));
        }
        let mut waits = Vec::new();
        pace.leave(None, 10_000 * MS, 12_000 * MS, |wait| waits.push(wait));
        assert_eq!((waits.len(), waits[0], waits[98]), (99, 2990 * MS, 2010 * MS));

        // A slot that was got and then not used is among them; a slot after the end does not count.
        let mut pace = Pace::new(1.0, 1, 0, Duration::ZERO, Duration::from_secs(1));
        let slot = pace.slot(100 * MS, |_| panic!());
        let mut count = 0;
        pace.leave(Some(slot), 2000 * MS, 2000 * MS, |_| count += 1);
        assert_eq!(count, 2);
        let slot = pace.slot(2000 * MS, |_| panic!());
        pace.leave(Some(slot), 2000 * MS, 2000 * MS, |_| panic!());
    }

    #[test]
    fn without_catching_up_the_next_operation_is_in_the_next_slot() {
        let mut pace = Pace::new(100.0, 1, 0, Duration::ZERO, Duration::ZERO);
        assert_eq!(pace.slot(Duration::ZERO, |_| panic!()), Duration::ZERO);
        let mut waits = Vec::new();
        assert_eq!(pace.slot(35 * MS, |wait| waits.push(wait)), 40 * MS);
        assert_eq!(waits, [25 * MS, 15 * MS, 5 * MS]);
    }

    #[test]
    fn a_server_that_is_too_slow_does_what_it_can() {
        // 50 a second are wanted, 20 are possible.
        let pace = Pace::new(50.0, 1, 0, Duration::ZERO, Duration::from_secs(1));
        let (from_slot, _, done, given_up) = simulate(pace, 60_000 * MS, |_| 50 * MS);
        assert_eq!(done, 1200);
        assert!((1730..=1800).contains(&given_up), "{given_up}");
        assert!(from_slot.figures().p50_ms > 1000.0);
    }
}
