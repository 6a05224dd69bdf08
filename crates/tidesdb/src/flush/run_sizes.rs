//! Sizes of runs: which of them a flush merges, and which tables get a file of their own.

use crate::options::Options;

/// Bound on a merged run, as a multiple of the newer bytes merged so far (or [`TINY_RUN`]). Without it a
/// flush with few new entries would rewrite the whole run.
pub(super) const SMALL_RUN_FACTOR: u64 = 8;

/// A run merged regardless of the new entries, in bytes: about the cost of a file operation.
pub(super) const TINY_RUN: u64 = 64 << 10;

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
