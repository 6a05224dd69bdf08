/*
  How long rows live (row/row_ttl.h), on their way through writes and copies.

  A row and all its index entries carry one time of expiry, in the engine, which lets none of them be seen
  after it. An UPDATE writes the row anew and so renews it; then all its entries are written, those too that
  are otherwise the same.

  A copy of rows (ALTER by copy, REORGANIZE PARTITION) reads with one handler and writes with another: the
  time goes with the session from the one to the other.

  A replica's applier sees rows that have expired, as long as they are there. One that merges have given up
  already is made anew from the event, where that tells the whole row.
*/
#include "handler/ha_tidesdb.h"

#include "log.h"
#include "sql_class.h"
#include "sql_lex.h"

#include "ddl/table_path.h"
#include "delete_rights.h"
#include "errors.h"
#include "row/row_ttl.h"
#include "server.h"
#include "store/store.h"
#include "sysvars.h"
#include "txn/applier.h"

using namespace tidesdb;

/* What a statement that may write has to know. */
void ha_tidesdb::enter_expiry(THD *thd) {
  /* Repeated elsewhere, or later, the statement would see other rows. (Of a table that it changes the flags
   * say so.) */
  if (open_table_->rows_expire() && !lifetimes_.copies_rows())
    thd->lex->set_stmt_unsafe(LEX::BINLOG_STMT_UNSAFE_SYSTEM_FUNCTION);
  /* An applier's variables are the server's, and not those of the session that wrote the row. */
  lifetimes_.session_ttl = is_applier(thd) || lifetimes_.of_action ? 0 : sysvars::ttl(thd);
  lifetimes_.may_be_given = false;
  /* The command of an applier's row event may be that of an earlier statement: the table's name decides. */
  if (lifetimes_.copies_rows() && is_renamed_when_filled(open_table_->name()))
    lifetimes_.copy = CopyRole::TARGET;
  lifetimes_.given = lifetimes_.takes_over() || lifetimes_.session_ttl != 0 || open_table_->rows_expire();
  if (lifetimes_.given && tidesdb_expiry_clock_lag(plugin.db, &lifetimes_.clock_lag) != TIDESDB_OK)
    lifetimes_.clock_lag = 0;
  lifetimes_.refuses_session_ttl = lifetimes_.session_ttl != 0 && !is_temporary_ &&
                                   open_table_->ttl_column() < 0 && mysql_bin_log.is_open() &&
                                   (thd->variables.option_bits & OPTION_BIN_LOG);
}

/* When the row in `record` will expire, into the writer. */
int ha_tidesdb::choose_expiry(const uchar *record) {
  writer_.expiry = 0;
  if (!lifetimes_.given || is_sequence()) return 0;
  THD *thd = table->in_use;
  if (lifetimes_.takes_over() && session_->copied_row().statement == thd->query_id) {
    writer_.expiry = session_->copied_row().expiry;
    if (writer_.expiry != 0 && (thd->lex->alter_info.flags & ALTER_ADD_SYSTEM_VERSIONING))
      return session_->refuse(
          "rows of the table expire, and a history would not keep them: write them anew without a lifetime "
          "before WITH SYSTEM VERSIONING");
    return 0;
  }
  if (lifetimes_.refuses_session_ttl)
    return session_->refuse(
        "tidesdb_ttl is set, and the binary log does not tell a replica of it; use the table's TTL or a TTL "
        "column, or sql_log_bin=0");
  ulonglong seconds = lifetimes_.session_ttl != 0 ? lifetimes_.session_ttl : open_table_->ttl();
  Field *column = nullptr;
  if (open_table_->ttl_column() >= 0) {
    column = table->field[open_table_->ttl_column()];
    if (!lifetime_of_record(column, record, &seconds)) {
      char text[NAME_LEN + 160];
      my_snprintf(text, sizeof(text), "the column `%s` has TTL and holds 0 to %llu seconds to live, or NULL",
                  column->field_name.str, sysvars::MAX_TTL);
      return session_->refuse(text);
    }
  }
  if (seconds == 0) return 0;
  if (const int error = check_lifetime(column)) return error;
  writer_.expiry = static_cast<uint64_t>(thd->query_start()) + lifetimes_.clock_lag + seconds;
  return 0;
}

