#include "txn/autonomous_lock.h"

#include <mysql/plugin.h>

#include <algorithm>

#include "sql_class.h"

#include "store/store.h"
#include "txn/session.h"

namespace tidesdb {

int autonomous_lock(THD *thd, tidesdb_family *family, int mode, TxnHandle *txn) {
  int status = create_txn(plugin.db, txn);
  if (status != TIDESDB_OK) return status;
  tidesdb_txn_set_cookie(txn->get(), thd);
  tidesdb_txn_set_session(txn->get(), thd_get_thread_id(thd));
  ulonglong left = Session::lock_timeout_ms(thd);
  status = tidesdb_txn_begin(txn->get(), TIDESDB_READ_COMMITTED, 0);
  /* KILL does not reach this transaction. */
  constexpr ulonglong LOOK_MS = 20;
  while (status == TIDESDB_OK) {
    const ulonglong wait = std::min(left, LOOK_MS);
    tidesdb_txn_set_lock_timeout(txn->get(), wait);
    status = tidesdb_lock_table(txn->get(), family, mode);
    left -= wait;
    if (status != TIDESDB_LOCK_TIMEOUT) break;
    if (thd_killed(thd)) return TIDESDB_INTERRUPTED;
    if (left != 0) status = TIDESDB_OK;
  }
  return status;
}

}  // namespace tidesdb
