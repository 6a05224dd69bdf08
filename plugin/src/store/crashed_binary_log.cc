#include "store/crashed_binary_log.h"

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "key/sql_headers.h"
#include "log.h"
#include "log_event.h"

namespace tidesdb {

namespace {

/* The newest file in the index of the binary log; "": there is none. */
std::string newest_binary_log() {
  LOG_INFO place;
  std::string newest;
  for (int error = mysql_bin_log.find_log_pos(&place, NullS, true); !error;
       error = mysql_bin_log.find_next_log(&place, true))
    newest = place.log_file_name;
  return newest;
}

/* The first event of a binary log is never encrypted, and says whether the log is still in use. */
bool is_open(const std::string &binary_log) {
  std::ifstream file(binary_log, std::ios::binary);
  char head[BIN_LOG_HEADER_SIZE + LOG_EVENT_MINIMAL_HEADER_LEN];
  if (!file.read(head, sizeof(head))) return false;
  return uint2korr(head + BIN_LOG_HEADER_SIZE + FLAGS_OFFSET) & LOG_EVENT_BINLOG_IN_USE_F;
}

}  // namespace

void keep_crashed_binary_log() {
  /* INSTALL PLUGIN finds the log open, and in use by this process. */
  if (!opt_bin_log || opt_bootstrap || mysql_bin_log.is_open()) return;
  const std::string newest = newest_binary_log();
  if (newest.empty() || !is_open(newest)) return;
  sql_print_error(
      "TidesDB: the server ends here, because a crash left the binary log '%s' open and a start without the "
      "store would forget which prepared transactions of TidesDB it commits. Mend the store as said above, "
      "and start again. If the store is lost, start once with --tidesdb=OFF",
      newest.c_str());
  _exit(EXIT_FAILURE);
}

}  // namespace tidesdb
