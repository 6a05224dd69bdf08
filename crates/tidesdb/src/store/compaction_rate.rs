//! The rate at which compaction makes room for writes, measured (`docs/protocols.md` 7.1).
//!
//! Merges of recent times tell two numbers: the bytes they read in a second, and their work for each byte that
//! users wrote. Work is what they read, and the growth of the debt. The rate is the first divided by the second:
//! at this rate of writes the debt neither grows nor shrinks. RocksDB's write controller looks at the
//! growth of the debt alone, and changes its rate in steps.
//!
//! Only time with a merge under way counts, so a pause changes nothing. Amounts halve after [`WINDOW`] of such time.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;
use std::time::Duration;

use crate::host::{Clock, Instant};
use crate::sync::Mutex;

/// Time of merges before the first answer.
const FIRST: Duration = Duration::from_secs(1);

/// Time of merges after which all amounts halve: several merges on a slow disk.
const WINDOW: Duration = Duration::from_secs(60);

/// Lowest rate, in bytes a second: the longest delay of a statement bounds writers anyway.
const LOWEST: u64 = 1 << 20;

/// The measurement of one store.
#[derive(Debug)]
pub(crate) struct CompactionRate {
    clock: Arc<dyn Clock>,
    recent: Mutex<Recent>,
    /// In bytes of user writes a second; 0: not measured.
    rate: AtomicU64,
}

#[derive(Debug, Default)]
struct Recent {
    /// Number of merges under way, and the time up to which they are in `busy`.
    running: u32,
    counted_to: Instant,
    busy: Duration,
    /// Bytes read by merges that came to their end.
    merged: u64,
    /// Bytes written by users, and growth of the debt.
    written: u64,
    growth: i64,
    /// The store's counts at the last look.
    seen: Option<Seen>,
}

#[derive(Debug)]
struct Seen {
    written: u64,
    debt: u64,
}

/// A merge under way. One that fails took its time, and read nothing that counts.
#[must_use]
pub(crate) struct Merge<'a> {
    of: &'a CompactionRate,
    bytes: u64,
}

impl Merge<'_> {
    /// The merge came to its end, and read `bytes` bytes.
    pub(crate) fn finish(mut self, bytes: u64) {
        self.bytes = bytes;
    }
}

impl Drop for Merge<'_> {
    fn drop(&mut self) {
        let mut recent = self.of.recent.lock();
        recent.pass(self.of.clock.now());
        recent.running -= 1;
        recent.merged += self.bytes;
    }
}

impl CompactionRate {
    /// Nothing is measured. Merges take time of `clock`.
    pub(crate) fn new(clock: Arc<dyn Clock>) -> CompactionRate {
        CompactionRate { clock, recent: Mutex::default(), rate: AtomicU64::new(0) }
    }

    /// A merge begins.
    pub(crate) fn begin(&self) -> Merge<'_> {
        let mut recent = self.recent.lock();
        recent.pass(self.clock.now());
        recent.running += 1;
        Merge { of: self, bytes: 0 }
    }

    /// Runs came or went: users have written `written` bytes since the opening, and `debt` bytes are to merge.
    pub(crate) fn look(&self, written: u64, debt: u64) {
        let mut recent = self.recent.lock();
        if let Some(seen) = recent.seen.replace(Seen { written, debt }) {
            recent.written += written.saturating_sub(seen.written);
            recent.growth += debt as i64 - seen.debt as i64;
        }
        if let Some(rate) = recent.rate() {
            self.rate.store(rate, Relaxed);
        }
        if recent.busy >= WINDOW {
            recent.halve();
        }
    }

    /// Bytes of user writes a second for which merges make room; 0: not measured yet.
    pub(crate) fn get(&self) -> u64 {
        self.rate.load(Relaxed)
    }
}

impl Recent {
    /// Counts the time up to `now`, if a merge was under way.
    fn pass(&mut self, now: Instant) {
        if self.running > 0 {
            self.busy += now.since(self.counted_to);
        }
        self.counted_to = now;
    }

