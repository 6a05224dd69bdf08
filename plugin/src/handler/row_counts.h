/*
  Rows that statements read and changed, of all connections. A statement adds its sum once, at its end, so a
  row costs nothing; the sums lie in some places, so that connections seldom meet in one.
*/
#ifndef TIDESDB_HANDLER_ROW_COUNTS_H
#define TIDESDB_HANDLER_ROW_COUNTS_H

#include "key/sql_headers.h"

namespace tidesdb {

struct RowCounts {
  ulonglong read;
  ulonglong changed;
};

void count_rows(ulonglong connection, const RowCounts &rows);

RowCounts row_counts();

/* The server's counts of a handler between the lock of its table and the unlock. They go back to 0 when the
   table is closed, and never for a partition. */
class RowsOfStatement {
 public:
  void begin(ulonglong read, ulonglong changed) { begun_ = {read, changed}; }
  void end(ulonglong connection, ulonglong read, ulonglong changed) {
    const RowCounts rows{read < begun_.read ? read : read - begun_.read,
                         changed < begun_.changed ? changed : changed - begun_.changed};
    if (rows.read || rows.changed) count_rows(connection, rows);
    begin(read, changed);
  }

 private:
  RowCounts begun_{0, 0};
};

}  // namespace tidesdb

#endif
