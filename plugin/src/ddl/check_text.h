/*
  Whether a CHECK is the same in two definitions of a table. The server's comparison of expressions tells
  columns of two open tables apart even where they are the same column, so the texts are compared, with the
  old names of columns replaced by the new ones.
*/
#ifndef TIDESDB_DDL_CHECK_TEXT_H
#define TIDESDB_DDL_CHECK_TEXT_H

#include <map>
#include <string>

#include "key/sql_headers.h"

namespace tidesdb {

/* New names by old ones, of columns that are called otherwise now. */
using Renames = std::map<std::string, std::string>;

bool same_check(const Virtual_column_info *before, const Virtual_column_info *after, const Renames &renames);

}  // namespace tidesdb
#endif
