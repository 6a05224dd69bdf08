/*
  ALTER TABLE without a copy: what the server asks, in the order of its calls. ddl/alter_plan.h decides,
  ddl/index_build.h fills new indexes; the commit is one group in the engine's dictionary, for all partitions
  of a table. Each partition has a handler, a plan and a context of its own.

  After a crash the server's log of definitions asks which definition won (ddl/tables.h: check_definition()):
  the record of the table holds the identity of the definition that it was written with.
*/
#include "handler/ha_tidesdb.h"

#include <algorithm>

#include "sql_class.h"
#include "sql_table.h"

#include "ddl/alter_plan.h"
#include "ddl/definition.h"
#include "ddl/exclusive_table.h"
#include "ddl/index_build.h"
#include "ddl/index_expressions.h"
#include "ddl/partition_options.h"
#include "ddl/table_families.h"
#include "ddl/table_path.h"
#include "ddl/tables.h"
#include "errors.h"
#include "foreign/registry.h"
#include "foreign/rename.h"
#include "server.h"
#include "store/store.h"

using namespace tidesdb;

namespace tidesdb {

/* Between the calls of one ALTER, of a table or a partition. */
class AlterContext final : public inplace_alter_handler_ctx {
 public:
  explicit AlterContext(ha_tidesdb *altered_handler) : handler(altered_handler) {}

  ha_tidesdb *const handler;
  AlterPlan plan;
  ExclusiveTable lock;
  std::string shadow; /* canonical name of the intermediate table: its families are those in the making */
  bool builds = false;
  bool followed = false;              /* there was a log of changes, and it is brought in */
  ulonglong next_automatic_value = 0; /* AUTO_INCREMENT of the statement; 0: it stays */
  std::unique_ptr<IndexBuild> build;
};

}  // namespace tidesdb

namespace {

/* The server's list of the partitions' contexts: the ones that are prepared, ended by nullptr. Without
   partitions nothing but `own`. */
std::vector<AlterContext *> contexts_of(const Alter_inplace_info *info, AlterContext *own) {
  std::vector<AlterContext *> all;
  if (!info->group_commit_ctx) return {own};
  for (inplace_alter_handler_ctx **context = info->group_commit_ctx; *context; context++)
    all.push_back(static_cast<AlterContext *>(*context));
  return all;
}

/* How many partitions are prepared: the number of the next. */
uint prepared(const Alter_inplace_info *info) {
  uint count = 0;
  if (info->group_commit_ctx)
    while (info->group_commit_ctx[count]) count++;
  return count;
}

}  // namespace

bool ha_tidesdb::can_convert_nocopy(const Field &field, const Column_definition &to) const {
  return only_grows(field, to) || (keeps_text(field, to) && !is_linked_column(field));
}

/* Of a column in a foreign key both sides have one collation. */
bool ha_tidesdb::is_linked_column(const Field &field) const {
  const LEX_CSTRING &name = field.field_name;
  const auto names = [&](const std::string &column) {
    return same_name({column.data(), column.size()}, name);
  };
  for (const auto &key : foreign::keys_of(open_table_->name()))
    for (const ForeignKey::Column &column : key->columns)
      if (names(column.name)) return true;
  for (const auto &key : foreign::keys_to(open_table_->name()))
    for (const ForeignKey::Column &column : key->columns)
      if (names(column.parent)) return true;
  return false;
}

Compare_keys ha_tidesdb::compare_key_parts(const Field &field, const Column_definition &to,
                                           const KEY_PART_INFO &part, const KEY_PART_INFO &part_to) const {
  if (changes_words(table->in_use, table, open_table_->record(), part)) return Compare_keys::NotEqual;
  const bool equal = field.is_equal(to);
  if (!equal && keeps_text(field, to)) {
    const Charset charset(field.charset());
    if (!charset.eq_collation_specific_names(to.charset)) return Compare_keys::NotEqual;
    /* A part over a prefix is made anew. */
    const bool whole = part.length == field.key_length();
    const bool as_long = part.length / field.charset()->mbmaxlen == part_to.length / to.charset->mbmaxlen;
    if (!whole) return Compare_keys::NotEqual;
    return as_long ? Compare_keys::Equal : Compare_keys::EqualButKeyPartLength;
  }
  if (equal || only_grows(field, to)) {
    if (part.length == part_to.length) return Compare_keys::Equal;
    if (!equal && part.length == field.key_length() && part_to.length == to.length)
      return Compare_keys::EqualButKeyPartLength;
  }
  return Compare_keys::NotEqual;
}

