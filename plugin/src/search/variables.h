/*
  Variables of full text: the rules for the words of new indexes, and the parameters of scores.
*/
#ifndef TIDESDB_SEARCH_VARIABLES_H
#define TIDESDB_SEARCH_VARIABLES_H

#include <cstddef>

#include "key/sql_headers.h"
#include "search/settings.h"

struct st_mysql_sys_var;

namespace tidesdb {

struct Bm25;

namespace full_text {

/* How many variables variable() has. */
constexpr size_t VARIABLES = 7;
struct st_mysql_sys_var *variable(size_t number);

/* true: a variable of an option file cannot be; the error log says which. */
bool refuse_variables();

/* Of an index that is made now; `parser` as of parser_of(). False: *refusal says why there are none, and the
   client was told nothing. */
struct Refusal {
  uint code = 0;
  std::string text;
  void tell() const;
};
bool settings_of_new(THD *thd, const LEX_CSTRING &index, const std::string &parser,
                     FullTextSettings *settings, Refusal *refusal);
/* Of a search that begins now: its parameters, without the figures of a table. */
Bm25 scoring();

}  // namespace full_text
}  // namespace tidesdb
#endif
