#include "txn/copy_alter_guard.h"

#include <algorithm>
#include <memory>
#include <mutex>

#include "sql_class.h"

#include "store/store.h"
#include "txn/autonomous_lock.h"

namespace tidesdb {

namespace {

std::mutex watches_mutex;
std::vector<CopyAlterGuard *> guards; /* those that have tables */

}  // namespace

int CopyAlterGuard::begin(THD *thd, const std::string &family_name) {
  auto table = std::make_unique<Table>();
  int status = open_family(plugin.db, family_name, &table->family);
  if (status != TIDESDB_OK) return status;
  /* While it is had nobody who has changed the table has yet to end, and nobody can begin. */
  TxnHandle lock;
  status = autonomous_lock(thd, table->family.get(), TIDESDB_LOCK_SHARED, &lock);
  if (status == TIDESDB_OK) {
    std::lock_guard<std::mutex> guard_lock(watches_mutex);
    if (tables_.empty()) guards.push_back(this);
    tables_.push_back(std::move(table));
  }
  /* A copy that shuts writers out to its end is kept by the server's locks, and the others go on. */
  if (lock) tidesdb_txn_rollback(lock.get());
  return status;
}

bool CopyAlterGuard::has_missed_something(tidesdb_txn *own) {
  bool missed = false;
  tidesdb_txn_set_lock_timeout(own, 0);
  for (const std::unique_ptr<Table> &table : tables_) {
    /* Before the look at what was noted: who is not there any more has been noted. */
    const int status = tidesdb_lock_table(own, table->family.get(), TIDESDB_LOCK_SHARED);
    missed |= status != TIDESDB_OK && status != TIDESDB_NO_SUCH_FAMILY;
    std::lock_guard<std::mutex> guard_lock(watches_mutex);
    missed |= table->missed;
  }
  return missed;
}

void CopyAlterGuard::clear() {
  if (tables_.empty()) return;
  std::lock_guard<std::mutex> guard_lock(watches_mutex);
  guards.erase(std::remove(guards.begin(), guards.end(), this), guards.end());
  tables_.clear();
}

void note_decision(const uint8_t *xid, size_t size) {
  std::lock_guard<std::mutex> guard_lock(watches_mutex);
  for (CopyAlterGuard *guard : guards)
    for (const std::unique_ptr<CopyAlterGuard::Table> &table : guard->tables_)
      table->missed |= tidesdb_prepared_changes(table->family.get(), xid, size) == TIDESDB_OK;
}

void note_failed_commit() {
  std::lock_guard<std::mutex> guard_lock(watches_mutex);
  for (CopyAlterGuard *guard : guards)
    for (const std::unique_ptr<CopyAlterGuard::Table> &table : guard->tables_) table->missed = true;
}

}  // namespace tidesdb
