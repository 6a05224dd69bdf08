/*
  A table's lock in a transaction of its own, of which the server does not know: for waits that prepared
  transactions without a connection ask for, where the server's locks keep everybody else out.
*/
#ifndef TIDESDB_TXN_AUTONOMOUS_LOCK_H
#define TIDESDB_TXN_AUTONOMOUS_LOCK_H

#include "key/sql_headers.h"
#include "store/handles.h"

namespace tidesdb {

/* Makes *txn, and locks the table in it, whose rows are in `family`; waits as long as a statement of the
   connection waits for a lock, or until that is killed. Rolling *txn back gives the lock back. Status of the
   engine. */
int autonomous_lock(THD *thd, tidesdb_family *family, int mode, TxnHandle *txn);

}  // namespace tidesdb
#endif
