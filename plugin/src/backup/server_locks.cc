#include "backup/server_locks.h"

#include "sql_class.h"

namespace tidesdb {

bool ServerLocks::upgrade(enum_mdl_type type) {
  const double timeout = static_cast<double>(thd_->variables.lock_wait_timeout);
  return thd_->mdl_context.upgrade_shared_lock(ticket_, type, timeout);
}

bool ServerLocks::hold_definitions() {
  MDL_request request;
  MDL_REQUEST_INIT(&request, MDL_key::BACKUP, "", "", MDL_BACKUP_START, MDL_EXPLICIT);
  const double timeout = static_cast<double>(thd_->variables.lock_wait_timeout);
  if (thd_->mdl_context.acquire_lock(&request, timeout)) return true;
  ticket_ = request.ticket;
  return upgrade(MDL_BACKUP_FLUSH) || upgrade(MDL_BACKUP_WAIT_FLUSH) || upgrade(MDL_BACKUP_WAIT_DDL);
}

bool ServerLocks::hold_commits() {
  held_since_ = microsecond_interval_timer();
  return upgrade(MDL_BACKUP_WAIT_COMMIT);
}

void ServerLocks::release_commits() {
  if (!held_since_) return;
  ticket_->downgrade_lock(MDL_BACKUP_WAIT_DDL);
  held_us_ = microsecond_interval_timer() - held_since_;
  held_since_ = 0;
}

void ServerLocks::release() {
  if (ticket_) thd_->mdl_context.release_lock(ticket_);
  ticket_ = nullptr;
}

}  // namespace tidesdb
