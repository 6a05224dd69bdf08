//! The leanings of a few programs, for rare events: each has its options, sizes and faults.

use tidesdb_simulated::internal::io::faulty::Op;
use tidesdb_simulated::{Compression, SyncMode};

use crate::area::Area;
use crate::faults::Mood;
use crate::formats::Formats;
use crate::program::{Leaning, Program};
use crate::random::Random;
use crate::work::{Amount, Work};

impl Program {
    /// With the options and sizes for its leaning.
    pub(crate) fn leant(mut self, random: &mut Random) -> Program {
        match self.leaning {
            Leaning::None => return self,
            Leaning::Undone => self.lean_to_undone(random),
            Leaning::Piled => self.lean_to_piled(random),
            Leaning::LogFails => self.lean_to_log_fails(random),
            Leaning::ReadsFail => self.lean_to_reads_fail(),
            Leaning::LongReadsFail => self.lean_to_long_reads_fail(),
            Leaning::ValuesFail => self.lean_to_values_fail(random),
            Leaning::Forced => self.lean_to_forced(random),
            Leaning::Words => self.lean_to_words(random),
        }
        self
    }

    fn lean_to_undone(&mut self, random: &mut Random) {
        self.options.write_buffer_size = random.pick(&[4 << 10, 8 << 10, 16 << 10]);
        self.options.wal_segment_size = 4 << 10;
        self.options.max_memory = 0;
        self.transactions += 8;
        self.longest = 20_000;
        if random.one_in(3) {
            self.fail_by(Mood::Failing(Some(Area::Log), Some(Op::Remove)));
        }
    }

    fn lean_to_piled(&mut self, random: &mut Random) {
        let options = &mut self.options;
        options.write_buffer_size = 64 << 10;
        options.base_level_size = 256 << 10;
        options.target_file_size = 64 << 10;
        options.compaction_threads = 1 + random.below(2) as usize;
        options.max_memory = 0;
        for family in &mut self.family_options {
            (family.l0_compaction_trigger, family.l0_stall_threshold) = (2, 64);
            family.min_levels = 1;
            // Rows of one letter would make no large level.
            family.compression = Compression::None;
        }
        self.family_options.truncate(1);
        self.keys = 300;
        self.transactions += 12;
        self.upkeep = 20 + random.below(40);
        self.longest = 20_000;
    }

    /// The smallest segments, and longer transactions still in memory. A commit without a sync is answered by its write
    /// alone.
    fn lean_to_log_fails(&mut self, random: &mut Random) {
        self.options.wal_segment_size = 4 << 10;
        self.options.write_buffer_size = 64 << 10;
        self.options.max_memory = 0;
        self.options.sync_mode = random.pick(&[SyncMode::Full, SyncMode::Interval, SyncMode::None]);
        self.longest = 20_000;
        let log = Some(Area::Log);
        self.fail_by(random.pick(&[
            Mood::Failing(log, Some(Op::Write)),
            Mood::Failing(log, Some(Op::Write)),
            Mood::Failing(log, Some(Op::Sync)),
            Mood::Full(log),
        ]));
    }

    /// Few rows in large blocks, and a cache of one entry.
    fn lean_to_reads_fail(&mut self) {
        self.options.write_buffer_size = 4 << 10;
        self.clients = 3;
        self.keys = 30;
        self.switch_one_in = 2;
        self.fail_reads_of_blocks(4096);
    }

    /// Many rows in the smallest blocks, and a cache of one entry.
    fn lean_to_long_reads_fail(&mut self) {
        self.options.write_buffer_size = 16 << 10;
        self.options.target_file_size = 64 << 10;
        for family in &mut self.family_options {
            family.compression = Compression::None;
        }
        self.keys = 300;
        self.transactions += 8;
        self.fail_reads_of_blocks(128);
    }

    /// Many rows with all but their first bytes in value files, next to none of them cached, and reads of value files fail.
    fn lean_to_values_fail(&mut self, random: &mut Random) {
        self.formats = Formats::Two;
        self.fail_reads_of_blocks(256);
        for family in &mut self.family_options {
            family.value_threshold = 12;
        }
        self.keys = random.pick(&[30, 300]);
        self.transactions += 8;
        self.fail_by(Mood::Failing(Some(Area::Values), Some(Op::Read)));
    }

    /// Few keys, clients that sleep with locks until they are rolled back, and nobody whom no applier rolls back.
    fn lean_to_forced(&mut self, random: &mut Random) {
        self.options.compaction_threads = 1;
        self.options.max_memory = 0;
        self.clients = 2 + random.below(3) as usize;
        self.keys = random.pick(&[4, 10, 30]);
        self.longest = 2_000;
        self.sleepy = true;
        self.detached = false;
        self.switch_one_in = random.pick(&[2, 2, 10]);
        self.mood = Mood::Sound;
        self.beside.clear();
        let amount = Amount { workers: 1 + random.below(2), rounds: 10 + random.below(50) };
        self.beside.insert(Work::Appliers, amount);
    }

    /// Small values, filters of prefixes in some programs, and one family in most.
    fn lean_to_words(&mut self, random: &mut Random) {
        self.options.max_memory = 0;
        self.longest = 100;
        self.clients = 2 + random.below(3) as usize;
        self.transactions += 6;
        if random.one_in(2) {
            self.family_options.truncate(1);
        }
    }

    /// One family with blocks of so many bytes, next to none of them cached, and reads of tables fail.
    fn fail_reads_of_blocks(&mut self, block_size: u32) {
        self.options.block_cache_size = 1;
        self.options.max_open_files = 64;
        self.options.max_memory = 0;
        for family in &mut self.family_options {
            family.block_size = block_size;
        }
        self.family_options.truncate(1);
        self.longest = 2_000;
        self.most_faults = 30;
        self.fail_by(Mood::Failing(Some(Area::Table), Some(Op::Read)));
    }

    /// With faults of its own, and without work in need of a sound disk.
    fn fail_by(&mut self, mood: Mood) {
        self.mood = mood;
        self.beside.retain(|work, _| !work.needs_sound_disk());
    }
}
