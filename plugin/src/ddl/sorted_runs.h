/*
  Runs of entries in the order of their keys, in temporary files: merged when they are many, and when they are
  read. Entries with equal keys come in the order of their runs.

  The files have no name (they are deleted as soon as they are made), so that nothing is left of them
  whatever happens to the server.
*/
#ifndef TIDESDB_DDL_SORTED_RUNS_H
#define TIDESDB_DDL_SORTED_RUNS_H

#include <functional>
#include <memory>
#include <vector>

#include "key/bytes.h"
#include "tidesdb.h"

namespace tidesdb {

/* Bytes that a sort has told the store of (tidesdb_count_sort_memory()), which must outlive this. */
class CountedMemory {
 public:
  explicit CountedMemory(tidesdb_db *db) : db_(db) {}
  ~CountedMemory() { hold(0); }
  CountedMemory(const CountedMemory &) = delete;
  CountedMemory &operator=(const CountedMemory &) = delete;

  size_t held() const { return held_; }
  void hold(size_t bytes) {
    tidesdb_count_sort_memory(db_, static_cast<int64_t>(bytes) - static_cast<int64_t>(held_));
    held_ = bytes;
  }

 private:
  tidesdb_db *const db_;
  size_t held_ = 0;
};

class SortedRuns {
 public:
  /* `memory`: the sort's; a merge takes 128 KB more for each run. `killed`: asked while runs are merged,
     which takes minutes where they are large. */
  SortedRuns(CountedMemory *memory, std::function<bool()> killed);
  ~SortedRuns();
  SortedRuns(const SortedRuns &) = delete;
  SortedRuns &operator=(const SortedRuns &) = delete;

  bool empty() const { return runs_.empty(); }

  /* All return false where memory or a temporary file failed, and the client has been told; or the statement
     is killed. */

  /* A new run, and its entries, in the order of their keys. */
  bool begin_run();
  bool write(Slice key, Slice value);
  bool end_run();
  /* After the last run. */
  bool begin_reading();
  /* *found: whether there is another; it lives until the next call. */
  bool next(Slice *key, Slice *value, bool *found);

 private:
  struct Run;
  class Merge;

  bool merge_last(size_t count);

  CountedMemory *const memory_;
  const std::function<bool()> killed_;
  std::vector<std::unique_ptr<Run>> runs_;
  std::unique_ptr<Merge> merge_;
};

}  // namespace tidesdb
#endif
