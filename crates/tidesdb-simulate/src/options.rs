//! Options by a seed, from the smallest that the engine takes to ordinary ones, and their changes in an open store.

use tidesdb_simulated::{BlockCodec, Compression, DirectReads, FamilyOptions, Options, SyncMode};

use crate::events::hit;
use crate::random::Random;
use crate::world::{sleep_below, World};

const MODES: [SyncMode; 4] = [SyncMode::Full, SyncMode::Full, SyncMode::Interval, SyncMode::None];
const COMPRESSIONS: [Compression; 5] =
    [Compression::None, Compression::Snappy, Compression::Lz4, Compression::Zstd, Compression::Lz4Fast];

/// The options of a store.
pub fn store_options(random: &mut Random) -> Options {
    let tiny = !random.one_in(4);
    let options = Options {
        // The smallest ones let a transaction have 10 locks before it trades them, and about 100 rows in memory.
        write_buffer_size: if tiny {
            random.pick(&[4 << 10, 8 << 10, 16 << 10, 16 << 10])
        } else {
            256 << 10
        },
        // One entry, a few, and all.
        block_cache_size: random.pick(&[1, 4 << 10, 64 << 10]),
        wal_segment_size: if tiny { random.pick(&[4 << 10, 16 << 10, 64 << 10]) } else { 1 << 20 },
        target_file_size: random.pick(&[1 << 10, 4 << 10, 64 << 10]),
        base_level_size: random.pick(&[4 << 10, 16 << 10]),
        max_open_files: random.pick(&[4, 8, 64]),
        direct_reads: random.pick(&[DirectReads::On, DirectReads::On, DirectReads::Off]),
        compaction_threads: random.pick(&[0, 1, 1, 1, 2, 2, 2, 2]),
        sync_mode: random.pick(&MODES),
        sync_interval_us: random.pick(&[2_000, 20_000, 128_000]),
        deleted_run: random.pick(&[1, 4, 64]),
        flush_on_close: random.one_in(3),
        finish_compactions_on_close: random.one_in(4),
        ..Options::default()
    };
    let bound = random.one_in(8).then(|| options.memory_sum() + random.pick(&[0, 64 << 10, 4 << 20]));
    // Without a number of its own: other seeds stay what they were.
    let cache_grows = bound.is_some_and(|bound| (bound >> 12) & 1 == 0);
    Options { max_memory: bound.unwrap_or(0), cache_grows, ..options }
}

/// The options of a family; `modes`: some have a sync mode of their own.
pub fn family_options(random: &mut Random, modes: bool) -> FamilyOptions {
    let options = FamilyOptions {
        compression: random.pick(&COMPRESSIONS),
        block_size: random.pick(&[128, 256, 256, 4096]),
        bloom_filter: !random.one_in(4),
        bloom_fpr: random.pick(&[100, 100, 5_000]),
        prefix_len: random.pick(&[0, 0, 1, 3]),
        use_btree: random.one_in(3),
        // Two runs a level.
        l0_compaction_trigger: random.pick(&[1, 2, 2]),
        l0_stall_threshold: random.pick(&[4, 4, 64]),
        level_size_ratio: random.pick(&[2, 2, 10]),
        min_levels: random.pick(&[1, 1, 3]),
        tombstone_density_trigger: random.pick(&[0, 2_000]),
        tombstone_density_min_entries: random.pick(&[1, 16]),
        sync_mode: if modes {
            random.pick(&[None, Some(SyncMode::Full), Some(SyncMode::Interval)])
        } else {
            None
        },
        sync_interval_us: if modes { random.pick(&[0, 5_000]) } else { 0 },
        value_threshold: 0,
        block_codec: BlockCodec::Plain,
    };
    // Without a number of its own. In stores of version 1 it has no effect.
    let value_threshold = match (options.use_btree, options.block_size) {
        (true, 256) => 1,
        (true, _) => 12,
        (false, _) => 0,
    };
    let block_codec = if options.prefix_len == 1 { BlockCodec::Postings } else { BlockCodec::Plain };
    FamilyOptions { value_threshold, block_codec, ..options }
}

/// Changes options of the open store now and then.
pub fn set(world: &World, seed: u64, changes: u64) -> Result<(), String> {
    let mut random = Random::new(seed, 400);
    for _ in 0..changes {
        sleep_below(&mut random, 12_000);
        let mut to = world.db.live_options();
        let before = to.sync_mode;
        let other = store_options(&mut random);
        match random.below(6) {
            0 => to.write_buffer_size = other.write_buffer_size,
            1 => {
                to.block_cache_size = other.block_cache_size;
                to.cache_grows = other.cache_grows;
            }
            2 => to.compaction_threads = other.compaction_threads,
            3 => to.max_open_files = other.max_open_files,
            4 => {
                to.flush_on_close = other.flush_on_close;
                to.finish_compactions_on_close = other.finish_compactions_on_close;
            }
            _ => (to.sync_mode, to.sync_interval_us) = (other.sync_mode, other.sync_interval_us),
        }
        if to.max_memory > 0 {
            to.max_memory = (to.write_buffer_size * 2 + to.block_cache_size) as u64 + (64 << 10);
        }
        world.mode.set(before.min(to.sync_mode));
        let last = world.history.last_answered();
        if let Err(error) = world.db.set_live_options(&to) {
            // An error changes nothing.
            world.mode.set(before);
            world.met(&error).map_err(|what| format!("change of options: {what}"))?;
            continue;
        }
        world.mode.set(to.sync_mode);
        hit("options changed");
        if to.sync_mode == SyncMode::Full {
            // All that was answered before is as durable as what comes.
            world.history.durable_upto(last);
            if before != SyncMode::Full {
                hit("stricter sync mode");
            }
        }
    }
    Ok(())
}
