#include "cluster/victims.h"

#include "key/sql_headers.h"

#include <mysql/plugin.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>

#include "sql_class.h"

#include "mutant.h"
#include "txn/session.h"
#include "txn/wait_observer.h"

namespace tidesdb::cluster {

namespace {

constexpr std::chrono::milliseconds BETWEEN_LOOKS{10};

struct Watch {
  std::mutex mutex;
  std::condition_variable ending;
  bool ends = false;
  std::thread thread;
};
Watch watch;

/* Under the locks of kill_query, so that a mark which the session takes back meanwhile is not passed on. */
void pass_on(THD *thd, Session *session) {
  if (thd_kill_level(thd) == THD_IS_NOT_KILLED || MUTANT(VictimSleeps) || MUTANT(MarkedVictimSleeps)) return;
  mysql_mutex_lock(&thd->LOCK_thd_kill);
  mysql_mutex_lock(&thd->LOCK_thd_data);
  if (thd_kill_level(thd) != THD_IS_NOT_KILLED) session->kill();
  mysql_mutex_unlock(&thd->LOCK_thd_data);
  mysql_mutex_unlock(&thd->LOCK_thd_kill);
}

void look_until_end() {
  my_thread_init();
  std::unique_lock<std::mutex> guard(watch.mutex);
  while (!watch.ending.wait_for(guard, BETWEEN_LOOKS, [] { return watch.ends; })) visit_connections(pass_on);
  my_thread_end();
}

}  // namespace

bool watch_victims() {
  if (!WSREP_PROVIDER_EXISTS_) return true;
  watch.ends = false;
  try {
    watch.thread = std::thread(look_until_end);
  } catch (const std::system_error &) {
    return false;
  }
  return true;
}

void leave_victims() {
  if (!watch.thread.joinable()) return;
  {
    std::lock_guard<std::mutex> guard(watch.mutex);
    watch.ends = true;
  }
  watch.ending.notify_one();
  watch.thread.join();
}

}  // namespace tidesdb::cluster
