/*
  One change of several families, by one commit of the engine's dictionary.
*/
#ifndef TIDESDB_DDL_FAMILY_GROUP_H
#define TIDESDB_DDL_FAMILY_GROUP_H

#include <string>
#include <vector>

#include "ddl/table_path.h"
#include "store/handles.h"
#include "store/store.h"

namespace tidesdb {

/* Does `change` with each family whose name begins with `prefix`, all in one group; TIDESDB_NOT_FOUND: there
   is none. Status of the engine. */
template <class Change>
int change_families(const std::string &prefix, Change change) {
  std::vector<std::string> names;
  int status = list_families(plugin.db, prefix, &names);
  if (status == TIDESDB_OK && names.empty()) return TIDESDB_NOT_FOUND;
  DdlGroup group;
  if (status == TIDESDB_OK) status = group.begin(plugin.db);
  for (const std::string &name : names)
    if (status == TIDESDB_OK) status = change(&group, name);
  if (status == TIDESDB_OK) status = group.commit();
  return status;
}

/* Does `change` with each family of an index, in a group that has begun. Status of the engine. */
template <class Change>
int change_index(DdlGroup *group, const std::string &table, uint32_t index_id, Change change) {
  std::vector<std::string> names;
  int status = list_families(plugin.db, index_prefix(table, index_id), &names);
  if (status == TIDESDB_OK && names.empty()) return TIDESDB_NO_SUCH_FAMILY;
  for (const std::string &name : names)
    if (status == TIDESDB_OK) status = change(group, name);
  return status;
}

inline int drop_family(DdlGroup *group, const std::string &name) { return group->drop(name); }

}  // namespace tidesdb
#endif
