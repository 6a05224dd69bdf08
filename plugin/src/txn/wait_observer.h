/*
  Lock waits told to the server: to the thread pool (thd_wait_begin), to parallel replication
  (thd_rpl_deadlock_check), to the search for deadlocks of metadata locks (row_wait_graph.h), and the
  statements of both sides to the conflict log.

  The engine names transactions by their cookies, which are THDs. A connection may end between the moment
  the engine looked and the report, so that holders are looked up among the living connections.
*/
#ifndef TIDESDB_TXN_WAIT_OBSERVER_H
#define TIDESDB_TXN_WAIT_OBSERVER_H

#include <cstdint>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "key/sql_headers.h"
#include "tidesdb.h"

namespace tidesdb {

class Session;

const tidesdb_wait_observer *wait_observer();

void watch_connection(THD *thd, Session *session);
void forget_connection(THD *thd, const Session *session);
/* Calls `visit` with each connection that has a session. None ends meanwhile; `visit` neither waits nor
 * begins or ends one. */
void visit_connections(void (*visit)(THD *thd, Session *session));

/* Bytes of a statement that reports and tables show. */
constexpr size_t STATEMENT_PART = 1024;

/* The statements that run in these threads. */
std::unordered_map<uint64_t, std::string> running_statements(const std::unordered_set<uint64_t> &threads);

}  // namespace tidesdb
#endif
