/*
  Foreign keys of the table, as the server asks for them, and on the way of a row.
*/
#include "handler/ha_tidesdb.h"

#include "sql_class.h"

#include "cluster/child_keys.h"
#include "ddl/alter_plan.h"
#include "ddl/tables.h"
#include "errors.h"
#include "foreign/dropped_keys.h"
#include "foreign/mode.h"
#include "foreign/parent.h"
#include "foreign/registry.h"
#include "handler/snapshot_reader.h"
#include "row/row_end.h"
#include "txn/applier.h"

using namespace tidesdb;

namespace {

LEX_CSTRING *copied(THD *thd, const std::string &text) {
  return thd_make_lex_string(thd, nullptr, text.c_str(), text.size(), 1);
}

/* Appends one to the server's list, in memory of the statement. */
void append_key(THD *thd, const ForeignKey &key, const ParentIndex &parent, List<FOREIGN_KEY_INFO> *list) {
  FOREIGN_KEY_INFO info;
  info.foreign_id = copied(thd, key.name);
  info.foreign_db = copied(thd, key.child_database);
  info.foreign_table = copied(thd, key.child_table);
  info.referenced_db = copied(thd, key.parent_database);
  info.referenced_table = copied(thd, key.parent_table);
  info.referenced_key_name = parent.index.empty() ? nullptr : copied(thd, parent.index);
  info.update_method = key.on_update;
  info.delete_method = key.on_delete;
  const uint count = static_cast<uint>(key.columns.size());
  /* Of a copy the server compares, by the rule for ON UPDATE CASCADE alone: InnoDB changes NULL in place, and
     goes by its own rule. */
  const bool follows = key.on_update == FK_OPTION_CASCADE && !asks_for_values(key.on_update, key.on_delete);
  for (uint i = 0; i < count; i++) {
    info.foreign_fields.push_back(copied(thd, key.columns[i].name));
    info.referenced_fields.push_back(copied(thd, key.columns[i].parent));
    if (key.columns[i].nullable || follows) info.set_nullable(thd, false, i, count);
    if (i < parent.nullable.size() && parent.nullable[i] && !follows) info.set_nullable(thd, true, i, count);
  }
  void *kept = thd_memdup(thd, &info, sizeof(info));
  if (kept) list->push_back(static_cast<FOREIGN_KEY_INFO *>(kept));
}

}  // namespace

char *ha_tidesdb::get_foreign_key_create_info() {
  std::string text;
  for (const auto &key : foreign::keys_of(open_table_->name()))
    text += ",\n  " + describe_key(table->in_use, *key);
  /* CREATE TABLE ... SELECT is logged by this text. A replica gets the keys as the statement has them. */
  TableRecord record;
  if (thd_sql_command(table->in_use) == SQLCOM_CREATE_TABLE && read_record(open_table_->name(), &record)) {
    for (const auto &key : dropped_keys_in_record(open_table_->name(), record))
      if (!key->columns.empty()) text += ",\n  " + describe_key(table->in_use, *key);
    if (!record.dropped_keys.empty() && !text.empty()) text += foreign::comment_among_keys();
  }
  if (text.empty()) return nullptr;
  char *copy = new (std::nothrow) char[text.size() + 1];
  if (copy) memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}

void ha_tidesdb::free_foreign_key_create_info(char *text) { delete[] text; }

/* (An ALTER TABLE asks first of all.) */
int ha_tidesdb::get_foreign_key_list(THD *thd, List<FOREIGN_KEY_INFO> *list) {
  foreign::log_warn_mode_of_alter(thd);
  for (const auto &key : foreign::keys_of(open_table_->name()))
    append_key(thd, *key, parent_index_of(thd, *key), list);
  for (const auto &key : foreign::dropped_keys_to_end(thd, table, open_table_->name()))
    append_key(thd, *key, ParentIndex(), list);
  return 0;
}

/*
  For UPDATE there are none. The server locks the names of children that are told here, after it has marked
  the columns that the statement writes. Where it has to wait for one it opens all tables anew: the marks are
  lost, and items go on with columns of tables that were given back (Multiupdate_prelocking_strategy; 11.8.6,
  for every engine). Indexes went without changes, and a server crashed. An action locks the name itself.
*/
int ha_tidesdb::get_parent_foreign_key_list(THD *thd, List<FOREIGN_KEY_INFO> *list) {
  const int command = thd_sql_command(thd);
  if (command == SQLCOM_UPDATE || command == SQLCOM_UPDATE_MULTI) return 0;
  for (const auto &key : foreign::keys_to(open_table_->name()))
    append_key(thd, *key, parent_index_of(thd, *key), list);
  return 0;
}

bool ha_tidesdb::referenced_by_foreign_key() const noexcept {
  return open_table_ && open_table_->is_referenced();
}

/* Rows of another engine refer to nothing, and nothing refers to them. */
bool ha_tidesdb::can_switch_engines() { return !foreign::is_linked(open_table_->name()); }

