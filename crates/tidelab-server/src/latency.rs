//! Latencies as a histogram: all figures of any number of them, within a fixed error.
//!
//! Buckets are one microsecond wide up to 256, above that 1/128 of their lower bound: a quantile is at
//! most 0.8 % above the truth. Count, mean, standard deviation, least and greatest are exact.
//!
//! A client with calls at an interval, held up by a slow call, does not start the next calls. They are
//! missing exactly where latencies are worst (coordinated omission).
//! [`Latencies::record_with_expected_interval`] puts them back the way HdrHistogram does. A client with
//! latencies counted from the due moment of a call must use [`Latencies::record`]: its waiting is in the
//! figures already.
//!
//! Stored (serde) as [`Stored`]: the buckets with latencies, and the exact figures.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A histogram as it is kept: the upper bound and the count of each non-empty bucket, upwards.
pub type Buckets = Vec<(f64, u64)>;

/// Values below this have buckets of their own.
const EXACT: u64 = 256;
/// Buckets for each power of two above.
const PER_POWER: u64 = 128;

/// Some latencies.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(into = "Stored", try_from = "Stored")]
pub struct Latencies {
    /// The count of each bucket; grows as far as needed.
    buckets: Vec<u64>,
    count: u64,
    sum_us: f64,
    /// Of the squares of the distances to the mean so far (Welford).
    squares: f64,
    mean_us: f64,
    min_us: u64,
    max_us: u64,
}

/// Latencies as they are stored, without empty buckets; times in microseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stored {
    /// Their number.
    pub count: u64,
    /// Their sum.
    pub sum_us: f64,
    /// The sum of the squares of their distances to the mean.
    pub squares_us2: f64,
    /// The shortest.
    pub min_us: u64,
    /// The longest.
    pub max_us: u64,
    /// The lowest value and the count of each non-empty bucket, ascending.
    pub buckets: Vec<(u64, u64)>,
}

