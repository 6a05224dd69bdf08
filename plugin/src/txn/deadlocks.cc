#include "txn/deadlocks.h"

#include <ctime>
#include <mutex>

#include "key/sql_headers.h"
#include "log.h"

#include "ddl/known_families.h"
#include "sysvars.h"

namespace tidesdb {

namespace {

std::mutex latest_mutex;
std::string latest;

std::string now_text() {
  char text[40];
  const time_t now = time(nullptr);
  struct tm parts;
  strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", localtime_r(&now, &parts));
  return text;
}

std::string mode_text(const tidesdb_lock_info &lock) {
  std::string mode(reinterpret_cast<const char *>(lock.mode.data), lock.mode.size);
  return lock.intent ? mode + " (intent)" : mode;
}

std::string number_in_list(size_t at) { return "(" + std::to_string(at + 1) + ")"; }

std::string keys_text(uint64_t count) { return std::to_string(count) + (count == 1 ? " key" : " keys"); }

std::string text_of(const tidesdb_deadlock &deadlock, const std::vector<std::string> &statements) {
  std::string text;
  for (size_t i = 0; i < deadlock.wait_count; i++) {
    const tidesdb_deadlock_wait &wait = deadlock.waits[i];
    text += number_in_list(i) + " transaction " + std::to_string(wait.wants.txn);
    text += wait.wants.session ? ", thread " + std::to_string(wait.wants.session) : ", no thread";
    text += ", " + keys_text(wait.written) + " written";
    text += "\n    " + (statements[i].empty() ? "(no statement)" : statements[i]);
    text += "\n    waits for " + mode_text(wait.wants) + " on " + lock_place(wait.wants);
    if (wait.waited_us >= 1000) text += ", since " + time_text(wait.waited_us);
    text += "\n    " + number_in_list((i + 1) % deadlock.wait_count);
    if (wait.in_the_way.kind == TIDESDB_LOCKED_RANGE)
      text += " holds the range " + lock_text(wait.in_the_way) + "\n";
    else
      text +=
          (wait.in_the_way.waiting ? " waits before it for " : " holds ") + mode_text(wait.in_the_way) + "\n";
  }
  text += number_in_list(deadlock.victim) + " is rolled back: ";
  switch (deadlock.reason) {
    case TIDESDB_VICTIM_PREFERRED:
      text += "the server prefers it";
      break;
    case TIDESDB_VICTIM_WROTE_LEAST:
      text += "it has written the fewest keys";
      break;
    default:
      text += "it is the youngest of those that have written the fewest keys";
  }
  return text;
}

}  // namespace

std::string time_text(uint64_t micros) {
  char text[32];
  if (micros < 1000000)
    snprintf(text, sizeof(text), "%.1f ms", static_cast<double>(micros) / 1e3);
  else
    snprintf(text, sizeof(text), "%.1f s", static_cast<double>(micros) / 1e6);
  return text;
}

void note_deadlock(const tidesdb_deadlock &deadlock, const std::vector<std::string> &statements) {
  const std::string text = text_of(deadlock, statements);
  if (sysvars::print_all_conflicts()) sql_print_information("TidesDB: deadlock\n%s", text.c_str());
  const std::lock_guard<std::mutex> guard(latest_mutex);
  latest = now_text() + "\n" + text;
}

std::string latest_deadlock() {
  const std::lock_guard<std::mutex> guard(latest_mutex);
  return latest;
}

}  // namespace tidesdb
