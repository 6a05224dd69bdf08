//! Latencies as a histogram: every figure that is reported of them, within a fixed error,
//! however many there are.
//!
//! Buckets are one microsecond wide up to 256, above that 1/128 of their lower bound: a
//! quantile is at most 0.8 % above the truth. Count, mean, standard deviation, least and
//! greatest are exact.

use std::time::Duration;

use serde::Serialize;

/// Values below this have buckets of their own.
const EXACT: u64 = 256;
/// Buckets for each power of two above.
const PER_POWER: u64 = 128;

/// Some latencies.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Latencies {
    /// How many fell into each bucket; grows as far as needed.
    buckets: Vec<u64>,
    count: u64,
    sum_us: f64,
    /// Of the squares of the distances to the mean so far (Welford).
    squares: f64,
    mean_us: f64,
    min_us: u64,
    max_us: u64,
}

/// What latencies say, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct LatencyFigures {
    /// How many there are.
    pub calls: u64,
    /// The shortest.
    pub min_ms: f64,
    /// The mean.
    pub average_ms: f64,
    /// Half stay within it.
    pub p50_ms: f64,
    /// 95 % stay within it.
    pub p95_ms: f64,
    /// 99 % stay within it.
    pub p99_ms: f64,
    /// The longest.
    pub max_ms: f64,
    /// The standard deviation.
    pub sd_ms: f64,
}

impl Latencies {
    /// One more.
    pub fn record(&mut self, latency: Duration) {
        let us = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        let bucket = bucket(us);
        if self.buckets.len() <= bucket {
            self.buckets.resize(bucket + 1, 0);
        }
        self.buckets[bucket] += 1;
        self.min_us = if self.count == 0 { us } else { self.min_us.min(us) };
        self.max_us = self.max_us.max(us);
        self.count += 1;
        self.sum_us += us as f64;
        let distance = us as f64 - self.mean_us;
        self.mean_us += distance / self.count as f64;
        self.squares += distance * (us as f64 - self.mean_us);
    }

    /// All of another's.
    pub fn merge(&mut self, other: &Latencies) {
        if other.count == 0 {
            return;
        }
        if self.count == 0 {
            *self = other.clone();
            return;
        }
        if self.buckets.len() < other.buckets.len() {
            self.buckets.resize(other.buckets.len(), 0);
        }
        for (mine, its) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += its;
        }
        let (n, m) = (self.count as f64, other.count as f64);
        let distance = other.mean_us - self.mean_us;
        self.squares += other.squares + distance * distance * n * m / (n + m);
        self.mean_us += distance * m / (n + m);
        self.sum_us += other.sum_us;
        self.count += other.count;
        self.min_us = self.min_us.min(other.min_us);
        self.max_us = self.max_us.max(other.max_us);
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// What they say; zeros for none.
    pub fn figures(&self) -> LatencyFigures {
        if self.count == 0 {
            return LatencyFigures::default();
        }
        let ms = |us: f64| us / 1000.0;
        LatencyFigures {
            calls: self.count,
            min_ms: ms(self.min_us as f64),
            average_ms: ms(self.sum_us / self.count as f64),
            p50_ms: ms(self.quantile(0.50)),
            p95_ms: ms(self.quantile(0.95)),
            p99_ms: ms(self.quantile(0.99)),
            max_ms: ms(self.max_us as f64),
            sd_ms: ms((self.squares / self.count as f64).max(0.0).sqrt()),
        }
    }

    /// The least value within which so large a share stays, in milliseconds; 0 for none.
    pub fn within_ms(&self, share: f64) -> f64 {
        self.quantile(share) / 1000.0
    }

    /// The histogram in the form in which runs keep it, in microseconds.
    pub fn kept(&self) -> crate::run::Buckets {
        let filled = self.buckets.iter().enumerate().filter(|(_, count)| **count > 0);
        filled.map(|(place, count)| ((highest(place) as f64).min(self.max_us as f64), *count)).collect()
    }

    /// The least value within which so large a share stays, in microseconds.
    fn quantile(&self, share: f64) -> f64 {
        let wanted = (share * self.count as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (place, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return (highest(place) as f64).min(self.max_us as f64);
            }
        }
        self.max_us as f64
    }
}

/// The bucket of a value.
fn bucket(us: u64) -> usize {
    let place = if us < EXACT {
        us
    } else {
        // Of the leading eight bits, seven say where in its power of two a value is.
        let power = u64::from(us.ilog2()) - 8;
        EXACT + power * PER_POWER + ((us >> (power + 1)) - PER_POWER)
    };
    usize::try_from(place).unwrap_or(usize::MAX)
}

/// The highest value of a bucket.
fn highest(place: usize) -> u64 {
    let place = place as u64;
    if place < EXACT {
        return place;
    }
    let (power, within) = ((place - EXACT) / PER_POWER, (place - EXACT) % PER_POWER);
    ((within + PER_POWER + 1) << (power + 1)) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: impl IntoIterator<Item = u64>) -> Latencies {
        let mut latencies = Latencies::default();
        for us in values {
            latencies.record(Duration::from_micros(us));
        }
        latencies
    }

    #[test]
    fn buckets_follow_each_other_without_a_gap() {
        let mut last = bucket(0);
        for us in 1..200_000 {
            let this = bucket(us);
            assert!(this == last || this == last + 1, "{us}");
            assert!(highest(this) >= us && (highest(this) as f64) < us as f64 * 1.008 + 1.0, "{us}");
            last = this;
        }
        assert!(bucket(u64::MAX) < 10_000, "a bound on memory");
    }

    #[test]
    fn quantiles_mean_and_deviation() {
        let figures = of((1..=10_000).map(|n| n * 10)).figures();
        let near = |found: f64, wanted: f64| (found / wanted - 1.0).abs() < 0.009;
        assert_eq!((figures.calls, figures.min_ms, figures.max_ms), (10_000, 0.01, 100.0));
        assert!((figures.average_ms - 50.005).abs() < 1e-6);
        assert!(near(figures.p50_ms, 50.0) && near(figures.p95_ms, 95.0) && near(figures.p99_ms, 99.0));
        // Of 1..=n it is sqrt((n^2 - 1) / 12).
        assert!((figures.sd_ms - 28.8675).abs() < 1e-3, "{}", figures.sd_ms);
        assert_eq!(of([]).figures(), LatencyFigures::default());
    }

    #[test]
    fn one_slow_call_shows_in_the_maximum_only() {
        let figures = of((0..1000).map(|n| if n == 500 { 2_000_000 } else { 100 })).figures();
        assert_eq!((figures.p50_ms, figures.p99_ms, figures.max_ms), (0.1, 0.1, 2000.0));
    }

    #[test]
    fn parts_together_are_the_whole() {
        let values: Vec<u64> = (0..5000u64).map(|n| n * n % 7919 * 13).collect();
        let mut parts = of([]);
        for part in values.chunks(777) {
            parts.merge(&of(part.iter().copied()));
        }
        let (parts, whole) = (parts.figures(), of(values).figures());
        assert!((parts.sd_ms - whole.sd_ms).abs() < 1e-9);
        assert!((parts.average_ms - whole.average_ms).abs() < 1e-9);
        assert_eq!((parts.p50_ms, parts.p99_ms, parts.calls), (whole.p50_ms, whole.p99_ms, whole.calls));
    }
}
