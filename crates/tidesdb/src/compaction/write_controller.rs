//! The pace of writers while flush or compaction lags (`docs/protocols.md` 7.1), after RocksDB's write
//! controller. Pure: numbers in, a statement's share of the pace out. The caller sleeps by it at the statement's
//! start (`store/pace.rs`), and only while the transaction holds no lock.
//!
//! - *Memory*: while an immutable memtable is unflushed and the active one is at least half full, writers
//!   slow down. The active memtable should fill just when the flush ends; writers stop only when it is full.
//! - *Level 0*: from [`SLOWDOWN_RUNS`] runs on, writers slow down, more with each run. They stop at the
//!   family's stall threshold.
//! - *Debt*: from the soft bound on, writers slow down, and never stop.
//!
//! The last two pace writers by the measured rate of compaction.

/// Number of runs of level 0 at which writers slow down.
pub const SLOWDOWN_RUNS: u64 = 4;

/// Rates of compaction and of flushing before the first measurement, in bytes a second.
pub const DEFAULT_RATE: u64 = 32 << 20;

/// The store's state for the decision. Sizes in bytes, rates in bytes of user writes a second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pressure {
    /// Bytes in the active memtable.
    pub active: u64,
    /// Bytes of a full active memtable.
    pub active_limit: u64,
    /// Bytes of unflushed immutable memtables.
    pub unflushed: u64,
    /// Rate of flushing; 0: not measured.
    pub flush_rate: u64,
    /// Runs in level 0 of the family of the write.
    pub l0_runs: u64,
    /// Number of runs at which writers stop; 0: never.
    pub l0_stop: u64,
    /// Bytes still to compact.
    pub debt: u64,
    /// Debt at which delays begin; 0: never.
    pub debt_soft: u64,
    /// Rate at which compaction makes room for user writes; 0: not measured.
    pub compaction_rate: u64,
}

/// A statement's delay before its write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delay {
    /// No delay.
    None,
    /// The nanoseconds that the pace of all writers allows for the statement.
    Share(u64),
    /// A wait until the cause is gone.
    Stop(Cause),
}

/// Cause of a stop of writers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The active memtable has no room for the write, and the memtable before it is unflushed.
    Memory,
    /// Level 0 has as many runs as its stall threshold.
    Level0,
}

/// The delay before writing `bytes`.
pub fn delay(pressure: &Pressure, bytes: u64) -> Delay {
    let p = pressure;
    if p.unflushed > 0 && p.active + bytes > p.active_limit {
        return Delay::Stop(Cause::Memory);
    }
    if p.l0_stop > 0 && p.l0_runs >= p.l0_stop {
        return Delay::Stop(Cause::Level0);
    }
    let share = memory(p, bytes).max(level0(p, bytes)).max(debt(p, bytes));
    match share as u64 {
        0 => Delay::None,
        share => Delay::Share(share),
    }
}

fn rate(measured: u64) -> f64 {
    (if measured == 0 { DEFAULT_RATE } else { measured }) as f64
}

/// Nanoseconds for `bytes` to pass at `rate`.
fn paced(bytes: u64, rate: f64) -> f64 {
    bytes as f64 * 1e9 / rate.max(1.0)
}

fn memory(p: &Pressure, bytes: u64) -> f64 {
    if p.unflushed == 0 || p.active * 2 < p.active_limit {
        return 0.0;
    }
    // What room is left, spread over the time that the flush still takes; faded in over the first eighth.
    let seconds = p.unflushed as f64 / rate(p.flush_rate);
    let room = (p.active_limit - p.active) as f64;
    let over = (p.active - p.active_limit / 2) as f64 / (p.active_limit as f64 / 8.0).max(1.0);
    paced(bytes, room / seconds.max(1e-6)) * over.min(1.0)
}

fn level0(p: &Pressure, bytes: u64) -> f64 {
    if p.l0_runs < SLOWDOWN_RUNS || (p.l0_stop > 0 && p.l0_stop <= SLOWDOWN_RUNS) {
        return 0.0;
    }
    // Twice the rate of compaction at the first run too many, a quarter of it before the stop.
    let span = p.l0_stop.saturating_sub(SLOWDOWN_RUNS).max(1) as f64;
    let over = ((p.l0_runs - SLOWDOWN_RUNS) as f64 / span).min(1.0);
    paced(bytes, rate(p.compaction_rate) * 2.0 * (1.0 / 8.0f64).powf(over))
}

