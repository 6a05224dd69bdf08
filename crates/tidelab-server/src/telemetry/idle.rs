//! Waiting until a server is idle: deferred work of one load must not run in the measured time of the next.

use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::error::Result;
use crate::interrupt::Interrupt;
use crate::telemetry::process::process_use;

/// The server counts as idle when it used less than this share of a CPU for one
/// [`IDLE_WINDOW`].
const IDLE_SHARE: f64 = 0.05;
/// See [`IDLE_SHARE`].
const IDLE_WINDOW: Duration = Duration::from_millis(400);

/// Waits until the process is idle, at most for `limit`.
pub fn wait(process: u32, limit: Duration, interrupt: &Interrupt) -> Result<()> {
    let start = Instant::now();
    while start.elapsed() < limit {
        interrupt.check()?;
        let before = process_use(process).cpu_s;
        sleep(IDLE_WINDOW);
        let used = process_use(process).cpu_s - before;
        if used < IDLE_SHARE * IDLE_WINDOW.as_secs_f64() {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_window_can_be_told_from_a_busy_one() {
        // One tick of /proc is 10 ms; the bound must be above it.
        assert!(IDLE_SHARE * IDLE_WINDOW.as_secs_f64() > 0.0101);
    }

    #[test]
    fn the_limit_is_kept() {
        let start = Instant::now();
        wait(std::process::id(), Duration::from_millis(1), &Interrupt::default()).unwrap();
        assert!(start.elapsed() < Duration::from_secs(2));
    }
}
