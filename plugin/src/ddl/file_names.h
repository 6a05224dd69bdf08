/*
  Tables that a statement names by their files: `#mysql50#name` stands for the file name itself.

  So a statement may name what is no table of its own: a partition (`t#P#p0`), a table in the making
  (`#sql-...`).
*/
#ifndef TIDESDB_DDL_FILE_NAMES_H
#define TIDESDB_DDL_FILE_NAMES_H

#include <string>

#include "key/sql_headers.h"

namespace tidesdb {

/* Whether the statement itself names `table` (canonical) so. The server's own names of the table's parts are
   not meant. */
bool is_named_by_file(THD *thd, const std::string &table);

/* Refuses a new table's name that could be one of the server's own. True: refused, with the error sent. */
bool refuse_file_name(THD *thd, const std::string &table);

}  // namespace tidesdb
#endif