enum_alter_inplace_result ha_tidesdb::check_if_supported_inplace_alter(TABLE *altered,
                                                                       Alter_inplace_info *info) {
  AlterPlan plan;
  const char *reason = nullptr;
  if (plan_alter(table, altered, info, open_table_->name(), open_table_->record(), &plan, &reason))
    reason = take_defaults(altered, &plan);
  if (table->in_use->is_error()) return HA_ALTER_ERROR;
  if (!reason && changes_indexed_expressions(altered, plan))
    reason =
        "TidesDB: an indexed virtual column means something else in the new definition: the server writes "
        "default collations into its expression, or takes those of the table";
  if (reason) {
    info->unsupported_reason = reason;
    return HA_ALTER_INPLACE_NOT_SUPPORTED;
  }
  if (!plan.keys.to_check.empty()) {
    info->unsupported_reason = "TidesDB looks each row up in the referenced table";
    return HA_ALTER_INPLACE_NOCOPY_LOCK;
  }
  if (plan.added.empty()) return HA_ALTER_INPLACE_INSTANT;
  info->unsupported_reason = "TidesDB reads the table to build an index";
  if (builds_beside_writers()) return HA_ALTER_INPLACE_NOCOPY_NO_LOCK;
  info->unsupported_reason = "TidesDB: the transaction holds locks";
  return HA_ALTER_INPLACE_NOCOPY_LOCK;
}

/* The server writes each expression anew, in an ALTER that changes nothing of it as well. A collation that
   the session has by default is in it then (CAST(... CHAR CHARACTER SET utf8mb4 BINARY)), and the column has
   other values from then on. */
bool ha_tidesdb::changes_indexed_expressions(TABLE *altered, const AlterPlan &plan) {
  std::string why; /* (Of expressions that cannot be told the record keeps what it knows.) */
  virtual_columns_.prepare(table->in_use, &why);
  return changes_expressions(virtual_columns_, open_table_->record(), altered, plan);
}

bool ha_tidesdb::builds_beside_writers() const {
  const Session *session = Session::find(table->in_use);
  return !session || !session->holds_locks();
}

