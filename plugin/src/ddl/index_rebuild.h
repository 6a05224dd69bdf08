/*
  Indexes over virtual columns that may disagree with their rows. They are made anew when their table is
  opened first. Such are
  - those that an earlier build made: their entries were taken from what records held. They have no settings
  in the table's record;
  - those whose columns have other expressions now (ddl/index_expressions.h).
*/
#ifndef TIDESDB_DDL_INDEX_REBUILD_H
#define TIDESDB_DDL_INDEX_REBUILD_H

#include <string>

#include "ddl/table_record.h"
#include "key/sql_headers.h"

namespace tidesdb {

bool has_stale_indexes(const TABLE *table, const TableRecord &record);

/*
  Makes them anew under their settings, which are those of this session where they have none. `table` is being
  opened by `thd`, and nobody else has it open. *record becomes the new one. Status of the engine; after an
  error all is as before. An open transaction on the table, of XA, is one.
*/
int rebuild_stale_indexes(THD *thd, TABLE *table, const std::string &name, tidesdb_family *rows,
                          TableRecord *record);

}  // namespace tidesdb
#endif
