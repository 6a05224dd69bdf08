#include "foreign/rename.h"

#include <set>

#include "sql_class.h"

#include "ddl/table_path.h"
#include "ddl/tables.h"
#include "foreign/registry.h"
#include "foreign/table_definition.h"
#include "server.h"
#include "store/store.h"

namespace tidesdb {
namespace foreign {

namespace {

int set_record(DdlGroup *group, const std::string &table, const TableRecord &record) {
  return group->set_record(primary_family(table), record.encode());
}

/* The server does not say that it goes on with what a crash interrupted. */
bool recovers() { return !plugin.ddl_recovery_done; }

}  // namespace

int mark_parents(DdlGroup *group, const std::string &table, const TableRecord &record) {
  for (const auto &key : keys_in_record(table, record)) {
    TableRecord parent;
    if (key->refers_to_itself() || !read_record(key->parent, &parent) || parent.is_parent) continue;
    parent.is_parent = true;
    if (const int status = set_record(group, key->parent, parent)) return status;
  }
  return TIDESDB_OK;
}

void enter(const std::string &table, const TableRecord &record, const Declared &declared) {
  ForeignKeys keys;
  for (const auto &key : keys_in_record(table, record)) {
    auto own = std::make_shared<ForeignKey>(*key);
    own->is_new = declared.count(own->number) != 0;
    keys.push_back(std::move(own));
  }
  set_table(table, std::move(keys));
  note_dropped_keys(table, record);
  /* It may be the parent that others wait for. */
  touch(table);
}

void leave(const std::string &table) {
  set_table(table, {});
  note_dropped_keys(table, TableRecord());
  end_aside(table);
  touch(table);
}

bool refuses_drop(THD *thd, const std::string &table) {
  if (!thd || recovers() || is_intermediate(table) || thd_test_options(thd, OPTION_NO_FOREIGN_KEY_CHECKS))
    return false;
  const std::string database = table.substr(0, table.find('/') + 1);
  const bool with_database = thd_sql_command(thd) == SQLCOM_DROP_DB;
  for (const auto &key : keys_to(table)) {
    if (key->refers_to_itself()) continue;
    if (with_database && !key->child.compare(0, database.size(), database)) continue;
    return true;
  }
  return false;
}

Rename::Rename(THD *thd, const std::string &from, const std::string &to) : thd_(thd), from_(from), to_(to) {
  if (is_intermediate(to_)) return;
  if (!is_intermediate(from_)) {
    old_name_ = from_;
    return;
  }
  TableRecord record;
  if (read_record(from_, &record) && !record.home.empty() && record.home != to_) old_name_ = record.home;
}

int Rename::check() const {
  if (!thd_ || recovers() || is_intermediate(to_)) return 0;
  const bool is_moved = !is_intermediate(from_);
  if (is_moved && partition_suffix(from_).empty() != partition_suffix(to_).empty()) {
    if (!is_linked(from_) && !is_linked(to_)) return 0;
    my_error(ER_FEATURE_NOT_SUPPORTED_WITH_PARTITIONING, MYF(0), "FOREIGN KEY");
    return HA_ERR_CANNOT_ADD_FOREIGN;
  }
  TableRecord own;
  if (is_moved && read_record(from_, &own) && names_are_taken(renamed(own, true), to_)) {
    my_error(ER_TABLE_EXISTS_ERROR, MYF(0), ("./" + to_).c_str());
    return HA_ERR_GENERIC;
  }
  /* Keys that wait for the new name, or have the old one. */
  const std::string &name = is_moved || old_name_.empty() ? to_ : old_name_;
  if (keys_to(name).empty()) return 0;
  TableDefinition definition;
  const TableDefinition::Read read = definition.read(thd_, from_);
  if (read == TableDefinition::Read::MISSING) return 0;
  if (read != TableDefinition::Read::DONE || share_expires(definition.share()))
    return HA_ERR_CANNOT_ADD_FOREIGN;
  return check_parent(thd_, name, Columns(definition));
}

/* The record with the new name where it has the old one: of the table in `is_own`, whose keys without a name
   of their own are called after it, or of another that refers to it. */
TableRecord Rename::renamed(const TableRecord &record, bool is_own) const {
  TableRecord changed = record;
  std::string database, table, new_database, new_table;
  split_canonical(old_name_, &database, &table);
  split_canonical(to_, &new_database, &new_table);
  const std::string start = table + "_ibfk_";
  const auto rename = [&](ForeignKeyRecord *key) {
    if (canonical_name(key->parent_database, key->parent_table) == old_name_) {
      key->parent_database = new_database;
      key->parent_table = new_table;
    }
    if (is_own && !key->name.compare(0, start.size(), start))
      key->name = new_table + "_ibfk_" + key->name.substr(start.size());
  };
  for (ForeignKeyRecord &key : changed.foreign_keys) rename(&key);
  /* Nothing links a dropped key with its parent: of others it keeps the name that was declared. */
  if (is_own)
    for (ForeignKeyRecord &key : changed.dropped_keys) rename(&key);
  return changed;
}

int Rename::add(DdlGroup *group) {
  if (is_intermediate(to_)) return TIDESDB_OK;
  TableRecord own;
  const bool is_read = read_record(from_, &own);
  if (is_read && (!own.home.empty() || !own.foreign_keys.empty() || !own.dropped_keys.empty())) {
    own = old_name_.empty() ? own : renamed(own, !is_intermediate(from_));
    own.home.clear();
    if (const int status = set_record(group, to_, own)) return status;
  }
  if (old_name_.empty()) return TIDESDB_OK;
  for (const auto &key : all_keys_to(old_name_)) {
    TableRecord child;
    if (key->child == from_ || children_.count(key->child) || !read_record(key->child, &child)) continue;
    child = renamed(child, false);
    if (const int status = set_record(group, key->child, child)) return status;
    children_.emplace(key->child, std::move(child));
  }
  return TIDESDB_OK;
}

void Rename::enter() const {
  if (is_intermediate(to_) && !is_intermediate(from_)) {
    put_aside(from_, to_);
    return;
  }
  /* The new name first: the keys are known all the time. */
  read_table(to_);
  end_aside(from_);
  set_table(from_, {});
  note_dropped_keys(from_, TableRecord());
  for (const auto &[child, record] : children_) set_table(child, keys_in_record(child, record));
  touch(from_);
  touch(to_);
}

int rename_columns(DdlGroup *group, const std::string &parent,
                   const std::map<std::string, std::string> &names, TableRecord *own) {
  const auto rename = [&](TableRecord *record) {
    for (ForeignKeyRecord &key : record->foreign_keys) {
      if (canonical_name(key.parent_database, key.parent_table) != parent) continue;
      for (ForeignKeyRecord::Column &column : key.columns)
        for (const auto &[before, after] : names)
          if (same_name({column.referenced.data(), column.referenced.size()},
                        {before.data(), before.size()})) {
            column.referenced = after;
            break;
          }
    }
  };
  rename(own);
  std::set<std::string> done{parent};
  for (const auto &key : all_keys_to(parent)) {
    TableRecord child;
    if (!done.insert(key->child).second || !read_record(key->child, &child)) continue;
    rename(&child);
    if (const int status = set_record(group, key->child, child)) return status;
  }
  return TIDESDB_OK;
}

}  // namespace foreign
}  // namespace tidesdb
