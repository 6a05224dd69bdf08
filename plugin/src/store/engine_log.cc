#include "store/engine_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <ctime>
#include <mutex>

#include "key/sql_headers.h"
#include "log.h"

#include "store/regular_file.h"
#include "sysvars.h"
#include "tidesdb.h"

namespace tidesdb {

namespace {

struct EngineLog {
  std::mutex mutex;
  std::string data_directory;
  FILE *file = nullptr;
  unsigned long long written = 0;
};
EngineLog engine_log;

const char *const LEVEL_NAMES[] = {"DEBUG", "INFO", "WARN", "ERROR", "FATAL"};

void write_to_file(int level, const char *message) {
  std::lock_guard<std::mutex> guard(engine_log.mutex);
  if (!engine_log.file) return;
  const unsigned long long bound = sysvars::log_truncation_at();
  if (bound != 0 && engine_log.written > bound) {
    rewind(engine_log.file);
    if (ftruncate(fileno(engine_log.file), 0) == 0) engine_log.written = 0;
  }
  const time_t now = time(nullptr);
  struct tm parts;
  char time_text[32];
  strftime(time_text, sizeof(time_text), "%Y-%m-%d %H:%M:%S", localtime_r(&now, &parts));
  const int bytes = fprintf(engine_log.file, "%s [%s] %s\n", time_text, LEVEL_NAMES[level], message);
  if (bytes > 0) engine_log.written += static_cast<unsigned long long>(bytes);
  fflush(engine_log.file);
}

}  // namespace

void open_engine_log(const std::string &data_directory) {
  engine_log.data_directory = data_directory;
  if (!sysvars::log_to_file() || sysvars::log_level() == TIDESDB_LOG_NONE) return;
  const std::string path = data_directory + "/tidesdb.log";
  std::lock_guard<std::mutex> guard(engine_log.mutex);
  const int file = open_regular_file(path, O_WRONLY | O_APPEND | O_CREAT, 0666);
  if (file >= 0) engine_log.file = fdopen(file, "a");
  if (!engine_log.file) {
    sql_print_warning("TidesDB: cannot write '%s' (%s); the error log is used", path.c_str(),
                      why_not_opened(errno).c_str());
    if (file >= 0) close(file);
    return;
  }
  fseek(engine_log.file, 0, SEEK_END);
  engine_log.written = static_cast<unsigned long long>(ftell(engine_log.file));
}

void reopen_engine_log() {
  if (!engine_log.file) open_engine_log(std::string(engine_log.data_directory));
}

void close_engine_log() {
  std::lock_guard<std::mutex> guard(engine_log.mutex);
  if (engine_log.file) fclose(engine_log.file);
  engine_log.file = nullptr;
}

void engine_log_line(void *, int level, const char *message) {
  if (level < TIDESDB_LOG_DEBUG || level > TIDESDB_LOG_FATAL) return;
  if (engine_log.file) write_to_file(level, message);
  if (level >= TIDESDB_LOG_ERROR)
    sql_print_error("TidesDB: %s", message);
  else if (level == TIDESDB_LOG_WARN && !engine_log.file)
    sql_print_warning("TidesDB: %s", message);
  else if (level == TIDESDB_LOG_WARN || !engine_log.file)
    /* Warnings of a log of its own are notes here: a slow disk, a stall, the end of a full disk. */
    sql_print_information("TidesDB: %s", message);
}

}  // namespace tidesdb
