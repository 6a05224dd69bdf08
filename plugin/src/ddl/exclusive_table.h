/*
  A table's exclusive lock in the engine, for a change of its definition.

  The server's own lock on the name keeps running statements out, but not a prepared XA transaction whose
  connection has gone: the server lets that one's names go, and its changes are still to come. So DROP,
  RENAME and TRUNCATE take the table's lock in the engine, and wait, are killed or fail (1205) as a writer of
  a row.
*/
#ifndef TIDESDB_DDL_EXCLUSIVE_TABLE_H
#define TIDESDB_DDL_EXCLUSIVE_TABLE_H

#include <string>

#include "key/sql_headers.h"
#include "store/handles.h"
#include "txn/session.h"

namespace tidesdb {

class ExclusiveTable {
 public:
  ExclusiveTable() = default;
  ExclusiveTable(const ExclusiveTable &) = delete;
  ExclusiveTable &operator=(const ExclusiveTable &) = delete;
  /* Gives the locks back, unless it is one of the connection's open transaction, which keeps it to its end.
   */
  ~ExclusiveTable() {
    if (session_) session_->unlock_definition();
    release_autonomous_lock();
  }

  /* Locks the table (canonical name). A table that the engine does not know is locked already. */
  int lock(THD *thd, const std::string &table);
  /* The same in a transaction of its own, where the connection's one holds no locks and the server lets
     nobody else begin: waits for prepared transactions without a connection. */
  int take_autonomous_lock(THD *thd, tidesdb_family *family, int mode = TIDESDB_LOCK_EXCLUSIVE);
  void release_autonomous_lock();

 private:
  Session *session_ = nullptr;
  TxnHandle autonomous_;
};

}  // namespace tidesdb
#endif
