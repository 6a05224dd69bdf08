/*
  The server's locks of backups, as BACKUP STAGE takes them: no definition changes while they are held, and,
  for the moment, no transaction commits, prepares or writes the binary log.

  Two tickets on the one key of backups. The first (BLOCK_DDL) waits for definitions that are being changed
  and keeps others from beginning, and other backups; statements on rows do not notice. The second goes up
  step by step, as that of BACKUP STAGE does: FLUSH keeps new statements on tables without transactions from
  beginning, WAIT_FLUSH waits for those that run, and only then does WAIT_COMMIT wait for the commits under
  way and hold others: for as long as these take and the moment itself.
*/
#ifndef TIDESDB_BACKUP_SERVER_LOCKS_H
#define TIDESDB_BACKUP_SERVER_LOCKS_H

#include "key/sql_headers.h"

#include "mdl.h"

namespace tidesdb {

class ServerLocks {
 public:
  explicit ServerLocks(THD *thd) : thd_(thd) {}
  ~ServerLocks() {
    release_commits();
    release_definitions();
  }
  ServerLocks(const ServerLocks &) = delete;
  ServerLocks &operator=(const ServerLocks &) = delete;

  /* Each waits for lock_wait_timeout at most; true: not granted, and the server's error is set (1205, or a
     kill). */
  bool hold_definitions();
  bool hold_commits();
  void release_commits();
  void release_definitions();

  /* Microseconds for which commits were held by now. */
  ulonglong held_us() const { return held_us_; }

 private:
  bool acquire(enum_mdl_type type, MDL_ticket **ticket);
  void release(MDL_ticket **ticket);

  THD *thd_;
  MDL_ticket *definitions_ = nullptr, *commits_ = nullptr;
  ulonglong held_since_ = 0, held_us_ = 0;
};

}  // namespace tidesdb
#endif
