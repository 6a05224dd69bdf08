#include "status.h"

#include <mysql/plugin.h>

#include <mutex>

#include "store/store.h"
#include "tidesdb.h"

namespace tidesdb {

namespace {

constexpr ulonglong VERSION_HEX = 0x000100;

/* What SHOW STATUS prints: filled by fill() for each SHOW, by one connection at a time. */
struct Shown {
  tidesdb_stats stats;
  const char *version;
  ulonglong version_hex;
  ulonglong memory_pressure;
  double cache_hit_rate;
  double tombstone_ratio;
  ulonglong unified_memtable_enabled;
};
Shown shown;

double ratio(ulonglong part, ulonglong whole) {
  return whole ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

#define COUNTER(name, member) \
  { name, reinterpret_cast<char *>(&shown.stats.member), SHOW_ULONGLONG }

struct st_mysql_show_var counters[] = {
    {"version", reinterpret_cast<char *>(&shown.version), SHOW_CHAR_PTR},
    {"version_hex", reinterpret_cast<char *>(&shown.version_hex), SHOW_ULONGLONG},
    {"library_version", reinterpret_cast<char *>(&shown.version), SHOW_CHAR_PTR},
    COUNTER("column_families", column_families),
    COUNTER("global_sequence", global_sequence),
    COUNTER("memtable_bytes", memtable_bytes),
    COUNTER("txn_memory_bytes", txn_memory_bytes),
    COUNTER("memory_limit", memory_limit),
    {"memory_pressure", reinterpret_cast<char *>(&shown.memory_pressure), SHOW_ULONGLONG},
    COUNTER("total_sstables", total_sstables),
    COUNTER("open_sstables", open_sstables),
    COUNTER("data_size_bytes", data_size_bytes),
    COUNTER("immutable_memtables", immutable_memtables),
    COUNTER("flush_pending", flush_pending),
    COUNTER("flush_queue", flush_queue),
    COUNTER("compaction_queue", compaction_queue),
    COUNTER("cache_entries", cache_entries),
    COUNTER("cache_bytes", cache_bytes),
    COUNTER("cache_hits", cache_hits),
    COUNTER("cache_misses", cache_misses),
    {"cache_hit_rate", reinterpret_cast<char *>(&shown.cache_hit_rate), SHOW_DOUBLE},
    COUNTER("cache_partitions", cache_partitions),
    COUNTER("total_tombstones", total_tombstones),
    {"tombstone_ratio", reinterpret_cast<char *>(&shown.tombstone_ratio), SHOW_DOUBLE},
    COUNTER("backpressure_waits", backpressure_waits),
    COUNTER("backpressure_wait_us", backpressure_wait_us),
    COUNTER("lock_waits", lock_waits),
    COUNTER("lock_wait_us", lock_wait_us),
    COUNTER("lock_deadlocks", lock_deadlocks),
    COUNTER("lock_timeouts", lock_timeouts),
    COUNTER("lock_held", lock_held),
    COUNTER("lock_entries", lock_entries),
    COUNTER("lock_chain_max", lock_chain_max),
    {"unified_memtable_enabled", reinterpret_cast<char *>(&shown.unified_memtable_enabled), SHOW_ULONGLONG},
    COUNTER("unified_memtable_bytes", memtable_bytes),
    COUNTER("unified_immutable_count", immutable_memtables),
    COUNTER("unified_is_flushing", is_flushing),
    COUNTER("unified_wal_generation", wal_generation),
    COUNTER("uwal_bytes_written", wal_bytes_written),
    COUNTER("wal_bytes_written", wal_bytes_written),
    COUNTER("flush_bytes_written", flush_bytes_written),
    COUNTER("compaction_bytes_written", compaction_bytes_written),
    COUNTER("compaction_bytes_read", compaction_bytes_read),
    COUNTER("compaction_debt_bytes", compaction_debt_bytes),
    COUNTER("user_bytes_written", user_bytes_written),
    COUNTER("flush_count", flush_count),
    COUNTER("compaction_count", compaction_count),
    COUNTER("wal_syncs", wal_syncs),
    COUNTER("wal_groups", wal_groups),
    COUNTER("commits", commits),
    COUNTER("spilled_runs", spilled_runs),
    {nullptr, nullptr, SHOW_LONG}};

int fill(MYSQL_THD, struct st_mysql_show_var *variable, void *, struct system_status_var *,
         enum enum_var_type) {
  static std::mutex mutex;
  std::lock_guard<std::mutex> guard(mutex);
  tidesdb_stats stats;
  memset(&stats, 0, sizeof(stats));
  stats.struct_size = sizeof(stats);
  if (plugin.db) tidesdb_get_stats(plugin.db, &stats);
  shown.stats = stats;
  shown.version = tidesdb_version();
  shown.version_hex = VERSION_HEX;
  shown.memory_pressure = static_cast<ulonglong>(
      100 * ratio(stats.memtable_bytes + stats.txn_memory_bytes + stats.cache_bytes, stats.memory_limit));
  shown.cache_hit_rate = ratio(stats.cache_hits, stats.cache_hits + stats.cache_misses);
  shown.tombstone_ratio = ratio(stats.total_tombstones, stats.total_entries);
  shown.unified_memtable_enabled = 1;
  variable->type = SHOW_ARRAY;
  variable->value = reinterpret_cast<char *>(counters);
  return 0;
}

}  // namespace

struct st_mysql_show_var status_variables[] = {{"tidesdb", reinterpret_cast<char *>(fill), SHOW_FUNC},
                                               {nullptr, nullptr, SHOW_LONG}};

bool show_engine_status(handlerton *, THD *thd, stat_print_fn *print, ha_stat_type type) {
  if (type != HA_ENGINE_STATUS) return false;
  char *text = nullptr;
  if (tidesdb_status_text(plugin.db, &text) != TIDESDB_OK) return false;
  static const char engine[] = "TidesDB";
  const bool failed = print(thd, engine, sizeof(engine) - 1, "", 0, text, strlen(text));
  tidesdb_free_text(text);
  return failed;
}

}  // namespace tidesdb
