/*
  Filling the indexes that an ALTER adds: one pass over the rows, each index's entries sorted and written in
  their order (ddl/entry_load.h).

  The families are made under the name of the server's intermediate table (`#sql-alter-...`), which the
  server's log of definitions drops after a crash; the ALTER's commit gives them their names.

  Writers either are kept out meanwhile, by the server and by the table's lock in the engine, or go on and
  say which rows they change (ddl/row_log.h). Then apply_row_log() brings the entries of these rows from the
  snapshot of the build to a newer one, which is the build's from then on. It runs some times alongside the
  writers, so that little is left, and a last time without them.
*/
#ifndef TIDESDB_DDL_INDEX_BUILD_H
#define TIDESDB_DDL_INDEX_BUILD_H

#include <memory>
#include <string>
#include <vector>

#include "ddl/alter_plan.h"
#include "ddl/entry_load.h"
#include "ddl/row_log.h"
#include "key/key_codec.h"
#include "row/row_codec.h"
#include "row/virtual_columns.h"
#include "store/handles.h"

namespace tidesdb {

class IndexBuild {
 public:
  /* `shadow`: canonical name of the intermediate table. */
  IndexBuild(THD *thd, TABLE *altered, tidesdb_family *rows, const AlterPlan &plan, std::string shadow)
      : thd_(thd), altered_(altered), rows_(rows), plan_(plan), shadow_(std::move(shadow)) {}
  ~IndexBuild() { close_log(); }

  /* All return HA_ERR_*, or 0; the client may have been told more. */

  /* Makes the families. `log`: the table's, to be opened for its writers; nullptr: there are none. Nobody
     else uses the table now. */
  int prepare(const HA_CREATE_INFO *info, RowLog *log);
  /* Fills the indexes. */
  int run();
  /* After run(); once more when nobody changes rows any more. */
  int apply_row_log();
  bool has_log() const { return log_ != nullptr; }
  /* Writers go on without: before the families are dropped. */
  void close_log() {
    if (log_) log_->close();
    log_ = nullptr;
  }

 private:
  /* A snapshot of the table. */
  class View {
   public:
    ~View() {
      if (open_) tidesdb_txn_rollback(txn_.get());
    }
    int open();
    tidesdb_txn *txn() const { return txn_.get(); }

   private:
    TxnHandle txn_;
    bool open_ = false;
  };
  class Follower;

  /* Rows, or entries, between two looks at KILL. */
  static constexpr ulonglong ROWS_BETWEEN_LOOKS = 1024;

  int make_kinds();
  int make_families(const HA_CREATE_INFO *info, bool with_log);
  int choose_columns();
  int read_rows();
  /* altered_'s record with the virtual columns of the index at this place of plan_.added. */
  const uchar *record_for(size_t place);
  /* Sets `entries` to those of altered_'s record, which holds this row, in the index at this place of
     plan_.added. */
  void make_entries(size_t place, Slice primary_key, EntrySet *entries);
  int write_entries(size_t index, Ingest *tables);
  int apply_row_log(ulonglong *changes);
  int duplicate(size_t index, Slice key, Slice value);
  bool killed() const;
  int fail(int status) const;
  /* Of a row that read() refused; tells the client where its layout is unknown. */
  int undecodable_row(Slice value) const;

  THD *thd_;
  TABLE *altered_;
  tidesdb_family *rows_;
  const AlterPlan &plan_;
  const std::string shadow_;
  RowLog *log_ = nullptr;
  std::unique_ptr<View> view_;
  std::unique_ptr<KeyCodec> primary_codec_;
  std::unique_ptr<RowCodec> row_codec_;
  std::unique_ptr<RowReader> reader_;
  bool first_parts_ = false; /* of rows in two parts the first is enough */
  VirtualColumns virtual_columns_;
  std::vector<std::unique_ptr<IndexKind>> kinds_; /* by place in plan.added */
  std::vector<std::unique_ptr<EntryLoad>> loads_; /* as many */
};

}  // namespace tidesdb
#endif
