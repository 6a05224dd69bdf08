#include "ddl/exclusive_table.h"

#include "sql_class.h"

#include "ddl/table_path.h"
#include "store/store.h"
#include "txn/autonomous_lock.h"

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

int ExclusiveTable::take_autonomous_lock(THD *thd, tidesdb_family *family, int mode) {
  return tidesdb::autonomous_lock(thd, family, mode, &autonomous_);
}

void ExclusiveTable::release_autonomous_lock() {
  if (autonomous_) tidesdb_txn_rollback(autonomous_.get());
  autonomous_.reset();
}

}  // namespace tidesdb
