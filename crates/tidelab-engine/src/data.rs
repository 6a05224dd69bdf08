//! Keys, values, and the expected value of each key.
//!
//! A key is the row's number, times two, in eight bytes with the sort order of the number, filled up to its
//! size with `0`. The odd numbers between are the missing keys.
//!
//! A value begins with its row and version (the number of writes), for a reader to check. Then come
//! incompressible bytes, then a compressible share of equal bytes. All of it follows from the seed.

use std::sync::atomic::{AtomicU32, Ordering::Acquire, Ordering::Release};

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

/// Row and version.
const HEADER: usize = tidelab::experiment::engine::MIN_VALUE;
/// The filling of keys and of the compressible part of values.
const FILL: u8 = b'0';
/// Incompressible bytes for cutting values from.
const POOL: usize = 1 << 20;

/// The form of rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// Rows; at least one.
    pub rows: u64,
    /// Bytes of a key, at least its eight.
    pub key_bytes: usize,
    /// Bytes of a value, at least the row and its version.
    pub value_bytes: usize,
    /// Share of a value compressible to nearly nothing, from 0 to 1.
    pub compressible: f64,
    /// The seed of all of it.
    pub seed: u64,
}

/// Makes keys and values, and knows the expected version of each row.
pub struct Data {
    shape: Shape,
    pool: Vec<u8>,
    /// The number of writes of each row; 0: it is not there. With [`DELETED`]: it was there, and written
    /// so often.
    versions: Vec<AtomicU32>,
}

/// Mark of a row deleted after the version below it.
const DELETED: u32 = 1 << 31;

impl Data {
    /// Of this shape, with no row written.
    pub fn new(shape: Shape) -> Data {
        let mut random = StdRng::seed_from_u64(shape.seed);
        let mut pool = vec![0; POOL + shape.value_bytes];
        random.fill(pool.as_mut_slice());
        let versions = (0..shape.rows).map(|_| AtomicU32::new(0)).collect();
        Data { shape, pool, versions }
    }

    /// The shape.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The key of a row.
    pub fn key(&self, row: u64, key: &mut Vec<u8>) {
        self.number(row * 2, key);
    }

    /// A missing key, right after the row's.
    pub fn missing_key(&self, row: u64, key: &mut Vec<u8>) {
        self.number(row * 2 + 1, key);
    }

    fn number(&self, number: u64, key: &mut Vec<u8>) {
        key.clear();
        key.extend_from_slice(&number.to_be_bytes());
        key.resize(self.shape.key_bytes, FILL);
    }

    /// The row of a key; none for one never made.
    pub fn row_of(&self, key: &[u8]) -> Option<u64> {
        let number = u64::from_be_bytes(key.get(..8)?.try_into().ok()?);
        let filled = key.len() == self.shape.key_bytes && key[8..].iter().all(|&byte| byte == FILL);
        (filled && number % 2 == 0 && number / 2 < self.shape.rows).then_some(number / 2)
    }

    /// The value of a row's version.
    pub fn value(&self, row: u64, version: u32, value: &mut Vec<u8>) {
        value.clear();
        value.extend_from_slice(&row.to_be_bytes());
        value.extend_from_slice(&version.to_be_bytes());
        let rest = self.shape.value_bytes - HEADER;
        let random = ((rest as f64) * (1.0 - self.shape.compressible)).round() as usize;
        let from = (mixed(row ^ (u64::from(version) << 40) ^ self.shape.seed) % POOL as u64) as usize;
        value.extend_from_slice(&self.pool[from..from + random]);
        value.resize(self.shape.value_bytes, FILL);
    }

    /// Row and version written in a value.
    pub fn owner(&self, value: &[u8]) -> Option<(u64, u32)> {
        if value.len() != self.shape.value_bytes {
            return None;
        }
        let row = u64::from_be_bytes(value.get(..8)?.try_into().ok()?);
        let version = u32::from_be_bytes(value.get(8..HEADER)?.try_into().ok()?);
        Some((row, version))
    }

