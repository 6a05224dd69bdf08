//! A ratio of figures not measured side by side: of two runs, each with rounds of its own. Nothing pairs
//! their rounds, so the machine's drift from one run to the other is in the ratio and not in its interval.

use tidelab_server::statistics::{difference_interval, Ratio, Spread, Verdict};

/// The ratio of the medians of `ours` and `theirs`. None if a side has no figures, or no median above zero.
///
/// The interval holds the truth in 98 of 100 cases: Welch's interval for the trimmed means of the logarithms.
/// Figures not above zero have no logarithm and do not count there. One figure on either side has no spread,
/// and so there is no verdict.
pub fn ratio(ours: &[f64], theirs: &[f64]) -> Option<Ratio> {
    let (our, their) = (Spread::of(ours)?.median, Spread::of(theirs)?.median);
    if their <= 0.0 {
        return None;
    }
    let median = our / their;
    let logs = |figures: &[f64]| -> Vec<f64> {
        figures.iter().map(|figure| figure.ln()).filter(|log| log.is_finite()).collect()
    };
    let (ours, theirs) = (logs(ours), logs(theirs));
    if ours.len() < 2 || theirs.len() < 2 {
        return Some(Ratio { median, low: median, high: median, verdict: Verdict::None });
    }
    let (low, high) = difference_interval(&ours, &theirs);
    let (low, high) = (low.exp().min(median), high.exp().max(median));
    let verdict = match () {
        () if low > 1.0 => Verdict::Higher,
        () if high < 1.0 => Verdict::Lower,
        () => Verdict::None,
    };
    Some(Ratio { median, low, high, verdict })
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

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
        // A rate of 0 is no reason for a panic.
        assert!(ratio(&[0.0, 0.0, 5.0], &[1.0, 2.0]).is_some());
    }

    #[test]
    fn equal_distributions_are_rarely_called_different() {
        let mut random = StdRng::seed_from_u64(7);
        let mut some = |rounds: usize| -> Vec<f64> {
            (0..rounds).map(|_| 100.0 * (1.0 + 0.05 * random.random::<f64>())).collect()
        };
        for rounds in [3, 5, 20] {
            let different = (0..400)
                .filter(|_| ratio(&some(rounds), &some(rounds)).unwrap().verdict != Verdict::None)
                .count();
            assert!(different <= 20, "{rounds} rounds: {different} of 400");
        }
    }
}
