//! The statistics of rounds: median, spread, the interval of a ratio, and the number of rounds to resolve a
//! difference.
//!
//! The unit of evidence is the round. Two competitors next to each other in a round share the machine's
//! state, so their ratio is less noisy than either figure. Seconds within a run share the run's state and are
//! no evidence about another one.
//!
//! The interval of a ratio is a bootstrap over the rounds of the trimmed mean of log ratios. It is widened by
//! Student's t for few rounds. Otherwise, three rounds of equal competitors lie on one side of 1 in a quarter
//! of all experiments. The bootstrap cannot reach beyond the least and the greatest, and calls this a
//! difference. `planted_test` tests the promise; docs/design/0012-what-a-verdict-means.md has the figures.

#[cfg(test)]
mod planted_test;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde::Serialize;

/// Resamples of the bootstrap; more move the bounds by less than a tenth of the interval.
const RESAMPLES: usize = 4000;
/// The seed of the bootstrap: the same figures always give the same interval.
const SEED: u64 = 0x7469_6465_6c61_6221;
/// The share of all experiments outside the interval, on each side. The interval is one of 98 % and not
/// of 95 %: a table has a dozen comparisons, and adding rounds until the interval is narrow (see
/// [`Resolution`]) costs a part of its promise.
const OUTSIDE: f64 = 0.01;
/// Of so many rounds, the least and the greatest each do not count for the interval's place.
const TRIMMED_OF: usize = 8;
/// The 99 % quantile of the normal distribution.
const NORMAL: f64 = 2.326_348;
/// The 99 % quantiles of Student's t for 1, 2, ... 30 degrees of freedom.
const STUDENT: [f64; 30] = [
    31.8205, 6.9646, 4.5407, 3.7469, 3.3649, 3.1427, 2.9980, 2.8965, 2.8214, 2.7638, 2.7181, 2.6810, 2.6503,
    2.6245, 2.6025, 2.5835, 2.5669, 2.5524, 2.5395, 2.5280, 2.5176, 2.5083, 2.4999, 2.4922, 2.4851, 2.4786,
    2.4727, 2.4671, 2.4620, 2.4573,
];
/// The least rounds of a verdict: two that happen to agree have hardly an interval.
pub const FEWEST_FOR_A_VERDICT: usize = 3;
/// The least rounds to stop at: with fewer the spread itself is too little known.
const FEWEST_ROUNDS: usize = 8;

/// The middle and the spread of some figures.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
    /// The upper quartile less the lower one.
    pub iqr: f64,
}

impl Spread {
    /// Of these figures; nothing for none.
    pub fn of(figures: &[f64]) -> Option<Spread> {
        let mut sorted = figures.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let iqr = quantile(&sorted, 0.75) - quantile(&sorted, 0.25);
        Some(Spread { median: quantile(&sorted, 0.5), min, max, iqr })
    }
}

/// The verdict on two competitors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The interval is above 1.
    Higher,
    /// The interval is below 1.
    Lower,
    /// The interval holds 1: no difference beyond the noise.
    None,
}

/// The ratio of one competitor's figures to another's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ratio {
    /// The median of the rounds' ratios.
    pub median: f64,
    /// The lower bound of the 98 % interval.
    pub low: f64,
    /// The upper bound.
    pub high: f64,
    /// The verdict on the difference.
    pub verdict: Verdict,
}

impl Ratio {
    /// Of pairs (ours, theirs) measured in the same round; pairs with a figure not above 0 do not count. None
    /// without any. The interval always holds the median. One round has no interval, and fewer than
    /// [`FEWEST_FOR_A_VERDICT`] have no verdict.
    pub fn of(pairs: &[(f64, f64)]) -> Option<Ratio> {
        let ratios = ratios(pairs);
        let median = Spread::of(&ratios)?.median;
        let logs: Vec<f64> = ratios.iter().map(|ratio| ratio.ln()).collect();
        let (low, high) = interval(&logs);
        let (low, high) = (low.min(median.ln()), high.max(median.ln()));
        let verdict = match logs.len() {
            rounds if rounds < FEWEST_FOR_A_VERDICT => Verdict::None,
            _ if low > 0.0 => Verdict::Higher,
            _ if high < 0.0 => Verdict::Lower,
            _ => Verdict::None,
        };
        Some(Ratio { median, low: low.exp(), high: high.exp(), verdict })
    }
}

/// The smallest difference for an experiment to find, as a share: 0.05 for 5 %.
///
/// An experiment resolves a difference when half of its interval is at most half of it. Then at least 19 of
/// 20 experiments are right: competitors with such a difference are told apart with the right sign, and equal
/// ones are called equal. This holds when rounds are added until then, because the interval's width ends the
/// experiment and not its place.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Resolution(pub f64);

