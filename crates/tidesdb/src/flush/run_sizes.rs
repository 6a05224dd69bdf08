//! Sizes of runs: which of them a flush merges, and which tables get a file of their own. Pure.

use crate::options::{FamilyOptions, Options};

/// Bound on a merged run, as a multiple of the newer bytes merged so far (or [`TINY_RUN`]). Without it a
/// flush with few new entries would rewrite the whole run.
pub(super) const SMALL_RUN_FACTOR: u64 = 8;

/// A run merged regardless of the new entries, in bytes: about the cost of a file operation.
pub(super) const TINY_RUN: u64 = 64 << 10;

/// Runs below a family's stop of writers from which on a flush relieves its level 0.
const SOON: usize = 4;

/// The state of a family's level 0 before a flush adds a run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Level0 {
    /// Merges keep up.
    Short,
    /// Writers stop a few runs later.
    Piled,
    /// Writers stop with the next run.
    Full,
}

impl Level0 {
    /// The state at so many runs. A store without threads for merges stops no writer.
    pub(super) fn of(runs: usize, family: &FamilyOptions, options: &Options) -> Level0 {
        let stop = family.l0_stall_threshold as usize;
        if options.compaction_threads == 0 || options.read_only || runs < 2 {
            Level0::Short
        } else if runs + 1 >= stop {
            Level0::Full
        } else if runs + SOON >= stop {
            Level0::Piled
        } else {
            Level0::Short
        }
    }
}

/// The number of runs of level 0 that a flush merges with `bytes` of new entries. `runs` are the bytes of those it may
/// merge, newest first.
///
/// These are small ones, less than `bound` together. A flush that `relieves` level 0 takes larger ones too, as long as
/// none has more than twice the bytes of all newer ones: so a byte is written again a few times at most.
pub(super) fn merged_runs(runs: impl Iterator<Item = u64>, bytes: u64, bound: u64, relieves: bool) -> usize {
    let mut merged = bytes;
    let fits = |len: &u64| {
        let is_small = *len <= TINY_RUN.max(merged * SMALL_RUN_FACTOR) && merged + len < bound;
        let is_even = relieves && *len <= TINY_RUN.max(merged * 2);
        merged += len;
        is_small || is_even
    };
    runs.take_while(fits).count()
}

/// Bound, in bytes, on the runs of level 0 merged into a flush together with its new entries. Small families
/// thus stay one run in a shared file. A small write buffer lowers the bound, so that a flush writes little
/// more than its input. It is 0 in a store opened for reading: the flush after recovery goes to memory and
/// leaves the tables on disk as they are.
pub fn small_runs_bound(options: &Options) -> u64 {
    if options.read_only {
        return 0;
    }
    (1 << 20).min(options.write_buffer_size as u64 / 16)
}

/// Size of a large table, in bytes: the bound above which a run of level 0 is not merged into a flush.
pub fn large_table_bound(options: &Options) -> u64 {
    small_runs_bound(options).max(TINY_RUN)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn level_0_is_piled_before_writers_stop() {
        let family = FamilyOptions { l0_stall_threshold: 10, ..FamilyOptions::default() };
        let options = Options::default();
        let of = |runs| Level0::of(runs, &family, &options);
        assert_eq!(
            [5, 6, 8, 9, 12].map(of),
            [Level0::Short, Level0::Piled, Level0::Piled, Level0::Full, Level0::Full]
        );
        let tight = FamilyOptions { l0_stall_threshold: 2, ..family.clone() };
        assert_eq!(
            [0, 1, 2].map(|runs| Level0::of(runs, &tight, &options)),
            [Level0::Short, Level0::Short, Level0::Full]
        );
        let nobody = Options { compaction_threads: 0, ..options };
        assert_eq!(Level0::of(9, &family, &nobody), Level0::Short);
    }

    #[test]
    fn small_runs_are_merged_always_and_larger_ones_for_relief() {
        let of = |runs: &[u64], relieves| merged_runs(runs.iter().copied(), 10 * MIB, MIB, relieves);
        assert_eq!(of(&[10 * MIB, 10 * MIB, 10 * MIB], false), 0);
        assert_eq!(of(&[10 * MIB, 10 * MIB, 10 * MIB], true), 3);
        assert_eq!(of(&[10 * MIB, 90 * MIB, 10 * MIB], true), 1, "a long one would be written for little");
        assert_eq!(of(&[90 * MIB, 10 * MIB], true), 0);
        assert_eq!(merged_runs([1000, 2000, MIB].into_iter(), 100, MIB, false), 2);
    }

    /// Nothing but flushes, as while one long merge of another family runs.
    #[test]
    fn relief_keeps_level_0_from_its_stop_and_writes_a_byte_few_times() {
        let (family, options) = (FamilyOptions::default(), Options::default());
        let (mut runs, mut written, flushes) = (Vec::<u64>::new(), 0, 200);
        for _ in 0..flushes {
            let relieves = Level0::of(runs.len(), &family, &options) > Level0::Short;
            let merged = merged_runs(runs.iter().copied(), 10 * MIB, MIB, relieves);
            let bytes = 10 * MIB + runs.drain(..merged).sum::<u64>();
            written += bytes;
            runs.insert(0, bytes);
            assert!(runs.len() < family.l0_stall_threshold as usize, "{runs:?}");
        }
        let times = written as f64 / (flushes * 10 * MIB) as f64;
        assert!(times < 6.0, "each byte is written {times} times");
    }
}
