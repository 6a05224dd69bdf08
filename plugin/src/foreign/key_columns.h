/*
  The columns of a foreign key in the definition of either table.
*/
#ifndef TIDESDB_FOREIGN_KEY_COLUMNS_H
#define TIDESDB_FOREIGN_KEY_COLUMNS_H

#include <vector>

#include "foreign/foreign_key.h"
#include "foreign/table_definition.h"

namespace tidesdb {

/* In the order of the key. Empty: not all of them are there. */
inline std::vector<const Field *> key_columns(const ForeignKey &key, bool of_child, const Columns &columns) {
  std::vector<const Field *> fields;
  for (const ForeignKey::Column &column : key.columns) {
    const Field *field = columns.find(of_child ? column.name : column.parent);
    if (!field) return {};
    fields.push_back(field);
  }
  return fields;
}

inline std::vector<const Field *> child_columns(const ForeignKey &key, const Columns &child) {
  return key_columns(key, true, child);
}

inline std::vector<const Field *> parent_columns(const ForeignKey &key, const Columns &parent) {
  return key_columns(key, false, parent);
}

}  // namespace tidesdb
#endif
