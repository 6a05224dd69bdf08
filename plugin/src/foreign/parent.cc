#include "foreign/parent.h"

#include "foreign/key_columns.h"

namespace tidesdb {

ParentIndex parent_index_of(THD *thd, const ForeignKey &key) {
  ParentIndex parent;
  TableDefinition definition;
  parent.read = definition.read(thd, key.parent);
  if (parent.read != TableDefinition::Read::DONE) return parent;
  const Columns columns(definition);
  const std::vector<const Field *> fields = parent_columns(key, columns);
  if (fields.empty()) return parent;
  for (const Field *field : fields) parent.nullable.push_back(field->real_maybe_null());
  bool prefix;
  const uint index = columns.find_index(fields, &prefix);
  if (index != MAX_KEY) parent.index.assign(columns.key(index).name.str, columns.key(index).name.length);
  return parent;
}

}  // namespace tidesdb
