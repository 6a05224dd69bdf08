#include "ddl/exclusive_table.h"

#include <mysql/plugin.h>

#include <algorithm>

#include "sql_class.h"

#include "ddl/table_path.h"
#include "store/store.h"

namespace tidesdb {

int ExclusiveTable::lock(THD *thd, const std::string &table) {
  /* Recovery repeats what had the lock before the crash. */
  if (!thd || !plugin.ddl_recovery_done) return TIDESDB_OK;
  FamilyHandle family;
  const int status = open_family(plugin.db, primary_family(table), &family);
  if (status == TIDESDB_NO_SUCH_FAMILY) return TIDESDB_OK;
  if (status != TIDESDB_OK) return status;
  Session *session = Session::get(thd);
  if (!session) return TIDESDB_INVALID;
  if (session->is_active()) return tidesdb_lock_table(session->txn(), family.get(), TIDESDB_LOCK_EXCLUSIVE);
  session_ = session;
  return session->lock_definition(family.get());
}

int ExclusiveTable::lock_apart(THD *thd, tidesdb_family *family) {
  int status = create_txn(plugin.db, &apart_);
  if (status != TIDESDB_OK) return status;
  tidesdb_txn_set_cookie(apart_.get(), thd);
  tidesdb_txn_set_session(apart_.get(), thd_get_thread_id(thd));
  ulonglong left = Session::lock_timeout_ms(thd);
  status = tidesdb_txn_begin(apart_.get(), TIDESDB_READ_COMMITTED, 0);
  /* KILL does not reach this transaction. */
  constexpr ulonglong LOOK_MS = 100;
  while (status == TIDESDB_OK) {
    const ulonglong wait = std::min(left, LOOK_MS);
    tidesdb_txn_set_lock_timeout(apart_.get(), wait);
    status = tidesdb_lock_table(apart_.get(), family, TIDESDB_LOCK_EXCLUSIVE);
    left -= wait;
    if (status != TIDESDB_LOCK_TIMEOUT) break;
    if (thd_killed(thd)) return TIDESDB_INTERRUPTED;
    if (left != 0) status = TIDESDB_OK;
  }
  return status;
}

void ExclusiveTable::unlock_apart() {
  if (apart_) tidesdb_txn_rollback(apart_.get());
  apart_.reset();
}

}  // namespace tidesdb
