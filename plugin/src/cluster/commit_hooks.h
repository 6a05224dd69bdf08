/*
  The server's hooks of a cluster around the end of a transaction, which the engine runs itself
  (cluster/participation.h).

  prepare() certifies the transaction: from then on the other nodes have it. All that the engine may refuse
  comes before that. A failure after it would leave this node without a transaction that the others have: the
  process ends, and the next start gets the transaction from them.

  The hooks run once for each transaction. Other engines with the flag that the server would prepare after
  this one are prepared here, and moved before it in the server's list. Where such an engine came first, the
  server has run the hooks for it.

  A commit order is left once the place of the transaction in the log is fixed, and its changes are in the
  log's file: with its prepare, or with its commit.
*/
#ifndef TIDESDB_CLUSTER_COMMIT_HOOKS_H
#define TIDESDB_CLUSTER_COMMIT_HOOKS_H

#include "key/sql_headers.h"
#include "tidesdb.h"

namespace tidesdb {
class Session;
}

namespace tidesdb::cluster {

/* The prepare of a transaction (`real`) or of a statement. Returns 0 or an error for the server. */
int prepare(THD *thd, Session *session, bool all, bool real);

/* The server has prepared the transaction, and queues it for the binary log. */
void before_binary_log(THD *thd, bool all);

/* Before the transaction's place in the log is fixed: its record tells its position in the cluster. Returns
   whether it has one: then its commit may not fail any more. */
bool before_order(THD *thd, tidesdb_txn *txn);

/* Whether the transaction has a place in the cluster's order. `alone`: and no other engine has changes in it.
   So has CREATE ... SELECT, whose rows are a load. */
bool is_in_order(THD *thd, bool alone);

/* Holds the order of the commits that the server orders, while a commit in one phase takes its place. The
   server leaves the cluster's order of a transaction over two engines with the first of them. */
class OrderLock {
 public:
  OrderLock();
  ~OrderLock();
  OrderLock(const OrderLock &) = delete;
  OrderLock &operator=(const OrderLock &) = delete;
};

/* The transaction's place in the log is fixed, and the log has its changes. */
void leave_commit_order(THD *thd);

/* Whether other nodes have the transaction, so that its commit may not fail. */
bool is_certified(const THD *thd);

/* A commit of a certified transaction has failed: ends the process. */
[[noreturn]] void end_after_failed_commit(const THD *thd);

/* Whether InnoDB is in the transaction. Where it joins one after a savepoint, ROLLBACK TO that savepoint ends
   the transaction in the provider, with the changes of all engines before it: the server runs the hooks for
   InnoDB. */
bool has_innodb(THD *thd);

/* ROLLBACK TO SAVEPOINT for an engine that has joined the transaction since the savepoint: the rollback of
   its whole part. */
int rollback_to_savepoint(THD *thd, Session *session, bool real);

}  // namespace tidesdb::cluster
#endif
