/*
  A scan of UPDATE or DELETE whose rows a search tells: the server offers these statements no full text index,
  and scans the table.
*/
#ifndef TIDESDB_HANDLER_MATCH_SCAN_H
#define TIDESDB_HANDLER_MATCH_SCAN_H

#include <vector>

#include "key/sql_headers.h"

class Item_func_match;

namespace tidesdb {

struct FullTextSearch;

/*
  Invariant: rows of the result have a positive score in each of `matches`, and nothing else is true of them.
  rnd_end() and reset() forget the scan; rnd_init() does not, as a partition's comes after cond_push().
*/
struct MatchScan {
  std::vector<const Item_func_match *> matches;
  const FullTextSearch *search = nullptr; /* gives the rows; owned by the statement's items */
  size_t place = 0;                       /* of the next row */

  /* Of the condition, those of `table`. */
  void begin(Item *condition, const TABLE *table);
  void forget() {
    matches.clear();
    search = nullptr;
  }
  bool may_begin() const { return !matches.empty(); }
};

}  // namespace tidesdb
#endif
