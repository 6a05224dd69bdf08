//! A family's counter in memory: its values are handed out in blocks, each reserved durably beforehand.

/// First block of values reserved by a counter.
const FIRST_BLOCK: u64 = 64;

/// Largest block; also the largest gap after a crash.
const LAST_BLOCK: u64 = 16 * 1024;

/// A counter: values below `ceiling` may be handed out without writing anything.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counter {
    /// Next value to hand out.
    pub next: u64,
    /// The durable ceiling: after a restart, counting continues here.
    pub ceiling: u64,
    block: u64,
    /// The next block is being reserved in the background, or its reservation failed.
    pub asked: bool,
}

impl Counter {
    pub(crate) fn at(next: u64) -> Counter {
        Counter { next, ceiling: next, block: FIRST_BLOCK, asked: false }
    }

    /// True if half of the block is gone and no reservation of the next was requested; the caller then
    /// requests it.
    pub(crate) fn asks_for_more(&mut self) -> bool {
        let low = self.next < self.ceiling && self.ceiling - self.next < self.block / 2;
        low && !std::mem::replace(&mut self.asked, true)
    }

    /// The first of `count` values at or above `next` with remainder `offset` modulo `increment`, and the
    /// value after the last of them; `None` if the last would be above `limit`.
    pub(crate) fn range(&self, count: u64, offset: u64, increment: u64, limit: u64) -> Option<(u64, u64)> {
        let increment = increment.max(1);
        let offset = offset % increment;
        let first = if self.next <= offset {
            offset
        } else {
            (self.next - offset).checked_next_multiple_of(increment)?.checked_add(offset)?
        };
        // Zero is no value of a counter: they start at one.
        let first = if first == 0 { increment } else { first };
        let last = count.max(1).checked_sub(1)?.checked_mul(increment)?.checked_add(first)?;
        // The largest number is never handed out: there would be no next one.
        (last <= limit && last < u64::MAX).then(|| (first, last + 1))
    }

    /// A ceiling above `next`, to be made durable.
    pub(crate) fn ceiling_for(&mut self, next: u64) -> u64 {
        self.block = (self.block * 2).min(LAST_BLOCK);
        next.saturating_add(self.block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_respect_offset_increment_and_limit() {
        let at = |next| Counter::at(next);
        assert_eq!(at(1).range(1, 1, 1, 100), Some((1, 2)));
        assert_eq!(at(0).range(1, 0, 1, 100), Some((1, 2)), "zero is never handed out");
        assert_eq!(at(5).range(3, 1, 1, 100), Some((5, 8)));
        assert_eq!(at(5).range(1, 3, 10, 100), Some((13, 14)));
        assert_eq!(at(3).range(2, 3, 10, 100), Some((3, 14)));
        assert_eq!(at(4).range(2, 3, 10, 100), Some((13, 24)));
        assert_eq!(at(127).range(1, 1, 1, 127), Some((127, 128)));
        assert_eq!(at(128).range(1, 1, 1, 127), None);
        assert_eq!(at(127).range(2, 1, 1, 127), None);
        assert_eq!(at(u64::MAX - 1).range(1, 1, 1, u64::MAX), Some((u64::MAX - 1, u64::MAX)));
        assert_eq!(at(u64::MAX).range(1, 1, 1, u64::MAX), None, "no value would be left to go on with");
        assert_eq!(at(u64::MAX).range(2, 1, 1, u64::MAX), None);
    }

    #[test]
    fn the_next_block_is_asked_for_once_when_half_of_one_is_gone() {
        let mut counter = Counter::at(1);
        assert!(!counter.asks_for_more(), "nothing is reserved");
        counter.ceiling = counter.ceiling_for(1);
        counter.next = counter.ceiling - FIRST_BLOCK;
        assert!(!counter.asks_for_more());
        counter.next += 1;
        assert!(counter.asks_for_more());
        assert!(!counter.asks_for_more());
    }

    #[test]
    fn blocks_grow_to_their_bound() {
        let mut counter = Counter::at(1);
        let first = counter.ceiling_for(10);
        assert_eq!(first, 10 + 2 * FIRST_BLOCK);
        for _ in 0..20 {
            counter.ceiling_for(10);
        }
        assert_eq!(counter.ceiling_for(10), 10 + LAST_BLOCK);
    }
}