impl Resolution {
    /// True if these rounds resolve it. A difference four times as large as half of its interval is enough
    /// too: it is found and sized, with any interval.
    pub fn reached(self, pairs: &[(f64, f64)]) -> bool {
        let logs = logs(pairs);
        if logs.len() < FEWEST_ROUNDS {
            return false;
        }
        let half = student(degrees(logs.len())) * standard_error(&logs);
        half <= self.half_width() || 4.0 * half <= trimmed_mean(&sorted(&logs)).abs()
    }

    /// About how many rounds resolve it, if the noise stays the same; at least two pairs must be there. Never
    /// less than the number of rounds for [`Resolution::reached`]. From few rounds it is a rough estimate:
    /// from five, half or twice as many may be right.
    pub fn rounds_needed(self, pairs: &[(f64, f64)]) -> Option<usize> {
        let logs = logs(pairs);
        if logs.len() < 2 {
            return None;
        }
        // The variation of one round's ratio, were it measured in very many rounds.
        self.rounds_at(standard_error(&logs) * (logs.len() as f64).sqrt())
    }

    /// The same from a ratio of so many rounds, three at least.
    pub fn rounds_needed_after(self, ratio: &Ratio, rounds: usize) -> Option<usize> {
        if rounds < 3 {
            return None;
        }
        let half = (ratio.high / ratio.low).ln() / 2.0;
        self.rounds_at(half / student(degrees(rounds)) * (rounds as f64).sqrt())
    }

    fn rounds_at(self, noise: f64) -> Option<usize> {
        if self.0 <= 0.0 || !noise.is_finite() {
            return None;
        }
        let enough = |n: &usize| student(degrees(*n)) * noise / (*n as f64).sqrt() <= self.half_width();
        Some((FEWEST_ROUNDS..MOST_ROUNDS).find(enough).unwrap_or(MOST_ROUNDS))
    }

    fn half_width(self) -> f64 {
        self.0.ln_1p() / 2.0
    }
}

/// More rounds than any experiment has.
const MOST_ROUNDS: usize = 10_000;

/// The ratios of pairs, without those lacking a logarithm.
fn ratios(pairs: &[(f64, f64)]) -> Vec<f64> {
    pairs.iter().map(|(ours, theirs)| ours / theirs).filter(|ratio| ratio.ln().is_finite()).collect()
}

fn logs(pairs: &[(f64, f64)]) -> Vec<f64> {
    ratios(pairs).iter().map(|ratio| ratio.ln()).collect()
}

/// The interval of the difference of two trimmed means, by Welch: for unpaired figures, two at least on each
/// side.
pub fn difference_interval(ours: &[f64], theirs: &[f64]) -> (f64, f64) {
    let centre = trimmed_mean(&sorted(ours)) - trimmed_mean(&sorted(theirs));
    let (our, their) = (standard_error(ours).powi(2), standard_error(theirs).powi(2));
    let (our_degrees, their_degrees) = (degrees(ours.len()) as f64, degrees(theirs.len()) as f64);
    let both = our.powi(2) / our_degrees + their.powi(2) / their_degrees;
    let degrees = if both > 0.0 { ((our + their).powi(2) / both).floor().max(1.0) as usize } else { 1 };
    let half = if both > 0.0 { student(degrees) * (our + their).sqrt() } else { 0.0 };
    (centre - half, centre + half)
}