/// The figures of latencies, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct LatencyFigures {
    /// Their number.
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
        self.add(whole_us(latency), 1, 0);
    }

    /// Records one latency of a client with a call due every `interval`.
    ///
    /// A longer latency kept other calls from starting. They are recorded too, with the rest of the time
    /// for each: latency - interval, latency - 2 x interval, ... down to the interval. An interval of 0
    /// records the latency alone.
    pub fn record_with_expected_interval(&mut self, latency: Duration, interval: Duration) {
        let (us, step) = (whole_us(latency), whole_us(interval));
        self.add(us, 1, 0);
        if step == 0 {
            return;
        }
        // By buckets and not by calls: a minute's stop at 100,000 calls a second is six million.
        let mut left = us.saturating_sub(step);
        while left >= step {
            let floor = lowest(bucket(left)).max(step);
            let times = (left - floor) / step + 1;
            self.add(left, times, step);
            left = left.saturating_sub(times.saturating_mul(step));
        }
    }

    /// `times` values, the greatest of them `us`, each `step` below the one before; all of them
    /// in one bucket.
    fn add(&mut self, us: u64, times: u64, step: u64) {
        let bucket = bucket(us);
        if self.buckets.len() <= bucket {
            self.buckets.resize(bucket + 1, 0);
        }
        self.buckets[bucket] += times;
        let least = us - (times - 1) * step;
        self.min_us = if self.count == 0 { least } else { self.min_us.min(least) };
        self.max_us = self.max_us.max(us);
        let (n, m) = (self.count as f64, times as f64);
        let mean = (us as f64 + least as f64) / 2.0;
        // The variance of m values at equal steps is step^2 (m^2 - 1) / 12.
        let own = m * (step as f64).powi(2) * (m * m - 1.0) / 12.0;
        let distance = mean - self.mean_us;
        self.squares += own + distance * distance * n * m / (n + m);
        self.mean_us += distance * m / (n + m);
        self.sum_us += mean * m;
        self.count += times;
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

    /// Their number.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The non-empty buckets: the lowest value of each in microseconds, ascending, and its count.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.buckets.iter().enumerate().filter(|(_, n)| **n > 0).map(|(place, n)| (lowest(place), *n))
    }

    /// The buckets by the highest value of each, or by the greatest latency in it. A cell of a run keeps this
    /// form, under a name with the ending `_us`.
    pub fn kept(&self) -> Buckets {
        let filled = self.buckets.iter().enumerate().filter(|(_, n)| **n > 0);
        filled.map(|(place, n)| ((highest(place) as f64).min(self.max_us as f64), *n)).collect()
    }

    /// Their figures; zeros without a latency.
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

    /// The least upper bound of so large a share, in milliseconds; 0 for none.
    pub fn within_ms(&self, share: f64) -> f64 {
        self.quantile(share) / 1000.0
    }

    /// The least upper bound of so large a share (0 to 1), in microseconds, at most 0.8 % too high. 0 without
    /// a latency.
    pub fn quantile(&self, share: f64) -> f64 {
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

impl From<Latencies> for Stored {
    fn from(latencies: Latencies) -> Stored {
        Stored {
            count: latencies.count,
            sum_us: latencies.sum_us,
            squares_us2: latencies.squares,
            min_us: latencies.min_us,
            max_us: latencies.max_us,
            buckets: latencies.buckets().collect(),
        }
    }
}

impl TryFrom<Stored> for Latencies {
    type Error = String;

    /// Refuses a foreign histogram: another division into buckets, a count other than theirs.
    fn try_from(stored: Stored) -> Result<Latencies, String> {
        let mut buckets: Vec<u64> = Vec::new();
        let mut count: u64 = 0;
        for (low, times) in &stored.buckets {
            let place = bucket(*low);
            if lowest(place) != *low || place < buckets.len() || *times == 0 {
                return Err(format!("no bucket begins at {low} us here, or it holds nothing"));
            }
            buckets.resize(place + 1, 0);
            buckets[place] = *times;
            count = count.checked_add(*times).ok_or("more latencies than can be counted")?;
        }
        let ends = stored.buckets.first().is_none_or(|(low, _)| bucket(stored.min_us) == bucket(*low))
            && stored.buckets.last().is_none_or(|(low, _)| bucket(stored.max_us) == bucket(*low));
        if count != stored.count || !ends {
            return Err(format!(
                "the buckets hold {count} latencies, the histogram says {} from {} to {} us",
                stored.count, stored.min_us, stored.max_us
            ));
        }
        Ok(Latencies {
            buckets,
            count,
            sum_us: stored.sum_us,
            squares: stored.squares_us2,
            mean_us: if count == 0 { 0.0 } else { stored.sum_us / count as f64 },
            min_us: stored.min_us,
            max_us: stored.max_us,
        })
    }
}

fn whole_us(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
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
    // The shift of the last bucket ends beyond the last bit: 0, and one less is the greatest.
    ((within + PER_POWER + 1) << (power + 1)).wrapping_sub(1)
}

/// The lowest value of a bucket.
fn lowest(place: usize) -> u64 {
    match place {
        0 => 0,
        _ => highest(place - 1) + 1,
    }
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
        assert_eq!((highest(bucket(u64::MAX)), lowest(256), lowest(257)), (u64::MAX, 256, 258));
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

    /// HdrHistogram's recordValueWithExpectedInterval, value by value.
    fn omitted(us: u64, interval: u64) -> Vec<u64> {
        let mut all = vec![us];
        let mut missing = us.saturating_sub(interval);
        while interval > 0 && missing >= interval {
            all.push(missing);
            missing -= interval;
        }
        all
    }

    #[test]
    fn calls_that_a_slow_one_held_back_are_put_in() {
        let mut latencies = Latencies::default();
        latencies.record_with_expected_interval(Duration::from_micros(100), Duration::from_micros(25));
        assert_eq!(latencies.buckets().collect::<Vec<_>>(), [(25, 1), (50, 1), (75, 1), (100, 1)]);
        assert_eq!(of([7, 1000, 1001]).kept(), [(7.0, 1), (1001.0, 2)]);
        for (us, interval) in [
            (0, 0),
            (1_000_000, 0),
            (9, 10),
            (10, 10),
            (19, 10),
            (20, 10),
            (999, 1),
            (60_000_000, 7),
            (1_234_567, 1000),
            (1_234_567, 999_999),
            (5_000_003, 3),
        ] {
            let mut found = of([17, 40]);
            found.record_with_expected_interval(Duration::from_micros(us), Duration::from_micros(interval));
            let wanted = of([17, 40].into_iter().chain(omitted(us, interval)));
            assert_eq!(found.buckets, wanted.buckets, "{us} {interval}");
            assert_eq!(
                (found.count, found.min_us, found.max_us),
                (wanted.count, wanted.min_us, wanted.max_us)
            );
            let near = |a: f64, b: f64| (a - b).abs() <= 1e-9 * a.abs().max(1.0);
            assert!(
                near(found.sum_us, wanted.sum_us) && near(found.mean_us, wanted.mean_us),
                "{us} {interval}"
            );
            assert!((found.squares - wanted.squares).abs() <= 1e-6 * wanted.squares, "{us} {interval}");
        }
    }

    #[test]
    fn a_stop_of_the_server_shows_in_the_percentiles_of_a_paced_client() {
        // 9,000 calls, one each millisecond, 0.1 ms each; one of them takes a second.
        let (mut plain, mut corrected) = (Latencies::default(), Latencies::default());
        let ms = Duration::from_millis;
        for n in 0..9_000 {
            let latency = if n == 5_000 { ms(1000) } else { Duration::from_micros(100) };
            plain.record(latency);
            corrected.record_with_expected_interval(latency, ms(1));
        }
        assert_eq!((plain.count(), corrected.count()), (9_000, 9_999));
        assert!(plain.figures().p99_ms < 0.11 && corrected.figures().p99_ms > 850.0, "{corrected:?}");
        assert_eq!(plain.figures().max_ms, corrected.figures().max_ms);
    }

    #[test]
    fn the_longest_time_at_the_shortest_interval_is_recorded_quickly() {
        let mut latencies = Latencies::default();
        latencies.record_with_expected_interval(Duration::from_secs(1_000_000), Duration::from_micros(1));
        assert_eq!(latencies.count(), 1_000_000_000_000);
        assert!((latencies.figures().average_ms / 500_000_000.0 - 1.0).abs() < 1e-6);
    }

    #[test]
    fn what_is_stored_comes_back() {
        for latencies in [of([]), of([0]), of((0..5000u64).map(|n| n * n % 7919 * 13))] {
            let text = serde_json::to_string(&latencies).unwrap();
            let back: Latencies = serde_json::from_str(&text).unwrap();
            assert_eq!(back.buckets, latencies.buckets);
            let (found, wanted) = (back.figures(), latencies.figures());
            assert!((found.average_ms - wanted.average_ms).abs() < 1e-9);
            assert!((found.sd_ms - wanted.sd_ms).abs() < 1e-9);
            assert_eq!(
                (found.p99_ms, found.min_ms, found.max_ms),
                (wanted.p99_ms, wanted.min_ms, wanted.max_ms)
            );
        }
    }

    #[test]
    fn what_no_histogram_says_is_refused() {
        let good = Stored::from(of([1, 1000, 1000]));
        assert_eq!(good.buckets, [(1, 1), (1000, 2)]);
        let refused = |change: fn(&mut Stored)| {
            let mut stored = good.clone();
            change(&mut stored);
            Latencies::try_from(stored).is_err()
        };
        assert!(!refused(|_| ()));
        assert!(refused(|s| s.count = 4));
        assert!(refused(|s| s.buckets[1].0 = 1001));
        assert!(refused(|s| s.buckets.swap(0, 1)));
        assert!(refused(|s| s.buckets[1].1 = u64::MAX));
        assert!(refused(|s| s.max_us = 5000));
        assert!(refused(|s| s.min_us = 2));
    }
}
