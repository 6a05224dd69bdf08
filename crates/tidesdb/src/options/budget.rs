//! Divides the memory available to a store among its parts: the defaults of a program on any machine and in
//! any container.

use crate::error::{Error, Result};

const MB: u64 = 1 << 20;
/// Least size of the cache, and of each of the two write buffers, if nobody set them and there is room.
const LEAST: (u64, u64) = (16 * MB, 32 * MB);
/// Memory left to the program around the store and to the page cache: a quarter, within these bounds, and no
/// more than half.
const ROOM: (u64, u64) = (128 * MB, 2048 * MB);
/// Alongside a cache that grows, a write buffer that nobody set has this part of the budget: a tenth, up to its default.
/// The same part as of the sizes set by hand that were measured as best (384 MB and twice 64 in 768).
const BUFFER_SHARE: u64 = 10;

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

/// Sizes that fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FittedPlan {
    /// The sizes, all decided.
    pub sizes: MemoryPlan,
    /// Nobody set the cache's size, and the memory is the store's to use: the cache may grow to what the budget leaves.
    pub cache_grows: bool,
}

/// Memory for the whole process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Available {
    /// Bytes; 0: unknown.
    pub bytes: u64,
    /// A limit on this process, not the memory of a machine that has others.
    pub is_limit: bool,
}

impl MemoryPlan {
    /// The plan for a process with this memory, with all sizes decided; `is_set` stays.
    ///
    /// An unset cache grows where the budget is set or the memory is a limit. An unset budget is then all that the program
    /// around leaves, and the cache begins with what two write buffers and a fifth for the rest leave of it.
    ///
    /// Else an unset budget is half of the memory, or the set sizes and a quarter for the rest, if the program
    /// around leaves as much. Unset sizes shrink until all fits. If they do not fit even then, set sizes are
    /// reduced in proportion.
    ///
    /// Errors: `InvalidArgument` when a set budget is below the sizes set in it.
    pub fn fit(self, memory: Available) -> Result<FittedPlan> {
        let cache_grows = !self.block_cache.is_set && (self.budget.is_set || memory.is_limit);
        let available = memory.bytes;
        let budget = match (self.budget.is_set, available) {
            (true, _) => self.budget.bytes,
            (false, 0) => with_the_rest(self.sum()),
            (false, _) if cache_grows => available - room(available),
            (false, _) => (available / 2).max(with_the_rest(self.needed()).min(available - room(available))),
        };
        let wanted = if cache_grows { self.for_growth(budget) } else { self };
        Ok(FittedPlan { sizes: wanted.fit_into(budget)?, cache_grows })
    }

    /// With defaults for a cache that grows.
    fn for_growth(mut self, budget: u64) -> MemoryPlan {
        if !self.write_buffer.is_set {
            self.write_buffer.bytes = self.write_buffer.bytes.min((budget / BUFFER_SHARE).max(LEAST.1));
        }
        let buffers = self.write_buffer.bytes.saturating_mul(2);
        self.block_cache.bytes = (budget - budget / 5).saturating_sub(buffers).max(LEAST.0);
        self
    }

