/*
  Virtual columns: what the indexes of one open TABLE have of them, and their values for a row.

  A virtual column is not in the row, and an index entry holds its value. So each entry is computed here, from
  the stored columns of the row that it is of, under the settings that its index was made with
  (row/expression_settings.h). The values that the server has put into a record are never taken: they may be
  of the row as it was before a trigger changed it, of another session's settings, or pointers into memory
  that the server has used again since.

  The expressions are computed in an open table of their own. The record of the statement, its pointers to
  BLOB values above all, stays as it is.

  Used by one handler, or one index build, only.
*/
#ifndef TIDESDB_ROW_VIRTUAL_COLUMNS_H
#define TIDESDB_ROW_VIRTUAL_COLUMNS_H

#include <memory>
#include <string>
#include <vector>

#include "key/bytes.h"
#include "key/sql_headers.h"
#include "row/expression_settings.h"

namespace tidesdb {

struct IndexRecord;

class VirtualColumns {
 public:
  VirtualColumns();
  ~VirtualColumns();
  VirtualColumns(const VirtualColumns &) = delete;
  VirtualColumns &operator=(const VirtualColumns &) = delete;

  /* Finds out what the indexes of an open table need; `records`, by key number, have their settings. false
     when memory is short. */
  bool compile(TABLE *table, const std::vector<IndexRecord> &records);
  /* Gives back what compile() and prepare() took; before the TABLE goes. */
  void clear();

  bool has_any() const { return !groups_.empty(); }
  bool index_has_any(uint index) const { return index < indexes_.size() && !indexes_[index].columns.empty(); }
  /* Adds to `columns` all columns that the entries of an index depend on through its virtual columns. */
  void add_dependencies(uint index, MY_BITMAP *columns) const;
  /* The stored columns among them. */
  const std::vector<const Field *> &sources(uint index) const { return indexes_[index].sources; }
  /*
    Adds to `columns` what the virtual ones among them are computed from, virtual ones included. The server
    computes after each read without keyread, and may have taken those away: a sort of entries ends with reads
    of rows, for which it asks for the index's columns alone.
  */
  void add_sources(MY_BITMAP *columns) const;

  /* In each statement, before values are asked for. false: they cannot be computed; *why is the reason. */
  bool prepare(THD *thd, std::string *why);
  /* Why entries of an index are not what the session would compute; nullptr: they are. `opened`: the settings
     of the session that opened the table: some stay in the server's expressions from then on. */
  const char *difference(uint index, THD *thd, const ExpressionSettings &opened) const;
  /* One text for each virtual column of an index: its name, expression and collations under the settings of
     the index. Empty: they cannot be told, here or before prepare(). */
  std::vector<std::string> expressions(uint index) const;

  /* The row with the virtual columns of an index, whose stored columns are in `record`: a buffer of the
     record's layout. Valid until the next call. Errors of the expressions are ignored: the column is then
     what the server would make of it while reading. */
  const uchar *row_with(uint index, const uchar *record);
  /* Puts these virtual columns into `record`. The memory of BLOB values lives until the next call with the
     same column. */
  void complete(uint index, uchar *record);
  /* Takes the bytes of the virtual BLOB columns in `columns`, which `record` points to, into memory of ours:
     until the next call, or complete() of the column. */
  void keep_blobs(const MY_BITMAP *columns, uchar *record);

 private:
  /* The indexes with the same settings. */
  struct Group;
  struct Index {
    std::vector<uint> columns; /* numbers of fields, in the order in which they depend on each other */
    std::vector<my_bitmap_map> dependencies;
    std::vector<const Field *> sources;
    uint32_t needs = 0; /* bits of ExpressionNeed */
    size_t group = 0;
    bool is_stale = false;
  };

  void compile_index(uint number, const IndexRecord &known);
  void compile_sources();
  void keep_blob(uint column, const uchar *row, uchar *record);
  bool open(THD *thd, Group *group);

  TABLE *table_ = nullptr;
  std::vector<Index> indexes_; /* by key number */
  std::vector<std::unique_ptr<Group>> groups_;
  /* What a virtual column, of an index or not, is computed from. */
  struct Sources {
    uint column;
    std::vector<my_bitmap_map> columns;
  };
  std::vector<Sources> sources_;
  std::vector<ByteBuffer> blobs_; /* by number of the field: what complete() has put into records */
};

/* Whether an index has virtual columns. */
bool has_virtual_part(const TABLE *table, const KEY &key);

}  // namespace tidesdb
#endif
