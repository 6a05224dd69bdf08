/*
  Virtual columns: what the indexes of one open TABLE have of them, and their values for a row.

  A virtual column is not in the row; the server computes those that a statement reads into record[0], after
  the engine has returned the row. An index entry holds its value, so the engine needs it at other times too:
  to see whether an entry still belongs to a row that was locked, in CHECK TABLE, and in a change whose
  statement reads other columns. complete() computes it then, as the server would.

  Used by one handler only. The memory of BLOB values lives until the next call with the same index.
*/
#ifndef TIDESDB_ROW_VIRTUAL_COLUMNS_H
#define TIDESDB_ROW_VIRTUAL_COLUMNS_H

#include <memory>
#include <vector>

#include "key/sql_headers.h"

namespace tidesdb {

class VirtualColumns {
 public:
  VirtualColumns() = default;
  VirtualColumns(const VirtualColumns &) = delete;
  VirtualColumns &operator=(const VirtualColumns &) = delete;

  /* Finds out what the indexes of an open table need. false when memory is short. */
  bool compile(TABLE *table);
  /* Gives back what compile() took; before the TABLE goes. */
  void clear();

  bool index_has_any(uint index) const { return index < indexes_.size() && !indexes_[index].empty(); }
  /* Adds to `columns` all columns that the entries of an index depend on through its virtual columns. */
  void add_dependencies(uint index, MY_BITMAP *columns) const;

  /*
    Computes the virtual columns of an index in `record`, a buffer of the record's layout whose stored columns
    are filled, unless all of them are in `known` (nullptr: none is). Errors of the expressions are ignored:
    the column is then what the server would make of it while reading.
  */
  void complete(uint index, const MY_BITMAP *known, uchar *record);

 private:
  struct Column {
    Field *field;
    Field_blob *blob; /* the same, if it is one */
    String memory;    /* of the last value of a BLOB */
  };

  void compute(const std::vector<uint> &columns, uchar *record);

  TABLE *table_ = nullptr;
  std::vector<std::unique_ptr<Column>> columns_;         /* in the order in which they depend on each other */
  std::vector<std::vector<uint>> indexes_;               /* by key number: places in columns_ */
  std::vector<std::vector<my_bitmap_map>> dependencies_; /* by key number; empty without virtual columns */
};

}  // namespace tidesdb
#endif
