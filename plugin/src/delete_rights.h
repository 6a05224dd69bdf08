/*
  The right to delete rows, asked for by statements that do so later: a row with a time to live goes by
  itself.
*/
#ifndef TIDESDB_DELETE_RIGHTS_H
#define TIDESDB_DELETE_RIGHTS_H

#include "key/sql_headers.h"

namespace tidesdb {

/* By whom the rows get their time to live. */
enum class GivenBy : uchar {
  STATEMENT, /* a value or a definition in it: procedures, triggers and views have the rights of their definer
              */
  SESSION    /* a variable: its user needs the right as well */
};

/* The client has its error where the right to DELETE from the table is missing. `named`: the table as the
   statement names it, perhaps through views. Appliers have every right. */
bool lacks_delete_right(THD *thd, const TABLE_LIST *named, GivenBy given_by);

}  // namespace tidesdb
#endif
