/*
  What reading one row leaves with the handler: buffers that are used again, and the facts about the last row.
*/
#ifndef TIDESDB_HANDLER_READ_BUFFERS_H
#define TIDESDB_HANDLER_READ_BUFFERS_H

#include <vector>

#include "key/bytes.h"
#include "key/entry_set.h"
#include "key/sql_headers.h"
#include "key/key_codec.h"
#include "row/row_layout.h"

namespace tidesdb {

/* Their bytes mean something inside of one call of the server only. */
struct ReadBuffers {
  EntrySet entries; /* of a row that was read by one of them */
  ByteBuffer entry_key;
  ByteBuffer scratch;
  ByteBuffer row_key;
  ByteBuffer kept_record; /* the record before a row that may not belong to the result */
  ByteBuffer old_columns; /* records with the virtual columns of their entries */
  ByteBuffer new_columns;
  ByteBuffer condition_record; /* of record[0] while a condition looks at another row there */

  void end_statement() {
    entries.release_beyond(KEPT_KEY);
    for (ByteBuffer *key : {&entry_key, &scratch, &row_key}) key->release_beyond(KEPT_KEY);
    for (ByteBuffer *record : {&kept_record, &condition_record}) record->release_beyond(KEPT_ROW);
  }
};

/* The row that was read last; `number` also of the one that was written last. */
struct LastRow {
  uint64_t expiry = 0;
  uchar number[HIDDEN_KEY_SIZE]; /* in a table without primary key */
  /* Of a row with BLOBs that may be changed: its key, and where its second part is, with the columns there;
     `place` is empty: it has none. */
  ByteBuffer key;
  ByteBuffer place;
  std::vector<ColumnApart> apart;
  bool lacked_rest = false; /* the second part was not read */

  void forget() {
    key.clear();
    place.clear();
  }
};

}  // namespace tidesdb
#endif
