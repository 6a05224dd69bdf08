/*
  The expressions of an index's virtual columns, as the definition of the table has them.

  The server writes the expressions of a table anew where it changes partitions, and puts default collations
  of the session into them (CAST(... CHAR CHARACTER SET utf8mb4 BINARY)). EXCHANGE and CONVERT PARTITION give
  a table another definition. The engine is asked nothing. So the record keeps a hash of the expressions that
  the entries of an index were computed by. Where a definition has others under the index's settings, the
  index is stale (ddl/index_rebuild.h).

  A definition is opened under the settings of an index for that: about as long as one more handler takes.
  Only the opening of a table with a definition that its record has not seen takes it, until the record is
  written with it.
*/
#ifndef TIDESDB_DDL_INDEX_EXPRESSIONS_H
#define TIDESDB_DDL_INDEX_EXPRESSIONS_H

#include "ddl/alter_plan.h"
#include "ddl/table_record.h"
#include "row/virtual_columns.h"

namespace tidesdb {

/* The record takes on the expressions of `table`: by them are the entries of all indexes that are not stale.
 */
void take_expressions(TABLE *table, TableRecord *record);

/* Marks indexes as stale whose entries were computed by other expressions than `table` has; indexes whose
   expressions are not known are taken as they are. */
void mark_other_expressions(TABLE *table, TableRecord *record);

/* Whether an index that an ALTER in place keeps would have other expressions. `before`, prepared, is of the
   table with the record `known`. */
bool changes_expressions(const VirtualColumns &before, const TableRecord &known, TABLE *altered,
                         const AlterPlan &plan);

}  // namespace tidesdb
#endif
