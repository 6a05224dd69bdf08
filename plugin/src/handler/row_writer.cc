#include "handler/row_writer.h"

#include "row/row_layout.h"

namespace tidesdb {

void RowWriter::log(const RowLog &row_log, Slice primary_key, uint index) {
  if (!log_) {
    log_ = row_log.family();
    if (!log_) return;
  }
  /* It outlives the row, whose lock is its own. */
  ops_.push_back({log_.get(), primary_key, {nullptr, 0}, TIDESDB_KEEP_ENTRY, 0, 0});
  index_of_.push_back(index);
  logged_++;
}

int RowWriter::apply(tidesdb_txn *txn, size_t *failed) {
  int status = tidesdb_write(txn, ops_.data(), ops_.size(), failed);
  if (logged_ != 0) {
    if (status == TIDESDB_NO_SUCH_FAMILY) {
      /* The ALTER has given up. */
      ops_.resize(ops_.size() - logged_);
      status = tidesdb_write(txn, ops_.data(), ops_.size(), failed);
    }
    end_log();
  }
  *failed = status == TIDESDB_OK ? 0 : *failed;
  return release_large(txn, status);
}

int RowWriter::release_large(tidesdb_txn *txn, int status) {
  return row_value.release_beyond(LARGE_ROW) && status == TIDESDB_OK ? tidesdb_txn_spill_rest(txn) : status;
}

void RowWriter::forget_large() { row_value.release_beyond(LARGE_ROW); }

}  // namespace tidesdb
