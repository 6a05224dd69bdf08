/*
  TIDESDB_FOREIGN_KEYS: each foreign key, and whether it is resolved; those that were dropped, too.
*/
#include "key/sql_headers.h"

#include <mysql/plugin.h>

#include "ddl/table_path.h"
#include "ddl/tables.h"
#include "foreign/parent.h"
#include "foreign/registry.h"
#include "i_s/filling.h"
#include "i_s/tables.h"

namespace tidesdb {

namespace i_s {

namespace {

constexpr uint COLUMNS_WIDTH = 1024;

ST_FIELD_INFO columns[] = {Show::Column("TABLE_SCHEMA", Show::Name(), NOT_NULL),
                           Show::Column("TABLE_NAME", Show::Name(), NOT_NULL),
                           Show::Column("CONSTRAINT_NAME", Show::Name(), NOT_NULL),
                           Show::Column("COLUMNS", Show::Varchar(COLUMNS_WIDTH), NOT_NULL),
                           Show::Column("REFERENCED_TABLE_SCHEMA", Show::Name(), NOT_NULL),
                           Show::Column("REFERENCED_TABLE_NAME", Show::Name(), NOT_NULL),
                           Show::Column("REFERENCED_COLUMNS", Show::Varchar(COLUMNS_WIDTH), NOT_NULL),
                           Show::Column("UPDATE_RULE", Show::Name(), NOT_NULL),
                           Show::Column("DELETE_RULE", Show::Name(), NOT_NULL),
                           Show::Column("REFERENCED_INDEX", Show::Name(), NULLABLE),
                           Show::Column("STATE", Show::Varchar(32), NOT_NULL),
                           Show::CEnd()};

const char *state_of(const ParentIndex &parent) {
  switch (parent.read) {
    case TableDefinition::Read::MISSING:
      return "NO TABLE";
    case TableDefinition::Read::OF_OTHER_ENGINE:
      return "OTHER ENGINE";
    case TableDefinition::Read::PARTITIONED:
      return "PARTITIONED";
    case TableDefinition::Read::DONE:
      break;
  }
  return parent.index.empty() ? "NO INDEX" : "RESOLVED";
}

int store(THD *thd, const ForeignKey &key, const std::string &index, const char *state, Filling *row) {
  std::string own, referenced;
  for (const ForeignKey::Column &column : key.columns) {
    own += (own.empty() ? "" : ", ") + quoted_name(thd, column.name);
    referenced += (referenced.empty() ? "" : ", ") + quoted_name(thd, column.parent);
  }
  row->name(key.child_database);
  row->name(key.child_table);
  row->name(key.name);
  row->text(own.c_str());
  row->name(key.parent_database);
  row->name(key.parent_table);
  row->text(referenced.c_str());
  row->text(fk_option_name(key.on_update)->str);
  row->text(fk_option_name(key.on_delete)->str);
  row->name(index);
  row->text(state);
  return row->store();
}

int fill(THD *thd, TABLE_LIST *tables, Item *) {
  Filling row(thd, tables);
  if (!row.may_read()) return row.refused();
  for (const auto &key : foreign::all_keys()) {
    const ParentIndex parent = parent_index_of(thd, *key);
    if (store(thd, *key, parent.index, state_of(parent), &row)) return row.result();
  }
  for (const std::string &table : foreign::tables_with_dropped_keys()) {
    TableRecord record;
    if (is_intermediate(table) || !read_record(table, &record)) continue;
    for (const auto &key : dropped_keys_in_record(table, record))
      if (store(thd, *key, "", "DROPPED", &row)) return row.result();
  }
  return row.result();
}

}  // namespace

int init_foreign_keys(void *schema) { return describe(schema, columns, fill); }

}  // namespace i_s

}  // namespace tidesdb
