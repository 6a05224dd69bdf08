//! Numbers by a seed: splitmix64, one generator for each purpose, so that a change of one leaves the others.

use tidesdb_simulated::internal::host::splitmix64;

/// A generator.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The generator of a purpose.
    pub fn new(seed: u64, purpose: u64) -> Random {
        let mut random = Random(seed ^ purpose.wrapping_mul(0x2545_f491_4f6c_dd1d));
        random.next();
        random
    }

    /// Any number.
    pub fn next(&mut self) -> u64 {
        splitmix64(&mut self.0)
    }

    /// One below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }

    /// Whether it is the one case of `n`.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of them.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}
