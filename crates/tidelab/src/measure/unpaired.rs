//! A ratio of figures that were not measured side by side: of two runs, each with rounds of its own.
//! Nothing pairs their rounds, so the machine's drift from one run to the other is in the ratio and
//! not in its interval.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::statistics::{Ratio, Spread, Verdict};

/// Resamples of the bootstrap, as for ratios within rounds.
const RESAMPLES: usize = 2000;
/// The seed of the bootstrap: the same figures always give the same interval.
const SEED: u64 = 0x7469_6465_6c61_6222;

/// How the median of `ours` stands to that of `theirs`; nothing where there is none or theirs is not
/// above zero. The interval is the 95 % percentile bootstrap, each side resampled by itself. One
/// figure on either side has no spread, and so there is no verdict.
pub fn ratio(ours: &[f64], theirs: &[f64]) -> Option<Ratio> {
    let (our, their) = (Spread::of(ours)?.median, Spread::of(theirs)?.median);
    if their <= 0.0 {
        return None;
    }
    let median = our / their;
    if ours.len() < 2 || theirs.len() < 2 {
        return Some(Ratio { median, low: median, high: median, verdict: Verdict::None });
    }
    let mut random = StdRng::seed_from_u64(SEED);
    let mut resampled = |figures: &[f64]| -> Option<f64> {
        let sample: Vec<f64> =
            (0..figures.len()).map(|_| figures[random.random_range(0..figures.len())]).collect();
        Some(Spread::of(&sample)?.median)
    };
    let mut ratios: Vec<f64> = (0..RESAMPLES)
        .filter_map(|_| {
            let (our, their) = (resampled(ours)?, resampled(theirs)?);
            (their > 0.0).then_some(our / their)
        })
        .collect();
    ratios.sort_by(f64::total_cmp);
    let at =
        |share: f64| ratios.get((share * (ratios.len().saturating_sub(1)) as f64).round() as usize).copied();
    let (low, high) = (at(0.025)?, at(0.975)?);
    let verdict = match () {
        () if low > 1.0 => Verdict::Higher,
        () if high < 1.0 => Verdict::Lower,
        () => Verdict::None,
    };
    Some(Ratio { median, low, high, verdict })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_that_lie_apart_differ_and_others_do_not() {
        let ratio = |ours: &[f64]| ratio(ours, &[100.0, 102.0, 98.0, 101.0, 99.0]).unwrap();
        let slower = ratio(&[90.0, 91.0, 92.0, 89.0, 88.0]);
        assert_eq!((slower.median, slower.verdict), (0.9, Verdict::Lower));
        assert!(slower.low >= 88.0 / 102.0 && slower.high <= 92.0 / 98.0, "{slower:?}");
        assert_eq!(ratio(&[99.0, 103.0, 97.0, 100.0, 101.0]).verdict, Verdict::None);
        assert_eq!(ratio(&[120.0, 125.0, 119.0]).verdict, Verdict::Higher);
    }

    #[test]
    fn one_round_decides_nothing_and_nothing_is_no_ratio() {
        assert_eq!(
            ratio(&[50.0], &[100.0, 101.0]).map(|r| (r.median, r.verdict)),
            Some((50.0 / 100.5, Verdict::None))
        );
        assert_eq!(ratio(&[], &[1.0]), None);
        assert_eq!(ratio(&[1.0], &[0.0]), None);
    }

    #[test]
    fn equal_distributions_are_rarely_called_different() {
        let mut random = StdRng::seed_from_u64(7);
        let mut five =
            || -> Vec<f64> { (0..5).map(|_| 100.0 * (1.0 + 0.05 * random.random::<f64>())).collect() };
        let different =
            (0..400).filter(|_| ratio(&five(), &five()).unwrap().verdict != Verdict::None).count();
        assert!(different <= 20, "{different} of 400");
    }
}
