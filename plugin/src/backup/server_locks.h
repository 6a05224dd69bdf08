/*
  The server's locks of backups, in the order of BACKUP STAGE: no definition changes while they are held, and,
  for the moment, no transaction commits, prepares or writes the binary log.

  One ticket on the one key of backups, which goes up step by step. START keeps other backups away. FLUSH
  keeps new statements on tables without transactions from beginning, WAIT_FLUSH waits for those that run,
  WAIT_DDL for definitions that are being changed, and keeps others from beginning. (An ALTER that copies goes
  on, and waits at its end. In another order it would meet a deadlock there.) Only then does WAIT_COMMIT wait
  for the commits under way and hold others: for as long as these take and the moment itself.
*/
#ifndef TIDESDB_BACKUP_SERVER_LOCKS_H
#define TIDESDB_BACKUP_SERVER_LOCKS_H

#include "key/sql_headers.h"

#include "mdl.h"

namespace tidesdb {

class ServerLocks {
 public:
  explicit ServerLocks(THD *thd) : thd_(thd) {}
  ~ServerLocks() { release(); }
  ServerLocks(const ServerLocks &) = delete;
  ServerLocks &operator=(const ServerLocks &) = delete;

  /* Each step waits for lock_wait_timeout at most; true: not granted, and the server's error is set (1205, or
     a kill). */
  bool hold_definitions();
  /* With definitions held. */
  bool hold_commits();
  /* Definitions stay held. */
  void release_commits();
  void release();

  /* Microseconds for which commits were held by now. */
  ulonglong held_us() const { return held_us_; }

 private:
  bool upgrade(enum_mdl_type type);

  THD *thd_;
  MDL_ticket *ticket_ = nullptr;
  ulonglong held_since_ = 0, held_us_ = 0;
};

}  // namespace tidesdb
#endif
