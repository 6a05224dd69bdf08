//! Random transactions over a few keys.
//!
//! The keys in use move on. After so many writes one more list and register come into use, and the oldest go
//! out of it. So values stay short, and keys without a value always remain.

use std::sync::atomic::{AtomicU64, Ordering};

use rand::rngs::StdRng;
use rand::RngExt;

use super::record::{Access, Element, Key, Kind};

/// Keys of each kind in use at a time.
const WIDTH: u32 = 8;
/// Writes until the next key comes into use.
const WRITES_PER_KEY: u64 = 24;
/// The most keys of one range.
pub const RANGE: u32 = 5;
/// The most statements of a transaction.
const STATEMENTS: u32 = 5;

/// The next statement of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Read a key.
    Read {
        /// Its key.
        key: Key,
        /// The way of reading.
        access: Access,
    },
    /// Read `count` keys of one kind from `first` on.
    Range {
        /// The first.
        first: Key,
        /// The number of keys.
        count: u32,
        /// The way of reading.
        access: Access,
    },
    /// Append or overwrite.
    Write {
        /// The key.
        key: Key,
        /// The value.
        element: Element,
    },
}

/// A transaction to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Its statements; never none.
    pub steps: Vec<Step>,
    /// It is one statement without BEGIN.
    pub autocommit: bool,
    /// It ends with ROLLBACK.
    pub gives_up: bool,
}

/// Makes the plans of all clients of a run.
#[derive(Debug, Default)]
pub struct Generator {
    writes: AtomicU64,
}

impl Generator {
    /// The next transaction of a client.
    pub fn plan(&self, random: &mut StdRng) -> Plan {
        let count = random.random_range(1..=STATEMENTS);
        let mut steps: Vec<Step> = Vec::new();
        while steps.len() < count as usize {
            match random.random_range(0..10) {
                0..=2 => steps.push(Step::Read { key: self.key(random), access: access(random) }),
                3..=4 => {
                    let Key { kind, id } = self.key(random);
                    let count = random.random_range(2..=RANGE);
                    let first = Key { kind, id: id.saturating_sub(random.random_range(0..count)) };
                    steps.push(Step::Range { first, count, access: access(random) });
                }
                // Reads, then writes the same: where updates get lost.
                5..=6 => {
                    let key = self.key(random);
                    steps.push(Step::Read { key, access: access(random) });
                    steps.push(self.write(key));
                }
                _ => steps.push(self.write(self.key(random))),
            }
        }
        let autocommit = steps.len() == 1 && random.random_bool(0.5);
        Plan { steps, autocommit, gives_up: !autocommit && random.random_bool(0.05) }
    }

    /// All keys used so far.
    pub fn keys(&self) -> impl Iterator<Item = Key> {
        let end = self.base() + WIDTH;
        [Kind::List, Kind::Register]
            .into_iter()
            .flat_map(move |kind| (0..end).map(move |id| Key { kind, id }))
    }

    fn base(&self) -> u32 {
        u32::try_from(self.writes.load(Ordering::Relaxed) / WRITES_PER_KEY).unwrap_or(u32::MAX - WIDTH)
    }

    fn key(&self, random: &mut StdRng) -> Key {
        let kind = if random.random_bool(0.6) { Kind::List } else { Kind::Register };
        Key { kind, id: self.base() + random.random_range(0..WIDTH) }
    }

    fn write(&self, key: Key) -> Step {
        Step::Write { key, element: self.writes.fetch_add(1, Ordering::Relaxed) + 1 }
    }
}

fn access(random: &mut StdRng) -> Access {
    match random.random_range(0..10) {
        0..=5 => Access::Plain,
        6 => Access::Shared,
        _ => Access::Exclusive,
    }
}
