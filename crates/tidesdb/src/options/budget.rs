//! Divides the memory available to a store among its parts: the defaults of a program on any machine and in
//! any container.

use crate::error::{Error, Result};

const MB: u64 = 1 << 20;
/// Least size of the cache, and of each of the two write buffers, if nobody set them and there is room.
const LEAST: (u64, u64) = (16 * MB, 32 * MB);
/// Memory left to the program around the store and to the page cache: a quarter, within these bounds, and no
/// more than half.
const ROOM: (u64, u64) = (128 * MB, 2048 * MB);

/// A size in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// As set, or the default.
    pub bytes: u64,
    /// Set by the user, not a default.
    pub is_set: bool,
}

/// A budget for all memory of a store, and the sizes within it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryPlan {
    /// The bound on all memory; where nobody set it, `bytes` is ignored.
    pub budget: Size,
    /// The block cache.
    pub block_cache: Size,
    /// One write buffer; while it is flushed, another one takes writes.
    pub write_buffer: Size,
}

impl MemoryPlan {
    /// The plan for a process with `available` bytes (0: unknown), with all sizes decided; `is_set` stays.
    ///
    /// An unset budget is half of `available`, or the set sizes and a quarter for the rest, if the program
    /// around leaves as much. Unset sizes shrink until all fits. If they do not fit even then, set sizes are
    /// reduced in proportion.
    ///
    /// Errors: `InvalidArgument` when a set budget is below the sizes set in it.
    pub fn fit(self, available: u64) -> Result<MemoryPlan> {
        let (set, needed) = (self.sum_of(Size::if_set), self.needed());
        let budget = match (self.budget.is_set, available) {
            (true, _) => self.budget.bytes,
            (false, 0) => with_the_rest(self.sum()),
            (false, _) => (available / 2).max(with_the_rest(needed).min(available - room(available))),
        };
        let mut sizes = budget - budget / 5;
        if self.budget.is_set {
            let least = self.sum_of(|size, _| if size.is_set { size.bytes } else { MB });
            if least > budget {
                return Err(Error::InvalidArgument(format!(
                    "a budget of {budget} bytes for all memory is below the {least} of a block cache of {} and twice a \
                     write buffer of {}",
                    self.block_cache.bytes, self.write_buffer.bytes
                )));
            }
            // Sizes that are set may use it up.
            sizes = sizes.max(least);
        }
        // What holds a table's changes shrinks last: a small one makes small files, and merges of them all day.
        let least_buffer = self.write_buffer.least(LEAST.1).min(LEAST.1).min(sizes / 8);
        let decide = |size: Size, default_least: u64| {
            let least = size.least(default_least);
            let bytes = if needed <= sizes {
                // What is left over goes to the sizes that nobody set, in proportion to their defaults.
                let wanted = self.sum() - needed;
                least + part(size.bytes - least, wanted.min(sizes - needed), wanted)
            } else if !self.budget.is_set {
                part(least, sizes, needed).max(MB)
            } else if size.is_set {
                size.bytes
            } else {
                part(least, sizes - set, needed - set).max(MB)
            };
            Size { bytes, ..size }
        };
        let mut block_cache = decide(self.block_cache, LEAST.0);
        let mut write_buffer = decide(self.write_buffer, LEAST.1);
        if write_buffer.bytes < least_buffer && !self.budget.is_set {
            write_buffer.bytes = least_buffer;
            block_cache.bytes = block_cache.bytes.min(sizes - 2 * least_buffer).max(MB);
        }
        Ok(MemoryPlan { budget: Size { bytes: budget, ..self.budget }, block_cache, write_buffer })
    }

    /// The sizes together: the cache and two write buffers.
    pub fn sum(&self) -> u64 {
        self.sum_of(|size, _| size.bytes)
    }

    /// The same with the least sizes in place of unset ones.
    fn needed(&self) -> u64 {
        self.sum_of(Size::least)
    }

    fn sum_of(&self, bytes: impl Fn(Size, u64) -> u64) -> u64 {
        let write_buffers = bytes(self.write_buffer, LEAST.1).saturating_mul(2);
        bytes(self.block_cache, LEAST.0).saturating_add(write_buffers)
    }
}

impl Size {
    fn least(self, default_least: u64) -> u64 {
        if self.is_set {
            self.bytes
        } else {
            self.bytes.min(default_least)
        }
    }

    fn if_set(self, _: u64) -> u64 {
        if self.is_set {
            self.bytes
        } else {
            0
        }
    }
}

/// A sum of sizes and a quarter: merges, locks, transactions, indexes of files.
fn with_the_rest(sizes: u64) -> u64 {
    sizes.saturating_add(sizes / 4)
}

