/*
  Waits for locks of the engine, as the server's search for deadlocks of metadata locks sees them.

  A statement that waits for a row keeps its tables open, and its transaction their metadata locks. Another
  that opens one of these tables may have to wait for that: OPTIMIZE TABLE and FLUSH TABLES let the next
  statement wait until all have closed the table, and DDL lets it wait after itself. If it holds the row, the
  two wait for each other, and neither the lock table nor the server's graph of waits shows the circle. So
  each wait in the engine is an edge of that graph. The server ends a circle at one of the waits for a table
  (1213), never at a row's.
*/
#ifndef TIDESDB_TXN_ROW_WAIT_GRAPH_H
#define TIDESDB_TXN_ROW_WAIT_GRAPH_H

#include <cstddef>

#include "key/sql_headers.h"

namespace tidesdb {

class Session;

/* Connections that live: a transaction's cookie is a THD that may be gone. */
void enter_wait_graph(THD *thd, const Session *session);
void leave_wait_graph(THD *thd, const Session *session);

/* The waiter's thread begins a wait for the holders' transactions, and has ended it. */
void row_wait_begins(THD *waiter, void *const *holders, size_t holder_count);
void row_wait_ends(THD *waiter);

}  // namespace tidesdb
#endif
