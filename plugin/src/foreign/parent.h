/*
  The parent of a foreign key, as the server and users ask for it: by its definition on disk.
*/
#ifndef TIDESDB_FOREIGN_PARENT_H
#define TIDESDB_FOREIGN_PARENT_H

#include <string>
#include <vector>

#include "foreign/foreign_key.h"
#include "foreign/table_definition.h"

namespace tidesdb {

struct ParentIndex {
  TableDefinition::Read read = TableDefinition::Read::MISSING;
  std::string index;          /* empty: there is none that begins with the columns */
  std::vector<bool> nullable; /* of the columns, where all are there */
};

ParentIndex parent_index_of(THD *thd, const ForeignKey &key);

}  // namespace tidesdb
#endif
