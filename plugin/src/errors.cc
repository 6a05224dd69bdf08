#include "errors.h"

#include "log.h"
#include "sql_class.h"

#include "store/least_disk.h"

namespace tidesdb {

MappedError map_status(int status, bool optimistic) {
  switch (status) {
    case TIDESDB_OK:
      return {0, RollbackScope::NONE};
    case TIDESDB_NOT_FOUND:
      return {HA_ERR_KEY_NOT_FOUND, RollbackScope::NONE};
    case TIDESDB_DUPLICATE:
      return {HA_ERR_FOUND_DUPP_KEY, RollbackScope::NONE};
    case TIDESDB_CONFLICT:
      return {optimistic ? HA_ERR_LOCK_DEADLOCK : HA_ERR_RECORD_CHANGED, RollbackScope::TRANSACTION};
    case TIDESDB_DEADLOCK:
      return {HA_ERR_LOCK_DEADLOCK, RollbackScope::TRANSACTION};
    case TIDESDB_LOCK_TIMEOUT:
    case TIDESDB_BACKPRESSURE:
      return {HA_ERR_LOCK_WAIT_TIMEOUT, RollbackScope::STATEMENT};
    case TIDESDB_INTERRUPTED:
      return {HA_ERR_ABORTED_BY_USER, RollbackScope::NONE};
    case TIDESDB_TOO_MANY_LOCKS:
      return {HA_ERR_LOCK_TABLE_FULL, RollbackScope::STATEMENT};
    case TIDESDB_SNAPSHOT_TOO_OLD:
    case TIDESDB_NO_SUCH_FAMILY: /* truncated or dropped below a snapshot that still reads it */
      return {HA_ERR_TABLE_DEF_CHANGED, RollbackScope::NONE};
    case TIDESDB_FAMILY_EXISTS:
      return {HA_ERR_TABLE_EXIST, RollbackScope::NONE};
    case TIDESDB_CORRUPTION:
      return {HA_ERR_CRASHED, RollbackScope::NONE};
    case TIDESDB_DISK_FULL:
      return {HA_ERR_DISK_FULL, RollbackScope::NONE};
    case TIDESDB_NO_MEMORY:
      return {ERROR_NO_MEMORY, RollbackScope::NONE};
    case TIDESDB_TOO_LARGE:
      return {ERROR_TOO_LARGE, RollbackScope::NONE};
    default: /* INVALID, IO, BUSY, READ_ONLY, OUTCOME_UNKNOWN, PANIC: the engine's text says what */
      return {ERROR_WITH_TEXT, RollbackScope::NONE};
  }
}

int plain_error(int status, const char *what) {
  if (status == TIDESDB_READ_ONLY) {
    /* The number of a read-only table, with the cause and the way out. */
    my_printf_error(ER_OPEN_AS_READONLY, "TidesDB: %s: %s", MYF(0), what, tidesdb_last_error());
    return HA_ERR_GENERIC;
  }
  const int code = map_status(status, false).code;
  if (code == ERROR_WITH_TEXT || code == ERROR_TOO_LARGE || code == ERROR_NO_MEMORY) {
    my_printf_error(ER_UNKNOWN_ERROR, "TidesDB: %s: %s", MYF(0), what, tidesdb_last_error());
    return HA_ERR_GENERIC;
  }
  if (status == TIDESDB_DISK_FULL) {
    /* The server's own text has no place for the store and what it needs. */
    my_printf_error(ER_DISK_FULL, "TidesDB: %s: %s. A store needs %llu MB of disk before it holds a table",
                    MYF(0), what, tidesdb_last_error(), LEAST_DISK_MB);
    return HA_ERR_GENERIC;
  }
  if (status == TIDESDB_CORRUPTION) sql_print_error("TidesDB: %s: %s", what, tidesdb_last_error());
  return code;
}

void note_once(THD *thd, uint code, const std::string &text) {
  auto conditions = thd->get_stmt_da()->sql_conditions();
  while (const Sql_condition *known = conditions++)
    if (text == known->get_message_text()) return;
  push_warning(thd, Sql_condition::WARN_LEVEL_NOTE, code, text.c_str());
}

}  // namespace tidesdb
