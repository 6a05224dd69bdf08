/*
  The value of a SET of a BOOL variable. The server's own reading of it is in no header.
*/
#ifndef TIDESDB_BOOLEAN_VALUE_H
#define TIDESDB_BOOLEAN_VALUE_H

#include "key/sql_headers.h"

struct st_mysql_value;

namespace tidesdb {

/* false: the value is no BOOL. */
bool read_bool(st_mysql_value *value, my_bool *result);

}  // namespace tidesdb
#endif
