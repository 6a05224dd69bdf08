/*
  tidesdb_skip_unique_check: insertions without a look for duplicates.

  Lookups are left out where they cannot find anything, so an index agrees with its table whatever the rows
  are. The table is empty when the statement inserts its first row. That is seen under the table's exclusive
  lock, which keeps other writers out to the transaction's end. Of the statement's own keys each is above all
  earlier ones.

  The lock is never waited for: where another transaction uses the table, lookups are made.
*/
#include "handler/ha_tidesdb.h"

#include "sql_class.h"

#include "store/handles.h"
#include "sysvars.h"
#include "txn/applier.h"

using namespace tidesdb;

/* Of the statements that insert rows, those that write to the table through one handler. (Actions of foreign
   keys have handlers of their own.) */
static bool only_inserts(int command) {
  return command == SQLCOM_INSERT || command == SQLCOM_INSERT_SELECT || command == SQLCOM_REPLACE ||
         command == SQLCOM_REPLACE_SELECT || command == SQLCOM_LOAD;
}

/* Whether there is no row: committed by anybody, or written by this transaction. */
int ha_tidesdb::is_empty(bool *empty) {
  CursorHandle cursor;
  int status = open_cursor(open_table_->primary(), &cursor);
  tidesdb_seek first{};
  first.where = TIDESDB_SEEK_FIRST;
  first.mode = TIDESDB_READ_LATEST;
  first.batch_hint = 1;
  if (status == TIDESDB_OK) status = tidesdb_cursor_seek(cursor.get(), session_->txn(), &first);
  *empty = status == TIDESDB_NOT_FOUND;
  return status == TIDESDB_OK || *empty ? 0 : fail(status);
}

/* Once a statement, also where it writes to several partitions. */
void ha_tidesdb::note_unique_lookups(const char *why) {
  if (!session_->is_first_note_of(table->in_use->query_id)) return;
  push_warning_printf(table->in_use, Sql_condition::WARN_LEVEL_NOTE, ER_UNKNOWN_ERROR,
                      "TidesDB: tidesdb_skip_unique_check has no effect on table '%s': %s",
                      table_share->table_name.str, why);
}

int ha_tidesdb::decide_unique_lookups() {
  THD *thd = table->in_use;
  unique_lookups_ = UniqueLookups::MADE;
  if (!sysvars::skip_unique_check(thd) || !only_inserts(thd_sql_command(thd)) || is_applier(thd)) return 0;
  if (session_->optimistic()) {
    note_unique_lookups("an optimistic transaction does not lock it (tidesdb_pessimistic_locking)");
    return 0;
  }
  if (row_checks_ && row_checks_->may_follow()) {
    note_unique_lookups("a foreign key with ON UPDATE CASCADE may change its rows");
    return 0;
  }
  bool empty;
  if (const int error = is_empty(&empty)) return error;
  if (empty) {
    const int status = session_->try_lock_table(open_table_->primary(), TIDESDB_LOCK_EXCLUSIVE);
    if (status == TIDESDB_LOCK_TIMEOUT) {
      note_unique_lookups("another transaction uses it");
      return 0;
    }
    if (status != TIDESDB_OK) return fail(status);
    table_locks_.add(TIDESDB_LOCK_EXCLUSIVE);
    /* Another may have committed rows before the lock. */
    if (const int error = is_empty(&empty)) return error;
  }
  if (!empty) {
    note_unique_lookups("it was not empty when the statement began");
    return 0;
  }
  unique_lookups_ = UniqueLookups::SKIPPED;
  inserted_keys_.clear(table_share->keys + 1);
  return 0;
}
