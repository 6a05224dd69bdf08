/*
  Expressions of a table's definition (CHECK, generated columns) in two open tables: whether they are the
  same, and which columns they read.

  The server's comparison of expressions tells columns of two open tables apart even where they are the same
  column, so the texts are compared, with the old names of columns replaced by the new ones.
*/
#ifndef TIDESDB_DDL_EXPRESSION_TEXT_H
#define TIDESDB_DDL_EXPRESSION_TEXT_H

#include <map>
#include <string>

#include "key/sql_headers.h"

namespace tidesdb {

/* New names by old ones, of columns that are called otherwise now. */
using Renames = std::map<std::string, std::string>;

/* As it stands in the definition. */
std::string expression_text(const Virtual_column_info *expression);

bool same_expression(const Virtual_column_info *before, const Virtual_column_info *after,
                     const Renames &renames);

bool reads_column(const Virtual_column_info *expression, const Field *field);
/* Whether any CHECK of an open table reads the column. */
bool is_checked(const TABLE *table, const Field *field);

}  // namespace tidesdb
#endif
