/*
  Filling the indexes that an ALTER adds: one pass over the rows, each index's entries sorted
  (ddl/entry_sort.h) and written in their order, in chunks.

  The families are made under the name of the server's intermediate table (`#sql-alter-...`), which the
  server's log of definitions drops after a crash; the ALTER's commit gives them their names. Writers are kept
  out meanwhile, by the server and by the table's lock in the engine.
*/
#ifndef TIDESDB_DDL_INDEX_BUILD_H
#define TIDESDB_DDL_INDEX_BUILD_H

#include <memory>
#include <string>
#include <vector>

#include "ddl/alter_plan.h"
#include "ddl/entry_sort.h"
#include "key/key_codec.h"
#include "row/row_codec.h"
#include "store/handles.h"

namespace tidesdb {

class IndexBuild {
 public:
  /* `shadow`: canonical name of the intermediate table. */
  IndexBuild(THD *thd, TABLE *altered, tidesdb_family *rows, const AlterPlan &plan, std::string shadow)
      : thd_(thd), altered_(altered), rows_(rows), plan_(plan), shadow_(std::move(shadow)) {}
  ~IndexBuild();

  /* HA_ERR_*, or 0; the client may have been told more. */
  int run(const HA_CREATE_INFO *info);

 private:
  int make_codecs();
  int make_families(const HA_CREATE_INFO *info);
  int read_rows();
  int write_entries(size_t index);
  int duplicate(size_t index, Slice key, Slice value);
  bool killed() const;
  int fail(int status) const;

  THD *thd_;
  TABLE *altered_;
  tidesdb_family *rows_;
  const AlterPlan &plan_;
  const std::string shadow_;
  TxnHandle snapshot_;
  bool reading_ = false;
  std::unique_ptr<KeyCodec> primary_codec_;
  std::unique_ptr<RowCodec> row_codec_;
  std::unique_ptr<RowReader> reader_;
  std::vector<std::unique_ptr<KeyCodec>> codecs_; /* by place in plan.added */
  std::vector<std::unique_ptr<EntrySort>> sorts_;
};

}  // namespace tidesdb
#endif
