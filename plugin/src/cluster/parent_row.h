/*
  Rows of a parent, found by the values of a child's row and read for their certification keys.

  The server has no TABLE of the parent in a statement on the child: one is made by the definition on disk.
  Like a LinkedIndex it is used without the server's lock, and may belong to a table that is gone.
*/
#ifndef TIDESDB_CLUSTER_PARENT_ROW_H
#define TIDESDB_CLUSTER_PARENT_ROW_H

#include <memory>
#include <vector>

#include "cluster/innodb_key.h"
#include "foreign/foreign_key.h"
#include "foreign/linked_index.h"
#include "foreign/table_definition.h"
#include "key/key_codec.h"
#include "row/row_codec.h"
#include "store/handles.h"

namespace tidesdb::cluster {

class ParentRow {
 public:
  ~ParentRow();
  ParentRow(const ParentRow &) = delete;
  ParentRow &operator=(const ParentRow &) = delete;

  /* `own`: the child's columns of the foreign key. nullptr: the parent is not there, or memory is short. */
  static std::unique_ptr<ParentRow> open(THD *thd, const ForeignKey &key, const std::vector<KeyPart> &own);

  /* Reads the row that has the values of the child's `record`, as the transaction sees it with what is
     committed now. TIDESDB_NOT_FOUND; TIDESDB_NO_SUCH_FAMILY: it is to be opened anew. */
  int read(THD *thd, tidesdb_txn *txn, const std::vector<KeyPart> &own, const uchar *record);
  /* Of the row that was read. */
  void make_key(InnodbKey *key) const { key->stored_key(table_, index_, table_.record[0]); }
  /* At the end of a statement. */
  void reset();

 private:
  ParentRow() = default;
  bool find_index(const ForeignKey &key);
  bool choose_columns();

  std::unique_ptr<LinkedIndex> linked_;
  TableDefinition definition_;
  TABLE table_{};
  bool is_open_ = false;
  uint index_ = MAX_KEY; /* the one whose key is certified: the first that InnoDB finds */
  RowHistory history_;
  std::unique_ptr<KeyCodec> primary_codec_;
  std::unique_ptr<RowCodec> row_codec_;
  std::unique_ptr<RowReader> reader_;
  CursorHandle cursor_;
  ByteBuffer search_, key_;
};

}  // namespace tidesdb::cluster
#endif
