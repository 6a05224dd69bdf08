#include "ddl/table_families.h"

#include "ddl/family_group.h"
#include "ddl/table_path.h"

namespace tidesdb {

std::vector<TableFamily> index_families(const std::string &table, uint key, uint32_t index_id) {
  return {{index_prefix(table, index_id), key}};
}

std::string entries_family(const std::string &table, uint32_t index_id) {
  return index_families(table, MAX_KEY, index_id).front().name;
}

std::vector<TableFamily> table_families(const std::string &table, const TableRecord &record) {
  std::vector<TableFamily> families{{primary_family(table), MAX_KEY}};
  for (uint key = 0; key < record.indexes.size(); key++) {
    const uint32_t id = record.indexes[key].id;
    if (id == PRIMARY_KEY_ID) continue;
    for (TableFamily &family : index_families(table, key, id)) families.push_back(std::move(family));
  }
  return families;
}

int replace_indexes(DdlGroup *group, const std::string &table, const std::string &shadow,
                    const AlterPlan &plan) {
  int status = TIDESDB_OK;
  for (const uint32_t id : plan.dropped)
    if (status == TIDESDB_OK) status = change_index(group, table, id, drop_family);
  const auto take = [&](DdlGroup *in, const std::string &name) {
    const std::string family = table + name.substr(shadow.size());
    const int renamed = in->rename(name, family);
    /* It was filled while snapshots were taken. */
    return renamed == TIDESDB_OK ? in->bump(family) : renamed;
  };
  for (const AlterPlan::AddedIndex &index : plan.added)
    if (status == TIDESDB_OK) status = change_index(group, shadow, index.id, take);
  return status;
}

}  // namespace tidesdb
