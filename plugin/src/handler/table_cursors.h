/*
  The engine's cursors of one handler, opened at first use and kept to its close.

  Invariant: each is of the family that has its place now. TRUNCATE makes other families, so that it closes
  them.
*/
#ifndef TIDESDB_HANDLER_TABLE_CURSORS_H
#define TIDESDB_HANDLER_TABLE_CURSORS_H

#include <vector>

#include "key/sql_headers.h"
#include "store/handles.h"

namespace tidesdb {

struct TableCursors {
  std::vector<CursorHandle> scans; /* by key number; [keys]: scans of the rows */
  CursorHandle rows;               /* for rows that an entry or a position names, alongside a scan */

  /* Work of reads goes to these figures of the server (slow log, ANALYZE); nullptr: nobody asks. */
  void count_for(ha_handler_stats *stats) {
    if (likely(stats == counted_)) return;
    counted_ = stats;
    for (const CursorHandle &cursor : scans)
      if (cursor) count(cursor.get());
    if (rows) count(rows.get());
  }
  /* For a cursor that was opened since. */
  void count(tidesdb_cursor *cursor) const;

  /* They give back what they stand on. */
  void reset() {
    for (const CursorHandle &cursor : scans)
      if (cursor) tidesdb_cursor_reset(cursor.get());
    if (rows) tidesdb_cursor_reset(rows.get());
  }

  void close() {
    rows.reset();
    for (CursorHandle &cursor : scans) cursor.reset();
  }

 private:
  ha_handler_stats *counted_ = nullptr;
};

}  // namespace tidesdb
#endif
