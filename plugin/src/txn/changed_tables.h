/*
  When each table was changed last, for UPDATE_TIME: the last commit since the start of the server.

  A transaction keeps the list of the tables that it has changed, a handler adds its table at its first row.
  The commit reads the clock once and stores the second with each table of the list. What a rollback undoes
  leaves the list. XA PREPARE keeps the list under the transaction's identifier: another connection may commit
  it.
*/
#ifndef TIDESDB_TXN_CHANGED_TABLES_H
#define TIDESDB_TXN_CHANGED_TABLES_H

#include <atomic>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "key/sql_headers.h"

namespace tidesdb {

/* The second of a table's last committed change; 0: none since the start of the server. */
using UpdateTime = std::shared_ptr<std::atomic<time_t>>;

/* That of the table with this number (TableRecord::table_id), which outlives the server's table cache. */
UpdateTime update_time_of(uint64_t table_id);
/* The table is dropped, or has no rows any more. */
void forget_update_time(uint64_t table_id);
/* A change is committed now. */
inline void set_update_time(const UpdateTime &table) {
  if (table) table->store(time(nullptr), std::memory_order_relaxed);
}

class ChangedTables {
 public:
  /* `first_epoch`: no other session's epochs reach it. */
  explicit ChangedTables(ulonglong first_epoch) : epoch_(first_epoch) {}

  /* As long as it is the same, each table that was added is on the list. No two sessions have the same. */
  ulonglong epoch() const { return epoch_; }
  void add(const UpdateTime &table);

  size_t mark() const { return tables_.size(); }
  /* Undoes what was added after the mark. */
  void cut(size_t mark);
  void begin_statement() { statement_ = mark(); }
  void undo_statement() { cut(statement_); }

  /* The transaction is committed, or undone: the list is empty then. */
  void commit();
  void clear() { cut(0); }

  /* XA PREPARE: the list stays until commit() or clear(), and for commit_prepared() of another session. */
  void prepare(const void *xid, size_t size);
  /* The session goes on without the transaction, which stays prepared. */
  void leave_prepared();
  static void commit_prepared(const void *xid, size_t size);
  static void forget_prepared(const void *xid, size_t size);

 private:
  ulonglong epoch_;
  size_t statement_ = 0;
  std::vector<UpdateTime> tables_;
  std::string prepared_; /* identifier; empty: not prepared */
};

}  // namespace tidesdb
#endif
