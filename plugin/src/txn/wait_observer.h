/*
  Lock waits told to the server: to the thread pool (thd_wait_begin), to parallel replication
  (thd_rpl_deadlock_check), and the statements of both sides to the conflict log.

  The engine names transactions by their cookies, which are THDs. A connection may end between the moment
  the engine looked and the report, so that holders are looked up among the living connections.
*/
#ifndef TIDESDB_TXN_WAIT_OBSERVER_H
#define TIDESDB_TXN_WAIT_OBSERVER_H

#include "key/sql_headers.h"
#include "tidesdb.h"

namespace tidesdb {

class Session;

const tidesdb_wait_observer *wait_observer();

void watch_connection(THD *thd, Session *session);
void forget_connection(THD *thd);

}  // namespace tidesdb
#endif
