//! Latencies below a microsecond: `tidelab`'s histogram, fed with nanoseconds.

use std::time::Duration;

use tidelab::run::Buckets;
use tidelab_server::latency::Latencies;

/// Some latencies, to a nanosecond below 256 of them, to 0.8 % above.
#[derive(Clone, Debug, Default)]
pub struct Nanoseconds(Latencies);

/// The figures of latencies, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Microseconds {
    /// The mean.
    pub mean: f64,
    /// Half stay within it.
    pub p50: f64,
    /// 95 % stay within it.
    pub p95: f64,
    /// 99 % stay within it.
    pub p99: f64,
    /// 99.9 % stay within it.
    pub p999: f64,
    /// The longest.
    pub max: f64,
}

impl Nanoseconds {
    /// One more.
    pub fn record(&mut self, latency: Duration) {
        // The histogram counts microseconds and does not know that these are smaller.
        let nanoseconds = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        self.0.record(Duration::from_micros(nanoseconds));
    }

    /// All of another's.
    pub fn merge(&mut self, other: &Nanoseconds) {
        self.0.merge(&other.0);
    }

    /// Their number.
    pub fn count(&self) -> u64 {
        self.0.count()
    }

    /// Their figures; zeros without a latency.
    pub fn figures(&self) -> Microseconds {
        // The histogram's milliseconds are microseconds here, for the same reason.
        let figures = self.0.figures();
        Microseconds {
            mean: figures.average_ms,
            p50: figures.p50_ms,
            p95: figures.p95_ms,
            p99: figures.p99_ms,
            p999: self.0.quantile(0.999) / 1000.0,
            max: figures.max_ms,
        }
    }

    /// As it is kept: upper bounds in microseconds.
    pub fn buckets(&self) -> Buckets {
        self.0.buckets().map(|(low, count)| (highest(low) as f64 / 1000.0, count)).collect()
    }
}

/// The highest value of the bucket with the lowest value `low`: 128 of them share a power of two from 256 on.
fn highest(low: u64) -> u64 {
    match low.checked_ilog2() {
        Some(power) if power >= 8 => low + (1 << (power - 7)) - 1,
        _ => low,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nanoseconds_come_out_as_microseconds() {
        let mut all = Nanoseconds::default();
        for n in 1..=1000u64 {
            let mut one = Nanoseconds::default();
            one.record(Duration::from_nanos(n * 100));
            all.merge(&one);
        }
        let figures = all.figures();
        let near = |found: f64, wanted: f64| (found / wanted - 1.0).abs() < 0.009;
        assert!(
            near(figures.p50, 50.0) && near(figures.p99, 99.0) && near(figures.p999, 99.9),
            "{figures:?}"
        );
        assert!(near(figures.mean, 50.05) && figures.max == 100.0 && all.count() == 1000, "{figures:?}");
        let buckets = all.buckets();
        let (last, _) = buckets[buckets.len() - 1];
        assert!((100.0..100.8).contains(&last), "{last}");
        assert_eq!(buckets.iter().map(|(_, count)| count).sum::<u64>(), 1000);
        assert!(buckets.windows(2).all(|pair| pair[0].0 < pair[1].0) && buckets[0].0 == 0.1);
    }
}
