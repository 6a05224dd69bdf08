/*
  Keys: what stands in the families of a table's indexes, and back (docs/format/rows.md). This puts the parts
  of a key together; key/encode_part.cc and key/decode_part.cc make one part of a column and back.

  A KeyCodec belongs to one open TABLE and one of its indexes; it keeps pointers into the TABLE and
  a scratch buffer, so it is used by one handler only. Keys that it makes sort by memcmp as the
  server sorts the index. Encoding is a walk over a compiled plan; nothing is allocated a row once
  buffers have grown.

  Rows may stand in record[0], record[1] or any other buffer of the record's layout: only offsets
  count.
*/
#ifndef TIDESDB_KEY_KEY_CODEC_H
#define TIDESDB_KEY_KEY_CODEC_H

#include <memory>
#include <vector>

#include "key/bytes.h"
#include "key/index_kind.h"
#include "key/key_part.h"

namespace tidesdb {

/* Size of the primary family's key in a table without primary key: a big-endian row number. */
constexpr size_t HIDDEN_KEY_SIZE = 8;

inline void store_hidden_key(uchar *to, ulonglong row_number) { mi_int8store(to, row_number); }
inline ulonglong read_hidden_key(const uchar *from) { return mi_uint8korr(from); }

class KeyCodec final : public IndexKind {
 public:
  /*
    The codec of index `index` of an open table (table->s->primary_key for the primary family).
    `primary` is the codec of the primary key, or nullptr for the primary key itself and in tables
    without one; it must outlive the result. nullptr when memory is short.
  */
  static std::unique_ptr<KeyCodec> make(TABLE *table, uint index, const KeyCodec *primary);

  KeyCodec(const KeyCodec &) = delete;
  KeyCodec &operator=(const KeyCodec &) = delete;

  /* --- shape --- */

  bool is_unique() const override { return unique_; }
  const KeyCodec *columns() const override { return this; }
  /* Constant size of the columns' encoding; 0 when it varies. */
  size_t fixed_size() const { return fixed_size_; }
  const std::vector<KeyPart> &parts() const { return parts_; }
  /*
    Whether every column of this index can be read back exactly from its entries (no part over a
    prefix, no BLOB). For the primary key: whether every secondary entry gives back all of its
    columns, which is what HA_PRIMARY_KEY_IN_READ_INDEX promises.
  */
  bool is_covering() const { return covering_; }
  bool part_is_covering(uint part) const { return parts_[part].covering; }
  /*
    The same for index_flags() and table_flags(), where no TABLE exists. The server itself checks
    that a part spans its whole column before it uses HA_KEYREAD_ONLY (sql/table.cc).
  */
  static bool can_cover(const Field *field);
  /* True when no part of the primary key of `share` is over a prefix or a BLOB, or there is none.
   */
  static bool primary_key_can_cover(const TABLE_SHARE *share);

  /* --- writing --- */

  /* Some column of the index is NULL in the row. */
  bool has_null(const uchar *record) const;
  /* Appends the encoding of the index columns alone. For the primary key: the row's key. */
  void append_columns(const uchar *record, ByteBuffer *out) const;

  /* --- searching --- */

  struct Search {
    bool all_columns; /* every column of the index is given */
    bool has_null;    /* one of the given columns is NULL */
  };
  /*
    Appends the encoding of the first parts of a key image as the server makes them (`map`:
    make_prev_keypart_map, or HA_WHOLE_KEY), extended parts (primary key columns after the index columns)
    included. The result is a prefix of exactly the keys whose parts are equal. One entry at most matches when
    is_unique() && all_columns && !has_null; its key is the result.
  */
  Search append_search(const uchar *key_image, key_part_map map, ByteBuffer *out) const;

  /* --- reading entries of a secondary index (false: damaged bytes) --- */

  bool primary_key(Slice key, Slice value, Slice *primary_key) const override;
  /*
    Fills the columns of the index, and of the primary key, that are in `columns` (NULL: all of
    them) and can be read from the entry; touches nothing else in `record`.
  */
  bool decode_entry(Slice key, Slice value, const MY_BITMAP *columns, uchar *record) const;

  /* --- row references (handler::ref) of the primary key ---
    A reference is the key itself where its size is constant, else the server's key image of the
    primary key. It is the same bytes for the same row, always. */

  uint ref_length() const;
  void make_ref(const uchar *record, uchar *ref) const;
  /* Appends the key of the primary family. */
  void append_ref(const uchar *ref, ByteBuffer *out) const;
  /* <0, 0, >0: the order of the keys. */
  int compare_refs(const uchar *a, const uchar *b) const;

 private:
  KeyCodec() = default;
  /* One. It decides uniqueness where the index is unique and no column is NULL. */
  void add_entries(const uchar *record, Slice primary_key, EntrySet *entries) const override;
  void compile(TABLE *table, uint index, const KeyCodec *primary);

  /* Where the columns end in the key, and where the row's key and the unpack data stand. */
  bool split_entry(Slice key, Slice value, const uchar **columns_end, Slice *primary, Slice *unpack) const;

  /* What a secondary entry does with a part of the primary key; both false if its column is a whole
     part of the index. */
  struct PrimaryUse {
    bool decode;
    bool unpack; /* its unpack data stands in the entry */
  };
  /* For search keys that go on into the primary key: where in the image a part of it stands, and
     how many parts of the image must be given for it to be there. */
  struct ImagePlace {
    uint offset;
    uint parts_needed;
  };

  TABLE *table_ = nullptr;
  uint index_ = 0;
  const KeyCodec *primary_ = nullptr; /* nullptr: of the primary key itself, or none exists */
  bool unique_ = false;
  bool covering_ = true;
  bool nullable_ = false; /* some part is */
  size_t fixed_size_ = 0;
  std::vector<KeyPart> parts_;
  std::vector<PrimaryUse> primary_use_;      /* one for each part of the primary key */
  std::vector<ImagePlace> primary_in_image_; /* for as many of its first parts as an image can give */
  mutable ByteBuffer scratch_;               /* weight strings */
  mutable ByteBuffer compare_[2];
};

}  // namespace tidesdb
#endif
