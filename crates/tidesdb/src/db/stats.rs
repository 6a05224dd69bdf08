//! Counters of a store.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::db::Db;
use crate::error::Result;
use crate::latency::Measured;
use crate::lock::LockStats;
use crate::store::family::Family;
use crate::store::memory::{MemoryUse, Shortage};
use crate::version::Totals;

/// The densest table.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Densest {
    /// Tombstones per entry, 0 to 1.
    pub density: f64,
    /// Its level.
    pub level: u8,
}

/// Figures of a family, known without reading data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FamilyStats {
    /// Live rows: exact, for all visible commits, if `counted`; else an estimate.
    pub entries: u64,
    /// True if the rows are counted. Families of an earlier build's store are not counted before
    /// [`Db::count_rows`].
    pub counted: bool,
    /// Tombstones in files and memtables.
    pub tombstones: u64,
    /// Bytes of tables on disk.
    pub data_bytes: u64,
    /// Bytes of values in value files, as stored; every version counts that a table has.
    pub value_bytes: u64,
    /// Bytes of keys and their newest values in memtables.
    pub memtable_bytes: u64,
    /// Estimated bytes of key and value of a row, uncompressed.
    pub mean_row_bytes: u64,
    /// Most runs visited by a read.
    pub runs: u32,
    /// Levels with tables.
    pub levels: u32,
}

/// Figures of a store.
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs)] // Named as the status variables that show them.
pub struct StoreStats {
    pub column_families: u64,
    pub global_sequence: u64,
    pub memtable_bytes: u64,
    pub txn_memory_bytes: u64,
    pub memory_limit: u64,
    pub memory: MemoryUse,
    pub shortage: Shortage,
    /// The present size of the cache: at most its option.
    pub cache_capacity: u64,
    /// Number of waits of compactions, and of writers, for memory.
    pub memory_background_waits: u64,
    pub memory_writer_waits: u64,
    pub total_sstables: u64,
    pub open_sstables: u64,
    pub data_size_bytes: u64,
    pub immutable_memtables: u64,
    pub compaction_queue: u64,
    pub cache_entries: u64,
    pub cache_bytes: u64,
    pub cache_hits: u64,
    pub cache_misses: u64,
    /// Hits of a compressed copy.
    pub cache_compressed_hits: u64,
    pub cache_partitions: u64,
    /// Reads of blocks that the cache did not have, and their bytes; those of merges are not among them.
    pub table_reads: u64,
    pub table_read_bytes: u64,
    pub value_files: u64,
    /// Bytes of the values that tables point to, as stored; every version counts.
    pub value_bytes: u64,
    pub value_bytes_written: u64,
    /// Bytes of dead values given back, of files with needed ones.
    pub value_bytes_freed: u64,
    pub total_tombstones: u64,
    pub total_entries: u64,
    /// The table with most tombstones for each of its entries.
    pub densest: Densest,
    pub backpressure_waits: u64,
    pub backpressure_wait_us: u64,
    /// Number of rows found newer than the snapshot of a changing transaction.
    pub conflicts: u64,
    pub locks: LockStats,
    pub wal_segment: u64,
    pub wal_bytes_written: u64,
    pub flush_bytes_written: u64,
    pub compaction_bytes_written: u64,
    pub compaction_bytes_read: u64,
    pub user_bytes_written: u64,
    pub flush_count: u64,
    pub compaction_count: u64,
    pub compaction_debt_bytes: u64,
    pub is_flushing: bool,
    pub wal_syncs: u64,
    pub wal_groups: u64,
    /// Commits wait for room in the log.
    pub wal_is_full: bool,
    /// Number of times the log ran out of room.
    pub wal_full: u64,
    /// Log, flushes or merges find no room on the disk.
    pub disk_is_full: bool,
    /// Number of times the disk became full.
    pub disk_full_count: u64,
    pub commits: u64,
    /// Runs written by transactions beyond the bound on memory.
    pub spilled_runs: u64,
    /// Puts dropped by flushes and compactions together with their single delete. A job repeated after an
    /// uninstalled edit counts again.
    pub cancelled_pairs: u64,
    pub snapshots: u64,
    /// Seconds by which the wall clock is behind the expiry clock.
    pub expiry_lag: u64,
    /// Searches for a key, a sample.
    pub gets: Measured,
    /// Commits from their place in the order to the answer, a sample.
    pub commit_times: Measured,
    pub sync_times: Measured,
    pub flush_times: Measured,
    pub merge_times: Measured,
    pub flush_failures: u64,
    pub merge_failures: u64,
    /// Number of times background work met damage.
    pub corruptions: u64,
    /// Families passed over by merges for a while, after a failed one.
    pub set_aside_families: u64,
    /// Number of missing files.
    pub missing_files: u64,
    /// Every change is refused: the log failed, or the store was opened read-only.
    pub is_read_only: bool,
    /// Age of the oldest transaction with a snapshot, in seconds.
    pub oldest_snapshot_seconds: u64,
    pub free_space: u64,
}

