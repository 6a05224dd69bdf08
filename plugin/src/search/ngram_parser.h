/*
  The parser `ngram` of FULLTEXT indexes (WITH PARSER ngram): a plugin of its own in the engine's library, for
  tables of any engine. For the engine's own indexes it is a name, which stands in an index's settings.
*/
#ifndef TIDESDB_SEARCH_NGRAM_PARSER_H
#define TIDESDB_SEARCH_NGRAM_PARSER_H

#include <string>

#include "key/sql_headers.h"

struct st_mysql_ftparser;
struct st_mysql_sys_var;

namespace tidesdb {
namespace full_text {

extern struct st_mysql_ftparser ngram_parser;
/* Of the plugin: ngram_token_size, for indexes of other engines. */
extern struct st_mysql_sys_var *ngram_variables[];

/* Name of the parser of an index of an open table: NGRAM_PARSER is this one, and none of another library.
   Empty: there is none. */
std::string parser_of(const KEY &key);

}  // namespace full_text
}  // namespace tidesdb
#endif
