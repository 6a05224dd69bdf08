/*
  Whether the engine takes part in a Galera cluster: tidesdb_cluster is ON, and a provider is loaded. Both
  stay as they are from the start to the end of the server.

  An engine that takes part has HTON_WSREP_REPLICATION in its handlerton, by which the server writes row
  events of its tables. The server also runs its hooks around the prepare of each such engine. Two of them in
  one transaction would certify it twice, and the provider ends the process. So transactions are registered
  with a copy of the handlerton without the flag, and the engine runs the hooks itself
  (cluster/commit_hooks.h).
*/
#ifndef TIDESDB_CLUSTER_PARTICIPATION_H
#define TIDESDB_CLUSTER_PARTICIPATION_H

#include "key/sql_headers.h"

#include "server.h"

namespace tidesdb::cluster {

namespace detail {
extern bool participates;
}

inline bool takes_part() { return detail::participates; }

/* At the plugin's start, before its tables are opened: takes part if `wanted` and a provider is loaded. */
void decide_participation(handlerton *hton, bool wanted);

/* Whether wsrep_sst_method would give this node InnoDB's tables of another and leave the store's: says so. */
bool refuses_state_transfer();

/* What transactions register with the server. */
TransactionParticipant *participant();

/* Whether the connection goes before others: an applier of the cluster, or a replicated statement. */
inline bool goes_first(const THD *thd);
bool is_brute_force(const THD *thd);
inline bool goes_first(const THD *thd) { return takes_part() && is_brute_force(thd); }

/* Whether the changes of the connection are replicated by the cluster. */
inline bool replicates(const THD *thd);
bool is_replicated(const THD *thd);
inline bool replicates(const THD *thd) { return takes_part() && is_replicated(thd); }

}  // namespace tidesdb::cluster
#endif