impl Db {
    /// Figures of a family without reading data: the sums of its memtables, levels and newest runs. The time
    /// does not depend on their size.
    pub fn family_stats(&self, family: &Family) -> Result<FamilyStats> {
        self.store().check_open()?;
        family.check_live()?;
        let super_version = self.store().super_version();
        let mut stats = FamilyStats { runs: 1 + super_version.sealed.len() as u32, ..FamilyStats::default() };
        let mut all = Totals::default();
        let row_count = super_version.row_count(family.id());
        for tree in super_version.memtables().filter_map(|memtable| memtable.tree(family.id())) {
            all.entries += tree.entries();
            all.tombstones += tree.tombstones();
            all.keys += tree.keys();
            all.raw_bytes += tree.raw_bytes();
            stats.memtable_bytes += tree.live_bytes();
        }
        for table in super_version.sealed.iter().flat_map(|flushable| flushable.tables(family.id())) {
            all.add(&Totals::of(table.meta()));
        }
        if let Some(levels) = super_version.version.family(family.id()) {
            levels.l0.iter().for_each(|table| all.add(&Totals::of(table.meta())));
            levels.levels.iter().for_each(|level| all.add(level.totals()));
            let filled = levels.levels.iter().filter(|level| !level.tables().is_empty()).count();
            stats.runs += (levels.l0.len() + filled) as u32;
            stats.levels = levels.levels.len() as u32;
        }
        stats.tombstones = all.tombstones;
        (stats.data_bytes, stats.value_bytes) = (all.bytes, all.value_bytes);
        let rows = row_count.known();
        stats.counted = rows.is_some();
        // A tombstone is an entry, and hides one.
        stats.entries = rows.unwrap_or(all.keys.saturating_sub(all.tombstones.saturating_mul(2)));
        stats.mean_row_bytes = (all.raw_bytes + all.value_bytes) / all.entries.max(1);
        Ok(stats)
    }

