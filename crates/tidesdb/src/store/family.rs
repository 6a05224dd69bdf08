//! A column family in memory: what its dictionary entry says, and its counters.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};

use crate::error::{Error, Result};
use crate::options::FamilyOptions;
use crate::types::{FamilyId, Seq};

/// Counters of a family are numbered below this.
pub const COUNTERS: u32 = 16;

/// First block of values that a counter reserves.
const FIRST_BLOCK: u64 = 64;

/// Largest block; also the largest gap that a crash leaves.
const LAST_BLOCK: u64 = 16 * 1024;

/// A counter: values below `ceiling` may be handed out without writing anything.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counter {
    /// Next value to hand out.
    pub next: u64,
    /// What is durable: after a restart counting goes on here.
    pub ceiling: u64,
    block: u64,
    /// The next block is being reserved in the background, or that failed.
    pub asked: bool,
}

impl Counter {
    pub(crate) fn at(next: u64) -> Counter {
        Counter { next, ceiling: next, block: FIRST_BLOCK, asked: false }
    }

    /// Whether half of the block is gone and nobody was asked to reserve the next; from now on somebody is.
    pub(crate) fn asks_for_more(&mut self) -> bool {
        let low = self.next < self.ceiling && self.ceiling - self.next < self.block / 2;
        low && !std::mem::replace(&mut self.asked, true)
    }

    /// The first of `count` values at or above `next` that are `offset` modulo `increment`, and the
    /// value behind the last of them; `None` when the last would be above `limit`.
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

    /// The ceiling to make durable so that `next` lies below it.
    pub(crate) fn ceiling_for(&mut self, next: u64) -> u64 {
        self.block = (self.block * 2).min(LAST_BLOCK);
        next.saturating_add(self.block)
    }
}

/// A column family.
#[derive(Debug)]
pub struct Family {
    id: FamilyId,
    name: RwLock<Arc<[u8]>>,
    options: RwLock<Arc<FamilyOptions>>,
    record: RwLock<Arc<[u8]>>,
    created_seq: AtomicU64,
    dropped: AtomicBool,
    pub(crate) counters: [Mutex<Option<Counter>>; COUNTERS as usize],
    /// Each held by who makes a ceiling of that counter durable; taken before the counter itself.
    pub(crate) ceilings: [Mutex<()>; COUNTERS as usize],
    /// Held while the rows are counted by a scan.
    pub(crate) counting: Mutex<()>,
}

impl Family {
    pub(crate) fn new(
        id: FamilyId,
        name: &[u8],
        options: FamilyOptions,
        record: &[u8],
        created_seq: Seq,
    ) -> Arc<Family> {
        Arc::new(Family {
            id,
            name: RwLock::new(name.into()),
            options: RwLock::new(Arc::new(options)),
            record: RwLock::new(record.into()),
            created_seq: AtomicU64::new(created_seq),
            dropped: AtomicBool::new(false),
            counters: Default::default(),
            ceilings: Default::default(),
            counting: Mutex::new(()),
        })
    }

    /// Number of the family; never reused.
    pub fn id(&self) -> FamilyId {
        self.id
    }

    /// Its name now.
    pub fn name(&self) -> Arc<[u8]> {
        self.name.read().clone()
    }

    /// Its options now.
    pub fn options(&self) -> Arc<FamilyOptions> {
        self.options.read().clone()
    }

    /// The opaque record of its owner.
    pub fn record(&self) -> Arc<[u8]> {
        self.record.read().clone()
    }

    /// Sequence of the DDL that made it, or bumped it; older snapshots may not read it.
    pub fn created_seq(&self) -> Seq {
        self.created_seq.load(Ordering::Acquire)
    }

    /// Whether it was dropped or replaced by a truncation.
    pub fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::Acquire)
    }

    /// Error when it was dropped.
    pub fn check_live(&self) -> Result<()> {
        if self.is_dropped() {
            return Err(Error::NoSuchFamily(String::from_utf8_lossy(&self.name()).into_owned()));
        }
        Ok(())
    }

    pub(crate) fn set_dropped(&self) {
        self.dropped.store(true, Ordering::Release);
    }

    pub(crate) fn set_created_seq(&self, created_seq: Seq) {
        self.created_seq.store(created_seq, Ordering::Release);
    }

    pub(crate) fn set_name(&self, name: &[u8]) {
        *self.name.write() = name.into();
    }

    pub(crate) fn set_options(&self, options: FamilyOptions) {
        *self.options.write() = Arc::new(options);
    }

    pub(crate) fn set_record(&self, record: &[u8]) {
        *self.record.write() = record.into();
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
