/*
  The engine's cursors of one handler, opened at first use and kept to its close.

  Invariant: each is of the family that has its place now. TRUNCATE makes other families, so that it closes
  them.
*/
#ifndef TIDESDB_HANDLER_TABLE_CURSORS_H
#define TIDESDB_HANDLER_TABLE_CURSORS_H

#include <vector>

#include "store/handles.h"

namespace tidesdb {

struct TableCursors {
  std::vector<CursorHandle> scans; /* by key number; [keys]: scans of the rows */
  CursorHandle rows;               /* for rows that an entry or a position names, alongside a scan */

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
};

}  // namespace tidesdb
#endif
