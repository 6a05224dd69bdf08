/*
  SHOW GLOBAL STATUS LIKE 'tidesdb%' and SHOW ENGINE TIDESDB STATUS.
*/
#ifndef TIDESDB_STATUS_H
#define TIDESDB_STATUS_H

#include "key/sql_headers.h"

struct st_mysql_show_var;

namespace tidesdb {

extern struct st_mysql_show_var status_variables[];

bool show_engine_status(handlerton *hton, THD *thd, stat_print_fn *print, ha_stat_type type);

}  // namespace tidesdb
#endif
