/*
  Rows: the server's record <-> the value in the primary family (docs/format/rows.md).

  RowCodec belongs to one open TABLE. RowReader holds a reader's own state: a plan
  compiled for a set of columns, and the memory that the BLOB pointers of the last row point into. A
  handler has one reader for each cursor whose blobs must live apart; usually one.

  Rows are written in the table's present layout and read in any that the table's history knows
  (row_layout.h); those of older layouts by a plan of their own, made when the first one is met.

  Nothing is allocated a row once buffers have grown. Rows may stand in any buffer of the record's
  layout.
*/
#ifndef TIDESDB_ROW_ROW_CODEC_H
#define TIDESDB_ROW_ROW_CODEC_H

#include <memory>
#include <vector>

#include "key/key_codec.h"
#include "row/row_layout.h"

namespace tidesdb {

class RowCodec {
 public:
  /* `primary`: codec of the primary key, nullptr in a table without one; it and `history` must
     outlive the result. nullptr when memory is short. */
  static std::unique_ptr<RowCodec> make(TABLE *table, const KeyCodec *primary, const RowHistory &history);

  RowCodec(const RowCodec &) = delete;
  RowCodec &operator=(const RowCodec &) = delete;

  /* The row's value; clears `out` first. All stored columns of `record` must be valid, but for those that
     `parts` keeps. The bytes of BLOBs of more than LARGE_ROW bytes, and of those in the second part, are left
     where they are; without `parts` there are none of these. */
  void encode(const uchar *record, ByteBuffer *out, RowParts *parts = nullptr) const;

  bool has_blobs() const { return has_blobs_; }
  /* Whether the second part of each row, of older layouts too, is that of one of the present layout. */
  bool keeps_all_rests() const { return keeps_all_rests_; }
  /* The same of a row with these columns there. */
  bool can_keep(const std::vector<ColumnApart> &columns) const;
  /* The value of a column that stands apart, in a record. */
  Slice value_of(const ColumnApart &column, const uchar *record) const;
  /* Whether the record has none: as UNREAD_BLOB says. */
  bool is_unread(const ColumnApart &column, const uchar *record) const {
    return value_of(column, record).data == &UNREAD_BLOB;
  }
  /* Whether BLOBs of so many bytes and more are in `record`, apart from `columns`. */
  bool has_other_long_blobs(const uchar *record, size_t threshold,
                            const std::vector<ColumnApart> &columns) const;

  /* As unknown_layout() of the table's history. */
  std::string unknown_layout(Slice row) const { return tidesdb::unknown_layout(row, *history_); }
  /* Whether rows of this layout version can be read. */
  bool knows(ulonglong version) const { return version == history_->version || older(version); }

 private:
  friend class RowReader;
  RowCodec() = default;
  void compare_with_older_layouts();
  void compile(TABLE *table, const KeyCodec *primary, const RowHistory &history);
  const RowLayout *older(ulonglong version) const;
  void encode_variable(const uchar *record, ByteBuffer *out, bool in_parts, RowParts *parts) const;

  /* Bytes that are side by side in the record and in the row. */
  struct Run {
    uint record_offset;
    uint size;
  };
  struct FixedColumn {
    uint field_index;
    uint32_t id;
    uint record_offset;
    uint row_offset; /* from the start of the fixed columns */
    uint size;       /* 0: there is only its NULL bit */
    uint null_offset;
    uchar null_bit; /* 0: NOT NULL */
  };
  struct VariableColumn {
    uint32_t id;
    uint field_index;
    uint record_offset;
    uint size; /* bytes in the record: CHAR: of the text; VARCHAR: bound of the text; BLOB: length
                  bytes */
    uint null_offset;
    uchar null_bit;
    RowKind kind;
    CHARSET_INFO *charset;
  };
  /* A primary key column that is read from the key. */
  struct KeyColumn {
    uint field_index;
    uint part;       /* of the primary key */
    uint key_offset; /* constant: parts before it have constant size */
  };

  const KeyCodec *primary_ = nullptr;
  const RowHistory *history_ = nullptr;
  uint null_bytes_ = 0;
  std::vector<uchar> defaults_;        /* the default record */
  std::vector<uchar> unset_nulls_;     /* the null area of a record without any value */
  std::vector<uchar> fixed_null_bits_; /* NULL bits of the fixed columns, as in the null area */
  bool fixed_nulls_ = false;           /* there are any */
  bool has_blobs_ = false;
  bool keeps_all_rests_ = true;
  size_t fixed_size_ = 0;
  size_t key_size_needed_ = 0; /* bytes of key that key_columns_ span */
  std::vector<FixedColumn> fixed_;
  std::vector<Run> runs_;
  std::vector<VariableColumn> variable_;
  std::vector<KeyColumn> key_columns_;
};

class RowReader {
 public:
  explicit RowReader(const RowCodec &codec);
  ~RowReader();

  /*
    Which columns read() fills; nullptr: all. Cheap when the set is the same as before. Call it at
    the start of a scan and whenever the server may have changed read_set (column_bitmaps_signal).
    false when memory is short.
  */
  bool choose(const MY_BITMAP *columns);
  /*
    Fills the chosen columns of `record` and all of its NULL bits. `key` is the row's key in the
    primary family. BLOB pointers go into this reader's memory and live until its next read().
    With `may_lack_rest` the value may be the first part of a row in two: columns in the second are then
    UNREAD_BLOB. false: damaged bytes, or a layout version that is not known (RowCodec::unknown_layout).
  */
  bool read(Slice key, Slice value, uchar *record, bool may_lack_rest = false);
  /* The columns in the second part of the last row, in their order there; for a reader of all columns. */
  const std::vector<ColumnApart> &columns_apart() const { return apart_; }
  /* The last row has a second part, and the value did not. */
  bool lacked_rest() const { return lacked_rest_; }
  /* Gives the memory of large BLOBs back; the pointers to them end. */
  void end_statement();
  /* The layout version that a row says it has; 0: it says none. */
  static ulonglong layout_version(Slice value);

 private:
  void compile(const MY_BITMAP *columns);
  bool is_wanted(uint field_index) const;

  struct OlderPlan;
  OlderPlan *older_plan(ulonglong version);
  bool read_older(ulonglong version, Slice value, const uchar *from, uchar *record);
  bool read_rest(const uchar *from, const uchar *end, uchar *record);
  bool read_key_columns(Slice key, uchar *record) const;
  void clear_fixed(uchar *record) const;
  void clear_variable(const RowCodec::VariableColumn &column, uchar *record) const;
  void store_unread(const RowCodec::VariableColumn &column, uchar *record) const;
  bool store_variable(const RowCodec::VariableColumn &column, const uchar *bytes, size_t size, uchar *record);
  void reserve_blobs(size_t size);

  const RowCodec &codec_;
  bool chosen_ = false;
  bool all_ = false;
  std::vector<my_bitmap_map> columns_; /* of the set the plan was made for */
  struct Copy {
    uint record_offset;
    uint row_offset;
    uint size;
  };
  std::vector<Copy> copies_;
  std::vector<uint> key_columns_; /* of the codec's, by position */
  std::vector<uchar> wanted_;     /* for each variable column */
  size_t variable_count_ = 0;     /* variable columns up to the last wanted one */
  bool blobs_ = false;
  ByteBuffer blob_memory_;
  /* Of the last row. */
  bool in_parts_ = false;
  bool may_lack_rest_ = false;
  bool lacked_rest_ = false;
  std::vector<ColumnApart> apart_;
  std::vector<std::unique_ptr<OlderPlan>> older_plans_; /* for the same columns */
};

}  // namespace tidesdb
#endif
