/*
  What ALTER by copy must not lose while others write.

  The server copies a table from one snapshot, lets others write meanwhile, and brings what they have
  committed into the copy with the table shut at the end. It takes a change for committed when the
  transaction's row events are written, which is before the engine commits, and it waits for transactions by
  their metadata locks. That leaves out
  - a prepared XA transaction whose connection is gone: it has no metadata lock any more, and may commit when
    the server has read the events for the last time;
  - a commit that fails in the engine: its events are in the copy, its changes are not in the table.
  A guard stands with each table that is copied, from before the snapshot to the commit of the copy, which it
  lets fail when one of these has happened. The table then stays as it is.
*/
#ifndef TIDESDB_TXN_COPY_ALTER_GUARD_H
#define TIDESDB_TXN_COPY_ALTER_GUARD_H

#include <memory>
#include <string>
#include <vector>

#include "key/sql_headers.h"
#include "store/handles.h"

namespace tidesdb {

/* The guards of one connection's statement. Used by its thread. */
class CopyAlterGuard {
 public:
  CopyAlterGuard() = default;
  CopyAlterGuard(const CopyAlterGuard &) = delete;
  CopyAlterGuard &operator=(const CopyAlterGuard &) = delete;
  ~CopyAlterGuard() { clear(); }

  /* Waits until no prepared transaction without a connection has changed the family, a table's rows, and
     watches it from then on. The server keeps everybody else from writing. Status of the engine. */
  int begin(THD *thd, const std::string &family_name);
  bool is_empty() const { return tables_.empty(); }
  /* Whether the copy may lack a change, or have one that was never committed. The table is shut. `own` is the
     statement's transaction, which may have locked it; its time-out for locks is 0 afterwards. */
  bool has_missed_something(tidesdb_txn *own);
  void clear();

 private:
  struct Table {
    FamilyHandle family;
    bool missed = false; /* under the mutex of all guards */
  };
  friend void note_decision(const uint8_t *xid, size_t size);
  friend void note_failed_commit();

  std::vector<std::unique_ptr<Table>> tables_;
};

/* A prepared transaction without a connection is about to be committed. */
void note_decision(const uint8_t *xid, size_t size);
/* A transaction with changes could not be committed, or it is not known. */
void note_failed_commit();

}  // namespace tidesdb
#endif
