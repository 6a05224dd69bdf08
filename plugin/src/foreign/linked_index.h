/*
  The index of the other table of a foreign key, searched for values of this one.

  It is used without the server's lock on the other table: its families may go at any time, which the engine
  says (TIDESDB_NO_SUCH_FAMILY). A row that a later definition has written is answered so, too.

  Of a table with system versioning it finds current rows only.
*/
#ifndef TIDESDB_FOREIGN_LINKED_INDEX_H
#define TIDESDB_FOREIGN_LINKED_INDEX_H

#include <memory>
#include <string>
#include <vector>

#include "foreign/current_rows.h"
#include "foreign/foreign_key.h"
#include "foreign/table_definition.h"
#include "key/bytes.h"
#include "key/key_part.h"
#include "store/handles.h"

namespace tidesdb {

class LinkedIndex {
 public:
  /* The index of `other` (canonical) over its `columns`, to be searched for values of `own` columns, which
     are parts of the table that searches. nullptr: there is none now. */
  static std::unique_ptr<LinkedIndex> find(THD *thd, const std::string &other,
                                           const std::vector<std::string> &columns,
                                           const std::vector<KeyPart> &own);

  /* How each own column's value is encoded there, NOT NULL and in ascending order. */
  const std::vector<KeyPart> &plain() const { return plain_; }

  /* Sets `search` to the bytes that the keys of rows begin with which have the values of `record`. */
  void make_search(const std::vector<KeyPart> &own, const uchar *record, ByteBuffer *search);

  /* A row that has them, in the transaction and a mode of reads. TIDESDB_OK, TIDESDB_NOT_FOUND, or another
     status. `key`: of the row in rows(); nullptr: it is not asked for. Lives until the next call. */
  int look(tidesdb_txn *txn, Slice search, int mode, ByteBuffer *key);
  /* The next one after look() with `key`. */
  int look_on(tidesdb_txn *txn, int mode, ByteBuffer *key);
  /* Whether values that are encoded as `parts` say can be looked for by look_for_all(). */
  bool can_look_for_all(const std::vector<KeyPart> &parts) const;
  /* Looks for rows with each of `count` values, which ascend, as look() without a key does. Sets found[i] to
     an answer of tidesdb_find_keys(). */
  int look_for_all(tidesdb_txn *txn, const Slice *values, size_t count, uchar *found);
  /* Whether what look() without a key has found expires. */
  bool expires() const { return expires_; }
  /* Whether the row with this key is there, once it is locked shared. */
  int lock_row(tidesdb_txn *txn, Slice key);
  tidesdb_family *rows() const { return rows_.get(); }
  /* At the end of a statement. */
  void reset();

 private:
  LinkedIndex() = default;
  int row_key(ByteBuffer *key) const;
  int get(tidesdb_txn *txn, Slice search, int mode);
  int get_current(tidesdb_txn *txn, Slice search, int mode);
  int skip_history(tidesdb_txn *txn, int mode, ByteBuffer *key);
  int is_current(tidesdb_txn *txn, int mode, Slice row_key, bool *current);
  int open_row_cursor();
  tidesdb_family *searched() const { return index_ ? index_.get() : rows_.get(); }

  FamilyHandle rows_, index_; /* no index: the rows are in the order of the columns */
  CursorHandle cursor_, row_cursor_;
  bool unique_ = false, expires_ = false;
  bool whole_ = false;         /* the columns are all of a unique index, but for the end of a row */
  std::vector<KeyPart> parts_; /* of the index */
  std::vector<KeyPart> as_;    /* how own values stand there */
  std::vector<KeyPart> plain_;
  std::unique_ptr<CurrentRows> current_rows_; /* nullptr: all rows count */
  ByteBuffer scratch_, exact_, found_key_;
};

/* The bytes of values, each as the part says. */
void append_values(const std::vector<KeyPart> &as, const std::vector<KeyPart> &own, const uchar *record,
                   ByteBuffer *out, ByteBuffer *scratch);

}  // namespace tidesdb
#endif
