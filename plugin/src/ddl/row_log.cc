#include "ddl/row_log.h"

#include <map>

namespace tidesdb {

namespace {

struct RowLogs {
  std::mutex mutex;
  std::map<uint64_t, std::weak_ptr<RowLog>> tables;
};

RowLogs row_logs;

}  // namespace

std::shared_ptr<RowLog> row_log_of(uint64_t table_id) {
  const std::lock_guard<std::mutex> guard(row_logs.mutex);
  std::weak_ptr<RowLog> &known = row_logs.tables[table_id];
  std::shared_ptr<RowLog> log = known.lock();
  if (log) return log;
  /* The entry goes with the last owner. */
  log = std::shared_ptr<RowLog>(new RowLog, [table_id](RowLog *gone) {
    const std::lock_guard<std::mutex> last(row_logs.mutex);
    const auto entry = row_logs.tables.find(table_id);
    if (entry != row_logs.tables.end() && entry->second.expired()) row_logs.tables.erase(entry);
    delete gone;
  });
  known = log;
  return log;
}

}  // namespace tidesdb
