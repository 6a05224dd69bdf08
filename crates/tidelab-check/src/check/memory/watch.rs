//! Looks at a server's memory several times a second while a load runs.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tidelab_server::telemetry::process::process_use;

/// The time between two looks.
const PAUSE: Duration = Duration::from_millis(200);
/// A stretch of this length counts for the rate of major faults: single peaks are no thrashing.
const WINDOW: Duration = Duration::from_secs(10);
/// After a start the program itself comes from the disk.
const WARM_UP: Duration = Duration::from_secs(5);

/// The sights of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    /// The most resident bytes.
    pub resident: u64,
    /// The most resident bytes without a file.
    pub anonymous: u64,
    /// Major faults after [`WARM_UP`].
    pub faults: u64,
    /// The most of them a second over a stretch of [`WINDOW`].
    pub faults_per_s: f64,
}

/// Looks at the process with the number in `pid` while `load` runs.
pub(super) fn during<T>(pid: &AtomicU32, load: impl FnOnce() -> T) -> (T, Seen) {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let watcher = scope.spawn(|| look(pid, &stop));
        let result = load();
        stop.store(true, Ordering::Relaxed);
        (result, watcher.join().unwrap_or_default())
    })
}

fn look(pid: &AtomicU32, stop: &AtomicBool) -> Seen {
    let mut seen = Seen::default();
    let mut counts: Vec<(Instant, u64)> = Vec::new();
    let (mut process, mut since) = (0, Instant::now());
    while !stop.load(Ordering::Relaxed) {
        let now = pid.load(Ordering::Relaxed);
        if now != process {
            (process, since) = (now, Instant::now());
            counts.clear();
        }
        let used = process_use(process);
        seen.resident = seen.resident.max(used.resident_bytes);
        seen.anonymous = seen.anonymous.max(used.anonymous_bytes);
        // A process that is gone has counted none.
        if since.elapsed() > WARM_UP && used.resident_bytes > 0 {
            let before = counts.last().map_or(used.major_faults, |(_, count)| *count);
            seen.faults += used.major_faults.saturating_sub(before);
            counts.push((Instant::now(), used.major_faults));
            seen.faults_per_s = seen.faults_per_s.max(rate(&counts));
        }
        thread::sleep(PAUSE);
    }
    seen
}

/// Faults a second over the newest stretch of [`WINDOW`]; 0 before there is one.
fn rate(counts: &[(Instant, u64)]) -> f64 {
    let Some((end, last)) = counts.last() else { return 0.0 };
    let begin = counts.iter().rev().find(|(at, _)| end.duration_since(*at) >= WINDOW);
    begin
        .map_or(0.0, |(at, first)| last.saturating_sub(*first) as f64 / end.duration_since(*at).as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_needs_a_whole_stretch_and_takes_the_newest() {
        let start = Instant::now();
        let at = |second, count| (start + Duration::from_secs(second), count);
        assert_eq!(rate(&[]), 0.0);
        assert_eq!(rate(&[at(0, 0), at(9, 900)]), 0.0);
        assert_eq!(rate(&[at(0, 0), at(5, 5000), at(10, 5000), at(15, 5100)]), 10.0);
    }
}
