/*
  The position of this node in the order of its cluster: up to which write set it has all commits.

  Two logs have commits, InnoDB's and the store's. The commit records of the store carry their positions, and
  InnoDB keeps its own. Both are prefixes of one order:

  - A commit's place in the store's log is fixed while it has the cluster's order, so that the two have one
  order.
  - Before that, InnoDB writes its log where it may have commits in memory. So a position of the store claims
  no commit that InnoDB loses.

  After a crash of the process, both logs are what they were: the later position counts. After a power cut, or
  where that cannot be told, InnoDB may have the later position and the store may have lost commits before it:
  then the position is unknown, and the node takes a state transfer. Never a guess.

  Transactions that were prepared and not committed: up to the position they are committed, the others come
  from the cluster again.
*/
#ifndef TIDESDB_CLUSTER_POSITION_H
#define TIDESDB_CLUSTER_POSITION_H

#include <vector>

#include "key/sql_headers.h"
#include "tidesdb.h"

#include "txn/xid.h"

namespace tidesdb::cluster {

/* Once all engines have started: stands around InnoDB's functions by which the server asks for the position
   and sets it, and finds out how the last server ended. No harm in further calls. */
void stand_around_innodb();

/* A start is refused, perhaps after InnoDB's files came from another node: one that has been in a cluster
   does not know its position any more. Before the store is open. */
void note_refused_transfer();

/* Nobody commits: the store's log has the position of both, whichever engine had the last commit. Returns
   whether it has. */
bool claim_position();

/* The server ends, and nobody commits any more: what InnoDB's position is. */
void note_last_position();

/* InnoDB has its own functions again. */
void leave_innodb();

/* Whether the session's transaction has a place in the cluster's order. */
bool has_position(const THD *thd);

/* Whether the prepare of the session's transaction need not survive a power cut: other nodes have it, and no
   binary log says on this one that it was committed. */
bool needs_no_synced_prepare(const THD *thd);

/* Gives a transaction its position, before its place in the log is fixed. `alone`: no other engine has
   changes in it. Returns whether it has one. */
bool note_position(THD *thd, tidesdb_txn *txn, bool alone);

/* Before the binary log has a transaction, with those before it in the cluster's order: InnoDB's log has what
   InnoDB has prepared of them. After a crash the binary log decides on all of them. `alone`: no other engine
   has changes in it. */
void write_innodb_before_binary_log(const THD *thd, bool alone);

/* Commits a prepared transaction as the binary log decided, with its position where it has one: else the node
   would get it from the others a second time. A status of the engine. */
int commit_decided(const XID &xid, const EncodedXid &encoded);

/* Decides transactions that are prepared, and takes them out of the list. */
void decide_prepared(std::vector<XID> *prepared);

/* The server ends in order, and the store is closed: all commits are in the logs. */
void note_clean_end();

}  // namespace tidesdb::cluster
#endif
