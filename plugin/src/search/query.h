/*
  What a search asks for: words, beginnings of words and phrases, put together by the operators of boolean
  mode. The grammar is InnoDB's (docs/design/0032-full-text.md).
*/
#ifndef TIDESDB_SEARCH_QUERY_H
#define TIDESDB_SEARCH_QUERY_H

#include <string>
#include <vector>

#include "key/bytes.h"

namespace tidesdb {

/* How a part of a group bears on the rows: they may have it, must, must not, or it lowers their score. */
enum class Bearing : uchar { HELPS, REQUIRED, EXCLUDED, LOWERS };

struct QueryNode {
  enum class Kind : uchar { GROUP, TEXT, PREFIX, PHRASE };

  Kind kind = Kind::GROUP;
  Bearing bearing = Bearing::HELPS;
  float boost = 1;              /* `>` and `<` */
  std::string text;             /* all but GROUP: as it was written */
  ulonglong distance = 0;       /* PHRASE: words in any order, within so many places; 0: as they stand */
  std::vector<QueryNode> parts; /* GROUP */
};

struct QueryText {
  Slice text;
  const void *charset;
  /* Bytes of the character at `at`, at least one. */
  size_t (*size_of)(const void *charset, const uchar *at, const uchar *end);
  std::string blend; /* operators among these join the words on their sides */
};

/* Groups in groups: more are refused. */
constexpr unsigned MOST_NESTED = 64;
/* Parts of a query; one of more is refused before it takes memory. */
constexpr size_t MOST_PARTS = 100000;

/* Reads a query of boolean mode into `query`, a group. False: `error` says why, and where. */
bool read_boolean_query(const QueryText &text, QueryNode *query, std::string *error);

}  // namespace tidesdb
#endif
