/*
  What a SELECT needs of a search, beyond what the server tells an engine: neither LIMIT nor the columns that
  MATCH alone reads are in its calls.
*/
#ifndef TIDESDB_HANDLER_FULL_TEXT_NEED_H
#define TIDESDB_HANDLER_FULL_TEXT_NEED_H

#include "key/sql_headers.h"

namespace tidesdb {

struct FullTextNeed {
  /* The rows become one, in which their order is lost: that of COUNT(*). The server asks for order all the
   * same. */
  bool any_order = false;
  /* The search gives the table's rows (JT_FT), and they go into no sort: best first. */
  bool unsorted = false;
  /* The statement takes so many of the best rows, and those that tie with the last one; HA_POS_ERROR: all. */
  ha_rows best = HA_POS_ERROR;
  /* No column is needed but those in `columns`: MATCH has its answer without. */
  bool knows_columns = false;

  /* Of the search by this index, with these flags, that ft_init_ext() is called for. Sets bits in `columns`.
   */
  static FullTextNeed of(TABLE *table, uint index, uint flags, MY_BITMAP *columns);
};

}  // namespace tidesdb
#endif
