/*
  What a handler looks at other rows with, for a row that it writes: reads of its own, so that the row, the
  scan and the BLOBs that their records point to stay as they are.

  Made at first use, and used by one handler only.
*/
#ifndef TIDESDB_HANDLER_UNCHECKED_KEYS_H
#define TIDESDB_HANDLER_UNCHECKED_KEYS_H

#include <vector>

#include "key/bytes.h"
#include "key/sql_headers.h"
#include "row/row_codec.h"
#include "store/handles.h"

namespace tidesdb {

struct OtherRows {
  OtherRows(TABLE *table, const RowCodec &codec)
      : reader(codec), record(table->record[0], table->record[0] + table->s->rec_buff_length) {}

  CursorHandle entries; /* of the index with this number */
  uint index = MAX_KEY;
  CursorHandle rows;
  RowReader reader;
  std::vector<uchar> record; /* the row that was read last */
  ByteBuffer search, columns, scratch;

  /* At the end of a statement. */
  void reset() {
    for (const CursorHandle *cursor : {&entries, &rows})
      if (*cursor) tidesdb_cursor_reset(cursor->get());
    reader.end_statement();
  }
};

}  // namespace tidesdb
#endif
