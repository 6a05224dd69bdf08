/*
  The plugin's one handle on the engine: the store of this server, and its handlerton.

  The store is opened in the plugin's init and closed in its deinit; between them both pointers are
  constant. The data directory follows the rule of the specification: an existing `#tidesdb` inside the
  server's data directory wins, else `tidesdb_data` next to it, else a new `#tidesdb`.
*/
#ifndef TIDESDB_STORE_STORE_H
#define TIDESDB_STORE_STORE_H

#include <string>

#include "key/sql_headers.h"
#include "tidesdb.h"

namespace tidesdb {

struct Plugin {
  handlerton *hton = nullptr;
  tidesdb_db *db = nullptr;
  /* True from the moment when the server has repeated its DDL log: from then on nothing is idempotent
     that need not be. */
  bool ddl_recovery_done = false;
  std::string home;
};
extern Plugin plugin;

/* Opens the store as the variables say. Errors are written to the error log; true: failed. */
bool open_store();
/* Returns whether it was closed in order. */
bool close_store();

}  // namespace tidesdb
#endif
