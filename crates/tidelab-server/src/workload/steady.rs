//! The end of a warm-up: when it has become steady, or at a limit.
//!
//! A warm-up is a series of rates, one for each second. It is steady when two conditions hold: the
//! medians of its last three windows lie within 5 % of each other, and they do not move in one direction.
//! Worked example, with windows of three seconds and 9 seconds at least:
//!
//! ```text
//! rates     400 700 900   980 1000 1010   1000 990 1005   995 1010 1000
//! medians       700           1000            1000            1000
//! ```
//!
//! After nine seconds the medians are 700, 1000, 1000: still warming. After twelve they are 1000 three times:
//! steady. The rule knows nothing of engines: it is the same for all competitors.

use serde::Serialize;

/// The number of compared windows.
const WINDOWS: usize = 3;
/// The largest difference between the windows' medians, as a share of the middle one.
const TOLERANCE: f64 = 0.05;
/// Medians in a steady rise or fall may differ by this share of the middle one. It is half of [`TOLERANCE`]:
/// a slow drift is no noise.
const TREND: f64 = TOLERANCE / 2.0;

/// When a warm-up ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Rule {
    /// The least number of its seconds.
    pub at_least_s: u32,
    /// The most of its seconds, steady or not. No more than `at_least_s`: the warm-up is fixed.
    pub at_most_s: u32,
    /// Seconds of a window.
    pub window_s: u32,
}

/// A rule's judgement on a warm-up so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It goes on.
    Warming,
    /// It ends: the rates are steady.
    Steady,
    /// It ends at its limit without having become steady.
    AtLimit,
}

/// The result of a warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct WarmUp {
    /// Its seconds.
    pub seconds: f64,
    /// True if the rates became steady; none for a fixed length.
    pub steady: Option<bool>,
}

impl Rule {
    /// Its length is fixed.
    pub fn fixed(seconds: u32) -> Rule {
        Rule { at_least_s: seconds, at_most_s: seconds, window_s: 1 }
    }

    /// The warm-up takes the same time whatever the rates are.
    pub fn is_fixed(&self) -> bool {
        self.at_most_s <= self.at_least_s
    }

    /// Judges a warm-up by the rates of its seconds so far.
    pub fn state(&self, rates: &[f64]) -> State {
        if rates.len() >= self.at_least_s as usize && is_steady(rates, self.window_s as usize) {
            State::Steady
        } else if rates.len() >= self.at_most_s as usize {
            State::AtLimit
        } else {
            State::Warming
        }
    }
}

impl WarmUp {
    /// One whose length was fixed.
    pub fn fixed(seconds: f64) -> WarmUp {
        WarmUp { seconds, steady: None }
    }

    /// True if it reached its limit before it was steady.
    pub fn is_unsteady(&self) -> bool {
        self.steady == Some(false)
    }
}

/// True if the last three windows of these rates are alike and without a trend.
pub fn is_steady(rates: &[f64], window: usize) -> bool {
    let Some(from) = rates.len().checked_sub(WINDOWS * window).filter(|_| window > 0) else { return false };
    let medians: Vec<f64> = rates[from..].chunks(window).map(median).collect();
    let middle = median(&medians);
    if middle <= 0.0 {
        return false;
    }
    let greatest = medians.iter().copied().fold(f64::MIN, f64::max);
    let least = medians.iter().copied().fold(f64::MAX, f64::min);
    let differ = (greatest - least) / middle;
    let one_way = medians.windows(2).all(|w| w[1] > w[0]) || medians.windows(2).all(|w| w[1] < w[0]);
    differ <= if one_way { TREND } else { TOLERANCE }
}

/// The middle value; of an even number of values the mean of the two in the middle.
fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        n if n % 2 == 1 => sorted[n / 2],
        n => (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_windows_alike_without_a_trend_are_steady() {
        // Name, length of a window, rates, whether they are steady.
        let cases: [(&str, usize, &[f64], bool); 16] = [
            ("nothing was measured", 3, &[], false),
            ("one second too few", 2, &[9.0, 9.0, 9.0, 9.0, 9.0], false),
            ("flat", 2, &[9.0, 9.0, 9.0, 9.0, 9.0, 9.0], true),
            ("only the last windows count", 1, &[1.0, 50.0, 3.0, 100.0, 100.0, 100.0], true),
            (
                "the example after nine seconds",
                3,
                &[400.0, 700.0, 900.0, 980.0, 1000.0, 1010.0, 1000.0, 990.0, 1005.0],
                false,
            ),
            (
                "the example after twelve",
                3,
                &[400.0, 700.0, 900.0, 980.0, 1000.0, 1010.0, 1000.0, 990.0, 1005.0, 995.0, 1010.0, 1000.0],
                true,
            ),
            ("5 % up and down", 1, &[100.0, 105.0, 100.0], true),
            ("more than 5 %", 1, &[100.0, 105.5, 100.0], false),
            ("5 % down and up", 1, &[105.0, 100.0, 105.0], true),
            ("rises by 2.4 % in all", 1, &[100.0, 101.0, 102.4], true),
            ("rises by 4 % in all", 1, &[100.0, 102.0, 104.0], false),
            ("falls by 4 % in all", 1, &[104.0, 102.0, 100.0], false),
            ("a rise that ended", 1, &[100.0, 104.0, 104.0], true),
            ("one stall in a window", 3, &[99.0, 0.0, 101.0, 100.0, 101.0, 99.0, 100.0, 1.0, 100.0], true),
            ("a window that stalled", 3, &[0.0, 0.0, 100.0, 100.0, 100.0, 100.0, 100.0, 100.0, 100.0], false),
            ("nothing comes to its end", 1, &[0.0, 0.0, 0.0], false),
        ];
        for (what, window, rates, steady) in cases {
            assert_eq!(is_steady(rates, window), steady, "{what}");
        }
    }

    #[test]
    fn a_warm_up_ends_when_it_is_steady_and_no_sooner_than_asked_nor_later_than_the_limit() {
        let rule = |at_least_s, at_most_s| Rule { at_least_s, at_most_s, window_s: 1 };
        let rising: Vec<f64> = (1..=60).map(|n| f64::from(n) * 100.0).collect();
        let flat = [100.0; 60];
        for (what, rule, rates, state) in [
            ("no window yet", rule(0, 10), &flat[..2], State::Warming),
            ("flat, no minimum", rule(0, 10), &flat[..3], State::Steady),
            ("flat before the minimum", rule(5, 10), &flat[..4], State::Warming),
            ("flat at the minimum", rule(5, 10), &flat[..5], State::Steady),
            ("rising before the limit", rule(0, 10), &rising[..9], State::Warming),
            ("rising at the limit", rule(0, 10), &rising[..10], State::AtLimit),
            ("steady at the limit", rule(0, 10), &flat[..10], State::Steady),
            ("a limit before three windows", rule(0, 2), &flat[..2], State::AtLimit),
        ] {
            assert_eq!(rule.state(rates), state, "{what}");
        }
    }

    #[test]
    fn a_limit_up_to_the_minimum_is_a_fixed_warm_up() {
        assert!(Rule::fixed(3).is_fixed());
        for (at_most_s, fixed) in [(0, true), (60, true), (61, false)] {
            assert_eq!(Rule { at_least_s: 60, at_most_s, window_s: 10 }.is_fixed(), fixed, "{at_most_s}");
        }
    }
}
