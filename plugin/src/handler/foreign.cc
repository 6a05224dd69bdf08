/*
  Foreign keys of the table, as the server asks for them, and on the way of a row.
*/
#include "handler/ha_tidesdb.h"

#include "sql_class.h"

#include "foreign/parent.h"
#include "foreign/registry.h"

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
  for (uint i = 0; i < count; i++) {
    info.foreign_fields.push_back(copied(thd, key.columns[i].name));
    info.referenced_fields.push_back(copied(thd, key.columns[i].parent));
    if (key.columns[i].nullable) info.set_nullable(thd, false, i, count);
    if (i < parent.nullable.size() && parent.nullable[i]) info.set_nullable(thd, true, i, count);
  }
  void *kept = thd_memdup(thd, &info, sizeof(info));
  if (kept) list->push_back(static_cast<FOREIGN_KEY_INFO *>(kept));
}

}  // namespace

char *ha_tidesdb::get_foreign_key_create_info() {
  std::string text;
  for (const auto &key : foreign::keys_of(open_table_->name()))
    text += ",\n  " + describe_key(table->in_use, *key);
  if (text.empty()) return nullptr;
  char *copy = new (std::nothrow) char[text.size() + 1];
  if (copy) memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}

void ha_tidesdb::free_foreign_key_create_info(char *text) { delete[] text; }

int ha_tidesdb::get_foreign_key_list(THD *thd, List<FOREIGN_KEY_INFO> *list) {
  for (const auto &key : foreign::keys_of(open_table_->name()))
    append_key(thd, *key, parent_index_of(thd, *key), list);
  return 0;
}

int ha_tidesdb::get_parent_foreign_key_list(THD *thd, List<FOREIGN_KEY_INFO> *list) {
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
  return 0;
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
*/
int ha_tidesdb::apply_checked(const uchar *old_record, const uchar *new_record) {
  if (!checks_foreign_keys()) return apply_writes();
  const bool may_refer = old_record && row_checks_->is_referenced();
  const bool acts = may_refer && row_checks_->has_actions(old_record, new_record);
  if (may_refer && !acts)
    if (const int error = row_checks_->check_referrers(session_, old_record, new_record, this)) return error;
  int error = 0;
  if (new_record && row_checks_->has_references())
    error = row_checks_->check_references(session_, session_->txn(), old_record, new_record);
  if (!error) return acts ? apply_with_actions(old_record, new_record) : apply_writes();
  if (error != HA_ERR_NO_REFERENCED_ROW) return error;
  uint64_t before;
  int status = tidesdb_txn_savepoint_set(session_->txn(), &before);
  if (status != TIDESDB_OK) return fail(status);
  const int written = apply_writes();
  if (written == HA_ERR_FOUND_DUPP_KEY) error = written;
  status = tidesdb_txn_savepoint_rollback(session_->txn(), before);
  tidesdb_txn_savepoint_release(session_->txn(), before);
  if (written && written != HA_ERR_FOUND_DUPP_KEY) return written;
  return status == TIDESDB_OK ? error : fail(status);
}

int ha_tidesdb::apply_with_actions(const uchar *old_record, const uchar *new_record) {
  Session::Cascade &cascade = session_->cascade();
  /* The statement's row undoes what is below it. */
  const bool is_top = cascade.levels.empty();
  uint64_t before = 0;
  int status = is_top ? tidesdb_txn_savepoint_set(session_->txn(), &before) : TIDESDB_OK;
  if (status != TIDESDB_OK) return fail(status);
  if (is_top) cascade.levels.push_back({open_table_->name(), new_record != nullptr});
  int error = apply_writes();
  if (!error) error = row_checks_->check_referrers(session_, old_record, new_record, this);
  if (!is_top) return error;
  cascade.levels.clear();
  if (error) status = tidesdb_txn_savepoint_rollback(session_->txn(), before);
  tidesdb_txn_savepoint_release(session_->txn(), before);
  return error || status == TIDESDB_OK ? error : fail(status);
}

int ha_tidesdb::child_table(const ForeignKey &key, ChildTable **child) {
  std::unique_ptr<ChildTable> &known = child_tables_[key.number];
  int error = 0;
  if (!known) known = ChildTable::open(table->in_use, key, &error);
  *child = known.get();
  return known ? 0 : error ? error : HA_ERR_NO_SUCH_TABLE;
}

int ha_tidesdb::act(const ForeignKey &key, const std::vector<Field *> &fields, const uchar *new_record,
                    Slice row_key, Slice search) {
  Session::Cascade &cascade = session_->cascade();
  if (cascade.levels.size() >= Session::Cascade::DEEPEST) return HA_ERR_FK_DEPTH_EXCEEDED;
  const enum_fk_option action = new_record ? key.on_update : key.on_delete;
  const bool removes = action == FK_OPTION_CASCADE && !new_record;
  /* Nobody knows where a ring of updates would end. */
  if (!removes && cascade.updates(key.child)) return HA_ERR_ROW_IS_REFERENCED;
  ChildTable *child;
  if (const int error = child_table(key, &child)) return error;
  if (const int error = child->begin(table->in_use)) return error;
  int error = child->read(row_key);
  if (error == HA_ERR_KEY_NOT_FOUND) return 0;
  if (error) return error;
  if (!child->has_values(search)) return 0;
  cascade.levels.push_back({key.child, !removes});
  if (removes)
    error = child->remove();
  else if (action == FK_OPTION_SET_NULL)
    error = child->set_null();
  else
    error = child->follow(fields, new_record);
  cascade.levels.pop_back();
  if (error != HA_ERR_FOUND_DUPP_KEY) return error;
  cascade.duplicate_table = key.child_table;
  cascade.duplicate_key = child->duplicate_key();
  return HA_ERR_FOREIGN_DUPLICATE_KEY;
}

int ha_tidesdb::read_for_action(Slice primary_key, uchar *buf) {
  if (!row_reader_->choose(nullptr)) return HA_ERR_OUT_OF_MEM;
  scan_.columns_chosen = false;
  if (const int error = lock_for_read()) return error;
  scan_.point = true;
  const int error = read_by_key(primary_key, buf, HA_ERR_KEY_NOT_FOUND, TIDESDB_READ_BY_ENTRY);
  scan_.point = false;
  return error;
}

bool ha_tidesdb::get_foreign_dup_key(char *child_table, uint child_table_size, char *child_key,
                                     uint child_key_size) {
  if (!session_) return false;
  strmake(child_table, session_->cascade().duplicate_table.c_str(), child_table_size - 1);
  strmake(child_key, session_->cascade().duplicate_key.c_str(), child_key_size - 1);
  return true;
}

int ha_tidesdb::check_filled_row(tidesdb_txn *txn, const uchar *record) {
  if (!checks_foreign_keys() || !row_checks_->has_references()) return 0;
  return row_checks_->check_references(session_, txn, nullptr, record);
}
