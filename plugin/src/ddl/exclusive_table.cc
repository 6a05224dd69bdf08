#include "ddl/exclusive_table.h"

#include "ddl/table_path.h"
#include "store/store.h"
#include "txn/session.h"

namespace tidesdb {

ExclusiveTable::~ExclusiveTable() {
  if (own_) tidesdb_txn_rollback(own_.get());
}

int ExclusiveTable::lock(THD *thd, const std::string &table) {
  /* Recovery repeats what had the lock before the crash. */
  if (!thd || !plugin.ddl_recovery_done) return TIDESDB_OK;
  FamilyHandle family;
  int status = open_family(plugin.db, primary_family(table), &family);
  if (status == TIDESDB_NO_SUCH_FAMILY) return TIDESDB_OK;
  if (status != TIDESDB_OK) return status;
  Session *session = Session::find(thd);
  if (session && session->is_active() && session->holds_locks())
    return tidesdb_lock_table(session->txn(), family.get(), TIDESDB_LOCK_EXCLUSIVE);
  status = create_txn(plugin.db, &own_);
  if (status == TIDESDB_OK) status = tidesdb_txn_begin(own_.get(), TIDESDB_READ_COMMITTED, 0);
  if (status != TIDESDB_OK) return status;
  tidesdb_txn_set_lock_timeout(own_.get(), Session::lock_wait_ms(thd));
  return tidesdb_lock_table(own_.get(), family.get(), TIDESDB_LOCK_EXCLUSIVE);
}

}  // namespace tidesdb
