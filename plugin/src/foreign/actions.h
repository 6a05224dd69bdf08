/*
  Referential actions: ON DELETE and ON UPDATE with CASCADE or SET NULL.

  RowChecks finds the rows of a child that refer to a row which is deleted or gets other values
  (foreign/actions.cc); the handler changes them (handler/foreign_actions.cc, handler/child_table.h).
*/
#ifndef TIDESDB_FOREIGN_ACTIONS_H
#define TIDESDB_FOREIGN_ACTIONS_H

#include <vector>

#include "foreign/foreign_key.h"
#include "key/bytes.h"
#include "key/sql_headers.h"

namespace tidesdb {

/* What changes children along with their parent. */
class ReferrerActions {
 public:
  virtual ~ReferrerActions() = default;
  /* Before the first search for children in a statement: locks the child's name, so that its definition and
     its rows' keys stay as they are to the transaction's end. *gone: there is no such key any more. */
  virtual int open_child(const ForeignKey &key, bool *gone) = 0;
  /* The row of the key's child under `row_key`, whose columns had the values that `search` encodes, follows
     the parent row: `fields` are the parent's columns, nullptr in place of those that stay as they are;
     `new_record` is nullptr of a DELETE. A row that is not there any more is done with. 0 or an error of the
     server's. */
  virtual int apply_action(const ForeignKey &key, const std::vector<Field *> &fields, const uchar *new_record,
                           Slice row_key, Slice search) = 0;
};

}  // namespace tidesdb
#endif
