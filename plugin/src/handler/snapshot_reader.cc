#include "handler/snapshot_reader.h"

#include <cstring>

#include "store/store.h"

namespace tidesdb {

int SnapshotReader::begin() {
  int status = create_txn(plugin.db, &txn_);
  if (status == TIDESDB_OK) status = tidesdb_txn_begin(txn_.get(), TIDESDB_REPEATABLE_READ, 0);
  if (status == TIDESDB_OK) {
    begun_ = true;
    status = tidesdb_txn_statement_begin(txn_.get(), 0, 0);
  }
  if (status == TIDESDB_OK) status = tidesdb_txn_take_snapshot(txn_.get());
  return status;
}

SnapshotReader::~SnapshotReader() {
  if (begun_) tidesdb_txn_rollback(txn_.get());
}

int seek_snapshot(tidesdb_cursor *cursor, tidesdb_txn *txn, Slice key, uint8_t where) {
  tidesdb_seek seek;
  memset(&seek, 0, sizeof(seek));
  seek.key = key.data;
  seek.key_size = key.size;
  seek.where = where;
  seek.mode = TIDESDB_READ_SNAPSHOT;
  seek.batch_hint = 32;
  return tidesdb_cursor_seek(cursor, txn, &seek);
}

}  // namespace tidesdb
