#include "cluster/state_transfer.h"

#include <signal.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <sstream>
#include <string>
#include <system_error>
#include <thread>

#include "log.h"
#include "sql_class.h"

#include "wsrep_mysqld.h"

#include "cluster/participation.h"
#include "cluster/position.h"
#include "mutant.h"
#include "store/home.h"
#include "store/regular_file.h"
#include "store/store.h"

namespace tidesdb::cluster {

namespace {

/* In the data directory. Of the script: WANTED and its token, "PROCESS.MOMENT". Then of this server: MAKING,
   MADE or FAILED, the token, this process, the store's directory. Whoever reads another token leaves the file
   as it is; whoever finds none gives up. */
constexpr char REQUEST_FILE[] = "tidesdb_transfer";
constexpr char WANTED[] = "wanted", MAKING[] = "making", MADE[] = "made", FAILED[] = "failed";

/* In the data directory of a joiner, of the script: where it put the store. */
constexpr char RECEIVED_FILE[] = "tidesdb_received";

/* Of the engine (backup/mod.rs and version/restoring.rs). */
constexpr char CHECKPOINT[] = "transfer", HALF[] = "RESTORING", HALF_TRANSFER[] = "state transfer";

constexpr std::chrono::milliseconds BETWEEN_LOOKS{200};

struct Donation {
  /* Held while one begins or is ended. */
  std::mutex one;
  bool closed = true;
  std::thread thread;

