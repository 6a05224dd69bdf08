/*
  One scan of a handler: its index, its place, its end, and the cursor that it reads with.

  It is plain state. The handler (scan.cc) decides between the server's calls and the engine's.
*/
#ifndef TIDESDB_HANDLER_SCAN_H
#define TIDESDB_HANDLER_SCAN_H

#include <initializer_list>

#include "key/bytes.h"
#include "key/sql_headers.h"
#include "store/handles.h"

namespace tidesdb {

/*
  The end that read_range_first() gives to the seek that it makes, and to that one alone: `bound` is nullptr
  otherwise, and points to `key` if not. `exact` stays for the range's next rows: the engine ends the range,
  and the server need not compare.
*/
struct RangeEnd {
  const ByteBuffer *bound = nullptr;
  ByteBuffer key;
  bool exact = false;
};

/*
  The cursors of the last locking read, which unlock_row() gives back: of a row, and of the entry that led to
  it. nullptr: nothing was locked, or it was given back.
*/
struct LastLocks {
  tidesdb_cursor *row = nullptr;
  tidesdb_cursor *entry = nullptr;

  void forget() { row = entry = nullptr; }
  void give_back(tidesdb_txn *txn) {
    for (tidesdb_cursor **cursor : {&row, &entry}) {
      if (*cursor) tidesdb_cursor_unlock_row(*cursor, txn);
      *cursor = nullptr;
    }
  }
};

/*
  Invariants:
  - At CURSOR, `cursor` was placed by this statement; leave_statement() ends that.
  - At ANCHOR, `saved_key` holds the key. Where the scan outlives statements, `saved_key` follows each row.
  - START and END are positions of a scan that outlives statements alone.
  - With `prefix_bounded`, `search` holds the prefix, also at END: that is after the rows of one value.
  - `index` is MAX_KEY between scans, and in those of a table without a primary key.
*/
struct Scan {
  /* Nowhere, on its cursor's row, or after/before `saved_key`, a key that was read by other means or in
     another statement; for HANDLER, before the first row or after the last. */
  enum class Position : uchar { NONE, CURSOR, ANCHOR, START, END };

  /* A semi-consistent read. PEEKED: the last row is another's, and the server looks at it before it asks for
     the lock. RELOCKING: it has asked, and the row is read again. */
  enum class Peek : uchar { NONE, PEEKED, RELOCKING };

  uint index = MAX_KEY;
  Position position = Position::NONE;
  Peek peek = Peek::NONE;
  bool prefix_bounded = false;         /* the cursor ends with the searched prefix */
  bool point = false;                  /* at most one row matches */
  bool columns_chosen = false;         /* the row reader knows them */
  bool whole_rows = false;             /* the row reader takes all columns */
  bool first_parts = false;            /* of rows in two parts the first is enough */
  bool placed_for_first_parts = false; /* the cursor gives these alone */
  bool both_versions = false;          /* the cursor was placed with TIDESDB_READ_BOTH_VERSIONS */
  bool entries_only = false;           /* HA_EXTRA_KEYREAD: the server wants no more than the entry has */
  bool outlives_statement = false;     /* HANDLER: positions do */
  tidesdb_cursor *cursor = nullptr;
  LastLocks locked;
  RangeEnd end;
  ByteBuffer search;
  ByteBuffer saved_key;
  ByteBuffer
      given; /* reading over newer rows, a unique index: key and row of the last entry that was given */
  ByteBuffer passed; /* a unique index: key and row of the last entry whose row did not have it any more */

  void begin(uint of_index) {
    index = of_index;
    position = Position::NONE;
    prefix_bounded = point = false;
    peek = Peek::NONE;
    end.bound = nullptr;
    end.exact = false;
    columns_chosen = false;
    passed.clear();
  }

  /* The cursor gives back what it stands on. */
  void finish() {
    if (cursor) tidesdb_cursor_reset(cursor);
    cursor = nullptr;
    begin(MAX_KEY);
  }

  /* Cursors give back what they stand on. */
  void leave_statement() {
    if (position == Position::CURSOR) position = outlives_statement ? Position::ANCHOR : Position::NONE;
  }

  /* Goes on from `key` without a cursor. */
  void stand_at(Slice key) {
    position = Position::ANCHOR;
    prefix_bounded = false;
    saved_key.assign(key);
  }

  /* The row that was peeked at has been read with its lock, if there was one. */
  void end_relocking() { peek = peek == Peek::PEEKED ? Peek::PEEKED : Peek::NONE; }
};

}  // namespace tidesdb
#endif
