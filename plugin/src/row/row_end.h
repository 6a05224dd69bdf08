/*
  The end in time of a row with system versioning. Current rows have the greatest timestamp; rows of the past
  have the time of their change or deletion.
*/
#ifndef TIDESDB_ROW_ROW_END_H
#define TIDESDB_ROW_ROW_END_H

#include <vector>

#include "key/bytes.h"
#include "key/key_part.h"
#include "key/sql_headers.h"

namespace tidesdb {

/* Bytes of the column in a record: TIMESTAMP(6). */
constexpr size_t ROW_END_SIZE = 7;

/* The end of current rows. `before_2106`: as releases write it that know no time after 2038; the same where
   the server is such a release. */
const uchar *greatest_row_end(bool before_2106 = false);

/* Whether the column's bytes in a record are those of a current row. */
bool is_greatest_row_end(const uchar *bytes);

/* Whether the row is one of the past; of a table without versions none is. */
bool is_history_row(const TABLE *table, const uchar *record);

/* When an UPDATE that makes `record` of `old_record` happened, as the server wrote it into the row: the end
   that it gave it, or a new start. nullptr: the row does not tell. */
const uchar *moment_of_change(const TABLE *table, const uchar *old_record, const uchar *record);

/* The place of the column among these parts, [number of parts]: it is not there. */
size_t find_row_end(const TABLE_SHARE &share, const std::vector<KeyPart> &parts);

}  // namespace tidesdb
#endif
