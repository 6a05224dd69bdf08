/*
  Keys of the rows that a changed row refers to, as REFERENCE: a transaction of another node that takes such a
  row away conflicts.

  InnoDB appends one each time that it looks for a parent in the parent's index (cluster/innodb_key.h,
  stored_key()). It looks
  - when it puts an entry into the index of a foreign key: with INSERT, and with an UPDATE that changes any
    column of that index or of the primary key, for all foreign keys of the index;
  - on a node of a cluster also when it takes the entry away: with DELETE, and with an UPDATE that changes the
    foreign key's own columns. An index that other rows refer to is left out there.
  It does not look for the foreign key by which an action changes the row, nor takes an action's entries away.

  Bytes are the parent's, which may differ from the child's where a collation finds them equal. So the
  parent's row is read.

  Used by one handler.
*/
#ifndef TIDESDB_CLUSTER_PARENT_KEYS_H
#define TIDESDB_CLUSTER_PARENT_KEYS_H

#include <map>
#include <memory>
#include <vector>

#include "cluster/parent_row.h"
#include "foreign/row_checks.h"

namespace tidesdb::cluster {

class ParentKeys {
 public:
  explicit ParentKeys(TABLE *table) : table_(table) {}

  /* After the change of a row. Both records are current rows, or nullptr: there was, or is, none.
     `action`: number of the foreign key by which an action changes the row; 0: a statement does. Returns 0 or
     an error of the server's. */
  int append(Session *session, const RowChecks &checks, uint64_t action, const uchar *old_record,
             const uchar *new_record);

  /* At the end of a statement. */
  void reset();

 private:
  struct Known {
    uint64_t generation;
    std::unique_ptr<ParentRow> row; /* nullptr: there is no such table */
  };

  bool differs(uint index, const uchar *old_record, const uchar *new_record);
  int append_parent(Session *session, const Reference &reference, const uchar *record);
  ParentRow *parent_of(const Reference &reference);

  TABLE *table_;
  std::map<uint64_t, Known> parents_;                /* by number of the foreign key */
  std::map<uint, std::vector<KeyPart>> index_parts_; /* by key number */
};

}  // namespace tidesdb::cluster
#endif
