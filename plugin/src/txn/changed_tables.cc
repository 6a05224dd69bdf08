#include "txn/changed_tables.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>

namespace tidesdb {

namespace {

/* Of the tables that were opened since the start, until they are dropped. */
struct UpdateTimes {
  std::mutex mutex;
  std::unordered_map<uint64_t, UpdateTime> tables;
};
UpdateTimes update_times;

struct PreparedChanges {
  std::mutex mutex;
  std::unordered_map<std::string, std::vector<UpdateTime>> transactions;
};
PreparedChanges prepared_changes;

std::string key_of(const void *xid, size_t size) { return std::string(static_cast<const char *>(xid), size); }

std::vector<UpdateTime> take_prepared(const std::string &xid) {
  const std::lock_guard<std::mutex> guard(prepared_changes.mutex);
  const auto found = prepared_changes.transactions.find(xid);
  if (found == prepared_changes.transactions.end()) return {};
  std::vector<UpdateTime> tables = std::move(found->second);
  prepared_changes.transactions.erase(found);
  return tables;
}

void set_update_times(const std::vector<UpdateTime> &tables) {
  if (tables.empty()) return;
  const time_t now = time(nullptr);
  for (const UpdateTime &table : tables) table->store(now, std::memory_order_relaxed);
}

}  // namespace

UpdateTime update_time_of(uint64_t table_id) {
  const std::lock_guard<std::mutex> guard(update_times.mutex);
  UpdateTime &known = update_times.tables[table_id];
  if (!known) known = std::make_shared<std::atomic<time_t>>(0);
  return known;
}

void forget_update_time(uint64_t table_id) {
  const std::lock_guard<std::mutex> guard(update_times.mutex);
  update_times.tables.erase(table_id);
}

void ChangedTables::add(const UpdateTime &table) {
  if (std::find(tables_.begin(), tables_.end(), table) == tables_.end()) tables_.push_back(table);
}

void ChangedTables::cut(size_t mark) {
  if (mark == 0 && !prepared_.empty()) {
    take_prepared(prepared_);
    prepared_.clear();
  }
  if (mark >= tables_.size()) return;
  tables_.resize(mark);
  epoch_++;
}

void ChangedTables::commit() {
  set_update_times(tables_);
  clear();
}

void ChangedTables::prepare(const void *xid, size_t size) {
  if (tables_.empty()) return;
  prepared_ = key_of(xid, size);
  const std::lock_guard<std::mutex> guard(prepared_changes.mutex);
  prepared_changes.transactions[prepared_] = tables_;
}

void ChangedTables::leave_prepared() {
  prepared_.clear();
  clear();
}

void ChangedTables::commit_prepared(const void *xid, size_t size) {
  set_update_times(take_prepared(key_of(xid, size)));
}

void ChangedTables::forget_prepared(const void *xid, size_t size) { take_prepared(key_of(xid, size)); }

}  // namespace tidesdb
