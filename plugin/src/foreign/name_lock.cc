#include "foreign/name_lock.h"

#include <algorithm>

#include "sql_class.h"

#include "txn/session.h"

namespace tidesdb {

namespace {

int acquire(THD *thd, MDL_request *request) {
  const ulonglong seconds =
      std::min<ulonglong>(Session::lock_timeout_ms(thd) / 1000 + 1, thd->variables.lock_wait_timeout);
  if (!thd->mdl_context.acquire_lock(request, static_cast<double>(seconds))) return 0;
  if (thd_kill_level(thd) != THD_IS_NOT_KILLED) return HA_ERR_ABORTED_BY_USER;
  const Diagnostics_area *diagnostics = thd->get_stmt_da();
  if (!diagnostics->is_error() || diagnostics->sql_errno() != ER_LOCK_DEADLOCK)
    return HA_ERR_LOCK_WAIT_TIMEOUT;
  /* The others go on when the locks of its earlier statements are gone, too. */
  thd->mark_transaction_to_rollback(true);
  return HA_ERR_LOCK_DEADLOCK;
}

int acquire_to_end(THD *thd, const std::string &database, const std::string &table, enum_mdl_type type) {
  MDL_request request;
  MDL_REQUEST_INIT(&request, MDL_key::TABLE, database.c_str(), table.c_str(), type, MDL_TRANSACTION);
  return acquire(thd, &request);
}

}  // namespace

int lock_name_for_changes(THD *thd, const std::string &database, const std::string &table) {
  return acquire_to_end(thd, database, table, MDL_SHARED_WRITE);
}

int lock_name_for_reads(THD *thd, const std::string &database, const std::string &table) {
  return acquire_to_end(thd, database, table, MDL_SHARED_READ);
}

NameLock::NameLock(THD *thd, const std::string &database, const std::string &table) : thd_(thd) {
  MDL_REQUEST_INIT(&request_, MDL_key::TABLE, database.c_str(), table.c_str(), MDL_SHARED, MDL_EXPLICIT);
}

NameLock::~NameLock() {
  if (request_.ticket) thd_->mdl_context.release_lock(request_.ticket);
}

int NameLock::take() { return acquire(thd_, &request_); }

}  // namespace tidesdb
