/*
  What a store needs of its disk.
*/
#ifndef TIDESDB_STORE_LEAST_DISK_H
#define TIDESDB_STORE_LEAST_DISK_H

#include "key/sql_headers.h"

namespace tidesdb {

/* Megabytes before it holds a table: two segments of its log of 32 MB, and its manifest. */
constexpr ulonglong LEAST_DISK_MB = 68;

}  // namespace tidesdb
#endif