/// Memory left to others.
fn room(available: u64) -> u64 {
    (available / 4).clamp(ROOM.0, ROOM.1).min(available / 2)
}

/// The share of `bytes` when `granted` of `wanted` is given.
fn part(bytes: u64, granted: u64, wanted: u64) -> u64 {
    let share = u128::from(bytes) * u128::from(granted) / u128::from(wanted.max(1));
    u64::try_from(share).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn set(mb: u64) -> Size {
        Size { bytes: mb * MB, is_set: true }
    }

    fn default(mb: u64) -> Size {
        Size { bytes: mb * MB, is_set: false }
    }

    fn plan(budget: Size, block_cache: Size, write_buffer: Size) -> MemoryPlan {
        MemoryPlan { budget, block_cache, write_buffer }
    }

    /// Budget, cache and write buffer in MB.
    fn fitted(plan: MemoryPlan, available_mb: u64) -> [u64; 3] {
        let plan = plan.fit(available_mb * MB).expect("fits");
        [plan.budget, plan.block_cache, plan.write_buffer].map(|size| size.bytes / MB)
    }

    #[test]
    fn a_large_machine_has_the_defaults_and_half_of_it_as_the_budget() {
        let unset = plan(default(0), default(256), default(256));
        assert_eq!(fitted(unset, 24 << 10), [12 << 10, 256, 256]);
    }

    #[test]
    fn sizes_that_nobody_set_shrink_in_a_container() {
        let unset = plan(default(0), default(256), default(256));
        assert_eq!(fitted(unset, 768), [384, 95, 105]);
        assert_eq!(fitted(unset, 512), [256, 59, 72]);
        assert_eq!(fitted(unset, 64), [32, 5, 10], "below the least, in proportion");
    }

    #[test]
    fn sizes_that_are_set_are_kept_up_to_what_the_program_leaves() {
        assert_eq!(fitted(plan(default(0), set(256), set(64)), 768), [480, 256, 64]);
        assert_eq!(fitted(plan(default(0), set(16 << 10), set(64)), 24 << 10), [20_640, 16 << 10, 64]);
        assert_eq!(fitted(plan(default(0), set(300), default(256)), 768), [455, 300, 32]);
    }

    #[test]
    fn beyond_it_they_are_reduced_in_proportion() {
        assert_eq!(fitted(plan(default(0), set(512), set(64)), 768), [576, 368, 46]);
        assert_eq!(fitted(plan(default(0), set(64 << 10), set(256)), 1024), [768, 550, 32]);
        let cache_of_40_gb = plan(default(0), set(40 << 10), default(256));
        assert_eq!(
            fitted(cache_of_40_gb, 24 << 10),
            [22 << 10, 17_958, 32],
            "the write buffer keeps its least"
        );
    }

    #[test]
    fn a_budget_that_is_set_holds_the_sizes_or_is_refused() {
        assert_eq!(fitted(plan(set(256), default(256), default(256)), 1 << 20), [256, 59, 72]);
        assert_eq!(fitted(plan(set(40), default(256), default(256)), 1 << 20), [40, 6, 12]);
        assert_eq!(fitted(plan(set(256), set(128), set(64)), 1 << 20), [256, 128, 64]);
        assert_eq!(fitted(plan(set(256), set(128), default(64)), 1 << 20), [256, 128, 38]);
        let error = plan(set(255), set(128), set(64)).fit(1 << 40).expect_err("refused").to_string();
        assert!(error.contains("below the 268435456"), "{error}");
    }

    #[test]
    fn where_the_memory_is_unknown_the_sizes_decide() {
        assert_eq!(fitted(plan(default(0), set(64), default(256)), 0), [720, 64, 256]);
    }

    proptest! {
        #[test]
        fn all_sizes_fit_into_a_budget_that_leaves_room(
            cache in 1u64..1 << 20, buffer in 1u64..1 << 16,
            cache_is_set: bool, buffer_is_set: bool, available in 64u64..1 << 21
        ) {
            let size = |mb: u64, is_set| Size { bytes: mb * MB, is_set };
            let wanted = plan(default(0), size(cache, cache_is_set), size(buffer, buffer_is_set));
            let fit = wanted.fit(available * MB).expect("fits");
            prop_assert!(fit.budget.bytes <= available * MB - room(available * MB));
            // The least size of each may be beyond it.
            prop_assert!(fit.sum() <= fit.budget.bytes - fit.budget.bytes / 5 + 3 * MB);
            prop_assert!(fit.block_cache.bytes >= MB && fit.write_buffer.bytes >= MB);
            prop_assert!(fit.block_cache.bytes <= wanted.block_cache.bytes);
            prop_assert!(fit.write_buffer.bytes <= wanted.write_buffer.bytes);
        }
    }
}
