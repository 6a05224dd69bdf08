#include "backup/stage_moment.h"

#include <mysql/plugin.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

#include "log.h"
#include "mdl.h"
#include "sql_class.h"

#include "store/handles.h"
#include "store/store.h"

namespace tidesdb {

namespace {

/* Between two looks at KILL and at the client's connection. */
constexpr std::chrono::milliseconds LOOK(50);

enum class State { NOBODY, WAITS, HELD, ABANDONED };

std::mutex mutex;
std::condition_variable changed;
State state = State::NOBODY;

/* Of the connection that holds the stage. */
ulong holder;

bool ends(THD *thd) { return thd_kill_level(thd) >= THD_ABORT_SOFTLY; }

int note_holder(MDL_ticket *ticket, void *found, bool granted) {
  if (granted && ticket->get_key()->mdl_namespace() == MDL_key::BACKUP &&
      ticket->get_type() == MDL_BACKUP_WAIT_COMMIT)
    *static_cast<ulong *>(found) = ticket->get_ctx()->get_thread_id();
  return 0;
}

/* The connection in BACKUP STAGE BLOCK_COMMIT; 0: none. mariadb-backup has one for its stages, and another
   one for FLUSH ENGINE LOGS. */
ulong holder_now() {
  ulong found = 0;
  mdl_iterate(note_holder, &found);
  return found;
}

}  // namespace

StageMoment::~StageMoment() { end(); }

StageMoment::Wait StageMoment::wait(THD *thd) {
  std::unique_lock<std::mutex> lock(mutex);
  state = State::WAITS;
  const auto until =
      std::chrono::steady_clock::now() + std::chrono::seconds(thd->variables.lock_wait_timeout);
  while (state == State::WAITS) {
    const bool late = std::chrono::steady_clock::now() >= until;
    /* Whoever asked for it may be gone: nobody would end the wait. */
    const bool killed = ends(thd) || !thd->is_connected();
    if (late || killed) {
      state = State::NOBODY;
      return killed ? Wait::KILLED : Wait::TIMEOUT;
    }
    changed.wait_for(lock, LOOK);
  }
  return Wait::HELD;
}

bool StageMoment::end() {
  const std::lock_guard<std::mutex> lock(mutex);
  const bool abandoned = state == State::ABANDONED || (state == State::HELD && holder_now() != holder);
  state = State::NOBODY;
  changed.notify_all();
  return abandoned;
}

void offer_moment(THD *thd) {
  /* Others, as RESET MASTER, come here with a mutex of the binary log that the backup needs. */
  if (!thd || thd->lex->sql_command != SQLCOM_FLUSH || !(thd->lex->type & REFRESH_ENGINE_LOG)) return;
  std::unique_lock<std::mutex> lock(mutex);
  if (state != State::WAITS) return;
  holder = holder_now();
  if (!holder) return;
  state = State::HELD;
  changed.notify_all();
  while (state == State::HELD) {
    /* A killed statement goes to its end, and the stage may end after it. */
    if (ends(thd))
      state = State::ABANDONED;
    else
      changed.wait_for(lock, LOOK);
  }
}

void note_backup_without_store() {
  {
    const std::lock_guard<std::mutex> lock(mutex);
    if (state != State::NOBODY) return;
  }
  std::vector<std::string> families;
  if (!plugin.db || list_families(plugin.db, "", &families) != TIDESDB_OK || families.empty()) return;
  sql_print_warning(
      "TidesDB: BACKUP STAGE START: a backup by these stages, as mariadb-backup takes it, has no rows of "
      "TidesDB tables. `tidesdb-admin backup take` backs up all engines at one moment, SET GLOBAL "
      "tidesdb_backup_dir TidesDB alone");
}

}  // namespace tidesdb
