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
/* The collations of an expression and all its parts, each by what its name says beyond the character set:
   that of a column may become a larger one in place. The text lacks those of CAST and CONVERT to a character
   set and of literals with one: they are the session's default when the table is opened. */
std::string collations_of(const Virtual_column_info *expression);
/* A text, or several, of the definition with the new names of columns. */
std::string with_new_names(const std::string &text, const Renames &renames);
std::string quoted_name(const std::string &name);

bool same_expression(const Virtual_column_info *before, const Virtual_column_info *after,
                     const Renames &renames);

bool reads_column(const Virtual_column_info *expression, const Field *field);
/* Whether any CHECK of an open table reads the column. */
bool is_checked(const TABLE *table, const Field *field);

}  // namespace tidesdb
#endif
