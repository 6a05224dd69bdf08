/*
  A table whose rows change along with those of another that they refer to: ON DELETE and ON UPDATE with
  CASCADE or SET NULL.

  The server may have no TABLE of it, and changes through the server's functions would be logged, which
  replicas repeat. So it has a TABLE and a handler of its own here, by the definition on disk, and its
  handler's functions are called as they are: index entries, row logs, further foreign keys and lifetimes are
  theirs.

  Belongs to the handler of the other table, and lives no longer than its definition.
*/
#ifndef TIDESDB_HANDLER_CHILD_TABLE_H
#define TIDESDB_HANDLER_CHILD_TABLE_H

#include <memory>
#include <string>
#include <vector>

#include "foreign/foreign_key.h"
#include "foreign/table_definition.h"
#include "key/bytes.h"
#include "key/sql_headers.h"
#include "row/row_end.h"

class ha_tidesdb;

namespace tidesdb {

class ChildTable {
 public:
  ~ChildTable();
  ChildTable(const ChildTable &) = delete;
  ChildTable &operator=(const ChildTable &) = delete;

  /* nullptr: it cannot be opened; *error is for the server. */
  static std::unique_ptr<ChildTable> open(THD *thd, const ForeignKey &key, int *error);

  /* The moment of the definition that it was opened by: foreign::generation(). */
  uint64_t generation() const { return generation_; }
  /* In a statement, from the lock on the table's name on. */
  void note_lock(THD *thd);
  bool is_locked(THD *thd) const;

  /* All return 0 or an error of the server's. */
  /* Before the statement's first row. */
  int begin(THD *thd);
  /* At the end of one: gives back what its cursors hold. */
  void end();
  /* Locks and reads the row with this key. HA_ERR_KEY_NOT_FOUND: it has gone. */
  int read(Slice key);
  /* Whether the columns of the foreign key have, in the row that was read, the values that keys of the index
     begin with which begin with `search`. */
  bool has_values(Slice search);
  /* Whether it is not one of the past. */
  bool is_current() const;
  /* Its row that was read is in record[0]. */
  const TABLE *table() const { return &table_; }
  /* Of the row that was read. With system versioning what it was stays as a row of the past, which is not the
     server's work here. `moment`: when the row that it refers to was changed, as in a record; nullptr: its
     table has no versions, and the statement's time counts. */
  int remove(const uchar *moment);
  int set_null(const uchar *moment);
  /* `fields`: of the parent, with `record` as its row; nullptr: it has not changed. */
  int follow(const std::vector<Field *> &fields, const uchar *record, const uchar *moment);
  /* After HA_ERR_FOUND_DUPP_KEY. */
  const char *duplicate_key() const;

 private:
  ChildTable() = default;
  int update(const uchar *moment);
  bool changes_versioned_columns() const;
  void choose_moment(const uchar *given);
  int store_moment(Field *field);

  TableDefinition definition_;
  TABLE table_{};
  bool is_open_ = false;
  uint64_t generation_ = 0;
  query_id_t locked_in_ = 0, begun_in_ = 0;
  ha_tidesdb *handler_ = nullptr;
  std::vector<Field *> fields_;
  uint index_ = 0;             /* the one that is searched */
  std::vector<KeyPart> parts_; /* of it, as many as there are fields */
  ByteBuffer values_, scratch_;
  uchar moment_[ROW_END_SIZE]; /* of the change, as in a record */
};

}  // namespace tidesdb
#endif
