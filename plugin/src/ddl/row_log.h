/*
  The row log: which rows change while indexes are built alongside their writers.

  Each change of a row puts the row's key into a family of its own, in the same transaction: rolled back with
  it, visible with it, there after a crash as it is. The build reads the rows in a snapshot and then brings
  the entries of these keys to what the rows are (ddl/index_build.h). Opened while the server keeps
  everybody else out of the table, so that no transaction has changed rows without it.
*/
#ifndef TIDESDB_DDL_ROW_LOG_H
#define TIDESDB_DDL_ROW_LOG_H

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "store/handles.h"

namespace tidesdb {

/* Of a table; used by all its handlers. */
class RowLog {
 public:
  using Family = std::shared_ptr<tidesdb_family>;

  void open(FamilyHandle family) {
    std::lock_guard<std::mutex> guard(mutex_);
    family_ = std::move(family);
    is_open_.store(true, std::memory_order_release);
  }

  /* Writers may be about to use it: the family may be dropped all the same (RowWriter::apply()). */
  void close() {
    std::lock_guard<std::mutex> guard(mutex_);
    is_open_.store(false, std::memory_order_release);
    family_.reset();
  }

  /* Where a change of a row is to be written too; nothing when no index is being built. */
  Family family() const {
    if (!is_open_.load(std::memory_order_acquire)) return nullptr;
    std::lock_guard<std::mutex> guard(mutex_);
    return family_;
  }

 private:
  std::atomic<bool> is_open_{false};
  mutable std::mutex mutex_;
  Family family_;
};

/* The row log of a table, by the id in its record: whoever has the table open by a definition of its own has
 * the same.
 */
std::shared_ptr<RowLog> row_log_of(uint64_t table_id);

}  // namespace tidesdb
#endif
