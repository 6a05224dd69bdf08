#include "status_text.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "ddl/known_families.h"
#include "foreign/declaration.h"
#include "store/store.h"
#include "txn/deadlocks.h"
#include "txn/wait_observer.h"

namespace tidesdb {

namespace {

/* Transactions that are listed, the oldest ones; waits that are looked at for their keys. */
constexpr size_t MOST_TRANSACTIONS = 50;
constexpr size_t MOST_WAITS = 1000;

/* Rates over less say little. */
constexpr uint64_t SHORTEST_PERIOD_US = 1000000;

constexpr double MIB = 1024 * 1024;

void add_heading(const char *heading, std::string *text) {
  *text += "\n";
  *text += heading;
  *text += "\n";
}

/* ---- rates ---- */

struct Sample {
  uint64_t at_us = 0;
  tidesdb_stats stats = {};
};

struct Rates {
  std::mutex mutex;
  Sample last;
};
Rates rates;

Sample sample_now(tidesdb_db *db) {
  Sample now;
  now.stats.struct_size = sizeof(now.stats);
  tidesdb_get_stats(db, &now.stats);
  now.at_us = tidesdb_now_micros(db);
  return now;
}

void add_rates(tidesdb_db *db, std::string *text) {
  const Sample now = sample_now(db);
  Sample before;
  {
    const std::lock_guard<std::mutex> guard(rates.mutex);
    /* Of another store, before the plugin was loaded again. */
    if (rates.last.at_us > now.at_us || rates.last.stats.commits > now.stats.commits) rates.last = Sample();
    before = rates.last;
    if (before.at_us == 0 || now.at_us - before.at_us >= SHORTEST_PERIOD_US) rates.last = now;
  }
  if (before.at_us == 0 || now.at_us - before.at_us < SHORTEST_PERIOD_US) return;
  const double seconds = static_cast<double>(now.at_us - before.at_us) / 1e6;
  const auto per_second = [&](uint64_t tidesdb_stats::*figure) {
    return static_cast<double>(now.stats.*figure - before.stats.*figure) / seconds;
  };
  char line[512];
  add_heading("RATES", text);
  snprintf(line, sizeof(line),
           "a second, over the %.0f s since the call before:\n"
           "%.1f commits, %.1f log syncs, %.1f lock waits, %.1f conflicts, %.1f blocks from the cache, %.1f "
           "from files\n"
           "%.2f MiB of rows, %.2f MiB of log, %.2f MiB of flushes, %.2f MiB read and %.2f MiB written by "
           "merges\n",
           seconds, per_second(&tidesdb_stats::commits), per_second(&tidesdb_stats::wal_syncs),
           per_second(&tidesdb_stats::lock_waits), per_second(&tidesdb_stats::conflicts),
           per_second(&tidesdb_stats::cache_hits), per_second(&tidesdb_stats::cache_misses),
           per_second(&tidesdb_stats::user_bytes_written) / MIB,
           per_second(&tidesdb_stats::wal_bytes_written) / MIB,
           per_second(&tidesdb_stats::flush_bytes_written) / MIB,
           per_second(&tidesdb_stats::compaction_bytes_read) / MIB,
           per_second(&tidesdb_stats::compaction_bytes_written) / MIB);
  *text += line;
}

/* ---- transactions ---- */

int keep_transaction(void *list, const tidesdb_txn_info *info) {
  static_cast<std::vector<tidesdb_txn_info> *>(list)->push_back(*info);
  return 0;
}

int keep_wait(void *waits, const tidesdb_lock_info *info) {
  if (info->waiting)
    (*static_cast<std::unordered_map<uint64_t, std::string> *>(waits))[info->txn] =
        std::string(reinterpret_cast<const char *>(info->mode.data), info->mode.size) + " on " +
        lock_place(*info);
  return 0;
}

void add_transaction(const tidesdb_txn_info &info, uint64_t now, const std::string &statement,
                     const std::string &wait, std::string *text) {
  *text += "transaction " + std::to_string(info.id);
  if (info.session) *text += ", thread " + std::to_string(info.session);
  if (info.state == TIDESDB_TXN_PREPARED) *text += ", prepared";
  if (info.begun_us != TIDESDB_UNKNOWN)
    *text += ", active for " + time_text(now - std::min(now, info.begun_us));
  if (info.changes) *text += ", " + std::to_string(info.changes) + " changes";
  if (info.locks != TIDESDB_UNKNOWN && info.locks)
    *text += ", " + std::to_string(info.locks) + " keys locked";
  if (info.snapshot != TIDESDB_UNKNOWN) *text += ", reads at sequence " + std::to_string(info.snapshot);
  *text += "\n";
  if (!statement.empty()) *text += "    " + statement + "\n";
  if (info.state != TIDESDB_TXN_WAITS || info.waits_since_us == TIDESDB_UNKNOWN) return;
  *text += "    waits for " + (wait.empty() ? "a lock" : wait) + ", since " +
           time_text(now - std::min(now, info.waits_since_us));
  if (info.blocking_txn != TIDESDB_UNKNOWN) {
    *text += "; in the way: transaction " + std::to_string(info.blocking_txn);
    if (info.blocking_session) *text += ", thread " + std::to_string(info.blocking_session);
  }
  *text += "\n";
}

/* The snapshot that keeps most old versions. */
void add_oldest_snapshot(const std::vector<tidesdb_txn_info> &all, uint64_t now, std::string *text) {
  const tidesdb_txn_info *oldest = nullptr;
  for (const tidesdb_txn_info &info : all)
    if (info.snapshot != TIDESDB_UNKNOWN && (!oldest || info.snapshot < oldest->snapshot)) oldest = &info;
  if (!oldest) return;
  tidesdb_stats stats = {};
  stats.struct_size = sizeof(stats);
  tidesdb_get_stats(plugin.db, &stats);
  *text += "oldest snapshot: sequence " + std::to_string(oldest->snapshot) + " of transaction " +
           std::to_string(oldest->id);
  if (oldest->session) *text += ", thread " + std::to_string(oldest->session);
  if (oldest->begun_us != TIDESDB_UNKNOWN)
    *text += ", " + time_text(now - std::min(now, oldest->begun_us)) + " old";
  if (stats.global_sequence > oldest->snapshot)
    *text += "; " + std::to_string(stats.global_sequence - oldest->snapshot) + " commits since";
  *text += "\n";
}

void add_transactions(tidesdb_db *db, std::string *text) {
  std::vector<tidesdb_txn_info> all;
  tidesdb_transactions(db, keep_transaction, &all);
  if (all.empty()) return;
  std::sort(all.begin(), all.end(), [](const tidesdb_txn_info &a, const tidesdb_txn_info &b) {
    return a.begun_us != b.begun_us ? a.begun_us < b.begun_us : a.id < b.id;
  });
  std::unordered_map<uint64_t, std::string> waits;
  const auto is_waiting = [](const tidesdb_txn_info &info) { return info.state == TIDESDB_TXN_WAITS; };
  int complete;
  if (std::any_of(all.begin(), all.end(), is_waiting))
    tidesdb_locks(db, MOST_WAITS, keep_wait, &waits, &complete);
  std::unordered_set<uint64_t> threads;
  for (const tidesdb_txn_info &info : all) threads.insert(info.session);
  const std::unordered_map<uint64_t, std::string> statements = running_statements(threads);

  add_heading("TRANSACTIONS", text);
  const uint64_t now = tidesdb_now_micros(db);
  add_oldest_snapshot(all, now, text);
  for (size_t i = 0; i < all.size() && i < MOST_TRANSACTIONS; i++) {
    const auto statement = statements.find(all[i].session);
    const auto wait = waits.find(all[i].id);
    add_transaction(all[i], now, statement == statements.end() ? "" : statement->second,
                    wait == waits.end() ? "" : wait->second, text);
  }
  if (all.size() > MOST_TRANSACTIONS)
    *text += "and " + std::to_string(all.size() - MOST_TRANSACTIONS) +
             " younger ones: INFORMATION_SCHEMA.TIDESDB_TRX\n";
}

void add_latest(const char *heading, const std::string &latest, std::string *text) {
  if (latest.empty()) return;
  add_heading(heading, text);
  *text += std::string(strlen(heading), '-') + "\n" + latest + "\n";
}

}  // namespace

bool show_engine_status(handlerton *, THD *thd, stat_print_fn *print, ha_stat_type type) {
  if (type != HA_ENGINE_STATUS) return false;
  char *figures = nullptr;
  if (tidesdb_status_text(plugin.db, &figures) != TIDESDB_OK) return false;
  static const char engine[] = "TidesDB";
  std::string text = figures;
  tidesdb_free_text(figures);
  add_rates(plugin.db, &text);
  add_transactions(plugin.db, &text);
  add_latest("LATEST DETECTED DEADLOCK", latest_deadlock(), &text);
  add_latest("LATEST FOREIGN KEY ERROR", foreign::latest_error(), &text);
  return print(thd, engine, sizeof(engine) - 1, "", 0, text.c_str(), text.size());
}

}  // namespace tidesdb