fn sorted(figures: &[f64]) -> Vec<f64> {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// The mean of sorted figures without the outermost ones.
fn trimmed_mean(sorted: &[f64]) -> f64 {
    let trimmed = sorted.len() / TRIMMED_OF;
    let kept = &sorted[trimmed..sorted.len() - trimmed];
    kept.iter().sum::<f64>() / kept.len() as f64
}

/// The winsorised figures and the kept share. The outermost figures are replaced by the outermost of those
/// kept. Tukey and McLaughlin take the spread of a trimmed mean from them.
fn winsorised(figures: &[f64]) -> (Vec<f64>, f64) {
    let mut sorted = sorted(figures);
    let n = sorted.len();
    let trimmed = n / TRIMMED_OF;
    let (least, greatest) = (sorted[trimmed], sorted[n - 1 - trimmed]);
    sorted.iter_mut().for_each(|f| *f = f.clamp(least, greatest));
    (sorted, (n - 2 * trimmed) as f64 / n as f64)
}

/// The standard error of the trimmed mean; 0 for a single figure.
fn standard_error(figures: &[f64]) -> f64 {
    let n = figures.len();
    if n < 2 {
        return 0.0;
    }
    let (values, kept) = winsorised(figures);
    let mean = values.iter().sum::<f64>() / n as f64;
    let variance = values.iter().map(|f| (f - mean).powi(2)).sum::<f64>() / (n - 1) as f64;
    variance.sqrt() / (kept * (n as f64).sqrt())
}

/// Degrees of freedom of the trimmed mean of so many figures, two at least.
fn degrees(n: usize) -> usize {
    n - 2 * (n / TRIMMED_OF) - 1
}

/// The 99 % quantile of Student's t; beyond the table the first terms of its expansion, right to a thousandth
/// there.
fn student(degrees: usize) -> f64 {
    let (z, d) = (NORMAL, degrees as f64);
    match degrees {
        0 => f64::INFINITY,
        1..=30 => STUDENT[degrees - 1],
        _ => {
            z + (z.powi(3) + z) / (4.0 * d) + (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * d * d)
        }
    }
}

/// The interval of the trimmed mean. Resamples of the winsorised rounds give the movement of their mean.
/// It is widened three times: by the ratio of Student's t to the normal distribution, by n / (n - 1)
/// because resamples vary less than new rounds, and for the trimmed rounds.
fn interval(figures: &[f64]) -> (f64, f64) {
    let n = figures.len();
    let centre = trimmed_mean(&sorted(figures));
    if n < 2 {
        return (centre, centre);
    }
    let (values, kept) = winsorised(figures);
    let mean = values.iter().sum::<f64>() / n as f64;
    let mut random = StdRng::seed_from_u64(SEED);
    let mut moves: Vec<f64> = (0..RESAMPLES)
        .map(|_| (0..n).map(|_| values[random.random_range(0..n)]).sum::<f64>() / n as f64 - mean)
        .collect();
    moves.sort_by(f64::total_cmp);
    let widened = student(degrees(n)) / NORMAL * (n as f64 / (n - 1) as f64).sqrt() / kept;
    (centre + quantile(&moves, OUTSIDE) * widened, centre + quantile(&moves, 1.0 - OUTSIDE) * widened)
}

/// A quantile of sorted figures, between two of them by the distance to each.
fn quantile(sorted: &[f64], q: f64) -> f64 {
    let position = q * (sorted.len() - 1) as f64;
    let below = position.floor() as usize;
    let above = position.ceil() as usize;
    sorted[below] + (sorted[above] - sorted[below]) * (position - below as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn middle_and_spread() {
        assert_eq!(Spread::of(&[3.0, 1.0, 2.0]), Some(Spread { median: 2.0, min: 1.0, max: 3.0, iqr: 1.0 }));
        assert_eq!(
            Spread::of(&[4.0, 1.0, 2.0, 9.0]),
            Some(Spread { median: 3.0, min: 1.0, max: 9.0, iqr: 5.25 - 1.75 })
        );
        assert_eq!(Spread::of(&[7.0]), Some(Spread { median: 7.0, min: 7.0, max: 7.0, iqr: 0.0 }));
        assert_eq!(Spread::of(&[]), None);
    }

    #[test]
    fn ratios_are_taken_within_rounds() {
        // The machine was twice as fast in the second round: the pairs do not care.
        let ratio = Ratio::of(&[(120.0, 100.0), (240.0, 200.0), (125.0, 100.0)]).unwrap();
        assert!((ratio.median - 1.2).abs() < 1e-12);
        assert!(ratio.low > 1.1 && ratio.high < 1.35, "{ratio:?}");
        assert_eq!(ratio.verdict, Verdict::Higher);
    }

    #[test]
    fn a_difference_inside_the_noise_is_none() {
        let ratio = Ratio::of(&[(90.0, 100.0), (104.0, 100.0), (109.0, 100.0)]).unwrap();
        assert!((ratio.median - 1.04).abs() < 1e-12 && ratio.verdict == Verdict::None, "{ratio:?}");
        // All on one side, as equal competitors are in every fourth experiment of three rounds.
        let ratio = Ratio::of(&[(101.0, 100.0), (104.0, 100.0), (109.0, 100.0)]).unwrap();
        assert_eq!(ratio.verdict, Verdict::None, "{ratio:?}");
        let ratio = Ratio::of(&[(50.0, 100.0), (55.0, 100.0), (45.0, 100.0)]).unwrap();
        assert_eq!(ratio.verdict, Verdict::Lower, "{ratio:?}");
    }

    #[test]
    fn the_interval_of_few_rounds_is_student_s() {
        // Normal data, so the bootstrap must come out where the t-interval of their mean is.
        for n in [5, 7, 20] {
            let pairs: Vec<(f64, f64)> =
                (0..n).map(|i| ((0.03 * f64::from(i - n / 2)).exp(), 1.0)).chain([(1.0, 1.0)]).collect();
            let logs = logs(&pairs);
            let half = student(degrees(logs.len())) * standard_error(&logs);
            let ratio = Ratio::of(&pairs).unwrap();
            let found = (ratio.high / ratio.low).ln() / 2.0;
            assert!((found / half - 1.0).abs() < 0.12, "{n}: {found} {half}");
        }
    }

    #[test]
    fn one_wild_round_of_many_moves_the_interval_little() {
        let calm: Vec<(f64, f64)> = (0..16).map(|i| (1.05 + 0.002 * f64::from(i % 4), 1.0)).collect();
        let mut wild = calm.clone();
        wild[3].0 = 0.3;
        let (calm, wild) = (Ratio::of(&calm).unwrap(), Ratio::of(&wild).unwrap());
        assert_eq!((calm.verdict, wild.verdict), (Verdict::Higher, Verdict::Higher), "{calm:?} {wild:?}");
    }

    #[test]
    fn the_interval_holds_the_median() {
        // Far more below than above: the mean is well away from the median.
        let pairs: Vec<(f64, f64)> =
            (0..60).map(|i| (if i % 3 == 0 { 0.5 } else { 1.0 + 0.0001 * f64::from(i) }, 1.0)).collect();
        let ratio = Ratio::of(&pairs).unwrap();
        assert!(ratio.low <= ratio.median && ratio.median <= ratio.high, "{ratio:?}");
    }

    #[test]
    fn quantiles_of_student_go_on_behind_the_table() {
        assert!((student(31) - 2.4528).abs() < 2e-3 && (student(60) - 2.3901).abs() < 2e-3);
        assert!((1..200).all(|d| student(d) > student(d + 1)), "falling");
        assert!(student(1_000_000) - NORMAL < 1e-4);
    }

    #[test]
    fn rounds_are_enough_when_the_interval_is_half_as_wide_as_the_difference() {
        let noisy = |n: usize, noise: f64, ratio: f64| -> Vec<(f64, f64)> {
            (0..n).map(|i| (ratio * (noise * [-1.0, 0.3, 1.0, -0.3][i % 4]).exp(), 1.0)).collect()
        };
        let five = Resolution(0.05);
        let needed = five.rounds_needed(&noisy(40, 0.08, 1.0)).unwrap();
        assert!(!five.reached(&noisy(needed / 4 * 3, 0.08, 1.0)), "{needed}");
        assert!(five.reached(&noisy(needed / 4 * 4 + 8, 0.08, 1.0)), "{needed}");
        let twice = five.rounds_needed(&noisy(40, 0.16, 1.0)).unwrap();
        assert!((3.3..4.7).contains(&(twice as f64 / needed as f64)), "{needed} {twice}: by the square");
        assert_eq!(five.rounds_needed(&noisy(8, 0.001, 1.0)), Some(FEWEST_ROUNDS));
        assert!(five.reached(&noisy(8, 0.08, 3.0)), "what is far beyond the noise needs no more");
        assert!(!five.reached(&noisy(7, 0.0, 1.0)), "the spread of few rounds is chance");
        assert_eq!((five.rounds_needed(&[(1.0, 1.0)]), five.rounds_needed(&[])), (None, None));
        let pairs = noisy(40, 0.08, 1.0);
        let after = five.rounds_needed_after(&Ratio::of(&pairs).unwrap(), 40).unwrap();
        assert!((0.85..1.15).contains(&(after as f64 / needed as f64)), "{after} {needed}: by the interval");
        assert_eq!(five.rounds_needed_after(&Ratio::of(&[(1.0, 1.0)]).unwrap(), 1), None);
    }

    #[test]
    fn one_round_decides_nothing_and_two_do_not() {
        let two = Ratio::of(&[(300.0, 100.0), (300.0, 100.0)]).unwrap();
        assert_eq!(two.verdict, Verdict::None, "{two:?}");
        assert_eq!(Ratio::of(&[(300.0, 100.0); 3]).unwrap().verdict, Verdict::Higher);
        assert_eq!(Ratio::of(&[(300.0, 100.0)]).unwrap().verdict, Verdict::None);
        assert_eq!(Ratio::of(&[]), None);
        assert_eq!(Ratio::of(&[(1.0, 0.0), (0.0, 1.0), (f64::NAN, 1.0)]), None);
    }

    #[test]
    fn more_rounds_that_agree_narrow_the_interval() {
        let spread = |n: usize| {
            let pairs: Vec<(f64, f64)> = (0..n).map(|i| (1.0 + 0.01 * (i % 5) as f64, 1.0)).collect();
            let ratio = Ratio::of(&pairs).unwrap();
            ratio.high - ratio.low
        };
        assert!(spread(50) < spread(5), "{} {}", spread(50), spread(5));
        assert_eq!(spread(5), spread(5), "the interval is reproducible");
    }
}
