/*
  Foreign keys that tidesdb_foreign_keys=WARN has dropped. They check nothing. The table's record keeps their
  names and definitions for two readers: DROP FOREIGN KEY of one succeeds with a note, as migrations of
  applications need it, and TIDESDB_FOREIGN_KEYS tells which keys are missing.

  A name is kept until DROP FOREIGN KEY ends it, or a key of that name takes its place. It is in no other
  key's way. SHOW CREATE TABLE and the standard's views know nothing of it.
*/
#ifndef TIDESDB_FOREIGN_DROPPED_KEYS_H
#define TIDESDB_FOREIGN_DROPPED_KEYS_H

#include <map>
#include <string>

#include "ddl/table_record.h"
#include "foreign/foreign_key.h"
#include "key/sql_headers.h"

namespace tidesdb {
namespace foreign {

/* Names of columns that an ALTER keeps, old to new. */
using KeptColumns = std::map<std::string, std::string>;
KeptColumns kept_columns(const Alter_info &statement);

/* Whether the statement has DROP FOREIGN KEY of this name. */
bool drops_key(const Alter_info &statement, const std::string &name);

/* A key of this name is not dropped any more. */
void forget_dropped_key(TableRecord *record, const std::string &name);
/* Takes away what the statement's DROP FOREIGN KEY names. The client gets a note for each. */
void end_dropped_keys(THD *thd, const Alter_info &statement, TableRecord *record);
/* The record of a table that an ALTER by copy of `home` makes takes its dropped keys, then the same. Columns
   of the copy have other numbers. */
void copy_dropped_keys(THD *thd, const Alter_info &statement, const std::string &home, TableRecord *record);

/* The dropped keys of the table that the session's ALTER TABLE is to end: the server takes no name that the
   handler does not list. All others stay out of its sight, since it would take their names for used ones. */
ForeignKeys dropped_keys_to_end(THD *thd, const TABLE *table, const std::string &name);

}  // namespace foreign
}  // namespace tidesdb
#endif
