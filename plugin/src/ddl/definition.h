/*
  What may stand in the definition of a table: options that have no effect get a note, features that are
  not built are refused by name, FOREIGN KEY follows tidesdb_foreign_keys.
*/
#ifndef TIDESDB_DDL_DEFINITION_H
#define TIDESDB_DDL_DEFINITION_H

#include "key/sql_headers.h"
#include "tidesdb.h"

namespace tidesdb {

/* true: refused, and the client has been told why. */
bool refuse_definition(THD *thd, const TABLE *form, const HA_CREATE_INFO *info);

/* Options of the families of a table and of one of its indexes (nullptr: the rows). */
void fill_family_options(const TABLE_SHARE *share, const HA_CREATE_INFO *info, const KEY *key,
                         tidesdb_family_options *options);

}  // namespace tidesdb
#endif
