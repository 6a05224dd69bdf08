//! The flatness of latencies over a load: the worst of each ten seconds against the median of them. A load is
//! flat if no window is worse than [`FLAT`] times the median window.

use serde::Serialize;

use crate::statistics::Spread;

/// A window, in seconds.
pub const WINDOW_S: f64 = 10.0;
/// So many times the median window is still flat.
pub const FLAT: f64 = 5.0;

/// The worst of each window: its end in seconds, and milliseconds. A second belongs to the window of its
/// beginning; idle windows are left out.
pub fn worst_by_window(seconds: &[(f64, f64, Option<f64>)]) -> Vec<(f64, f64)> {
    let mut windows: Vec<(f64, f64)> = Vec::new();
    for (at_s, length_s, worst_ms) in seconds {
        let Some(worst_ms) = worst_ms else { continue };
        let end_s = window_end(*at_s, *length_s);
        match windows.last_mut() {
            Some((end, worst)) if *end == end_s => *worst = worst.max(*worst_ms),
            _ => windows.push((end_s, *worst_ms)),
        }
    }
    windows
}

/// The end of a second's window.
fn window_end(at_s: f64, length_s: f64) -> f64 {
    // A reporter wakes a little late: what it calls a second may end in the next.
    let began_s = (at_s - length_s).max(0.0) + 0.05;
    ((began_s / WINDOW_S).floor() + 1.0) * WINDOW_S
}

/// The rate of each whole window, given each second's end, length and rate: its end, and a second's
/// worth.
pub fn rate_by_window(seconds: &[(f64, f64, f64)], lasted_s: f64) -> Vec<(f64, f64)> {
    let mut windows: Vec<(f64, f64, f64)> = Vec::new();
    for (at_s, length_s, per_s) in seconds {
        let end_s = window_end(*at_s, *length_s);
        match windows.last_mut() {
            Some((end, length, count)) if *end == end_s => {
                *length += length_s;
                *count += per_s * length_s;
            }
            _ => windows.push((end_s, *length_s, per_s * length_s)),
        }
    }
    windows.retain(|(end, ..)| *end <= lasted_s + 0.5);
    windows.into_iter().map(|(end, length, count)| (end, count / length.max(1e-3))).collect()
}

/// The figures of all windows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Flatness {
    /// Whole windows.
    pub windows: usize,
    /// Their median, in milliseconds.
    pub median_ms: f64,
    /// The worst, the last and shorter one included.
    pub worst_ms: f64,
    /// The worst against the median.
    pub ratio: f64,
}

impl Flatness {
    /// Of windows of a load of this length; none: there was no whole window.
    pub fn of(windows: &[(f64, f64)], lasted_s: f64) -> Option<Flatness> {
        let whole: Vec<f64> =
            windows.iter().filter(|(end, _)| *end <= lasted_s + 0.5).map(|(_, worst)| *worst).collect();
        let median_ms = Spread::of(&whole)?.median;
        let worst_ms = windows.iter().map(|(_, worst)| *worst).fold(0.0, f64::max);
        Some(Flatness { windows: whole.len(), median_ms, worst_ms, ratio: worst_ms / median_ms })
    }

    /// No window is worse than [`FLAT`] times the median.
    pub fn is_flat(&self) -> bool {
        self.ratio <= FLAT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seconds with an end a few milliseconds late, with these worst latencies.
    fn seconds(worst: impl IntoIterator<Item = f64>) -> Vec<(f64, f64, Option<f64>)> {
        worst.into_iter().enumerate().map(|(n, ms)| (n as f64 + 1.004, 1.0, Some(ms))).collect()
    }

    #[test]
    fn a_second_belongs_to_the_window_in_which_it_began() {
        let mut all = seconds((0..25).map(f64::from));
        assert_eq!(worst_by_window(&all), [(10.0, 9.0), (20.0, 19.0), (30.0, 24.0)]);
        all[12].2 = None;
        assert_eq!(worst_by_window(&all).len(), 3);
        assert_eq!(worst_by_window(&[(1.0, 1.0, None)]), []);
        // One operation that took 32 s ends in a second that began at 8 s.
        assert_eq!(
            worst_by_window(&[(8.0, 1.0, Some(2.0)), (40.0, 32.0, Some(32_000.0))]),
            [(10.0, 32_000.0)]
        );
    }

    #[test]
    fn rates_are_those_of_whole_windows() {
        let seconds: Vec<(f64, f64, f64)> =
            (0..25).map(|n| (f64::from(n) + 1.0, 1.0, if n < 10 { 100.0 } else { 40.0 })).collect();
        assert_eq!(rate_by_window(&seconds, 25.0), [(10.0, 100.0), (20.0, 40.0)]);
        assert_eq!(rate_by_window(&seconds[..5], 5.0), []);
    }

    #[test]
    fn one_bad_window_is_enough() {
        let calm = worst_by_window(&seconds((0..60).map(|n| 10.0 + f64::from(n % 7))));
        let flatness = Flatness::of(&calm, 60.0).unwrap();
        assert_eq!((flatness.windows, flatness.is_flat()), (6, true));
        let stall = worst_by_window(&seconds((0..60).map(|n| if n == 41 { 90.0 } else { 10.0 })));
        let flatness = Flatness::of(&stall, 60.0).unwrap();
        assert_eq!((flatness.median_ms, flatness.worst_ms, flatness.ratio), (10.0, 90.0, 9.0));
        assert!(!flatness.is_flat());
    }

    #[test]
    fn the_last_part_counts_as_the_worst_but_not_for_the_median() {
        let windows = worst_by_window(&seconds([vec![10.0; 20], vec![1000.0; 3]].concat()));
        let flatness = Flatness::of(&windows, 23.0).unwrap();
        assert_eq!((flatness.windows, flatness.median_ms, flatness.worst_ms), (2, 10.0, 1000.0));
        assert_eq!(Flatness::of(&worst_by_window(&seconds([1.0; 5])), 5.0), None);
    }
}
