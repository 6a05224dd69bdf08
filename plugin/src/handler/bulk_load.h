/*
  Loading a table that nobody sees yet: the target of ALTER by copy, of CREATE TABLE ... SELECT.

  Rows go into transactions of their own, without locks, committed whenever a part of the write buffer is
  full, so that a table of any size can be loaded. Duplicates are found by reading the own table, except
  for keys that arrive in ascending order. What was loaded is durable when finish() returns 0; on failure
  the server drops the table.
*/
#ifndef TIDESDB_HANDLER_BULK_LOAD_H
#define TIDESDB_HANDLER_BULK_LOAD_H

#include <vector>

#include "key/ascending_keys.h"
#include "store/chunked_load.h"
#include "store/handles.h"

class ha_tidesdb;

namespace tidesdb {

class BulkLoad {
 public:
  explicit BulkLoad(ha_tidesdb *handler);
  BulkLoad(const BulkLoad &) = delete;
  BulkLoad &operator=(const BulkLoad &) = delete;

  /* All return 0 or an error for the server. */
  int begin();
  int write(const uchar *record);
  int finish();

  tidesdb_txn *txn() const { return load_.txn(); }

 private:
  int next_chunk();
  void reset_cursors();
  int check_unique(uint place, tidesdb_family *family, Slice key, bool *duplicate);

  ha_tidesdb *handler_;
  ChunkedLoad load_; /* destroyed after the cursors that read in it */
  /* By key number, the rows last. */
  AscendingKeys keys_;
  std::vector<CursorHandle> cursors_; /* to look for keys that do not ascend */
};

}  // namespace tidesdb
#endif