/* At the begin of a statement that may write. */
int ha_tidesdb::enter_foreign_keys() {
  if (is_temporary_ || is_sequence()) return 0;
  if (!row_checks_) {
    const uint64_t generation = foreign::generation();
    if (unlinked_at_ == generation) return 0;
    if (!foreign::is_linked(open_table_->name())) {
      unlinked_at_ = generation;
      return 0;
    }
    row_checks_.reset(new (std::nothrow) RowChecks(table, open_table_->name()));
    if (!row_checks_) return HA_ERR_OUT_OF_MEM;
  }
  if (row_checks_->refresh()) child_tables_.clear();
  return cluster::replicates(table->in_use) ? append_child_keys() : 0;
}

/* The server is told of no children for these statements. */
int ha_tidesdb::append_child_keys() {
  THD *thd = table->in_use;
  const int command = thd_sql_command(thd);
  if (command != SQLCOM_UPDATE && command != SQLCOM_UPDATE_MULTI) return 0;
  if (action_ != 0 || !row_checks_->is_referenced() || !thd->wsrep_trx().active()) return 0;
  /* The server looks for duplicates of long unique keys with a handler of its own. */
  if (table->file != this || child_keys_in_ == thd->query_id) return 0;
  child_keys_in_ = thd->query_id;
  return cluster::append_child_keys(thd, open_table_->name());
}

bool ha_tidesdb::checks_foreign_keys() const {
  return row_checks_ && !thd_test_options(table->in_use, OPTION_NO_FOREIGN_KEY_CHECKS);
}

/*
  Writes the row in the writer as its foreign keys allow it, and changes what refers to it.

  As in InnoDB rows that refer to what goes come before a duplicate key, and this before a missing parent: ON
  DUPLICATE KEY UPDATE and IGNORE go by it.
  Actions come after the row's own change, so that rows that refer to each other see it; all of them are
  undone with it.

  With system versioning the server deletes a row by an UPDATE that makes it one of the past.
*/
int ha_tidesdb::apply_checked(const uchar *old_record, const uchar *new_record, bool moves) {
  if (!checks_foreign_keys()) {
    if (row_checks_ && old_record) session_->note_removal();
    return apply_writes();
  }
  if (inserts_.begins) begin_putting_off();
  const int error = apply_with_checks(old_record, new_record, moves);
  if (!row_checks_->puts_off()) return error;
  return with_violating_row(row_checks_->after_row(session_, error));
}

int ha_tidesdb::apply_with_checks(const uchar *old_record, const uchar *new_record, bool moves) {
  const uchar *referred = row_checks_->current(with_indexed_columns(old_record, &buffers_.old_columns)),
              *referring = row_checks_->current(with_indexed_columns(new_record, &buffers_.new_columns));
  const bool may_refer = referred && row_checks_->is_referenced();
  const bool acts = may_refer && row_checks_->has_actions(referred, referring);
  if (may_refer && !acts)
    if (const int error = row_checks_->check_referrers(session_, referred, referring, this)) return error;
  /* A row that moves is a new one to who looks for children at the time, and has passed its place. */
  const auto check_references = [&] {
    if (!referring || !row_checks_->has_references()) return 0;
    if (row_checks_->puts_off()) return row_checks_->put_off_references(session_, referring);
    return row_checks_->check_references(session_, session_->txn(), moves ? nullptr : referred, referring);
  };
  if (acts) {
    moment_of_change_ = moment_of_change(table, old_record, new_record);
    return apply_with_actions(referred, referring, check_references);
  }
  int error = check_references();
  if (!error) return apply_writes();
  if (error != HA_ERR_NO_REFERENCED_ROW) return error;
  /* Nothing of the trial is a change of the table. */
  const size_t changed = session_->changed_tables().mark();
  uint64_t before;
  int status = tidesdb_txn_savepoint_set(session_->txn(), &before);
  if (status != TIDESDB_OK) return fail(status);
  const int written = apply_writes();
  if (written == HA_ERR_FOUND_DUPP_KEY) error = written;
  session_->note_removal();
  status = tidesdb_txn_savepoint_rollback(session_->txn(), before);
  tidesdb_txn_savepoint_release(session_->txn(), before);
  session_->changed_tables().cut(changed);
  if (written && written != HA_ERR_FOUND_DUPP_KEY) return written;
  return status == TIDESDB_OK ? error : fail(status);
}

/* Rows of a statement from which on its words are worth a sort of their own. */
static constexpr ha_rows LEAST_ROWS_PUT_OFF = 16;

/*
  The server says so of statements that insert many rows, and neither run triggers or stored functions nor
  read the table that they insert into.
*/
void ha_tidesdb::start_bulk_insert(ha_rows rows, uint) {
  inserts_.begins = true;
  inserts_.words_begin = rows == 0 || rows >= LEAST_ROWS_PUT_OFF;
}

