#include "ddl/tables.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <set>

#include "log.h"
#include "sql_class.h"

#include "cluster/local_changes.h"
#include "ddl/definition.h"
#include "ddl/exclusive_table.h"
#include "ddl/family_group.h"
#include "ddl/file_names.h"
#include "ddl/index_expressions.h"
#include "ddl/server_files.h"
#include "ddl/table_families.h"
#include "ddl/table_path.h"
#include "ddl/table_record.h"
#include "errors.h"
#include "foreign/declaration.h"
#include "foreign/registry.h"
#include "foreign/rename.h"
#include "foreign/table_definition.h"
#include "server.h"
#include "store/handles.h"
#include "store/store.h"
#include "txn/changed_tables.h"
#include "txn/session.h"

namespace tidesdb {

namespace {

TableRecord describe(const TABLE *form) {
  const TABLE_SHARE *share = form->s;
  TableRecord record;
  record.table_id = record.create_id = new_id();
  record.set_definition(form);
  for (uint i = 0; i < share->fields; i++)
    record.history.column_ids.push_back(record.history.next_column_id++);
  for (uint i = 0; i < share->keys; i++) {
    const KEY &key = form->key_info[i];
    IndexRecord index;
    index.id = i == share->primary_key ? PRIMARY_KEY_ID : record.next_index_id++;
    index.unique = key.flags & HA_NOSAME;
    index.name.assign(key.name.str, key.name.length);
    take_settings(form, i, &index);
    record.indexes.push_back(std::move(index));
  }
  return record;
}

/* Indexes have the settings that those of their names have in another table's record. */
void take_settings_of(const TableRecord &other, bool expressions, TableRecord *record) {
  for (IndexRecord &index : record->indexes) {
    const LEX_CSTRING name{index.name.c_str(), index.name.size()};
    const IndexRecord *known = index_named(other, name);
    if (!known) continue;
    if (expressions && index.has_settings && known->has_settings) index.settings = known->settings;
    if (!index.is_full_text || !known->is_full_text) continue;
    index.full_text = known->full_text;
    index.keeps_words = true;
  }
}

/* That of one of a table's partitions. */
bool read_record_of_partition(const std::string &whole, TableRecord *record) {
  std::vector<std::string> families;
  if (list_families(plugin.db, whole + PARTITION_MARK, &families) != TIDESDB_OK) return false;
  for (const std::string &family : families) {
    const std::string partition = table_of_family(family);
    if (family == primary_family(partition) && read_record(partition, record)) return true;
  }
  return false;
}

/* A partition that comes to others has the settings that their indexes have. */
void take_settings_of_siblings(const std::string &table, TableRecord *record) {
  TableRecord sibling;
  if (!partition_suffix(table).empty() && read_record_of_partition(whole_table(table), &sibling))
    take_settings_of(sibling, true, record);
}

/* Gives the indexes of a table's record the names that they have after the statement; those that it drops or
   makes have none. */
void rename_indexes(const Alter_info &statement, TableRecord *record) {
  const auto name_of_index = [](const IndexRecord &index) {
    return LEX_CSTRING{index.name.c_str(), index.name.size()};
  };
  List<Alter_drop> dropped(statement.drop_list);
  List<Key> made(statement.key_list);
  List<Alter_rename_key> renamed(statement.alter_rename_key_list);
  for (IndexRecord &index : record->indexes) {
    const LEX_CSTRING name = name_of_index(index);
    List_iterator<Alter_drop> drops(dropped);
    bool is_gone = false;
    while (const Alter_drop *drop = drops++)
      is_gone = is_gone || (drop->type == Alter_drop::KEY && same_name(name_of(*drop), name));
    List_iterator<Key> keys(made);
    while (const Key *key = keys++) is_gone = is_gone || (key->name.str && same_name(key->name, name));
    std::string after = is_gone ? std::string() : index.name;
    List_iterator<Alter_rename_key> renames(renamed);
    while (const Alter_rename_key *rename = renames++)
      if (!is_gone && same_name(rename->old_name, name))
        after.assign(rename->new_name.str, rename->new_name.length);
    index.name = std::move(after);
  }
}

/* A copy of a table keeps the rules of words: an ALTER that has nothing to do with an index does not change
   what it finds. */
void keep_words_of_copied(THD *thd, const std::string &table, TableRecord *record) {
  if (!may_copy_rows(thd_sql_command(thd)) || !is_intermediate(table)) return;
  const TABLE_LIST *named = thd->lex->query_tables;
  const TABLE *before = named ? named->table : nullptr;
  if (!before || before->file->partition_ht() != plugin.hton) return;
  const std::string source = canonical_table(before->s->normalized_path.str);
  TableRecord copied;
  if (!read_record(source, &copied) && !read_record_of_partition(source, &copied)) return;
  rename_indexes(thd->lex->alter_info, &copied);
  take_settings_of(copied, false, record);
}

int drop_families(DdlGroup *group, const std::vector<std::string> &names) {
  for (const std::string &name : names)
    if (const int status = group->drop(name)) return status;
  return TIDESDB_OK;
}

/* Does `change` with all families of a table, under the table's lock in the engine, then `after` when that is
   committed; both under records_of_others(). Nobody else uses the table that an ALTER fills, and it must go
   also when the ALTER is killed. */
template <class Change, class After>
int change_table(const std::string &table, Change change, After after) {
  ExclusiveTable exclusive;
  int status = is_intermediate(table) ? TIDESDB_OK : exclusive.lock(current_thd, table);
  if (status != TIDESDB_OK) return status;
  /* The table's lock may be waited for; nothing is while this is held. */
  const std::lock_guard<std::mutex> others(records_of_others());
  status = change_families(families_of(table), change);
  if (status == TIDESDB_OK) after();
  return status;
}

/* Whether partitions stand under the table's name, or that of the table of which it is a partition, that were
   not written with this definition: none that this CREATE TABLE makes. They would come to be the new table's.
 */
bool has_strays(const std::string &table, const std::string &definition) {
  const std::string whole = whole_table(table);
  std::vector<std::string> families;
  if (is_intermediate(whole) || list_families(plugin.db, whole + PARTITION_MARK, &families) != TIDESDB_OK)
    return false;
  return std::any_of(families.begin(), families.end(), [&](const std::string &family) {
    const std::string partition = table_of_family(family);
    return family == primary_family(partition) && !was_written_with(partition, definition);
  });
}

/* refuse_file_name() of a path as it is: the canonical name of a TEMPORARY table has no database. */
bool refuse_path(THD *thd, const char *path) { return refuse_file_name(thd, plain_table(path)); }

/* The identity of the .frm of a table, or of that which has this partition; empty: it has none. */
std::string identity_of(const std::string &table) {
  DefinitionFile definition;
  read_definition_file("./" + whole_table(table) + reg_ext, &definition);
  return definition.identity;
}

/* EXCHANGE and CONVERT PARTITION make a partition of a table, or the other way round: the identity of the
   definition that it belongs to then. Empty: it stays what it is. */
std::string other_definition(const std::string &from, const std::string &to) {
  return partition_suffix(from).empty() == partition_suffix(to).empty() ? std::string() : identity_of(to);
}

/* Rows have no place for a VIRTUAL column. The server compares the types of columns, and takes one side's
   expressions for the other's. (During its recovery both have been compared.) */
bool refuse_other_rows(THD *thd, const std::string &from, const std::string &to) {
  if (!thd || !plugin.ddl_recovery_done || partition_suffix(from).empty() == partition_suffix(to).empty())
    return false;
  TableDefinition before, after;
  for (const auto &[definition, table] : {std::pair(&before, from), std::pair(&after, to)})
    switch (definition->read(thd, whole_table(table))) {
      case TableDefinition::Read::DONE:
      case TableDefinition::Read::PARTITIONED:
        break;
      default:
        return false;
    }
  const uint fields = std::min(before.share().fields, after.share().fields);
  for (uint i = 0; i < fields; i++)
    if (before.share().field[i]->stored_in_db() != after.share().field[i]->stored_in_db()) {
      my_error(ER_TABLES_DIFFERENT_METADATA, MYF(0));
      return true;
    }
  return false;
}

int set_identity(DdlGroup *group, const std::string &table, const std::string &family,
                 const std::string &identity) {
  TableRecord record;
  if (!read_record(table, &record)) return TIDESDB_OK;
  record.definition = identity;
  /* The server asks partitions for no keys, so nobody could end the name of one. */
  record.dropped_keys.clear();
  return group->set_record(family, record.encode());
}

/* Of a rename that the server's log repeats, and whose source is gone: whether the partition under the new
   name is not the one that was renamed, since the .frm says otherwise. The server moves that after the
   partitions. */
bool is_of_another(const std::string &from, const std::string &to) {
  if (partition_suffix(to).empty() || whole_table(from) == whole_table(to)) return false;
  std::string identity = identity_of(from);
  if (identity.empty()) identity = identity_of(to);
  return !identity.empty() && !was_written_with(to, identity);
}

/* The server's error for the end of such a change of a table. */
int table_error(int status, const char *what) {
  if (status == TIDESDB_NOT_FOUND) return HA_ERR_NO_SUCH_TABLE;
  return status == TIDESDB_OK ? 0 : plain_error(status, what);
}

}  // namespace

uint64_t new_id() {
  static std::atomic<uint64_t> last{0};
  uint64_t previous = last.load(), next;
  do {
    next = std::max<uint64_t>(my_hrtime().val, previous + 1);
  } while (!last.compare_exchange_weak(previous, next));
  return next;
}

bool may_copy_rows(int command) {
  return command == SQLCOM_ALTER_TABLE || command == SQLCOM_CREATE_INDEX || command == SQLCOM_DROP_INDEX ||
         command == SQLCOM_OPTIMIZE || command == SQLCOM_REPAIR;
}

int create_table(THD *thd, const char *path, const TABLE *form, const HA_CREATE_INFO *info) {
  if (refuse_definition(thd, form, info)) return HA_ERR_UNSUPPORTED;
  const std::string table = canonical_table(path);
  if (refuse_path(thd, path)) return HA_ERR_GENERIC;
  if (!is_temporary(table) && cluster::refuses_new_table(thd)) return HA_ERR_GENERIC;
  if (Session *session = Session::find(thd)) session->partitioned_drop().forget(whole_table(table));
  const TABLE_SHARE *share = form->s;
  TableRecord record = describe(form);
  take_settings_of_siblings(table, &record);
  keep_words_of_copied(thd, table, &record);
  for (uint key = 0; key < share->keys; key++)
    if (!take_words(thd, form, key, &record.indexes[key])) return HA_ERR_GENERIC;
  take_expressions(const_cast<TABLE *>(form), &record);
  foreign::Declared declared;
  if (const int error = foreign::declare(thd, table, form, info, &record, &declared)) return error;
  if (thd_sql_command(thd) == SQLCOM_CREATE_TABLE && has_strays(table, record.definition)) {
    my_printf_error(ER_TABLE_EXISTS_ERROR,
                    "TidesDB: partitions of a dropped table stand under the name '%s' still: a DROP TABLE "
                    "that did not come to its end left them. Another DROP TABLE removes them",
                    MYF(0), whole_table(table).c_str());
    return HA_ERR_TABLE_EXIST;
  }

  for (const uint64_t number : declared)
    if (const int status = foreign::make_value_locks(number)) return plain_error(status, "CREATE TABLE");
  /* Before the group, which is one at a time. */
  std::unique_lock<std::mutex> others(records_of_others(), std::defer_lock);
  if (!is_temporary(table)) {
    others.lock();
    const std::string &home = record.home.empty() ? table : record.home;
    foreign::renew(&record, home);
    if (foreign::names_are_taken(record, home)) return HA_ERR_FOUND_DUPP_KEY;
  }
  DdlGroup group;
  int status = group.begin(plugin.db);
  if (status == TIDESDB_OK && is_intermediate(table)) {
    /* What an interrupted ALTER of an earlier process left under a name that is used again. */
    std::vector<std::string> leftovers;
    status = list_families(plugin.db, families_of(table), &leftovers);
    if (status == TIDESDB_OK) status = drop_families(&group, leftovers);
  }
  tidesdb_family_options options;
  for (const TableFamily &family : table_families(table, record)) {
    fill_family_options(share, info, family.has_rows() ? nullptr : &form->key_info[family.key], &options);
    if (status == TIDESDB_OK)
      status =
          group.create(family.name, options, family.has_rows() ? record.encode() : std::vector<uint8_t>());
  }
  if (status == TIDESDB_OK && info->auto_increment_value > 1)
    status = group.set_counter(primary_family(table), COUNTER_AUTO_INCREMENT, info->auto_increment_value);
  if (status == TIDESDB_OK) status = foreign::mark_parents(&group, table, record);
  if (status == TIDESDB_OK) status = group.commit();
  if (status == TIDESDB_OK) foreign::enter(table, record, declared);
  return status == TIDESDB_OK ? 0 : plain_error(status, "CREATE TABLE");
}

int drop_partitions(THD *thd, const std::string &table) {
  std::vector<std::string> families;
  int status = list_families(plugin.db, table + PARTITION_MARK, &families);
  std::set<std::string> partitions;
  for (const std::string &family : families) partitions.insert(table_of_family(family));
  std::deque<ExclusiveTable> locks;
  std::vector<uint64_t> ids;
  for (const std::string &partition : partitions) {
    if (status == TIDESDB_OK) status = locks.emplace_back().lock(thd, partition);
    TableRecord record;
    if (read_record(partition, &record)) ids.push_back(record.table_id);
  }
  if (status == TIDESDB_OK) {
    const std::lock_guard<std::mutex> others(records_of_others());
    status = change_families(table + PARTITION_MARK, drop_family);
    if (status == TIDESDB_OK)
      for (const std::string &partition : partitions) foreign::leave(partition);
  }
  if (status == TIDESDB_OK)
    for (const uint64_t id : ids) forget_update_time(id);
  return table_error(status, "DROP TABLE");
}

int drop_table(const char *path) {
  const std::string table = canonical_table(path);
  if (!partition_suffix(table).empty()) {
    /* A live table's partition is no table. */
    if (is_named_by_file(current_thd, table)) return HA_ERR_NO_SUCH_TABLE;
    const std::string whole = whole_table(table);
    Session *session = current_thd ? Session::find(current_thd) : nullptr;
    if (session && session->partitioned_drop().is_under_way(current_thd, whole))
      return session->partitioned_drop().drop(current_thd, whole);
  }
  if (foreign::refuses_drop(current_thd, table)) return HA_ERR_ROW_IS_REFERENCED;
  TableRecord record;
  const bool has_record = read_record(table, &record);
  int status = change_table(table, drop_family, [&] { foreign::leave(table); });
  if (has_record && status == TIDESDB_OK) forget_update_time(record.table_id);
  /* Of partitions that the server has forgotten (ddl/lost_partitions.h) DROP TABLE names the table. Other
     statements take back what they have not made. */
  THD *thd = current_thd;
  if (status == TIDESDB_NOT_FOUND && partition_suffix(table).empty() && thd &&
      thd_sql_command(thd) == SQLCOM_DROP_TABLE)
    status = change_families(table + PARTITION_MARK, drop_family);
  return table_error(status, "DROP TABLE");
}

static int rename_families(const char *from_path, const char *to_path) {
  const std::string from = canonical_table(from_path), to = canonical_table(to_path);
  if (!partition_suffix(from).empty() && is_named_by_file(current_thd, from)) return HA_ERR_NO_SUCH_TABLE;
  if (refuse_path(current_thd, to_path) || refuse_other_rows(current_thd, from, to)) return HA_ERR_GENERIC;
  std::vector<std::string> targets;
  int status = list_families(plugin.db, families_of(to), &targets);
  if (status != TIDESDB_OK) return plain_error(status, "RENAME TABLE");
  if (targets.empty()) {
    /* An ALTER filled it in pieces while snapshots were taken. */
    const bool is_new = is_renamed_when_filled(from);
    const std::string definition = other_definition(from, to);
    foreign::Rename links(current_thd, from, to);
    if (const int error = links.check()) return error;
    const auto change = [&](DdlGroup *group, const std::string &name) {
      const std::string renamed = to + name.substr(from.size());
      int done = group->rename(name, renamed);
      if (done == TIDESDB_OK && name == primary_family(from)) done = links.add(group);
      if (done == TIDESDB_OK && is_new) done = group->bump(renamed);
      if (done == TIDESDB_OK && !definition.empty() && name == primary_family(from))
        done = set_identity(group, from, renamed, definition);
      return done;
    };
    status = change_table(from, change, [&] { links.enter(); });
    return table_error(status, "RENAME TABLE");
  }
  std::vector<std::string> names;
  status = list_families(plugin.db, families_of(from), &names);
  if (status != TIDESDB_OK) return plain_error(status, "RENAME TABLE");
  if (names.empty()) return plugin.ddl_recovery_done || is_of_another(from, to) ? HA_ERR_NO_SUCH_TABLE : 0;
  /* The recovery of the server's log goes on after an error that nobody has raised. It may, after that of a
     partition: all .frm go back, and partitions follow them (ddl/lost_partitions.h). */
  if (!plugin.ddl_recovery_done && partition_suffix(to).empty())
    my_error(ER_TABLE_EXISTS_ERROR, MYF(0), to.c_str());
  return HA_ERR_TABLE_EXIST;
}

int rename_table(const char *from_path, const char *to_path) {
  const int error = rename_families(from_path, to_path);
  if (error == 0) return 0;
  /* EXCHANGE PARTITION shows this number alone. */
  my_errno = error;
  THD *thd = current_thd;
  if (!thd || !plugin.ddl_recovery_done) return error;
  switch (error) {
    case HA_ERR_LOCK_WAIT_TIMEOUT:
      my_error(ER_LOCK_WAIT_TIMEOUT, MYF(0));
      return HA_ERR_GENERIC;
    case HA_ERR_LOCK_DEADLOCK:
      my_error(ER_LOCK_DEADLOCK, MYF(0));
      return HA_ERR_GENERIC;
    case HA_ERR_LOCK_TABLE_FULL:
      my_error(ER_LOCK_TABLE_FULL, MYF(0));
      return HA_ERR_GENERIC;
    case HA_ERR_ABORTED_BY_USER:
      thd->send_kill_message();
      return HA_ERR_GENERIC;
    default:
      return error;
  }
}

int keep_older_snapshots_out(const std::string &table) {
  return change_families(families_of(table),
                         [](DdlGroup *group, const std::string &name) { return group->bump(name); });
}

int truncate_table(const char *path) {
  const std::string table = canonical_table(path);
  const int status = change_table(
      table, [](DdlGroup *group, const std::string &name) { return group->truncate(name); },
      [&] { foreign::touch(table); });
  return table_error(status, "TRUNCATE TABLE");
}

int set_auto_increment(const char *path, ulonglong next) {
  DdlGroup group;
  int status = group.begin(plugin.db);
  if (status == TIDESDB_OK)
    status = group.set_counter(primary_family(canonical_table(path)), COUNTER_AUTO_INCREMENT, next);
  if (status == TIDESDB_OK) status = group.commit();
  return status == TIDESDB_OK ? 0 : plain_error(status, "AUTO_INCREMENT");
}

void drop_temporary_tables() {
  const int status = change_families(TEMPORARY_TABLES, drop_family);
  if (status != TIDESDB_OK && status != TIDESDB_NOT_FOUND)
    sql_print_error("TidesDB: temporary tables of an earlier process stay: %s", tidesdb_last_error());
}

std::mutex &records_of_others() {
  static std::mutex mutex;
  return mutex;
}

bool read_record(const std::string &table, TableRecord *record) {
  FamilyHandle family;
  std::vector<uint8_t> bytes;
  return open_family(plugin.db, primary_family(table), &family) == TIDESDB_OK &&
         family_record(family.get(), &bytes) == TIDESDB_OK && record->decode(bytes);
}

const IndexRecord *index_named(const TableRecord &record, const LEX_CSTRING &name) {
  for (const IndexRecord &index : record.indexes)
    if (same_name({index.name.data(), index.name.size()}, name)) return &index;
  return nullptr;
}

bool was_written_with(const std::string &table, const std::string &definition) {
  TableRecord record;
  return read_record(table, &record) && record.definition == definition;
}

void adopt_definition(const char *path) {
  DefinitionFile definition;
  if (!read_definition_file(std::string(path) + reg_ext, &definition)) return;
  const int status = change_families(
      canonical_table(path) + PARTITION_MARK, [&definition](DdlGroup *group, const std::string &family) {
        const std::string partition = table_of_family(family);
        TableRecord record;
        if (family != primary_family(partition) || !read_record(partition, &record) ||
            record.definition == definition.identity)
          return static_cast<int>(TIDESDB_OK);
        record.definition = definition.identity;
        return group->set_record(family, record.encode());
      });
  if (status != TIDESDB_OK)
    sql_print_warning(
        "TidesDB: partitions of %s keep the identity of an older definition: %s. It is needed where a "
        "crash ends a RENAME of the table only",
        path, tidesdb_last_error());
}

int check_definition(const char *path, const LEX_CUSTRING *definition) {
  const std::string table = canonical_table(path);
  const std::string identity(reinterpret_cast<const char *>(definition->str), definition->length);
  if (was_written_with(table, identity)) return 0;
  /* Of a partitioned table the server names the table; its partitions were changed by one commit. */
  std::vector<std::string> families;
  if (list_families(plugin.db, table + PARTITION_MARK, &families) != TIDESDB_OK) return 1;
  const bool written = std::any_of(families.begin(), families.end(), [&identity](const std::string &family) {
    const std::string partition = table_of_family(family);
    return family == primary_family(partition) && was_written_with(partition, identity);
  });
  return written ? 0 : 1;
}

void drop_database(const char *path) {
  std::vector<std::string> dropped;
  const std::lock_guard<std::mutex> others(records_of_others());
  const int status = change_families(canonical_database(path), [&](DdlGroup *group, const std::string &name) {
    /* A directory may have the name that stands for TEMPORARY tables, whose families are no database's. */
    if (is_temporary(name)) return static_cast<int>(TIDESDB_OK);
    dropped.push_back(table_of_family(name));
    return group->drop(name);
  });
  if (status == TIDESDB_OK)
    for (const std::string &table : dropped) foreign::leave(table);
  if (status != TIDESDB_OK && status != TIDESDB_NOT_FOUND)
    sql_print_error("TidesDB: DROP DATABASE %s: %s", path, tidesdb_last_error());
}

}  // namespace tidesdb
