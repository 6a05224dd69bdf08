/*
  The engine's budget of memory, block cache and write buffer, as they fit into this machine or container.
*/
#ifndef TIDESDB_MEMORY_SIZES_H
#define TIDESDB_MEMORY_SIZES_H

#include "key/sql_headers.h"
#include "tidesdb.h"

namespace tidesdb {

/* Sizes that nobody set. */
constexpr ulonglong DEFAULT_WRITE_BUFFER_SIZE = 256ULL << 20, DEFAULT_BLOCK_CACHE_SIZE = 256ULL << 20;

/* Decides the three sizes, given as set or as their defaults. Those that nobody set shrink to fit, and so
   does a write buffer that is set to 0; set ones are reduced where there is no room for them, with a warning.
   true: a budget that is set is below sizes that are set; the error log says so. */
bool choose_memory_sizes(ulonglong max_memory_usage, ulonglong block_cache_size, ulonglong write_buffer_size,
                         tidesdb_memory_plan *plan);

}  // namespace tidesdb

#endif