/* What the ALTER cannot do after all is said here, before anything is changed. */
bool ha_tidesdb::prepare_inplace_alter_table(TABLE *altered, Alter_inplace_info *info) {
  THD *thd = table->in_use;
  const auto failed = [&](int error) {
    if (!thd->is_error()) print_error(error, MYF(0));
    return true;
  };
  if (refuse_definition(thd, altered, info->create_info)) return true;
  const PartitionOptions options_of_partition(altered, prepared(info));
  AlterContext *context = new AlterContext(this);
  if (!context) return failed(HA_ERR_OUT_OF_MEM);
  info->handler_ctx = context;
  const char *reason = nullptr;
  if (plan_alter(table, altered, info, open_table_->name(), open_table_->record(), &context->plan, &reason))
    reason = take_defaults(altered, &context->plan);
  if (reason) {
    if (!thd->is_error())
      my_error(ER_ALTER_OPERATION_NOT_SUPPORTED, MYF(0), "ALGORITHM=INPLACE", "ALGORITHM=COPY");
    return true;
  }
  take_expressions(altered, &context->plan.record);
  context->builds = !context->plan.added.empty();
  context->shadow = canonical_table(altered->s->normalized_path.str) + partition_suffix(open_table_->name());
  if (!is_intermediate(context->shadow)) return failed(HA_ERR_INTERNAL_ERROR);
  if (context->builds && disk_is_short_of(thd)) return failed(note_short_disk(thd));

  /* Prepared transactions without a connection are not kept out by the server's lock. */
  int status = TIDESDB_OK;
  const bool checks = !context->plan.keys.to_check.empty();
  const bool beside_writers = context->builds && !checks && builds_beside_writers();
  if (checks && builds_beside_writers()) /* To the end, and readers that lock rows go on. */
    status = context->lock.take_autonomous_lock(thd, open_table_->primary(), TIDESDB_LOCK_SHARED);
  else if (beside_writers)
    status = context->lock.take_autonomous_lock(thd, open_table_->primary());
  else if (const Session *session = Session::find(thd); session && session->is_active())
    status = tidesdb_lock_table(session->txn(), open_table_->primary(),
                                context->builds || checks ? TIDESDB_LOCK_SHARED : TIDESDB_LOCK_EXCLUSIVE);
  else
    status = context->lock.lock(thd, open_table_->name());
  if (status != TIDESDB_OK) return failed(plain_error(status, "ALTER TABLE"));

  if (context->plan.new_options) {
    DdlGroup trial;
    tidesdb_family_options options;
    fill_family_options(altered->s, info->create_info, nullptr, &options);
    status = trial.begin(plugin.db);
    if (status == TIDESDB_OK) status = trial.set_options(primary_family(open_table_->name()), options);
    if (status != TIDESDB_OK) return failed(plain_error(status, "ALTER TABLE"));
  }
  if (!context->builds) return false;
  context->build.reset(new IndexBuild(thd, altered, open_table_->primary(), context->plan, context->shadow));
  RowLog *log = beside_writers ? &open_table_->row_log() : nullptr;
  if (const int error = context->build->prepare(info->create_info, log)) return failed(error);
  if (beside_writers) context->lock.release_autonomous_lock();
  return false;
}

bool ha_tidesdb::inplace_alter_table(TABLE *altered, Alter_inplace_info *info) {
  AlterContext *context = static_cast<AlterContext *>(info->handler_ctx);
  int error = check_new_keys(context->plan, altered);
  if (!error && context->builds) error = context->build->run();
  if (error == 0) return false;
  if (!table->in_use->is_error()) print_error(error, MYF(0));
  return true;
}

bool ha_tidesdb::commit_inplace_alter_table(TABLE *altered, Alter_inplace_info *info, bool commit) {
  AlterContext *own = static_cast<AlterContext *>(info->handler_ctx);
  /* The first partition commits for all; each one is asked to roll back. */
  const std::vector<AlterContext *> contexts = contexts_of(info, own);
  info->group_commit_ctx = nullptr;
  if (!own) return false;
  if (!commit) {
    roll_back_alter(own);
    return false;
  }
  int error = 0;
  for (AlterContext *context : contexts)
    if (!error) error = context->handler->finish_indexes(context);
  for (AlterContext *context : contexts)
    if (!error) error = context->handler->make_value_locks_of_new_keys(context->plan);
  /* Before the group: it may read past many tombstones, and an open group holds up all other definitions. */
  if (info->create_info->used_fields & HA_CREATE_USED_AUTO)
    for (AlterContext *context : contexts)
      if (!error)
        error = context->handler->next_automatic_value(info->create_info->auto_increment_value,
                                                       &context->next_automatic_value);
  const std::unique_lock<std::mutex> others(records_of_others());
  DdlGroup group;
  if (!error) {
    const int status = group.begin(plugin.db);
    if (status != TIDESDB_OK) error = plain_error(status, "ALTER TABLE");
  }
  for (uint number = 0; number < contexts.size() && !error; number++) {
    const PartitionOptions options_of_partition(altered, number);
    error = contexts[number]->handler->add_alter(contexts[number], altered, info->create_info, &group);
  }
  if (!error) {
    const int status = group.commit();
    if (status != TIDESDB_OK) error = plain_error(status, "ALTER TABLE");
  }
  if (!error) {
    /* The server still keeps everybody out, and a RENAME in the same statement takes the table's lock. */
    for (AlterContext *context : contexts) {
      context->lock.release_autonomous_lock();
      context->handler->leave_old_definition(*context);
    }
    return false;
  }
  if (!table->in_use->is_error()) print_error(error, MYF(0));
  return true;
}

