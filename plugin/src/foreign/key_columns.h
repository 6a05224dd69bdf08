/*
  The columns of a foreign key in the definition of either table.
*/
#ifndef TIDESDB_FOREIGN_KEY_COLUMNS_H
#define TIDESDB_FOREIGN_KEY_COLUMNS_H

#include <vector>

#include "foreign/foreign_key.h"
#include "foreign/table_definition.h"

namespace tidesdb {

/* The names of a foreign key's columns in one of its tables. */
using KeySide = std::string ForeignKey::Column::*;
constexpr KeySide CHILD_SIDE = &ForeignKey::Column::name, PARENT_SIDE = &ForeignKey::Column::parent;

/* In the order of the key. Empty: not all of them are there. */
inline std::vector<const Field *> key_columns(const ForeignKey &key, KeySide side, const Columns &columns) {
  std::vector<const Field *> fields;
  for (const ForeignKey::Column &column : key.columns) {
    const Field *field = columns.find(column.*side);
    if (!field) return {};
    fields.push_back(field);
  }
  return fields;
}

inline std::vector<const Field *> child_columns(const ForeignKey &key, const Columns &child) {
  return key_columns(key, CHILD_SIDE, child);
}

inline std::vector<const Field *> parent_columns(const ForeignKey &key, const Columns &parent) {
  return key_columns(key, PARENT_SIDE, parent);
}

}  // namespace tidesdb
#endif
