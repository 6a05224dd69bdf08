/*
  SHOW ENGINE TIDESDB STATUS: the engine's figures, rates since the call before, transactions with their
  statements and waits, the last deadlock, the last refused foreign key. A section that has nothing to say is
  left out.
*/
#ifndef TIDESDB_STATUS_TEXT_H
#define TIDESDB_STATUS_TEXT_H

#include "key/sql_headers.h"

namespace tidesdb {

bool show_engine_status(handlerton *hton, THD *thd, stat_print_fn *print, ha_stat_type type);

}  // namespace tidesdb
#endif
