/*
  What the searches of a statement in one table have in common: figures for scores, those of all partitions
  alike, and the memory that they hold.
*/
#ifndef TIDESDB_HANDLER_SEARCH_FIGURES_H
#define TIDESDB_HANDLER_SEARCH_FIGURES_H

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "key/sql_headers.h"

namespace tidesdb {

struct SearchFigures {
  struct Sizes {
    uint64_t rows = 0, entries = 0;
  };

  query_id_t statement = 0;
  std::map<uint, Sizes> sizes; /* of the table and each index that was searched */
  /* Rows with a lookup's terms, by index and the lookup's first bytes. */
  std::map<std::pair<uint, std::string>, uint64_t> rows_with;
  size_t memory = 0; /* of the searches so far */

  void begin(query_id_t now) {
    if (statement == now) return;
    clear();
    statement = now;
  }
  void clear() {
    statement = 0;
    sizes.clear();
    rows_with.clear();
    memory = 0;
  }
};

}  // namespace tidesdb
#endif
