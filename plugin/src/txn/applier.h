/*
  A replica's applier: what its transactions are treated differently in.

  Appliers of one group commit in the order of the primary. An earlier one that waits for a later one is
  a deadlock that no lock table shows: wait_observer.cc reports waits to the server, which kills the
  later one; here is what the engine itself has to know of the order.
*/
#ifndef TIDESDB_TXN_APPLIER_H
#define TIDESDB_TXN_APPLIER_H

#include "key/sql_headers.h"

namespace tidesdb {

/* Whether the connection applies what a primary, or another node of a Galera cluster, has logged. */
bool is_applier(const THD *thd);

/* Whether it is one of a replica's group. */
bool is_in_group(const THD *thd);

/* Whether the statement applies logged rows, a BINLOG statement's too. Their time has no fractions of
 * seconds. */
bool applies_rows(const THD *thd);

/* Of one in a group: wish of its transaction to survive a deadlock: above that of any client, the earlier the
 * more. */
int survival_wish(const THD *thd);

/* Whether later transactions, perhaps with locks, wait for this one alone: nothing may delay it. */
bool is_in_turn(const THD *thd);

}  // namespace tidesdb
#endif
