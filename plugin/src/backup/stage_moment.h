/*
  A backup whose moment is that of another connection's: BACKUP STAGE BLOCK_COMMIT. So mariadb-backup, or a
  dump, and a backup of the store have one moment for all engines.

  Who holds that stage says FLUSH ENGINE LOGS, as mariadb-backup does: this thread stops there until the
  backup that waits has taken its point. Nobody commits meanwhile, and no definition changes.
*/
#ifndef TIDESDB_BACKUP_STAGE_MOMENT_H
#define TIDESDB_BACKUP_STAGE_MOMENT_H

#include "key/sql_headers.h"

namespace tidesdb {

/* Of the thread of the backup; one at a time, as there is one backup at a time. */
class StageMoment {
 public:
  StageMoment() = default;
  ~StageMoment();
  StageMoment(const StageMoment &) = delete;
  StageMoment &operator=(const StageMoment &) = delete;

  enum class Wait { HELD, TIMEOUT, KILLED };
  /* Waits for lock_wait_timeout at most. HELD: the stage is held until end(). */
  Wait wait(THD *thd);
  /* Lets the holder go on. true: it was ended meanwhile, and the moment is no one's. */
  bool end();
};

/* To be called by FLUSH ENGINE LOGS, in its thread. */
void offer_moment(THD *thd);

/* To be called at BACKUP STAGE START: without a backup that waits, the error log says that the store needs
   its own. */
void note_backup_without_store();

}  // namespace tidesdb
#endif
