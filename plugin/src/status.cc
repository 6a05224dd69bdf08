#include "status.h"

#include <mysql/plugin.h>

#include <cstddef>
#include <mutex>

#include "handler/row_counts.h"
#include "store/store.h"
#include "txn/admission.h"

namespace tidesdb {

namespace {

constexpr ulonglong VERSION_HEX = 0x000100;

/* What SHOW STATUS prints. */
struct Shown {
  tidesdb_stats stats;
  AdmissionFigures admission;
  RowCounts rows;
  const char *version;
  ulonglong version_hex;
  ulonglong memory_pressure;
  ulonglong passed_entries;
  double cache_hit_rate;
  double tombstone_ratio;
  double max_tombstone_density;
  ulonglong one;
  ulonglong zero;
};

double ratio(ulonglong part, ulonglong whole) {
  return whole ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

/* One variable: where its value is in Shown, and what it means. */
struct Variable {
  const char *name;
  size_t offset;
  enum enum_mysql_show_type type;
  bool grows;
  const char *comment;
  bool is_holder; /* of memory */
};

#define STAT(name, member, grows, comment) \
  { name, offsetof(Shown, stats) + offsetof(tidesdb_stats, member), SHOW_ULONGLONG, grows, comment, false }
#define COUNTER(name, member, comment) STAT(name, member, true, comment)
#define GAUGE(name, member, comment) STAT(name, member, false, comment)
#define HOLDER(member, comment)                                                                           \
  {                                                                                                       \
    "memory_" #member, offsetof(Shown, stats) + offsetof(tidesdb_stats, memory_##member), SHOW_ULONGLONG, \
        false, comment, true                                                                              \
  }
#define ADMISSION(name, member, comment)                                                                  \
  {                                                                                                       \
    name, offsetof(Shown, admission) + offsetof(AdmissionFigures, member), SHOW_ULONGLONG, true, comment, \
        false                                                                                             \
  }
#define ROWS(name, member, comment) \
  { name, offsetof(Shown, rows) + offsetof(RowCounts, member), SHOW_ULONGLONG, true, comment, false }
#define OTHER(name, member, type, comment) \
  { name, offsetof(Shown, member), type, false, comment, false }
#define PLUGIN_COUNTER(name, member, comment) \
  { name, offsetof(Shown, member), SHOW_ULONGLONG, true, comment, false }
/* Files are local: nothing is there, and nothing is counted. */
#define OBJECT_STORE(name) OTHER(name, zero, SHOW_ULONGLONG, "object store: not in this build")

constexpr Variable variables[] = {
    OTHER("version", version, SHOW_CHAR_PTR, ""),
    OTHER("version_hex", version_hex, SHOW_ULONGLONG, "version of the plugin, two digits a part"),
    OTHER("library_version", version, SHOW_CHAR_PTR, ""),
    GAUGE("column_families", column_families, "tables and their indexes, each one"),
    GAUGE("global_sequence", global_sequence, "number of the newest commit"),
    GAUGE("memtable_bytes", memtable_bytes, "bytes of all memtables"),
    GAUGE("txn_memory_bytes", txn_memory_bytes, "bytes of changes of open transactions"),
    GAUGE("memory_limit", memory_limit, "bound on the engine's memory in bytes"),
    OTHER("memory_pressure", memory_pressure, SHOW_ULONGLONG, "memory_total in percent of memory_limit"),
    GAUGE("memory_total", memory_total, "bytes in use by the engine: the sum of the next ones"),
    HOLDER(block_cache, "blocks, index and filter partitions, free places between them"),
    HOLDER(memtables, "rows that are not in files yet"),
    HOLDER(spare_memtables, "memory that the next memtables take"),
    HOLDER(transactions, "changes of transactions that have not ended"),
    HOLDER(locks, "the lock table"),
    HOLDER(read_ahead, "stretches of files ahead of scans and merges"),
    HOLDER(table_writers, "blocks, indexes and filters of files under construction"),
    HOLDER(sorts, "sorts of index builds"),
    HOLDER(rest, "holders without a figure"),
    GAUGE("memory_shortage", memory_shortage,
          "0: none; 1: the cache is smaller than set; 2: compactions wait, too; 3: writers, too"),
    COUNTER("memory_background_waits", memory_background_waits, "times that a compaction waited for memory"),
    COUNTER("memory_writer_waits", memory_writer_waits, "times that a writer waited for memory"),
    GAUGE("total_sstables", total_sstables, "table files"),
    GAUGE("open_sstables", open_sstables, "table files that are open"),
    GAUGE("data_size_bytes", data_size_bytes, "bytes of the table files"),
    GAUGE("immutable_memtables", immutable_memtables, "memtables that wait for a flush"),
    GAUGE("flush_pending", flush_pending, "as immutable_memtables"),
    GAUGE("flush_queue", flush_queue, "as immutable_memtables"),
    GAUGE("compaction_queue", compaction_queue, "compactions that run"),
    GAUGE("cache_entries", cache_entries, "blocks in the cache"),
    GAUGE("cache_bytes", cache_bytes, "bytes in the cache"),
    GAUGE("cache_capacity", cache_capacity, "bytes that the cache may have now"),
    COUNTER("cache_hits", cache_hits, "blocks found in the cache"),
    COUNTER("cache_misses", cache_misses, "blocks read from files"),
    COUNTER("cache_compressed_hits", cache_compressed_hits,
            "those of cache_hits of which the cache had a compressed copy"),
    COUNTER("table_reads", table_reads,
            "reads of blocks that the cache did not have; merges are not among them"),
    COUNTER("table_read_bytes", table_read_bytes, "bytes of table_reads"),
    GAUGE("value_files", value_files, "files of values of KLOG_VALUE_THRESHOLD bytes or more"),
    GAUGE("value_bytes", value_bytes, "bytes of the values in them that tables point to, as stored"),
    COUNTER("value_bytes_written", value_bytes_written, "bytes written to them"),
    COUNTER("value_bytes_freed", value_bytes_freed,
            "bytes of dead values given back by files that others need; files without any are unlinked"),
    OTHER("cache_hit_rate", cache_hit_rate, SHOW_DOUBLE, "hits of hits and misses, 0 to 1"),
    GAUGE("cache_partitions", cache_partitions, "parts of the cache with a latch each"),
    GAUGE("total_tombstones", total_tombstones, "tombstones in table files"),
    OTHER("tombstone_ratio", tombstone_ratio, SHOW_DOUBLE, "tombstones of all entries in files, 0 to 1"),
    OTHER("max_sst_tombstone_density", max_tombstone_density, SHOW_DOUBLE,
          "the same of the densest segment, 0 to 1"),
    GAUGE("max_sst_tombstone_density_level", max_tombstones_level, "level of that segment"),
    GAUGE("expiry_clock_lag_seconds", expiry_clock_lag_seconds,
          "seconds by which the system's clock is behind the clock by which rows expire"),
    COUNTER("backpressure_waits", backpressure_waits, "times a writer was held back"),
    COUNTER("backpressure_wait_us", backpressure_wait_us, "microseconds for which writers were held back"),
    ADMISSION("procedure_waits", waits, "transactions in procedures that waited for their turn"),
    ADMISSION("procedure_wait_us", wait_us, "microseconds that they waited"),
    COUNTER("lock_waits", lock_waits, "waits for locks"),
    COUNTER("lock_wait_us", lock_wait_us, "microseconds waited for locks"),
    COUNTER("lock_deadlocks", lock_deadlocks, "deadlocks"),
    COUNTER("lock_timeouts", lock_timeouts, "waits for locks that timed out"),
    GAUGE("lock_held", lock_held, "locks held now"),
    GAUGE("lock_entries", lock_entries, "keys and tables that are locked or waited for now"),
    COUNTER("lock_entry_recycles", lock_entry_recycles, "entries of the lock table used for another key"),
    GAUGE("lock_chain_max", lock_chain_max, "longest chain of waits that a deadlock search followed"),
    GAUGE("lock_waiting", lock_waiting, "transactions that wait for a lock now"),
    COUNTER("lock_escalations", lock_escalations, "times a transaction's locks became a lock on the table"),
    COUNTER("conflicts", conflicts, "rows found newer than the snapshot of who wanted to change them"),
    PLUGIN_COUNTER("virtual_index_passed_entries", passed_entries,
                   "entries of indexes over virtual columns without a row, passed over"),
    GAUGE("open_snapshots", snapshots, "snapshots that are open"),
    OTHER("unified_memtable_enabled", one, SHOW_ULONGLONG, "1: one memtable for all tables"),
    GAUGE("unified_memtable_bytes", memtable_bytes, "as memtable_bytes"),
    GAUGE("unified_immutable_count", immutable_memtables, "as immutable_memtables"),
    GAUGE("unified_is_flushing", is_flushing, "1: a flush runs"),
    GAUGE("unified_wal_generation", wal_generation, "number of the log's newest segment"),
    COUNTER("uwal_bytes_written", wal_bytes_written, "bytes written to the log"),
    COUNTER("wal_bytes_written", wal_bytes_written, "as uwal_bytes_written"),
    COUNTER("flush_bytes_written", flush_bytes_written, "bytes that flushes wrote"),
    COUNTER("compaction_bytes_written", compaction_bytes_written, "bytes that compactions wrote"),
    COUNTER("compaction_bytes_read", compaction_bytes_read, "bytes that compactions read"),
    GAUGE("compaction_debt_bytes", compaction_debt_bytes, "bytes that are due for compaction"),
    COUNTER("user_bytes_written", user_bytes_written, "bytes of keys and values that were committed"),
    COUNTER("flush_count", flush_count, "flushes"),
    COUNTER("flush_us", flush_us, "microseconds that flushes took"),
    COUNTER("flush_failures", flush_failures, "flushes that failed; each is tried again"),
    COUNTER("compaction_count", compaction_count, "compactions"),
    COUNTER("compaction_us", compaction_us, "microseconds that compactions took"),
    COUNTER("compaction_failures", compaction_failures, "compactions that failed; each is tried again"),
    GAUGE("set_aside_families", set_aside_families,
          "tables and indexes that compactions pass over for a while, because one failed"),
    COUNTER("damage_met", damage_met, "times that a read or background work met damaged data"),
    GAUGE("missing_files", missing_files, "table files that are gone"),
    GAUGE("read_only", read_only, "1: the log failed, changes are refused until a restart"),
    GAUGE("free_space_bytes", free_space_bytes, "bytes free on the store's file system"),
    GAUGE("oldest_snapshot_seconds", oldest_snapshot_seconds,
          "seconds since the oldest transaction that holds a snapshot began"),
    ROWS("rows_read", read, "rows read by statements, by the server's count"),
    ROWS("rows_changed", changed, "rows inserted, updated and deleted by statements"),
    COUNTER("get_samples", get_samples, "searches for a key that were measured, one of 256"),
    COUNTER("get_sample_us", get_sample_us, "microseconds that these took"),
    COUNTER("commit_samples", commit_samples, "commits that were measured, one of 64"),
    COUNTER("commit_sample_us", commit_sample_us,
            "microseconds that these took, from the place in the order to the answer"),
    COUNTER("wal_syncs", wal_syncs, "syncs of the log"),
    COUNTER("wal_sync_us", wal_sync_us, "microseconds that they took"),
    COUNTER("wal_groups", wal_groups, "groups of commits written to the log"),
    COUNTER("wal_full", wal_full, "times that commits had to wait for room in the log"),
    GAUGE("disk_full", disk_full, "1: changes, flushes or merges find no room on the disk"),
    COUNTER("disk_full_count", disk_full_count, "times that the disk became full"),
    COUNTER("commits", commits, "commits with changes"),
    COUNTER("spilled_runs", spilled_runs, "sorted runs that large transactions wrote"),
    OBJECT_STORE("object_store_enabled"),
    OBJECT_STORE("replica_mode_active"),
    OBJECT_STORE("primary_epoch"),
    OBJECT_STORE("seen_epoch"),
    OBJECT_STORE("local_cache_bytes"),
    OBJECT_STORE("local_cache_files"),
    OBJECT_STORE("upload_queue_depth"),
    OBJECT_STORE("total_uploads"),
    OBJECT_STORE("upload_failures"),
    OBJECT_STORE("last_uploaded_generation"),
};

Shown look(tidesdb_db *db) {
  Shown shown = {};
  shown.stats.struct_size = sizeof(shown.stats);
  if (db) tidesdb_get_stats(db, &shown.stats);
  const tidesdb_stats &stats = shown.stats;
  shown.admission = admission_figures();
  shown.rows = row_counts();
  shown.passed_entries = passed_index_entries();
  shown.version = tidesdb_version();
  shown.version_hex = VERSION_HEX;
  shown.memory_pressure = static_cast<ulonglong>(100 * ratio(stats.memory_total, stats.memory_limit));
  shown.cache_hit_rate = ratio(stats.cache_hits, stats.cache_hits + stats.cache_misses);
  shown.tombstone_ratio = ratio(stats.total_tombstones, stats.total_entries);
  shown.max_tombstone_density = static_cast<double>(stats.max_tombstones_per_million) / 1e6;
  shown.one = 1;
  return shown;
}

/* Fills what the server reads after it: for each SHOW, by one connection at a time. */
int fill(MYSQL_THD, struct st_mysql_show_var *variable, void *, struct system_status_var *,
         enum enum_var_type) {
  static std::mutex mutex;
  static Shown shown;
  static struct st_mysql_show_var list[array_elements(variables) + 1];
  std::lock_guard<std::mutex> guard(mutex);
  shown = look(plugin.db);
  for (size_t i = 0; i < array_elements(variables); i++)
    list[i] = {variables[i].name, reinterpret_cast<char *>(&shown) + variables[i].offset, variables[i].type};
  list[array_elements(variables)] = {nullptr, nullptr, SHOW_LONG};
  variable->type = SHOW_ARRAY;
  variable->value = reinterpret_cast<char *>(list);
  return 0;
}

}  // namespace

struct st_mysql_show_var status_variables[] = {{"tidesdb", reinterpret_cast<char *>(fill), SHOW_FUNC},
                                               {nullptr, nullptr, SHOW_LONG}};

std::vector<MetricValue> metrics(tidesdb_db *db) {
  const Shown shown = look(db);
  std::vector<MetricValue> values;
  for (const Variable &variable : variables) {
    const char *at = reinterpret_cast<const char *>(&shown) + variable.offset;
    double value;
    if (variable.type == SHOW_ULONGLONG)
      value = static_cast<double>(*reinterpret_cast<const ulonglong *>(at));
    else if (variable.type == SHOW_DOUBLE)
      value = *reinterpret_cast<const double *>(at);
    else
      continue;
    values.push_back({variable.name, value, variable.grows, variable.comment, variable.is_holder});
  }
  return values;
}

}  // namespace tidesdb
