/*
  Certification keys of changed rows, for the write set of a Galera cluster (cluster/row_keys.h).

  A load fills a table that nobody sees, and a row of a sequence is no row of a transaction: both give none.
*/
#include "handler/ha_tidesdb.h"

#include "sql_class.h"
#include "sql_lex.h"

#include "cluster/row_keys.h"

using namespace tidesdb;

/* The server gives those of CREATE ... SELECT to the write set for InnoDB alone. */
int ha_tidesdb::append_table_keys(THD *thd) {
  if (thd_sql_command(thd) != SQLCOM_CREATE_TABLE || is_temporary_ || !cluster::replicates(thd) ||
      thd->lex->first_select_lex()->item_list.is_empty())
    return 0;
  return cluster::append_table_keys(thd, table);
}

/* As InnoDB does, the keys of parents come before the row's own. */
int ha_tidesdb::append_keys(const uchar *old_record, const uchar *new_record) {
  THD *thd = table->in_use;
  if (bulk_ || is_temporary_ || is_sequence() || !cluster::replicates(thd)) return 0;
  const uchar *before = with_indexed_columns(old_record, &buffers_.old_columns),
              *after = with_indexed_columns(new_record, &buffers_.new_columns);
  if (checks_foreign_keys() && row_checks_->has_references()) {
    if (!parent_keys_) parent_keys_.reset(new (std::nothrow) cluster::ParentKeys(table));
    if (!parent_keys_) return HA_ERR_OUT_OF_MEM;
    if (const int error = parent_keys_->append(session_, *row_checks_, action_, row_checks_->current(before),
                                               row_checks_->current(after)))
      return error;
  }
  if (action_ != 0 || !cluster::gives_keys(thd, table, !old_record)) return 0;
  return cluster::append_row_keys(thd, table, row_checks_.get(), before, after);
}
