/*
  Brute force: an applier of a Galera cluster, or a replicated statement, that meets a lock of a local
  transaction aborts it. The order of the cluster is decided already, and the local transaction comes after
  it.

  The applier's request goes before all local ones in the engine's lock table (TIDESDB_TXN_PRIORITY). The
  holders are told of by the observer of waits, and again when a new one comes. Those whose commit is ordered
  already cannot be aborted: they end soon. Appliers wait for each other: the cluster lets only those run
  together that have no row in common.
*/
#ifndef TIDESDB_CLUSTER_BRUTE_FORCE_H
#define TIDESDB_CLUSTER_BRUTE_FORCE_H

#include "key/sql_headers.h"

namespace tidesdb {
class Session;
}

namespace tidesdb::cluster {

/* Aborts a holder that `thd`, which goes first, waits for. `holder` lives as long as the call. */
void abort_holder(THD *thd, THD *holder, Session *session);

}  // namespace tidesdb::cluster
#endif
