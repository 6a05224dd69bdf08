/*
  The engine operations of one row that is written: the row, its index entries, and its key in the row log.

  begin(), encode() where there is a new row, add() for each and log() at the end, then apply(). The engine
  does all or none. An operation holds slices of the buffers here: they stay as they are until apply()
  returns. So do the record's long BLOBs, which the engine takes from there.
*/
#ifndef TIDESDB_HANDLER_ROW_WRITER_H
#define TIDESDB_HANDLER_ROW_WRITER_H

#include <vector>

#include "ddl/row_log.h"
#include "key/bytes.h"
#include "key/entry_set.h"
#include "key/sql_headers.h"
#include "row/row_codec.h"
#include "store/handles.h"

namespace tidesdb {

class RowWriter {
 public:
  /* What the row has in an index. */
  struct IndexEntries {
    EntrySet before, after;
    CursorHandle cursor; /* for a look at an entry itself, alongside the scan's */
  };

  uint64_t expiry = 0; /* of the row and its entries; 0: it does not expire */
  ByteBuffer old_primary, new_primary, row_value;
  std::vector<IndexEntries> entries; /* by key number */

  void open(uint keys) {
    entries.resize(keys);
    ops_.reserve(2 * (keys + 1));
    index_of_.reserve(2 * (keys + 1));
  }
  void close_cursors() {
    for (IndexEntries &index : entries) index.cursor.reset();
  }

  /* Forgets the row before, which may have been refused between log() and apply(). */
  void begin() {
    parts_.clear();
    pieces_.clear();
    keeps_rest_ = compares_ = false;
    ops_.clear();
    index_of_.clear();
    duplicate_index_ = MAX_KEY;
    end_log();
  }
  /* Makes `row_value` of a record, after begin(). BLOBs of `threshold` bytes and more become its second part;
     0: none. With a `place` the row is written only if that part is another than the one there. */
  void encode(const RowCodec &codec, const uchar *record, size_t threshold, Slice place = {nullptr, 0});
  /* It is another. */
  void compare_no_more();
  /* The same, of a record whose second part, these columns, stays at `place`. */
  void encode_keeping(const RowCodec &codec, const uchar *record, const std::vector<ColumnApart> &columns,
                      Slice place);
  /* `index`: the key number that a duplicate is said to be of. */
  void add(tidesdb_family *family, Slice key, Slice value, int kind, int flags, uint index) {
    uint32_t first_size = 0;
    if (value.size != 0 && value.data == row_value.data()) {
      first_size = static_cast<uint32_t>(parts_.first_size);
      if (keeps_rest_) flags |= TIDESDB_OP_KEEP_REST;
      if (!pieces_.empty()) {
        value = {reinterpret_cast<const uchar *>(pieces_.data()), pieces_.size()};
        flags |= TIDESDB_OP_PIECES | (compares_ ? TIDESDB_OP_UNLESS_AT : 0);
      }
    }
    ops_.push_back(
        {family, key, value, static_cast<uint8_t>(kind), static_cast<uint8_t>(flags), first_size, expiry});
    index_of_.push_back(index);
  }
  /* The row with this key changes: for an ALTER that builds indexes meanwhile, if there is one. */
  void log(const RowLog &row_log, Slice primary_key, uint index);

  /* Returns the engine's status; of an error of one operation, `failed` is that one. */
  int apply(tidesdb_txn *txn, size_t *failed);
  /* Keeps little memory, and nothing that pins more. */
  void end_statement();
  uint index_of(size_t operation) const { return index_of_[operation]; }
  /* Another row has the entry that this operation brings. */
  void note_duplicate(size_t operation) {
    duplicate_index_ = index_of_[operation];
    duplicate_key_ = ops_[operation].key;
  }
  /* The index of that entry, until the next row; MAX_KEY: there is none. */
  uint duplicate_index() const { return duplicate_index_; }
  Slice duplicate_key() const { return duplicate_key_; }

  const std::vector<tidesdb_op> &ops() const { return ops_; }

 private:
  RowParts parts_;
  bool keeps_rest_ = false, compares_ = false;
  /* Where BLOBs are not in `row_value`: its parts and these, in order; then the place to compare with. */
  std::vector<Slice> pieces_;
  std::vector<tidesdb_op> ops_;
  std::vector<uint> index_of_; /* as many */
  uint duplicate_index_ = MAX_KEY;
  Slice duplicate_key_{nullptr, 0}; /* in a buffer of the row */
  /* The row log of the last `logged_` operations; it may go away meanwhile, but not its handle. */
  RowLog::Family log_;
  size_t logged_ = 0;

  void end_log() {
    logged_ = 0;
    log_.reset();
  }
};

}  // namespace tidesdb
#endif
