/*
  The handlerton's transaction calls: two-phase commit, recovery, checkpoints, KILL.
*/
#ifndef TIDESDB_TXN_TRANSACTIONS_H
#define TIDESDB_TXN_TRANSACTIONS_H

#include "key/sql_headers.h"

namespace tidesdb {

/* Fills the members of the handlerton that have to do with transactions. */
void register_transaction_calls(handlerton *hton);

}  // namespace tidesdb
#endif
