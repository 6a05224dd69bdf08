/*
  One part of a key: how a column becomes bytes in memcmp order, and back (docs/format/rows.md).

  compile_key_part() decides once, from the column's type, which encoder applies (key/key_part.cc). Encoding
  (key/encode_part.cc) and decoding (key/decode_part.cc) are then switches over a small struct, without a
  virtual call for the common types. Value pointers are into a
  record or into a key image: both hold the same bytes for types of constant width; for strings the
  caller says where the bytes are.
*/
#ifndef TIDESDB_KEY_KEY_PART_H
#define TIDESDB_KEY_KEY_PART_H

#include "key/bytes.h"
#include "key/sql_headers.h"

namespace tidesdb {

struct KeyPart {
  enum class Kind : uchar {
    UNSIGNED, /* little-endian in the record */
    SIGNED,   /* the same, two's complement */
    RAW,      /* in memcmp order already */
    FLOAT,
    DOUBLE,
    IMAGE,      /* the server's sort image, of constant size */
    BYTES,      /* VARBINARY, BLOB: escaped bytes */
    TEXT_BYTES, /* text whose bytes are in order: escaped bytes, spaces perhaps not significant */
    WEIGHTS     /* text by the weights of its collation */
  };
  /* Where a string stands in the record. */
  enum class Storage : uchar { FIXED, CHAR, VARCHAR1, VARCHAR2, BLOB };

  Kind kind;
  Storage storage;
  bool nullable;
  bool descending;
  bool pad_space;   /* trailing spaces are not significant */
  bool trim;        /* they are cut off before the string is looked at */
  bool filled;      /* CHAR of some collations, WEIGHTS: compared with the spaces that fill it up */
  bool ends_at_nul; /* WEIGHTS: bytes after a NUL are not compared */
  bool covering;    /* the whole column, and not a BLOB */
  bool prefix;      /* HA_PART_KEY_SEG */
  uchar null_bit;
  uchar levels; /* WEIGHTS: set of levels of the collation, as bits; else 1 */
  uchar unit;   /* WEIGHTS: bytes of a weight; else 1 */
  uchar blob_length_bytes;
  uint null_offset;
  uint record_offset;
  uint width;        /* bytes of the value in the record (FIXED), or of the text (CHAR), or its bound */
  uint part_length;  /* KEY_PART_INFO::length: bytes that the part spans at most */
  uint characters;   /* prefix parts and `filled` ones of multi-byte text: most characters; 0: cut by bytes */
  uint image_size;   /* KEY_PART_INFO::store_length */
  uint encoded_size; /* NULL byte included; 0: varies */
  uint sort_size;    /* IMAGE: bytes of the sort image */
  uint field_index;
  uint space_weight[MY_STRXFRM_NLEVELS]; /* WEIGHTS: of a space, for each level */
  Field *field;
  CHARSET_INFO *charset;

  bool is_null(const uchar *record) const { return nullable && (record[null_offset] & null_bit); }
};

/* Whether a part that spans the whole column can give it back from an index entry. */
bool column_can_cover(const Field *field);

/* `key_part` as it stands in the open table's key. */
KeyPart compile_key_part(TABLE *table, const KEY_PART_INFO &key_part);
/* The same of a column whose value stands in `record`. */
KeyPart compile_key_part(Field *field, const uchar *record, const KEY_PART_INFO &key_part);

/* The value's bytes in a record (strings: cut to the part, trailing spaces as stored). */
Slice record_value(const KeyPart &part, const uchar *record);

/* Appends the part's bytes for a row, NULL byte included. `scratch` holds weight strings. */
void append_part(const KeyPart &part, const uchar *record, ByteBuffer *out, ByteBuffer *scratch);
/* The same of a value that is given, and not NULL. */
void append_value(const KeyPart &part, Slice value, ByteBuffer *out, ByteBuffer *scratch);
/* The same for the part's place in a key image. Returns whether it is NULL. */
bool append_image_part(const KeyPart &part, const uchar *image, ByteBuffer *out, ByteBuffer *scratch);

/* Whether values of both are the same bytes in keys for all that the collations find equal, save for the
   byte of NULL, the order and the length. Sets *as: how a value of `of` is encoded at the place of `in`. */
bool can_stand_for(const KeyPart &of, const KeyPart &in, KeyPart *as);

/* Moves *at after the part; false: damaged. *is_null is set to whether it is NULL. */
bool skip_part(const KeyPart &part, const uchar **at, const uchar *end, bool *is_null);

/* Whether append_unpack_part writes anything for values of this part that are not NULL. */
inline bool part_has_unpack(const KeyPart &part) {
  if (!part.covering) return false;
  switch (part.kind) {
    case KeyPart::Kind::FLOAT:
    case KeyPart::Kind::DOUBLE:
    case KeyPart::Kind::IMAGE:
    case KeyPart::Kind::WEIGHTS:
      return true;
    case KeyPart::Kind::TEXT_BYTES:
      return part.pad_space && part.storage != KeyPart::Storage::CHAR;
    default:
      return false;
  }
}
void append_unpack_part(const KeyPart &part, const uchar *record, ByteBuffer *out);
bool skip_unpack_part(const KeyPart &part, const uchar **unpack, const uchar *unpack_end);

/*
  Fills the column in `record` from the part at *at and its unpack data at *unpack, and moves both
  after it. Only for parts that are covering. false: damaged.
*/
bool decode_part(const KeyPart &part, const uchar **at, const uchar *end, const uchar **unpack,
                 const uchar *unpack_end, uchar *record);

/* UNSIGNED, SIGNED and RAW, NOT NULL: the column from the part's bytes, which are known to be
 * there. */
void decode_fixed_part(const KeyPart &part, const uchar *at, uchar *record);
/* Whether decode_fixed_part applies: constant width, exact, never NULL. */
bool part_is_self_contained(const KeyPart &part);

}  // namespace tidesdb
#endif
