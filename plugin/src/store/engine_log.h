/*
  Lines of the engine's log: into the file `tidesdb.log` of the data directory (tidesdb_log_to_file=ON,
  cut back to nothing when it passes tidesdb_log_truncation_at bytes) or into the server's error log.
  Errors go to the error log in both cases.
*/
#ifndef TIDESDB_STORE_ENGINE_LOG_H
#define TIDESDB_STORE_ENGINE_LOG_H

#include <string>

namespace tidesdb {

void open_engine_log(const std::string &data_directory);
/* After a change of the level: opens the file that the level NONE left closed. */
void reopen_engine_log();
void close_engine_log();
/* tidesdb_log_fn; any thread. */
void engine_log_line(void *context, int level, const char *message);

}  // namespace tidesdb
#endif
