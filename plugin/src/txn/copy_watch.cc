#include "txn/copy_watch.h"

#include <algorithm>
#include <memory>
#include <mutex>

#include "sql_class.h"

#include "store/store.h"

namespace tidesdb {

namespace {

/* A wait for a lock looks so often whether the statement is killed. */
constexpr ulonglong WAIT_STEP_MS = 20;

std::mutex watches_mutex;
std::vector<CopyWatches *> watches; /* those that have tables */

/* A shared lock on the table: nobody who has changed it has yet to end, and nobody can begin. */
int lock_shared(tidesdb_txn *txn, tidesdb_family *family, ulonglong timeout_ms) {
  tidesdb_txn_set_lock_timeout(txn, timeout_ms);
  const int status = tidesdb_txn_begin(txn, TIDESDB_READ_COMMITTED, 0);
  return status == TIDESDB_OK ? tidesdb_lock_table(txn, family, TIDESDB_LOCK_SHARED) : status;
}

}  // namespace

int CopyWatches::begin(THD *thd, const std::string &family_name, ulonglong timeout_ms) {
  auto table = std::make_unique<Table>();
  TxnHandle txn;
  int status = open_family(plugin.db, family_name, &table->family);
  if (status == TIDESDB_OK) status = create_txn(plugin.db, &txn);
  if (status != TIDESDB_OK) return status;
  tidesdb_txn_set_cookie(txn.get(), thd);
  tidesdb_txn_set_session(txn.get(), thd_get_thread_id(thd));
  for (;;) {
    const ulonglong step = std::min(timeout_ms, WAIT_STEP_MS);
    status = lock_shared(txn.get(), table->family.get(), step);
    if (status != TIDESDB_LOCK_TIMEOUT || timeout_ms <= step) break;
    tidesdb_txn_rollback(txn.get());
    if (timeout_ms != ~0ULL) timeout_ms -= step;
    if (thd_killed(thd)) return TIDESDB_INTERRUPTED;
  }
  if (status == TIDESDB_OK) {
    std::lock_guard<std::mutex> guard(watches_mutex);
    if (tables_.empty()) watches.push_back(this);
    tables_.push_back(std::move(table));
  }
  /* A copy that shuts writers out to its end is kept by the server's locks, and the others go on. */
  tidesdb_txn_rollback(txn.get());
  return status;
}

bool CopyWatches::has_missed_something(tidesdb_txn *own) {
  bool missed = false;
  tidesdb_txn_set_lock_timeout(own, 0);
  for (const std::unique_ptr<Table> &table : tables_) {
    /* Before the look at what was noted: who is not there any more has been noted. */
    const int status = tidesdb_lock_table(own, table->family.get(), TIDESDB_LOCK_SHARED);
    missed |= status != TIDESDB_OK && status != TIDESDB_NO_SUCH_FAMILY;
    std::lock_guard<std::mutex> guard(watches_mutex);
    missed |= table->missed;
  }
  return missed;
}

void CopyWatches::clear() {
  if (tables_.empty()) return;
  std::lock_guard<std::mutex> guard(watches_mutex);
  watches.erase(std::remove(watches.begin(), watches.end(), this), watches.end());
  tables_.clear();
}

void note_decision(const uint8_t *xid, size_t size) {
  std::lock_guard<std::mutex> guard(watches_mutex);
  for (CopyWatches *watch : watches)
    for (const std::unique_ptr<CopyWatches::Table> &table : watch->tables_)
      table->missed |= tidesdb_prepared_changes(table->family.get(), xid, size) == TIDESDB_OK;
}

void note_failed_commit() {
  std::lock_guard<std::mutex> guard(watches_mutex);
  for (CopyWatches *watch : watches)
    for (const std::unique_ptr<CopyWatches::Table> &table : watch->tables_) table->missed = true;
}

}  // namespace tidesdb