void ha_tidesdb::roll_back_alter(AlterContext *context) {
  if (!context->builds) return;
  if (context->build) context->build->close_log();
  const int error = tidesdb::drop_table(context->shadow.c_str());
  if (error && error != HA_ERR_NO_SUCH_TABLE)
    sql_print_error("TidesDB: indexes in the making of '%s' stay in the store: %s",
                    open_table_->name().c_str(), tidesdb_last_error());
}

/* Brings in what was changed beside the build, with everybody else shut out from here to the end. */
int ha_tidesdb::finish_indexes(AlterContext *context) {
  if (!context->build || !context->build->has_log()) return 0;
  const int status = context->lock.take_autonomous_lock(table->in_use, open_table_->primary());
  if (status != TIDESDB_OK) return plain_error(status, "ALTER TABLE");
  if (const int error = context->build->apply_row_log()) return error;
  context->build->close_log();
  context->followed = true;
  return 0;
}

/* What ANALYZE has found out while indexes were filled. */
static void take_statistics(const TableRecord &now, TableRecord *record) {
  record->analyzed_rows = now.analyzed_rows;
  for (IndexRecord &index : record->indexes)
    for (const IndexRecord &known : now.indexes)
      if (known.id == index.id) index.rows_per_key = known.rows_per_key;
}

/* Puts into the group what becomes of this table or partition. */
int ha_tidesdb::add_alter(AlterContext *context, TABLE *altered, const HA_CREATE_INFO *info,
                          DdlGroup *group) {
  const AlterPlan &plan = context->plan;
  const std::string &name = open_table_->name();
  TableRecord record = plan.record;
  foreign::renew(&record, name);
  TableRecord now;
  if (read_record(name, &now)) take_statistics(now, &record);
  int status = foreign::rename_columns(group, name, plan.keys.renamed, &record);
  if (status == TIDESDB_OK) status = foreign::mark_parents(group, name, record);
  if (status == TIDESDB_OK) status = group->set_record(primary_family(name), record.encode());
  if (context->followed && status == TIDESDB_OK) status = group->drop(changes_family(context->shadow));
  if (status == TIDESDB_OK) status = replace_indexes(group, name, context->shadow, plan);
  /* The rows, and the indexes that stay. */
  for (const TableFamily &family : table_families(name, plan.record)) {
    if (std::any_of(plan.added.begin(), plan.added.end(),
                    [&](const AlterPlan::AddedIndex &index) { return index.key == family.key; }))
      continue;
    if (plan.new_options) {
      tidesdb_family_options options;
      const KEY *key = family.has_rows() ? nullptr : &altered->key_info[family.key];
      fill_family_options(altered->s, info, key, &options);
      if (status == TIDESDB_OK) status = group->set_options(family.name, options);
    }
    if (plan.new_layout && status == TIDESDB_OK) status = group->bump(family.name);
  }
  if (status == TIDESDB_OK && context->next_automatic_value != 0)
    status = group->set_counter(primary_family(name), COUNTER_AUTO_INCREMENT, context->next_automatic_value);
  return status == TIDESDB_OK ? 0 : plain_error(status, "ALTER TABLE");
}

int ha_tidesdb::make_value_locks_of_new_keys(const AlterPlan &plan) {
  for (const ForeignKeyRecord &key : plan.record.foreign_keys)
    if (!foreign::value_locks_of(key.number))
      if (const int status = foreign::make_value_locks(key.number)) return plain_error(status, "ALTER TABLE");
  return 0;
}

/* Foreign keys go by the new one. */
void ha_tidesdb::leave_old_definition(const AlterContext &context) {
  const std::string &name = open_table_->name();
  foreign::read_table(name);
  if (!context.plan.keys.renamed.empty())
    for (const auto &key : foreign::all_keys_to(name)) foreign::read_table(key->child);
  foreign::touch(name);
}
