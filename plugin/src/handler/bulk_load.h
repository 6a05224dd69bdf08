/*
  Loading a table that nobody sees yet: the target of ALTER by copy, of CREATE TABLE ... SELECT.

  A small load in the order of its keys is one transaction without locks. Duplicates are found by reading the
  own table, except for keys that arrive in ascending order.

  A load that grows becomes finished tables, past log and memtable (tidesdb_ingest_begin()), as long as its
  rows come in the order of their keys. Index entries are sorted meanwhile and written at the end
  (ddl/entry_load.h), which also finds their duplicates. None of this can be read before its end. So a row out
  of order, and whatever else needs to read the table, ends it. Rows after that, and those of statements that
  must know of each duplicate at once, go into transactions that are committed whenever a part of the write
  buffer is full.

  What was loaded is durable when finish() returns 0; on failure the server drops the table.
*/
#ifndef TIDESDB_HANDLER_BULK_LOAD_H
#define TIDESDB_HANDLER_BULK_LOAD_H

#include <memory>
#include <vector>

#include "ddl/entry_load.h"
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

  /* For counters, and for reading other tables. */
  tidesdb_txn *txn() const { return load_.txn(); }
  /* For reading what was loaded. An error is that of the next write(), or of finish(). */
  tidesdb_txn *reading_txn();

 private:
  enum class Way {
    UNDECIDED, /* one transaction, which grows; every row came in order */
    TABLES,
    CHUNKS
  };
  struct HeldWrite {
    size_t index; /* number of keys: the row */
    size_t key, value;
    uint32_t first_size; /* as in tidesdb_op */
    uint64_t expiry;
  };

  uint rows_place() const;
  bool may_become_tables() const;
  int write_in_order(const uchar *record);
  int write_checked(const uchar *record, bool new_row);
  int find(uint place, tidesdb_family *family, Slice key, bool *found);
  int refuse_duplicate(uint index);
  void hold_writes();
  void end_holding();
  int begin_tables();
  int end_tables();
  int write_entries();
  int next_chunk();
  void reset_cursors();
  int report_duplicate(uint index, Slice key, Slice value);

  ha_tidesdb *handler_;
  ChunkedLoad load_; /* destroyed after the cursors that read in it */
  Way way_ = Way::UNDECIDED;
  uint beside_ = 1; /* loads that are filled side by side, this one among them */
  int failed_ = 0;
  /* Of UNDECIDED: what the transaction has, key and value after key and value. */
  ByteBuffer held_;
  std::vector<HeldWrite> held_writes_;
  /* Of TABLES. */
  Ingest tables_;
  std::vector<std::unique_ptr<EntryLoad>> entries_; /* by key number; nullptr: the primary key */
  /* By key number, the rows last. */
  AscendingKeys keys_;
  bool knows_greatest_entries_ = true;
  std::vector<CursorHandle> cursors_; /* to look for keys that do not ascend */
};

}  // namespace tidesdb
#endif
