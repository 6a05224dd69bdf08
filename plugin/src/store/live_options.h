/*
  Options that change while the store is open (SET GLOBAL): asked of the engine one change at a time. Called
  by the variables' update functions, which the server calls under LOCK_global_system_variables: it is let go
  meanwhile, since a change may wait for a sync, or evict gigabytes.
*/
#ifndef TIDESDB_LIVE_OPTIONS_H
#define TIDESDB_LIVE_OPTIONS_H

#include "key/sql_headers.h"
#include "tidesdb.h"

#include <functional>

namespace tidesdb {

/* The sizes of the start: which of them somebody has set. */
void note_sizes_of_start(const tidesdb_memory_plan &plan);

/* Changes what `edit` changes, and shows `look` the options in force then. true: refused, and the client is
   told why. */
bool change_live_options(const std::function<void(tidesdb_live_options *)> &edit,
                         const std::function<void(const tidesdb_live_options &)> &look);

enum class MemorySize { BLOCK_CACHE, WRITE_BUFFER, BUDGET };

/* Gives a size its new value, where the three fit together; 0 as a write buffer or budget: automatic.
   `*value` becomes the size in force (that of a budget stays 0). A cache that nobody set gets what is left,
   and
   `*block_cache` its size. true: refused, and the client is told why. */
bool change_memory_size(MemorySize which, ulonglong *value, ulonglong *block_cache);

}  // namespace tidesdb

#endif
