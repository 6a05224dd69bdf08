/*
  ALTER TABLE without a copy of a table with foreign keys: which keys it has afterwards, which of them its
  rows are to be checked for, and what it must not take away.
*/
#ifndef TIDESDB_FOREIGN_ALTER_H
#define TIDESDB_FOREIGN_ALTER_H

#include <string>

#include "ddl/table_record.h"
#include "foreign/dropped_keys.h"
#include "foreign/foreign_key.h"
#include "key/sql_headers.h"

namespace tidesdb {
namespace foreign {

/* Old names of columns that get new ones. */
using RenamedColumns = KeptColumns;

struct KeyPlan {
  RenamedColumns renamed;
  /* New keys that the rows are checked for. Their columns have the names of the table as it is. */
  ForeignKeys to_check;
};

/* Puts the foreign keys of the table as it will be into `record`, which has those it has and its new columns.
   nullptr, or why the table must be copied; an error of the THD: the statement is refused. */
const char *plan_keys(TABLE *table, TABLE *altered, const Alter_inplace_info *info, const std::string &name,
                      TableRecord *record, KeyPlan *plan);

}  // namespace foreign
}  // namespace tidesdb
#endif
