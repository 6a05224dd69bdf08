/*
  The server's lock on the name of the other table of a foreign key (its metadata lock).

  A look at a definition takes it for a moment, so that a change under way comes to its end first. Who changes
  rows of a child has it to the transaction's end, as a statement on that table does: an ALTER that copies or
  checks the child, or checks rows that refer to it, keeps these changes away like all others.

  Who locks a row of the other table has it to the transaction's end, too. Otherwise an ALTER of that table
  has the name, waits for the row, and this transaction goes on to wait for the name: a ring that no search
  sees.
*/
#ifndef TIDESDB_FOREIGN_NAME_LOCK_H
#define TIDESDB_FOREIGN_NAME_LOCK_H

#include <string>

#include "key/sql_headers.h"
#include "mdl.h"

namespace tidesdb {

/* All return 0, or an error of the server's that the client has been told. They wait as long as a statement
   of the connection waits for a row. */

/* As a statement has it that changes rows, or reads them, to the transaction's end. */
int lock_name_for_changes(THD *thd, const std::string &database, const std::string &table);
int lock_name_for_reads(THD *thd, const std::string &database, const std::string &table);

/* As long as the object lives. */
class NameLock {
 public:
  NameLock(THD *thd, const std::string &database, const std::string &table);
  ~NameLock();
  NameLock(const NameLock &) = delete;
  NameLock &operator=(const NameLock &) = delete;

  int take();

 private:
  THD *thd_;
  MDL_request request_;
};

}  // namespace tidesdb
#endif
