/*
  Reading one snapshot beside what the session's transaction sees: for CHECK, ANALYZE and samples.
*/
#ifndef TIDESDB_HANDLER_SNAPSHOT_READER_H
#define TIDESDB_HANDLER_SNAPSHOT_READER_H

#include "key/bytes.h"
#include "store/handles.h"

namespace tidesdb {

/* A transaction beside the session's, for reading one snapshot. */
class SnapshotReader {
 public:
  /* Status of the engine. */
  int begin();
  ~SnapshotReader();
  tidesdb_txn *txn() const { return txn_.get(); }

 private:
  TxnHandle txn_;
  bool begun_ = false;
};

/* A search in that snapshot; `where` is TIDESDB_SEEK_*. Status of the engine. */
int seek_snapshot(tidesdb_cursor *cursor, tidesdb_txn *txn, Slice key, uint8_t where);

}  // namespace tidesdb
#endif
