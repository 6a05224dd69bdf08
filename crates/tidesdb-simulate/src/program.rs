//! The decisions of a seed before anything runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidesdb_simulated::internal::io::faulty::Crash;
use tidesdb_simulated::{FamilyOptions, Options};

use crate::appliers::BruteForce;
use crate::client::MOST_STATEMENTS;
use crate::cut::{shrink, Cut, Part};
use crate::faults::Mood;
use crate::formats::Formats;
use crate::options::{family_options, store_options};
use crate::owner::Memory;
use crate::random::Random;
use crate::work::{Amount, Work};

/// An event that a program makes more of than others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Leaning {
    /// Nothing.
    None,
    /// Nearly all transactions are prepared and rolled back: the log grows, and memtables do not.
    Undone,
    /// Small flushes come in turn, over a large level.
    Piled,
    /// Records of the log go on in the next segment, and calls on the log fail: also in the midst of a record.
    LogFails,
    /// Several clients miss the same few blocks, and reads of tables fail.
    ReadsFail,
    /// Scans and merges read many small blocks at once, and reads of tables fail.
    LongReadsFail,
    /// Scans read values of many rows at once, and reads of value files fail.
    ValuesFail,
    /// Appliers of a cluster, and clients that hold their locks for long.
    Forced,
    /// Rows with dozens of entries, as a full text index has them, found by the prefix that a word's entries have.
    Words,
}

impl Leaning {
    /// That of a program: one in five has any.
    pub fn of(random: &mut Random) -> Leaning {
        match random.below(40) {
            0 => Leaning::Undone,
            1 => Leaning::Piled,
            2 => Leaning::LogFails,
            3 => Leaning::ReadsFail,
            4 => Leaning::LongReadsFail,
            5 => Leaning::Forced,
            6 => Leaning::Words,
            7 => Leaning::ValuesFail,
            _ => Leaning::None,
        }
    }
}

/// See the module's comment.
#[derive(Clone, Debug)]
pub struct Program {
    pub seed: u64,
    pub options: Options,
    pub family_options: Vec<FamilyOptions>,
    pub clients: usize,
    /// Of each client.
    pub transactions: u64,
    pub keys: u64,
    pub longest: u64,
    pub counted: bool,
    pub expiring: bool,
    pub family_modes: bool,
    pub detached: bool,
    pub beside: BTreeMap<Work, Amount>,
    /// Rounds of flushes, merges, and counts by hand.
    pub upkeep: u64,
    /// Clients sleep in transactions.
    pub sleepy: bool,
    /// The disk's faults while clients work, and their number.
    pub mood: Mood,
    pub most_faults: u64,
    /// One switch in so many is taken.
    pub switch_one_in: u64,
    pub crash: Option<Crash>,
    pub formats: Formats,
    pub leaning: Leaning,
    /// Commits have positions in a cluster's order, where the formats have them.
    pub positions: bool,
    /// The store has an owner, with a memory of it.
    pub owned: bool,
    pub memory: Memory,
    pub brute_force: Arc<BruteForce>,
    /// Transactions of each client before the store is closed and moves to version 2 of its formats.
    pub before_move: u64,
    /// Left out.
    pub cut: Cut,
}

impl Program {
    /// The program of a seed.
    pub fn new(seed: u64) -> Program {
        let mut random = Random::new(seed, 1);
        let options = store_options(&mut random);
        let family_modes = random.one_in(4);
        let families = 1 + random.below(3);
        let expiring = random.one_in(3);
        let longest = match random.below(60) {
            0 => 3 << 20,
            1 => 200_000,
            n => [100, 2_000, 20_000][n as usize % 3],
        };
        let detached = random.one_in(3);
        let mood = Mood::of(&mut random);
        let mut beside = BTreeMap::new();
        let jumps = if expiring { 2 } else { 8 };
        let chances = [
            (Work::Changes, 3, 2, 6),
            (Work::Loads, 5, 1, 2),
            (Work::Backups, 6, 1, 2),
            (Work::Watchers, 4, 2, 6),
            (Work::Settings, 4, 1, 4),
            (Work::Clocks, jumps, 1, 4),
            (Work::Decisions, if detached { 1 } else { 1 << 40 }, 1, 6),
        ];
        for (work, one_in, workers, rounds) in chances {
            let amount = Amount { workers: 1 + random.below(workers), rounds: 1 + random.below(rounds) };
            if random.one_in(one_in) && (mood == Mood::Sound || !work.needs_sound_disk()) {
                beside.insert(work, amount);
            }
        }
        let transactions = 4 + random.below(12);
        let mut of_formats = Random::new(seed, 7);
        let mut leanings = Random::new(seed, 9);
        let leaning = Leaning::of(&mut leanings);
        let program = Program {
            seed,
            formats: Formats::of(&mut of_formats),
            leaning,
            owned: leanings.one_in(4),
            positions: Random::new(seed, 11).one_in(2),
            memory: Memory::default(),
            brute_force: Arc::default(),
            before_move: of_formats.below(transactions + 1),
            options,
            family_options: (0..families).map(|_| family_options(&mut random, family_modes)).collect(),
            clients: 1 + random.below(4) as usize,
            transactions,
            keys: random.pick(&[4, 30, 300]),
            longest,
            counted: !expiring && random.one_in(2),
            expiring,
            family_modes,
            detached,
            beside,
            upkeep: random.below(8),
            sleepy: random.one_in(10),
            mood,
            most_faults: random.pick(&[1, 3, 30]),
            switch_one_in: random.pick(&[0, 2, 10, 50]),
            crash: (!random.one_in(4)).then(|| random.pick(&Crash::ALL)),
            cut: Cut::default(),
        };
        program.leant(&mut leanings)
    }

    /// Families whose names clients use.
    pub fn families(&self) -> u64 {
        self.family_options.len() as u64
    }

    /// Without parts of it.
    pub fn without(&self, cut: Cut) -> Program {
        Program { cut, ..self.clone() }
    }

    /// The largest part it can lose and still fail, with the failure.
    pub fn shrink(&self, what: String) -> (Cut, String) {
        let sizes = (self.clients as u64, self.transactions, MOST_STATEMENTS);
        shrink(sizes, what, |cut| self.without(cut.clone()).run().0.err())
    }

    /// The versions of its formats.
    pub fn formats(&self) -> Formats {
        match self.cut.has(Part::Formats) {
            true => Formats::One,
            false => self.formats,
        }
    }

    /// How much there is of a kind of work.
    pub fn amount(&self, work: Work) -> Amount {
        let is_left = !self.cut.has(Part::Beside(work));
        self.beside.get(&work).copied().filter(|_| is_left).unwrap_or_default()
    }

    /// Whether there are appliers, for whom transactions are rolled back.
    pub fn is_forced(&self) -> bool {
        self.amount(Work::Appliers).workers > 0
    }

    /// Whether an applier's wait may be in vain: one whom nobody rolls back holds a lock for long.
    pub fn appliers_wait_in_vain(&self) -> bool {
        self.detached
            || self.has_no_merges()
            || self.beside.keys().any(|work| !matches!(work, Work::Watchers | Work::Appliers))
    }

    fn has_no_merges(&self) -> bool {
        self.options.compaction_threads == 0 || self.options.max_memory > 0
    }

    /// Whether a wait for a lock or for room may be in vain: somebody holds it for long, or time passes at once. Elsewhere
    /// a timeout means a missing notification.
    pub fn waits_in_vain(&self) -> bool {
        self.sleepy
            || self.detached
            || self.has_no_merges()
            || self.beside.keys().any(|work| *work != Work::Watchers)
    }
}
