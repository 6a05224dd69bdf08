/*
  Referential actions of foreign keys: ON DELETE and ON UPDATE with CASCADE or SET NULL, on the way of a row
  that others refer to (foreign/actions.h). Each changed row of a child goes through the child's own handler
  (handler/child_table.h), which may lead to further actions.

  The actions of one row of the statement are all done, or undone with it.
*/
#include "handler/ha_tidesdb.h"

#include "sql_class.h"

#include "cluster/row_keys.h"
#include "foreign/name_lock.h"
#include "foreign/registry.h"

using namespace tidesdb;

int ha_tidesdb::apply_with_actions(const uchar *old_record, const uchar *new_record,
                                   const std::function<int()> &check_references) {
  Session::Cascade &cascade = session_->cascade();
  /* The statement's row undoes what is below it. */
  const bool is_top = cascade.levels.empty();
  const size_t changed = session_->changed_tables().mark();
  uint64_t before = 0;
  int status = is_top ? tidesdb_txn_savepoint_set(session_->txn(), &before) : TIDESDB_OK;
  if (status != TIDESDB_OK) return fail(status);
  if (is_top) cascade.levels.push_back({open_table_->name(), new_record != nullptr});
  int error = apply_writes();
  if (!error) error = row_checks_->check_referrers(session_, old_record, new_record, this);
  /* Afterwards: in a ring the actions make the parent. */
  if (!error) error = check_references();
  if (!is_top) return error;
  cascade.levels.clear();
  if (error) {
    session_->note_removal();
    status = tidesdb_txn_savepoint_rollback(session_->txn(), before);
    session_->changed_tables().cut(changed);
  }
  tidesdb_txn_savepoint_release(session_->txn(), before);
  return error || status == TIDESDB_OK ? error : fail(status);
}

/* Open, with its name locked to the transaction's end; nullptr: the key is gone. A child that was renamed
   since the statement began is locked by its name of now. */
int ha_tidesdb::child_table(const ForeignKey &key, ChildTable **child) {
  *child = nullptr;
  std::unique_ptr<ChildTable> &known = child_tables_[key.number];
  THD *thd = table->in_use;
  if (!known || !known->is_locked(thd)) {
    const auto find = [&] { return with_number(foreign::keys_to(open_table_->name()), key.number); };
    std::shared_ptr<const ForeignKey> now = find(), locked;
    while (now && (!locked || locked->child != now->child)) {
      if (const int error = lock_name_for_changes(thd, now->child_database, now->child_table)) return error;
      locked = now;
      now = find();
    }
    if (!now) return 0;
    /* Its definition may have changed since the statement began. */
    if (known && known->generation() != foreign::generation()) known.reset();
    int error = 0;
    if (!known) known = ChildTable::open(thd, *now, &error);
    if (!known) return error ? error : HA_ERR_NO_SUCH_TABLE;
    known->note_lock(thd);
  }
  *child = known.get();
  return 0;
}

int ha_tidesdb::open_child(const ForeignKey &key, bool *gone) {
  ChildTable *child;
  const int error = child_table(key, &child);
  *gone = !error && !child;
  return error;
}

int ha_tidesdb::apply_action(const ForeignKey &key, const std::vector<Field *> &fields,
                             const uchar *new_record, Slice row_key, Slice search) {
  Session::Cascade &cascade = session_->cascade();
  if (cascade.levels.size() >= Session::Cascade::DEEPEST) return HA_ERR_FK_DEPTH_EXCEEDED;
  const enum_fk_option action = new_record ? key.on_update : key.on_delete;
  const bool removes = action == FK_OPTION_CASCADE && !new_record;
  /* Nobody knows where a ring of updates would end. */
  if (!removes && cascade.updates(key.child)) return HA_ERR_ROW_IS_REFERENCED;
  ChildTable *child;
  if (const int error = child_table(key, &child)) return error;
  if (!child) return HA_ERR_TABLE_DEF_CHANGED;
  int error = child->begin(table->in_use);
  if (!error) error = child->read(row_key);
  if (error == HA_ERR_KEY_NOT_FOUND) return 0;
  if (error) return error;
  if (!child->is_current() || !child->has_values(search)) return 0;
  if (cluster::replicates(table->in_use))
    if (const int refused = cluster::append_action_key(table->in_use, key, child->table())) return refused;
  cascade.levels.push_back({key.child, !removes});
  if (removes)
    error = child->remove(moment_of_change_);
  else if (action == FK_OPTION_SET_NULL)
    error = child->set_null(moment_of_change_);
  else
    error = child->follow(fields, new_record, moment_of_change_);
  cascade.levels.pop_back();
  if (error != HA_ERR_FOUND_DUPP_KEY) return error;
  cascade.duplicate_table = key.child_table;
  cascade.duplicate_key = child->duplicate_key();
  return HA_ERR_FOREIGN_DUPLICATE_KEY;
}

int ha_tidesdb::read_for_action(Slice primary_key, uchar *buf) {
  if (!row_reader_->choose(nullptr)) return HA_ERR_OUT_OF_MEM;
  scan_.columns_chosen = false;
  scan_.first_parts = false;
  if (const int error = lock_for_read()) return error;
  scan_.point = true;
  const int error = read_by_key(primary_key, buf, HA_ERR_KEY_NOT_FOUND, TIDESDB_READ_BY_ENTRY);
  scan_.point = false;
  return error;
}

bool ha_tidesdb::get_foreign_dup_key(char *child_table, uint child_table_size, char *child_key,
                                     uint child_key_size) {
  Session *session = session_of_error();
  if (!session) return false;
  strmake(child_table, session->cascade().duplicate_table.c_str(), child_table_size - 1);
  strmake(child_key, session->cascade().duplicate_key.c_str(), child_key_size - 1);
  return true;
}
