#include "store/chunked_load.h"

#include <algorithm>
#include <numeric>

#include "store/store.h"
#include "sysvars.h"

namespace tidesdb {

/* Part of the write buffer that one chunk fills: well below what the engine keeps of a transaction in
   memory (a half), with the engine's own bytes for each operation in mind. And at most so much: commits of
   others that come after a chunk wait until all of it is in the memtable. */
constexpr ulonglong CHUNKS_IN_WRITE_BUFFER = 16;
constexpr ulonglong LARGEST_CHUNK = 128 << 10;
constexpr ulonglong BYTES_FOR_EACH_WRITE = 64;

/* A 64th of the write buffer, within bounds. */
constexpr ulonglong TABLES_IN_WRITE_BUFFER = 64;
constexpr ulonglong LEAST_OF_TABLES = 64 << 10;
constexpr ulonglong MOST_IN_CHUNKS = 1 << 20;

ulonglong least_of_tables() {
  const ulonglong share = sysvars::write_buffer_size() / TABLES_IN_WRITE_BUFFER;
  return std::min(std::max(share, LEAST_OF_TABLES), MOST_IN_CHUNKS);
}

size_t value_size(const tidesdb_op &write) {
  if (!(write.flags & TIDESDB_OP_PIECES)) return write.value.size;
  const auto *pieces = reinterpret_cast<const tidesdb_slice *>(write.value.data);
  return std::accumulate(pieces, pieces + write.value.size, size_t{0},
                         [](size_t sum, const tidesdb_slice &piece) { return sum + piece.size; });
}

ChunkedLoad::~ChunkedLoad() {
  if (open_) tidesdb_txn_rollback(txn_.get());
}

int ChunkedLoad::begin(THD *thd, uint beside) {
  thd_ = thd;
  const int status = create_txn(plugin.db, &txn_);
  if (status != TIDESDB_OK) return status;
  tidesdb_txn_set_cookie(txn_.get(), thd);
  chunk_bytes_ = std::min(sysvars::write_buffer_size() / CHUNKS_IN_WRITE_BUFFER, LARGEST_CHUNK) / beside;
  return begin_chunk();
}

int ChunkedLoad::begin_chunk() {
  const int status = tidesdb_txn_begin(txn_.get(), TIDESDB_READ_COMMITTED, TIDESDB_TXN_UNLOCKED);
  if (status != TIDESDB_OK) return status;
  open_ = true;
  bytes_ = 0;
  return tidesdb_txn_statement_begin(txn_.get(), 1, sysvars::backpressure_wait_timeout_ms(thd_));
}

int ChunkedLoad::commit_chunk() {
  tidesdb_txn_statement_end(txn_.get());
  open_ = false;
  return tidesdb_txn_commit(txn_.get());
}

int ChunkedLoad::write(const tidesdb_op *writes, size_t count) {
  size_t failed = 0;
  const int status = tidesdb_write(txn_.get(), writes, count, &failed);
  for (size_t i = 0; i < count; i++)
    bytes_ += writes[i].key.size + value_size(writes[i]) + BYTES_FOR_EACH_WRITE;
  return status;
}

int ChunkedLoad::next_chunk() {
  const int status = commit_chunk();
  return status == TIDESDB_OK ? begin_chunk() : status;
}

int ChunkedLoad::forget_chunk() {
  open_ = false;
  const int status = tidesdb_txn_rollback(txn_.get());
  return status == TIDESDB_OK ? begin_chunk() : status;
}

int ChunkedLoad::finish() {
  if (!open_) return TIDESDB_OK;
  const int status = commit_chunk();
  return status == TIDESDB_OK ? tidesdb_flush_log(plugin.db) : status;
}

}  // namespace tidesdb
