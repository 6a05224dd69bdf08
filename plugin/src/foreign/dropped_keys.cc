#include "foreign/dropped_keys.h"

#include <algorithm>

#include "sql_class.h"
#include "sql_table.h"

#include "ddl/tables.h"
#include "errors.h"
#include "server.h"

namespace tidesdb {
namespace foreign {

namespace {

std::string text_of(const LEX_CSTRING &name) { return std::string(name.str, name.length); }

bool is_named(const std::string &name, const LEX_CSTRING &other) {
  return same_name({name.data(), name.size()}, other);
}

bool has_check_constraint(const TABLE *table, const LEX_CSTRING &name) {
  for (uint i = table->s->field_check_constraints; i < table->s->table_check_constraints; i++)
    if (same_name(table->check_constraints[i]->name, name)) return true;
  return false;
}

}  // namespace

KeptColumns kept_columns(const Alter_info &statement) {
  KeptColumns kept;
  List<Create_field> columns(statement.create_list);
  List_iterator_fast<Create_field> definitions(columns);
  while (const Create_field *definition = definitions++)
    if (definition->field) kept[text_of(definition->field->field_name)] = text_of(definition->field_name);
  return kept;
}

bool drops_key(const Alter_info &statement, const std::string &name) {
  List<Alter_drop> drops(statement.drop_list);
  List_iterator_fast<Alter_drop> all(drops);
  while (const Alter_drop *drop = all++)
    if (drop->type == Alter_drop::FOREIGN_KEY && is_named(name, name_of(*drop))) return true;
  return false;
}

void forget_dropped_key(TableRecord *record, const std::string &name) {
  std::vector<ForeignKeyRecord> &keys = record->dropped_keys;
  keys.erase(std::remove_if(keys.begin(), keys.end(),
                            [&](const ForeignKeyRecord &key) {
                              return is_named(key.name, {name.data(), name.size()});
                            }),
             keys.end());
}

void end_dropped_keys(THD *thd, const Alter_info &statement, TableRecord *record) {
  const std::vector<ForeignKeyRecord> before = record->dropped_keys;
  for (const ForeignKeyRecord &key : before) {
    if (!drops_key(statement, key.name)) continue;
    note_once(
        thd, ER_UNKNOWN_ERROR,
        "TidesDB: the foreign key " + quoted_name(thd, key.name) +
            " was dropped when it was declared, as tidesdb_foreign_keys=WARN asked; its name is free now");
    forget_dropped_key(record, key.name);
  }
}

void copy_dropped_keys(THD *thd, const Alter_info &statement, const std::string &home, TableRecord *record) {
  TableRecord old;
  if (!read_record(home, &old)) return;
  const KeptColumns kept = kept_columns(statement);
  const ForeignKeys described = dropped_keys_in_record(home, old);
  record->dropped_keys = old.dropped_keys;
  for (size_t i = 0; i < described.size(); i++) {
    std::vector<ForeignKeyRecord::Column> &columns = record->dropped_keys[i].columns;
    columns.clear();
    for (const ForeignKey::Column &column : described[i]->columns) {
      const auto after = kept.find(column.name);
      for (size_t place = 0; after != kept.end() && place < record->columns.size(); place++)
        if (record->columns[place].name == after->second)
          columns.push_back({record->history.column_ids[place], column.parent});
    }
    if (columns.size() != described[i]->columns.size()) columns.clear();
  }
  end_dropped_keys(thd, statement, record);
}

ForeignKeys dropped_keys_to_end(THD *thd, const TABLE *table, const std::string &name) {
  ForeignKeys named;
  TableRecord record;
  if (thd_sql_command(thd) != SQLCOM_ALTER_TABLE || !thd->lex->alter_info.drop_list.elements ||
      !read_record(name, &record))
    return named;
  for (const auto &key : dropped_keys_in_record(name, record)) {
    /* The statement's own list: the server's copy of it has what it has found out about each. */
    List<Alter_drop> drops(thd->lex->alter_info.drop_list);
    List_iterator_fast<Alter_drop> all(drops);
    while (const Alter_drop *drop = all++) {
      const LEX_CSTRING dropped = name_of(*drop);
      if (!is_named(key->name, dropped)) continue;
      /* DROP CONSTRAINT of a CHECK that came later is about that. */
      if (drop->type != Alter_drop::FOREIGN_KEY &&
          (drop->type != Alter_drop::CHECK_CONSTRAINT || has_check_constraint(table, dropped)))
        continue;
      named.push_back(key);
      break;
    }
  }
  return named;
}

}  // namespace foreign
}  // namespace tidesdb
