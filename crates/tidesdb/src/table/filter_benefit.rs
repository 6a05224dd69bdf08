//! Decides for each table whether lookups ask its filter ([`FilterBenefit`]).
//!
//! A filter costs a lookup two misses of the processor's cache, and memory of the block cache. It spares the data block
//! of a key that the table does not have. In the last level nearly all lookups find their key, except where a program
//! inserts keys in random order, each after a look for the same key. The lookups themselves tell one table from the
//! other.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::sync::note;

/// The largest score.
const MOST: u32 = 2 * ASKS - 1;

/// Lookups ask the filter from this score on.
const ASKS: u32 = if cfg!(simulation) { 8 } else { 128 };

/// Of the lookups that find their keys one in so many counts, by the key's hash: with all of them each lookup of a table
/// with both kinds would write.
const COUNTED: u64 = if cfg!(simulation) { 2 } else { 8 };

/// A lookup without its key counts as much as so many counted ones that find theirs, 32 in all: a block costs as much more
/// than a filter.
const WEIGHT: u32 = if cfg!(simulation) { 2 } else { 4 };

/// A score of a table's recent lookups, without a lock: some of those at the same time may not count.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct FilterBenefit(AtomicU32);

impl Default for FilterBenefit {
    /// Of a table without lookups: the first one without its key makes the next ask.
    fn default() -> FilterBenefit {
        FilterBenefit(AtomicU32::new(ASKS - WEIGHT))
    }
}

impl FilterBenefit {
    /// True if a lookup is to ask the filter.
    #[inline]
    pub(super) fn asks(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= ASKS
    }

    /// Counts a lookup whose key the filter rules out, or would have.
    #[inline]
    pub(super) fn note_absent(&self) {
        self.set(|score| (score + WEIGHT).min(MOST));
    }

    /// Counts a lookup that found the key of this hash. True if lookups no longer ask from now on.
    #[inline]
    pub(super) fn note_found(&self, hash: u64) -> bool {
        hash % COUNTED == 0 && self.set(|score| score.saturating_sub(1)) == Some(false)
    }

    /// Lookups do not ask from now on, until many keys in a row are absent: the filter cannot be read.
    #[cold]
    pub(super) fn give_up(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Writes changes alone: the score of a table with lookups of one kind stays in all processors' caches. Returns whether
    /// lookups ask, if that has changed.
    #[inline]
    fn set(&self, change: impl FnOnce(u32) -> u32) -> Option<bool> {
        let score = self.0.load(Ordering::Relaxed);
        let changed = change(score);
        if changed == score {
            return None;
        }
        self.0.store(changed, Ordering::Relaxed);
        let asks = changed >= ASKS;
        if asks == (score >= ASKS) {
            return None;
        }
        note(if asks { "table: filter asked" } else { "table: filter no longer asked" });
        Some(asks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_absent_key_makes_the_next_lookup_ask() {
        let benefit = FilterBenefit::default();
        assert!(!benefit.asks());
        benefit.note_absent();
        assert!(benefit.asks());
    }

    #[test]
    fn lookups_that_find_their_keys_stop_asking_and_absent_keys_begin_again() {
        let benefit = FilterBenefit::default();
        (0..100).for_each(|_| benefit.note_absent());
        let most = u64::from(MOST - ASKS) * COUNTED;
        assert!(
            (1..=most).all(|hash| !benefit.note_found(hash)) && benefit.asks(),
            "no more than found so far"
        );
        assert!(benefit.note_found(0), "this one makes them stop");
        assert!(!benefit.asks());
        assert!((0..10_000).all(|hash| !benefit.note_found(hash)), "they have stopped");
        (0..ASKS / WEIGHT).for_each(|_| benefit.note_absent());
        assert!(benefit.asks());
    }

    #[test]
    fn one_absent_key_in_twenty_pays_and_one_in_fifty_does_not() {
        for (each, pays) in [(20, true), (50, false)] {
            let benefit = FilterBenefit::default();
            for at in 0..100_000 {
                match at % each {
                    0 => benefit.note_absent(),
                    _ => drop(benefit.note_found(at / 3)),
                }
            }
            assert_eq!(benefit.asks(), pays, "one in {each}");
        }
    }
}
