/*
  Rows in parts (docs/format/rows.md): long BLOBs stand after all other columns, as the row's second part. The
  engine keeps that part in a value file. A read that wants no such column takes the first part alone, and an
  update of other columns leaves the second where it is.
*/
#ifndef TIDESDB_ROW_ROW_PARTS_H
#define TIDESDB_ROW_ROW_PARTS_H

#include <vector>

#include "key/bytes.h"
#include "key/sql_headers.h"

namespace tidesdb {

/* In place of a row's layout version, which follows after the form. */
constexpr ulonglong PARTS_LAYOUT = 0;
constexpr uchar PARTS_FORM = 1;
constexpr size_t PARTS_HEAD_SIZE = 2;

/* A BLOB in a record points here, with no length, while the row was read without it and nobody has given it
   bytes: an UPDATE may name a column and leave it (IGNORE in place of a value). */
inline const uchar UNREAD_BLOB = 0;

/* A column with its bytes in the second part. */
struct ColumnApart {
  uint variable; /* its place among the variable columns; MAX_KEY: the table has it no more */
  size_t size;
};

/* A row on its way to the engine. */
struct RowParts {
  /* BLOBs of so many bytes go to the second part; 0: none do. */
  size_t threshold = 0;
  /* These stay there as they are, and no other column goes; nullptr: nothing stays. */
  const std::vector<ColumnApart> *kept = nullptr;

  /* The result. */
  size_t first_size = 0; /* of a row in two parts; 0: it is in one */
  /* BLOBs that are left where they are: `at`, the bytes of the row before each. */
  struct Blob {
    size_t at;
    Slice bytes;
  };
  std::vector<Blob> blobs;

  void clear() {
    threshold = first_size = 0;
    kept = nullptr;
    blobs.clear();
  }
};

/* The layout version of a row, and whether it is in parts. false: the row says none, or is in another form.
 */
inline bool read_row_head(const uchar **from, const uchar *end, ulonglong *version, bool *in_parts) {
  if (!read_varint(from, end, version)) return false;
  *in_parts = *version == PARTS_LAYOUT;
  if (!*in_parts) return true;
  if (*from == end || *(*from)++ != PARTS_FORM) return false;
  return read_varint(from, end, version) && *version != PARTS_LAYOUT;
}

inline uchar *write_row_head(uchar *to, ulonglong version, bool in_parts) {
  if (in_parts) {
    *to++ = PARTS_LAYOUT;
    *to++ = PARTS_FORM;
  }
  return write_varint(to, version);
}

/* The begin of a variable column. Its bytes follow, unless it is `apart`. */
inline bool read_column_head(const uchar **from, const uchar *end, bool in_parts, size_t *size, bool *apart) {
  ulonglong number;
  if (!read_varint(from, end, &number)) return false;
  *apart = in_parts && (number & 1);
  if (in_parts) number >>= 1;
  *size = number;
  if (!*apart) return static_cast<size_t>(end - *from) >= number;
  constexpr uchar second_part = 0;
  return *from != end && *(*from)++ == second_part && number <= UINT_MAX32;
}

constexpr size_t COLUMN_HEAD_SIZE = MAX_VARINT_SIZE + 1;

inline uchar *write_column_head(uchar *to, bool in_parts, size_t size, bool apart) {
  if (!in_parts) return write_varint(to, size);
  to = write_varint(to, 2 * static_cast<ulonglong>(size) + (apart ? 1 : 0));
  if (apart) *to++ = 0;
  return to;
}

/* Bytes of the second part. */
inline size_t size_apart(const std::vector<ColumnApart> &columns) {
  size_t size = 0;
  for (const ColumnApart &column : columns) size += column.size;
  return size;
}

}  // namespace tidesdb
#endif
