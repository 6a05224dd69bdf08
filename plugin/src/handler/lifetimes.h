/*
  What a statement knows of the lifetimes of the rows that it writes (ttl.cc).
*/
#ifndef TIDESDB_HANDLER_LIFETIMES_H
#define TIDESDB_HANDLER_LIFETIMES_H

#include "key/sql_headers.h"

namespace tidesdb {

/*
  A handler's part in an ALTER by copy and its like. SOURCE says perhaps: the statement's command does not
  tell whether it copies. The reads of both tell the session when rows expire; TARGET writes with what the
  source told.
*/
enum class CopyRole : uchar { NONE, SOURCE, TARGET };

/*
  Fixed at the begin of each statement that may write. `copy` alone is fixed at that of every statement. With
  TARGET or a session's TTL, `given` is set.
*/
struct Lifetimes {
  CopyRole copy = CopyRole::NONE;
  bool given = false; /* a row that is written may expire */
  bool refuses_session_ttl = false;
  bool of_action = false;    /* a child's rows, which a foreign key's action changes. Fixed for the handler */
  bool may_be_given = false; /* a row of the statement got one, so its user may give it */
  ulonglong session_ttl = 0;
  uint64_t clock_lag = 0; /* seconds; a lifetime counts from the statement's second plus these */

  bool copies_rows() const { return copy != CopyRole::NONE; }
  bool takes_over() const { return copy == CopyRole::TARGET; }
};

}  // namespace tidesdb
#endif