    /// The version of a row by all acknowledged commits; 0: it is not there.
    pub fn version(&self, row: u64) -> u32 {
        match self.versions[row as usize].load(Acquire) {
            gone if gone & DELETED != 0 => 0,
            there => there,
        }
    }

    /// The version of a row's next write. Only one thread writes a row.
    pub fn next_version(&self, row: u64) -> u32 {
        (self.versions[row as usize].load(Acquire) & !DELETED) + 1
    }

    /// The row was written, and the commit answered.
    pub fn written(&self, row: u64, version: u32) {
        self.versions[row as usize].store(version, Release);
    }

    /// The row was deleted, and the commit answered.
    pub fn deleted(&self, row: u64) {
        self.versions[row as usize].fetch_or(DELETED, std::sync::atomic::Ordering::AcqRel);
    }

    /// The number of existing rows.
    pub fn live(&self) -> u64 {
        (0..self.shape.rows).filter(|&row| self.version(row) > 0).count() as u64
    }

    /// Bytes of keys and values of the existing rows.
    pub fn live_bytes(&self) -> u64 {
        self.live() * (self.shape.key_bytes + self.shape.value_bytes) as u64
    }

    /// All rows in an order without order; another for each `turn`.
    pub fn shuffled(&self, turn: u64) -> Vec<u64> {
        let mut rows: Vec<u64> = (0..self.shape.rows).collect();
        rows.shuffle(&mut self.random(turn));
        rows
    }

    /// A source of random numbers, the same for the same turn.
    pub fn random(&self, turn: u64) -> StdRng {
        StdRng::seed_from_u64(mixed(self.shape.seed.wrapping_add(turn.wrapping_mul(0x9e37_79b9_7f4a_7c15))))
    }
}

/// Bits mixed (the finaliser of MurmurHash3).
fn mixed(mut x: u64) -> u64 {
    x = (x ^ (x >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    x = (x ^ (x >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    x ^ (x >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data() -> Data {
        Data::new(Shape { rows: 1000, key_bytes: 16, value_bytes: 100, compressible: 0.5, seed: 7 })
    }

    #[test]
    fn keys_sort_as_rows_and_missing_ones_lie_between() {
        let (data, mut a, mut b, mut between) = (data(), Vec::new(), Vec::new(), Vec::new());
        for row in 0..999 {
            data.key(row, &mut a);
            data.missing_key(row, &mut between);
            data.key(row + 1, &mut b);
            assert!(a < between && between < b && a.len() == 16);
            assert_eq!((data.row_of(&a), data.row_of(&between)), (Some(row), None));
        }
        data.key(1000, &mut a);
        assert_eq!((data.row_of(&a), data.row_of(b"short")), (None, None));
    }

    #[test]
    fn a_value_tells_whose_it_is_and_repeats() {
        let (data, mut value, mut again) = (data(), Vec::new(), Vec::new());
        data.value(17, 3, &mut value);
        data.value(17, 3, &mut again);
        assert_eq!((data.owner(&value), value.len()), (Some((17, 3)), 100));
        assert_eq!(value, again);
        data.value(17, 4, &mut again);
        assert_ne!(value[12..], again[12..]);
        assert_eq!(data.owner(&value[1..]), None);
        // Half of the bytes after the header are equal.
        assert!(value[56..].iter().all(|&byte| byte == FILL) && value[50..56].iter().any(|&b| b != FILL));
    }

    #[test]
    fn versions_go_on_behind_a_deletion() {
        let data = data();
        assert_eq!((data.version(5), data.next_version(5), data.live()), (0, 1, 0));
        data.written(5, 1);
        assert_eq!((data.version(5), data.next_version(5), data.live_bytes()), (1, 2, 116));
        data.deleted(5);
        assert_eq!((data.version(5), data.next_version(5), data.live()), (0, 2, 0));
    }

    #[test]
    fn a_shuffle_has_every_row_once() {
        let data = data();
        let mut rows = data.shuffled(1);
        assert_ne!(rows[..10], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(rows, data.shuffled(1));
        assert_ne!(rows, data.shuffled(2));
        rows.sort_unstable();
        assert_eq!(rows, (0..1000).collect::<Vec<_>>());
    }
}
