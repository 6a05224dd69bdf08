/*
  Victims of brute force on a node of a Galera cluster: sessions that hold a metadata lock that an applier or
  a replicated statement needs.

  The server marks such a session as killed, and tells InnoDB, but no other engine (THD::awake_no_mutex()
  leaves out kill_query). A wait of ours would go on to its timeout, with the whole node waiting for the lock.
  KILL of a session that takes part in a replicated transaction comes this way, too.

  So a thread looks at all sessions every 10 ms, and does for those that are marked what kill_query does. That
  ends each wait that KILL ends: for locks, for room in memory or in the log, for a ticket.

  Without a provider there is no such thread. A provider is loaded before plugins, and never later.
*/
#ifndef TIDESDB_CLUSTER_VICTIMS_H
#define TIDESDB_CLUSTER_VICTIMS_H

namespace tidesdb::cluster {

/* Begins to look, where a provider is loaded. Returns whether the thread could be made. */
bool watch_victims();
/* Ends it; no harm where it has not begun. */
void leave_victims();

}  // namespace tidesdb::cluster
#endif
