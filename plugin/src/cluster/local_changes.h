/*
  On a node of a Galera cluster: changes that would stay on the node where they begin, and fail there.

  Where the engine does not take part (cluster/participation.h): Galera replicates statements that change
  definitions, for all engines: each node runs them at the same place of one order (total order isolation). It
  replicates rows for InnoDB alone. So where wsrep_on holds for the session, and a provider is loaded, these
  fail with 4165:

  - A change of rows of a TidesDB table. A transaction of an asynchronous replica begins on this node as a
    client's does. An applier brings another node's rows, and is not touched.
  - A new TidesDB table, and an ALTER that gives a table this engine. The server sends the statement to the
    other nodes before any engine hears of it. A refusal here alone would leave the table on all the others:
    each node refuses it, by one number. (The nodes vote on the numbers of errors; who differs leaves.)
    A statement that does not name the engine is made: CREATE TABLE by default_storage_engine, or LIKE another
    table. Other nodes may take another engine for it. A warning tells that the table's rows cannot change.
  - An ALTER that gives a TidesDB table another engine. Its rows may differ from node to node, and are
    replicated from then on: the first change of a row that one node has not throws that node out.

  All else goes on: reads, and DROP, TRUNCATE, RENAME and the changes of a definition that keep the engine.
  They do the same on each node and make no row that one node alone has. People need them to get out: CREATE
  TABLE
  ... ENGINE=InnoDB SELECT gives this node's rows to all, then DROP and RENAME.

  Where it takes part, changes fail of rows that expire, and those of a transaction that is replicated in
  fragments.

  SET SESSION wsrep_on=OFF and wsrep_OSU_method=RSU say that a change is for this node alone: it is made.
*/
#ifndef TIDESDB_CLUSTER_LOCAL_CHANGES_H
#define TIDESDB_CLUSTER_LOCAL_CHANGES_H

#include <string>

#include "key/sql_headers.h"

#include "sql_class.h"

#include "errors.h"

namespace tidesdb {
class Session;
}

namespace tidesdb::cluster {

/* Rows that even a node that takes part does not replicate. */
enum class RowsOf { PLAIN_TABLE, EXPIRING_TABLE, SEQUENCE };

/* Before a statement reads or locks a row of the table (canonical name): 0, or an error of the handler's. */
int refuse_in_cluster(Session *session, const TABLE *table, const std::string &name, bool may_write,
                      RowsOf rows);
inline int refuse_statement(Session *session, const TABLE *table, const std::string &name, bool may_write,
                            RowsOf rows) {
  return WSREP_PROVIDER_EXISTS_ ? refuse_in_cluster(session, table, name, may_write, rows) : 0;
}

/* Before each change of a row. */
int refuse_rows_in_cluster(Session *session, const TABLE *table, const std::string &name, RowsOf rows);
inline int refuse_rows(Session *session, const TABLE *table, const std::string &name, RowsOf rows) {
  return WSREP_PROVIDER_EXISTS_ ? refuse_rows_in_cluster(session, table, name, rows) : 0;
}

/* Whether the statement gives this engine to a table (not a temporary one), and must not: says so. Where it
   may, but the table's rows cannot change, a warning says that. */
bool refuses_new_table(THD *thd);

/* The line for the error log, where a provider is loaded. */
void say_at_start();

}  // namespace tidesdb::cluster
#endif
