//! The size of a block cache that nobody set (`docs/protocols.md` 7.6): it follows the memory that the other holders leave.
//!
//! Pure: a measurement in, a size out. The size falls at once, because the others have the memory already. It rises only
//! after a row of measurements that all had room for more, and then to the least of them: a cache that takes memory from
//! one merge to the next would read blocks for the next eviction.

use crate::mutant::{self, Mutant};
use crate::options::machine::ProcessMemory;

/// Measurements in a row with room for more before the cache grows: a second of them.
const CALM: u32 = if cfg!(simulation) { 2 } else { 10 };

/// The cache grows by this part of its size at least: a sixteenth.
const STEP_SHARE: u64 = 16;

/// Measurements in a row without a change after which spare memory of memtables goes: five seconds of them.
const IDLE: u32 = if cfg!(simulation) { 4 } else { 50 };

/// Measurements for one look at the limit of the process.
const LIMIT_LOOKS: u32 = 10;

/// The process leaves this part of its limit free, for its program, the page cache and the kernel's memory for it: an
/// eighth, at least [`LEAST_RESERVE`].
const RESERVE_SHARE: u64 = 8;
const LEAST_RESERVE: u64 = 32 << 20;

/// The controller.
#[derive(Debug, Default)]
pub(super) struct CacheGrowth {
    /// Measurements in a row that had room for more.
    calm: u32,
    /// The least room among them.
    least: u64,
}

impl CacheGrowth {
    /// The cache's next size, after a measurement: `room` is the most that it may have, `now` its present size. The
    /// result is at most `room`.
    pub(super) fn step(&mut self, room: u64, now: u64) -> u64 {
        if room <= now {
            *self = CacheGrowth::default();
            return if mutant::is(Mutant::CacheKeepsLent) { now } else { room };
        }
        self.least = if self.calm == 0 { room } else { self.least.min(room) };
        self.calm += 1;
        if self.calm < CALM {
            return now;
        }
        let least = self.least;
        *self = CacheGrowth::default();
        if least - now >= now / STEP_SHARE {
            least
        } else {
            now
        }
    }
}

/// Looks for spare memory of memtables that nobody uses: the cache has more use for it.
#[derive(Debug, Default)]
pub(super) struct SpareWatch {
    bytes: u64,
    still: u32,
}

impl SpareWatch {
    /// After a measurement of the spare memory: true if it stood still for so long that it is to be freed.
    pub(super) fn step(&mut self, bytes: u64) -> bool {
        self.still = if bytes == self.bytes { self.still + 1 } else { 0 };
        self.bytes = bytes;
        let idle = bytes > 0 && self.still >= IDLE;
        if idle {
            *self = SpareWatch::default();
        }
        idle
    }
}

/// Looks at the process, and once a second at its limit: that of a container may change.
#[derive(Debug, Default)]
pub(super) struct ProcessWatch {
    limit: Option<u64>,
    looks: u32,
}

impl ProcessWatch {
    /// Bytes that the process leaves the cache, which has `cache` bytes now.
    pub(super) fn left(&mut self, process: &ProcessMemory, cache: u64) -> u64 {
        if self.looks % LIMIT_LOOKS == 0 {
            self.limit = (process.limit)();
        }
        self.looks = self.looks.wrapping_add(1);
        self.limit.map_or(u64::MAX, |limit| left_by_process(limit, (process.held)(), cache))
    }
}

fn left_by_process(limit: u64, held: u64, cache: u64) -> u64 {
    let reserve = (limit / RESERVE_SHARE).max(LEAST_RESERVE);
    limit.saturating_sub(reserve + held.saturating_sub(cache))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MB: u64 = 1 << 20;

    #[test]
    fn the_cache_grows_after_calm_measurements_to_the_least_of_them() {
        let mut growth = CacheGrowth::default();
        let mut size = 100;
        for room in [400, 300].into_iter().cycle().take(CALM as usize - 1) {
            size = growth.step(room, size);
            assert_eq!(size, 100);
        }
        assert_eq!(growth.step(500, size), 300);
    }

    #[test]
    fn the_cache_gives_way_at_once_and_waits_again_before_it_grows() {
        let mut growth = CacheGrowth::default();
        for _ in 1..CALM {
            assert_eq!(growth.step(200, 100), 100);
        }
        assert_eq!(growth.step(60, 100), 60);
        for _ in 1..CALM {
            assert_eq!(growth.step(200, 60), 60);
        }
        assert_eq!(growth.step(200, 60), 200);
    }

    #[test]
    fn a_little_more_room_changes_nothing() {
        let mut growth = CacheGrowth::default();
        for _ in 0..5 * CALM {
            assert_eq!(growth.step(1600 + 99, 1600), 1600);
        }
    }

    #[test]
    fn spare_memory_goes_once_it_stands_still() {
        let mut watch = SpareWatch::default();
        assert!(!watch.step(64));
        assert!((1..IDLE).all(|_| !watch.step(64)));
        assert!(watch.step(64));
        assert!((0..2 * IDLE).all(|_| !watch.step(0)), "there is none");
        assert!((0..2 * IDLE).all(|number| !watch.step(u64::from(number))), "somebody uses it");
    }

    #[test]
    fn the_rest_of_the_process_takes_from_the_cache() {
        let left = |limit, held| left_by_process(limit * MB, held * MB, 200 * MB);
        assert_eq!(left(768, 350), (768 - 96 - 150) * MB);
        assert_eq!(left(150, 300), (150 - 32 - 100) * MB, "the least reserve");
        assert_eq!(left(256, 900), 0);
        assert_eq!(left(768, 0), (768 - 96) * MB, "a count that lags");
    }

    #[test]
    fn another_limit_holds_after_a_second() {
        let with = |limit| ProcessMemory { limit, held: || 350 * MB };
        let mut watch = ProcessWatch::default();
        assert_eq!(watch.left(&with(|| Some(768 * MB)), 200 * MB), (768 - 96 - 150) * MB);
        for _ in 1..LIMIT_LOOKS {
            assert_eq!(watch.left(&with(|| Some(384 * MB)), 200 * MB), (768 - 96 - 150) * MB);
        }
        assert_eq!(watch.left(&with(|| Some(384 * MB)), 200 * MB), (384 - 48 - 150) * MB);
        assert!(
            (0..LIMIT_LOOKS).any(|_| watch.left(&with(|| None), 0) == u64::MAX),
            "there is none any more"
        );
    }

    proptest! {
        /// Whatever the others do: the size keeps to the room, and it rises only to what the last measurements all had.
        #[test]
        fn the_size_follows_a_model(begin in 0u64..1000, rooms in prop::collection::vec(0u64..1000, 1..200)) {
            let (mut growth, mut size, mut changed) = (CacheGrowth::default(), begin, 0);
            for (at, &room) in rooms.iter().enumerate() {
                let before = size;
                size = growth.step(room, size);
                prop_assert!(size <= room);
                if size != before {
                    let calm = (at + 1).checked_sub(CALM as usize).filter(|&from| from >= changed);
                    let least = calm.and_then(|from| rooms[from..=at].iter().min());
                    prop_assert!(size < before || least == Some(&size), "{before} to {size} at {at}");
                    changed = at + 1;
                }
            }
            // With the same room for long it has nearly all of it.
            let room = 1000;
            for _ in 0..2 * CALM {
                size = growth.step(room, size);
            }
            prop_assert!(size + size / STEP_SHARE + 1 >= room);
        }
    }
}
