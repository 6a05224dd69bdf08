/*
  SHOW GLOBAL STATUS LIKE 'tidesdb%'; its figures also for INFORMATION_SCHEMA.TIDESDB_METRICS and
  TIDESDB_MEMORY.
*/
#ifndef TIDESDB_STATUS_H
#define TIDESDB_STATUS_H

#include <vector>

#include "key/sql_headers.h"
#include "tidesdb.h"

struct st_mysql_show_var;

namespace tidesdb {

extern struct st_mysql_show_var status_variables[];

struct MetricValue {
  const char *name; /* that of the status variable, without `tidesdb_` */
  double value;
  bool grows; /* counts from the start of the server on; else what there is now */
  const char *comment;
  bool is_holder; /* of the engine's memory: its name is after `memory_` */
};

/* Entries of indexes over virtual columns that reads have passed over, since they lead to no row. */
ulonglong passed_index_entries();

/* Every status variable that is a number. */
std::vector<MetricValue> metrics(tidesdb_db *db);

}  // namespace tidesdb
#endif
