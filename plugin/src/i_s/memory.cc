/*
  TIDESDB_MEMORY: who holds the engine's memory, of the status variables.
*/
#include "key/sql_headers.h"

#include <mysql/plugin.h>

#include "i_s/filling.h"
#include "i_s/tables.h"
#include "status.h"

namespace tidesdb {

namespace i_s {

namespace {

ST_FIELD_INFO columns[] = {Show::Column("HOLDER", Show::Name(), NOT_NULL),
                           Show::Column("BYTES", Show::ULonglong(), NOT_NULL),
                           Show::Column("COMMENT", Show::Varchar(128), NOT_NULL), Show::CEnd()};

int fill(THD *thd, TABLE_LIST *tables, Item *) {
  Filling row(thd, tables);
  if (!row.may_read()) return row.refused();
  for (const MetricValue &metric : metrics(row.db())) {
    if (!metric.is_holder) continue;
    row.text(metric.name + strlen("memory_"));
    row.number(static_cast<uint64_t>(metric.value));
    row.text(metric.comment);
    if (row.store()) break;
  }
  return row.result();
}

}  // namespace

int init_memory(void *schema) { return describe(schema, columns, fill); }

}  // namespace i_s

}  // namespace tidesdb
