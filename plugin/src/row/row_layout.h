/*
  What the rows of a table look like: the list of columns that a layout version names (docs/format/rows.md),
  and the history of it after an instant ALTER.

  A row says which version it was written with. New rows have the table's present layout, which follows from
  its definition; the layouts before it, and the values that columns have in rows from before them, are kept
  in the table's dictionary record. A column has a number for the life of the table, never given again.
*/
#ifndef TIDESDB_ROW_ROW_LAYOUT_H
#define TIDESDB_ROW_ROW_LAYOUT_H

#include <string>
#include <vector>

#include "key/key_codec.h"
#include "row/row_parts.h"

namespace tidesdb {

/* The layout that a table begins with. */
constexpr ulonglong FIRST_ROW_LAYOUT = 1;
/* Most layouts before the present one; an ALTER that needs one more copies the table. */
constexpr size_t MAX_OLDER_LAYOUTS = 64;
/* Most bytes of a value that rows from before a column get for it; with more the table is copied. */
constexpr size_t MAX_DEFAULT_SIZE = 4096;
/* Bytes of a row beyond which a second copy of it counts: none is kept longer than it is needed. */
constexpr size_t LARGE_ROW = 1024 * 1024;
/* Bytes that a buffer of a table keeps from one statement to the next, of rows and of keys: connections
   sleep, and each keeps a table or a few. */
constexpr size_t KEPT_ROW = 16 * 1024;
constexpr size_t KEPT_KEY = 1024;

/* A column's place in a row. */
struct LayoutColumn {
  enum Kind : uint8_t { FIXED = 0, VARIABLE = 1 };
  uint32_t id = 0;
  uint8_t kind = FIXED;
  uint32_t size = 0; /* FIXED: bytes; may be 0: all that there is of it is its NULL bit */
  uint16_t null = 0; /* 0: NOT NULL; else 1 + number of its bit in the null area */

  bool operator==(const LayoutColumn &other) const {
    return id == other.id && kind == other.kind && size == other.size && null == other.null;
  }
};

struct RowLayout {
  ulonglong version = FIRST_ROW_LAYOUT;
  uint16_t null_bytes = 0;
  std::vector<LayoutColumn> columns; /* in column order */

  /* Whether rows of both are the same bytes. */
  bool same_form(const RowLayout &other) const {
    return null_bytes == other.null_bytes && columns == other.columns;
  }
};

/* The value of a column in rows from before it: FIXED: as in the record; VARIABLE: the string's bytes. */
struct ColumnDefault {
  uint32_t id = 0;
  bool null = false;
  std::string value;
};

struct RowHistory {
  ulonglong version = FIRST_ROW_LAYOUT; /* of new rows: the first and one for each older layout */
  uint32_t next_column_id = 0;
  std::vector<uint32_t> column_ids; /* by field index; columns without a place in rows as well */
  std::vector<RowLayout> older;
  std::vector<ColumnDefault> defaults;
};

/* Why a row of a layout that the history does not have cannot be read; empty: it has the layout, or the row
   begins with no layout at all. */
inline std::string unknown_layout(Slice row, const RowHistory &history) {
  const uchar *from = row.data, *const end = row.data + row.size;
  ulonglong version;
  bool in_parts;
  if (!read_row_head(&from, end, &version, &in_parts)) {
    if (row.size < PARTS_HEAD_SIZE || row.data[0] != PARTS_LAYOUT || row.data[1] == PARTS_FORM) return {};
    return "a row is in parts of form " + std::to_string(row.data[1]) +
           ", which a later release of TidesDB writes; this one cannot read it";
  }
  if (version == history.version) return {};
  for (const RowLayout &layout : history.older)
    if (layout.version == version) return {};
  const std::string met = "a row has layout " + std::to_string(version);
  return met + ", and this release of TidesDB knows layouts " + std::to_string(FIRST_ROW_LAYOUT) + " to " +
         std::to_string(history.version) + " of the table: a later release wrote it, or it is damaged";
}

/* How a column of a table stands in its rows. */
enum class RowKind : uchar { NONE, FIXED, CHAR, VARCHAR1, VARCHAR2, BLOB };
RowKind row_kind(const Field *field);

/* Which columns, by field index, are read from the primary key and have no place in rows; `primary` may be
   nullptr. */
std::vector<bool> columns_in_key(const TABLE *table, const KeyCodec *primary);

/* The layout of new rows of a table, as version `history.version`. */
RowLayout present_layout(const TABLE *table, const KeyCodec *primary, const RowHistory &history);

/* The value in record[0] of a column that has a place in rows. */
ColumnDefault take_default(const Field *field, uint32_t id);

}  // namespace tidesdb
#endif
