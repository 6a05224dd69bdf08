#include "backup/server_locks.h"

#include "sql_class.h"

namespace tidesdb {

bool ServerLocks::acquire(enum_mdl_type type, MDL_ticket **ticket) {
  MDL_request request;
  MDL_REQUEST_INIT(&request, MDL_key::BACKUP, "", "", type, MDL_EXPLICIT);
  if (thd_->mdl_context.acquire_lock(&request, static_cast<double>(thd_->variables.lock_wait_timeout)))
    return true;
  *ticket = request.ticket;
  return false;
}

void ServerLocks::release(MDL_ticket **ticket) {
  if (*ticket) thd_->mdl_context.release_lock(*ticket);
  *ticket = nullptr;
}

bool ServerLocks::hold_definitions() { return acquire(MDL_BACKUP_BLOCK_DDL, &definitions_); }

bool ServerLocks::hold_commits() {
  const double timeout = static_cast<double>(thd_->variables.lock_wait_timeout);
  if (acquire(MDL_BACKUP_FLUSH, &commits_)) return true;
  if (thd_->mdl_context.upgrade_shared_lock(commits_, MDL_BACKUP_WAIT_FLUSH, timeout)) return true;
  held_since_ = microsecond_interval_timer();
  const bool failed = thd_->mdl_context.upgrade_shared_lock(commits_, MDL_BACKUP_WAIT_COMMIT, timeout);
  if (failed) release_commits();
  return failed;
}

void ServerLocks::release_commits() {
  release(&commits_);
  if (held_since_) held_us_ = microsecond_interval_timer() - held_since_;
  held_since_ = 0;
}

void ServerLocks::release_definitions() { release(&definitions_); }

}  // namespace tidesdb
