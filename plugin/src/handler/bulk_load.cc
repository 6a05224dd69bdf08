#include "handler/bulk_load.h"

#include "handler/ha_tidesdb.h"

#include "sql_class.h"

#include "partition_info.h"

#include "store/store.h"
#include "sysvars.h"

namespace tidesdb {

/* Part of the write buffer that one chunk fills: well below what the engine keeps of a transaction in
   memory (a half), with the engine's own bytes for each operation in mind. */
constexpr ulonglong CHUNKS_IN_WRITE_BUFFER = 16;
constexpr ulonglong BYTES_FOR_EACH_WRITE = 64;

BulkLoad::BulkLoad(ha_tidesdb *handler) : handler_(handler) {}

BulkLoad::~BulkLoad() {
  cursors_.clear();
  if (open_) tidesdb_txn_rollback(txn_.get());
}

int BulkLoad::begin() {
  const int status = create_txn(plugin.db, &txn_);
  if (status != TIDESDB_OK) return handler_->fail(status);
  tidesdb_txn_set_cookie(txn_.get(), handler_->table->in_use);
  chunk_bytes_ = sysvars::write_buffer_size() / CHUNKS_IN_WRITE_BUFFER;
  /* Partitions are filled side by side. */
  if (const partition_info *partitions = handler_->table->part_info)
    chunk_bytes_ /= std::max(1U, partitions->num_parts * std::max(1U, partitions->num_subparts));
  greatest_.resize(handler_->table_share->keys + 1);
  cursors_.resize(handler_->table_share->keys + 1);
  return begin_chunk();
}

int BulkLoad::begin_chunk() {
  int status = tidesdb_txn_begin(txn_.get(), TIDESDB_READ_COMMITTED, TIDESDB_TXN_UNLOCKED);
  if (status != TIDESDB_OK) return handler_->fail(status);
  open_ = true;
  bytes_ = 0;
  status = tidesdb_txn_statement_begin(txn_.get(), 1,
                                       sysvars::backpressure_wait_timeout_ms(handler_->table->in_use));
  return status == TIDESDB_OK ? 0 : handler_->fail(status);
}

int BulkLoad::commit_chunk() {
  for (const CursorHandle &cursor : cursors_)
    if (cursor) tidesdb_cursor_reset(cursor.get());
  tidesdb_txn_statement_end(txn_.get());
  open_ = false;
  const int status = tidesdb_txn_commit(txn_.get());
  return status == TIDESDB_OK ? 0 : handler_->fail(status);
}

int BulkLoad::check_unique(uint place, tidesdb_family *family, Slice key, bool *duplicate) {
  ByteBuffer &greatest = greatest_[place];
  *duplicate = false;
  const int order = greatest.empty() ? 1 : [&] {
    const size_t common = std::min(greatest.size(), key.size);
    const int bytes = memcmp(key.data, greatest.data(), common);
    return bytes
               ? bytes
               : static_cast<int>(key.size > greatest.size()) - static_cast<int>(key.size < greatest.size());
  }();
  if (order > 0) {
    greatest.assign(key);
    return 0;
  }
  if (!cursors_[place]) {
    const int status = open_cursor(family, &cursors_[place]);
    if (status != TIDESDB_OK) return handler_->fail(status);
  }
  Slice value;
  const int status =
      tidesdb_get(cursors_[place].get(), txn_.get(), key.data, key.size, TIDESDB_READ_LATEST, &value);
  if (status == TIDESDB_NOT_FOUND) return 0;
  if (status != TIDESDB_OK) return handler_->fail(status);
  *duplicate = true;
  return 0;
}

int BulkLoad::write(const uchar *record) {
  ha_tidesdb &handler = *handler_;
  const TABLE_SHARE *share = handler.table_share;
  if (!handler.has_primary_key())
    if (const int error = handler.next_row_number()) return error;
  handler.encode_primary(record, &handler.new_primary_);
  handler.row_codec_->encode(record, &handler.row_value_);
  handler.writes_.clear();
  handler.write_index_.clear();
  handler.add_write(handler.open_table_->primary(), handler.new_primary_.slice(), handler.row_value_.slice(),
                    TIDESDB_PUT, false, share->primary_key);
  bool duplicate = false;
  if (handler.has_primary_key()) {
    if (const int error = check_unique(share->keys, handler.open_table_->primary(),
                                       handler.new_primary_.slice(), &duplicate))
      return error;
    if (duplicate) {
      handler.session_->set_duplicate_key(share->primary_key);
      return HA_ERR_FOUND_DUPP_KEY;
    }
  }
  for (uint i = 0; i < share->keys; i++) {
    if (handler.is_primary(i)) continue;
    ha_tidesdb::EntryBuffers &entry = handler.entries_[i];
    const bool decides =
        handler.make_entry(i, record, handler.new_primary_.slice(), &entry.new_key, &entry.new_value);
    if (decides) {
      if (const int error = check_unique(i, handler.open_table_->index(i), entry.new_key.slice(), &duplicate))
        return error;
      if (duplicate) {
        handler.session_->set_duplicate_key(i);
        return HA_ERR_FOUND_DUPP_KEY;
      }
    }
    handler.add_write(handler.open_table_->index(i), entry.new_key.slice(), entry.new_value.slice(),
                      TIDESDB_PUT, false, i);
  }
  size_t failed = 0;
  const int status = tidesdb_write(txn_.get(), handler.writes_.data(), handler.writes_.size(), &failed);
  if (status != TIDESDB_OK) return handler.fail(status);
  for (const tidesdb_op &write : handler.writes_)
    bytes_ += write.key.size + write.value.size + BYTES_FOR_EACH_WRITE;
  if (bytes_ < chunk_bytes_) return 0;
  if (const int error = commit_chunk()) return error;
  return begin_chunk();
}

int BulkLoad::finish() {
  if (!open_) return 0;
  if (const int error = commit_chunk()) return error;
  const int status = tidesdb_flush_log(plugin.db);
  return status == TIDESDB_OK ? 0 : handler_->fail(status);
}

}  // namespace tidesdb
