/*
  The options of tables, columns and indexes, and the session variables tidesdb_default_* that are the
  defaults of the first.
*/
#ifndef TIDESDB_TABLE_OPTIONS_H
#define TIDESDB_TABLE_OPTIONS_H

#include "key/sql_headers.h"

struct st_mysql_sys_var;

namespace tidesdb {
namespace sysvars {

/* NONE, INTERVAL, FULL. */
extern TYPELIB sync_mode_type;

/* How many variables table_variable() has. */
constexpr size_t TABLE_VARIABLES = 25;
struct st_mysql_sys_var *table_variable(size_t number);

/* At the start of the server: logs those that have a value without effect. */
void note_table_variables();
/* true: one asks for a feature that is not there; the error log says which. */
bool refuse_table_variables();

}  // namespace sysvars
}  // namespace tidesdb
#endif
