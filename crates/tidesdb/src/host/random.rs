//! Chance.

#![allow(clippy::disallowed_methods)] // Here they are called, and nowhere else.

use std::collections;
use std::fmt;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hasher, RandomState};

/// A hash map that two runs walk in the same order. The standard library's has keys of its own in each process.
pub type HashMap<K, V> = collections::HashMap<K, V, BuildHasherDefault<DefaultHasher>>;

/// A set like [`HashMap`].
pub type HashSet<K> = collections::HashSet<K, BuildHasherDefault<DefaultHasher>>;

/// A source of random numbers.
pub trait Random: Send + Sync + fmt::Debug {
    /// The next number.
    fn next(&self) -> u64;
}

/// The next number of splitmix64, whose numbers a seed decides.
pub fn splitmix64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Numbers that nobody foretells: keys that the standard library draws from the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemRandom;

impl Random for SystemRandom {
    fn next(&self) -> u64 {
        // Each has keys of its own.
        RandomState::new().build_hasher().finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_differ() {
        let drawn: HashSet<u64> = (0..100).map(|_| SystemRandom.next()).collect();
        assert_eq!(drawn.len(), 100);
    }
}
