/*
  tidesdb_foreign_keys, as a statement that defines a table has it.

  A replica has to keep the keys that its primary kept, and no others: the primary logs no changes that
  actions make, and drops under WARN what its rows need not obey. So WARN goes with the text in the binary
  log, as a comment in front of it. It is one of a version that no server has, since clients pass such
  comments on and cut out others. A server without this engine does not see it.
*/
#ifndef TIDESDB_FOREIGN_MODE_H
#define TIDESDB_FOREIGN_MODE_H

#include <string>

#include "key/sql_headers.h"
#include "sysvars.h"

namespace tidesdb {
namespace foreign {

/* The mode of the running statement: that of its comment, else ENFORCE where it comes from a binary log, else
   the session's. */
sysvars::ForeignKeys mode(THD *thd);

/* The running statement drops foreign keys, as WARN asks: its text gets the comment, before it is logged.
   False: it is too late, as the log has the begin of an ALTER in two phases. */
bool log_warn_mode(THD *thd);
/* The same for an ALTER of a TidesDB table, before the server logs or notes any text of it. */
void log_warn_mode_of_alter(THD *thd);
/* For the list of keys in a text that the server makes of a definition, where that has dropped ones. */
std::string comment_among_keys();

}  // namespace foreign
}  // namespace tidesdb
#endif
