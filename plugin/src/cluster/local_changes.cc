#include "cluster/local_changes.h"

#include <mysql/plugin.h>

#include "log.h"
#include "sql_lex.h"

#include "cluster/participation.h"
#include "ddl/table_path.h"
#include "store/store.h"
#include "txn/session.h"

namespace tidesdb::cluster {

namespace {

constexpr char THIS_NODE_ALONE[] = "SET SESSION wsrep_on=OFF changes this node alone";

std::string name_of(const TABLE_SHARE *share) {
  return std::string("'").append(share->db.str, share->db.length) + "." +
         std::string(share->table_name.str, share->table_name.length) + "'";
}

/* Whether the statement runs for the cluster: on its way to the other nodes, or come from one of them at its
   place in the order. The mode is that of the write set in an applier of rows. */
bool runs_for_all_nodes(const THD *thd) {
  return WSREP_NNULL(thd) && thd->wsrep_cs().mode() != wsrep::client_state::m_high_priority;
}

const TABLE *altered_table(THD *thd) {
  const TABLE_LIST *first = thd->lex->first_select_lex()->table_list.first;
  return first ? first->table : nullptr;
}

/* Whether the table that an ALTER or its like makes takes the place of one with this engine. */
bool keeps_engine(THD *thd) {
  switch (thd_sql_command(thd)) {
    case SQLCOM_CREATE_INDEX:
    case SQLCOM_DROP_INDEX:
    case SQLCOM_OPTIMIZE:
    case SQLCOM_REPAIR:
      return true;
    case SQLCOM_ALTER_TABLE: {
      const TABLE *altered = altered_table(thd);
      return altered && altered->file->partition_ht() == plugin.hton;
    }
    default:
      return false;
  }
}

/* Whether changes of rows that the session makes now are for all nodes. Rows that an ALTER or its like
   puts into a new table are the old one's: refuses_new_table() has decided on it. */
bool is_for_cluster(const THD *thd, const std::string &name) {
  return WSREP_NNULL(thd) && thd->wsrep_cs().mode() == wsrep::client_state::m_local &&
         !thd->wsrep_ignore_table && !is_temporary(name) && !is_intermediate(name);
}

/* UPDATE and DELETE would lock rows before their first change. A table that a trigger or function may write
   to may not be changed at all. */
bool changes_locked_rows(int command, const TABLE *table) {
  switch (command) {
    case SQLCOM_UPDATE:
    case SQLCOM_UPDATE_MULTI:
    case SQLCOM_DELETE:
    case SQLCOM_DELETE_MULTI:
      return !table->pos_in_table_list || !table->pos_in_table_list->prelocking_placeholder;
    default:
      return false;
  }
}

/* Whether the statement gives another engine to this table, and must not. */
bool gives_other_engine(THD *thd, const TABLE *table) {
  if (thd_sql_command(thd) != SQLCOM_ALTER_TABLE || !runs_for_all_nodes(thd) || table != altered_table(thd))
    return false;
  const HA_CREATE_INFO &info = thd->lex->create_info;
  return info.used_fields & HA_CREATE_USED_ENGINE && info.db_type && info.db_type != plugin.hton;
}

/* What a node that takes part does not replicate. */
const char *not_replicated(const THD *thd, RowsOf rows) {
  if (rows == RowsOf::SEQUENCE) return "sequences are replicated in InnoDB alone: use ENGINE=InnoDB";
  if (rows == RowsOf::EXPIRING_TABLE)
    return "rows that expire do so by each node's clock, and would be there on one node and gone on another: "
           "take the lifetime from the table (TTL, a TTL column) and from tidesdb_ttl";
  if (thd->variables.wsrep_trx_fragment_size != 0)
    return "streaming replication holds no TidesDB tables: SET SESSION wsrep_trx_fragment_size=0";
  return nullptr;
}

}  // namespace

int refuse_in_cluster(Session *session, const TABLE *table, const std::string &name, bool may_write,
                      RowsOf rows) {
  THD *thd = table->in_use;
  if (takes_part())
    return may_write && changes_locked_rows(thd_sql_command(thd), table)
               ? refuse_rows_in_cluster(session, table, name, rows)
               : 0;
  if (!is_temporary(name) && gives_other_engine(thd, table)) {
    session->refuse("rows of " + name_of(table->s) +
                    " may differ from node to node, and would differ in a replicated table. CREATE TABLE "
                    "... ENGINE=InnoDB SELECT gives this node's rows to all; " +
                    THIS_NODE_ALONE);
    return ERROR_NOT_REPLICATED;
  }
  return may_write && changes_locked_rows(thd_sql_command(thd), table)
             ? refuse_rows_in_cluster(session, table, name, rows)
             : 0;
}

int refuse_rows_in_cluster(Session *session, const TABLE *table, const std::string &name, RowsOf rows) {
  if (!is_for_cluster(table->in_use, name)) return 0;
  if (takes_part()) {
    const char *why = not_replicated(table->in_use, rows);
    if (!why) return 0;
    session->refuse("Galera cannot replicate the change of " + name_of(table->s) + ": " + why + "; " +
                    THIS_NODE_ALONE);
    return ERROR_NOT_REPLICATED;
  }
  session->refuse("Galera does not replicate rows of TidesDB tables: those of " + name_of(table->s) +
                  " would change on this node alone. Use an InnoDB table; " + THIS_NODE_ALONE);
  return ERROR_NOT_REPLICATED;
}

bool refuses_new_table(THD *thd) {
  if (takes_part() || !runs_for_all_nodes(thd) || keeps_engine(thd)) return false;
  const bool on_all_nodes = thd->wsrep_cs().mode() != wsrep::client_state::m_local;
  if (on_all_nodes && !(thd->lex->create_info.used_fields & HA_CREATE_USED_ENGINE)) {
    push_warning_printf(thd, Sql_condition::WARN_LEVEL_WARN, ER_GALERA_REPLICATION_NOT_SUPPORTED,
                        "TidesDB: Galera does not replicate rows of TidesDB tables, and those of this one "
                        "cannot be changed. Use ENGINE=InnoDB; %s",
                        THIS_NODE_ALONE);
    return false;
  }
  my_printf_error(ER_GALERA_REPLICATION_NOT_SUPPORTED,
                  "TidesDB: Galera does not replicate rows of TidesDB tables, and none is made. Use "
                  "ENGINE=InnoDB; %s",
                  MYF(0), THIS_NODE_ALONE);
  return true;
}

void say_at_start() {
  sql_print_warning(
      "TidesDB: Galera does not replicate rows of TidesDB tables. Where wsrep_on is ON, a change of them, a "
      "new table and one that gets another engine fail (4165); temporary tables are free. %s",
      THIS_NODE_ALONE);
}

}  // namespace tidesdb::cluster
