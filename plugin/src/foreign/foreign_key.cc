#include "foreign/foreign_key.h"

#include <algorithm>

#include "sql_class.h"
#include "sql_show.h"
#include "sql_table.h"

#include "ddl/table_path.h"
#include "server.h"

namespace tidesdb {

namespace {

std::string encoded(const std::string &name) {
  char file[FN_REFLEN];
  return std::string(file, tablename_to_filename(name.c_str(), file, sizeof(file)));
}

void append_action(std::string *text, const char *event, enum_fk_option action) {
  if (action == FK_OPTION_RESTRICT || action == FK_OPTION_UNDEF) return;
  const LEX_CSTRING *name = fk_option_name(action);
  *text += std::string(event) + std::string(name->str, name->length);
}

/* Without columns where not all of them are there. */
std::shared_ptr<ForeignKey> described(const std::string &table, const TableRecord &record,
                                      const ForeignKeyRecord &entry) {
  auto key = std::make_shared<ForeignKey>();
  key->name = entry.name;
  key->number = entry.number;
  key->child = table;
  split_canonical(table, &key->child_database, &key->child_table);
  key->parent_database = entry.parent_database;
  key->parent_table = entry.parent_table;
  key->parent = canonical_name(entry.parent_database, entry.parent_table);
  key->on_delete = static_cast<enum_fk_option>(entry.on_delete);
  key->on_update = static_cast<enum_fk_option>(entry.on_update);
  for (const ForeignKeyRecord::Column &column : entry.columns) {
    const auto &ids = record.history.column_ids;
    const size_t place = static_cast<size_t>(std::find(ids.begin(), ids.end(), column.id) - ids.begin());
    if (place >= record.columns.size()) break;
    key->columns.push_back({record.columns[place].name, column.referenced, record.columns[place].nullable});
  }
  if (key->columns.size() != entry.columns.size()) key->columns.clear();
  return key;
}

}  // namespace

std::string canonical_name(const std::string &database, const std::string &table) {
  return encoded(database) + "/" + encoded(table);
}

void split_canonical(const std::string &table, std::string *database_name, std::string *table_name) {
  const size_t slash = table.find('/');
  *database_name = decoded_name(table.substr(0, slash));
  *table_name = slash == std::string::npos ? std::string() : decoded_name(table.substr(slash + 1));
}

std::shared_ptr<const ForeignKey> with_number(const ForeignKeys &keys, uint64_t number) {
  for (const auto &key : keys)
    if (key->number == number) return key;
  return nullptr;
}

ForeignKeys keys_in_record(const std::string &table, const TableRecord &record) {
  ForeignKeys keys;
  for (const ForeignKeyRecord &entry : record.foreign_keys) {
    std::shared_ptr<ForeignKey> key = described(table, record, entry);
    if (key->columns.size() == entry.columns.size()) keys.push_back(std::move(key));
  }
  return keys;
}

ForeignKeys dropped_keys_in_record(const std::string &table, const TableRecord &record) {
  ForeignKeys keys;
  for (const ForeignKeyRecord &entry : record.dropped_keys) keys.push_back(described(table, record, entry));
  return keys;
}

std::string quoted_name(THD *thd, const std::string &name) {
  String text;
  append_identifier(thd, &text, name.c_str(), name.size());
  return std::string(text.ptr(), text.length());
}

std::string quoted_table(THD *thd, const std::string &database, const std::string &table) {
  return quoted_name(thd, database) + "." + quoted_name(thd, table);
}

std::string describe_key(THD *thd, const ForeignKey &key) {
  std::string children, parents;
  for (const ForeignKey::Column &column : key.columns) {
    children += (children.empty() ? "" : ", ") + quoted_name(thd, column.name);
    parents += (parents.empty() ? "" : ", ") + quoted_name(thd, column.parent);
  }
  std::string text =
      "CONSTRAINT " + quoted_name(thd, key.name) + " FOREIGN KEY (" + children + ") REFERENCES ";
  text += key.parent_database == key.child_database
              ? quoted_name(thd, key.parent_table)
              : quoted_table(thd, key.parent_database, key.parent_table);
  text += " (" + parents + ")";
  append_action(&text, " ON DELETE ", key.on_delete);
  append_action(&text, " ON UPDATE ", key.on_update);
  return text;
}

}  // namespace tidesdb
