/*
  Keys of the tables that refer to a table whose rows an UPDATE changes: SHARED, so that a statement which
  changes the definition of such a table on another node conflicts.

  The server appends them for the children that an engine tells it of. For UPDATE this engine tells of none
  (handler/foreign.cc, get_parent_foreign_key_list()).
*/
#ifndef TIDESDB_CLUSTER_CHILD_KEYS_H
#define TIDESDB_CLUSTER_CHILD_KEYS_H

#include <string>

#include "key/sql_headers.h"

namespace tidesdb::cluster {

/* Of the children of `table` (canonical), and of their children where actions change their rows. Returns 0 or
   HA_ERR_INTERNAL_ERROR. */
int append_child_keys(THD *thd, const std::string &table);

}  // namespace tidesdb::cluster
#endif
