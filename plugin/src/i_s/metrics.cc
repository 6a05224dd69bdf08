/*
  TIDESDB_METRICS: the status variables as a table, each with its kind and its meaning.
*/
#include "key/sql_headers.h"

#include <mysql/plugin.h>

#include "i_s/filling.h"
#include "i_s/tables.h"
#include "status.h"

namespace tidesdb {

namespace i_s {

namespace {

ST_FIELD_INFO columns[] = {Show::Column("NAME", Show::Name(), NOT_NULL),
                           Show::Column("VALUE", Show::Double(MY_INT64_NUM_DECIMAL_DIGITS), NOT_NULL),
                           Show::Column("TYPE", Show::Varchar(8), NOT_NULL),
                           Show::Column("COMMENT", Show::Varchar(128), NOT_NULL), Show::CEnd()};

int fill(THD *thd, TABLE_LIST *tables, Item *) {
  Filling row(thd, tables);
  if (!row.may_read()) return row.refused();
  const std::vector<MetricValue> values = metrics(row.db());
  for (const MetricValue &metric : values) {
    row.text(metric.name);
    row.real(metric.value);
    row.text(metric.grows ? "COUNTER" : "GAUGE");
    row.text(metric.comment);
    if (row.store()) break;
  }
  return row.result();
}

}  // namespace

int init_metrics(void *schema) { return describe(schema, columns, fill); }

}  // namespace i_s

}  // namespace tidesdb
