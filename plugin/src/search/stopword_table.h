/*
  The table of stopwords that tidesdb_ft_stopword_table names. It is of any engine, and is read when an index
  is made, which keeps the words.

  The statement under way may be a CREATE or an ALTER in any state. So the server's own way to its system
  tables is taken: another transaction of the same connection, with other open tables. Its metadata locks are
  the connection's, so the server sees a deadlock with other connections. A connection of one's own for it
  would wait without an end for a table that the statement itself has locked.
*/
#ifndef TIDESDB_SEARCH_STOPWORD_TABLE_H
#define TIDESDB_SEARCH_STOPWORD_TABLE_H

#include <string>

#include "key/sql_headers.h"

namespace tidesdb {
namespace full_text {

/* Reads the words of the table `name` (database/table) as FullTextSettings::stopword_list has them. False:
 *why says the reason, and the client was told nothing. *code is the error of a KILL, a deadlock or a wait
 that took too long, else 0. */
bool read_stopwords(THD *thd, const std::string &name, std::string *list, std::string *why, uint *code);
/* Whether there is such a table of words that the user may read: it is opened and not read. */
bool has_stopwords(THD *thd, const std::string &name, std::string *why, uint *code);

}  // namespace full_text
}  // namespace tidesdb
#endif
