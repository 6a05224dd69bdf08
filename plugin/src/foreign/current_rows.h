/*
  Tells current rows from rows of the past, in the other table of a foreign key with system versioning.

  The end of a row stands in the entry of the searched index, or in the row's key, or only in the row. The
  server puts it at the end of each unique key.
*/
#ifndef TIDESDB_FOREIGN_CURRENT_ROWS_H
#define TIDESDB_FOREIGN_CURRENT_ROWS_H

#include <memory>
#include <string>
#include <vector>

#include "foreign/table_definition.h"
#include "key/bytes.h"
#include "key/key_codec.h"
#include "row/row_codec.h"
#include "store/handles.h"

namespace tidesdb {

class CurrentRows {
 public:
  ~CurrentRows();
  CurrentRows(const CurrentRows &) = delete;
  CurrentRows &operator=(const CurrentRows &) = delete;

  /* Of a table with system versioning. `index`: that is searched. nullptr: the definition cannot be opened,
     or memory is short. */
  static std::unique_ptr<CurrentRows> make(THD *thd, std::unique_ptr<TableDefinition> definition, uint index,
                                           const RowHistory &history);

  /* Whether the index has the given number of columns and then the row's end: a search for values and
     append_end() finds one row at most, if the index is unique. */
  bool end_follows(size_t columns) const { return end_in_entry_ == columns && parts_.size() == columns + 1; }
  /* Appends the end of current rows as the index has it. */
  void append_end(bool before_2106, ByteBuffer *out, ByteBuffer *scratch) const;

  enum class Answer { CURRENT, HISTORY, IN_ROW, DAMAGED };
  /* By the key of an entry of the index. IN_ROW: it does not tell. */
  Answer by_entry(Slice key);
  /* By the row's key. */
  Answer by_row_key(Slice key);
  /* By the row. IN_ROW: it was written by a later definition. */
  Answer by_row(Slice key, Slice value);

 private:
  CurrentRows() = default;
  Answer by_part(const std::vector<KeyPart> &parts, size_t place, Slice key);

  std::unique_ptr<TableDefinition> definition_; /* nullptr: rows are not read */
  TABLE table_{};
  bool is_open_ = false;
  RowHistory history_;
  std::unique_ptr<KeyCodec> primary_codec_;
  std::unique_ptr<RowCodec> row_codec_;
  std::unique_ptr<RowReader> reader_;
  std::vector<KeyPart> parts_, primary_parts_; /* of the index; of the primary key */
  size_t end_in_entry_ = 0, end_in_key_ = 0;   /* place of the end among them, or their number */
  ByteBuffer ends_, scratch_;
};

}  // namespace tidesdb
#endif
