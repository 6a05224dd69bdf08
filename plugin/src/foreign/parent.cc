#include "foreign/parent.h"

namespace tidesdb {

ParentIndex parent_index_of(THD *thd, const ForeignKey &key) {
  ParentIndex parent;
  TableDefinition definition;
  parent.read = definition.read(thd, key.parent);
  if (parent.read != TableDefinition::Read::DONE) return parent;
  const Columns columns(definition);
  std::vector<const Field *> fields;
  for (const ForeignKey::Column &column : key.columns)
    if (const Field *field = columns.find(column.parent)) fields.push_back(field);
  if (fields.size() != key.columns.size()) return parent;
  for (const Field *field : fields) parent.nullable.push_back(field->real_maybe_null());
  bool prefix;
  const uint index = columns.find_index(fields, &prefix);
  if (index != MAX_KEY) parent.index.assign(columns.key(index).name.str, columns.key(index).name.length);
  return parent;
}

}  // namespace tidesdb
