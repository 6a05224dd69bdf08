#include "ddl/index_rebuild.h"

#include "log.h"
#include "sql_class.h"

#include "ddl/alter_plan.h"
#include "ddl/index_build.h"
#include "ddl/index_expressions.h"
#include "ddl/table_families.h"
#include "ddl/table_path.h"
#include "ddl/tables.h"
#include "row/virtual_columns.h"
#include "store/handles.h"
#include "store/store.h"

namespace tidesdb {

namespace {

/* An index that cannot be made anew, as one that would be UNIQUE and is not, fails no statement. */
class FirstMessage : public Internal_error_handler {
 public:
  explicit FirstMessage(THD *thd) : thd_(thd) { thd->push_internal_handler(this); }
  ~FirstMessage() override { thd_->pop_internal_handler(); }
  bool handle_condition(THD *, uint, const char *, Sql_condition::enum_warning_level *level,
                        const char *message, Sql_condition **condition) override {
    if (*level == Sql_condition::WARN_LEVEL_ERROR && text.empty()) text = message;
    *condition = nullptr;
    return true;
  }
  std::string text;

 private:
  THD *thd_;
};

bool is_of_earlier_build(const TABLE *table, const TableRecord &record, uint key) {
  return !record.indexes[key].has_settings && has_virtual_part(table, table->key_info[key]);
}

bool is_stale(const TABLE *table, const TableRecord &record, uint key) {
  return record.indexes[key].is_stale || is_of_earlier_build(table, record, key);
}

/* Of prepared transactions alone: who opens a table first finds no others. They are not waited for. */
int lock_out_writers(tidesdb_family *rows, TxnHandle *txn) {
  int status = create_txn(plugin.db, txn);
  if (status == TIDESDB_OK) status = tidesdb_txn_begin(txn->get(), TIDESDB_READ_COMMITTED, 0);
  if (status != TIDESDB_OK) return status;
  tidesdb_txn_set_lock_timeout(txn->get(), 0);
  return tidesdb_lock_table(txn->get(), rows, TIDESDB_LOCK_EXCLUSIVE);
}

/* A name for families in the making, which the start and the next build of it clean up. */
std::string shadow_name(const std::string &name, const TableRecord &record) {
  return name.substr(0, name.find('/') + 1) + "#sql-alter-virtual-" + std::to_string(record.table_id);
}

void tell(size_t indexes, const std::string &name, const char *reason) {
  if (indexes == 0) return;
  sql_print_information("TidesDB: %zu indexes over virtual columns of '%s' are made anew: %s", indexes,
                        name.c_str(), reason);
}

int commit(const AlterPlan &plan, const std::string &name, const std::string &shadow) {
  const std::unique_lock<std::mutex> others(records_of_others());
  DdlGroup group;
  int status = group.begin(plugin.db);
  TableRecord record = plan.record, now;
  if (read_record(name, &now)) record.take_links(now);
  if (status == TIDESDB_OK) status = group.set_record(primary_family(name), record.encode());
  if (status == TIDESDB_OK) status = replace_indexes(&group, name, shadow, plan);
  return status == TIDESDB_OK ? group.commit() : status;
}

}  // namespace

bool has_stale_indexes(const TABLE *table, const TableRecord &record) {
  for (uint key = 0; key < table->s->keys; key++)
    if (is_stale(table, record, key)) return true;
  return false;
}

int rebuild_stale_indexes(THD *thd, TABLE *table, const std::string &name, tidesdb_family *rows,
                          TableRecord *record) {
  AlterPlan plan;
  plan.record = *record;
  size_t of_earlier_build = 0;
  for (uint key = 0; key < table->s->keys; key++) {
    if (!is_stale(table, *record, key)) continue;
    IndexRecord &index = plan.record.indexes[key];
    plan.dropped.push_back(index.id);
    index.id = plan.record.next_index_id++;
    if (is_of_earlier_build(table, *record, key)) {
      take_settings(table, key, &index);
      of_earlier_build++;
    }
    index.is_stale = false;
    index.expressions = 0;
    plan.added.push_back({key, index.id});
  }
  take_expressions(table, &plan.record);
  TxnHandle guard;
  int status = lock_out_writers(rows, &guard);
  const std::string shadow = shadow_name(name, *record);
  if (status == TIDESDB_OK) {
    tell(of_earlier_build, name, "an earlier build made them");
    tell(plan.added.size() - of_earlier_build, name,
         "the table's definition has other expressions for their columns");
    HA_CREATE_INFO info;
    info.init();
    FirstMessage message(thd);
    IndexBuild build(thd, table, rows, plan, shadow);
    int error = build.prepare(&info, nullptr);
    if (!error) error = build.run();
    status = error ? static_cast<int>(TIDESDB_INVALID) : commit(plan, name, shadow);
    if (status != TIDESDB_OK) {
      sql_print_error("TidesDB: the indexes over virtual columns of '%s' are not made anew: %s", name.c_str(),
                      message.text.empty() ? tidesdb_last_error() : message.text.c_str());
      drop_table(shadow.c_str());
    }
  }
  if (guard) tidesdb_txn_rollback(guard.get());
  if (status == TIDESDB_OK) *record = plan.record;
  return status;
}

}  // namespace tidesdb