    fn fit_into(self, budget: u64) -> Result<MemoryPlan> {
        let (set, needed) = (self.sum_of(Size::if_set), self.needed());
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

    fn machine(mb: u64) -> Available {
        Available { bytes: mb * MB, is_limit: false }
    }

    fn container(mb: u64) -> Available {
        Available { bytes: mb * MB, is_limit: true }
    }

    fn plan(budget: Size, block_cache: Size, write_buffer: Size) -> MemoryPlan {
        MemoryPlan { budget, block_cache, write_buffer }
    }

    /// Budget, cache and write buffer in MB.
    fn fitted(plan: MemoryPlan, available_mb: u64) -> [u64; 3] {
        fitted_in(plan, machine(available_mb)).0
    }

    /// The same, and whether the cache grows.
    fn fitted_in(plan: MemoryPlan, memory: Available) -> ([u64; 3], bool) {
        let FittedPlan { sizes, cache_grows } = plan.fit(memory).expect("fits");
        let numbers = [sizes.budget, sizes.block_cache, sizes.write_buffer].map(|size| size.bytes / MB);
        (numbers, cache_grows)
    }

    #[test]
    fn a_large_machine_has_the_defaults_and_half_of_it_as_the_budget() {
        let unset = plan(default(0), default(256), default(256));
        assert_eq!(fitted(unset, 24 << 10), [12 << 10, 256, 256]);
    }

    #[test]
    fn in_a_container_the_cache_begins_with_what_is_left_and_grows() {
        let unset = plan(default(0), default(256), default(256));
        let fitted = |mb| fitted_in(unset, container(mb));
        assert_eq!(fitted(16 << 10), ([14 << 10, 10_956, 256], true));
        assert_eq!(fitted(2048), ([1536, 921, 153], true));
        assert_eq!(fitted(768), ([576, 345, 57], true));
        assert_eq!(fitted(512), ([384, 230, 38], true));
        assert_eq!(fitted(350), ([222, 113, 32], true));
        assert_eq!(fitted(64), ([32, 5, 10], true), "below the least, in proportion");
        let with_buffer = plan(default(0), default(256), set(64));
        assert_eq!(fitted_in(with_buffer, container(768)), ([576, 332, 64], true));
        let with_cache = plan(default(0), set(256), default(256));
        assert_eq!(fitted_in(with_cache, container(768)), fitted_in(with_cache, machine(768)));
        assert!(!fitted_in(with_cache, container(768)).1, "as it is set");
    }

    #[test]
    fn sizes_that_nobody_set_shrink_on_a_small_machine() {
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
        let unset = plan(set(256), default(256), default(256));
        assert_eq!(fitted_in(unset, machine(1 << 20)), ([256, 140, 32], true));
        assert_eq!(fitted(plan(set(40), default(256), default(256)), 1 << 20), [40, 6, 12]);
        assert_eq!(fitted(plan(set(256), set(128), set(64)), 1 << 20), [256, 128, 64]);
        assert_eq!(fitted(plan(set(256), set(128), default(64)), 1 << 20), [256, 128, 38]);
        let error = plan(set(255), set(128), set(64)).fit(machine(1 << 20)).expect_err("refused").to_string();
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
            let fit = wanted.fit(machine(available)).expect("fits").sizes;
            prop_assert!(fit.budget.bytes <= available * MB - room(available * MB));
            // The least size of each may be beyond it.
            prop_assert!(fit.sum() <= fit.budget.bytes - fit.budget.bytes / 5 + 3 * MB);
            prop_assert!(fit.block_cache.bytes >= MB && fit.write_buffer.bytes >= MB);
            prop_assert!(fit.block_cache.bytes <= wanted.block_cache.bytes);
            prop_assert!(fit.write_buffer.bytes <= wanted.write_buffer.bytes);
        }

        #[test]
        fn sizes_alongside_a_cache_that_grows_fit_too(
            buffer in 1u64..1 << 16, buffer_is_set: bool, available in 64u64..1 << 21
        ) {
            let write_buffer = Size { bytes: buffer * MB, is_set: buffer_is_set };
            let fit = plan(default(0), default(256), write_buffer).fit(container(available)).expect("fits");
            prop_assert!(fit.cache_grows);
            let fit = fit.sizes;
            prop_assert_eq!(fit.budget.bytes, available * MB - room(available * MB));
            prop_assert!(fit.sum() <= fit.budget.bytes - fit.budget.bytes / 5 + 3 * MB);
            prop_assert!(fit.block_cache.bytes >= MB && fit.write_buffer.bytes >= MB);
            prop_assert!(fit.write_buffer.bytes <= write_buffer.bytes);
        }
    }
}
