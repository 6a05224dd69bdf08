/*
  Indexes over virtual columns that an earlier build made: their entries were taken from what records held,
  and may disagree with their rows. Such an index has no settings in the table's record. It is made anew when
  its table is opened first.
*/
#ifndef TIDESDB_DDL_INDEX_REBUILD_H
#define TIDESDB_DDL_INDEX_REBUILD_H

#include <string>

#include "ddl/table_record.h"
#include "key/sql_headers.h"

namespace tidesdb {

bool has_stale_indexes(const TABLE *table, const TableRecord &record);

/*
  Makes them anew under the settings of this session. `table` is being opened by `thd`, and nobody else has it
  open. *record becomes the new one. Status of the engine; after an error all is as before. An open
  transaction on the table, of XA, is one.
*/
int rebuild_stale_indexes(THD *thd, TABLE *table, const std::string &name, tidesdb_family *rows,
                          TableRecord *record);

}  // namespace tidesdb
#endif
