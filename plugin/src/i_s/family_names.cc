#include "i_s/family_names.h"

#include "key/sql_headers.h"
#include "sql_class.h"
#include "sql_table.h"

#include "ddl/table_path.h"
#include "ddl/table_record.h"
#include "ddl/tables.h"
#include "i_s/filling.h"

namespace tidesdb {

namespace i_s {

const FamilyNames::Indexes &FamilyNames::indexes_of(const std::string &table) {
  const auto [at, is_new] = indexes_.try_emplace(table);
  if (!is_new) return at->second;
  TableRecord record;
  if (!read_record(table, &record)) return at->second;
  at->second[PRIMARY_KEY_ID] = record.has_primary_key ? "PRIMARY" : "HIDDEN";
  for (const IndexRecord &index : record.indexes)
    if (index.id != PRIMARY_KEY_ID) at->second[index.id] = index.name;
  return at->second;
}

const FamilyName &FamilyNames::of(tidesdb_slice family) {
  const std::string name(reinterpret_cast<const char *>(family.data), family.size);
  const auto [at, is_new] = known_.try_emplace(name);
  const size_t end = name.find('\0');
  if (!is_new || end == std::string::npos || end + 1 >= name.size()) return at->second;
  const std::string table = name.substr(0, end);
  static_cast<TableNames &>(at->second) = table_names(table);
  uint32_t number = PRIMARY_KEY_ID;
  index_of_family(name, &number);
  const Indexes &indexes = indexes_of(table);
  if (const auto index = indexes.find(number); index != indexes.end()) at->second.index = index->second;
  return at->second;
}

void FamilyNames::put(tidesdb_slice family, Filling *row) {
  const FamilyName &name = of(family);
  row->name(name.schema);
  row->name(name.table);
  row->name(name.partition);
  row->name(name.index);
}

}  // namespace i_s

}  // namespace tidesdb
