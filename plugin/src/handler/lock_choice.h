/*
  How a statement locks what it reads in one table.

  The server says it by the lock type of store_lock() or start_stmt(); from it follow the engine's modes for
  rows and entries.
*/
#ifndef TIDESDB_HANDLER_LOCK_CHOICE_H
#define TIDESDB_HANDLER_LOCK_CHOICE_H

#include "handler/scan.h"
#include "key/sql_headers.h"

namespace tidesdb {

/*
  Invariants, from the statement's begin on:
  - `serializable_read` is set with RowLock::NONE alone.
  - `semi_consistent` is set with RowLock::EXCLUSIVE alone, below REPEATABLE READ, and without `skip_locked`.
  - `stored` is the lock before start_stmt(): a later statement under LOCK TABLES, or of a function, goes back
  to it.
*/
struct LockChoice {
  enum class RowLock : uchar { NONE, SHARED, EXCLUSIVE };

  RowLock row = RowLock::NONE;
  RowLock stored = RowLock::NONE;
  bool skip_locked = false;
  bool serializable_read = false; /* plain reads take shared locks, and keep gaps */
  bool semi_consistent = false;   /* rows that others have locked are looked at first */

  /* Rows and entries are read at a snapshot. */
  bool locks_nothing() const { return row == RowLock::NONE && !serializable_read; }

  /* For store_lock(). */
  void choose(THD *thd, thr_lock_type lock_type);
  void choose_both(RowLock lock) { row = stored = lock; }
  void choose_skipping(thr_lock_type lock_type) {
    skip_locked = lock_type == TL_READ_SKIP_LOCKED || lock_type == TL_WRITE_SKIP_LOCKED;
  }

  /* The engine's mode for rows of a scan. */
  int row_mode(const Scan &scan) const {
    int mode = TIDESDB_READ_SNAPSHOT;
    switch (row) {
      case RowLock::NONE:
        return serializable_read ? TIDESDB_READ_SHARED : TIDESDB_READ_SNAPSHOT;
      case RowLock::SHARED:
        mode = TIDESDB_READ_SHARED;
        break;
      case RowLock::EXCLUSIVE:
        mode = TIDESDB_READ_EXCLUSIVE;
        break;
    }
    if (skip_locked)
      mode |= TIDESDB_READ_SKIP_LOCKED;
    else if (semi_consistent && !scan.point && scan.peek != Scan::Peek::RELOCKING)
      mode |= TIDESDB_READ_PEEK_LOCKED;
    return mode;
  }

  /* The engine's mode for entries whose rows carry the locks. */
  int gap_mode() const { return TIDESDB_READ_GAP | (skip_locked ? TIDESDB_READ_SKIP_LOCKED : 0); }
};

/*
  The table locks that a transaction took through this handler: saves calls, and may forget. A handler goes
  from one transaction to another; the locks of an earlier one count for nothing.
*/
class HeldTableLocks {
 public:
  /* Whether the transaction has a lock that is enough for `mode` (TIDESDB_LOCK_...). */
  bool cover(ulonglong transaction, int mode) {
    if (transaction_ != transaction) {
      transaction_ = transaction;
      held_ = 0;
    }
    constexpr uint IS = 1 << TIDESDB_LOCK_INTENT_SHARED, IX = 1 << TIDESDB_LOCK_INTENT_EXCLUSIVE,
                   S = 1 << TIDESDB_LOCK_SHARED, X = 1 << TIDESDB_LOCK_EXCLUSIVE;
    static constexpr uint enough[] = {IS | IX | S | X, IX | X, S | X, X};
    return held_ & enough[mode];
  }

  /* The transaction of the last cover() has taken the lock. */
  void add(int mode) { held_ |= 1U << mode; }
  void forget() { transaction_ = 0; }

 private:
  ulonglong transaction_ = 0;
  uint held_ = 0; /* bits: 1 << TIDESDB_LOCK_... */
};

}  // namespace tidesdb
#endif
