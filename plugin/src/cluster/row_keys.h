/*
  Certification keys of changed rows.

  Two transactions of different nodes conflict where they have a key in common, and at least one of them has
  it as more than a reference. So each changed row gives its keys to the transaction's write set, once the
  change has succeeded here. Which ones, and their bytes (cluster/innodb_key.h), are InnoDB's choice:

  | change                   | keys                                                                     |
  |--------------------------|--------------------------------------------------------------------------|
  | INSERT, DELETE           | of each unique index and each that other tables refer to: EXCLUSIVE      |
  | UPDATE                   | the same: UPDATE; from the first changed unique one on: EXCLUSIVE        |
  | of a changed key         | the new value's comes before the old one's                               |
  | no unique key has values | a digest of the row; where there is no unique index, also of all others  |
  | a row that refers        | the parent's: REFERENCE (cluster/parent_keys.h)                          |
  | by an action             | of the primary key alone, EXCLUSIVE; appliers take it one after another  |

  A key whose parts are all NULL is none.

  Keys stay when the statement is rolled back, as they do for InnoDB.
*/
#ifndef TIDESDB_CLUSTER_ROW_KEYS_H
#define TIDESDB_CLUSTER_ROW_KEYS_H

#include "cluster/innodb_key.h"
#include "foreign/row_checks.h"
#include "key/sql_headers.h"

#include "sql_class.h"

namespace tidesdb::cluster {

/* How others may use a key. */
enum class KeyUse { REFERENCE, UPDATE, EXCLUSIVE };

/* Gives one key of the table `table` to the write set. Returns 0 or HA_ERR_INTERNAL_ERROR. */
int append_key(THD *thd, LEX_CSTRING database, LEX_CSTRING table, Slice key, KeyUse use);

/* Whether rows of the table that a client's statement changes now give keys. */
bool gives_keys(THD *thd, const TABLE *table, bool inserts);

/*
  The keys of a row that was inserted (`old_record` is nullptr), deleted (`new_record` is), or updated.
  Indexed virtual columns are set in both. `checks`: of the table; nullptr: it has no foreign keys. Returns 0
  or HA_ERR_INTERNAL_ERROR.
*/
int append_row_keys(THD *thd, const TABLE *table, const RowChecks *checks, const uchar *old_record,
                    const uchar *new_record);

/* Of CREATE ... SELECT: the key of the new table, EXCLUSIVE, and those of the tables that it reads, SHARED.
   They stand for the rows, and there may be none. */
int append_table_keys(THD *thd, const TABLE *table);

/* The key of the child's row in record[0], which an action of the foreign key is about to change. */
int append_action_key(THD *thd, const ForeignKey &key, const TABLE *child);

}  // namespace tidesdb::cluster
#endif
