//! What several figures of one thing say: the middle, the spread, and how sure a ratio is.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde::Serialize;

/// Resamples of the bootstrap; more move the bounds by less than the noise of a run.
const RESAMPLES: usize = 2000;
/// The seed of the bootstrap: the same figures always give the same interval.
const SEED: u64 = 0x7469_6465_6c61_6221;

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

/// What a comparison of two competitors says.
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

/// How one competitor's figures stand to another's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ratio {
    /// The median of the rounds' ratios.
    pub median: f64,
    /// The lower bound of the 95 % interval.
    pub low: f64,
    /// The upper bound.
    pub high: f64,
    /// Whether that is a difference.
    pub verdict: Verdict,
}

impl Ratio {
    /// Of pairs (ours, theirs) that were measured in the same round. The interval is the
    /// percentile bootstrap of the median over rounds; with three rounds it reaches from
    /// the least to the greatest. One round has no spread, and so no verdict.
    pub fn of(pairs: &[(f64, f64)]) -> Option<Ratio> {
        let ratios: Vec<f64> = pairs.iter().filter(|(_, theirs)| *theirs > 0.0).map(|(o, t)| o / t).collect();
        let median = Spread::of(&ratios)?.median;
        let (low, high) = bootstrap(&ratios);
        let verdict = match ratios.len() {
            1 => Verdict::None,
            _ if low > 1.0 => Verdict::Higher,
            _ if high < 1.0 => Verdict::Lower,
            _ => Verdict::None,
        };
        Some(Ratio { median, low, high, verdict })
    }
}

/// The 2.5 % and 97.5 % quantiles of the medians of resamples.
fn bootstrap(figures: &[f64]) -> (f64, f64) {
    let mut random = StdRng::seed_from_u64(SEED);
    let mut medians: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            let mut sample: Vec<f64> =
                (0..figures.len()).map(|_| figures[random.random_range(0..figures.len())]).collect();
            sample.sort_by(f64::total_cmp);
            quantile(&sample, 0.5)
        })
        .collect();
    medians.sort_by(f64::total_cmp);
    (quantile(&medians, 0.025), quantile(&medians, 0.975))
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
        let ratio = Ratio::of(&[(120.0, 100.0), (240.0, 200.0), (130.0, 100.0)]).unwrap();
        assert_eq!(ratio.median, 1.2);
        assert!(ratio.low >= 1.2 && ratio.high <= 1.3 + 1e-9, "{ratio:?}");
        assert_eq!(ratio.verdict, Verdict::Higher);
    }

    #[test]
    fn a_difference_inside_the_noise_is_none() {
        let ratio = Ratio::of(&[(90.0, 100.0), (104.0, 100.0), (109.0, 100.0)]).unwrap();
        assert_eq!((ratio.median, ratio.verdict), (1.04, Verdict::None));
        assert_eq!(
            Ratio::of(&[(80.0, 100.0), (85.0, 100.0), (70.0, 100.0)]).unwrap().verdict,
            Verdict::Lower
        );
    }

    #[test]
    fn one_round_decides_nothing() {
        assert_eq!(Ratio::of(&[(300.0, 100.0)]).unwrap().verdict, Verdict::None);
        assert_eq!(Ratio::of(&[]), None);
        assert_eq!(Ratio::of(&[(1.0, 0.0)]), None);
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
