/*
  Writing into families that nobody sees yet: transactions without locks, committed whenever a part of the
  write buffer is full, so that any amount can be written. It is durable when finish() has returned
  TIDESDB_OK.
*/
#ifndef TIDESDB_STORE_CHUNKED_LOAD_H
#define TIDESDB_STORE_CHUNKED_LOAD_H

#include "key/sql_headers.h"
#include "store/handles.h"

namespace tidesdb {

/* Bytes from which on entries become finished tables instead (Ingest): for fewer, files and their syncs cost
   more than the way through log and memtable. */
ulonglong least_of_tables();

/* Bytes of the value, in one piece or in many. */
size_t value_size(const tidesdb_op &write);

class ChunkedLoad {
 public:
  ChunkedLoad() = default;
  /* Rolls back what finish() has not committed; earlier chunks stay. */
  ~ChunkedLoad();
  ChunkedLoad(const ChunkedLoad &) = delete;
  ChunkedLoad &operator=(const ChunkedLoad &) = delete;

  /* All return the engine's status. `beside`: so many loads are filled side by side, this one among them. */
  int begin(THD *thd, uint beside = 1);
  int write(const tidesdb_op *writes, size_t count);
  /* Commits the chunk and begins another: when is_full(), without cursors that read in it. */
  int next_chunk();
  /* Rolls the chunk back and begins another, without cursors that read in it. */
  int forget_chunk();
  int finish();

  bool is_full() const { return bytes_ >= chunk_bytes_; }
  tidesdb_txn *txn() const { return txn_.get(); }

 private:
  int begin_chunk();
  int commit_chunk();

  THD *thd_ = nullptr;
  TxnHandle txn_;
  bool open_ = false;
  ulonglong chunk_bytes_ = 0;
  ulonglong bytes_ = 0;
};

}  // namespace tidesdb
#endif
