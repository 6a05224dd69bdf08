//! Random choices, all from one seed.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// The source of a program's choices: the same seed makes the same choices.
#[derive(Debug)]
pub(in crate::check) struct Dice(StdRng);

impl Dice {
    pub(in crate::check) fn new(seed: u64) -> Dice {
        Dice(StdRng::seed_from_u64(seed))
    }

    /// True once in `n` times.
    pub(in crate::check) fn one_in(&mut self, n: u32) -> bool {
        self.0.random_range(0..n) == 0
    }

    /// A number from `low` to `high`, both included.
    pub(in crate::check) fn number(&mut self, low: i64, high: i64) -> i64 {
        self.0.random_range(low..=high)
    }

    /// A count from `low` to `high`, both included.
    pub(in crate::check) fn count(&mut self, low: usize, high: usize) -> usize {
        self.0.random_range(low..=high)
    }

    /// One of them; there must be one.
    pub(in crate::check) fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.0.random_range(0..all.len())]
    }

    /// One of some words.
    pub(in crate::check) fn word(&mut self, all: &[&'static str]) -> &'static str {
        self.pick::<&'static str>(all)
    }

    /// `n` different ones in random order, or all where there are not so many.
    pub(in crate::check) fn some<T: Clone>(&mut self, all: &[T], n: usize) -> Vec<T> {
        let mut left = all.to_vec();
        let mut taken = Vec::new();
        while taken.len() < n && !left.is_empty() {
            taken.push(left.swap_remove(self.0.random_range(0..left.len())));
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_makes_the_same_choices_and_some_are_different() {
        let draw = |seed| {
            let mut dice = Dice::new(seed);
            (0..50).map(|_| dice.number(-5, 5)).collect::<Vec<_>>()
        };
        assert_eq!(draw(3), draw(3));
        assert_ne!(draw(3), draw(4));
        let some = Dice::new(1).some(&[1, 2, 3], 5);
        assert_eq!(some.len(), 3);
        assert!([1, 2, 3].iter().all(|n| some.contains(n)), "{some:?}");
    }
}
