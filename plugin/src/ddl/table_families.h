/*
  The families of a table: the rows, and those of its secondary indexes.

  What must be there follows from the table's record, by table_families(): CREATE makes these, OpenTable opens
  them and lists them for CHECK, OPTIMIZE and statistics, and ALTER changes their options.
  What is there has a name that begins with families_of(table), and with index_prefix(table, id) where it is
  an index's: RENAME, DROP, TRUNCATE and the ends of an ALTER take what the dictionary lists
  (ddl/family_group.h), and so do backups and INFORMATION_SCHEMA.

  So a kind of index with families of its own adds them in index_families() alone.
*/
#ifndef TIDESDB_DDL_TABLE_FAMILIES_H
#define TIDESDB_DDL_TABLE_FAMILIES_H

#include <string>
#include <vector>

#include "ddl/alter_plan.h"
#include "ddl/table_record.h"
#include "key/sql_headers.h"
#include "store/handles.h"

namespace tidesdb {

struct TableFamily {
  std::string name;
  uint key; /* the server's number of the secondary index; MAX_KEY: the rows */

  bool has_rows() const { return key == MAX_KEY; }
};

/* Of a secondary index: the first one has its entries. */
std::vector<TableFamily> index_families(const std::string &table, uint key, uint32_t index_id);
/* The name of that one. */
std::string entries_family(const std::string &table, uint32_t index_id);
/* All, the rows first, then the indexes in the order of the record. */
std::vector<TableFamily> table_families(const std::string &table, const TableRecord &record);

/* Puts into the group that indexes go, and that those which were made under the name `shadow` come to the
   table. Status of the engine. */
int replace_indexes(DdlGroup *group, const std::string &table, const std::string &shadow,
                    const AlterPlan &plan);

}  // namespace tidesdb
#endif
