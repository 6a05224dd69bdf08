//! Filters: blocked Bloom filters (Putze, Sanders and Singler, 2007), with one cache line for each lookup
//! (`docs/format/table.md`, "Filters"). [`FilterBuilder`] decides between one filter for the table and one
//! for each index partition.

use std::sync::OnceLock;

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::block::{DecodeError, LATER_FILTER};
use crate::format::coding::u32_at;
use crate::mutant::{self, Mutant};

const LINE: usize = 64;
const LINE_BITS: usize = LINE * 8;
const TAIL: usize = 8;
const MAX_PROBES: u32 = 16;

/// Most filter bits for each key; more do not pay.
const MAX_BITS_PER_KEY: u32 = 30;

/// Largest resident filter of a whole table, in bytes.
const WHOLE_FILTER_MAX: usize = 256 << 10;

/// Hash of a key for [`super::SsTable::get`]. A read computes it once for all tables.
#[inline]
pub fn hash_key(key: &[u8]) -> u64 {
    xxh3_64(key)
}

/// Hash of a key prefix of the table's prefix length.
#[inline]
pub(super) fn hash_prefix(prefix: &[u8]) -> u64 {
    xxh3_64_with_seed(prefix, 1)
}

/// Bits for each key at a false-positive rate of at most `fpr` in 10,000; 0 (no filter) for 10,000 and above.
/// The bits are bounded, so rates below about 0.01 % are not reached.
pub fn bits_per_key(fpr: u32) -> u32 {
    if fpr >= 10_000 {
        return 0;
    }
    let wanted = f64::from(fpr) / 10_000.0;
    (1..MAX_BITS_PER_KEY).find(|&bits| plan(bits).1 <= wanted).unwrap_or(MAX_BITS_PER_KEY)
}

/// Number of probes for so many bits a key, and the resulting false-positive rate.
fn plan(bits: u32) -> (u32, f64) {
    static PLANS: OnceLock<Vec<(u32, f64)>> = OnceLock::new();
    let plans = PLANS.get_or_init(|| {
        let best = |bits| {
            let rate = |probes| (probes, false_positive_rate(bits, probes));
            (1..=MAX_PROBES).map(rate).min_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((1, 1.0))
        };
        (0..=MAX_BITS_PER_KEY).map(best).collect()
    });
    plans[bits.clamp(1, MAX_BITS_PER_KEY) as usize]
}

/// Keys fall on lines as a Poisson distribution. In a line with j keys each bit is set with probability 1 -
/// (1 - 1/512)^(probes * j).
fn false_positive_rate(bits: u32, probes: u32) -> f64 {
    let mean = LINE_BITS as f64 / f64::from(bits.max(1));
    let clear = 1.0 - 1.0 / LINE_BITS as f64;
    let mut weight = (-mean).exp();
    let mut rate = 0.0;
    for keys in 1..2_000u32 {
        weight *= mean / f64::from(keys);
        let set = 1.0 - clear.powf(f64::from(probes * keys));
        rate += weight * set.powf(f64::from(probes));
        if f64::from(keys) > mean && weight < 1e-12 {
            break;
        }
    }
    rate
}

#[inline]
fn line_of(hash: u64, lines: u32) -> usize {
    (((hash >> 32) * u64::from(lines)) >> 32) as usize
}

/// The bits of a hash in its line.
#[inline]
fn bits_of(hash: u64, probes: u32) -> impl Iterator<Item = (usize, u8)> {
    let mut x = hash as u32;
    (0..probes).map(move |_| {
        x = x.wrapping_mul(0x9e37_79b9);
        let bit = (x >> 23) as usize;
        (bit / 8, 1 << (bit % 8))
    })
}

/// A filter's payload over `hashes`.
fn build(hashes: &[u64], bits: u32) -> Vec<u8> {
    let lines = (hashes.len() as u64 * u64::from(bits)).div_ceil(LINE_BITS as u64).max(1);
    let lines = u32::try_from(lines).unwrap_or(u32::MAX);
    let probes = plan(bits).0;
    let mut payload = vec![0; lines as usize * LINE + TAIL];
    for &hash in hashes {
        let line = &mut payload[line_of(hash, lines) * LINE..][..LINE];
        for (byte, bit) in bits_of(hash, probes) {
            line[byte] |= bit;
        }
    }
    let tail = lines as usize * LINE;
    payload[tail] = probes as u8;
    payload[tail + 4..].copy_from_slice(&lines.to_le_bytes());
    payload
}

fn shape(payload: &[u8]) -> Result<(u32, u32), DecodeError> {
    let lines_len = payload.len().checked_sub(TAIL).ok_or(DecodeError::damage("a filter is cut short"))?;
    let probes = u32::from(payload[lines_len]);
    let lines = u32_at(payload, lines_len + 4).unwrap_or(0);
    if lines == 0 || lines as usize * LINE != lines_len || probes == 0 || probes > MAX_PROBES {
        return Err(DecodeError::damage("the shape of a filter"));
    }
    Ok((probes, lines))
}

/// Checks a filter's payload.
pub(super) fn check(payload: &[u8]) -> Result<(), DecodeError> {
    shape(payload)?;
    let reserved = payload.len() - TAIL + 1;
    match payload[reserved..reserved + 3] {
        [0, 0, 0] => Ok(()),
        _ => Err(LATER_FILTER),
    }
}

/// False if `hash` is certainly not in the filter.
#[inline]
pub(super) fn may_contain(payload: &[u8], hash: u64) -> Result<bool, DecodeError> {
    if mutant::is(Mutant::FilterSaysNo) && hash % 64 == 0 {
        return Ok(false);
    }
    let (probes, lines) = shape(payload)?;
    let line = &payload[line_of(hash, lines) * LINE..][..LINE];
    Ok(bits_of(hash, probes).all(|(byte, bit)| line[byte] & bit != 0))
}

