//! Chance.

#![allow(clippy::disallowed_methods)] // Here they are called, and nowhere else.

use std::collections;
use std::fmt;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hasher, RandomState};

/// A hash map with the same order in every run. The standard library's has keys of its own in each process.
pub type HashMap<K, V> = collections::HashMap<K, V, BuildHasherDefault<DefaultHasher>>;

/// A set like [`HashMap`].
pub type HashSet<K> = collections::HashSet<K, BuildHasherDefault<DefaultHasher>>;

/// A source of random numbers.
pub trait Random: Send + Sync + fmt::Debug {
    /// The next number.
    fn next(&self) -> u64;
}

/// Unpredictable numbers: the standard library's hash keys, drawn from the operating system.
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
