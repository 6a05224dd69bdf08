/*
  What an ALTER TABLE means for the store, decided from both definitions of the table before anything is
  changed: which indexes go, which come, whether new rows look otherwise. An ALTER that has no plan is made
  by copy.

  Rows stay where they are. Where their form changes, the present layout joins the older ones of the table's
  history, and new rows get the next version (row/row_layout.h).
*/
#ifndef TIDESDB_DDL_ALTER_PLAN_H
#define TIDESDB_DDL_ALTER_PLAN_H

#include <vector>

#include "ddl/expression_text.h"
#include "ddl/table_record.h"
#include "foreign/alter.h"
#include "key/sql_headers.h"

namespace tidesdb {

struct AlterPlan {
  struct AddedIndex {
    uint key;    /* number in the new definition */
    uint32_t id; /* of the index in the table */
  };

  TableRecord record; /* of the table as it will be, without the values of new_columns */
  std::vector<uint32_t> dropped;
  std::vector<AddedIndex> added;
  Renames renames;
  std::vector<const Field *> new_columns; /* of the new definition, that rows have a place for */
  foreign::KeyPlan keys;
  bool new_layout = false;
  bool new_options = false;
};

/* false: the table must be copied; *reason is why, for the client. `record`: of the table `name` as it is. */
bool plan_alter(TABLE *table, TABLE *altered, const Alter_inplace_info *info, const std::string &name,
                const TableRecord &record, AlterPlan *plan, const char **reason);

/* Puts the values into plan->record that rows from before the new columns have from now on: the columns'
   defaults, as of this statement. Uses the record of `altered`. nullptr; or why the table must be copied, or
   what failed when the THD has an error. */
const char *take_defaults(TABLE *altered, AlterPlan *plan);

/* Whether the part is one of a full text index that the statement drops and makes, with other rules of words.
   (The server compares the columns alone, and would keep the index.) `record`: of the table as it is. */
bool changes_words(THD *thd, const TABLE *table, const TableRecord &record, const KEY_PART_INFO &part);
/* Whether VARCHAR or VARBINARY of one definition becomes the other without a change of anything stored. */
bool only_grows(const Field &field, const Column_definition &to);
/* Whether the column's texts are, as they are, those of the new character set, as in utf8mb3 and utf8mb4;
   that holds for another collation, too, where nothing but secondary indexes goes by it. */
bool keeps_text(const Field &field, const Column_definition &to);

}  // namespace tidesdb
#endif
