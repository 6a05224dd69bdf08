//! The choice of shared files to rewrite because of their dead tables. A file is unlinked with its last
//! table, and a dead table keeps its space until then. A rewrite moves the live tables to new files. Pure.
//! RocksDB does the same for blob files.
//!
//! **The price.** Rewriting a file with a share `d` of dead bytes writes `(1 - d) / d` bytes for each byte
//! freed.
//! - A file more than half dead always qualifies: at most one byte is written for each byte freed.
//! - In a *settled* store, dead bytes are at most 1/[`DEAD_SHARE`] of the live ones. Above this, files
//!   qualify in the order of their dead share. At most [`DEAD_SHARE`] bytes are written for each byte freed,
//!   and usually far fewer. In a store under writes, the next merge or flush may kill the same tables anyway.
//!
//! Each byte is freed once, and each dead byte was written once before. The cost of rewriting is therefore a
//! multiple of the bytes flushed, merged, or dropped by DDL, and rewriting ends.

use crate::version::FileUse;

/// Dead bytes of a settled store are at most this part of the live ones...
pub const DEAD_SHARE: u64 = 16;

/// ... or at most this many: fewer are not worth a file operation.
pub const DEAD_FLOOR: u64 = if cfg!(simulation) { 8 << 10 } else { 1 << 20 };

/// Microseconds since the last flush after which a store without running jobs is settled.
pub const SETTLED_AFTER_US: u64 = 5_000_000;

/// The files worth rewriting, best first. A file with more live bytes than `free`, the free disk space, does
/// not qualify.
pub fn worth_rewriting(files: Vec<FileUse>, settled: bool, free: u64) -> Vec<FileUse> {
    let (live, dead) = files.iter().fold((0, 0), |(live, dead), file| (live + file.live, dead + file.dead()));
    let too_much = settled && dead > DEAD_FLOOR.max(live / DEAD_SHARE);
    let is_worth_it = |file: &FileUse| {
        let is_half_dead = file.dead() > file.live;
        let is_above_average = too_much && file.dead() > file.live / DEAD_SHARE;
        file.live <= free && !file.families.is_empty() && (is_half_dead || is_above_average)
    };
    let mut worth: Vec<FileUse> = files.into_iter().filter(is_worth_it).collect();
    // By the dead share of the file, descending.
    worth.sort_by(|a, b| {
        let (of_a, of_b) =
            (u128::from(a.dead()) * u128::from(b.len), u128::from(b.dead()) * u128::from(a.len));
        of_b.cmp(&of_a).then(a.number.cmp(&b.number))
    });
    worth
}

#[cfg(test)]
mod tests {
    use super::*;

    const M: u64 = 1 << 20;

    /// Files from pairs of length and live bytes.
    fn files(pairs: &[(u64, u64)]) -> Vec<FileUse> {
        let file = |(&(len, live), number)| FileUse { number, len, live, families: vec![1, 2] };
        pairs.iter().zip(1..).map(file).collect()
    }

    fn numbers(pairs: &[(u64, u64)], settled: bool, free: u64) -> Vec<u64> {
        worth_rewriting(files(pairs), settled, free).iter().map(|file| file.number).collect()
    }

    #[test]
    fn cases() {
        let all = u64::MAX;
        for (pairs, settled, free, expected) in [
            (&[][..], true, all, &[][..]),
            // Half dead: always, in a small store too.
            (&[(4096 * 3, 4096)], false, all, &[1]),
            (&[(10 * M, 5 * M)], false, all, &[]),
            (&[(10 * M, 5 * M - 1)], false, all, &[1]),
            // Without the room for what lives nothing is begun.
            (&[(10 * M, 4 * M)], false, 4 * M - 1, &[]),
            (&[(10 * M, 4 * M)], false, 4 * M, &[1]),
            // A tenth dead: when nobody writes.
            (&[(100 * M, 90 * M)], false, all, &[]),
            (&[(100 * M, 90 * M)], true, all, &[1]),
            // A sixteenth of the whole store is left alone, wherever it is.
            (&[(100 * M, 100 * M), (20 * M, 14 * M)], true, all, &[]),
            (&[(80 * M, 80 * M), (20 * M, 14 * M)], true, all, &[2]),
            // So is a megabyte.
            (&[(2 * M, M)], true, all, &[]),
            // The deadest first; those below the share not at all.
            (&[(10 * M, 9 * M), (10 * M, 6 * M), (30 * M, 29 * M), (20 * M, 10 * M)], true, all, &[4, 2, 1]),
        ] {
            assert_eq!(numbers(pairs, settled, free), expected, "{pairs:?} {settled} {free}");
        }
    }

    /// Repeated rewrites end below the share, at no more than the price.
    #[test]
    fn it_comes_to_rest_within_its_price() {
        for seed in 0..200u64 {
            let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            let mut random = |below: u64| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state % below
            };
            let mut pairs: Vec<(u64, u64)> = Vec::new();
            for _ in 0..random(40) + 1 {
                let len = random(64 * M) + 1;
                pairs.push((len, len - random(len) / (random(12) + 1)));
            }
            let dead = |pairs: &[(u64, u64)]| pairs.iter().map(|(len, live)| len - live).sum::<u64>();
            let live = pairs.iter().map(|(_, live)| live).sum::<u64>();
            let before = dead(&pairs);
            let mut written = 0;
            while let Some(&number) = numbers(&pairs, true, u64::MAX).first() {
                let at = number as usize - 1;
                written += pairs[at].1;
                pairs[at].0 = pairs[at].1;
            }
            let after = dead(&pairs);
            assert!(after <= M.max(live / DEAD_SHARE), "seed {seed}: {after} dead of {live}");
            assert!(
                written <= (before - after) * DEAD_SHARE,
                "seed {seed}: {written} for {before} - {after}"
            );
        }
    }
}