  std::mutex mutex;
  std::condition_variable ending;
  bool ends = false;
};
Donation donation;

std::string data_directory() { return real_place(mysql_real_data_home); }
std::string request_path() { return data_directory() + "/" + REQUEST_FILE; }
std::string checkpoint_path() { return plugin.home + "/" + CHECKPOINT; }

/* The token of the request, if it is in this state, or in any; "": there is none. */
std::string token_of_request(const char *state = nullptr) {
  std::string text, word, token;
  if (!read_regular_file(request_path(), &text)) return "";
  std::istringstream words(text);
  words >> word >> token;
  return !state || word == state ? token : "";
}

/* A request has the process of its script before the point. */
bool script_waits(const std::string &token) {
  const pid_t script = static_cast<pid_t>(strtol(token.c_str(), nullptr, 10));
  return token_of_request() == token && script > 0 && (kill(script, 0) == 0 || errno == EPERM);
}

void withdraw(const std::string &token) {
  if (token_of_request() == token) unlink(request_path().c_str());
}

/* Without an answer the script would wait: it finds no request then, and gives up. */
bool answer(const char *state, const std::string &token) {
  if (token_of_request() != token) return false;
  const std::string text =
      std::string(state) + " " + token + " " + std::to_string(getpid()) + " " + plugin.home + "\n";
  if (!replace_regular_file(data_directory(), REQUEST_FILE, text)) return true;
  sql_print_error("TidesDB: state transfer: cannot write '%s': %s", request_path().c_str(), strerror(errno));
  withdraw(token);
  return false;
}

bool fail(const std::string &token, const std::string &why) {
  sql_print_error("TidesDB: state transfer: the checkpoint in '%s' failed: %s", checkpoint_path().c_str(),
                  why.c_str());
  answer(FAILED, token);
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

/* For the engine, which asks often. */
class Stop {
 public:
  explicit Stop(const std::string &token) : token_(token) {}

  static int call(void *stop) { return static_cast<Stop *>(stop)->stops(); }

 private:
  bool stops() {
    {
      std::lock_guard<std::mutex> guard(donation.mutex);
      if (donation.ends) return true;
    }
    const auto now = std::chrono::steady_clock::now();
    if (now < next_look_) return false;
    next_look_ = now + BETWEEN_LOOKS;
    return !script_waits(token_);
  }

  const std::string &token_;
  std::chrono::steady_clock::time_point next_look_{};
};

/* For a fault alone: until some commits have followed, where there are any. */
void wait_for_commits() {
  constexpr int COMMITS = 20, LOOKS = 50;
  tidesdb_position before{}, now{};
  tidesdb_get_position(plugin.db, &before);
  for (int look = 0; look < LOOKS && now.number < before.number + COMMITS; look++) {
    std::this_thread::sleep_for(BETWEEN_LOOKS);
    tidesdb_get_position(plugin.db, &now);
  }
}

void finish(tidesdb_backup_job *job, std::string token) {
  my_thread_init();
  Stop stop(token);
  const tidesdb_watch watch{&stop, Stop::call, nullptr};
  if (MUTANT(CheckpointLater)) {
    wait_for_commits();
    tidesdb_backup_point(job, nullptr, nullptr);
  }
  if (tidesdb_backup_finish(job, &watch) != TIDESDB_OK)
    fail(token, tidesdb_last_error());
  else if (answer(MADE, token))
    sql_print_information("TidesDB: state transfer: the checkpoint is complete");
  {
    std::unique_lock<std::mutex> guard(donation.mutex);
    while (!donation.ends && script_waits(token)) donation.ending.wait_for(guard, BETWEEN_LOOKS);
  }
  /* The script looks for the request after it has sent the checkpoint. */
  withdraw(token);
  remove_checkpoint();
  my_thread_end();
}

/* With `one` held. */
void end_thread() {
  if (!donation.thread.joinable()) return;
  {
    std::lock_guard<std::mutex> guard(donation.mutex);
    donation.ends = true;
  }
  donation.ending.notify_one();
  donation.thread.join();
  donation.ends = false;
}

/* The thread in which the server holds the lock for a donor has no client. */
bool is_donor(const THD *thd) { return thd && !thd->net.vio && thd->global_read_lock.is_acquired(); }

/* The job at its moment; null: failed, and the script knows. */
tidesdb_backup_job *begin_checkpoint(const std::string &token) {
  if (!claim_position()) {
    fail(token, "the position in the cluster cannot be written");
    return nullptr;
  }
  tidesdb_backup_job *job = nullptr;
  if (tidesdb_backup_begin(plugin.db, checkpoint_path().c_str(), 1, &job) == TIDESDB_OK &&
      (MUTANT(CheckpointLater) || tidesdb_backup_point(job, nullptr, nullptr) == TIDESDB_OK))
    return job;
  fail(token, tidesdb_last_error());
  tidesdb_backup_abandon(job);
  return nullptr;
}

}  // namespace

bool donate(THD *thd) {
  if (!takes_part() || !is_donor(thd)) return false;
  const std::string token = token_of_request(WANTED);
  if (token.empty()) return false;
  std::lock_guard<std::mutex> guard(donation.one);
  if (donation.closed) return fail(token, "the server ends");
  end_thread();
  tidesdb_backup_job *job = begin_checkpoint(token);
  if (!job) return true;
  bool begun = answer(MAKING, token);
  if (begun) {
    try {
      donation.thread = std::thread(finish, job, token);
    } catch (const std::system_error &) {
      begun = false;
      fail(token, "no thread can be made");
    }
  }
  if (!begun) tidesdb_backup_abandon(job);
  return !begun;
}

void open_for_donations() {
  std::lock_guard<std::mutex> guard(donation.one);
  unlink(request_path().c_str());
  remove_checkpoint();
  donation.closed = false;
}

void close_for_donations() {
  std::lock_guard<std::mutex> guard(donation.one);
  donation.closed = true;
  end_thread();
}

bool tells_position_alone() { return wsrep_recovery; }

bool has_half_transfer() {
  std::string mark;
  if (MUTANT(HalfTransferOpened)) unlink((find_home(data_directory()) + "/" + HALF).c_str());
  return read_regular_file(find_home(data_directory()) + "/" + HALF, &mark) &&
         (mark.empty() || mark.rfind(HALF_TRANSFER, 0) == 0);
}

bool is_received_elsewhere() {
  std::string received;
  if (!read_regular_file(data_directory() + "/" + RECEIVED_FILE, &received)) return false;
  const std::string home = real_place(find_home(data_directory()));
  received = real_place(received.substr(0, received.find('\n')));
  if (received == home && has_store(home)) return false;
  sql_print_error(
      "TidesDB: a state transfer put the store into '%s', and this server looks for it in '%s'. Give "
      "tidesdb_data_home_dir, by its whole name, in a configuration file that the script wsrep_sst_tidesdb "
      "reads, "
      "too; then remove 'grastate.dat' of the data directory and '%s/%s', and start again",
      received.c_str(), home.c_str(), data_directory().c_str(), RECEIVED_FILE);
  return true;
}

void note_opened() { unlink((data_directory() + "/" + RECEIVED_FILE).c_str()); }

}  // namespace tidesdb::cluster
