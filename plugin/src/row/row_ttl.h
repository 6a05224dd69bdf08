/*
  How long a row lives: the TTL of its own column, of the session, of the table, in this order. A row expires
  so many seconds after the second in which its statement began, which a replica and SET timestamp agree on.

  NULL and 0 in the column: the row does not expire. Negative numbers, and more than MAX_TTL, are refused.
*/
#ifndef TIDESDB_ROW_ROW_TTL_H
#define TIDESDB_ROW_ROW_TTL_H

#include "key/sql_headers.h"

namespace tidesdb {

/* Whether a column of this type may have the option TTL. */
bool can_hold_lifetime(const Field &field);

/* Number of the table's column with the option TTL; -1: none. */
int lifetime_column(const TABLE *table);

/* Seconds to live that the column says for `record`, one of the table's; false: out of range. */
bool lifetime_of_record(Field *field, const uchar *record, ulonglong *seconds);

/* Whether a row or entry that expires at `expiry` (0: never) has done so at the second `now`. */
inline bool has_expired(uint64_t expiry, uint64_t now) { return expiry != 0 && expiry <= now; }

}  // namespace tidesdb
#endif
