/*
  TIDESDB_MEMORY: who holds the engine's memory.
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
  const std::vector<MetricValue> holders = memory_holders(row.db());
  for (const MetricValue &holder : holders) {
    row.text(holder.name);
    row.number(static_cast<uint64_t>(holder.value));
    row.text(holder.comment);
    if (row.store()) break;
  }
  return row.result();
}

}  // namespace

int init_memory(void *schema) { return describe(schema, columns, fill); }

}  // namespace i_s

}  // namespace tidesdb