fn debt(p: &Pressure, bytes: u64) -> f64 {
    if p.debt_soft == 0 || p.debt < p.debt_soft {
        return 0.0;
    }
    // Four times the rate of compaction at the soft bound, and the rate itself at twice the bound and beyond: the
    // debt stays there, and merges find much to merge at once.
    let over = ((p.debt - p.debt_soft) as f64 / p.debt_soft as f64).min(1.0);
    paced(bytes, rate(p.compaction_rate) * 4.0 * 0.25f64.powf(over))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn share(delay: Delay) -> u64 {
        match delay {
            Delay::None => 0,
            Delay::Share(share) => share,
            Delay::Stop(cause) => panic!("stopped by {cause:?}"),
        }
    }

    #[test]
    fn memory_delays_from_half_full_on_and_stops_only_when_full() {
        let at = |active: u64, unflushed: u64| Pressure {
            active: active * MIB,
            active_limit: 64 * MIB,
            unflushed: unflushed * MIB,
            flush_rate: 64 * MIB,
            ..Pressure::default()
        };
        assert_eq!(delay(&at(63, 0), 1000), Delay::None, "nothing is being flushed");
        assert_eq!(delay(&at(64, 0), 1000), Delay::None, "a rotation is due, not a wait");
        assert_eq!(delay(&at(31, 64), 1000), Delay::None);
        assert_eq!(delay(&at(64, 1), 1000), Delay::Stop(Cause::Memory));
        let series: Vec<u64> = (32..64).map(|active| share(delay(&at(active, 64), 100_000))).collect();
        assert!(series.windows(2).all(|pair| pair[0] <= pair[1]), "{series:?}");
        assert!(series[0] == 0 && series[31] > 90_000_000, "{series:?}");
    }

    #[test]
    fn the_active_memtable_fills_when_the_flush_ends() {
        // Writers that take no time of their own: only the delay paces them.
        for (flush_rate, batch) in [(64 * MIB, 4096), (10 * MIB, 300), (500 * MIB, 1000)] {
            let mut p = Pressure {
                active: 32 * MIB,
                active_limit: 64 * MIB,
                unflushed: 64 * MIB,
                flush_rate,
                ..Pressure::default()
            };
            let mut left = p.unflushed as f64;
            while left > 0.0 && p.active + batch <= p.active_limit {
                let wait = share(delay(&p, batch)) as f64;
                p.active += batch;
                left -= wait * flush_rate as f64 / 1e9;
                p.unflushed = left.max(0.0) as u64;
            }
            let fill = p.active as f64 / p.active_limit as f64;
            assert!(left < 0.02 * 64.0 * MIB as f64, "{flush_rate}: {left} bytes unflushed at fill {fill}");
            assert!(fill > 0.9, "{flush_rate}: only {fill} full when the flush ended");
        }
    }

    #[test]
    fn level_0_slows_from_four_runs_on_and_stops_at_the_threshold() {
        let at =
            |l0_runs| Pressure { l0_runs, l0_stop: 10, compaction_rate: 10 * MIB, ..Pressure::default() };
        assert_eq!(delay(&at(3), 10_000), Delay::None);
        let series: Vec<u64> = (4..10).map(|runs| share(delay(&at(runs), 10_000))).collect();
        assert!(series[0] > 0 && series.windows(2).all(|pair| pair[0] < pair[1]), "{series:?}");
        assert_eq!(delay(&at(10), 1), Delay::Stop(Cause::Level0));
    }

    #[test]
    fn debt_slows_and_never_stops() {
        let at = |debt| Pressure { debt, debt_soft: 100, ..Pressure::default() };
        assert_eq!(delay(&at(99), 10_000), Delay::None);
        let (one, two) = (share(delay(&at(100), 10_000)), share(delay(&at(200), 10_000)));
        assert!(0 < one && one < two);
        assert_eq!(share(delay(&at(1 << 40), 10_000)), two);
    }
}
