#include "handler/row_writer.h"

#include "row/row_layout.h"

namespace tidesdb {

void RowWriter::log(const RowLog &row_log, Slice primary_key, uint index) {
  if (!log_) {
    log_ = row_log.family();
    if (!log_) return;
  }
  /* It outlives the row, whose lock is its own. */
  ops_.push_back({log_.get(), primary_key, {nullptr, 0}, TIDESDB_KEEP_ENTRY, 0, 0, 0});
  index_of_.push_back(index);
  logged_++;
}

void RowWriter::encode_keeping(const RowCodec &codec, const uchar *record,
                               const std::vector<ColumnApart> &columns, Slice place) {
  parts_.kept = &columns;
  codec.encode(record, &row_value, &parts_);
  row_value.append(place);
  keeps_rest_ = true;
}

void RowWriter::encode(const RowCodec &codec, const uchar *record, size_t threshold, Slice place) {
  parts_.threshold = threshold;
  codec.encode(record, &row_value, &parts_);
  if (parts_.blobs.empty()) return;
  const size_t end = row_value.size();
  row_value.append(place);
  size_t from = 0;
  for (const RowParts::Blob &blob : parts_.blobs) {
    pieces_.push_back({row_value.data() + from, blob.at - from});
    pieces_.push_back(blob.bytes);
    from = blob.at;
  }
  pieces_.push_back({row_value.data() + from, end - from});
  compares_ = place.size != 0;
  if (compares_) pieces_.push_back({row_value.data() + end, place.size});
}

void RowWriter::compare_no_more() {
  for (tidesdb_op &op : ops_) {
    if (!(op.flags & TIDESDB_OP_UNLESS_AT)) continue;
    op.flags &= static_cast<uint8_t>(~TIDESDB_OP_UNLESS_AT);
    op.value.size--;
  }
}

int RowWriter::apply(tidesdb_txn *txn, size_t *failed) {
  int status = tidesdb_write(txn, ops_.data(), ops_.size(), failed);
  if (logged_ != 0 && status != TIDESDB_UNCHANGED) {
    if (status == TIDESDB_NO_SUCH_FAMILY) {
      /* The ALTER has given up. */
      ops_.resize(ops_.size() - logged_);
      status = tidesdb_write(txn, ops_.data(), ops_.size(), failed);
    }
    end_log();
  }
  *failed = status == TIDESDB_OK ? 0 : *failed;
  return status;
}

void RowWriter::end_statement() {
  duplicate_index_ = MAX_KEY;
  parts_.clear();
  pieces_.clear();
  row_value.release_beyond(KEPT_ROW);
  old_primary.release_beyond(KEPT_KEY);
  new_primary.release_beyond(KEPT_KEY);
  for (IndexEntries &index : entries) {
    if (index.cursor) tidesdb_cursor_reset(index.cursor.get());
    for (EntrySet *set : {&index.before, &index.after}) set->release_beyond(KEPT_KEY);
  }
}

}  // namespace tidesdb