/* With the first row. References are put off where a row that is refused ends the statement, and nothing but
   insertions into this table happens in it. */
void ha_tidesdb::begin_putting_off() {
  inserts_.begins = false;
  THD *thd = table->in_use;
  const LEX *lex = thd->lex;
  const bool is_load = lex->sql_command == SQLCOM_LOAD;
  if (!is_load && lex->sql_command != SQLCOM_INSERT_SELECT) return;
  if (lex->duplicates != DUP_ERROR || lex->ignore || inserts_.ignores_duplicates) return;
  /* The cluster gets a reference's key with its row, and the parent is there once it was looked for. */
  if (WSREP_PROVIDER_EXISTS_) return;
  /* It ends a statement without an error, and its rows stay whatever the end of the insertion finds. */
  if (lex->limit_rows_examined) return;
  if (thd->in_sub_stmt || bulk_ || table->versioned() || is_applier(thd) || !row_checks_->has_references())
    return;
  inserts_.first_row = is_load ? thd->get_stmt_da()->current_row_for_warning() : 0;
  row_checks_->begin_putting_off();
}

/* Of a row that was refused later the statement's error tells the number. Others have none. */
int ha_tidesdb::with_violating_row(int error) const {
  if (error == HA_ERR_NO_REFERENCED_ROW && inserts_.first_row != 0)
    table->in_use->get_stmt_da()->reset_current_row_for_warning(
        static_cast<int>(inserts_.first_row + row_checks_->violating_row()));
  return error;
}

/* Also after a statement that has failed. Of INSERT ... SELECT the server takes the error that is returned,
   of others my_errno. */
int ha_tidesdb::end_bulk_insert() {
  inserts_.begins = false;
  int error = 0;
  if (row_checks_ && row_checks_->puts_off()) {
    if (!table->in_use->is_error())
      error = with_violating_row(row_checks_->finish_putting_off(session_));
    else if (row_checks_->forget_put_off())
      error = HA_ERR_GENERIC;
  }
  if (error == 0 && (error = write_put_off_words())) {
    /* At once: other partitions have words, too, and need not wait for the same locks. */
    print_error(error, MYF(0));
    if (table->in_use->is_error()) error = ERROR_IS_GIVEN;
  }
  if (error) my_errno = error;
  return error;
}

int ha_tidesdb::check_filled_row(tidesdb_txn *txn, const uchar *record) {
  if (!checks_foreign_keys() || !row_checks_->has_references() || !row_checks_->current(record)) return 0;
  return row_checks_->check_references(session_, txn, nullptr,
                                       with_indexed_columns(record, &buffers_.new_columns));
}

/*
  ADD FOREIGN KEY in place: every row has its parent. Writers of this table are kept away, and so are those of
  the parent, who would not know of the key yet.
*/
int ha_tidesdb::check_new_keys(const AlterPlan &plan, const TABLE *altered) {
  const ForeignKeys &keys = plan.keys.to_check;
  if (keys.empty()) return 0;
  THD *thd = ha_thd();
  RowChecks checks(table, open_table_->name());
  for (size_t i = 0; i < keys.size(); i++) {
    bool is_there = false;
    if (checks.add_reference(keys[i]))
      if (const int error = checks.resolve_reference(i, &is_there)) return error;
    if (!is_there) return HA_ERR_CANNOT_ADD_FOREIGN;
  }
  SnapshotReader reader;
  int status = reader.begin(), refused = 0;
  size_t violated = keys.size();
  MY_BITMAP *const columns = table->read_set;
  table->use_all_columns();
  if (status == TIDESDB_OK)
    status = look_at_rows(reader.txn(), [&](Slice) {
      for (uint key = 0; key < table_share->keys; key++) compute_indexed_columns(key, table->record[0]);
      for (size_t i = 0; i < keys.size(); i++) {
        bool orphan;
        const int looked = checks.is_orphan(i, reader.txn(), table->record[0], &orphan);
        if (looked != TIDESDB_OK) return looked;
        if (!orphan && !(refused = checks.refuse_expiring(session_, i))) continue;
        violated = i;
        return static_cast<int>(TIDESDB_NOT_FOUND);
      }
      return static_cast<int>(TIDESDB_OK);
    });
  table->read_set = columns;
  if (refused) return refused;
  if (violated == keys.size()) {
    if (status == TIDESDB_INTERRUPTED) thd->send_kill_message();
    return status == TIDESDB_OK ? 0 : plain_error(status, "ADD FOREIGN KEY");
  }
  /* As of the copy that the server would make. */
  for (const auto &key : keys_in_record(open_table_->name(), plan.record))
    if (key->number == keys[violated]->number)
      my_error(ER_NO_REFERENCED_ROW_2, MYF(0),
               (quoted_table(thd, key->child_database, altered->s->table_name.str) + ", " +
                describe_key(thd, *key))
                   .c_str());
  return HA_ERR_NO_REFERENCED_ROW;
}