    /// Figures of the store.
    #[allow(clippy::too_many_lines, reason = "one line for each figure")]
    pub fn stats(&self) -> StoreStats {
        let store = self.store();
        let super_version = store.super_version();
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (files, _) = store.versions.live_files();
        let (mut tombstones, mut entries, mut value_bytes) = (0, 0, 0);
        let mut densest = Densest::default();
        for (_, levels) in super_version.version.families() {
            for (level, table) in levels.tables() {
                tombstones += table.meta().tombstones;
                entries += table.meta().entries;
                value_bytes += table.meta().value_bytes();
                let density = table.meta().tombstones as f64 / table.meta().entries.max(1) as f64;
                if density > densest.density {
                    densest = Densest { density, level };
                }
            }
        }
        let (snapshots, _) = store.snapshots.oldest();
        let locks = self.transactions.locks.stats();
        let memory = store.memory(locks.bytes);
        StoreStats {
            column_families: store.catalog.len() as u64,
            global_sequence: store.pipeline.visible_seq(),
            memtable_bytes: memory.memtables,
            txn_memory_bytes: memory.transactions,
            memory_limit: store.options_now().memory_limit(),
            memory,
            shortage: store.memory_bound.shortage(),
            cache_capacity: store.cache.capacity() as u64,
            memory_background_waits: of(&store.memory_bound.background_waits),
            memory_writer_waits: of(&store.memory_bound.writer_waits),
            total_sstables: files.len() as u64,
            open_sstables: store.versions.table_files().open_files() as u64,
            data_size_bytes: files.iter().map(|file| file.len).sum(),
            immutable_memtables: super_version.memtables().skip(1).count() as u64,
            compaction_queue: self.maintenance.reservations.len() as u64,
            cache_entries: store.cache.entries() as u64,
            cache_bytes: store.cache.bytes() as u64,
            cache_hits: store.cache.hits(),
            cache_misses: store.cache.misses(),
            cache_compressed_hits: store.cache.copy_hits(),
            cache_partitions: store.cache.shard_count() as u64,
            table_reads: store.versions.table_files().reads() + store.versions.values().store().reads(),
            table_read_bytes: store.versions.table_files().read_bytes()
                + store.versions.values().store().read_bytes(),
            value_files: store.versions.values().count() as u64,
            value_bytes,
            value_bytes_written: store.versions.values().written_bytes(),
            value_bytes_freed: of(&store.stats.value_bytes_freed),
            total_tombstones: tombstones,
            total_entries: entries,
            densest,
            backpressure_waits: of(&store.stats.backpressure_waits),
            backpressure_wait_us: of(&store.stats.backpressure_wait_us),
            conflicts: of(&store.stats.conflicts),
            locks,
            wal_segment: store.wal.written_lsn().segment().into(),
            wal_bytes_written: store.wal.bytes_written(),
            flush_bytes_written: of(&store.stats.flush_bytes),
            compaction_bytes_written: of(&store.stats.compaction_written),
            compaction_bytes_read: of(&store.stats.compaction_read),
            user_bytes_written: of(&store.stats.user_bytes),
            flush_count: of(&store.stats.flushes),
            compaction_count: of(&store.stats.compactions),
            compaction_debt_bytes: store.pressure.debt(),
            is_flushing: of(&store.stats.flushing) != 0,
            expiry_lag: store.expiry_lag(),
            wal_syncs: store.wal.syncs(),
            wal_groups: store.wal.groups(),
            wal_is_full: store.wal.full().0,
            wal_full: store.wal.full().1,
            disk_is_full: store.wal.fullness().is_full(),
            disk_full_count: store.wal.fullness().times(),
            commits: of(&store.stats.commits),
            spilled_runs: of(&store.stats.spilled_runs),
            cancelled_pairs: of(&store.stats.cancelled_pairs),
            snapshots: snapshots as u64,
            gets: store.stats.gets.get(),
            commit_times: store.stats.commit_times.get(),
            sync_times: store.wal.sync_times(),
            flush_times: store.stats.flush_times.get(),
            merge_times: store.stats.merge_times.get(),
            flush_failures: of(&store.stats.flush_failures),
            merge_failures: of(&store.stats.merge_failures),
            corruptions: of(&store.stats.corruptions),
            set_aside_families: self.maintenance.reservations.quarantine().failed_families().len() as u64,
            missing_files: store.versions.missing().len() as u64,
            is_read_only: store.check_writable().is_err(),
            oldest_snapshot_seconds: self.oldest_snapshot_age() / 1_000_000,
            free_space: store.free_space(),
        }
    }

    /// Microseconds since the begin of the oldest transaction with a snapshot.
    fn oldest_snapshot_age(&self) -> u64 {
        let begun = self.transactions().into_iter().filter(|txn| txn.snapshot.is_some());
        let oldest = begun.filter_map(|txn| txn.begun_us).min();
        oldest.map_or(0, |begun| self.now_micros().saturating_sub(begun))
    }
}
