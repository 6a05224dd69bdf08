#include "cluster/state_transfer.h"

#include <signal.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>

#include "log.h"
#include "sql_class.h"

#include "wsrep_mysqld.h"

#include "cluster/participation.h"
#include "cluster/position.h"
#include "store/home.h"
#include "store/regular_file.h"
#include "store/store.h"

namespace tidesdb::cluster {

namespace {

/* In the data directory, of the script: WANTED and its process. Then of this server: MAKING, MADE or FAILED,
   its process, and the store's directory. */
constexpr char REQUEST_FILE[] = "tidesdb_transfer";
constexpr char WANTED[] = "wanted ", MAKING[] = "making ", MADE[] = "made ", FAILED[] = "failed ";

/* Of the engine (backup/mod.rs and version/restoring.rs). */
constexpr char CHECKPOINT[] = "transfer", HALF[] = "RESTORING", HALF_TRANSFER[] = "state transfer";

constexpr std::chrono::milliseconds BETWEEN_LOOKS{200};

struct Donation {
  std::mutex mutex;
  std::condition_variable ending;
  std::atomic<bool> ends{false};
  std::thread thread;
};
Donation donation;

std::string data_directory() { return real_place(mysql_real_data_home); }
std::string request_path() { return data_directory() + "/" + REQUEST_FILE; }
std::string checkpoint_path() { return plugin.home + "/" + CHECKPOINT; }

bool begins_with(const std::string &text, const char *start) { return text.rfind(start, 0) == 0; }

/* The process of the script that waits for a checkpoint; 0: none does. */
pid_t script_that_waits() {
  std::string text;
  if (!read_regular_file(request_path(), &text) || !begins_with(text, WANTED)) return 0;
  return static_cast<pid_t>(strtol(text.c_str() + sizeof(WANTED) - 1, nullptr, 10));
}

bool answer(const char *state) {
  const std::string text = state + std::to_string(getpid()) + " " + plugin.home + "\n";
  if (!replace_regular_file(data_directory(), REQUEST_FILE, text)) return true;
  sql_print_error("TidesDB: state transfer: cannot write '%s': %s", request_path().c_str(), strerror(errno));
  return false;
}

bool fail(const char *why) {
  sql_print_error("TidesDB: state transfer: the checkpoint in '%s' failed: %s", checkpoint_path().c_str(),
                  why);
  answer(FAILED);
  return true;
}

/* Its tables are names of the store's own files, and keep what they had on the disk. */
void remove_checkpoint() {
  std::error_code error;
  std::filesystem::remove_all(checkpoint_path(), error);
  if (error)
    sql_print_warning("TidesDB: state transfer: cannot remove '%s': %s", checkpoint_path().c_str(),
                      error.message().c_str());
}

int stop(void *) { return donation.ends.load(); }

bool lives(pid_t process) { return kill(process, 0) == 0 || errno == EPERM; }

void finish(tidesdb_backup_job *job, pid_t script) {
  my_thread_init();
  const tidesdb_watch watch{nullptr, stop, nullptr};
  if (tidesdb_backup_finish(job, &watch) != TIDESDB_OK)
    fail(tidesdb_last_error());
  else if (answer(MADE))
    sql_print_information("TidesDB: state transfer: the checkpoint is complete");
  std::unique_lock<std::mutex> guard(donation.mutex);
  const auto over = [script] {
    return donation.ends.load() || !lives(script) || access(request_path().c_str(), F_OK) != 0;
  };
  while (!over()) donation.ending.wait_for(guard, BETWEEN_LOOKS);
  remove_checkpoint();
  /* Another script may have asked. */
  if (!script_that_waits()) unlink(request_path().c_str());
  my_thread_end();
}

/* The thread in which the server holds the lock for a donor has no client. */
bool is_donor(const THD *thd) { return thd && !thd->net.vio && thd->global_read_lock.is_acquired(); }

}  // namespace

bool donate(THD *thd) {
  if (!takes_part() || !is_donor(thd)) return false;
  const pid_t script = script_that_waits();
  if (!script) return false;
  end_donation();
  if (!claim_position()) return fail("the position in the cluster cannot be written");
  tidesdb_backup_job *job = nullptr;
  if (tidesdb_backup_begin(plugin.db, checkpoint_path().c_str(), 1, &job) != TIDESDB_OK)
    return fail(tidesdb_last_error());
  if (tidesdb_backup_point(job, nullptr, nullptr) != TIDESDB_OK) {
    const std::string why = tidesdb_last_error();
    tidesdb_backup_abandon(job);
    return fail(why.c_str());
  }
  if (!answer(MAKING)) {
    tidesdb_backup_abandon(job);
    return true;
  }
  donation.ends.store(false);
  try {
    donation.thread = std::thread(finish, job, script);
  } catch (const std::system_error &) {
    tidesdb_backup_abandon(job);
    return fail("no thread can be made");
  }
  return false;
}

void end_donation() {
  if (donation.thread.joinable()) {
    {
      std::lock_guard<std::mutex> guard(donation.mutex);
      donation.ends.store(true);
    }
    donation.ending.notify_one();
    donation.thread.join();
  }
  remove_checkpoint();
}

bool tells_position_alone() { return wsrep_recovery; }

bool has_half_transfer() {
  std::string mark;
  const std::string home = find_home(data_directory());
  return read_regular_file(home + "/" + HALF, &mark) && begins_with(mark, HALF_TRANSFER);
}

}  // namespace tidesdb::cluster