/// The filters of a finished table.
pub(super) enum Filters {
    /// Keys are not filtered.
    None,
    /// One payload for the table.
    Whole(Vec<u8>),
    /// One payload for each index partition.
    Partitions(Vec<Vec<u8>>),
}

/// Collects the hashes of a table's keys and prefixes, in order of keys.
pub(super) struct FilterBuilder {
    bits: u32,
    prefix_len: usize,
    hashes: Vec<u64>,
    /// End of each closed partition in `hashes`; empty once `partitions` is in use.
    ends: Vec<usize>,
    /// Finished partitions, once the table is too large for one filter.
    partitions: Option<Vec<Vec<u8>>>,
    /// Bytes of the finished partitions.
    partition_bytes: usize,
    last_key: Option<u64>,
    last_prefix: Option<u64>,
}

impl FilterBuilder {
    pub fn new(bits: u32, prefix_len: usize) -> FilterBuilder {
        FilterBuilder {
            bits: bits.min(MAX_BITS_PER_KEY),
            prefix_len,
            hashes: Vec::new(),
            ends: Vec::new(),
            partitions: None,
            partition_bytes: 0,
            last_key: None,
            last_prefix: None,
        }
    }

    /// Adds a key; the versions of one key may be added one by one.
    pub fn add(&mut self, key: &[u8]) {
        if self.bits == 0 {
            return;
        }
        let hash = hash_key(key);
        if self.last_key != Some(hash) {
            self.last_key = Some(hash);
            self.hashes.push(hash);
        }
        if self.prefix_len == 0 {
            return;
        }
        if let Some(prefix) = key.get(..self.prefix_len) {
            let hash = hash_prefix(prefix);
            if self.last_prefix != Some(hash) {
                self.last_prefix = Some(hash);
                self.hashes.push(hash);
            }
        }
    }

    /// Bytes of hashes and finished partitions.
    pub fn heap_bytes(&self) -> usize {
        self.partition_bytes + self.hashes.capacity() * size_of::<u64>()
    }

    /// Ends the current index partition.
    pub fn end_partition(&mut self) {
        if self.bits == 0 {
            return;
        }
        self.last_key = None;
        self.last_prefix = None;
        if let Some(partitions) = &mut self.partitions {
            let partition = build(&self.hashes, self.bits);
            self.partition_bytes += partition.len();
            partitions.push(partition);
            self.hashes.clear();
            return;
        }
        self.ends.push(self.hashes.len());
        if self.hashes.len() > WHOLE_FILTER_MAX * 8 / self.bits as usize {
            let mut start = 0;
            let closed = self.ends.drain(..).map(|end| {
                let partition = build(&self.hashes[start..end], self.bits);
                self.partition_bytes += partition.len();
                start = end;
                partition
            });
            self.partitions = Some(closed.collect());
            self.hashes.clear();
        }
    }

    /// Returns the filters. Every partition must have been ended.
    pub fn finish(self) -> Filters {
        match self.partitions {
            _ if self.bits == 0 => Filters::None,
            Some(partitions) => Filters::Partitions(partitions),
            None => Filters::Whole(build(&self.hashes, self.bits)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hashes(from: u64, count: u64) -> Vec<u64> {
        (from..from + count).map(|i| hash_key(&i.to_be_bytes())).collect()
    }

    #[test]
    fn no_false_negatives_and_a_false_positive_rate_near_the_target() {
        for fpr in [10, 100, 500, 2_000] {
            for count in [1_000, 30_000] {
                let bits = bits_per_key(fpr);
                let members = hashes(0, count);
                let payload = build(&members, bits);
                check(&payload).unwrap();
                assert!(members.iter().all(|&hash| may_contain(&payload, hash).unwrap()));
                let probes = hashes(1 << 40, 200_000);
                let wrong = probes.iter().filter(|&&hash| may_contain(&payload, hash).unwrap()).count();
                let rate = wrong as f64 / probes.len() as f64 * 10_000.0;
                assert!(rate < 2.0 * f64::from(fpr), "{fpr}: {rate} with {bits} bits for {count} keys");
            }
        }
    }

    #[test]
    fn bits_follow_the_rate() {
        assert_eq!(bits_per_key(10_000), 0);
        assert!((10..=12).contains(&bits_per_key(100)), "{}", bits_per_key(100));
        assert!(bits_per_key(1) <= MAX_BITS_PER_KEY);
        assert!((1..10_000).all(|fpr| bits_per_key(fpr) >= bits_per_key(fpr + 1)));
    }

    #[test]
    fn a_large_table_gets_partitions_that_know_their_own_keys() {
        let mut builder = FilterBuilder::new(10, 4);
        let keys: Vec<[u8; 8]> = (0..300_000u64).map(u64::to_be_bytes).collect();
        for part in keys.chunks(1_000) {
            part.iter().for_each(|key| builder.add(key));
            builder.end_partition();
        }
        let Filters::Partitions(payloads) = builder.finish() else { panic!("expected partitions") };
        assert_eq!(payloads.len(), 300);
        for (payload, part) in payloads.iter().zip(keys.chunks(1_000)) {
            assert!(part.iter().all(|key| may_contain(payload, hash_key(key)).unwrap()));
            assert!(may_contain(payload, hash_prefix(&part[0][..4])).unwrap());
        }
    }

    #[test]
    fn wrong_shapes_are_damage() {
        let good = build(&hashes(0, 100), 10);
        assert!(check(&good[..good.len() - 1]).is_err());
        assert!(check(&[]).is_err());
        let mut probes = good.clone();
        let tail = probes.len() - TAIL;
        probes[tail] = 0;
        assert!(check(&probes).is_err());
    }
}
