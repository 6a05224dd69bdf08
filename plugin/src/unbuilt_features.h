/*
  Variables and table options of features that this build does not have: the object store, replica mode,
  encryption. Option files and dumps name them at their defaults, which is silent. Any
  other value asks for the feature and is refused by the feature's name.
*/
#ifndef TIDESDB_UNBUILT_FEATURES_H
#define TIDESDB_UNBUILT_FEATURES_H

#include "key/sql_headers.h"

struct st_mysql_sys_var;
struct st_mysql_value;
struct ha_table_option_struct;

namespace tidesdb {
namespace unbuilt {

/* How many variables variable() has. */
constexpr size_t VARIABLES = 23;
struct st_mysql_sys_var *variable(size_t number);

/* true: a variable is not at its default; the error log has a line for each one. */
bool refuse_variables();

/* The table option that asks for a feature, with the feature's name; nullptr: none does. */
const char *refused_option(const ha_table_option_struct &options);

/* SET of the session's defaults of table options of the object store: anything but the default is an error.
 */
int check_object_lazy_compaction(THD *thd, st_mysql_sys_var *variable, void *save, st_mysql_value *value);
int check_object_prefetch_compaction(THD *thd, st_mysql_sys_var *variable, void *save, st_mysql_value *value);
/* Says in the error log that this variable of an option file asks for the object store. */
void log_object_store_variable(const char *name);

}  // namespace unbuilt
}  // namespace tidesdb
#endif
