/*
  For statements on tables as a whole (CHECK, REPAIR, ...): rows of their result, and sums of entries.
*/
#ifndef TIDESDB_HANDLER_ADMIN_RESULT_H
#define TIDESDB_HANDLER_ADMIN_RESULT_H

#include "key/bytes.h"
#include "key/hash.h"
#include "key/sql_headers.h"

namespace tidesdb {

/* A row of the statement's result set. */
void say(THD *thd, const TABLE *table, const char *operation, const char *level, const char *format, ...)
    ATTRIBUTE_FORMAT(printf, 5, 6);

/* Entries of an index, in any order: how many, and the sum of their hashes. */
struct EntrySum {
  uint64_t entries = 0;
  uint64_t hashes = 0;

  void add(Slice key, Slice value) {
    hashes += mix_hash(hash_of(value, mix_hash(hash_of(key, 0))));
    entries++;
  }
};

}  // namespace tidesdb
#endif