    fn rate(&self) -> Option<u64> {
        if self.busy < FIRST || self.merged == 0 || self.written == 0 {
            return None;
        }
        let merged_per_second = self.merged as f64 / self.busy.as_secs_f64();
        // Not below one: a load whose tables move down unread says nothing of writes that need merges.
        let work = ((self.merged as f64 + self.growth as f64) / self.written as f64).max(1.0);
        Some(((merged_per_second / work) as u64).max(LOWEST))
    }

    fn halve(&mut self) {
        self.busy /= 2;
        self.merged /= 2;
        self.written /= 2;
        self.growth /= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::pressure_model::Stopped;

    const MIB: u64 = 1 << 20;

    struct Store {
        clock: Arc<Stopped>,
        rate: Arc<CompactionRate>,
        written: u64,
        debt: u64,
    }

    impl Store {
        fn new() -> Store {
            let clock = Arc::new(Stopped::default());
            let rate = Arc::new(CompactionRate::new(Arc::<Stopped>::clone(&clock)));
            let store = Store { clock, rate, written: 0, debt: 500 * MIB };
            store.rate.look(0, store.debt);
            store
        }

        /// Users write, and merges read so much; the debt grows by the difference of work and merges.
        fn second(&mut self, written: u64, work: u64, merged: u64) {
            let merge = self.rate.begin();
            self.clock.sleep(Duration::from_secs(1));
            merge.finish(merged * MIB);
            self.written += written * MIB;
            self.debt = self.debt + work * MIB - merged * MIB;
            self.rate.look(self.written, self.debt);
        }

        fn rate(&self) -> u64 {
            self.rate.get() / MIB
        }
    }

    #[test]
    fn nothing_is_measured_before_a_second_of_merges() {
        let mut store = Store::new();
        store.clock.sleep(Duration::from_secs(100));
        store.rate.look(100 * MIB, 700 * MIB);
        assert_eq!(store.rate.get(), 0);
        (store.written, store.debt) = (100 * MIB, 500 * MIB);
        store.second(20, 100, 100);
        assert_ne!(store.rate.get(), 0);
    }

    #[test]
    fn the_rate_is_the_one_at_which_debt_stays() {
        // Each byte makes five bytes of work, of which merges do 100 MiB a second.
        for written in [20, 40, 60] {
            let mut store = Store::new();
            (0..60).for_each(|_| store.second(written, 5 * written, 100));
            assert_eq!(store.rate(), 20, "at {written} MiB a second");
        }
    }

    #[test]
    fn a_slower_disk_is_seen_within_a_few_windows() {
        let mut store = Store::new();
        (0..100).for_each(|_| store.second(20, 100, 100));
        (0..240).for_each(|_| store.second(20, 100, 10));
        assert!(store.rate() <= 4, "{}", store.rate());
    }

    #[test]
    fn time_without_a_merge_changes_nothing() {
        let mut store = Store::new();
        (0..30).for_each(|_| store.second(20, 100, 100));
        let before = store.rate();
        store.clock.sleep(Duration::from_secs(1000));
        store.second(20, 100, 100);
        assert_eq!(store.rate(), before);
    }

    #[test]
    fn merges_alongside_each_other_share_their_time() {
        let mut store = Store::new();
        for _ in 0..30 {
            let rate = Arc::clone(&store.rate);
            let other = rate.begin();
            store.second(40, 200, 100);
            other.finish(100 * MIB);
            store.debt -= 100 * MIB;
            store.rate.look(store.written, store.debt);
        }
        assert!((38..=42).contains(&store.rate()), "{}", store.rate());
    }

    #[test]
    fn a_load_without_merges_and_a_dropped_table_leave_a_rate_that_writers_can_use() {
        let mut store = Store::new();
        (0..30).for_each(|_| store.second(20, 100, 100));
        store.written += 100_000 * MIB;
        store.second(20, 100, 100);
        assert!(store.rate() <= 100, "{}: more than merges read", store.rate());
        store.debt = 0;
        store.rate.look(store.written, 0);
        assert!((1..=100).contains(&store.rate()), "{}", store.rate());
    }
}
