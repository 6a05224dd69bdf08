/*
  Foreign keys of the table, as the server asks for them, and on the way of a row.
*/
#include "handler/ha_tidesdb.h"

#include "sql_class.h"

#include "foreign/registry.h"

using namespace tidesdb;

namespace {

LEX_CSTRING *copied(THD *thd, const std::string &text) {
  return thd_make_lex_string(thd, nullptr, text.c_str(), text.size(), 1);
}

/* Appends one to the server's list, in memory of the statement. */
void append_key(THD *thd, const ForeignKey &key, const std::string &parent_index, List<FOREIGN_KEY_INFO> *list) {
  FOREIGN_KEY_INFO info;
  info.foreign_id = copied(thd, key.name);
  info.foreign_db = copied(thd, key.child_database);
  info.foreign_table = copied(thd, key.child_table);
  info.referenced_db = copied(thd, key.parent_database);
  info.referenced_table = copied(thd, key.parent_table);
  info.referenced_key_name = parent_index.empty() ? nullptr : copied(thd, parent_index);
  info.update_method = key.on_update;
  info.delete_method = key.on_delete;
  const uint count = static_cast<uint>(key.columns.size());
  for (uint i = 0; i < count; i++) {
    info.foreign_fields.push_back(copied(thd, key.columns[i].name));
    info.referenced_fields.push_back(copied(thd, key.columns[i].parent));
    if (key.columns[i].nullable) info.set_nullable(thd, false, i, count);
  }
  void *kept = thd_memdup(thd, &info, sizeof(info));
  if (kept) list->push_back(static_cast<FOREIGN_KEY_INFO *>(kept));
}

/* The parent's index that the key refers to; empty: it has none, or is not there. */
std::string parent_index(THD *thd, const ForeignKey &key) {
  TableDefinition definition;
  if (definition.read(thd, key.parent) != TableDefinition::Read::DONE) return "";
  const Columns parent(definition);
  std::vector<const Field *> fields;
  for (const ForeignKey::Column &column : key.columns) {
    const Field *field = parent.find(column.parent);
    if (!field) return "";
    fields.push_back(field);
  }
  bool prefix;
  const uint index = parent.find_index(fields, &prefix);
  return index == MAX_KEY ? "" : std::string(parent.key(index).name.str, parent.key(index).name.length);
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
    append_key(thd, *key, parent_index(thd, *key), list);
  return 0;
}

int ha_tidesdb::get_parent_foreign_key_list(THD *thd, List<FOREIGN_KEY_INFO> *list) {
  for (const auto &key : foreign::keys_to(open_table_->name()))
    append_key(thd, *key, parent_index(thd, *key), list);
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
    if (!foreign::is_linked(open_table_->name())) return 0;
    row_checks_.reset(new (std::nothrow) RowChecks(table, open_table_->name()));
    if (!row_checks_) return HA_ERR_OUT_OF_MEM;
  }
  row_checks_->refresh();
  return 0;
}

bool ha_tidesdb::checks_foreign_keys() const {
  return row_checks_ && !thd_test_options(table->in_use, OPTION_NO_FOREIGN_KEY_CHECKS);
}

/*
  What a row that is about to be written, in the writer, means for foreign keys. A duplicate key comes before them, as
  in InnoDB: what ON DUPLICATE KEY UPDATE and IGNORE go by.
*/
int ha_tidesdb::check_foreign_keys(const uchar *old_record, const uchar *new_record) {
  if (!checks_foreign_keys()) return 0;
  int error = 0;
  if (new_record && row_checks_->has_references())
    error = row_checks_->check_references(session_, session_->txn(), old_record, new_record);
  if (!error && old_record && row_checks_->is_referenced())
    error = row_checks_->check_referrers(session_, old_record, new_record);
  if (!new_record || (error != HA_ERR_NO_REFERENCED_ROW && error != HA_ERR_ROW_IS_REFERENCED)) return error;
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

int ha_tidesdb::check_filled_row(tidesdb_txn *txn, const uchar *record) {
  if (!checks_foreign_keys() || !row_checks_->has_references()) return 0;
  return row_checks_->check_references(session_, txn, nullptr, record);
}
