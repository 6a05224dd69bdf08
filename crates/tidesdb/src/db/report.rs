//! The readable report of a store: figures with their units, in sections; empty sections are left out.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use crate::db::stats::StoreStats;
use crate::db::Db;
use crate::format::units::{Bytes, Micros};
use crate::version::FamilyLevels;

/// Figures of one level.
#[derive(Default)]
struct LevelSums {
    tables: u64,
    bytes: u64,
    entries: u64,
    tombstones: u64,
}

impl Db {
    /// A readable report of the store.
    pub fn report(&self) -> String {
        let s = self.stats();
        let mut out = String::new();
        // Writing to a string does not fail.
        let _ = self.write_report(&s, &mut out);
        out
    }

    fn write_report(&self, s: &StoreStats, out: &mut String) -> fmt::Result {
        let store = self.store();
        writeln!(out, "STORE\n{}\nnewest commit: sequence {}", store.dir.display(), s.global_sequence)?;
        self.write_memory(s, out)?;
        let super_version = store.super_version();
        write_storage(s, &mut super_version.version.families().map(|(_, levels)| &**levels), out)?;
        write_background(s, out)?;
        let asked = s.cache_hits + s.cache_misses;
        if asked > 0 {
            writeln!(
                out,
                "\nBLOCK CACHE\n{} in {} blocks; {} hits ({} of compressed copies), {} misses ({:.1} % hits); {} partitions\n\
                 {} reads of {} {}",
                Bytes(s.cache_bytes),
                s.cache_entries,
                s.cache_hits,
                s.cache_compressed_hits,
                s.cache_misses,
                percent(s.cache_hits, asked),
                s.cache_partitions,
                s.table_reads,
                Bytes(s.table_read_bytes),
                if store.versions.table_files().is_direct() {
                    "past the page cache"
                } else {
                    "through the page cache"
                },
            )?;
        }
        writeln!(
            out,
            "\nMEMTABLES AND LOG\nmemtables: {}, {} sealed\n\
             log: segment {}, {} written in {} groups, {} syncs, {} commits",
            Bytes(s.memtable_bytes),
            s.immutable_memtables,
            s.wal_segment,
            Bytes(s.wal_bytes_written),
            s.wal_groups,
            s.wal_syncs,
            s.commits
        )?;
        if s.user_bytes_written > 0 {
            let written = s.wal_bytes_written + s.flush_bytes_written + s.compaction_bytes_written;
            writeln!(
                out,
                "\nWRITE AMPLIFICATION\n{:.2}: log {}, flushes {} and merges {} for {} of rows",
                written as f64 / s.user_bytes_written as f64,
                Bytes(s.wal_bytes_written),
                Bytes(s.flush_bytes_written),
                Bytes(s.compaction_bytes_written),
                Bytes(s.user_bytes_written)
            )?;
        }
        write_locks(s, out)
    }

    fn write_memory(&self, s: &StoreStats, out: &mut String) -> fmt::Result {
        writeln!(out, "\nMEMORY\n{} of at most {}", Bytes(s.memory.total), Bytes(s.memory_limit))?;
        for (holder, bytes) in s.memory.holders().into_iter().filter(|(_, bytes)| *bytes > 0) {
            writeln!(out, "{holder} {}", Bytes(bytes))?;
        }
        let live = self.store().live.get();
        let set = live.block_cache_size as u64;
        if live.cache_grows {
            writeln!(
                out,
                "block cache: at most {} now, which follows what others leave; {} alongside full write buffers",
                Bytes(s.cache_capacity),
                Bytes(set)
            )?;
        } else if s.cache_capacity < set {
            writeln!(out, "block cache: {} of the {} that are set", Bytes(s.cache_capacity), Bytes(set))?;
        }
        if s.memory_background_waits + s.memory_writer_waits > 0 {
            writeln!(
                out,
                "waits for memory: {} of merges, {} of writers",
                s.memory_background_waits, s.memory_writer_waits
            )?;
        }
        Ok(())
    }
}

fn percent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

fn write_storage(
    s: &StoreStats,
    families: &mut dyn Iterator<Item = &FamilyLevels>,
    out: &mut String,
) -> fmt::Result {
    writeln!(
        out,
        "\nSTORAGE\n{} tables and indexes, {} in {} files, {} of them open",
        s.column_families,
        Bytes(s.data_size_bytes),
        s.total_sstables,
        s.open_sstables
    )?;
    let mut by_level: BTreeMap<u8, LevelSums> = BTreeMap::new();
    for (level, table) in families.flat_map(FamilyLevels::tables) {
        let meta = table.meta();
        let sums = by_level.entry(level).or_default();
        sums.tables += 1;
        sums.bytes += meta.len;
        sums.entries += meta.entries;
        sums.tombstones += meta.tombstones;
    }
    for (level, sums) in by_level {
        write!(
            out,
            "level {level}: {} tables, {}, {} entries",
            sums.tables,
            Bytes(sums.bytes),
            sums.entries
        )?;
        match sums.tombstones {
            0 => writeln!(out)?,
            tombstones => writeln!(out, ", {tombstones} of them tombstones")?,
        }
    }
    if s.total_tombstones > 0 {
        writeln!(
            out,
            "tombstones: {:.1} % of all entries; {:.1} % in the densest table, in level {}",
            percent(s.total_tombstones, s.total_entries),
            100.0 * s.densest.density,
            s.densest.level
        )?;
    }
    if s.total_entries > 0 {
        writeln!(out, "single deletes merged away with their put: {}", s.cancelled_pairs)?;
    }
    Ok(())
}

fn write_background(s: &StoreStats, out: &mut String) -> fmt::Result {
    writeln!(
        out,
        "\nBACKGROUND\nflushes: {} ({} written), {} memtables wait{}\n\
         merges: {} ({} read, {} written), {} run, {} are due",
        s.flush_count,
        Bytes(s.flush_bytes_written),
        s.immutable_memtables,
        if s.is_flushing { ", one is written now" } else { "" },
        s.compaction_count,
        Bytes(s.compaction_bytes_read),
        Bytes(s.compaction_bytes_written),
        s.compaction_queue,
        Bytes(s.compaction_debt_bytes)
    )?;
    if s.backpressure_waits > 0 {
        let time = Micros(s.backpressure_wait_us);
        writeln!(out, "writers were held back {} times, {time} together", s.backpressure_waits)?;
    }
    if s.wal_is_full {
        writeln!(out, "the disk is full: commits wait for room in the log")?;
    } else if s.disk_is_full {
        writeln!(out, "the disk is full")?;
    }
    Ok(())
}

fn write_locks(s: &StoreStats, out: &mut String) -> fmt::Result {
    let locks = &s.locks;
    writeln!(
        out,
        "\nLOCKS AND CONFLICTS\n{} waits ({} together), {} deadlocks, {} timeouts, {} ended by KILL, {} escalations\n\
         now: {} wait, {} grants on {} keys and tables, {} ranges, {}\n\
         rows newer than a snapshot: {}; open snapshots: {}",
        locks.waits,
        Micros(locks.wait_us),
        locks.deadlocks,
        locks.timeouts,
        locks.kills,
        locks.escalations,
        locks.waiting,
        locks.held,
        locks.entries,
        locks.ranges,
        Bytes(locks.bytes),
        s.conflicts,
        s.snapshots
    )
}