/*
  Whether the row may have the lifetime that its column gives; nullptr: the session's variable, or the table's
  option.

  A statement that gives a lifetime deletes rows, later: its user needs DELETE. The option, and the default of
  a column that the statement does not write, are given by the definition, for which that right was asked.
*/
int ha_tidesdb::check_lifetime(const Field *column) {
  THD *thd = table->in_use;
  const bool by_session = !column && lifetimes_.session_ttl != 0;
  if (referenced_by_foreign_key())
    return session_->refuse(
        "tidesdb_ttl is set, and foreign keys refer to the table: its rows cannot go by themselves");
  if (is_copied_beside_writers(table_share) && !open_table_->rows_expire())
    return session_->refuse(
        "tidesdb_ttl is set, and an ALTER that copies the table would not keep it; repeat the statement when "
        "that has ended");
  if (table->versioned() && !is_applier(thd))
    return session_->refuse(
        by_session
            ? "tidesdb_ttl is set, and the table is WITH SYSTEM VERSIONING: its rows would go without a "
              "history; set tidesdb_ttl=0"
            : "the table has TTL and is WITH SYSTEM VERSIONING: its rows would go without a history; "
              "ALTER TABLE takes the option away (TTL=0)");
  if (lifetimes_.may_be_given || is_temporary_ || lifetimes_.of_action) return 0;
  const TABLE_LIST *named = table->pos_in_table_list;
  if (!named || is_renamed_when_filled(open_table_->name())) named = thd->lex->query_tables;
  if (by_session ? lacks_delete_right(thd, named, GivenBy::SESSION)
                 : column && bitmap_is_set(table->write_set, column->field_index) &&
                       lacks_delete_right(thd, named, GivenBy::STATEMENT))
    return ERROR_IS_GIVEN;
  lifetimes_.may_be_given = true;
  return 0;
}

void ha_tidesdb::note_copied_row() { session_->note_copied_row(table->in_use->query_id, last_row_.expiry); }

/*
  The row under whose key a unique index has `key` now, which is locked for it: of a row that expires, another
  one may have taken the key since it was read.
*/
int ha_tidesdb::find_other_owner(uint index, Slice key, Slice primary_key, bool *is_others) {
  *is_others = false;
  if (is_temporary_ || last_row_.expiry == 0) return 0;
  CursorHandle &cursor = writer_.entries[index].cursor;
  if (!cursor) {
    const int status = open_cursor(open_table_->index(index), &cursor);
    if (status != TIDESDB_OK) return fail(status);
  }
  Slice value, found;
  const int status =
      tidesdb_cursor_get(cursor.get(), session_->txn(), key.data, key.size, TIDESDB_READ_EXCLUSIVE, &value);
  if (status == TIDESDB_NOT_FOUND) return 0;
  if (status != TIDESDB_OK) return fail(status);
  if (!index_kinds_[index]->primary_key(key, value, &found)) return HA_ERR_CRASHED;
  *is_others = !same_bytes(found, primary_key);
  return 0;
}

/* The entry of a unique index goes on with its row's new time of expiry, unless it is another row's. */
int ha_tidesdb::check_renewed_entry(uint index, Slice key, Slice primary_key) {
  if (is_applier(table->in_use)) return 0;
  bool is_others;
  const int error = find_other_owner(index, key, primary_key, &is_others);
  if (error || !is_others) return error;
  session_->set_duplicate_key(index);
  return HA_ERR_FOUND_DUPP_KEY;
}

/* The row that an event of the binary log changes. */
int ha_tidesdb::rnd_pos_by_record(uchar *record) {
  const int error = handler::rnd_pos_by_record(record);
  if (error != HA_ERR_KEY_NOT_FOUND || !open_table_->rows_expire() || !is_applier(table->in_use) ||
      !bitmap_is_set_all(table->read_set))
    return error;
  /* It has expired here and is gone. What the event tells of it is all there was: it can be deleted, and
     written as it is now. */
  last_row_.expiry = 1;
  return 0;
}
