/*
  SET GLOBAL tidesdb_backup_dir and tidesdb_checkpoint_dir: a backup of the store and of the definitions of
  its tables, at one moment between two transactions of the binary log, whose position is noted in it.
*/
#ifndef TIDESDB_BACKUP_ONLINE_BACKUP_H
#define TIDESDB_BACKUP_ONLINE_BACKUP_H

#include "key/sql_headers.h"

namespace tidesdb {

/* Takes the backup; `links`: with hard links for tables. true: failed, and the server's error is set. */
bool take_backup(THD *thd, const char *directory, bool links);

}  // namespace tidesdb
#endif
